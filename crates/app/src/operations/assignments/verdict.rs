//! Verdicts of reviewers and verifiers: an approval or a rejection, a whole report, or answers on
//! single findings. Pass or fail is computed again; a text that is not understood is no approval.

use engine::coordinator::Once;
use engine::session::{self, SessionClaim};
use findings::{CommissionedReview, Review, ReviewClaim};
use flow::event::{AnswerOutcome, VerifierAnswer};
use flow::rejection::describe_rejection;
use flow::ticket::PanelReviewer;
use flow::{Policy, Task, Ticket};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::super::identity::Identity;
use super::super::{App, project};
use super::claims::{self, ClaimRef};
use crate::failure::{ExitKind, Failure};

/// Answer to a submitted review.
#[derive(Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
pub struct ReviewOutcome {
    /// approved, rework or escalated; reviewing while other reviewers have not answered.
    pub status: String,
    pub review_attempt: u32,
    pub max_cycles: u32,
    pub escalated: bool,
    pub message: String,
}

/// Input of a reviewer or verifier: approval with feedback, a whole report, or answers on findings.
#[derive(Clone, Debug, Default)]
pub struct VerdictInput {
    pub approved: Option<bool>,
    /// The ticket that a report names. A report on another ticket is refused.
    pub ticket: Option<String>,
    pub feedback: String,
    /// Fields and findings of a whole review report, as received.
    pub report: Map<String, Value>,
    pub answers: Vec<FindingAnswer>,
}

/// A verifier's answer on one finding.
#[derive(Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FindingAnswer {
    /// The finding's id in the brief: F1, F2, …
    pub finding: String,
    pub outcome: VerifierOutcome,
    #[serde(default)]
    pub evidence: String,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerifierOutcome {
    Fixed,
    Confirmed,
    Refuted,
    Uncertain,
}

/// Reports the verdict and returns the ticket's new state.
pub async fn submit_verdict(
    app: &App,
    identity: &Identity,
    claim_ref: &ClaimRef,
    verdict: VerdictInput,
    once: Option<Once>,
) -> Result<ReviewOutcome, Failure> {
    let claim = claims::require_reported_claim(app, identity, claim_ref).await?;
    let id = &claim.stored.ticket.id;
    if let Some(named) = verdict.ticket.as_deref()
        && named != id.as_str()
    {
        let named = findings::one_line(named);
        return Err(Failure::new(
            ExitKind::Refused,
            format!("the report is about {named}, and your assignment is {id}"),
        )
        .hint("send the report of this ticket, with its id or without ticket_id"));
    }
    let (_, rules) = project::open_ticket_repository(app, &claim.stored.ticket).await?;
    let (coordinator, session) = (&app.coordinator, identity.agent_session());
    let (ticket, why) = if let Task::Verify { .. } = claim.task {
        let answers = read_answers(&claim, verdict)?;
        claims::record_verdict_words(app, identity, claim_ref).await?;
        let verified = session::verify(coordinator, &rules.policy, &session, &claim, answers, once);
        (verified.await?, None)
    } else {
        let approved = verdict.approved;
        let report = as_report(verdict)?;
        let review = read_review(app, identity, &claim, approved, &report).await?;
        // Only a verdict that counts is remembered: an approval that was sent back comes again.
        claims::record_verdict_words(app, identity, claim_ref).await?;
        let review = flow::review_validity::downgrade_contradicted_approval(review, &rules.policy);
        let overruled = approved == Some(true) && review.claim != ReviewClaim::Approved;
        let why = review.remarks.last().cloned().filter(|_| overruled);
        let judged =
            session::report_review(coordinator, &rules.policy, &session, &claim, review, once);
        (judged.await?, why)
    };
    claims::record_reported(app, identity, &claim.attempt()).await;
    Ok(with_reason(outcome(&ticket, &rules.policy), why))
}

/// Reads the review as it counts. A call with `approved: true` that cannot count as an approval is
/// refused with the reason, unless its text rejects the change. If the only reason is a text that is
/// not understood, the same call again confirms the approval.
async fn read_review(
    app: &App,
    identity: &Identity,
    claim: &SessionClaim,
    approved: Option<bool>,
    report: &Map<String, Value>,
) -> Result<Review, Failure> {
    let commit = match &claim.task {
        Task::Review { commit, .. } => commit.as_str(),
        Task::Build { .. }
        | Task::Check { .. }
        | Task::Verify { .. }
        | Task::Merge { .. }
        | Task::Tell { .. }
        | Task::Report => "",
    };
    let spec = &claim.stored.ticket.spec;
    let criteria = flow::brief::criteria(spec).into_iter();
    let criteria: Vec<String> = criteria.map(str::to_owned).collect();
    let mut answer = findings::read_tool_call(report, commit, &criteria);
    let is_questionable = approved == Some(true) && answer.confirmable;
    if is_questionable {
        let words = serde_json::to_vec(report).unwrap_or_default();
        let words = engine::hash::short_sha256(&words);
        let attempt = claim.attempt();
        if !claims::is_questioned(app, identity, &attempt, &words).await? {
            claims::record_question(app, identity, &attempt, &words).await?;
            return Err(question(&answer));
        }
        answer = findings::read_confirmed_tool_call(report, commit, &criteria);
    }
    let CommissionedReview {
        mut review,
        unclear,
        ..
    } = answer;
    match (approved, unclear) {
        (Some(true), Some(why)) => Err(Failure::new(
            ExitKind::Refused,
            format!("this is not taken as an approval: {why}"),
        )
        .hint("send approved: true for the assignment's commit, with findings that can be read; or approved: false with feedback")),
        (Some(false), _) => {
            review.claim = ReviewClaim::ChangesRequested;
            Ok(review)
        }
        (Some(true) | None, _) => Ok(review),
    }
}

