//! Sessions of agents that connect over MCP. They have an identity, claim one job at a time through
//! the same coordinator as workers, and report their results. Nothing they report is trusted, and
//! their lease ends when they fall silent. Agents that we spawned may also call, about the job that
//! they have; they neither claim nor report.

use std::time::Duration;

use findings::{CriterionAnswer, Review};
use flow::access::{Access, Action};
use flow::attempt::{Attempt, HeldClaim};
use flow::event::{Failure, FindingReport, Lease, VerifierAnswer};
use flow::job::OpenJob;
use flow::ticket::Submission;
use flow::{Actor, Event, EventKind, Policy, Queue, Role, Task, Ticket, TicketId, Time, Usage};
use store::{Job, JobId, JobQuery, JobState, JobWork, Leased, Page, Stored};

use crate::coordinator::{
    AgentClaim, Coordinator, Error, JobRequest, LocalCoordinator, Offer, Once, Report, WorkItem,
};

/// Maximum number of jobs read per ticket.
const JOBS_READ_MAX: u32 = 1000;
/// Claim attempts per listing. Agents race for the same jobs, so list again after this many misses.
const TRIES_MAX: u32 = 16;
/// Listings per call when other agents keep winning the race.
const LOOKS_MAX: u32 = 64;

/// Identity of a connected agent, and the only ticket it may speak of, if it is limited to one.
#[derive(Clone, Debug)]
pub struct AgentSession {
    pub actor: Actor,
    pub ticket: Option<TicketId>,
    pub access: Access,
    /// Queues of its tasks, which also count as claims: a session has one claim at a time.
    pub task_queues: Vec<Queue>,
}

/// A job that a session has claimed.
#[derive(Clone, Debug)]
pub struct SessionClaim {
    pub stored: Stored,
    pub policy: Policy,
    pub task: Task,
    pub job: JobId,
    pub lease: Lease,
    pub until: Time,
}

/// Returns the queues that a role works from.
pub fn queues_of(role: Role) -> &'static [Queue] {
    match role {
        Role::Builder => &[Queue::Build],
        // A reviewer's verdict also answers the open findings. Where the policy wants more, the
        // verification goes to a verifier: a client that knows only verdicts could not answer it.
        Role::Reviewer => &[Queue::Review],
        Role::Verifier => &[Queue::Verify],
        Role::Human | Role::Service | Role::Admin | Role::Viewer => &[],
    }
}

/// A builder's own account of its submission. None of it is proven.
#[derive(Clone, Debug, Default)]
pub struct SubmissionNotes {
    pub summary: String,
    pub claims: Vec<CriterionAnswer>,
    pub reports: Vec<FindingReport>,
}

impl AgentSession {
    /// Returns its name on leases. It contains the agent's name, so that a restarted agent finds
    /// its work again.
    pub fn holder(&self) -> String {
        format!("session:{}", self.actor.agent)
    }

    fn queues(&self) -> Vec<Queue> {
        queues_of(self.actor.role).to_vec()
    }

    /// Returns the queues in which it may hold one job at a time, all together.
    pub fn alone_in(&self) -> Vec<Queue> {
        let mut queues = self.queues();
        queues.extend(self.task_queues.iter().cloned());
        queues
    }

    /// Returns whether this session, or the worker that spawned it, holds the lease of the job.
    fn may_hold(&self, job: &Job) -> bool {
        let of_ticket = self.ticket == job.ticket;
        match self.access {
            Access::SelfRegistered => of_ticket || self.ticket.is_none(),
            Access::Spawned(lease) => {
                of_ticket && job.serial == Some(lease.serial) && job.fence == lease.fence
            }
        }
    }

    /// Returns the actor for a task. A reviewer that checks single findings acts as a verifier.
    pub fn actor_for(&self, task: &Task) -> Actor {
        let role = match task {
            Task::Verify { .. } => Role::Verifier,
            Task::Build { .. }
            | Task::Check { .. }
            | Task::Review { .. }
            | Task::Merge { .. }
            | Task::Tell { .. }
            | Task::Report => self.actor.role,
        };
        Actor {
            role,
            ..self.actor.clone()
        }
    }

    /// Returns whether the session may report on this ticket.
    fn may_speak_of(&self, ticket: &TicketId) -> bool {
        self.ticket.as_ref().is_none_or(|only| only == ticket)
    }

