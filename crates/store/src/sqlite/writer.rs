//! The one writer. Operations come in by a bounded channel; what has queued up is committed as a
//! group, so that many callers share one sync of the disk. An operation that may refuse after its
//! first write has its own savepoint: a refusal takes back its own writes and nobody else's. Nobody
//! is answered before the COMMIT.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::error::Error;
use crate::notifier::Notifier;
use crate::settings::Settings;

use super::file_notifier::FileNotifier;
use super::identity::DatabaseFiles;
use super::space::Space;

/// How often the writer lets others run before it commits a group that is smaller than the last.
const MOMENTS_MAX: u32 = 20;

/// What an operation writes through.
#[derive(Debug)]
pub(super) struct Tx<'a> {
    pub(super) db: &'a Connection,
    pub(super) space: &'a mut Space,
    pub(super) settings: &'a Settings,
    /// The database's clock, read once for each group.
    pub(super) now: i64,
    pub(super) seen: &'a mut ClaimCache,
    /// Queues in which a job became ready, or might have: a refusal takes none out again.
    pub(super) ready: &'a mut BTreeSet<String>,
    /// The operation found too little room to begin work: not yet the time for the ballast.
    pub(super) gated: bool,
}

/// What claims of one group need not look at twice. Nobody is answered before the group ends, so
/// whoever changed it meanwhile cannot tell that a later claim did not see it.
#[derive(Debug, Default)]
pub(super) struct ClaimCache {
    pub(super) paused: Option<Vec<(String, String)>>,
    /// Queues into which what was due has been brought back.
    pub(super) brought_back: BTreeSet<String>,
    /// There is room on the disk to begin work.
    pub(super) room: bool,
}

impl Tx<'_> {
    pub(super) fn made_ready(&mut self, queue: &str) {
        if !self.ready.contains(queue) {
            self.ready.insert(queue.to_owned());
        }
    }
}

#[derive(Debug)]
pub(super) struct Writer {
    inbox: mpsc::Sender<Box<dyn Operation>>,
}

impl Writer {
    pub(super) fn start(
        path: PathBuf,
        (db, identity): (Connection, Arc<DatabaseFiles>),
        settings: Settings,
        notifier: Arc<Notifier>,
    ) -> Result<Self, Error> {
        let (inbox, outbox) = mpsc::channel(settings.writer_queue_max);
        let mut desk = WriterThread {
            space: Space::new(&path, &settings),
            file_notifier: FileNotifier::new(&path),
            path,
            db,
            identity,
            settings,
            notifier,
            last_group: 0,
        };
        thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || desk.serve(outbox))
            .map_err(|error| Error::Other(format!("no thread for the writer: {error}")))?;
        Ok(Self { inbox })
    }

    /// Runs `work` in the next group and answers when the group has been committed.
    pub(super) async fn run<T, F>(&self, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, Error> + Send + 'static,
    {
        self.call(true, work).await
    }

    /// The same for work that refuses, if at all, before its first write: it needs no savepoint,
    /// which costs as much as a small write. Should it fail later all the same, the whole group is
    /// taken back.
    pub(super) async fn run_plain<T, F>(&self, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, Error> + Send + 'static,
    {
        self.call(false, work).await
    }

    async fn call<T, F>(&self, savepoint: bool, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, Error> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let call = WriteCall {
            savepoint,
            work: Some(work),
            outcome: None,
            reply,
        };
        self.inbox
            .send(Box::new(call))
            .await
            .map_err(|_| closed())?;
        answer.await.unwrap_or_else(|_| {
            Err(Error::OutcomeUnknown(
                "the writer ended before it answered".to_owned(),
            ))
        })
    }
}

fn closed() -> Error {
    Error::Unreachable("the writer has ended; open the store again".to_owned())
}

trait Operation: Send {
    fn wants_savepoint(&self) -> bool;
    /// An error means that the operation's writes are to be taken back.
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), Error>;
    /// `spoiled`: the group was not committed.
    fn answer(self: Box<Self>, spoiled: Option<Error>);
}

struct WriteCall<T, F> {
    savepoint: bool,
    work: Option<F>,
    outcome: Option<Result<T, Error>>,
    reply: oneshot::Sender<Result<T, Error>>,
}

