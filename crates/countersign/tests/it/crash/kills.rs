//! `kill -9`, of the program alone or of its whole group, once or several times.

use rustix::process::Signal;

use super::play::Play;
use super::{Instants, PATIENCE, Tally, blows, campaign, postgres};
use crate::support::processes::{below, signal, signal_group};
use crate::support::reached;

/// A story that is killed more often than jobs are tried again ends with a person, rightly.
const BLOWS_MAX: u64 = 3;

fn killed(play: &Play, instants: &mut Instants, tally: &mut Tally) {
    let most = 1 + instants.number() % BLOWS_MAX;
    let mut paid = Vec::new();
    for _ in 0..most {
        let at = instants.next();
        let mut running = play.start();
        if reached(at, || running.has_ended()) {
            tally.late += 1;
            running.wait(PATIENCE).ends_with(0);
            break;
        }
        if instants.one_in(3) {
            signal_group(running.pid(), Signal::KILL);
        } else {
            signal(running.pid(), Signal::KILL);
        }
        let ran = running.wait(PATIENCE);
        if ran.code == 0 {
            // It came to its end in this very instant.
            tally.late += 1;
            break;
        }
        ran.ends_with(137);
        tally.blows += 1;
        paid.push((play.recorded(), play.begun()));
    }
    play.run_to_the_end().ends_with(0);
    tally.taken_over += play.count("lease_lost");
    let begun = play.begun();
    for (recorded, before) in paid {
        for serial in recorded {
            assert_eq!(
                before.get(&serial),
                begun.get(&serial),
                "job {serial} had ended, and was paid for again"
            );
        }
    }
}

/// Kills a child of the program: git, an agent's keeper, an agent, a check.
fn child_killed(play: &Play, instants: &mut Instants, tally: &mut Tally) {
    let at = instants.next();
    let mut running = play.start();
    if reached(at, || running.has_ended()) {
        tally.late += 1;
        running.wait(PATIENCE).ends_with(0);
        return;
    }
    let children = below(running.pid());
    let Ok(count) = u64::try_from(children.len()) else {
        return;
    };
    if let Some(which) = instants.number().checked_rem(count) {
        signal(children[usize::try_from(which).unwrap()], Signal::KILL);
        tally.blows += 1;
    }
    // A step that fails is tried again; where the program itself cannot go on, it says so.
    let ran = running.wait(PATIENCE);
    if ran.code != 0 {
        tally.gave_up += 1;
        let again = play.run_to_the_end();
        let first = format!("{}\n{}", ran.out, ran.err);
        assert_eq!(
            again.code, 0,
            "after\n{first}\n{}\n{}",
            again.out, again.err
        );
    }
}

#[test]
fn a_story_whose_children_are_killed_has_the_same_end() {
    let count = blows("COUNTERSIGN_KILLS", 4);
    campaign("kill a child", count, None, child_killed);
}

#[test]
fn a_story_killed_at_any_instant_has_the_same_end() {
    let count = blows("COUNTERSIGN_KILLS", 6);
    campaign("kill", count, None, killed);
}

#[test]
fn a_story_killed_at_any_instant_has_the_same_end_on_postgresql() {
    if let Some(server) = postgres() {
        let count = blows("COUNTERSIGN_KILLS", 2);
        campaign("kill", count, Some(&server), killed);
    }
}
