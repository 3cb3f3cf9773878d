//! Simulates one ticket in a world. `flow::advance` decides every step.

use std::collections::{BTreeMap, BTreeSet};

use findings::{Finding, Review, ReviewClaim, Severity};
use flow::event::{AnswerOutcome, Choice, FindingReport, Lease, ReportedOutcome, VerifierAnswer};
use flow::ledger::LedgerEntry;
use flow::ticket::{CheckOutcome, CheckResult, Reason, Spec, Submission};
use flow::{
    Actor, Event, EventKind, Role, Stage, Task, Ticket, TicketId, Time, Usage, advance, open_ticket,
};

use crate::chance::Chance;
use crate::way::{End, Way};
use crate::world::{BUILD_COST, REVIEW_COST, REWORK_COST, VERIFY_COST, World};

/// Most steps of one ticket. Reaching it is a bug of the simulator.
const STEPS_MAX: u32 = 5_000;

/// Size of the change, typical of those that such loops are used for.
const LINES: u32 = 200;

/// Largest difference of one defect's detection rate from the reviewer's recall, up and down.
const RECALL_SPREAD: u64 = 250;

/// Result of one ticket.
#[derive(Clone, Debug, Default)]
pub struct Life {
    pub landed: bool,
    /// True must-fix defects left in the change at the end.
    pub open_defects: usize,
    pub rounds: usize,
    pub builds: u32,
    pub cost: u64,
    /// Number of times a person was asked.
    pub escalations: u32,
}

/// A real or alleged flaw of the code.
#[derive(Clone, Debug)]
struct Flaw {
    finding: Finding,
    /// It is a true must-fix defect, not a false alarm or a minor flaw.
    real: bool,
    present: bool,
    /// Rate at which a reviewer finds it. It is the same for all, because a hard defect is hard for
    /// every reviewer.
    seen: u64,
}

struct Play<'a> {
    world: &'a World,
    way: &'a Way,
    ticket: Ticket,
    flaws: BTreeMap<String, Flaw>,
    chance: Chance,
    names: Chance,
    fence: u64,
    time: i64,
    commits: u32,
    life: Life,
}

pub fn play(world: &World, way: &Way, seed: u64, number: u64) -> Life {
    // The ticket and its first flaws are the same for every way; later draws are independent.
    let mut first = Chance::of(seed, &[number, 1]);
    let names = Chance::of(seed, &[number, 2]);
    let (defects, nits) = (first.count(world.defects), first.count(world.nits));
    let Some(ticket) = begin(way) else {
        return Life::default();
    };
    let mut play = Play {
        world,
        way,
        ticket,
        flaws: BTreeMap::new(),
        chance: Chance::of(seed, &[number, 3]),
        names,
        fence: 0,
        time: 0,
        commits: 0,
        life: Life::default(),
    };
    for _ in 0..defects {
        play.flaw(Severity::High, true);
    }
    for _ in 0..nits {
        play.flaw(Severity::Low, false);
    }
    for _ in 0..STEPS_MAX {
        if !play.step() {
            break;
        }
    }
    play.end()
}

fn begin(way: &Way) -> Option<Ticket> {
    let id = TicketId::new("T").ok()?;
    let what = EventKind::Created {
        spec: Box::new(Spec {
            title: "a wish".to_owned(),
            ..Spec::default()
        }),
        met: BTreeSet::new(),
        failed: Vec::new(),
    };
    let event = Event {
        at: Time(0),
        by: Actor::new("person", Role::Human),
        expects: None,
        what,
    };
    Some(open_ticket(&id, &event, &way.policy).ok()?.ticket)
}

fn dollars(thousandths: u64) -> Usage {
    Usage {
        usd_micros: thousandths * 1_000,
        ..Usage::default()
    }
}

