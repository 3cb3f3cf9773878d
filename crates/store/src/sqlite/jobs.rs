//! Adds jobs, updates the jobs of tickets, and lists jobs. Claims are in `claim`, the end of jobs
//! without a ticket is in `finish`.
//!
//! Every update names the states that it may leave, so a job that has ended is never brought back.

use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use flow::Queue;

use crate::batched::HeldJobs;
use crate::error::Error;
use crate::job::{Job, JobId, JobQuery, JobState, JobWork, Leased};
use crate::listing::Listing;
use crate::record::{Page, Paged};
use crate::rows::{self, Encoded, JobColumns, JobStory, JobUpdate, int, nat, nat32, time};

use super::writer::{CLOCK, Tx, now};

/// Columns of a job that a fence is compared with.
pub(super) struct LeaseColumns {
    pub(super) id: i64,
    leased: bool,
    fence: i64,
    lease_until: Option<i64>,
}

impl Tx<'_> {
    /// Checks the lease of an event that reports on a job: the fence must be the current one. If
    /// the event reports a lost lease, it must have run out by the database's clock.
    pub(super) fn assert_lease(&self, change: &Encoded) -> Result<(), Error> {
        let Some(check) = change.lease else {
            return Ok(());
        };
        let name = format!("{}#{}", change.ticket.id, check.serial);
        let mut select = self.db.prepare_cached(
            "SELECT id, state, fence, lease_until FROM jobs WHERE ticket = ?1 AND serial = ?2",
        )?;
        let lease = select
            .query_row(params![change.ticket.id, check.serial], lease_columns)
            .optional()?;
        let lease = assert_fence(lease, &name, check.fence)?;
        // The comparison uses the database's clock. Workers' clocks differ, and a fast one would
        // take jobs from living workers.
        if check.must_have_run_out && lease.lease_until.is_some_and(|until| until > self.now) {
            return Err(Error::lease_alive(&name));
        }
        Ok(())
    }

    pub(super) fn turn_jobs(&mut self, ticket: &str, turns: &[JobUpdate]) -> Result<(), Error> {
        for update in turns {
            let (serial, exists) = match update {
                JobUpdate::Retry {
                    serial,
                    not_before,
                    attempts,
                    error,
                } => (
                    serial,
                    self.retry_of_ticket(
                        ticket,
                        *serial,
                        *not_before,
                        *attempts,
                        error.as_deref(),
                    )?,
                ),
                JobUpdate::End { serial, state, why } => (
                    serial,
                    self.end_of_ticket(ticket, *serial, *state, why.as_deref())?,
                ),
            };
            // A ticket that names a job which does not exist is a mistake in the decision, so
            // nothing of it is written.
            if !exists {
                return Err(Error::no_such_job(ticket, *serial));
            }
        }
        Ok(())
    }

    fn retry_of_ticket(
        &mut self,
        ticket: &str,
        serial: i64,
        not_before: i64,
        attempts: i64,
        error: Option<&str>,
    ) -> Result<bool, Error> {
        let state = self.state_for(not_before)?;
        let mut update = self.db.prepare_cached(
            "UPDATE jobs SET state = ?3, not_before = ?4, attempts = ?5,
                last_error = coalesce(?6, last_error), holder = NULL, lease_until = NULL
            WHERE ticket = ?1 AND serial = ?2 AND state IN ('leased', 'ready', 'waiting')
            RETURNING queue",
        )?;
        let values = params![ticket, serial, state, not_before, attempts, error];
        let queue: Option<String> = update.query_row(values, |row| row.get(0)).optional()?;
        let exists = queue.is_some();
        // The wake-up is also sent for a job that has to wait: a sleeping waiter must learn the new
        // time.
        self.ready.extend(queue);
        Ok(exists)
    }

    /// Returns ready, or waiting until `not_before`. An operation that joined the group late may
    /// use a later time than the group's, so the clock is read again before a job has to wait.
    pub(super) fn state_for(&self, not_before: i64) -> Result<&'static str, Error> {
        let now = if not_before > self.now {
            now(self.db)?
        } else {
            self.now
        };
        Ok(rows::state_for(not_before, now))
    }

    /// Ends a job of a ticket; a job that has ended already stays as it is.
    fn end_of_ticket(
        &self,
        ticket: &str,
        serial: i64,
        state: JobState,
        why: Option<&str>,
    ) -> Result<bool, Error> {
        let mut update = self.db.prepare_cached(
            "UPDATE jobs SET state = ?3, last_error = coalesce(?4, last_error), ended_at = ?5,
                lease_until = NULL
            WHERE ticket = ?1 AND serial = ?2 AND state IN ('leased', 'ready', 'waiting')",
        )?;
        if update.execute(params![ticket, serial, state.word(), why, self.now])? > 0 {
            return Ok(true);
        }
        // No row was changed: either the job has ended before, which is fine, or it does not exist.
        let mut select = self
            .db
            .prepare_cached("SELECT 1 FROM jobs WHERE ticket = ?1 AND serial = ?2")?;
        Ok(select.exists(params![ticket, serial])?)
    }

    pub(super) fn add_jobs(&mut self, jobs: &[JobColumns]) -> Result<Vec<i64>, Error> {
        jobs.iter().map(|job| self.add_job(job)).collect()
    }

    fn add_job(&mut self, job: &JobColumns) -> Result<i64, Error> {
        // The limit is checked per job and inside the transaction, so concurrent callers cannot
        // exceed it together.
        if let Some(most) = job.queue_max {
            self.assert_room_in(&job.queue, most)?;
        }
        let state = self.state_for(job.not_before)?;
        let mut insert = self.db.prepare_cached(
            "INSERT INTO jobs (queue, state, agent, priority, ticket, serial, tracked, kind,
                created_at, not_before, key, body, needs, depends_on)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?;
        insert.execute(params![
            job.queue,
            state,
            job.agent,
            job.priority,
            job.ticket,
            job.serial,
            job.tracked,
            job.kind,
            self.now,
            job.not_before.max(0),
            job.key,
            job.body,
            list(&job.needs)?,
            list(&job.depends_on)?,
        ])?;
        // Also for a waiting job: waiters must learn when it becomes due.
        self.made_ready(&job.queue);
        Ok(self.db.last_insert_rowid())
    }

    /// Refuses a job for a full queue. The count stops at the limit, so a long queue costs no more
    /// than a short one.
    fn assert_room_in(&self, queue: &str, most: u64) -> Result<(), Error> {
        let mut select = self.db.prepare_cached(
            "SELECT (SELECT count(*) FROM
                    (SELECT 1 FROM jobs WHERE queue = ?1 AND state = 'ready' LIMIT ?2))
                + (SELECT count(*) FROM
                    (SELECT 1 FROM jobs WHERE queue = ?1 AND state = 'waiting' LIMIT ?2))",
        )?;
        let size = nat(select.query_row(params![queue, int(most)], |row| row.get(0))?);
        if size < most {
            return Ok(());
        }
        Err(Error::QueueFull {
            queue: queue.to_owned(),
            size,
            most,
        })
    }

    pub(super) fn enqueue(&mut self, jobs: &[JobColumns]) -> Result<Vec<JobId>, Error> {
        let mut ids = Vec::with_capacity(jobs.len());
        for job in jobs {
            // The same key means that the caller repeats a call after a lost answer: it gets the
            // first job's id.
            let id = match self.same_key(job)? {
                Some(id) => id,
                None => self.add_free(job)?,
            };
            ids.push(JobId(id));
        }
        Ok(ids)
    }

    fn add_free(&mut self, job: &JobColumns) -> Result<i64, Error> {
        let id = self.add_job(job)?;
        let story = JobStory::new(id, &job.queue, &job.kind);
        self.log_event("job_enqueued", "", None, &story)?;
        Ok(id)
    }

    fn same_key(&self, job: &JobColumns) -> Result<Option<i64>, Error> {
        let Some(key) = &job.key else {
            return Ok(None);
        };
        let mut select = self
            .db
            .prepare_cached("SELECT id, queue, kind, body FROM jobs WHERE key = ?1")?;
        let row: Option<(i64, String, String, String)> = select
            .query_row([key], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })
            .optional()?;
        let Some((id, queue, kind, body)) = row else {
            return Ok(None);
        };
        // The same key with other content is a mistake of the caller's, not a repetition.
        job.assert_same(&queue, &kind, &body)?;
        Ok(Some(id))
    }
}

