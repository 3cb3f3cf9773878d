//! Resources that an agent may read: its ticket, its change, the findings of a round, ticket counts. Reviewers
//! and verifiers do not see earlier rounds.

use std::fmt::Write as _;

use flow::{Role, Ticket};
use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::{Value, json};

use super::error_text;
use app::operations::assignments::ClaimRef;
use app::operations::assignments::change::{self, DiffRequest};
use app::operations::identity::Identity;
use app::operations::{App, assignments, parse_ticket_id, tickets};

const STATE: &str = "countersign://state";
const TICKET: &str = "countersign://tickets/";

pub fn templates() -> Vec<ResourceTemplate> {
    let template =
        |uri: &str, name: &str, text: &str| ResourceTemplate::new(uri, name).with_description(text);
    vec![
        template(
            "countersign://tickets/{ticket}",
            "ticket",
            "The task and its stage.",
        ),
        template(
            "countersign://tickets/{ticket}/rounds/{round}",
            "round",
            "The review report of a round.",
        ),
        template(
            "countersign://tickets/{ticket}/findings",
            "findings",
            "The findings document of the last round.",
        ),
        template(
            "countersign://tickets/{ticket}/diff",
            "diff",
            "The change of your assignment; get_diff has pages.",
        ),
    ]
}

pub async fn list(app: &App, identity: &Identity) -> Result<Vec<Resource>, ErrorData> {
    let mut resources = vec![Resource::new(STATE, "state")];
    if let Some(id) = &identity.ticket {
        resources.push(Resource::new(format!("{TICKET}{id}"), id.to_string()));
    }
    let claimed = assignments::held_ticket(app, identity)
        .await
        .map_err(resource_error)?;
    if let Some(id) = &claimed {
        resources.push(Resource::new(format!("{TICKET}{id}/diff"), "diff"));
    }
    if let Some(id) = claimed.filter(|id| identity.ticket.as_ref() != Some(id)) {
        resources.push(Resource::new(format!("{TICKET}{id}"), id.to_string()));
    }
    Ok(resources)
}

fn resource_error(failure: app::failure::Failure) -> ErrorData {
    ErrorData::internal_error(error_text(failure), None)
}

pub async fn read(
    app: &App,
    identity: &Identity,
    uri: &str,
) -> Result<ReadResourceResult, ErrorData> {
    if uri == STATE {
        let tally = tickets::tally(app).await.map_err(resource_error)?;
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
    let unknown = || ErrorData::resource_not_found(format!("no resource {uri}"), None);
    let path = uri.strip_prefix(TICKET).ok_or_else(unknown)?;
    let mut parts = path.split('/');
    let id = parse_ticket_id(parts.next().unwrap_or_default()).map_err(|_| unknown())?;
    if identity.ticket.as_ref().is_some_and(|only| *only != id) {
        return Err(unknown());
    }
    let ticket = app.ticket(id.as_str()).await.map_err(|_| unknown())?.ticket;
    let blind = matches!(identity.actor.role, Role::Reviewer | Role::Verifier);
    match (parts.next(), parts.next()) {
        (None, None) => Ok(text(
            uri,
            "application/json",
            &ticket_json(&ticket, blind).to_string(),
        )),
        (Some("diff"), None) => {
            let claimed = assignments::held_ticket(app, identity).await;
            // Only the change of the caller's own claim: a builder reads no other ticket's.
            if claimed.map_err(resource_error)? != Some(id) {
                return Err(unknown());
            }
            let request = DiffRequest {
                page_bytes: Some(change::RESOURCE_BYTES),
                ..DiffRequest::default()
            };
            let claim = ClaimRef::default();
            let page = Box::pin(change::load_diff_page(app, identity, &claim, &request)).await;
            let page = page.map_err(resource_error)?;
            let mut diff = page.diff;
            if let Some(next) = page.next {
                let _ = writeln!(diff, "[cut; call get_diff with offset {next}]");
            }
            Ok(text(uri, "text/x-diff", &diff))
        }
        (Some("findings"), None) if !blind => {
            let document = flow::export::findings_document(&ticket, None).map_err(|_| unknown())?;
            Ok(text(uri, "text/markdown", &document))
        }
        (Some("rounds"), Some(number)) if !blind => {
            let number = number.parse().map_err(|_| unknown())?;
            let report =
                flow::export::round_report(&ticket, Some(number)).map_err(|_| unknown())?;
            Ok(text(uri, "application/json", &report.to_string()))
        }
        _ => Err(unknown()),
    }
}

fn ticket_json(ticket: &Ticket, blind: bool) -> Value {
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
