//! Ends jobs without a ticket, and extends leases. Only the holder of the lease may do either.

use std::time::Duration;

use flow::Time;

use crate::error::Error;
use crate::job::{ClaimRequest, FinishedTask, JobId, Leased, TaskOutcome};
use crate::rows::{self, count, int, nat, time};

use super::Postgres;
use super::claim;
use super::errors::is_not_all;
use super::pipeline::{OpenTransaction, Pipeline, values};

impl Postgres {
    pub(super) async fn end_all(
        &self,
        ended: &[FinishedTask],
        then: Option<&ClaimRequest>,
    ) -> Result<Vec<Leased>, Error> {
        let due = then.map_or(Vec::new(), |request| {
            self.promoted.due(&request.queue_names())
        });
        let all_done = ended
            .iter()
            .all(|one| matches!(one.outcome, TaskOutcome::Done { .. }));
        let claimed = match then {
            // Failed jobs, due jobs and limits each need more than one statement, so they take the
            // long way.
            Some(request) if all_done && due.is_empty() && !claim::must_serialise(request) => {
                self.end_done_and_take(ended, request).await?
            }
            Some(_) | None => self.end_any(ended, then, due).await?,
        };
        // Ended jobs leave dead rows; the upkeep counts them.
        self.upkeep.jobs_ended(ended.len(), &self.pool);
        match then {
            // Fewer jobs than wanted: some may be due but were not checked for this time.
            Some(request) if count(claimed.len()) < i64::from(request.limit) => {
                Ok(self.take_the_rest(request, claimed).await)
            }
            Some(_) | None => Ok(claimed),
        }
    }

    /// Ends jobs as done and claims the next ones in one statement: the common case of a busy
    /// worker.
    async fn end_done_and_take(
        &self,
        ended: &[FinishedTask],
        request: &ClaimRequest,
    ) -> Result<Vec<Leased>, Error> {
        let mut session = OpenTransaction::new(&self.pool).await?;
        let mut steps = Pipeline::default();
        let (ids, fences, results) = done_columns(ended)?;
        let ended_count = count(ids.len());
        let values = values![ids, fences, results, ended_count, "leased"];
        let ends = (done(claim::MORE), DONE_LINES);
        let step = claim::end_and_take(&mut steps, (&ends.0, ends.1), values, request);
        let answers = session.run(steps).await?;
        // The check raises an error in the database, which undoes the whole statement.
        if answers.first_error().is_some_and(is_not_all) {
            return Err(self.stale(ended).await?);
        }
        answers.check_all(true)?;
        claim::taken(answers.rows(step)?)
    }

    async fn end_any(
        &self,
        ended: &[FinishedTask],
        then: Option<&ClaimRequest>,
        due: Vec<String>,
    ) -> Result<Vec<Leased>, Error> {
        let mut session = OpenTransaction::new(&self.pool).await?;
        let mut steps = Pipeline::default();
        steps.push("BEGIN", Vec::new());
        end_free(&mut steps, ended)?;
        let claimed = then.map(|request| {
            claim::promote_due(&mut steps, due, self.settings.attempts_max);
            claim::serialise_claims(&mut steps, request);
            claim::take(&mut steps, request)
        });
        // Sent without waiting: if an assertion above failed, COMMIT rolls everything back.
        steps.push("COMMIT", Vec::new());
        let retries = ended
            .iter()
            .any(|one| matches!(one.outcome, TaskOutcome::Retry { .. }));
        if retries {
            steps.append(self.channel.fire_all());
        }
        let answers = session.run(steps).await?;
        // The refusal names no job; a second read finds out which one it was.
        if answers.first_error().is_some_and(is_not_all) {
            return Err(self.stale(ended).await?);
        }
        answers.check_all(true)?;
        if retries {
            self.notifier.nudge();
        }
        claimed.map_or(Ok(Vec::new()), |step| claim::taken(answers.rows(step)?))
    }

