//! Claims jobs. Every query walks an index of live jobs from its top and never reads finished,
//! blocked or waiting jobs, so the cost of a claim does not grow with the table.
//!
//! A claim runs on the writer, so no other claim runs at the same time and no row has to be locked.
//! It refuses nothing about a job's content: only state, labels, limits and dependencies count.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rusqlite::{Connection, Row, Rows, params};

use flow::{TicketId, Time};

use crate::error::Error;
use crate::job::{ClaimRequest, ClaimTarget, Expired, JobId, Leased};
use crate::rows::{self, ClaimLine, JobStory, int, nat, nat32};

use super::jobs::{LEASED_COLUMNS, assert_fence, lease_columns, leased};
use super::writer::{Tx, now};

/// Maximum number of due or lapsed jobs per queue that one claim makes ready. A bound per claim
/// keeps the writer's turn short after a long stop, when thousands may be due.
const PROMOTED_MAX: u32 = 256;
/// Maximum number of jobs per claim.
const CLAIMED_MAX: u32 = 1000;
/// Poll interval while a ready job waits for its dependencies: the end of a dependency sends no
/// wake-up.
const DEPENDENCY_POLL: Duration = Duration::from_secs(1);

/// A claimable job, complete except for its lease.
struct ClaimCandidate {
    priority: i64,
    tracked: bool,
    kind: String,
    job: Leased,
}

