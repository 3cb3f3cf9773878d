//! Claims of remote workers. The name on a lease begins with the token that claimed it, so that a
//! caller with another token cannot extend or end it under any name.
//!
//! Two workers may choose the same name. With the token in front of it, the name on a lease still
//! tells them apart, and a renewal under a copied name fails.

use std::time::Duration;

use engine::coordinator::{Coordinator, JobRequest, TaskReport, WorkItem};
use flow::event::Lease;
use flow::remote_access::check_usage;
use flow::{Queue, TicketId};
use store::{Job, JobId, JobQuery, JobState, Leased, Page};

use super::{CallRefusal, Caller, clean_texts, is_plain};

// Limits of one call.
const QUEUES_MAX: usize = 64;
const AGENTS_MAX: usize = 64;
const NAMES_MAX: usize = 4;
const SKIPPED_MAX: usize = 1000;
const JOBS_MAX: u32 = 1000;
/// Maximum lease of a task. Tasks have no ticket policy that would limit it.
/// A lease without an end would hide a dead worker.
const TASK_LEASE_MAX: Duration = Duration::from_secs(3600);
/// More than the leased jobs of any ticket or queue.
const LEASED_MAX: u32 = 1000;
/// Replaces the name of another worker.
/// Names of other workers show hosts and processes of other machines.
const OTHER_HOLDER: &str = "another";

