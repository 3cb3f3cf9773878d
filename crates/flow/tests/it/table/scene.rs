//! Tickets in every stage, and every event in its realistic forms.

use std::collections::BTreeSet;

use findings::{ReviewClaim, Severity};
use flow::event::{AnswerOutcome, Choice, Failure, Lease};
use flow::policy::{Fallback, Land, OnExhausted, ProtectedChange, ReviewMode, VerifyNewFindings};
use flow::ticket::{ChangeConflict, ChangeObservation, ChangePhase, CheckOutcome, Submission};
use flow::usage::{Budget, Caps};
use flow::{Actor, EventKind, Policy, Role, Stage, Time, Usage};

use crate::story::{
    Story, answer, approves, builder, check, created, dollars, finding, house, human, id, ids,
    rejects, review, settled, submission, worker,
};

pub const EVENTS: [&str; 29] = [
    "created",
    "dependency_met",
    "dependency_failed",
    "dependency_repaired",
    "dependencies_set",
    "started",
    "base_red",
    "submitted",
    "checked",
    "reviewed",
    "review_unusable",
    "verified",
    "landed",
    "conflicted",
    "combination_red",
    "went_stale",
    "job_failed",
    "lease_lost",
    "agent_out",
    "help_requested",
    "budget_reached",
    "budget_raised",
    "waived",
    "findings_added",
    "change_observed",
    "report_requested",
    "settled",
    "resubmitted",
    "cancelled",
];

/// Policies that differ somewhere in the table.
fn policies() -> Vec<Policy> {
    let standard = Policy::default();
    let mut strict = Policy {
        on_exhausted: OnExhausted::Fail,
        max_rounds: 1,
        protected_change: ProtectedChange::Forbid,
        ..standard.clone()
    };
    strict.limits.retries_max = 0;
    let mut impatient = Policy {
        max_rounds: 1,
        ..standard.clone()
    };
    impatient.limits.retries_max = 0;
    impatient.limits.red_checks_max = 0;
    impatient.limits.conflicts_max = 0;
    impatient.limits.stale_max = 0;
    impatient.limits.unusable_reviews_max = 0;
    let a_dollar = Caps {
        usd_micros: Some(1_000_000),
        ..Caps::default()
    };
    let poor = Policy {
        budget: Budget {
            ticket: a_dollar,
            ..Budget::default()
        },
        ..standard.clone()
    };
    vec![
        Policy {
            review: ReviewMode::None,
            ..standard.clone()
        },
        Policy {
            review: ReviewMode::None,
            land: Land::Branch,
            ..standard.clone()
        },
        Policy {
            land: Land::Branch,
            verify: VerifyNewFindings::MustFix,
            ..standard.clone()
        },
        Policy {
            protected_change: ProtectedChange::Forbid,
            ..standard.clone()
        },
        strict,
        impatient,
        poor,
        standard,
    ]
}

/// Returns stories that lead to `stage`.
pub fn scenes(stage: Stage) -> Vec<Story> {
    let standard = Policy::default();
    let mut lives = vec![Story::at(stage, &standard)];
    if stage == Stage::Pending {
        lives.push(Story::created(standard.clone(), created(&["first"])).unwrap());
    }
    if stage == Stage::Escalated {
        lives.extend(escalations());
    }
    if stage == Stage::Blocked {
        let mut blocked = Story::created(standard.clone(), created(&["first"])).unwrap();
        blocked.tell(&house(), failed_dependency("first"));
        lives.push(blocked);
    }
    if stage == Stage::Building || stage == Stage::Reviewing {
        let mut second = Story::begin();
        second.rejected_round("c0", &["Names are not escaped"]);
        if stage == Stage::Building {
            second.start("build", &builder());
        } else {
            second.built("c1").green();
        }
        lives.push(second.clone());
        if stage == Stage::Reviewing {
            second.reviewed(approves());
            lives.push(second);
        }
    }
    lives.extend(with_a_past(stage));
    lives
        .iter()
        .flat_map(|life| {
            policies().into_iter().map(|policy| Story {
                policy,
                ..life.clone()
            })
        })
        .collect()
}

