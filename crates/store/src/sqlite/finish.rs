//! Ends jobs without a ticket, and extends leases. Only the holder of the lease may do either.
//!
//! A job of a ticket is refused here: its end is a decision about the ticket and goes through
//! `commit`.

use std::time::Duration;

use rusqlite::{OptionalExtension, params};

use flow::Time;

use crate::error::Error;
use crate::job::{ClaimRequest, FinishedTask, JobId, Leased, TaskOutcome};
use crate::rows::{self, JobStory};

use super::jobs::{assert_fence, lease_columns};
use super::writer::Tx;

impl Tx<'_> {
    pub(super) fn finish(
        &mut self,
        ended: &[FinishedTask],
        then: Option<&ClaimRequest>,
    ) -> Result<Vec<Leased>, Error> {
        // All or nothing: the caller's savepoint undoes the first ones if a later one is stale.
        for job in ended {
            self.end_free(job)?;
        }
        then.map_or(Ok(Vec::new()), |request| self.claim_if_room(request))
    }

    fn end_free(&mut self, ended: &FinishedTask) -> Result<(), Error> {
        let mut select = self.db.prepare_cached(
            "SELECT id, state, fence, lease_until, tracked, ticket, queue, kind, holder, attempts
            FROM jobs WHERE id = ?1",
        )?;
        let mut rows = select.query([ended.job.0])?;
        let Some(row) = rows.next()? else {
            return assert_fence(None, ended.job.0, ended.fence).map(drop);
        };
        // The fence comes before any other check, so that a stale caller learns only that it is
        // stale.
        let id = assert_fence(Some(lease_columns(row)?), ended.job.0, ended.fence)?.id;
        if row.get(4)? {
            return Err(Error::belongs_to_ticket(&ended.job.0.to_string()));
        }
        let queue = row.get_ref(6)?.as_str()?;
        let mut story = JobStory::new(id, queue, row.get_ref(7)?.as_str()?);
        let attempts = row.get::<_, i64>(9)? + 1;
        let name = match &ended.outcome {
            TaskOutcome::Done { result } => {
                self.end_done(id, &serde_json::to_string(result)?)?;
                "job_done"
            }
            TaskOutcome::Retry {
                error,
                not_before,
                counts,
            } => {
                // A retry that is not the job's fault, such as a provider's limit, does not count
                // as an attempt.
                let attempts = attempts - i64::from(!counts);
                story = story.failed(attempts, error);
                self.end_retry(id, not_before.0, attempts, error)?;
                self.made_ready(queue);
                "job_retried"
            }
            TaskOutcome::Dead { error } => {
                story = story.failed(attempts, error);
                self.end_dead(id, attempts, error)?;
                "job_dead"
            }
        };
        // The row is still open here, so its text is borrowed and not copied.
        let by = row.get_ref(8)?.as_str_or_null()?.unwrap_or_default();
        self.log_event(name, by, row.get_ref(5)?.as_str_or_null()?, &story)
    }

    pub(super) fn drop_free(&self, job: JobId, by: &str, why: &str) -> Result<bool, Error> {
        // A job with a ticket is left alone, even if its id was given by mistake.
        let mut update = self.db.prepare_cached(
            "UPDATE jobs SET state = 'dropped', last_error = ?2, ended_at = ?3, lease_until = NULL
            WHERE id = ?1 AND ticket IS NULL AND NOT tracked
                AND state IN ('leased', 'ready', 'waiting')
            RETURNING queue, kind",
        )?;
        let why = rows::clean(why);
        let mut rows = update.query(params![job.0, why, self.now])?;
        let Some(row) = rows.next()? else {
            return Ok(false);
        };
        let (queue, kind): (String, String) = (row.get(0)?, row.get(1)?);
        let story = JobStory::new(job.0, &queue, &kind).dropped(&why);
        self.log_event("job_dropped", &rows::clean(by), None, &story)?;
        Ok(true)
    }

    fn end_done(&self, id: i64, result: &str) -> Result<(), Error> {
        self.db
            .prepare_cached(
                "UPDATE jobs SET state = 'done', result = ?2, ended_at = ?3, lease_until = NULL
                WHERE id = ?1",
            )?
            .execute(params![id, result, self.now])?;
        Ok(())
    }

    pub(super) fn end_retry(
        &self,
        id: i64,
        not_before: i64,
        attempts: i64,
        error: &str,
    ) -> Result<(), Error> {
        let state = self.state_for(not_before)?;
        self.db
            .prepare_cached(
                "UPDATE jobs SET state = ?2, not_before = ?3, attempts = ?4, last_error = ?5,
                    holder = NULL, lease_until = NULL
                WHERE id = ?1",
            )?
            .execute(params![id, state, not_before, attempts, rows::clean(error)])?;
        Ok(())
    }

    pub(super) fn end_dead(&self, id: i64, attempts: i64, error: &str) -> Result<(), Error> {
        self.db
            .prepare_cached(
                "UPDATE jobs SET state = 'dead', attempts = ?2, last_error = ?3, ended_at = ?4,
                    lease_until = NULL
                WHERE id = ?1",
            )?
            .execute(params![id, attempts, rows::clean(error), self.now])?;
        Ok(())
    }

    pub(super) fn renew(&self, job: JobId, fence: u64, lease: Duration) -> Result<Time, Error> {
        let mut select = self
            .db
            .prepare_cached("SELECT id, state, fence, lease_until FROM jobs WHERE id = ?1")?;
        let lease_columns = select.query_row([job.0], lease_columns).optional()?;
        assert_fence(lease_columns, job.0, fence)?;
        // The new end counts from now and not from the old end, so frequent renewals do not add up.
        let until = rows::lease_end(self.now, lease);
        self.db
            .prepare_cached("UPDATE jobs SET lease_until = ?2 WHERE id = ?1")?
            .execute(params![job.0, until])?;
        Ok(Time(until))
    }
}
