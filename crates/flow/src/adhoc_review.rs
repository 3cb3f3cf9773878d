//! Reviews of a change that belongs to no ticket. The change goes through the same state machine as
//! an unsaved ticket: submitted by its author, checked, reviewed once, and never landed.
//!
//! There is no second set of rules for such a review. A verdict here means the same as the verdict
//! on a ticket, because it comes from the same function.

use std::collections::BTreeSet;

use findings::Severity;

use crate::advance::{Refused, advance, open_ticket};
use crate::event::{Actor, Event, EventKind, Lease, Role};
use crate::policy::{
    Fallback, Land, MinorOnly, OnExhausted, Policy, ReviewerConfig, VerifyNewFindings,
};
use crate::ticket::{ReworkReason, Spec, Stage, Submission, Ticket, TicketId, Time};
use crate::usage::Usage;

/// Outcome of the review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdhocOutcome {
    Approved,
    ChangesRequested,
    /// Checks of these names are red, so no reviewer was asked.
    RedChecks(Vec<String>),
    /// The change touches these forbidden paths, so no reviewer was asked.
    ForbiddenPaths(Vec<String>),
    /// There is no verdict, for this reason, and a person has to look.
    Undecided(String),
}

/// Returns the project's policy for one review by these reviewers, where findings from `fail_on` up
/// must be fixed. The author of the change is not known, so model families cannot be compared.
pub fn adhoc_policy(
    project: &Policy,
    reviewers: Vec<ReviewerConfig>,
    fail_on: Option<Severity>,
) -> Policy {
    let mut policy = Policy {
        // One round: nobody reworks the change, the caller only wants to know.
        max_rounds: 1,
        on_exhausted: OnExhausted::Fail,
        // The approved change stays where it is.
        land: Land::Branch,
        other_family: false,
        // No fallback agent: the caller gets the error and can name another reviewer.
        fallback: Fallback::default(),
        ..project.clone()
    };
    if let Some(least) = fail_on {
        let all = Severity::ALL.into_iter();
        // The worst severity orders first, so "up" means less or equal.
        policy.must_fix = all.filter(|severity| *severity <= least).collect();
        // The caller chose what fails, so a refusal over less is overruled, and shown as such.
        policy.minor_only = MinorOnly::Approve;
    }
    // With linters alone nobody has a vote, and there is no agent to verify.
    if reviewers.iter().all(ReviewerConfig::is_linter) {
        policy.gates.reviewer_approves = false;
        policy.verify = VerifyNewFindings::Never;
    }
    policy.reviewers = reviewers;
    policy
}

/// Submits the change. Its check is the first job.
pub fn open_for_review(
    id: &TicketId,
    spec: Spec,
    submission: Submission,
    policy: &Policy,
    at: Time,
) -> Result<Ticket, Refused> {
    // The author is a name of its own, which no reviewer has. So no reviewer is refused for its own
    // work.
    let author = Actor::new("the author", Role::Builder);
    let event = |what| Event {
        at,
        by: author.clone(),
        expects: None,
        what,
    };
    let created = EventKind::Created {
        spec: Box::new(spec),
        met: BTreeSet::new(),
        failed: Vec::new(),
    };
    let ticket = open_ticket(id, &event(created), policy)?.ticket;
    let lease = Lease {
        // The only job so far is the build. The author is taken to have done it.
        serial: ticket.jobs_ordered,
        fence: 1,
    };
    let ticket = advance(&ticket, &event(EventKind::Started { lease }), policy)?.ticket;
    let submitted = EventKind::Submitted {
        lease,
        submission: Box::new(submission),
        reports: Vec::new(),
        session: None,
        usage: Usage::default(),
    };
    Ok(advance(&ticket, &event(submitted), policy)?.ticket)
}

/// Returns the outcome, once no job is open any more.
pub fn adhoc_outcome(ticket: &Ticket) -> AdhocOutcome {
    match (ticket.stage, &ticket.rework_reason) {
        // Approved before anything else: a merge never runs here, but the stages exist.
        (Stage::Done | Stage::Approved | Stage::Merging, _) => AdhocOutcome::Approved,
        // Before the failure: a change with red checks fails too, and the caller wants the names of
        // the checks.
        (_, Some(ReworkReason::RedChecks { results })) => {
            let red = results.iter().map(|result| result.name.clone());
            AdhocOutcome::RedChecks(red.collect())
        }
        (_, Some(ReworkReason::ForbiddenPaths { paths, .. })) => {
            AdhocOutcome::ForbiddenPaths(paths.clone())
        }
        // With one round and `on_exhausted = "fail"` a rejected change ends as failed.
        (Stage::Failed, _) => AdhocOutcome::ChangesRequested,
        (
            Stage::Pending
            | Stage::Queued
            | Stage::Building
            | Stage::Checking
            | Stage::Reviewing
            | Stage::Rework
            | Stage::Escalated
            | Stage::Blocked
            | Stage::Cancelled,
            Some(
                ReworkReason::Findings
                | ReworkReason::Conflict { .. }
                | ReworkReason::RedCombination { .. },
            )
            | None,
        ) => AdhocOutcome::Undecided(undecided_reason(ticket)),
    }
}

