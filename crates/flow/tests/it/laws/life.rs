//! Random events for a ticket: mostly real reports of its open jobs, mixed with repeated, late,
//! forged and impossible ones.

use findings::{BlockingIssue, DimensionScore, Finding, Review, ReviewClaim, Severity};
use flow::event::{
    AnswerOutcome, Choice, Failure, FindingReport, Lease, ReportedOutcome, VerifierAnswer,
};
use flow::job::OpenJob;
use flow::ticket::{BlockedReason, CheckOutcome, Submission};
use flow::usage::Budget;
use flow::{Actor, Event, EventKind, Role, Stage, Task, Time, Usage};

use crate::story::{
    Story, accept, alias, check, created, dollars, finding, house, id, review, settled, submission,
};

/// Random numbers that shrink towards the first item of every list.
#[derive(Clone, Copy, Debug)]
pub struct Dice {
    values: [u16; 6],
    at: usize,
}

impl Dice {
    pub fn new(values: [u16; 6]) -> Self {
        Self { values, at: 0 }
    }

    fn below(&mut self, most: usize) -> usize {
        let round = self.at / self.values.len();
        let value = usize::from(self.values[self.at % self.values.len()]);
        self.at += 1;
        // A second pass over the values divides them first, so that it gives other numbers.
        (value / (1 + 7 * round)) % most.max(1)
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    fn percent(&mut self, chance: usize) -> bool {
        self.below(100) >= 100 - chance
    }
}

#[derive(Debug)]
pub struct Life {
    pub story: Story,
}

const TITLES: [&str; 5] = [
    "Names are not escaped",
    "The end is cut",
    "A test is missing",
    "The lock is held too long",
    "A comment is missing",
];

fn staff(role: Role) -> Vec<Actor> {
    let one = |name: &&str| Actor {
        written: Some((*name).to_owned()),
        ..Actor::new(name, role)
    };
    let named = |names: &[&str]| names.iter().map(one).collect();
    let mut all: Vec<Actor> = match role {
        Role::Builder => named(&["bob", "betty"]),
        Role::Reviewer => named(&["rita", "ruth", "rolf"]),
        Role::Verifier => named(&["vera", "victor", "rita"]),
        Role::Human => named(&["hugo", "helga", "betty"]),
        Role::Service => named(&["house"]),
        Role::Admin => named(&["ada"]),
        Role::Viewer => named(&["vic"]),
    };
    if role != Role::Service {
        all.push(alias(role));
    }
    all
}

fn role_of(task: &Task) -> Role {
    match task {
        Task::Build { .. } => Role::Builder,
        Task::Review { .. } => Role::Reviewer,
        Task::Verify { .. } => Role::Verifier,
        Task::Check { .. } | Task::Merge { .. } | Task::Tell { .. } | Task::Report => Role::Service,
    }
}

impl Life {
    pub fn new(story: Story) -> Self {
        Self { story }
    }

    pub fn next(&self, mut dice: Dice) -> Event {
        let what_kind = dice.below(100);
        let (by, what) = self.fitting(&mut dice);
        let mut event = self.story.event(&by, what);
        match what_kind {
            0..78 => {}
            78..84 => return dice.pick(&self.story.log),
            84..88 => {
                let version = self.story.ticket.version;
                event.expects = Some(dice.pick(&[version - 1, version, 0]));
            }
            88..92 => {
                if let Some(lease) = crate::table::lease_of(&mut event.what) {
                    lease.fence = dice.pick(&[lease.fence.saturating_sub(1), lease.fence + 1, 0]);
                }
            }
            92..96 => {
                let role = dice.pick(&Role::ALL);
                event.by = dice.pick(&staff(role));
            }
            _ => event.what = self.out_of_place(&mut dice),
        }
        event
    }

    /// Lists the events that are realistic now, with their actors.
    fn fitting(&self, dice: &mut Dice) -> (Actor, EventKind) {
        let ticket = &self.story.ticket;
        let person = dice.pick(&staff(Role::Human));
        if dice.percent(1) && dice.percent(30) {
            let why = "not wanted any more".to_owned();
            return (person, EventKind::Cancelled { why });
        }
        match ticket.stage {
            Stage::Pending => dependency_event(dice, person),
            Stage::Escalated => (person, self.decision(dice)),
            Stage::Blocked => match ticket.blocked {
                Some(BlockedReason::TakenOver { .. }) => {
                    let submission = Box::new(put(dice));
                    (person, EventKind::Resubmitted { submission })
                }
                Some(BlockedReason::ByDependency) | None => dependency_event(dice, person),
            },
            Stage::Done | Stage::Failed | Stage::Cancelled => (person, self.out_of_place(dice)),
            Stage::Queued
            | Stage::Building
            | Stage::Checking
            | Stage::Reviewing
            | Stage::Rework
            | Stage::Approved
            | Stage::Merging => {
                if dice.percent(8) {
                    return self.aside(dice, person);
                }
                let job = dice.pick(&ticket.jobs);
                self.job_event(dice, &job)
            }
        }
    }

