//! Live updates: one event stream per tab, which sends the HTML of what has changed for the page's
//! topic. Events are merged: at most four updates in a second, each with the newest state.
//!
//! The page carries the log position at which it was rendered, so nothing between rendering and
//! connecting is lost. A browser that comes back names its last position.

mod run_stream;

pub use run_stream::run_topic;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Query;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flow::TicketId;
use flow::narrate::Mood;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use super::{
    PageContext, PageError, Viewer, agents, board, epics, inbox, layout, log, parts, queues, ticket,
};
use app::failure::Failure;
use app::operations::history::{self, LogFollower, LogLine};
use app::operations::questions::{format_cursor, parse_cursor};
use app::operations::ticket_search;
use app::operations::transcripts::TranscriptTail;
use app::operations::{Cursor, StoredEvent, browser_sessions, overview};

/// Silence after which a comment is sent.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(15);
/// Interval at which the session is checked while nothing happens.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Pause after an update, in which further events are collected.
const MERGE_FOR: Duration = Duration::from_millis(250);
/// Interval at which a page is rendered again that shows leases and ages: they change without events.
const REFRESH_AFTER: Duration = Duration::from_secs(5);
/// The same for a ticket, in place of the comment that keeps a silent connection open.
const REFRESH_TICKET_AFTER: Duration = KEEP_ALIVE_AFTER;
/// Tickets whose rows are sent in one update; after more of them the page is told to reload.
const ROWS_MAX: usize = 100;
/// Events that the open log adds in one update; after more of them it loads again.
const LOG_EVENTS_MAX: usize = 200;
/// Events that a page catches up with. A page that missed more of them loads again, once.
const GAP_EVENTS_MAX: usize = 1_000;
/// Notifications of one update; a person reads no more at once.
const ALERTS_MAX: usize = 10;
/// Lines of the log that are read at a time for notifications.
const ALERT_LINES: u32 = 500;
const ALERT_CHARS_MAX: usize = 300;
/// Name of the event that adds a ticket.
const CREATED: &str = "created";

#[derive(Debug, Deserialize)]
pub struct TopicQuery {
    topic: String,
    after: Option<String>,
}

/// Topic of a page: the changes that it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LiveTopic {
    Inbox,
    /// The board of all repositories, or of one.
    Board(Option<String>),
    /// The list in the order of creation, without a filter.
    Tickets,
    /// A list whose rows and order depend on what changes.
    SortedTickets,
    Ticket(TicketId),
    Agents,
    Queues,
    Epics,
    Epic(String),
    Log,
    /// The turns of a run, which are no events of the log.
    Run(TicketId, String),
    /// A page that only says that its ticket has changed.
    Stale(TicketId),
    /// A page that only says that something has changed.
    Reload,
}

