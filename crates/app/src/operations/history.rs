//! The log: told as a story, and held against what is stored.

mod context;
mod noted;

use std::collections::BTreeMap;
use std::time::Duration;

use flow::narrate::{Mood, Sentence, narrate};
use flow::{Event, Policy, Ticket, TicketId, Time};
use serde::{Deserialize, Serialize};
use store::{Cursor, EventBody, EventQuery, Page, StoredEvent, TicketQuery};

use super::{App, overview};
use crate::failure::Failure;

/// How many events are read at a time.
const CHUNK: u32 = 500;

/// One line of the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogLine {
    pub cursor: Cursor,
    pub at: Time,
    pub ticket: Option<TicketId>,
    pub by: String,
    pub event: String,
    pub activity: String,
    pub text: String,
    /// What goes with it, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<serde_json::Value>,
    pub mood: Mood,
}

/// Notes that somebody should look at.
const TROUBLES: [&str; 5] = [
    "notification_given_up",
    "refused",
    "spool_troubled",
    "task_refused",
    "tools_unconnected",
];

/// Up to this many tickets are followed at a time; others are read from their beginning again.
const FOLLOWED_MAX: usize = 256;

/// A ticket's story, or everybody's, since a place in the log; where nothing has happened since, what
/// happens before `wait` is over.
pub async fn read_on(
    office: &App,
    ticket: Option<&TicketId>,
    after: Cursor,
    most: u32,
    wait: Duration,
) -> Result<LogPage, Failure> {
    let seen = overview::newest(office).await?;
    let read = async || {
        LogFollower::default()
            .read(office, ticket, after, most)
            .await
    };
    let told = read().await?;
    if told.end.is_some() || wait.is_zero() {
        return Ok(told);
    }
    overview::changed(office, seen.max(after), wait).await;
    read().await
}

/// The newest part of the story.
pub async fn latest(
    office: &App,
    ticket: Option<&TicketId>,
    most: u32,
) -> Result<Vec<LogLine>, Failure> {
    let events = office.desk.store.newest_events(ticket, most).await?;
    Ok(LogFollower::default().tell(office, &events).await?.lines)
}

/// Reads on in the log, and remembers the tickets it has told of.
#[derive(Debug, Default)]
pub struct LogFollower {
    tellers: BTreeMap<TicketId, TicketReplay>,
}

/// A part of the log, and where it ends; nowhere where there was nothing.
#[derive(Debug)]
pub struct LogPage {
    pub lines: Vec<LogLine>,
    pub end: Option<Cursor>,
}

impl LogFollower {
    pub async fn read(
        &mut self,
        office: &App,
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
        let events = office.desk.store.events(&query).await?;
        self.tell(office, &events).await
    }

    async fn tell(&mut self, office: &App, events: &[StoredEvent]) -> Result<LogPage, Failure> {
        let mut lines = Vec::new();
        for event in events {
            if self.tellers.len() >= FOLLOWED_MAX {
                self.tellers.clear();
            }
            lines.extend(tell(office, &mut self.tellers, event).await?);
        }
        let end = events.last().map(|event| event.cursor);
        Ok(LogPage { lines, end })
    }
}

/// What has happened after a place in the log, as soon as there is anything; nothing after `most`.
pub async fn after(
    office: &App,
    ticket: Option<&TicketId>,
    after: Cursor,
    most: Duration,
) -> Result<Vec<StoredEvent>, Failure> {
    let store = &office.desk.store;
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
    store.wait_for_events(after, most).await;
    Ok(store.events(&query).await?)
}

/// Follows one ticket through its events, so that each can be told with what it came to.
#[derive(Debug, Default)]
struct TicketReplay {
    ticket: Option<Ticket>,
}

impl TicketReplay {
    /// Replays up to, not including, the version.
    async fn before(office: &App, id: &TicketId, version: u64) -> Result<Self, Failure> {
        let reached =
            |next: &StoredEvent, _: Option<&Ticket>| next.version.is_some_and(|at| at >= version);
        Self::replay(office, id, reached).await
    }

    /// Replays until the next event, or what the ticket is before it, says that it is enough.
    async fn replay(
        office: &App,
        id: &TicketId,
        enough: impl Fn(&StoredEvent, Option<&Ticket>) -> bool,
    ) -> Result<Self, Failure> {
        let mut teller = Self::default();
        let mut after = Cursor::default();
        loop {
            let query = EventQuery {
                ticket: Some(id.clone()),
                after,
                most: CHUNK,
                ..EventQuery::default()
            };
            let events = office.desk.store.events(&query).await?;
            let Some(last) = events.last() else {
                return Ok(teller);
            };
            after = last.cursor;
            for stored in events {
                if enough(&stored, teller.ticket.as_ref()) {
                    return Ok(teller);
                }
                if let EventBody::Decided(event) = &stored.body {
                    let policy = policy(office, &stored).await?;
                    teller.step(id, event, &policy);
                }
            }
        }
    }

