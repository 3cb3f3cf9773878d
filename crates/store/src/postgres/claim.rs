//! Claims jobs. Every query walks an index of live jobs from its top and skips jobs that another
//! claim has locked, so claims never wait for each other.
//!
//! Claims of different workers run at the same time on many connections. Where a limit needs an
//! exact count, they are put in a row with an advisory lock; all others run freely.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::Row;

use crate::error::Error;
use crate::job::{ClaimRequest, ClaimTarget, Expired, JobId, JobWork, Leased};
use crate::rows::{self, ClaimLine, clean, count, nat, nat32, time};

use super::Postgres;
use super::channel_notifier::ChannelNotifier;
use super::pipeline::{OpenTransaction, Pipeline, StepIndex, Value, values};

/// Maximum number of due or lapsed jobs that one claim makes ready.
const PROMOTED_MAX: i64 = 256;
/// Maximum number of jobs per claim.
const CLAIMED_MAX: u32 = 1000;
/// Number of the first SQL parameter that a claim does not use itself.
pub(super) const MORE: usize = 12;

/// Interval at which a busy queue checks for due jobs and lapsed leases. A queue that seems empty
/// always checks.
const PROMOTED_EVERY: Duration = Duration::from_millis(50);

/// Poll interval while a ready job waits for its dependencies: the end of a dependency sends no
/// wake-up.
const DEPENDENCY_POLL: Duration = Duration::from_secs(1);

/// Time of this process's last check for due jobs, per queue.
#[derive(Debug, Default)]
pub(super) struct Promoted {
    last: Mutex<HashMap<String, Instant>>,
}

// A busy queue is claimed hundreds of times a second, and each check costs two statements.
impl Promoted {
    /// Returns the queues that must be checked now, and records the check.
    pub(super) fn due(&self, queues: &[String]) -> Vec<String> {
        let now = Instant::now();
        // A poisoned lock is used all the same: at worst a queue is checked twice.
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

/// Condition that a line is not paused. A line has its queue, the agent for its jobs and the
/// agent's provider; $9 are the names of the worker itself.
const OPEN: &str = "NOT EXISTS (SELECT 1 FROM pauses
    WHERE (until IS NULL OR until > clock_ms())
        AND ((scope = 'queue' AND pauses.name = line.queue)
            OR (scope = 'agent' AND (pauses.name = line.name OR pauses.name = ANY ($9::text[])))
            OR (scope = 'provider' AND pauses.name = line.provider)))";

/// Condition for a claimable job: it needs only these labels ($7), the worker has not rejected it
/// ($8), and its dependencies are done.
const CLAIMABLE: &str = "state = 'ready'
    AND (jobs.needs IS NULL OR $7::text[] IS NULL OR jobs.needs <@ $7::text[])
    AND jobs.id <> ALL ($8::bigint[])
    AND (jobs.depends_on IS NULL OR NOT EXISTS (SELECT 1 FROM unnest(jobs.depends_on) AS one (key)
        WHERE NOT EXISTS (SELECT 1 FROM jobs AS other
            WHERE other.key = one.key AND other.state = 'done')))";

/// Number of jobs that a provider may still get; the requested number ($6) without a limit. Correct
/// only after [`in_turn`] in the same transaction.
const ROOM: &str = "coalesce((SELECT most FROM provider_limits WHERE provider = ranked.provider)
        - (SELECT count(*) FROM jobs AS own WHERE own.state = 'leased'
            AND own.provider = ranked.provider AND own.lease_until > clock_ms()),
    $6)";

/// Serialises claims for a limited provider, so that each counts the jobs of the claims before it,
/// and exclusive claims of one worker. It goes before [`take`] in a transaction. It cannot
/// deadlock: a claim that holds these locks only takes unlocked jobs and then commits, and several
/// providers are locked in the order of their names.
pub(super) fn serialise_claims(steps: &mut Pipeline, request: &ClaimRequest) {
    let providers = request.providers();
    // The seeds 7420 and 7421 keep these two kinds of advisory locks apart.
    if !providers.is_empty() {
        steps.push(
            "SELECT pg_advisory_xact_lock(hashtextextended(provider, 7420))
            FROM (SELECT provider FROM provider_limits WHERE provider = ANY ($1::text[])
                ORDER BY provider) AS limited",
            values![providers],
        );
    }
    if !request.exclusive.is_empty() {
        steps.push(
            "SELECT pg_advisory_xact_lock(hashtextextended($1, 7421))",
            values![clean(&request.worker)],
        );
    }
}

