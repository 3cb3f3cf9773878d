//! A few read-only connections, used on blocking threads. A reader keeps working while reads are
//! queued, so that two hundred reads do not wake two hundred threads.
//!
//! A connection is opened on first use and kept. It refuses every read once the file at its path is
//! no longer the opened one.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::error::Error;
use crate::settings::Settings;

use super::identity::DatabaseFiles;
use super::open;

#[derive(Clone, Debug)]
pub(super) struct Readers {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    identity: Arc<DatabaseFiles>,
    settings: Settings,
    most: usize,
    line: Mutex<ReadQueue>,
}

/// Queued reads, the number of active readers, and idle connections.
#[derive(Default)]
struct ReadQueue {
    waiting: VecDeque<ReadTask>,
    at_work: usize,
    idle: Vec<Connection>,
}

/// A queued read; it gets the error if there is no connection.
type ReadTask = Box<dyn FnOnce(Result<&Connection, Error>) + Send>;

impl Readers {
    pub(super) fn new(
        path: PathBuf,
        identity: Arc<DatabaseFiles>,
        settings: Settings,
        most: usize,
    ) -> Self {
        let shared = Shared {
            path,
            identity,
            settings,
            most: most.max(1),
            line: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    pub(super) async fn run<T, F>(&self, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let work = move |db: Result<&Connection, Error>| {
            // Skip the read if the caller was cancelled.
            // A list for a page that was closed is not worth a reader's time.
            if !sender.is_closed() {
                // The caller may be cancelled just now.
                let _ = sender.send(db.and_then(work));
            }
        };
        if self.shared.join(Box::new(work)) {
            let shared = Arc::clone(&self.shared);
            tokio::task::spawn_blocking(move || shared.run_queue());
        }
        let answer = receiver.await;
        let answer = answer.map_err(|_| Error::Other("the read was aborted".to_owned()))?;
        answer.map_err(|error| error.at(&self.shared.path))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, ReadQueue> {
        // A poisoned lock is used all the same: the queue is consistent after every statement.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a read; true if the caller must start one more reader.
    fn join(&self, work: ReadTask) -> bool {
        let mut queue = self.lock();
        queue.waiting.push_back(work);
        // The count and the queue change under one lock. So a reader that is about to stop either
        // sees the new read or has already been counted out.
        let needed = queue.at_work < self.most;
        queue.at_work += usize::from(needed);
        needed
    }

    fn run_queue(&self) {
        let mut db = None;
        while let Some(work) = self.next(&mut db) {
            // The check is per read: a deleted file must not answer from its last state.
            if let Err(error) = self.identity.check() {
                work(Err(error));
                continue;
            }
            if db.is_none() {
                db = match open::reader(&self.path, &self.settings) {
                    Ok(db) => Some(db),
                    Err(error) => {
                        // The next read tries to open again, since the cause may have gone.
                        work(Err(error));
                        continue;
                    }
                };
            }
            // After a panic this caller gets an error, and the reader continues with the others.
            let _ = catch_unwind(AssertUnwindSafe(|| db.as_ref().map(|db| work(Ok(db)))));
        }
    }

    /// Takes the next read. If there is none, keeps the connection for a later reader.
    fn next(&self, db: &mut Option<Connection>) -> Option<ReadTask> {
        let mut queue = self.lock();
        let next = queue.waiting.pop_front();
        if next.is_none() {
            queue.at_work -= 1;
            queue.idle.extend(db.take());
        } else if db.is_none() {
            *db = queue.idle.pop();
        }
        next
    }
}

impl fmt::Debug for ReadQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line")
            .field("waiting", &self.waiting.len())
            .field("at_work", &self.at_work)
            .finish_non_exhaustive()
    }
}
