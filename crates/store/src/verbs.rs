//! The six traits of a store. Both databases implement all of them. A caller that needs one trait
//! names it; [`Store`] is all of them as one object.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use flow::event::Lease;
use flow::{Policy, Queue, Stage, TicketId, Time, Usage};

use crate::Result;
use crate::bundle::{BundleUpdate, StoredBundle};
use crate::caller::CallerRecord;
use crate::change::{Artefact, Change, CommitOutcome, Remembered};
use crate::forge_state::ForgeState;
use crate::job::{
    ClaimRequest, Expired, FinishedTask, FreeJob, Job, JobId, JobQuery, JobState, Leased,
};
use crate::record::{
    Agent, ClaimStatement, Cursor, CursorMove, Database, Epic, EventQuery, Message, NewMessage,
    Noted, Page, Paged, ProjectRule, Removed, Restriction, Restrictions, Retention, RuleUpdate,
    Spending, Stored, StoredEvent, TicketQuery, TicketRow,
};
use crate::token::{Token, TokenChange, TokenQuery};

/// Tickets and the data of one ticket.
#[async_trait]
pub trait Tickets: Send + Sync {
    /// Writes a decision, all of it or nothing. Fails with [`crate::Error::Conflict`] if the ticket
    /// changed in the meantime, and with [`crate::Error::StaleFence`] if the caller has lost the
    /// lease.
    async fn commit(&self, change: Change) -> Result<CommitOutcome>;
    async fn ticket(&self, id: &TicketId) -> Result<Option<Stored>>;
    async fn tickets(&self, query: &TicketQuery, page: &Page) -> Result<Paged<TicketRow>>;
    /// Counts the tickets of a query in each stage that has any. The query's own stages, its order
    /// and its position do not matter.
    async fn count_tickets(&self, query: &TicketQuery) -> Result<Vec<(Stage, u64)>>;
    async fn artefacts(&self, ticket: &TicketId) -> Result<Vec<Artefact>>;
    async fn policy(&self, id: &str) -> Result<Option<Policy>>;
    /// Returns the stored answer for this idempotency key, if any.
    async fn recall(&self, key: &str) -> Result<Option<Remembered>>;
    /// Stores a statement of an agent under a claim until the claim is reported.
    async fn add_statement(&self, statement: ClaimStatement) -> Result<()>;
    /// Lists the statements under a claim, oldest first.
    async fn statements(
        &self,
        ticket: &TicketId,
        lease: Lease,
        most: u32,
    ) -> Result<Vec<ClaimStatement>>;
    async fn put_epic(&self, epic: Epic) -> Result<()>;
    async fn epics(&self) -> Result<Vec<Epic>>;
    /// Removes data that is older than the retention allows; never a ticket that is not terminal.
    async fn retain(&self, retention: &Retention) -> Result<Removed>;
}

/// The job queue.
#[async_trait]
pub trait Jobs: Send + Sync {
    /// Adds jobs that belong to no ticket.
    async fn enqueue(&self, jobs: Vec<FreeJob>) -> Result<Vec<JobId>>;
    /// Leases up to `request.limit` jobs, by priority, then age. The same transaction makes due
    /// jobs ready, requeues jobs without a ticket whose lease ran out, and applies pauses, provider
    /// limits, labels and dependencies.
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Leased>>;
    /// Ends jobs without a ticket, and claims the next ones in the same transaction. All or
    /// nothing: one stale fence fails the whole call.
    async fn finish(
        &self,
        ended: Vec<FinishedTask>,
        then: Option<&ClaimRequest>,
    ) -> Result<Vec<Leased>>;
    /// Drops a job without a ticket that has not ended, even while a worker holds it; false if
    /// there is no such job. The holder's lease ends with it.
    async fn cancel(&self, job: JobId, by: &str, why: &str) -> Result<bool>;
    /// Extends a lease that the caller still holds; returns the new expiry by the database's clock.
    async fn renew(&self, job: JobId, fence: u64, lease: Duration) -> Result<Time>;
    /// Returns a job to its queue before the lease ends, as if it had not been claimed. The fence
    /// stays: once the job is claimed again, a late report under the old fence is refused.
    async fn release(&self, job: JobId, fence: u64) -> Result<()>;
    /// Finds leases that have run out by the database's clock. Requeues jobs without a ticket, and
    /// lists the others, because their tickets decide about them.
    async fn expire(&self, most: u32) -> Result<Expired>;
    async fn jobs(&self, query: &JobQuery, page: &Page) -> Result<Paged<Job>>;
    async fn job(&self, job: JobId) -> Result<Option<Job>>;
    /// Counts the jobs that are neither done nor dropped, by queue and state.
    async fn count_jobs(&self) -> Result<Vec<(Queue, JobState, u64)>>;
    /// Returns whether any of these queues (`None`: any queue) has a job that has not ended: ready,
    /// leased or waiting. Cheaper than a claim, for callers that poll often.
    async fn has_open(&self, queues: Option<&[Queue]>) -> Result<bool>;
    /// Returns when there may be a job for this request, or after `most`. It checks once before it
    /// waits, so a job that arrived after an empty claim is not missed. It ignores provider limits:
    /// after an empty claim, back off before the next one.
    async fn wait(&self, request: &ClaimRequest, most: Duration);
}

