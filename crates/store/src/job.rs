//! Jobs, as the queue knows them.

use std::collections::BTreeSet;
use std::time::Duration;

use flow::{Queue, Task, TicketId, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub i64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Its time has not come.
    Waiting,
    Ready,
    Leased,
    Done,
    /// No longer wanted.
    Dropped,
    /// Failed for good; kept with its history.
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
    /// The same key twice is one job; another body under it is refused.
    pub key: Option<String>,
    pub queue_max: Option<u64>,
    /// Labels that a worker must have.
    pub needs: BTreeSet<String>,
    /// Keys of the jobs that must be done before this one can be claimed.
    pub depends_on: Vec<String>,
}

/// A worker's request for jobs. The claim promotes jobs that are due and keeps to pauses, provider
/// limits, labels and dependencies by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimRequest {
    /// The name on the lease; others tell by it whether the holder is alive.
    pub worker: String,
    /// The names under which people pause this worker, such as `qa-1` and `qa`.
    #[serde(default)]
    pub paused_as: Vec<String>,
    pub queues: Vec<ServedQueue>,
    /// Claims only jobs that need no other labels; `None` claims jobs whatever they need.
    #[serde(default)]
    pub labels: Option<BTreeSet<String>>,
    #[serde(default)]
    pub only: Option<ClaimTarget>,
    /// Jobs that this worker has found not to be for it.
    #[serde(default)]
    pub except: Vec<JobId>,
    /// Claims nothing while the worker holds a job of one of these queues: one claim at a time.
    #[serde(default)]
    pub exclusive: Vec<Queue>,
    pub lease: Duration,
    pub limit: u32,
}

/// A queue that a worker serves, and the agent that would do the jobs. Serving one queue as several
/// agents takes an entry for each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServedQueue {
    pub queue: Queue,
    /// Jobs assigned to an agent are given to that agent alone.
    pub agent: String,
    /// Excludes jobs that are assigned to no agent.
    #[serde(default)]
    pub assigned_only: bool,
    /// The provider that the agent uses, for its pauses and its limit.
    #[serde(default)]
    pub provider: Option<String>,
}

/// The one ticket or the one job that a claim is about.
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
    /// A request of one agent for one job of these queues.
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

    /// Says which provider does the jobs of all the queues.
    #[must_use]
    pub fn with_provider(mut self, provider: &str) -> Self {
        for served in &mut self.queues {
            served.provider = Some(provider.to_owned());
        }
        self
    }

    /// The names of the queues, each once.
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
    pub fence: u64,
    pub holder: String,
    pub until: Time,
    pub attempts: u32,
    /// The agent that the job is assigned to.
    #[serde(default)]
    pub agent: Option<String>,
    /// The provider that it was claimed for.
    #[serde(default)]
    pub provider: Option<String>,
}

/// The result of a look for leases that have run out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// The number of jobs that went back to their queues, or died after too many attempts.
    pub requeued: u64,
    /// Jobs that a ticket decides about.
    pub of_tickets: Vec<Leased>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobWork {
    Task(Task),
    Free { kind: String, body: Value },
}

/// How a job that no ticket decides about came out.
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
    /// Back into the queue, not before then.
    Retry {
        error: String,
        not_before: Time,
        /// Whether it was a try that failed.
        counts: bool,
    },
    Dead {
        error: String,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobQuery {
    pub queue: Option<Queue>,
    /// Any of these queues; every queue where there are none.
    #[serde(default)]
    pub queues: Vec<Queue>,
    pub state: Option<JobState>,
    pub ticket: Option<TicketId>,
    /// What this agent could claim: nobody's in particular, or its own.
    pub agent: Option<String>,
    /// Only jobs that a claim could take now: ready, waiting and due, or left by a holder whose lease
    /// ran out where no ticket decides about them. `state` is not looked at then.
    #[serde(default)]
    pub claimable: bool,
    /// Only jobs whose lease has run out.
    #[serde(default)]
    pub lapsed: bool,
    /// Only the job that was added under this key.
    #[serde(default)]
    pub key: Option<String>,
    /// Only what one worker holds, the oldest first; nothing else is looked at then.
    #[serde(default)]
    pub held: Option<Held>,
    /// In the order of claims, by priority and then age, instead of newest first; the first page only.
    pub urgent_first: bool,
}

/// The leases of one worker on jobs of some queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub worker: String,
    pub queues: Vec<Queue>,
}

/// A job, for people to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
