//! Jobs of the queue, requests for them, and their outcomes.

use std::collections::BTreeSet;
use std::time::Duration;

use flow::{Queue, Task, TicketId, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct JobId(pub i64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// The job's `not_before` time is in the future.
    Waiting,
    Ready,
    Leased,
    Done,
    /// Cancelled: the job is no longer needed.
    Dropped,
    /// Failed for good; the job stays with its history.
    Dead,
}

/// A job that belongs to no ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreeJob {
    pub queue: Queue,
    pub kind: String,
    pub body: Value,
    pub priority: i32,
    pub not_before: Option<Time>,
    pub agent: Option<String>,
    /// Idempotency key: adding the same key twice gives one job; another body under it is refused.
    pub key: Option<String>,
    pub queue_max: Option<u64>,
    /// Labels that a worker must have.
    pub needs: BTreeSet<String>,
    /// Keys of the jobs that must be done before this one can be claimed.
    pub depends_on: Vec<String>,
}

/// A worker's request for jobs. The claim itself promotes due jobs and applies pauses, provider
/// limits, labels and dependencies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimRequest {
    /// Holder of the lease; others use the name to check whether the holder is alive.
    pub worker: String,
    /// Names under which people pause this worker, such as `qa-1` and `qa`.
    #[serde(default)]
    pub paused_as: Vec<String>,
    pub queues: Vec<ServedQueue>,
    /// Claims only jobs that need no other labels; `None` ignores labels.
    #[serde(default)]
    pub labels: Option<BTreeSet<String>>,
    #[serde(default)]
    pub only: Option<ClaimTarget>,
    /// Jobs that this worker has rejected.
    #[serde(default)]
    pub except: Vec<JobId>,
    /// Claims nothing while the worker already holds a job of one of these queues.
    #[serde(default)]
    pub exclusive: Vec<Queue>,
    pub lease: Duration,
    pub limit: u32,
}

/// A queue that a worker serves, and the agent for its jobs. A worker that serves one queue with
/// several agents has one entry per agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServedQueue {
    pub queue: Queue,
    /// Name of the agent. A job that is assigned to an agent goes only to that agent.
    pub agent: String,
    /// Excludes unassigned jobs.
    #[serde(default)]
    pub assigned_only: bool,
    /// The provider that the agent uses, for its pauses and its limit.
    #[serde(default)]
    pub provider: Option<String>,
}

/// The single ticket or job that a claim is limited to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimTarget {
    Ticket(TicketId),
    Job(JobId),
}

impl ServedQueue {
    pub fn new(queue: impl Into<Queue>, agent: impl Into<String>) -> Self {
        Self {
            queue: queue.into(),
            agent: agent.into(),
            assigned_only: false,
            provider: None,
        }
    }
}

impl ClaimRequest {
    /// Builds a request of one agent for one job of these queues.
    pub fn new<Q: Into<Queue>>(
        worker: impl Into<String>,
        agent: &str,
        queues: impl IntoIterator<Item = Q>,
        lease: Duration,
    ) -> Self {
        Self {
            worker: worker.into(),
            queues: queues
                .into_iter()
                .map(|queue| ServedQueue::new(queue, agent))
                .collect(),
            lease,
            limit: 1,
            ..Self::default()
        }
    }

    /// Sets the provider for all queues of the request.
    #[must_use]
    pub fn with_provider(mut self, provider: &str) -> Self {
        for served in &mut self.queues {
            served.provider = Some(provider.to_owned());
        }
        self
    }

    /// Returns the queue names without duplicates.
    pub fn queue_names(&self) -> Vec<String> {
        let names: BTreeSet<&str> = self.queues.iter().map(|one| one.queue.name()).collect();
        names.into_iter().map(str::to_owned).collect()
    }
}

/// A job under a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leased {
    pub id: JobId,
    pub queue: Queue,
    pub ticket: Option<TicketId>,
    pub serial: Option<u32>,
    pub work: JobWork,
    /// Fencing token of this lease; it grows with each claim of the job.
    pub fence: u64,
    pub holder: String,
    /// Expiry by the database's clock.
    pub until: Time,
    pub attempts: u32,
    /// Agent that the job is assigned to.
    #[serde(default)]
    pub agent: Option<String>,
    /// Provider that the job was claimed for.
    #[serde(default)]
    pub provider: Option<String>,
}

/// Result of [`crate::Jobs::expire`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Number of jobs that were requeued, or marked dead after too many attempts.
    pub requeued: u64,
    /// Jobs of tickets, which decide about them.
    pub of_tickets: Vec<Leased>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobWork {
    /// Work of a ticket.
    Task(Task),
    /// Work without a ticket.
    Free { kind: String, body: Value },
}

/// Outcome of a job without a ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishedTask {
    pub job: JobId,
    pub fence: u64,
    pub outcome: TaskOutcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskOutcome {
    Done {
        result: Value,
    },
    /// The job goes back to its queue and is not claimed before `not_before`.
    Retry {
        error: String,
        not_before: Time,
        /// Whether this counts as a failed attempt.
        counts: bool,
    },
    Dead {
        error: String,
    },
}

/// Filters for a list of jobs; all of them must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobQuery {
    pub queue: Option<Queue>,
    /// Only jobs of these queues; an empty list means every queue.
    #[serde(default)]
    pub queues: Vec<Queue>,
    pub state: Option<JobState>,
    pub ticket: Option<TicketId>,
    /// Only jobs that this agent could claim: unassigned ones and its own.
    pub agent: Option<String>,
    /// Only jobs that a claim could take now: ready, waiting and due, or without a ticket and with
    /// a lease that ran out. Ignores `state`.
    #[serde(default)]
    pub claimable: bool,
    /// Only jobs whose lease has run out.
    #[serde(default)]
    pub lapsed: bool,
    /// Only the job that was added under this key.
    #[serde(default)]
    pub key: Option<String>,
    /// Only the jobs that one worker holds, oldest first. Ignores the other filters.
    #[serde(default)]
    pub held: Option<HeldJobsFilter>,
    /// Orders by priority and then age, as claims do, instead of newest first; first page only.
    pub urgent_first: bool,
}

/// The leases of one worker on jobs of some queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldJobsFilter {
    pub worker: String,
    pub queues: Vec<Queue>,
}

/// A job, as lists show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Job {
    pub id: JobId,
    pub queue: Queue,
    pub state: JobState,
    pub ticket: Option<TicketId>,
    pub serial: Option<u32>,
    pub work: JobWork,
    pub priority: i32,
    pub created_at: Time,
    pub not_before: Time,
    pub attempts: u32,
    pub fence: u64,
    pub holder: Option<String>,
    pub lease_until: Option<Time>,
    pub last_error: Option<String>,
    pub result: Option<Value>,
}
