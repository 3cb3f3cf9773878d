//! Stored records other than jobs and changes, and their queries. Every list is paged.

use flow::event::Lease;
use flow::{Event, Stage, Ticket, TicketId, Time, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A ticket and its number in this store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Stored {
    pub number: i64,
    pub ticket: Ticket,
    /// Id of the policy of its last decision.
    pub policy: String,
}

/// A ticket in a list, without ledger and rounds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
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
    /// Number of dependencies that are not met yet.
    pub waits_for: u32,
    pub open_must_fix: u32,
    pub usd_micros: u64,
    pub created_at: Time,
    pub updated_at: Time,
}

/// Filters for a list of tickets, all of which must match, and the order of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TicketQuery {
    /// Any of these stages; an empty list means every stage.
    pub stages: Vec<Stage>,
    pub epic: Option<String>,
    pub repository: Option<String>,
    /// Only tickets that depend on this one.
    pub depends_on: Option<TicketId>,
    /// Only this ticket.
    pub only: Option<TicketId>,
    /// Only tickets whose ids begin with this text.
    pub id_prefix: Option<String>,
    /// Words that all occur in the id, the title or the epic. A to Z match in either case.
    pub words: Vec<String>,
    pub order: TicketOrder,
    /// Value of the order's column in the last row of the previous page. It belongs to
    /// [`Page::after`], so that a ticket that changed in between does not move the page.
    pub after_value: Option<i64>,
}

/// Order of a list of tickets. Tickets with the same value are in the order of their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketOrder {
    pub by: TicketSort,
    /// Lowest first; otherwise highest first.
    pub ascending: bool,
}

/// Columns by which tickets can be sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TicketSort {
    #[default]
    Created,
    Updated,
    Priority,
    Cost,
    Round,
    OpenMustFix,
    /// The order in which queued work is claimed: the most urgent first, and of those the oldest.
    Urgency,
}

impl TicketSort {
    pub const ALL: [Self; 7] = [
        Self::Created,
        Self::Updated,
        Self::Priority,
        Self::Cost,
        Self::Round,
        Self::OpenMustFix,
        Self::Urgency,
    ];

    /// Returns the word by which callers name the column.
    pub fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Priority => "priority",
            Self::Cost => "cost",
            Self::Round => "round",
            Self::OpenMustFix => "must_fix",
            Self::Urgency => "urgency",
        }
    }

    /// Returns the value of the column in a row.
    pub fn value(self, row: &TicketRow) -> i64 {
        let int = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        match self {
            Self::Created => row.number,
            Self::Updated => row.updated_at.0,
            Self::Priority => i64::from(row.priority),
            Self::Cost => int(row.usd_micros),
            Self::Round => i64::from(row.round),
            Self::OpenMustFix => i64::from(row.open_must_fix),
            // Lowest first, as the number: one direction orders both.
            Self::Urgency => -i64::from(row.priority),
        }
    }

    /// Returns the database's name of the column. Numbers grow with the time of creation.
    pub(crate) fn column(self) -> &'static str {
        match self {
            Self::Created => "number",
            Self::Updated => "updated_at",
            Self::Priority => "priority",
            Self::Cost => "usd_micros",
            Self::Round => "round",
            Self::OpenMustFix => "open_must_fix",
            Self::Urgency => "-priority",
        }
    }
}

/// Request for one page of a list. Lists are newest first unless documented otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// The `next` of the previous page.
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

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "{T}Page")]
pub struct Paged<T> {
    pub items: Vec<T>,
    /// The `after` of the next page; `None` on the last page.
    pub next: Option<i64>,
}

/// A position in the event log. Opaque: compare it and pass it back, never compute one.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
pub struct Cursor {
    pub transaction: u64,
    pub sequence: u64,
}

/// Selects events of the log, of one ticket or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventQuery {
    pub ticket: Option<TicketId>,
    pub after: Cursor,
    pub most: u32,
    /// Returns the newest events instead of the first ones after the cursor, in the same order.
    pub newest: bool,
}

/// An event as the log stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StoredEvent {
    pub cursor: Cursor,
    pub ticket: Option<TicketId>,
    /// Version of the ticket after the event.
    pub version: Option<u64>,
    pub policy: Option<String>,
    pub at: Time,
    pub name: String,
    pub by: String,
    pub body: EventBody,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum EventBody {
    /// A decision of `flow` that changed a ticket.
    Decided(Box<Event>),
    /// Data of an event that changed no ticket.
    Noted(Value),
}

/// Usage of one agent on one day (UTC).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spending {
    /// Start of the day.
    pub day: Time,
    pub by: String,
    /// Model behind the agent, if an event names it.
    pub model: Option<String>,
    pub usage: Usage,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Epic {
    pub id: String,
    pub title: String,
    pub body: Value,
    pub updated_at: Time,
}

/// Target of a pause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", tag = "scope", content = "name")]
pub enum PauseScope {
    Agent(String),
    Queue(String),
    Provider(String),
}

/// Stops new claims in its scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Pause {
    pub scope: PauseScope,
    /// Time at which the pause ends by itself.
    pub until: Option<Time>,
    pub why: String,
    pub by: String,
}

/// A change of the restrictions on claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restriction {
    Pause(Pause),
    Resume(PauseScope),
    /// Maximum number of jobs of one provider that all workers together may hold at once; `None`
    /// removes the limit. It applies to claims that name their provider.
    ProviderLimit {
        provider: String,
        most: Option<u32>,
    },
}

/// The pauses and limits that apply to claims now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restrictions {
    pub pauses: Vec<Pause>,
    pub provider_limits: Vec<(String, u32)>,
}

/// Ways to lease a cursor: take it, or move a held one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorMove {
    /// Takes the cursor at its stored position; a new name starts at this one.
    StartAt(Cursor),
    /// Moves the holder's cursor to this position.
    To(Cursor),
}

/// Description of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// `SQLite 3.53.0 at …` or `PostgreSQL 15.18 at …`, without a password.
    pub description: String,
    /// Time by the database's clock.
    pub now: Time,
}

/// A statement that an agent makes under a claim before it reports.
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
    /// The builder disputes a finding; the text is its reason.
    Dispute {
        finding: String,
    },
    Approved,
    ChangesRequested,
}

/// A rule for a repository's builders that a person has accepted or rejected.
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

/// An agent or worker that has sent a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Agent {
    pub name: String,
    pub role: String,
    pub seen_at: Time,
    pub body: Value,
}

/// Selects the data that [`crate::Tickets::retain`] removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Ended jobs, processed messages, stored answers and notes older than this are removed.
    pub before: Time,
    /// Also removes terminal tickets with their events, if the person asks for it.
    pub tickets: bool,
}

/// Number of removed rows by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    pub jobs: u64,
    pub messages: u64,
    pub answers: u64,
    pub notes: u64,
    pub tickets: u64,
}
