//! The one writer. Operations come in by a bounded channel; what has queued up is committed as a
//! group, so that many callers share one sync of the disk. Each operation has its own savepoint:
//! a refusal takes back its own writes and nobody else's. Nobody is answered before the COMMIT.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::error::Error;
use crate::settings::Settings;
use crate::wakes::Wakes;

use super::space::Space;
use super::wakefile::Ringer;

/// What an operation writes through.
#[derive(Debug)]
pub(super) struct Tx<'a> {
    pub(super) db: &'a Connection,
    pub(super) space: &'a mut Space,
    pub(super) settings: &'a Settings,
    /// The database's clock, read once for each operation.
    pub(super) now: i64,
    /// Queues in which a job became ready.
    pub(super) ready: BTreeSet<String>,
    /// The operation found too little room to begin work: not yet the time for the ballast.
    pub(super) gated: bool,
}

#[derive(Debug)]
pub(super) struct Writer {
    inbox: mpsc::Sender<Box<dyn Operation>>,
}

impl Writer {
    pub(super) fn start(
        path: PathBuf,
        db: Connection,
        settings: Settings,
        wakes: Arc<Wakes>,
    ) -> Result<Self, Error> {
        let (inbox, outbox) = mpsc::channel(settings.writer_queue_max);
        let mut desk = Desk {
            space: Space::new(&path, &settings),
            ringer: Ringer::new(&path),
            path,
            db,
            settings,
            wakes,
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
        let (reply, answer) = oneshot::channel();
        let call = Call {
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
    /// An error means that the operation's writes are to be taken back.
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), Error>;
    /// `spoiled`: the group was not committed.
    fn answer(self: Box<Self>, spoiled: Option<Error>);
}

struct Call<T, F> {
    work: Option<F>,
    outcome: Option<Result<T, Error>>,
    reply: oneshot::Sender<Result<T, Error>>,
}

impl<T, F> Operation for Call<T, F>
where
    T: Send,
    F: FnOnce(&mut Tx<'_>) -> Result<T, Error> + Send,
{
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

struct Desk {
    path: PathBuf,
    db: Connection,
    settings: Settings,
    space: Space,
    wakes: Arc<Wakes>,
    ringer: Ringer,
}

type Group = Vec<Box<dyn Operation>>;

impl Desk {
    fn serve(&mut self, mut outbox: mpsc::Receiver<Box<dyn Operation>>) {
        while let Some(first) = outbox.blocking_recv() {
            let mut ready = BTreeSet::new();
            let mut group = Group::new();
            let ended = match self.execute("BEGIN IMMEDIATE") {
                Ok(()) => self
                    .fill(first, &mut outbox, &mut group, &mut ready)
                    .and_then(|()| self.execute("COMMIT").map_err(Error::of_commit)),
                Err(error) => {
                    group.push(first);
                    Err(Error::from(error))
                }
            };
            match ended {
                Ok(()) => self.tell(group, &ready),
                Err(error) => self.spoil(group, error),
            }
        }
    }

    /// Runs the first operation and all that have queued up meanwhile. An error means that the
    /// database took the whole transaction back.
    fn fill(
        &mut self,
        first: Box<dyn Operation>,
        outbox: &mut mpsc::Receiver<Box<dyn Operation>>,
        group: &mut Group,
        ready: &mut BTreeSet<String>,
    ) -> Result<(), Error> {
        let mut next = Some(first);
        while let Some(mut operation) = next {
            let ran = self.run_one(operation.as_mut());
            group.push(operation);
            ready.extend(ran?);
            next = (group.len() < self.settings.group_max)
                .then(|| outbox.try_recv().ok())
                .flatten();
        }
        Ok(())
    }

    fn run_one(&mut self, operation: &mut dyn Operation) -> Result<BTreeSet<String>, Error> {
        self.execute("SAVEPOINT operation")?;
        let now = now(&self.db)?;
        let mut tx = Tx {
            db: &self.db,
            space: &mut self.space,
            settings: &self.settings,
            now,
            ready: BTreeSet::new(),
            gated: false,
        };
        let refused = operation.run(&mut tx).err();
        let (mut ready, gated) = (tx.ready, tx.gated);
        if let Some(error) = refused {
            ready.clear();
            // A full disk or a failing one makes SQLite take back everything by itself.
            if self.db.is_autocommit() {
                return Err(error);
            }
            if matches!(error, Error::DiskFull(_)) && !gated {
                self.space.release();
            }
            self.execute("ROLLBACK TO operation")?;
        }
        self.execute("RELEASE operation")?;
        Ok(ready)
    }

    fn tell(&self, group: Group, ready: &BTreeSet<String>) {
        for operation in group {
            operation.answer(None);
        }
        if !ready.is_empty() {
            self.wakes.wake(ready);
            self.ringer.ring();
        }
    }

    fn spoil(&mut self, group: Group, error: Error) {
        if !self.db.is_autocommit() {
            // Where even this fails, the next BEGIN will say so.
            let _ = self.execute("ROLLBACK");
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
pub(super) fn now(db: &Connection) -> rusqlite::Result<i64> {
    db.prepare_cached("SELECT CAST(round(unixepoch('subsec') * 1000) AS INTEGER)")?
        .query_row([], |row| row.get(0))
}
