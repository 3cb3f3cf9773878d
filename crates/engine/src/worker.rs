//! The worker loop: claims ready jobs, performs them and reports the results, until it is stopped
//! or its one ticket rests. Any number of workers may serve one coordinator, on any number of
//! machines. Leases keep them apart, and a job that one loses goes to the next.
//!
//! The worker decides nothing about tickets: it performs what the coordinator leases to it. It
//! keeps no state that a crash could lose, because every claim is in the store.

pub mod name;
pub mod permits;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use flow::event::Lease;
use flow::{Queue, Role, Ticket, TicketId};
use store::Leased;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::Instant;

use crate::coordinator::{
    AgentClaim, Coordinator, Error, JobRequest, Offer, Outage, POLL, ProgressListener, QUIET_POLL,
    WorkItem,
};
use crate::jobs::{self, task::ClaimedTask};
use crate::process::{StopSignal, Stopper};
use crate::project::{AgentConfig, Project};
use permits::{ProviderPermit, ProviderPermits};

/// Back-off after an empty claim. A job held back by a limit stays ready and would wake us at once.
const BACK_OFF: Duration = Duration::from_millis(250);
/// Back-off after an error that belongs to no job, such as an unreachable store.
const AFTER_ERROR: Duration = Duration::from_secs(1);
/// Time before the worker looks again at a ticket or task that it cannot work on.
const SKIP_FOR: Duration = Duration::from_secs(10);
/// Maximum number of skipped items that the worker remembers.
const SKIPPED_MAX: usize = 1000;
/// Offers per listing. Workers race for the same jobs, so list again after this many misses.
const OFFERS_MAX: u32 = 32;
/// Concurrent jobs of one ticket when one process runs the whole ticket.
const JOBS_OF_TICKET: usize = 8;

/// Loads what a job needs: the repository, its rules and its agents.
#[async_trait]
pub trait Projects: fmt::Debug + Send + Sync {
    /// Returns `None` if the offer cannot be worked on here: its repository is missing, or its
    /// rules cannot be read.
    async fn load(&self, offer: &Offer) -> Option<Arc<Project>>;
}

/// Returns the same project for every offer, for a worker that serves one ticket.
#[async_trait]
impl Projects for Arc<Project> {
    async fn load(&self, _: &Offer) -> Option<Arc<Project>> {
        Some(Self::clone(self))
    }
}

/// Configuration of a worker. `run`, `worker` and `worker --server` differ only in this.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// The name people see and pause: `qa-1`.
    pub name: String,
    /// The name on leases.
    pub holder: String,
    pub queues: Vec<Queue>,
    /// Queues of tasks that belong to no ticket.
    pub tasks: Vec<Queue>,
    /// Labels that a ticket or task may require; `None` means any.
    pub labels: Option<BTreeSet<String>>,
    /// Maximum number of concurrent jobs.
    pub jobs_max: usize,
    pub permits: ProviderPermits,
    /// Serves only this ticket, ends when it rests, and fails if that cannot happen.
    pub ticket: Option<TicketId>,
    /// Time after an outage in which living workers can renew their leases before any is taken
    /// back.
    pub spare_leases: Duration,
    /// Receives notices about outages.
    pub listener: Option<Arc<dyn ProgressListener>>,
}

impl WorkerConfig {
    /// Configures a worker that runs one ticket with all its jobs.
    pub fn for_ticket(id: &TicketId, project: &Project) -> Self {
        Self {
            name: String::new(),
            holder: name::process_name(),
            queues: Queue::OF_LOOP
                .into_iter()
                // The coordinator performs the updates of dependents itself; no worker claims them.
                .filter(|queue| !queue.is_beside_loop())
                .collect(),
            tasks: Vec::new(),
            labels: None,
            jobs_max: JOBS_OF_TICKET,
            permits: ProviderPermits::default(),
            ticket: Some(id.clone()),
            spare_leases: Duration::from_secs(project.config.policy.limits.lease_secs),
            listener: project.listener.clone(),
        }
    }