impl LiveTopic {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "inbox" => Self::Inbox,
            "board" => Self::Board(None),
            "tickets" => Self::Tickets,
            "sorted-tickets" => Self::SortedTickets,
            "agents" => Self::Agents,
            "queues" => Self::Queues,
            "epics" => Self::Epics,
            "log" => Self::Log,
            "reload" => Self::Reload,
            _ => match text.split_once(':')? {
                ("ticket", id) => Self::Ticket(TicketId::new(id).ok()?),
                ("stale", id) => Self::Stale(TicketId::new(id).ok()?),
                ("board", path) if !path.is_empty() => Self::Board(Some(path.to_owned())),
                ("epic", id) if !id.is_empty() => Self::Epic(id.to_owned()),
                ("run", rest) => {
                    let (run, id) = rest.split_once(':')?;
                    Self::Run(TicketId::new(id).ok()?, run.to_owned())
                }
                _ => return None,
            },
        })
    }

    fn ticket(&self) -> Option<&TicketId> {
        match self {
            Self::Ticket(id) | Self::Stale(id) => Some(id),
            Self::Inbox
            | Self::Board(_)
            | Self::Tickets
            | Self::SortedTickets
            | Self::Agents
            | Self::Queues
            | Self::Epics
            | Self::Epic(_)
            | Self::Log
            | Self::Reload
            | Self::Run(..) => None,
        }
    }

    /// Returns the interval at which a page is rendered again without an event of its own. A
    /// queued ticket moves up when others are claimed.
    fn refresh_after(&self) -> Option<Duration> {
        match self {
            Self::Agents | Self::Queues => Some(REFRESH_AFTER),
            Self::Ticket(_) => Some(REFRESH_TICKET_AFTER),
            Self::Inbox
            | Self::Board(_)
            | Self::Tickets
            | Self::SortedTickets
            | Self::Epics
            | Self::Epic(_)
            | Self::Log
            | Self::Run(..)
            | Self::Stale(_)
            | Self::Reload => None,
        }
    }

    /// Returns the number of events after which the page is brought up to date as a whole.
    fn events_max(&self) -> usize {
        match self {
            Self::Log => LOG_EVENTS_MAX,
            Self::Inbox
            | Self::Board(_)
            | Self::Tickets
            | Self::SortedTickets
            | Self::Ticket(_)
            | Self::Agents
            | Self::Queues
            | Self::Epics
            | Self::Epic(_)
            | Self::Run(..)
            | Self::Stale(_)
            | Self::Reload => GAP_EVENTS_MAX,
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
    let after = position(&context, &headers, query.after.as_deref()).await?;
    let (sender, response) = event_stream();
    match topic {
        LiveTopic::Run(ticket, run) => {
            let position = (
                after.transaction,
                usize::try_from(after.sequence).unwrap_or(0),
            );
            let tail = TranscriptTail::new(&context.app, &ticket, &run, position);
            let tail = tail.ok_or_else(|| {
                PageError::new(StatusCode::NOT_FOUND, format!("{ticket} has no run {run}"))
            })?;
            tokio::spawn(run_stream::follow_run(context.0, tail, sender));
        }
        topic => {
            tokio::spawn(follow(context.0, topic, after, sender));
        }
    }
    Ok(response)
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct AlertQuery {
    after: Option<String>,
}

/// Streams what needs a person, for notifications of the browser.
pub async fn alerts(
    context: Viewer,
    Query(query): Query<AlertQuery>,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let after = position(&context, &headers, query.after.as_deref()).await?;
    let (sender, response) = event_stream();
    tokio::spawn(follow_alerts(context.0, after, sender));
    Ok(response)
}

/// Reads the position to continue from: what the browser saw last, else that of the page.
async fn position(
    context: &PageContext,
    headers: &HeaderMap,
    after: Option<&str>,
) -> Result<Cursor, PageError> {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    match last.or(after) {
        Some(text) => parse_cursor(text)
            .map_err(|_| PageError::new(StatusCode::BAD_REQUEST, "not a position in the log")),
        None => Ok(overview::latest_cursor(&context.app).await?),
    }
}

fn event_stream() -> (Sender<Bytes>, Response) {
    let (sender, chunks) = tokio::sync::mpsc::channel(1);
    let body = Body::from_stream(ReceiverStream::new(chunks).map(Ok::<Bytes, Infallible>));
    let response = ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response();
    (sender, response)
}

/// Returns whether a stream may go on: the session is valid, checked each time so that a revoked
/// one sees nothing more, and the server is not stopping.
async fn may_continue(context: &PageContext) -> bool {
    let valid = browser_sessions::authenticate(&context.app, &context.session).await;
    matches!(valid, Ok(Ok(_))) && !context.app.stop.is_requested()
}

/// Events since the last update.
enum EventBatch {
    Quiet,
    Events(Vec<StoredEvent>),
    /// More than a page catches up with; the position is that of the newest one.
    Gap(Cursor),
}

async fn next_batch(
    context: &PageContext,
    topic: &LiveTopic,
    after: Cursor,
) -> Result<EventBatch, Failure> {
    let app = &context.app;
    let mut all = history::events_after(app, topic.ticket(), after, CHECK_INTERVAL).await?;
    // A full chunk may be a part of more; each read is bounded, and so is their number.
    let chunk = all.len();
    let mut is_full = chunk > 0 && chunk.is_multiple_of(100);
    while is_full {
        let Some(last) = all.last() else { break };
        let more = history::events_after(app, topic.ticket(), last.cursor, Duration::ZERO).await?;
        is_full = more.len() == chunk;
        all.extend(more);
        if all.len() > topic.events_max() {
            break;
        }
    }
    if all.len() > topic.events_max() {
        return Ok(EventBatch::Gap(overview::latest_cursor(app).await?));
    }
    Ok(if all.is_empty() {
        EventBatch::Quiet
    } else {
        EventBatch::Events(all)
    })
}

/// Sends updates until the reader disconnects, the session ends or the server stops.
async fn follow(context: PageContext, topic: LiveTopic, mut after: Cursor, sender: Sender<Bytes>) {
    let mut new_escalations = BTreeSet::new();
    let mut last_sent = Instant::now();
    loop {
        let batch = tokio::select! {
            batch = next_batch(&context, &topic, after) => batch,
            () = sender.closed() => return,
        };
        // A failed read ends the stream; the browser connects again.
        let Ok(batch) = batch else { return };
        if !may_continue(&context).await {
            return;
        }
        let update = match batch {
            EventBatch::Quiet
                if topic
                    .refresh_after()
                    .is_some_and(|after| last_sent.elapsed() >= after) =>
            {
                catch_up(&context, &topic, after).await
            }
            EventBatch::Quiet if last_sent.elapsed() < KEEP_ALIVE_AFTER => continue,
            EventBatch::Quiet => Ok(": still here\n\n".to_owned()),
            EventBatch::Gap(latest) => {
                after = latest;
                catch_up(&context, &topic, after).await
            }
            EventBatch::Events(events) => {
                let before = after;
                if let Some(last) = events.last() {
                    after = last.cursor;
                }
                let news = TopicChanges {
                    events: &events,
                    before,
                };
                let update = update(&context, &topic, &news, &mut new_escalations).await;
                update.map(|markup| frame(after, &markup.into_string()))
            }
        };
        let Ok(text) = update else { return };
        last_sent = Instant::now();
        if sender.send(Bytes::from(text)).await.is_err() {
            return;
        }
        tokio::time::sleep(MERGE_FOR).await;
    }
}

/// Brings a page up to date that missed too many events. What is rendered from the state needs none
/// of them; the other pages load again.
async fn catch_up(
    context: &PageContext,
    topic: &LiveTopic,
    latest: Cursor,
) -> Result<String, Failure> {
    match topic {
        LiveTopic::Board(_)
        | LiveTopic::Ticket(_)
        | LiveTopic::Agents
        | LiveTopic::Queues
        | LiveTopic::Epics
        | LiveTopic::Epic(_) => {
            let news = TopicChanges {
                events: &[],
                before: latest,
            };
            let markup = update(context, topic, &news, &mut BTreeSet::new()).await?;
            Ok(frame(latest, &markup.into_string()))
        }
        LiveTopic::Inbox
        | LiveTopic::Tickets
        | LiveTopic::SortedTickets
        | LiveTopic::Log
        | LiveTopic::Run(..)
        | LiveTopic::Stale(_)
        | LiveTopic::Reload => Ok(format!(
            "id: {}\nevent: page:reload\ndata: \n\n",
            format_cursor(latest)
        )),
    }
}

/// Sends one message for each thing that needs a person.
async fn follow_alerts(context: PageContext, mut after: Cursor, sender: Sender<Bytes>) {
    let mut follower = LogFollower::default();
    let mut last_sent = Instant::now();
    loop {
        let read = follower.read(&context.app, None, after, ALERT_LINES).await;
        let Ok(page) = read else { return };
        if !may_continue(&context).await {
            return;
        }
        let mut text = String::new();
        if let Some(end) = page.end {
            after = end;
            let urgent = page.lines.iter().filter(|line| line.mood == Mood::Urgent);
            let alerts: String = urgent.take(ALERTS_MAX).map(alert_frame).collect();
            text = format!("{alerts}id: {}\ndata: \n\n", format_cursor(after));
        } else if last_sent.elapsed() >= KEEP_ALIVE_AFTER {
            ": still here\n\n".clone_into(&mut text);
        }
        if !text.is_empty() {
            last_sent = Instant::now();
            if sender.send(Bytes::from(text)).await.is_err() {
                return;
            }
        }
        if page.end.is_none() {
            tokio::select! {
                () = overview::wait_for_change(&context.app, after, CHECK_INTERVAL) => {}
                () = sender.closed() => return,
            }
        }
        tokio::time::sleep(MERGE_FOR).await;
    }
}

fn alert_frame(line: &LogLine) -> String {
    let data = json!({
        "ticket": line.ticket,
        "text": findings::shorten(&findings::one_line(&line.text), ALERT_CHARS_MAX),
    });
    format!("event: alert\ndata: {data}\n\n")
}

fn frame(cursor: Cursor, text: &str) -> String {
    frame_with_id(&format_cursor(cursor), text)
}

fn frame_at((offset, turns): (u64, usize), text: &str) -> String {
    frame_with_id(&format!("{offset}.{turns}"), text)
}

fn frame_with_id(id: &str, text: &str) -> String {
    let mut out = format!("id: {id}\n");
    // A carriage return ends a line of a stream too, and what follows it would be a field.
    for line in text.split(['\n', '\r']) {
        out.push_str("data: ");
        out.push_str(line);
        out.push('\n');
    }
    out.push('\n');
    out
}

/// Events since the last update, and the position before them.
struct TopicChanges<'a> {
    events: &'a [StoredEvent],
    before: Cursor,
}

/// Renders what the events changed for the topic.
async fn update(
    context: &PageContext,
    topic: &LiveTopic,
    news: &TopicChanges<'_>,
    new_escalations: &mut BTreeSet<TicketId>,
) -> Result<Markup, Failure> {
    let waiting = layout::waiting_count(context).await?;
    let changed: BTreeSet<&TicketId> = news
        .events
        .iter()
        .filter_map(|event| event.ticket.as_ref())
        .collect();
    let parts = match topic {
        LiveTopic::Board(repository) => {
            let columns = board::columns(context, repository.as_deref()).await?;
            let pairs = board::column_ids().zip(columns);
            html! { @for (id, column) in pairs { (partial(&id, &column)) } }
        }
        LiveTopic::Tickets | LiveTopic::SortedTickets => {
            changed_rows(context, topic, news.events, changed).await?
        }
        LiveTopic::Inbox => changed_inbox(context, changed, new_escalations).await?,
        LiveTopic::Ticket(id) => {
            let stored = context.app.ticket(id.as_str()).await?;
            match ticket::live_parts(context, &stored).await {
                Ok(parts) => html! { @for (id, part) in &parts { (partial(id, part)) } },
                Err(_) => stale(),
            }
        }
        LiveTopic::Agents => whole("agents", agents::live_part(context).await),
        LiveTopic::Queues => whole("queues", queues::live_part(context).await),
        LiveTopic::Epics => whole("epics", epics::list_part(context).await),
        LiveTopic::Epic(id) => whole("epic", epics::live_part(context, id).await),
        LiveTopic::Log => {
            let lines = log::lines_after(context, news.before).await?;
            html! { hx-partial hx-target="#lines" hx-swap="afterbegin" { (lines) } }
        }
        LiveTopic::Stale(_) | LiveTopic::Reload | LiveTopic::Run(..) => stale(),
    };
    Ok(html! { (partial("waiting", &layout::waiting_badge(waiting))) (parts) })
}

/// Replaces the changing part of a page. If it cannot be rendered, the page says that it is old.
fn whole(id: &str, part: Result<Markup, PageError>) -> Markup {
    part.map_or_else(|_| stale(), |part| partial(id, &part))
}

/// Renders the rows of changed tickets. Rows are neither added nor sorted while somebody looks at
/// the list: a notice says that the list has changed.
async fn changed_rows(
    context: &PageContext,
    topic: &LiveTopic,
    events: &[StoredEvent],
    changed: BTreeSet<&TicketId>,
) -> Result<Markup, Failure> {
    if changed.len() > ROWS_MAX {
        return Ok(stale());
    }
    let is_old = events.iter().any(|event| event.name == CREATED)
        || (*topic == LiveTopic::SortedTickets && !changed.is_empty());
    let rows = ticket_search::rows(&context.app, changed).await?;
    Ok(html! {
        @for row in &rows {
            (partial(&parts::element_id("row", &row.id), &parts::ticket_row(context, row)))
        }
        @if is_old { (stale()) }
    })
}

/// Renders the banner of the inbox, and what became of tickets that no longer need a person.
async fn changed_inbox(
    context: &PageContext,
    changed: BTreeSet<&TicketId>,
    new_escalations: &mut BTreeSet<TicketId>,
) -> Result<Markup, Failure> {
    let mut settled = Vec::new();
    for id in changed {
        let ticket = context.app.ticket(id.as_str()).await?.ticket;
        if ticket.needs_person() {
            new_escalations.insert(id.clone());
        } else {
            new_escalations.remove(id);
            settled.push(ticket);
        }
    }
    Ok(html! {
        @for ticket in &settled {
            (partial(&parts::element_id("wait", &ticket.id), &inbox::settled_card(ticket)))
        }
        (partial("news", &inbox::news(new_escalations.len())))
    })
}

/// Renders the notice that the page has changed.
fn stale() -> Markup {
    partial("stale", &layout::stale_notice(true))
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
        let hostile = frame(cursor, "a\revent: page:reload\r\nid: 9.9");
        for line in hostile.split(['\n', '\r']).skip(1) {
            assert!(line.is_empty() || line.starts_with("data: "), "{hostile:?}");
        }
    }

    #[test]
    fn topics_are_known_words() {
        assert_eq!(LiveTopic::parse("board"), Some(LiveTopic::Board(None)));
        let shop = LiveTopic::Board(Some("/src/shop:1/.git".to_owned()));
        assert_eq!(LiveTopic::parse("board:/src/shop:1/.git"), Some(shop));
        assert!(LiveTopic::parse("ticket:greet").unwrap().ticket().is_some());
        let run = LiveTopic::Run(TicketId::new("greet").unwrap(), "3-1".to_owned());
        assert_eq!(LiveTopic::parse("run:3-1:greet"), Some(run));
        assert!(LiveTopic::parse("stale:greet").unwrap().ticket().is_some());
        let epic = LiveTopic::Epic("a:b".to_owned());
        assert_eq!(LiveTopic::parse("epic:a:b"), Some(epic));
        for bad in [
            "",
            "ticket:",
            "ticket:../x",
            "stale:../x",
            "epic:",
            "run:greet",
            "run:3-1:../x",
            "else",
        ] {
            assert_eq!(LiveTopic::parse(bad), None, "{bad}");
        }
    }
}
