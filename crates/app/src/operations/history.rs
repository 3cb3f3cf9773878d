//! The event log: narrates it as sentences, and audits it against the stored tickets.

mod context;
mod notes;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flow::narrate::{Mood, Sentence, narrate};
use flow::{Event, Policy, Ticket, TicketId, Time};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use store::{Cursor, EventBody, EventQuery, Page, StoredEvent, TicketQuery};

use super::{App, overview};
use crate::failure::Failure;

/// Number of events that are read at a time.
const CHUNK: u32 = 500;

/// One line of the log.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LogLine {
    pub cursor: Cursor,
    pub at: Time,
    pub ticket: Option<TicketId>,
    pub by: String,
    pub event: String,
    pub activity: String,
    pub text: String,
    /// Data for programs that read the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
    pub mood: Mood,
}

/// Notes that need attention.
const ALERT_NOTES: [&str; 5] = [
    "notification_given_up",
    "refused",
    "spool_troubled",
    "task_refused",
    "tools_unconnected",
];

/// Maximum number of tickets whose replay is kept; others are replayed from the beginning.
const FOLLOWED_MAX: usize = 256;

/// Reads the log after a position, for one ticket or all. If there is nothing new, it waits up to
/// `wait` for an event.
pub async fn read_after(
    app: &App,
    (ticket, repository): (Option<&TicketId>, Option<&str>),
    after: Cursor,
    most: u32,
    wait: Duration,
) -> Result<LogPage, Failure> {
    let latest = overview::latest_cursor(app).await?;
    let follower = || LogFollower::of_repository(repository.map(str::to_owned));
    let read = async || follower().read(app, ticket, after, most).await;
    let page = read().await?;
    if page.end.is_some() || wait.is_zero() {
        return Ok(page);
    }
    overview::wait_for_change(app, latest.max(after), wait).await;
    read().await
}

/// Newest events of all repositories among which those of one repository are looked for.
const EVENTS_SEARCHED: u32 = 10_000;

/// Reads the newest lines of the log.
pub async fn latest(
    app: &App,
    (ticket, repository): (Option<&TicketId>, Option<&str>),
    most: u32,
) -> Result<Vec<LogLine>, Failure> {
    let mut follower = LogFollower::of_repository(repository.map(str::to_owned));
    // Events of other repositories lie between those that are wanted, so more are read.
    let read = if repository.is_some() {
        EVENTS_SEARCHED
    } else {
        most
    };
    let newest = app.coordinator.store.newest_events(ticket, read).await?;
    let mut events = Vec::new();
    for event in newest {
        if follower.is_followed(app, &event).await? {
            events.push(event);
        }
    }
    let skipped = events.len().saturating_sub(most as usize);
    let events = events.get(skipped..).unwrap_or_default();
    Ok(follower.narrate_all(app, events).await?.lines)
}

/// Reads the log continuously, and keeps the replay of each ticket.
#[derive(Debug, Default)]
pub struct LogFollower {
    replays: BTreeMap<TicketId, TicketReplay>,
    /// Only lines of tickets of this repository, and those that belong to no repository.
    repository: Option<String>,
    /// Whether a ticket belongs to the repository.
    belongs: BTreeMap<TicketId, bool>,
}

/// A part of the log, and the position of its end; `None` if it is empty.
#[derive(Debug)]
pub struct LogPage {
    pub lines: Vec<LogLine>,
    pub end: Option<Cursor>,
}

impl LogFollower {
    /// Returns a follower of one repository, or of all.
    pub fn of_repository(repository: Option<String>) -> Self {
        Self {
            repository,
            ..Self::default()
        }
    }

    /// Whether an event belongs to the repository that is followed.
    async fn is_followed(&mut self, app: &App, event: &StoredEvent) -> Result<bool, Failure> {
        let Some(repository) = &self.repository else {
            return Ok(true);
        };
        // What belongs to no ticket, such as a refused request, concerns every repository.
        let Some(id) = &event.ticket else {
            return Ok(true);
        };
        if let Some(known) = self.belongs.get(id) {
            return Ok(*known);
        }
        let stored = app.coordinator.store.ticket(id).await?;
        let own = stored.and_then(|stored| stored.ticket.spec.context.repository);
        let belongs = own.is_none_or(|own| own == *repository);
        if self.belongs.len() >= FOLLOWED_MAX {
            self.belongs.clear();
        }
        self.belongs.insert(id.clone(), belongs);
        Ok(belongs)
    }

    pub async fn read(
        &mut self,
        app: &App,
        ticket: Option<&TicketId>,
        after: Cursor,
        most: u32,
    ) -> Result<LogPage, Failure> {
        let query = EventQuery {
            ticket: ticket.cloned(),
            after,
            most,
            ..EventQuery::default()
        };
        let events = app.coordinator.store.events(&query).await?;
        self.narrate_all(app, &events).await
    }

