//! The worker protocol: a worker claims a job, performs it, and reports an event. It never sees a
//! database. [`LocalCoordinator`] is a store and `flow::advance` in one transaction; [`HttpCoordinator`]
//! is the same verbs over HTTP. Only the coordinator decides: `report` answers with its ticket.

mod attachments;
mod claim;
mod dependents;
mod error;
mod http;
mod local;
mod outage;
mod report;
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
use store::{Agent, JobId, Leased, Noted, Parcel, Pause, TaskOutcome, Token};

/// Fallback poll interval while jobs are open, in case a wake-up is lost.
pub const POLL: Duration = Duration::from_secs(2);
/// The same while no job is open at all: a new one wakes the waiter.
pub const QUIET_POLL: Duration = Duration::from_secs(30);

/// The calls of a worker to the process that holds the tickets.
#[async_trait]
pub trait Coordinator: fmt::Debug + Send + Sync {
    /// Lists what the worker could claim now, most urgent first. Waits up to `most` where there is
    /// nothing, and then answers with an empty list. Offers are not leases: the worker loads the
    /// project first, because only the project says which of its agents may take the job.
    async fn wait(&self, request: &JobRequest, most: Duration) -> Result<Vec<Offer>, Error>;
    /// Takes jobs of one offer under a lease. Lost leases, budgets of the day, paused providers,
    /// provider limits, labels and dependencies are minded here.
    async fn claim(&self, request: &JobRequest) -> Result<Vec<Leased>, Error>;
    /// Checks that a lease is still the caller's, and prolongs it by `extend`.
    async fn renew(&self, job: JobId, fence: u64, extend: Option<Duration>) -> Result<(), Error>;
    /// Decides on an event. The answer is the coordinator's ticket; a worker makes no other.
    /// `policy` is the project's as the worker read it; a server decides under the recorded one.
    async fn report(
        &self,
        ticket: &TicketId,
        policy: &Policy,
        report: Report,
    ) -> Result<Ticket, Error>;
    /// Ends a task that belongs to no ticket, and counts what it cost.
    async fn finish(&self, report: TaskReport) -> Result<(), Error>;
    async fn ticket(&self, id: &TicketId) -> Result<Option<Ticket>, Error>;
    /// Sends a git bundle, or a note for the event log.
    async fn upload(&self, upload: Upload) -> Result<(), Error>;
    /// Fetches the git bundle of this key; asks for it to be packed where it is not there yet.
    async fn download(&self, key: &str) -> Result<Option<Parcel>, Error>;
    /// Issues or revokes the token of one agent run. False: there is no server to call, or nothing
    /// was valid.
    async fn run_token(&self, change: RunToken) -> Result<bool, Error>;
    async fn pause_provider(&self, pause: Pause) -> Result<(), Error>;
    /// Tells that the worker lives.
    async fn heartbeat(&self, agent: Agent) -> Result<(), Error>;
    /// The coordinator's clock; fails where the caller is not let in.
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
    /// Only tickets and tasks that need no other labels; any where it is not said.
    #[serde(default)]
    pub labels: Option<BTreeSet<String>>,
    /// The agents of the project, each with its queue. A wait that names none is for any agent.
    #[serde(default)]
    pub agents: Vec<AgentClaim>,
    #[serde(default)]
    pub only: Option<WorkItem>,
    /// Tickets and tasks that the worker cannot work on; they are not offered.
    #[serde(default)]
    pub skip: Vec<WorkItem>,
    /// Leases that the worker holds now. They are not lost, however late their renewal is.
    #[serde(default)]
    pub held: Vec<Lease>,
    /// No lease is taken back. After an outage living workers renew theirs first.
    #[serde(default)]
    pub spare_leases: bool,
    /// Nothing is given while the worker holds a job of these queues: one claim at a time.
    #[serde(default)]
    pub alone_in: Vec<Queue>,
    /// The policy of the project, where the worker has read it.
    #[serde(default)]
    pub policy: Option<Box<Policy>>,
    pub lease: Duration,
    /// Jobs, or offers, at the most.
    pub most: u32,
}

/// An agent that jobs are claimed for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentClaim {
    pub queue: Queue,
    pub name: String,
    /// How jobs may name it.
    pub names: Vec<String>,
    /// It takes only jobs that name it.
    #[serde(default)]
    pub named_only: bool,
    /// The provider, for its pauses and its limit.
    #[serde(default)]
    pub provider: Option<String>,
    /// Jobs at the most, where the worker itself limits the provider.
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
    /// The ticket; a task is shown as a ticket that nobody keeps.
    pub ticket: Box<Ticket>,
    /// Rules that people accepted for the repository, beside those of its configuration.
    #[serde(default)]
    pub rules: Vec<String>,
}

/// How a task ended, and what it cost.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskReport {
    pub job: JobId,
    pub fence: u64,
    /// The fence of the run that was paid for: an earlier holder's where only its report was lost.
    pub run: u64,
    pub usage: Usage,
    pub outcome: TaskOutcome,
    /// The worker's name, for the event log.
    pub by: String,
}

/// Something that a run leaves with the coordinator.
#[derive(Clone, Debug)]
pub enum Upload {
    Bundle(Parcel),
    /// A note under the lease of its run.
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
        /// SHA-256 of a token that the agent's server knows. A store that knows it is the server's.
        server: String,
    },
    Revoke {
        token: Box<Token>,
    },
}

/// The queues that Countersign itself serves: no agent is paid for what is in them.
pub fn system_queues() -> Vec<Queue> {
    Queue::OF_LOOP
        .into_iter()
        .filter(Queue::is_of_system)
        .collect()
}

#[cfg(test)]
mod tests;
