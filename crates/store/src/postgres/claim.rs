//! Which job goes to whom. Walks the indexes of live jobs from their top; a job that somebody
//! else is just taking is skipped, so claims never wait for each other.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::Row;

use crate::error::Error;
use crate::job::{Ask, JobId, Leased, Work};
use crate::rows::{self, clean, count, nat, nat32, time};

use super::Postgres;
use super::bell::Bell;
use super::pipeline::{Pipeline, Place, Session, Value, values};

/// How many jobs one claim brings back from waiting or from a lost lease.
const PROMOTED_MAX: i64 = 256;
/// How many jobs one claim takes.
const CLAIMED_MAX: u32 = 1000;
/// The number of the first value that a claim leaves to others.
pub(super) const MORE: usize = 9;

/// How late a busy queue may notice that a waiting job is due, or a lease has run out. A queue
/// that seems empty always looks.
const PROMOTED_EVERY: Duration = Duration::from_millis(50);

/// When this process last brought back what was due, for each queue.
#[derive(Debug, Default)]
pub(super) struct Promoted {
    last: Mutex<HashMap<String, Instant>>,
}

impl Promoted {
    /// Those of the queues whose turn it is.
    pub(super) fn due(&self, queues: &[String]) -> Vec<String> {
        let now = Instant::now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_due = |queue: &&String| {
            let due = last
                .get(*queue)
                .is_none_or(|then| now.duration_since(*then) >= PROMOTED_EVERY);
            if due {
                last.insert((*queue).clone(), now);
            }
            due
        };
        queues
            .iter()
            .filter(|queue| is_due(queue))
            .cloned()
            .collect()
    }
}

/// Not paused: $3 is the agent who asks, $4 its provider.
const OPEN: &str = "NOT EXISTS (SELECT 1 FROM pauses
    WHERE (until IS NULL OR until > clock_ms())
        AND ((scope = 'queue' AND pauses.name = line.queue)
            OR (scope = 'agent' AND pauses.name = $3)
            OR (scope = 'provider' AND pauses.name = $4)))";

/// What the provider's limit ($4) leaves of as many as are asked for ($6). It holds where [`in_turn`]
/// was said before.
const ROOM: &str = "least($6, greatest(0, coalesce(
    (SELECT most FROM provider_limits WHERE provider = $4)
        - (SELECT count(*) FROM jobs
            WHERE state = 'leased' AND provider = $4 AND lease_until > clock_ms()),
    $6)))";

/// Who claims for a provider with a limit waits until those before have committed, and so counts what
/// they took. It goes before [`take`] in a transaction, and waits for nobody who waits for us: they
/// only take jobs that nobody else is just taking, and then commit.
pub(super) fn in_turn(steps: &mut Pipeline, ask: &Ask) {
    if let Some(provider) = ask.provider.as_deref().map(clean) {
        steps.push(
            "SELECT pg_advisory_xact_lock(hashtextextended(provider, 7420))
            FROM provider_limits WHERE provider = $1",
            values![provider],
        );
    }
    if !ask.alone_in.is_empty() {
        steps.push(
            "SELECT pg_advisory_xact_lock(hashtextextended($1, 7421))",
            values![clean(&ask.holder)],
        );
    }
}

/// The holder ($8) has nothing of the queues ($9) that it may have one claim of. It holds where
/// [`in_turn`] was said before: claims of one holder come one after the other.
const HAS_NONE: &str = "AND NOT EXISTS (SELECT 1 FROM jobs AS own
    WHERE own.state = 'leased' AND own.holder = $8 AND own.queue = ANY ($9::text[]))";