impl Caller<'_> {
    /// Returns the prefix of all names on this worker's leases.
    fn holder_prefix(&self) -> String {
        format!("{}@", self.identity.token)
    }

    /// Tells whether a name on a lease is this worker's.
    pub fn holds(&self, holder: Option<&str>) -> bool {
        holder.is_some_and(|holder| holder.starts_with(&self.holder_prefix()))
    }

    /// Removes the prefix from this worker's own name, and hides the names of others.
    fn visible_holder(&self, holder: &str) -> String {
        let own_name = holder.strip_prefix(&self.holder_prefix());
        own_name.unwrap_or(OTHER_HOLDER).to_owned()
    }

    /// Validates the request and builds the one for the coordinator.
    pub fn validate_request(&self, request: JobRequest) -> Result<JobRequest, CallRefusal> {
        // Bounds first, so that a huge list is not compared name by name.
        if !is_bounded(&request) || !are_names(&request) {
            return Err(CallRefusal::barred(
                "a name of a queue, agent or worker is not valid, or the call has too many names",
            ));
        }
        if request
            .queues
            .iter()
            .chain(&request.tasks)
            // A `tell` job changes other tickets, and a `report` job brings words of other people.
            .any(Queue::is_beside_loop)
        {
            return Err(CallRefusal::barred(
                "tell and report jobs are reserved to the server",
            ));
        }
        Ok(JobRequest {
            // The worker's own name is kept behind the prefix, for people.
            worker: format!("{}{}", self.holder_prefix(), request.worker),
            // Many workers call here, so a caller's word takes no lease back from another.
            leases: Vec::new(),
            alone_in: Vec::new(),
            most: request.most.min(JOBS_MAX),
            ..request
        })
    }

    /// Claims jobs of the ticket or task that the request names.
    pub async fn claim(&self, request: JobRequest) -> Result<Vec<Leased>, CallRefusal> {
        let request = self.validate_request(request)?;
        let (ticket, policy) = match &request.only {
            // A worker that brought its own policy could skip gates.
            // For a ticket the recorded policy decides, not the worker's.
            Some(WorkItem::Ticket(id)) => (Some(id), None),
            Some(WorkItem::Task(_)) => (None, request.policy.clone()),
            None => {
                return Err(CallRefusal::barred("a claim must name its ticket or task"));
            }
        };
        let lease = self.limit_lease(request.lease, ticket).await?;
        let request = JobRequest {
            lease,
            policy,
            ..request
        };
        let mut jobs = self.app.coordinator.claim(&request).await?;
        for job in &mut jobs {
            job.holder = self.visible_holder(&job.holder);
        }
        Ok(jobs)
    }

    /// Limits a lease to the time that the ticket's policy permits.
    async fn limit_lease(
        &self,
        requested: Duration,
        ticket: Option<&TicketId>,
    ) -> Result<Duration, CallRefusal> {
        // A task has no policy that could be asked.
        let Some(id) = ticket else {
            return Ok(requested.min(TASK_LEASE_MAX));
        };
        let stored = self.load_ticket(id).await?;
        let policy = self.policy_of(&stored).await?;
        Ok(requested.min(Duration::from_secs(policy.limits.lease_secs)))
    }

    /// Checks that the worker holds the job, and extends the lease if asked.
    pub async fn renew(
        &self,
        job: JobId,
        fence: u64,
        extend: Option<Duration>,
    ) -> Result<(), CallRefusal> {
        // Without `extend` the call only asks whether the lease still holds.
        let job_held = self.leased_job(job, fence).await?;
        if let Some(extend) = extend {
            let lease = self.limit_lease(extend, job_held.ticket.as_ref()).await?;
            self.app.coordinator.store.renew(job, fence, lease).await?;
        }
        Ok(())
    }

    /// Ends a task that belongs to no ticket, and counts its cost.
    pub async fn finish(&self, report: TaskReport) -> Result<(), CallRefusal> {
        // An implausible cost would use up the budget of the day for everybody.
        check_usage(report.usage).map_err(CallRefusal::barred)?;
        let job = self.leased_job(report.job, report.fence).await?;
        if job.ticket.is_some() {
            return Err(CallRefusal::barred(
                "the job belongs to a ticket: report an event instead",
            ));
        }
        // A run of a later lease cannot exist yet.
        if report.run > report.fence {
            return Err(CallRefusal::barred(
                "the run does not belong to a task that you hold",
            ));
        }
        let report = TaskReport {
            by: self.identity.actor.agent.clone(),
            ..clean_texts(report)?
        };
        Ok(self.app.coordinator.finish(report).await?)
    }

    /// Returns the job of a ticket if this worker holds it under the lease.
    pub async fn held_job(&self, ticket: &TicketId, lease: Lease) -> Result<Job, CallRefusal> {
        // Looked up in the store and not in the ticket: the store's clock ends a lease.
        let jobs = self.leased_jobs_of(ticket).await?.into_iter();
        let mut same = jobs.filter(|job| job.serial == Some(lease.serial));
        let job = same.next();
        let name = format!("{ticket}/{}", lease.serial);
        self.must_hold(job, &name, lease.fence)
    }

    async fn leased_jobs_of(&self, ticket: &TicketId) -> Result<Vec<Job>, CallRefusal> {
        let query = JobQuery {
            ticket: Some(ticket.clone()),
            state: Some(JobState::Leased),
            ..JobQuery::default()
        };
        let page = self
            .app
            .coordinator
            .store
            .jobs(&query, &all_leased())
            .await?;
        Ok(page.items)
    }

    /// Returns a job by its number if this worker holds it under the fence.
    async fn leased_job(&self, id: JobId, fence: u64) -> Result<Job, CallRefusal> {
        let stored = self.app.coordinator.store.job(id).await?;
        let job = stored.filter(|job| job.state == JobState::Leased);
        self.must_hold(job, &id.0.to_string(), fence)
    }

    fn must_hold(&self, job: Option<Job>, name: &str, given: u64) -> Result<Job, CallRefusal> {
        let current = job.as_ref().map_or(0, |job| job.fence);
        let is_ours = |job: &Job| job.fence == given && self.holds(job.holder.as_deref());
        job.filter(is_ours).ok_or_else(|| {
            // The answer is the same for a foreign, a lost and an unknown lease.
            CallRefusal::NotHeld(store::Error::StaleFence {
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
    let texts = [&request.name, &request.worker].into_iter();
    let labels = request.labels.iter().flatten();
    let texts = texts.chain(labels).map(String::as_str);
    queues.chain(texts).all(is_plain)
        && agents.all(|agent| {
            let agent_names = std::iter::once(&agent.name).chain(&agent.names);
            let mut names = agent_names.chain(&agent.provider);
            is_plain(agent.queue.name()) && names.all(|name| is_plain(name))
        })
}

/// Returns the page that holds all leased jobs of a ticket or queue.
pub fn all_leased() -> Page {
    Page {
        after: None,
        most: LEASED_MAX,
    }
}
