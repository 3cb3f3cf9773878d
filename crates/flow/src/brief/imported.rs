//! Feedback that an imported ticket brings from another system, for the builder's first brief.

use serde_json::Value;

use super::quote::{fenced, section};
use crate::ticket::Ticket;

/// Returns the earlier feedback of an imported ticket. It is quoted: an agent of the other system
/// wrote it. Once a round is decided here, that round's feedback counts.
pub fn earlier_feedback(ticket: &Ticket) -> String {
    let entry = ticket.spec.context.imported.as_ref();
    let Some(entry) = entry.filter(|_| ticket.rounds.is_empty()) else {
        return String::new();
    };
    let mut texts = Vec::new();
    let history = entry.field(&["review_history"]).and_then(Value::as_array);
    for review in history.into_iter().flatten() {
        texts.extend(review.get("revision_notes").and_then(Value::as_str));
    }
    let report = entry.field(&["current_review_report"]);
    let report = report.filter(|report| report.is_object());
    let report = report.map(|report| format!("{report:#}"));
    texts.extend(report.as_deref());
    texts.retain(|text| !text.trim().is_empty());
    if texts.is_empty() {
        return String::new();
    }
    let text =
        "The ticket was imported with reviews of earlier attempts. Resolve what they ask for.";
    let mut out = section("Earlier reviews", text);
    for text in texts {
        out.push_str(&fenced("a review in the other system", text));
    }
    out
}
