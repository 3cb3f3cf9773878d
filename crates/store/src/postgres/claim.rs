//! Which job goes to whom. Walks the indexes of live jobs from their top; a job that somebody
//! else is just taking is skipped, so claims never wait for each other.

use std::time::Duration;

use tokio_postgres::Row;

use crate::error::Error;
use crate::job::{Ask, JobId, Leased, Work};
use crate::rows::{self, clean, nat, nat32, time};

use super::Postgres;
use super::bell::Bell;
use super::pipeline::{Pipeline, Place, Session, Value, values};

/// How many jobs one claim brings back from waiting or from a lost lease.
const PROMOTED_MAX: i64 = 256;
/// How many jobs one claim takes.
const CLAIMED_MAX: u32 = 1000;

/// Not paused: `queue` is the job's, $2 the agent, $3 its provider.
const OPEN: &str = "NOT EXISTS (SELECT 1 FROM pauses
    WHERE (until IS NULL OR until > clock_ms())
        AND ((scope = 'queue' AND pauses.name = line.queue)
            OR (scope = 'agent' AND pauses.name = $2)
            OR (scope = 'provider' AND pauses.name = $3)))";

/// The lines that the ask may look into: each queue, for anybody and for this agent.
const LINES: &str = "(SELECT DISTINCT queue, agent FROM unnest($1::text[]) AS q (queue)
    CROSS JOIN (VALUES (''), ($2)) AS a (agent)) AS line";

/// The top of each line, then the top of them all. `found` sees `line`.
fn picked(ask: &Ask, lock: &str) -> String {
    if ask.ticket.is_some() {
        return format!(
            "SELECT line.id, line.priority FROM (SELECT id, priority, queue, agent FROM jobs
                WHERE state = 'ready' AND ticket = $4 AND queue = ANY ($1::text[])
                    AND agent IN ('', $2)
                ORDER BY priority DESC, id LIMIT $5 {lock}) AS line
            WHERE {OPEN} ORDER BY priority DESC, id LIMIT $5"
        );
    }
    format!(
        "SELECT top.id, top.priority FROM {LINES} CROSS JOIN LATERAL
            (SELECT id, priority FROM jobs
                WHERE state = 'ready' AND queue = line.queue AND agent = line.agent
                ORDER BY priority DESC, id LIMIT $5 {lock}) AS top
        WHERE {OPEN} AND $4::text IS NULL ORDER BY top.priority DESC, top.id LIMIT $5"
    )
}

fn values_of(ask: &Ask, most: u32) -> Vec<Value> {
    values![
        ask.queues
            .iter()
            .map(|queue| clean(queue))
            .collect::<Vec<_>>(),
        clean(&ask.agent),
        ask.provider.as_deref().map(clean),
        ask.ticket.as_ref().map(ToString::to_string),
        i64::from(most.min(CLAIMED_MAX)),
    ]
}

/// Takes jobs that are ready, each with its line in the log where no ticket follows it.
pub(super) fn take(steps: &mut Pipeline, ask: &Ask) -> Place {
    let picked = picked(ask, "FOR UPDATE SKIP LOCKED");
    let sql = format!(
        "WITH picked AS MATERIALIZED ({picked}),
        taken AS (UPDATE jobs SET state = 'leased', fence = fence + 1, holder = $7,
                lease_until = clock_ms() + $6
            FROM picked WHERE jobs.id = picked.id
            RETURNING jobs.id, queue, ticket, serial, kind, body, fence, holder, lease_until,
                attempts, jobs.priority, tracked),
        logged AS (INSERT INTO events (ticket, at, name, by, body)
            SELECT ticket, clock_ms(), 'job_claimed', holder,
                json_build_object('job', id, 'queue', queue, 'kind', kind)::text
            FROM taken WHERE NOT tracked)
        SELECT * FROM taken ORDER BY priority DESC, id"
    );
    let mut values = values_of(ask, ask.most);
    values.push(Box::new(rows::lease_end(0, ask.lease)));
    values.push(Box::new(clean(&ask.holder)));
    steps.push(sql, values)
}

