//! Writes a decision in one transaction. READ COMMITTED is enough: every row that the decision
//! depends on is locked when it is read (the ticket by its compare-and-swap, other tickets FOR
//! SHARE, the job FOR UPDATE, the key by its unique index), and locks last until the end. Tickets
//! are locked in the order of their ids and before jobs, so that two decisions cannot deadlock.

use flow::TicketId;

use crate::change::CommitOutcome;
use crate::error::Error;
use crate::job::Leased;
use crate::notifier::LOG;
use crate::rows::{Encoded, JobUpdate, LeaseCheck, int, nat};

use super::Postgres;
use super::claim;
use super::jobs;
use super::log;
use super::pipeline::{Answers, OpenTransaction, Pipeline, StepIndex, values};
use super::tickets;

/// Steps whose answers decide whether the change is committed.
struct Guards {
    key: Option<(StepIndex, StepIndex)>,
    reads: Vec<(StepIndex, String, i64)>,
    lease: Option<(StepIndex, LeaseCheck)>,
    ticket: StepIndex,
    turns: Vec<(StepIndex, i64)>,
    room: Vec<(StepIndex, String, u64, u64)>,
    claimed: Option<StepIndex>,
}

impl Postgres {
    pub(super) async fn write(&self, change: &Encoded) -> Result<CommitOutcome, Error> {
        let mut session = OpenTransaction::new(&self.pool).await?;
        let mut steps = Pipeline::default();
        // Everything is sent before the first answer is read: one round trip for guards and writes,
        // one for the COMMIT.
        let guards = send(&mut steps, change)?;
        let answers = session.begin(steps).await?;
        match judge(change, &guards, &answers) {
            Ok(done @ CommitOutcome::Written { .. }) => {
                // A guard looks at its own answer; this finds errors of all other statements.
                answers.check_all(false)?;
                let ready = made_ready(change);
                // Notifications go behind the COMMIT, so a woken worker always sees the new jobs.
                session.commit(self.channel.fire(&ready)).await?;
                self.upkeep.jobs_ended(change.turns.len(), &self.pool);
                self.upkeep.ticket_changed(&self.pool);
                self.notifier.wake(&ready);
                Ok(done)
            }
            other => {
                // A repeated call has sent all its writes as well; none of them may stay.
                session.roll_back().await;
                other
            }
        }
    }
}

/// Puts the whole decision into the pipeline. Guards come first, but nothing waits for their
/// answers: if one fails, the writes after it are rolled back too.
fn send(steps: &mut Pipeline, change: &Encoded) -> Result<Guards, Error> {
    steps.push("BEGIN", Vec::new());
    let id = &change.ticket.id;
    let key = match &change.remember {
        Some(remember) => Some(log::remember(steps, remember)?),
        None => None,
    };
    // Other tickets are locked in the order of ids, with the own one in its place.
    let (before, after): (Vec<_>, Vec<_>) = change.reads.iter().partition(|(read, _)| read < id);
    let mut reads: Vec<_> = before.into_iter().map(|read| lock(steps, read)).collect();
    let ticket = tickets::put(steps, change);
    reads.extend(after.into_iter().map(|read| lock(steps, read)));
    // Jobs are locked after tickets, as in every other transaction.
    let lease = change.lease.map(|check| (hold(steps, id, check), check));
    tickets::put_projections(steps, change);
    log::put_policy(steps, &change.policy_id, &change.policy_body);
    log::append(steps, &change.event);
    let turns = change.turns.iter().map(|turn| jobs::turn(steps, id, turn));
    let turns: Vec<_> = turns.collect();
    let room = jobs::measure(steps, &change.new_jobs);
    jobs::add(steps, &change.new_jobs);
    tickets::put_artefacts(steps, &change.artefacts);
    // The claim is last: it takes locks on jobs that others may hold for a moment.
    let claimed = change.then.as_ref().map(|request| {
        claim::serialise_claims(steps, request);
        claim::take(steps, request)
    });
    Ok(Guards {
        key,
        reads,
        lease,
        ticket,
        turns,
        room,
        claimed,
    })
}