/// Builds the error for an approval whose text is not understood.
fn question(answer: &CommissionedReview) -> Failure {
    let why = answer.unclear.clone().unwrap_or_default();
    Failure::new(
        ExitKind::Refused,
        format!("not taken as an approval yet, nothing was recorded: {why}"),
    )
    .hint("if you approve without reservation, call again with approved: true and without that text; the same call once more counts as your confirmation")
    .hint("if something has to be said, put it into findings with its severity; if it has to be fixed, send approved: false")
}

fn with_reason(outcome: ReviewOutcome, why: Option<String>) -> ReviewOutcome {
    match why {
        Some(why) => ReviewOutcome {
            message: format!("your approval does not count: {why}; {}", outcome.message),
            ..outcome
        },
        None => outcome,
    }
}

/// Builds the report. A rejection must say what has to change.
fn as_report(verdict: VerdictInput) -> Result<Map<String, Value>, Failure> {
    let mut report = verdict.report;
    match verdict.approved {
        Some(approved) => report.insert("approved".to_owned(), approved.into()),
        None if report.is_empty() => {
            return Err(
                Failure::new(ExitKind::Refused, "neither approved nor a report was given")
                    .hint("send approved (true or false) with feedback, or a whole report"),
            );
        }
        None => None,
    };
    let listed = report.get("findings").and_then(Value::as_array);
    let silent = verdict.feedback.trim().is_empty()
        && listed.is_none_or(Vec::is_empty)
        && !report.contains_key("blocking_issues")
        && !report.contains_key("revision_notes");
    if verdict.approved == Some(false) && silent {
        return Err(Failure::new(
            ExitKind::Refused,
            "a rejection needs feedback: what has to change?",
        )
        .hint("say it in feedback, or list findings"));
    }
    if !verdict.feedback.trim().is_empty() {
        report.insert("feedback".to_owned(), verdict.feedback.into());
    }
    Ok(report)
}

fn read_answers(
    claim: &SessionClaim,
    verdict: VerdictInput,
) -> Result<Vec<VerifierAnswer>, Failure> {
    if verdict.answers.is_empty() {
        let Task::Verify { findings, .. } = &claim.task else {
            return Ok(Vec::new());
        };
        return Err(Failure::new(
            ExitKind::Refused,
            format!("the call has no answers; answer on {}", findings.join(", ")),
        )
        .hint("answers: [{finding, outcome: fixed | confirmed | refuted | uncertain, evidence}]"));
    }
    let to_answer = |answer: FindingAnswer| VerifierAnswer {
        finding: answer.finding,
        outcome: match answer.outcome {
            VerifierOutcome::Fixed => AnswerOutcome::Fixed,
            VerifierOutcome::Confirmed => AnswerOutcome::Confirmed,
            VerifierOutcome::Refuted => AnswerOutcome::Refuted,
            VerifierOutcome::Uncertain => AnswerOutcome::Uncertain,
        },
        evidence: findings::clean(&answer.evidence),
    };
    Ok(verdict.answers.into_iter().map(to_answer).collect())
}

/// Builds the answer as JSON, to store it under the idempotency key.
pub fn outcome_value(ticket: &Ticket, policy: &Policy) -> Value {
    json!(outcome(ticket, policy))
}

/// Describes the result of the latest round for the reviewer.
pub fn outcome(ticket: &Ticket, policy: &Policy) -> ReviewOutcome {
    let last = ticket.rounds.last();
    let status = flow::dialect::review_result_word(ticket.stage);
    // A rework begins the next attempt, but the answer is about the attempt that was judged.
    let attempt = match status {
        "reviewing" => ticket.review_attempt(),
        _ => ticket.counts.verdicts.max(1),
    };
    let allowed = policy.rounds_allowed(ticket.counts.granted);
    let message = match status {
        "approved" => format!("approved in attempt {attempt} of {allowed}"),
        "rework" => {
            let why = last.filter(|round| !round.verdict.approved);
            let why = why.map(|round| format!(": {}", describe_rejection(ticket, round)));
            let why = why.unwrap_or_default();
            format!("sent back for rework, attempt {attempt} of {allowed}{why}")
        }
        "reviewing" if ticket.panel.iter().any(PanelReviewer::is_asked_to_countersign) => {
            "recorded; it names only minor findings, so the reviewer is asked once whether it countersigns".to_owned()
        }
        "reviewing" => match flow::advance::waiting_for_verifier(ticket).as_slice() {
            [] => "recorded; other reviewers have not answered yet".to_owned(),
            [one] => format!("recorded; {one} waits for a verifier"),
            open => format!("recorded; {} wait for a verifier", open.join(", ")),
        },
        _ => format!("a person has to decide after {attempt} of {allowed} attempts"),
    };
    ReviewOutcome {
        status: status.to_owned(),
        review_attempt: attempt,
        max_cycles: allowed,
        escalated: status == "escalated",
        message,
    }
}
