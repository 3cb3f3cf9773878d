//! The store on `SQLite`: one file, WAL, every commit synced. One writer thread commits queued
//! operations as a group; reads run in parallel on connections that cannot write. Several processes
//! may share the file.
//!
//! Writes go to the writer as closures and reads to the readers; nothing here holds a connection.
//! The writer's queue and every wait are bounded.

mod backup;
mod batched;
mod bundles;
mod callers;
mod claim;
mod cursors;
mod errors;
mod file_notifier;
mod finish;
mod forge_states;
mod identity;
mod jobs;
mod log;
mod open;
mod readers;
mod records;
mod retain;
mod space;
mod statements;
mod tickets;
mod tokens;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use flow::event::Lease;
use flow::{Policy, Queue, Stage, TicketId, Time, Usage};
use tokio::time::Instant;

use crate::Result;
use crate::batched::{HasOpenJobs, HeldJobs, TokenByHash, UnreadMessages};
use crate::batcher::Batcher;
use crate::bundle::{BundleUpdate, StoredBundle};
use crate::caller::CallerRecord;
use crate::change::{Artefact, Change, CommitOutcome, Remembered};
use crate::error::Error;
use crate::forge_state::ForgeState;
use crate::job::{
    ClaimRequest, Expired, FinishedTask, FreeJob, Job, JobId, JobQuery, JobState, Leased,
};
use crate::notifier::{LOG, Notifier};
use crate::record::{
    Agent, ClaimStatement, Cursor, CursorMove, Database, Epic, EventQuery, Message, NewMessage,
    Noted, Page, Paged, ProjectRule, Removed, Restriction, Restrictions, Retention, RuleUpdate,
    Spending, Stored, StoredEvent, TicketQuery, TicketRow,
};
use crate::rows::{Encoded, EventColumns, JobColumns, nat};
use crate::settings::Settings;
use crate::token::{Token, TokenChange, TokenQuery};
use crate::verbs::{Events, Expenses, ForgeStates, Jobs, Records, Tickets};

pub use backup::{DatabaseCopy, backup, restore};
use claim::SqliteJobReadiness;
use file_notifier::Watch;
use identity::DatabaseFiles;
use readers::Readers;
use retain::Sort;
use writer::{Tx, Writer};

/// The store on one `SQLite` file.
#[derive(Debug)]
pub(crate) struct Sqlite {
    path: PathBuf,
    settings: Settings,
    writer: Writer,
    readers: Readers,
    /// Single reader for the short indexed reads of every call. One busy reader is faster than
    /// waking several threads, and it never waits behind a long list.
    quick: Readers,
    tokens_by_hash: Batcher<Readers, TokenByHash>,
    open_jobs: Batcher<Readers, HasOpenJobs>,
    held_jobs: Batcher<Readers, HeldJobs>,
    unread: Batcher<Readers, UnreadMessages>,
    notifier: Arc<Notifier>,
    _watch: Watch,
}

impl Sqlite {
    pub(crate) async fn open(path: &Path, settings: Settings) -> Result<Self> {
        let notifier = Arc::<Notifier>::default();
        let (owned_path, owned_settings) = (path.to_owned(), settings.clone());
        // Opening may migrate the schema or wait for another process, which is too long for an
        // async thread.
        let opened = tokio::task::spawn_blocking(move || {
            let db = open::writer(&owned_path, &owned_settings)?;
            // The identity is taken after the schema exists, because the database's id is in a
            // table.
            let identity = DatabaseFiles::establish(&owned_path, &db)?;
            Ok::<_, Error>((db, Arc::new(identity)))
        });
        let (db, identity) = opened
            .await
            .map_err(|error| Error::Other(format!("could not open the database: {error}")))??;
        let new_readers = |most| {
            let identity = Arc::clone(&identity);
            Readers::new(path.to_owned(), identity, settings.clone(), most)
        };
        let quick = new_readers(1);
        let readers = new_readers(settings.readers_max);
        Ok(Self {
            path: path.to_owned(),
            writer: Writer::start(
                path.to_owned(),
                (db, identity),
                settings.clone(),
                Arc::clone(&notifier),
            )?,
            readers,
            tokens_by_hash: Batcher::new(quick.clone()),
            open_jobs: Batcher::new(quick.clone()),
            held_jobs: Batcher::new(quick.clone()),
            unread: Batcher::new(quick.clone()),
            quick,
            // The watch comes after the writer has opened the database, so the directory exists.
            _watch: Watch::new(path, Arc::clone(&notifier)),
            notifier,
            settings,
        })
    }

    async fn removed(&self, sort: Sort, retention: &Retention) -> Result<u64> {
        let mut removed = 0;
        loop {
            let retention = retention.clone();
            let slice = self
                .writer
                // One slice per transaction: between two slices the writer serves other callers.
                .run(move |tx| tx.remove(sort, &retention))
                .await?;
            removed += slice;
            if slice < nat(retain::SLICE) {
                return Ok(removed);
            }
        }
    }
}