fn undecided_reason(ticket: &Ticket) -> String {
    match &ticket.escalation {
        Some(escalation) => format!(
            "{}: {}",
            crate::narrate::describe_reason(&escalation.reason),
            escalation.evidence
        ),
        None => format!("it stopped while {}", ticket.stage),
    }
}

#[cfg(test)]
mod tests {
    use findings::Review;

    use super::*;
    use crate::job::Task;

    fn change() -> Submission {
        Submission {
            commit: "c".repeat(40),
            tree: "d".repeat(40),
            base: "a".repeat(40),
            base_tree: "b".repeat(40),
            files: vec!["src/x.rs".to_owned()],
            lines_changed: 1,
            ..Submission::default()
        }
    }

    fn begin(policy: &Policy) -> Ticket {
        let id = TicketId::new("review-1").unwrap();
        let spec = Spec {
            title: "main..topic".to_owned(),
            ..Spec::default()
        };
        open_for_review(&id, spec, change(), policy, Time(1)).unwrap()
    }

    fn step(
        ticket: &Ticket,
        policy: &Policy,
        role: Role,
        what: impl Fn(Lease) -> EventKind,
    ) -> Ticket {
        let lease = Lease {
            serial: ticket.jobs[0].serial,
            fence: 1,
        };
        let by = Actor::new("judge", role);
        let event = |what| Event {
            at: Time(2),
            by: by.clone(),
            expects: None,
            what,
        };
        let started = advance(ticket, &event(EventKind::Started { lease }), policy).unwrap();
        advance(&started.ticket, &event(what(lease)), policy)
            .unwrap()
            .ticket
    }

    fn checked(ticket: &Ticket, policy: &Policy) -> Ticket {
        step(ticket, policy, Role::Service, |lease| EventKind::Checked {
            lease,
            commit: change().commit,
            results: Vec::new(),
            usage: Usage::default(),
        })
    }

    fn reviewed(ticket: &Ticket, policy: &Policy, review: &Review) -> Ticket {
        step(ticket, policy, Role::Reviewer, |lease| {
            EventKind::Reviewed {
                answers_open: false,
                lease,
                commit: change().commit,
                review: Box::new(review.clone()),
                sandbox: String::new(),
                usage: Usage::default(),
            }
        })
    }

    fn linter() -> ReviewerConfig {
        ReviewerConfig {
            name: "lint".to_owned(),
            command: Some("lint".to_owned()),
            ..ReviewerConfig::default()
        }
    }

    fn medium() -> Review {
        findings::read(
            "{\"approved\": true, \"findings\": [{\"title\": \"A\", \"severity\": \"medium\", \"file\": \"src/x.rs\", \"line\": 1}]}",
        )
    }

    #[test]
    fn one_look_and_nothing_lands() {
        let policy = adhoc_policy(&Policy::default(), vec![ReviewerConfig::default()], None);
        let ticket = checked(&begin(&policy), &policy);
        assert!(matches!(ticket.jobs[0].task, Task::Review { .. }));
        let ticket = reviewed(&ticket, &policy, &findings::read("{\"approved\": true}"));
        assert_eq!(adhoc_outcome(&ticket), AdhocOutcome::Approved);
        assert!(ticket.jobs.is_empty());
    }

    #[test]
    fn the_word_that_fails_is_the_callers() {
        let reviewers = vec![ReviewerConfig::default()];
        for (fail_on, expected) in [
            (None, AdhocOutcome::Approved),
            (Some(Severity::High), AdhocOutcome::Approved),
            (Some(Severity::Medium), AdhocOutcome::ChangesRequested),
            (Some(Severity::Low), AdhocOutcome::ChangesRequested),
        ] {
            let policy = adhoc_policy(&Policy::default(), reviewers.clone(), fail_on);
            let ticket = reviewed(&checked(&begin(&policy), &policy), &policy, &medium());
            assert_eq!(adhoc_outcome(&ticket), expected, "{fail_on:?}");
        }
    }

    #[test]
    fn linters_alone_can_let_it_pass_and_hold_it_up() {
        for (fail_on, expected) in [
            (Severity::High, AdhocOutcome::Approved),
            (Severity::Medium, AdhocOutcome::ChangesRequested),
        ] {
            let careful = Policy::preset("careful").unwrap();
            let policy = adhoc_policy(&careful, vec![linter()], Some(fail_on));
            let ticket = reviewed(&checked(&begin(&policy), &policy), &policy, &medium());
            assert_eq!(adhoc_outcome(&ticket), expected);
        }
    }

    #[test]
    fn red_checks_are_said_before_anybody_is_asked() {
        let policy = adhoc_policy(&Policy::default(), vec![ReviewerConfig::default()], None);
        let red = crate::ticket::CheckResult {
            name: "test".to_owned(),
            outcome: crate::ticket::CheckOutcome::Failed,
            tail: String::new(),
            wall_ms: 0,
        };
        let ticket = step(&begin(&policy), &policy, Role::Service, |lease| {
            EventKind::Checked {
                lease,
                commit: change().commit,
                results: vec![red.clone()],
                usage: Usage::default(),
            }
        });
        assert_eq!(
            adhoc_outcome(&ticket),
            AdhocOutcome::RedChecks(vec!["test".to_owned()])
        );
    }
}
