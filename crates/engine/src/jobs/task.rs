//! Performs a task that belongs to no ticket, in the sandbox and worktree of a builder. Its output
//! is the result of the task; nothing is checked, reviewed or landed.

use std::sync::Arc;

use flow::event::{Failure, Lease};
use flow::task::{self, TaskHistory, TaskRetry};
use flow::{Ticket, Usage};
use serde_json::{Value, json};
use store::{JobWork, Leased, TaskOutcome};
use tracing::Instrument;

use super::{
    JobContext, JobError, agent_run, build, finished_run, lease_renewal, pause_provider,
    retry_while_store_away, trace, unreachable_end, wait_for_last_report,
};
use crate::agent::answer;
use crate::cleanup;
use crate::coordinator::{Error, TaskReport};
use crate::log::LogErr as _;
use crate::process::StopSignal;
use crate::project::Project;
use crate::run_records;

/// Serial of the only job of a task.
const SERIAL: u32 = 1;

/// A task under a lease.
#[derive(Debug)]
pub struct ClaimedTask {
    pub project: Arc<Project>,
    pub job: Leased,
    /// The task as an unsaved ticket.
    pub ticket: Ticket,
    /// Worker that performs it: `engineer-1`.
    pub by: String,
}

/// Result and cost of a run.
#[derive(Debug)]
struct TaskOutput {
    result: Value,
    usage: Usage,
}

/// Performs a task to its end, successful or not.
pub async fn perform(claimed: ClaimedTask, stop: StopSignal) -> Result<(), Error> {
    let lease = Lease {
        serial: SERIAL,
        fence: claimed.job.fence,
    };
    let span = trace::span(&claimed.ticket.id, "task", lease, &claimed.by);
    Box::pin(perform_leased(claimed, stop))
        .instrument(span)
        .await
}

async fn perform_leased(mut claimed: ClaimedTask, stop: StopSignal) -> Result<(), Error> {
    claimed.ticket.spent.ticket = usage_of_earlier_attempts(&claimed);
    let (project, job) = (&claimed.project, &claimed.job);
    let (stopper, own_stop) = StopSignal::pair();
    let context = JobContext {
        project,
        ticket: &claimed.ticket,
        agent: project.agents.builder.as_ref(),
        job: Some(job.id),
        lease: Lease {
            serial: SERIAL,
            fence: job.fence,
        },
        stop: own_stop,
    };
    trace::started(claimed.ticket.round);
    let result = tokio::select! {
        result = Box::pin(run_task(&context, &claimed)) => result,
        () = lease_renewal::keep_alive(project, job, &stopper, stop.clone()) => unreachable_end(),
    };
    tokio::select! {
        reported = report_task(&context, &claimed, result) => reported,
        () = wait_for_last_report(stop) => Err(Error::Broken("stopped before the result could be saved".to_owned())),
    }
}

/// Returns the cost of earlier attempts on this machine.
fn usage_of_earlier_attempts(claimed: &ClaimedTask) -> Usage {
    let runs = run_records::runs_of_ticket(&claimed.project.ticket_files(&claimed.ticket.id));
    let ended = runs.into_iter().filter_map(|recorded| recorded.run.ended);
    ended.fold(Usage::default(), |sum, ended| {
        let wall = std::time::Duration::from_millis(ended.wall_ms);
        let pricing = agent_run::Pricing {
            table: &claimed.project.config.prices,
            model: ended.model.as_deref(),
            is_paid: false,
        };
        sum.plus(agent_run::to_usage(ended.usage, wall, pricing))
    })
}

/// Runs the agent in the worktree of the task and builds the result.
async fn run_task(context: &JobContext<'_>, claimed: &ClaimedTask) -> Result<TaskOutput, JobError> {
    ensure_no_such_ticket(context).await?;
    let project = context.project;
    let along = match &claimed.job.work {
        JobWork::Free { body, .. } => task::attached_text(body),
        JobWork::Task(_) => {
            return Err(JobError::permanent(
                "this job belongs to a ticket and is not a task",
            ));
        }
    };
    let brief = flow::brief::for_task(context.ticket, &along, &project.config.rules);
    let built = build::build_in_worktree(context, &brief).await?;
    let usage = built.run.usage;
    let paid = |error: JobError| JobError { usage, ..error };
    let result = result_json(context, claimed, &built).await.map_err(paid)?;
    Ok(TaskOutput { result, usage })
}

