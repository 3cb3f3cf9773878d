//! The review context: everything a reviewer needs, in the eleven fields that existing agents
//! expect. Feedback of earlier rounds is left out, so that the reviewer judges without it.

use flow::ticket::CheckOutcome;
use flow::{Task, Ticket};
use serde::Serialize;

use super::super::App;
use super::super::identity::Identity;
use super::CriterionReport;
use super::claims::{self, ClaimRef};
use crate::failure::Failure;

#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct ReviewContext {
    pub ticket_id: String,
    pub ticket_path: Option<String>,
    pub epic_path: Option<String>,
    pub ticket_branch: String,
    pub base_commit: String,
    pub final_commit: String,
    pub files_modified: Vec<String>,
    /// passing, failing, or none if no check ran.
    pub test_suite_status: String,
    pub acceptance_criteria: Vec<CriterionReport>,
    pub revision_count: u32,
    /// Always null.
    pub previous_review_feedback: Option<String>,
}

/// Loads the context of the agent's current review.
pub async fn load_review_context(
    app: &App,
    identity: &Identity,
    claim_ref: &ClaimRef,
) -> Result<ReviewContext, Failure> {
    let claim = claims::find_claim(app, identity, claim_ref).await?;
    let ticket = &claim.stored.ticket;
    let commit = match &claim.task {
        Task::Review { commit, .. } | Task::Verify { commit, .. } => commit.clone(),
        Task::Build { .. }
        | Task::Check { .. }
        | Task::Merge { .. }
        | Task::Tell { .. }
        | Task::Report => {
            let submission = ticket.submission.as_ref();
            submission
                .map(|submission| submission.commit.clone())
                .unwrap_or_default()
        }
    };
    Ok(context(ticket, commit))
}

fn context(ticket: &Ticket, commit: String) -> ReviewContext {
    let submission = ticket.submission.clone().unwrap_or_default();
    let extra = |name: &str| {
        let value = ticket.spec.context.extra.get(name)?;
        value.as_str().map(str::to_owned)
    };
    ReviewContext {
        ticket_id: ticket.id.to_string(),
        ticket_path: extra("ticket_path").or_else(|| extra("path")),
        epic_path: extra("epic_path"),
        ticket_branch: submission.branch,
        base_commit: submission.base,
        final_commit: commit,
        files_modified: submission.files,
        test_suite_status: test_status(ticket).to_owned(),
        acceptance_criteria: criteria(ticket),
        revision_count: revision_count(ticket),
        previous_review_feedback: None,
    }
}

/// Counts the revisions before this review, with those of an epic state that the ticket comes from.
fn revision_count(ticket: &Ticket) -> u32 {
    let earlier = flow::export::earlier_revisions(ticket);
    let own = ticket.rounds.len() as u64;
    u32::try_from(earlier.saturating_add(own)).unwrap_or(u32::MAX)
}

fn test_status(ticket: &Ticket) -> &'static str {
    let checks = ticket.checks.as_ref();
    let results = checks.map(|checks| checks.results.as_slice());
    let results = results.unwrap_or_default();
    let green = |outcome: CheckOutcome| outcome.is_green() || outcome == CheckOutcome::RedOnBase;
    if results.is_empty() {
        "none"
    } else if results.iter().all(|result| green(result.outcome)) {
        "passing"
    } else {
        "failing"
    }
}

/// Lists the acceptance criteria with the builder's claims; a criterion without a claim is not met.
fn criteria(ticket: &Ticket) -> Vec<CriterionReport> {
    let claims = ticket
        .submission
        .as_ref()
        .map(|submission| submission.claims.as_slice());
    let claims = claims.unwrap_or_default();
    let report_for = |criterion: &str| {
        let claim = claims.iter().find(|claim| claim.criterion == criterion);
        CriterionReport {
            criterion: criterion.to_owned(),
            met: claim.is_some_and(|claim| claim.met),
            evidence: claim
                .and_then(|claim| claim.evidence.clone())
                .unwrap_or_default(),
        }
    };
    flow::brief::criteria(&ticket.spec)
        .into_iter()
        .map(report_for)
        .collect()
}
