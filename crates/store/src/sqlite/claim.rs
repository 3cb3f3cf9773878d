//! Which job goes to whom. Everything here walks an index of live jobs from its top; nothing
//! looks at what is finished, blocked or waits for its time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rusqlite::{Connection, Row, Rows, params};

use flow::{TicketId, Time};

use crate::error::Error;
use crate::job::{ClaimRequest, ClaimTarget, Expired, JobId, Leased};
use crate::rows::{self, ClaimLine, JobStory, int, nat, nat32};

use super::jobs::{LEASED_COLUMNS, assert_fence, held, leased};
use super::writer::{Tx, now};

/// How many jobs one claim brings back from waiting or from a lost lease, for each queue.
const PROMOTED_MAX: u32 = 256;
/// How many jobs one claim takes.
const CLAIMED_MAX: u32 = 1000;
/// How soon a waiting caller looks again for a job that depends on others: the end of a dependency
/// wakes no one.
const DEPENDENCY_POLL: Duration = Duration::from_secs(1);

/// A job that could be taken, as it would be handed out but for its lease.
struct ClaimCandidate {
    priority: i64,
    tracked: bool,
    kind: String,
    job: Leased,
}

impl Tx<'_> {
    pub(super) fn claim(&mut self, request: &ClaimRequest) -> Result<Vec<Leased>, Error> {
        let room = self.gate();
        self.gated = room.is_err();
        room?;
        self.take(request)
    }

    /// As a rider on another write, which must not fail for want of room to begin new work.
    pub(super) fn claim_if_room(&mut self, request: &ClaimRequest) -> Result<Vec<Leased>, Error> {
        if self.gate().is_err() {
            return Ok(Vec::new());
        }
        self.take(request)
    }

    fn gate(&mut self) -> Result<(), Error> {
        if !self.seen.room {
            self.space.gate()?;
            self.seen.room = true;
        }
        Ok(())
    }

    fn take(&mut self, request: &ClaimRequest) -> Result<Vec<Leased>, Error> {
        let paused = match self.seen.paused.take() {
            Some(seen) => seen,
            None => paused(self.db, self.now)?,
        };
        let mut lines = request.open_lines(&paused);
        self.seen.paused = Some(paused);
        for line in &lines {
            if !self.seen.brought_back.contains(&line.queue) {
                self.promote(&line.queue)?;
                self.take_back(&line.queue)?;
                self.seen.brought_back.insert(line.queue.clone());
            }
        }
        if let Some(only) = &request.only {
            self.promote_target(only)?;
        }
        if self.has_one_already(request)? {
            return Ok(Vec::new());
        }
        let limit = request.limit.min(CLAIMED_MAX);
        let mut rooms = self.rooms_of_providers(&lines, limit)?;
        lines.retain(|line| room(&rooms, line.provider.as_ref()) > 0);
        let mut chosen = Vec::new();
        for one in candidates(self.db, request, &lines, limit)? {
            let left = one
                .job
                .provider
                .as_ref()
                .and_then(|name| rooms.get_mut(name));
            match left {
                Some(0) => continue,
                Some(left) => *left -= 1,
                None => {}
            }
            chosen.push(one);
            if nat32(rows::count(chosen.len())) >= limit {
                break;
            }
        }
        chosen
            .into_iter()
            .map(|one| self.lease(one, request))
            .collect()
    }

    /// Whether the holder has a claim, where it may have one at a time.
    fn has_one_already(&self, request: &ClaimRequest) -> Result<bool, Error> {
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

    /// The number of jobs that each limited provider may still get.
    fn rooms_of_providers(
        &self,
        lines: &[ClaimLine],
        limit: u32,
    ) -> Result<BTreeMap<String, u32>, Error> {
        let mut rooms = BTreeMap::new();
        let names: BTreeSet<&String> = lines
            .iter()
            .filter_map(|line| line.provider.as_ref())
            .collect();
        if names.is_empty() {
            return Ok(rooms);
        }
        let mut select = self.db.prepare_cached(
            "SELECT limits.most - (SELECT count(*) FROM jobs
                WHERE state = 'leased' AND provider = ?1 AND lease_until > ?2)
            FROM provider_limits AS limits WHERE provider = ?1",
        )?;
        for provider in names {
            let mut left = select.query(params![provider, self.now])?;
            if let Some(row) = left.next()? {
                rooms.insert(provider.clone(), nat32(row.get(0)?).min(limit));
            }
        }
        Ok(rooms)
    }

    /// The chosen one, should there be more that are due than one claim promotes.
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

    /// Waiting jobs whose time has come.
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

    /// Leased jobs that no ticket follows and whose lease ran out: nobody else will bring them
    /// back. The fence stays and grows at the next claim, so the old holder's report is refused.
    fn take_back(&self, queue: &str) -> Result<u64, Error> {
        let mut select = self.db.prepare_cached(
            "SELECT id, attempts, kind, ticket, holder FROM jobs
            WHERE state = 'leased' AND tracked = 0 AND queue = ?1 AND lease_until <= ?2
            ORDER BY lease_until LIMIT ?3",
        )?;
        let lapsed: Vec<Lapsed> = select
            .query_map(params![queue, self.now, PROMOTED_MAX], lapsed_free)?
            .collect::<Result<_, _>>()?;
        let count = nat(rows::count(lapsed.len()));
        for job in lapsed {
            let attempts = job.attempts + 1;
            let error = format!("the lease of {} ran out", job.holder);
            let story = JobStory::new(job.id, queue, &job.kind).failed(attempts, &error);
            let name = if attempts > i64::from(self.settings.attempts_max) {
                self.end_dead(job.id, attempts, &error)?;
                "job_dead"
            } else {
                self.end_retry(job.id, self.now, attempts, &error)?;
                "job_lease_lost"
            };
            self.tell(name, &job.holder, job.ticket.as_deref(), &story)?;
        }
        Ok(count)
    }

    /// Puts back what no ticket follows, in every queue; the rest is for the tickets to decide.
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
            requeued += self.take_back(&queue)?;
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
        let mut found = select.query([job.0])?;
        let row = found.next()?;
        let queue: Option<String> = row.map(|row| row.get(4)).transpose()?;
        assert_fence(row.map(held).transpose()?, job.0, fence)?;
        drop(found);
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
        if !chosen.tracked {
            let ticket = job.ticket.as_ref().map(TicketId::as_str);
            let story = JobStory::new(job.id.0, job.queue.name(), &chosen.kind);
            self.tell("job_claimed", &job.holder, ticket, &story)?;
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
    let found = select.query_map([now], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// The number of jobs that a provider may still take; unlimited without a limit.
fn room(rooms: &BTreeMap<String, u32>, provider: Option<&String>) -> u32 {
    let limited = provider.and_then(|name| rooms.get(name));
    limited.copied().unwrap_or(u32::MAX)
}

/// In the order of [`candidate`].
const CANDIDATE_COLUMNS: &str = "id, queue, ticket, serial, kind, body, fence, holder, lease_until,
    attempts, agent, provider, priority, tracked";

/// The job is among those the worker has not passed over (?1), needs no label but these (?2), and
/// depends on nothing that is not done.
const CLAIMABLE: &str = "state = 'ready'
    AND (?1 IS NULL OR id NOT IN (SELECT value FROM json_each(?1)))
    AND (needs IS NULL OR ?2 IS NULL OR NOT EXISTS (SELECT 1 FROM json_each(needs)
        WHERE value NOT IN (SELECT value FROM json_each(?2))))
    AND (depends_on IS NULL OR NOT EXISTS (SELECT 1 FROM json_each(jobs.depends_on) AS one
        WHERE NOT EXISTS (SELECT 1 FROM jobs AS other
            WHERE other.key = one.value AND other.state = 'done')))";

/// The parameters that every search binds.
struct Filters {
    except: Option<String>,
    labels: Option<String>,
}

/// Priority first, then age.
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
    let mut found = match &request.only {
        Some(ClaimTarget::Job(job)) => the_one(db, &filters, lines, *job)?,
        Some(ClaimTarget::Ticket(ticket)) => of_ticket(db, &filters, lines, ticket.as_str())?,
        None => of_queues(db, &filters, lines, limit)?,
    };
    found.sort_unstable_by_key(|one| (Reverse(one.priority), one.job.id));
    Ok(found)
}

fn candidate(row: &Row<'_>) -> Result<ClaimCandidate, Error> {
    Ok(ClaimCandidate {
        job: leased(row)?,
        kind: row.get(4)?,
        priority: row.get(12)?,
        tracked: row.get(13)?,
    })
}

/// One walk for each line.
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
    let mut all = Vec::new();
    for line in lines {
        let values = params![
            filters.except,
            filters.labels,
            line.queue,
            line.assigned_to,
            limit
        ];
        let mut found = select.query(values)?;
        while let Some(row) = found.next()? {
            let mut one = candidate(row)?;
            one.job.provider.clone_from(&line.provider);
            all.push(one);
        }
    }
    Ok(all)
}

