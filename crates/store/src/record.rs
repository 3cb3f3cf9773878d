//! What else is kept, and how it is asked for. Every list is paged.

use flow::event::Lease;
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
    /// Only tickets that depend on this one.
    #[serde(default)]
    pub depends_on: Option<TicketId>,
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
    /// The last ones instead of the first ones after the cursor, in the same order.
    pub newest: bool,
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
pub enum PauseScope {
    Agent(String),
    Queue(String),
    Provider(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    pub scope: PauseScope,
    /// Ends by itself then.
    pub until: Option<Time>,
    pub why: String,
    pub by: String,
}

/// A change of what claims keep to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restriction {
    Pause(Pause),
    Resume(PauseScope),
    /// The number of jobs of one provider that all workers together may hold at once; `None` for as
    /// many as there are. Claims that name their provider keep to it.
    ProviderLimit {
        provider: String,
        most: Option<u32>,
    },
}

/// The pauses and limits that claims respect now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restrictions {
    pub pauses: Vec<Pause>,
    pub provider_limits: Vec<(String, u32)>,
}

/// The position at which a cursor is taken or to which it moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorMove {
    /// Takes it where it is; a name that is new begins here.
    StartAt(Cursor),
    /// Moves the one that the holder has.
    To(Cursor),
}

/// Which database this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// `SQLite 3.53.0 at …` or `PostgreSQL 15.18 at …`, without a password.
    pub description: String,
    /// Its clock.
    pub now: Time,
}

/// A statement of an agent under a claim that is not reported yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimStatement {
    pub ticket: TicketId,
    pub lease: Lease,
    pub kind: StatementKind,
    pub at: Time,
    pub by: String,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatementKind {
    /// A builder holds that a finding is wrong; the text is its reason.
    Dispute {
        finding: String,
    },
    Approved,
    ChangesRequested,
}

/// A rule that a person has accepted for a repository's builders, or rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectRule {
    pub id: i64,
    pub accepted: bool,
    pub text: String,
    pub by: String,
    pub at: Time,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleUpdate {
    Answer {
        repository: String,
        accepted: bool,
        text: String,
        by: String,
        at: Time,
    },
    Withdraw {
        id: i64,
        at: Time,
    },
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
