//! Performs a claimed job: reports the start, keeps the lease alive, does the work and reports the
//! result. Every job looks at the current state first, so that doing it twice has the effect of
//! doing it once.

pub mod adhoc_review;
mod agent_run;
mod base_proof;
mod bounded_read;
mod budget_guard;
mod build;
mod cache_setup;
mod check;
mod checkout_site;
mod combination;
mod commits;
mod failure;
mod finished_run;
mod lease_renewal;
mod lint;
mod merge;
pub mod merge_train;
mod pinned_base;
pub mod project_proof;
mod refusal;
mod review;
mod run_sandbox;
mod run_token;
mod submission;
pub mod task;
mod trace;
mod verify;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flow::event::{Failure, Lease};
use flow::ticket::Submission;
use flow::usage::Caps;
use flow::{Actor, EventKind, Task, Ticket, TicketId, Usage};
use store::{Artefact, JobId, JobWork, Leased, Noted, Pause, PauseScope};
use tracing::Instrument;

pub use build::branch_name;

use crate::activity::{Activity, ActivityKind, Observer};
use crate::coordinator::{Error, LocalCoordinator, Report, Upload};
use crate::git::Repository;
use crate::log::LogErr;
use crate::private_files;
use crate::process::{DiskQuota, StopSignal};
use crate::project::{AgentConfig, Project, ProjectConfig, TicketFiles};
use crate::run_records;

/// Maximum number of retries while the store is unreachable, for five minutes in all.
const STORE_RETRIES_MAX: u32 = 600;
const STORE_RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// Time for the last report after a stop signal.
const FINAL_REPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest name of a model in the record.
const MODEL_CHARS_MAX: usize = 80;

/// A claimed job and everything that performing it needs.
#[derive(Debug)]
struct JobContext<'a> {
    project: &'a Project,
    ticket: &'a Ticket,
    /// Agent that is paid for the job, if there is one.
    agent: Option<&'a AgentConfig>,
    /// `None` if nobody else could hold the job, because the ticket is in no store.
    job: Option<JobId>,
    lease: Lease,
    stop: StopSignal,
}

impl JobContext<'_> {
    /// Returns the directory of this attempt. A worker that lost the job has a different one.
    fn run_dir(&self) -> PathBuf {
        let files = self.project.ticket_files(&self.ticket.id);
        files.run_dir(self.lease.serial, self.lease.fence)
    }

    /// Returns the agent that does the job, or an error if the project has none for it.
    fn agent(&self) -> Result<&AgentConfig, JobError> {
        let no_agent = || JobError::permanent("no agent of this project does this kind of work");
        self.agent.ok_or_else(no_agent)
    }

    /// Fails unless we still hold the lease. All holders of a job share its worktree, and refusing
    /// a late report does not undo its changes there.
    async fn ensure_lease_held(&self) -> Result<(), JobError> {
        let Some(job) = self.job else {
            return Ok(());
        };
        let lease = secs(self.project.config.policy.limits.lease_secs);
        let coordinator = &self.project.coordinator;
        let mut tries = 0;
        loop {
            match coordinator.renew(job, self.lease.fence, Some(lease)).await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_stale() => return Err(interrupted()),
                // The result has been paid for, so wait for a store that is unreachable.
                Err(error) if error.is_transient() && tries < STORE_RETRIES_MAX => tries += 1,
                Err(error) => return Err(JobError::transient(error)),
            }
            let mut stop = self.stop.clone();
            tokio::select! {
                () = tokio::time::sleep(STORE_RETRY_INTERVAL) => {}
                () = stop.requested() => return Err(interrupted()),
            }
        }
    }

    /// Notes something about the run in the event log. Nothing depends on it.
    async fn note(&self, noted: Noted) {
        let lease = self.lease;
        let note = Upload::Note { lease, noted };
        let uploaded = self.project.coordinator.upload(note).await;
        uploaded.log_err("record a note about a run");
    }

    /// Returns an observer that reports the progress of a run of this job.
    fn observer(&self, role: &'static str, name: &str) -> Observer {
        let project = &self.project;
        let pattern = Activity {
            ticket: self.ticket.id.clone(),
            job: self.lease.serial,
            round: self.ticket.round,
            role,
            name: name.to_owned(),
            sign: ActivityKind::Began,
            detail: String::new(),
            usage: crate::agent::AgentUsage::default(),
            at: (project.clock)(),
        };
        Observer::new(pattern, project.clock, project.listener.clone())
    }

    /// Returns how much of the budget a run may still use.
    fn remaining_budget(&self) -> Caps {
        flow::remaining_budget(self.ticket, &self.project.config.policy)
    }

    /// Returns the disk quota of a run that works in these directories.
    fn disk_quota(&self, dirs: Vec<PathBuf>) -> DiskQuota {
        let limits = &self.project.config.policy.limits;
        DiskQuota {
            dirs,
            bytes_max: limits.disk_bytes_max,
            files_max: limits.disk_files_max,
        }
    }

    /// Returns the name of a Countersign ref of this ticket.
    fn ref_name(&self, name: &str) -> String {
        format!("refs/countersign/{}/{name}", self.ticket.id)
    }
}

