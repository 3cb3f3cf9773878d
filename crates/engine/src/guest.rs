//! Guests: agents that we did not start. They come with an identity, ask for work, and report what
//! they did. Nothing they say is taken on trust: it goes through the same door as what our own runs
//! bring, under a lease that ends where a guest falls silent. Those that we did start may call too,
//! about the job that they have; they neither take work nor report it.

use std::time::Duration;

use findings::{CriterionAnswer, Review};
use flow::attempt::{Attempt, HeldClaim};
use flow::event::{Answer, FindingReport, Lease, ReportedOutcome};
use flow::standing::{Deed, Standing};
use flow::ticket::Submission;
use flow::{Actor, Event, Policy, Queue, Role, Task, Ticket, TicketId, Time, Usage, What};
use store::{
    ClaimRequest, ClaimTarget, Job, JobId, JobQuery, JobState, Leased, Page, StatementKind, Stored,
    Work,
};

use crate::desk::{Desk, Error, Once, Report};

/// How many waiting jobs are looked through for one that the guest may take: a few, and all these
/// where none of the few was for it.
const LOOK_FIRST: u32 = 32;
const LOOK_MOST: u32 = 1000;
/// So many it goes for before it looks again: others that ask at the same time are after the same.
const TRIES_MAX: usize = 16;
/// So often it looks again where others were faster.
const LOOKS_MAX: u32 = 64;
/// The statements under one claim that are read.
const DISPUTES_MAX: u32 = 50;

/// Who asks, and of which ticket alone it may speak.
#[derive(Clone, Debug)]
pub struct Guest {
    pub actor: Actor,
    pub ticket: Option<TicketId>,
    pub standing: Standing,
    /// The queues of its tasks, which count as claims too: it has one claim at a time.
    pub task_queues: Vec<Queue>,
}

/// A job in a guest's hands.
#[derive(Clone, Debug)]
pub struct Errand {
    pub stored: Stored,
    pub policy: Policy,
    pub task: Task,
    pub job: JobId,
    pub lease: Lease,
    pub until: Time,
}

/// The queues that a role works from.
pub fn queues(role: Role) -> &'static [Queue] {
    match role {
        Role::Builder => &[Queue::Build],
        Role::Reviewer => &[Queue::Review, Queue::Verify],
        Role::Verifier => &[Queue::Verify],
        Role::Human | Role::Service | Role::Admin => &[],
    }
}

/// What a builder says about what it puts forward; claims, all of it.
#[derive(Clone, Debug, Default)]
pub struct Said {
    pub summary: String,
    pub claims: Vec<CriterionAnswer>,
    pub reports: Vec<FindingReport>,
}

impl Guest {
    /// Its name on leases: the agent's, so that one that was restarted finds its work again.
    pub fn holder(&self) -> String {
        format!("guest:{}", self.actor.agent)
    }

    fn queues(&self) -> Vec<Queue> {
        queues(self.actor.role).to_vec()
    }

    /// The queues of which it may have one job at a time, all together.
    pub fn alone_in(&self) -> Vec<Queue> {
        let mut queues = self.queues();
        queues.extend(self.task_queues.iter().cloned());
        queues
    }

