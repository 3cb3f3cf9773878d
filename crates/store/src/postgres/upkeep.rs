//! Clears away what ended jobs leave behind in the indexes. `PostgreSQL` keeps the entry of a job
//! that was taken until a VACUUM, and a claim passes them all on its way to the first that lives;
//! its own VACUUM comes once a minute at best, by when a busy queue has left 100,000.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use deadpool_postgres::Pool;

/// How many jobs may end before their entries are cleared away: passing these costs a claim less
/// than a tenth of what it costs anyway.
const EVERY: usize = 20_000;

/// Also where there is little to clear away for so large a table; never waiting for a lock.
const CLEAR: &str = "VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF, PARALLEL 0, SKIP_LOCKED) jobs";

#[derive(Debug, Default)]
pub(super) struct Upkeep {
    ended: AtomicUsize,
    running: Arc<AtomicBool>,
}

impl Upkeep {
    /// So many jobs have ended. Nobody waits for what follows from that.
    pub(super) fn count(&self, jobs: usize, pool: &Pool) {
        let ended = self.ended.fetch_add(jobs, Ordering::Relaxed) + jobs;
        if ended < EVERY || self.running.swap(true, Ordering::AcqRel) {
            return;
        }
        self.ended.store(0, Ordering::Relaxed);
        let (pool, running) = (pool.clone(), Arc::clone(&self.running));
        tokio::spawn(async move {
            // Where it fails, claims are slower until the next time, and nothing else.
            if let Ok(client) = pool.get().await {
                let _ = client.batch_execute(CLEAR).await;
            }
            running.store(false, Ordering::Release);
        });
    }
}