    /// Configures one of several workers of this process. Each does one job at a time, for any
    /// ticket.
    pub fn replica(name: &str, queues: Vec<Queue>) -> Self {
        Self {
            name: name.to_owned(),
            holder: name::replica_name(name),
            queues,
            tasks: Vec::new(),
            // A replica has no labels, so it takes only work that requires none.
            labels: Some(BTreeSet::new()),
            jobs_max: 1,
            permits: ProviderPermits::default(),
            ticket: None,
            spare_leases: Duration::ZERO,
            listener: None,
        }
    }
}

/// Signals that stop a worker.
#[derive(Clone, Debug)]
pub struct Shutdown {
    /// Stops claiming; running jobs finish.
    pub drain: StopSignal,
    /// Interrupts running jobs and gives them back.
    pub halt: StopSignal,
}

impl Shutdown {
    pub fn now(stop: StopSignal) -> Self {
        Self {
            drain: stop.clone(),
            halt: stop,
        }
    }
}

/// Works until it is stopped and nothing runs any more. A worker of one ticket ends when the ticket
/// rests, and returns it.
pub async fn run(
    coordinator: Arc<dyn Coordinator>,
    projects: &dyn Projects,
    config: &WorkerConfig,
    mut shutdown: Shutdown,
) -> Result<Option<Ticket>, Error> {
    let mut worker = WorkerState::new(coordinator, projects, config);
    loop {
        let turn = worker.turn(&mut shutdown).await;
        match turn {
            Ok(()) => worker.outage.is_over(),
            Err(error) => worker.recover(error, &mut shutdown).await?,
        }
        match worker.is_done().await {
            Ok(None) => {}
            Ok(Some(Finished(ticket))) => return Ok(ticket),
            Err(error) => worker.recover(error, &mut shutdown).await?,
        }
    }
}

type PendingOffers = Pin<Box<dyn Future<Output = Result<Vec<Offer>, Error>> + Send>>;

async fn next(pending: &mut Option<PendingOffers>) -> Result<Vec<Offer>, Error> {
    match pending {
        Some(offers) => offers.await,
        None => std::future::pending().await,
    }
}

/// Signals that no work is left. Holds the ticket if the worker serves one.
struct Finished(Option<Ticket>);

/// State of a running worker.
struct WorkerState<'a> {
    coordinator: Arc<dyn Coordinator>,
    projects: &'a dyn Projects,
    config: &'a WorkerConfig,
    running: JoinSet<(Option<Lease>, Result<(), Error>)>,
    /// Leases of running jobs. They do not count as lost, however late their renewal is. The
    /// coordinator gives back expired leases when it lists offers. A slow disk can delay our
    /// renewal, and a running job must not be handed to another worker for that.
    held: Vec<Lease>,
    landing: Option<AbortHandle>,
    skipped: BTreeMap<WorkItem, Instant>,
    draining: bool,
    halting: bool,
    halter: Stopper,
    halt: StopSignal,
    /// Request for offers that is under way. It also writes to the store, so it is never dropped
    /// half-way.
    pending_offers: Option<PendingOffers>,
    /// False until the first request for offers, which must return at once.
    has_looked: bool,
    back_off: Option<Instant>,
    /// Time until which no lease is taken back after an outage, so that living workers can renew
    /// theirs.
    spare_leases: Option<Instant>,
    outage: Outage,
}

impl<'a> WorkerState<'a> {
    fn new(
        coordinator: Arc<dyn Coordinator>,
        projects: &'a dyn Projects,
        config: &'a WorkerConfig,
    ) -> Self {
        let (halter, halt) = StopSignal::pair();
        Self {
            outage: Outage::new(config.listener.clone()),
            coordinator,
            projects,
            config,
            running: JoinSet::new(),
            held: Vec::new(),
            landing: None,
            skipped: BTreeMap::new(),
            draining: false,
            halting: false,
            halter,
            halt,
            pending_offers: None,
            has_looked: false,
            back_off: None,
            spare_leases: None,
        }
    }