/// The top of each line ($1 its queue, $2 whom its jobs are for), then the top of them all.
/// `first` is a condition that is looked at before any job is.
/// Not more than `room` of them.
fn picked(ask: &Ask, first: &str, lock: &str, room: &str) -> String {
    let only = match (ask.job, &ask.ticket) {
        (Some(_), _) => Some("id = $5::text::bigint"),
        (None, Some(_)) => Some("ticket = $5"),
        (None, None) => None,
    };
    if let Some(only) = only {
        return format!(
            "SELECT line.id, line.priority FROM (SELECT id, priority, queue, agent FROM jobs
                WHERE state = 'ready' AND {only} AND queue = ANY ($1::text[])
                    AND agent = ANY ($2::text[])
                ORDER BY priority DESC, id LIMIT $6 {lock}) AS line
            WHERE {OPEN} {first} ORDER BY priority DESC, id LIMIT {room}"
        );
    }
    format!(
        "SELECT top.id, top.priority FROM unnest($1::text[], $2::text[]) AS line (queue, agent)
        CROSS JOIN LATERAL
            (SELECT id, priority FROM jobs
                WHERE state = 'ready' AND queue = line.queue AND agent = line.agent
                ORDER BY priority DESC, id LIMIT $6 {lock}) AS top
        WHERE {OPEN} AND $5::text IS NULL {first}
        ORDER BY top.priority DESC, top.id LIMIT {room}"
    )
}

/// The lines that the ask may look into: each queue, for anybody and for this agent.
fn lines(ask: &Ask) -> (Vec<String>, Vec<String>) {
    let mut queues: Vec<String> = ask.queues.iter().map(|queue| clean(queue)).collect();
    queues.sort_unstable();
    queues.dedup();
    let own = Some(clean(&ask.agent)).filter(|agent| !agent.is_empty());
    let anybodys = (!ask.own_only).then(String::new);
    let agents = [anybodys, own].into_iter().flatten();
    agents
        .flat_map(|agent| {
            queues
                .iter()
                .map(move |queue| (queue.clone(), agent.clone()))
        })
        .unzip()
}

fn values_of(ask: &Ask, most: u32) -> Vec<Value> {
    let (queues, agents) = lines(ask);
    values![
        queues,
        agents,
        clean(&ask.agent),
        ask.provider.as_deref().map(clean),
        only_of(ask),
        i64::from(most.min(CLAIMED_MAX)),
    ]
}

/// The job or the ticket that it is all about, if there is one.
fn only_of(ask: &Ask) -> Option<String> {
    let ticket = ask.ticket.as_ref().map(ToString::to_string);
    ask.job.map(|job| job.0.to_string()).or(ticket)
}

/// Takes jobs that are ready. Values are numbered from 1 to 8.
fn taking(ask: &Ask, first: &str) -> String {
    let room = if ask.provider.is_some() { ROOM } else { "$6" };
    let picked = picked(ask, first, "FOR UPDATE SKIP LOCKED", room);
    format!(
        "picked AS MATERIALIZED ({picked}),
        taken AS (UPDATE jobs SET state = 'leased', fence = fence + 1, holder = $8,
                lease_until = (SELECT clock_ms()) + $7, provider = $4
            FROM picked WHERE jobs.id = picked.id
            RETURNING jobs.id, queue, ticket, serial, kind, body, fence, holder, lease_until,
                attempts, jobs.priority, tracked)"
    )
}

/// A line in the log for each job that no ticket follows, in one insert with those of `others`.
fn logging(others: &str) -> String {
    format!(
        "logged AS (INSERT INTO events (ticket, at, name, by, body)
            SELECT ticket, (SELECT clock_ms()), name, by,
                json_build_object('job', id, 'queue', queue, 'kind', kind)::text
            FROM ({others} SELECT ticket, 'job_claimed' AS name, holder AS by, id, queue, kind
                FROM taken WHERE NOT tracked) AS lines)"
    )
}

fn values_to_take(ask: &Ask) -> Vec<Value> {
    let mut values = values_of(ask, ask.most);
    values.push(Box::new(rows::lease_end(0, ask.lease)));
    values.push(Box::new(clean(&ask.holder)));
    values
}

pub(super) fn take(steps: &mut Pipeline, ask: &Ask) -> Place {
    let mut values = values_to_take(ask);
    let first = if ask.alone_in.is_empty() {
        ""
    } else {
        let queues: Vec<String> = ask.alone_in.iter().map(|queue| clean(queue)).collect();
        values.push(Box::new(queues));
        HAS_NONE
    };
    let (taking, logging) = (taking(ask, first), logging(""));
    let sql = format!("WITH {taking}, {logging} SELECT * FROM taken ORDER BY priority DESC, id");
    steps.push(sql, values)
}