    fn step(&mut self, id: &TicketId, event: &Event, policy: &Policy) -> Vec<Sentence> {
        let step = match &self.ticket {
            None => flow::open(id, event, policy),
            Some(ticket) => flow::advance(ticket, event, policy),
        };
        let Ok(step) = step else { return Vec::new() };
        let story = narrate(self.ticket.as_ref(), event, &step.ticket, policy);
        self.ticket = Some(step.ticket);
        story
    }
}

/// The ticket as it was when this round had its verdict; nothing where it had none.
pub async fn at_round(office: &App, id: &TicketId, round: u32) -> Result<Option<Ticket>, Failure> {
    let decided = |ticket: &Ticket| ticket.rounds.iter().any(|one| one.number == round);
    let enough = |_: &StoredEvent, ticket: Option<&Ticket>| ticket.is_some_and(decided);
    let teller = TicketReplay::replay(office, id, enough).await?;
    Ok(teller.ticket.filter(decided))
}

async fn policy(office: &App, stored: &StoredEvent) -> Result<Policy, Failure> {
    let Some(id) = &stored.policy else {
        return Ok(Policy::default());
    };
    Ok(office.desk.store.policy(id).await?.unwrap_or_default())
}

async fn tell(
    office: &App,
    tellers: &mut BTreeMap<TicketId, TicketReplay>,
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
        mood: if TROUBLES.contains(&stored.name.as_str()) {
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
                noted::told(&stored.name, &stored.by, body),
            )]);
        }
        (EventBody::Decided(event), None) => {
            return Ok(vec![line(event.what.name(), String::new())]);
        }
    };
    let Some(id) = &stored.ticket else {
        return Ok(Vec::new());
    };
    if !tellers.contains_key(id) {
        let teller = TicketReplay::before(office, id, stored.version.unwrap_or_default()).await?;
        tellers.insert(id.clone(), teller);
    }
    let policy = policy(office, stored).await?;
    let teller = tellers.entry(id.clone()).or_default();
    let story = teller.step(id, event, &policy);
    let with = |activity: &str| context::of(activity, teller.ticket.as_ref()?, &policy);
    Ok(story
        .into_iter()
        .map(|sentence| LogLine {
            mood: sentence.mood,
            context: with(sentence.activity),
            ..line(sentence.activity, sentence.text)
        })
        .collect())
}

/// What holding the log against the stored tickets came to.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LogAudit {
    pub tickets: u64,
    pub events: u64,
    /// Tickets whose replay differs from what is stored, and how.
    pub differences: Vec<String>,
}

/// Replays every ticket's events and compares the end with what is stored.
pub async fn audit(office: &App) -> Result<LogAudit, Failure> {
    let mut audit = LogAudit::default();
    let mut page = Page {
        after: None,
        most: CHUNK,
    };
    loop {
        let rows = office
            .desk
            .store
            .tickets(&TicketQuery::default(), &page)
            .await?;
        for row in &rows.items {
            audit.tickets += 1;
            compare(office, &row.id, &mut audit).await?;
        }
        page.after = rows.next;
        if page.after.is_none() {
            return Ok(audit);
        }
    }
}

async fn compare(office: &App, id: &TicketId, audit: &mut LogAudit) -> Result<(), Failure> {
    let stored = office.desk.ticket(id).await?;
    let mut log: Vec<(Event, Policy)> = Vec::new();
    let mut after = Cursor::default();
    loop {
        let query = EventQuery {
            ticket: Some(id.clone()),
            after,
            most: CHUNK,
            ..EventQuery::default()
        };
        let events = office.desk.store.events(&query).await?;
        let Some(last) = events.last() else { break };
        after = last.cursor;
        for one in &events {
            if let EventBody::Decided(event) = &one.body {
                log.push((event.as_ref().clone(), policy(office, one).await?));
            }
        }
    }
    audit.events += log.len() as u64;
    match flow::replay(id, log.iter().map(|(event, policy)| (event, policy))) {
        Ok(Some(ticket)) if ticket == stored.ticket.clone().naming_only_countersigners() => {}
        Ok(Some(ticket)) => audit.differences.push(format!(
            "{id}: replay gives {} at version {}, the store has {} at version {}",
            ticket.stage, ticket.version, stored.ticket.stage, stored.ticket.version
        )),
        Ok(None) => audit
            .differences
            .push(format!("{id}: the log has no event of it")),
        Err(refused) => audit
            .differences
            .push(format!("{id}: the log cannot be replayed: {refused}")),
    }
    Ok(())
}
