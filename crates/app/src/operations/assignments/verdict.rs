//! A judge's word: an approval or a rejection, a whole report, or answers on single findings. Pass
//! or fail is recomputed; what is not understood is no approval.

use engine::coordinator::Once;
use engine::session::{self, SessionClaim};
use findings::{Claim, CommissionedReview, Review};
use flow::event::{Answer, AnswerOutcome};
use flow::ticket::Seat;
use flow::{Task, Ticket};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::super::identity::Speaker;
use super::super::{Office, project};
use super::claims::{self, Named};
use crate::failure::{Exit, Failure};

/// 000's answer to a review.
#[derive(Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
pub struct Outcome {
    /// approved, rework or escalated; reviewing while others have still to answer.
    pub status: String,
    pub review_attempt: u32,
    pub max_cycles: u32,
    pub escalated: bool,
    pub message: String,
}

/// What a judge sends. 000's three arguments, 002's report, or a verifier's answers.
#[derive(Clone, Debug, Default)]
pub struct Word {
    pub approved: Option<bool>,
    pub feedback: String,
    /// 002's fields and findings, as they came.
    pub report: Map<String, Value>,
    pub answers: Vec<Answered>,
}

/// A verifier's word on one finding.
#[derive(Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    /// As the brief names it: F1, F2, …
    pub finding: String,
    pub outcome: Verified,
    #[serde(default)]
    pub evidence: String,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verified {
    Fixed,
    Confirmed,
    Refuted,
    Uncertain,
}

/// Reports the word and says what became of the ticket.
pub async fn pass(
    office: &Office,
    speaker: &Speaker,
    named: &Named,
    word: Word,
    once: Option<Once>,
) -> Result<Outcome, Failure> {
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
        let overruled = approved == Some(true) && review.claim != Claim::Approved;
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
            Exit::Refused,
            format!("this is not taken as an approval: {why}"),
        )
        .hint("send approved: true for the assignment's commit, with findings that can be read; or approved: false with feedback")),
        (Some(false), _) => {
            review.claim = Claim::ChangesRequested;
            Ok(review)
        }
        (Some(true) | None, _) => Ok(review),
    }
}

fn with_reason(outcome: Outcome, why: Option<String>) -> Outcome {
    match why {
        Some(why) => Outcome {
            message: format!("your approval does not count: {why}; {}", outcome.message),
            ..outcome
        },
        None => outcome,
    }
}

/// 000 wants feedback where it is no approval.
fn as_report(word: Word) -> Result<Map<String, Value>, Failure> {
    let mut report = word.report;
    match word.approved {
        Some(approved) => report.insert("approved".to_owned(), approved.into()),
        None if report.is_empty() => {
            return Err(
                Failure::new(Exit::Refused, "neither approved nor a report was given")
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
            Exit::Refused,
            "a rejection needs feedback: what has to change?",
        )
        .hint("say it in feedback, or list findings"));
    }
    if !word.feedback.trim().is_empty() {
        report.insert("feedback".to_owned(), word.feedback.into());
    }
    Ok(report)
}

fn answers(errand: &SessionClaim, word: Word) -> Result<Vec<Answer>, Failure> {
    if word.answers.is_empty() {
        let Task::Verify { findings, .. } = &errand.task else {
            return Ok(Vec::new());
        };
        return Err(Failure::new(
            Exit::Refused,
            format!("answers are wanted on {}", findings.join(", ")),
        )
        .hint("answers: [{finding, outcome: fixed | confirmed | refuted | uncertain, evidence}]"));
    }
    let heard = |answer: Answered| Answer {
        finding: answer.finding,
        outcome: match answer.outcome {
            Verified::Fixed => AnswerOutcome::Fixed,
            Verified::Confirmed => AnswerOutcome::Confirmed,
            Verified::Refuted => AnswerOutcome::Refuted,
            Verified::Uncertain => AnswerOutcome::Uncertain,
        },
        evidence: findings::clean(&answer.evidence),
    };
    Ok(word.answers.into_iter().map(heard).collect())
}

/// The same, for the answer that is kept with the key.
pub fn outcome_value(ticket: &Ticket) -> Value {
    json!(outcome(ticket))
}

pub fn outcome(ticket: &Ticket) -> Outcome {
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
    Outcome {
        status: status.to_owned(),
        review_attempt: attempt,
        max_cycles: allowed,
        escalated: status == "escalated",
        message,
    }
}