    async fn narrate_all(&mut self, app: &App, events: &[StoredEvent]) -> Result<LogPage, Failure> {
        let mut lines = Vec::new();
        for event in events {
            if !self.is_followed(app, event).await? {
                continue;
            }
            if self.replays.len() >= FOLLOWED_MAX {
                self.replays.clear();
            }
            lines.extend(narrate_event(app, &mut self.replays, event).await?);
        }
        let end = events.last().map(|event| event.cursor);
        Ok(LogPage { lines, end })
    }
}

/// Returns the events after a position as soon as there are any, or none after `most`.
pub async fn events_after(
    app: &App,
    ticket: Option<&TicketId>,
    after: Cursor,
    most: Duration,
) -> Result<Vec<StoredEvent>, Failure> {
    let store = &app.coordinator.store;
    let query = EventQuery {
        ticket: ticket.cloned(),
        after,
        most: CHUNK,
        ..EventQuery::default()
    };
    let events = store.events(&query).await?;
    if !events.is_empty() {
        return Ok(events);
    }
    overview::wait_for_change(app, after, most).await;
    Ok(store.events(&query).await?)
}

/// Reads a page of a ticket's events, and whether there are more.
pub async fn events_page(
    app: &App,
    ticket: &TicketId,
    after: Cursor,
    most: u32,
) -> Result<(Vec<StoredEvent>, bool), Failure> {
    let query = EventQuery {
        ticket: Some(ticket.clone()),
        after,
        most: most.saturating_add(1),
        ..EventQuery::default()
    };
    let mut events = app.coordinator.store.events(&query).await?;
    let most = most as usize;
    let more = events.len() > most;
    events.truncate(most);
    Ok((events, more))
}

/// Replay of one ticket, so that each event can be narrated with its effect.
#[derive(Debug, Default)]
struct TicketReplay {
    ticket: Option<Ticket>,
}

impl TicketReplay {
    /// Replays up to, not including, the version.
    async fn before(app: &App, id: &TicketId, version: u64) -> Result<Self, Failure> {
        let reached =
            |next: &StoredEvent, _: Option<&Ticket>| next.version.is_some_and(|at| at >= version);
        Self::replay(app, id, reached).await
    }

    /// Replays until `enough` is true for the next event and the ticket before it.
    async fn replay(
        app: &App,
        id: &TicketId,
        enough: impl Fn(&StoredEvent, Option<&Ticket>) -> bool,
    ) -> Result<Self, Failure> {
        let mut replay = Self::default();
        let mut after = Cursor::default();
        loop {
            let events = next_events(app, id, after).await?;
            let Some(last) = events.last() else {
                return Ok(replay);
            };
            after = last.cursor;
            for stored in events {
                if enough(&stored, replay.ticket.as_ref()) {
                    return Ok(replay);
                }
                if let EventBody::Decided(event) = &stored.body {
                    let policy = policy(app, &stored).await?;
                    replay.step(id, event, &policy);
                }
            }
        }
    }

    fn step(&mut self, id: &TicketId, event: &Event, policy: &Policy) -> Vec<Sentence> {
        let step = match &self.ticket {
            None => flow::open_ticket(id, event, policy),
            Some(ticket) => flow::advance(ticket, event, policy),
        };
        let Ok(step) = step else { return Vec::new() };
        let sentences = narrate(self.ticket.as_ref(), event, &step.ticket, policy);
        self.ticket = Some(step.ticket);
        sentences
    }
}

/// Returns the ticket as it was after the verdict of a round, or nothing if there was none.
pub async fn at_round(app: &App, id: &TicketId, round: u32) -> Result<Option<Ticket>, Failure> {
    let decided = |ticket: &Ticket| {
        ticket
            .rounds
            .iter()
            .any(|decided_round| decided_round.number == round)
    };
    let enough = |_: &StoredEvent, ticket: Option<&Ticket>| ticket.is_some_and(decided);
    let replay = TicketReplay::replay(app, id, enough).await?;
    Ok(replay.ticket.filter(decided))
}

async fn policy(app: &App, stored: &StoredEvent) -> Result<Policy, Failure> {
    let Some(id) = &stored.policy else {
        return Ok(Policy::default());
    };
    Ok(app.coordinator.store.policy(id).await?.unwrap_or_default())
}

