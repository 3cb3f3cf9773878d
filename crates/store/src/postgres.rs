//! The store on `PostgreSQL`: many processes on many machines. The statements of one call are
//! pipelined, claims skip locked jobs, and notifications are sent only if a caller waits.
//!
//! It holds no state that another process could need. What is kept in memory only saves round
//! trips, and every decision is made by the database under its own locks and its own clock.

mod bundles;
mod callers;
mod channel_notifier;
mod claim;
mod commit;
mod connect;
mod cursors;
mod errors;
mod finish;
mod forge_states;
mod jobs;
mod log;
mod messages;
mod pipeline;
mod records;
mod statements;
mod tickets;
mod tls;
mod tokens;
mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::Pool;
use flow::event::Lease;
use flow::{Policy, Queue, Stage, TicketId, Time, Usage};
use tokio::time::Instant;
use tokio_postgres::Row;

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
    Noted, Page, Paged, PauseScope, ProjectRule, Removed, Restriction, Restrictions, Retention,
    RuleUpdate, Spending, Stored, StoredEvent, TicketQuery, TicketRow,
};
use crate::rows::{Encoded, EventColumns};
use crate::settings::Settings;
use crate::token::{Token, TokenChange, TokenQuery};
use crate::verbs::{Events, Expenses, ForgeStates, Jobs, Records, Tickets};

use channel_notifier::ChannelNotifier;
use claim::{PgJobReadiness, Promoted};
use pipeline::{OpenTransaction, Value, values};
use upkeep::Upkeep;

/// Poll interval after a notification about the log. A reader sees an event only when every
/// transaction that began before it has ended, so that a cursor skips none. A notified event may
/// therefore not be visible yet, and no second notification comes. The interval starts here and
/// doubles up to [`UNSEEN_MAX`].
const UNSEEN_FIRST: Duration = Duration::from_millis(10);
const UNSEEN_MAX: Duration = Duration::from_secs(5);

/// Number of connections for the short indexed reads of every call. One stays warm, and requests
/// that wait for it travel as one batch.
const QUICK: usize = 1;

/// The store on one schema of a `PostgreSQL` server.
#[derive(Debug)]
pub(crate) struct Postgres {
    /// `host:port/database`, for messages.
    name: String,
    settings: Settings,
    pool: Pool,
    notifier: Arc<Notifier>,
    channel: ChannelNotifier,
    promoted: Promoted,
    upkeep: Upkeep,
    tokens_by_hash: Batcher<Pool, TokenByHash>,
    open_jobs: Batcher<Pool, HasOpenJobs>,
    held_jobs: Batcher<Pool, HeldJobs>,
    unread: Batcher<Pool, UnreadMessages>,
    outgoing: Batcher<Pool, messages::MessageInsert>,
    heartbeats: Batcher<Pool, records::AgentHeartbeat>,
}

impl Postgres {
    pub(crate) async fn open(url: &str, settings: Settings) -> Result<Self> {
        let address = connect::address(url, &settings)?;
        let pool = connect::pool(&address, &settings, settings.connections_max)?;
        // Before anything else uses the pool, because a statement is prepared against the schema.
        let schema = connect::migrate(&pool).await?;
        // A pool of its own: a short read must not wait for a connection that a long list holds.
        let quick = connect::pool(&address, &settings, QUICK)?;
        let notifier = Arc::<Notifier>::default();
        Ok(Self {
            name: connect::name(&address.config),
            channel: ChannelNotifier::new(address, &schema, Arc::clone(&notifier)),
            promoted: Promoted::default(),
            upkeep: Upkeep::default(),
            tokens_by_hash: Batcher::new(quick.clone()),
            open_jobs: Batcher::new(quick.clone()),
            held_jobs: Batcher::new(quick.clone()),
            unread: Batcher::new(quick),
            outgoing: Batcher::new(pool.clone()),
            heartbeats: Batcher::new(pool.clone()),
            settings,
            pool,
            notifier,
        })
    }

