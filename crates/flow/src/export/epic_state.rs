//! Tickets as an epic state. Tickets that were imported from one are written back with all their
//! fields, their review history goes on counting, and the fields of the epic stay.

use serde_json::{Map, Value, json};

use super::{earlier_revisions, has_begun, imported, notes, put, put_dependencies, round_report};
use crate::dialect::{Dialect, stage_word};
use crate::ticket::{ImportedFormat, Round, Ticket};

/// The epic of exported tickets.
#[derive(Clone, Copy, Debug)]
pub struct ExportedEpic<'a> {
    pub id: &'a str,
    pub title: &'a str,
    /// The file that the epic was read from.
    pub file: &'a Value,
    /// Whether all entries of the file are exported, also those that became no ticket because they
    /// were completed.
    pub is_whole: bool,
}

/// Returns the tickets as an epic state.
pub fn epic_state_json(tickets: &[Ticket], epic: Option<&ExportedEpic<'_>>) -> Value {
    let (mut document, imported) = match epic {
        None => (Map::new(), None),
        Some(epic) => epic_fields(epic),
    };
    let mut entries = Map::new();
    let is_whole = epic.is_some_and(|epic| epic.is_whole);
    for (id, entry) in imported.into_iter().flatten().filter(|_| is_whole) {
        entries.insert(id.clone(), entry.clone());
    }
    for ticket in tickets {
        entries.insert(ticket.id.to_string(), ticket_state(ticket));
    }
    // Replaced in place: the order of the fields stays.
    document.insert("tickets".to_owned(), Value::Object(entries));
    Value::Object(document)
}

/// Returns the fields of the epic itself, and the imported entries of its tickets.
fn epic_fields<'a>(
    epic: &ExportedEpic<'a>,
) -> (Map<String, Value>, Option<&'a Map<String, Value>>) {
    if let Value::Object(file) = epic.file
        && let Some(Value::Object(entries)) = file.get("tickets")
    {
        return (file.clone(), Some(entries));
    }
    let mut fields = Map::new();
    fields.insert("epic_id".to_owned(), json!(epic.id));
    fields.insert("title".to_owned(), json!(epic.title));
    (fields, None)
}

fn ticket_state(ticket: &Ticket) -> Value {
    let entry = imported(ticket, ImportedFormat::EpicState);
    let mut state = entry.map(|entry| entry.fields.clone()).unwrap_or_default();
    let last = ticket.rounds.last();
    let reviewed = last.is_some();
    let earlier = earlier_revisions(ticket);
    let status = stage_word(ticket.stage, Dialect::Scored);
    put(&mut state, "status", json!(status), has_begun(ticket));
    put_dependencies(&mut state, ticket, entry);
    let revisions = u64::from(ticket.round.saturating_sub(1));
    let count = json!(earlier + revisions);
    put(&mut state, "revision_count", count, revisions > 0);
    let started = json!(last.map(|round| round.review_started_at.to_iso()));
    put(&mut state, "review_started_at", started, reviewed);
    let completed = json!(last.map(|round| round.decided_at.to_iso()));
    put(&mut state, "review_completed_at", completed, reviewed);
    let approved = json!(last.map(|round| round.verdict.approved));
    put(&mut state, "review_approved", approved, reviewed);
    let mut history = match state.get("review_history") {
        Some(Value::Array(history)) => history.clone(),
        Some(_) | None => Vec::new(),
    };
    // Attempts are counted from 0 in that format, and go on after those of the other system.
    let first = history.len() as u64;
    history.extend(
        ticket
            .rounds
            .iter()
            .map(|round| review_history(round, first)),
    );
    put(&mut state, "review_history", json!(history), reviewed);
    let report = round_report(ticket, None).ok();
    put(&mut state, "current_review_report", json!(report), reviewed);
    let git = ticket.submission.as_ref().map(
        |it| json!({"branch_name": it.branch, "base_commit": it.base, "final_commit": it.commit}),
    );
    let is_submitted = git.is_some();
    put(&mut state, "git_info", json!(git), is_submitted);
    let ended = ticket.ended.is_some();
    put(&mut state, "failure_reason", json!(ticket.ended), ended);
    Value::Object(state)
}

fn review_history(round: &Round, first: u64) -> Value {
    let answers = round.panel.iter().filter_map(|it| it.answer.as_ref());
    json!({
        "attempt": first + u64::from(round.number.saturating_sub(1)),
        "reviewed_at": round.decided_at.to_iso(),
        "status": if round.verdict.approved { "pass" } else { "fail" },
        "overall_score": round.verdict.overall_score,
        "blocking_issues_count": answers.map(|answer| answer.blocking_issues).sum::<u32>(),
        "revision_notes": notes(round),
    })
}
