//! Exports tickets in the formats of other systems.

use flow::Ticket;
use flow::export::{epic_state_json, findings_document, round_report, task_json};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::App;
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
        ExportFormat::EpicState => Ok(vec![epic_state_json(&tickets)]),
        ExportFormat::Task => Ok(tickets.iter().map(task_json).collect()),
        ExportFormat::Findings => tickets
            .iter()
            .map(|ticket| findings_document(ticket, round).map(Value::String))
            .collect(),
        ExportFormat::Report => tickets
            .iter()
            .map(|ticket| round_report(ticket, round))
            .collect(),
    };
    documents.map_err(Failure::usage)
}

/// Renders documents for a file or a terminal.
pub fn documents_text(documents: &[Value]) -> String {
    let texts = documents.iter().map(|document| match document {
        Value::String(text) => text.clone(),
        other => format!("{other:#}\n"),
    });
    texts.collect::<Vec<_>>().join("\n")
}
