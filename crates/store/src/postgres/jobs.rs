//! Adds jobs, updates the jobs of tickets, and lists jobs. Claims are in `claim`, the end of jobs
//! without a ticket is in `finish`.
//!
//! Many jobs travel as arrays in one statement: the cost of a call is its round trips, not its
//! rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deadpool_postgres::Pool;
use tokio_postgres::Row;

use flow::Queue;

use crate::batched::{HasOpenJobs, HeldJobs};
use crate::batcher::BatchRequest;
use crate::error::Error;
use crate::job::{FreeJob, Job, JobId, JobQuery, JobState, JobWork};
use crate::listing::Listing;
use crate::record::{Page, Paged};
use crate::rows::{self, JobColumns, JobUpdate, int, nat, nat32, time};

use super::Postgres;
use super::pipeline::{self, Answers, OpenTransaction, Pipeline, StepIndex, values};
use super::tickets::binds;

/// Updates a job of a ticket. The step returns a row if there is such a job.
pub(super) fn turn(steps: &mut Pipeline, ticket: &str, turn: &JobUpdate) -> (StepIndex, i64) {
    match turn {
        JobUpdate::Retry {
            serial,
            not_before,
            attempts,
            error,
        } => {
            let place = steps.push(
                "UPDATE jobs SET attempts = $4, last_error = coalesce($5, last_error),
                    state = CASE WHEN $3 <= clock_ms() THEN 'ready' ELSE 'waiting' END,
                    not_before = $3, holder = NULL, lease_until = NULL
                WHERE ticket = $1 AND serial = $2 AND state IN ('leased', 'ready', 'waiting')
                RETURNING id",
                values![
                    ticket.to_owned(),
                    *serial,
                    *not_before,
                    *attempts,
                    error.clone()
                ],
            );
            (place, *serial)
        }
        JobUpdate::End { serial, state, why } => {
            steps.push(
                "UPDATE jobs SET state = $3, last_error = coalesce($4, last_error),
                    ended_at = clock_ms(), lease_until = NULL
                WHERE ticket = $1 AND serial = $2 AND state IN ('leased', 'ready', 'waiting')",
                values![ticket.to_owned(), *serial, state.word(), why.clone()],
            );
            // A job that has ended stays as it is; a job that does not exist is an error.
            let place = steps.push(
                "SELECT id FROM jobs WHERE ticket = $1 AND serial = $2",
                values![ticket.to_owned(), *serial],
            );
            (place, *serial)
        }
    }
}

/// A limited queue: the step that counts it, its name, the number of new jobs, and its limit.
type QueueCapacity = (StepIndex, String, u64, u64);

/// Counts each limited queue under an advisory lock, so that concurrent counts wait for each other.
pub(super) fn measure(steps: &mut Pipeline, jobs: &[JobColumns]) -> Vec<QueueCapacity> {
    let mut limited: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for job in jobs {
        if let Some(most) = job.queue_max {
            let (new, limit) = limited.entry(&job.queue).or_insert((0, most));
            *new += 1;
            // Callers with different limits for one queue: the strictest applies.
            *limit = most.min(*limit);
        }
    }
    let mut capacities = Vec::new();
    // Queues are locked in the order of their names, so two callers cannot deadlock.
    for (queue, (new, most)) in limited {
        steps.push(
            "SELECT pg_advisory_xact_lock(hashtext('countersign queue ' || $1))",
            values![queue.to_owned()],
        );
        let step = steps.push(
            "SELECT (SELECT count(*) FROM
                    (SELECT 1 FROM jobs WHERE queue = $1 AND state = 'ready' LIMIT $2) AS r)
                + (SELECT count(*) FROM
                    (SELECT 1 FROM jobs WHERE queue = $1 AND state = 'waiting' LIMIT $2) AS w)",
            values![queue.to_owned(), int(most)],
        );
        capacities.push((step, queue.to_owned(), new, most));
    }
    capacities
}

pub(super) fn assert_room(capacities: &[QueueCapacity], answers: &Answers) -> Result<(), Error> {
    for (step, queue, new, most) in capacities {
        // The count stops at the limit, so the sum with the new jobs may be less than the real
        // size.
        let size = answers.rows(*step)?.first().map_or(0, |row| row.get(0));
        let size = nat(size);
        if size.saturating_add(*new) > *most {
            return Err(Error::QueueFull {
                queue: queue.clone(),
                size: size.max(*most),
                most: *most,
            });
        }
    }
    Ok(())
}

