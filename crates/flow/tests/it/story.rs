//! Test tickets that reach every stage by real events.

use std::collections::BTreeSet;

use findings::{DimensionScore, Finding, Rating, Review, ReviewClaim, Severity};
use flow::event::{AnswerOutcome, Choice, Lease, VerifierAnswer};
use flow::job::OpenJob;
use flow::ticket::{CheckOutcome, CheckResult, EDITION, Spec, Submission};
use flow::{
    Actor, Effect, Event, EventKind, Policy, Refused, Role, Stage, Ticket, TicketId, Time, Usage,
    advance, open_ticket,
};

pub fn builder() -> Actor {
    Actor::new("bob", Role::Builder)
}

pub fn reviewer() -> Actor {
    Actor::new("rita", Role::Reviewer)
}

pub fn verifier() -> Actor {
    Actor::new("vera", Role::Verifier)
}

pub fn human() -> Actor {
    Actor::new("hugo", Role::Human)
}

pub fn house() -> Actor {
    Actor::new("house", Role::Service)
}

/// Another agent of the builder's principal.
pub fn alias(role: Role) -> Actor {
    Actor {
        agent: format!("bobs-{}", role.as_str()),
        principal: "bob".to_owned(),
        role,
        family: None,
        written: None,
        model: None,
    }
}

/// The actor that works on a queue.
pub fn worker(queue: &str) -> Actor {
    match queue {
        "build" => builder(),
        "review" => reviewer(),
        "verify" => verifier(),
        _ => house(),
    }
}

pub fn id(text: &str) -> TicketId {
    TicketId::new(text).unwrap()
}

pub fn ids(names: &[&str]) -> BTreeSet<TicketId> {
    names.iter().map(|name| id(name)).collect()
}

pub fn created(depends_on: &[&str]) -> EventKind {
    EventKind::Created {
        spec: Box::new(Spec {
            title: "Greet by name".to_owned(),
            depends_on: ids(depends_on),
            ..Spec::default()
        }),
        met: BTreeSet::new(),
        failed: Vec::new(),
    }
}

pub fn submission(commit: &str) -> Submission {
    Submission {
        commit: commit.to_owned(),
        tree: format!("tree of {commit}"),
        branch: "countersign/t".to_owned(),
        base: "base".to_owned(),
        base_tree: "tree of base".to_owned(),
        diff_id: format!("diff of {commit}"),
        signed_as: Vec::new(),
        authors: BTreeSet::from(["bob".to_owned()]),
        files: vec!["src/greet.rs".to_owned()],
        edition: EDITION,
        ..Submission::default()
    }
}

pub fn submitted(lease: Lease, commit: &str) -> EventKind {
    EventKind::Submitted {
        lease,
        submission: Box::new(submission(commit)),
        reports: Vec::new(),
        session: None,
        usage: Usage::default(),
    }
}

pub fn check(outcome: CheckOutcome) -> CheckResult {
    CheckResult {
        name: "test".to_owned(),
        outcome,
        tail: "the end of its output".to_owned(),
        wall_ms: 10,
    }
}

pub fn finding(title: &str, severity: Severity) -> Finding {
    let rating = Rating {
        raw: Some(severity.word().to_owned()),
        ..severity.into()
    };
    Finding {
        problem: Some(format!("{title}, at length")),
        file: Some("src/greet.rs".to_owned()),
        ..Finding::new(title, rating)
    }
}

pub fn review(claim: ReviewClaim, findings: &[Finding]) -> Review {
    Review::new(claim, findings.to_vec())
}

pub fn approves() -> Review {
    review(ReviewClaim::Approved, &[])
}

/// Returns a rejection with one high finding for each title.
pub fn rejects(titles: &[&str]) -> Review {
    let findings: Vec<Finding> = titles
        .iter()
        .map(|title| finding(title, Severity::High))
        .collect();
    review(ReviewClaim::ChangesRequested, &findings)
}

pub fn scores(given: &[(&str, u8)]) -> Review {
    let scores = given
        .iter()
        .map(|(name, score)| {
            (
                (*name).to_owned(),
                DimensionScore {
                    score: *score,
                    weight: None,
                },
            )
        })
        .collect();
    Review {
        scores,
        ..approves()
    }
}

pub fn dollars(usd: u64) -> Usage {
    Usage {
        usd_micros: usd * 1_000_000,
        ..Usage::default()
    }
}

pub fn settled(choice: Choice) -> EventKind {
    EventKind::Settled {
        choice,
        why: "I have looked at it".to_owned(),
    }
}