#[async_trait]
impl Tickets for Sqlite {
    async fn commit(&self, change: Change) -> Result<CommitOutcome> {
        // Encoding happens on the caller's thread, so that the writer thread only writes.
        let change = Encoded::new(change)?;
        self.writer.run(move |tx| tx.commit(&change)).await
    }

    async fn ticket(&self, id: &TicketId) -> Result<Option<Stored>> {
        let id = id.clone();
        // A single ticket is the read of every call, so it does not queue behind long lists.
        self.quick
            .run(move |db| tickets::by_id(db, id.as_str()))
            .await
    }

    async fn tickets(&self, query: &TicketQuery, page: &Page) -> Result<Paged<TicketRow>> {
        let (query, page) = (query.clone(), page.clone());
        self.readers
            .run(move |db| tickets::list(db, &query, &page))
            .await
    }

    async fn count_tickets(&self, query: &TicketQuery) -> Result<Vec<(Stage, u64)>> {
        let query = query.clone();
        self.readers.run(move |db| tickets::count(db, &query)).await
    }

    async fn artefacts(&self, ticket: &TicketId) -> Result<Vec<Artefact>> {
        let ticket = ticket.clone();
        self.readers
            .run(move |db| tickets::artefacts(db, &ticket))
            .await
    }

    async fn policy(&self, id: &str) -> Result<Option<Policy>> {
        let id = id.to_owned();
        self.quick.run(move |db| log::policy(db, &id)).await
    }

    async fn recall(&self, key: &str) -> Result<Option<Remembered>> {
        let key = key.to_owned();
        self.readers.run(move |db| log::recall(db, &key)).await
    }

    async fn add_statement(&self, statement: ClaimStatement) -> Result<()> {
        self.writer
            .run(move |tx| tx.add_statement(&statement))
            .await
    }

    async fn statements(
        &self,
        ticket: &TicketId,
        lease: Lease,
        most: u32,
    ) -> Result<Vec<ClaimStatement>> {
        let ticket = ticket.clone();
        self.readers
            .run(move |db| statements::of_claim(db, (&ticket, lease), most))
            .await
    }

    async fn put_epic(&self, epic: Epic) -> Result<()> {
        self.writer.run(move |tx| tx.put_epic(&epic)).await
    }

    async fn epics(&self) -> Result<Vec<Epic>> {
        self.readers.run(records::epics).await
    }

    async fn retain(&self, retention: &Retention) -> Result<Removed> {
        Ok(Removed {
            tickets: self.removed(Sort::Tickets, retention).await?,
            jobs: self.removed(Sort::Jobs, retention).await?,
            messages: self.removed(Sort::Messages, retention).await?
                + self.removed(Sort::Statements, retention).await?,
            answers: self.removed(Sort::Answers, retention).await?,
            notes: self.removed(Sort::Notes, retention).await?,
        })
    }
}

