//! Reading connections, a few, used off the async threads. They cannot write. Whoever reads stays at
//! it while others wait: a thread is not woken for each of two hundred questions.

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

/// What waits to be read, and who reads.
#[derive(Default)]
struct ReadQueue {
    waiting: VecDeque<ReadTask>,
    at_work: usize,
    idle: Vec<Connection>,
}

/// Told why where there is no connection.
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
        let (tell, told) = oneshot::channel();
        let work = move |db: Result<&Connection, Error>| {
            // Nobody reads for a caller who has gone.
            if !tell.is_closed() {
                // It may go in this instant.
                let _ = tell.send(db.and_then(work));
            }
        };
        if self.shared.join(Box::new(work)) {
            let shared = Arc::clone(&self.shared);
            tokio::task::spawn_blocking(move || shared.work_off());
        }
        let answer = told.await;
        let answer = answer.map_err(|_| Error::Other("reading was broken off".to_owned()))?;
        answer.map_err(|error| error.at(&self.shared.path))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, ReadQueue> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one more has to come and read.
    fn join(&self, work: ReadTask) -> bool {
        let mut line = self.lock();
        line.waiting.push_back(work);
        let needed = line.at_work < self.most;
        line.at_work += usize::from(needed);
        needed
    }

    fn work_off(&self) {
        let mut db = None;
        while let Some(work) = self.next(&mut db) {
            if let Err(error) = self.identity.check() {
                work(Err(error));
                continue;
            }
            if db.is_none() {
                db = match open::reader(&self.path, &self.settings) {
                    Ok(db) => Some(db),
                    Err(error) => {
                        work(Err(error));
                        continue;
                    }
                };
            }
            // Whoever asked learns that it was broken off, and the others are read for.
            let _ = catch_unwind(AssertUnwindSafe(|| db.as_ref().map(|db| work(Ok(db)))));
        }
    }

    /// The next in line; where there is none, the connection is left for who comes later.
    fn next(&self, db: &mut Option<Connection>) -> Option<ReadTask> {
        let mut line = self.lock();
        let next = line.waiting.pop_front();
        if next.is_none() {
            line.at_work -= 1;
            line.idle.extend(db.take());
        } else if db.is_none() {
            *db = line.idle.pop();
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
