//! Reports of events, and the progress updates that follow from them.

use std::fmt;

use flow::event::Lease;
use flow::narrate::Sentence;
use flow::{Actor, EventKind, Policy, Ticket, TicketId};
use serde_json::{Value, json};
use store::{Artefact, Remembered};

use crate::activity::Activity;

/// Receives progress updates in order. Each update arrives before anything further is decided, so
/// that none is missing when the work ends.
pub trait ProgressListener: fmt::Debug + Send + Sync {
    /// Receives an update of a ticket.
    fn on_update(&self, update: ProgressUpdate);

    /// Receives an activity of a run. The call happens while the output of the run is read, so it
    /// must return at once; slow listeners store the activity and process it later.
    fn on_activity(&self, _activity: Activity) {}

    /// Receives a notice that concerns no ticket: the store is unreachable, or reachable again.
    fn on_notice(&self, _text: &str) {}
}

/// One step in the progress of a ticket.
#[derive(Clone, Debug)]
pub struct ProgressUpdate {
    pub ticket: TicketId,
    pub story: Vec<Sentence>,
    /// The ticket after the event.
    pub after: Box<Ticket>,
}

/// An event to decide on.
#[derive(Clone, Debug)]
pub struct Report {
    pub by: Actor,
    pub what: EventKind,
    pub expects: Option<u64>,
    pub artefacts: Vec<Artefact>,
    /// Key of the caller, for a call that may be repeated. The report of a job gets its key from
    /// its lease.
    pub once: Option<Once>,
}

/// Idempotency key of a call. A repeated call gets the first answer; a different call with the same
/// key is refused.
#[derive(Clone, Debug)]
pub struct Once {
    pub key: String,
    pub payload_hash: String,
    /// Builds the answer for the caller from the ticket after the call and its policy.
    pub answer: fn(&Ticket, &Policy) -> Value,
}

impl Report {
    pub fn new(by: Actor, what: EventKind) -> Self {
        Self {
            by,
            what,
            expects: None,
            artefacts: Vec::new(),
            once: None,
        }
    }

    /// Returns the key that identifies a repeated call. The caller's own key goes first: it also
    /// covers calls that have no lease.
    pub(super) fn key(&self, id: &TicketId) -> Option<String> {
        match (&self.once, self.what.lease()) {
            (Some(once), _) => Some(once.key.clone()),
            // A job sends one report of each kind per lease, so these make its key.
            (None, Some(Lease { serial, fence })) => {
                Some(format!("{id}/{serial}/{fence}/{}", self.what.name()))
            }
            (None, None) => None,
        }
    }

    /// Returns the key of a report with a hash of its content.
    pub(super) fn fingerprint(&self, id: &TicketId) -> Option<(String, String)> {
        // The hash tells a repeated report from another one under the same key, which is refused.
        let payload = serde_json::to_string(&self.what).unwrap_or_default();
        Some((self.key(id)?, crate::hash::short_sha256(payload.as_bytes())))
    }

    pub(super) fn remember(
        &self,
        id: &TicketId,
        ticket: &Ticket,
        policy: &Policy,
    ) -> Option<Remembered> {
        if let Some(once) = &self.once {
            return Some(once.remember(ticket, policy));
        }
        let (key, payload_hash) = self.fingerprint(id)?;
        Some(Remembered {
            key,
            payload_hash,
            // The answer is small: a repeated report only needs to know what became of the ticket.
            answer: json!({"stage": ticket.stage, "version": ticket.version}),
        })
    }
}

impl Once {
    pub(super) fn remember(&self, ticket: &Ticket, policy: &Policy) -> Remembered {
        Remembered {
            key: self.key.clone(),
            payload_hash: self.payload_hash.clone(),
            answer: (self.answer)(ticket, policy),
        }
    }
}