    /// Builds the claim request of one agent, which has one claim at a time.
    pub fn request(&self) -> JobRequest {
        JobRequest {
            name: self.actor.agent.clone(),
            worker: self.holder(),
            queues: self.queues(),
            agents: vec![self.agent(Queue::Build)],
            only: self.ticket.clone().map(WorkItem::Ticket),
            alone_in: self.alone_in(),
            most: TRIES_MAX,
            ..JobRequest::default()
        }
    }

    fn agent(&self, queue: Queue) -> AgentClaim {
        let name = self.actor.agent.clone();
        AgentClaim {
            queue,
            names: vec![name.clone()],
            name,
            named_only: false,
            provider: None,
            most: None,
        }
    }
}

impl SessionClaim {
    /// Returns the name of this claim, which every report on it carries.
    pub fn attempt(&self) -> Attempt {
        Attempt::of_job(&self.stored.ticket.id, self.lease, &self.task)
    }

    /// Returns the claim that a report is compared with.
    pub fn claim(&self) -> HeldClaim {
        HeldClaim::of_job(&self.stored.ticket.id, self.lease, &self.task)
    }

    /// Returns whether the agent has reported that it started.
    pub fn is_started(&self) -> bool {
        let mut jobs = self.stored.ticket.jobs.iter();
        jobs.any(|job| job.serial == self.lease.serial && job.fence == self.lease.fence)
    }
}

/// Returns the claim of the session, if it has one.
pub async fn current_claim(
    coordinator: &LocalCoordinator,
    session: &AgentSession,
) -> Result<Option<SessionClaim>, Error> {
    for job in leased_jobs(coordinator, session).await? {
        if session.may_hold(&job)
            && let Some(claim) = session_claim(coordinator, job.into()).await?
        {
            return Ok(Some(claim));
        }
    }
    Ok(None)
}

async fn leased_jobs(
    coordinator: &LocalCoordinator,
    session: &AgentSession,
) -> Result<Vec<Job>, Error> {
    match session.access {
        Access::SelfRegistered => Ok(coordinator
            .store
            .held_jobs(&session.holder(), &session.queues())
            .await?),
        // The worker that spawned it holds the lease, and its ticket has few jobs.
        Access::Spawned(_) => {
            let query = JobQuery {
                state: Some(JobState::Leased),
                ticket: session.ticket.clone(),
                ..JobQuery::default()
            };
            page_of(coordinator, &query, JOBS_READ_MAX).await
        }
    }
}

/// Returns the claim of the session, or claims the most urgent job that its agent may take.
pub async fn claim_next(
    coordinator: &LocalCoordinator,
    session: &AgentSession,
) -> Result<Option<SessionClaim>, Error> {
    session.access.check(Action::Claim)?;
    let queues = session.queues();
    // Many agents ask while there is no work at all; this keeps such a call cheap.
    if !coordinator.store.has_open(Some(&queues)).await? {
        return Ok(None);
    }
    if let Some(claim) = current_claim(coordinator, session).await? {
        return Ok(Some(claim));
    }
    if holds_task(coordinator, session).await? {
        return Ok(None);
    }
    let request = session.request();
    let mut before = None;
    for _ in 0..LOOKS_MAX {
        let offers = coordinator.wait(&request, Duration::ZERO).await?;
        // Jobs that others took are gone from the list. If the first offer is still there, this
        // agent may not have it.
        let first = offers.first().map(|offer| offer.of.clone());
        if first.is_none() || first == before {
            break;
        }
        before = first;
        for offer in offers {
            if let Some(claim) = claim(coordinator, session, offer).await? {
                return Ok(Some(claim));
            }
        }
    }
    // Another process of the same agent may have claimed a job at the same moment.
    current_claim(coordinator, session).await
}

/// Returns whether the session holds a task, which is then its one claim.
async fn holds_task(coordinator: &LocalCoordinator, session: &AgentSession) -> Result<bool, Error> {
    if session.task_queues.is_empty() {
        return Ok(false);
    }
    let holder = session.holder();
    let tasks = coordinator
        .store
        .held_jobs(&holder, &session.task_queues)
        .await?;
    Ok(!tasks.is_empty())
}