#[async_trait]
impl Jobs for Sqlite {
    async fn enqueue(&self, jobs: Vec<FreeJob>) -> Result<Vec<JobId>> {
        let is_plain = |job: &JobColumns| job.key.is_none() && job.queue_max.is_none();
        let jobs: Vec<_> = jobs.iter().map(JobColumns::free).collect::<Result<_>>()?;
        // A key or a limit is checked after earlier jobs of the same call were written, so only
        // jobs without both can do without a savepoint.
        if jobs.iter().all(is_plain) {
            return self.writer.run_plain(move |tx| tx.enqueue(&jobs)).await;
        }
        self.writer.run(move |tx| tx.enqueue(&jobs)).await
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Leased>> {
        let request = request.clone();
        self.writer.run_plain(move |tx| tx.claim(&request)).await
    }

    async fn finish(
        &self,
        ended: Vec<FinishedTask>,
        then: Option<&ClaimRequest>,
    ) -> Result<Vec<Leased>> {
        let then = then.cloned();
        // The second job of a call may be refused after the first was written, which needs a
        // savepoint.
        if ended.len() <= 1 {
            let work = move |tx: &mut Tx<'_>| tx.finish(&ended, then.as_ref());
            return self.writer.run_plain(work).await;
        }
        self.writer
            .run(move |tx| tx.finish(&ended, then.as_ref()))
            .await
    }

    async fn cancel(&self, job: JobId, by: &str, why: &str) -> Result<bool> {
        let (by, why) = (by.to_owned(), why.to_owned());
        self.writer
            .run_plain(move |tx| tx.drop_free(job, &by, &why))
            .await
    }

    async fn renew(&self, job: JobId, fence: u64, lease: Duration) -> Result<Time> {
        self.writer
            .run_plain(move |tx| tx.renew(job, fence, lease))
            .await
    }

    async fn release(&self, job: JobId, fence: u64) -> Result<()> {
        self.writer
            .run_plain(move |tx| tx.release(job, fence))
            .await
    }

    async fn expire(&self, most: u32) -> Result<Expired> {
        // Usually nothing has lapsed; a read avoids waiting for the writer.
        if !self.readers.run(claim::any_lapsed).await? {
            return Ok(Expired::default());
        }
        self.writer.run(move |tx| tx.expire(most)).await
    }

    async fn jobs(&self, query: &JobQuery, page: &Page) -> Result<Paged<Job>> {
        if let Some(held) = &query.held {
            // The batched read answers without a page, because a worker holds few jobs.
            let mut items = self.held_jobs.ask(HeldJobs::new(held)).await?;
            items.truncate(usize::try_from(page.most).unwrap_or(usize::MAX));
            return Ok(Paged { items, next: None });
        }
        let (query, page) = (query.clone(), page.clone());
        self.readers
            .run(move |db| jobs::page(db, &query, &page))
            .await
    }

    async fn job(&self, job: JobId) -> Result<Option<Job>> {
        self.quick.run(move |db| jobs::one(db, job)).await
    }

    async fn count_jobs(&self) -> Result<Vec<(Queue, JobState, u64)>> {
        self.readers.run(jobs::count).await
    }

    async fn has_open(&self, queues: Option<&[Queue]>) -> Result<bool> {
        match queues {
            None => self.quick.run(jobs::any_open_at_all).await,
            // No queue means no job; the database need not be asked.
            Some([]) => Ok(false),
            Some(queues) => self.open_jobs.ask(HasOpenJobs::new(queues)).await,
        }
    }

    async fn wait(&self, request: &ClaimRequest, most: Duration) {
        let deadline = Instant::now() + most;
        // Register before the first look, so that a job added after it wakes us.
        let waiter = self.notifier.enter(&request.queue_names());
        loop {
            let request = request.clone();
            let nap = match self.readers.run(move |db| claim::look(db, &request)).await {
                Ok(SqliteJobReadiness::Nothing { due_in }) => due_in.unwrap_or(self.settings.poll),
                // An error will show again in the claim that follows.
                Ok(SqliteJobReadiness::Ready) | Err(_) => return,
            };
            // The poll bounds every nap: a wake-up of another process may be lost if inotify is
            // unavailable.
            let until = deadline.min(Instant::now() + nap.min(self.settings.poll));
            let woken = tokio::time::timeout_at(until, waiter.woken()).await;
            // A nudge is for all queues and may not concern this request, so the loop looks first.
            if woken == Ok(true) || Instant::now() >= deadline {
                return;
            }
        }
    }
}

#[async_trait]
impl Events for Sqlite {
    async fn events(&self, query: &EventQuery) -> Result<Vec<StoredEvent>> {
        let query = query.clone();
        self.readers
            .run(move |db| {
                if query.newest {
                    return log::newest(db, query.ticket.as_ref(), query.most);
                }
                log::events(db, &query)
            })
            .await
    }

    async fn wait_for_events(&self, after: Cursor, most: Duration) {
        let deadline = Instant::now() + most;
        // Register before the first look, so that a decision after it wakes us.
        let waiter = self.notifier.enter(&[LOG.to_owned()]);
        loop {
            match self.readers.run(move |db| log::has_after(db, after)).await {
                Ok(false) => {}
                // An error will show again in the read that follows.
                Ok(true) | Err(_) => return,
            }
            let until = deadline.min(Instant::now() + self.settings.poll);
            // Woken or timed out, look again.
            let _ = tokio::time::timeout_at(until, waiter.woken()).await;
            if Instant::now() >= deadline {
                return;
            }
        }
    }

    async fn note(&self, noted: Noted) -> Result<()> {
        let note = EventColumns::note(&noted)?;
        self.writer.run_plain(move |tx| tx.append(&note)).await
    }

    async fn lease_cursor(
        &self,
        name: &str,
        holder: &str,
        to: CursorMove,
        lease: Duration,
    ) -> Result<Option<Cursor>> {
        let (name, holder) = (name.to_owned(), holder.to_owned());
        self.writer
            .run(move |tx| match to {
                CursorMove::StartAt(start) => tx.take_cursor(&name, &holder, start, lease),
                CursorMove::To(to) => {
                    let moved = tx.move_cursor(&name, &holder, to, lease)?;
                    Ok(moved.then_some(to))
                }
            })
            .await
    }

    async fn send(&self, message: NewMessage) -> Result<i64> {
        self.writer.run(move |tx| tx.send(&message)).await
    }

