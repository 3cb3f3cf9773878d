//! Clears away what changes leave behind. `PostgreSQL` keeps what was replaced, in the table and in
//! its indexes, until a VACUUM; its own comes once a minute at best. By then a busy queue has left
//! 100,000 entries that a claim passes on its way to the first that lives; and tickets that came or
//! changed since are counted by reading each of them, where their index alone would do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use deadpool_postgres::Pool;

#[derive(Debug)]
pub(super) struct Upkeep {
    jobs: Chore,
    tickets: Chore,
}

impl Default for Upkeep {
    fn default() -> Self {
        Self {
            // Passing so many costs a claim less than a tenth of what it costs anyway. Also where
            // there is little to clear away for so large a table.
            jobs: Chore::new(
                20_000,
                &["VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF, PARALLEL 0, SKIP_LOCKED) jobs"],
            ),
            // Reading so many is about as dear as counting ten times as many in the index. It has
            // time, and rests between the pages.
            tickets: Chore::new(
                2_000,
                &[
                    "SET vacuum_cost_delay = 2",
                    "VACUUM (TRUNCATE OFF, PARALLEL 0, SKIP_LOCKED) tickets",
                    "RESET vacuum_cost_delay",
                ],
            ),
        }
    }
}

impl Upkeep {
    pub(super) fn jobs_ended(&self, count: usize, pool: &Pool) {
        self.jobs.count(count, pool);
    }

    pub(super) fn ticket_changed(&self, pool: &Pool) {
        self.tickets.count(1, pool);
    }
}

/// Done again after so many changes, never waiting for a lock.
#[derive(Debug)]
struct Chore {
    every: usize,
    /// Statements, one after the other: a VACUUM takes no company.
    steps: &'static [&'static str],
    counted: AtomicUsize,
    running: Arc<AtomicBool>,
}

impl Chore {
    fn new(every: usize, steps: &'static [&'static str]) -> Self {
        Self {
            every,
            steps,
            counted: AtomicUsize::new(0),
            running: Arc::default(),
        }
    }

    /// Nobody waits for what follows from it.
    fn count(&self, changes: usize, pool: &Pool) {
        let counted = self.counted.fetch_add(changes, Ordering::Relaxed) + changes;
        if counted < self.every || self.running.swap(true, Ordering::AcqRel) {
            return;
        }
        self.counted.store(0, Ordering::Relaxed);
        let (pool, running, steps) = (pool.clone(), Arc::clone(&self.running), self.steps);
        tokio::spawn(async move {
            // Where it fails, the work is slower until the next time, and nothing else.
            if let Ok(client) = pool.get().await {
                for step in steps {
                    if let Err(error) = client.batch_execute(step).await {
                        tracing::warn!(%error, step, "database upkeep failed");
                    }
                }
            }
            running.store(false, Ordering::Release);
        });
    }
}
