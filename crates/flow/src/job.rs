//! What is to be done, as data. Effects become jobs in the same transaction as the event.

use serde::{Deserialize, Serialize};

use crate::ticket::Time;

/// The unit a worker claims.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Task {
    Build {
        round: u32,
    },
    Check {
        commit: String,
    },
    Review {
        commit: String,
        round: u32,
        seat: String,
    },
    Verify {
        commit: String,
        round: u32,
        findings: Vec<String>,
    },
    Merge {
        commit: String,
    },
    /// Bring the news to the tickets that depend on this one.
    Tell {
        news: News,
    },
}

impl Task {
    /// Which queue it waits in.
    pub fn queue(&self) -> &'static str {
        match self {
            Self::Build { .. } => "build",
            Self::Check { .. } => "check",
            Self::Review { .. } => "review",
            Self::Verify { .. } => "verify",
            Self::Merge { .. } => "merge",
            Self::Tell { .. } => "tell",
        }
    }

    /// Whether an agent is paid for it. Checks and merges are the house's own work.
    pub fn is_paid(&self) -> bool {
        match self {
            Self::Build { .. } | Self::Review { .. } | Self::Verify { .. } => true,
            Self::Check { .. } | Self::Merge { .. } | Self::Tell { .. } => false,
        }
    }

    /// All queues of the loop.
    pub const QUEUES: [&'static str; 6] = ["build", "check", "review", "verify", "merge", "tell"];
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum News {
    Met,
    Failed { why: String },
    Repaired,
}

/// A job as the ticket knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OpenJob {
    /// Counts the ticket's own jobs, from 1.
    pub serial: u32,
    pub task: Task,
    /// Failures and lost leases so far.
    pub attempts: u32,
    /// The last fencing token seen; it only grows.
    pub fence: u64,
    /// The principal that holds the lease.
    pub holder: Option<String>,
    /// The agent that shall have it, where somebody was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// That agent stands in for one that cannot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stand_in: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewJob {
    pub serial: u32,
    pub task: Task,
    pub priority: i32,
    pub not_before: Time,
    /// The agent that shall have it, where somebody was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// What follows from a decision. The store writes it with the event or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "effect")]
pub enum Effect {
    Enqueue(NewJob),
    /// The job goes back to its queue.
    Retry {
        serial: u32,
        not_before: Time,
    },
    /// The job has been done.
    Finish {
        serial: u32,
    },
    /// The job is no longer wanted.
    Drop {
        serial: u32,
        why: String,
    },
    /// The job has failed for good; it is kept with its history.
    Bury {
        serial: u32,
        why: String,
    },
}
