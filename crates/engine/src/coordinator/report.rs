//! An event on its way to a decision, and the story told of it afterwards.

use std::fmt;

use flow::event::Lease;
use flow::narrate::Sentence;
use flow::{Actor, EventKind, Ticket, TicketId};
use serde_json::{Value, json};
use store::{Artefact, Remembered};

use crate::activity::Activity;

/// Hears each part of the story in its order, before anything further is decided,
/// so that nothing is left untold when the work ends.
pub trait ProgressListener: fmt::Debug + Send + Sync {
    fn hear(&self, update: ProgressUpdate);

    /// Sees a sign of life from a run. It is called while the run's output is read, and must
    /// return at once: whoever needs time takes a note and looks at it later.
    fn see(&self, _activity: Activity) {}

    /// Hears what concerns no ticket: that the store is away, or back.
    fn notice(&self, _text: &str) {}
}

/// A part of a ticket's story.
#[derive(Clone, Debug)]
pub struct ProgressUpdate {
    pub ticket: TicketId,
    pub story: Vec<Sentence>,
    /// The ticket as it is now.
    pub after: Box<Ticket>,
}

/// An event on its way to a decision.
#[derive(Clone, Debug)]
pub struct Report {
    pub by: Actor,
    pub what: EventKind,
    pub expects: Option<u64>,
    pub artefacts: Vec<Artefact>,
    /// The caller's own key, where the call may come again; a job's report has one by its lease.
    pub once: Option<Once>,
}

/// A call that is answered once: the same one again gets the first answer, another one under the
/// same key is refused.
#[derive(Clone, Debug)]
pub struct Once {
    pub key: String,
    pub payload_hash: String,
    /// Makes the caller's answer from the ticket as the call left it.
    pub answer: fn(&Ticket) -> Value,
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

    /// How the call is found again.
    pub(super) fn key(&self, id: &TicketId) -> Option<String> {
        match (&self.once, self.what.lease()) {
            (Some(once), _) => Some(once.key.clone()),
            // A job's report is made once for each lease: that is its key.
            (None, Some(Lease { serial, fence })) => {
                Some(format!("{id}/{serial}/{fence}/{}", self.what.name()))
            }
            (None, None) => None,
        }
    }

    /// The key of a job's report, with a hash of what it says.
    pub(super) fn fingerprint(&self, id: &TicketId) -> Option<(String, String)> {
        let payload = serde_json::to_string(&self.what).unwrap_or_default();
        Some((self.key(id)?, crate::hash::short(payload.as_bytes())))
    }

    pub(super) fn remember(&self, id: &TicketId, ticket: &Ticket) -> Option<Remembered> {
        if let Some(once) = &self.once {
            return Some(once.remember(ticket));
        }
        let (key, payload_hash) = self.fingerprint(id)?;
        Some(Remembered {
            key,
            payload_hash,
            answer: json!({"stage": ticket.stage, "version": ticket.version}),
        })
    }
}

impl Once {
    pub(super) fn remember(&self, ticket: &Ticket) -> Remembered {
        Remembered {
            key: self.key.clone(),
            payload_hash: self.payload_hash.clone(),
            answer: (self.answer)(ticket),
        }
    }
}
