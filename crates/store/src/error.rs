//! What can go wrong in remembering. A variant exists only where the caller acts differently.

use flow::{TicketId, Time};
use serde::{Deserialize, Serialize};

/// It travels as it is: a worker that reaches the store through a server acts on it as one does that
/// has the store itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Error {
    /// Read again, decide again.
    #[error("somebody else changed {what} in the meantime")]
    Conflict { what: String },
    #[error(
        "the lease on job {job} is not yours any more (your token {given}, the job's {current})"
    )]
    StaleFence {
        job: String,
        given: u64,
        current: u64,
    },
    #[error("ticket {0} exists already; choose another id, or `countersign ticket show {0}`")]
    Exists(TicketId),
    #[error("the key {key:?} was used for another request; use a new key for a new request")]
    KeyReused { key: String },
    #[error(
        "queue {queue:?} is full ({size} jobs, the limit is {most}); finish or cancel some, or raise queue_max"
    )]
    QueueFull { queue: String, size: u64, most: u64 },
    #[error("paused{}: {why}", until.map(|t| format!(" until {}", t.0)).unwrap_or_default())]
    Paused { why: String, until: Option<Time> },
    #[error(
        "the database was written by a newer Countersign (schema {found}, this program knows {known}); update the program"
    )]
    NewerSchema { found: i64, known: i64 },
    #[error("the database cannot be written: {0}")]
    ReadOnly(String),
    #[error(
        "the database is busy with somebody else's lock: {0}; try again, or end the program that holds it"
    )]
    Locked(String),
    #[error("the disk is full: {0}; free some space, nothing half-written was kept")]
    DiskFull(String),
    /// The file under the store is not the one that was opened, or not the one that was in use.
    #[error("the database cannot be used: {0}")]
    Gone(String),
    /// The server went away; the same call may work later.
    #[error("the database cannot be reached: {0}")]
    Unreachable(String),
    /// A commit whose answer was lost: look the key up before doing it again.
    #[error("whether the change was written is unknown: {0}")]
    OutcomeUnknown(String),
    #[error("{0}")]
    Other(String),
}

impl Error {
    /// Worth trying again as it is.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Locked(_) | Self::Unreachable(_) | Self::OutcomeUnknown(_)
        )
    }

    pub(crate) fn ticket_changed(id: &str) -> Self {
        Self::Conflict {
            what: format!("ticket {id}"),
        }
    }

    pub(crate) fn lease_alive(job: &str) -> Self {
        Self::Conflict {
            what: format!("the lease on job {job}, which has not run out"),
        }
    }

    pub(crate) fn token_exists(id: &str) -> Self {
        Self::Conflict {
            what: format!("token {id}, which exists already"),
        }
    }

    pub(crate) fn no_such_job(ticket: &str, serial: i64) -> Self {
        Self::Other(format!("ticket {ticket} has no live job {serial}"))
    }

    pub(crate) fn of_a_ticket(job: &str) -> Self {
        Self::Other(format!(
            "job {job} belongs to a ticket, which decides about it: report an event instead"
        ))
    }
}