/// Returns whether a claim must be serialised with [`in_turn`] in a transaction.
pub(super) fn must_serialise(request: &ClaimRequest) -> bool {
    !request.exclusive.is_empty() || request.queues.iter().any(|one| one.provider.is_some())
}

/// Condition that the worker ($11) holds no job of its exclusive queues ($12). Correct only after
/// [`in_turn`], which serialises the claims of one worker.
const HAS_NONE: &str = "AND NOT EXISTS (SELECT 1 FROM jobs AS own
    WHERE own.state = 'leased' AND own.holder = $11 AND own.queue = ANY ($12::text[]))";

/// Returns the query for the top jobs of each line ($1 its queue, $2 the agent its jobs are
/// assigned to, $3 the agent that would do them, $4 the agent's provider), then the top jobs of all
/// lines. `first` is a condition that is evaluated before any job.
fn picked(request: &ClaimRequest, first: &str, lock: &str) -> String {
    const LINES: &str = "unnest($1::text[], $2::text[], $3::text[], $4::text[])
        AS line (queue, agent, name, provider)";
    let only = match &request.only {
        Some(ClaimTarget::Job(_)) => Some("jobs.id = $5::text::bigint"),
        Some(ClaimTarget::Ticket(_)) => Some("ticket = $5"),
        None => None,
    };
    let candidates = match only {
        Some(only) => format!(
            "SELECT top.id, top.priority, line.provider FROM (SELECT id, priority, queue, agent
                FROM jobs WHERE {CLAIMABLE} AND {only}
                    AND queue = ANY ($1::text[]) AND agent = ANY ($2::text[])
                ORDER BY priority DESC, id LIMIT {CLAIMED_MAX} {lock}) AS top
            JOIN {LINES} ON line.queue = top.queue AND line.agent = top.agent
            WHERE {OPEN} {first}"
        ),
        None => format!(
            "SELECT top.id, top.priority, line.provider FROM {LINES} CROSS JOIN LATERAL
                (SELECT id, priority FROM jobs
                    WHERE {CLAIMABLE} AND queue = line.queue AND agent = line.agent
                    ORDER BY priority DESC, id LIMIT $6 {lock}) AS top
            WHERE {OPEN} AND $5::text IS NULL {first}"
        ),
    };
    // A look that takes nothing ignores provider limits.
    // A look takes no lock, so a count of leases would be out of date at once.
    if request.providers().is_empty() || lock.is_empty() {
        return format!("{candidates} ORDER BY priority DESC, id LIMIT $6");
    }
    format!(
        "SELECT id, priority, provider FROM (SELECT id, priority, provider,
                row_number() OVER (PARTITION BY provider ORDER BY priority DESC, id) AS place
            FROM ({candidates}) AS found) AS ranked
        WHERE provider IS NULL OR place <= {ROOM}
        ORDER BY priority DESC, id LIMIT $6"
    )
}

fn values_of(request: &ClaimRequest, limit: u32) -> Vec<Value> {
    let lines = request.lines();
    let column = |value: fn(&ClaimLine) -> String| lines.iter().map(value).collect::<Vec<String>>();
    // A line without a provider has NULL, and no limit applies to it.
    let providers: Vec<Option<String>> = lines.iter().map(|line| line.provider.clone()).collect();
    let labels = request.labels.as_ref();
    let labels = labels.map(|labels| labels.iter().map(|label| clean(label)).collect::<Vec<_>>());
    let except: Vec<i64> = request.except.iter().map(|job| job.0).collect();
    let names: Vec<String> = request.paused_as.iter().map(|name| clean(name)).collect();
    values![
        column(|line| line.queue.clone()),
        column(|line| line.assigned_to.clone()),
        column(|line| line.agent.clone()),
        providers,
        only_of(request),
        i64::from(limit.min(CLAIMED_MAX)),
        labels,
        except,
        names,
    ]
}

/// Returns the id of the job or ticket that the claim is limited to.
fn only_of(request: &ClaimRequest) -> Option<String> {
    request.only.as_ref().map(|only| match only {
        ClaimTarget::Ticket(ticket) => ticket.to_string(),
        ClaimTarget::Job(job) => job.0.to_string(),
    })
}

