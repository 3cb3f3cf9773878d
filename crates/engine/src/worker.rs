//! The worker: claims what is ready, performs it, reports what came of it, until it is told to stop
//! or its one ticket rests. Any number of workers may serve one coordinator, on any number of
//! machines; leases keep them apart, and what is lost by one is taken up by the next.

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
use crate::perform::{self, task::ClaimedTask};
use crate::process::{StopSignal, Stopper};
use crate::workshop::{AgentConfig, Project};
use permits::{ProviderPermit, ProviderPermits};

/// Back-off after an empty claim. A job held back by a limit stays ready and would wake us at once.
const BACK_OFF: Duration = Duration::from_millis(250);
/// Back-off after an error that belongs to no job, such as a store that is away.
const AFTER_ERROR: Duration = Duration::from_secs(1);
/// How long a ticket or task that cannot be worked on here is not looked at again.
const SKIP_FOR: Duration = Duration::from_secs(10);
/// More are forgotten.
const SKIPPED_MAX: usize = 1000;
/// Offers per listing. Workers race for the same jobs, so list again after this many misses.
const OFFERS_MAX: u32 = 32;
/// How many jobs of one ticket run side by side where one process sees the ticket through.
const JOBS_OF_TICKET: usize = 8;

/// Loads what a job needs: the repository, its rules, its agents.
#[async_trait]
pub trait Projects: fmt::Debug + Send + Sync {
    /// Returns `None` if the offer cannot be worked on here: its repository is not here, or its
    /// rules cannot be read.
    async fn load(&self, offer: &Offer) -> Option<Arc<Project>>;
}

/// The same project for every offer, where a worker serves one ticket.
#[async_trait]
impl Projects for Arc<Project> {
    async fn load(&self, _: &Offer) -> Option<Arc<Project>> {
        Some(Self::clone(self))
    }
}

/// The configuration of a worker. `run`, `worker` and `worker --server` differ in this alone.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// The name people see and pause: `qa-1`.
    pub name: String,
    /// The name on leases.
    pub holder: String,
    pub queues: Vec<Queue>,
    /// Queues of tasks that belong to no ticket.
    pub tasks: Vec<Queue>,
    /// Only tickets and tasks that need no other labels; any where it is not said.
    pub labels: Option<BTreeSet<String>>,
    /// Jobs that run side by side.
    pub jobs_max: usize,
    pub permits: ProviderPermits,
    /// Serve this ticket alone, end when it rests, and give up where that is not possible.
    pub ticket: Option<TicketId>,
    /// After an outage, how long living workers get to renew their leases before any is taken back.
    pub spare_leases: Duration,
    /// Hears of outages.
    pub listener: Option<Arc<dyn ProgressListener>>,
}

impl WorkerConfig {
    /// Sees one ticket through, with everything that it needs.
    pub fn for_ticket(id: &TicketId, shop: &Project) -> Self {
        Self {
            name: String::new(),
            holder: name::process_name(),
            queues: Queue::OF_LOOP
                .into_iter()
                .filter(|queue| *queue != Queue::Tell)
                .collect(),
            tasks: Vec::new(),
            labels: None,
            jobs_max: JOBS_OF_TICKET,
            permits: ProviderPermits::default(),
            ticket: Some(id.clone()),
            spare_leases: Duration::from_secs(shop.project.policy.limits.lease_secs),
            listener: shop.witness.clone(),
        }
    }

    /// One of several workers of this process, which does one thing at a time for any ticket.
    pub fn replica(name: &str, queues: Vec<Queue>) -> Self {
        Self {
            name: name.to_owned(),
            holder: name::replica_name(name),
            queues,
            tasks: Vec::new(),
            labels: Some(BTreeSet::new()),
            jobs_max: 1,
            permits: ProviderPermits::default(),
            ticket: None,
            spare_leases: Duration::ZERO,
            listener: None,
        }
    }
}

/// Tells a worker to stop.
#[derive(Clone, Debug)]
pub struct Shutdown {
    /// Claim no more, and finish what runs.
    pub drain: StopSignal,
    /// Give back what runs.
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

/// Works until it is told to stop and nothing runs any more. A worker of one ticket ends when the
/// ticket rests, and answers it.
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
            Err(error) => worker.wait_out(error, &mut shutdown).await?,
        }
        match worker.is_done().await {
            Ok(None) => {}
            Ok(Some(Finished(ticket))) => return Ok(ticket),
            Err(error) => worker.wait_out(error, &mut shutdown).await?,
        }
    }
}

type PendingOffers = Pin<Box<dyn Future<Output = Result<Vec<Offer>, Error>> + Send>>;

async fn next(looking: &mut Option<PendingOffers>) -> Result<Vec<Offer>, Error> {
    match looking {
        Some(look) => look.await,
        None => std::future::pending().await,
    }
}

/// Nothing is left to do; the ticket, where the worker serves one.
struct Finished(Option<Ticket>);