    fn job_event(&self, dice: &mut Dice, job: &OpenJob) -> (Actor, EventKind) {
        let role = role_of(&job.task);
        let next = Lease {
            serial: job.serial,
            fence: job.fence + 1,
        };
        let Some(holder) = &job.holder else {
            if dice.percent(3) {
                return (house(), EventKind::LeaseLost { lease: next });
            }
            if dice.percent(4) {
                let (serial, why) = (job.serial, "out of quota".to_owned());
                return (house(), EventKind::AgentOut { serial, why });
            }
            let all = staff(role);
            // The reviewer that refused is asked; now and then another one answers anyway.
            let asked = all
                .iter()
                .find(|one| job.agent.as_ref() == Some(&one.agent));
            let by = match asked {
                Some(asked) if !dice.percent(10) => asked.clone(),
                Some(_) | None => dice.pick(&all),
            };
            return (by, EventKind::Started { lease: next });
        };
        let lease = Lease {
            fence: job.fence,
            ..next
        };
        let mut staff = staff(role).into_iter();
        let by = staff
            .find(|actor| &actor.principal == holder)
            .unwrap_or_else(|| Actor::new(holder, role));
        if dice.percent(5) {
            return (house(), EventKind::LeaseLost { lease });
        }
        if dice.percent(7) {
            return (by, failure(dice, lease));
        }
        if matches!(job.task, Task::Build { .. }) && dice.percent(4) {
            return (house(), base_red(dice, lease));
        }
        let what = match &job.task {
            Task::Build { .. } => built(dice, lease),
            Task::Check { commit } => checked(dice, lease, commit),
            Task::Review { commit, .. } => reviewed(dice, lease, commit),
            Task::Verify {
                commit, findings, ..
            } => verified(dice, lease, commit, findings),
            Task::Merge { commit } if dice.percent(20) => {
                self.story.landing(lease, commit, "diff of it")
            }
            Task::Merge { .. } | Task::Tell { .. } | Task::Report => self.merged(dice, lease),
        };
        (by, what)
    }

    fn merged(&self, dice: &mut Dice, lease: Lease) -> EventKind {
        let approved = self.story.ticket.approval.as_ref();
        let diff = approved.map(|approval| approval.diff_id.clone());
        match dice.below(4) {
            0 => self
                .story
                .landing(lease, "rebased", &diff.unwrap_or_default()),
            1 => self
                .story
                .landing(lease, "rebased", "diff of something else"),
            2 => EventKind::Conflicted {
                lease,
                files: vec!["src/greet.rs".to_owned()],
                evidence: "both changed line 3".to_owned(),
                usage: Usage::default(),
            },
            _ => EventKind::CombinationRed {
                lease,
                results: vec![check(CheckOutcome::Failed)],
                usage: Usage::default(),
            },
        }
    }

    /// Events that come from outside the ticket's own jobs.
    fn aside(&self, dice: &mut Dice, person: Actor) -> (Actor, EventKind) {
        let why = "because".to_owned();
        let holder = self.story.ticket.jobs.iter().find_map(|job| {
            let holder = job.holder.as_ref()?;
            Some(Actor::new(holder, role_of(&job.task)))
        });
        match dice.below(8) {
            7 => (person, self.comment(dice)),
            0 => {
                let submission = Box::new(put(dice));
                (
                    house(),
                    EventKind::WentStale {
                        submission,
                        why,
                        lease: None,
                    },
                )
            }
            1 => (house(), EventKind::BudgetReached { limit: why }),
            2 => (person, self.raise(dice)),
            3 => {
                let finding = format!("F{}", 1 + dice.below(6));
                (person, EventKind::Waived { finding, why })
            }
            4 => {
                let ticket = id("first");
                (house(), EventKind::DependencyFailed { ticket, why })
            }
            _ => (
                holder.unwrap_or_else(|| dice.pick(&staff(Role::Builder))),
                EventKind::HelpRequested { why, lease: None },
            ),
        }
    }