/// Event and artefacts of a finished job.
#[derive(Clone, Debug)]
struct JobOutput {
    what: EventKind,
    artefacts: Vec<Artefact>,
}

/// Reason why a job has no result.
#[derive(Clone, Debug)]
struct JobError {
    failure: Failure,
    message: String,
    usage: Usage,
}

impl JobError {
    fn transient(message: impl ToString) -> Self {
        Self {
            failure: Failure::Transient,
            message: message.to_string(),
            usage: Usage::default(),
        }
    }

    fn permanent(message: impl ToString) -> Self {
        Self {
            failure: Failure::Permanent,
            message: message.to_string(),
            usage: Usage::default(),
        }
    }
}

/// Returns the error of a job that was stopped or lost its lease. The job itself is not at fault.
fn interrupted() -> JobError {
    JobError {
        failure: Failure::Interrupted,
        message: "stopped before it was done".to_owned(),
        usage: Usage::default(),
    }
}

impl From<crate::git::Error> for JobError {
    fn from(error: crate::git::Error) -> Self {
        if error.is_transient() {
            Self::transient(error)
        } else {
            Self::permanent(error)
        }
    }
}

impl From<std::io::Error> for JobError {
    fn from(error: std::io::Error) -> Self {
        Self::transient(error)
    }
}

/// Submits the newest commit of the branch on behalf of the person who took the ticket over.
pub async fn resubmit(
    coordinator: &LocalCoordinator,
    git: &Repository,
    project: &ProjectConfig,
    id: &TicketId,
    by: Actor,
) -> Result<Ticket, Error> {
    let ticket = coordinator.ticket(id).await?.ticket;
    let branch = branch_name(&ticket);
    let submission = describe_submission(git, project, &ticket, &branch, &by.agent).await?;
    let what = EventKind::Resubmitted {
        submission: Box::new(submission),
    };
    coordinator
        .decide(id, &project.policy, Report::new(by, what))
        .await
}

/// Describes the newest commit of a branch that someone else worked on, and keeps it under a ref.
pub async fn describe_submission(
    git: &Repository,
    project: &ProjectConfig,
    ticket: &Ticket,
    branch: &str,
    by: &str,
) -> Result<Submission, Error> {
    let broken = |error: JobError| Error::Broken(error.message);
    let head = git.branch_tip(branch).await.map_err(git_error)?;
    let head = head.ok_or_else(|| Error::Unusable(format!("there is no branch {branch}")))?;
    let start = match build::submitted_commit(ticket) {
        Some(commit) => commit,
        None => git
            .base_tip(&project.base_branch)
            .await
            .map_err(git_error)?,
    };
    submission::ensure_valid_change(git, project, &start, &head)
        .await
        .map_err(|error| Error::Unusable(error.message))?;
    let submission = submission::describe(git, project, ticket, &head, branch, by).await;
    let name = format!("refs/countersign/{}/submitted-{}", ticket.id, ticket.round);
    let earlier = git.read_ref(&name).await.map_err(git_error)?;
    git.keep_ref(&name, &head, earlier.as_ref())
        .await
        .map_err(git_error)?;
    submission.map_err(broken)
}

fn git_error(error: crate::git::Error) -> Error {
    Error::Unusable(error.to_string())
}

/// Performs one claimed job to its end, successful or not.
pub async fn perform(project: Arc<Project>, job: Leased, stop: StopSignal) -> Result<(), Error> {
    let (Some(id), Some(serial), JobWork::Task(task)) = (&job.ticket, job.serial, &job.work) else {
        return Ok(());
    };
    let lease = Lease {
        serial,
        fence: job.fence,
    };
    let span = trace::span(id, task.word(), lease, &job.holder);
    let (id, task) = (id.clone(), task.clone());
    let performed = perform_leased(project, job, (id, task, lease), stop);
    Box::pin(performed).instrument(span).await
}

