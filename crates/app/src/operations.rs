//! What can be done, once for all surfaces: `cli`, and later `mcp` and `web`, only translate.
//! No rule about tickets is here; those are asked of `flow` through the desk.

pub mod agent_files;
pub mod agents;
pub mod assignments;
mod briefs;
pub mod bulletin;
pub mod config;
mod confinement;
mod crew;
pub mod data_dir;
pub mod demo;
pub mod diff;
pub mod doctor;
pub mod epics;
pub mod escalations;
pub mod export;
pub mod findings;
pub mod forecasts;
pub mod history;
pub mod hooks;
pub mod house_rules;
pub mod identity;
pub mod init;
pub mod insights;
pub mod measures;
pub mod messages;
pub mod overview;
pub mod pauses;
pub mod plans;
pub mod presence;
pub mod project;
mod projects;
pub mod questions;
pub mod queue;
pub mod review;
pub mod rpc;
pub mod run;
pub mod service;
pub mod silence;
pub mod tasks;
pub mod tickets;
pub mod transcripts;
pub mod workers;

use std::sync::Arc;

use engine::coordinator::{LocalCoordinator, Once, Outage, ProgressListener, Report};
use engine::process::StopSignal;
use engine::rate::RateLimiter;
use flow::event::Choice;
use flow::{Actor, EventKind, Role, TicketId, Time};
use store::Store;

/// What lists, logs and tickets are asked and answered with.
pub use store::{Cursor, Page, Paged, PauseScope, Stored, StoredEvent, TicketRow};

use crate::failure::Failure;
use crate::settings::Environment;

/// Everything an operation works with.
#[derive(Clone, Debug)]
pub struct App {
    /// Private to the operations: the surfaces translate calls and decide nothing.
    desk: LocalCoordinator,
    pub surroundings: Environment,
    /// In whose name things are done.
    pub speaker: Actor,
    /// What the caller wants kept: that its call counts once, and for what it had seen.
    pub call: CallContext,
    /// A note for the person about the data directory.
    pub remark: Option<String>,
}

/// How a change was asked for.
#[derive(Clone, Debug, Default)]
pub struct CallContext {
    pub once: Option<Once>,
    /// The version that the caller had seen.
    pub expects: Option<u64>,
    /// The only ticket that the caller may speak of.
    pub only: Option<TicketId>,
}

impl App {
    /// Opens the store, making the data directory where there is none.
    pub async fn open(surroundings: Environment) -> Result<Self, Failure> {
        let remark = data_dir::prepare(&surroundings.data_dir)?;
        let store = store::open(&surroundings.database()).await?;
        let mut office = Self::with(surroundings, store);
        office.remark = remark;
        Ok(office)
    }

    /// The same over a store that is open.
    pub fn with(surroundings: Environment, store: Arc<dyn Store>) -> Self {
        let desk = LocalCoordinator {
            store,
            clock: engine::clock::now,
            witness: None,
            refusals: Arc::default(),
        };
        let speaker = Actor::new(&surroundings.person, Role::Human);
        Self {
            desk,
            surroundings,
            speaker,
            call: CallContext::default(),
            remark: None,
        }
    }

    pub fn clock(&self) -> fn() -> Time {
        self.desk.clock
    }

    pub fn now(&self) -> Time {
        (self.desk.clock)()
    }

    /// Counts refusals by caller, so that a flood of them is not recorded.
    pub fn refusals(&self) -> Arc<RateLimiter> {
        Arc::clone(&self.desk.refusals)
    }

    /// Reports progress to this listener from now on.
    pub fn report_to(&mut self, listener: Option<Arc<dyn ProgressListener>>) {
        self.desk.witness = listener;
    }

    /// Fails where the database does not answer.
    pub async fn check_store(&self) -> Result<(), Failure> {
        self.desk.store.now().await?;
        Ok(())
    }

    /// Returns the choices that a person has for an escalated ticket.
    pub async fn choices(&self, stored: &Stored) -> Result<Vec<Choice>, Failure> {
        let policy = self.desk.policy_of(stored).await?;
        Ok(flow::choices(&stored.ticket, &policy))
    }

    /// In whose name things are done: the person at the terminal's, or whoever called.
    pub fn person(&self) -> Actor {
        self.speaker.clone()
    }

    /// What happens, in the speaker's name and as it was asked for.
    pub fn report(&self, what: EventKind) -> Report {
        let CallContext { once, expects, .. } = self.call.clone();
        Report {
            once,
            expects,
            ..Report::new(self.speaker.clone(), what)
        }
    }

    /// The same office, for somebody else.
    #[must_use]
    pub fn speaking_as(&self, speaker: Actor) -> Self {
        Self {
            speaker,
            ..self.clone()
        }
    }

    /// What a person decided may be news to other tickets, and there may be no worker to bring it.
    pub async fn bring_news(&self) -> Result<bool, Failure> {
        Ok(self.desk.notify_dependents().await?)
    }

    /// Notes what changed no ticket.
    pub async fn note(&self, name: &str, body: serde_json::Value) -> Result<(), Failure> {
        let noted = store::Noted {
            at: (self.desk.clock)(),
            ticket: None,
            name: name.to_owned(),
            by: self.speaker.agent.clone(),
            body,
        };
        Ok(self.desk.store.note(noted).await?)
    }

    pub async fn ticket(&self, id: &str) -> Result<Stored, Failure> {
        Ok(self.desk.ticket(&ticket_id(id)?).await?)
    }
}

/// Does it again while the database is away, as long as workers wait for it. A person who does not want
/// to wait ends the program.
pub async fn patiently<T, F>(office: &App, mut attempt: impl FnMut() -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let mut outage = Outage::new(office.desk.witness.clone());
    loop {
        match attempt().await {
            Err(mut failure) => {
                let Some(away) = failure.away.take() else {
                    return Err(failure);
                };
                let waited = outage.wait(away.into(), &mut StopSignal::never()).await;
                waited.map_err(|_| failure)?;
            }
            Ok(done) => {
                outage.is_over();
                return Ok(done);
            }
        }
    }
}

pub fn ticket_id(text: &str) -> Result<TicketId, Failure> {
    TicketId::new(text).map_err(Failure::usage)
}
