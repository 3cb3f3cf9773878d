//! Reading connections, a few, used off the async threads. They cannot write.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::error::Error;
use crate::settings::Settings;

use super::open;

#[derive(Clone, Debug)]
pub(super) struct Readers {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    settings: Settings,
    permits: Semaphore,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new(path: PathBuf, settings: Settings) -> Self {
        let shared = Shared {
            path,
            permits: Semaphore::new(settings.readers_max.max(1)),
            settings,
            idle: Mutex::default(),
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
        let permit = self.shared.permits.acquire().await;
        let shared = Arc::clone(&self.shared);
        let read = tokio::task::spawn_blocking(move || shared.read(work)).await;
        drop(permit);
        read.unwrap_or_else(|error| Err(Error::Other(format!("reading was broken off: {error}"))))
    }
}

impl Shared {
    fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Error>) -> Result<T, Error> {
        let idle = self.lock().pop();
        let db = idle.map_or_else(|| open::reader(&self.path, &self.settings), Ok)?;
        let answer = work(&db).map_err(|error| error.at(&self.path));
        self.lock().push(db);
        answer
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
