//! Errors of the store. A variant exists only where the caller acts differently.

use flow::{TicketId, Time};
use serde::{Deserialize, Serialize};

/// An error of the store. It is serialisable, so a remote worker acts on it like a local one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Error {
    /// Another writer was faster: read again and decide again.
    #[error("another process changed {what} in the meantime")]
    Conflict { what: String },
    #[error(
        "you no longer hold the lease on job {job} (your fence {given}, the current one {current})"
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
    #[error("queue {queue:?} is full ({size} jobs, the limit is {most}); finish or cancel some")]
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
        "another process holds the database lock: {0}; try again, or end the program that holds it"
    )]
    Locked(String),
    #[error("the disk is full: {0}; free some space, no partial write was kept")]
    DiskFull(String),
    /// The database file is not the one that was opened, or not the one that was in use before.
    #[error("the database cannot be used: {0}")]
    Gone(String),
    /// The server does not answer; the same call may work later.
    #[error("the database cannot be reached: {0}")]
    Unreachable(String),
    /// The answer to a commit was lost: look up the idempotency key before you repeat it.
    #[error("it is unknown whether the change was written: {0}")]
    OutcomeUnknown(String),
    #[error("{0}")]
    Other(String),
}

impl Error {
    /// Returns whether the same call may succeed if repeated.
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
            what: format!("the lease on job {job} (it has not run out)"),
        }
    }

    pub(crate) fn token_exists(id: &str) -> Self {
        Self::Conflict {
            what: format!("token {id} (it exists already)"),
        }
    }

    pub(crate) fn no_such_job(ticket: &str, serial: i64) -> Self {
        Self::Other(format!("ticket {ticket} has no live job {serial}"))
    }

    pub(crate) fn belongs_to_ticket(job: &str) -> Self {
        Self::Other(format!(
            "job {job} belongs to a ticket, which decides about it: report an event instead"
        ))
    }
}
