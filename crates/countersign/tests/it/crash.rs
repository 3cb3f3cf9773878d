//! One story, killed or paused at random instants, and always the same end.
//!
//! A few trials run with the other tests. The long campaigns are the same tests with other
//! numbers: `scripts/campaign kill 200`, `scripts/campaign pause 50`, each with `postgres` after
//! it for the other database; `scripts/campaign landing 30`, `scripts/campaign power 100`.

mod instants;
mod kills;
mod landings;
mod pauses;
mod play;
mod power;
mod pull_requests;
mod queue;

use std::time::Duration;

use crate::support::{say, skip, told};
use instants::Instants;
use play::Play;

/// How many blows; the long campaigns say it from outside.
fn blows(variable: &str, few: u32) -> u32 {
    let text = told(variable).map(|text| text.into_string().unwrap());
    text.map_or(few, |text| text.parse().unwrap())
}

/// The server to try; says so where there is none.
fn postgres() -> Option<String> {
    let server = told("COUNTERSIGN_TEST_POSTGRES");
    if server.is_none() {
        skip::lacks("COUNTERSIGN_TEST_POSTGRES names no server");
    }
    Some(server?.into_string().unwrap())
}

/// Counts of a campaign, for its last line.
#[derive(Debug, Default)]
struct Tally {
    trials: u32,
    blows: u32,
    /// Came after the story's end.
    late: u32,
    /// Another worker took a job over, or took it up again.
    taken_over: usize,
    /// A late report found a closed door.
    refused: usize,
    /// Ended because the database kept it waiting too long.
    locked: u32,
    /// Ended because a step of its own could not be done, and had to be started again.
    gave_up: u32,
}

fn campaign(
    what: &str,
    count: u32,
    database: Option<&String>,
    trial: impl Fn(&Play, &mut Instants, &mut Tally),
) {
    let mut tally = Tally::default();
    let seed = Instants::seed();
    let undisturbed = play::duration(database);
    say(&format!(
        "{what}: {count} instants on {}, seed {seed} (COUNTERSIGN_SEED), undisturbed {} ms",
        if database.is_some() {
            "PostgreSQL"
        } else {
            "SQLite"
        },
        undisturbed.as_millis()
    ));
    // An instant may fall behind the end of a story that was quick, or find nobody to hit; then it is
    // tried once more.
    for number in 0..20 + 10 * count {
        if tally.blows >= count {
            break;
        }
        let mut instants = Instants::new(seed.wrapping_add(u64::from(number)), undisturbed);
        let play = Play::new(database, instants.seed);
        let marker = Marker {
            what,
            seed: instants.seed,
        };
        trial(&play, &mut instants, &mut tally);
        play.must_have_ended_well();
        marker.fine();
        tally.trials += 1;
        if tally.trials % 25 == 0 {
            say(&format!("{what}: {tally:?}"));
        }
    }
    assert!(tally.blows >= count, "too few instants fell into the story");
    say(&format!("{what}: always the same end: {tally:?}"));
}

/// Says which seed it was, where a trial does not come to its end.
struct Marker<'a> {
    what: &'a str,
    seed: u64,
}

impl Marker<'_> {
    fn fine(self) {
        std::mem::forget(self);
    }
}

impl Drop for Marker<'_> {
    fn drop(&mut self) {
        say(&format!(
            "{}: again with COUNTERSIGN_SEED={}",
            self.what, self.seed
        ));
    }
}

/// Longer than any story takes on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(180);
