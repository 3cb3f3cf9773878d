//! The operations that all surfaces share: `cli`, `mcp` and `web` only translate calls into them.
//! No rule about tickets belongs here; `flow` decides, through the coordinator.

pub mod agent_files;
mod agent_roles;
pub mod agents;
pub mod assignments;
pub mod backup;
mod briefs;
pub mod browser_sessions;
pub mod change_reports;
pub mod clean;
pub mod commit_review;
pub mod config;
pub mod connection_status;
pub mod connections;
pub mod data_dir;
pub mod demo;
pub mod diff;
pub mod doctor;
pub mod epics;
pub mod escalations;
pub mod event_feed;
pub mod export;
mod finding_threads;
pub mod findings;
pub mod forecasts;
pub mod forge_connection;
pub mod forge_inbox;
pub mod forge_pacing;
pub mod forge_poller;
pub mod forge_setup;
pub mod forge_tools;
pub mod forge_work;
pub mod git_access;
pub mod history;
pub mod hooks;
pub mod identity;
pub mod import_config;
pub mod init;
pub mod insights;
pub mod messages;
pub mod metrics;
pub mod oidc;
pub mod overview;
pub mod pauses;
pub mod person_findings;
pub mod plans;
pub mod presence;
pub mod project;
pub mod project_rules;
mod projects;
pub mod proof;
pub mod pull_request;
pub mod questions;
pub mod queue;
pub mod review;
pub mod rpc;
pub mod run;
pub mod run_files;
mod sandboxing;
pub mod server_lock;
pub mod service;
pub mod session_files;
pub mod session_hook;
pub mod share_links;
pub mod silent_agents;
pub mod tasks;
pub mod ticket_ids;
pub mod ticket_search;
pub mod tickets;
pub mod transcripts;
pub mod viewed_files;
pub mod webhooks_in;
pub mod workers;

use std::sync::Arc;

use engine::coordinator::{LocalCoordinator, Once, Outage, ProgressListener, Report};
use engine::process::StopSignal;
use engine::rate_limit::RateLimiter;
use flow::event::Choice;
use flow::{Actor, EventKind, Role, TicketId, Time};
use store::Store;

// Callers need these store types to ask for lists, logs and tickets and to read the answers.
pub use store::{
    Agent, Cursor, Job, JobState, JobWork, Page, Paged, Pause, PauseScope, Stored, StoredEvent,
    TicketRow, Token,
};

use crate::failure::Failure;
use crate::settings::Environment;

/// The store, the settings and the caller of an operation.
#[derive(Clone, Debug)]
pub struct App {
    /// Private to the operations, so that a surface cannot decide anything itself.
    coordinator: LocalCoordinator,
    pub environment: Environment,
    /// Person or agent that the event log names as the author of each change.
    pub actor: Actor,
    /// Idempotency key and preconditions of the current call.
    pub call: CallContext,
    /// A note for the person about the data directory.
    pub data_dir_note: Option<String>,
    /// Ends long polls when the server stops; their callers connect again.
    pub stop: StopSignal,
    /// Counters of requests and calls, for `/metrics`.
    pub calls: Arc<metrics::CallMetrics>,
    /// Proofs of bases that agents over MCP wait for.
    proofs: Arc<assignments::base_proof::SessionProofs>,
}

/// Conditions that a caller attaches to a change.
#[derive(Clone, Debug, Default)]
pub struct CallContext {
    /// Idempotency key: a repeated call with the same key counts once.
    pub once: Option<Once>,
    /// Ticket version that the caller has seen; the change is refused if the ticket has moved on.
    pub expected_version: Option<u64>,
    /// The only ticket that the caller may read or change.
    pub only_ticket: Option<TicketId>,
    /// Token of the call, if it came over a server.
    pub token: Option<CallToken>,
}

/// Token of a call, without its secret.
#[derive(Clone, Debug)]
pub struct CallToken {
    pub id: String,
    pub expires_at: Option<Time>,
}

impl App {
    /// Refuses what shows more than the only ticket of the caller.
    pub fn require_all_tickets(&self) -> Result<(), Failure> {
        match &self.call.only_ticket {
            None => Ok(()),
            Some(only) => {
                let why = format!("this token is only for ticket {only}");
                Err(Failure::usage(why).hint(format!("GET /api/v1/tickets/{only}")))
            }
        }
    }

