//! Event stream (SSE): all events in order, from any position in the log. A slow reader blocks
//! nobody and loses nothing, because each stream reads the log at the pace of its reader.
//!
//! The position is the cursor of the log and not a counter of the stream. A reader that comes back
//! names its last event and misses nothing, whichever server it meets.

use std::convert::Infallible;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flow::TicketId;
use serde::Deserialize;
use serde_json::json;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use super::ServerState;
use super::api::{RouteAccess, require_ticket};
use super::problem::Problem;
use app::operations::identity::Identity;
use app::operations::questions::{Method, format_cursor, parse_cursor};
use app::operations::{Cursor, StoredEvent, history, overview};

/// Silence after which a comment is sent, so that a dead reader is noticed.
pub const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(15);
/// Chunks that are read ahead of the reader.
/// The channel is the brake: a slow reader fills it, and then the log is not read on.
pub const READ_AHEAD_MAX: usize = 4;

/// Position after the newest event.
const NOW: &str = "now";

/// Last words of a stream when the server stops: the delay after which the reader connects again.
pub const RECONNECT: &[u8] = b": the server stops; connect again\nretry: 1000\n\n";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamQuery {
    /// Id of the last event that the reader has, or `now`; without it the stream starts at the
    /// beginning.
    #[serde(default)]
    after: Option<String>,
    /// Only events of this ticket.
    #[serde(default)]
    ticket: Option<String>,
}

pub async fn stream(
    State(state): State<ServerState>,
    Extension(identity): Extension<Identity>,
    query: Result<Query<StreamQuery>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let bad = |why: &dyn std::fmt::Display| Problem::new(StatusCode::BAD_REQUEST, why);
    let Query(StreamQuery { after, ticket }) = query.map_err(|error| bad(&error))?;
    // Events show the work of all agents, which would break the independence of reviewers.
    if !RouteAccess::People.admits(Method::Get, identity.actor.role) {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "agents may not read the event stream",
        ));
    }
    // Browsers send this header when they connect again. It is newer than the address, so it wins.
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let position = last.map(str::to_owned).or(after);
    let after = match position {
        None => Cursor::default(),
        Some(text) if text == NOW => overview::latest_cursor(&state.app).await?,
        Some(text) => parse_cursor(&text).map_err(|_| {
            bad(&format!("{text:?} is not a position in the log"))
                .hint("send the id of an event, such as 12.345, or `now` for new events only")
        })?,
    };
    let ticket = match ticket {
        Some(ticket) => Some(require_ticket(&state.app, &identity, &ticket).await?),
        None => identity.ticket,
    };
    let (sender, chunks) = tokio::sync::mpsc::channel(READ_AHEAD_MAX);
    tokio::spawn(follow(state, ticket, after, sender));
    let body = Body::from_stream(ReceiverStream::new(chunks).map(Ok::<Bytes, Infallible>));
    let kind = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((kind, body).into_response())
}

/// Sends events until the reader disconnects, the store fails or the server stops.
async fn follow(
    state: ServerState,
    ticket: Option<TicketId>,
    mut after: Cursor,
    sender: tokio::sync::mpsc::Sender<Bytes>,
) {
    loop {
        let batch =
            history::events_after(&state.app, ticket.as_ref(), after, KEEP_ALIVE_AFTER).await;
        // A failed read ends the stream. The client connects again, with its position.
        let Ok(events) = batch else {
            return;
        };
        if events.is_empty() && state.app.stop.is_requested() {
            // The reader need not be there any more.
            let _ = sender.send(Bytes::from_static(RECONNECT)).await;
            return;
        }
        let text = match events.last() {
            Some(last) => {
                after = last.cursor;
                events.iter().map(sse_frame).collect()
            }
            // A comment of the protocol; readers ignore it. Writing it shows whether the reader is
            // still there.
            None => ": still here\n\n".to_owned(),
        };
        if sender.send(Bytes::from(text)).await.is_err() {
            return;
        }
    }
}

fn sse_frame(event: &StoredEvent) -> String {
    let id = format_cursor(event.cursor);
    let body = json!(event);
    format!("id: {id}\nevent: {}\ndata: {body}\n\n", event.name)
}
