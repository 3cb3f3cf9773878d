//! A free task: the builder's room and its worktree for a job that no ticket decides about. What comes of
//! it is the task's result; nothing is checked, reviewed or landed.

use std::sync::Arc;

use flow::event::{Failure, Lease};
use flow::free::{self, TaskRetry};
use flow::{Ticket, Usage};
use serde_json::{Value, json};
use store::{JobWork, Leased, TaskOutcome};
use tracing::Instrument;

use super::{
    JobContext, JobError, agents, build, gives_up, keep_alive, patiently, pause_provider, trace,
    unreachable_end,
};
use crate::agent::answer;
use crate::coordinator::{Error, TaskReport};
use crate::process::StopSignal;
use crate::runs;
use crate::workshop::Project;

/// A task is one job.
const SERIAL: u32 = 1;

/// A task under a lease.
#[derive(Debug)]
pub struct ClaimedTask {
    pub shop: Arc<Project>,
    pub job: Leased,
    /// The task as a ticket, which nobody keeps.
    pub ticket: Ticket,
    /// Whose hand it is in: `engineer-1`.
    pub by: String,
}

/// What a run came to, and what it cost.
#[derive(Debug)]
struct TaskOutput {
    result: Value,
    usage: Usage,
}

/// Performs a task to its end, whatever that is.
pub async fn perform(taken: ClaimedTask, stop: StopSignal) -> Result<(), Error> {
    let lease = Lease {
        serial: SERIAL,
        fence: taken.job.fence,
    };
    let span = trace::span(&taken.ticket.id, "task", lease, &taken.by);
    Box::pin(perform_leased(taken, stop)).instrument(span).await
}

async fn perform_leased(mut taken: ClaimedTask, stop: StopSignal) -> Result<(), Error> {
    taken.ticket.spent.ticket = spent_before(&taken);
    let (shop, job) = (&taken.shop, &taken.job);
    let (stopper, own_stop) = StopSignal::pair();
    let held = JobContext {
        shop,
        ticket: &taken.ticket,
        member: shop.crew.builder.as_ref(),
        job: Some(job.id),
        lease: Lease {
            serial: SERIAL,
            fence: job.fence,
        },
        stop: own_stop,
    };
    trace::started(taken.ticket.round);
    let came_to = tokio::select! {
        came_to = Box::pin(work(&held, &taken)) => came_to,
        () = keep_alive(shop, job, &stopper, stop.clone()) => unreachable_end(),
    };
    tokio::select! {
        told = tell(&held, &taken, came_to) => told,
        () = gives_up(stop) => Err(Error::Broken("the worker was stopped before it could report".to_owned())),
    }
}

/// What earlier tries on this machine have cost.
fn spent_before(taken: &ClaimedTask) -> Usage {
    let runs = runs::of_ticket(&taken.shop.files(&taken.ticket.id));
    let ended = runs.into_iter().filter_map(|found| found.run.ended);
    ended.fold(Usage::default(), |sum, ended| {
        let wall = std::time::Duration::from_millis(ended.wall_ms);
        sum.plus(agents::spent(ended.usage, wall))
    })
}

async fn work(held: &JobContext<'_>, taken: &ClaimedTask) -> Result<TaskOutput, JobError> {
    must_be_nobodys(held).await?;
    let shop = held.shop;
    let along = match &taken.job.work {
        JobWork::Free { body, .. } => free::along(body),
        JobWork::Task(_) => return Err(JobError::permanent("this is no free task")),
    };
    let brief = flow::brief::task(held.ticket, &along, &shop.project.house);
    let made = build::in_worktree(held, &brief).await?;
    let usage = made.run.usage;
    let paid = |trouble: JobError| JobError { usage, ..trouble };
    let result = told(held, taken, &made).await.map_err(paid)?;
    Ok(TaskOutput { result, usage })
}

/// What there is to tell of what was made.
async fn told(
    held: &JobContext<'_>,
    taken: &ClaimedTask,
    made: &build::BuiltCommit,
) -> Result<Value, JobError> {
    let shop = held.shop;
    let said = answer::built(made.run.result.as_deref().unwrap_or_default());
    let base = shop.git.base(&shop.project.base_branch).await?;
    let changed = made.head != base && !shop.git.is_ancestor(&made.head, &base).await?;
    if said.summary.trim().is_empty() && !changed {
        return Err(JobError::transient(
            "the agent said nothing and changed nothing",
        ));
    }
    if let Some(carrier) = shop.carrier.as_ref().filter(|_| changed) {
        let sent = carrier.publish(&shop.git, held.ticket, &made.head, &made.branch);
        sent.await.map_err(JobError::transient)?;
    }
    Ok(json!({
        "summary": build::short(&said.summary),
        "by": taken.by,
        "agent": held.member()?.name,
        "repository": shop.git.common_dir(),
        "branch": made.branch,
        "commit": made.head.to_string(),
        "changed": changed,
        "usage": made.run.usage,
    }))
}

/// Its files and its branch would be those of a ticket that is called the same.
async fn must_be_nobodys(held: &JobContext<'_>) -> Result<(), JobError> {
    let id = &held.ticket.id;
    let found = held.shop.coordinator.ticket(id).await;
    match found.map_err(JobError::transient)? {
        None => Ok(()),
        Some(_) => Err(JobError::permanent(format!(
            "there is a ticket {id}, whose files and branch this task would use; queue it with another id"
        ))),
    }
}

/// Reports what it cost and what came of it. A store that is away is asked again while there may still
/// be somebody who waits for it; what a lost lease has brought is refused, and the log says so.
async fn tell(
    held: &JobContext<'_>,
    taken: &ClaimedTask,
    came_to: Result<TaskOutput, JobError>,
) -> Result<(), Error> {
    let usage = came_to
        .as_ref()
        .map_or_else(|trouble| trouble.usage, |done| done.usage);
    let outcome = match came_to {
        Ok(TaskOutput { result, .. }) => {
            trace::finished("task_done");
            TaskOutcome::Done { result }
        }
        Err(trouble) => {
            trace::failed(trouble.failure, &trouble.message);
            agents::forget(held.shop, &held.ticket.id, held.lease);
            if let (Failure::Quota { .. }, Some(member)) = (trouble.failure, held.member) {
                patiently(|| pause_provider(held.shop, member, &trouble)).await?;
            }
            failed(held, &taken.job, trouble)
        }
    };
    let report = TaskReport {
        job: taken.job.id,
        fence: taken.job.fence,
        run: agents::newest(held),
        usage,
        outcome,
        by: taken.by.clone(),
    };
    let coordinator = &held.shop.coordinator;
    match patiently(|| coordinator.finish(report.clone())).await {
        Err(error) if error.is_stale() => Ok(()),
        ended => ended,
    }
}

fn failed(held: &JobContext<'_>, job: &Leased, trouble: JobError) -> TaskOutcome {
    let (shop, id) = (held.shop, &held.ticket.id);
    let (limits, now) = (&shop.project.policy.limits, (shop.clock)());
    let error = findings::clean(&trouble.message);
    match free::fate(trouble.failure, id, job.attempts, limits, now) {
        TaskRetry::Again { not_before, counts } => TaskOutcome::Retry {
            error,
            not_before,
            counts,
        },
        TaskRetry::GivenUp => TaskOutcome::Dead { error },
    }
}
