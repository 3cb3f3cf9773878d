//! What else is kept, and how it is asked for. Every list is paged.

use flow::{Event, Stage, Ticket, TicketId, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A ticket and the number that the store gave it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    pub number: i64,
    pub ticket: Ticket,
    /// The policy of its last decision.
    pub policy: String,
}

/// A line of a list: no ledger, no rounds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketRow {
    pub number: i64,
    pub id: TicketId,
    pub title: String,
    pub stage: Stage,
    pub priority: i32,
    pub round: u32,
    pub epic: Option<String>,
    pub repository: Option<String>,
    pub version: u64,
    /// How many dependencies are not met yet.
    pub waits_for: u32,
    pub open_must_fix: u32,
    pub usd_micros: u64,
    pub created_at: Time,
    pub updated_at: Time,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketQuery {
    pub stages: Vec<Stage>,
    pub epic: Option<String>,
    pub repository: Option<String>,
}

/// One page of a list, newest first unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// The `next` of the page before.
    pub after: Option<i64>,
    pub most: u32,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            after: None,
            most: 50,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paged<T> {
    pub items: Vec<T>,
    pub next: Option<i64>,
}

/// A place in the event log. Opaque: compare and hand back, never compute.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Cursor {
    pub transaction: u64,
    pub sequence: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventQuery {
    pub ticket: Option<TicketId>,
    pub after: Cursor,
    pub most: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredEvent {
    pub cursor: Cursor,
    pub ticket: Option<TicketId>,
    /// The ticket's version after it.
    pub version: Option<u64>,
    pub policy: Option<String>,
    pub at: Time,
    pub name: String,
    pub by: String,
    pub body: EventBody,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EventBody {
    Decided(Box<Event>),
    Noted(Value),
}

/// An event that changed no ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    pub at: Time,
    pub ticket: Option<TicketId>,
    pub name: String,
    pub by: String,
    pub body: Value,
}

/// Tickets that belong together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epic {
    pub id: String,
    pub title: String,
    pub body: Value,
    pub updated_at: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "scope", content = "name")]
pub enum Scope {
    Agent(String),
    Queue(String),
    Provider(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    pub scope: Scope,
    /// Ends by itself then.
    pub until: Option<Time>,
    pub why: String,
    pub by: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewMessage {
    pub at: Time,
    pub from: String,
    pub to: String,
    pub kind: String,
    pub ticket: Option<TicketId>,
    pub content: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub id: i64,
    #[serde(flatten)]
    pub message: NewMessage,
    pub processed_at: Option<Time>,
}

/// An agent or worker that has been seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    pub name: String,
    pub role: String,
    pub seen_at: Time,
    pub body: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Ended jobs, processed messages, remembered answers and notes older than this go.
    pub before: Time,
    /// Terminal tickets with their events too, where the person says so.
    pub tickets: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    pub jobs: u64,
    pub messages: u64,
    pub answers: u64,
    pub notes: u64,
    pub tickets: u64,
}