/// Builds the result of the task from the finished run.
async fn result_json(
    context: &JobContext<'_>,
    claimed: &ClaimedTask,
    built: &build::BuiltCommit,
) -> Result<Value, JobError> {
    let project = context.project;
    let agent_answer =
        answer::parse_builder_answer(built.run.result.as_deref().unwrap_or_default());
    let base = project.git.base_tip(&project.config.base_branch).await?;
    let changed = built.head != base && !project.git.is_ancestor(&built.head, &base).await?;
    if agent_answer.summary.trim().is_empty() && !changed {
        return Err(JobError::transient(
            "the agent returned no summary and changed nothing",
        ));
    }
    if let Some(sync) = project.repo_sync.as_ref().filter(|_| changed) {
        let sent = sync.publish_commit(&project.git, context.ticket, &built.head, &built.branch);
        sent.await.map_err(JobError::transient)?;
    }
    let mut result = json!({
        "summary": build::shorten_text(&agent_answer.summary),
        "by": claimed.by,
        "agent": context.agent()?.name,
        "repository": project.git.common_dir(),
        "branch": built.branch,
        "commit": built.head.to_string(),
        "changed": changed,
        "usage": built.run.usage,
    });
    if let JobWork::Free { kind, .. } = &claimed.job.work {
        task::add_findings(kind, &mut result);
    }
    Ok(result)
}

/// Fails if a ticket has the same id: the task would use its files and branch.
async fn ensure_no_such_ticket(context: &JobContext<'_>) -> Result<(), JobError> {
    let id = &context.ticket.id;
    let ticket = context.project.coordinator.ticket(id).await;
    match ticket.map_err(JobError::transient)? {
        None => Ok(()),
        Some(_) => Err(JobError::permanent(format!(
            "there is a ticket {id}, whose files and branch this task would use; queue it with another id"
        ))),
    }
}

/// Reports the cost and the result. Retries while the store is unreachable, because someone may
/// still wait for it. A result under a lost lease is refused and logged.
async fn report_task(
    context: &JobContext<'_>,
    claimed: &ClaimedTask,
    task_result: Result<TaskOutput, JobError>,
) -> Result<(), Error> {
    let usage = task_result
        .as_ref()
        .map_or_else(|error| error.usage, |done| done.usage);
    let outcome = match task_result {
        Ok(TaskOutput { result, .. }) => {
            trace::finished("task_done");
            TaskOutcome::Done { result }
        }
        Err(error) => {
            trace::failed(error.failure, &error.message);
            finished_run::forget_run(context.project, &context.ticket.id, context.lease);
            if let (Failure::Quota { .. }, Some(agent)) = (error.failure, context.agent) {
                retry_while_store_away(|| pause_provider(context.project, agent, &error)).await?;
            }
            failed_outcome(context, &claimed.job, error)
        }
    };
    let is_over = !matches!(outcome, TaskOutcome::Retry { .. });
    let report = TaskReport {
        job: claimed.job.id,
        fence: claimed.job.fence,
        run: finished_run::reported_fence(context),
        usage,
        outcome,
        by: claimed.by.clone(),
    };
    let coordinator = &context.project.coordinator;
    match retry_while_store_away(|| coordinator.finish(report.clone())).await {
        Err(error) if error.is_stale() => Ok(()),
        Ok(()) if is_over => {
            remove_working_files(context).await;
            Ok(())
        }
        ended => ended,
    }
}

/// Removes the worktree and the other working files of a task that has ended. Its branch, its
/// records and its transcript stay; uncommitted changes are kept under a ref.
async fn remove_working_files(context: &JobContext<'_>) {
    let (project, ticket) = (context.project, context.ticket);
    if !project.config.keep_working_files {
        let files = project.ticket_files(&ticket.id);
        let removed = cleanup::remove_working_files(Some(&project.git), &files, ticket).await;
        // Files that remain use disk space but do no harm.
        removed.log_err("remove the working files of a finished task");
    }
}

fn failed_outcome(context: &JobContext<'_>, job: &Leased, job_error: JobError) -> TaskOutcome {
    let (project, id) = (context.project, &context.ticket.id);
    let (limits, now) = (&project.config.policy.limits, (project.clock)());
    let error = findings::clean(&job_error.message);
    let history = TaskHistory {
        attempts: job.attempts,
        claims: job.fence,
    };
    match task::decide_retry(job_error.failure, id, history, limits, now) {
        TaskRetry::Retry { not_before, counts } => TaskOutcome::Retry {
            error,
            not_before,
            counts,
        },
        TaskRetry::GiveUp => TaskOutcome::Dead { error },
    }
}
