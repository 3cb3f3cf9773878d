//! Short questions that nearly every call asks, and an index answers at once. Either database is asked
//! them for many callers together ([`crate::batcher`]).

use flow::Queue;

use crate::job::{Held, Job};
use crate::rows::clean;

/// The hash by which somebody would be recognised.
#[derive(Clone)]
pub(crate) struct TokenByHash(pub(crate) String);

impl TokenByHash {
    pub(crate) fn new(hash: &str) -> Self {
        Self(clean(hash))
    }
}

/// Queues of which one is enough that has a job which has not ended.
#[derive(Clone)]
pub(crate) struct HasOpenJobs(pub(crate) Vec<String>);

impl HasOpenJobs {
    pub(crate) fn new(queues: &[Queue]) -> Self {
        Self(cleaned(queues))
    }
}

/// What somebody has in hand of some queues.
#[derive(Clone)]
pub(crate) struct HeldJobs {
    pub(crate) holder: String,
    pub(crate) queues: Vec<String>,
}

impl HeldJobs {
    pub(crate) fn new(held: &Held) -> Self {
        Self {
            holder: clean(&held.worker),
            queues: cleaned(&held.queues),
        }
    }

    pub(crate) fn has(&self, job: &Job) -> bool {
        job.holder.as_ref() == Some(&self.holder)
            && self.queues.iter().any(|queue| queue == job.queue.name())
    }
}

/// An address, and how many of what waits there.
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
