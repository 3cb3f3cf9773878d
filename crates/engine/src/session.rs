//! Sessions of agents that connect over MCP. They have an identity, claim one job at a time through
//! the same coordinator as workers, and report what they did. Nothing they say is taken on trust, and
//! their lease ends when they fall silent. Agents that we started may call too, about the job that
//! they have; they neither claim nor report.

use std::time::Duration;

use findings::{CriterionAnswer, Review};
use flow::attempt::{Attempt, HeldClaim};
use flow::event::{FindingReport, Lease, VerifierAnswer};
use flow::job::OpenJob;
use flow::standing::{Access, Action};
use flow::ticket::Submission;
use flow::{Actor, Event, EventKind, Policy, Queue, Role, Task, Ticket, TicketId, Time, Usage};
use store::{Job, JobId, JobQuery, JobState, JobWork, Leased, Page, Stored};

use crate::coordinator::{
    AgentClaim, Coordinator, Error, JobRequest, LocalCoordinator, Offer, Once, Report, WorkItem,
};

/// Jobs of one ticket that are looked through.
const LOOK_MOST: u32 = 1000;
/// Claim attempts per listing. Agents race for the same jobs, so list again after this many misses.
const TRIES_MAX: u32 = 16;
/// Listings per call where others were faster.
const LOOKS_MAX: u32 = 64;

/// The identity of an agent that connected, and the only ticket it may speak of.
#[derive(Clone, Debug)]
pub struct AgentSession {
    pub actor: Actor,
    pub ticket: Option<TicketId>,
    pub standing: Access,
    /// The queues of its tasks, which count as claims too: it has one claim at a time.
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

/// The queues that a role works from.
pub fn queues_of(role: Role) -> &'static [Queue] {
    match role {
        Role::Builder => &[Queue::Build],
        Role::Reviewer => &[Queue::Review, Queue::Verify],
        Role::Verifier => &[Queue::Verify],
        Role::Human | Role::Service | Role::Admin => &[],
    }
}

/// A builder's own account of its submission; unproven, all of it.
#[derive(Clone, Debug, Default)]
pub struct Said {
    pub summary: String,
    pub claims: Vec<CriterionAnswer>,
    pub reports: Vec<FindingReport>,
}

impl AgentSession {
    /// Its name on leases: the agent's, so that one that was restarted finds its work again.
    pub fn holder(&self) -> String {
        format!("guest:{}", self.actor.agent)
    }

    fn queues(&self) -> Vec<Queue> {
        queues_of(self.actor.role).to_vec()
    }

    /// The queues of which it may have one job at a time, all together.
    pub fn alone_in(&self) -> Vec<Queue> {
        let mut queues = self.queues();
        queues.extend(self.task_queues.iter().cloned());
        queues
    }

    /// Whether the job is the session's, or its worker's.
    fn may_hold(&self, job: &Job) -> bool {
        let of_ticket = self.ticket == job.ticket;
        match self.standing {
            Access::Guest => of_ticket || self.ticket.is_none(),
            Access::Hired(lease) => {
                of_ticket && job.serial == Some(lease.serial) && job.fence == lease.fence
            }
        }
    }

    /// A reviewer who looks at single findings speaks as a verifier.
    pub fn actor_for(&self, task: &Task) -> Actor {
        let role = match task {
            Task::Verify { .. } => Role::Verifier,
            Task::Build { .. }
            | Task::Check { .. }
            | Task::Review { .. }
            | Task::Merge { .. }
            | Task::Tell { .. } => self.actor.role,
        };
        Actor {
            role,
            ..self.actor.clone()
        }
    }

    fn may_speak_of(&self, ticket: &TicketId) -> bool {
        self.ticket.as_ref().is_none_or(|only| only == ticket)
    }

    /// The request of one agent, which has one claim at a time.
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
    /// The name of this claim; every report on it carries it.
    pub fn attempt(&self) -> Attempt {
        Attempt::of_job(&self.stored.ticket.id, self.lease, &self.task)
    }

    /// The claim that a report is compared with.
    pub fn claim(&self) -> HeldClaim {
        HeldClaim::of_job(&self.stored.ticket.id, self.lease, &self.task)
    }

    /// The agent has said that it is at work.
    pub fn is_started(&self) -> bool {
        let mut jobs = self.stored.ticket.jobs.iter();
        jobs.any(|job| job.serial == self.lease.serial && job.fence == self.lease.fence)
    }
}