    /// A person's finding, mostly on the current commit.
    fn comment(&self, dice: &mut Dice) -> EventKind {
        let submission = self.story.ticket.submission.as_ref();
        let current = submission.map_or_else(String::new, |put| put.commit.clone());
        let title = dice.pick(&["Alpha", "Beta", "A person's own"]);
        EventKind::FindingsAdded {
            commit: dice.pick(&[current.clone(), current, "gone".to_owned()]),
            findings: vec![finding(title, dice.pick(&[Severity::High, Severity::Low]))],
            must_fix: dice.percent(50),
            comments: Vec::new(),
        }
    }

    fn raise(&self, dice: &mut Dice) -> EventKind {
        let mut budget = self.story.policy.budget;
        let more = 1_000_000 * dice.below(60) as u64;
        for caps in [&mut budget.round, &mut budget.ticket] {
            caps.usd_micros = caps.usd_micros.map(|cap| cap + more);
        }
        let budget = dice.pick(&[budget, Budget::default()]);
        EventKind::BudgetRaised {
            budget,
            why: "it is worth it".to_owned(),
        }
    }

    fn decision(&self, dice: &mut Dice) -> EventKind {
        let name = |name: &str| Some(name.to_owned());
        let over_red_checks = dice.percent(30);
        match dice.below(12) {
            0..3 => settled(Choice::Continue),
            3 => settled(Choice::Accept { over_red_checks }),
            4 => settled(Choice::TakeOver),
            5 | 6 => settled(Choice::Reset),
            7 => settled(Choice::Reassign {
                builder: name("betty"),
                reviewer: dice.pick(&[None, name("ruth"), name("bob")]),
            }),
            8 => settled(Choice::Reassign {
                builder: None,
                reviewer: dice.pick(&[None, name("ruth"), name("bob")]),
            }),
            9 if dice.percent(30) => settled(Choice::Reject),
            9 | 10 => self.raise(dice),
            _ => EventKind::Waived {
                finding: format!("F{}", 1 + dice.below(6)),
                why: "it is not so bad".to_owned(),
            },
        }
    }