pub(super) fn lease_columns(row: &Row<'_>) -> rusqlite::Result<LeaseColumns> {
    Ok(LeaseColumns {
        id: row.get(0)?,
        leased: row.get_ref(1)?.as_str()? == JobState::Leased.word(),
        fence: row.get(2)?,
        lease_until: row.get(3)?,
    })
}

pub(super) fn assert_fence(
    lease: Option<LeaseColumns>,
    name: impl ToString,
    given: u64,
) -> Result<LeaseColumns, Error> {
    // A missing job has fence zero, which no lease ever has.
    let current = lease.as_ref().map_or(0, |columns| nat(columns.fence));
    lease
        .filter(|columns| columns.leased && nat(columns.fence) == given)
        .ok_or_else(|| Error::StaleFence {
            job: name.to_string(),
            given,
            current,
        })
}

/// Columns in the order of [`leased`].
pub(super) const LEASED_COLUMNS: &str =
    "id, queue, ticket, serial, kind, body, fence, holder, lease_until, attempts, agent, provider";

pub(super) fn leased(row: &Row<'_>) -> Result<Leased, Error> {
    let ticket: Option<String> = row.get(2)?;
    let serial: Option<i64> = row.get(3)?;
    let body: String = row.get(5)?;
    Ok(Leased {
        id: JobId(row.get(0)?),
        queue: row.get::<_, String>(1)?.into(),
        // A job of a ticket and a job without one encode their work differently.
        work: JobWork::read(ticket.is_some(), row.get(4)?, &body)?,
        ticket: ticket.map(rows::ticket_id).transpose()?,
        serial: serial.map(nat32),
        fence: nat(row.get(6)?),
        holder: row.get::<_, Option<String>>(7)?.unwrap_or_default(),
        until: time(row.get::<_, Option<i64>>(8)?.unwrap_or_default()),
        attempts: nat32(row.get(9)?),
        // An empty name stands for no particular agent: a claim compares names, and NULL equals
        // none.
        agent: Some(row.get::<_, String>(10)?).filter(|agent| !agent.is_empty()),
        provider: row.get(11)?,
    })
}