/// Reports the start, does the work while the lease is kept alive, and reports the result.
async fn perform_leased(
    project: Arc<Project>,
    job: Leased,
    (id, task, lease): (TicketId, Task, Lease),
    stop: StopSignal,
) -> Result<(), Error> {
    let (id, task) = (&id, &task);
    let (job, agent) = (&job, job.agent.as_deref());
    let actor = project.actor_for(task, agent);
    let started = Report::new(actor.clone(), EventKind::Started { lease });
    let ticket = match project.report(id, started).await {
        Ok(ticket) => ticket,
        Err(error) => return handle_refused_start(&project, id, lease, error).await,
    };
    trace::started(ticket.round);
    let (stopper, own_stop) = StopSignal::pair();
    let context = JobContext {
        project: &project,
        ticket: &ticket,
        agent: project.agent_for(task, agent),
        job: Some(job.id),
        lease,
        stop: own_stop,
    };
    let result = tokio::select! {
        result = Box::pin(perform_and_publish(&context, task)) => result,
        () = lease_renewal::keep_alive(&project, job, &stopper, stop.clone()) => unreachable_end(),
    };
    let actor = with_used_model(&context, actor);
    let reported = tokio::select! {
        reported = report_result(&context, id, actor, result) => reported?,
        () = wait_for_last_report(stop) => {
            let why = "stopped before the result could be saved; the next `countersign run` continues";
            return Err(Error::Broken(why.to_owned()));
        }
    };
    // After the report and without its time limit: a large worktree takes long to remove.
    if let Some(ticket) = reported {
        build::remove_working_files(&project, &ticket).await;
    }
    Ok(())
}

/// Returns the actor with the model that the agent itself named, if it did: the configured name may
/// be an alias, or absent.
fn with_used_model(context: &JobContext<'_>, actor: Actor) -> Actor {
    let record = run_records::read_record(&context.run_dir());
    let used = record.and_then(|record| record.ended?.model);
    let used = used.map(|model| findings::shorten(&findings::one_line(&model), MODEL_CHARS_MAX));
    let used = used.filter(|model| !model.is_empty());
    Actor {
        model: used.or(actor.model),
        ..actor
    }
}

/// Ends a short time after the stop signal, also if the store is unreachable.
async fn wait_for_last_report(mut stop: StopSignal) {
    stop.requested().await;
    tokio::time::sleep(FINAL_REPORT_TIMEOUT).await;
}

/// Reports the result of the job. Retries while the store is unreachable, because someone may still
/// wait for the report; the finished run is on disk meanwhile.
async fn report_result(
    context: &JobContext<'_>,
    id: &TicketId,
    actor: Actor,
    result: Result<JobOutput, JobError>,
) -> Result<Option<Ticket>, Error> {
    if let (Err(error), Some(agent)) = (&result, context.agent) {
        retry_while_store_away(|| pause_provider(context.project, agent, error)).await?;
    }
    let (project, lease) = (context.project, context.lease);
    let again = || report_once(project, id, actor.clone(), lease, result.clone());
    retry_while_store_away(again).await
}

/// Retries while the store is unreachable, for a bounded time.
async fn retry_while_store_away<T, F>(mut attempt: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut tries = 0;
    loop {
        match attempt().await {
            Err(error) if error.is_transient() && tries < STORE_RETRIES_MAX => {
                if tries == 0 {
                    tracing::warn!(%error, "could not report, trying again");
                }
                tries += 1;
            }
            ended => return ended,
        }
        tokio::time::sleep(STORE_RETRY_INTERVAL).await;
    }
}

/// Returns the error for a heartbeat that ended before the work. That never happens.
fn unreachable_end<T>() -> Result<T, JobError> {
    Err(JobError::transient(
        "the worker's heartbeat ended before its work",
    ))
}

/// Does the task and sends its commits. Others get the commits before they hear of the result.
async fn perform_and_publish(context: &JobContext<'_>, task: &Task) -> Result<JobOutput, JobError> {
    let output = perform_task(context, task).await?;
    if let Some(sync) = &context.project.repo_sync {
        let temp_file = context.run_dir().join("bundle.part");
        let sent = (context.ticket, &output.what, temp_file.as_path());
        let sent = sync
            .publish_result(&*context.project.coordinator, &context.project.git, sent)
            .await;
        sent.map_err(JobError::transient)?;
    }
    Ok(output)
}

async fn perform_task(context: &JobContext<'_>, task: &Task) -> Result<JobOutput, JobError> {
    match task {
        Task::Build { .. } => build::build(context).await,
        Task::Check { commit } => check::check(context, commit).await,
        Task::Review {
            commit, reviewer, ..
        } => Box::pin(review::review(context, commit, reviewer)).await,
        Task::Verify {
            commit, findings, ..
        } => verify::verify(context, commit, findings).await,
        Task::Merge { commit } => merge::merge(context, commit).await,
        Task::Tell { .. } | Task::Report => Err(JobError::permanent(
            "dependents and forges are told without a lease on the ticket",
        )),
    }
}

