//! The single writer thread. Operations arrive on a bounded channel; all queued ones are committed
//! as a group, so that many callers share one disk sync. An operation that may fail after its first
//! write has its own savepoint, so that only its own writes are rolled back. No caller gets an
//! answer before the COMMIT.
//!
//! `SQLite` allows one writer per file. A thread of its own keeps that lock for a whole group, and
//! blocking calls never run on an async thread. A panic of an operation ends the thread; every
//! later call then fails with an error instead of hanging.

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

/// Times that the writer yields its thread before it commits a group smaller than the last one.
/// Twenty yields take microseconds; a disk sync takes milliseconds.
const YIELDS_MAX: u32 = 20;

/// The open transaction of a group, as an operation sees it.
#[derive(Debug)]
pub(super) struct Tx<'a> {
    pub(super) db: &'a Connection,
    pub(super) space: &'a mut Space,
    pub(super) settings: &'a Settings,
    /// The database's clock, read once for each group.
    pub(super) now: i64,
    pub(super) seen: &'a mut ClaimCache,
    /// Queues in which a job may have become ready. A rollback does not remove entries; an extra
    /// wake-up is harmless.
    pub(super) ready: &'a mut BTreeSet<String>,
    /// The operation found too little disk space for new work. That is no reason to delete the
    /// ballast.
    pub(super) gated: bool,
}

/// Data that the claims of one group read only once. No caller gets an answer before the group
/// ends, so no caller can expect a later claim of the same group to see its change.
#[derive(Debug, Default)]
pub(super) struct ClaimCache {
    pub(super) paused: Option<Vec<(String, String)>>,
    /// Queues whose due and lapsed jobs have been made ready.
    pub(super) promoted: BTreeSet<String>,
    /// Whether there is enough disk space for new work.
    pub(super) has_space: bool,
}

impl Tx<'_> {
    pub(super) fn made_ready(&mut self, queue: &str) {
        if !self.ready.contains(queue) {
            self.ready.insert(queue.to_owned());
        }
    }
}