struct WorkerState<'a> {
    coordinator: Arc<dyn Coordinator>,
    projects: &'a dyn Projects,
    config: &'a WorkerConfig,
    running: JoinSet<(Option<Lease>, Result<(), Error>)>,
    /// The leases of what runs here, which are not lost however late their renewal is.
    held: Vec<Lease>,
    landing: Option<AbortHandle>,
    skipped: BTreeMap<WorkItem, Instant>,
    draining: bool,
    halting: bool,
    halter: Stopper,
    halt: StopSignal,
    /// The look for work that is under way. It writes as well, so it is never dropped half-way.
    looking: Option<PendingOffers>,
    /// The first look answers at once.
    looked: bool,
    back_off: Option<Instant>,
    /// After an outage living workers get the time of a lease to renew theirs.
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
            looking: None,
            looked: false,
            back_off: None,
            spare_leases: None,
        }
    }

    /// Starts the first offer that can be worked on here, or sees a job end, or is told to stop.
    async fn turn(&mut self, shutdown: &mut Shutdown) -> Result<(), Error> {
        let has_room = !self.draining && self.running.len() < self.config.jobs_max;
        let mut looking = self.looking.take();
        if has_room && looking.is_none() {
            looking = Some(self.look());
        }
        tokio::select! {
            biased;
            Some(ended) = self.running.join_next() => {
                self.looking = looking;
                self.end(ended)
            }
            () = shutdown.halt.asked(), if !self.halting => {
                (self.draining, self.halting) = (true, true);
                self.halter.stop();
                Ok(())
            }
            () = shutdown.drain.asked(), if !self.draining => {
                self.draining = true;
                Ok(())
            }
            offers = next(&mut looking), if has_room => {
                self.looked = true;
                self.start_first(offers?).await
            }
        }
    }

    fn look(&mut self) -> PendingOffers {
        let (request, most) = (self.request(), self.patience());
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
        let found = !offers.is_empty();
        for offer in offers {
            if self.start(offer).await? {
                return Ok(());
            }
        }
        if found {
            let rest = if self.config.ticket.is_some() {
                BACK_OFF
            } else {
                POLL
            };
            self.back_off = Some(Instant::now() + rest);
        }
        Ok(())
    }

    /// Claims what is ready of one offer and begins it; false where nothing was given to us.
    async fn start(&mut self, offer: Offer) -> Result<bool, Error> {
        let Some(shop) = self.projects.load(&offer).await else {
            if self.skipped.len() < SKIPPED_MAX {
                self.skipped.insert(offer.of, Instant::now());
            }
            return Ok(false);
        };
        let ticket = *offer.ticket;
        let lands = self.config.queues.contains(&Queue::Merge) && shop.lands_here();
        if lands && shop.lands_in_turn() && flow::queue::waits(&ticket) && !self.is_landing() {
            self.start_landing(&shop, &ticket.id);
            return Ok(true);
        }
        let (request, mut permits) = self.claim_request(&shop, offer.of.clone());
        let jobs = self.coordinator.claim(&request).await?;
        if jobs.is_empty() && self.config.ticket.is_some() && self.running.is_empty() {
            must_be_for_us(&shop, &ticket)?;
        }
        let started = !jobs.is_empty();
        for job in jobs {
            let provider = job.provider.as_deref().unwrap_or_default();
            let permit = permits.get_mut(provider).and_then(Vec::pop);
            self.begin(&shop, &ticket, job, permit);
        }
        Ok(started)
    }

    fn begin(
        &mut self,
        shop: &Arc<Project>,
        ticket: &Ticket,
        job: Leased,
        permit: Option<ProviderPermit>,
    ) {
        let (shop, halt) = (Arc::clone(shop), self.halt.clone());
        let fence = job.fence;
        let lease = job.serial.map(|serial| Lease { serial, fence });
        self.held.extend(lease);
        if job.ticket.is_some() {
            let job = perform::perform(shop, job, halt);
            self.running.spawn(async move {
                let ended = job.await;
                drop(permit);
                (lease, ended)
            });
            return;
        }
        let task = ClaimedTask {
            shop,
            job,
            ticket: ticket.clone(),
            by: self.config.name.clone(),
        };
        let job = Box::pin(perform::task::perform(task, halt));
        self.running.spawn(async move {
            let ended = job.await;
            drop(permit);
            (lease, ended)
        });
    }

    /// In a queue of landings whoever has the turn lands all that waits, this ticket among them.
    fn start_landing(&mut self, shop: &Arc<Project>, id: &TicketId) {
        let turn = perform::queue::take_turn(
            Arc::clone(shop),
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
        let (lease, ended) = ended.map_err(|error| Error::Broken(error.to_string()))?;
        self.held.retain(|held| Some(*held) != lease);
        ended
    }

    /// Whether nothing is left to do.
    async fn is_done(&mut self) -> Result<Option<Finished>, Error> {
        let Some(id) = &self.config.ticket else {
            return Ok((self.draining && self.running.is_empty()).then_some(Finished(None)));
        };
        let found = self.coordinator.ticket(id).await?;
        let ticket = found.ok_or_else(|| Error::NoSuchTicket(id.clone()))?;
        if ticket.stage.is_terminal() {
            // Somebody ended it: nobody waits for what still runs.
            self.halter.stop();
        }
        let rests = self.draining || !ticket.stage.is_at_work();
        Ok((rests && self.running.is_empty()).then_some(Finished(Some(ticket))))
    }

    /// Waits after an error that belongs to no job. What runs goes on meanwhile. A worker of one
    /// ticket gives up where waiting does not help; the others never do.
    async fn wait_out(&mut self, error: Error, shutdown: &mut Shutdown) -> Result<(), Error> {
        self.spare_leases = Some(Instant::now() + self.config.spare_leases);
        if self.config.ticket.is_none() {
            tracing::warn!(worker = self.config.name, %error, "the worker goes on after an error");
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
            // It is stopped, not given up: what runs is ended in order.
            self.draining = true;
            self.halter.stop();
            while self.running.join_next().await.is_some() {}
        }
        waited
    }

    /// How long a look may take where there is nothing.
    fn patience(&self) -> Duration {
        match (self.looked, &self.config.ticket) {
            (false, _) => Duration::ZERO,
            // Somebody may end the ticket, which wakes nobody.
            (true, Some(_)) => POLL,
            (true, None) => QUIET_POLL,
        }
    }

    fn request(&mut self) -> JobRequest {
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
            held: self.held.clone(),
            spare_leases: self
                .spare_leases
                .is_some_and(|until| Instant::now() < until),
            most: OFFERS_MAX,
            ..JobRequest::default()
        }
    }

    /// The request for one offer, in the names of the project's agents, and the permits of the
    /// providers that are limited here.
    fn claim_request(
        &mut self,
        shop: &Project,
        of: WorkItem,
    ) -> (JobRequest, BTreeMap<String, Vec<ProviderPermit>>) {
        let room = self.config.jobs_max.saturating_sub(self.running.len());
        let most = u32::try_from(room).unwrap_or(u32::MAX);
        let mut permits: BTreeMap<String, Vec<ProviderPermit>> = BTreeMap::new();
        let mut agents = agents(shop, &of);
        for agent in &mut agents {
            let provider = agent.provider.clone().unwrap_or_default();
            // Agents of one provider share its permits.
            if let Some(known) = permits.get(&provider) {
                agent.most = u32::try_from(known.len()).ok();
            } else if let Some(found) = self.config.permits.acquire(&provider, most) {
                agent.most = u32::try_from(found.len()).ok();
                permits.insert(provider, found);
            }
        }
        let mut request = self.request();
        if !shop.lands_here() || shop.lands_in_turn() {
            request.queues.retain(|queue| *queue != Queue::Merge);
        }
        let request = JobRequest {
            agents,
            only: Some(of),
            policy: Some(Box::new(shop.project.policy.clone())),
            lease: Duration::from_secs(shop.project.policy.limits.lease_secs),
            most,
            ..request
        };
        (request, permits)
    }
}

