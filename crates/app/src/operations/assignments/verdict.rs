//! A judge's word: an approval or a rejection, a whole report, or answers on single findings. Pass
//! or fail is recomputed; what is not understood is no approval.

use engine::coordinator::Once;
use engine::session::{self, SessionClaim};
use findings::{CommissionedReview, Review, ReviewClaim};
use flow::event::{AnswerOutcome, VerifierAnswer};
use flow::ticket::Seat;
use flow::{Task, Ticket};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::super::identity::Identity;
use super::super::{App, project};
use super::claims::{self, ClaimRef};
use crate::failure::{ExitKind, Failure};

/// 000's answer to a review.
#[derive(Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
pub struct ReviewOutcome {
    /// approved, rework or escalated; reviewing while others have still to answer.
    pub status: String,
    pub review_attempt: u32,
    pub max_cycles: u32,
    pub escalated: bool,
    pub message: String,
}

/// What a judge sends. 000's three arguments, 002's report, or a verifier's answers.
#[derive(Clone, Debug, Default)]
pub struct VerdictInput {
    pub approved: Option<bool>,
    pub feedback: String,
    /// 002's fields and findings, as they came.
    pub report: Map<String, Value>,
    pub answers: Vec<FindingAnswer>,
}

/// A verifier's word on one finding.
#[derive(Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FindingAnswer {
    /// As the brief names it: F1, F2, …
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

/// Reports the word and says what became of the ticket.
pub async fn pass(
    office: &App,
    speaker: &Identity,
    named: &ClaimRef,
    word: VerdictInput,
    once: Option<Once>,
) -> Result<ReviewOutcome, Failure> {
    let errand = claims::reporting(office, speaker, named).await?;
    claims::say(office, speaker, named).await?;
    let (_, rules) = project::of_ticket(office, &errand.stored.ticket).await?;
    let (desk, session) = (&office.desk, speaker.agent_session());
    let (ticket, why) = if let Task::Verify { .. } = errand.task {
        let answers = answers(&errand, word)?;
        let verified = session::verify(desk, &rules.policy, &session, &errand, answers, once);
        (verified.await?, None)
    } else {
        let approved = word.approved;
        let review = heard(&errand, approved, &as_report(word)?)?;
        let review = flow::answer::weighed(review, &rules.policy);
        let overruled = approved == Some(true) && review.claim != ReviewClaim::Approved;
        let why = review.remarks.last().cloned().filter(|_| overruled);
        let judged = session::judge(desk, &rules.policy, &session, &errand, review, once);
        (judged.await?, why)
    };
    claims::reported(office, speaker, &errand.attempt()).await;
    Ok(with_reason(outcome(&ticket), why))
}

/// The review as it counts. A call that says `approved: true` and is no approval is sent back with
/// the reason, unless what it says beside is a refusal.
fn heard(
    errand: &SessionClaim,
    approved: Option<bool>,
    report: &Map<String, Value>,
) -> Result<Review, Failure> {
    let commit = match &errand.task {
        Task::Review { commit, .. } => commit.as_str(),
        Task::Build { .. }
        | Task::Check { .. }
        | Task::Verify { .. }
        | Task::Merge { .. }
        | Task::Tell { .. } => "",
    };
    let CommissionedReview {
        mut review,
        unclear,
    } = findings::read_call(report, commit);
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

fn with_reason(outcome: ReviewOutcome, why: Option<String>) -> ReviewOutcome {
    match why {
        Some(why) => ReviewOutcome {
            message: format!("your approval does not count: {why}; {}", outcome.message),
            ..outcome
        },
        None => outcome,
    }
}

/// 000 wants feedback where it is no approval.
fn as_report(word: VerdictInput) -> Result<Map<String, Value>, Failure> {
    let mut report = word.report;
    match word.approved {
        Some(approved) => report.insert("approved".to_owned(), approved.into()),
        None if report.is_empty() => {
            return Err(
                Failure::new(ExitKind::Refused, "neither approved nor a report was given")
                    .hint("send approved (true or false) with feedback, or a whole report"),
            );
        }
        None => None,
    };
    let empty = report.get("findings").and_then(Value::as_array);
    let silent = word.feedback.trim().is_empty()
        && empty.is_none_or(Vec::is_empty)
        && !report.contains_key("blocking_issues")
        && !report.contains_key("revision_notes");
    if word.approved == Some(false) && silent {
        return Err(Failure::new(
            ExitKind::Refused,
            "a rejection needs feedback: what has to change?",
        )
        .hint("say it in feedback, or list findings"));
    }
    if !word.feedback.trim().is_empty() {
        report.insert("feedback".to_owned(), word.feedback.into());
    }
    Ok(report)
}

fn answers(errand: &SessionClaim, word: VerdictInput) -> Result<Vec<VerifierAnswer>, Failure> {
    if word.answers.is_empty() {
        let Task::Verify { findings, .. } = &errand.task else {
            return Ok(Vec::new());
        };
        return Err(Failure::new(
            ExitKind::Refused,
            format!("answers are wanted on {}", findings.join(", ")),
        )
        .hint("answers: [{finding, outcome: fixed | confirmed | refuted | uncertain, evidence}]"));
    }
    let heard = |answer: FindingAnswer| VerifierAnswer {
        finding: answer.finding,
        outcome: match answer.outcome {
            VerifierOutcome::Fixed => AnswerOutcome::Fixed,
            VerifierOutcome::Confirmed => AnswerOutcome::Confirmed,
            VerifierOutcome::Refuted => AnswerOutcome::Refuted,
            VerifierOutcome::Uncertain => AnswerOutcome::Uncertain,
        },
        evidence: findings::clean(&answer.evidence),
    };
    Ok(word.answers.into_iter().map(heard).collect())
}

/// The same, for the answer that is kept with the key.
pub fn outcome_value(ticket: &Ticket) -> Value {
    json!(outcome(ticket))
}

pub fn outcome(ticket: &Ticket) -> ReviewOutcome {
    let last = ticket.rounds.last();
    let (attempt, allowed) = last.map_or((ticket.round, 0), |round| (round.number, round.allowed));
    let status = flow::dialect::after_review(ticket.stage);
    let message = match status {
        "approved" => format!("approved in round {attempt}"),
        "rework" => format!("sent back for rework, attempt {attempt} of {allowed}"),
        "reviewing" if ticket.seats.iter().any(Seat::is_asked_to_countersign) => {
            "taken; only minor findings are named, so the reviewer is asked once whether it countersigns".to_owned()
        }
        "reviewing" => "taken; others have still to answer".to_owned(),
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
