//! Remembers, and cannot decide.
//!
//! One trait, two databases. A decision made by `flow` arrives as a [`Change`] and is written
//! whole or not at all: the ticket, its event, the jobs that follow, the end of the job that was
//! reported, and the answer to be given again when the call is repeated. The store looks at
//! versions, fences and keys, never at stages.

mod caller;
mod change;
mod error;
mod gather;
mod job;
mod listing;
mod parcel;
mod postgres;
mod quick;
mod record;
mod rows;
mod settings;
mod sqlite;
mod token;
mod wakes;

pub use caller::CallerRecord;
pub use change::{Artefact, Change, Committed, Remembered};
pub use error::Error;
pub use job::{
    ClaimRequest, ClaimTarget, Ended, Expired, FreeJob, Job, JobId, JobQuery, JobState, Leased,
    Outcome, ServedQueue, Work,
};
pub use parcel::{PARCEL_BYTES_MAX, Parcel};
pub use record::{
    Agent, Cursor, Epic, EventBody, EventQuery, Message, NewMessage, Noted, Page, Paged, Pause,
    Removed, Retention, Scope, Stored, StoredEvent, TicketQuery, TicketRow,
};

pub use settings::Settings;
pub use token::Token;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use flow::{Policy, Stage, TicketId, Time, Usage};

pub type Result<T> = std::result::Result<T, Error>;

/// Opens the store that a URL (`postgres://…`) or a path names, with the default settings.
pub async fn open(place: &str) -> Result<Arc<dyn Store>> {
    open_with(place, Settings::default()).await
}

pub async fn open_with(place: &str, settings: Settings) -> Result<Arc<dyn Store>> {
    if place.starts_with("postgres://") || place.starts_with("postgresql://") {
        return Ok(Arc::new(postgres::Postgres::open(place, settings).await?));
    }
    let path = Path::new(place);
    Ok(Arc::new(sqlite::Sqlite::open(path, settings).await?))
}

#[async_trait]
pub trait Store: Send + Sync + fmt::Debug {
    /// Writes a decision, all of it or nothing. Refuses with [`Error::Conflict`] where somebody
    /// else was faster, and with [`Error::StaleFence`] where the lease is no longer the caller's.
    async fn commit(&self, change: Change) -> Result<Committed>;

    async fn ticket(&self, id: &TicketId) -> Result<Option<Stored>>;
    /// 000's `assignment_id`.
    async fn ticket_by_number(&self, number: i64) -> Result<Option<Stored>>;
    async fn tickets(&self, query: &TicketQuery, page: &Page) -> Result<Paged<TicketRow>>;
    /// How many tickets stand in each stage that has any.
    async fn tally(&self) -> Result<Vec<(Stage, u64)>>;
    /// The tickets that depend on this one.
    async fn dependants(&self, id: &TicketId) -> Result<Vec<TicketId>>;

    async fn put_epic(&self, epic: Epic) -> Result<()>;
    async fn epics(&self) -> Result<Vec<Epic>>;

    /// Adds jobs that belong to no ticket (001's tasks).
    async fn enqueue(&self, jobs: Vec<FreeJob>) -> Result<Vec<JobId>>;
    /// Takes up to `request.limit` jobs under a lease, by priority, then age, in one transaction with
    /// all that a claim depends on: jobs that are due become ready, jobs that no ticket follows and
    /// whose lease ran out come back to their queue, and pauses, provider limits, labels and
    /// dependencies are kept.
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Leased>>;
    /// Ends jobs that no ticket decides about, and claims the next ones in the same transaction.
    /// All of them or none: one stale fence refuses the whole call.
    async fn finish(&self, ended: Vec<Ended>, then: Option<&ClaimRequest>) -> Result<Vec<Leased>>;
    /// Drops a job that no ticket decides about and that has not ended, whoever holds it; false where
    /// there is none. Its holder's lease ends with it.
    async fn drop_job(&self, job: JobId, by: &str, why: &str) -> Result<bool>;
    /// Prolongs a lease that is still the caller's; the new expiry by the database's clock.
    async fn renew(&self, job: JobId, fence: u64, lease: Duration) -> Result<Time>;
    /// Gives a job back before its lease ends, as if it had not been claimed; the fence stays, so
    /// that a late report under it is refused once the job is claimed again.
    async fn release(&self, job: JobId, fence: u64) -> Result<()>;
    /// Looks for leases that have run out by the database's clock: jobs that no ticket follows go
    /// back to their queues, the others are listed for their tickets to decide.
    async fn expire(&self, most: u32) -> Result<Expired>;
    async fn jobs(&self, query: &JobQuery, page: &Page) -> Result<Paged<Job>>;
    /// How many jobs that have not ended well or been dropped each queue has, by their state.
    async fn depths(&self) -> Result<Vec<(String, JobState, u64)>>;
    /// Whether any of these queues, or any at all, has a job that has not ended: ready, in hand, or
    /// waiting for its time. Cheaper than to claim, for those who ask often.
    async fn has_open(&self, queues: Option<&[String]>) -> Result<bool>;
    /// What this holder has in hand of these queues, the oldest first.
    async fn in_hand(&self, holder: &str, queues: &[String]) -> Result<Vec<Job>>;
    async fn job(&self, job: JobId) -> Result<Option<Job>>;
    /// The job that was put into a queue under this key.
    async fn job_by_key(&self, key: &str) -> Result<Option<Job>>;
    /// Returns when there may be a job for this request, or after `most`. It looks once more before
    /// it waits, so that a job which came after an empty claim is not missed. It ignores provider
    /// limits: after an empty claim, back off before the next one.
    async fn wait(&self, request: &ClaimRequest, most: Duration);