    /// Finds out which job was refused, and why. The jobs may have changed since, so the error
    /// describes the present state and decides nothing.
    async fn stale(&self, ended: &[FinishedTask]) -> Result<Error, Error> {
        let ids: Vec<i64> = ended.iter().map(|one| one.job.0).collect();
        let sql = "SELECT id, state, fence, tracked FROM jobs WHERE id = ANY ($1::bigint[])";
        let rows = self.read(sql, values![ids]).await?;
        for one in ended {
            let row = rows.iter().find(|row| row.get::<_, i64>(0) == one.job.0);
            let current = row.map_or(0, |row| nat(row.get(2)));
            let leased = row.is_some_and(|row| row.get::<_, &str>(1) == "leased");
            if !leased || current != one.fence {
                return Ok(Error::StaleFence {
                    job: one.job.0.to_string(),
                    given: one.fence,
                    current,
                });
            }
            if row.is_some_and(|row| row.get(3)) {
                return Ok(Error::belongs_to_ticket(&one.job.0.to_string()));
            }
        }
        // Every job looks right now: its state changed between the two statements.
        Ok(Error::Conflict {
            what: "one of the jobs".to_owned(),
        })
    }

    pub(super) async fn drop_free(&self, job: JobId, by: &str, why: &str) -> Result<bool, Error> {
        let sql = "WITH ended AS (UPDATE jobs SET state = 'dropped', last_error = $2,
                    ended_at = clock_ms(), lease_until = NULL
                WHERE id = $1 AND ticket IS NULL AND NOT tracked
                    AND state IN ('leased', 'ready', 'waiting')
                RETURNING id, queue, kind, last_error),
            logged AS (INSERT INTO events (at, name, by, body)
                SELECT clock_ms(), 'job_dropped', $3, json_build_object('job', id, 'queue', queue,
                    'kind', kind, 'why', last_error)::text FROM ended)
            SELECT 1 FROM ended";
        let values = values![job.0, rows::clean(why), rows::clean(by)];
        Ok(!self.change(sql, values).await?.is_empty())
    }

    pub(super) async fn renew_lease(
        &self,
        job: JobId,
        fence: u64,
        lease: Duration,
    ) -> Result<Time, Error> {
        let sql = "UPDATE jobs SET lease_until = clock_ms() + $3
            WHERE id = $1 AND fence = $2 AND state = 'leased' RETURNING lease_until";
        let rows = self
            .change(sql, values![job.0, int(fence), rows::lease_end(0, lease)])
            .await?;
        if let Some(row) = rows.first() {
            return Ok(time(row.get(0)));
        }
        Err(self.stale_fence(job, fence).await?)
    }

    /// Builds the error for a stale fence, with the current fence of the job.
    pub(super) async fn stale_fence(&self, job: JobId, fence: u64) -> Result<Error, Error> {
        let sql = "SELECT fence FROM jobs WHERE id = $1";
        let rows = self.read(sql, values![job.0]).await?;
        Ok(Error::StaleFence {
            job: job.0.to_string(),
            given: fence,
            current: rows.first().map_or(0, |row| nat(row.get(0))),
        })
    }
}

type Columns = (Vec<i64>, Vec<i64>, Vec<String>);

/// Returns the ids, fences and results of the jobs that are done.
fn done_columns(ended: &[FinishedTask]) -> Result<Columns, Error> {
    let mut columns = Columns::default();
    for one in ended {
        if let TaskOutcome::Done { result } = &one.outcome {
            columns.0.push(one.job.0);
            columns.1.push(int(one.fence));
            columns.2.push(serde_json::to_string(result)?);
        }
    }
    Ok(columns)
}