fn lock(steps: &mut Pipeline, (id, version): &(String, i64)) -> (StepIndex, String, i64) {
    let step = steps.push(
        "SELECT version FROM tickets WHERE id = $1 FOR SHARE",
        values![id.clone()],
    );
    (step, id.clone(), *version)
}

fn hold(steps: &mut Pipeline, ticket: &str, check: LeaseCheck) -> StepIndex {
    steps.push(
        "SELECT state, fence, lease_until <= clock_ms() FROM jobs
        WHERE ticket = $1 AND serial = $2 FOR UPDATE",
        values![ticket.to_owned(), check.serial],
    )
}

/// Evaluates the guards, in the same order as the `SQLite` store.
fn judge(change: &Encoded, guards: &Guards, answers: &Answers) -> Result<CommitOutcome, Error> {
    if let (Some((inserted, existing)), Some(request)) = (guards.key, &change.remember)
        && answers.rows(inserted)?.is_empty()
    {
        let first = log::remembered(&request.key, answers.rows(existing)?)?;
        return match first {
            Some(first) if first.payload_hash == request.payload_hash => {
                Ok(CommitOutcome::Again(first.answer))
            }
            Some(_) => Err(Error::KeyReused {
                key: request.key.clone(),
            }),
            None => Err(Error::Conflict {
                what: format!("the answer to {:?}", request.key),
            }),
        };
    }
    for (step, id, expected) in &guards.reads {
        let version = answers.rows(*step)?.first().map(|row| row.get::<_, i64>(0));
        if version != Some(*expected) {
            return Err(Error::ticket_changed(id));
        }
    }
    if let Some((step, check)) = guards.lease {
        assert_lease(&change.ticket.id, check, answers.rows(step)?)?;
    }
    let Some(row) = answers.rows(guards.ticket)?.first() else {
        return Err(match (change.was, TicketId::new(&change.ticket.id)) {
            (None, Ok(id)) => Error::Exists(id),
            (None, Err(_)) | (Some(_), _) => Error::ticket_changed(&change.ticket.id),
        });
    };
    for (step, serial) in &guards.turns {
        if answers.rows(*step)?.is_empty() {
            return Err(Error::no_such_job(&change.ticket.id, *serial));
        }
    }
    jobs::assert_room(&guards.room, answers)?;
    let claimed: Vec<Leased> = match guards.claimed {
        Some(step) => claim::taken(answers.rows(step)?)?,
        None => Vec::new(),
    };
    Ok(CommitOutcome::Written {
        number: row.get(0),
        claimed,
    })
}

fn assert_lease(
    ticket: &str,
    check: LeaseCheck,
    rows: &[tokio_postgres::Row],
) -> Result<(), Error> {
    let name = format!("{ticket}#{}", check.serial);
    let row = rows.first();
    let fence = row.map_or(0, |row| row.get::<_, i64>(1));
    let leased = row.is_some_and(|row| row.get::<_, &str>(0) == "leased");
    if !leased || fence != int(check.fence) {
        return Err(Error::StaleFence {
            job: name,
            given: check.fence,
            current: nat(fence),
        });
    }
    let lapsed = row
        .and_then(|row| row.get::<_, Option<bool>>(2))
        .unwrap_or(true);
    if check.must_have_run_out && !lapsed {
        return Err(Error::lease_alive(&name));
    }
    Ok(())
}

/// Returns the queues in which a job became ready, or will become due.
fn made_ready(change: &Encoded) -> Vec<String> {
    let mut queues: Vec<String> = change
        .new_jobs
        .iter()
        .map(|job| job.queue.clone())
        .collect();
    if change
        .turns
        .iter()
        .any(|turn| matches!(turn, JobUpdate::Retry { .. }))
    {
        // A retried job of a ticket goes back to one of the built-in queues.
        queues.extend(flow::Queue::OF_LOOP.map(String::from));
    }
    queues.push(LOG.to_owned());
    queues.sort_unstable();
    queues.dedup();
    queues
}
