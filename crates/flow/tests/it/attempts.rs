//! Random interleavings of claims, lost leases and reports of several processes with one token. A
//! report counts for the claim that its process was given, and for no other.

use std::collections::BTreeMap;

use flow::attempt::{Attempt, CallerState, HeldClaim, ReportClaim, admit};
use flow::event::Lease;
use flow::{EventKind, Policy, Stage, Task, Usage};
use proptest::prelude::*;

use crate::story::{Story, approves, house, id, rejects, reviewer};

const PROCESSES: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Op {
    /// A process asks for its assignment.
    Ask(usize),
    /// The lease runs out.
    Expire,
    /// A process reports on its last assignment, with or without the attempt.
    Report { process: usize, named: bool },
    /// A report under any attempt that was ever issued, as it was or changed.
    Forge { issued: usize, change: usize },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..PROCESSES).prop_map(Op::Ask),
        2 => Just(Op::Expire),
        3 => (0..PROCESSES, any::<bool>()).prop_map(|(process, named)| Op::Report { process, named }),
        3 => (any::<usize>(), 0..12_usize).prop_map(|(issued, change)| Op::Forge { issued, change }),
    ]
}

/// Two tickets under review, and one agent with several processes.
struct World {
    stories: [Story; 2],
    made: usize,
    has_sessions: bool,
    held: Option<(usize, Lease, Task)>,
    callers: BTreeMap<usize, CallerState>,
    given: [Option<Attempt>; PROCESSES],
    issued: Vec<String>,
    tried: usize,
    accepted: usize,
}

fn under_review(number: usize) -> Story {
    let mut policy = Policy::default();
    policy.limits.retries_max = 1_000;
    let mut story = Story::under(policy);
    story.ticket.id = id(&format!("t{number}"));
    story.built("c1").green();
    story
}

impl World {
    fn new(has_sessions: bool) -> Self {
        Self {
            stories: [under_review(0), under_review(1)],
            made: 2,
            has_sessions,
            held: None,
            callers: BTreeMap::new(),
            given: [None, None, None],
            issued: Vec::new(),
            tried: 0,
            accepted: 0,
        }
    }

    fn claim(&self) -> Option<HeldClaim> {
        let (place, lease, task) = self.held.as_ref()?;
        let ticket = &self.stories[*place].ticket.id;
        Some(HeldClaim::of_job(ticket, *lease, task))
    }

    /// Without sessions all processes of the token are one caller.
    fn caller(&mut self, process: usize) -> &mut CallerState {
        let key = if self.has_sessions { process } else { 0 };
        self.callers.entry(key).or_default()
    }

    fn ask(&mut self, process: usize) {
        if self.held.is_none() {
            let place = self.issued.len() % 2;
            let story = &mut self.stories[place];
            let task = story.job("review").task;
            let lease = story.start("review", &reviewer());
            self.held = Some((place, lease, task));
        }
        let attempt = self.claim().unwrap().attempt;
        let has_session = self.has_sessions;
        let caller = self.caller(process);
        *caller = caller.after_claim(&attempt, has_session);
        self.issued.push(attempt.to_string());
        self.given[process] = Some(attempt);
    }

    fn expire(&mut self) {
        if let Some((place, lease, _)) = self.held.take() {
            self.stories[place].tell(&house(), EventKind::LeaseLost { lease });
        }
    }

    /// Reports, and returns whether anything changed. A refused report must change nothing.
    fn report(&mut self, process: usize, attempt: Option<&str>) -> bool {
        self.tried += 1;
        let claim = self.claim();
        let caller = self.caller(process).clone();
        // Each process writes its own text for each claim; a repeated report has the same text.
        let words = format!("{process}: {:?}", self.given[process]);
        let verdict = Some(words.as_str()).filter(|_| !self.has_sessions);
        let named = ReportClaim { attempt, verdict };
        let admitted = admit(named, claim.as_ref(), Some(&caller));
        self.flow_refuses_all_but(attempt, claim.as_ref());
        if admitted.is_err() {
            return false;
        }
        let attempt = claim.unwrap().attempt;
        let (place, lease, task) = self.held.take().unwrap();
        let rejected = self.accepted.is_multiple_of(2);
        let what = reviewed(lease, &task, rejected);
        self.stories[place].tell(&reviewer(), what);
        let caller = self.caller(process);
        *caller = caller.after_verdict(&words).after_report(&attempt);
        self.accepted += 1;
        self.next_round(place);
        true
    }

    /// Whatever attempt is named, `advance` accepts a report only under the lease that is held.
    fn flow_refuses_all_but(&self, named: Option<&str>, held: Option<&HeldClaim>) {
        let Some(Ok(named)) = named.map(str::parse::<Attempt>) else {
            return;
        };
        let Attempt::Job {
            ticket,
            lease,
            commit: Some(commit),
        } = &named
        else {
            return;
        };
        let mut known = self.stories.iter();
        let Some(story) = known.find(|story| story.ticket.id == *ticket) else {
            return;
        };
        let task = Task::Review {
            commit: commit.clone(),
            round: 1,
            reviewer: String::new(),
        };
        let mut tried = story.clone();
        let taken = tried.attempt(&reviewer(), reviewed(*lease, &task, false));
        let is_held = held.is_some_and(|held| held.attempt == named);
        assert_eq!(taken.is_ok(), is_held, "{named}: {taken:?}");
    }

    /// Goes to the next round of a rejected change, or to another ticket.
    fn next_round(&mut self, place: usize) {
        let story = &mut self.stories[place];
        if story.stage() == Stage::Rework {
            story.built("c2").green();
        }
        if story.jobs("review") == 0 {
            self.stories[place] = under_review(self.made);
            self.made += 1;
        }
    }
}