    /// Any event, whether it is possible or not.
    fn out_of_place(&self, dice: &mut Dice) -> EventKind {
        let lease = Lease {
            serial: 1 + u32::try_from(dice.below(9)).unwrap_or(0),
            fence: dice.below(4) as u64,
        };
        let commit = self.story.commit();
        match dice.below(12) {
            0 => created(&[]),
            1 => EventKind::Started { lease },
            2 => built(dice, lease),
            3 => checked(dice, lease, &commit),
            4 => reviewed(dice, lease, "another commit"),
            5 => verified(dice, lease, &commit, &["F1".to_owned()]),
            6 => self.merged(dice, lease),
            7 => failure(dice, lease),
            8 => accept(),
            9 => EventKind::Resubmitted {
                submission: Box::new(put(dice)),
            },
            10 => EventKind::DependencyRepaired {
                ticket: id("second"),
            },
            _ => EventKind::LeaseLost { lease },
        }
    }
}

fn dependency_event(dice: &mut Dice, person: Actor) -> (Actor, EventKind) {
    let ticket = id(dice.pick(&["first", "second"]));
    let why = "because".to_owned();
    match dice.below(10) {
        0..6 => (house(), EventKind::DependencyMet { ticket }),
        6 => (house(), EventKind::DependencyFailed { ticket, why }),
        7 | 8 => (house(), EventKind::DependencyRepaired { ticket }),
        _ => {
            let what = EventKind::DependenciesSet {
                depends_on: dice.pick(&[[ticket.clone()].into(), [].into()]),
                met: dice.pick(&[[ticket.clone()].into(), [].into()]),
                failed: dice.pick(&[vec![(ticket, why.clone())], Vec::new()]),
                why,
            };
            (person, what)
        }
    }
}

fn usage(dice: &mut Dice) -> Usage {
    dollars(dice.below(6) as u64)
}

/// Few commits, so that the same trees occur again.
fn put(dice: &mut Dice) -> Submission {
    let mut put = submission(&format!("c{}", dice.below(7)));
    if dice.percent(10) {
        put.authors
            .insert(dice.pick(&["rita", "hugo", "eve"]).to_owned());
    }
    if dice.percent(15) {
        "tree of another base".clone_into(&mut put.base_tree);
    }
    if dice.percent(10) {
        put.protected.push("ci.yml".to_owned());
    }
    match dice.below(40) {
        37 => put.files.clear(),
        38 => put.tree.clear(),
        39 => put.diff_id.clear(),
        _ => {}
    }
    put
}

fn built(dice: &mut Dice, lease: Lease) -> EventKind {
    let outcomes = [
        ReportedOutcome::Fixed,
        ReportedOutcome::CouldNotFix,
        ReportedOutcome::Disputed,
    ];
    let reports = (0..dice.below(3))
        .map(|_| FindingReport {
            finding: format!("F{}", 1 + dice.below(6)),
            outcome: dice.pick(&outcomes),
            note: "see the diff".to_owned(),
        })
        .collect();
    EventKind::Submitted {
        lease,
        submission: Box::new(put(dice)),
        reports,
        session: None,
        usage: usage(dice),
    }
}

fn base_red(dice: &mut Dice, lease: Lease) -> EventKind {
    let outcomes = [
        CheckOutcome::Failed,
        CheckOutcome::TimedOut,
        CheckOutcome::Passed,
    ];
    EventKind::BaseRed {
        lease,
        base: "b1".to_owned(),
        results: vec![check(dice.pick(&outcomes))],
        hint: "install it".to_owned(),
        usage: Usage::default(),
    }
}

fn checked(dice: &mut Dice, lease: Lease, commit: &str) -> EventKind {
    use CheckOutcome::{Failed, Flaky, Passed, RedOnBase, TimedOut};
    let outcomes = [
        Passed, Passed, Passed, Passed, Passed, Passed, Flaky, RedOnBase, Failed, TimedOut,
    ];
    EventKind::Checked {
        lease,
        commit: commit.to_owned(),
        results: vec![check(dice.pick(&outcomes))],
        usage: Usage::default(),
    }
}

fn some_findings(dice: &mut Dice, most: usize) -> Vec<Finding> {
    (0..dice.below(most + 1))
        .map(|_| {
            let mut one = finding(dice.pick(&TITLES), dice.pick(&Severity::ALL));
            one.actionable = !dice.percent(10);
            if dice.percent(40) {
                one.confidence = Some(dice.pick(&[0, 30, 59, 60, 90, 100]));
            }
            one
        })
        .collect()
}

fn reviewed(dice: &mut Dice, lease: Lease, commit: &str) -> EventKind {
    if dice.percent(6) {
        return EventKind::ReviewUnusable {
            lease,
            why: "it wrote nothing".to_owned(),
            usage: usage(dice),
        };
    }
    let claims = [
        ReviewClaim::Approved,
        ReviewClaim::ChangesRequested,
        ReviewClaim::ChangesRequested,
        ReviewClaim::Unknown,
    ];
    let claim = dice.pick(&claims);
    let most = if claim == ReviewClaim::Approved { 1 } else { 3 };
    let mut given: Review = review(claim, &some_findings(dice, most));
    if dice.percent(8) {
        given.blocking_issues.push(BlockingIssue {
            dimension: None,
            message: dice.pick(&TITLES).to_owned(),
            required_action: None,
        });
    }
    if dice.percent(20) {
        let score = DimensionScore {
            score: 60 + u8::try_from(dice.below(45)).unwrap_or(0),
            weight: None,
        };
        given.scores.insert("code_quality".to_owned(), score);
    }
    EventKind::Reviewed {
        answers_open: dice.percent(50),
        lease,
        commit: commit.to_owned(),
        review: Box::new(given),
        sandbox: "read-only mount".to_owned(),
        usage: usage(dice),
    }
}

fn verified(dice: &mut Dice, lease: Lease, commit: &str, asked: &[String]) -> EventKind {
    use AnswerOutcome::{Confirmed, Fixed, Refuted, Uncertain};
    let answers = asked
        .iter()
        .filter_map(|id| {
            let outcome = dice.pick(&[Fixed, Fixed, Confirmed, Refuted, Uncertain]);
            let told = VerifierAnswer {
                finding: id.clone(),
                outcome,
                evidence: "seen in the code".to_owned(),
            };
            (!dice.percent(5)).then_some(told)
        })
        .collect();
    EventKind::Verified {
        lease,
        commit: commit.to_owned(),
        answers,
        usage: usage(dice),
    }
}

fn failure(dice: &mut Dice, lease: Lease) -> EventKind {
    let kinds = [
        Failure::Transient,
        Failure::Transient,
        Failure::Quota { until: Time(9) },
        Failure::Permanent,
        Failure::Budget,
    ];
    EventKind::JobFailed {
        lease,
        failure: dice.pick(&kinds),
        message: "the connection broke".to_owned(),
        usage: usage(dice),
    }
}
