//! The store on `PostgreSQL`: many processes on many machines. Statements of one call travel
//! together; claims skip what others are taking; nobody is told of work that nobody waits for.

mod bell;
mod bookmarks;
mod callers;
mod claim;
mod commit;
mod connect;
mod errors;
mod finish;
mod jobs;
mod log;
mod messages;
mod parcels;
mod pipeline;
mod records;
mod tickets;
mod tokens;
mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::Pool;
use flow::{Policy, Stage, TicketId, Time, Usage};
use tokio::time::Instant;
use tokio_postgres::Row;

use crate::caller::CallerRecord;
use crate::change::{Artefact, Change, Committed, Remembered};
use crate::error::Error;
use crate::gather::Gather;
use crate::job::{ClaimRequest, Ended, Expired, FreeJob, Job, JobId, JobQuery, JobState, Leased};
use crate::parcel::Parcel;
use crate::quick::{InHand, Letterbox, OpenIn, Secret};
use crate::record::{
    Agent, Cursor, Epic, EventQuery, Message, NewMessage, Noted, Page, Paged, Pause, Removed,
    Retention, Scope, Stored, StoredEvent, TicketQuery, TicketRow,
};
use crate::rows::{Encoded, EventColumns};
use crate::settings::Settings;
use crate::token::Token;
use crate::wakes::{LOG, Wakes};
use crate::{Result, Store};

use bell::Bell;
use claim::{Look, Promoted};
use pipeline::{Session, Value, values};
use upkeep::Upkeep;

/// An event is read when every transaction that began before it has ended, so that nobody skips one:
/// what rang may not be seen yet, and does not ring again. So soon it is looked for after a ring, then
/// half as often each time, and at least so often until it is seen.
const UNSEEN_FIRST: Duration = Duration::from_millis(10);
const UNSEEN_MAX: Duration = Duration::from_secs(5);

/// Connections for what an index answers at once, and every call asks. One is always warm, and what
/// waits for it travels together.
const QUICK: usize = 1;

#[derive(Debug)]
pub(crate) struct Postgres {
    name: String,
    settings: Settings,
    pool: Pool,
    wakes: Arc<Wakes>,
    bell: Bell,
    promoted: Promoted,
    upkeep: Upkeep,
    secrets: Gather<Pool, Secret>,
    open: Gather<Pool, OpenIn>,
    hands: Gather<Pool, InHand>,
    boxes: Gather<Pool, Letterbox>,
    posted: Gather<Pool, messages::Posted>,
    seen: Gather<Pool, records::Seen>,
}

impl Postgres {
    pub(crate) async fn open(url: &str, settings: Settings) -> Result<Self> {
        let config = connect::config(url, &settings)?;
        let pool = connect::pool(&config, &settings, settings.connections_max)?;
        let schema = connect::migrate(&pool).await?;
        let quick = connect::pool(&config, &settings, QUICK)?;
        let wakes = Arc::<Wakes>::default();
        Ok(Self {
            name: connect::name(&config),
            bell: Bell::new(config, &schema, Arc::clone(&wakes)),
            promoted: Promoted::default(),
            upkeep: Upkeep::default(),
            secrets: Gather::new(quick.clone()),
            open: Gather::new(quick.clone()),
            hands: Gather::new(quick.clone()),
            boxes: Gather::new(quick),
            posted: Gather::new(pool.clone()),
            seen: Gather::new(pool.clone()),
            settings,
            pool,
            wakes,
        })
    }

    async fn read(&self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>> {
        pipeline::read(&self.pool, sql, values).await
    }

    /// One statement that writes, a transaction of its own.
    async fn change(&self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>> {
        pipeline::change(&self.pool, sql, values).await
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
            messages: self.remove(records::OLD_MESSAGES, retention).await?,
            answers: self.remove(records::OLD_ANSWERS, retention).await?,
            notes: self.remove(records::OLD_NOTES, retention).await?,
        })
    }
}

#[async_trait]
impl Store for Postgres {
    async fn commit(&self, change: Change) -> Result<Committed> {
        self.write(&Encoded::new(change)?).await
    }

    async fn ticket(&self, id: &TicketId) -> Result<Option<Stored>> {
        let sql = "SELECT number, policy, body FROM tickets WHERE id = $1";
        self.one_ticket(sql, Box::new(id.to_string())).await
    }

