//! A decision on its way into the database.

use flow::{Effect, Event, Policy, Ticket, TicketId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::job::{ClaimRequest, Leased};

#[derive(Clone, Debug)]
pub struct Change {
    /// The ticket as it is afterwards.
    pub ticket: Ticket,
    /// The version it was decided on; `None` creates it.
    pub was: Option<u64>,
    pub event: Event,
    pub policy: Policy,
    pub effects: Vec<Effect>,
    /// Other tickets that the decision looked at: they must still have these versions.
    pub reads: Vec<(TicketId, u64)>,
    /// The answer to give again when the same call comes again.
    pub remember: Option<Remembered>,
    pub artefacts: Vec<Artefact>,
    /// Refuse where a queue would grow past this.
    pub queue_max: Option<u64>,
    /// Claim the next job in the same transaction.
    pub then: Option<ClaimRequest>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    Written {
        /// 000's `assignment_id`.
        number: i64,
        claimed: Vec<Leased>,
    },
    /// The key had been used with the same payload: this is the first answer.
    Again(Value),
}

/// An idempotency key, what it was used for, and what was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    pub key: String,
    pub payload_hash: String,
    pub answer: Value,
}

/// A file that belongs to a round: a transcript, a check's output, a findings document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artefact {
    pub ticket: TicketId,
    pub round: u32,
    /// transcript, check, review, findings, brief, …
    pub kind: String,
    /// Who or what made it.
    pub name: String,
    /// Relative to the data directory.
    pub path: String,
    pub bytes: u64,
}
