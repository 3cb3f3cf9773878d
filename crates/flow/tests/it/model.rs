//! An exhaustive search of a small model around the real `advance`: every order in which three
//! workers, two tickets, crashes, pauses, lost answers, duplicates and a person can interfere. Five
//! bugs of the code around it are switched on in turn; each must be found.

mod decision_cache;
mod rules;
mod world;

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::fmt::Write as _;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::time::Instant;

use flow::Stage;

use decision_cache::DecisionCache;
use rules::Rules;
use world::{Bug, Fate, ModelAction, Pending, TICKETS, Violation, World};

/// One model to search: the dependencies of the tickets, and the faults that may occur.
#[derive(Clone, Copy, Debug)]
struct Plan {
    depends: bool,
    fate: Fate,
    bug: Option<Bug>,
    states_max: usize,
}

#[derive(Debug)]
struct Found {
    states: usize,
    decisions: usize,
    deepest: usize,
    /// The search was completed, not cut off.
    whole: bool,
    stages: BTreeSet<[Stage; TICKETS]>,
    violation: Option<(Violation, Vec<ModelAction>)>,
}

/// Searches breadth first, so that the first violation has the shortest path.
fn search(plan: Plan) -> Found {
    let mut desk = DecisionCache::new();
    let first = world::begin(&mut desk, plan.depends, plan.fate);
    let mut seen: HashSet<u64, Quick> = HashSet::default();
    seen.insert(mark(&first));
    let mut came_by: Vec<(u32, Option<ModelAction>)> = vec![(0, None)];
    let mut frontier = VecDeque::from([(first, 0_u32, 0_usize)]);
    let mut actions = Vec::new();
    let mut found = Found {
        states: 1,
        decisions: 0,
        deepest: 0,
        whole: true,
        stages: BTreeSet::new(),
        violation: None,
    };
    while let Some((world, at, depth)) = frontier.pop_front() {
        found.deepest = found.deepest.max(depth);
        found
            .stages
            .insert(world.tickets.map(|ticket| desk.facts(ticket).stage));
        let mut rules = Rules {
            desk: &mut desk,
            bug: plan.bug,
            depends: plan.depends,
        };
        rules.possible(&world, &mut actions);
        if let Err(violation) = holds(rules.desk, &world, &actions, plan.depends) {
            found.violation = Some((violation, way_to(&came_by, at, None)));
            break;
        }
        for &action in &actions {
            let next = match rules.after(&world, action) {
                Ok(next) => next,
                Err(violation) => {
                    let way = way_to(&came_by, at, Some(action));
                    found.violation = Some((violation, way));
                    break;
                }
            };
            if seen.len() < plan.states_max && seen.insert(mark(&next)) {
                let number = u32::try_from(came_by.len()).expect("fewer states than that");
                came_by.push((at, Some(action)));
                frontier.push_back((next, number, depth + 1));
            }
        }
        if found.violation.is_some() {
            break;
        }
    }
    found.states = seen.len();
    found.whole = seen.len() < plan.states_max;
    found.decisions = desk.decisions();
    found
}

/// A hash that mixes every number into the last. It tells a few million states apart, at a fraction
/// of the usual cost.
#[derive(Debug, Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^ (mixed >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number.cast_unsigned() as u64);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

type Quick = BuildHasherDefault<Mixed>;

fn mark(world: &World) -> u64 {
    let mut hasher = Mixed::default();
    world.hash(&mut hasher);
    hasher.finish()
}

fn way_to(
    came_by: &[(u32, Option<ModelAction>)],
    mut at: u32,
    last: Option<ModelAction>,
) -> Vec<ModelAction> {
    let mut way: Vec<ModelAction> = last.into_iter().collect();
    while let (before, Some(action)) = came_by[at as usize] {
        way.push(action);
        at = before;
    }
    way.reverse();
    way
}

/// Checks the invariants of every state.
fn holds(
    desk: &DecisionCache,
    world: &World,
    actions: &[ModelAction],
    depends: bool,
) -> Result<(), Violation> {
    let in_memory = matches!(world.pending, Some(Pending::Effects { .. }));
    for at in 0..TICKETS {
        let facts = desk.facts(world.tickets[at]);
        let rows = || world.rows[at].iter().flatten();
        let queued: Vec<u8> = rows()
            .filter(|row| !row.kind.is_news())
            .map(|row| row.serial)
            .collect();
        if !in_memory && queued != facts.jobs {
            return Err("the queue does not hold the jobs that the ticket waits for");
        }
        if world.merged[at] & !facts.approved != 0 {
            return Err("a commit was merged that nobody approved");
        }
        let landed = facts.landed.map_or(0, |commit| 1 << commit);
        if facts.stage == Stage::Done && world.merged[at] & landed == 0 {
            return Err("a ticket is done, and its commit is not on the branch");
        }
        let stuck = match facts.stage {
            Stage::Pending => !(depends && at == 1 && first_can_still_tell(desk, world)),
            Stage::Escalated | Stage::Blocked | Stage::Done | Stage::Failed | Stage::Cancelled => {
                false
            }
            Stage::Queued
            | Stage::Building
            | Stage::Checking
            | Stage::Reviewing
            | Stage::Rework
            | Stage::Approved
            | Stage::Merging => !actions.iter().any(|action| action.is_ordinary()),
        };
        if stuck {
            return Err("a ticket has no way forward");
        }
    }
    Ok(())
}

/// Whether the ticket that the other waits for is active, waits for a person, or has an update on
/// its way.
fn first_can_still_tell(desk: &DecisionCache, world: &World) -> bool {
    let alive = !desk.facts(world.tickets[0]).stage.is_terminal();
    let news = world.rows[0].iter().flatten().any(|row| row.kind.is_news());
    alive || news || world.pending.is_some()
}

