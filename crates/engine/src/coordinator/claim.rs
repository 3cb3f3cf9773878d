//! The only place that claims jobs. It applies everything that keeps a job from a worker: lost
//! leases, the daily budget, paused providers and their fallbacks, limits, labels and dependencies.

mod request;

use std::collections::BTreeSet;
use std::time::Duration;

use flow::event::Lease;
use flow::task;
use flow::usage::Caps;
use flow::{Actor, EventKind, Policy, Queue, Task, Ticket, TicketId, fallback_agent};
use store::{
    ClaimTarget, Job, JobId, JobQuery, JobState, JobWork, Leased, Page, Pause, PauseScope,
    ServedQueue, Stored,
};

use super::{Error, JobRequest, LocalCoordinator, Offer, POLL, Report, WorkItem};
use crate::worker::name::{is_dead, process_name};

/// Maximum number of ready jobs read while looking for one that the worker can do.
const LOOK_MOST: u32 = 1000;
/// Maximum number of leases read per ticket, and of expired leases taken back at a time.
const LEASES_MAX: u32 = 100;
/// Maximum number of rules read per repository.
const RULES_MAX: u32 = 1000;
/// Lease of a dependency update. Notifying dependents takes milliseconds, so the update of a dead
/// process is soon free again.
const UPDATE_LEASE: Duration = Duration::from_secs(10);
/// Lease of a report to a forge: one comment a second.
const REPORT_LEASE: Duration = Duration::from_secs(600);
/// Maximum number of dependency updates claimed at a time.
const UPDATES_MAX: u32 = 32;

impl LocalCoordinator {
    /// Lists what the worker could claim, or waits until there may be something. There are many
    /// idle workers, so a request without a result costs the store only three calls.
    pub(super) async fn wait_for_offers(
        &self,
        request: &JobRequest,
        most: Duration,
    ) -> Result<Vec<Offer>, Error> {
        let ready = match request.ticket().filter(|_| !request.is_session()) {
            Some(id) => {
                if most.is_zero() {
                    self.notify_dependents().await?;
                }
                self.ready_jobs_of(id, request).await?
            }
            None => self.ready_jobs(request).await?,
        };
        if ready.is_empty() {
            self.wait_for_jobs(request, most).await;
            return Ok(Vec::new());
        }
        let offers = if self.is_paused(&request.name).await? {
            Vec::new()
        } else {
            self.offers(ready, request).await?
        };
        if offers.is_empty() {
            // These jobs stay ready and would wake us again at once.
            tokio::time::sleep(most.min(POLL)).await;
        }
        Ok(offers)
    }

    async fn wait_for_jobs(&self, request: &JobRequest, most: Duration) {
        if most.is_zero() {
            return;
        }
        // If no job is open at all, nothing happens before a new one wakes us.
        let is_quiet = most > POLL && self.store.has_open(None).await == Ok(false);
        let most = if is_quiet { most } else { most.min(POLL) };
        self.wait_for_any(request, most).await;
    }

    /// Returns when there may be a job for the request, or after `most`.
    pub(crate) async fn wait_for_any(&self, request: &JobRequest, most: Duration) {
        self.store.wait(&request.any_job(), most).await;
    }

