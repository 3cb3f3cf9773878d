//! Lists tasks for people and the spool: the tasks of a queue, their status, and the queues that
//! exist. It also cancels tasks.

use std::collections::{BTreeMap, BTreeSet};

use engine::worker::name::replica_of;
pub use flow::task::TaskStatus;
use flow::task::{CancelDecision, decide_cancel as may_cancel};
use flow::{Role, Time};
use serde_json::Value;
use store::{Job, JobId, JobQuery, JobState, JobWork, Page};

use super::{enqueue, key_of, queue_name, queues_of};
use crate::failure::{ExitKind, Failure};
use crate::operations::App;
use crate::operations::forge_work::is_forge_queue;
use crate::operations::identity;

/// Maximum number of tasks per state that are listed; a queue cannot hold as many.
const TASKS_LISTED_MAX: u32 = 1000;
/// Maximum attempts to cancel a task that changes its state in the meantime.
const CANCEL_TRIES_MAX: u32 = 16;

fn status_of(state: JobState) -> TaskStatus {
    match state {
        JobState::Waiting | JobState::Ready => TaskStatus::Pending,
        JobState::Leased => TaskStatus::InProgress,
        JobState::Done => TaskStatus::Completed,
        JobState::Dead => TaskStatus::Failed,
        JobState::Dropped => TaskStatus::Cancelled,
    }
}

/// State of one task.
#[derive(Clone, Debug)]
pub struct TaskCard {
    pub id: String,
    pub queue: String,
    pub status: TaskStatus,
    /// Agent that holds the task.
    pub agent: Option<String>,
    pub until: Option<Time>,
    pub attempts: u32,
    pub error: Option<String>,
    pub result: Option<Value>,
    /// The task as it was queued.
    pub body: Value,
}

/// Reason why a task is not queued.
#[derive(Debug, thiserror::Error)]
pub enum EnqueueError {
    #[error("{0}")]
    Full(String),
    /// The task is valid; try again later.
    #[error("{0}")]
    NotNow(store::Error),
}

/// Puts the content of a task file into a queue.
pub async fn enqueue_task(
    app: &App,
    queue: &str,
    priority: i32,
    body: Value,
    id: &str,
) -> Result<(), EnqueueError> {
    match enqueue(app, queue, priority, body, id).await {
        Ok(()) => Ok(()),
        Err(full @ store::Error::QueueFull { .. }) => Err(EnqueueError::Full(full.to_string())),
        Err(error) => Err(EnqueueError::NotNow(error)),
    }
}

/// Counts the open tasks by queue.
pub async fn count_open(app: &App) -> Result<BTreeMap<String, u64>, Failure> {
    let mut counts = BTreeMap::new();
    for state in [JobState::Waiting, JobState::Ready, JobState::Leased] {
        let query = JobQuery {
            state: Some(state),
            ..JobQuery::default()
        };
        let page = Page {
            after: None,
            most: TASKS_LISTED_MAX,
        };
        for job in app.coordinator.store.jobs(&query, &page).await?.items {
            let is_task = !job.queue.is_of_loop() && !is_forge_queue(&job.queue);
            if matches!(job.work, JobWork::Free { .. }) && is_task {
                *counts.entry(job.queue.to_string()).or_default() += 1;
            }
        }
    }
    Ok(counts)
}

/// Lists the queue's tasks that have not ended.
pub async fn open_tasks(app: &App, queue: &str) -> Result<Vec<TaskCard>, Failure> {
    let mut cards = Vec::new();
    for state in [JobState::Waiting, JobState::Ready, JobState::Leased] {
        let query = JobQuery {
            queue: Some(queue.into()),
            state: Some(state),
            ..JobQuery::default()
        };
        let page = Page {
            after: None,
            most: TASKS_LISTED_MAX,
        };
        let jobs = app.coordinator.store.jobs(&query, &page).await?.items;
        cards.extend(jobs.into_iter().filter_map(task_card));
    }
    Ok(cards)
}

/// Place among the tasks of a queue: those behind it are new to the reader.
#[derive(Clone, Copy, Debug)]
pub struct TaskMark(MarkKind);

#[derive(Clone, Copy, Debug)]
enum MarkKind {
    At(Time),
    Behind(JobId),
}

impl TaskMark {
    /// Marks a time, for a reader that has seen no task yet.
    pub const fn at(time: Time) -> Self {
        Self(MarkKind::At(time))
    }

    fn has_behind(self, job: &Job) -> bool {
        match self.0 {
            MarkKind::At(time) => job.created_at >= time,
            MarkKind::Behind(last) => job.id > last,
        }
    }
}