    async fn messages(&self, to: &str, most: u32) -> Result<Vec<Message>> {
        self.unread.ask(UnreadMessages::new(to, most)).await
    }

    async fn mark_processed(&self, message: i64, at: Time) -> Result<bool> {
        self.writer
            .run(move |tx| tx.mark_processed(message, at))
            .await
    }

    async fn beat(&self, agent: Agent) -> Result<()> {
        self.writer.run_plain(move |tx| tx.beat(&agent)).await
    }

    async fn agents(&self) -> Result<Vec<Agent>> {
        self.readers.run(records::agents).await
    }

    async fn database(&self) -> Result<Database> {
        let now = self.readers.run(|db| Ok(Time(writer::now(db)?))).await?;
        Ok(Database {
            description: format!("SQLite {} at {}", rusqlite::version(), self.path.display()),
            now,
        })
    }
}

#[async_trait]
impl Expenses for Sqlite {
    async fn spend(&self, key: &str, noted: Noted, usage: Usage) -> Result<()> {
        let (key, note) = (key.to_owned(), EventColumns::spending(&noted, usage)?);
        self.writer.run(move |tx| tx.append_once(&key, &note)).await
    }

    async fn spent_since(&self, time: Time) -> Result<Usage> {
        self.readers.run(move |db| log::spent_since(db, time)).await
    }

    async fn spending(&self, since: Time) -> Result<Vec<Spending>> {
        self.readers.run(move |db| log::spending(db, since)).await
    }
}

#[async_trait]
impl ForgeStates for Sqlite {
    async fn forge_states(&self, prefix: &str, most: u32) -> Result<Vec<ForgeState>> {
        let prefix = prefix.to_owned();
        self.readers
            .run(move |db| forge_states::list(db, &prefix, most))
            .await
    }

    async fn put_forge_state(&self, state: ForgeState) -> Result<bool> {
        self.writer.run(move |tx| tx.put_forge_state(&state)).await
    }
}

#[async_trait]
impl Records for Sqlite {
    async fn restrict(&self, restriction: Restriction) -> Result<bool> {
        self.writer
            .run(move |tx| match &restriction {
                Restriction::Pause(pause) => tx.pause(pause).map(|()| true),
                Restriction::Resume(scope) => tx.resume(scope),
                Restriction::ProviderLimit { provider, most } => tx.limit_provider(provider, *most),
            })
            .await
    }

    async fn restrictions(&self) -> Result<Restrictions> {
        self.readers
            .run(|db| {
                Ok(Restrictions {
                    pauses: records::pauses(db)?,
                    provider_limits: records::provider_limits(db)?,
                })
            })
            .await
    }

    async fn put_token(&self, token: Token) -> Result<()> {
        self.writer.run(move |tx| tx.put_token(&token)).await
    }

    async fn tokens(&self, query: &TokenQuery) -> Result<Vec<Token>> {
        if let Some(hash) = &query.hash {
            let token = self.tokens_by_hash.ask(TokenByHash::new(hash)).await?;
            return Ok(token.into_iter().collect());
        }
        let (kind, most) = (query.kind, query.most);
        self.readers
            .run(move |db| tokens::list(db, kind, most))
            .await
    }

    async fn change_token(&self, token: &str, change: TokenChange) -> Result<bool> {
        let token = token.to_owned();
        self.writer
            .run(move |tx| tx.change_token(&token, change))
            .await
    }

    async fn caller(&self, token: &str, session: &str) -> Result<Option<CallerRecord>> {
        let (token, session) = (token.to_owned(), session.to_owned());
        self.quick
            .run(move |db| callers::one(db, &token, &session))
            .await
    }

    async fn put_caller(&self, caller: CallerRecord) -> Result<bool> {
        self.writer.run(move |tx| tx.put_caller(&caller)).await
    }

    async fn update_bundle(&self, update: BundleUpdate) -> Result<()> {
        self.writer
            .run(move |tx| match &update {
                BundleUpdate::Put(bundle) => tx.put_bundle(bundle),
                BundleUpdate::Want(key) => tx.want_bundle(key),
            })
            .await
    }

    async fn bundle(&self, key: &str) -> Result<Option<StoredBundle>> {
        let key = key.to_owned();
        self.readers.run(move |db| bundles::one(db, &key)).await
    }

    async fn wanted_bundles(&self, most: u32) -> Result<Vec<String>> {
        self.readers.run(move |db| bundles::wanted(db, most)).await
    }

    async fn update_rule(&self, update: RuleUpdate) -> Result<bool> {
        self.writer.run(move |tx| tx.update_rule(&update)).await
    }

    async fn rules(&self, repository: &str, most: u32) -> Result<Vec<ProjectRule>> {
        let repository = repository.to_owned();
        self.readers
            .run(move |db| statements::rules(db, &repository, most))
            .await
    }
}