/// Returns the SQL that leases ready jobs. It uses the parameters 1 to 11.
fn taking(request: &ClaimRequest, first: &str) -> String {
    // SKIP LOCKED is what keeps claims from waiting: a locked job is about to be taken anyway.
    let picked = picked(request, first, "FOR UPDATE SKIP LOCKED");
    format!(
        // MATERIALIZED makes the planner run the choice once, with its limit, before the update.
        "picked AS MATERIALIZED ({picked}),
        taken AS (UPDATE jobs SET state = 'leased', fence = fence + 1, holder = $11,
                lease_until = (SELECT clock_ms()) + $10, provider = picked.provider
            FROM picked WHERE jobs.id = picked.id
            RETURNING jobs.id, queue, ticket, serial, kind, body, fence, holder, lease_until,
                attempts, agent, jobs.provider, jobs.priority, tracked)"
    )
}

/// Returns the SQL that logs each claimed job without a ticket, in one insert with the rows of
/// `others`.
fn logging(others: &str) -> String {
    format!(
        "logged AS (INSERT INTO events (ticket, at, name, by, body)
            SELECT ticket, (SELECT clock_ms()), name, by,
                json_build_object('job', id, 'queue', queue, 'kind', kind)::text
            FROM ({others} SELECT ticket, 'job_claimed' AS name, holder AS by, id, queue, kind
                FROM taken WHERE NOT tracked) AS lines)"
    )
}

fn values_to_take(request: &ClaimRequest) -> Vec<Value> {
    let mut values = values_of(request, request.limit);
    values.push(Box::new(rows::lease_end(0, request.lease)));
    values.push(Box::new(clean(&request.worker)));
    values
}

pub(super) fn take(steps: &mut Pipeline, request: &ClaimRequest) -> StepIndex {
    let mut values = values_to_take(request);
    let first = if request.exclusive.is_empty() {
        ""
    } else {
        let queues: Vec<String> = request
            .exclusive
            .iter()
            .map(|queue| clean(queue.name()))
            .collect();
        values.push(Box::new(queues));
        HAS_NONE
    };
    let (taking, logging) = (taking(request, first), logging(""));
    let sql = format!("WITH {taking}, {logging} SELECT * FROM taken ORDER BY priority DESC, id");
    steps.push(sql, values)
}

/// Claims jobs in one statement with `ends`, which runs first. The common tables of `ends` are
/// `ended`, with the log rows `lines`, and `checked`, with one row; its parameters are numbered
/// from [`MORE`].
///
/// The order matters. Searching for a job can leave a lock on a job that is not claimed, because
/// another claim took it just then. A statement that claims first and ends later could wait for
/// such a lock while others wait for its own locks. One that ends first and claims last waits only
/// while ending, so it cannot deadlock.
pub(super) fn end_and_take(
    steps: &mut Pipeline,
    (ends, lines): (&str, &str),
    more: Vec<Value>,
    request: &ClaimRequest,
) -> StepIndex {
    let taking = taking(request, "AND EXISTS (SELECT 1 FROM checked)");
    let logging = logging(&format!("{lines} UNION ALL"));
    let sql = format!(
        "WITH {ends}, {taking}, {logging} SELECT taken.* FROM checked LEFT JOIN taken ON true
        ORDER BY priority DESC, id"
    );
    let mut values = values_to_take(request);
    values.extend(more);
    steps.push(sql, values)
}

/// Makes due jobs ready, and requeues jobs without a ticket whose lease ran out, because nothing
/// else would.
pub(super) fn promote_due(steps: &mut Pipeline, queues: Vec<String>, attempts_max: u32) {
    // An empty list would still cost two statements.
    if queues.is_empty() {
        return;
    }
    steps.push(
        "UPDATE jobs SET state = 'ready' WHERE id IN (SELECT id FROM jobs
            WHERE state = 'waiting' AND queue = ANY ($1::text[]) AND not_before <= clock_ms()
            LIMIT $2 FOR UPDATE SKIP LOCKED)",
        values![queues.clone(), PROMOTED_MAX],
    );
    put_back(steps, Some(queues), attempts_max);
}