    /// Starts the first offer that can be worked on here, handles the end of a job, or reacts to a
    /// stop signal.
    async fn turn(&mut self, shutdown: &mut Shutdown) -> Result<(), Error> {
        let has_room = !self.draining && self.running.len() < self.config.jobs_max;
        let mut looking = self.pending_offers.take();
        if has_room && looking.is_none() {
            looking = Some(self.request_offers());
        }
        // The order matters: a job that has ended frees room and may end the loop. Stop signals
        // come before new work.
        tokio::select! {
            biased;
            Some(ended) = self.running.join_next() => {
                // The request goes on in the next turn, as dropping it could lose a claim that was
                // written.
                self.pending_offers = looking;
                self.end(ended)
            }
            () = shutdown.halt.requested(), if !self.halting => {
                (self.draining, self.halting) = (true, true);
                self.halter.stop();
                Ok(())
            }
            () = shutdown.drain.requested(), if !self.draining => {
                self.draining = true;
                Ok(())
            }
            offers = next(&mut looking), if has_room => {
                self.has_looked = true;
                self.start_first(offers?).await
            }
        }
    }

    fn request_offers(&mut self) -> PendingOffers {
        let (request, most) = (self.request(), self.wait_limit());
        let (coordinator, back_off) = (Arc::clone(&self.coordinator), self.back_off);
        Box::pin(async move {
            if let Some(until) = back_off {
                tokio::time::sleep_until(until).await;
            }
            coordinator.wait(&request, most).await
        })
    }

    async fn start_first(&mut self, offers: Vec<Offer>) -> Result<(), Error> {
        self.back_off = None;
        let any_offers = !offers.is_empty();
        for offer in offers {
            if self.start(offer).await? {
                return Ok(());
            }
        }
        if any_offers {
            // A worker of one ticket has nothing else to do, so it looks again sooner.
            let pause = if self.config.ticket.is_some() {
                BACK_OFF
            } else {
                POLL
            };
            self.back_off = Some(Instant::now() + pause);
        }
        Ok(())
    }

    /// Claims the ready jobs of one offer and starts them. Returns false if it got none.
    async fn start(&mut self, offer: Offer) -> Result<bool, Error> {
        let Some(project) = self.projects.load(&offer).await else {
            // A full list only means that the worker looks again sooner than needed.
            if self.skipped.len() < SKIPPED_MAX {
                self.skipped.insert(offer.of, Instant::now());
            }
            return Ok(false);
        };
        let ticket = *offer.ticket;
        let lands = self.config.queues.contains(&Queue::Merge) && project.lands_here();
        if lands
            && project.uses_merge_train()
            && flow::merge_train::waits_to_land(&ticket)
            && !self.is_landing()
        {
            self.start_landing(&project, &ticket.id);
            return Ok(true);
        }
        let (request, mut permits) = self.claim_request(&project, offer.of.clone());
        let jobs = self.coordinator.claim(&request).await?;
        // With nothing running and nothing claimed, a missing agent would make the run wait for
        // ever.
        if jobs.is_empty() && self.config.ticket.is_some() && self.running.is_empty() {
            check_agents_exist(&project, &ticket)?;
        }
        let started = !jobs.is_empty();
        for job in jobs {
            let provider = job.provider.as_deref().unwrap_or_default();
            // Jobs may share a provider, so each takes one permit; unused ones are dropped and free
            // again.
            let permit = permits.get_mut(provider).and_then(Vec::pop);
            self.begin(&project, &ticket, job, permit);
        }
        Ok(started)
    }

    /// Spawns a claimed job. The permit of its provider is held until it ends.
    fn begin(
        &mut self,
        project: &Arc<Project>,
        ticket: &Ticket,
        job: Leased,
        permit: Option<ProviderPermit>,
    ) {
        let (project, halt) = (Arc::clone(project), self.halt.clone());
        let fence = job.fence;
        let lease = job.serial.map(|serial| Lease { serial, fence });
        self.held.extend(lease);
        if job.ticket.is_some() {
            let job = jobs::perform(project, job, halt);
            self.running.spawn(async move {
                let ended = job.await;
                drop(permit);
                (lease, ended)
            });
            return;
        }
        let task = ClaimedTask {
            project,
            job,
            ticket: ticket.clone(),
            by: self.config.name.clone(),
        };
        let job = Box::pin(jobs::task::perform(task, halt));
        self.running.spawn(async move {
            let ended = job.await;
            drop(permit);
            (lease, ended)
        });
    }

