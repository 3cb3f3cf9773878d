//! Jobs, as the queue knows them.

use std::time::Duration;

use flow::{Task, TicketId, Time};
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
    pub queue: String,
    pub kind: String,
    pub body: Value,
    pub priority: i32,
    pub not_before: Option<Time>,
    pub agent: Option<String>,
    /// The same key twice is one job; another body under it is refused.
    pub key: Option<String>,
    pub queue_max: Option<u64>,
}

/// What a worker asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    pub queues: Vec<String>,
    /// Jobs for a named agent are given to it alone.
    pub agent: String,
    /// Only jobs for that agent, none that anybody may have.
    pub own_only: bool,
    /// The worker that will hold the lease; by its name others tell whether it lives.
    pub holder: String,
    /// Whose jobs these will be, for its pauses and its limit.
    pub provider: Option<String>,
    /// Only this ticket's jobs, where a worker serves one ticket.
    pub ticket: Option<TicketId>,
    /// Only this job, where a worker has chosen one.
    pub job: Option<JobId>,
    /// Nothing where the holder has a job of these queues under a lease: one claim at a time.
    #[serde(default)]
    pub alone_in: Vec<String>,
    pub lease: Duration,
    pub most: u32,
}

/// A job under a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leased {
    pub id: JobId,
    pub queue: String,
    pub ticket: Option<TicketId>,
    pub serial: Option<u32>,
    pub work: Work,
    pub fence: u64,
    pub holder: String,
    pub until: Time,
    pub attempts: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    Task(Task),
    Free { kind: String, body: Value },
}

/// How a job that no ticket decides about came out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub job: JobId,
    pub fence: u64,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
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
    pub queue: Option<String>,
    pub state: Option<JobState>,
    pub ticket: Option<TicketId>,
    /// What this agent could claim: nobody's in particular, or its own.
    pub agent: Option<String>,
    /// In the order of claims, by priority and then age, instead of newest first; the first page only.
    pub urgent_first: bool,
}

/// A job, for people to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub id: JobId,
    pub queue: String,
    pub state: JobState,
    pub ticket: Option<TicketId>,
    pub serial: Option<u32>,
    pub work: Work,
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