fn reviewed(lease: Lease, task: &Task, rejected: bool) -> EventKind {
    let (Task::Review { commit, .. } | Task::Verify { commit, .. }) = task else {
        panic!("{task:?} is no review");
    };
    let review = if rejected {
        rejects(&["An empty name is greeted"])
    } else {
        approves()
    };
    EventKind::Reviewed {
        answers_open: false,
        lease,
        commit: commit.clone(),
        review: Box::new(review),
        sandbox: "a guest".to_owned(),
        usage: Usage::default(),
    }
}

/// Returns the attempt with a small change.
fn changed(attempt: &str, change: usize) -> String {
    let parts: Vec<&str> = attempt.split('/').collect();
    let [ticket, serial, fence, commit] = parts.as_slice() else {
        panic!("{attempt}");
    };
    let number = |text: &str| text.parse::<u64>().unwrap();
    match change {
        0 => attempt.to_owned(),
        1 => format!("{ticket}/{serial}/{}/{commit}", number(fence) + 1),
        2 => format!(
            "{ticket}/{serial}/{}/{commit}",
            number(fence).wrapping_sub(1)
        ),
        3 => format!("{ticket}/{}/{fence}/{commit}", number(serial) + 1),
        4 => format!("{ticket}/{serial}/{fence}"),
        5 => format!("{ticket}/{serial}/{fence}/{commit}0"),
        6 => format!("{ticket}/{serial}/{fence}/c9"),
        7 => format!("{ticket}x/{serial}/{fence}/{commit}"),
        8 => format!(" {attempt}"),
        9 => format!("{ticket}/0{serial}/{fence}/{commit}"),
        10 => format!("task:{serial}/{fence}"),
        _ => attempt.to_uppercase(),
    }
}

fn play(ops: &[Op], has_sessions: bool) -> World {
    let mut world = World::new(has_sessions);
    for op in ops {
        match op {
            Op::Ask(process) => world.ask(*process),
            Op::Expire => world.expire(),
            Op::Report { process, named } => {
                let Some(given) = world.given[*process].clone() else {
                    continue;
                };
                let name = given.to_string();
                let is_held = world.claim().is_some_and(|claim| claim.attempt == given);
                let accepted = world.report(*process, named.then_some(name.as_str()));
                if *named {
                    assert_eq!(accepted, is_held, "{name}");
                } else {
                    assert!(
                        !accepted || is_held,
                        "a report on {name} counted for another"
                    );
                }
            }
            Op::Forge { issued, change } => {
                if world.issued.is_empty() {
                    continue;
                }
                let name = changed(&world.issued[issued % world.issued.len()], *change);
                let claim = world.claim();
                let is_held = claim.is_some_and(|claim| claim.attempt.to_string() == name);
                let before: Vec<_> = world.stories.iter().map(|one| one.ticket.clone()).collect();
                let accepted = world.report(0, Some(&name));
                assert_eq!(accepted, is_held, "{name}");
                let after = world.stories.iter().map(|one| &one.ticket);
                assert!(
                    accepted || before.iter().eq(after),
                    "{name} changed something"
                );
            }
        }
    }
    world
}

proptest! {
    #[test]
    fn a_report_counts_for_the_claim_its_process_was_given_and_for_no_other(
        ops in prop::collection::vec(op(), 1..120),
        has_sessions in any::<bool>(),
    ) {
        play(&ops, has_sessions);
    }

    #[test]
    fn an_attempt_that_is_written_is_read_as_it_was(
        serial in any::<u32>(), fence in any::<u64>(), job in any::<i64>(),
        name in "[A-Za-z0-9][A-Za-z0-9_-]{0,20}", commit in proptest::option::of("[0-9a-f]{40}"),
    ) {
        let whole = Attempt::Job { ticket: id(&name), lease: Lease { serial, fence }, commit };
        prop_assert_eq!(whole.to_string().parse::<Attempt>(), Ok(whole));
        let task = Attempt::Task { job, fence };
        prop_assert_eq!(task.to_string().parse::<Attempt>(), Ok(task));
    }

    #[test]
    fn any_text_is_an_attempt_in_its_own_words_or_none(text in ".{0,80}") {
        if let Ok(attempt) = text.parse::<Attempt>() {
            prop_assert_eq!(attempt.to_string(), text);
        }
    }
}

/// A single process without a lost lease never has to name its attempt.
#[test]
fn a_simple_process_reports_one_claim_after_the_other() {
    for has_sessions in [false, true] {
        let one = [
            Op::Ask(0),
            Op::Report {
                process: 0,
                named: false,
            },
        ];
        let world = play(&one.repeat(20), has_sessions);
        assert_eq!((world.tried, world.accepted), (20, 20));
    }
}

/// The process that lost its lease reports late, while another holds the next claim.
#[test]
fn a_late_report_without_an_attempt_does_not_count_for_the_next_claim() {
    let late = |process| Op::Report {
        process,
        named: false,
    };
    for has_sessions in [false, true] {
        let lost = [Op::Ask(0), Op::Expire, Op::Ask(1), late(0)];
        assert_eq!(play(&lost, has_sessions).accepted, 0);
        // It does not count for the next claim either.
        let named = Op::Report {
            process: 1,
            named: true,
        };
        let later = [
            Op::Ask(0),
            Op::Expire,
            Op::Ask(1),
            named,
            Op::Ask(1),
            late(0),
        ];
        assert_eq!(play(&later, has_sessions).accepted, 1);
        // The same holds if no lease was lost and both processes were given the same claim.
        let twins = [Op::Ask(0), Op::Ask(1), late(1), Op::Ask(1), late(0)];
        assert_eq!(play(&twins, has_sessions).accepted, 1);
    }
}
