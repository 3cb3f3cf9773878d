//! A cache of decisions: `advance` runs once for the same ticket and the same event. Time and
//! versions are left out, so that states that differ in nothing else are equal.

use std::collections::HashMap;
use std::rc::Rc;

use flow::event::{AnswerOutcome, Choice, Lease};
use flow::job::DependencyUpdate;
use flow::policy::Limits;
use flow::ticket::{ApprovedBy, CheckOutcome};
use flow::{Actor, Effect, Event, EventKind, Policy, Role, Stage, Task, Ticket, Time, Usage};
use flow::{advance, open_ticket};

use super::Quick;
use crate::story::{answer, approves, check, created, house, human, id, rejects, review};
use crate::story::{settled, submission};

/// Kind of a job, as the queue has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Build,
    Check,
    Review,
    Verify,
    Merge,
    TellMet,
    TellFailed,
    TellRepaired,
}

impl Kind {
    pub fn is_news(self) -> bool {
        matches!(self, Self::TellMet | Self::TellFailed | Self::TellRepaired)
    }

    pub fn judges(self) -> bool {
        matches!(self, Self::Review | Self::Verify)
    }

    fn role(self) -> Role {
        match self {
            Self::Build => Role::Builder,
            Self::Review => Role::Reviewer,
            Self::Verify => Role::Verifier,
            Self::Check | Self::Merge | Self::TellMet | Self::TellFailed | Self::TellRepaired => {
                Role::Service
            }
        }
    }
}

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    Well,
    Badly,
}

/// An event, small enough to be a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Happening {
    Started(Report),
    Reported(Report, Outcome, u8),
    LeaseLost { serial: u8, fence: u8 },
    Cancelled,
    Continued,
    Accepted,
    TakenOver,
    Resubmitted(u8),
    WentStale(u8),
    News(Kind),
}

/// Worker, job and fencing token of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Report {
    pub kind: Kind,
    pub serial: u8,
    pub fence: u8,
    /// Number of the worker. `STRANGER` is a name that came from an argument.
    pub worker: u8,
}

pub const STRANGER: u8 = 9;

/// Effect of a decision on the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    Add(u8, Kind),
    GiveBack(u8),
    End(u8),
}

pub type Decision = Option<(u32, Rc<[Deed]>)>;

/// Facts about a ticket that the search needs, computed once.
#[derive(Clone, Debug)]
pub struct Facts {
    pub stage: Stage,
    pub jobs: Vec<u8>,
    /// Number of the current commit.
    pub commit: u8,
    /// Bits of all commits that were ever approved.
    pub approved: u16,
    pub landed: Option<u8>,
    pub by_dependency: bool,
}

#[derive(Debug)]
pub struct DecisionCache {
    pub policy: Policy,
    tickets: Vec<Ticket>,
    pub facts: Vec<Facts>,
    known: HashMap<String, u32>,
    decided: HashMap<(u32, Happening), Decision, Quick>,
}

impl DecisionCache {
    pub fn new() -> Self {
        let limits = Limits {
            retries_max: 1,
            ..Limits::default()
        };
        let policy = Policy {
            max_rounds: 2,
            limits,
            ..Policy::default()
        };
        Self {
            policy,
            tickets: Vec::new(),
            facts: Vec::new(),
            known: HashMap::new(),
            decided: HashMap::default(),
        }
    }

    pub fn decisions(&self) -> usize {
        self.decided.len()
    }

    pub fn begin(&mut self, name: &str, depends_on: &[&str]) -> (u32, Rc<[Deed]>) {
        let event = at_no_time(human(), created(depends_on));
        let step = open_ticket(&id(name), &event, &self.policy).expect("a ticket begins");
        let deeds = step.effects.iter().map(deed).collect();
        (self.file(step.ticket), deeds)
    }

    pub fn ticket(&self, ticket: u32) -> &Ticket {
        &self.tickets[ticket as usize]
    }

    pub fn facts(&self, ticket: u32) -> &Facts {
        &self.facts[ticket as usize]
    }

    pub fn decide(&mut self, ticket: u32, happening: Happening) -> Decision {
        if let Some(known) = self.decided.get(&(ticket, happening)) {
            return known.clone();
        }
        let event = self.event(ticket, happening);
        let step = advance(self.ticket(ticket), &event, &self.policy);
        let decision = step.ok().map(|step| {
            let deeds = step.effects.iter().map(deed).collect();
            (self.file(step.ticket), deeds)
        });
        self.decided.insert((ticket, happening), decision.clone());
        decision
    }

    fn file(&mut self, mut ticket: Ticket) -> u32 {
        ticket.version = 1;
        let text = serde_json::to_string(&ticket).expect("a ticket can be written");
        if let Some(known) = self.known.get(&text) {
            return *known;
        }
        let number = u32::try_from(self.tickets.len()).expect("few tickets");
        self.facts.push(facts(&ticket));
        self.tickets.push(ticket);
        self.known.insert(text, number);
        number
    }