/// Waiting jobs whose time has come; and leased jobs that no ticket follows and whose lease ran
/// out, which nobody else will bring back.
pub(super) fn bring_back(steps: &mut Pipeline, ask: &Ask, attempts_max: u32) {
    let queues: Vec<String> = ask.queues.iter().map(|queue| clean(queue)).collect();
    steps.push(
        "UPDATE jobs SET state = 'ready' WHERE id IN (SELECT id FROM jobs
            WHERE state = 'waiting' AND queue = ANY ($1::text[]) AND not_before <= clock_ms()
            LIMIT $2 FOR UPDATE SKIP LOCKED)",
        values![queues.clone(), PROMOTED_MAX],
    );
    steps.push(
        "WITH lapsed AS MATERIALIZED (SELECT id, holder FROM jobs
            WHERE state = 'leased' AND NOT tracked AND queue = ANY ($1::text[])
                AND lease_until <= clock_ms()
            LIMIT $2 FOR UPDATE SKIP LOCKED),
        back AS (UPDATE jobs SET attempts = attempts + 1, holder = NULL, lease_until = NULL,
                state = CASE WHEN attempts + 1 > $3 THEN 'dead' ELSE 'ready' END,
                ended_at = CASE WHEN attempts + 1 > $3 THEN clock_ms() END,
                last_error = 'the lease of ' || lapsed.holder || ' ran out'
            FROM lapsed WHERE jobs.id = lapsed.id
            RETURNING jobs.id, queue, kind, ticket, attempts, last_error, state,
                lapsed.holder AS lost_by)
        INSERT INTO events (ticket, at, name, by, body)
        SELECT ticket, clock_ms(),
            CASE state WHEN 'dead' THEN 'job_dead' ELSE 'job_lease_lost' END, lost_by,
            json_build_object('job', id, 'queue', queue, 'kind', kind, 'attempts', attempts,
                'error', last_error)::text
        FROM back",
        values![queues, PROMOTED_MAX, i64::from(attempts_max)],
    );
}

pub(super) fn taken(found: &[Row]) -> Result<Vec<Leased>, Error> {
    found.iter().map(leased).collect()
}

fn leased(row: &Row) -> Result<Leased, Error> {
    let ticket: Option<String> = row.get(2);
    let serial: Option<i64> = row.get(3);
    Ok(Leased {
        id: JobId(row.get(0)),
        queue: row.get(1),
        work: Work::read(ticket.is_some(), row.get(4), row.get(5))?,
        ticket: ticket.map(rows::ticket_id).transpose()?,
        serial: serial.map(nat32),
        fence: nat(row.get(6)),
        holder: row.get::<_, Option<String>>(7).unwrap_or_default(),
        until: time(row.get::<_, Option<i64>>(8).unwrap_or_default()),
        attempts: nat32(row.get(9)),
    })
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

impl Postgres {
    /// Each statement is a transaction of its own: none rests on another.
    pub(super) async fn claim_jobs(&self, ask: &Ask) -> Result<Vec<Leased>, Error> {
        let mut session = Session::new(&self.pool).await?;
        let mut steps = Pipeline::default();
        bring_back(&mut steps, ask, self.settings.attempts_max);
        let place = take(&mut steps, ask);
        let answers = session.run(steps).await?;
        answers.all_well(true)?;
        taken(answers.rows(place)?)
    }

    /// Arms the bell and then looks: what is committed after the look finds the bell armed.
    pub(super) async fn look(&self, ask: &Ask) -> Result<Look, Error> {
        let mut session = Session::new(&self.pool).await?;
        let mut steps = Bell::arm(&ask.queues);
        let picked = picked(ask, "");
        let ready = steps.push(picked, values_of(ask, 1));
        let due = steps.push(
            "SELECT min(due) - clock_ms() FROM unnest($1::text[]) AS q (queue) CROSS JOIN LATERAL
                (SELECT min(not_before) AS due FROM jobs
                    WHERE state = 'waiting' AND queue = q.queue
                UNION ALL SELECT min(lease_until) FROM jobs
                    WHERE state = 'leased' AND NOT tracked AND queue = q.queue
                UNION ALL SELECT min(until) FROM pauses WHERE until > clock_ms()) AS all_due",
            values![ask.queues.clone()],
        );
        let answers = session.run(steps).await?;
        answers.all_well(false)?;
        let due: Option<i64> = answers.rows(due)?.first().and_then(|row| row.get(0));
        if !answers.rows(ready)?.is_empty() || due.is_some_and(|ms| ms <= 0) {
            return Ok(Look::Ready);
        }
        Ok(Look::Nothing {
            due_in: due.map(|ms| Duration::from_millis(nat(ms))),
        })
    }

    pub(super) async fn list_lapsed(&self, most: u32) -> Result<Vec<Leased>, Error> {
        let sql = "SELECT id, queue, ticket, serial, kind, body, fence, holder, lease_until,
                attempts FROM
            ((SELECT * FROM jobs WHERE state = 'leased' AND tracked AND lease_until <= clock_ms()
                ORDER BY lease_until LIMIT $1)
            UNION ALL (SELECT * FROM jobs WHERE state = 'leased' AND NOT tracked
                AND lease_until <= clock_ms() LIMIT $1)) AS lapsed
            ORDER BY lease_until LIMIT $1";
        taken(&self.read(sql, values![i64::from(most)]).await?)
    }
}
