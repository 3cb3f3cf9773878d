//! The only place that claims. What keeps a job from a worker is looked at here: lost leases, the
//! budget of the day, paused providers and their stand-ins, limits, labels, dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flow::event::Lease;
use flow::free;
use flow::usage::Caps;
use flow::{Actor, EventKind, Policy, Queue, Task, Ticket, TicketId, stand_in};
use store::{
    ClaimTarget, Job, JobId, JobQuery, JobState, JobWork, Leased, Page, Pause, PauseScope,
    ServedQueue, Stored,
};

use super::{AgentClaim, Error, JobRequest, LocalCoordinator, Offer, POLL, Report, WorkItem};
use crate::worker::name::{is_dead, process_name};

/// Ready jobs looked through for one that the worker can do.
const LOOK_MOST: u32 = 1000;
/// Leases of one ticket that are looked through, and lapsed ones taken back at a time.
const LEASES_MAX: u32 = 100;
/// Rules that people answered for one repository.
const RULES_MAX: u32 = 1000;
/// Telling dependents takes milliseconds, so news of a dead process is free again soon.
const NEWS_LEASE: Duration = Duration::from_secs(10);
const NEWS_MAX: u32 = 32;

impl LocalCoordinator {
    /// Lists what the worker could claim, or waits until there may be something. Idle workers are
    /// many, so a look in vain costs the store three calls.
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
            // These jobs stay ready and would wake us at once.
            tokio::time::sleep(most.min(POLL)).await;
        }
        Ok(offers)
    }

    async fn wait_for_jobs(&self, request: &JobRequest, most: Duration) {
        if most.is_zero() {
            return;
        }
        // Where no job is open at all, nothing happens before a new one wakes us.
        let is_quiet = most > POLL && self.store.has_open(None).await == Ok(false);
        let most = if is_quiet { most } else { most.min(POLL) };
        self.wait_for_any(request, most).await;
    }

    /// Returns when there may be a job for the request, or after `most`.
    pub(crate) async fn wait_for_any(&self, request: &JobRequest, most: Duration) {
        self.store.wait(&request.any_job(), most).await;
    }

    /// Jobs that could be claimed from the worker's queues, most urgent first.
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

    /// The same of one ticket. Its worker has nobody beside it who takes lost leases back.
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

    /// A ticket has few jobs.
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
        let (mut seen, mut offers) = (BTreeSet::new(), Vec::new());
        for job in ready {
            if offers.len() >= most {
                break;
            }
            let of = match &job.ticket {
                Some(id) => WorkItem::Ticket(id.clone()),
                None => WorkItem::Task(job.id),
            };
            if skip.contains(&of) || !seen.insert(of.clone()) {
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
                let Ok(ticket) = free::ticket(body, job.id.0, (self.clock)()) else {
                    return Ok(None);
                };
                if !self.are_done(&free::depends_on(body)).await? {
                    return Ok(None);
                }
                ticket
            }
            (WorkItem::Task(_), JobWork::Task(_)) => return Ok(None),
        };
        let context = &ticket.spec.context;
        let labels = request.labels.as_ref();
        if labels.is_some_and(|labels| !context.suits(labels)) {
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

    /// Rules that people accepted for a repository, by the name that tickets have for it.
    async fn accepted_rules(&self, repository: &str) -> Result<Vec<String>, Error> {
        let rules = self.store.rules(repository, RULES_MAX).await?.into_iter();
        let rules = rules.filter(|rule| rule.accepted);
        Ok(rules.map(|rule| findings::one_line(&rule.text)).collect())
    }

    /// Whether all these tasks have been completed. The claim itself looks again.
    async fn are_done(&self, ids: &[String]) -> Result<bool, Error> {
        for id in ids {
            let job = self.store.job_by_key(&format!("task/{id}")).await?;
            if job.is_none_or(|job| job.state != JobState::Done) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a person paused this worker, or all of its kind. The store itself minds the pauses
    /// of queues and providers.
    async fn is_paused(&self, name: &str) -> Result<bool, Error> {
        let kind = name.rsplit_once('-').map(|(kind, _)| kind);
        let pauses = self.lasting_pauses().await?;
        Ok(pauses.iter().any(|pause| match &pause.scope {
            PauseScope::Agent(paused) => paused == name || Some(paused.as_str()) == kind,
            PauseScope::Queue(_) | PauseScope::Provider(_) => false,
        }))
    }

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

    async fn claim_of_ticket(
        &self,
        id: &TicketId,
        request: &JobRequest,
    ) -> Result<Vec<Leased>, Error> {
        // An agent that connects by itself is paid by others.
        if !request.is_session() {
            let jobs = self.jobs_of(id).await?;
            self.take_back(id, &jobs, request).await?;
            self.mind_budget_and_pauses(id, request).await?;
        }
        let mut jobs = Vec::new();
        // An agent that the worker itself limits is claimed for apart, up to its limit.
        for (queues, most) in request.served_queues() {
            let claim = store::ClaimRequest {
                queues,
                only: Some(ClaimTarget::Ticket(id.clone())),
                limit: most.min(request.room(&jobs)),
                ..request.any_job()
            };
            if claim.limit > 0 && !claim.queues.is_empty() {
                jobs.extend(self.store.claim(&claim).await?);
            }
        }
        Ok(jobs)
    }

    async fn mind_budget_and_pauses(
        &self,
        id: &TicketId,
        request: &JobRequest,
    ) -> Result<(), Error> {
        let stored = self.ticket(id).await?;
        let policy = self.policy_for(&stored, request).await?;
        self.mind_the_budget_of_the_day(&stored.ticket, &policy)
            .await?;
        if policy.has_fallback() {
            self.hand_over(id, &policy, request).await?;
        }
        Ok(())
    }

    /// Tells the ticket before an agent is paid that all tickets together spent too much today.
    async fn mind_the_budget_of_the_day(
        &self,
        ticket: &Ticket,
        policy: &Policy,
    ) -> Result<(), Error> {
        let caps = ticket.budget.unwrap_or(policy.budget).day;
        let mut jobs = ticket.jobs.iter();
        let is_paid = jobs.any(|job| job.task.is_paid() && job.holder.is_none());
        if caps == Caps::default() || !is_paid {
            return Ok(());
        }
        let spent = self.store.spent_since((self.clock)().day()).await?;
        match flow::over_day(ticket, policy, spent) {
            Some(limit) => {
                self.tell_ticket(&ticket.id, policy, EventKind::BudgetReached { limit })
                    .await
            }
            None => Ok(()),
        }
    }

    /// A job whose agent's provider is paused goes to its fallback, where the policy names one that
    /// may take it and is not paused as well. `flow` decides; here it is only known who is paused.
    async fn hand_over(
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
            let other = stand_in(&ticket, policy, job.serial);
            if other.is_none_or(|other| is_out(Some(&other))) || !is_out(job.agent.as_deref()) {
                continue;
            }
            let who = of(job.agent.as_deref()).map_or("the agent", |agent| &agent.name);
            let (serial, why) = (job.serial, format!("{who} is out of quota"));
            self.tell_ticket(id, policy, EventKind::AgentOut { serial, why })
                .await?;
        }
        Ok(())
    }

    /// A refusal is no trouble: somebody else has taken the job up meanwhile, or said the same.
    async fn tell_ticket(
        &self,
        id: &TicketId,
        policy: &Policy,
        what: EventKind,
    ) -> Result<(), Error> {
        match self
            .decide(id, policy, Report::new(Actor::house(), what))
            .await
        {
            Ok(_) => Ok(()),
            Err(error) if error.refusal().is_some() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Leases of one ticket that ran out, and those of processes on this machine that are certainly
    /// dead, become events: the job goes back to its queue. True where there was one.
    async fn take_back(
        &self,
        id: &TicketId,
        jobs: &[Job],
        request: &JobRequest,
    ) -> Result<bool, Error> {
        // News belongs to nobody in particular; whoever brings some looks after it.
        let is_news = |job: &Job| matches!(job.work, JobWork::Task(Task::Tell { .. }));
        let is_leased = |job: &&Job| job.state == JobState::Leased && !is_news(job);
        let (mut now, mut taken) = (None, false);
        for job in jobs.iter().filter(is_leased) {
            let Some(serial) = job.serial.filter(|_| !request.spare_leases) else {
                continue;
            };
            let lease = Lease {
                serial,
                fence: job.fence,
            };
            if request.held.contains(&lease) {
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
            taken |= self.report_lost_lease(id, &policy, lease).await?;
        }
        Ok(taken)
    }

    /// The project's policy as the worker read it, else the one on the ticket's record.
    async fn policy_for(&self, stored: &Stored, request: &JobRequest) -> Result<Policy, Error> {
        match &request.policy {
            Some(policy) => Ok((**policy).clone()),
            None => self.policy_of(stored).await,
        }
    }

    /// The fence still holds; only the waiting for the lease's end is cut short.
    pub(super) async fn end_lease(&self, job: &Job) -> Result<(), Error> {
        match self.store.renew(job.id, job.fence, Duration::ZERO).await {
            Ok(_) | Err(store::Error::StaleFence { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Tells the ticket that a lease on one of its jobs is lost; false where that was not so any more.
    async fn report_lost_lease(
        &self,
        id: &TicketId,
        policy: &Policy,
        lease: Lease,
    ) -> Result<bool, Error> {
        let report = Report::new(Actor::house(), EventKind::LeaseLost { lease });
        match self.decide(id, policy, report).await {
            Ok(_) => Ok(true),
            // Another node was faster, or the lease was prolonged in this instant.
            Err(Error::Store(store::Error::Conflict { .. })) => Ok(false),
            Err(error) if error.is_stale() || error.refusal().is_some() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Takes back leases that ran out, whoever held them; says how many. Any number of nodes may do
    /// it: the store lets one of them win.
    pub async fn take_back_lapsed(&self) -> Result<usize, Error> {
        let expired = self.store.expire(LEASES_MAX).await?;
        let mut taken = usize::try_from(expired.requeued).unwrap_or(usize::MAX);
        for job in expired.of_tickets {
            let (Some(id), Some(serial)) = (&job.ticket, job.serial) else {
                continue;
            };
            let stored = self.ticket(id).await?;
            let policy = self.policy_of(&stored).await?;
            let fence = job.fence;
            let lease = Lease { serial, fence };
            taken += usize::from(self.report_lost_lease(id, &policy, lease).await?);
        }
        Ok(taken)
    }

    /// A task that the worker chose, or the most urgent of its queues.
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

    /// Compares the day's spending of all tickets with the budget: tasks share it.
    async fn is_over_the_day(&self, job: JobId, request: &JobRequest) -> Result<bool, Error> {
        let found = self.store.job(job).await?;
        let (Some(JobWork::Free { body, .. }), Some(policy)) =
            (found.map(|found| found.work), &request.policy)
        else {
            return Ok(false);
        };
        let Ok(ticket) = free::ticket(&body, job.0, (self.clock)()) else {
            return Ok(true);
        };
        let spent = self.store.spent_since((self.clock)().day()).await?;
        Ok(flow::over_day(&ticket, policy, spent).is_some())
    }

    /// News for dependents, of whichever ticket.
    pub(super) async fn claim_news(&self) -> Result<Vec<Leased>, Error> {
        let agent = Actor::house().agent;
        let claim = store::ClaimRequest {
            limit: NEWS_MAX,
            ..store::ClaimRequest::new(process_name(), &agent, [Queue::Tell], NEWS_LEASE)
        };
        Ok(self.store.claim(&claim).await?)
    }
}

pub(super) fn page(most: u32) -> Page {
    Page { after: None, most }
}

impl JobRequest {
    pub fn ticket(&self) -> Option<&TicketId> {
        match &self.only {
            Some(WorkItem::Ticket(id)) => Some(id),
            Some(WorkItem::Task(_)) | None => None,
        }
    }

    /// Any job of the worker's queues.
    fn any_job(&self) -> store::ClaimRequest {
        let queues = self.queues.iter().chain(&self.tasks);
        store::ClaimRequest {
            worker: self.worker.clone(),
            queues: queues
                .map(|queue| ServedQueue::new(queue, &self.name))
                .collect(),
            labels: self.labels.clone(),
            only: self.ticket().cloned().map(ClaimTarget::Ticket),
            exclusive: self.alone_in.clone(),
            lease: self.lease,
            limit: self.most,
            ..store::ClaimRequest::default()
        }
    }

    /// The queues with the agents that serve them, and how many jobs each group may get.
    fn served_queues(&self) -> Vec<(Vec<ServedQueue>, u32)> {
        let system = self.queues.iter().filter(|queue| queue.is_of_system());
        let agent = Actor::house().agent;
        let mut together: Vec<ServedQueue> = system
            .map(|queue| ServedQueue::new(queue, &agent))
            .collect();
        let mut limited: BTreeMap<&Option<String>, (Vec<ServedQueue>, u32)> = BTreeMap::new();
        for agent in &self.agents {
            if !self.queues.contains(&agent.queue) {
                continue;
            }
            let served = agent.names.iter().map(|name| ServedQueue {
                assigned_only: agent.named_only,
                provider: agent.provider.clone(),
                ..ServedQueue::new(&agent.queue, name)
            });
            match agent.most {
                // Agents of one provider share its limit.
                Some(most) => {
                    let group = limited.entry(&agent.provider).or_default();
                    group.0.extend(served);
                    group.1 = most;
                }
                None => together.extend(served),
            }
        }
        let mut groups: Vec<(Vec<ServedQueue>, u32)> = limited.into_values().collect();
        groups.push((together, u32::MAX));
        groups
    }

    /// An agent that connects by itself, which has one claim at a time.
    fn is_session(&self) -> bool {
        !self.alone_in.is_empty()
    }

    /// Jobs that the worker still has room for.
    fn room(&self, jobs: &[Leased]) -> u32 {
        let taken = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
        self.most.saturating_sub(taken)
    }

    /// The agent that takes a job meant for this name, or for anybody; none for a linter's.
    fn agent_for(&self, task: &Task, name: Option<&str>, policy: &Policy) -> Option<&AgentClaim> {
        if let Task::Review { seat, .. } = task
            && let Some(spec) = policy.reviewers.iter().find(|spec| spec.name == *seat)
            && spec.command.is_some()
        {
            return None;
        }
        let mut agents = self
            .agents
            .iter()
            .filter(|agent| agent.queue == task.queue());
        match name {
            Some(name) => agents.find(|agent| agent.names.iter().any(|known| known == name)),
            None => agents.find(|agent| !agent.named_only),
        }
    }
}