/// Encodes a list as JSON text; NULL for an empty list.
fn list(names: &[String]) -> Result<Option<String>, Error> {
    if names.is_empty() {
        return Ok(None);
    }
    Ok(Some(serde_json::to_string(names)?))
}

pub(super) fn page(db: &Connection, query: &JobQuery, page: &Page) -> Result<Paged<Job>, Error> {
    let listing = Listing::jobs(rows::JOB_COLUMNS, query, page, ('?', CLOCK));
    let mut select = db.prepare_cached(&listing.sql)?;
    let mut rows = select.query(params_from_iter(&listing.binds))?;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        items.push(job(row)?);
    }
    Ok(listing.page(items, |job| job.id.0))
}

/// Counts jobs by queue and state, each state with its own index.
pub(super) fn count(db: &Connection) -> Result<Vec<(Queue, JobState, u64)>, Error> {
    let mut all = Vec::new();
    // One query per state uses that state's partial index; a single GROUP BY would read the table.
    for state in JobState::COUNTED {
        let word = state.word();
        let sql = format!("SELECT queue, count(*) FROM jobs WHERE state = '{word}' GROUP BY queue");
        let mut select = db.prepare_cached(&sql)?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            all.push((row.get::<_, String>(0)?.into(), state, nat(row.get(1)?)));
        }
    }
    Ok(all)
}

