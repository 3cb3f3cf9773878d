//! A worker that is stopped past its lease, and comes back when another has taken its place.

use std::time::Duration;

use rustix::process::Signal;

use super::play::Play;
use super::{Instants, PATIENCE, Tally, blows, campaign, postgres};
use crate::support::processes::signal;
use crate::support::reached;

/// The second has had its chance; what it still waits for is in the first one's hands.
const STUCK: Duration = Duration::from_secs(20);

/// The exit code for a database that is locked or cannot be reached.
const DATABASE: i32 = 7;

fn paused(play: &Play, instants: &mut Instants, tally: &mut Tally) {
    let at = instants.next();
    let mut first = play.start();
    if reached(at, || first.has_ended()) {
        tally.late += 1;
        first.wait(PATIENCE).ends_with(0);
        return;
    }
    signal(first.pid(), Signal::STOP);
    tally.blows += 1;
    let mut second = play.start();
    if instants.one_in(2) {
        // Both at once: the first comes back as soon as its place is taken.
        reached(STUCK, || second.has_ended() || play.count("lease_lost") > 0);
    } else {
        reached(STUCK, || second.has_ended());
    }
    signal(first.pid(), Signal::CONT);
    // Each ends by itself: with the ticket done by either of them, or because the database kept it
    // waiting too long, in the other's hands or over the pause.
    let (first, second) = (first.wait(PATIENCE), second.wait(PATIENCE));
    for ran in [&first, &second] {
        assert!([0, DATABASE].contains(&ran.code), "{ran:?}");
        tally.locked += u32::from(ran.code == DATABASE);
    }
    if first.code + second.code == 2 * DATABASE {
        play.run_to_the_end().ends_with(0);
    }
    tally.taken_over += play.count("lease_lost");
    tally.refused += play.count("refused");
}

#[test]
fn a_worker_paused_past_its_lease_changes_nothing_when_it_comes_back() {
    let count = blows("COUNTERSIGN_PAUSES", 2);
    campaign("pause", count, None, paused);
}

#[test]
fn a_worker_paused_past_its_lease_changes_nothing_when_it_comes_back_on_postgresql() {
    if let Some(server) = postgres() {
        let count = blows("COUNTERSIGN_PAUSES", 1);
        campaign("pause", count, Some(&server), paused);
    }
}