/// The claim of the session, if it has one.
pub async fn held(
    desk: &LocalCoordinator,
    session: &AgentSession,
) -> Result<Option<SessionClaim>, Error> {
    for job in in_hand(desk, session).await? {
        if session.may_hold(&job)
            && let Some(claim) = session_claim(desk, job.into()).await?
        {
            return Ok(Some(claim));
        }
    }
    Ok(None)
}

async fn in_hand(desk: &LocalCoordinator, session: &AgentSession) -> Result<Vec<Job>, Error> {
    match session.standing {
        Access::Guest => Ok(desk
            .store
            .held_jobs(&session.holder(), &session.queues())
            .await?),
        // The lease is its worker's, and its ticket has few jobs.
        Access::Hired(_) => {
            let query = JobQuery {
                state: Some(JobState::Leased),
                ticket: session.ticket.clone(),
                ..JobQuery::default()
            };
            page_of(desk, &query, LOOK_MOST).await
        }
    }
}

/// Returns the claim of the session, or claims the most urgent job that its agent may take.
pub async fn take(
    desk: &LocalCoordinator,
    session: &AgentSession,
) -> Result<Option<SessionClaim>, Error> {
    session.standing.may(Action::Take)?;
    let queues = session.queues();
    // Many agents ask while there is nothing at all.
    if !desk.store.has_open(Some(&queues)).await? {
        return Ok(None);
    }
    if let Some(claim) = held(desk, session).await? {
        return Ok(Some(claim));
    }
    if has_a_task(desk, session).await? {
        return Ok(None);
    }
    let request = session.request();
    let mut before = None;
    for _ in 0..LOOKS_MAX {
        let offers = desk.wait(&request, Duration::ZERO).await?;
        // What others took is not there any more; what still is, is kept from the agent.
        let first = offers.first().map(|offer| offer.of.clone());
        if first.is_none() || first == before {
            break;
        }
        before = first;
        for offer in offers {
            if let Some(claim) = claim(desk, session, offer).await? {
                return Ok(Some(claim));
            }
        }
    }
    // Another process of the same agent may have been given one in this instant.
    held(desk, session).await
}

/// A task that it holds is its one claim.
async fn has_a_task(desk: &LocalCoordinator, session: &AgentSession) -> Result<bool, Error> {
    if session.task_queues.is_empty() {
        return Ok(false);
    }
    let holder = session.holder();
    let held = desk.store.held_jobs(&holder, &session.task_queues).await?;
    Ok(!held.is_empty())
}

/// Claims a job of the offered ticket that `flow` lets the agent begin.
async fn claim(
    desk: &LocalCoordinator,
    session: &AgentSession,
    offer: Offer,
) -> Result<Option<SessionClaim>, Error> {
    let WorkItem::Ticket(id) = &offer.of else {
        return Ok(None);
    };
    let stored = desk.ticket(id).await?;
    let policy = desk.policy_of(&stored).await?;
    let at = (desk.clock)();
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
        if let Some(job) = desk.claim(&request).await?.pop() {
            return session_claim(desk, job.into()).await;
        }
    }
    Ok(None)
}

