//! Limits open connections to the available file descriptors. When all slots are taken, the oldest
//! connection without a request is closed, so that silent clients cannot lock others out.
//!
//! Without the limit, a thousand silent clients use up all descriptors, and then the store and git
//! cannot open files.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::process::{Resource, getrlimit};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Upper limit of open connections; more of them wait in the listen backlog of the kernel.
/// A connection costs memory even while it waits.
const CONNECTIONS_MAX: u64 = 4096;
// Below this number the server could not serve its own workers, so it takes descriptors from the
// reserve instead.
const CONNECTIONS_MIN: u64 = 16;
/// File descriptors reserved for everything else: the store, repositories, agents.
const DESCRIPTORS_RESERVED: u64 = 256;

#[derive(Debug)]
pub struct ConnectionLimiter {
    free: Arc<Semaphore>,
    count: usize,
    /// Connections that had sent no request when last checked, oldest first.
    idle: Mutex<VecDeque<Weak<Connection>>>,
}

/// State of one open connection.
#[derive(Debug, Default)]
pub struct Connection {
    is_active: AtomicBool,
    first_request: Notify,
    evicted: Notify,
}

/// A taken slot; dropping it frees the slot.
#[derive(Debug)]
pub struct ConnectionSlot {
    pub connection: Arc<Connection>,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionLimiter {
    /// Sizes the limiter by the file descriptor limit of this process.
    pub fn for_this_process() -> Self {
        // No limit is written as none; the upper limit then decides.
        let open_max = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let slots = open_max
            .saturating_sub(DESCRIPTORS_RESERVED)
            .clamp(CONNECTIONS_MIN, CONNECTIONS_MAX);
        Self::new(usize::try_from(slots).unwrap_or(usize::MAX))
    }

    fn new(count: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(count)),
            count,
            idle: Mutex::default(),
        }
    }

    /// Waits for a free slot. Returns `None` once the limiter is closed.
    pub async fn acquire(&self) -> Option<ConnectionSlot> {
        // Checked before the wait, so that the newcomer does not wait for a client that never
        // speaks.
        if self.free.available_permits() == 0 {
            self.evict_idle();
        }
        let permit = Arc::clone(&self.free).acquire_owned().await.ok()?;
        let connection = Arc::<Connection>::default();
        let mut newcomers = self.lock_idle();
        // Connections that ended leave their weak reference behind. The list is swept when it
        // doubles, so the cost per connection stays constant.
        if newcomers.len() >= 2 * self.count {
            newcomers.retain(|weak| {
                weak.upgrade()
                    .is_some_and(|connection| connection.is_idle())
            });
        }
        newcomers.push_back(Arc::downgrade(&connection));
        Some(ConnectionSlot {
            connection,
            _permit: permit,
        })
    }

    /// Closes the oldest connection that has sent no request.
    pub fn evict_idle(&self) {
        let mut newcomers = self.lock_idle();
        while let Some(weak) = newcomers.pop_front() {
            if let Some(connection) = weak.upgrade().filter(|connection| connection.is_idle()) {
                connection.evicted.notify_one();
                return;
            }
        }
    }

    fn lock_idle(&self) -> std::sync::MutexGuard<'_, VecDeque<Weak<Connection>>> {
        // A panic in another thread cannot leave this list inconsistent.
        let locked = self.idle.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    fn is_idle(&self) -> bool {
        // Relaxed is enough: the flag guards nothing but itself. A late view evicts a connection in
        // the moment of its first request, and the client connects again.
        !self.is_active.load(Ordering::Relaxed)
    }

    /// Records the first request; from now on the connection is not evicted.
    pub fn mark_active(&self) {
        // `swap` tells the first request from the others, so that the waiter is woken once.
        if !self.is_active.swap(true, Ordering::Relaxed) {
            self.first_request.notify_one();
        }
    }

    /// Waits for the first request. Supports a single waiter.
    pub async fn wait_active(&self) {
        self.first_request.notified().await;
    }

    /// Waits until the slot is needed for another connection.
    pub async fn wait_evicted(&self) {
        self.evicted.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_who_has_said_nothing_makes_room() {
        let limiter = Arc::new(ConnectionLimiter::new(2));
        let speaks = limiter.acquire().await.unwrap();
        let silent = limiter.acquire().await.unwrap();
        speaks.connection.mark_active();
        let next = tokio::spawn({
            let limiter = Arc::clone(&limiter);
            async move { limiter.acquire().await }
        });
        silent.connection.wait_evicted().await;
        drop(silent);
        assert!(next.await.unwrap().is_some());
    }

    #[tokio::test]
    async fn what_is_remembered_of_those_who_left_is_bounded() {
        let limiter = ConnectionLimiter::new(3);
        for _ in 0..100 {
            drop(limiter.acquire().await);
        }
        assert!(limiter.lock_idle().len() <= 6);
    }
}
