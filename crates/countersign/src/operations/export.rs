//! Tickets in other systems' forms.

use flow::Ticket;
use flow::export::{epic_state, findings_document, report, task};
use serde_json::Value;

use super::Office;
use crate::failure::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// 002's epic-state.json, all tickets in one document.
    EpicState,
    /// 001's task JSON.
    Task,
    /// 004's findings document, Markdown.
    Findings,
    /// 002's `ReviewReport` of the last round.
    Report,
}

/// The tickets in the form that is asked for.
pub async fn export(
    office: &Office,
    form: Form,
    ids: &[String],
    round: Option<u32>,
) -> Result<String, Failure> {
    let mut tickets: Vec<Ticket> = Vec::with_capacity(ids.len());
    for id in ids {
        tickets.push(office.ticket(id).await?.ticket);
    }
    let texts: Result<Vec<String>, _> = match form {
        Form::EpicState => Ok(vec![pretty(&epic_state(&tickets))]),
        Form::Task => Ok(tickets.iter().map(|ticket| pretty(&task(ticket))).collect()),
        Form::Findings => tickets
            .iter()
            .map(|ticket| findings_document(ticket, round))
            .collect(),
        Form::Report => tickets
            .iter()
            .map(|ticket| report(ticket, round).map(|it| pretty(&it)))
            .collect(),
    };
    Ok(texts.map_err(Failure::usage)?.join("\n"))
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}