    async fn events(&self, query: &EventQuery) -> Result<Vec<StoredEvent>>;
    /// The newest events, of one ticket or of all, in the order in which they happened.
    async fn latest(&self, ticket: Option<&TicketId>, most: u32) -> Result<Vec<StoredEvent>>;
    /// Returns when something has been decided after this place in the log, or after `most`. A
    /// wake-up is a hint: whoever is woken reads the log.
    async fn wait_for_events(&self, after: Cursor, most: Duration);
    /// Notes what changed no ticket: a refusal, a stale result, a start.
    async fn note(&self, noted: Noted) -> Result<()>;
    /// The answer that was given to this key, if any.
    async fn recall(&self, key: &str) -> Result<Option<Remembered>>;
    async fn policy(&self, id: &str) -> Result<Option<Policy>>;
    async fn artefacts(&self, ticket: &TicketId) -> Result<Vec<Artefact>>;
    /// Notes what was used for something else than a ticket, once for each key.
    async fn spend(&self, key: &str, noted: Noted, usage: Usage) -> Result<()>;
    /// What all tickets, and what else was spent on, have used since then.
    async fn spent_since(&self, time: Time) -> Result<Usage>;

    async fn pause(&self, pause: Pause) -> Result<()>;
    async fn resume(&self, scope: &Scope) -> Result<bool>;
    async fn pauses(&self) -> Result<Vec<Pause>>;

    /// So many jobs of one provider may be held at once, by all workers together; `None` for as many
    /// as there are. Claims that name their provider keep to it.
    async fn limit_provider(&self, provider: &str, most: Option<u32>) -> Result<()>;
    async fn provider_limits(&self) -> Result<Vec<(String, u32)>>;

    async fn send(&self, message: NewMessage) -> Result<i64>;
    /// Messages to `to` that nobody has processed; `mark_processed` is true once for each.
    async fn messages(&self, to: &str, most: u32) -> Result<Vec<Message>>;
    async fn mark_processed(&self, message: i64, at: Time) -> Result<bool>;

    async fn beat(&self, agent: Agent) -> Result<()>;
    async fn agents(&self) -> Result<Vec<Agent>>;

    /// Takes the named place in the log under a lease, so that one reader at a time goes on from
    /// it; a name that is new begins at `start`. `None` while another holder's lease lives.
    async fn take_bookmark(
        &self,
        name: &str,
        holder: &str,
        start: Cursor,
        lease: Duration,
    ) -> Result<Option<Cursor>>;
    /// Moves it on and begins a new lease; false where it is no longer the holder's.
    async fn move_bookmark(
        &self,
        name: &str,
        holder: &str,
        to: Cursor,
        lease: Duration,
    ) -> Result<bool>;

    /// Adds a token; one of the same id or secret is refused.
    async fn put_token(&self, token: Token) -> Result<()>;
    /// The token whose secret has this hash, revoked and expired ones too.
    async fn token(&self, hash: &str) -> Result<Option<Token>>;
    /// All tokens, newest first.
    async fn tokens(&self, most: u32) -> Result<Vec<Token>>;
    /// True where it was valid until now.
    async fn revoke(&self, token: &str, at: Time) -> Result<bool>;

    /// What is known of the process that calls with this token, in this session.
    async fn caller(&self, token: &str, session: &str) -> Result<Option<CallerRecord>>;
    /// Writes it with the next version; false where it has changed since it was read.
    async fn put_caller(&self, caller: CallerRecord) -> Result<bool>;

    /// Puts a parcel where others find it; whoever wanted it is served.
    async fn put_parcel(&self, parcel: Parcel) -> Result<()>;
    async fn parcel(&self, key: &str) -> Result<Option<Parcel>>;
    /// Asks for a parcel, or for a newer one.
    async fn want_parcel(&self, key: &str) -> Result<()>;
    /// The keys of what is wanted, longest waiting first.
    async fn wanted_parcels(&self, most: u32) -> Result<Vec<String>>;

    /// Removes what is older than the retention says; never a ticket that is not terminal.
    async fn retain(&self, retention: &Retention) -> Result<Removed>;
    /// The database's own clock.
    async fn now(&self) -> Result<Time>;
    /// `SQLite 3.53.0 at …` or `PostgreSQL 15.18 at …`, without a password.
    async fn describe(&self) -> Result<String>;
}