/// Returns a ticket that waited for another one, was approved with a minor finding open, and then
/// moved on to `stage`.
fn with_a_past(stage: Stage) -> Option<Story> {
    let mut story = Story::created(Policy::default(), created(&["first"])).unwrap();
    let ticket = id("first");
    story.tell(&house(), EventKind::DependencyMet { ticket });
    let low = finding("A comment is missing", Severity::Low);
    story.built("c1").green();
    story.reviewed(review(ReviewClaim::Approved, &[low]));
    let limit = "the day's money".to_owned();
    let overtaken = EventKind::WentStale {
        submission: Box::new(submission("c2")),
        why: "somebody pushed".to_owned(),
        lease: None,
    };
    match stage {
        Stage::Approved => {}
        Stage::Merging => {
            story.merge_started();
        }
        Stage::Checking => {
            story.tell(&house(), overtaken);
        }
        Stage::Reviewing => {
            story.tell(&house(), overtaken).green();
        }
        Stage::Rework => {
            story.tell(&house(), overtaken).green();
            story.reviewed(rejects(&["The end is cut"]));
        }
        Stage::Escalated => {
            story.tell(&house(), EventKind::BudgetReached { limit });
        }
        Stage::Queued | Stage::Building => {
            story.tell(&house(), EventKind::BudgetReached { limit });
            story.tell(&human(), settled(Choice::Reset));
            if stage == Stage::Building {
                story.start("build", &builder());
            }
        }
        Stage::Pending | Stage::Blocked | Stage::Done | Stage::Failed | Stage::Cancelled => {
            return None;
        }
    }
    Some(story)
}

/// Escalated from each stage, by the day's budget, and by used-up rounds and red checks.
fn escalations() -> Vec<Story> {
    let from = [
        Stage::Queued,
        Stage::Checking,
        Stage::Reviewing,
        Stage::Merging,
    ];
    let mut lives: Vec<Story> = from
        .into_iter()
        .map(|stage| {
            let mut story = Story::at(stage, &Policy::default());
            let limit = "the day's money".to_owned();
            story.tell(&house(), EventKind::BudgetReached { limit });
            story
        })
        .collect();
    let mut rounds = Story::under(Policy {
        max_rounds: 1,
        ..Policy::default()
    });
    rounds.rejected_round("c1", &["Names are not escaped"]);
    lives.push(rounds);
    let mut red = Story::begin();
    for n in 0..=red.policy.limits.red_checks_max {
        red.built(&format!("c{n}")).checked(CheckOutcome::Failed);
    }
    lives.push(red);
    let mut impatient = Story::created(Policy::default(), created(&["first"])).unwrap();
    let ticket = id("first");
    impatient.tell(&house(), EventKind::DependencyMet { ticket });
    impatient.tell(&house(), failed_dependency("first"));
    lives.push(impatient);
    lives
}

fn failed_dependency(name: &str) -> EventKind {
    EventKind::DependencyFailed {
        ticket: id(name),
        why: "its tests never passed".to_owned(),
    }
}

/// Returns the event `name` in all its forms, each with its story and its actor.
pub fn variants(story: &Story, name: &str) -> Vec<(Story, Actor, EventKind)> {
    if let Some(of_a_job) = job_events(story, name) {
        return of_a_job;
    }
    let by = match name {
        "created" | "dependencies_set" | "budget_raised" | "waived" | "settled" | "resubmitted"
        | "cancelled" => human(),
        "help_requested" => return help(story),
        "agent_out" => return out(story),
        "findings_added" => return comments(story),
        "change_observed" | "report_requested" => return looks(story, name),
        _ => house(),
    };
    plain_events(name)
        .into_iter()
        .map(|what| (story.clone(), by.clone(), what))
        .collect()
}

fn help(story: &Story) -> Vec<(Story, Actor, EventKind)> {
    let why = "which greeting?".to_owned();
    let mut at_work = story.clone();
    let by = if story.stage() == Stage::Reviewing {
        let queue = story.ticket.jobs[0].task.word();
        at_work.start(queue, &worker(queue));
        worker(queue)
    } else {
        builder()
    };
    vec![(at_work, by, EventKind::HelpRequested { why, lease: None })]
}

/// A person's findings of both weights on the current commit, and one on another commit.
fn comments(story: &Story) -> Vec<(Story, Actor, EventKind)> {
    let submission = story.ticket.submission.as_ref();
    let current = submission.map_or("c1", |submission| &submission.commit);
    [(current, true), (current, false), ("another", true)]
        .map(|(commit, must_fix)| {
            let what = EventKind::FindingsAdded {
                commit: commit.to_owned(),
                findings: vec![finding("A person's finding", Severity::Medium)],
                must_fix,
                comments: Vec::new(),
            };
            (story.clone(), human(), what)
        })
        .to_vec()
}