/// Handle to the writer thread, which ends when the handle is dropped.
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
        // The channel is bounded: when the disk is slow, callers wait here instead of filling the
        // memory.
        let (inbox, receiver) = mpsc::channel(settings.writer_queue_max);
        let mut writer_thread = WriterThread {
            space: Space::new(&path, &settings),
            file_notifier: FileNotifier::new(&path),
            path,
            db,
            identity,
            settings,
            notifier,
            last_group: 0,
        };
        // The thread needs no handle: it ends when the last sender is gone.
        thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer_thread.serve(receiver))
            .map_err(|error| Error::Other(format!("could not start the writer thread: {error}")))?;
        Ok(Self { inbox })
    }

    /// Runs `work` in the next group; returns when the group is committed.
    pub(super) async fn run<T, F>(&self, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, Error> + Send + 'static,
    {
        self.call(true, work).await
    }

    /// Like [`Self::run`], for work that fails only before its first write. It gets no savepoint,
    /// which would cost as much as a small write. If it fails later anyway, the whole group is
    /// rolled back.
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
        // The operation may have been committed before the thread ended, so success cannot be
        // excluded.
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

/// A queued operation of any result type.
trait Operation: Send {
    fn wants_savepoint(&self) -> bool;
    /// Runs the operation; on an error its writes must be rolled back.
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), Error>;
    /// Sends the outcome to the caller. `spoiled` is set if the group was not committed.
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
        // The error is kept for the caller and also returned, because the writer must roll back.
        let error = outcome.as_ref().err().cloned();
        self.outcome = Some(outcome);
        error.map_or(Ok(()), Err)
    }

    fn answer(self: Box<Self>, spoiled: Option<Error>) {
        let answer = match (self.outcome, spoiled) {
            // An operation's own error is more useful than that of the group.
            (Some(Err(own)), _) => Err(own),
            (_, Some(error)) => Err(error),
            (Some(Ok(value)), None) => Ok(value),
            (None, None) => Err(closed()),
        };
        // The caller may have been cancelled; the write stays.
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
    fn serve(&mut self, mut receiver: mpsc::Receiver<Box<dyn Operation>>) {
        while let Some(first) = receiver.blocking_recv() {
            let mut ready = BTreeSet::new();
            let mut group = WriteGroup::new();
            let result = match self.begin() {
                // Operations join while the transaction is open, so a busy writer commits large
                // groups.
                Ok(()) => self
                    .fill(first, &mut receiver, &mut group, &mut ready)
                    .and_then(|()| self.commit()),
                Err(error) => {
                    // A failed BEGIN has no group yet, but its caller waits for an answer.
                    group.push(first);
                    Err(error)
                }
            };
            self.last_group = group.len();
            match result {
                Ok(()) => self.answer_group(group, &ready),
                Err(error) => self.fail_group(group, error),
            }
        }
    }

    fn begin(&self) -> Result<(), Error> {
        // Before BEGIN, because SQLite would happily write to a deleted file.
        self.identity.check()?;
        // IMMEDIATE takes the write lock now. A deferred transaction could fail with BUSY in the
        // middle, after its reads.
        Ok(self.execute("BEGIN IMMEDIATE")?)
    }

    /// Commits the group. The file may disappear while the group runs, or while it is written.
    /// Checking before and after the COMMIT ensures that no caller gets a success for a lost write.
    fn commit(&self) -> Result<(), Error> {
        self.identity.check()?;
        self.execute("COMMIT").map_err(Error::of_commit)?;
        self.identity.check()
    }

    /// Runs the first operation and all that have queued up since. An error means that the whole
    /// transaction is rolled back.
    fn fill(
        &mut self,
        first: Box<dyn Operation>,
        receiver: &mut mpsc::Receiver<Box<dyn Operation>>,
        group: &mut WriteGroup,
        ready: &mut BTreeSet<String>,
    ) -> Result<(), Error> {
        // An error here is given to the first operation inside the loop, so that it gets an answer.
        let now = now(&self.db).map_err(Error::from);
        let mut claim_cache = ClaimCache::default();
        let mut next = Some(first);
        while let Some(mut operation) = next {
            let result = match now {
                Ok(now) => self.run_one(operation.as_mut(), now, &mut claim_cache, ready),
                Err(ref error) => Err(error.clone()),
            };
            // The operation belongs to the group even if it failed: its caller gets an answer at
            // the end.
            group.push(operation);
            result?;
            next = self.next(receiver, group.len());
        }
        Ok(())
    }

    /// Takes the next queued operation. Callers of the last group come back at nearly the same
    /// time, so while this group is smaller than the last one, the writer yields a few times. That
    /// is far shorter than the disk sync it saves.
    fn next(
        &self,
        receiver: &mut mpsc::Receiver<Box<dyn Operation>>,
        size: usize,
    ) -> Option<Box<dyn Operation>> {
        if size >= self.settings.group_max {
            return None;
        }
        // Callers of a smaller group would wait for others that may never come.
        let mut yields = if size < self.last_group {
            YIELDS_MAX
        } else {
            0
        };
        loop {
            match receiver.try_recv() {
                Ok(operation) => return Some(operation),
                Err(_) if yields > 0 => {
                    yields -= 1;
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
        // The count tells whether a failed operation without a savepoint has written anything.
        let changes_before = self.db.total_changes();
        let mut tx = Tx {
            db: &self.db,
            space: &mut self.space,
            settings: &self.settings,
            now,
            seen,
            ready,
            gated: false,
        };
        let error = operation.run(&mut tx).err();
        let gated = tx.gated;
        if let Some(error) = error {
            // On a full or failing disk SQLite rolls the whole transaction back by itself.
            if self.db.is_autocommit() {
                return Err(error);
            }
            if matches!(error, Error::DiskFull(_)) && !gated {
                self.space.release();
            }
            if savepoint {
                self.execute("ROLLBACK TO operation")?;
            // It wrote something that cannot be undone alone, so the whole group is rolled back.
            } else if self.db.total_changes() != changes_before {
                return Err(error);
            }
        }
        if savepoint {
            self.execute("RELEASE operation")?;
        }
        Ok(())
    }

    fn answer_group(&self, group: WriteGroup, ready: &BTreeSet<String>) {
        // Callers first, then waiters: a waiter's claim would otherwise compete with the answers.
        for operation in group {
            operation.answer(None);
        }
        if !ready.is_empty() {
            self.notifier.wake(ready);
            self.file_notifier.notify();
        }
    }

    fn fail_group(&mut self, group: WriteGroup, error: Error) {
        // After some errors SQLite has already rolled back, and a second ROLLBACK would be an
        // error.
        if !self.db.is_autocommit() {
            // If this fails too, the next BEGIN reports it.
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

/// SQL expression for the database's clock in milliseconds.
pub(super) const CLOCK: &str = "CAST(round(unixepoch('subsec') * 1000) AS INTEGER)";

/// Reads the database's clock in milliseconds.
pub(super) fn now(db: &Connection) -> rusqlite::Result<i64> {
    db.prepare_cached(&format!("SELECT {CLOCK}"))?
        .query_row([], |row| row.get(0))
}
