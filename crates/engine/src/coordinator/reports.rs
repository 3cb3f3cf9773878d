//! Reports to forges: any process with the store and a connection to the forge may make any pending
//! one. All reports of a ticket are made by one process at a time, because two would write the same
//! comment twice.

use std::collections::BTreeSet;
use std::time::Duration;

use flow::{Actor, Queue, TicketId, Time};
use store::{ClaimRequest, FinishedTask, Job, JobQuery, JobState, Leased, TaskOutcome};

use super::claim::page;
use super::{Error, LocalCoordinator};
use crate::worker::name::{is_dead, process_name};

/// Maximum number of jobs that are read at a time.
const JOBS_MAX: u32 = 200;

impl LocalCoordinator {
    /// Lists the tickets with a due report, most urgent first.
    pub async fn due_reports(&self, only: Option<&TicketId>) -> Result<Vec<TicketId>, Error> {
        self.end_dead_reports(only).await?;
        let query = JobQuery {
            queue: Some(Queue::Report),
            ticket: only.cloned(),
            claimable: true,
            urgent_first: true,
            ..JobQuery::default()
        };
        let jobs = self.store.jobs(&query, &page(JOBS_MAX)).await?.items;
        let mut seen = BTreeSet::new();
        let tickets = jobs.into_iter().filter_map(|job| job.ticket);
        Ok(tickets.filter(|id| seen.insert(id.clone())).collect())
    }

    /// Returns when the next report of a ticket is due, if one waits, and the error of its last try.
    pub async fn waiting_report(
        &self,
        id: &TicketId,
    ) -> Result<Option<(Time, Option<String>)>, Error> {
        let jobs = self.reports(Some(id), JobState::Waiting).await?;
        let next = jobs.into_iter().min_by_key(|job| job.not_before);
        Ok(next.map(|job| (job.not_before, job.last_error)))
    }

    /// Claims all due reports of a ticket: one look is enough for all of them. Returns nothing while
    /// another process makes one.
    pub async fn claim_reports(&self, id: &TicketId) -> Result<Vec<Leased>, Error> {
        if self.is_reported_elsewhere(id, None).await? {
            return Ok(Vec::new());
        }
        let jobs = self.claim_reports_of(id).await?;
        let Some(first) = jobs.iter().map(|job| job.id).min() else {
            return Ok(Vec::new());
        };
        // Two processes may have claimed different jobs at the same moment. The older job decides.
        if self.is_reported_elsewhere(id, Some(first)).await? {
            for job in jobs {
                self.store.release(job.id, job.fence).await?;
            }
            return Ok(Vec::new());
        }
        Ok(jobs)
    }

    /// Ends claimed reports. With a time, one of them is made again then.
    pub async fn finish_reports(
        &self,
        jobs: &[Leased],
        again: Option<TaskOutcome>,
    ) -> Result<(), Error> {
        let mut again = again;
        for job in jobs {
            let done = TaskOutcome::Done {
                result: serde_json::Value::Null,
            };
            let ended = FinishedTask {
                job: job.id,
                fence: job.fence,
                outcome: again.take().unwrap_or(done),
            };
            match self.store.finish(vec![ended], None).await {
                // The lease ran out, and another process has made the report or makes it now.
                Ok(_) | Err(store::Error::StaleFence { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Returns when there may be a report to make, or after `most`.
    pub async fn wait_for_reports(&self, most: Duration) {
        let agent = Actor::system().agent;
        let request = ClaimRequest::new(process_name(), &agent, [Queue::Report], most);
        self.store.wait(&request, most).await;
    }

    async fn reports(&self, only: Option<&TicketId>, state: JobState) -> Result<Vec<Job>, Error> {
        let query = JobQuery {
            queue: Some(Queue::Report),
            ticket: only.cloned(),
            state: Some(state),
            ..JobQuery::default()
        };
        Ok(self.store.jobs(&query, &page(JOBS_MAX)).await?.items)
    }

    /// Ends the leases of dead processes, so that nobody waits until they run out.
    async fn end_dead_reports(&self, only: Option<&TicketId>) -> Result<(), Error> {
        for job in self.reports(only, JobState::Leased).await? {
            // A report of our own that was dropped half-way is free: this process makes one report
            // of a ticket at a time.
            let is_left = |holder: &str| is_dead(holder) || holder == process_name();
            if job.holder.as_deref().is_some_and(is_left) {
                self.end_lease(&job).await?;
            }
        }
        Ok(())
    }

    /// Returns whether another process holds a report of the ticket: any, or one older than `first`.
    async fn is_reported_elsewhere(
        &self,
        id: &TicketId,
        first: Option<store::JobId>,
    ) -> Result<bool, Error> {
        let now = self.store.now().await?;
        let held = self.reports(Some(id), JobState::Leased).await?;
        Ok(held.iter().any(|job| {
            let is_live = job.lease_until.is_none_or(|until| until > now);
            let is_other = job.holder.as_deref() != Some(process_name().as_str());
            is_live && is_other && first.is_none_or(|first| job.id < first)
        }))
    }
}