impl<T, F> Operation for WriteCall<T, F>
where
    T: Send,
    F: FnOnce(&mut Tx<'_>) -> Result<T, Error> + Send,
{
    fn wants_savepoint(&self) -> bool {
        self.savepoint
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), Error> {
        let Some(work) = self.work.take() else {
            return Ok(());
        };
        let outcome = work(tx);
        let error = outcome.as_ref().err().cloned();
        self.outcome = Some(outcome);
        error.map_or(Ok(()), Err)
    }

    fn answer(self: Box<Self>, spoiled: Option<Error>) {
        let answer = match (self.outcome, spoiled) {
            (Some(Err(own)), _) => Err(own),
            (_, Some(error)) => Err(error),
            (Some(Ok(value)), None) => Ok(value),
            (None, None) => Err(closed()),
        };
        // The caller may have gone away; what was written stays written.
        let _ = self.reply.send(answer);
    }
}

struct WriterThread {
    path: PathBuf,
    db: Connection,
    identity: Arc<DatabaseFiles>,
    settings: Settings,
    space: Space,
    notifier: Arc<Notifier>,
    file_notifier: FileNotifier,
    last_group: usize,
}

type WriteGroup = Vec<Box<dyn Operation>>;

impl WriterThread {
    fn serve(&mut self, mut outbox: mpsc::Receiver<Box<dyn Operation>>) {
        while let Some(first) = outbox.blocking_recv() {
            let mut ready = BTreeSet::new();
            let mut group = WriteGroup::new();
            let ended = match self.begin() {
                Ok(()) => self
                    .fill(first, &mut outbox, &mut group, &mut ready)
                    .and_then(|()| self.commit()),
                Err(error) => {
                    group.push(first);
                    Err(error)
                }
            };
            self.last_group = group.len();
            match ended {
                Ok(()) => self.tell(group, &ready),
                Err(error) => self.spoil(group, error),
            }
        }
    }

    fn begin(&self) -> Result<(), Error> {
        self.identity.check()?;
        Ok(self.execute("BEGIN IMMEDIATE")?)
    }

    /// The file may have gone while the group was run, and again while it was written: nobody is told
    /// that something was written which nobody will find.
    fn commit(&self) -> Result<(), Error> {
        self.identity.check()?;
        self.execute("COMMIT").map_err(Error::of_commit)?;
        self.identity.check()
    }

    /// Runs the first operation and all that have queued up meanwhile. An error means that the
    /// database took the whole transaction back.
    fn fill(
        &mut self,
        first: Box<dyn Operation>,
        outbox: &mut mpsc::Receiver<Box<dyn Operation>>,
        group: &mut WriteGroup,
        ready: &mut BTreeSet<String>,
    ) -> Result<(), Error> {
        let now = now(&self.db).map_err(Error::from);
        let mut seen = ClaimCache::default();
        let mut next = Some(first);
        while let Some(mut operation) = next {
            let ran = match now {
                Ok(now) => self.run_one(operation.as_mut(), now, &mut seen, ready),
                Err(ref error) => Err(error.clone()),
            };
            group.push(operation);
            ran?;
            next = self.next(outbox, group.len());
        }
        Ok(())
    }

    /// What has queued up. Those who were answered together come back together, but not at once:
    /// while fewer are here than last time, the others are given a moment, which is far shorter
    /// than the sync that it saves.
    fn next(
        &self,
        outbox: &mut mpsc::Receiver<Box<dyn Operation>>,
        here: usize,
    ) -> Option<Box<dyn Operation>> {
        if here >= self.settings.group_max {
            return None;
        }
        let mut moments = if here < self.last_group {
            MOMENTS_MAX
        } else {
            0
        };
        loop {
            match outbox.try_recv() {
                Ok(operation) => return Some(operation),
                Err(_) if moments > 0 => {
                    moments -= 1;
                    thread::yield_now();
                }
                Err(_) => return None,
            }
        }
    }

    fn run_one(
        &mut self,
        operation: &mut dyn Operation,
        now: i64,
        seen: &mut ClaimCache,
        ready: &mut BTreeSet<String>,
    ) -> Result<(), Error> {
        let savepoint = operation.wants_savepoint();
        if savepoint {
            self.execute("SAVEPOINT operation")?;
        }
        let written = self.db.total_changes();
        let mut tx = Tx {
            db: &self.db,
            space: &mut self.space,
            settings: &self.settings,
            now,
            seen,
            ready,
            gated: false,
        };
        let refused = operation.run(&mut tx).err();
        let gated = tx.gated;
        if let Some(error) = refused {
            // A full disk or a failing one makes SQLite take back everything by itself.
            if self.db.is_autocommit() {
                return Err(error);
            }
            if matches!(error, Error::DiskFull(_)) && !gated {
                self.space.release();
            }
            if savepoint {
                self.execute("ROLLBACK TO operation")?;
            } else if self.db.total_changes() != written {
                return Err(error);
            }
        }
        if savepoint {
            self.execute("RELEASE operation")?;
        }
        Ok(())
    }

    fn tell(&self, group: WriteGroup, ready: &BTreeSet<String>) {
        for operation in group {
            operation.answer(None);
        }
        if !ready.is_empty() {
            self.notifier.wake(ready);
            self.file_notifier.notify();
        }
    }

    fn spoil(&mut self, group: WriteGroup, error: Error) {
        if !self.db.is_autocommit() {
            // Where even this fails, the next BEGIN will say so.
            if let Err(error) = self.execute("ROLLBACK") {
                tracing::warn!(%error, "could not roll back");
            }
        }
        if matches!(error, Error::DiskFull(_)) {
            self.space.release();
        }
        let error = error.at(&self.path);
        for operation in group {
            operation.answer(Some(error.clone()));
        }
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.db.prepare_cached(sql)?.execute([]).map(drop)
    }
}

/// The database's clock, in milliseconds.
/// The database's clock in milliseconds.
pub(super) const CLOCK: &str = "CAST(round(unixepoch('subsec') * 1000) AS INTEGER)";

pub(super) fn now(db: &Connection) -> rusqlite::Result<i64> {
    db.prepare_cached(&format!("SELECT {CLOCK}"))?
        .query_row([], |row| row.get(0))
}