/// Requeues jobs without a ticket whose lease ran out, in these queues (`None`: in all). Returns a
/// row for each.
fn put_back(steps: &mut Pipeline, queues: Option<Vec<String>>, attempts_max: u32) -> StepIndex {
    let queue_filter = match queues {
        Some(_) => "queue = ANY ($1::text[])",
        None => "$1::text[] IS NULL",
    };
    let sql = format!(
        "WITH lapsed AS MATERIALIZED (SELECT id, holder FROM jobs
            WHERE state = 'leased' AND NOT tracked AND {queue_filter} AND lease_until <= clock_ms()
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
        FROM back RETURNING 1"
    );
    let values = values![queues, PROMOTED_MAX, i64::from(attempts_max)];
    steps.push(sql, values)
}

/// Promotes the target of the claim, in case more jobs are due than one claim promotes.
fn promote_target(steps: &mut Pipeline, request: &ClaimRequest) {
    let sql = match &request.only {
        None => return,
        Some(ClaimTarget::Job(_)) => {
            "UPDATE jobs SET state = 'ready'
            WHERE id = $1::text::bigint AND state = 'waiting' AND not_before <= clock_ms()"
        }
        Some(ClaimTarget::Ticket(_)) => {
            "UPDATE jobs SET state = 'ready'
            WHERE ticket = $1 AND state = 'waiting' AND not_before <= clock_ms()"
        }
    };
    steps.push(sql, values![only_of(request)]);
}

pub(super) fn taken(rows: &[Row]) -> Result<Vec<Leased>, Error> {
    // A LEFT JOIN gives one row of NULLs if nothing was claimed.
    let is_job = |row: &&Row| row.get::<_, Option<i64>>(0).is_some();
    rows.iter().filter(is_job).map(leased).collect()
}

fn leased(row: &Row) -> Result<Leased, Error> {
    let ticket: Option<String> = row.get(2);
    let serial: Option<i64> = row.get(3);
    Ok(Leased {
        id: JobId(row.get(0)),
        queue: row.get::<_, &str>(1).into(),
        work: JobWork::read(ticket.is_some(), row.get(4), row.get(5))?,
        ticket: ticket.map(rows::ticket_id).transpose()?,
        serial: serial.map(nat32),
        fence: nat(row.get(6)),
        holder: row.get::<_, Option<String>>(7).unwrap_or_default(),
        until: time(row.get::<_, Option<i64>>(8).unwrap_or_default()),
        attempts: nat32(row.get(9)),
        agent: Some(row.get::<_, String>(10)).filter(|agent| !agent.is_empty()),
        provider: row.get(11),
    })
}

/// Whether a waiting caller should claim now.
#[derive(Debug)]
pub(super) enum PgJobReadiness {
    Ready,
    /// No job yet; `due_in` is the time until a job becomes ready by itself.
    Nothing {
        due_in: Option<Duration>,
    },
}

impl Postgres {
    pub(super) async fn claim_jobs(&self, request: &ClaimRequest) -> Result<Vec<Leased>, Error> {
        let queues = request.queue_names();
        // The queues to check are recorded before the claim, so parallel claims do not repeat the
        // check.
        let due = self.promoted.due(&queues);
        let claimed = self.take_from(request, due.clone()).await?;
        // Either everything was checked already, or there was enough without a check.
        if due.len() == queues.len() || count(claimed.len()) >= i64::from(request.limit) {
            return Ok(claimed);
        }
        Ok(self.take_the_rest(request, claimed).await)
    }

    /// Claims again after making all due jobs ready, because the queues seem empty. An error here
    /// must not hide the jobs that are already claimed; the next call will show it.
    pub(super) async fn take_the_rest(
        &self,
        request: &ClaimRequest,
        mut claimed: Vec<Leased>,
    ) -> Vec<Leased> {
        let claimed_count = u32::try_from(claimed.len()).unwrap_or(u32::MAX);
        let rest = ClaimRequest {
            limit: request.limit.saturating_sub(claimed_count),
            ..request.clone()
        };
        let more = self.take_from(&rest, request.queue_names()).await;
        claimed.extend(more.unwrap_or_default());
        claimed
    }

