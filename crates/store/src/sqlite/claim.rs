//! Which job goes to whom. Everything here walks an index of live jobs from its top; nothing
//! looks at what is finished, blocked or waits for its time.

use std::cmp::Reverse;
use std::time::Duration;

use rusqlite::{Connection, Row, Rows, params};

use flow::{TicketId, Time};

use crate::error::Error;
use crate::job::{Ask, JobId, Leased};
use crate::rows::{self, JobStory, int, nat, nat32};

use super::jobs::{LEASED_COLUMNS, leased};
use super::writer::{Tx, now};

/// How many jobs one claim brings back from waiting or from a lost lease, for each queue.
const PROMOTED_MAX: u32 = 256;
/// How many jobs one claim takes.
const CLAIMED_MAX: u32 = 1000;

/// A job that could be taken, as it would be handed out but for its lease.
struct Candidate {
    priority: i64,
    tracked: bool,
    kind: String,
    agent: String,
    job: Leased,
}

impl Tx<'_> {
    pub(super) fn claim(&mut self, ask: &Ask) -> Result<Vec<Leased>, Error> {
        let room = self.gate();
        self.gated = room.is_err();
        room?;
        self.take(ask)
    }

    /// As a rider on another write, which must not fail for want of room to begin new work.
    pub(super) fn claim_if_room(&mut self, ask: &Ask) -> Result<Vec<Leased>, Error> {
        if self.gate().is_err() {
            return Ok(Vec::new());
        }
        self.take(ask)
    }

    fn gate(&mut self) -> Result<(), Error> {
        if !self.seen.room {
            self.space.gate()?;
            self.seen.room = true;
        }
        Ok(())
    }

    fn take(&mut self, ask: &Ask) -> Result<Vec<Leased>, Error> {
        let paused = match self.seen.paused.take() {
            Some(seen) => seen,
            None => paused(self.db, self.now)?,
        };
        let queues = ask.open_queues(&paused);
        for queue in &queues {
            if !self.seen.brought_back.contains(*queue) {
                self.promote(queue)?;
                self.take_back(queue)?;
                self.seen.brought_back.insert((*queue).to_owned());
            }
        }
        let most = if self.has_one_already(ask)? {
            0
        } else {
            self.room_of_provider(ask, ask.most.min(CLAIMED_MAX))?
        };
        let chosen = candidates(self.db, ask, &queues, most)?;
        self.seen.paused = Some(paused);
        chosen.into_iter().map(|one| self.lease(one, ask)).collect()
    }

    /// Whether the holder has a claim, where it may have one at a time.
    fn has_one_already(&self, ask: &Ask) -> Result<bool, Error> {
        let holder = rows::clean(&ask.holder);
        let mut select = self.db.prepare_cached(
            "SELECT 1 FROM jobs WHERE state = 'leased' AND holder = ?1 AND queue = ?2 LIMIT 1",
        )?;
        for queue in &ask.alone_in {
            if select.exists(params![holder, rows::clean(queue)])? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What the provider's limit leaves of so many.
    fn room_of_provider(&self, ask: &Ask, most: u32) -> Result<u32, Error> {
        let Some(provider) = ask.provider.as_deref().map(rows::clean) else {
            return Ok(most);
        };
        let mut select = self.db.prepare_cached(
            "SELECT limits.most - (SELECT count(*) FROM jobs
                WHERE state = 'leased' AND provider = ?1 AND lease_until > ?2)
            FROM provider_limits AS limits WHERE provider = ?1",
        )?;
        let mut left = select.query(params![provider, self.now])?;
        match left.next()? {
            Some(row) => Ok(nat32(row.get(0)?).min(most)),
            None => Ok(most),
        }
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
    fn take_back(&self, queue: &str) -> Result<(), Error> {
        let mut select = self.db.prepare_cached(
            "SELECT id, attempts, kind, ticket, holder FROM jobs
            WHERE state = 'leased' AND tracked = 0 AND queue = ?1 AND lease_until <= ?2
            ORDER BY lease_until LIMIT ?3",
        )?;
        let lapsed: Vec<Lapsed> = select
            .query_map(params![queue, self.now, PROMOTED_MAX], lapsed_free)?
            .collect::<Result<_, _>>()?;
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
        Ok(())
    }

    fn lease(&self, chosen: Candidate, ask: &Ask) -> Result<Leased, Error> {
        let mut job = chosen.job;
        job.until = Time(rows::lease_end(self.now, ask.lease));
        job.fence += 1;
        job.holder = rows::clean(&ask.holder);
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
                ask.provider.as_deref().map(rows::clean),
            ])?;
        if !chosen.tracked {
            let ticket = job.ticket.as_ref().map(TicketId::as_str);
            let story = JobStory::new(job.id.0, &job.queue, &chosen.kind);
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

/// Priority first, then age.
fn candidates(
    db: &Connection,
    ask: &Ask,
    queues: &[&str],
    most: u32,
) -> Result<Vec<Candidate>, Error> {
    let mut found = match (ask.job, &ask.ticket) {
        (Some(job), _) => the_one(db, ask, queues, job)?,
        (None, Some(ticket)) => of_ticket(db, ask, queues, ticket.as_str())?,
        (None, None) => of_queues(db, ask, queues, most)?,
    };
    found.sort_unstable_by_key(|one| (Reverse(one.priority), one.job.id));
    found.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    Ok(found)
}

fn candidate(row: &Row<'_>) -> Result<Candidate, Error> {
    Ok(Candidate {
        job: leased(row)?,
        kind: row.get(4)?,
        priority: row.get(10)?,
        tracked: row.get(11)?,
        agent: row.get(12)?,
    })
}

/// For each queue one walk among the jobs for anybody, and one among those for this agent.
fn of_queues(
    db: &Connection,
    ask: &Ask,
    queues: &[&str],
    most: u32,
) -> Result<Vec<Candidate>, Error> {
    let mut select = db.prepare_cached(
        "SELECT id, queue, ticket, serial, kind, body, fence, holder, lease_until, attempts,
            priority, tracked, agent
        FROM jobs WHERE state = 'ready' AND queue = ?1 AND agent = ?2
        ORDER BY priority DESC, id LIMIT ?3",
    )?;
    let mut all = Vec::new();
    let own = (!ask.agent.is_empty()).then_some(ask.agent.as_str());
    for queue in queues {
        let anybodys = (!ask.own_only).then_some("");
        for agent in [anybodys, own].into_iter().flatten() {
            let mut found = select.query(params![queue, agent, most])?;
            while let Some(row) = found.next()? {
                all.push(candidate(row)?);
            }
        }
    }
    Ok(all)
}

/// One ticket has few jobs: they are all looked at.
fn of_ticket(
    db: &Connection,
    ask: &Ask,
    queues: &[&str],
    ticket: &str,
) -> Result<Vec<Candidate>, Error> {
    let mut select = db.prepare_cached(
        "SELECT id, queue, ticket, serial, kind, body, fence, holder, lease_until, attempts,
            priority, tracked, agent
        FROM jobs WHERE state = 'ready' AND ticket = ?1
        ORDER BY priority DESC, id LIMIT ?2",
    )?;
    let found = select.query(params![ticket, CLAIMED_MAX])?;
    for_who_asks(found, ask, queues)
}

fn the_one(
    db: &Connection,
    ask: &Ask,
    queues: &[&str],
    job: JobId,
) -> Result<Vec<Candidate>, Error> {
    let mut select = db.prepare_cached(
        "SELECT id, queue, ticket, serial, kind, body, fence, holder, lease_until, attempts,
            priority, tracked, agent
        FROM jobs WHERE state = 'ready' AND id = ?1",
    )?;
    for_who_asks(select.query([job.0])?, ask, queues)
}

fn for_who_asks(mut found: Rows<'_>, ask: &Ask, queues: &[&str]) -> Result<Vec<Candidate>, Error> {
    let mut all = Vec::new();
    while let Some(row) = found.next()? {
        let one = candidate(row)?;
        let wanted = queues.contains(&one.job.queue.as_str());
        if wanted && ask.may_have(&one.agent) {
            all.push(one);
        }
    }
    Ok(all)
}

/// What somebody who waits has to know.
#[derive(Debug)]
pub(super) enum Look {
    Ready,
    /// Nothing yet, and when time alone will bring something.
    Nothing {
        due_in: Option<Duration>,
    },
}

pub(super) fn look(db: &Connection, ask: &Ask) -> Result<Look, Error> {
    let now = now(db)?;
    let paused = paused(db, now)?;
    let queues = ask.open_queues(&paused);
    if !candidates(db, ask, &queues, 1)?.is_empty() {
        return Ok(Look::Ready);
    }
    let mut select = db.prepare_cached(
        "SELECT min(due) FROM
            (SELECT min(not_before) AS due FROM jobs WHERE state = 'waiting' AND queue = ?1
            UNION ALL SELECT min(lease_until) FROM jobs
                WHERE state = 'leased' AND tracked = 0 AND queue = ?1)",
    )?;
    let mut due: Option<i64> = pause_end(db, now)?;
    for queue in queues {
        let first: Option<i64> = select.query_row([queue], |row| row.get(0))?;
        due = due.into_iter().chain(first).min();
    }
    // What is due already is brought back by the claim itself.
    if due.is_some_and(|at| at <= now) {
        return Ok(Look::Ready);
    }
    Ok(Look::Nothing {
        due_in: due.map(|at| Duration::from_millis(nat(at.saturating_sub(now)))),
    })
}

fn pause_end(db: &Connection, now: i64) -> Result<Option<i64>, Error> {
    let mut select = db.prepare_cached("SELECT min(until) FROM pauses WHERE until > ?1")?;
    Ok(select.query_row([now], |row| row.get(0))?)
}

pub(super) fn lapsed(db: &Connection, most: u32) -> Result<Vec<Leased>, Error> {
    let sql = format!(
        "SELECT {LEASED_COLUMNS} FROM jobs WHERE state = 'leased' AND lease_until <= ?1
        ORDER BY lease_until LIMIT ?2"
    );
    let mut select = db.prepare_cached(&sql)?;
    let mut found = select.query(params![now(db)?, most])?;
    let mut jobs = Vec::new();
    while let Some(row) = found.next()? {
        jobs.push(leased(row)?);
    }
    Ok(jobs)
}
