//! The worker protocol: a worker claims a job, performs it, and reports an event. It never sees a
//! database. [`LocalCoordinator`] applies `flow::advance` and writes to a store in one transaction;
//! [`HttpCoordinator`] sends the same calls over HTTP. Only the coordinator decides: `report`
//! returns its ticket.

mod attachments;
mod claim;
mod dependents;
mod error;
mod http;
mod local;
mod outage;
mod report;
mod reports;
pub mod wire;

pub use error::Error;
pub use http::{HttpCoordinator, Transport, TransportError};
pub use local::{LocalCoordinator, noted_of_token};
pub use outage::Outage;
pub use report::{Once, ProgressListener, ProgressUpdate, Report};

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use flow::event::Lease;
use flow::{Policy, Queue, Ticket, TicketId, Time, Usage};
use serde::{Deserialize, Serialize};
use store::{Agent, JobId, Leased, Noted, Pause, StoredBundle, TaskOutcome, Token};

/// Fallback poll interval while jobs are open, in case a wake-up is lost.
pub const POLL: Duration = Duration::from_secs(2);
/// Fallback poll interval while no job is open at all. A new job wakes the waiter.
pub const QUIET_POLL: Duration = Duration::from_secs(30);

/// The calls of a worker to the process that holds the tickets.
#[async_trait]
pub trait Coordinator: fmt::Debug + Send + Sync {
    /// Lists what the worker could claim now, most urgent first. Waits up to `most` if there is
    /// nothing, then returns an empty list. Offers are not leases: the worker loads the project
    /// first, because only the project says which of its agents may take the job.
    async fn wait(&self, request: &JobRequest, most: Duration) -> Result<Vec<Offer>, Error>;
    /// Claims jobs of one offer under a lease. This call applies lost leases, daily budgets, paused
    /// providers, provider limits, labels and dependencies.
    async fn claim(&self, request: &JobRequest) -> Result<Vec<Leased>, Error>;
    /// Checks that the caller still holds the lease, and prolongs it by `extend`.
    async fn renew(&self, job: JobId, fence: u64, extend: Option<Duration>) -> Result<(), Error>;
    /// Decides on an event and returns the coordinator's ticket; a worker never computes one
    /// itself. `policy` is the project's policy as the worker read it; a server decides under the
    /// recorded one.
    async fn report(
        &self,
        ticket: &TicketId,
        policy: &Policy,
        report: Report,
    ) -> Result<Ticket, Error>;
    /// Finishes a task that belongs to no ticket, and records its cost.
    async fn finish(&self, report: TaskReport) -> Result<(), Error>;
    /// Returns a ticket, if it exists.
    async fn ticket(&self, id: &TicketId) -> Result<Option<Ticket>, Error>;
    /// Sends a git bundle, or a note for the event log.
    async fn upload(&self, upload: Upload) -> Result<(), Error>;
    /// Fetches the git bundle of this key. If it does not exist yet, requests that it be packed.
    async fn download(&self, key: &str) -> Result<Option<StoredBundle>, Error>;
    /// Issues or revokes the token of one agent run. Returns false if there is no server to call,
    /// or no token was valid.
    async fn run_token(&self, change: RunToken) -> Result<bool, Error>;
    /// Pauses a provider for all agents that use it.
    async fn pause_provider(&self, pause: Pause) -> Result<(), Error>;
    /// Reports that the worker is alive.
    async fn heartbeat(&self, agent: Agent) -> Result<(), Error>;
    /// Returns the time of the coordinator's clock. Fails if the caller is not authenticated.
    async fn now(&self) -> Result<Time, Error>;
}

/// Describes who asks for jobs and which jobs it can do.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobRequest {
    /// The name people see and pause: `qa-1`.
    pub name: String,
    /// The name on leases. It identifies the process, so that others see whether it is alive.
    pub worker: String,
    /// Queues of the loop that the worker serves.
    pub queues: Vec<Queue>,
    /// Queues of tasks that belong to no ticket.
    #[serde(default)]
    pub tasks: Vec<Queue>,
    /// Labels that a ticket or task may require to be offered; `None` means any.
    #[serde(default)]
    pub labels: Option<BTreeSet<String>>,
    /// The agents of the project, each with its queue. A wait that names none is for any agent.
    #[serde(default)]
    pub agents: Vec<AgentClaim>,
    #[serde(default)]
    pub only: Option<WorkItem>,
    /// Tickets and tasks that the worker cannot work on. They are not offered.
    #[serde(default)]
    pub skip: Vec<WorkItem>,
    /// Leases that the worker holds now. They do not count as lost, however late their renewal is.
    #[serde(default)]
    pub leases: Vec<Lease>,
    /// Takes no lease back. After an outage, living workers renew theirs first.
    #[serde(default)]
    pub spare_leases: bool,
    /// Queues that allow one claim at a time: a worker with a job of these queues gets nothing.
    #[serde(default)]
    pub alone_in: Vec<Queue>,
    /// Policy of the project, if the worker has read it.
    #[serde(default)]
    pub policy: Option<Box<Policy>>,
    pub lease: Duration,
    /// Maximum number of jobs, or of offers.
    pub most: u32,
}

/// An agent that jobs are claimed for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentClaim {
    pub queue: Queue,
    pub name: String,
    /// Names under which jobs may request this agent.
    pub names: Vec<String>,
    /// Restricts the agent to jobs that name it.
    #[serde(default)]
    pub named_only: bool,
    /// Provider, for its pauses and its limit.
    #[serde(default)]
    pub provider: Option<String>,
    /// Maximum number of jobs, if the worker itself limits the provider.
    #[serde(default)]
    pub most: Option<u32>,
}

/// Names a ticket, or a job that belongs to none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkItem {
    Ticket(TicketId),
    Task(JobId),
}

/// Something ready that the worker may be able to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Offer {
    pub of: WorkItem,
    /// The ticket. A task gets an unsaved one.
    pub ticket: Box<Ticket>,
    /// Rules that people accepted for the repository, in addition to those of its configuration.
    #[serde(default)]
    pub rules: Vec<String>,
}

/// Outcome and cost of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskReport {
    pub job: JobId,
    pub fence: u64,
    /// Fence of the run that was paid for. It is an earlier one if only the report of that run was
    /// lost.
    pub run: u64,
    pub usage: Usage,
    pub outcome: TaskOutcome,
    /// The worker's name, for the event log.
    pub by: String,
}

/// Data of a run that the coordinator keeps.
#[derive(Clone, Debug)]
pub enum Upload {
    Bundle(StoredBundle),
    /// Note under the lease of its run.
    Note {
        lease: Lease,
        noted: Noted,
    },
}

/// A change to the token of one agent run.
#[derive(Clone, Debug)]
pub enum RunToken {
    Issue {
        token: Box<Token>,
        /// SHA-256 of a token that the agent's server accepts. A store that has this token is the
        /// server's store.
        server: String,
    },
    Revoke {
        token: Box<Token>,
    },
}

/// Returns the queues that Countersign itself serves; jobs in them pay no agent.
pub fn system_queues() -> Vec<Queue> {
    Queue::OF_LOOP
        .into_iter()
        .filter(Queue::is_of_system)
        .collect()
}

#[cfg(test)]
mod tests;
