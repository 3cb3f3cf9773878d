//! The ticket as a task file. A ticket that was imported from one is written back with all its
//! fields, and with the news of its work here.

use serde_json::{Map, Value, json};

use super::{has_begun, imported, put, put_dependencies};
use crate::dialect::{Dialect, stage_word};
use crate::ticket::{ImportedEntry, ImportedFormat, Ticket};

/// Returns the ticket as a task file.
pub fn task_json(ticket: &Ticket) -> Value {
    let spec = &ticket.spec;
    let entry = imported(ticket, ImportedFormat::Task);
    let mut task = entry.map(|entry| entry.fields.clone()).unwrap_or_default();
    let (begun, builder) = (has_begun(ticket), ticket.assigned.builder.as_deref());
    let files = ticket.submission.as_ref().map(|it| it.files.clone());
    let kind = spec.kind.as_deref().unwrap_or("implementation");
    let status = stage_word(ticket.stage, Dialect::Queue);
    // Nobody changes the request after the import, so its imported fields are still true.
    put(&mut task, "id", json!(ticket.id), false);
    put(&mut task, "type", json!(kind), false);
    put(&mut task, "status", json!(status), begun);
    put(&mut task, "priority", json!(spec.priority), false);
    put(&mut task, "created_by", json!("countersign"), false);
    let assigned = json!(builder.unwrap_or("engineer"));
    put(&mut task, "assigned_to", assigned, builder.is_some());
    let created = json!(ticket.created_at.to_iso());
    put(&mut task, "created_at", created, false);
    put(&mut task, "title", json!(spec.title), false);
    put(&mut task, "description", json!(spec.description), false);
    put_dependencies(&mut task, ticket, entry);
    put(&mut task, "blocks", json!([]), false);
    put(
        &mut task,
        "acceptance_criteria",
        json!(spec.acceptance),
        false,
    );
    let is_news = files.is_some();
    put(
        &mut task,
        "deliverables",
        json!(files.unwrap_or_default()),
        is_news,
    );
    put(&mut task, "notes", json!([]), false);
    put_context(&mut task, ticket, entry);
    // Other systems count repetitions, we count rounds: the first round is no retry.
    let own = ticket.rounds.len().saturating_sub(1) as u64;
    let earlier = entry.map_or(0, |entry| entry.count("retry_count"));
    put(&mut task, "retry_count", json!(earlier + own), own > 0);
    put(&mut task, "plan", Value::Null, false);
    Value::Object(task)
}

/// Sets the context under the names of task files: `branch_name` and `epic_key`.
fn put_context(task: &mut Map<String, Value>, ticket: &Ticket, entry: Option<&ImportedEntry>) {
    let submission = ticket.submission.as_ref();
    let branch = submission.map(|submission| submission.branch.clone());
    let mut context = match entry {
        // Our own fields would be new ones to the other system.
        Some(_) => match task.get("context") {
            Some(Value::Object(context)) => context.clone(),
            // A task without a context gets one only for the branch.
            Some(_) | None if branch.is_none() => return,
            Some(_) | None => Map::new(),
        },
        None => match serde_json::to_value(&ticket.spec.context) {
            Ok(Value::Object(context)) => context,
            Ok(_) | Err(_) => Map::new(),
        },
    };
    if entry.is_none() {
        context.shift_remove("imported");
        for (ours, theirs) in [("branch", "branch_name"), ("epic", "epic_key")] {
            // Our name is removed, so that the other system does not read the same fact under two
            // names.
            if let Some(value) = context.shift_remove(ours) {
                context.insert(theirs.to_owned(), value);
            }
        }
    }
    // The imported name of the branch wins: it is what the other system asked for.
    if let Some(branch) = branch.filter(|_| !context.contains_key("branch")) {
        put(&mut context, "branch_name", branch.into(), false);
    }
    task.insert("context".to_owned(), Value::Object(context));
}