/// One ticket has few jobs: they are all looked at.
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
    let found = select.query(params![filters.except, filters.labels, ticket])?;
    of_lines(found, lines)
}

fn the_one(
    db: &Connection,
    filters: &Filters,
    lines: &[ClaimLine],
    job: JobId,
) -> Result<Vec<ClaimCandidate>, Error> {
    let mut select = db.prepare_cached(&format!(
        "SELECT {CANDIDATE_COLUMNS} FROM jobs WHERE {CLAIMABLE} AND id = ?3"
    ))?;
    let found = select.query(params![filters.except, filters.labels, job.0])?;
    of_lines(found, lines)
}

fn of_lines(mut found: Rows<'_>, lines: &[ClaimLine]) -> Result<Vec<ClaimCandidate>, Error> {
    let mut all = Vec::new();
    while let Some(row) = found.next()? {
        let mut one = candidate(row)?;
        let assigned_to = one.job.agent.as_deref().unwrap_or_default();
        let mut of_this = lines
            .iter()
            .filter(|line| line.queue == one.job.queue.name() && line.assigned_to == assigned_to);
        if let Some(line) = of_this.next() {
            one.job.provider.clone_from(&line.provider);
            all.push(one);
        }
    }
    Ok(all)
}

/// What somebody who waits has to know.
#[derive(Debug)]
pub(super) enum SqliteJobReadiness {
    Ready,
    /// Nothing yet, and when time alone will bring something.
    Nothing {
        due_in: Option<Duration>,
    },
}

pub(super) fn look(db: &Connection, request: &ClaimRequest) -> Result<SqliteJobReadiness, Error> {
    let now = now(db)?;
    let lines = request.open_lines(&paused(db, now)?);
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
    let again = rows::lease_end(now, DEPENDENCY_POLL);
    let mut due: Option<i64> = pause_end(db, now)?;
    let queues: BTreeSet<&String> = lines.iter().map(|line| &line.queue).collect();
    for queue in queues {
        let first: Option<i64> = select.query_row(params![queue, again], |row| row.get(0))?;
        due = due.into_iter().chain(first).min();
    }
    // What is due already is brought back by the claim itself.
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
    let mut found = select.query(params![now, most])?;
    let mut jobs = Vec::new();
    while let Some(row) = found.next()? {
        jobs.push(leased(row)?);
    }
    Ok(jobs)
}

pub(super) fn any_lapsed(db: &Connection) -> Result<bool, Error> {
    let mut select = db.prepare_cached(
        "SELECT 1 FROM jobs WHERE state = 'leased' AND lease_until <= ?1 LIMIT 1",
    )?;
    Ok(select.exists([now(db)?])?)
}
