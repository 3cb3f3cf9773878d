//! Several `run` at once in one clone, whose base branch is checked out: every change lands once,
//! and the person's work tree and index stay clean. The long campaign is the same test with other
//! numbers: `scripts/campaign landing 30`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use super::{PATIENCE, blows};
use crate::support::crew::{always, approves, crew, runs, verifies};
use crate::support::{Running, World, reached, say, until};

const SETTINGS: &str = "[checks]
test = \"test -s README.md\"
[policy.limits]
backoff_secs = 0
";
const BUILD: &str = r#"echo "$COUNTERSIGN_TICKET" > "$COUNTERSIGN_TICKET.txt""#;

struct Beside {
    world: World,
    agent: String,
}

impl Beside {
    fn new() -> Self {
        let world = World::with_settings(SETTINGS);
        let agent = world.crew(&crew(
            &always(json!([runs(BUILD), {"result": {"summary": "Done."}}])),
            &always(approves()),
            &always(verifies(&[])),
        ));
        Self { world, agent }
    }

    fn start(&self, id: &str) -> Running {
        let text = format!("---\nid: {id}\n---\n# Add {id}.txt\nOne line.\n");
        let ticket = self.world.put(&format!("{id}.md"), text);
        let words = ["--builder", &self.agent, "--reviewer", &self.agent];
        self.world
            .start(&[&["run", ticket.as_str()], &words[..]].concat())
    }

    /// Starts all at once, and waits for all; what escalated or failed, with its words.
    fn land(&self, ids: &[String]) -> Vec<String> {
        let started: Vec<Running> = ids.iter().map(|id| self.start(id)).collect();
        let ended = ids.iter().zip(started);
        let ended = ended.map(|(id, running)| (id, running.wait(PATIENCE * 5)));
        let failed = ended.filter(|(_, ran)| ran.code != 0);
        failed
            .map(|(id, ran)| format!("{id}: exit {}\n{}{}", ran.code, ran.out, ran.err))
            .collect()
    }

    #[track_caller]
    fn must_be_clean(&self, ids: &[String]) {
        let world = &self.world;
        assert_eq!(world.git(&["status", "--porcelain"]), "", "the work tree");
        for id in ids {
            let name = format!("{id}.txt");
            let range = ["rev-list", "--count", "--no-merges", "main", "--", &name];
            assert_eq!(world.git(&range), "1", "{id} is on main once");
            assert_eq!(world.git(&["show", &format!("main:{name}")]), *id);
        }
        let merges = world.git(&["rev-list", "--merges", "--first-parent", "--count", "main"]);
        assert_eq!(merges, ids.len().to_string(), "each landed once");
        let trees = world.git(&["worktree", "list", "--porcelain"]);
        let trees = trees.lines().filter(|line| line.starts_with("worktree "));
        assert_eq!(trees.count(), 1, "no worktree of a landed ticket is left");
        let left = world.repository.join(".git/index.lock");
        assert!(!left.exists(), "no lock is left behind");
        world.must_be_sound();
    }
}

#[test]
fn ten_runs_at_once_all_land_and_leave_a_clean_tree() {
    let count = blows("COUNTERSIGN_LANDINGS", 10);
    let beside = Beside::new();
    let ids = names(count);
    assert_eq!(beside.land(&ids), Vec::<String>::new(), "of {count}");
    beside.must_be_clean(&ids);
    say(&format!(
        "landings beside each other: {count} of {count} landed, clean tree"
    ));
}

/// A prompt that asks for the status all the time locks the index for an instant each time; `gc`
/// moves objects and refs about.
#[test]
fn runs_at_once_land_beside_git_status_and_git_gc() {
    let count = blows("COUNTERSIGN_LANDINGS", 3);
    let beside = Beside::new();
    let ids = names(count);
    let over = AtomicBool::new(false);
    let failed = std::thread::scope(|scope| {
        for words in [&["status", "--porcelain"][..], &["gc", "--quiet"]] {
            let (world, over) = (&beside.world, &over);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    // Whether git succeeds is its own affair: another `gc` may be at work.
                    world.start_program("git", words).wait(PATIENCE);
                }
            });
        }
        let failed = beside.land(&ids);
        over.store(true, Ordering::Relaxed);
        failed
    });
    assert_eq!(failed, Vec::<String>::new(), "of {count}");
    beside.must_be_clean(&ids);
    say(&format!(
        "landings beside `git status` and `git gc`: {count} of {count} landed, clean tree"
    ));
}

#[test]
fn a_person_who_commits_all_the_time_loses_nothing_and_holds_nothing_up() {
    let beside = Beside::new();
    let world = &beside.world;
    let running = beside.start("t1");
    until("the builder has submitted", || {
        world.count("t1", "submitted") > 0
    });
    let mut running = Some(running);
    let (mut commits, mut refused, mut ended) = (0_u32, 0_u32, None);
    let line = "git add person.txt && git -c user.name=P -c user.email=p@localhost commit --quiet --message mine";
    let mut waits = false;
    while commits < COMMITS_MAX {
        world.write("person.txt", &format!("{commits}\n"));
        waits = world.shell("sh", line).code != 0;
        if waits {
            // Two who want the index in one instant: git says so, and is asked again.
            refused += 1;
        } else {
            commits += 1;
        }
        let over = || running.as_mut().is_some_and(Running::has_ended);
        if reached(BETWEEN_COMMITS, over) {
            ended = running.take().map(|running| running.wait(PATIENCE));
            break;
        }
    }
    let ended = ended.unwrap_or_else(|| running.take().unwrap().wait(PATIENCE));
    ended.ends_with(0);
    if waits {
        world.shell("sh", line).ends_with(0);
        commits += 1;
    }
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    let theirs = world.git(&["rev-list", "--count", "--grep=^mine$", "main"]);
    assert_eq!(theirs, commits.to_string(), "no commit is lost");
    assert_eq!(world.git(&["show", "main:t1.txt"]), "t1");
    world.must_be_sound();
    say(&format!(
        "landing beside a person: {commits} commits kept, {refused} asked again, landed, clean tree"
    ));
}

fn names(count: u32) -> Vec<String> {
    (1..=count).map(|number| format!("t{number}")).collect()
}

const BETWEEN_COMMITS: Duration = Duration::from_millis(150);
/// A person tires at last.
const COMMITS_MAX: u32 = 40;