const ADD: &str = "INSERT INTO jobs (queue, state, agent, priority, ticket, serial, tracked, kind,
        created_at, not_before, key, body, needs, depends_on)
    SELECT queue, CASE WHEN not_before <= (SELECT clock_ms()) THEN 'ready' ELSE 'waiting' END, agent,
        priority, ticket, serial, tracked, kind, (SELECT clock_ms()), greatest(not_before, 0), key, body,
        string_to_array(needs, chr(31)), string_to_array(depends_on, chr(31))
    FROM unnest($1::text[], $2::text[], $3::integer[], $4::text[], $5::bigint[], $6::boolean[],
            $7::text[], $8::bigint[], $9::text[], $10::text[], $11::text[], $12::text[])
        WITH ORDINALITY AS j (queue, agent, priority, ticket, serial, tracked, kind, not_before,
            key, body, needs, depends_on, place)
    ORDER BY place";

fn columns(jobs: &[JobColumns]) -> Vec<pipeline::Value> {
    values![
        all(jobs, |job| job.queue.clone()),
        all(jobs, |job| job.agent.clone()),
        all(jobs, |job| job.priority),
        all(jobs, |job| job.ticket.clone()),
        all(jobs, |job| job.serial),
        all(jobs, |job| job.tracked),
        all(jobs, |job| job.kind.clone()),
        all(jobs, |job| job.not_before),
        all(jobs, |job| job.key.clone()),
        all(jobs, |job| job.body.clone()),
        all(jobs, |job| joined(&job.needs)),
        all(jobs, |job| joined(&job.depends_on)),
    ]
}

/// Joins a list with U+001F, because `unnest` cannot carry arrays of arrays; NULL for an empty
/// list.
fn joined(names: &[String]) -> Option<String> {
    // The separator is a control character that no label or key has for a good reason.
    let without_separator = |name: &String| name.replace('\u{1f}', "");
    let names: Vec<String> = names.iter().map(without_separator).collect();
    (!names.is_empty()).then(|| names.join("\u{1f}"))
}

pub(super) fn add(steps: &mut Pipeline, jobs: &[JobColumns]) {
    if !jobs.is_empty() {
        steps.push(ADD, columns(jobs));
    }
}

/// End of a statement that adds jobs without a ticket: logs each of them.
const LOG_ADDED: &str = "logged AS (INSERT INTO events (at, name, by, body)
        SELECT (SELECT clock_ms()), 'job_enqueued', '',
            json_build_object('job', id, 'queue', queue, 'kind', kind)::text FROM added)
    SELECT id FROM added ORDER BY id";

/// Adds a job; if the key exists already, adds nothing and returns no row.
fn add_keyed(steps: &mut Pipeline, job: &JobColumns) -> StepIndex {
    let sql = format!(
        "WITH added AS ({ADD} ON CONFLICT (key) WHERE key IS NOT NULL DO NOTHING
            RETURNING id, queue, kind),
        {LOG_ADDED}"
    );
    steps.push(sql, columns(std::slice::from_ref(job)))
}

/// Adds jobs without keys. Without a possible conflict the database does less work.
fn add_plain(steps: &mut Pipeline, jobs: &[JobColumns]) -> StepIndex {
    let sql = format!(
        "WITH added AS (INSERT INTO jobs (queue, agent, priority, kind, body, not_before, state,
                created_at, tracked)
            SELECT queue, agent, priority, kind, body, greatest(not_before, 0),
                CASE WHEN not_before <= (SELECT clock_ms()) THEN 'ready' ELSE 'waiting' END,
                (SELECT clock_ms()), false
            FROM unnest($1::text[], $2::text[], $3::integer[], $4::text[], $5::text[],
                $6::bigint[]) AS j (queue, agent, priority, kind, body, not_before)
            RETURNING id, queue, kind),
        {LOG_ADDED}"
    );
    let values = values![
        all(jobs, |job| job.queue.clone()),
        all(jobs, |job| job.agent.clone()),
        all(jobs, |job| job.priority),
        all(jobs, |job| job.kind.clone()),
        all(jobs, |job| job.body.clone()),
        all(jobs, |job| job.not_before),
    ];
    steps.push(sql, values)
}

fn all<T>(jobs: &[JobColumns], column: impl Fn(&JobColumns) -> T) -> Vec<T> {
    jobs.iter().map(column).collect()
}