/// The agents of a project as jobs may name them: the usual one of each role, and those that seats
/// and fallbacks name.
fn agents(shop: &Project, of: &WorkItem) -> Vec<AgentClaim> {
    let claim = |queue: &Queue, member: &AgentConfig, named_only: bool| AgentClaim {
        queue: queue.clone(),
        name: member.name.clone(),
        names: if named_only || member.name == member.written {
            vec![member.written.clone()]
        } else {
            vec![member.name.clone(), member.written.clone()]
        },
        named_only,
        provider: Some(member.adapter.name().to_owned()),
        most: None,
    };
    if let WorkItem::Task(_) = of {
        let builder = shop.crew.builder.as_ref();
        return builder
            .map(|member| claim(&Queue::Build, member, false))
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
        let Some(usual) = shop.crew.who(role, None) else {
            continue;
        };
        agents.push(claim(&queue, usual, false));
        let others = shop.crew.others.iter().filter(|(at, _)| *at == role);
        agents.extend(others.map(|(_, member)| claim(&queue, member, true)));
    }
    agents
}

/// A job for an agent that does not work here would be waited for without end.
fn must_be_for_us(shop: &Project, ticket: &Ticket) -> Result<(), Error> {
    for job in ticket.jobs.iter().filter(|job| job.holder.is_none()) {
        let Some(agent) = job.agent.as_ref().filter(|_| job.task.is_paid()) else {
            continue;
        };
        if shop.member(&job.task, Some(agent)).is_none() {
            return Err(Error::ForSomebodyElse {
                ticket: ticket.id.clone(),
                task: job.task.queue(),
                agent: agent.clone(),
            });
        }
    }
    Ok(())
}