impl Play<'_> {
    /// Takes the next step. Returns false at the end of the ticket.
    fn step(&mut self) -> bool {
        if self.ticket.stage.is_terminal() {
            return false;
        }
        if let Some(job) = self.ticket.jobs.first().cloned() {
            self.fence += 1;
            let lease = Lease {
                serial: job.serial,
                fence: self.fence,
            };
            let by = worker(&job.task, job.serial);
            return self.decide(by.clone(), EventKind::Started { lease })
                && self.perform(lease, by, &job.task);
        }
        match self.ticket.stage {
            Stage::Escalated => self.settle(),
            Stage::Blocked => {
                self.person_repairs();
                let submission = Box::new(self.submission(&["person"]));
                self.decide(person(), EventKind::Resubmitted { submission })
            }
            _ => false,
        }
    }

    fn decide(&mut self, by: Actor, what: EventKind) -> bool {
        self.time += 1_000;
        let event = Event {
            at: Time(self.time),
            by,
            expects: None,
            what,
        };
        match advance(&self.ticket, &event, &self.way.policy) {
            Ok(step) => {
                self.ticket = step.ticket;
                true
            }
            Err(_) => false,
        }
    }

    fn perform(&mut self, lease: Lease, by: Actor, task: &Task) -> bool {
        let what = match task {
            Task::Build { .. } => self.build(lease),
            Task::Check { commit } => EventKind::Checked {
                lease,
                commit: commit.clone(),
                results: vec![CheckResult {
                    name: "test".to_owned(),
                    outcome: CheckOutcome::Passed,
                    tail: String::new(),
                    wall_ms: 1,
                }],
                usage: Usage::default(),
            },
            Task::Review { commit, .. } => EventKind::Reviewed {
                answers_open: false,
                lease,
                commit: commit.clone(),
                review: Box::new(self.review()),
                sandbox: String::new(),
                usage: dollars(REVIEW_COST),
            },
            Task::Verify {
                commit, findings, ..
            } => {
                let cost = if self.way.nods {
                    0
                } else {
                    VERIFY_COST * findings.len() as u64
                };
                EventKind::Verified {
                    lease,
                    commit: commit.clone(),
                    answers: findings.iter().map(|id| self.verify(id)).collect(),
                    usage: dollars(cost),
                }
            }
            Task::Merge { commit } => EventKind::Landed {
                lease,
                commit: commit.clone(),
                landed: commit.clone(),
                diff_id: String::new(),
                branch: "main".to_owned(),
                tip: None,
                usage: Usage::default(),
            },
            Task::Tell { .. } | Task::Report => return false,
        };
        self.decide(by, what)
    }

    /// Builds the whole change the first time. In a rework it repairs some of the requested defects
    /// and breaks a few other things.
    fn build(&mut self, lease: Lease) -> EventKind {
        let requested: Vec<(String, String)> = self
            .ticket
            .ledger
            .entries
            .iter()
            .filter(|entry| entry.status.is_open() && self.asks(entry))
            .map(|entry| (entry.id.clone(), entry.finding.title.clone()))
            .collect();
        let (mut reports, builder) = (Vec::new(), self.world.builder);
        for (id, title) in requested {
            let real = self.flaws.get(&title).is_some_and(|flaw| flaw.real);
            let present = self.flaws.get(&title).is_some_and(|flaw| flaw.present);
            let small = self
                .flaws
                .get(&title)
                .is_some_and(|flaw| flaw.finding.rating.severity == Severity::Low);
            let mut outcome = ReportedOutcome::Fixed;
            if !real && !small && self.chance.hits(builder.disputes) {
                outcome = ReportedOutcome::Disputed;
            } else {
                if present
                    && self.chance.hits(builder.repairs)
                    && let Some(flaw) = self.flaws.get_mut(&title)
                {
                    flaw.present = false;
                }
                let risk = if small {
                    builder.breaks / 4
                } else {
                    builder.breaks
                };
                if self.chance.hits(risk) {
                    self.flaw(Severity::High, true);
                }
            }
            reports.push(FindingReport {
                finding: id,
                outcome,
                note: String::new(),
            });
        }
        let cost = if self.commits == 0 {
            BUILD_COST
        } else {
            REWORK_COST
        };
        EventKind::Submitted {
            lease,
            submission: Box::new(self.submission(&[])),
            reports,
            session: None,
            usage: dollars(cost),
        }
    }

    /// Whether the rework brief asks the builder to fix the finding.
    fn asks(&self, entry: &LedgerEntry) -> bool {
        entry.is_must_fix(&self.way.policy)
    }

    fn submission(&mut self, authors: &[&str]) -> Submission {
        self.commits += 1;
        let name = self.commits;
        Submission {
            commit: format!("c{name}"),
            tree: format!("t{name}"),
            branch: "countersign/T".to_owned(),
            base: "base".to_owned(),
            base_tree: "base tree".to_owned(),
            diff_id: format!("d{name}"),
            signed_as: Vec::new(),
            authors: authors.iter().map(|author| (*author).to_owned()).collect(),
            files: vec!["src/a.rs".to_owned()],
            lines_changed: LINES,
            edition: flow::ticket::EDITION,
            ..Submission::default()
        }
    }

    fn review(&mut self) -> Review {
        let reviewer = self.world.reviewer;
        let titles: Vec<String> = self.flaws.keys().cloned().collect();
        let mut findings = Vec::new();
        for title in titles {
            let Some(flaw) = self.flaws.get(&title) else {
                continue;
            };
            let small = flaw.finding.rating.severity == Severity::Low;
            let (exists, rate) = (flaw.present && (flaw.real || small), flaw.seen);
            let finding = flaw.finding.clone();
            if exists && self.chance.hits(rate) {
                findings.push(finding);
            }
        }
        for _ in 0..self.chance.count(reviewer.false_alarms) {
            findings.push(self.flaw(Severity::High, false));
        }
        for _ in 0..self.chance.count(reviewer.fuss) {
            findings.push(self.flaw(Severity::Low, false));
        }
        let names_must_fix = findings
            .iter()
            .any(|finding| finding.rating.severity == Severity::High);
        let rejects = if self.way.zero {
            !findings.is_empty()
        } else if names_must_fix {
            !self.chance.hits(reviewer.soft)
        } else {
            !findings.is_empty() && self.chance.hits(reviewer.stern)
        };
        plain_review(rejects, findings)
    }

    fn verify(&mut self, id: &str) -> VerifierAnswer {
        let title = self
            .ticket
            .ledger
            .get(id)
            .map(|entry| entry.finding.title.clone());
        let flaw = title.and_then(|title| self.flaws.get(&title).cloned());
        let (verifier, chance) = (self.world.verifier, &mut self.chance);
        let outcome = match flaw {
            _ if self.way.nods => AnswerOutcome::Fixed,
            Some(flaw) if flaw.real && flaw.present => {
                if chance.hits(verifier.misses) {
                    AnswerOutcome::Refuted
                } else {
                    AnswerOutcome::Confirmed
                }
            }
            Some(flaw) if flaw.real => {
                if chance.hits(verifier.clears) {
                    AnswerOutcome::Fixed
                } else {
                    AnswerOutcome::Uncertain
                }
            }
            Some(_) | None => {
                if chance.hits(verifier.refutes) {
                    AnswerOutcome::Refuted
                } else {
                    AnswerOutcome::Uncertain
                }
            }
        };
        VerifierAnswer {
            finding: id.to_owned(),
            outcome,
            evidence: String::new(),
        }
    }

    fn settle(&mut self) -> bool {
        let rounds = u32::try_from(self.ticket.rounds.len()).unwrap_or(u32::MAX);
        let accept = Choice::Accept {
            over_red_checks: false,
        };
        let choice = match self.way.end {
            End::Person => {
                self.life.escalations += 1;
                if self.life.escalations > 1 {
                    accept
                } else {
                    Choice::TakeOver
                }
            }
            End::GoOn(most) if rounds < most => self.another_round(),
            End::Land | End::GoOn(_) if rounds < self.way.policy.max_rounds => Choice::Continue,
            End::Land | End::GoOn(_) => accept,
        };
        let why = "as this way has it".to_owned();
        // The person who took over built part of it, and an author cannot accept the change.
        let by = Actor::new("another person", Role::Human);
        self.decide(by, EventKind::Settled { choice, why })
    }

    fn another_round(&self) -> Choice {
        let escalation = self.ticket.escalation.as_ref();
        let reason = escalation.map(|escalation| &escalation.reason);
        let used_up = matches!(reason, Some(Reason::RoundsUsedUp { .. }));
        if used_up || self.ticket.counts.verdicts >= flow::policy::ROUNDS_HARD_CAP {
            Choice::Reset
        } else {
            Choice::Continue
        }
    }

    fn person_repairs(&mut self) {
        let recall = self.world.person.recall;
        for flaw in self.flaws.values_mut() {
            if flaw.present && self.chance.hits(recall) {
                flaw.present = false;
            }
        }
    }

    /// Adds a new flaw, real or alleged.
    fn flaw(&mut self, severity: Severity, real: bool) -> Finding {
        let title = self.names.words(5);
        let finding = Finding {
            problem: Some(self.names.words(8)),
            file: Some(format!("src/{}.rs", self.names.words(1))),
            ..Finding::new(&title, severity.into())
        };
        let spread = 2 * RECALL_SPREAD;
        let seen =
            (self.world.reviewer.recall + self.names.up_to(spread)).saturating_sub(RECALL_SPREAD);
        let flaw = Flaw {
            finding: finding.clone(),
            real,
            present: true,
            seen,
        };
        self.flaws.insert(title, flaw);
        finding
    }

    fn end(mut self) -> Life {
        self.life.landed = self.ticket.stage == Stage::Done;
        self.life.open_defects = self
            .flaws
            .values()
            .filter(|flaw| flaw.real && flaw.present)
            .count();
        self.life.builds = self.commits;
        self.life.rounds = self.ticket.rounds.len();
        self.life.cost = self.ticket.spent.ticket.usd_micros;
        self.life
    }
}