    async fn read(&self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>> {
        pipeline::read(&self.pool, sql, values).await
    }

    /// Runs one statement that writes, as its own transaction.
    async fn change(&self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>> {
        pipeline::change(&self.pool, sql, values).await
    }

    async fn end_pause(&self, scope: &PauseScope) -> Result<bool> {
        let was_paused = self.delete_pause(scope).await?;
        // A resumed queue has ready jobs that sent their wake-up during the pause.
        let mut session = OpenTransaction::new(&self.pool).await?;
        session
            .run(self.channel.fire_all())
            .await?
            .check_all(false)?;
        self.notifier.nudge();
        Ok(was_paused)
    }

    async fn removed(&self, retention: &Retention) -> Result<Removed> {
        let tickets = if retention.tickets {
            self.remove(records::OLD_TICKETS, retention).await?
        } else {
            0
        };
        Ok(Removed {
            tickets,
            jobs: self.remove(records::OLD_JOBS, retention).await?,
            messages: self.remove(records::OLD_MESSAGES, retention).await?
                + self.remove(records::OLD_STATEMENTS, retention).await?,
            answers: self.remove(records::OLD_ANSWERS, retention).await?,
            notes: self.remove(records::OLD_NOTES, retention).await?,
        })
    }
}

#[async_trait]
impl Tickets for Postgres {
    async fn commit(&self, change: Change) -> Result<CommitOutcome> {
        self.write(&Encoded::new(change)?).await
    }

    async fn ticket(&self, id: &TicketId) -> Result<Option<Stored>> {
        let sql = "SELECT number, policy, body FROM tickets WHERE id = $1";
        self.one_ticket(sql, Box::new(id.to_string())).await
    }

    async fn tickets(&self, query: &TicketQuery, page: &Page) -> Result<Paged<TicketRow>> {
        self.list_tickets(query, page).await
    }

    async fn count_tickets(&self, query: &TicketQuery) -> Result<Vec<(Stage, u64)>> {
        self.count_stages(query).await
    }

    async fn artefacts(&self, ticket: &TicketId) -> Result<Vec<Artefact>> {
        self.list_artefacts(ticket).await
    }

    async fn policy(&self, id: &str) -> Result<Option<Policy>> {
        self.one_policy(id).await
    }

    async fn recall(&self, key: &str) -> Result<Option<Remembered>> {
        self.answer_to(key).await
    }

    async fn add_statement(&self, statement: ClaimStatement) -> Result<()> {
        self.insert_statement(&statement).await
    }

    async fn statements(
        &self,
        ticket: &TicketId,
        lease: Lease,
        most: u32,
    ) -> Result<Vec<ClaimStatement>> {
        self.list_statements((ticket, lease), most).await
    }

    async fn put_epic(&self, epic: Epic) -> Result<()> {
        self.upsert_epic(&epic).await
    }

    async fn epics(&self) -> Result<Vec<Epic>> {
        self.list_epics().await
    }

    async fn retain(&self, retention: &Retention) -> Result<Removed> {
        self.removed(retention).await
    }
}

#[async_trait]
impl Jobs for Postgres {
    async fn enqueue(&self, jobs: Vec<FreeJob>) -> Result<Vec<JobId>> {
        self.add_all(&jobs).await
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Leased>> {
        self.claim_jobs(request).await
    }

    async fn finish(
        &self,
        ended: Vec<FinishedTask>,
        then: Option<&ClaimRequest>,
    ) -> Result<Vec<Leased>> {
        self.end_all(&ended, then).await
    }

    async fn cancel(&self, job: JobId, by: &str, why: &str) -> Result<bool> {
        self.drop_free(job, by, why).await
    }

    async fn renew(&self, job: JobId, fence: u64, lease: Duration) -> Result<Time> {
        self.renew_lease(job, fence, lease).await
    }

    async fn release(&self, job: JobId, fence: u64) -> Result<()> {
        self.release_job(job, fence).await
    }

    async fn expire(&self, most: u32) -> Result<Expired> {
        self.expire_leases(most).await
    }

    async fn jobs(&self, query: &JobQuery, page: &Page) -> Result<Paged<Job>> {
        if let Some(held) = &query.held {
            let mut items = self.held_jobs.ask(HeldJobs::new(held)).await?;
            items.truncate(usize::try_from(page.most).unwrap_or(usize::MAX));
            return Ok(Paged { items, next: None });
        }
        self.list_jobs(query, page).await
    }

    async fn job(&self, job: JobId) -> Result<Option<Job>> {
        self.one_job(job).await
    }

    async fn count_jobs(&self) -> Result<Vec<(Queue, JobState, u64)>> {
        self.count_live_jobs().await
    }

    async fn has_open(&self, queues: Option<&[Queue]>) -> Result<bool> {
        match queues {
            None => self.any_open_at_all().await,
            Some([]) => Ok(false),
            Some(queues) => self.open_jobs.ask(HasOpenJobs::new(queues)).await,
        }
    }

    async fn wait(&self, request: &ClaimRequest, most: Duration) {
        let deadline = Instant::now() + most;
        // Register and listen before the first look, so that a job added after it wakes us.
        let waiter = self.notifier.enter(&request.queue_names());
        let listening = self.channel.listen().await.is_ok();
        loop {
            let nap = match self.look(request).await {
                Ok(PgJobReadiness::Nothing { due_in }) => due_in.unwrap_or(self.settings.poll),
                // An error will show again in the claim that follows.
                Ok(PgJobReadiness::Ready) | Err(_) => return,
            };
            // Without LISTEN, only polling is left, so it is shorter.
            let longest = if listening {
                self.settings.poll
            } else {
                Duration::from_secs(1)
            };
            let until = deadline.min(Instant::now() + nap.min(longest));
            let woken = tokio::time::timeout_at(until, waiter.woken()).await;
            if woken == Ok(true) || Instant::now() >= deadline {
                return;
            }
        }
    }
}

#[async_trait]
impl Events for Postgres {
    async fn events(&self, query: &EventQuery) -> Result<Vec<StoredEvent>> {
        if query.newest {
            return self.list_newest(query.ticket.as_ref(), query.most).await;
        }
        self.list_events(query).await
    }

    async fn wait_for_events(&self, after: Cursor, most: Duration) {
        let deadline = Instant::now() + most;
        // Register and listen before the first look, so that a decision after it wakes us.
        let waiter = self.notifier.enter(&[LOG.to_owned()]);
        let listening = self.channel.listen().await.is_ok();
        let mut unseen_poll = None;
        loop {
            match self.look_for_events(after).await {
                Ok(false) => {}
                // An error will show again in the read that follows.
                Ok(true) | Err(_) => return,
            }
            let longest = match unseen_poll {
                Some(unseen_poll) => unseen_poll,
                None if listening => self.settings.poll,
                None => Duration::from_secs(1),
            };
            let until = deadline.min(Instant::now() + longest);
            let notified = tokio::time::timeout_at(until, waiter.woken()).await.is_ok();
            // Each notification starts with short naps again, as another transaction may have just
            // ended.
            unseen_poll = match unseen_poll {
                _ if notified => Some(UNSEEN_FIRST),
                Some(last) => Some((last * 2).min(UNSEEN_MAX)),
                None => None,
            };
            if Instant::now() >= deadline {
                return;
            }
        }
    }

    async fn note(&self, noted: Noted) -> Result<()> {
        self.append(&EventColumns::note(&noted)?).await
    }

    async fn lease_cursor(
        &self,
        name: &str,
        holder: &str,
        to: CursorMove,
        lease: Duration,
    ) -> Result<Option<Cursor>> {
        match to {
            CursorMove::StartAt(start) => self.hold_cursor(name, holder, start, lease).await,
            CursorMove::To(to) => {
                let moved = self.shift_cursor(name, holder, to, lease).await?;
                Ok(moved.then_some(to))
            }
        }
    }

    async fn send(&self, message: NewMessage) -> Result<i64> {
        self.outgoing.ask(messages::MessageInsert(message)).await
    }

    async fn messages(&self, to: &str, most: u32) -> Result<Vec<Message>> {
        self.unread.ask(UnreadMessages::new(to, most)).await
    }

    async fn mark_processed(&self, message: i64, at: Time) -> Result<bool> {
        self.process_message(message, at).await
    }

    async fn beat(&self, agent: Agent) -> Result<()> {
        self.heartbeats.ask(records::AgentHeartbeat(agent)).await
    }

    async fn agents(&self) -> Result<Vec<Agent>> {
        self.list_agents().await
    }

    async fn database(&self) -> Result<Database> {
        let sql = "SELECT clock_ms(), current_setting('server_version')";
        let rows = self.read(sql, values![]).await?;
        let row = rows
            .first()
            .ok_or_else(|| Error::Other("the database returned no time".to_owned()))?;
        let version: &str = row.get(1);
        // The version is followed by the name of the distribution's package.
        let version = version.split(' ').next().unwrap_or_default();
        Ok(Database {
            description: format!("PostgreSQL {version} at {}", self.name),
            now: Time(row.get(0)),
        })
    }
}

#[async_trait]
impl Expenses for Postgres {
    async fn spend(&self, key: &str, noted: Noted, usage: Usage) -> Result<()> {
        let note = EventColumns::spending(&noted, usage)?;
        self.append_once(key, note).await
    }

    async fn spent_since(&self, time: Time) -> Result<Usage> {
        self.used_since(time).await
    }

    async fn spending(&self, since: Time) -> Result<Vec<Spending>> {
        self.used_by_agents(since).await
    }
}

#[async_trait]
impl ForgeStates for Postgres {
    async fn forge_states(&self, prefix: &str, most: u32) -> Result<Vec<ForgeState>> {
        self.list_forge_states(prefix, most).await
    }

    async fn put_forge_state(&self, state: ForgeState) -> Result<bool> {
        self.write_forge_state(&state).await
    }
}

#[async_trait]
impl Records for Postgres {
    async fn restrict(&self, restriction: Restriction) -> Result<bool> {
        match restriction {
            Restriction::Pause(pause) => self.upsert_pause(&pause).await.map(|()| true),
            Restriction::Resume(scope) => self.end_pause(&scope).await,
            Restriction::ProviderLimit { provider, most } => {
                self.put_provider_limit(&provider, most).await
            }
        }
    }

    async fn restrictions(&self) -> Result<Restrictions> {
        Ok(Restrictions {
            pauses: self.list_pauses().await?,
            provider_limits: self.list_provider_limits().await?,
        })
    }

    async fn put_token(&self, token: Token) -> Result<()> {
        self.insert_token(&token).await
    }

    async fn tokens(&self, query: &TokenQuery) -> Result<Vec<Token>> {
        if let Some(hash) = &query.hash {
            let token = self.tokens_by_hash.ask(TokenByHash::new(hash)).await?;
            return Ok(token.into_iter().collect());
        }
        self.list_tokens(query.kind, query.most).await
    }

    async fn change_token(&self, token: &str, change: TokenChange) -> Result<bool> {
        self.update_token(token, change).await
    }

    async fn caller(&self, token: &str, session: &str) -> Result<Option<CallerRecord>> {
        self.one_caller(token, session).await
    }

    async fn put_caller(&self, caller: CallerRecord) -> Result<bool> {
        self.write_caller(&caller).await
    }

    async fn update_bundle(&self, update: BundleUpdate) -> Result<()> {
        match update {
            BundleUpdate::Put(bundle) => self.upsert_bundle(bundle).await,
            BundleUpdate::Want(key) => self.wish_bundle(&key).await,
        }
    }

    async fn bundle(&self, key: &str) -> Result<Option<StoredBundle>> {
        self.one_bundle(key).await
    }

    async fn wanted_bundles(&self, most: u32) -> Result<Vec<String>> {
        self.list_wanted(most).await
    }

    async fn update_rule(&self, update: RuleUpdate) -> Result<bool> {
        self.change_rule(update).await
    }

    async fn rules(&self, repository: &str, most: u32) -> Result<Vec<ProjectRule>> {
        self.list_rules(repository, most).await
    }
}
