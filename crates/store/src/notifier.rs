//! Wakes the callers of this process that wait for work. It knows queue names and nothing about
//! jobs. A wake-up is only a hint: the caller looks for itself.
//!
//! It refuses to carry data. A lost or extra wake-up costs a look, never a job.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Pseudo queue name that announces every decision about a ticket.
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
    /// True if the wake-up was for one of the waiter's queues, not a nudge to all waiters.
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
    // Each waiter has its own signal, so one that is slow to wake cannot take another's wake-up.
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

    /// Wakes the waiters of these queues.
    pub(crate) fn wake<'a>(&self, queues: impl IntoIterator<Item = &'a String>) {
        let waiters = self.lock();
        // Most commits happen without a waiter in this process.
        if waiters.by_id.is_empty() {
            return;
        }
        for queue in queues {
            for (names, signal) in waiters.by_id.values() {
                if names.contains(queue) {
                    // Set before the notification, so that the woken waiter sees it.
                    signal.sure.store(true, Ordering::Release);
                    // `notify_one` stores a permit if the waiter is not waiting yet, so a wake-up
                    // between a look and the wait is not lost.
                    signal.notify.notify_one();
                }
            }
        }
    }

    /// Makes every waiter look again, because something may have happened.
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
    /// Waits for the next wake-up; returns at once if it came between `enter` and this call. True
    /// if it was for one of the waiter's queues, false if it was only a nudge.
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
