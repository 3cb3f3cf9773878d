//! The four traits of a store. Both databases implement all of them over one connection; a caller
//! that needs one of them names it, and [`Store`] is all four as one object.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use flow::event::Lease;
use flow::{Policy, Queue, Stage, TicketId, Time, Usage};

use crate::Result;
use crate::caller::CallerRecord;
use crate::change::{Artefact, Change, CommitOutcome, Remembered};
use crate::job::{
    ClaimRequest, Expired, FinishedTask, FreeJob, Job, JobId, JobQuery, JobState, Leased,
};
use crate::parcel::{Parcel, ParcelUpdate};
use crate::record::{
    Agent, ClaimStatement, Cursor, CursorMove, Database, Epic, EventQuery, Message, NewMessage,
    Noted, Page, Paged, ProjectRule, Removed, Restriction, Restrictions, Retention, RuleUpdate,
    Stored, StoredEvent, TicketQuery, TicketRow,
};
use crate::token::{Token, TokenQuery};

/// Tickets, and what belongs to one.
#[async_trait]
pub trait Tickets: Send + Sync {
    /// Writes a decision, all of it or nothing. Refuses with [`crate::Error::Conflict`] where somebody
    /// else was faster, and with [`crate::Error::StaleFence`] where the lease is no longer the
    /// caller's.
    async fn commit(&self, change: Change) -> Result<CommitOutcome>;
    async fn ticket(&self, id: &TicketId) -> Result<Option<Stored>>;
    async fn tickets(&self, query: &TicketQuery, page: &Page) -> Result<Paged<TicketRow>>;
    /// Counts the tickets in each stage that has any.
    async fn count_tickets(&self) -> Result<Vec<(Stage, u64)>>;
    async fn artefacts(&self, ticket: &TicketId) -> Result<Vec<Artefact>>;
    async fn policy(&self, id: &str) -> Result<Option<Policy>>;
    /// Returns the answer that was given to this key, if any.
    async fn recall(&self, key: &str) -> Result<Option<Remembered>>;
    /// Holds what an agent says under a claim until the claim is reported.
    async fn add_statement(&self, statement: ClaimStatement) -> Result<()>;
    /// Lists what was said under a claim, in the order in which it was said.
    async fn statements(
        &self,
        ticket: &TicketId,
        lease: Lease,
        most: u32,
    ) -> Result<Vec<ClaimStatement>>;
    async fn put_epic(&self, epic: Epic) -> Result<()>;
    async fn epics(&self) -> Result<Vec<Epic>>;
    /// Removes what is older than the retention says; never a ticket that is not terminal.
    async fn retain(&self, retention: &Retention) -> Result<Removed>;
}

/// The queue.
#[async_trait]
pub trait Jobs: Send + Sync {
    /// Adds jobs that belong to no ticket.
    async fn enqueue(&self, jobs: Vec<FreeJob>) -> Result<Vec<JobId>>;
    /// Takes up to `request.limit` jobs under a lease, by priority, then age, in one transaction with
    /// all that a claim depends on: jobs that are due become ready, jobs that no ticket follows and
    /// whose lease ran out come back to their queue, and pauses, provider limits, labels and
    /// dependencies are kept.
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Leased>>;
    /// Ends jobs that no ticket decides about, and claims the next ones in the same transaction.
    /// All of them or none: one stale fence refuses the whole call.
    async fn finish(
        &self,
        ended: Vec<FinishedTask>,
        then: Option<&ClaimRequest>,
    ) -> Result<Vec<Leased>>;
    /// Drops a job that no ticket decides about and that has not ended, whoever holds it; false where
    /// there is none. Its holder's lease ends with it.
    async fn cancel(&self, job: JobId, by: &str, why: &str) -> Result<bool>;
    /// Prolongs a lease that is still the caller's; the new expiry by the database's clock.
    async fn renew(&self, job: JobId, fence: u64, lease: Duration) -> Result<Time>;
    /// Gives a job back before its lease ends, as if it had not been claimed; the fence stays, so
    /// that a late report under it is refused once the job is claimed again.
    async fn release(&self, job: JobId, fence: u64) -> Result<()>;
    /// Looks for leases that have run out by the database's clock: jobs that no ticket follows go
    /// back to their queues, the others are listed for their tickets to decide.
    async fn expire(&self, most: u32) -> Result<Expired>;
    async fn jobs(&self, query: &JobQuery, page: &Page) -> Result<Paged<Job>>;
    async fn job(&self, job: JobId) -> Result<Option<Job>>;
    /// Counts the jobs that are neither done nor dropped, by queue and state.
    async fn count_jobs(&self) -> Result<Vec<(Queue, JobState, u64)>>;
    /// Whether any of these queues, or any at all, has a job that has not ended: ready, leased, or
    /// waiting for its time. It is cheaper than a claim, for those who ask often.
    async fn has_open(&self, queues: Option<&[Queue]>) -> Result<bool>;
    /// Returns when there may be a job for this request, or after `most`. It looks once more before
    /// it waits, so that a job which came after an empty claim is not missed. It ignores provider
    /// limits: after an empty claim, back off before the next one.
    async fn wait(&self, request: &ClaimRequest, most: Duration);
}