/// Handles a refused start. If the lease is stale, another worker has the job. Any other refusal
/// fails the job, so that it does not come back for ever.
async fn handle_refused_start(
    project: &Project,
    id: &TicketId,
    lease: Lease,
    error: Error,
) -> Result<(), Error> {
    if error.is_stale() {
        return Ok(());
    }
    let Some(message) = error.refusal() else {
        return Err(error);
    };
    if !is_still_held(project, id, lease).await? {
        return Ok(());
    }
    let failure = if error.is_about_the_judge() {
        Failure::NoJudge
    } else {
        Failure::Permanent
    };
    let failed = JobError {
        failure,
        ..JobError::transient(message)
    };
    let report = failed.into_report(project.system_actor(), lease);
    ignore_stale(project.report(id, report).await)
}

/// Reports a result or a failure. A refused result becomes a failure of the job.
async fn report_once(
    project: &Project,
    id: &TicketId,
    actor: Actor,
    lease: Lease,
    result: Result<JobOutput, JobError>,
) -> Result<Option<Ticket>, Error> {
    let outcome = match &result {
        Ok(result) => Ok(result.what.name()),
        Err(error) => Err((error.failure, error.message.clone())),
    };
    let (report, has_failed) = match result {
        Ok(JobOutput { what, artefacts }) => {
            // No agent has a part in it: Countersign ran the checks on the base.
            let actor = if matches!(what, EventKind::BaseRed { .. }) {
                project.system_actor()
            } else {
                actor
            };
            let report = Report {
                artefacts,
                ..Report::new(actor, what)
            };
            (report, false)
        }
        Err(error) => (error.into_report(actor, lease), true),
    };
    let mut decided = project.report(id, report).await;
    let refused = match &decided {
        Err(error) if error.is_stale() => {
            tracing::info!(target: "job", %error, "late report refused");
            return Ok(None);
        }
        Err(error) => error.refusal(),
        Ok(_) => None,
    };
    match (&decided, outcome) {
        (Ok(_), Ok(result)) => trace::finished(result),
        (Ok(_), Err((failure, message))) => trace::failed(failure, &message),
        // The report is retried, or fails with its own error.
        (Err(_), _) => {}
    }
    if has_failed || refused.is_some() {
        finished_run::forget_run(project, id, lease);
    }
    if let Some(reason) = refused {
        if !is_still_held(project, id, lease).await? {
            return Ok(None);
        }
        // The coordinator refused the result, so the job itself has failed.
        trace::failed(Failure::Transient, &reason);
        let report = JobError::transient(reason).into_report(project.system_actor(), lease);
        decided = project.report(id, report).await;
    }
    let ticket = decided.as_ref().ok().cloned();
    if let Some(ticket) = &ticket {
        write_round_document(&project.ticket_files(id), ticket);
    }
    ignore_stale(decided)?;
    Ok(ticket)
}

/// Like [`report_once`]; removes the working files of a ticket that has ended by it.
async fn report_and_clean(
    project: &Project,
    id: &TicketId,
    actor: Actor,
    lease: Lease,
    result: Result<JobOutput, JobError>,
) -> Result<(), Error> {
    let reported = Box::pin(report_once(project, id, actor, lease, result)).await?;
    if let Some(ticket) = reported {
        build::remove_working_files(project, &ticket).await;
    }
    Ok(())
}

/// Pauses a provider that is out of quota, for all its users. The pause ends by itself.
async fn pause_provider(
    project: &Project,
    agent: &AgentConfig,
    error: &JobError,
) -> Result<(), Error> {
    let Failure::Quota { until } = error.failure else {
        return Ok(());
    };
    let pause = Pause {
        scope: PauseScope::Provider(agent.adapter.name().to_owned()),
        until: Some(until),
        why: findings::one_line(&error.message),
        by: project.system_actor().agent,
    };
    project.coordinator.pause_provider(pause).await
}

/// Returns whether the ticket still expects a report under this lease. It may have ended meanwhile,
/// or the job may have gone to another worker.
async fn is_still_held(project: &Project, id: &TicketId, lease: Lease) -> Result<bool, Error> {
    let ticket = project.ticket(id).await?;
    let mut jobs = ticket.jobs.iter();
    Ok(jobs.any(|job| job.serial == lease.serial && job.fence <= lease.fence))
}

/// Treats a stale lease as success: another worker has the job, so there is nothing left to do.
fn ignore_stale(decided: Result<Ticket, Error>) -> Result<(), Error> {
    match decided {
        Ok(_) => Ok(()),
        Err(error) if error.is_stale() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Writes the findings of the last round as a document for people. It can be recreated from the log
/// at any time, so a failed write stops nothing.
pub fn write_round_document(files: &TicketFiles, ticket: &Ticket) {
    let Some(round) = ticket.rounds.last() else {
        return;
    };
    let path = files.round_document_path(round.number);
    if let Ok(text) = flow::export::findings_document(ticket, None) {
        let created = path.parent().map_or(Ok(()), private_files::make_dir);
        let result = created.and_then(|()| private_files::write(&path, text));
        result.log_err("write the round's findings document");
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}
