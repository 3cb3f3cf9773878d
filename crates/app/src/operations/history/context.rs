//! What goes with an activity, for programs that read the log: 000's fields of a review's result, and
//! all that a person needs where one has to decide.

use flow::narrate::{reason, short};
use flow::{Policy, Ticket};
use serde_json::{Value, json};

use crate::operations::assignments::verdict;

/// No more findings go with one message.
const FINDINGS_MAX: usize = 50;

pub fn of(activity: &str, ticket: &Ticket, policy: &Policy) -> Option<Value> {
    match activity {
        "submitted_review_result" => Some(verdict::outcome_value(ticket)),
        "escalated_for_human_review" => Some(escalation(ticket, policy)),
        _ => None,
    }
}

fn escalation(ticket: &Ticket, policy: &Policy) -> Value {
    let mut context = json!({
        "title": ticket.spec.title,
        "repository": ticket.spec.context.repository,
        "branch": ticket.submission.as_ref().map(|put| &put.branch),
        "commit": ticket.submission.as_ref().map(|put| short(&put.commit)),
        "reason": ticket.escalation.as_ref().map(|one| reason(&one.reason)),
        "feedback": flow::brief::feedback(ticket, policy),
        "findings": findings(&ticket.ledger.open_must_fix(policy)),
        "notes": findings(&ticket.ledger.notes()),
        "choices": choices(ticket, policy),
    });
    if let (Value::Object(context), Value::Object(outcome)) =
        (&mut context, verdict::outcome_value(ticket))
    {
        context.extend(outcome);
    }
    context
}

fn findings(open: &[&flow::ledger::LedgerEntry]) -> Vec<Value> {
    let one = |entry: &&flow::ledger::LedgerEntry| {
        json!({"id": entry.id, "severity": entry.severity(), "title": entry.finding.title,
            "place": entry.place(), "status": entry.status})
    };
    open.iter().take(FINDINGS_MAX).map(one).collect()
}

fn choices(ticket: &Ticket, policy: &Policy) -> Vec<&'static str> {
    let choices = flow::choices(ticket, policy);
    choices.iter().map(flow::event::Choice::word).collect()
}
