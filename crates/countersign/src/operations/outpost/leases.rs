//! Claims of workers elsewhere. The name on a lease begins with the token that it was claimed with,
//! so that nobody with another token can prolong or end it, whatever name it gives itself.

use std::collections::BTreeSet;
use std::time::Duration;

use engine::perform::task::spending_key;
use flow::event::Lease;
use flow::outpost::price;
use flow::{Queue, TicketId};
use serde_json::json;
use store::{
    ClaimRequest, ClaimTarget, Ended, Job, JobId, JobQuery, JobState, Leased, Noted, Page, Paged,
    Work,
};

use super::call::Spent;
use super::{Caller, No, cleaned, is_plain};

/// How much one call may ask for.
const QUEUES_MAX: usize = 64;
const JOBS_MAX: u32 = 64;
const ENDED_MAX: usize = 64;
const EXCEPT_MAX: usize = 10_000;
/// A job that no ticket decides about is not held longer without a sign of life.
const FREE_LEASE_MAX: Duration = Duration::from_secs(3600);
/// A ticket, or a queue, has fewer jobs in hand.
const IN_HAND_MAX: u32 = 1000;
/// What is shown instead of another's name.
const ANOTHER: &str = "another";

impl Caller<'_> {
    /// What all names on this worker's leases begin with.
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

    /// The request as it is put to the store.
    pub fn sound(&self, mut request: ClaimRequest) -> Result<ClaimRequest, No> {
        let served = request.queues.iter();
        let served = served.flat_map(|one| {
            let names = [one.queue.name(), one.agent.as_str()];
            names.into_iter().chain(one.provider.as_deref())
        });
        let own = request.paused_as.iter().chain([&request.worker]);
        let own = own.chain(request.labels.iter().flatten());
        let names = own.map(String::as_str).chain(served);
        let exclusive = request.exclusive.iter().map(Queue::name);
        let are_names = { names.chain(exclusive) }.all(is_plain);
        let counts = [
            request.queues.len(),
            request.paused_as.len(),
            request.exclusive.len(),
            request.labels.as_ref().map_or(0, BTreeSet::len),
        ];
        if !are_names || counts.iter().any(|count| *count > QUEUES_MAX) {
            return Err(No::barred(
                "these are no names of queues, agents and workers",
            ));
        }
        if request.except.len() > EXCEPT_MAX {
            return Err(No::barred(format!(
                "more than {EXCEPT_MAX} jobs passed over"
            )));
        }
        if request
            .queues
            .iter()
            .any(|served| served.queue == Queue::Tell)
        {
            return Err(No::barred("the server itself brings the news"));
        }
        request.worker = format!("{}{}", self.mark(), request.worker);
        request.limit = request.limit.min(JOBS_MAX);
        Ok(request)
    }

    pub async fn claim(&self, request: ClaimRequest) -> Result<Vec<Leased>, No> {
        let mut request = self.sound(request)?;
        let ticket = match &request.only {
            None => {
                return Err(No::barred(
                    "a worker claims of a ticket or a task that it has chosen",
                ));
            }
            Some(ClaimTarget::Ticket(ticket)) => Some(ticket.clone()),
            Some(ClaimTarget::Job(job)) => {
                let job = self.office.desk.store.job(*job).await?;
                job.and_then(|job| job.ticket)
            }
        };
        request.lease = self.lasting(request.lease, ticket.as_ref()).await?;
        let claimed = self.office.desk.store.claim(&request).await?;
        Ok(claimed.into_iter().map(|job| self.named(job)).collect())
    }

    fn named(&self, job: Leased) -> Leased {
        let holder = self.shown(&job.holder);
        Leased { holder, ..job }
    }

    /// No longer than the ticket's own policy says.
    async fn lasting(&self, asked: Duration, ticket: Option<&TicketId>) -> Result<Duration, No> {
        let Some(id) = ticket else {
            return Ok(asked.min(FREE_LEASE_MAX));
        };
        let stored = self.stored(id).await?;
        let policy = self.policy_of(&stored).await?;
        Ok(asked.min(Duration::from_secs(policy.limits.lease_secs)))
    }

    pub async fn renew(&self, job: JobId, fence: u64, lease: Duration) -> Result<flow::Time, No> {
        let held = self.in_hand(job, fence).await?;
        let lease = self.lasting(lease, held.ticket.as_ref()).await?;
        Ok(self.office.desk.store.renew(job, fence, lease).await?)
    }

    /// Ends tasks, which no ticket decides about.
    pub async fn finish(&self, ended: Vec<Ended>) -> Result<(), No> {
        if ended.len() > ENDED_MAX {
            return Err(No::barred(format!("more than {ENDED_MAX} tasks at once")));
        }
        for one in &ended {
            if self.in_hand(one.job, one.fence).await?.ticket.is_some() {
                return Err(No::barred(
                    "a ticket decides about its jobs: report an event",
                ));
            }
        }
        let ended = cleaned(ended)?;
        self.office.desk.store.finish(ended, None).await?;
        Ok(())
    }

    pub async fn jobs(&self, query: &JobQuery, page: &Page) -> Result<Paged<Job>, No> {
        let mut found = self.office.desk.store.jobs(query, page).await?;
        found.items = found.items.into_iter().map(|job| self.seen(job)).collect();
        Ok(found)
    }

    pub async fn job_by_key(&self, key: &str) -> Result<Option<Job>, No> {
        if !is_plain(key) {
            return Err(No::barred("that is no key of a task"));
        }
        let job = self.office.desk.store.job_by_key(key).await?;
        Ok(job.map(|job| self.seen(job)))
    }

    pub async fn job(&self, id: JobId) -> Result<Option<Job>, No> {
        let job = self.office.desk.store.job(id).await?;
        Ok(job.map(|job| self.seen(job)))
    }

    /// A job as a worker is shown it.
    fn seen(&self, mut job: Job) -> Job {
        job.holder = job.holder.take().map(|holder| self.shown(&holder));
        job
    }

    pub async fn has_open(&self, queues: Option<&[Queue]>) -> Result<bool, No> {
        let names = queues.unwrap_or_default();
        if names.len() > QUEUES_MAX || !names.iter().all(|queue| is_plain(queue.name())) {
            return Err(No::barred("these are no names of queues"));
        }
        Ok(self.office.desk.store.has_open(queues).await?)
    }

    /// Counts what a try of a task has cost that is in this worker's hands.
    pub async fn spend(&self, spent: Spent) -> Result<(), No> {
        let Spent {
            job,
            fence,
            run,
            usage,
        } = spent;
        price(usage).map_err(No::barred)?;
        let held = self.in_hand(job, fence).await?;
        let (Work::Free { body, .. }, true) = (&held.work, run <= fence) else {
            return Err(No::barred("that is no run of a task in your hands"));
        };
        let desk = &self.office.desk;
        let noted = Noted {
            at: (desk.clock)(),
            ticket: None,
            name: "task_ran".to_owned(),
            by: self.speaker.actor.agent.clone(),
            body: json!({"task": body["id"], "queue": held.queue, "usage": usage,
                "job": job, "fence": fence, "run": run}),
        };
        let key = spending_key(job, run);
        Ok(desk.store.spend(&key, noted, usage).await?)
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
        let found = self.office.desk.store.jobs(&query, &all_in_hand()).await?;
        Ok(found.items)
    }

    /// This worker's lease on a job by its number.
    async fn in_hand(&self, id: JobId, fence: u64) -> Result<Job, No> {
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

pub fn all_in_hand() -> Page {
    Page {
        after: None,
        most: IN_HAND_MAX,
    }
}