    /// Of what is in its hands, or its worker's.
    fn may_hold(&self, job: &Job) -> bool {
        let of_ticket = self.ticket == job.ticket;
        match self.standing {
            Standing::Guest => of_ticket || self.ticket.is_none(),
            Standing::Hired(lease) => {
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

    /// The request for its next job, also to wait for one.
    pub fn claim_request(&self, lease: Duration) -> ClaimRequest {
        ClaimRequest {
            only: self.ticket.clone().map(ClaimTarget::Ticket),
            exclusive: self.alone_in(),
            ..ClaimRequest::new(self.holder(), &self.actor.agent, self.queues(), lease)
        }
    }
}

impl Errand {
    /// The name of this claim; every report on it carries it.
    pub fn attempt(&self) -> Attempt {
        Attempt::of_job(&self.stored.ticket.id, self.lease, &self.task)
    }

    /// The claim that a report is compared with.
    pub fn claim(&self) -> HeldClaim {
        HeldClaim::of_job(&self.stored.ticket.id, self.lease, &self.task)
    }

    /// The guest has said that it is at work.
    pub fn is_started(&self) -> bool {
        let mut jobs = self.stored.ticket.jobs.iter();
        jobs.any(|job| job.serial == self.lease.serial && job.fence == self.lease.fence)
    }
}

/// Adds the disputes of a claim to a builder's final reports; the final report on a finding counts.
pub async fn with_disputes(
    desk: &Desk,
    (ticket, lease): (&TicketId, Lease),
    mut reports: Vec<FindingReport>,
) -> Result<Vec<FindingReport>, Error> {
    for said in desk.store.statements(ticket, lease, DISPUTES_MAX).await? {
        let StatementKind::Dispute { finding } = said.kind else {
            continue;
        };
        if reports.iter().all(|one| one.finding != finding) {
            reports.push(FindingReport {
                finding,
                outcome: ReportedOutcome::Disputed,
                note: said.text,
            });
        }
    }
    Ok(reports)
}

/// What the guest has in hand, if anything.
pub async fn held(desk: &Desk, guest: &Guest) -> Result<Option<Errand>, Error> {
    for job in in_hand(desk, guest).await? {
        if guest.may_hold(&job)
            && let Some(errand) = errand(desk, job.into()).await?
        {
            return Ok(Some(errand));
        }
    }
    Ok(None)
}

async fn in_hand(desk: &Desk, guest: &Guest) -> Result<Vec<Job>, Error> {
    match guest.standing {
        Standing::Guest => Ok(desk
            .store
            .held_jobs(&guest.holder(), &guest.queues())
            .await?),
        // The lease is its worker's, and its ticket has few jobs.
        Standing::Hired(_) => {
            let query = JobQuery {
                state: Some(JobState::Leased),
                ticket: guest.ticket.clone(),
                ..JobQuery::default()
            };
            page_of(desk, &query, LOOK_MOST).await
        }
    }
}

/// What the guest has in hand, else the most urgent job that it may take.
pub async fn take(desk: &Desk, guest: &Guest) -> Result<Option<Errand>, Error> {
    guest.standing.may(Deed::Take)?;
    let queues = guest.queues();
    // Many agents ask while there is nothing at all.
    if !desk.store.has_open(Some(&queues)).await? {
        return Ok(None);
    }
    if let Some(errand) = held(desk, guest).await? {
        return Ok(Some(errand));
    }
    if has_a_task(desk, guest).await? {
        return Ok(None);
    }
    let mut before = None;
    for _ in 0..LOOKS_MAX {
        let offers = offers(desk, guest, &queues).await?;
        // What others took is not there any more; what still is, is kept from the guest.
        let first = offers.first().map(|offer| offer.job);
        if first.is_none() || first == before {
            break;
        }
        before = first;
        for offer in &offers {
            if let Some(errand) = claim(desk, guest, offer).await? {
                return Ok(Some(errand));
            }
        }
    }
    // Another process of the same agent may have been given one in this instant.
    held(desk, guest).await
}

/// A task that it holds is its one claim.
async fn has_a_task(desk: &Desk, guest: &Guest) -> Result<bool, Error> {
    if guest.task_queues.is_empty() {
        return Ok(false);
    }
    let holder = guest.holder();
    let held = desk.store.held_jobs(&holder, &guest.task_queues).await?;
    Ok(!held.is_empty())
}

/// What the guest may take, the most urgent of each queue first.
async fn offers(desk: &Desk, guest: &Guest, queues: &[Queue]) -> Result<Vec<Errand>, Error> {
    let mut offers = Vec::new();
    for most in [LOOK_FIRST, LOOK_MOST] {
        let mut is_all = true;
        for queue in queues {
            let ready = ready(desk, guest, queue, most).await?;
            is_all &= ready.len() < usize::try_from(most).unwrap_or(usize::MAX);
            offers.extend(candidates(desk, guest, ready).await?);
        }
        if is_all || !offers.is_empty() {
            break;
        }
    }
    Ok(offers)
}

/// What is there for the guest or for anybody, the most urgent first.
async fn ready(desk: &Desk, guest: &Guest, queue: &Queue, most: u32) -> Result<Vec<Job>, Error> {
    let query = JobQuery {
        queue: Some(queue.clone()),
        claimable: true,
        ticket: guest.ticket.clone(),
        agent: Some(guest.actor.agent.clone()),
        urgent_first: true,
        ..JobQuery::default()
    };
    page_of(desk, &query, most).await
}

/// Those of them that the guest may take.
async fn candidates(desk: &Desk, guest: &Guest, jobs: Vec<Job>) -> Result<Vec<Errand>, Error> {
    let mut found = Vec::new();
    for job in jobs {
        if found.len() == TRIES_MAX {
            break;
        }
        if let Some(errand) = errand(desk, job.into()).await?
            && may_start(desk, guest, &errand)
        {
            found.push(errand);
        }
    }
    Ok(found)
}

/// Asked of `flow`, as if it began now: who built part of a change is not offered its review.
fn may_start(desk: &Desk, guest: &Guest, errand: &Errand) -> bool {
    let ticket = &errand.stored.ticket;
    let mut jobs = ticket.jobs.iter();
    let ours = jobs.find(|job| job.serial == errand.lease.serial);
    let named = ours.and_then(|job| job.agent.as_ref());
    if named.is_some_and(|name| *name != guest.actor.agent) {
        return false;
    }
    let lease = Lease {
        fence: errand.lease.fence + 1,
        ..errand.lease
    };
    let event = Event {
        at: (desk.clock)(),
        by: guest.actor_for(&errand.task),
        expects: None,
        what: What::Started { lease },
    };
    flow::advance(ticket, &event, &errand.policy).is_ok()
}

async fn claim(desk: &Desk, guest: &Guest, offer: &Errand) -> Result<Option<Errand>, Error> {
    let lease = Duration::from_secs(offer.policy.limits.heartbeat_secs);
    let mut request = guest.claim_request(lease);
    request
        .queues
        .retain(|served| served.queue == offer.task.queue());
    request.only = Some(ClaimTarget::Ticket(offer.stored.ticket.id.clone()));
    match desk.store.claim(&request).await?.pop() {
        Some(leased) => errand(desk, leased.into()).await,
        None => Ok(None),
    }
}

async fn page_of(desk: &Desk, query: &JobQuery, most: u32) -> Result<Vec<Job>, Error> {
    let page = Page { after: None, most };
    Ok(desk.store.jobs(query, &page).await?.items)
}

async fn errand(desk: &Desk, held: Held) -> Result<Option<Errand>, Error> {
    let (Some(id), Some(serial), Work::Task(task)) = (held.ticket, held.serial, held.work) else {
        return Ok(None);
    };
    let stored = desk.ticket(&id).await?;
    let policy = desk.policy_of(&stored).await?;
    Ok(Some(Errand {
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

/// What an errand is made of, whether it was found or has just been claimed.
struct Held {
    job: JobId,
    ticket: Option<TicketId>,
    serial: Option<u32>,
    work: Work,
    fence: u64,
    until: Time,
}

impl From<Job> for Held {
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

impl From<Leased> for Held {
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

/// The guest says that it is at work; saying it twice is saying it once.
pub async fn start(desk: &Desk, guest: &Guest, errand: &Errand) -> Result<Ticket, Error> {
    if errand.is_started() {
        return Ok(errand.stored.ticket.clone());
    }
    let what = What::Started {
        lease: errand.lease,
    };
    let id = &errand.stored.ticket.id;
    let report = Report::new(guest.actor_for(&errand.task), what);
    let refused = match desk.decide(id, &errand.policy, report).await {
        Err(Error::Refused(refused)) => refused,
        decided => return decided,
    };
    // The same call at the same time may have said it for both.
    let now = Errand {
        stored: desk.ticket(id).await?,
        ..errand.clone()
    };
    if now.is_started() {
        return Ok(now.stored.ticket);
    }
    Err(refused.into())
}

/// A sign of life: the lease is prolonged. One that we started has ours, which lasts for as long as we
/// do.
pub async fn beat(desk: &Desk, guest: &Guest, errand: &Errand) -> Result<Time, Error> {
    if let Standing::Hired(_) = guest.standing {
        return Ok(errand.until);
    }
    let lease = Duration::from_secs(errand.policy.limits.heartbeat_secs);
    let Lease { fence, .. } = errand.lease;
    Ok(desk.store.renew(errand.job, fence, lease).await?)
}

/// A builder puts a commit forward.
pub async fn submit(
    desk: &Desk,
    policy: &Policy,
    guest: &Guest,
    errand: &Errand,
    (mut submission, said): (Submission, Said),
    once: Option<Once>,
) -> Result<Ticket, Error> {
    submission.claims = said.claims;
    submission.summary = findings::clean(&said.summary);
    let claim = (&errand.stored.ticket.id, errand.lease);
    let reports = with_disputes(desk, claim, said.reports).await?;
    let what = What::Submitted {
        lease: errand.lease,
        submission: Box::new(submission),
        reports,
        session: None,
        usage: Usage::default(),
    };
    report(desk, policy, guest, errand, what, once).await
}

/// A reviewer's word. How it was held is not ours to know, and is recorded so.
pub async fn judge(
    desk: &Desk,
    policy: &Policy,
    guest: &Guest,
    errand: &Errand,
    review: Review,
    once: Option<Once>,
) -> Result<Ticket, Error> {
    let Task::Review { commit, .. } = &errand.task else {
        return Err(Error::Unusable(format!(
            "what you have in hand is a {}, not a review",
            errand.task.word()
        )));
    };
    let what = What::Reviewed {
        lease: errand.lease,
        commit: commit.clone(),
        review: Box::new(flow::answer::weighed(review, policy)),
        isolation: "a guest, on its own copy; it can write nothing of ours".to_owned(),
        usage: Usage::default(),
    };
    report(desk, policy, guest, errand, what, once).await
}

/// A verifier's word on single findings.
pub async fn verify(
    desk: &Desk,
    policy: &Policy,
    guest: &Guest,
    errand: &Errand,
    answers: Vec<Answer>,
    once: Option<Once>,
) -> Result<Ticket, Error> {
    let Task::Verify { commit, .. } = &errand.task else {
        return Err(Error::Unusable(format!(
            "what you have in hand is a {}, not a verification",
            errand.task.word()
        )));
    };
    let what = What::Verified {
        lease: errand.lease,
        commit: commit.clone(),
        answers,
        usage: Usage::default(),
    };
    report(desk, policy, guest, errand, what, once).await
}

async fn report(
    desk: &Desk,
    policy: &Policy,
    guest: &Guest,
    errand: &Errand,
    what: What,
    once: Option<Once>,
) -> Result<Ticket, Error> {
    guest.standing.may(Deed::Report)?;
    let id = &errand.stored.ticket.id;
    if !guest.may_speak_of(id) {
        return Err(Error::NoSuchTicket(id.clone()));
    }
    start(desk, guest, errand).await?;
    let report = Report {
        once,
        ..Report::new(guest.actor_for(&errand.task), what)
    };
    desk.decide(id, policy, report).await
}
