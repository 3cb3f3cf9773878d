//! The same for an epic in the landing queue: four tickets side by side, one on top of another, and
//! two that cannot both land as they are; killed anywhere, all of them land, once each.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::{Instants, Marker, PATIENCE, blows, postgres};
use crate::support::crew::{always, approves, crew, runs, verifies};
use crate::support::processes::{marked, signal, signal_group};
use crate::support::{Running, World, reached, say};

const TICKETS: [&str; 4] = ["low", "high", "left", "right"];
/// `SEED` makes the names this epic's own: one server keeps many of them.
const EPIC: &str = "id: Q-SEED
gate: none
tickets:
  - {id: low-SEED, title: low}
  - {id: high-SEED, title: high, depends_on: [low-SEED]}
  - {id: left-SEED, title: left}
  - {id: right-SEED, title: right}
";
const SETTINGS: &str = "[checks]
test = \"test ! -e shared || test -s shared\"
[policy]
land = \"queue\"
[policy.limits]
lease_secs = 2
backoff_secs = 0
";
/// `left` and `right` write the same file; the one that is sent back gives way.
const BUILD: &str = r#"echo "$COUNTERSIGN_TICKET" > "$COUNTERSIGN_TICKET.txt"
case $COUNTERSIGN_TICKET in left-*|right-*)
  git show main:shared > shared 2>/dev/null || echo "$COUNTERSIGN_TICKET" > shared;;
esac"#;

struct Epic {
    world: World,
    seed: String,
}

impl Epic {
    fn new(database: Option<&String>, seed: u64) -> Self {
        let mut world = World::with_settings(SETTINGS);
        world.database = database.cloned();
        let seed = format!("{seed:x}");
        world.put("epic.yaml", EPIC.replace("SEED", &seed));
        world.crew(&crew(
            &always(json!([runs(BUILD), {"result": {"summary": "Done."}}])),
            &always(approves()),
            &always(verifies(&[])),
        ));
        Self { world, seed }
    }

    fn start(&self) -> Running {
        let at = |name: &str| self.world.root().join(name).display().to_string();
        let agent = format!("scripted:{}", at("crew.json"));
        let (file, jobs) = (at("epic.yaml"), "4");
        self.world.start(&[
            "run",
            &file,
            "--builder",
            &agent,
            "--reviewer",
            &agent,
            "--jobs",
            jobs,
        ])
    }

    #[track_caller]
    fn must_have_ended_well(&self) {
        let world = &self.world;
        for name in TICKETS {
            let id = format!("{name}-{}", self.seed);
            let story = || world.call(&["log", &id]).out;
            assert_eq!(world.stage(&id), "done", "{}", story());
            assert_eq!(world.count(&id, "landed"), 1, "{}", story());
        }
        let merges = world.git(&["rev-list", "--merges", "--first-parent", "--count", "main"]);
        assert_eq!(merges, "4", "each landed once");
        assert_eq!(world.git(&["status", "--porcelain"]), "");
        assert_eq!(marked(&world.root()), Vec::<String>::new());
        world.must_be_sound();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the time that another process really takes"
)]
fn duration(database: Option<&String>) -> Duration {
    let epic = Epic::new(database, Instants::seed() ^ u64::MAX);
    let began = Instant::now();
    epic.start().wait(PATIENCE).ends_with(0);
    let took = began.elapsed();
    epic.must_have_ended_well();
    took
}

#[test]
fn an_epic_in_the_queue_killed_at_any_instant_lands_each_ticket_once() {
    campaign(blows("COUNTERSIGN_KILLS", 4), None);
}

#[test]
fn an_epic_in_the_queue_killed_at_any_instant_lands_each_ticket_once_on_postgresql() {
    if let Some(server) = postgres() {
        campaign(blows("COUNTERSIGN_KILLS", 1), Some(&server));
    }
}

fn campaign(count: u32, database: Option<&String>) {
    const BLOWS_MAX: u64 = 3;
    let (seed, whole) = (Instants::seed(), duration(database));
    say(&format!(
        "queue: {count} instants, seed {seed} (COUNTERSIGN_SEED), undisturbed {} ms",
        whole.as_millis()
    ));
    let (mut struck, mut trials) = (0, 0);
    for number in 0..3 * count {
        if struck >= count {
            break;
        }
        let mut instants = Instants::new(seed.wrapping_add(u64::from(number)), whole);
        let (what, marked_seed) = ("queue", instants.seed);
        let marker = Marker {
            what,
            seed: marked_seed,
        };
        let epic = Epic::new(database, marked_seed);
        for _ in 0..=instants.number() % BLOWS_MAX {
            let at = instants.next();
            let mut running = epic.start();
            if reached(at, || running.has_ended()) {
                break;
            }
            if instants.one_in(3) {
                signal_group(running.pid(), Signal::KILL);
            } else {
                signal(running.pid(), Signal::KILL);
            }
            if running.wait(PATIENCE).code == 137 {
                struck += 1;
            }
        }
        epic.start().wait(PATIENCE).ends_with(0);
        epic.must_have_ended_well();
        marker.fine();
        trials += 1;
    }
    assert!(struck >= count, "too few instants fell into the story");
    say(&format!(
        "queue: {struck} kills in {trials} epics, always the same end"
    ));
}
