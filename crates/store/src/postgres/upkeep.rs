//! Vacuums busy tables earlier than `PostgreSQL` would. Replaced rows stay in the table and its
//! indexes until a VACUUM, and autovacuum runs once a minute at best. By then a busy queue has left
//! 100,000 dead entries that a claim passes on its way to the first live one. And new or changed
//! tickets are counted by reading each row, where the index alone would be enough after a VACUUM.
//!
//! It is an optimisation and refuses to be more: it never waits for a lock, never runs twice at
//! once, and a failure is only logged.

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
            // A claim that passes this many dead entries becomes less than a tenth slower.
            // INDEX_CLEANUP ON: also clean the indexes if the table has few dead rows for its size.
            jobs: Chore::new(
                20_000,
                &["VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF, PARALLEL 0, SKIP_LOCKED) jobs"],
            ),
            // Reading this many rows costs about as much as counting ten times as many in the
            // index. This VACUUM is not urgent, so it pauses between pages.
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

/// A maintenance task that runs after a number of changes and never waits for a lock.
#[derive(Debug)]
struct Chore {
    every: usize,
    /// Statements to run one by one: VACUUM must not share a statement batch.
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

    /// Counts changes, and starts the task in the background when it is due.
    fn count(&self, changes: usize, pool: &Pool) {
        let counted = self.counted.fetch_add(changes, Ordering::Relaxed) + changes;
        // The swap makes sure that one task runs at a time; the count goes on meanwhile.
        if counted < self.every || self.running.swap(true, Ordering::AcqRel) {
            return;
        }
        // Changes that are counted during the run start the next one.
        self.counted.store(0, Ordering::Relaxed);
        let (pool, running, steps) = (pool.clone(), Arc::clone(&self.running), self.steps);
        tokio::spawn(async move {
            // A failure only makes queries slower until the next run.
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
