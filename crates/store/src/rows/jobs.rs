//! Jobs as rows: new jobs, and updates of existing ones.

use std::time::Duration;

use flow::{Effect, EventKind, Task, Ticket};
use serde_json::Value;

use crate::change::Change;
use crate::error::Error;
use crate::job::{FreeJob, JobState};

use super::words::{clean, decode};

/// A new row of the table `jobs`.
#[derive(Debug)]
pub(crate) struct JobColumns {
    pub(crate) queue: String,
    pub(crate) agent: String,
    pub(crate) priority: i32,
    pub(crate) ticket: Option<String>,
    pub(crate) serial: Option<i64>,
    pub(crate) tracked: bool,
    pub(crate) kind: String,
    pub(crate) not_before: i64,
    pub(crate) key: Option<String>,
    pub(crate) body: String,
    pub(crate) queue_max: Option<u64>,
    pub(crate) needs: Vec<String>,
    pub(crate) depends_on: Vec<String>,
}

/// An update of an existing job of a ticket.
#[derive(Debug)]
pub(crate) enum JobUpdate {
    Retry {
        serial: i64,
        not_before: i64,
        /// Attempts as the ticket counts them.
        attempts: i64,
        error: Option<String>,
    },
    End {
        serial: i64,
        state: JobState,
        why: Option<String>,
    },
}

pub(super) fn jobs_of(change: &Change) -> Result<(Vec<JobColumns>, Vec<JobUpdate>), Error> {
    let mut new_jobs = Vec::new();
    let mut turns = Vec::new();
    for effect in &change.effects {
        match effect {
            Effect::Enqueue(job) => new_jobs.push(JobColumns {
                queue: job.task.word().to_owned(),
                agent: job.agent.as_deref().map(clean).unwrap_or_default(),
                priority: job.priority,
                ticket: Some(change.ticket.id.to_string()),
                serial: Some(i64::from(job.serial)),
                tracked: !matches!(job.task, Task::Tell { .. } | Task::Report),
                kind: job.task.word().to_owned(),
                not_before: job.not_before.0,
                key: None,
                body: serde_json::to_string(&job.task)?,
                queue_max: change.queue_max,
                needs: cleaned(&change.ticket.spec.context.needs),
                depends_on: Vec::new(),
            }),
            Effect::Retry { serial, not_before } => turns.push(JobUpdate::Retry {
                serial: i64::from(*serial),
                not_before: not_before.0,
                attempts: attempts_of(&change.ticket, *serial),
                error: error_of(&change.event.what),
            }),
            Effect::Finish { serial } => turns.push(end(*serial, JobState::Done, None)),
            Effect::Drop { serial, why } => turns.push(end(*serial, JobState::Dropped, Some(why))),
            Effect::Bury { serial, why } => turns.push(end(*serial, JobState::Dead, Some(why))),
        }
    }
    Ok((new_jobs, turns))
}

fn end(serial: u32, state: JobState, why: Option<&String>) -> JobUpdate {
    JobUpdate::End {
        serial: i64::from(serial),
        state,
        why: why.map(|text| clean(text)),
    }
}

/// Returns the ticket's count of attempts, which the queue copies. An exhausted quota is no
/// attempt.
fn attempts_of(ticket: &Ticket, serial: u32) -> i64 {
    let open = ticket.jobs.iter().find(|job| job.serial == serial);
    open.map_or(0, |job| i64::from(job.attempts))
}

fn error_of(what: &EventKind) -> Option<String> {
    if let EventKind::JobFailed { message, .. } = what {
        return Some(clean(message));
    }
    matches!(what, EventKind::LeaseLost { .. }).then(|| "the lease ran out".to_owned())
}

fn cleaned<'a>(names: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    names.into_iter().map(|name| clean(name)).collect()
}

impl JobColumns {
    pub(crate) fn free(job: &FreeJob) -> Result<Self, Error> {
        Ok(Self {
            queue: clean(job.queue.name()),
            agent: job.agent.as_deref().map(clean).unwrap_or_default(),
            priority: job.priority,
            ticket: None,
            serial: None,
            tracked: false,
            kind: clean(&job.kind),
            not_before: job.not_before.map_or(i64::MIN, |time| time.0),
            key: job.key.as_deref().map(clean),
            body: serde_json::to_string(&job.body)?,
            queue_max: job.queue_max,
            needs: cleaned(&job.needs),
            depends_on: cleaned(&job.depends_on),
        })
    }

    /// Refuses a repeated key whose queue, kind or body differs from the first job's.
    pub(crate) fn assert_same(&self, queue: &str, kind: &str, body: &str) -> Result<(), Error> {
        let same_body =
            || Ok::<bool, Error>(decode::<Value>(body)? == decode::<Value>(&self.body)?);
        if self.queue == queue && self.kind == kind && same_body()? {
            return Ok(());
        }
        Err(Error::KeyReused {
            key: self.key.clone().unwrap_or_default(),
        })
    }
}

pub(crate) fn lease_end(now: i64, lease: Duration) -> i64 {
    now.saturating_add(i64::try_from(lease.as_millis()).unwrap_or(i64::MAX))
}

/// Returns the state of a new job: ready, or waiting until `not_before`.
pub(crate) fn state_for(not_before: i64, now: i64) -> &'static str {
    if not_before <= now {
        JobState::Ready.word()
    } else {
        JobState::Waiting.word()
    }
}
