//! Jump to anything: sections, tickets and epics by a few letters.

use axum::extract::Query;
use axum::response::{Html, IntoResponse, Redirect, Response};
use maud::html;
use serde::Deserialize;

use super::layout::{SECTIONS, icon};
use super::parts::{encode, query_text, stage};
use super::{PageContext, PageError, PageResult, Viewer, html as respond};
use app::operations::questions::Question;
use app::operations::questions::tickets::ShowTicket;
use app::operations::questions::work::ListEpics;
use app::operations::ticket_search::{self, TicketFilter};

/// Entries of each kind.
const TICKETS_MAX: u32 = 8;
const EPICS_MAX: usize = 4;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct JumpQuery {
    q: String,
}

/// Leads to the ticket with this id, or else to the list with this filter.
pub async fn go(context: Viewer, Query(query): Query<JumpQuery>) -> Response {
    let text = query.q.trim();
    let ticket = ShowTicket {
        ticket: text.to_owned(),
    };
    if !text.is_empty() && ticket.answer(&context.app).await.is_ok() {
        return Redirect::to(&format!("/tickets/{}", encode(text))).into_response();
    }
    let list = format!("/tickets{}", query_text([("q", text)]));
    Redirect::to(&list).into_response()
}

/// Lists what the letters may mean, for the dialog.
pub async fn suggest(context: Viewer, Query(query): Query<JumpQuery>) -> PageResult {
    suggestions(&context, query.q.trim()).await
}

async fn suggestions(context: &PageContext, text: &str) -> Result<Html<String>, PageError> {
    let lower = text.to_lowercase();
    let sections = SECTIONS
        .iter()
        .filter(|(_, label, _, _)| label.to_lowercase().starts_with(&lower));
    let filter = TicketFilter::parse(text);
    let found = ticket_search::search(&context.app, &filter, (None, None), TICKETS_MAX).await?;
    let mut epics = Vec::new();
    if !text.is_empty() {
        epics = ListEpics::default().answer(&context.app).await?.items;
        epics.retain(|epic| {
            format!("{} {}", epic.id, epic.title)
                .to_lowercase()
                .contains(&lower)
        });
        epics.truncate(EPICS_MAX);
    }
    let entries = html! {
        @for (path, label, mark, _) in sections { li { a href=(path) { (icon(mark)) (label) } } }
        @for epic in &epics { li { a href=(format!("/epics/{}", encode(&epic.id))) { (icon("epic")) (epic.title) } } }
        @for row in &found.items {
            li { a href=(format!("/tickets/{}", row.id)) { (row.title) " " span.meta { (row.id) } } (stage(row.stage)) }
        }
        @if context.may_change() { li { a href="/new" { (icon("new")) "New ticket" } } }
        @if !text.is_empty() { li { a href=(format!("/tickets{}", query_text([("q", text)]))) { (icon("search")) "All tickets with “" (text) "”" } } }
    };
    Ok(respond(entries))
}