/// Most states of one search, which limits its memory.
const STATES_MAX: usize = 4_000_000;

const CALM: Fate = Fate {
    crashes: 0,
    pauses: 0,
    lost_answers: 0,
    duplicates: 0,
    overrides: 0,
    setbacks: 0,
};

#[expect(clippy::disallowed_methods, reason = "states per second are printed")]
fn timed(name: &str, plan: Plan) -> Found {
    let began = Instant::now();
    let found = search(plan);
    let took = began.elapsed();
    let per_second = found.states as u128 * 1_000 / took.as_millis().max(1);
    println!(
        "{name}: {} states, {} deep, {} decisions, {} ms, {per_second} states/s{}",
        found.states,
        found.deepest,
        found.decisions,
        took.as_millis(),
        if found.whole { "" } else { ", cut off" }
    );
    found
}

#[track_caller]
fn assert_sound(found: &Found) {
    if let Some((violation, way)) = &found.violation {
        panic!("{violation}:\n{}", written(way));
    }
}

fn written(way: &[ModelAction]) -> String {
    let mut lines = String::new();
    for (n, action) in way.iter().enumerate() {
        writeln!(lines, "  {:>2}. {action:?}", n + 1).expect("a string takes it");
    }
    lines
}

/// One of each fault, by number.
fn strike(fate: &mut Fate, kind: usize) -> &'static str {
    let (name, count) = match kind {
        0 => ("a crash", &mut fate.crashes),
        1 => ("a pause", &mut fate.pauses),
        2 => ("a lost answer", &mut fate.lost_answers),
        3 => ("a duplicate", &mut fate.duplicates),
        4 => ("a person", &mut fate.overrides),
        _ => ("a rework_reason", &mut fate.setbacks),
    };
    *count += 1;
    name
}

#[test]
fn no_order_of_any_two_adversities_breaks_the_small_world() {
    let mut total = 0;
    for depends in [false, true] {
        for first in 0..6 {
            for second in first..6 {
                let mut fate = CALM;
                let one = strike(&mut fate, first);
                let other = strike(&mut fate, second);
                let how = if depends { "in line" } else { "side by side" };
                let plan = Plan {
                    depends,
                    fate,
                    bug: None,
                    states_max: STATES_MAX,
                };
                let found = timed(&format!("{how}, {one} and {other}"), plan);
                assert_sound(&found);
                assert!(found.whole, "cut off");
                assert!(found.stages.contains(&[Stage::Done; TICKETS]));
                total += found.states;
            }
        }
    }
    println!("{total} states in all, each with every way out of it");
    assert!(total > 1_000_000);
}

/// Goes deeper than a search can: all faults at once, along random paths.
#[test]
fn no_random_way_through_everything_at_once_breaks_the_small_world() {
    let mut desk = DecisionCache::new();
    let mut seed = 1_u64;
    let mut die = |most: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % most as u64).expect("small")
    };
    let (mut actions, mut steps) = (Vec::new(), 0_u32);
    for walk in 0..40_000 {
        let depends = walk % 2 == 0;
        let mut fate = CALM;
        for _ in 0..12 {
            strike(&mut fate, die(6));
        }
        let mut world = world::begin(&mut desk, depends, fate);
        let mut way = Vec::new();
        for _ in 0..90 {
            let mut rules = Rules {
                desk: &mut desk,
                bug: None,
                depends,
            };
            rules.possible(&world, &mut actions);
            let sound = holds(rules.desk, &world, &actions, depends);
            assert_eq!(sound, Ok(()), "after\n{}", written(&way));
            if actions.is_empty() {
                break;
            }
            // Mostly ordinary work, or no ticket would get far.
            let calm = die(4) > 0 && actions.iter().any(|action| action.is_ordinary());
            if calm {
                actions.retain(|action| action.is_ordinary());
            }
            let action = actions[die(actions.len())];
            way.push(action);
            world = match rules.after(&world, action) {
                Ok(next) => next,
                Err(violation) => panic!("{violation}:\n{}", written(&way)),
            };
            steps += 1;
        }
    }
    println!("{steps} random steps, {} decisions", desk.decisions());
}

#[track_caller]
fn assert_finds(bug: Bug, fate: Fate, expected: Violation) {
    let plan = Plan {
        depends: false,
        fate,
        bug: Some(bug),
        states_max: STATES_MAX,
    };
    let found = timed(&format!("{bug:?}"), plan);
    let (violation, way) = found.violation.expect("the bug must be found");
    println!("{violation}:\n{}", written(&way));
    assert_eq!(violation, expected);
}

#[test]
fn the_search_finds_a_missing_fence() {
    let fate = Fate { pauses: 1, ..CALM };
    assert_finds(
        Bug::NoFence,
        fate,
        "a result was accepted under an old token",
    );
}

#[test]
fn the_search_finds_an_acknowledgement_before_the_commit() {
    assert_finds(
        Bug::AckBeforeCommit,
        CALM,
        "an acknowledged report was lost",
    );
}

#[test]
fn the_search_finds_an_effect_outside_the_transaction() {
    assert_finds(
        Bug::EffectOutsideTransaction,
        CALM,
        "the queue does not hold the jobs that the ticket waits for",
    );
}

#[test]
fn the_search_finds_an_approval_by_the_builder() {
    assert_finds(
        Bug::ApprovalByBuilder,
        CALM,
        "a builder judged its own work",
    );
}

#[test]
fn the_search_finds_a_merge_of_another_commit() {
    let fate = Fate {
        overrides: 1,
        ..CALM
    };
    assert_finds(
        Bug::MergeOfAnotherCommit,
        fate,
        "a commit was merged that nobody approved",
    );
}