/// Asks `flow` as if the job began now: who built part of a change is not offered its review.
fn may_start(
    session: &AgentSession,
    (ticket, job): (&Ticket, &OpenJob),
    policy: &Policy,
    at: Time,
) -> bool {
    let agent = &session.actor.agent;
    if job.agent.as_ref().is_some_and(|named| named != agent) {
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
pub async fn wait(desk: &LocalCoordinator, session: &AgentSession, most: Duration) {
    let request = JobRequest {
        tasks: session.task_queues.clone(),
        ..session.request()
    };
    desk.wait_for_any(&request, most).await;
}

/// Claims the most urgent task of the agent's own queues.
pub async fn take_task(
    desk: &LocalCoordinator,
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
    Ok(desk.claim(&request).await?.pop())
}

async fn page_of(desk: &LocalCoordinator, query: &JobQuery, most: u32) -> Result<Vec<Job>, Error> {
    let page = Page { after: None, most };
    Ok(desk.store.jobs(query, &page).await?.items)
}

async fn session_claim(
    desk: &LocalCoordinator,
    held: ClaimParts,
) -> Result<Option<SessionClaim>, Error> {
    let (Some(id), Some(serial), JobWork::Task(task)) = (held.ticket, held.serial, held.work)
    else {
        return Ok(None);
    };
    let stored = desk.ticket(&id).await?;
    let policy = desk.policy_of(&stored).await?;
    Ok(Some(SessionClaim {
        stored,
        policy,
        task,
        job: held.job,
        lease: Lease {
            serial,
            fence: held.fence,
        },
        until: held.until,
    }))
}

/// The parts of a claim, whether it was found or has just been made.
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

/// Reports that the agent is at work; a second report changes nothing.
pub async fn start(
    desk: &LocalCoordinator,
    session: &AgentSession,
    claim: &SessionClaim,
) -> Result<Ticket, Error> {
    if claim.is_started() {
        return Ok(claim.stored.ticket.clone());
    }
    let what = EventKind::Started { lease: claim.lease };
    let id = &claim.stored.ticket.id;
    let report = Report::new(session.actor_for(&claim.task), what);
    let refused = match desk.decide(id, &claim.policy, report).await {
        Err(Error::Refused(refused)) => refused,
        decided => return decided,
    };
    // The same call at the same time may have said it for both.
    let now = SessionClaim {
        stored: desk.ticket(id).await?,
        ..claim.clone()
    };
    if now.is_started() {
        return Ok(now.stored.ticket);
    }
    Err(refused.into())
}

/// A sign of life: the lease is prolonged. One that we started has ours, which lasts for as long as we
/// do.
pub async fn beat(
    desk: &LocalCoordinator,
    session: &AgentSession,
    claim: &SessionClaim,
) -> Result<Time, Error> {
    if let Access::Hired(_) = session.standing {
        return Ok(claim.until);
    }
    let lease = Duration::from_secs(claim.policy.limits.heartbeat_secs);
    let Lease { fence, .. } = claim.lease;
    Ok(desk.store.renew(claim.job, fence, lease).await?)
}

/// A builder puts a commit forward.
pub async fn submit(
    desk: &LocalCoordinator,
    policy: &Policy,
    session: &AgentSession,
    claim: &SessionClaim,
    (mut submission, said): (Submission, Said),
    once: Option<Once>,
) -> Result<Ticket, Error> {
    submission.claims = said.claims;
    submission.summary = findings::clean(&said.summary);
    let what = EventKind::Submitted {
        lease: claim.lease,
        submission: Box::new(submission),
        reports: said.reports,
        session: None,
        usage: Usage::default(),
    };
    report(desk, policy, session, claim, what, once).await
}

/// A reviewer's word. How it was held is not ours to know, and is recorded so.
pub async fn judge(
    desk: &LocalCoordinator,
    policy: &Policy,
    session: &AgentSession,
    claim: &SessionClaim,
    review: Review,
    once: Option<Once>,
) -> Result<Ticket, Error> {
    let Task::Review { commit, .. } = &claim.task else {
        return Err(Error::Unusable(format!(
            "what you have in hand is a {}, not a review",
            claim.task.word()
        )));
    };
    let what = EventKind::Reviewed {
        lease: claim.lease,
        commit: commit.clone(),
        review: Box::new(flow::answer::weighed(review, policy)),
        isolation: "a session, on its own copy; it can write nothing of ours".to_owned(),
        usage: Usage::default(),
    };
    report(desk, policy, session, claim, what, once).await
}

/// A verifier's word on single findings.
pub async fn verify(
    desk: &LocalCoordinator,
    policy: &Policy,
    session: &AgentSession,
    claim: &SessionClaim,
    answers: Vec<VerifierAnswer>,
    once: Option<Once>,
) -> Result<Ticket, Error> {
    let Task::Verify { commit, .. } = &claim.task else {
        return Err(Error::Unusable(format!(
            "what you have in hand is a {}, not a verification",
            claim.task.word()
        )));
    };
    let what = EventKind::Verified {
        lease: claim.lease,
        commit: commit.clone(),
        answers,
        usage: Usage::default(),
    };
    report(desk, policy, session, claim, what, once).await
}

async fn report(
    desk: &LocalCoordinator,
    policy: &Policy,
    session: &AgentSession,
    claim: &SessionClaim,
    what: EventKind,
    once: Option<Once>,
) -> Result<Ticket, Error> {
    session.standing.may(Action::Report)?;
    let id = &claim.stored.ticket.id;
    if !session.may_speak_of(id) {
        return Err(Error::NoSuchTicket(id.clone()));
    }
    start(desk, session, claim).await?;
    let report = Report {
        once,
        ..Report::new(session.actor_for(&claim.task), what)
    };
    Coordinator::report(desk, id, policy, report).await
}