/// Looks at a pull request in every state that decides something.
fn looks(story: &Story, name: &str) -> Vec<(Story, Actor, EventKind)> {
    let mut story = story.clone();
    story.policy.land = Land::Pr;
    let by = house();
    if name == "report_requested" {
        let why = "a webhook".to_owned();
        return vec![(story, by, EventKind::ReportRequested { why })];
    }
    let commit = story.ticket.submission.as_ref();
    let commit = commit.map_or("c1".to_owned(), |one| one.commit.clone());
    let open = seen(&commit, ChangePhase::Open);
    let looks = [
        open.clone(),
        seen(&commit, ChangePhase::Merged),
        seen("another", ChangePhase::Merged),
        seen(&commit, ChangePhase::Closed),
        ChangeObservation {
            foreign_head: Some("another".to_owned()),
            ..open.clone()
        },
        ChangeObservation {
            red: vec![check(CheckOutcome::Failed)],
            ..open.clone()
        },
        ChangeObservation {
            conflict: Some(ChangeConflict {
                files: vec!["greet.py".to_owned()],
                evidence: "both changed it".to_owned(),
            }),
            ..open
        },
    ];
    let event = |seen: ChangeObservation| EventKind::ChangeObserved {
        seen: Box::new(seen),
    };
    let looks = looks.map(|seen| (story.clone(), by.clone(), event(seen)));
    looks.to_vec()
}

pub fn seen(head: &str, phase: ChangePhase) -> ChangeObservation {
    ChangeObservation {
        number: 7,
        url: "https://forge.example/o/r/pull/7".to_owned(),
        phase,
        head: head.to_owned(),
        draft: false,
        waits_for: String::new(),
        base_tip: None,
        foreign_head: None,
        red: Vec::new(),
        conflict: None,
    }
}

/// Stories with a fallback agent and without one.
fn out(story: &Story) -> Vec<(Story, Actor, EventKind)> {
    let mut with_another = story.clone();
    let name = Some("another".to_owned());
    with_another.policy.fallback = Fallback {
        build: name.clone(),
        review: name.clone(),
        verify: name,
    };
    let serial = story.ticket.jobs.first().map_or(1, |job| job.serial);
    let why = "oak is out of quota".to_owned();
    let what = EventKind::AgentOut { serial, why };
    vec![
        (with_another, house(), what.clone()),
        (story.clone(), house(), what),
    ]
}

fn plain_events(name: &str) -> Vec<EventKind> {
    let why = "because".to_owned();
    let put = Box::new(submission("c2"));
    let same_tree = Box::new(Submission {
        commit: "c2".to_owned(),
        ..submission("c1")
    });
    let protected = Box::new(Submission {
        protected: vec!["ci.yml".to_owned()],
        ..submission("c2")
    });
    match name {
        "created" => vec![created(&[])],
        "dependency_met" => ["first", "other"]
            .map(|name| EventKind::DependencyMet { ticket: id(name) })
            .to_vec(),
        "dependency_failed" => vec![failed_dependency("first"), failed_dependency("other")],
        "dependency_repaired" => ["first", "other"]
            .map(|name| EventKind::DependencyRepaired { ticket: id(name) })
            .to_vec(),
        "dependencies_set" => [
            (ids(&[]), BTreeSet::new(), Vec::new()),
            (ids(&["x"]), BTreeSet::new(), Vec::new()),
            (
                ids(&["x"]),
                BTreeSet::new(),
                vec![(id("x"), "gone".to_owned())],
            ),
            (ids(&["t"]), BTreeSet::new(), Vec::new()),
        ]
        .map(|(depends_on, met, failed)| EventKind::DependenciesSet {
            depends_on,
            met,
            failed,
            why: why.clone(),
        })
        .to_vec(),
        "went_stale" => [put, same_tree, protected, Box::default()]
            .map(|submission| EventKind::WentStale {
                submission,
                why: why.clone(),
                lease: None,
            })
            .to_vec(),
        "budget_reached" => vec![EventKind::BudgetReached { limit: why }],
        "budget_raised" => vec![EventKind::BudgetRaised {
            budget: Budget::default(),
            why,
        }],
        "waived" => ["F1", "F7"]
            .map(|finding| EventKind::Waived {
                finding: finding.to_owned(),
                why: why.clone(),
            })
            .to_vec(),
        "settled" => choices().into_iter().map(settled).collect(),
        "resubmitted" => [put, protected, Box::default()]
            .map(|submission| EventKind::Resubmitted { submission })
            .to_vec(),
        "cancelled" => vec![EventKind::Cancelled { why }],
        _ => unreachable!("{name} is a job's report"),
    }
}