/// Claims a job of the offered ticket that `flow` lets the agent begin.
async fn claim(
    coordinator: &LocalCoordinator,
    session: &AgentSession,
    offer: Offer,
) -> Result<Option<SessionClaim>, Error> {
    let WorkItem::Ticket(id) = &offer.of else {
        return Ok(None);
    };
    let stored = coordinator.ticket(id).await?;
    let policy = coordinator.policy_of(&stored).await?;
    let at = (coordinator.clock)();
    let mut queues: Vec<Queue> = Vec::new();
    for job in &stored.ticket.jobs {
        let queue = job.task.queue();
        let served = queues_of(session.actor.role).contains(&queue);
        if served && may_start(session, (&stored.ticket, job), &policy, at) {
            queues.push(queue);
        }
    }
    for queue in queues {
        let request = session.request();
        let request = JobRequest {
            agents: vec![session.agent(queue.clone())],
            queues: vec![queue],
            only: Some(offer.of.clone()),
            lease: Duration::from_secs(policy.limits.heartbeat_secs),
            most: 1,
            ..request
        };
        if let Some(job) = coordinator.claim(&request).await?.pop() {
            return session_claim(coordinator, job.into()).await;
        }
    }
    Ok(None)
}

/// Asks `flow` as if the job began now. An agent that built part of a change is not offered its
/// review.
fn may_start(
    session: &AgentSession,
    (ticket, job): (&Ticket, &OpenJob),
    policy: &Policy,
    at: Time,
) -> bool {
    let agent = &session.actor.agent;
    if job.agent.as_ref().is_some_and(|assigned| assigned != agent) || job.is_kept_from(agent, at) {
        return false;
    }
    let lease = Lease {
        serial: job.serial,
        // The store's fence may be ahead of the ticket's; any that is higher will do.
        fence: u64::MAX,
    };
    let event = Event {
        at,
        by: session.actor_for(&job.task),
        expects: None,
        what: EventKind::Started { lease },
    };
    flow::advance(ticket, &event, policy).is_ok()
}

/// Returns when there may be a job or a task for the agent, or after `most`.
pub async fn wait(coordinator: &LocalCoordinator, session: &AgentSession, most: Duration) {
    let request = JobRequest {
        tasks: session.task_queues.clone(),
        ..session.request()
    };
    coordinator.wait_for_any(&request, most).await;
}

/// Claims the most urgent task of the agent's own queues.
pub async fn take_task(
    coordinator: &LocalCoordinator,
    session: &AgentSession,
    lease: Duration,
) -> Result<Option<Leased>, Error> {
    let request = JobRequest {
        queues: Vec::new(),
        agents: Vec::new(),
        tasks: session.task_queues.clone(),
        lease,
        most: 1,
        ..session.request()
    };
    Ok(coordinator.claim(&request).await?.pop())
}

async fn page_of(
    coordinator: &LocalCoordinator,
    query: &JobQuery,
    most: u32,
) -> Result<Vec<Job>, Error> {
    let page = Page { after: None, most };
    Ok(coordinator.store.jobs(query, &page).await?.items)
}

/// Completes a claim with its ticket and policy; `None` for a job outside tickets.
async fn session_claim(
    coordinator: &LocalCoordinator,
    parts: ClaimParts,
) -> Result<Option<SessionClaim>, Error> {
    let (Some(id), Some(serial), JobWork::Task(task)) = (parts.ticket, parts.serial, parts.work)
    else {
        return Ok(None);
    };
    let stored = coordinator.ticket(&id).await?;
    let policy = coordinator.policy_of(&stored).await?;
    Ok(Some(SessionClaim {
        stored,
        policy,
        task,
        job: parts.job,
        lease: Lease {
            serial,
            fence: parts.fence,
        },
        until: parts.until,
    }))
}

/// Parts of a claim, either an existing one or a new one.
struct ClaimParts {
    job: JobId,
    ticket: Option<TicketId>,
    serial: Option<u32>,
    work: JobWork,
    fence: u64,
    until: Time,
}

impl From<Job> for ClaimParts {
    fn from(job: Job) -> Self {
        Self {
            job: job.id,
            ticket: job.ticket,
            serial: job.serial,
            work: job.work,
            fence: job.fence,
            until: job.lease_until.unwrap_or_default(),
        }
    }
}

impl From<Leased> for ClaimParts {
    fn from(leased: Leased) -> Self {
        Self {
            job: leased.id,
            ticket: leased.ticket,
            serial: leased.serial,
            work: leased.work,
            fence: leased.fence,
            until: leased.until,
        }
    }
}

/// Reports that the agent has started. A second report changes nothing.
pub async fn start(
    coordinator: &LocalCoordinator,
    session: &AgentSession,
    claim: &SessionClaim,
) -> Result<Ticket, Error> {
    if claim.is_started() {
        return Ok(claim.stored.ticket.clone());
    }
    let what = EventKind::Started { lease: claim.lease };
    let id = &claim.stored.ticket.id;
    let report = Report::new(session.actor_for(&claim.task), what);
    let refused = match coordinator.decide(id, &claim.policy, report).await {
        Err(Error::Refused(refused)) => refused,
        decided => return decided,
    };
    // A concurrent call of the same session may have reported the start already.
    let now = SessionClaim {
        stored: coordinator.ticket(id).await?,
        ..claim.clone()
    };
    if now.is_started() {
        return Ok(now.stored.ticket);
    }
    Err(refused.into())
}

