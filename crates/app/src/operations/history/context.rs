//! Data of log lines for programs: the outcome of a review, and everything a person needs to decide
//! about an escalation.

use flow::narrate::{describe_reason, short_commit};
use flow::{Policy, Ticket};
use serde_json::{Value, json};

use crate::operations::assignments::verdict;

/// Maximum number of findings in one line.
const FINDINGS_MAX: usize = 50;

/// Returns the data of an activity, if it has any.
pub fn context_of(activity: &str, ticket: &Ticket, policy: &Policy) -> Option<Value> {
    match activity {
        "submitted_review_result" => Some(verdict::outcome_value(ticket, policy)),
        "escalated_for_human_review" => Some(escalation(ticket, policy)),
        _ => None,
    }
}

fn escalation(ticket: &Ticket, policy: &Policy) -> Value {
    let mut context = json!({
        "title": ticket.spec.title,
        "repository": ticket.spec.context.repository,
        "branch": ticket.submission.as_ref().map(|submission| &submission.branch),
        "commit": ticket.submission.as_ref().map(|submission| short_commit(&submission.commit)),
        "reason": ticket.escalation.as_ref().map(|pending| describe_reason(&pending.reason)),
        "feedback": flow::brief::feedback(ticket, policy),
        "feedback_by_round": flow::export::feedback_by_round(ticket),
        "findings": findings(&ticket.ledger.open_must_fix(policy)),
        "notes": findings(&ticket.ledger.notes()),
        "choices": choices(ticket, policy),
    });
    if let (Value::Object(context), Value::Object(outcome)) =
        (&mut context, verdict::outcome_value(ticket, policy))
    {
        context.extend(outcome);
    }
    context
}

fn findings(open: &[&flow::ledger::LedgerEntry]) -> Vec<Value> {
    let describe = |entry: &&flow::ledger::LedgerEntry| {
        json!({"id": entry.id, "severity": entry.severity(), "title": entry.finding.title,
            "place": entry.location(), "status": entry.status})
    };
    open.iter().take(FINDINGS_MAX).map(describe).collect()
}

fn choices(ticket: &Ticket, policy: &Policy) -> Vec<&'static str> {
    let choices = flow::available_choices(ticket, policy);
    choices.iter().map(flow::event::Choice::as_str).collect()
}
