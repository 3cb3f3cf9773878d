//! Each verb of the store as a call to the server, or as a refusal.

use std::time::Duration;

use async_trait::async_trait;
use flow::event::Lease;
use flow::{Actor, Policy, Queue, Stage, TicketId, Time, Usage};
use store::{
    Agent, Artefact, CallerRecord, Change, ClaimRequest, ClaimStatement, Committed, Cursor,
    CursorMove, Database, Ended, Epic, Error, EventQuery, Events, Expired, FreeJob, Job, JobId,
    JobQuery, JobState, Jobs, Leased, Message, NewMessage, Noted, Page, Paged, Parcel,
    ParcelUpdate, ProjectRule, Records, Remembered, Removed, Restriction, Restrictions, Result,
    Retention, RuleUpdate, Stored, StoredEvent, TicketQuery, TicketRow, Tickets, Token, TokenQuery,
};

use super::{Ledger, Lost, luggage};
use crate::operations::identity;
use crate::operations::outpost::call::{Call, Decided, Packed, Pass, Refusal, Spent, WAIT_MAX};

/// Who cannot wait there waits here, so that nobody asks without a pause.
const AFTER_TROUBLE: Duration = Duration::from_secs(1);

/// What only whoever keeps the store does.
fn not_a_workers<T>(verb: &str) -> Result<T> {
    let why = format!("{verb} is not for a worker whose tickets are on a server");
    Err(Error::Overruled(why))
}

#[async_trait]
impl Tickets for Ledger {
    async fn commit(&self, change: Change) -> Result<Committed> {
        let (Some(was), None) = (change.was, &change.then) else {
            return not_a_workers("making a ticket");
        };
        let ticket = change.ticket.id.clone();
        if let Some(lease) = luggage::of_report(&change.event.what) {
            self.bring(&ticket, lease, &change.artefacts).await?;
        }
        let call = Call::Commit(Box::new(Decided {
            ticket,
            was,
            by: change.event.by,
            what: change.event.what,
            artefacts: change.artefacts,
        }));
        let number = self.send(&call).await.map_err(Lost::of_change)?;
        let claimed = Vec::new();
        Ok(Committed::Written { number, claimed })
    }

    async fn ticket(&self, id: &TicketId) -> Result<Option<Stored>> {
        self.ask(Call::Ticket { id: id.clone() }).await
    }

    async fn tickets(&self, query: &TicketQuery, page: &Page) -> Result<Paged<TicketRow>> {
        let (query, page) = (query.clone(), page.clone());
        self.ask(Call::Tickets { query, page }).await
    }

    async fn count_tickets(&self) -> Result<Vec<(Stage, u64)>> {
        not_a_workers("counting tickets")
    }

    async fn artefacts(&self, _: &TicketId) -> Result<Vec<Artefact>> {
        not_a_workers("listing files")
    }

    async fn policy(&self, _: &str) -> Result<Option<Policy>> {
        not_a_workers("reading recorded policies")
    }

    async fn recall(&self, key: &str) -> Result<Option<Remembered>> {
        let key = key.to_owned();
        self.ask(Call::Recall { key }).await
    }

    async fn add_statement(&self, _: ClaimStatement) -> Result<()> {
        not_a_workers("speaking for an agent")
    }

    async fn statements(
        &self,
        ticket: &TicketId,
        lease: Lease,
        most: u32,
    ) -> Result<Vec<ClaimStatement>> {
        let ticket = ticket.clone();
        let call = Call::Statements {
            ticket,
            lease,
            most,
        };
        self.ask(call).await
    }

    async fn put_epic(&self, _: Epic) -> Result<()> {
        not_a_workers("making an epic")
    }

    async fn epics(&self) -> Result<Vec<Epic>> {
        not_a_workers("reading epics")
    }

    async fn retain(&self, _: &Retention) -> Result<Removed> {
        not_a_workers("removing what is old")
    }
}

#[async_trait]
impl Jobs for Ledger {
    async fn enqueue(&self, _: Vec<FreeJob>) -> Result<Vec<JobId>> {
        not_a_workers("giving work to others")
    }