pub(super) fn one(db: &Connection, id: JobId) -> Result<Option<Job>, Error> {
    let columns = rows::JOB_COLUMNS;
    let sql = format!("SELECT {columns} FROM jobs WHERE id = ?1");
    let mut select = db.prepare_cached(&sql)?;
    let mut rows = select.query([id.0])?;
    rows.next()?.map(job).transpose()
}

/// Returns whether one of the queues has a job that has not ended; checks each state with its own
/// index.
pub(super) fn any_open(db: &Connection, queues: &[String]) -> Result<bool, Error> {
    let mut select = db.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM jobs WHERE state = 'ready' AND queue = ?1)
            OR EXISTS (SELECT 1 FROM jobs WHERE state = 'leased' AND queue = ?1)
            OR EXISTS (SELECT 1 FROM jobs WHERE state = 'waiting' AND queue = ?1)",
    )?;
    for queue in queues {
        if select.query_row([queue], |row| row.get(0))? {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn held_jobs(db: &Connection, request: &HeldJobs) -> Result<Vec<Job>, Error> {
    let columns = rows::JOB_COLUMNS;
    let mut select = db.prepare_cached(&format!(
        "SELECT {columns} FROM jobs
        WHERE state = 'leased' AND queue = ?1 AND holder = ?2 ORDER BY id"
    ))?;
    let mut jobs = Vec::new();
    // One indexed query per queue is cheaper than a list that SQLite cannot use the index for.
    for queue in &request.queues {
        let mut rows = select.query([queue, &request.holder])?;
        while let Some(row) = rows.next()? {
            jobs.push(job(row)?);
        }
    }
    jobs.sort_by_key(|job| job.id);
    Ok(jobs)
}

/// Returns whether any queue has a job that has not ended.
pub(super) fn any_open_at_all(db: &Connection) -> Result<bool, Error> {
    let mut select = db.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM jobs WHERE state = 'ready')
            OR EXISTS (SELECT 1 FROM jobs WHERE state = 'leased')
            OR EXISTS (SELECT 1 FROM jobs WHERE state = 'waiting')",
    )?;
    Ok(select.query_row([], |row| row.get(0))?)
}

fn job(row: &Row<'_>) -> Result<Job, Error> {
    let ticket: Option<String> = row.get(3)?;
    let serial: Option<i64> = row.get(4)?;
    let body: String = row.get(6)?;
    let result: Option<String> = row.get(15)?;
    Ok(Job {
        id: JobId(row.get(0)?),
        queue: row.get::<_, String>(1)?.into(),
        state: JobState::read(&row.get::<_, String>(2)?)?,
        work: JobWork::read(ticket.is_some(), row.get(5)?, &body)?,
        ticket: ticket.map(rows::ticket_id).transpose()?,
        serial: serial.map(nat32),
        priority: row.get(7)?,
        created_at: time(row.get(8)?),
        not_before: time(row.get(9)?),
        attempts: nat32(row.get(10)?),
        fence: nat(row.get(11)?),
        holder: row.get(12)?,
        lease_until: row.get::<_, Option<i64>>(13)?.map(time),
        last_error: row.get(14)?,
        result: result.map(|text| rows::decode(&text)).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::open;
    use super::super::space::Space;
    use super::super::writer::ClaimCache;
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn a_job_that_is_due_does_not_wait_because_its_group_began_long_ago() {
        let dir = tempfile::tempdir().unwrap();
        let (path, settings) = (dir.path().join("jobs.db"), Settings::default());
        let db = open::writer(&path, &settings).unwrap();
        let clock = now(&db).unwrap();
        let tx = Tx {
            db: &db,
            space: &mut Space::new(&path, &settings),
            settings: &settings,
            now: clock - 60_000,
            seen: &mut ClaimCache::default(),
            ready: &mut BTreeSet::new(),
            gated: false,
        };
        for (not_before, state) in [
            (clock - 90_000, "ready"),
            (clock - 30_000, "ready"),
            (clock, "ready"),
            (clock + 60_000, "waiting"),
        ] {
            assert_eq!(tx.state_for(not_before).unwrap(), state);
        }
    }
}
