//! `kill -9` between the steps of a pull request: three rounds with findings on lines, a person's
//! comment, and the merge. The forge chooses the instant: it answers a request never, before or after
//! it was carried out.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{PATIENCE, Tally, blows};
use crate::crash::instants::Instants;
use crate::support::crew::{
    GOOD, HASTY, approves, builds, crew, empty_name, rejects, rounds, verifies,
};
use crate::support::github::Github;
use crate::support::processes::signal_group;
use crate::support::{TICKET, World, reached, say};

/// Blows of one story. Jobs that are killed more often end with a person, rightly.
const BLOWS_MAX: u64 = 3;
/// Requests among which one is chosen. A look has up to twenty.
const REQUESTS: u64 = 45;
/// Most starts of one story.
const STARTS_MAX: u32 = 12;

fn script() -> Value {
    crew(
        &rounds([
            builds("greet.sh", HASTY),
            builds("greet.sh", &format!("{HASTY}# again\n")),
            builds("greet.sh", GOOD),
            builds("greet.sh", &format!("{GOOD}# quoted\n")),
        ]),
        &rounds([
            rejects([empty_name("high")]),
            rejects([empty_name("high")]),
            approves(),
            approves(),
        ]),
        &json!({"rounds": [
            verifies(&[]),
            verifies(&[("F1", "confirmed")]),
            verifies(&[("F1", "fixed")]),
            verifies(&[("F2", "fixed")]),
        ]}),
    )
}

/// Plays the story to its end, and returns what exists on the forge then.
fn play(mut instants: Option<&mut Instants>, tally: &mut Tally) -> String {
    let world = World::new();
    let github = Github::of(&world, "[policy]\nmax_rounds = 5\nprove_base = false");
    let agent = world.crew(&script());
    let ticket = world.put("greet.md", TICKET);
    let words = [
        "run",
        &ticket,
        "--builder",
        &agent,
        "--reviewer",
        &agent,
        "--verifier",
        &agent,
        "--land",
        "pr",
    ];
    let (mut commented, mut left) = (false, BLOWS_MAX);
    for _ in 0..STARTS_MAX {
        if let Some(instants) = instants.as_deref_mut().filter(|_| left > 0) {
            let mut state = github.lock();
            let at = state.requests + 1 + usize::try_from(instants.number() % REQUESTS).unwrap();
            state.stop_at = Some((at, instants.one_in(2)));
        }
        let mut running = world.start(&words);
        let is_over = || github.lock().stopped || running.has_ended();
        assert!(reached(PATIENCE, is_over), "the run hangs");
        let stopped = std::mem::take(&mut github.lock().stopped);
        github.lock().stop_at = None;
        if stopped {
            signal_group(running.pid(), Signal::KILL);
            running.wait(PATIENCE);
            tally.blows += 1;
            left -= 1;
            continue;
        }
        let ran = running.wait(PATIENCE);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        left = left.saturating_sub(1);
        match world.stage("greet").as_str() {
            "done" => break,
            "approved" if commented => github.merge(),
            "approved" => {
                github.review(
                    "ada",
                    "CHANGES_REQUESTED",
                    ("greet.sh", 2, "Say that it is quoted."),
                );
                commented = true;
            }
            stage => panic!(
                "the run ended while the ticket was {stage}: {}{}",
                ran.out, ran.err
            ),
        }
    }
    assert_eq!(world.stage("greet"), "done");
    assert_eq!(world.count("greet", "findings_added"), 1);
    world.must_be_sound();
    assert_eq!(github.lock().refused, [""; 0]);
    github.summary()
}

#[test]
fn a_pull_request_killed_at_any_request_is_written_once() {
    let count = blows("COUNTERSIGN_FORGE_KILLS", 3);
    let mut tally = Tally::default();
    let seed = Instants::seed();
    say(&format!(
        "forge: {count} blows, seed {seed} (COUNTERSIGN_SEED)"
    ));
    let undisturbed = play(None, &mut tally);
    assert!(
        undisturbed.starts_with("pull \"closed\" merged true\nsummaries 1\n"),
        "{undisturbed}"
    );
    for number in 0..20 + 2 * count {
        if tally.blows >= count {
            break;
        }
        let seed = seed.wrapping_add(u64::from(number));
        let mut instants = Instants::new(seed, std::time::Duration::ZERO);
        let end = play(Some(&mut instants), &mut tally);
        assert_eq!(end, undisturbed, "again with COUNTERSIGN_SEED={seed}");
        tally.trials += 1;
    }
    assert!(tally.blows >= count, "too few requests were reached");
    say(&format!(
        "forge: always the same end: {tally:?}\n{undisturbed}"
    ));
}