impl Postgres {
    pub(super) async fn add_all(&self, jobs: &[FreeJob]) -> Result<Vec<JobId>, Error> {
        let jobs: Vec<JobColumns> = jobs
            .iter()
            .map(JobColumns::free)
            .collect::<Result<_, _>>()?;
        let mut ready: Vec<String> = jobs.iter().map(|job| job.queue.clone()).collect();
        ready.sort_unstable();
        ready.dedup();
        // Only these jobs can be refused after others were written, and need a transaction.
        let guarded = |job: &JobColumns| {
            let waits = !job.needs.is_empty() || !job.depends_on.is_empty();
            job.key.is_some() || job.queue_max.is_some() || waits
        };
        let ids = if jobs.iter().any(guarded) {
            self.add_guarded(&jobs, &ready).await?
        } else {
            self.add_unguarded(&jobs, &ready).await?
        };
        // Also after an unguarded add: our own waiters should not wait for the server's
        // notification.
        self.notifier.wake(&ready);
        Ok(ids)
    }

    /// Adds jobs in one statement, which is its own transaction.
    async fn add_unguarded(
        &self,
        jobs: &[JobColumns],
        ready: &[String],
    ) -> Result<Vec<JobId>, Error> {
        let mut session = OpenTransaction::new(&self.pool).await?;
        let mut steps = Pipeline::default();
        let added = add_plain(&mut steps, jobs);
        let answers = session
            .run_and_send(steps, self.channel.fire(ready))
            .await?;
        answers.check_all(true)?;
        let ids = answers.rows(added)?.iter();
        Ok(ids.map(|row| JobId(row.get(0))).collect())
    }

    async fn add_guarded(
        &self,
        jobs: &[JobColumns],
        ready: &[String],
    ) -> Result<Vec<JobId>, Error> {
        let mut session = OpenTransaction::new(&self.pool).await?;
        let mut steps = Pipeline::default();
        steps.push("BEGIN", Vec::new());
        let capacities = measure(&mut steps, jobs);
        // Sent for all jobs at once; the answers are judged together.
        let steps_of_jobs: Vec<(StepIndex, StepIndex)> = jobs
            .iter()
            .map(|job| {
                let added = add_keyed(&mut steps, job);
                // The second statement sees the job that made the first one add nothing.
                let same = steps.push(
                    "SELECT id, queue, kind, body FROM jobs WHERE key = $1",
                    values![job.key.clone()],
                );
                (added, same)
            })
            .collect();
        let answers = session.begin(steps).await?;
        match added(jobs, &capacities, &steps_of_jobs, &answers) {
            Ok(ids) => {
                session.commit(self.channel.fire(ready)).await?;
                Ok(ids)
            }
            Err(error) => {
                session.roll_back().await;
                Err(error)
            }
        }
    }

    pub(super) async fn list_jobs(
        &self,
        query: &JobQuery,
        page: &Page,
    ) -> Result<Paged<Job>, Error> {
        let listing = Listing::jobs(rows::JOB_COLUMNS, query, page, ('$', "clock_ms()"));
        let rows = self.read(&listing.sql, binds(&listing)).await?;
        let items = rows.iter().map(job).collect::<Result<_, _>>()?;
        Ok(listing.page(items, |job| job.id.0))
    }

    /// Counts jobs by queue and state, each state with its own index.
    pub(super) async fn count_live_jobs(&self) -> Result<Vec<(Queue, JobState, u64)>, Error> {
        let counts = JobState::COUNTED.map(|state| {
            let word = state.word();
            format!(
                "SELECT queue, '{word}', count(*) FROM jobs WHERE state = '{word}' GROUP BY queue"
            )
        });
        let rows = self.read(&counts.join(" UNION ALL "), values![]).await?;
        let decode = |row: &Row| {
            Ok((
                row.get::<_, &str>(0).into(),
                JobState::read(row.get(1))?,
                nat(row.get(2)),
            ))
        };
        rows.iter().map(decode).collect()
    }

    /// Returns whether any queue has a job that has not ended.
    pub(super) async fn any_open_at_all(&self) -> Result<bool, Error> {
        let sql = "SELECT EXISTS (SELECT 1 FROM jobs WHERE state = 'ready')
            OR EXISTS (SELECT 1 FROM jobs WHERE state = 'leased')
            OR EXISTS (SELECT 1 FROM jobs WHERE state = 'waiting')";
        let rows = self.read(sql, values![]).await?;
        Ok(rows.first().is_some_and(|row| row.get(0)))
    }