fn choices() -> Vec<Choice> {
    let name = |name: &str| Some(name.to_owned());
    vec![
        Choice::Accept {
            over_red_checks: false,
        },
        Choice::Accept {
            over_red_checks: true,
        },
        Choice::Continue,
        Choice::TakeOver,
        Choice::Reset,
        Choice::Reassign {
            builder: name("betty"),
            reviewer: None,
        },
        Choice::Reassign {
            builder: None,
            reviewer: name("ruth"),
        },
        Choice::Reject,
    ]
}

/// Returns the queues whose jobs report the event, or nothing if it is not a job's report.
fn queues(name: &str) -> &'static [&'static str] {
    match name {
        "started" | "job_failed" | "lease_lost" => &["build", "check", "review", "verify", "merge"],
        "base_red" | "submitted" => &["build"],
        "checked" => &["check"],
        "reviewed" | "review_unusable" => &["review"],
        "verified" => &["verify"],
        "landed" | "conflicted" | "combination_red" => &["merge"],
        _ => &[],
    }
}

/// Returns whether Countersign itself reports the event for the holder of the job.
fn is_of_the_system(name: &str) -> bool {
    matches!(name, "lease_lost" | "base_red")
}

/// Returns a job's reports from every open job that can make them, or else from a job that does not
/// exist.
fn job_events(story: &Story, name: &str) -> Option<Vec<(Story, Actor, EventKind)>> {
    let queues = queues(name);
    if queues.is_empty() {
        return None;
    }
    let mut reports = Vec::new();
    for queue in queues.iter().filter(|queue| story.jobs(queue) > 0) {
        let by = if is_of_the_system(name) {
            house()
        } else {
            worker(queue)
        };
        for (story, lease) in leases(story, queue, name) {
            let whats = lease_events(&story, name, lease);
            let told = whats
                .into_iter()
                .map(|what| (story.clone(), by.clone(), what));
            reports.extend(told);
        }
    }
    if reports.is_empty() {
        let gone = Lease {
            serial: 99,
            fence: 1,
        };
        let by = worker(queues.first().copied().unwrap_or_default());
        let by = if is_of_the_system(name) { house() } else { by };
        let whats = lease_events(story, name, gone);
        reports.extend(
            whats
                .into_iter()
                .map(|what| (story.clone(), by.clone(), what)),
        );
    }
    Some(reports)
}

/// Returns live leases of the queue's job. It also starts the job if that keeps the stage.
fn leases(story: &Story, queue: &str, name: &str) -> Vec<(Story, Lease)> {
    let job = story.job(queue);
    let next = Lease {
        serial: job.serial,
        fence: job.fence + 1,
    };
    let current = Lease {
        fence: job.fence,
        ..next
    };
    match (job.holder.is_some(), name) {
        (_, "started") => vec![(story.clone(), next)],
        (true, _) => vec![(story.clone(), current)],
        (false, _) => {
            let mut found = Vec::new();
            if matches!(name, "job_failed" | "lease_lost") {
                found.push((story.clone(), next));
            }
            if matches!(story.stage(), Stage::Checking | Stage::Reviewing) {
                let mut taken = story.clone();
                taken.start(queue, &worker(queue));
                found.push((taken, next));
            }
            if found.is_empty() {
                found.push((story.clone(), next));
            }
            found
        }
    }
}

