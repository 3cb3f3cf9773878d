//! Short indexed reads that nearly every call makes. Both databases answer them in batches, for
//! many callers at once ([`crate::batcher`]).
//!
//! Values are cleaned here, before they reach a database, so that both treat the same text alike.

use flow::Queue;

use crate::job::{HeldJobsFilter, Job};
use crate::rows::clean;

/// SHA-256 of a bearer token.
#[derive(Clone)]
pub(crate) struct TokenByHash(pub(crate) String);

impl TokenByHash {
    pub(crate) fn new(hash: &str) -> Self {
        Self(clean(hash))
    }
}

/// Asks whether any of these queues has a job that has not ended.
#[derive(Clone)]
pub(crate) struct HasOpenJobs(pub(crate) Vec<String>);

impl HasOpenJobs {
    pub(crate) fn new(queues: &[Queue]) -> Self {
        Self(cleaned(queues))
    }
}

/// Asks for the jobs of some queues that one worker holds.
#[derive(Clone)]
pub(crate) struct HeldJobs {
    pub(crate) holder: String,
    pub(crate) queues: Vec<String>,
}

impl HeldJobs {
    pub(crate) fn new(held: &HeldJobsFilter) -> Self {
        Self {
            holder: clean(&held.worker),
            queues: cleaned(&held.queues),
        }
    }

    // A batch asks for all queues of all holders together, so its rows are sorted out here.
    pub(crate) fn has(&self, job: &Job) -> bool {
        job.holder.as_ref() == Some(&self.holder)
            && self.queues.iter().any(|queue| queue == job.queue.name())
    }
}

/// Asks for the unread messages of one recipient.
#[derive(Clone)]
pub(crate) struct UnreadMessages {
    pub(crate) to: String,
    pub(crate) most: u32,
}

impl UnreadMessages {
    pub(crate) fn new(to: &str, most: u32) -> Self {
        Self {
            to: clean(to),
            most,
        }
    }
}

fn cleaned(queues: &[Queue]) -> Vec<String> {
    queues.iter().map(|queue| clean(queue.name())).collect()
}