fn person() -> Actor {
    Actor::new("person", Role::Human)
}

fn worker(task: &Task, serial: u32) -> Actor {
    match task {
        Task::Build { .. } => Actor::new("builder", Role::Builder),
        Task::Review { .. } => Actor::new(&format!("reviewer-{serial}"), Role::Reviewer),
        Task::Verify { .. } => Actor::new(&format!("verifier-{serial}"), Role::Verifier),
        Task::Check { .. } | Task::Merge { .. } | Task::Tell { .. } | Task::Report => {
            Actor::new("house", Role::Service)
        }
    }
}

fn plain_review(rejects: bool, findings: Vec<Finding>) -> Review {
    let claim = if rejects {
        ReviewClaim::ChangesRequested
    } else {
        ReviewClaim::Approved
    };
    Review::new(claim, findings)
}

/// Sums over many tickets.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    tickets: u64,
    landed: u64,
    bad: u64,
    rounds: u64,
    builds: u64,
    cost: u64,
    escalated: u64,
}

impl Sums {
    pub fn add(&mut self, life: &Life) {
        self.tickets += 1;
        self.landed += u64::from(life.landed);
        self.bad += u64::from(life.landed && life.open_defects > 0);
        self.rounds += life.rounds as u64;
        self.builds += u64::from(life.builds);
        self.cost += life.cost;
        self.escalated += u64::from(life.escalations > 0);
    }