    fn event(&self, ticket: u32, happening: Happening) -> Event {
        let (other, why) = (id("a"), "because".to_owned());
        let (by, what) = match happening {
            Happening::Started(report) => {
                let lease = lease(report.serial, report.fence);
                (actor(report), EventKind::Started { lease })
            }
            Happening::Reported(report, outcome, commit) => {
                let what = self.report(ticket, report, outcome, commit);
                (actor(report), what)
            }
            Happening::LeaseLost { serial, fence } => {
                let lease = lease(serial, fence);
                (house(), EventKind::LeaseLost { lease })
            }
            Happening::Cancelled => (human(), EventKind::Cancelled { why }),
            Happening::Continued => (human(), settled(Choice::Continue)),
            Happening::Accepted => {
                let over_red_checks = true;
                (human(), settled(Choice::Accept { over_red_checks }))
            }
            Happening::TakenOver => (human(), settled(Choice::TakeOver)),
            Happening::Resubmitted(commit) => {
                let submission = Box::new(submission(&format!("c{commit}")));
                (human(), EventKind::Resubmitted { submission })
            }
            Happening::WentStale(commit) => {
                let submission = Box::new(submission(&format!("c{commit}")));
                (
                    house(),
                    EventKind::WentStale {
                        submission,
                        why,
                        lease: None,
                    },
                )
            }
            Happening::News(Kind::TellMet) => (house(), EventKind::DependencyMet { ticket: other }),
            Happening::News(Kind::TellRepaired) => {
                (house(), EventKind::DependencyRepaired { ticket: other })
            }
            Happening::News(_) => (house(), EventKind::DependencyFailed { ticket: other, why }),
        };
        at_no_time(by, what)
    }

    fn report(&self, ticket: u32, report: Report, outcome: Outcome, commit: u8) -> EventKind {
        let lease = lease(report.serial, report.fence);
        let commit = format!("c{commit}");
        let (well, usage) = (outcome == Outcome::Well, Usage::default());
        match report.kind {
            Kind::Build => crate::story::submitted(lease, &commit),
            Kind::Check => EventKind::Checked {
                lease,
                commit,
                results: vec![check(if well {
                    CheckOutcome::Passed
                } else {
                    CheckOutcome::Failed
                })],
                usage,
            },
            Kind::Review => EventKind::Reviewed {
                answers_open: false,
                lease,
                commit,
                review: Box::new(if well {
                    approves()
                } else {
                    review(
                        findings::ReviewClaim::ChangesRequested,
                        &rejects(&["Names are not escaped"]).findings,
                    )
                }),
                sandbox: "read-only mount".to_owned(),
                usage,
            },
            Kind::Verify => {
                let outcome = if well {
                    AnswerOutcome::Fixed
                } else {
                    AnswerOutcome::Confirmed
                };
                let entries = &self.ticket(ticket).ledger.entries;
                let answers = entries.iter().map(|entry| answer(&entry.id, outcome));
                EventKind::Verified {
                    lease,
                    commit,
                    answers: answers.collect(),
                    usage,
                }
            }
            Kind::Merge | Kind::TellMet | Kind::TellFailed | Kind::TellRepaired if well => {
                EventKind::Landed {
                    lease,
                    diff_id: format!("diff of {commit}"),
                    landed: commit.clone(),
                    commit,
                    branch: "main".to_owned(),
                    tip: None,
                    usage,
                }
            }
            Kind::Merge | Kind::TellMet | Kind::TellFailed | Kind::TellRepaired => {
                EventKind::Conflicted {
                    lease,
                    files: Vec::new(),
                    evidence: "both changed line 3".to_owned(),
                    usage,
                }
            }
        }
    }
}

fn at_no_time(by: Actor, what: EventKind) -> Event {
    Event {
        at: Time(0),
        by,
        expects: None,
        what,
    }
}

fn actor(report: Report) -> Actor {
    Actor::new(&format!("w{}", report.worker), report.kind.role())
}

fn lease(serial: u8, fence: u8) -> Lease {
    Lease {
        serial: serial.into(),
        fence: fence.into(),
    }
}

fn small(number: u32) -> u8 {
    u8::try_from(number).expect("few jobs")
}

fn deed(effect: &Effect) -> Deed {
    match effect {
        Effect::Enqueue(job) => {
            let kind = match &job.task {
                Task::Build { .. } => Kind::Build,
                Task::Check { .. } => Kind::Check,
                Task::Review { .. } => Kind::Review,
                Task::Verify { .. } => Kind::Verify,
                Task::Merge { .. } => Kind::Merge,
                Task::Tell {
                    update: DependencyUpdate::Met,
                } => Kind::TellMet,
                Task::Tell {
                    update: DependencyUpdate::Failed { .. },
                } => Kind::TellFailed,
                Task::Tell {
                    update: DependencyUpdate::Repaired,
                } => Kind::TellRepaired,
                Task::Report => unreachable!("no ticket of this model lands as a pull request"),
            };
            Deed::Add(small(job.serial), kind)
        }
        Effect::Retry { serial, .. } => Deed::GiveBack(small(*serial)),
        Effect::Finish { serial } | Effect::Drop { serial, .. } | Effect::Bury { serial, .. } => {
            Deed::End(small(*serial))
        }
    }
}

fn number(commit: &str) -> u8 {
    let digits = commit.strip_prefix('c').and_then(|rest| rest.parse().ok());
    digits.expect("a commit of the model")
}

/// Reads a ticket once, and checks the invariants of the ticket alone.
fn facts(ticket: &Ticket) -> Facts {
    let commit = ticket.submission.as_ref().map(|put| number(&put.commit));
    if let Some(approval) = &ticket.approval {
        assert_eq!(Some(number(&approval.commit)), commit, "a stale approval");
        if let ApprovedBy::Reviewers { names, .. } = &approval.by {
            let own = names.iter().any(|name| ticket.authors.contains(name));
            assert!(!own, "approved by an author");
        }
    }
    let approvals = ticket.approvals_voided.iter().chain(&ticket.approval);
    Facts {
        stage: ticket.stage,
        jobs: ticket.jobs.iter().map(|job| small(job.serial)).collect(),
        commit: commit.unwrap_or_default(),
        approved: approvals.fold(0, |bits, one| bits | 1 << number(&one.commit)),
        landed: ticket.landed.as_ref().map(|landed| number(&landed.commit)),
        by_dependency: ticket.blocked == Some(flow::ticket::BlockedReason::ByDependency),
    }
}
