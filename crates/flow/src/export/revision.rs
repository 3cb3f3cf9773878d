//! The revision context: what a builder in another system needs to revise a rejected change.

use std::fmt::Write as _;

use findings::BlockingIssue;
use findings::write::{location, revision_instructions};
use serde_json::{Value, json};

use super::{
    NoSuchRound, feedback_by_round, feedback_text, notes, reported_in, round_report, select_round,
    task_json, weighted_scores,
};
use crate::ticket::{RoundFinding, Ticket};

/// Returns the revision context of one round, by default the last: the ticket, the report, the
/// instructions with scores and notes, and the feedback of all earlier rounds.
pub fn revision_context(ticket: &Ticket, round: Option<u32>) -> Result<Value, NoSuchRound> {
    let round = select_round(ticket, round)?;
    let number = round.number;
    if round.verdict.approved {
        return Err(NoSuchRound::Approved {
            ticket: ticket.id.clone(),
            round: number,
        });
    }
    let mut feedback = feedback_by_round(ticket);
    feedback.retain(|one| one.round < number);
    Ok(json!({
        "original_ticket": task_json(ticket),
        "review_report": round_report(ticket, Some(number))?,
        "revision_instructions": instructions(ticket, number)?,
        "previous_attempts": feedback,
    }))
}

fn instructions(ticket: &Ticket, number: u32) -> Result<String, NoSuchRound> {
    let round = select_round(ticket, Some(number))?;
    let reported = reported_in(ticket, round);
    let blocking: Vec<BlockingIssue> = super::blocking_issues(&reported);
    let mut changes = notes(round).unwrap_or_default();
    for one in reported.iter().filter(|one| !one.blocking) {
        let _ = write!(changes, "\n{}", change_line(one));
    }
    let failed = round.verdict.failed_gates();
    for gate in failed {
        let _ = write!(changes, "\n- {}", findings::one_line(&gate.why));
    }
    let score = round.verdict.overall_score;
    let mut text = revision_instructions(score, &blocking, &changes, &weighted_scores(round));
    let earlier = feedback_by_round(ticket);
    let earlier = earlier.iter().filter(|one| one.round < number);
    let earlier: Vec<String> = earlier.map(feedback_text).collect();
    if !earlier.is_empty() {
        let _ = write!(text, "\nEARLIER FEEDBACK:\n{}", earlier.join("\n"));
    }
    Ok(text)
}

fn change_line(one: &RoundFinding) -> String {
    let finding = &one.finding;
    let place = location(finding).map(|place| format!(" {place}:"));
    let mut line = format!(
        "- {} ({}){} {}",
        one.id,
        finding.rating.severity.word(),
        place.unwrap_or_default(),
        findings::one_line(&finding.title)
    );
    if let Some(fix) = &finding.fix {
        let _ = write!(line, " Fix: {}", findings::one_line(fix));
    }
    line
}