impl Tx<'_> {
    pub(super) fn claim(&mut self, request: &ClaimRequest) -> Result<Vec<Leased>, Error> {
        let has_room = self.gate();
        // The flag tells the writer that nothing was written, so the ballast is not given up for
        // it.
        self.gated = has_room.is_err();
        has_room?;
        self.take(request)
    }

    /// Claims as part of another write. Too little disk space claims nothing, but must not fail the
    /// write.
    pub(super) fn claim_if_room(&mut self, request: &ClaimRequest) -> Result<Vec<Leased>, Error> {
        if self.gate().is_err() {
            return Ok(Vec::new());
        }
        self.take(request)
    }

    fn gate(&mut self) -> Result<(), Error> {
        // The space is asked for once per group: a group is committed within milliseconds.
        if !self.seen.has_space {
            self.space.gate()?;
            self.seen.has_space = true;
        }
        Ok(())
    }

    fn take(&mut self, request: &ClaimRequest) -> Result<Vec<Leased>, Error> {
        // The list is moved out and back, because the borrow of `self` below would conflict.
        let paused = match self.seen.paused.take() {
            Some(cached) => cached,
            None => paused(self.db, self.now)?,
        };
        let mut lines = request.open_lines(&paused);
        self.seen.paused = Some(paused);
        // Promotion comes before the choice. Otherwise a job that is due now would wait for the
        // next claim, although this one found nothing.
        for line in &lines {
            if !self.seen.promoted.contains(&line.queue) {
                self.promote(&line.queue)?;
                self.requeue_lapsed(&line.queue)?;
                self.seen.promoted.insert(line.queue.clone());
            }
        }
        if let Some(only) = &request.only {
            self.promote_target(only)?;
        }
        // The check must be in the same transaction as the lease, or two claims could both pass it.
        if self.holds_exclusive_job(request)? {
            return Ok(Vec::new());
        }
        let limit = request.limit.min(CLAIMED_MAX);
        let mut capacity = self.provider_capacity(&lines, limit)?;
        // A line without capacity is not searched at all: its jobs would fill the limit and be
        // thrown away.
        lines.retain(|line| capacity_of(&capacity, line.provider.as_ref()) > 0);
        let mut chosen = Vec::new();
        for candidate in candidates(self.db, request, &lines, limit)? {
            let left = candidate
                .job
                .provider
                .as_ref()
                .and_then(|name| capacity.get_mut(name));
            // The candidates are sorted by priority, so a provider's last places go to its most
            // urgent jobs.
            match left {
                Some(0) => continue,
                Some(left) => *left -= 1,
                None => {}
            }
            chosen.push(candidate);
            if nat32(rows::count(chosen.len())) >= limit {
                break;
            }
        }
        chosen
            .into_iter()
            .map(|candidate| self.lease(candidate, request))
            .collect()
    }

    /// Returns whether the worker already holds a job of an exclusive queue.
    fn holds_exclusive_job(&self, request: &ClaimRequest) -> Result<bool, Error> {
        let holder = rows::clean(&request.worker);
        let mut select = self.db.prepare_cached(
            "SELECT 1 FROM jobs WHERE state = 'leased' AND holder = ?1 AND queue = ?2 LIMIT 1",
        )?;
        for queue in &request.exclusive {
            if select.exists(params![holder, rows::clean(queue.name())])? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the number of jobs that each limited provider may still get.
    fn provider_capacity(
        &self,
        lines: &[ClaimLine],
        limit: u32,
    ) -> Result<BTreeMap<String, u32>, Error> {
        let mut capacity = BTreeMap::new();
        let names: BTreeSet<&String> = lines
            .iter()
            .filter_map(|line| line.provider.as_ref())
            .collect();
        if names.is_empty() {
            return Ok(capacity);
        }
        let mut select = self.db.prepare_cached(
            "SELECT limits.most - (SELECT count(*) FROM jobs
                WHERE state = 'leased' AND provider = ?1 AND lease_until > ?2)
            FROM provider_limits AS limits WHERE provider = ?1",
        )?;
        for provider in names {
            let mut rows = select.query(params![provider, self.now])?;
            if let Some(row) = rows.next()? {
                capacity.insert(provider.clone(), nat32(row.get(0)?).min(limit));
            }
        }
        Ok(capacity)
    }

    /// Promotes the target of the claim, in case more jobs are due than one claim promotes.
    fn promote_target(&self, only: &ClaimTarget) -> Result<(), Error> {
        match only {
            ClaimTarget::Job(job) => self
                .db
                .prepare_cached(
                    "UPDATE jobs SET state = 'ready'
                    WHERE id = ?1 AND state = 'waiting' AND not_before <= ?2",
                )?
                .execute(params![job.0, self.now])?,
            ClaimTarget::Ticket(ticket) => self
                .db
                .prepare_cached(
                    "UPDATE jobs SET state = 'ready'
                    WHERE ticket = ?1 AND state = 'waiting' AND not_before <= ?2",
                )?
                .execute(params![ticket.as_str(), self.now])?,
        };
        Ok(())
    }

    /// Makes waiting jobs ready that are due.
    fn promote(&self, queue: &str) -> Result<(), Error> {
        let mut select = self.db.prepare_cached(
            "SELECT id FROM jobs WHERE state = 'waiting' AND queue = ?1 AND not_before <= ?2
            ORDER BY not_before LIMIT ?3",
        )?;
        let due: Vec<i64> = select
            .query_map(params![queue, self.now, PROMOTED_MAX], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for id in due {
            self.db
                .prepare_cached("UPDATE jobs SET state = 'ready' WHERE id = ?1")?
                .execute([id])?;
        }
        Ok(())
    }

    /// Requeues jobs without a ticket whose lease ran out; nothing else would. The fence stays and
    /// grows at the next claim, so a report of the old holder is refused.
    fn requeue_lapsed(&self, queue: &str) -> Result<u64, Error> {
        let mut select = self.db.prepare_cached(
            "SELECT id, attempts, kind, ticket, holder FROM jobs
            WHERE state = 'leased' AND tracked = 0 AND queue = ?1 AND lease_until <= ?2
            ORDER BY lease_until LIMIT ?3",
        )?;
        let lapsed: Vec<Lapsed> = select
            .query_map(params![queue, self.now, PROMOTED_MAX], lapsed_free)?
            .collect::<Result<_, _>>()?;
        // The count is taken before the jobs are moved out.
        let count = nat(rows::count(lapsed.len()));
        for job in lapsed {
            let attempts = job.attempts + 1;
            let error = format!("the lease of {} ran out", job.holder);
            let story = JobStory::new(job.id, queue, &job.kind).failed(attempts, &error);
            // A job whose worker dies each time must end at some point, or it would kill every
            // worker.
            let name = if attempts > i64::from(self.settings.attempts_max) {
                // The event has the name of the holder that lost the lease, which helps to find a
                // crashing worker.
                self.end_dead(job.id, attempts, &error)?;
                "job_dead"
            } else {
                self.end_retry(job.id, self.now, attempts, &error)?;
                "job_lease_lost"
            };
            self.log_event(name, &job.holder, job.ticket.as_deref(), &story)?;
        }
        Ok(count)
    }

    /// Requeues lapsed jobs without a ticket in every queue; lists the others for their tickets.
    pub(super) fn expire(&mut self, most: u32) -> Result<Expired, Error> {
        let mut select = self.db.prepare_cached(
            "SELECT DISTINCT queue FROM jobs
            WHERE state = 'leased' AND tracked = 0 AND lease_until <= ?1",
        )?;
        let queues: Vec<String> = select
            .query_map([self.now], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        let mut requeued = 0;
        for queue in queues {
            requeued += self.requeue_lapsed(&queue)?;
            // Waiters look for ready jobs only; without this they would sleep until their poll.
            self.made_ready(&queue);
        }
        Ok(Expired {
            requeued,
            of_tickets: lapsed(self.db, most, self.now)?,
        })
    }

    pub(super) fn release(&mut self, job: JobId, fence: u64) -> Result<(), Error> {
        let mut select = self.db.prepare_cached(
            "SELECT id, state, fence, lease_until, queue FROM jobs WHERE id = ?1",
        )?;
        let mut rows = select.query([job.0])?;
        let row = rows.next()?;
        let queue: Option<String> = row.map(|row| row.get(4)).transpose()?;
        // The fence is checked before the update: a late release must not take the job from its new
        // holder.
        assert_fence(row.map(lease_columns).transpose()?, job.0, fence)?;
        // The read would otherwise still be in progress during the update.
        drop(rows);
        self.db
            .prepare_cached(
                "UPDATE jobs SET state = 'ready', holder = NULL, lease_until = NULL, provider = NULL
                WHERE id = ?1",
            )?
            .execute([job.0])?;
        if let Some(queue) = queue {
            self.made_ready(&queue);
        }
        Ok(())
    }

    fn lease(&self, chosen: ClaimCandidate, request: &ClaimRequest) -> Result<Leased, Error> {
        let mut job = chosen.job;
        job.until = Time(rows::lease_end(self.now, request.lease));
        // A new fence with every lease: reports under the old one are refused from now on.
        job.fence += 1;
        job.holder = rows::clean(&request.worker);
        self.db
            .prepare_cached(
                "UPDATE jobs SET state = 'leased', fence = ?2, holder = ?3, lease_until = ?4,
                    provider = ?5
                WHERE id = ?1",
            )?
            .execute(params![
                job.id.0,
                int(job.fence),
                job.holder,
                job.until.0,
                job.provider,
            ])?;
        // A job of a ticket has its history in the ticket's own events.
        if !chosen.tracked {
            let ticket = job.ticket.as_ref().map(TicketId::as_str);
            let story = JobStory::new(job.id.0, job.queue.name(), &chosen.kind);
            self.log_event("job_claimed", &job.holder, ticket, &story)?;
        }
        Ok(job)
    }
}

struct Lapsed {
    id: i64,
    attempts: i64,
    kind: String,
    ticket: Option<String>,
    holder: String,
}

fn lapsed_free(row: &Row<'_>) -> rusqlite::Result<Lapsed> {
    Ok(Lapsed {
        id: row.get(0)?,
        attempts: row.get(1)?,
        kind: row.get(2)?,
        ticket: row.get(3)?,
        holder: row.get::<_, Option<String>>(4)?.unwrap_or_default(),
    })
}

fn paused(db: &Connection, now: i64) -> Result<Vec<(String, String)>, Error> {
    let mut select =
        db.prepare_cached("SELECT scope, name FROM pauses WHERE until IS NULL OR until > ?1")?;
    let rows = select.query_map([now], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns the number of jobs that a provider may still take; `u32::MAX` without a limit.
fn capacity_of(capacity: &BTreeMap<String, u32>, provider: Option<&String>) -> u32 {
    let limited = provider.and_then(|name| capacity.get(name));
    limited.copied().unwrap_or(u32::MAX)
}

/// Columns in the order of [`candidate`].
const CANDIDATE_COLUMNS: &str = "id, queue, ticket, serial, kind, body, fence, holder, lease_until,
    attempts, agent, provider, priority, tracked";

/// Condition for a claimable job: the worker has not rejected it (?1), it needs only these labels
/// (?2), and its dependencies are done.
const CLAIMABLE: &str = "state = 'ready'
    AND (?1 IS NULL OR id NOT IN (SELECT value FROM json_each(?1)))
    AND (needs IS NULL OR ?2 IS NULL OR NOT EXISTS (SELECT 1 FROM json_each(needs)
        WHERE value NOT IN (SELECT value FROM json_each(?2))))
    AND (depends_on IS NULL OR NOT EXISTS (SELECT 1 FROM json_each(jobs.depends_on) AS one
        WHERE NOT EXISTS (SELECT 1 FROM jobs AS other
            WHERE other.key = one.value AND other.state = 'done')))";

/// Parameters of [`CLAIMABLE`], as JSON.
struct Filters {
    except: Option<String>,
    labels: Option<String>,
}

/// Returns the claimable jobs, by priority, then age.
fn candidates(
    db: &Connection,
    request: &ClaimRequest,
    lines: &[ClaimLine],
    limit: u32,
) -> Result<Vec<ClaimCandidate>, Error> {
    let filters = Filters {
        except: match request.except.as_slice() {
            [] => None,
            except => Some(serde_json::to_string(except)?),
        },
        labels: request
            .labels
            .as_ref()
            .map(serde_json::to_string)
            .transpose()?,
    };
    let mut candidates = match &request.only {
        Some(ClaimTarget::Job(job)) => of_job(db, &filters, lines, *job)?,
        Some(ClaimTarget::Ticket(ticket)) => of_ticket(db, &filters, lines, ticket.as_str())?,
        None => of_queues(db, &filters, lines, limit)?,
    };
    // The lines were read one by one, each with its own order; the caller wants one order.
    candidates.sort_unstable_by_key(|candidate| (Reverse(candidate.priority), candidate.job.id));
    Ok(candidates)
}

fn candidate(row: &Row<'_>) -> Result<ClaimCandidate, Error> {
    Ok(ClaimCandidate {
        job: leased(row)?,
        kind: row.get(4)?,
        priority: row.get(12)?,
        tracked: row.get(13)?,
    })
}

/// Finds candidates with one index walk per line.
fn of_queues(
    db: &Connection,
    filters: &Filters,
    lines: &[ClaimLine],
    limit: u32,
) -> Result<Vec<ClaimCandidate>, Error> {
    let mut select = db.prepare_cached(&format!(
        "SELECT {CANDIDATE_COLUMNS} FROM jobs WHERE {CLAIMABLE} AND queue = ?3 AND agent = ?4
        ORDER BY priority DESC, id LIMIT ?5"
    ))?;
    let mut candidates = Vec::new();
    for line in lines {
        let values = params![
            filters.except,
            filters.labels,
            line.queue,
            line.assigned_to,
            limit
        ];
        let mut rows = select.query(values)?;
        while let Some(row) = rows.next()? {
            let mut candidate = candidate(row)?;
            candidate.job.provider.clone_from(&line.provider);
            candidates.push(candidate);
        }
    }
    Ok(candidates)
}

/// Finds candidates among all jobs of one ticket, which has few.
fn of_ticket(
    db: &Connection,
    filters: &Filters,
    lines: &[ClaimLine],
    ticket: &str,
) -> Result<Vec<ClaimCandidate>, Error> {
    let mut select = db.prepare_cached(&format!(
        "SELECT {CANDIDATE_COLUMNS} FROM jobs WHERE {CLAIMABLE} AND ticket = ?3
        ORDER BY priority DESC, id LIMIT {CLAIMED_MAX}"
    ))?;
    let rows = select.query(params![filters.except, filters.labels, ticket])?;
    of_lines(rows, lines)
}

fn of_job(
    db: &Connection,
    filters: &Filters,
    lines: &[ClaimLine],
    job: JobId,
) -> Result<Vec<ClaimCandidate>, Error> {
    let mut select = db.prepare_cached(&format!(
        "SELECT {CANDIDATE_COLUMNS} FROM jobs WHERE {CLAIMABLE} AND id = ?3"
    ))?;
    let rows = select.query(params![filters.except, filters.labels, job.0])?;
    of_lines(rows, lines)
}

fn of_lines(mut rows: Rows<'_>, lines: &[ClaimLine]) -> Result<Vec<ClaimCandidate>, Error> {
    let mut candidates = Vec::new();
    while let Some(row) = rows.next()? {
        let mut one = candidate(row)?;
        let assigned_to = one.job.agent.as_deref().unwrap_or_default();
        let mut matching = lines
            .iter()
            .filter(|line| line.queue == one.job.queue.name() && line.assigned_to == assigned_to);
        // The first matching line decides the provider.
        if let Some(line) = matching.next() {
            one.job.provider.clone_from(&line.provider);
            candidates.push(one);
        }
    }
    Ok(candidates)
}

/// Whether a waiting caller should claim now.
#[derive(Debug)]
pub(super) enum SqliteJobReadiness {
    Ready,
    /// No job yet; `due_in` is the time until a job becomes ready by itself.
    Nothing {
        due_in: Option<Duration>,
    },
}

pub(super) fn look(db: &Connection, request: &ClaimRequest) -> Result<SqliteJobReadiness, Error> {
    let now = now(db)?;
    // A pause hides its queues here too, or a paused worker would be woken without end.
    let lines = request.open_lines(&paused(db, now)?);
    // One candidate is enough to know that there is work.
    if !candidates(db, request, &lines, 1)?.is_empty() {
        return Ok(SqliteJobReadiness::Ready);
    }
    let mut select = db.prepare_cached(
        "SELECT min(due) FROM
            (SELECT min(not_before) AS due FROM jobs WHERE state = 'waiting' AND queue = ?1
            UNION ALL SELECT min(lease_until) FROM jobs
                WHERE state = 'leased' AND tracked = 0 AND queue = ?1
            UNION ALL SELECT ?2 WHERE EXISTS (SELECT 1 FROM jobs
                WHERE state = 'ready' AND queue = ?1 AND depends_on IS NOT NULL))",
    )?;
    // A dependency may end in a transaction that readies no job, so nothing wakes the waiter.
    let poll_at = rows::lease_end(now, DEPENDENCY_POLL);
    let mut due: Option<i64> = pause_end(db, now)?;
    let queues: BTreeSet<&String> = lines.iter().map(|line| &line.queue).collect();
    for queue in queues {
        let queue_due: Option<i64> = select.query_row(params![queue, poll_at], |row| row.get(0))?;
        due = due.into_iter().chain(queue_due).min();
    }
    // A job that is already due is made ready by the claim itself.
    if due.is_some_and(|at| at <= now) {
        return Ok(SqliteJobReadiness::Ready);
    }
    Ok(SqliteJobReadiness::Nothing {
        due_in: due.map(|at| Duration::from_millis(nat(at.saturating_sub(now)))),
    })
}

fn pause_end(db: &Connection, now: i64) -> Result<Option<i64>, Error> {
    let mut select = db.prepare_cached("SELECT min(until) FROM pauses WHERE until > ?1")?;
    Ok(select.query_row([now], |row| row.get(0))?)
}

fn lapsed(db: &Connection, most: u32, now: i64) -> Result<Vec<Leased>, Error> {
    let sql = format!(
        "SELECT {LEASED_COLUMNS} FROM jobs
        WHERE state = 'leased' AND tracked = 1 AND lease_until <= ?1
        ORDER BY lease_until LIMIT ?2"
    );
    let mut select = db.prepare_cached(&sql)?;
    let mut rows = select.query(params![now, most])?;
    let mut jobs = Vec::new();
    while let Some(row) = rows.next()? {
        jobs.push(leased(row)?);
    }
    Ok(jobs)
}

/// Returns whether any lease has run out, for a caller that only wants to write if it has to.
pub(super) fn any_lapsed(db: &Connection) -> Result<bool, Error> {
    let mut select = db.prepare_cached(
        "SELECT 1 FROM jobs WHERE state = 'leased' AND lease_until <= ?1 LIMIT 1",
    )?;
    Ok(select.exists([now(db)?])?)
}