fn lease_events(story: &Story, name: &str, lease: Lease) -> Vec<EventKind> {
    let (commit, usage) = (story.commit(), Usage::default());
    let why = "because".to_owned();
    match name {
        "started" => vec![EventKind::Started { lease }],
        "base_red" => vec![EventKind::BaseRed {
            lease,
            base: "b1".to_owned(),
            results: vec![check(CheckOutcome::Failed)],
            hint: String::new(),
            usage,
        }],
        "submitted" => submissions(lease),
        "checked" => {
            let outcomes = [
                CheckOutcome::Passed,
                CheckOutcome::Failed,
                CheckOutcome::TimedOut,
                CheckOutcome::RedOnBase,
            ];
            outcomes
                .map(|outcome| EventKind::Checked {
                    lease,
                    commit: commit.clone(),
                    results: vec![check(outcome)],
                    usage,
                })
                .to_vec()
        }
        "reviewed" => reviews(story, lease),
        "review_unusable" => vec![EventKind::ReviewUnusable { lease, why, usage }],
        "verified" => [
            AnswerOutcome::Fixed,
            AnswerOutcome::Confirmed,
            AnswerOutcome::Refuted,
        ]
        .map(|outcome| EventKind::Verified {
            lease,
            commit: commit.clone(),
            answers: vec![answer("F1", outcome)],
            usage,
        })
        .to_vec(),
        "landed" => vec![
            story.landing(lease, "c1", "diff of c1"),
            story.landing(lease, "c9", "diff of c9"),
        ],
        "conflicted" => vec![EventKind::Conflicted {
            lease,
            files: Vec::new(),
            evidence: why,
            usage,
        }],
        "combination_red" => vec![EventKind::CombinationRed {
            lease,
            results: vec![check(CheckOutcome::Failed)],
            usage,
        }],
        "job_failed" => [
            (Failure::Transient, usage),
            (Failure::Transient, dollars(2)),
            (Failure::Permanent, usage),
            (Failure::Quota { until: Time(9) }, usage),
            (Failure::Deferred { until: Time(9) }, usage),
            (Failure::Budget, usage),
        ]
        .map(|(failure, usage)| EventKind::JobFailed {
            lease,
            failure,
            message: why.clone(),
            usage,
        })
        .to_vec(),
        "lease_lost" => vec![EventKind::LeaseLost { lease }],
        _ => unreachable!("{name} is no job's report"),
    }
}

fn submissions(lease: Lease) -> Vec<EventKind> {
    let protected = Submission {
        protected: vec!["ci.yml".to_owned()],
        ..submission("c1")
    };
    [submission("c1"), protected, Submission::default()]
        .map(|submission| EventKind::Submitted {
            lease,
            submission: Box::new(submission),
            reports: Vec::new(),
            session: None,
            usage: dollars(2),
        })
        .to_vec()
}

fn reviews(story: &Story, lease: Lease) -> Vec<EventKind> {
    let low = finding("A comment is missing", Severity::Low);
    [
        approves(),
        rejects(&["The end is cut"]),
        review(ReviewClaim::ChangesRequested, &[low]),
        review(ReviewClaim::Unknown, &[]),
    ]
    .map(|review| story.review_report(lease, review))
    .to_vec()
}

/// Returns the lease inside a job's report.
pub fn lease_of(what: &mut EventKind) -> Option<&mut Lease> {
    match what {
        EventKind::Started { lease }
        | EventKind::BaseRed { lease, .. }
        | EventKind::Submitted { lease, .. }
        | EventKind::Checked { lease, .. }
        | EventKind::Reviewed { lease, .. }
        | EventKind::ReviewUnusable { lease, .. }
        | EventKind::Verified { lease, .. }
        | EventKind::Landed { lease, .. }
        | EventKind::Conflicted { lease, .. }
        | EventKind::CombinationRed { lease, .. }
        | EventKind::JobFailed { lease, .. }
        | EventKind::LeaseLost { lease } => Some(lease),
        EventKind::Created { .. }
        | EventKind::DependencyMet { .. }
        | EventKind::DependencyFailed { .. }
        | EventKind::DependencyRepaired { .. }
        | EventKind::DependenciesSet { .. }
        | EventKind::WentStale { .. }
        | EventKind::AgentOut { .. }
        | EventKind::HelpRequested { .. }
        | EventKind::BudgetReached { .. }
        | EventKind::BudgetRaised { .. }
        | EventKind::Waived { .. }
        | EventKind::FindingsAdded { .. }
        | EventKind::ChangeObserved { .. }
        | EventKind::ReportRequested { .. }
        | EventKind::Settled { .. }
        | EventKind::Resubmitted { .. }
        | EventKind::Cancelled { .. } => None,
    }
}

/// Returns all roles that may report the event in one of its forms.
pub fn reporters(name: &str) -> BTreeSet<Role> {
    let mut found = BTreeSet::new();
    for stage in Stage::ALL {
        let told = scenes(stage);
        for (story, _, what) in told.iter().flat_map(|scene| variants(scene, name)) {
            let serial = what.lease().map(|lease| lease.serial);
            let job = story.ticket.jobs.iter().find(|j| Some(j.serial) == serial);
            if what.lease().is_none() || job.is_some() {
                found.extend(flow::advance::allowed_roles(
                    &what,
                    job.map(|job| &job.task),
                ));
            }
        }
    }
    found
}