    pub(super) async fn one_job(&self, id: JobId) -> Result<Option<Job>, Error> {
        let columns = rows::JOB_COLUMNS;
        let sql = format!("SELECT {columns} FROM jobs WHERE id = $1");
        let rows = self.read(&sql, values![id.0]).await?;
        rows.first().map(job).transpose()
    }
}

impl BatchRequest<Pool> for HasOpenJobs {
    type Answer = bool;

    /// Checks each requested queue once, each state with its own index.
    async fn put(pool: &Pool, requests: Arc<[Self]>) -> Result<Vec<bool>, Error> {
        let sql = "SELECT asked.queue FROM unnest($1::text[]) AS asked (queue)
            WHERE EXISTS (SELECT 1 FROM jobs WHERE state = 'ready' AND jobs.queue = asked.queue)
                OR EXISTS (SELECT 1 FROM jobs WHERE state = 'leased' AND jobs.queue = asked.queue)
                OR EXISTS (SELECT 1 FROM jobs WHERE state = 'waiting' AND jobs.queue = asked.queue)";
        // Requests of many callers name the same few queues.
        let queues = each_once(requests.iter().flat_map(|request| &request.0));
        let rows = pipeline::read(pool, sql, values![queues]).await?;
        let open: BTreeSet<&str> = rows.iter().map(|row| row.get(0)).collect();
        let is_open = |request: &Self| request.0.iter().any(|queue| open.contains(queue.as_str()));
        Ok(requests.iter().map(is_open).collect())
    }
}

impl BatchRequest<Pool> for HeldJobs {
    type Answer = Vec<Job>;

    /// Reads the leased jobs of all requests with one query.
    async fn put(pool: &Pool, requests: Arc<[Self]>) -> Result<Vec<Vec<Job>>, Error> {
        let columns = rows::JOB_COLUMNS;
        let sql = format!(
            "SELECT {columns} FROM jobs
            WHERE state = 'leased' AND queue = ANY ($1::text[]) AND holder = ANY ($2::text[])
            ORDER BY id"
        );
        let queues = each_once(requests.iter().flat_map(|request| &request.queues));
        let holders = each_once(requests.iter().map(|request| &request.holder));
        let rows = pipeline::read(pool, &sql, values![queues, holders]).await?;
        let jobs: Vec<Job> = rows.iter().map(job).collect::<Result<_, _>>()?;
        let jobs_of = |request: &Self| {
            jobs.iter()
                .filter(|job| request.has(job))
                .cloned()
                .collect()
        };
        Ok(requests.iter().map(jobs_of).collect())
    }
}

fn each_once<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let names: BTreeSet<&String> = names.collect();
    names.into_iter().cloned().collect()
}

fn added(
    jobs: &[JobColumns],
    capacities: &[QueueCapacity],
    steps: &[(StepIndex, StepIndex)],
    answers: &Answers,
) -> Result<Vec<JobId>, Error> {
    assert_room(capacities, answers)?;
    let mut ids = Vec::with_capacity(jobs.len());
    for (job, (added, same)) in jobs.iter().zip(steps) {
        let row = if let Some(row) = answers.rows(*added)?.first() {
            row
        } else {
            // The key existed when we inserted and was removed before we read: the caller tries
            // again.
            let first = answers.rows(*same)?.first();
            let row = first.ok_or_else(|| Error::Conflict {
                what: "a job's key".to_owned(),
            })?;
            job.assert_same(row.get(1), row.get(2), row.get(3))?;
            row
        };
        ids.push(JobId(row.get(0)));
    }
    Ok(ids)
}

fn job(row: &Row) -> Result<Job, Error> {
    let ticket: Option<String> = row.get(3);
    let serial: Option<i64> = row.get(4);
    let result: Option<&str> = row.get(15);
    Ok(Job {
        id: JobId(row.get(0)),
        queue: row.get::<_, &str>(1).into(),
        state: JobState::read(row.get(2))?,
        work: JobWork::read(ticket.is_some(), row.get(5), row.get(6))?,
        ticket: ticket.map(rows::ticket_id).transpose()?,
        serial: serial.map(nat32),
        priority: row.get(7),
        created_at: time(row.get(8)),
        not_before: time(row.get(9)),
        attempts: nat32(row.get(10)),
        fence: nat(row.get(11)),
        holder: row.get(12),
        lease_until: row.get::<_, Option<i64>>(13).map(time),
        last_error: row.get(14),
        result: result.map(rows::decode).transpose()?,
    })
}
