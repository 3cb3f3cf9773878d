//! Jobs that no ticket decides about: ended and prolonged by whoever holds their lease.

use std::time::Duration;

use flow::Time;

use crate::error::Error;
use crate::job::{Ask, Ended, JobId, Leased, Outcome};
use crate::rows::{self, count, int, nat, time};

use super::Postgres;
use super::claim;
use super::errors::is_not_all;
use super::pipeline::{Pipeline, Session, values};

impl Postgres {
    pub(super) async fn end_all(
        &self,
        ended: &[Ended],
        then: Option<&Ask>,
    ) -> Result<Vec<Leased>, Error> {
        let mut session = Session::new(&self.pool).await?;
        let mut steps = Pipeline::default();
        steps.push("BEGIN", Vec::new());
        end_free(&mut steps, ended)?;
        let claimed = then.map(|ask| {
            claim::bring_back(&mut steps, ask, self.settings.attempts_max);
            claim::take(&mut steps, ask)
        });
        // Sent at once: where an assertion above refused, this takes everything back.
        steps.push("COMMIT", Vec::new());
        let retries = ended
            .iter()
            .any(|one| matches!(one.outcome, Outcome::Retry { .. }));
        if retries {
            steps.append(self.bell.fire_all());
        }
        let answers = session.run(steps).await?;
        if answers.first_error().is_some_and(is_not_all) {
            return Err(self.stale(ended).await?);
        }
        answers.all_well(true)?;
        if retries {
            self.wakes.nudge();
        }
        claimed.map_or(Ok(Vec::new()), |place| claim::taken(answers.rows(place)?))
    }

    /// Which of them was refused, and why.
    async fn stale(&self, ended: &[Ended]) -> Result<Error, Error> {
        let ids: Vec<i64> = ended.iter().map(|one| one.job.0).collect();
        let sql = "SELECT id, state, fence, tracked FROM jobs WHERE id = ANY ($1::bigint[])";
        let found = self.read(sql, values![ids]).await?;
        for one in ended {
            let row = found.iter().find(|row| row.get::<_, i64>(0) == one.job.0);
            let current = row.map_or(0, |row| nat(row.get(2)));
            let held = row.is_some_and(|row| row.get::<_, &str>(1) == "leased");
            if !held || current != one.fence {
                return Ok(Error::StaleFence {
                    job: one.job.0.to_string(),
                    given: one.fence,
                    current,
                });
            }
            if row.is_some_and(|row| row.get(3)) {
                return Ok(Error::of_a_ticket(&one.job.0.to_string()));
            }
        }
        Ok(Error::Conflict {
            what: "one of the jobs".to_owned(),
        })
    }

    pub(super) async fn prolong(
        &self,
        job: JobId,
        fence: u64,
        lease: Duration,
    ) -> Result<Time, Error> {
        let sql = "UPDATE jobs SET lease_until = clock_ms() + $3
            WHERE id = $1 AND fence = $2 AND state = 'leased' RETURNING lease_until";
        let found = self
            .change(sql, values![job.0, int(fence), rows::lease_end(0, lease)])
            .await?;
        if let Some(row) = found.first() {
            return Ok(time(row.get(0)));
        }
        let sql = "SELECT fence FROM jobs WHERE id = $1";
        let found = self.read(sql, values![job.0]).await?;
        Err(Error::StaleFence {
            job: job.0.to_string(),
            given: fence,
            current: found.first().map_or(0, |row| nat(row.get(0))),
        })
    }
}

/// One statement for each way to end; each refuses unless every job of its was still held.
fn end_free(steps: &mut Pipeline, ended: &[Ended]) -> Result<(), Error> {
    let mut done = (Vec::new(), Vec::new(), Vec::new());
    let mut retry = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut dead = (Vec::new(), Vec::new(), Vec::new());
    for one in ended {
        let (id, fence) = (one.job.0, int(one.fence));
        match &one.outcome {
            Outcome::Done { result } => {
                done.0.push(id);
                done.1.push(fence);
                done.2.push(serde_json::to_string(result)?);
            }
            Outcome::Retry { error, not_before } => {
                retry.0.push(id);
                retry.1.push(fence);
                retry.2.push(rows::clean(error));
                retry.3.push(not_before.0);
            }
            Outcome::Dead { error } => {
                dead.0.push(id);
                dead.1.push(fence);
                dead.2.push(rows::clean(error));
            }
        }
    }
    if !done.0.is_empty() {
        let wanted = count(done.0.len());
        steps.push(DONE, values![done.0, done.1, done.2, wanted]);
    }
    if !retry.0.is_empty() {
        let wanted = count(retry.0.len());
        steps.push(RETRY, values![retry.0, retry.1, retry.2, wanted, retry.3]);
    }
    if !dead.0.is_empty() {
        let wanted = count(dead.0.len());
        steps.push(DEAD, values![dead.0, dead.1, dead.2, wanted]);
    }
    Ok(())
}

const DONE: &str = "WITH ended AS (UPDATE jobs SET state = 'done', result = given.text,
            ended_at = clock_ms(), lease_until = NULL
        FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS given (id, fence, text)
        WHERE jobs.id = given.id AND jobs.fence = given.fence AND state = 'leased' AND NOT tracked
        RETURNING jobs.id, queue, kind, ticket, holder),
    logged AS (INSERT INTO events (ticket, at, name, by, body)
        SELECT ticket, clock_ms(), 'job_done', coalesce(holder, ''),
            json_build_object('job', id, 'queue', queue, 'kind', kind)::text FROM ended)
    SELECT assert_all(count(*), $4) FROM ended";

const RETRY: &str = "WITH ended AS (UPDATE jobs SET last_error = given.text, not_before = given.at,
            state = CASE WHEN given.at <= clock_ms() THEN 'ready' ELSE 'waiting' END,
            attempts = attempts + 1, holder = NULL, lease_until = NULL
        FROM unnest($1::bigint[], $2::bigint[], $3::text[], $5::bigint[])
            AS given (id, fence, text, at)
        WHERE jobs.id = given.id AND jobs.fence = given.fence AND state = 'leased' AND NOT tracked
        RETURNING jobs.id, queue, kind, ticket, attempts, last_error),
    logged AS (INSERT INTO events (ticket, at, name, by, body)
        SELECT ticket, clock_ms(), 'job_retried', '', json_build_object('job', id, 'queue', queue,
            'kind', kind, 'attempts', attempts, 'error', last_error)::text FROM ended)
    SELECT assert_all(count(*), $4) FROM ended";

const DEAD: &str = "WITH ended AS (UPDATE jobs SET state = 'dead', last_error = given.text,
            attempts = attempts + 1, ended_at = clock_ms(), lease_until = NULL
        FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS given (id, fence, text)
        WHERE jobs.id = given.id AND jobs.fence = given.fence AND state = 'leased' AND NOT tracked
        RETURNING jobs.id, queue, kind, ticket, holder, attempts, last_error),
    logged AS (INSERT INTO events (ticket, at, name, by, body)
        SELECT ticket, clock_ms(), 'job_dead', coalesce(holder, ''), json_build_object('job', id,
            'queue', queue, 'kind', kind, 'attempts', attempts, 'error', last_error)::text
        FROM ended)
    SELECT assert_all(count(*), $4) FROM ended";
