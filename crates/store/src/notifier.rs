//! Wakes callers of this process that wait for work. It knows queues by name and nothing about jobs; a
//! wake-up is a hint, and the caller looks for itself.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The name under which every decision about a ticket is announced, as if it were a queue.
pub(crate) const LOG: &str = "*";

#[derive(Debug, Default)]
pub(crate) struct Notifier {
    waiters: Mutex<Waiters>,
}

#[derive(Debug, Default)]
struct Waiters {
    next: u64,
    by_id: HashMap<u64, (Vec<String>, Arc<Signal>)>,
}

#[derive(Debug, Default)]
struct Signal {
    notify: Notify,
    /// Set where it was for one of the waiter's own queues, not for anything that may have happened.
    sure: AtomicBool,
}

/// A registered waiter; dropping it ends the registration.
#[derive(Debug)]
pub(crate) struct Waiter {
    id: u64,
    signal: Arc<Signal>,
    notifier: Arc<Notifier>,
}

impl Notifier {
    pub(crate) fn enter(self: &Arc<Self>, queues: &[String]) -> Waiter {
        let signal = Arc::<Signal>::default();
        let mut waiters = self.lock();
        let id = waiters.next;
        waiters.next += 1;
        waiters
            .by_id
            .insert(id, (queues.to_vec(), Arc::clone(&signal)));
        Waiter {
            id,
            signal,
            notifier: Arc::clone(self),
        }
    }

    /// Wakes everybody who waits for one of these queues.
    pub(crate) fn wake<'a>(&self, queues: impl IntoIterator<Item = &'a String>) {
        let waiters = self.lock();
        if waiters.by_id.is_empty() {
            return;
        }
        for queue in queues {
            for (wanted, signal) in waiters.by_id.values() {
                if wanted.contains(queue) {
                    signal.sure.store(true, Ordering::Release);
                    signal.notify.notify_one();
                }
            }
        }
    }

    /// Something happened, perhaps nothing of interest: everybody looks again.
    pub(crate) fn nudge(&self) {
        for (_, signal) in self.lock().by_id.values() {
            signal.notify.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    /// Returns at once where the wake-up came between `enter` and this call. True where it was
    /// for one of the waiter's queues, false where it is worth no more than another look.
    pub(crate) async fn woken(&self) -> bool {
        self.signal.notify.notified().await;
        self.signal.sure.swap(false, Ordering::AcqRel)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.notifier.lock().by_id.remove(&self.id);
    }
}