    /// News is brought by the server: there is never any for us.
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Leased>> {
        if request
            .queues
            .iter()
            .all(|served| served.queue == Queue::Tell)
        {
            return Ok(Vec::new());
        }
        let request = request.clone();
        self.ask(Call::Claim { request }).await
    }

    async fn finish(&self, ended: Vec<Ended>, then: Option<&ClaimRequest>) -> Result<Vec<Leased>> {
        if then.is_some() {
            return not_a_workers("claiming with a report");
        }
        self.ask::<()>(Call::Finish { ended }).await?;
        Ok(Vec::new())
    }

    async fn cancel(&self, _: JobId, _: &str, _: &str) -> Result<bool> {
        not_a_workers("cancelling a task")
    }

    async fn renew(&self, job: JobId, fence: u64, lease: Duration) -> Result<Time> {
        self.ask(Call::Renew { job, fence, lease }).await
    }

    async fn release(&self, _: JobId, _: u64) -> Result<()> {
        not_a_workers("giving a job back")
    }

    async fn expire(&self, _: u32) -> Result<Expired> {
        not_a_workers("looking after leases")
    }

    async fn jobs(&self, query: &JobQuery, page: &Page) -> Result<Paged<Job>> {
        if query.held.is_some() {
            return not_a_workers("a look into others' hands");
        }
        if let Some(key) = &query.key {
            let key = key.clone();
            let found: Option<Job> = self.ask(Call::JobByKey { key }).await?;
            let items = found.into_iter().collect();
            return Ok(Paged { items, next: None });
        }
        if query.queue == Some(Queue::Tell) {
            let items = Vec::new();
            return Ok(Paged { items, next: None });
        }
        let (query, page) = (query.clone(), page.clone());
        self.ask(Call::Jobs { query, page }).await
    }

    async fn job(&self, job: JobId) -> Result<Option<Job>> {
        self.ask(Call::Job { id: job }).await
    }

    async fn count_jobs(&self) -> Result<Vec<(Queue, JobState, u64)>> {
        not_a_workers("counting jobs")
    }

    async fn has_open(&self, queues: Option<&[Queue]>) -> Result<bool> {
        let queues = queues.map(<[Queue]>::to_vec);
        self.ask(Call::HasOpen { queues }).await
    }

    async fn wait(&self, request: &ClaimRequest, most: Duration) {
        let (request, most) = (request.clone(), most.min(WAIT_MAX));
        let waited: Result<()> = self.ask(Call::Wait { request, most }).await;
        if waited.is_err() {
            tokio::time::sleep(most.min(AFTER_TROUBLE)).await;
        }
    }
}

#[async_trait]
impl Events for Ledger {
    async fn events(&self, _: &EventQuery) -> Result<Vec<StoredEvent>> {
        not_a_workers("reading the log")
    }

    async fn wait_for_events(&self, _: Cursor, most: Duration) {
        tokio::time::sleep(most).await;
    }

    /// The server writes the log itself; only what was refused here is news to it.
    async fn note(&self, noted: Noted) -> Result<()> {
        if noted.name != "refused" {
            return Ok(());
        }
        let text = |name: &str| noted.body[name].as_str().unwrap_or_default().to_owned();
        let refusal = Refusal {
            event: text("event"),
            why: text("why"),
            ticket: noted.ticket.clone(),
        };
        self.ask(Call::Refuse(refusal)).await
    }

    /// Of a task that is in our hands.
    async fn spend(&self, _: &str, noted: Noted, usage: Usage) -> Result<()> {
        let number = |name: &str| noted.body[name].as_u64().unwrap_or_default();
        let spent = Spent {
            job: JobId(noted.body["job"].as_i64().unwrap_or_default()),
            fence: number("fence"),
            run: number("run"),
            usage,
        };
        self.ask(Call::Spend(spent)).await
    }

    async fn spent_since(&self, time: Time) -> Result<Usage> {
        self.ask(Call::SpentSince { time }).await
    }

