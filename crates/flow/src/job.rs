//! What is to be done, as data. Effects become jobs in the same transaction as the event.

use std::fmt;

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
        news: DependencyUpdate,
    },
}

impl Task {
    /// The queue that it waits in.
    pub fn queue(&self) -> Queue {
        match self {
            Self::Build { .. } => Queue::Build,
            Self::Check { .. } => Queue::Check,
            Self::Review { .. } => Queue::Review,
            Self::Verify { .. } => Queue::Verify,
            Self::Merge { .. } => Queue::Merge,
            Self::Tell { .. } => Queue::Tell,
        }
    }

    /// Its kind in a word, which is also the name of its queue.
    pub fn word(&self) -> &'static str {
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
}

/// A queue of jobs: one of the loop's own, or one that people name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Queue {
    Build,
    Check,
    Review,
    Verify,
    Merge,
    Tell,
    /// A queue of tasks; never the name of one of the loop's own.
    Named(String),
}

impl Queue {
    /// The loop's own queues.
    pub const OF_LOOP: [Self; 6] = [
        Self::Build,
        Self::Check,
        Self::Review,
        Self::Verify,
        Self::Merge,
        Self::Tell,
    ];

    pub fn name(&self) -> &str {
        match self {
            Self::Build => "build",
            Self::Check => "check",
            Self::Review => "review",
            Self::Verify => "verify",
            Self::Merge => "merge",
            Self::Tell => "tell",
            Self::Named(name) => name,
        }
    }

    /// Whether tickets put their jobs into it.
    pub fn is_of_loop(&self) -> bool {
        !matches!(self, Self::Named(_))
    }

    /// Whether its jobs are checks and landings, which no agent is paid for.
    pub fn is_of_system(&self) -> bool {
        matches!(self, Self::Check | Self::Merge)
    }
}

impl From<&str> for Queue {
    fn from(name: &str) -> Self {
        let known = Self::OF_LOOP.into_iter().find(|queue| queue.name() == name);
        known.unwrap_or_else(|| Self::Named(name.to_owned()))
    }
}

impl From<String> for Queue {
    fn from(name: String) -> Self {
        Self::from(name.as_str())
    }
}

impl From<&String> for Queue {
    fn from(name: &String) -> Self {
        Self::from(name.as_str())
    }
}

impl From<&Queue> for Queue {
    fn from(queue: &Queue) -> Self {
        queue.clone()
    }
}

impl From<Queue> for String {
    fn from(queue: Queue) -> Self {
        queue.name().to_owned()
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum DependencyUpdate {
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
