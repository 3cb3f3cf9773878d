//! Jobs and effects: the work that a decision orders, as data. The store writes effects in the same
//! transaction as the event.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ticket::Time;

/// The work of one job, which a worker claims.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
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
        /// Name of the reviewer in the panel.
        #[serde(alias = "seat")]
        reviewer: String,
    },
    Verify {
        commit: String,
        round: u32,
        findings: Vec<String>,
    },
    Merge {
        commit: String,
    },
    /// Tells the tickets that depend on this one how it ended. The word is stored, as the kind and
    /// the queue of jobs.
    Tell {
        #[serde(alias = "news")]
        update: DependencyUpdate,
    },
    /// Brings the pull request of the ticket to the ticket's state, and reports what it shows.
    Report,
}

impl Task {
    /// Queue in which it waits.
    pub fn queue(&self) -> Queue {
        match self {
            Self::Build { .. } => Queue::Build,
            Self::Check { .. } => Queue::Check,
            Self::Review { .. } => Queue::Review,
            Self::Verify { .. } => Queue::Verify,
            Self::Merge { .. } => Queue::Merge,
            Self::Tell { .. } => Queue::Tell,
            Self::Report => Queue::Report,
        }
    }

    /// Returns the kind in one word, which is also the name of the queue.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Build { .. } => "build",
            Self::Check { .. } => "check",
            Self::Review { .. } => "review",
            Self::Verify { .. } => "verify",
            Self::Merge { .. } => "merge",
            Self::Tell { .. } => "tell",
            Self::Report => "report",
        }
    }

    /// Whether an agent is paid for it. Countersign itself runs checks and merges.
    pub fn is_paid(&self) -> bool {
        match self {
            Self::Build { .. } | Self::Review { .. } | Self::Verify { .. } => true,
            Self::Check { .. } | Self::Merge { .. } | Self::Tell { .. } | Self::Report => false,
        }
    }
}

/// A queue of jobs: one of the ticket loop, or a named one for tasks outside tickets.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(from = "String", into = "String")]
pub enum Queue {
    Build,
    Check,
    Review,
    Verify,
    Merge,
    Tell,
    Report,
    /// A queue for tasks. Its name is never that of a loop queue.
    Named(String),
}

impl Queue {
    /// Queues of the ticket loop.
    pub const OF_LOOP: [Self; 7] = [
        Self::Build,
        Self::Check,
        Self::Review,
        Self::Verify,
        Self::Merge,
        Self::Tell,
        Self::Report,
    ];

    pub fn name(&self) -> &str {
        match self {
            Self::Build => "build",
            Self::Check => "check",
            Self::Review => "review",
            Self::Verify => "verify",
            Self::Merge => "merge",
            Self::Tell => "tell",
            Self::Report => "report",
            Self::Named(name) => name,
        }
    }

    /// Whether its jobs belong to tickets.
    pub fn is_of_loop(&self) -> bool {
        !matches!(self, Self::Named(_))
    }

    /// Whether its jobs are checks or merges, for which no agent is paid.
    pub fn is_of_system(&self) -> bool {
        matches!(self, Self::Check | Self::Merge)
    }

    /// Whether its jobs change or show tickets from outside their work. They are done next to the
    /// store, and no worker of the loop claims them.
    pub fn is_beside_loop(&self) -> bool {
        matches!(self, Self::Tell | Self::Report)
    }
}

impl From<&str> for Queue {
    fn from(name: &str) -> Self {
        let of_loop = Self::OF_LOOP.into_iter().find(|queue| queue.name() == name);
        of_loop.unwrap_or_else(|| Self::Named(name.to_owned()))
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

/// Change of a ticket's state that its dependents have to know.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum DependencyUpdate {
    Met,
    Failed { why: String },
    Repaired,
}

/// An agent that a job is kept for, and the time until which others leave it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct KeptFor {
    pub agent: String,
    pub until: Time,
}

/// An open job, as the ticket records it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct OpenJob {
    /// Number of the job within its ticket, from 1.
    pub serial: u32,
    pub task: Task,
    /// Failures and lost leases so far.
    pub attempts: u32,
    /// Last fencing token seen. It never decreases.
    pub fence: u64,
    /// Principal that holds the lease.
    pub holder: Option<String>,
    /// Agent to which the job is assigned, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Whether `agent` replaces another one that cannot take the job.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[serde(alias = "stand_in")]
    pub fallback: bool,
    /// Builder that a rework is kept for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_for: Option<KeptFor>,
    /// Waits for quota so far. The first [`crate::policy::QUOTA_WAITS_MAX`] count as no attempt.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub quota_waits: u32,
}

impl OpenJob {
    /// Whether the job is still kept for another agent.
    pub fn is_kept_from(&self, agent: &str, now: Time) -> bool {
        let kept = self.kept_for.as_ref();
        kept.is_some_and(|kept| kept.agent != agent && now < kept.until)
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A job to enqueue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewJob {
    pub serial: u32,
    pub task: Task,
    pub priority: i32,
    pub not_before: Time,
    /// Agent to which the job is assigned, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// Effect of a decision. The store writes it together with the event, or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "effect")]
pub enum Effect {
    Enqueue(NewJob),
    /// The job goes back to its queue.
    Retry {
        serial: u32,
        not_before: Time,
    },
    /// The job is done.
    Finish {
        serial: u32,
    },
    /// The job is no longer needed.
    Drop {
        serial: u32,
        why: String,
    },
    /// The job has failed for good. It is kept with its history.
    Bury {
        serial: u32,
        why: String,
    },
}