    /// Takes the turn in the landing queue. Its holder lands all waiting tickets, including this
    /// one.
    fn start_landing(&mut self, project: &Arc<Project>, id: &TicketId) {
        let turn = jobs::merge_train::run_merge_train(
            Arc::clone(project),
            id.clone(),
            self.config.holder.clone(),
            self.halt.clone(),
        );
        let turn = Box::pin(turn);
        self.landing = Some(self.running.spawn(async move { (None, turn.await) }));
    }

    fn is_landing(&self) -> bool {
        self.landing
            .as_ref()
            .is_some_and(|landing| !landing.is_finished())
    }

    fn end(
        &mut self,
        ended: Result<(Option<Lease>, Result<(), Error>), JoinError>,
    ) -> Result<(), Error> {
        // A panic of a job. Its lease expires and the job goes to another attempt.
        let (lease, ended) = ended.map_err(|error| Error::Broken(error.to_string()))?;
        self.held.retain(|other| Some(*other) != lease);
        ended
    }

    /// Returns `Finished` if no work is left.
    async fn is_done(&mut self) -> Result<Option<Finished>, Error> {
        let Some(id) = &self.config.ticket else {
            return Ok((self.draining && self.running.is_empty()).then_some(Finished(None)));
        };
        let ticket = self.coordinator.ticket(id).await?;
        let ticket = ticket.ok_or_else(|| Error::NoSuchTicket(id.clone()))?;
        if ticket.stage.is_terminal() {
            // A person ended the ticket, so no one needs the results of running jobs.
            self.halter.stop();
        }
        // A draining worker ends with its jobs, wherever the ticket is.
        let rests = self.draining || ticket.rests();
        Ok((rests && self.running.is_empty()).then_some(Finished(Some(ticket))))
    }

    /// Waits after an error that belongs to no job; running jobs continue. A worker of one ticket
    /// gives up if waiting does not help. Other workers never give up.
    async fn recover(&mut self, error: Error, shutdown: &mut Shutdown) -> Result<(), Error> {
        // After an outage every lease looks expired, because no worker could renew during it.
        self.spare_leases = Some(Instant::now() + self.config.spare_leases);
        if self.config.ticket.is_none() {
            tracing::warn!(worker = self.config.name, %error, "the worker continues after an error");
            self.back_off = Some(Instant::now() + AFTER_ERROR);
            return Ok(());
        }
        let is_away = error.is_transient();
        let waited = if self.draining {
            Err(error)
        } else {
            self.outage.wait(error, &mut shutdown.drain).await
        };
        if waited.is_err() && (is_away || self.draining) {
            // The worker stops in order here: running jobs end before it returns.
            self.draining = true;
            self.halter.stop();
            // Their results are lost if the store is away, but their processes must not outlive us.
            while self.running.join_next().await.is_some() {}
        }
        waited
    }

    /// Returns how long a request for offers may wait when there are none.
    fn wait_limit(&self) -> Duration {
        match (self.has_looked, &self.config.ticket) {
            (false, _) => Duration::ZERO,
            // A person may end the ticket, and that sends no wake-up.
            (true, Some(_)) => POLL,
            (true, None) => QUIET_POLL,
        }
    }

    fn request(&mut self) -> JobRequest {
        // A skipped repository may be back: someone cloned it or repaired its rules.
        self.skipped.retain(|_, since| since.elapsed() < SKIP_FOR);
        let mut queues = self.config.queues.clone();
        if self.is_landing() {
            queues.retain(|queue| *queue != Queue::Merge);
        }
        JobRequest {
            name: self.config.name.clone(),
            worker: self.config.holder.clone(),
            queues,
            tasks: self.config.tasks.clone(),
            labels: self.config.labels.clone(),
            only: self.config.ticket.clone().map(WorkItem::Ticket),
            skip: self.skipped.keys().cloned().collect(),
            leases: self.held.clone(),
            spare_leases: self
                .spare_leases
                .is_some_and(|until| Instant::now() < until),
            most: OFFERS_MAX,
            ..JobRequest::default()
        }
    }