    async fn lease_cursor(
        &self,
        _: &str,
        _: &str,
        _: CursorMove,
        _: Duration,
    ) -> Result<Option<Cursor>> {
        not_a_workers("reading the log")
    }

    async fn send(&self, _: NewMessage) -> Result<i64> {
        not_a_workers("sending messages")
    }

    async fn messages(&self, _: &str, _: u32) -> Result<Vec<Message>> {
        not_a_workers("reading messages")
    }

    async fn mark_processed(&self, _: i64, _: Time) -> Result<bool> {
        not_a_workers("answering messages")
    }

    async fn beat(&self, agent: Agent) -> Result<()> {
        self.ask(Call::Beat { agent }).await
    }

    async fn agents(&self) -> Result<Vec<Agent>> {
        not_a_workers("listing agents")
    }

    async fn database(&self) -> Result<Database> {
        Ok(Database {
            now: self.ask(Call::Now {}).await?,
            description: format!("the server at {}", self.server.place.url),
        })
    }
}

#[async_trait]
impl Records for Ledger {
    async fn restrict(&self, restriction: Restriction) -> Result<bool> {
        match restriction {
            Restriction::Pause(pause) => {
                self.ask::<()>(Call::Pause { pause }).await?;
                Ok(true)
            }
            Restriction::Resume(_) => not_a_workers("ending a pause"),
            Restriction::ProviderLimit { .. } => not_a_workers("limiting a provider"),
        }
    }

    async fn restrictions(&self) -> Result<Restrictions> {
        Ok(Restrictions {
            pauses: self.ask(Call::Pauses {}).await?,
            provider_limits: Vec::new(),
        })
    }

    /// Those of our own runs, and no others.
    async fn put_token(&self, token: Token) -> Result<()> {
        let (Some(ticket), Some(lease)) = (token.ticket, token.lease) else {
            return not_a_workers("making tokens for others");
        };
        let role = identity::role(&token.role).map_err(|failure| Error::Other(failure.message))?;
        let ends = token.expires_at.map_or(0, |end| end.0 - token.created_at.0);
        let pass = Pass {
            id: token.id,
            hash: token.hash,
            by: Actor {
                family: token.family,
                principal: token.principal,
                ..Actor::new(&token.agent, role)
            },
            ticket,
            lease,
            lasts_ms: u64::try_from(ends).unwrap_or_default(),
        };
        self.ask(Call::Issue(Box::new(pass))).await
    }

    async fn tokens(&self, query: &TokenQuery) -> Result<Vec<Token>> {
        let Some(hash) = query.hash.clone() else {
            return not_a_workers("listing tokens");
        };
        let token: Token = self.ask(Call::Me { hash }).await?;
        Ok(vec![token])
    }

    async fn revoke(&self, token: &str, _: Time) -> Result<bool> {
        let token = token.to_owned();
        self.ask(Call::Withdraw { token }).await
    }

    async fn caller(&self, _: &str, _: &str) -> Result<Option<CallerRecord>> {
        not_a_workers("what other callers were given")
    }

    async fn put_caller(&self, _: CallerRecord) -> Result<bool> {
        not_a_workers("what other callers were given")
    }

    async fn update_parcel(&self, update: ParcelUpdate) -> Result<()> {
        match update {
            ParcelUpdate::Put(parcel) => self.ask(Call::PutParcel(parcel.into())).await,
            ParcelUpdate::Want(key) => self.ask(Call::WantParcel { key }).await,
        }
    }

    async fn parcel(&self, key: &str) -> Result<Option<Parcel>> {
        let key = key.to_owned();
        let packed: Option<Packed> = self.ask(Call::Parcel { key }).await?;
        Ok(packed.map(Parcel::from))
    }

    async fn wanted_parcels(&self, _: u32) -> Result<Vec<String>> {
        not_a_workers("packing for others")
    }

    async fn update_rule(&self, _: RuleUpdate) -> Result<bool> {
        not_a_workers("accepting a rule")
    }

    async fn rules(&self, repository: &str, most: u32) -> Result<Vec<ProjectRule>> {
        let repository = repository.to_owned();
        self.ask(Call::Rules { repository, most }).await
    }
}
