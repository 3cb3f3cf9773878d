//! The feedback of all rounds, as each round gave it. A person who decides on an escalation, and a
//! builder of a revision, see all of it: the ledger has only the newest words of a finding.

use std::fmt::Write as _;

use findings::Severity;
use findings::write::location;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{notes, reported_in};
use crate::ticket::{Round, Ticket};

/// Most findings of one round that are listed; the rest is counted.
const FINDINGS_MAX: usize = 50;

/// Feedback of the reviewers in one round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoundFeedback {
    pub round: u32,
    pub approved: bool,
    pub reviewers: Vec<String>,
    pub overall_score: Option<u8>,
    /// Reasons of the gates that did not pass.
    pub gates: Vec<String>,
    pub notes: Option<String>,
    pub findings: Vec<FeedbackFinding>,
    /// Findings that are not listed.
    pub more: usize,
}

/// A finding in the words of its round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FeedbackFinding {
    pub id: String,
    pub severity: Severity,
    pub title: String,
    pub place: Option<String>,
    pub problem: Option<String>,
    pub fix: Option<String>,
}

/// Returns the feedback of every round, the first round first.
pub fn feedback_by_round(ticket: &Ticket) -> Vec<RoundFeedback> {
    let rounds = ticket.rounds.iter();
    rounds.map(|round| round_feedback(ticket, round)).collect()
}

fn round_feedback(ticket: &Ticket, round: &Round) -> RoundFeedback {
    let reported = reported_in(ticket, round);
    let more = reported.len().saturating_sub(FINDINGS_MAX);
    let shown = reported.into_iter().take(FINDINGS_MAX);
    RoundFeedback {
        round: round.number,
        approved: round.verdict.approved,
        reviewers: round.verdict.claims.keys().cloned().collect(),
        overall_score: round.verdict.overall_score,
        gates: (round.verdict.failed_gates())
            .map(|gate| gate.why.clone())
            .collect(),
        notes: notes(round),
        findings: shown
            .map(|one| FeedbackFinding {
                severity: one.finding.rating.severity,
                place: location(&one.finding),
                id: one.id,
                title: one.finding.title,
                problem: one.finding.problem,
                fix: one.finding.fix,
            })
            .collect(),
        more,
    }
}

/// Returns the feedback as lines of text.
pub fn feedback_text(feedback: &RoundFeedback) -> String {
    let verdict = if feedback.approved {
        "approved"
    } else {
        "changes requested"
    };
    let mut out = format!("Round {}: {verdict}", feedback.round);
    if let Some(score) = feedback.overall_score {
        let _ = write!(out, ", overall score {score}/100");
    }
    out.push('\n');
    for one in &feedback.findings {
        let place = one.place.as_deref().map(|place| format!(" {place}:"));
        let (severity, title) = (one.severity.word(), findings::one_line(&one.title));
        let place = place.unwrap_or_default();
        let _ = writeln!(out, "- {} ({severity}){place} {title}", one.id);
    }
    if feedback.more > 0 {
        let _ = writeln!(out, "- and {} more", feedback.more);
    }
    if let Some(notes) = &feedback.notes {
        let _ = writeln!(out, "- Notes: {}", findings::one_line(notes));
    }
    out
}