async fn narrate_event(
    app: &App,
    replays: &mut BTreeMap<TicketId, TicketReplay>,
    stored: &StoredEvent,
) -> Result<Vec<LogLine>, Failure> {
    let line = |activity: &str, text: String| LogLine {
        cursor: stored.cursor,
        at: stored.at,
        ticket: stored.ticket.clone(),
        by: stored.by.clone(),
        event: stored.name.clone(),
        activity: activity.to_owned(),
        text,
        context: None,
        mood: if ALERT_NOTES.contains(&stored.name.as_str()) {
            Mood::Bad
        } else {
            Mood::Plain
        },
    };
    let event = match (&stored.body, &stored.ticket) {
        (EventBody::Decided(event), Some(_)) => event,
        (EventBody::Noted(body), _) => {
            return Ok(vec![line(
                &stored.name,
                notes::describe_note(&stored.name, &stored.by, body),
            )]);
        }
        (EventBody::Decided(event), None) => {
            return Ok(vec![line(event.what.name(), String::new())]);
        }
    };
    let Some(id) = &stored.ticket else {
        return Ok(Vec::new());
    };
    if !replays.contains_key(id) {
        let replay = TicketReplay::before(app, id, stored.version.unwrap_or_default()).await?;
        replays.insert(id.clone(), replay);
    }
    let policy = policy(app, stored).await?;
    let replay = replays.entry(id.clone()).or_default();
    let sentences = replay.step(id, event, &policy);
    let context_for =
        |activity: &str| context::context_of(activity, replay.ticket.as_ref()?, &policy);
    Ok(sentences
        .into_iter()
        .map(|sentence| LogLine {
            mood: sentence.mood,
            context: context_for(sentence.activity),
            ..line(sentence.activity, sentence.text)
        })
        .collect())
}

/// Result of an audit of the log.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LogAudit {
    pub tickets: u64,
    pub events: u64,
    /// Differences between replayed and stored tickets.
    pub differences: Vec<String>,
}

/// Replays every ticket's events and compares the result with the stored ticket.
pub async fn audit(app: &App) -> Result<LogAudit, Failure> {
    let mut audit = LogAudit::default();
    let mut page = Page {
        after: None,
        most: CHUNK,
    };
    loop {
        let rows = app
            .coordinator
            .store
            .tickets(&TicketQuery::default(), &page)
            .await?;
        for row in &rows.items {
            audit.tickets += 1;
            compare(app, &row.id, &mut audit).await?;
        }
        page.after = rows.next;
        if page.after.is_none() {
            return Ok(audit);
        }
    }
}

/// Reads the next chunk of a ticket's events.
async fn next_events(app: &App, id: &TicketId, after: Cursor) -> Result<Vec<StoredEvent>, Failure> {
    let query = EventQuery {
        ticket: Some(id.clone()),
        after,
        most: CHUNK,
        ..EventQuery::default()
    };
    Ok(app.coordinator.store.events(&query).await?)
}

async fn compare(app: &App, id: &TicketId, audit: &mut LogAudit) -> Result<(), Failure> {
    let stored = app.coordinator.ticket(id).await?.ticket;
    let mut log: Vec<(Event, Policy)> = Vec::new();
    // Today's names of policies by those in the log: a key that no longer exists changed some.
    let mut policies = BTreeMap::new();
    let mut after = Cursor::default();
    loop {
        let events = next_events(app, id, after).await?;
        let Some(last) = events.last() else { break };
        after = last.cursor;
        for event_row in &events {
            if let EventBody::Decided(event) = &event_row.body {
                let policy = policy(app, event_row).await?;
                if let Some(name) = &event_row.policy {
                    policies.insert(name.clone(), policy.id());
                }
                log.push((event.as_ref().clone(), policy));
            }
        }
    }
    audit.events += log.len() as u64;
    match flow::replay(id, log.iter().map(|(event, policy)| (event, policy))) {
        Ok(Some(ticket)) => {
            let replayed = ticket.as_kept_in(&stored).without_wording();
            let stored = stored.with_policies_named(&policies);
            let stored = stored.without_refusing_approvers().without_wording();
            if replayed != stored {
                audit
                    .differences
                    .push(describe_difference(&replayed, &stored));
            }
        }
        Ok(None) => audit
            .differences
            .push(format!("{id}: the log has no event of this ticket")),
        Err(refused) => audit
            .differences
            .push(format!("{id}: the log cannot be replayed: {refused}")),
    }
    Ok(())
}

fn describe_difference(replayed: &Ticket, stored: &Ticket) -> String {
    let values = (json!(replayed), json!(stored));
    let place = first_difference("", &values.0, &values.1).unwrap_or_default();
    format!(
        "{}: replay gives {} at version {}, the store has {} at version {}; the first difference is at {place}",
        stored.id, replayed.stage, replayed.version, stored.stage, stored.version
    )
}

/// Returns where two documents first differ, as a JSON pointer.
fn first_difference(place: &str, replayed: &Value, stored: &Value) -> Option<String> {
    match (replayed, stored) {
        (Value::Object(left), Value::Object(right)) => {
            let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            names.into_iter().find_map(|name| {
                let part = |of: &Map<String, Value>| of.get(name).cloned();
                let parts = (
                    part(left).unwrap_or_default(),
                    part(right).unwrap_or_default(),
                );
                first_difference(&format!("{place}/{name}"), &parts.0, &parts.1)
            })
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            let mut pairs = left.iter().zip(right).enumerate();
            pairs.find_map(|(at, (left, right))| {
                first_difference(&format!("{place}/{at}"), left, right)
            })
        }
        (left, right) => (left != right).then(|| place.to_owned()),
    }
}