pub fn accept() -> EventKind {
    settled(Choice::Accept {
        over_red_checks: false,
    })
}

/// One ticket under one policy.
#[derive(Clone, Debug)]
pub struct Story {
    pub ticket: Ticket,
    pub policy: Policy,
    pub log: Vec<Event>,
    /// Effects of the last accepted event.
    pub effects: Vec<Effect>,
}

impl Story {
    pub fn under(policy: Policy) -> Self {
        Self::created(policy, created(&[])).unwrap()
    }

    pub fn created(policy: Policy, what: EventKind) -> Result<Self, Refused> {
        let event = event_at(0, &human(), what);
        let step = open_ticket(&id("t"), &event, &policy)?;
        Ok(Self {
            ticket: step.ticket,
            policy,
            log: vec![event],
            effects: step.effects,
        })
    }

    pub fn begin() -> Self {
        Self::under(Policy::default())
    }

    pub fn stage(&self) -> Stage {
        self.ticket.stage
    }

    pub fn event(&self, by: &Actor, what: EventKind) -> Event {
        let now = i64::try_from(self.log.len()).unwrap() * 1_000;
        event_at(now, by, what)
    }

    pub fn attempt(&mut self, by: &Actor, what: EventKind) -> Result<(), Refused> {
        self.take(self.event(by, what))
    }

    pub fn take(&mut self, event: Event) -> Result<(), Refused> {
        let step = advance(&self.ticket, &event, &self.policy)?;
        self.ticket = step.ticket;
        self.effects = step.effects;
        self.log.push(event);
        Ok(())
    }

    /// Applies an event that must be accepted.
    #[track_caller]
    pub fn tell(&mut self, by: &Actor, what: EventKind) -> &mut Self {
        let name = what.name();
        if let Err(refused) = self.attempt(by, what) {
            panic!("{name} was refused: {refused}");
        }
        self
    }

    /// Applies an event that must be refused, and returns the reason.
    #[track_caller]
    pub fn refused(&self, by: &Actor, what: EventKind) -> Refused {
        let event = self.event(by, what);
        match advance(&self.ticket, &event, &self.policy) {
            Ok(step) => panic!(
                "{} led to {} instead of a refusal",
                event.what.name(),
                step.ticket.stage
            ),
            Err(refused) => refused,
        }
    }

    #[track_caller]
    pub fn job(&self, queue: &str) -> OpenJob {
        let job = self.ticket.jobs.iter().find(|job| {
            job.task.word() == queue && (job.holder.is_none() || self.jobs(queue) == 1)
        });
        job.cloned()
            .unwrap_or_else(|| panic!("no {queue} job is open while {}", self.stage()))
    }

    pub fn jobs(&self, queue: &str) -> usize {
        let jobs = self.ticket.jobs.iter();
        jobs.filter(|job| job.task.word() == queue).count()
    }

    /// Starts the queue's first free job.
    #[track_caller]
    pub fn start(&mut self, queue: &str, by: &Actor) -> Lease {
        let job = self.job(queue);
        let lease = Lease {
            serial: job.serial,
            fence: job.fence + 1,
        };
        self.tell(by, EventKind::Started { lease });
        lease
    }

    #[track_caller]
    pub fn built(&mut self, commit: &str) -> &mut Self {
        let lease = self.start("build", &builder());
        self.tell(&builder(), submitted(lease, commit))
    }

    #[track_caller]
    pub fn checked(&mut self, outcome: CheckOutcome) -> &mut Self {
        let lease = self.start("check", &house());
        let commit = self.commit();
        let what = EventKind::Checked {
            lease,
            commit,
            results: vec![check(outcome)],
            usage: Usage::default(),
        };
        self.tell(&house(), what)
    }

    #[track_caller]
    pub fn green(&mut self) -> &mut Self {
        self.checked(CheckOutcome::Passed)
    }

    #[track_caller]
    pub fn reviewed(&mut self, review: Review) -> &mut Self {
        self.reviewed_by(&reviewer(), review)
    }

    #[track_caller]
    pub fn reviewed_by(&mut self, by: &Actor, review: Review) -> &mut Self {
        let lease = self.start("review", by);
        self.tell(by, self.review_report(lease, review))
    }

    pub fn review_report(&self, lease: Lease, review: Review) -> EventKind {
        EventKind::Reviewed {
            answers_open: false,
            lease,
            commit: self.commit(),
            review: Box::new(review),
            sandbox: "read-only mount".to_owned(),
            usage: Usage::default(),
        }
    }