    async fn ticket_by_number(&self, number: i64) -> Result<Option<Stored>> {
        let sql = "SELECT number, policy, body FROM tickets WHERE number = $1";
        self.one_ticket(sql, Box::new(number)).await
    }

    async fn tickets(&self, query: &TicketQuery, page: &Page) -> Result<Paged<TicketRow>> {
        self.list_tickets(query, page).await
    }

    async fn tally(&self) -> Result<Vec<(Stage, u64)>> {
        self.count_stages().await
    }

    async fn dependants(&self, id: &TicketId) -> Result<Vec<TicketId>> {
        self.list_dependants(id).await
    }

    async fn put_epic(&self, epic: Epic) -> Result<()> {
        self.upsert_epic(&epic).await
    }

    async fn epics(&self) -> Result<Vec<Epic>> {
        self.list_epics().await
    }

    async fn enqueue(&self, jobs: Vec<FreeJob>) -> Result<Vec<JobId>> {
        self.add_all(&jobs).await
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Leased>> {
        self.claim_jobs(request).await
    }

    async fn finish(&self, ended: Vec<Ended>, then: Option<&ClaimRequest>) -> Result<Vec<Leased>> {
        self.end_all(&ended, then).await
    }

    async fn drop_job(&self, job: JobId, by: &str, why: &str) -> Result<bool> {
        self.drop_free(job, by, why).await
    }

    async fn renew(&self, job: JobId, fence: u64, lease: Duration) -> Result<Time> {
        self.prolong(job, fence, lease).await
    }

    async fn release(&self, job: JobId, fence: u64) -> Result<()> {
        self.give_back(job, fence).await
    }

    async fn expire(&self, most: u32) -> Result<Expired> {
        self.expire_leases(most).await
    }

    async fn jobs(&self, query: &JobQuery, page: &Page) -> Result<Paged<Job>> {
        self.list_jobs(query, page).await
    }

    async fn depths(&self) -> Result<Vec<(String, JobState, u64)>> {
        self.count_jobs().await
    }

    async fn has_open(&self, queues: Option<&[String]>) -> Result<bool> {
        match queues {
            None => self.any_open_at_all().await,
            Some([]) => Ok(false),
            Some(queues) => self.open.ask(OpenIn::new(queues)).await,
        }
    }

    async fn in_hand(&self, holder: &str, queues: &[String]) -> Result<Vec<Job>> {
        self.hands.ask(InHand::new(holder, queues)).await
    }

    async fn job(&self, job: JobId) -> Result<Option<Job>> {
        self.one_job(job).await
    }

    async fn job_by_key(&self, key: &str) -> Result<Option<Job>> {
        self.keyed_job(key).await
    }

    async fn wait(&self, request: &ClaimRequest, most: Duration) {
        let deadline = Instant::now() + most;
        // Entered and listening before the look: what comes after the look rings.
        let waiter = self.wakes.enter(&request.queue_names());
        let listening = self.bell.listen().await.is_ok();
        loop {
            let nap = match self.look(request).await {
                Ok(Look::Nothing { due_in }) => due_in.unwrap_or(self.settings.poll),
                // What is wrong will show in the claim that follows.
                Ok(Look::Ready) | Err(_) => return,
            };
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

    async fn events(&self, query: &EventQuery) -> Result<Vec<StoredEvent>> {
        self.list_events(query).await
    }

    async fn latest(&self, ticket: Option<&TicketId>, most: u32) -> Result<Vec<StoredEvent>> {
        self.list_latest(ticket, most).await
    }

    async fn wait_for_events(&self, after: Cursor, most: Duration) {
        let deadline = Instant::now() + most;
        // Entered and listening before the look: what is decided after the look rings.
        let waiter = self.wakes.enter(&[LOG.to_owned()]);
        let listening = self.bell.listen().await.is_ok();
        let mut soon = None;
        loop {
            match self.look_for_events(after).await {
                Ok(false) => {}
                // What is wrong will show in the reading that follows.
                Ok(true) | Err(_) => return,
            }
            let longest = match soon {
                Some(soon) => soon,
                None if listening => self.settings.poll,
                None => Duration::from_secs(1),
            };
            let until = deadline.min(Instant::now() + longest);
            let rung = tokio::time::timeout_at(until, waiter.woken()).await.is_ok();
            soon = match soon {
                _ if rung => Some(UNSEEN_FIRST),
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

    async fn spend(&self, key: &str, noted: Noted, usage: Usage) -> Result<()> {
        let note = EventColumns::spending(&noted, usage)?;
        self.append_once(key, note).await
    }

    async fn recall(&self, key: &str) -> Result<Option<Remembered>> {
        self.answer_to(key).await
    }

    async fn policy(&self, id: &str) -> Result<Option<Policy>> {
        self.one_policy(id).await
    }

    async fn artefacts(&self, ticket: &TicketId) -> Result<Vec<Artefact>> {
        self.list_artefacts(ticket).await
    }

    async fn spent_since(&self, time: Time) -> Result<Usage> {
        self.used_since(time).await
    }

    async fn pause(&self, pause: Pause) -> Result<()> {
        self.upsert_pause(&pause).await
    }

    async fn resume(&self, scope: &Scope) -> Result<bool> {
        let was_paused = self.delete_pause(scope).await?;
        let mut session = Session::new(&self.pool).await?;
        session.run(self.bell.fire_all()).await?.all_well(false)?;
        self.wakes.nudge();
        Ok(was_paused)
    }

    async fn pauses(&self) -> Result<Vec<Pause>> {
        self.list_pauses().await
    }

    async fn limit_provider(&self, provider: &str, most: Option<u32>) -> Result<()> {
        self.put_provider_limit(provider, most).await
    }

    async fn provider_limits(&self) -> Result<Vec<(String, u32)>> {
        self.list_provider_limits().await
    }

    async fn send(&self, message: NewMessage) -> Result<i64> {
        self.posted.ask(messages::Posted(message)).await
    }

    async fn messages(&self, to: &str, most: u32) -> Result<Vec<Message>> {
        self.boxes.ask(Letterbox::new(to, most)).await
    }

    async fn mark_processed(&self, message: i64, at: Time) -> Result<bool> {
        self.process_message(message, at).await
    }

    async fn beat(&self, agent: Agent) -> Result<()> {
        self.seen.ask(records::Seen(agent)).await
    }

    async fn agents(&self) -> Result<Vec<Agent>> {
        self.list_agents().await
    }

    async fn take_bookmark(
        &self,
        name: &str,
        holder: &str,
        start: Cursor,
        lease: Duration,
    ) -> Result<Option<Cursor>> {
        self.hold_bookmark(name, holder, start, lease).await
    }

    async fn move_bookmark(
        &self,
        name: &str,
        holder: &str,
        to: Cursor,
        lease: Duration,
    ) -> Result<bool> {
        self.shift_bookmark(name, holder, to, lease).await
    }

    async fn put_token(&self, token: Token) -> Result<()> {
        self.insert_token(&token).await
    }

    async fn token(&self, hash: &str) -> Result<Option<Token>> {
        self.secrets.ask(Secret::new(hash)).await
    }

    async fn tokens(&self, most: u32) -> Result<Vec<Token>> {
        self.list_tokens(most).await
    }

    async fn revoke(&self, token: &str, at: Time) -> Result<bool> {
        self.revoke_token(token, at).await
    }

    async fn caller(&self, token: &str, session: &str) -> Result<Option<CallerRecord>> {
        self.one_caller(token, session).await
    }

    async fn put_caller(&self, caller: CallerRecord) -> Result<bool> {
        self.write_caller(&caller).await
    }

    async fn put_parcel(&self, parcel: Parcel) -> Result<()> {
        self.upsert_parcel(parcel).await
    }

    async fn parcel(&self, key: &str) -> Result<Option<Parcel>> {
        self.one_parcel(key).await
    }

    async fn want_parcel(&self, key: &str) -> Result<()> {
        self.wish_parcel(key).await
    }

    async fn wanted_parcels(&self, most: u32) -> Result<Vec<String>> {
        self.list_wanted(most).await
    }

    async fn retain(&self, retention: &Retention) -> Result<Removed> {
        self.removed(retention).await
    }

    async fn now(&self) -> Result<Time> {
        let rows = self.read("SELECT clock_ms()", Vec::new()).await?;
        let row = rows
            .first()
            .ok_or_else(|| Error::Other("no clock".to_owned()))?;
        Ok(Time(row.get(0)))
    }

    async fn describe(&self) -> Result<String> {
        let rows = self.read("SHOW server_version", values![]).await?;
        let version: String = rows.first().map(|row| row.get(0)).unwrap_or_default();
        let version = version.split(' ').next().unwrap_or_default();
        Ok(format!("PostgreSQL {version} at {}", self.name))
    }
}