/// Lists the queue's tasks behind the mark in any state, and returns the mark behind the newest of
/// them. A task can be queued, claimed and completed between two looks at the open ones.
pub async fn new_tasks(
    app: &App,
    queue: &str,
    mark: TaskMark,
) -> Result<(Vec<TaskCard>, TaskMark), Failure> {
    let query = JobQuery {
        queue: Some(queue.into()),
        ..JobQuery::default()
    };
    let page = Page {
        after: None,
        most: TASKS_LISTED_MAX,
    };
    // Newest first.
    let mut jobs = app.coordinator.store.jobs(&query, &page).await?.items;
    jobs.retain(|job| mark.has_behind(job));
    let next = jobs.iter().map(|job| job.id).max();
    let next = next.map_or(mark, |newest| TaskMark(MarkKind::Behind(newest)));
    Ok((jobs.into_iter().filter_map(task_card).collect(), next))
}

/// Tells whether the queue has a task that has not ended.
pub async fn has_open_tasks(app: &App, queue: &str) -> Result<bool, Failure> {
    Ok(queue_name(queue).is_ok() && !open_tasks(app, queue).await?.is_empty())
}

/// Cancels a task; an agent that works on it is stopped. A task that is already cancelled is no
/// error.
pub async fn cancel(app: &App, id: &str, why: &str) -> Result<TaskCard, Failure> {
    let missing = || {
        Failure::not_found(format!("there is no task {id}"))
            .hint("`countersign queue list` shows all tasks")
    };
    for _ in 0..CANCEL_TRIES_MAX {
        let job = app.coordinator.store.job_by_key(&key_of(id)).await?;
        let job = job.ok_or_else(missing)?;
        let status = status_of(job.state);
        let too_late = |why_not| Failure::new(ExitKind::Refused, format!("task {id}: {why_not}"));
        if may_cancel(status).map_err(too_late)? == CancelDecision::AlreadyCancelled {
            return task_card(job).ok_or_else(missing);
        }
        let (by, why) = (app.person().agent, findings::one_line(why));
        // If another call was faster, the next pass sees the new state.
        app.coordinator.store.cancel(job.id, &by, &why).await?;
    }
    Err(Failure::new(
        ExitKind::Store,
        format!("task {id} could not be cancelled: its state keeps changing"),
    )
    .hint("try again"))
}

pub async fn find(app: &App, id: &str) -> Result<Option<TaskCard>, Failure> {
    let job = app.coordinator.store.job_by_key(&key_of(id)).await?;
    Ok(job.and_then(task_card))
}

/// Tells whether all these tasks are completed.
pub async fn all_completed(app: &App, ids: &[String]) -> Result<bool, store::Error> {
    for id in ids {
        let job = app.coordinator.store.job_by_key(&key_of(id)).await?;
        if job.is_none_or(|job| status_of(job.state) != TaskStatus::Completed) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn task_card(job: Job) -> Option<TaskCard> {
    let JobWork::Free { body, .. } = job.work else {
        return None;
    };
    let holder = job.holder.as_deref().unwrap_or_default();
    let agent = holder
        .strip_prefix("session:")
        // Leases of the first release.
        .or_else(|| holder.strip_prefix("guest:"))
        .or_else(|| replica_of(holder));
    let agent = agent.unwrap_or(holder);
    Some(TaskCard {
        id: body.get("id")?.as_str()?.to_owned(),
        queue: job.queue.into(),
        status: status_of(job.state),
        agent: Some(agent.to_owned()).filter(|name| !name.is_empty()),
        until: job.lease_until,
        attempts: job.attempts,
        error: job.last_error,
        result: job.result,
        body,
    })
}

/// Lists the queues of all agents and workers that have a token or have called.
pub async fn queues(app: &App) -> Result<BTreeSet<String>, Failure> {
    let now = (app.coordinator.clock)();
    let is_agent = |role: &str| {
        let roles = [Role::Builder, Role::Reviewer, Role::Verifier];
        roles.iter().any(|agent_role| agent_role.as_str() == role)
    };
    let mut names = BTreeSet::new();
    for token in identity::list(app).await? {
        let ended = token.revoked_at.is_some() || token.expires_at.is_some_and(|end| end <= now);
        if !ended && token.ticket.is_none() && is_agent(&token.role) {
            names.extend(queues_of(&token.agent).into_iter().map(String::from));
        }
    }
    for agent in app.coordinator.store.agents().await? {
        if is_agent(&agent.role) {
            names.extend(queues_of(&agent.name).into_iter().map(String::from));
        }
        let served = agent.body.get("tasks").and_then(Value::as_array);
        let served = served.into_iter().flatten().filter_map(Value::as_str);
        names.extend(served.map(str::to_owned));
    }
    names.retain(|name| queue_name(name).is_ok());
    Ok(names)
}