    /// Builds the claim request for one offer, with the names of the project's agents, and acquires
    /// permits of the providers that are limited here.
    fn claim_request(
        &mut self,
        project: &Project,
        of: WorkItem,
    ) -> (JobRequest, BTreeMap<String, Vec<ProviderPermit>>) {
        let free = self.config.jobs_max.saturating_sub(self.running.len());
        let most = u32::try_from(free).unwrap_or(u32::MAX);
        let mut permits: BTreeMap<String, Vec<ProviderPermit>> = BTreeMap::new();
        let mut agents = agents(project, &of);
        for agent in &mut agents {
            let provider = agent.provider.clone().unwrap_or_default();
            // Agents of one provider share its permits.
            if let Some(acquired) = permits.get(&provider) {
                agent.most = u32::try_from(acquired.len()).ok();
            } else if let Some(acquired) = self.config.permits.acquire(&provider, most) {
                agent.most = u32::try_from(acquired.len()).ok();
                permits.insert(provider, acquired);
            }
        }
        let mut request = self.request();
        // The merge train lands tickets in order, so a single merge job must not be claimed around
        // it.
        if !project.lands_here() || project.uses_merge_train() {
            request.queues.retain(|queue| *queue != Queue::Merge);
        }
        let request = JobRequest {
            agents,
            only: Some(of),
            policy: Some(Box::new(project.config.policy.clone())),
            lease: Duration::from_secs(project.config.policy.limits.lease_secs),
            most,
            ..request
        };
        (request, permits)
    }
}

/// Lists the agents of a project under the names that jobs may use: the default agent of each role,
/// and the agents that reviewers and fallbacks name.
fn agents(project: &Project, of: &WorkItem) -> Vec<AgentClaim> {
    let claim = |queue: &Queue, agent: &AgentConfig, named_only: bool| AgentClaim {
        queue: queue.clone(),
        name: agent.name.clone(),
        names: if named_only || agent.name == agent.configured_name {
            vec![agent.configured_name.clone()]
        } else {
            vec![agent.name.clone(), agent.configured_name.clone()]
        },
        named_only,
        provider: Some(agent.adapter.name().to_owned()),
        most: None,
    };
    if let WorkItem::Task(_) = of {
        let builder = project.agents.builder.as_ref();
        return builder
            .map(|agent| claim(&Queue::Build, agent, false))
            .into_iter()
            .collect();
    }
    let roles = [
        (Role::Builder, Queue::Build),
        (Role::Reviewer, Queue::Review),
        (Role::Verifier, Queue::Verify),
    ];
    let mut agents = Vec::new();
    for (role, queue) in roles {
        let Some(default_agent) = project.agents.agent_for(role, None) else {
            continue;
        };
        agents.push(claim(&queue, default_agent, false));
        let others = project.agents.others.iter().filter(|(at, _)| *at == role);
        agents.extend(others.map(|(_, agent)| claim(&queue, agent, true)));
    }
    agents
}

/// Fails if a job waits for an agent that this project does not have. The worker would otherwise
/// wait for it forever.
fn check_agents_exist(project: &Project, ticket: &Ticket) -> Result<(), Error> {
    for job in ticket.jobs.iter().filter(|job| job.holder.is_none()) {
        let Some(agent) = job.agent.as_ref().filter(|_| job.task.is_paid()) else {
            continue;
        };
        if project.agent_for(&job.task, Some(agent)).is_none() {
            return Err(Error::ForSomebodyElse {
                ticket: ticket.id.clone(),
                task: job.task.queue(),
                agent: agent.clone(),
            });
        }
    }
    Ok(())
}
