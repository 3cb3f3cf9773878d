//! The power goes out at a random instant of the story. Repository, data directory and all are on a
//! small disk of their own, which loses whatever the kernel had not written. After the new start the
//! person's repository is whole, and the next `run` brings the story to the same end by itself.

use rustix::process::Signal;

use super::play::{self, Play};
use super::{Instants, Marker, PATIENCE, blows};
use crate::support::processes::{below, marked, signal, signal_group};
use crate::support::{Disk, Running, reached, say};

/// How the file system orders what it writes: the usual way, and the way that promises least.
const OPTIONS: [&str; 2] = ["loop", "loop,data=writeback"];

#[derive(Debug, Default)]
struct Outcome {
    cuts: u32,
    /// Ended before the cut, with exit code 0.
    acknowledged: u32,
    /// Of these, not there any more.
    lost: u32,
    broken_repositories: u32,
    need_a_person: u32,
}

#[test]
fn a_story_whose_power_is_cut_at_any_instant_has_the_same_end() {
    let count = blows("COUNTERSIGN_CUTS", 2);
    let (seed, whole) = (Instants::seed(), play::duration(None));
    say(&format!(
        "power: {count} cuts, seed {seed} (COUNTERSIGN_SEED)"
    ));
    let mut outcome = Outcome::default();
    for number in 0..count {
        let mut instants = Instants::new(seed.wrapping_add(u64::from(number)), whole);
        let marker = Marker {
            what: "power",
            seed: instants.seed,
        };
        let dir = tempfile::tempdir().unwrap();
        let options = OPTIONS[usize::from(instants.one_in(3))];
        let Some(disk) = Disk::new(dir.path(), options) else {
            assert_eq!(outcome.cuts, 0, "the disk was there before");
            marker.fine();
            return;
        };
        one_cut(&disk, &mut instants, &mut outcome);
        marker.fine();
        if outcome.cuts % 25 == 0 {
            say(&format!("power: {outcome:?}"));
        }
    }
    say(&format!("power: {outcome:?}"));
    let bad = outcome.lost + outcome.broken_repositories + outcome.need_a_person;
    assert_eq!(bad, 0, "{outcome:?}");
}

fn one_cut(disk: &Disk, instants: &mut Instants, outcome: &mut Outcome) {
    let play = Play::within(&disk.path, instants.seed);
    disk.sync();
    let mut running = play.start();
    let done = reached(instants.next(), || running.has_ended());
    disk.cut();
    outcome.cuts += 1;
    outcome.acknowledged += u32::from(done);
    end_all(running, &play);
    disk.start_again();
    let world = &play.world;
    let fsck = world
        .start_program("git", &["fsck", "--full", "--strict", "--no-dangling"])
        .wait(PATIENCE);
    if fsck.code != 0 {
        outcome.broken_repositories += 1;
        say(&format!(
            "power: seed {}: git fsck: {}{}",
            instants.seed, fsck.out, fsck.err
        ));
    }
    if done && play.count("landed") != 1 {
        outcome.lost += 1;
    }
    let ran = play.run_to_the_end();
    if ran.code == 0 {
        play.must_have_ended_well();
    } else {
        outcome.need_a_person += 1;
        say(&format!(
            "power: seed {}: exit {}\n{}{}",
            instants.seed, ran.code, ran.out, ran.err
        ));
    }
}

/// A machine without power has no processes either.
fn end_all(running: Running, play: &Play) {
    let started = below(running.pid());
    signal_group(running.pid(), Signal::KILL);
    for pid in started {
        signal(pid, Signal::KILL);
    }
    drop(running);
    for line in marked(&play.world.root()) {
        let pid = line.split(':').next().and_then(|pid| pid.parse().ok());
        signal(pid.unwrap(), Signal::KILL);
    }
}
