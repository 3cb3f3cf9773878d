//! Claims of workers elsewhere. The name on a lease begins with the token that it was claimed with,
//! so that nobody with another token can prolong or end it, whatever name it gives itself.

use std::time::Duration;

use engine::coordinator::{Coordinator, JobRequest, TaskReport, WorkItem};
use flow::event::Lease;
use flow::remote_access::price;
use flow::{Queue, TicketId};
use store::{Job, JobId, JobQuery, JobState, Leased, Page};

use super::{Caller, No, cleaned, is_plain};

/// How much one call may ask for.
const QUEUES_MAX: usize = 64;
const AGENTS_MAX: usize = 64;
const NAMES_MAX: usize = 4;
const SKIPPED_MAX: usize = 1000;
const JOBS_MAX: u32 = 1000;
/// A job that no ticket decides about is not held longer without a sign of life.
const TASK_LEASE_MAX: Duration = Duration::from_secs(3600);
/// A ticket, or a queue, has fewer leased jobs.
const LEASED_MAX: u32 = 1000;
/// Shown instead of another's name.
const ANOTHER: &str = "another";

impl Caller<'_> {
    /// The prefix of all names on this worker's leases.
    fn mark(&self) -> String {
        format!("{}@", self.speaker.token)
    }

    pub fn holds(&self, holder: Option<&str>) -> bool {
        holder.is_some_and(|holder| holder.starts_with(&self.mark()))
    }

    /// A worker knows its own name on a lease, and needs nobody else's.
    fn shown(&self, holder: &str) -> String {
        let own = holder.strip_prefix(&self.mark());
        own.unwrap_or(ANOTHER).to_owned()
    }

    /// The request as it is put to the coordinator.
    pub fn sound(&self, request: JobRequest) -> Result<JobRequest, No> {
        if !is_bounded(&request) || !are_names(&request) {
            return Err(No::barred(
                "these are no names of queues, agents and workers",
            ));
        }
        if request
            .queues
            .iter()
            .chain(&request.tasks)
            .any(|queue| *queue == Queue::Tell)
        {
            return Err(No::barred("the server itself tells dependent tickets"));
        }
        Ok(JobRequest {
            worker: format!("{}{}", self.mark(), request.worker),
            // One worker serves many: nothing that others hold is taken back at its word.
            held: Vec::new(),
            alone_in: Vec::new(),
            most: request.most.min(JOBS_MAX),
            ..request
        })
    }

    pub async fn claim(&self, request: JobRequest) -> Result<Vec<Leased>, No> {
        let request = self.sound(request)?;
        let (ticket, policy) = match &request.only {
            // The recorded policy decides about a ticket, and not the worker's.
            Some(WorkItem::Ticket(id)) => (Some(id), None),
            Some(WorkItem::Task(_)) => (None, request.policy.clone()),
            None => {
                return Err(No::barred(
                    "a worker claims of a ticket or a task that it has chosen",
                ));
            }
        };
        let lease = self.lasting(request.lease, ticket).await?;
        let request = JobRequest {
            lease,
            policy,
            ..request
        };
        let mut jobs = self.office.desk.claim(&request).await?;
        for job in &mut jobs {
            job.holder = self.shown(&job.holder);
        }
        Ok(jobs)
    }

    /// No longer than the ticket's own policy says.
    async fn lasting(&self, asked: Duration, ticket: Option<&TicketId>) -> Result<Duration, No> {
        let Some(id) = ticket else {
            return Ok(asked.min(TASK_LEASE_MAX));
        };
        let stored = self.stored(id).await?;
        let policy = self.policy_of(&stored).await?;
        Ok(asked.min(Duration::from_secs(policy.limits.lease_secs)))
    }

    pub async fn renew(&self, job: JobId, fence: u64, extend: Option<Duration>) -> Result<(), No> {
        let held = self.leased(job, fence).await?;
        if let Some(extend) = extend {
            let lease = self.lasting(extend, held.ticket.as_ref()).await?;
            self.office.desk.store.renew(job, fence, lease).await?;
        }
        Ok(())
    }

    /// Ends a task, which no ticket decides about, and counts what it cost.
    pub async fn finish(&self, report: TaskReport) -> Result<(), No> {
        price(report.usage).map_err(No::barred)?;
        let held = self.leased(report.job, report.fence).await?;
        if held.ticket.is_some() {
            return Err(No::barred(
                "a ticket decides about its jobs: report an event",
            ));
        }
        if report.run > report.fence {
            return Err(No::barred("that is no run of a task that you hold"));
        }
        let report = TaskReport {
            by: self.speaker.actor.agent.clone(),
            ..cleaned(report)?
        };
        Ok(self.office.desk.finish(report).await?)
    }

    /// This worker's lease on a job of a ticket.
    pub async fn held(&self, ticket: &TicketId, lease: Lease) -> Result<Job, No> {
        let found = self.of_ticket(ticket).await?.into_iter();
        let mut same = found.filter(|job| job.serial == Some(lease.serial));
        let job = same.next();
        let name = format!("{ticket}/{}", lease.serial);
        self.must_hold(job, &name, lease.fence)
    }

    async fn of_ticket(&self, ticket: &TicketId) -> Result<Vec<Job>, No> {
        let query = JobQuery {
            ticket: Some(ticket.clone()),
            state: Some(JobState::Leased),
            ..JobQuery::default()
        };
        let found = self.office.desk.store.jobs(&query, &all_leased()).await?;
        Ok(found.items)
    }

    /// This worker's lease on a job by its number.
    async fn leased(&self, id: JobId, fence: u64) -> Result<Job, No> {
        let found = self.office.desk.store.job(id).await?;
        let job = found.filter(|job| job.state == JobState::Leased);
        self.must_hold(job, &id.0.to_string(), fence)
    }

    fn must_hold(&self, job: Option<Job>, name: &str, given: u64) -> Result<Job, No> {
        let current = job.as_ref().map_or(0, |job| job.fence);
        let held = |job: &Job| job.fence == given && self.holds(job.holder.as_deref());
        job.filter(held).ok_or_else(|| {
            No::NotHeld(store::Error::StaleFence {
                job: name.to_owned(),
                given,
                current,
            })
        })
    }
}

fn is_bounded(request: &JobRequest) -> bool {
    let mut agents = request.agents.iter();
    request.queues.len() + request.tasks.len() <= QUEUES_MAX
        && request
            .labels
            .as_ref()
            .is_none_or(|labels| labels.len() <= QUEUES_MAX)
        && request.agents.len() <= AGENTS_MAX
        && agents.all(|agent| agent.names.len() <= NAMES_MAX)
        && request.skip.len() <= SKIPPED_MAX
}

fn are_names(request: &JobRequest) -> bool {
    let mut agents = request.agents.iter();
    let queues = request.queues.iter().chain(&request.tasks);
    let queues = queues.map(Queue::name);
    let named = [&request.name, &request.worker].into_iter();
    let labels = request.labels.iter().flatten();
    let named = named.chain(labels).map(String::as_str);
    queues.chain(named).all(is_plain)
        && agents.all(|agent| {
            let own = std::iter::once(&agent.name).chain(&agent.names);
            let mut names = own.chain(&agent.provider);
            is_plain(agent.queue.name()) && names.all(|name| is_plain(name))
        })
}

pub fn all_leased() -> Page {
    Page {
        after: None,
        most: LEASED_MAX,
    }
}