/// The same in one statement with what `ends` does before it: its common tables are `ended`, whose
/// lines are `lines`, and `checked`, of one row; its values are numbered from [`MORE`].
///
/// "Before" matters. Looking for a job can leave a lock on one that is not taken, because somebody
/// took it just then. Whoever takes first and ends later could wait for such a lock while others
/// wait for its own; whoever waits only while ending, and takes last, cannot.
pub(super) fn end_and_take(
    steps: &mut Pipeline,
    (ends, lines): (&str, &str),
    more: Vec<Value>,
    ask: &Ask,
) -> Place {
    let taking = taking(ask, "AND EXISTS (SELECT 1 FROM checked)");
    let logging = logging(&format!("{lines} UNION ALL"));
    let sql = format!(
        "WITH {ends}, {taking}, {logging} SELECT taken.* FROM checked LEFT JOIN taken ON true
        ORDER BY priority DESC, id"
    );
    let mut values = values_to_take(ask);
    values.extend(more);
    steps.push(sql, values)
}

/// Waiting jobs whose time has come; and leased jobs that no ticket follows and whose lease ran
/// out, which nobody else will bring back.
pub(super) fn bring_back(steps: &mut Pipeline, queues: Vec<String>, attempts_max: u32) {
    if queues.is_empty() {
        return;
    }
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
    let is_job = |row: &&Row| row.get::<_, Option<i64>>(0).is_some();
    found.iter().filter(is_job).map(leased).collect()
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
    pub(super) async fn claim_jobs(&self, ask: &Ask) -> Result<Vec<Leased>, Error> {
        let due = self.promoted.due(&ask.queues);
        let claimed = self.take_from(ask, due.clone()).await?;
        if due.len() == ask.queues.len() || count(claimed.len()) >= i64::from(ask.most) {
            return Ok(claimed);
        }
        Ok(self.take_the_rest(ask, claimed).await)
    }

    /// The queues seem empty: now all that is due is brought back, whenever that was done last.
    /// What goes wrong here must not hide what has been written; the next call will show it.
    pub(super) async fn take_the_rest(&self, ask: &Ask, mut claimed: Vec<Leased>) -> Vec<Leased> {
        let had = u32::try_from(claimed.len()).unwrap_or(u32::MAX);
        let rest = Ask {
            most: ask.most.saturating_sub(had),
            ..ask.clone()
        };
        let more = self.take_from(&rest, ask.queues.clone()).await;
        claimed.extend(more.unwrap_or_default());
        claimed
    }

    /// Each statement is a transaction of its own: none rests on another, but for a provider's turn.
    async fn take_from(&self, ask: &Ask, due: Vec<String>) -> Result<Vec<Leased>, Error> {
        let mut session = Session::new(&self.pool).await?;
        let mut steps = Pipeline::default();
        bring_back(&mut steps, due, self.settings.attempts_max);
        let place = if ask.provider.is_some() || !ask.alone_in.is_empty() {
            steps.push("BEGIN", Vec::new());
            in_turn(&mut steps, ask);
            let place = take(&mut steps, ask);
            steps.push("COMMIT", Vec::new());
            place
        } else {
            take(&mut steps, ask)
        };
        let answers = session.run(steps).await?;
        answers.all_well(true)?;
        taken(answers.rows(place)?)
    }

    /// Arms the bell and then looks: what is committed after the look finds the bell armed.
    pub(super) async fn look(&self, ask: &Ask) -> Result<Look, Error> {
        let mut session = Session::new(&self.pool).await?;
        let mut steps = Bell::arm(&ask.queues);
        let picked = picked(ask, "", "", "$6");
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
            jobs WHERE state = 'leased' AND lease_until <= clock_ms()
            ORDER BY lease_until LIMIT $1";
        taken(&self.read(sql, values![i64::from(most)]).await?)
    }
}
