//! Live updates: one event stream per tab, which sends the HTML of what has changed for the page's
//! topic. Events are merged: at most four updates in a second, each with the newest state.
//!
//! The page carries the log position at which it was rendered, so nothing between rendering and
//! connecting is lost. A browser that comes back names its last position.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Query;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flow::TicketId;
use maud::{Markup, html};
use serde::Deserialize;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use super::{PageContext, PageError, Viewer, board, inbox, layout, parts, ticket};
use app::failure::Failure;
use app::operations::questions::{format_cursor, parse_cursor};
use app::operations::ticket_search;
use app::operations::{Cursor, StoredEvent, browser_sessions, history, overview};

/// Silence after which a comment is sent, and the session is checked again.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(15);
/// Pause after an update, in which further events are collected.
const MERGE_FOR: Duration = Duration::from_millis(250);
/// Tickets whose rows are sent in one update; after more of them the page is told to reload.
const ROWS_MAX: usize = 100;

#[derive(Debug, Deserialize)]
pub struct TopicQuery {
    topic: String,
    after: Option<String>,
}

/// Topic of a page: the changes that it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LiveTopic {
    Inbox,
    Board,
    Tickets,
    Ticket(TicketId),
    /// A page that only says that something has changed.
    Reload,
}

impl LiveTopic {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "inbox" => Self::Inbox,
            "board" => Self::Board,
            "tickets" => Self::Tickets,
            "reload" => Self::Reload,
            _ => Self::Ticket(TicketId::new(text.strip_prefix("ticket:")?).ok()?),
        })
    }

    fn ticket(&self) -> Option<&TicketId> {
        match self {
            Self::Ticket(id) => Some(id),
            Self::Inbox | Self::Board | Self::Tickets | Self::Reload => None,
        }
    }
}

pub async fn stream(
    context: Viewer,
    Query(query): Query<TopicQuery>,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let bad = |why: &str| PageError::new(StatusCode::BAD_REQUEST, why);
    let topic = LiveTopic::parse(&query.topic).ok_or_else(|| bad("unknown topic"))?;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let after = match last.or(query.after.as_deref()) {
        Some(text) => parse_cursor(text).map_err(|_| bad("not a position in the log"))?,
        None => overview::latest_cursor(&context.app).await?,
    };
    let (sender, chunks) = tokio::sync::mpsc::channel(1);
    tokio::spawn(follow(context.0, topic, after, sender));
    let body = Body::from_stream(ReceiverStream::new(chunks).map(Ok::<Bytes, Infallible>));
    Ok(([(header::CONTENT_TYPE, "text/event-stream")], body).into_response())
}

/// Sends updates until the reader disconnects, the session ends or the server stops.
async fn follow(
    context: PageContext,
    topic: LiveTopic,
    mut after: Cursor,
    sender: tokio::sync::mpsc::Sender<Bytes>,
) {
    let mut new_escalations = BTreeSet::new();
    loop {
        // Each time, so that a revoked session sees nothing more.
        let valid = browser_sessions::authenticate(&context.app, &context.session).await;
        if !matches!(valid, Ok(Ok(_))) || context.app.stop.is_requested() {
            return;
        }
        let events = history::events_after(&context.app, topic.ticket(), after, KEEP_ALIVE_AFTER);
        // A failed read ends the stream; the browser connects again.
        let Ok(events) = events.await else {
            return;
        };
        let text = match events.last() {
            None => ": still here\n\n".to_owned(),
            Some(last) => {
                after = last.cursor;
                match update(&context, &topic, &events, &mut new_escalations).await {
                    Ok(markup) => frame(after, &markup.into_string()),
                    Err(_) => return,
                }
            }
        };
        if sender.send(Bytes::from(text)).await.is_err() {
            return;
        }
        tokio::time::sleep(MERGE_FOR).await;
    }
}

fn frame(cursor: Cursor, text: &str) -> String {
    let mut out = format!("id: {}\n", format_cursor(cursor));
    for line in text.lines() {
        out.push_str("data: ");
        out.push_str(line);
        out.push('\n');
    }
    out.push('\n');
    out
}

/// Renders what the events changed for the topic.
async fn update(
    context: &PageContext,
    topic: &LiveTopic,
    events: &[StoredEvent],
    new_escalations: &mut BTreeSet<TicketId>,
) -> Result<Markup, Failure> {
    let waiting = layout::waiting_count(context).await?;
    let changed: BTreeSet<&TicketId> = events
        .iter()
        .filter_map(|event| event.ticket.as_ref())
        .collect();
    let parts = match topic {
        LiveTopic::Board => {
            let columns = board::columns(context).await?;
            let pairs = board::column_ids().zip(columns);
            html! { @for (id, column) in pairs { (partial(&id, &column)) } }
        }
        LiveTopic::Tickets if changed.len() > ROWS_MAX => stale(),
        LiveTopic::Tickets => {
            let rows = ticket_search::rows(&context.app, changed).await?;
            html! { @for row in &rows { (partial(&parts::element_id("row", &row.id), &parts::ticket_row(context, row))) } }
        }
        LiveTopic::Inbox => {
            for id in changed {
                if context.app.ticket(id.as_str()).await?.ticket.needs_person() {
                    new_escalations.insert(id.clone());
                }
            }
            partial("news", &inbox::news(new_escalations.len()))
        }
        LiveTopic::Ticket(id) => {
            let stored = context.app.ticket(id.as_str()).await?;
            match ticket::live_part(context, &stored).await {
                Ok(part) => partial("ticket", &part),
                Err(_) => stale(),
            }
        }
        LiveTopic::Reload => stale(),
    };
    Ok(html! { (partial("waiting", &layout::waiting_badge(waiting))) (parts) })
}

/// Renders the notice that the page has changed.
fn stale() -> Markup {
    partial(
        "stale",
        &html! {
            p #stale.notice role="status" { "Something has changed. " a href="" { "Reload" } }
        },
    )
}

/// Wraps a part that replaces the element with this id.
fn partial(id: &str, part: &Markup) -> Markup {
    html! { hx-partial hx-target=(format!("#{id}")) hx-swap="outerMorph" { (part) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_its_position_and_every_line_as_data() {
        let cursor = Cursor {
            transaction: 3,
            sequence: 7,
        };
        assert_eq!(frame(cursor, "<a>\nb"), "id: 3.7\ndata: <a>\ndata: b\n\n");
    }

    #[test]
    fn topics_are_known_words() {
        assert_eq!(LiveTopic::parse("board"), Some(LiveTopic::Board));
        assert!(LiveTopic::parse("ticket:greet").unwrap().ticket().is_some());
        for bad in ["", "ticket:", "ticket:../x", "else"] {
            assert_eq!(LiveTopic::parse(bad), None, "{bad}");
        }
    }
}