    /// Returns the claimable jobs of the worker's queues, most urgent first.
    async fn ready_jobs(&self, request: &JobRequest) -> Result<Vec<Job>, Error> {
        let query = JobQuery {
            queues: request
                .queues
                .iter()
                .chain(&request.tasks)
                .cloned()
                .collect(),
            claimable: true,
            ticket: request.ticket().cloned(),
            agent: request.agents.first().map(|agent| agent.name.clone()),
            urgent_first: true,
            ..JobQuery::default()
        };
        if query.queues.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.store.jobs(&query, &page(LOOK_MOST)).await?.items)
    }

    /// Returns the claimable jobs of one ticket. A worker of one ticket may be the only one, so it
    /// takes lost leases back itself.
    async fn ready_jobs_of(&self, id: &TicketId, request: &JobRequest) -> Result<Vec<Job>, Error> {
        let mut jobs = self.jobs_of(id).await?;
        if self.take_back(id, &jobs, request).await? {
            jobs = self.jobs_of(id).await?;
        }
        let is_waiting = |job: &Job| job.state == JobState::Waiting;
        let now = if jobs.iter().any(is_waiting) {
            Some(self.store.now().await?)
        } else {
            None
        };
        jobs.retain(|job| {
            let is_due = is_waiting(job) && now.is_some_and(|now| job.not_before <= now);
            let is_ready = job.state == JobState::Ready || is_due;
            is_ready && request.queues.contains(&job.queue)
        });
        Ok(jobs)
    }

    /// Returns all jobs of a ticket, which has few.
    async fn jobs_of(&self, id: &TicketId) -> Result<Vec<Job>, Error> {
        let query = JobQuery {
            ticket: Some(id.clone()),
            ..JobQuery::default()
        };
        Ok(self.store.jobs(&query, &page(LOOK_MOST)).await?.items)
    }

    async fn offers(&self, ready: Vec<Job>, request: &JobRequest) -> Result<Vec<Offer>, Error> {
        let most = usize::try_from(request.most).unwrap_or(usize::MAX);
        let skip: BTreeSet<&WorkItem> = request.skip.iter().collect();
        let (mut offered, mut offers) = (BTreeSet::new(), Vec::new());
        for job in ready {
            if offers.len() >= most {
                break;
            }
            let of = match &job.ticket {
                Some(id) => WorkItem::Ticket(id.clone()),
                None => WorkItem::Task(job.id),
            };
            if skip.contains(&of) || !offered.insert(of.clone()) {
                continue;
            }
            offers.extend(self.offer(of, job, request).await?);
        }
        Ok(offers)
    }

    async fn offer(
        &self,
        of: WorkItem,
        job: Job,
        request: &JobRequest,
    ) -> Result<Option<Offer>, Error> {
        let ticket = match (&of, &job.work) {
            (WorkItem::Ticket(id), _) => self.ticket(id).await?.ticket,
            (WorkItem::Task(_), JobWork::Free { body, .. }) => {
                let Ok(ticket) = task::ticket_from_task(body, job.id.0, (self.clock)()) else {
                    return Ok(None);
                };
                if !self.are_done(&task::depends_on(body)).await? {
                    return Ok(None);
                }
                ticket
            }
            (WorkItem::Task(_), JobWork::Task(_)) => return Ok(None),
        };
        let context = &ticket.spec.context;
        let labels = request.labels.as_ref();
        if labels.is_some_and(|labels| !context.matches_labels(labels)) {
            return Ok(None);
        }
        let rules = match &context.repository {
            Some(repository) if !request.is_session() => self.accepted_rules(repository).await?,
            Some(_) | None => Vec::new(),
        };
        Ok(Some(Offer {
            of,
            ticket: Box::new(ticket),
            rules,
        }))
    }

    /// Returns the rules that people accepted for a repository, by its name in tickets.
    async fn accepted_rules(&self, repository: &str) -> Result<Vec<String>, Error> {
        let rules = self.store.rules(repository, RULES_MAX).await?.into_iter();
        let rules = rules.filter(|rule| rule.accepted);
        Ok(rules.map(|rule| findings::one_line(&rule.text)).collect())
    }

    /// Returns whether all these tasks are completed. The claim itself checks again.
    async fn are_done(&self, ids: &[String]) -> Result<bool, Error> {
        for id in ids {
            let job = self.store.job_by_key(&format!("task/{id}")).await?;
            if job.is_none_or(|job| job.state != JobState::Done) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether a person paused this worker, or all of its kind. The store itself applies
    /// the pauses of queues and providers.
    async fn is_paused(&self, name: &str) -> Result<bool, Error> {
        let kind = name.rsplit_once('-').map(|(kind, _)| kind);
        let pauses = self.lasting_pauses().await?;
        Ok(pauses.iter().any(|pause| match &pause.scope {
            PauseScope::Agent(paused) => paused == name || Some(paused.as_str()) == kind,
            PauseScope::Queue(_) | PauseScope::Provider(_) => false,
        }))
    }

    /// Returns the pauses that have not ended yet.
    async fn lasting_pauses(&self) -> Result<Vec<Pause>, Error> {
        let mut pauses = self.store.pauses().await?;
        if !pauses.is_empty() {
            let now = self.store.now().await?;
            pauses.retain(|pause| pause.until.is_none_or(|until| until > now));
        }
        Ok(pauses)
    }

    pub(super) async fn claim_jobs(&self, request: &JobRequest) -> Result<Vec<Leased>, Error> {
        match &request.only {
            Some(WorkItem::Ticket(id)) => self.claim_of_ticket(id, request).await,
            Some(WorkItem::Task(job)) => self.claim_task(Some(*job), request).await,
            None => self.claim_task(None, request).await,
        }
    }

    /// Claims jobs of one ticket, after lost leases, the daily budget and paused providers.
    async fn claim_of_ticket(
        &self,
        id: &TicketId,
        request: &JobRequest,
    ) -> Result<Vec<Leased>, Error> {
        // An agent that connects by itself is not paid by us.
        if !request.is_session() {
            let jobs = self.jobs_of(id).await?;
            self.take_back(id, &jobs, request).await?;
            self.apply_budget_and_pauses(id, request).await?;
        }
        let mut jobs = Vec::new();
        // An agent that the worker itself limits gets its own claim, up to its limit.
        for (queues, most) in request.served_queues() {
            let claim = store::ClaimRequest {
                queues,
                only: Some(ClaimTarget::Ticket(id.clone())),
                limit: most.min(request.remaining(&jobs)),
                ..request.any_job()
            };
            if claim.limit > 0 && !claim.queues.is_empty() {
                jobs.extend(self.store.claim(&claim).await?);
            }
        }
        Ok(jobs)
    }

    async fn apply_budget_and_pauses(
        &self,
        id: &TicketId,
        request: &JobRequest,
    ) -> Result<(), Error> {
        let stored = self.ticket(id).await?;
        let policy = self.policy_for(&stored, request).await?;
        self.check_daily_budget(&stored.ticket, &policy).await?;
        if policy.has_fallback() {
            self.assign_fallback(id, &policy, request).await?;
        }
        Ok(())
    }

    /// Reports to the ticket, before an agent is paid, that all tickets together spent too much
    /// today.
    async fn check_daily_budget(&self, ticket: &Ticket, policy: &Policy) -> Result<(), Error> {
        let caps = ticket.budget.unwrap_or(policy.budget).day;
        let mut jobs = ticket.jobs.iter();
        let is_paid = jobs.any(|job| job.task.is_paid() && job.holder.is_none());
        if caps == Caps::default() || !is_paid {
            return Ok(());
        }
        let spent = self
            .store
            .spent_since((self.clock)().start_of_day())
            .await?;
        match flow::exceeded_daily_budget(ticket, policy, spent) {
            Some(limit) => {
                self.report_as_system(&ticket.id, policy, EventKind::BudgetReached { limit })
                    .await
            }
            None => Ok(()),
        }
    }

    /// Gives a job whose agent's provider is paused to a fallback, if the policy names one that may
    /// take it and is not paused as well. `flow` decides; this code only knows who is paused.
    async fn assign_fallback(
        &self,
        id: &TicketId,
        policy: &Policy,
        request: &JobRequest,
    ) -> Result<(), Error> {
        let pauses = self.lasting_pauses().await?;
        let ticket = self.ticket(id).await?.ticket;
        for job in ticket.jobs.iter().filter(|job| job.holder.is_none()) {
            let of = |agent: Option<&str>| request.agent_for(&job.task, agent, policy);
            let is_out = |agent: Option<&str>| {
                let provider = of(agent).and_then(|agent| agent.provider.clone());
                let scope = provider.map(PauseScope::Provider);
                scope.is_some_and(|scope| pauses.iter().any(|pause| pause.scope == scope))
            };
            let fallback = fallback_agent(&ticket, policy, job.serial);
            if fallback.is_none_or(|fallback| is_out(Some(&fallback)))
                || !is_out(job.agent.as_deref())
            {
                continue;
            }
            let name = of(job.agent.as_deref()).map_or("the agent", |agent| &agent.name);
            let (serial, why) = (job.serial, format!("{name} is out of quota"));
            self.report_as_system(id, policy, EventKind::AgentOut { serial, why })
                .await?;
        }
        Ok(())
    }

    /// Reports an event as Countersign itself. A refusal is fine: another worker has taken the job
    /// meanwhile, or reported the same.
    async fn report_as_system(
        &self,
        id: &TicketId,
        policy: &Policy,
        what: EventKind,
    ) -> Result<(), Error> {
        match self
            .decide(id, policy, Report::new(Actor::system(), what))
            .await
        {
            Ok(_) => Ok(()),
            Err(error) if error.refusal().is_some() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Turns expired leases of one ticket, and leases of processes on this machine that are
    /// certainly dead, into events, so that their jobs go back to the queue. Returns true if there
    /// was one.
    async fn take_back(
        &self,
        id: &TicketId,
        jobs: &[Job],
        request: &JobRequest,
    ) -> Result<bool, Error> {
        // Dependency updates have no fixed worker; `notify_dependents` takes their leases back
        // itself.
        let is_news =
            |job: &Job| matches!(job.work, JobWork::Task(Task::Tell { .. } | Task::Report));
        let is_leased = |job: &&Job| job.state == JobState::Leased && !is_news(job);
        let (mut now, mut any_lost) = (None, false);
        for job in jobs.iter().filter(is_leased) {
            let Some(serial) = job.serial.filter(|_| !request.spare_leases) else {
                continue;
            };
            let lease = Lease {
                serial,
                fence: job.fence,
            };
            if request.leases.contains(&lease) {
                continue;
            }
            let now = match now {
                Some(now) => now,
                None => *now.insert(self.store.now().await?),
            };
            let is_dead = job.holder.as_deref().is_some_and(is_dead);
            let is_expired = job.lease_until.is_some_and(|until| until <= now);
            if !is_dead && !is_expired {
                continue;
            }
            if !is_expired {
                self.end_lease(job).await?;
            }
            let stored = self.ticket(id).await?;
            let policy = self.policy_for(&stored, request).await?;
            any_lost |= self.report_lost_lease(id, &policy, lease).await?;
        }
        Ok(any_lost)
    }

    /// Returns the policy of the project as the worker read it, or the recorded one of the ticket.
    async fn policy_for(&self, stored: &Stored, request: &JobRequest) -> Result<Policy, Error> {
        match &request.policy {
            Some(policy) => Ok((**policy).clone()),
            None => self.policy_of(stored).await,
        }
    }

    /// Ends a lease now, so that nobody waits for its expiry. The fence still holds.
    pub(super) async fn end_lease(&self, job: &Job) -> Result<(), Error> {
        match self.store.renew(job.id, job.fence, Duration::ZERO).await {
            Ok(_) | Err(store::Error::StaleFence { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reports a lost lease to its ticket. Returns false if the lease is not lost any more.
    async fn report_lost_lease(
        &self,
        id: &TicketId,
        policy: &Policy,
        lease: Lease,
    ) -> Result<bool, Error> {
        let report = Report::new(Actor::system(), EventKind::LeaseLost { lease });
        match self.decide(id, policy, report).await {
            Ok(_) => Ok(true),
            // Another node was faster, or the lease was prolonged at the same moment.
            Err(Error::Store(store::Error::Conflict { .. })) => Ok(false),
            Err(error) if error.is_stale() || error.refusal().is_some() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Takes the leases of processes on this machine back that are certainly dead, without waiting
    /// for their expiry, and returns the number of jobs of tickets. A server that was killed would
    /// otherwise wait for its own checks and landings.
    pub async fn take_back_dead(&self) -> Result<usize, Error> {
        let query = JobQuery {
            state: Some(JobState::Leased),
            ..JobQuery::default()
        };
        let page = Page {
            after: None,
            most: LOOK_MOST,
        };
        let leased = self.store.jobs(&query, &page).await?.items;
        let mut count = 0;
        for job in leased
            .iter()
            .filter(|job| job.holder.as_deref().is_some_and(is_dead))
        {
            self.end_lease(job).await?;
            // Dependency updates and reports have no fixed worker: the process that makes the next
            // one takes their leases back. The store does the same with tasks.
            let is_news = matches!(job.work, JobWork::Task(Task::Tell { .. } | Task::Report));
            let (Some(id), Some(serial), false) = (&job.ticket, job.serial, is_news) else {
                continue;
            };
            let fence = job.fence;
            let lease = Lease { serial, fence };
            count += usize::from(self.report_lost_lease_of(id, lease).await?);
        }
        Ok(count)
    }

    /// Reports a lost lease under the policy of its ticket; true if it counted.
    async fn report_lost_lease_of(&self, id: &TicketId, lease: Lease) -> Result<bool, Error> {
        let stored = self.ticket(id).await?;
        let policy = self.policy_of(&stored).await?;
        self.report_lost_lease(id, &policy, lease).await
    }

    /// Takes expired leases of all holders back and returns their number. Any number of nodes
    /// may do this: the store lets one of them win.
    pub async fn take_back_lapsed(&self) -> Result<usize, Error> {
        let expired = self.store.expire(LEASES_MAX).await?;
        let mut count = usize::try_from(expired.requeued).unwrap_or(usize::MAX);
        for job in expired.of_tickets {
            let (Some(id), Some(serial)) = (&job.ticket, job.serial) else {
                continue;
            };
            let fence = job.fence;
            let lease = Lease { serial, fence };
            count += usize::from(self.report_lost_lease_of(id, lease).await?);
        }
        Ok(count)
    }

    /// Claims the task that the worker chose, or the most urgent one of its queues.
    async fn claim_task(
        &self,
        job: Option<JobId>,
        request: &JobRequest,
    ) -> Result<Vec<Leased>, Error> {
        if let Some(job) = job
            && self.is_over_the_day(job, request).await?
        {
            return Ok(Vec::new());
        }
        let provider = request.agents.first();
        let provider = provider.and_then(|agent| agent.provider.clone());
        let served = request.tasks.iter().map(|queue| ServedQueue {
            provider: provider.clone(),
            ..ServedQueue::new(queue, &request.name)
        });
        let claim = store::ClaimRequest {
            queues: served.collect(),
            only: job.map(ClaimTarget::Job),
            limit: 1,
            ..request.any_job()
        };
        Ok(self.store.claim(&claim).await?)
    }

    /// Returns whether the day's spending of all tickets has reached the budget, which tasks share.
    async fn is_over_the_day(&self, job: JobId, request: &JobRequest) -> Result<bool, Error> {
        let stored = self.store.job(job).await?;
        let (Some(JobWork::Free { body, .. }), Some(policy)) =
            (stored.map(|stored| stored.work), &request.policy)
        else {
            return Ok(false);
        };
        let Ok(ticket) = task::ticket_from_task(&body, job.0, (self.clock)()) else {
            return Ok(true);
        };
        let spent = self
            .store
            .spent_since((self.clock)().start_of_day())
            .await?;
        Ok(flow::exceeded_daily_budget(&ticket, policy, spent).is_some())
    }

    /// Claims jobs without a ticket that Countersign itself performs next to the store.
    pub async fn claim_system_tasks(
        &self,
        queue: &Queue,
        most: u32,
        lease: Duration,
    ) -> Result<Vec<Leased>, Error> {
        let agent = Actor::system().agent;
        let claim = store::ClaimRequest {
            limit: most,
            ..store::ClaimRequest::new(process_name(), &agent, [queue], lease)
        };
        Ok(self.store.claim(&claim).await?)
    }

    /// Waits until there may be such a job, or for `most`.
    pub async fn wait_for_system_tasks(&self, queue: &Queue, most: Duration) {
        let agent = Actor::system().agent;
        let claim = store::ClaimRequest::new(process_name(), &agent, [queue], UPDATE_LEASE);
        self.store.wait(&claim, most).await;
    }

    /// Claims dependency updates of any ticket.
    pub(super) async fn claim_news(&self) -> Result<Vec<Leased>, Error> {
        let agent = Actor::system().agent;
        let claim = store::ClaimRequest {
            limit: UPDATES_MAX,
            ..store::ClaimRequest::new(process_name(), &agent, [Queue::Tell], UPDATE_LEASE)
        };
        Ok(self.store.claim(&claim).await?)
    }

    /// Claims the due reports of one ticket.
    pub(super) async fn claim_reports_of(&self, id: &TicketId) -> Result<Vec<Leased>, Error> {
        let claim = store::ClaimRequest {
            limit: UPDATES_MAX,
            only: Some(ClaimTarget::Ticket(id.clone())),
            ..store::ClaimRequest::new(process_name(), "countersign", [Queue::Report], REPORT_LEASE)
        };
        Ok(self.store.claim(&claim).await?)
    }
}

pub(super) fn page(most: u32) -> Page {
    Page { after: None, most }
}