/// Adds one statement per outcome; each fails unless all of its jobs are still leased.
fn end_free(steps: &mut Pipeline, ended: &[FinishedTask]) -> Result<(), Error> {
    let done_jobs = done_columns(ended)?;
    // One list per outcome, so that each outcome is one statement whatever the number of jobs.
    let mut retry = (Columns::default(), Vec::new(), Vec::new());
    let mut dead = Columns::default();
    for one in ended {
        match &one.outcome {
            TaskOutcome::Done { .. } => {}
            TaskOutcome::Retry {
                error,
                not_before,
                counts,
            } => {
                failed(&mut retry.0, one, error);
                retry.1.push(not_before.0);
                retry.2.push(i64::from(*counts));
            }
            TaskOutcome::Dead { error } => failed(&mut dead, one, error),
        }
    }
    if !done_jobs.0.is_empty() {
        let (ids, fences, results) = done_jobs;
        let expected = count(ids.len());
        let sql = format!(
            "WITH {}, noted AS (INSERT INTO events (ticket, name, by, at, body)
                SELECT ticket, name, by, (SELECT clock_ms()),
                    json_build_object('job', id, 'queue', queue, 'kind', kind)::text
                FROM ({DONE_LINES}) AS lines)
            SELECT * FROM checked",
            done(1)
        );
        steps.push(sql, values![ids, fences, results, expected, "leased"]);
    }
    if !retry.1.is_empty() {
        let ((ids, fences, errors), times, tries) = retry;
        let expected = count(ids.len());
        let values = values![ids, fences, errors, expected, "leased", times, tries];
        steps.push(RETRY, values);
    }
    if !dead.0.is_empty() {
        let (ids, fences, errors) = dead;
        let expected = count(ids.len());
        steps.push(DEAD, values![ids, fences, errors, expected, "leased"]);
    }
    Ok(())
}

fn failed(columns: &mut Columns, one: &FinishedTask, error: &str) {
    columns.0.push(one.job.0);
    columns.1.push(int(one.fence));
    columns.2.push(rows::clean(error));
}

/// Query for the log rows of the jobs that [`done`] ended.
const DONE_LINES: &str = "SELECT ticket, 'job_done' AS name, coalesce(holder, '') AS by, id, queue,
    kind FROM ended";

/// Returns the SQL that ends jobs as done; its five parameters are numbered from `first`. The state
/// is a parameter and the list has a limit, so that the planner uses the primary key: otherwise it
/// walks through every lease.
fn done(first: usize) -> String {
    let (ids, fences, results, expected) = (first, first + 1, first + 2, first + 3);
    let leased = first + 4;
    format!(
        "ended AS (UPDATE jobs SET state = 'done', result = given.text,
                ended_at = (SELECT clock_ms()), lease_until = NULL
            FROM (SELECT * FROM unnest(${ids}::bigint[], ${fences}::bigint[], ${results}::text[])
                LIMIT ${expected}) AS given (id, fence, text)
            WHERE jobs.id = given.id AND jobs.fence = given.fence AND state = ${leased}
                AND NOT tracked
            RETURNING jobs.id, queue, kind, ticket, holder),
        checked AS (SELECT assert_all(count(*), ${expected}) FROM ended)"
    )
}

const RETRY: &str = "WITH ended AS (UPDATE jobs SET last_error = given.text, not_before = given.at,
            state = CASE WHEN given.at <= clock_ms() THEN 'ready' ELSE 'waiting' END,
            attempts = attempts + given.tries, holder = NULL, lease_until = NULL
        FROM (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $6::bigint[],
                $7::bigint[]) LIMIT $4) AS given (id, fence, text, at, tries)
        WHERE jobs.id = given.id AND jobs.fence = given.fence AND state = $5 AND NOT tracked
        RETURNING jobs.id, queue, kind, ticket, attempts, last_error),
    logged AS (INSERT INTO events (ticket, at, name, by, body)
        SELECT ticket, clock_ms(), 'job_retried', '', json_build_object('job', id, 'queue', queue,
            'kind', kind, 'attempts', attempts, 'error', last_error)::text FROM ended)
    SELECT assert_all(count(*), $4) FROM ended";

const DEAD: &str = "WITH ended AS (UPDATE jobs SET state = 'dead', last_error = given.text,
            attempts = attempts + 1, ended_at = clock_ms(), lease_until = NULL
        FROM (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[])
            LIMIT $4) AS given (id, fence, text)
        WHERE jobs.id = given.id AND jobs.fence = given.fence AND state = $5 AND NOT tracked
        RETURNING jobs.id, queue, kind, ticket, holder, attempts, last_error),
    logged AS (INSERT INTO events (ticket, at, name, by, body)
        SELECT ticket, clock_ms(), 'job_dead', coalesce(holder, ''), json_build_object('job', id,
            'queue', queue, 'kind', kind, 'attempts', attempts, 'error', last_error)::text
        FROM ended)
    SELECT assert_all(count(*), $4) FROM ended";
