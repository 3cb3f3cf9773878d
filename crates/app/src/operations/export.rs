//! Tickets in other systems' forms.

use flow::Ticket;
use flow::export::{epic_state, findings_document, report, task};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Office;
use crate::failure::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// An epic-state.json with all tickets.
    EpicState,
    /// A task file, JSON.
    Task,
    /// A findings document, Markdown.
    Findings,
    /// The `ReviewReport` of the last round.
    Report,
}

/// The tickets in the form that is asked for: one document, or one for each. Markdown is a string.
pub async fn export(
    office: &Office,
    form: Form,
    ids: &[String],
    round: Option<u32>,
) -> Result<Vec<Value>, Failure> {
    let mut tickets: Vec<Ticket> = Vec::with_capacity(ids.len());
    for id in ids {
        tickets.push(office.ticket(id).await?.ticket);
    }
    let documents: Result<Vec<Value>, _> = match form {
        Form::EpicState => Ok(vec![epic_state(&tickets)]),
        Form::Task => Ok(tickets.iter().map(task).collect()),
        Form::Findings => tickets
            .iter()
            .map(|ticket| findings_document(ticket, round).map(Value::String))
            .collect(),
        Form::Report => tickets.iter().map(|ticket| report(ticket, round)).collect(),
    };
    documents.map_err(Failure::usage)
}

/// As it is written to a file or a terminal.
pub fn text(documents: &[Value]) -> String {
    let texts = documents.iter().map(|document| match document {
        Value::String(text) => text.clone(),
        other => format!("{other:#}\n"),
    });
    texts.collect::<Vec<_>>().join("\n")
}
