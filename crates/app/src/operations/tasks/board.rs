//! Tasks as those see them who look at the queues: which there are, where each stands, who could be
//! given one.

use std::collections::BTreeSet;

use engine::worker::name::replica_of;
pub use flow::free::TaskStatus;
use flow::free::{CancelDecision, cancel as may_cancel};
use flow::{Role, Time};
use serde_json::Value;
use store::{Job, JobQuery, JobState, JobWork, Page};

use super::{key_of, put, queue_name, queues_of};
use crate::failure::{ExitKind, Failure};
use crate::operations::App;
use crate::operations::identity;

/// Of each state no more are looked at; a queue holds fewer.
const LOOK_MOST: u32 = 1000;
/// A task that is given back and taken again meanwhile is tried for so often.
const CANCEL_TRIES_MAX: u32 = 16;

fn standing_of(state: JobState) -> TaskStatus {
    match state {
        JobState::Waiting | JobState::Ready => TaskStatus::Pending,
        JobState::Leased => TaskStatus::InProgress,
        JobState::Done => TaskStatus::Completed,
        JobState::Dead => TaskStatus::Failed,
        JobState::Dropped => TaskStatus::Cancelled,
    }
}

/// One task.
#[derive(Clone, Debug)]
pub struct TaskCard {
    pub id: String,
    pub queue: String,
    pub standing: TaskStatus,
    /// The agent that has it in hand.
    pub agent: Option<String>,
    pub until: Option<Time>,
    pub attempts: u32,
    pub error: Option<String>,
    pub result: Option<Value>,
    /// As it was queued.
    pub body: Value,
}

/// Why a task is not taken.
#[derive(Debug, thiserror::Error)]
pub enum EnqueueError {
    #[error("{0}")]
    Full(String),
    /// Nothing is wrong with the task; it may be tried again.
    #[error("{0}")]
    NotNow(store::Error),
}

/// Puts a task of 001's form into a queue as it is.
pub async fn enter(
    office: &App,
    queue: &str,
    priority: i32,
    body: Value,
    id: &str,
) -> Result<(), EnqueueError> {
    match put(office, queue, priority, body, id).await {
        Ok(()) => Ok(()),
        Err(full @ store::Error::QueueFull { .. }) => Err(EnqueueError::Full(full.to_string())),
        Err(error) => Err(EnqueueError::NotNow(error)),
    }
}

/// The queue's tasks that have not ended.
pub async fn open(office: &App, queue: &str) -> Result<Vec<TaskCard>, Failure> {
    let mut cards = Vec::new();
    for state in [JobState::Waiting, JobState::Ready, JobState::Leased] {
        let query = JobQuery {
            queue: Some(queue.into()),
            state: Some(state),
            ..JobQuery::default()
        };
        let page = Page {
            after: None,
            most: LOOK_MOST,
        };
        let jobs = office.desk.store.jobs(&query, &page).await?.items;
        cards.extend(jobs.into_iter().filter_map(card));
    }
    Ok(cards)
}

/// Whether there is anything in the queue that has not ended.
pub async fn is_used(office: &App, queue: &str) -> Result<bool, Failure> {
    Ok(queue_name(queue).is_ok() && !open(office, queue).await?.is_empty())
}

/// Ends a task that is not wanted any more; whoever has it in hand is stopped. What is cancelled
/// already stays so.
pub async fn cancel(office: &App, id: &str, why: &str) -> Result<TaskCard, Failure> {
    let missing = || {
        Failure::missing(format!("there is no task {id}"))
            .hint("`countersign queue list` shows those there are")
    };
    for _ in 0..CANCEL_TRIES_MAX {
        let job = office.desk.store.job_by_key(&key_of(id)).await?;
        let job = job.ok_or_else(missing)?;
        let standing = standing_of(job.state);
        let refused = |late| Failure::new(ExitKind::Refused, format!("task {id}: {late}"));
        if may_cancel(standing).map_err(refused)? == CancelDecision::IsAlready {
            return card(job).ok_or_else(missing);
        }
        let (by, why) = (office.person().agent, findings::one_line(why));
        // Where somebody else was faster, it stands otherwise by now.
        office.desk.store.cancel(job.id, &by, &why).await?;
    }
    Err(Failure::new(
        ExitKind::Store,
        format!("task {id} changes too fast to be cancelled"),
    )
    .hint("try again"))
}

pub async fn find(office: &App, id: &str) -> Result<Option<TaskCard>, Failure> {
    let job = office.desk.store.job_by_key(&key_of(id)).await?;
    Ok(job.and_then(card))
}

/// Whether all these tasks have been completed.
pub async fn are_done(office: &App, ids: &[String]) -> Result<bool, store::Error> {
    for id in ids {
        let job = office.desk.store.job_by_key(&key_of(id)).await?;
        if job.is_none_or(|job| standing_of(job.state) != TaskStatus::Completed) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn card(job: Job) -> Option<TaskCard> {
    let JobWork::Free { body, .. } = job.work else {
        return None;
    };
    let holder = job.holder.as_deref().unwrap_or_default();
    let agent = holder.strip_prefix("guest:").or_else(|| replica_of(holder));
    let agent = agent.unwrap_or(holder);
    Some(TaskCard {
        id: body.get("id")?.as_str()?.to_owned(),
        queue: job.queue.into(),
        standing: standing_of(job.state),
        agent: Some(agent.to_owned()).filter(|name| !name.is_empty()),
        until: job.lease_until,
        attempts: job.attempts,
        error: job.last_error,
        result: job.result,
        body,
    })
}

/// The queues of all agents and workers that have a token or have been seen.
pub async fn queues(office: &App) -> Result<BTreeSet<String>, Failure> {
    let now = (office.desk.clock)();
    let works = |role: &str| {
        let roles = [Role::Builder, Role::Reviewer, Role::Verifier];
        roles.iter().any(|known| known.word() == role)
    };
    let mut names = BTreeSet::new();
    for token in identity::list(office).await? {
        let over = token.revoked_at.is_some() || token.expires_at.is_some_and(|end| end <= now);
        if !over && token.ticket.is_none() && works(&token.role) {
            names.extend(queues_of(&token.agent).into_iter().map(String::from));
        }
    }
    for agent in office.desk.store.agents().await? {
        if works(&agent.role) {
            names.extend(queues_of(&agent.name).into_iter().map(String::from));
        }
        let served = agent.body.get("tasks").and_then(Value::as_array);
        let served = served.into_iter().flatten().filter_map(Value::as_str);
        names.extend(served.map(str::to_owned));
    }
    names.retain(|name| queue_name(name).is_ok());
    Ok(names)
}