    /// The verifier answers on every finding with the same outcome.
    #[track_caller]
    pub fn verified(&mut self, outcome: AnswerOutcome) -> &mut Self {
        let asked: Vec<String> = self
            .ticket
            .ledger
            .entries
            .iter()
            .map(|e| e.id.clone())
            .collect();
        let lease = self.start("verify", &verifier());
        let answers = asked.iter().map(|id| answer(id, outcome)).collect();
        let what = EventKind::Verified {
            lease,
            commit: self.commit(),
            answers,
            usage: Usage::default(),
        };
        self.tell(&verifier(), what)
    }

    /// The verifier gives one answer for each finding of the ledger, in its order.
    #[track_caller]
    pub fn verified_each(&mut self, outcomes: &[AnswerOutcome]) -> &mut Self {
        let entries = self.ticket.ledger.entries.iter().zip(outcomes);
        let answers = entries
            .map(|(e, outcome)| answer(&e.id, *outcome))
            .collect();
        let lease = self.start("verify", &verifier());
        let what = EventKind::Verified {
            lease,
            commit: self.commit(),
            answers,
            usage: Usage::default(),
        };
        self.tell(&verifier(), what)
    }

    pub fn commit(&self) -> String {
        let put = self.ticket.submission.as_ref();
        put.map(|put| put.commit.clone()).unwrap_or_default()
    }

    /// Plays a round: the reviewer rejects, and the verifier confirms earlier findings.
    #[track_caller]
    pub fn rejected_round(&mut self, commit: &str, titles: &[&str]) -> &mut Self {
        self.built(commit).green();
        if self.jobs("verify") > 0 {
            self.verified(AnswerOutcome::Confirmed);
        }
        self.reviewed(rejects(titles))
    }

    #[track_caller]
    pub fn merge_started(&mut self) -> Lease {
        self.start("merge", &house())
    }

    pub fn landing(&self, lease: Lease, landed: &str, diff_id: &str) -> EventKind {
        EventKind::Landed {
            lease,
            commit: self.commit(),
            landed: landed.to_owned(),
            diff_id: diff_id.to_owned(),
            branch: "main".to_owned(),
            tip: Some("tip".to_owned()),
            usage: Usage::default(),
        }
    }

    /// Returns a story that reached `stage` by events alone. No worker holds a job of it.
    pub fn at(stage: Stage, policy: &Policy) -> Self {
        let depends: &[&str] = match stage {
            Stage::Pending => &["first", "second"],
            _ => &[],
        };
        let mut story = Self::created(policy.clone(), created(depends)).unwrap();
        match stage {
            Stage::Pending | Stage::Queued => {}
            Stage::Building => {
                story.start("build", &builder());
            }
            Stage::Checking => {
                story.built("c1");
            }
            Stage::Reviewing => {
                story.built("c1").green();
            }
            Stage::Rework => {
                story.rejected_round("c1", &["Names are not escaped"]);
            }
            Stage::Approved => {
                story.built("c1").green().reviewed(approves());
            }
            Stage::Merging => {
                story.built("c1").green().reviewed(approves());
                story.merge_started();
            }
            Stage::Escalated => {
                story.rejected_round("c1", &["Names are not escaped"]);
                let limit = "the day's money".to_owned();
                story.tell(&house(), EventKind::BudgetReached { limit });
            }
            Stage::Blocked => {
                story = Self::at(Stage::Escalated, policy);
                story.tell(&human(), settled(Choice::TakeOver));
            }
            Stage::Done => {
                story = Self::at(Stage::Merging, policy);
                let lease = held(&story, "merge");
                story.tell(&house(), story.landing(lease, "c1", "diff of c1"));
            }
            Stage::Failed => {
                story = Self::at(Stage::Escalated, policy);
                story.tell(&human(), settled(Choice::Reject));
            }
            Stage::Cancelled => {
                let why = "not wanted any more".to_owned();
                story.tell(&human(), EventKind::Cancelled { why });
            }
        }
        assert_eq!(story.stage(), stage, "the story must end where it was sent");
        story
    }
}

/// Returns the lease of the queue's job.
pub fn held(story: &Story, queue: &str) -> Lease {
    let job = story.job(queue);
    Lease {
        serial: job.serial,
        fence: job.fence,
    }
}

pub fn answer(finding: &str, outcome: AnswerOutcome) -> VerifierAnswer {
    VerifierAnswer {
        finding: finding.to_owned(),
        outcome,
        evidence: "seen in the code".to_owned(),
    }
}

fn event_at(now: i64, by: &Actor, what: EventKind) -> Event {
    Event {
        at: Time(now),
        by: by.clone(),
        expects: None,
        what,
    }
}