    pub fn head() -> String {
        "| way | landed | with a true must-fix open | paid rounds | submissions | cost | escalated |\n|---|---|---|---|---|---|---|"
            .to_owned()
    }

    fn hundredths(&self, part: u64) -> u64 {
        part * 100 / self.tickets.max(1)
    }

    fn per_mille(&self, part: u64) -> u64 {
        part * 1000 / self.tickets.max(1)
    }
}

/// Formats one line of the table: the mean over all seeds, with the minimum and the maximum.
pub fn row(name: &str, seeds: &[Sums]) -> String {
    let percent = |n: u64| format!("{}.{} %", n / 10, n % 10);
    let plain = |n: u64| format!("{}.{:02}", n / 100, n % 100);
    let money = |n: u64| format!("${}", plain(n));
    let over = |of: &dyn Fn(&Sums) -> u64, write: &dyn Fn(u64) -> String| {
        let all: Vec<u64> = seeds.iter().map(of).collect();
        let (least, most) = (all.iter().min(), all.iter().max());
        let mean = write(all.iter().sum::<u64>() / all.len().max(1) as u64);
        match (least, most) {
            (Some(least), Some(most)) if least != most => {
                format!("{mean} ({} – {})", write(*least), write(*most))
            }
            _ => mean,
        }
    };
    let cells = [
        over(&|one| one.per_mille(one.landed), &percent),
        over(&|one| one.per_mille(one.bad), &percent),
        over(&|one| one.hundredths(one.rounds), &plain),
        over(&|one| one.hundredths(one.builds), &plain),
        over(&|one| one.hundredths(one.cost / 1_000_000), &money),
        over(&|one| one.per_mille(one.escalated), &percent),
    ];
    format!("| {name} | {} |", cells.join(" | "))
}