/// Gives a claim back that cannot be served, for example because its repository is gone. The reason
/// is recorded and the attempt counts: after too many of them a person decides.
pub async fn give_back(
    coordinator: &LocalCoordinator,
    session: &AgentSession,
    claim: &SessionClaim,
    why: &str,
) -> Result<Ticket, Error> {
    session.access.check(Action::Claim)?;
    let what = EventKind::JobFailed {
        lease: claim.lease,
        // A disk may be mounted again, so the next attempt may succeed.
        failure: Failure::Transient,
        message: findings::clean(why),
        usage: Usage::default(),
    };
    let report = Report::new(session.actor_for(&claim.task), what);
    let id = &claim.stored.ticket.id;
    Coordinator::report(coordinator, id, &claim.policy, report).await
}

/// Prolongs the lease and returns its end. An agent that we spawned uses the lease of its worker,
/// which the worker prolongs itself.
pub async fn renew_lease(
    coordinator: &LocalCoordinator,
    session: &AgentSession,
    claim: &SessionClaim,
) -> Result<Time, Error> {
    if let Access::Spawned(_) = session.access {
        return Ok(claim.until);
    }
    let lease = Duration::from_secs(claim.policy.limits.heartbeat_secs);
    let Lease { fence, .. } = claim.lease;
    Ok(coordinator.store.renew(claim.job, fence, lease).await?)
}

/// Reports the submission of a builder.
pub async fn submit(
    coordinator: &LocalCoordinator,
    policy: &Policy,
    session: &AgentSession,
    claim: &SessionClaim,
    (mut submission, notes): (Submission, SubmissionNotes),
    once: Option<Once>,
) -> Result<Ticket, Error> {
    submission.claims = notes.claims;
    submission.summary = findings::clean(&notes.summary);
    let what = EventKind::Submitted {
        lease: claim.lease,
        submission: Box::new(submission),
        reports: notes.reports,
        session: None,
        usage: Usage::default(),
    };
    report(coordinator, policy, session, claim, what, once).await
}

/// Reports a review. The sandbox of an external agent is unknown to us and is recorded as such.
pub async fn report_review(
    coordinator: &LocalCoordinator,
    policy: &Policy,
    session: &AgentSession,
    claim: &SessionClaim,
    review: Review,
    once: Option<Once>,
) -> Result<Ticket, Error> {
    let Task::Review { commit, .. } = &claim.task else {
        return Err(Error::Unusable(format!(
            "your claim is a {}, not a review",
            claim.task.word()
        )));
    };
    let what = EventKind::Reviewed {
        answers_open: true,
        lease: claim.lease,
        commit: commit.clone(),
        review: Box::new(flow::review_validity::downgrade_contradicted_approval(
            review, policy,
        )),
        sandbox: "unknown: the agent connected by itself and runs in a sandbox of its own, if any"
            .to_owned(),
        usage: Usage::default(),
    };
    report(coordinator, policy, session, claim, what, once).await
}

/// Reports a verifier's answers on single findings.
pub async fn verify(
    coordinator: &LocalCoordinator,
    policy: &Policy,
    session: &AgentSession,
    claim: &SessionClaim,
    answers: Vec<VerifierAnswer>,
    once: Option<Once>,
) -> Result<Ticket, Error> {
    let Task::Verify { commit, .. } = &claim.task else {
        return Err(Error::Unusable(format!(
            "your claim is a {}, not a verification",
            claim.task.word()
        )));
    };
    let what = EventKind::Verified {
        lease: claim.lease,
        commit: commit.clone(),
        answers,
        usage: Usage::default(),
    };
    report(coordinator, policy, session, claim, what, once).await
}

async fn report(
    coordinator: &LocalCoordinator,
    policy: &Policy,
    session: &AgentSession,
    claim: &SessionClaim,
    what: EventKind,
    once: Option<Once>,
) -> Result<Ticket, Error> {
    session.access.check(Action::Report)?;
    let id = &claim.stored.ticket.id;
    if !session.may_speak_of(id) {
        return Err(Error::NoSuchTicket(id.clone()));
    }
    start(coordinator, session, claim).await?;
    let report = Report {
        once,
        ..Report::new(session.actor_for(&claim.task), what)
    };
    Coordinator::report(coordinator, id, policy, report).await
}
