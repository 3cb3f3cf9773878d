//! A decision of `flow`, as the store receives it.

use flow::{Effect, Event, Policy, Ticket, TicketId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::job::{ClaimRequest, Leased};

/// One decision about one ticket, with everything that must be written in the same transaction.
#[derive(Clone, Debug)]
pub struct Change {
    /// The ticket after the decision.
    pub ticket: Ticket,
    /// Version of the ticket that the decision is based on; `None` creates the ticket.
    pub base_version: Option<u64>,
    pub event: Event,
    pub policy: Policy,
    pub effects: Vec<Effect>,
    /// Other tickets that the decision read: they must still have these versions.
    pub reads: Vec<(TicketId, u64)>,
    /// The answer to return when the same call is repeated.
    pub remember: Option<Remembered>,
    pub artefacts: Vec<Artefact>,
    /// Refuses the change if a queue would grow past this number of jobs.
    pub queue_max: Option<u64>,
    /// Claims the next job in the same transaction.
    pub then: Option<ClaimRequest>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    Written {
        /// Number of the ticket in this store; the MCP tools call it `assignment_id`.
        number: i64,
        claimed: Vec<Leased>,
    },
    /// The key was used before with the same payload; this is the first answer.
    Again(Value),
}

/// An idempotency key, the hash of its request, and the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    pub key: String,
    pub payload_hash: String,
    pub answer: Value,
}

/// A file that belongs to a round: a transcript, a check's output, a findings document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Artefact {
    pub ticket: TicketId,
    pub round: u32,
    /// transcript, check, review, findings, brief, …
    pub kind: String,
    /// The agent or check that produced the file.
    pub name: String,
    /// Relative to the data directory.
    pub path: String,
    pub bytes: u64,
}
