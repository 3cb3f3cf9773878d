//! The post that a workshop is manned from: our name on leases, the queues that are worked from here,
//! and how much is done at once. It knows no ticket.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flow::Queue;
use store::Job;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::desk::{Desk, Error};
use crate::process::{Identity, place};

/// How many jobs of one ticket run side by side, where one program sees a ticket through.
const JOBS_AT_ONCE: u32 = 8;

#[derive(Clone, Debug)]
pub struct Post {
    /// Our name on leases.
    pub worker: String,
    /// Those of the loop's own queues that are worked from here.
    pub queues: Vec<Queue>,
    /// Jobs of one ticket that run side by side.
    pub jobs_max: u32,
    pub shares: Shares,
}

impl Post {
    /// Everything that a ticket needs is done here.
    pub fn for_everything() -> Self {
        Self {
            worker: worker_name(),
            queues: Queue::OF_LOOP.to_vec(),
            jobs_max: JOBS_AT_ONCE,
            shares: Shares::default(),
        }
    }

    /// One of several workers of this program, who does one thing at a time.
    pub fn of_replica(name: &str, queues: Vec<Queue>, shares: Shares) -> Self {
        Self {
            worker: replica_name(name),
            queues,
            jobs_max: 1,
            shares,
        }
    }
}

/// How many jobs of one provider may run at once, for all who share it.
#[derive(Clone, Debug, Default)]
pub struct Shares(BTreeMap<String, Arc<Semaphore>>);

/// The right to one more job; it ends when it is dropped.
#[derive(Debug)]
pub struct Share(#[expect(dead_code, reason = "held for its permit")] Option<OwnedSemaphorePermit>);

impl Shares {
    pub fn new(most: impl IntoIterator<Item = (String, usize)>) -> Self {
        let most = most.into_iter();
        Self(
            most.map(|(provider, most)| (provider, Arc::new(Semaphore::new(most))))
                .collect(),
        )
    }

    pub fn limits(&self, provider: &str) -> bool {
        self.0.contains_key(provider)
    }

    /// Room for one more, if there is any.
    pub fn share(&self, provider: &str) -> Option<Share> {
        match self.0.get(provider) {
            None => Some(Share(None)),
            Some(places) => {
                let permit = Arc::clone(places).try_acquire_owned().ok()?;
                Some(Share(Some(permit)))
            }
        }
    }
}

/// Our name on leases: this boot of this machine, and this very process.
pub fn worker_name() -> String {
    let me = Identity::ourselves();
    let (pid, start) = me.map_or((0, 0), |me| (me.pid, me.start));
    format!("{}:{pid}:{start}", here())
}

/// The name on leases of one of several workers of this program.
pub fn replica_name(name: &str) -> String {
    format!("{}:{name}", worker_name())
}

/// The replica's own name, as it is on a lease; none where no worker holds it.
pub fn called(holder: &str) -> Option<&str> {
    holder.splitn(4, ':').nth(3)
}

/// Unlike a host name, it tells apart two machines that share a database, two boots of one, and two
/// containers of one boot, in which the same number is another process.
fn here() -> String {
    let sound = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let words = place().replace(" pid:", ".");
    words.chars().filter(|c| sound(*c) || *c == '.').collect()
}

/// True only where it is certain: the name is of this boot, and no such process is left.
pub fn worker_is_dead(name: &str) -> bool {
    let mut parts = name.split(':');
    let (where_, pid, start) = (parts.next(), parts.next(), parts.next());
    let known = where_.is_some_and(|where_| !where_.is_empty() && where_ == here());
    let identity = pid.zip(start).and_then(|(pid, start)| {
        Some(Identity {
            pid: pid.parse().ok()?,
            start: start.parse().ok()?,
        })
    });
    known && identity.is_some_and(|identity| !identity.is_alive())
}

/// Opens dead hands: the fence still holds, only the waiting for the lease's end is cut short.
pub(crate) async fn let_go(desk: &Desk, job: &Job) -> Result<(), Error> {
    match desk.store.renew(job.id, job.fence, Duration::ZERO).await {
        Ok(_) | Err(store::Error::StaleFence { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_s_name_tells_as_much_as_its_program_s() {
        let name = Post::of_replica("qa-1", Vec::new(), Shares::default()).worker;
        assert_eq!(called(&name), Some("qa-1"));
        assert_eq!(called("guest:qa-1"), None);
        assert!(!worker_is_dead(&name));
        let own: Vec<&str> = name.split(':').collect();
        assert!(worker_is_dead(&format!("{}:{}:0:qa-1", own[0], own[1])));
        assert!(!worker_is_dead("elsewhere.1:1:0:qa-1"));
    }

    #[test]
    fn shares_are_taken_and_given_back() {
        let shares = Shares::new([("claude".to_owned(), 1)]);
        let other = shares.clone();
        let share = shares.share("claude");
        assert!(share.is_some() && other.share("claude").is_none());
        assert!(other.share("codex").is_some());
        drop(share);
        assert!(other.share("claude").is_some());
    }
}
