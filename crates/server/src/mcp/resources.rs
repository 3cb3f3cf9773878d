//! What an agent may read: its ticket, a round's findings document, how the project stands. A judge
//! is blind to earlier rounds here as everywhere.

use flow::{Role, Ticket};
use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::{Value, json};

use super::told;
use app::operations::identity::Identity;
use app::operations::{App, assignments, ticket_id, tickets};

const STATE: &str = "countersign://state";
const TICKET: &str = "countersign://tickets/";

pub fn templates() -> Vec<ResourceTemplate> {
    let one =
        |uri: &str, name: &str, text: &str| ResourceTemplate::new(uri, name).with_description(text);
    vec![
        one(
            "countersign://tickets/{ticket}",
            "ticket",
            "What is wanted, and where it stands.",
        ),
        one(
            "countersign://tickets/{ticket}/rounds/{round}",
            "round",
            "What a round came to.",
        ),
        one(
            "countersign://tickets/{ticket}/findings",
            "findings",
            "The findings document of the last round.",
        ),
    ]
}

pub async fn list(office: &App, speaker: &Identity) -> Result<Vec<Resource>, ErrorData> {
    let mut found = vec![Resource::new(STATE, "state")];
    if let Some(id) = &speaker.ticket {
        found.push(Resource::new(format!("{TICKET}{id}"), id.to_string()));
    }
    let held = assignments::held(office, speaker).await.map_err(failed)?;
    if let Some(id) = held.filter(|id| speaker.ticket.as_ref() != Some(id)) {
        found.push(Resource::new(format!("{TICKET}{id}"), id.to_string()));
    }
    Ok(found)
}

fn failed(failure: app::failure::Failure) -> ErrorData {
    ErrorData::internal_error(told(failure), None)
}

pub async fn read(
    office: &App,
    speaker: &Identity,
    uri: &str,
) -> Result<ReadResourceResult, ErrorData> {
    if uri == STATE {
        let tally = tickets::tally(office).await.map_err(failed)?;
        let counts: Vec<Value> = tally
            .into_iter()
            .map(|(stage, count)| json!({"stage": stage, "tickets": count}))
            .collect();
        return Ok(text(
            uri,
            "application/json",
            &json!({"tickets": counts}).to_string(),
        ));
    }
    let unknown = || ErrorData::resource_not_found(format!("there is no {uri}"), None);
    let path = uri.strip_prefix(TICKET).ok_or_else(unknown)?;
    let mut parts = path.split('/');
    let id = ticket_id(parts.next().unwrap_or_default()).map_err(|_| unknown())?;
    if speaker.ticket.as_ref().is_some_and(|only| *only != id) {
        return Err(unknown());
    }
    let ticket = office
        .ticket(id.as_str())
        .await
        .map_err(|_| unknown())?
        .ticket;
    let blind = matches!(speaker.actor.role, Role::Reviewer | Role::Verifier);
    match (parts.next(), parts.next()) {
        (None, None) => Ok(text(
            uri,
            "application/json",
            &described(&ticket, blind).to_string(),
        )),
        (Some("findings"), None) if !blind => {
            let document = flow::export::findings_document(&ticket, None).map_err(|_| unknown())?;
            Ok(text(uri, "text/markdown", &document))
        }
        (Some("rounds"), Some(number)) if !blind => {
            let number = number.parse().map_err(|_| unknown())?;
            let report = flow::export::report(&ticket, Some(number)).map_err(|_| unknown())?;
            Ok(text(uri, "application/json", &report.to_string()))
        }
        _ => Err(unknown()),
    }
}

fn described(ticket: &Ticket, blind: bool) -> Value {
    let mut value = json!({"id": ticket.id, "stage": ticket.stage, "spec": ticket.spec});
    if let (false, Some(fields)) = (blind, value.as_object_mut()) {
        fields.insert("round".to_owned(), ticket.round.into());
        fields.insert("submission".to_owned(), json!(ticket.submission));
    }
    value
}

fn text(uri: &str, kind: &str, text: &str) -> ReadResourceResult {
    ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type(kind)])
}