    /// Makes jobs of the `due` queues ready and claims. Each statement is its own transaction,
    /// except for claims that must be serialised.
    async fn take_from(
        &self,
        request: &ClaimRequest,
        due: Vec<String>,
    ) -> Result<Vec<Leased>, Error> {
        let mut session = OpenTransaction::new(&self.pool).await?;
        let mut steps = Pipeline::default();
        promote_due(&mut steps, due, self.settings.attempts_max);
        promote_target(&mut steps, request);
        let step = if must_serialise(request) {
            // Advisory locks are released at the end of the transaction, so BEGIN and COMMIT are
            // needed even for one statement.
            steps.push("BEGIN", Vec::new());
            serialise_claims(&mut steps, request);
            let step = take(&mut steps, request);
            steps.push("COMMIT", Vec::new());
            step
        } else {
            take(&mut steps, request)
        };
        let answers = session.run(steps).await?;
        answers.check_all(true)?;
        taken(answers.rows(step)?)
    }

    pub(super) async fn expire_leases(&self, most: u32) -> Result<Expired, Error> {
        let mut session = OpenTransaction::new(&self.pool).await?;
        let mut steps = Pipeline::default();
        let back = put_back(&mut steps, None, self.settings.attempts_max);
        let lapsed = steps.push(
            "SELECT id, queue, ticket, serial, kind, body, fence, holder, lease_until, attempts,
                agent, provider
            FROM jobs WHERE state = 'leased' AND tracked AND lease_until <= clock_ms()
            ORDER BY lease_until LIMIT $1",
            values![i64::from(most)],
        );
        let answers = session.run(steps).await?;
        answers.check_all(true)?;
        let requeued = nat(count(answers.rows(back)?.len()));
        // The notification is a separate step: jobs are requeued whether or not it can be sent.
        if requeued > 0 {
            session
                .run(self.channel.fire_all())
                .await?
                .check_all(false)?;
            self.notifier.nudge();
        }
        Ok(Expired {
            requeued,
            of_tickets: taken(answers.rows(lapsed)?)?,
        })
    }

    pub(super) async fn release_job(&self, job: JobId, fence: u64) -> Result<(), Error> {
        let sql = "UPDATE jobs SET state = 'ready', holder = NULL, lease_until = NULL,
                provider = NULL
            WHERE id = $1 AND fence = $2 AND state = 'leased' RETURNING queue";
        let rows = self.change(sql, values![job.0, rows::int(fence)]).await?;
        // No row: the fence was stale. The current fence makes the message useful.
        let Some(row) = rows.first() else {
            return Err(self.stale_fence(job, fence).await?);
        };
        let ready: Vec<String> = vec![row.get(0)];
        let mut session = OpenTransaction::new(&self.pool).await?;
        session
            .run(self.channel.fire(&ready))
            .await?
            .check_all(false)?;
        self.notifier.wake(&ready);
        Ok(())
    }

    /// Arms the notification and then looks, so that a later commit finds it armed.
    pub(super) async fn look(&self, request: &ClaimRequest) -> Result<PgJobReadiness, Error> {
        let queues = request.queue_names();
        let mut session = OpenTransaction::new(&self.pool).await?;
        // Armed first. A commit between arming and looking notifies us, a commit before it is seen.
        let mut steps = ChannelNotifier::arm(&queues);
        let ready = steps.push(picked(request, "", ""), values_of(request, 1));
        let due = steps.push(
            "SELECT min(due) - clock_ms() FROM unnest($1::text[]) AS q (queue) CROSS JOIN LATERAL
                (SELECT min(not_before) AS due FROM jobs
                    WHERE state = 'waiting' AND queue = q.queue
                UNION ALL SELECT min(lease_until) FROM jobs
                    WHERE state = 'leased' AND NOT tracked AND queue = q.queue
                UNION ALL SELECT clock_ms() + $2 WHERE EXISTS (SELECT 1 FROM jobs
                    WHERE state = 'ready' AND queue = q.queue AND depends_on IS NOT NULL)
                UNION ALL SELECT min(until) FROM pauses WHERE until > clock_ms()) AS all_due",
            values![queues, rows::lease_end(0, DEPENDENCY_POLL)],
        );
        let answers = session.run(steps).await?;
        answers.check_all(false)?;
        let due: Option<i64> = answers.rows(due)?.first().and_then(|row| row.get(0));
        if !answers.rows(ready)?.is_empty() || due.is_some_and(|ms| ms <= 0) {
            return Ok(PgJobReadiness::Ready);
        }
        Ok(PgJobReadiness::Nothing {
            due_in: due.map(|ms| Duration::from_millis(nat(ms))),
        })
    }
}
