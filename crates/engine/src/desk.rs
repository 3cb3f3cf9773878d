//! The desk: where an event meets its ticket. Reads, lets `flow` decide, writes the decision whole,
//! and begins again where somebody else was faster. It knows no stage.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use flow::event::Lease;
use flow::narrate::{Sentence, narrate};
use flow::standing::Barred;
use flow::ticket::Spec;
use flow::{Actor, Event, Policy, Queue, Refused, Step, Ticket, TicketId, Time, What};
use serde_json::{Value, json};
use store::{Artefact, Change, Committed, Noted, Remembered, Store, Stored};

use crate::activity::Activity;
use crate::git::without_secret;
use crate::rate::Rates;

/// How often a decision is made anew because somebody else was faster.
const ATTEMPTS_MAX: u32 = 32;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Refused(#[from] Refused),
    #[error("{0}")]
    Barred(#[from] Barred),
    #[error("there is no ticket {0}; `countersign ticket list` shows those there are")]
    NoSuchTicket(TicketId),
    #[error("{ticket} depends on {dependency}, and there is no such ticket; add that one first")]
    NoSuchDependency {
        ticket: TicketId,
        dependency: TicketId,
    },
    #[error("{0} was changed by others {ATTEMPTS_MAX} times in a row; try again")]
    TooBusy(TicketId),
    #[error("the {task} of {ticket} is for {agent:?}, and nobody of that name works here")]
    ForSomebodyElse {
        ticket: TicketId,
        task: Queue,
        agent: String,
    },
    /// What was put forward cannot be taken as it is; whoever did can mend it.
    #[error("{0}")]
    Unusable(String),
    #[error("a worker broke: {0}")]
    Broken(String),
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Error {
    /// Why nothing was decided, where it was said that nothing can be.
    pub fn refusal(&self) -> Option<String> {
        match self {
            Self::Refused(refused) => Some(refused.to_string()),
            Self::Store(store::Error::Overruled(why)) => Some(why.clone()),
            _ => None,
        }
    }

    /// The lease has gone to somebody else: whatever was done under it does not count.
    pub fn is_stale(&self) -> bool {
        matches!(
            self,
            Self::Refused(
                Refused::StaleFence { .. } | Refused::NoSuchJob { .. } | Refused::NotHolder { .. }
            ) | Self::Store(store::Error::StaleFence { .. })
        )
    }
}

#[derive(Clone, Debug)]
pub struct Desk {
    pub store: Arc<dyn Store>,
    pub clock: fn() -> Time,
    /// Hears the story as it is decided, where somebody listens.
    pub witness: Option<Arc<dyn Witness>>,
    /// How many refusals of one name are noted: a loop of bad reports must not fill the log.
    pub refusals: Arc<Rates>,
}

/// Hears each part of the story in its order, before anything further is decided,
/// so that nothing is left untold when the work ends.
pub trait Witness: fmt::Debug + Send + Sync {
    fn hear(&self, told: Told);

    /// Sees a sign of life from a run. It is called while the run's output is read, and must
    /// return at once: whoever needs time takes a note and looks at it later.
    fn see(&self, _activity: Activity) {}

    /// Hears what concerns no ticket: that the store is away, or back.
    fn notice(&self, _text: &str) {}
}

/// A part of a ticket's story.
#[derive(Clone, Debug)]
pub struct Told {
    pub ticket: TicketId,
    pub story: Vec<Sentence>,
    /// The ticket as it is now.
    pub after: Box<Ticket>,
}

/// An event on its way to a decision.
#[derive(Clone, Debug)]
pub struct Report {
    pub by: Actor,
    pub what: What,
    pub expects: Option<u64>,
    /// The only version that it may be decided on, where somebody else has decided on that before.
    pub on: Option<u64>,
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
    /// What the caller is told, made of the ticket as the call left it.
    pub answer: fn(&Ticket) -> Value,
}

impl Report {
    pub fn new(by: Actor, what: What) -> Self {
        Self {
            by,
            what,
            expects: None,
            on: None,
            artefacts: Vec::new(),
            once: None,
        }
    }

    /// How the call is found again.
    fn key(&self, id: &TicketId) -> Option<String> {
        match (&self.once, self.what.lease()) {
            (Some(once), _) => Some(once.key.clone()),
            // A job's report is made once for each lease: that is its key.
            (None, Some(Lease { serial, fence })) => {
                Some(format!("{id}/{serial}/{fence}/{}", self.what.name()))
            }
            (None, None) => None,
        }
    }

    fn remember(&self, id: &TicketId, ticket: &Ticket) -> Option<Remembered> {
        if let Some(once) = &self.once {
            return Some(once.remember(ticket));
        }
        let payload = serde_json::to_string(&self.what).unwrap_or_default();
        Some(Remembered {
            key: self.key(id)?,
            payload_hash: crate::hash::short(payload.as_bytes()),
            answer: json!({"stage": ticket.stage, "version": ticket.version}),
        })
    }
}

impl Once {
    fn remember(&self, ticket: &Ticket) -> Remembered {
        Remembered {
            key: self.key.clone(),
            payload_hash: self.payload_hash.clone(),
            answer: (self.answer)(ticket),
        }
    }
}

impl Desk {
    pub async fn ticket(&self, id: &TicketId) -> Result<Stored, Error> {
        self.store
            .ticket(id)
            .await?
            .ok_or_else(|| Error::NoSuchTicket(id.clone()))
    }

    /// The policy that the ticket's last decision was made under.
    pub async fn policy_of(&self, stored: &Stored) -> Result<Policy, Error> {
        Ok(self.store.policy(&stored.policy).await?.unwrap_or_default())
    }

    /// Brings a ticket into the world, looking at what it depends on.
    pub async fn open(
        &self,
        id: &TicketId,
        mut spec: Spec,
        policy: &Policy,
        (by, once): (Actor, Option<Once>),
    ) -> Result<Ticket, Error> {
        // Whoever reads the log reads a ticket's context.
        let remote = spec.context.remote.take();
        spec.context.remote = remote.map(|address| without_secret(&address));
        let (spec, by) = (spec.cleaned(), by.cleaned());
        for _ in 0..ATTEMPTS_MAX {
            let (what, reads) = self.created(id, &spec).await?;
            let event = Event {
                at: (self.clock)(),
                by: by.clone(),
                expects: None,
                what,
            };
            let step = flow::open(id, &event, policy)?;
            let change = Change {
                reads,
                remember: once.as_ref().map(|once| once.remember(&step.ticket)),
                ..change(step, None, event, policy)
            };
            match self.store.commit(change.clone()).await {
                Ok(_) => {
                    self.tell(None, &change.event, &change.ticket, policy);
                    return Ok(change.ticket);
                }
                Err(store::Error::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::TooBusy(id.clone()))
    }

    /// The first event, with what is known of the dependencies, and their versions as read.
    async fn created(
        &self,
        id: &TicketId,
        spec: &Spec,
    ) -> Result<(What, Vec<(TicketId, u64)>), Error> {
        let (mut met, mut failed, mut reads) = (BTreeSet::new(), Vec::new(), Vec::new());
        for dependency in spec
            .depends_on
            .iter()
            .filter(|dependency| *dependency != id)
        {
            let Some(stored) = self.store.ticket(dependency).await? else {
                let (ticket, dependency) = (id.clone(), dependency.clone());
                return Err(Error::NoSuchDependency { ticket, dependency });
            };
            reads.push((dependency.clone(), stored.ticket.version));
            let policy = self.policy_of(&stored).await?;
            match stored.ticket.as_dependency(&policy) {
                Some(Ok(())) => {
                    met.insert(dependency.clone());
                }
                Some(Err(why)) => failed.push((dependency.clone(), why)),
                None => {}
            }
        }
        Ok((
            What::Created {
                spec: Box::new(spec.clone()),
                met,
                failed,
            },
            reads,
        ))
    }

    /// Lets `flow` decide on a report and writes what it decided.
    pub async fn decide(
        &self,
        id: &TicketId,
        policy: &Policy,
        mut report: Report,
    ) -> Result<Ticket, Error> {
        report.what = report.what.cleaned();
        report.by = report.by.cleaned();
        // Tickets on the way through make the future large; callers should not carry that.
        Box::pin(self.decide_until_written(id, policy, report)).await
    }

    async fn decide_until_written(
        &self,
        id: &TicketId,
        policy: &Policy,
        report: Report,
    ) -> Result<Ticket, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let stored = self.ticket(id).await?;
            if report.on.is_some_and(|on| on != stored.ticket.version) {
                let what = format!("ticket {id}");
                return Err(store::Error::Conflict { what }.into());
            }
            let event = Event {
                at: (self.clock)(),
                by: report.by.clone(),
                expects: report.expects,
                what: report.what.clone(),
            };
            let step = match flow::advance(&stored.ticket, &event, policy) {
                Ok(step) => step,
                Err(refused) => return self.refuse(id, &event, refused).await,
            };
            let change = Change {
                remember: report.remember(id, &step.ticket),
                artefacts: report.artefacts.clone(),
                ..change(step, Some(stored.ticket.version), event.clone(), policy)
            };
            let ticket = change.ticket.clone();
            match self.store.commit(change).await {
                Ok(Committed::Written { .. }) => {
                    self.tell(Some(&stored.ticket), &event, &ticket, policy);
                    return Ok(ticket);
                }
                Ok(Committed::Again(_)) => return Ok(ticket),
                // The lease may have been prolonged in this instant: whoever asked looks again.
                Err(error @ store::Error::Conflict { .. }) if is_about_a_lost_lease(&event) => {
                    return Err(error.into());
                }
                Err(store::Error::Conflict { .. }) => {}
                Err(store::Error::OutcomeUnknown(why)) => {
                    return self.look_up(id, &report, why).await;
                }
                Err(error @ store::Error::StaleFence { .. }) => {
                    self.note(id, &event, &error.to_string()).await?;
                    return Err(error.into());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::TooBusy(id.clone()))
    }

    fn tell(&self, before: Option<&Ticket>, event: &Event, after: &Ticket, policy: &Policy) {
        if let Some(witness) = &self.witness {
            witness.hear(Told {
                ticket: after.id.clone(),
                story: narrate(before, event, after, policy),
                after: Box::new(after.clone()),
            });
        }
    }

    /// A refusal is noted in the log, with who tried what; of a flood of them a part.
    async fn refuse(
        &self,
        id: &TicketId,
        event: &Event,
        refused: Refused,
    ) -> Result<Ticket, Error> {
        self.note(id, event, &refused.to_string()).await?;
        Err(refused.into())
    }

    async fn note(&self, id: &TicketId, event: &Event, why: &str) -> Result<(), Error> {
        if !self.refusals.admit(&event.by.agent) {
            return Ok(());
        }
        let body = json!({"event": event.what.name(), "role": event.by.role, "why": why});
        let noted = Noted {
            at: event.at,
            ticket: Some(id.clone()),
            name: "refused".to_owned(),
            by: event.by.agent.clone(),
            body,
        };
        Ok(self.store.note(noted).await?)
    }

    /// A commit whose answer was lost: its key tells whether it was written.
    async fn look_up(&self, id: &TicketId, report: &Report, why: String) -> Result<Ticket, Error> {
        if let Some(key) = report.key(id)
            && self.store.recall(&key).await?.is_some()
        {
            return Ok(self.ticket(id).await?.ticket);
        }
        Err(store::Error::OutcomeUnknown(why).into())
    }
}

fn change(step: Step, was: Option<u64>, event: Event, policy: &Policy) -> Change {
    Change {
        ticket: step.ticket,
        was,
        event,
        policy: policy.clone(),
        effects: step.effects,
        reads: Vec::new(),
        remember: None,
        artefacts: Vec::new(),
        queue_max: None,
        then: None,
    }
}

fn is_about_a_lost_lease(event: &Event) -> bool {
    matches!(event.what, What::LeaseLost { .. })
}
