//! Places for connections: no more than there are file descriptors for. Who has asked nothing yet is
//! the first to go when all are taken, so that silent callers keep nobody out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::process::{Resource, getrlimit};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// More connections wait at the operating system's door.
const PLACES_MAX: u64 = 4096;
const PLACES_MIN: u64 = 16;
/// File descriptors for everything else: the store, repositories, agents.
const DESCRIPTORS_KEPT: u64 = 256;

#[derive(Debug)]
pub struct ConnectionLimiter {
    free: Arc<Semaphore>,
    count: usize,
    /// Those that had asked nothing when they were last looked at, the oldest first.
    newcomers: Mutex<VecDeque<Weak<Connection>>>,
}

/// Who has a place.
#[derive(Debug, Default)]
pub struct Connection {
    has_asked: AtomicBool,
    first: Notify,
    shown_out: Notify,
}

/// A place that is taken.
#[derive(Debug)]
pub struct ConnectionSlot {
    pub guest: Arc<Connection>,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionLimiter {
    /// As many as this process may have open.
    pub fn of_this_process() -> Self {
        let open_max = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let places = open_max
            .saturating_sub(DESCRIPTORS_KEPT)
            .clamp(PLACES_MIN, PLACES_MAX);
        Self::new(usize::try_from(places).unwrap_or(usize::MAX))
    }

    fn new(count: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(count)),
            count,
            newcomers: Mutex::default(),
        }
    }

    /// A place for whoever has come; `None` when there will be none any more.
    pub async fn take(&self) -> Option<ConnectionSlot> {
        if self.free.available_permits() == 0 {
            self.show_one_out();
        }
        let permit = Arc::clone(&self.free).acquire_owned().await.ok()?;
        let guest = Arc::<Connection>::default();
        let mut newcomers = self.newcomers();
        if newcomers.len() >= 2 * self.count {
            newcomers.retain(|one| one.upgrade().is_some_and(|guest| guest.is_new()));
        }
        newcomers.push_back(Arc::downgrade(&guest));
        Some(ConnectionSlot {
            guest,
            _permit: permit,
        })
    }

    /// Lets the one go that has been silent for longest.
    pub fn show_one_out(&self) {
        let mut newcomers = self.newcomers();
        while let Some(one) = newcomers.pop_front() {
            if let Some(guest) = one.upgrade().filter(|guest| guest.is_new()) {
                guest.shown_out.notify_one();
                return;
            }
        }
    }

    fn newcomers(&self) -> std::sync::MutexGuard<'_, VecDeque<Weak<Connection>>> {
        // A panic elsewhere has not harmed the list.
        let locked = self.newcomers.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    fn is_new(&self) -> bool {
        !self.has_asked.load(Ordering::Relaxed)
    }

    /// From now on its place is its own.
    pub fn asks(&self) {
        if !self.has_asked.swap(true, Ordering::Relaxed) {
            self.first.notify_one();
        }
    }

    /// Returns when it has asked for the first time; there is one who waits for that.
    pub async fn has_asked(&self) {
        self.first.notified().await;
    }

    /// Returns when the place is needed for somebody else.
    pub async fn shown_out(&self) {
        self.shown_out.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_who_has_said_nothing_makes_room() {
        let places = Arc::new(ConnectionLimiter::new(2));
        let speaks = places.take().await.unwrap();
        let silent = places.take().await.unwrap();
        speaks.guest.asks();
        let next = tokio::spawn({
            let places = Arc::clone(&places);
            async move { places.take().await }
        });
        silent.guest.shown_out().await;
        drop(silent);
        assert!(next.await.unwrap().is_some());
    }

    #[tokio::test]
    async fn what_is_remembered_of_those_who_left_is_bounded() {
        let places = ConnectionLimiter::new(3);
        for _ in 0..100 {
            drop(places.take().await);
        }
        assert!(places.newcomers().len() <= 6);
    }
}
