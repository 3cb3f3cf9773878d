//! The event stream: everything that happens, in order, from any place in the log. Who falls behind
//! is not waited for and loses nothing: the log is read at the reader's own pace.

use std::convert::Infallible;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use super::ServerState;
use super::api::RouteAccess;
use super::problem::Problem;
use app::operations::identity::Identity;
use app::operations::{Cursor, StoredEvent, history};

/// A comment is sent when nothing has happened for so long, so that a dead reader is noticed.
const QUIET: Duration = Duration::from_secs(15);
/// Read ahead of the reader at the most.
const AHEAD: usize = 4;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamQuery {
    /// The id of the last event that was seen; from the beginning, where none is given.
    #[serde(default)]
    after: Option<String>,
}

pub async fn stream(
    State(house): State<ServerState>,
    Extension(speaker): Extension<Identity>,
    query: Result<Query<StreamQuery>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let bad = |why: &dyn std::fmt::Display| Problem::new(StatusCode::BAD_REQUEST, why);
    let Query(StreamQuery { after }) = query.map_err(|error| bad(&error))?;
    if !RouteAccess::People.admits(speaker.actor.role) {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "the event stream is not for agents",
        ));
    }
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let place = last.map(str::to_owned).or(after);
    let after = match place {
        None => Cursor::default(),
        Some(text) => {
            cursor(&text).ok_or_else(|| bad(&format!("{text:?} is no place in the log")))?
        }
    };
    let (to, chunks) = tokio::sync::mpsc::channel(AHEAD);
    tokio::spawn(follow(house, speaker, after, to));
    let body = Body::from_stream(ReceiverStream::new(chunks).map(Ok::<Bytes, Infallible>));
    let kind = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((kind, body).into_response())
}

/// Ends when the reader has gone, or the store has.
async fn follow(
    house: ServerState,
    speaker: Identity,
    mut after: Cursor,
    to: tokio::sync::mpsc::Sender<Bytes>,
) {
    loop {
        let news = history::after(&house.office, speaker.ticket.as_ref(), after, QUIET).await;
        let Ok(events) = news else {
            return;
        };
        let text = match events.last() {
            Some(last) => {
                after = last.cursor;
                events.iter().map(written).collect()
            }
            None => ": still here\n\n".to_owned(),
        };
        if to.send(Bytes::from(text)).await.is_err() {
            return;
        }
    }
}

fn written(event: &StoredEvent) -> String {
    let Cursor {
        transaction,
        sequence,
    } = event.cursor;
    let body = json!(event);
    format!(
        "id: {transaction}-{sequence}\nevent: {}\ndata: {body}\n\n",
        event.name
    )
}

fn cursor(text: &str) -> Option<Cursor> {
    let (transaction, sequence) = text.split_once('-')?;
    Some(Cursor {
        transaction: transaction.parse().ok()?,
        sequence: sequence.parse().ok()?,
    })
}