/// The event log, messages and heartbeats.
#[async_trait]
pub trait Events: Send + Sync {
    async fn events(&self, query: &EventQuery) -> Result<Vec<StoredEvent>>;
    /// Returns when the log has a decision after this cursor, or after `most`. A wake-up is only a
    /// hint: the caller reads the log.
    async fn wait_for_events(&self, after: Cursor, most: Duration);
    /// Logs an event that changed no ticket: a refusal, a stale result, a start.
    async fn note(&self, noted: Noted) -> Result<()>;
    /// Takes the named cursor under a lease, or moves a cursor that the holder has and renews its
    /// lease, so that one reader at a time continues from it. `None` if another holder has it.
    async fn lease_cursor(
        &self,
        name: &str,
        holder: &str,
        to: CursorMove,
        lease: Duration,
    ) -> Result<Option<Cursor>>;
    async fn send(&self, message: NewMessage) -> Result<i64>;
    /// Lists the unprocessed messages to `to`.
    async fn messages(&self, to: &str, most: u32) -> Result<Vec<Message>>;
    /// Marks a message as processed; true only the first time.
    async fn mark_processed(&self, message: i64, at: Time) -> Result<bool>;
    /// Records a heartbeat of an agent or worker.
    async fn beat(&self, agent: Agent) -> Result<()>;
    async fn agents(&self) -> Result<Vec<Agent>>;
    /// Returns a description of the database and the time by its clock.
    async fn database(&self) -> Result<Database>;
}

/// The cost of the work: usage of tickets, and of work outside them.
#[async_trait]
pub trait Expenses: Send + Sync {
    /// Logs usage that belongs to no ticket, once per key.
    async fn spend(&self, key: &str, noted: Noted, usage: Usage) -> Result<()>;
    /// Sums the usage of tickets and other work since `time`.
    async fn spent_since(&self, time: Time) -> Result<Usage>;
    /// Sums the same usage by day, agent and model.
    async fn spending(&self, since: Time) -> Result<Vec<Spending>>;
}

/// Restrictions on claims, tokens, callers, git bundles and accepted rules.
#[async_trait]
pub trait Records: Send + Sync {
    /// Changes a restriction on claims; true if one was in force before or is now.
    async fn restrict(&self, restriction: Restriction) -> Result<bool>;
    /// Lists the pauses in force and the limits of providers.
    async fn restrictions(&self) -> Result<Restrictions>;
    /// Adds a token; refuses a second one with the same id or secret.
    async fn put_token(&self, token: Token) -> Result<()>;
    /// Lists tokens, newest first, including revoked and expired ones.
    async fn tokens(&self, query: &TokenQuery) -> Result<Vec<Token>>;
    /// Changes a token that is not revoked; true if there is one.
    async fn change_token(&self, token: &str, change: TokenChange) -> Result<bool>;
    /// Returns the stored state of the caller with this token and session.
    async fn caller(&self, token: &str, session: &str) -> Result<Option<CallerRecord>>;
    /// Writes the caller's state with the next version; false if it changed since it was read.
    async fn put_caller(&self, caller: CallerRecord) -> Result<bool>;
    /// Stores a git bundle for other workers, or requests one.
    async fn update_bundle(&self, update: BundleUpdate) -> Result<()>;
    async fn bundle(&self, key: &str) -> Result<Option<StoredBundle>>;
    /// Lists the keys of requested bundles, longest waiting first.
    async fn wanted_bundles(&self, most: u32) -> Result<Vec<String>>;
    /// Accepts or rejects a proposed rule for a repository, or withdraws one; true if something
    /// changed.
    async fn update_rule(&self, update: RuleUpdate) -> Result<bool>;
    /// Lists the accepted and rejected rules of a repository that are not withdrawn, oldest first.
    async fn rules(&self, repository: &str, most: u32) -> Result<Vec<ProjectRule>>;
}

/// State of connections to forges that the whole fleet shares: positions of pollers, and schedules
/// of writes to a host.
#[async_trait]
pub trait ForgeStates: Send + Sync {
    /// Lists the states whose names begin with the text, by name.
    async fn forge_states(&self, prefix: &str, most: u32) -> Result<Vec<ForgeState>>;
    /// Writes a state with the next version; false if it changed since it was read.
    async fn put_forge_state(&self, state: ForgeState) -> Result<bool>;
}

/// All six traits over one database.
pub trait Store: Tickets + Jobs + Events + Expenses + Records + ForgeStates + fmt::Debug {}

impl<S: Tickets + Jobs + Events + Expenses + Records + ForgeStates + fmt::Debug> Store for S {}