/// The log, messages and signs of life.
#[async_trait]
pub trait Events: Send + Sync {
    async fn events(&self, query: &EventQuery) -> Result<Vec<StoredEvent>>;
    /// Returns when something has been decided after this place in the log, or after `most`. A
    /// wake-up is a hint: the caller reads the log.
    async fn wait_for_events(&self, after: Cursor, most: Duration);
    /// Notes what changed no ticket: a refusal, a stale result, a start.
    async fn note(&self, noted: Noted) -> Result<()>;
    /// Notes what was used for something else than a ticket, once for each key.
    async fn spend(&self, key: &str, noted: Noted, usage: Usage) -> Result<()>;
    /// Adds up what tickets and other work have used since then.
    async fn spent_since(&self, time: Time) -> Result<Usage>;
    /// Takes the named cursor under a lease, or moves the one that the holder has and begins a new
    /// lease, so that one reader at a time goes on from it. `None` where it is another holder's.
    async fn lease_cursor(
        &self,
        name: &str,
        holder: &str,
        to: CursorMove,
        lease: Duration,
    ) -> Result<Option<Cursor>>;
    async fn send(&self, message: NewMessage) -> Result<i64>;
    /// Lists the messages to `to` that nobody has processed.
    async fn messages(&self, to: &str, most: u32) -> Result<Vec<Message>>;
    /// Marks a message; true once for each.
    async fn mark_processed(&self, message: i64, at: Time) -> Result<bool>;
    async fn beat(&self, agent: Agent) -> Result<()>;
    async fn agents(&self) -> Result<Vec<Agent>>;
    /// Says which database this is, and its clock.
    async fn database(&self) -> Result<Database>;
}

/// Settings that claims keep to, tokens, callers, bundles and accepted rules.
#[async_trait]
pub trait Records: Send + Sync {
    /// Changes what claims keep to; true where something was in force or is now.
    async fn restrict(&self, restriction: Restriction) -> Result<bool>;
    /// Lists the pauses in force and the limits of providers.
    async fn restrictions(&self) -> Result<Restrictions>;
    /// Adds a token; one of the same id or secret is refused.
    async fn put_token(&self, token: Token) -> Result<()>;
    /// Lists tokens, newest first, revoked and expired ones too.
    async fn tokens(&self, query: &TokenQuery) -> Result<Vec<Token>>;
    /// Revokes a token; true where it was valid until now.
    async fn revoke(&self, token: &str, at: Time) -> Result<bool>;
    /// Returns what is known of the process that calls with this token, in this session.
    async fn caller(&self, token: &str, session: &str) -> Result<Option<CallerRecord>>;
    /// Writes it with the next version; false where it has changed since it was read.
    async fn put_caller(&self, caller: CallerRecord) -> Result<bool>;
    /// Puts a parcel where others find it, or asks for one.
    async fn update_parcel(&self, update: ParcelUpdate) -> Result<()>;
    async fn parcel(&self, key: &str) -> Result<Option<Parcel>>;
    /// Lists the keys of parcels that are wanted, longest waiting first.
    async fn wanted_parcels(&self, most: u32) -> Result<Vec<String>>;
    /// Answers a proposed rule for a repository, or withdraws one; true where something changed.
    async fn update_rule(&self, update: RuleUpdate) -> Result<bool>;
    /// Lists the rules that people have answered for a repository and not withdrawn, oldest first.
    async fn rules(&self, repository: &str, most: u32) -> Result<Vec<ProjectRule>>;
}

/// All four over one database.
pub trait Store: Tickets + Jobs + Events + Records + fmt::Debug {}

impl<S: Tickets + Jobs + Events + Records + fmt::Debug> Store for S {}