    /// Opens the store and creates the data directory if it is missing.
    pub async fn open(environment: Environment) -> Result<Self, Failure> {
        let note = data_dir::prepare(&environment.data_dir)?;
        let store = store::open(&environment.database()).await?;
        let mut app = Self::with_store(environment, store);
        app.data_dir_note = note;
        Ok(app)
    }

    /// Builds an app on a store that is already open. It acts as the person of the environment.
    pub fn with_store(environment: Environment, store: Arc<dyn Store>) -> Self {
        let coordinator = LocalCoordinator {
            store,
            clock: engine::clock::now,
            listener: None,
            refusals: Arc::default(),
        };
        let actor = Actor::new(&environment.person, Role::Human);
        Self {
            coordinator,
            environment,
            actor,
            call: CallContext::default(),
            data_dir_note: None,
            stop: StopSignal::never(),
            calls: Arc::default(),
            proofs: Arc::default(),
        }
    }

    /// Waits for `change`, or until the server stops.
    async fn unless_stopped<T>(&self, change: impl Future<Output = T>) -> Option<T> {
        let mut stop = self.stop.clone();
        tokio::select! {
            changed = change => Some(changed),
            () = stop.requested() => None,
        }
    }

    pub fn clock(&self) -> fn() -> Time {
        self.coordinator.clock
    }

    pub fn now(&self) -> Time {
        (self.coordinator.clock)()
    }

    /// Counts refusals by caller, so that a flood of them is not recorded.
    pub fn refusals(&self) -> Arc<RateLimiter> {
        Arc::clone(&self.coordinator.refusals)
    }

    /// Reports progress to this listener from now on.
    pub fn report_to(&mut self, listener: Option<Arc<dyn ProgressListener>>) {
        self.coordinator.listener = listener;
    }

    /// Fails if the database does not answer.
    pub async fn check_store(&self) -> Result<(), Failure> {
        self.coordinator.store.now().await?;
        Ok(())
    }

    /// Returns the choices that a person has for an escalated ticket.
    pub async fn choices(&self, stored: &Stored) -> Result<Vec<Choice>, Failure> {
        let policy = self.coordinator.policy_of(stored).await?;
        Ok(flow::available_choices(&stored.ticket, &policy))
    }

    /// Returns the author of changes: the person at the terminal, or the caller of a request.
    pub fn person(&self) -> Actor {
        self.actor.clone()
    }

    /// Builds a report of an event, with the caller as its author and the conditions of the call.
    pub fn report(&self, kind: EventKind) -> Report {
        let CallContext {
            once,
            expected_version: expects,
            ..
        } = self.call.clone();
        Report {
            once,
            expects,
            ..Report::new(self.actor.clone(), kind)
        }
    }

    /// Returns a copy of this app that acts for another caller.
    #[must_use]
    pub fn acting_as(&self, actor: Actor) -> Self {
        Self {
            actor,
            ..self.clone()
        }
    }

    /// Updates tickets that depend on a changed one. Callers run it after a person's decision,
    /// because no worker may be running that would do it.
    pub async fn notify_dependents(&self) -> Result<bool, Failure> {
        Ok(self.coordinator.notify_dependents().await?)
    }

    /// Adds an entry that belongs to no ticket to the event log.
    pub async fn note(&self, name: &str, body: serde_json::Value) -> Result<(), Failure> {
        let noted = store::Noted {
            at: (self.coordinator.clock)(),
            ticket: None,
            name: name.to_owned(),
            by: self.actor.agent.clone(),
            body,
        };
        Ok(self.coordinator.store.note(noted).await?)
    }

    /// Loads a ticket by its id.
    pub async fn ticket(&self, id: &str) -> Result<Stored, Failure> {
        Ok(self.coordinator.ticket(&parse_ticket_id(id)?).await?)
    }
}

/// Repeats an attempt while the database is unreachable, for as long as a worker would wait. A
/// person who does not want to wait can interrupt the program.
pub async fn retry_while_unavailable<T, F>(
    app: &App,
    mut attempt: impl FnMut() -> F,
) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let mut outage = Outage::new(app.coordinator.listener.clone());
    loop {
        match attempt().await {
            Err(mut failure) => {
                let Some(outage_error) = failure.store_error.take() else {
                    return Err(failure);
                };
                let waited = outage
                    .wait(outage_error.into(), &mut StopSignal::never())
                    .await;
                waited.map_err(|_| failure)?;
            }
            Ok(value) => {
                outage.is_over();
                return Ok(value);
            }
        }
    }
}

pub fn parse_ticket_id(text: &str) -> Result<TicketId, Failure> {
    TicketId::new(text).map_err(Failure::usage)
}
