//! Exports tickets in the formats of other systems.

use std::collections::BTreeSet;

use flow::Ticket;
use flow::export::{
    ExportedEpic, epic_state_json, findings_document, revision_context, round_report, task_json,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::App;
use super::epics::{self, EpicSource};
use crate::failure::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExportFormat {
    /// An epic-state.json with all tickets.
    EpicState,
    /// A task file, JSON.
    Task,
    /// A findings document, Markdown.
    Findings,
    /// The `ReviewReport` of the last round.
    Report,
    /// The revision context of the last round.
    Revision,
}

/// Exports tickets in a format: as one document, or one for each. Markdown is a JSON string.
pub async fn export(
    app: &App,
    form: ExportFormat,
    ids: &[String],
    round: Option<u32>,
) -> Result<Vec<Value>, Failure> {
    let mut tickets: Vec<Ticket> = Vec::with_capacity(ids.len());
    for id in ids {
        tickets.push(app.ticket(id).await?.ticket);
    }
    let documents: Result<Vec<Value>, _> = match form {
        ExportFormat::EpicState => Ok(vec![epic_state(app, &tickets).await?]),
        ExportFormat::Task => Ok(tickets.iter().map(task_json).collect()),
        ExportFormat::Findings => tickets
            .iter()
            .map(|ticket| findings_document(ticket, round).map(Value::String))
            .collect(),
        ExportFormat::Report => tickets
            .iter()
            .map(|ticket| round_report(ticket, round))
            .collect(),
        ExportFormat::Revision => tickets
            .iter()
            .map(|ticket| revision_context(ticket, round))
            .collect(),
    };
    documents.map_err(Failure::usage)
}

/// Exports some tickets as an epic state. If they are of one epic, its fields are exported too.
async fn epic_state(app: &App, tickets: &[Ticket]) -> Result<Value, Failure> {
    let epics: BTreeSet<Option<&String>> = tickets
        .iter()
        .map(|ticket| ticket.spec.context.epic.as_ref())
        .collect();
    let only = epics
        .first()
        .copied()
        .flatten()
        .filter(|_| epics.len() == 1);
    let source = match only {
        Some(id) => epics::load_source(app, id).await?,
        None => None,
    };
    let epic = source.as_ref().map(|source| exported(source, false));
    Ok(epic_state_json(tickets, epic.as_ref()))
}

/// Exports a whole epic as an epic state: all its tickets, and the entries of its file that became
/// no ticket.
pub async fn export_epic(app: &App, id: &str) -> Result<Value, Failure> {
    let (source, tickets) = epics::load_whole(app, id).await?;
    Ok(epic_state_json(&tickets, Some(&exported(&source, true))))
}

fn exported(source: &EpicSource, is_whole: bool) -> ExportedEpic<'_> {
    ExportedEpic {
        id: &source.id,
        title: &source.title,
        file: &source.file,
        is_whole,
    }
}

/// Renders documents for a file or a terminal.
pub fn documents_text(documents: &[Value]) -> String {
    let texts = documents.iter().map(|document| match document {
        Value::String(text) => text.clone(),
        other => format!("{other:#}\n"),
    });
    texts.collect::<Vec<_>>().join("\n")
}
