//! Doing a job: say that it has begun, keep the lease alive, do it, report what came of it. A
//! performer looks at the world first, so that doing a thing twice is doing it once.

mod agents;
mod build;
mod check;
mod commits;
mod fault;
mod ground;
mod merge;
pub mod opinion;
mod pass;
mod purse;
pub mod queue;
mod reading;
mod refusal;
mod review;
mod room;
mod submission;
mod supply;
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

pub use build::branch;

use crate::activity::{Activity, ActivityKind, Observer};
use crate::coordinator::{Error, LocalCoordinator, Report, Upload};
use crate::git::Repository;
use crate::log::LogErr;
use crate::private;
use crate::process::{DiskQuota, StopSignal, Stopper};
use crate::workshop::{AgentConfig, Project, ProjectConfig, TicketFiles};

/// How often, and how far apart, the store is tried while it is away: for five minutes.
const TRIES_MAX: u32 = 600;
const BETWEEN_TRIES: Duration = Duration::from_millis(500);
const LAST_WORD: Duration = Duration::from_secs(10);
/// How often it is seen whether the job is still ours to do.
const LOOK: Duration = Duration::from_secs(1);

/// A job in our hands.
#[derive(Debug)]
struct JobContext<'a> {
    shop: &'a Project,
    ticket: &'a Ticket,
    /// Who is paid for it, if anybody is.
    member: Option<&'a AgentConfig>,
    /// None where nobody else could have it: the ticket is in no store.
    job: Option<JobId>,
    lease: Lease,
    stop: StopSignal,
}

impl JobContext<'_> {
    /// Where this try keeps its files. A worker that lost the job has another.
    fn dir(&self) -> PathBuf {
        let files = self.shop.files(&self.ticket.id);
        files.run(self.lease.serial, self.lease.fence)
    }

    fn member(&self) -> Result<&AgentConfig, JobError> {
        let nobody = || JobError::permanent("nobody of this crew does such work");
        self.member.ok_or_else(nobody)
    }

    /// The worktree is shared by all who ever hold the job, and a late report's refusal does not
    /// undo what was done there: only the holder goes on.
    async fn must_be_ours(&self) -> Result<(), JobError> {
        let Some(job) = self.job else {
            return Ok(());
        };
        let lease = secs(self.shop.project.policy.limits.lease_secs);
        let coordinator = &self.shop.coordinator;
        let mut tries = 0;
        loop {
            match coordinator.renew(job, self.lease.fence, Some(lease)).await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_stale() => return Err(interrupted()),
                // Somebody was paid for what we have: a store that is away is waited for.
                Err(error) if error.is_transient() && tries < TRIES_MAX => tries += 1,
                Err(error) => return Err(JobError::transient(error)),
            }
            let mut stop = self.stop.clone();
            tokio::select! {
                () = tokio::time::sleep(BETWEEN_TRIES) => {}
                () = stop.asked() => return Err(interrupted()),
            }
        }
    }

    /// Notes something about the run in the event log. Nothing depends on it.
    async fn note(&self, noted: Noted) {
        let lease = self.lease;
        let note = Upload::Note { lease, noted };
        let noted = self.shop.coordinator.upload(note).await;
        noted.log_err("record a note about a run");
    }

    /// Who tells of a run that is part of this job while it goes on.
    fn observer(&self, role: &'static str, name: &str) -> Observer {
        let shop = &self.shop;
        let pattern = Activity {
            ticket: self.ticket.id.clone(),
            job: self.lease.serial,
            round: self.ticket.round,
            role,
            name: name.to_owned(),
            sign: ActivityKind::Began,
            detail: String::new(),
            usage: crate::agent::AgentUsage::default(),
            at: (shop.clock)(),
        };
        Observer::new(pattern, shop.clock, shop.witness.clone())
    }

    /// What a run may use up of the budget.
    fn left(&self) -> Caps {
        flow::left(self.ticket, &self.shop.project.policy)
    }

    /// What a run that works in these directories may put there.
    fn allotment(&self, dirs: Vec<PathBuf>) -> DiskQuota {
        let limits = &self.shop.project.policy.limits;
        DiskQuota {
            dirs,
            bytes_max: limits.disk_bytes_max,
            files_max: limits.disk_files_max,
        }
    }

    /// A ref of ours that belongs to this ticket.
    fn ref_named(&self, name: &str) -> String {
        format!("refs/countersign/{}/{name}", self.ticket.id)
    }
}

/// What a performer brings back.
#[derive(Clone, Debug)]
struct JobOutput {
    what: EventKind,
    artefacts: Vec<Artefact>,
}

/// Why there is nothing to bring back.
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

/// Somebody told us to stop, or the lease was lost: no fault of the job's.
fn interrupted() -> JobError {
    JobError {
        failure: Failure::Interrupted,
        message: "the worker was stopped".to_owned(),
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

/// Puts the branch's newest commit forward in a person's name, who took the ticket over.
pub async fn resubmit(
    desk: &LocalCoordinator,
    git: &Repository,
    project: &ProjectConfig,
    id: &TicketId,
    by: Actor,
) -> Result<Ticket, Error> {
    let ticket = desk.ticket(id).await?.ticket;
    let branch = branch(&ticket);
    let submission = put_forward(git, project, &ticket, &branch, &by.agent).await?;
    let what = EventKind::Resubmitted {
        submission: Box::new(submission),
    };
    desk.decide(id, &project.policy, Report::new(by, what))
        .await
}

/// The newest commit of a branch that somebody else has worked on, described and kept.
pub async fn put_forward(
    git: &Repository,
    project: &ProjectConfig,
    ticket: &Ticket,
    branch: &str,
    by: &str,
) -> Result<Submission, Error> {
    let broken = |trouble: JobError| Error::Broken(trouble.message);
    let head = git.branch(branch).await.map_err(unusable)?;
    let head = head.ok_or_else(|| Error::Unusable(format!("there is no branch {branch}")))?;
    let start = match build::last_commit(ticket) {
        Some(commit) => commit,
        None => git.base(&project.base_branch).await.map_err(unusable)?,
    };
    submission::must_be_sound(git, project, &start, &head)
        .await
        .map_err(|trouble| Error::Unusable(trouble.message))?;
    let submission = submission::describe(git, project, ticket, &head, branch, by).await;
    let name = format!("refs/countersign/{}/submitted-{}", ticket.id, ticket.round);
    let earlier = git.read_ref(&name).await.map_err(unusable)?;
    git.keep_ref(&name, &head, earlier.as_ref())
        .await
        .map_err(unusable)?;
    submission.map_err(broken)
}

fn unusable(error: crate::git::Error) -> Error {
    Error::Unusable(error.to_string())
}

/// Performs one claimed job to its end, whatever that is.
pub async fn perform(shop: Arc<Project>, job: Leased, stop: StopSignal) -> Result<(), Error> {
    let (Some(id), Some(serial), JobWork::Task(task)) = (&job.ticket, job.serial, &job.work) else {
        return Ok(());
    };
    let lease = Lease {
        serial,
        fence: job.fence,
    };
    let span = trace::span(id, task.word(), lease, &job.holder);
    let (id, task) = (id.clone(), task.clone());
    let performed = perform_leased(shop, job, (id, task, lease), stop);
    Box::pin(performed).instrument(span).await
}

async fn perform_leased(
    shop: Arc<Project>,
    job: Leased,
    (id, task, lease): (TicketId, Task, Lease),
    stop: StopSignal,
) -> Result<(), Error> {
    let (id, task) = (&id, &task);
    let (job, agent) = (&job, job.agent.as_deref());
    let actor = shop.actor(task, agent);
    let started = Report::new(actor.clone(), EventKind::Started { lease });
    let ticket = match shop.report(id, started).await {
        Ok(ticket) => ticket,
        Err(error) => return not_ours(&shop, id, lease, error).await,
    };
    trace::started(ticket.round);
    let (stopper, own_stop) = StopSignal::pair();
    let held = JobContext {
        shop: &shop,
        ticket: &ticket,
        member: shop.member(task, agent),
        job: Some(job.id),
        lease,
        stop: own_stop,
    };
    let brought = tokio::select! {
        brought = Box::pin(do_and_send(&held, task)) => brought,
        () = keep_alive(&shop, job, &stopper, stop.clone()) => unreachable_end(),
    };
    tokio::select! {
        told = tell(&held, id, actor, brought) => told,
        () = gives_up(stop) => Err(Error::Broken("the worker was stopped before it could report".to_owned())),
    }
}

/// A person who has stopped us waits no longer than this for a store that is away.
async fn gives_up(mut stop: StopSignal) {
    stop.asked().await;
    tokio::time::sleep(LAST_WORD).await;
}

/// Reports what came of the job. A store that is away is asked again while there may still be somebody
/// who waits for the report; what was done meanwhile is on record here.
async fn tell(
    held: &JobContext<'_>,
    id: &TicketId,
    actor: Actor,
    brought: Result<JobOutput, JobError>,
) -> Result<(), Error> {
    if let (Err(trouble), Some(member)) = (&brought, held.member) {
        patiently(|| pause_provider(held.shop, member, trouble)).await?;
    }
    let again = || report(held.shop, id, actor.clone(), held.lease, brought.clone());
    patiently(again).await
}

/// Does it again while the store is away, for a bounded time.
async fn patiently<T, F>(mut attempt: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut tries = 0;
    loop {
        match attempt().await {
            Err(error) if error.is_transient() && tries < TRIES_MAX => {
                if tries == 0 {
                    tracing::warn!(%error, "could not report, trying again");
                }
                tries += 1;
            }
            ended => return ended,
        }
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
}

/// The heartbeat never ends before the work does.
fn unreachable_end<T>() -> Result<T, JobError> {
    Err(JobError::transient(
        "the worker's heartbeat ended before its work",
    ))
}

/// What others will need is with them before they hear of it.
async fn do_and_send(held: &JobContext<'_>, task: &Task) -> Result<JobOutput, JobError> {
    let brought = do_task(held, task).await?;
    if let Some(carrier) = &held.shop.carrier {
        let aside = held.dir().join("parcel.part");
        let sent = (held.ticket, &brought.what, aside.as_path());
        let sent = carrier
            .send(&*held.shop.coordinator, &held.shop.git, sent)
            .await;
        sent.map_err(JobError::transient)?;
    }
    Ok(brought)
}

async fn do_task(held: &JobContext<'_>, task: &Task) -> Result<JobOutput, JobError> {
    match task {
        Task::Build { .. } => build::build(held).await,
        Task::Check { commit } => check::check(held, commit).await,
        Task::Review { commit, seat, .. } => Box::pin(review::review(held, commit, seat)).await,
        Task::Verify {
            commit, findings, ..
        } => verify::verify(held, commit, findings).await,
        Task::Merge { commit } => merge::merge(held, commit).await,
        Task::Tell { .. } => Err(JobError::permanent(
            "news is told without a lease on the ticket",
        )),
    }
}

/// Prolongs the lease while the work goes on. A lease that is lost, a ticket or a task that was
/// cancelled, or a person who stops us, ends the run; its result then finds a closed door or a given-back job.
async fn keep_alive(shop: &Project, job: &Leased, stopper: &Stopper, mut stop: StopSignal) {
    let lease = Duration::from_secs(shop.project.policy.limits.lease_secs);
    let mut renew = tokio::time::interval(lease / 3);
    let mut look = tokio::time::interval(LOOK);
    renew.tick().await;
    // A store that was away when it was time is asked again at each look.
    let mut due = false;
    loop {
        let lost = tokio::select! {
            _ = renew.tick() => renewed(shop, job, lease, &mut due).await,
            _ = look.tick() => {
                if due { renewed(shop, job, lease, &mut due).await } else { is_over(shop, job).await }
            }
            () = stop.asked() => true,
        };
        if lost {
            stopper.stop();
            std::future::pending::<()>().await;
        }
    }
}

/// Prolongs the lease; true where it is lost.
async fn renewed(shop: &Project, job: &Leased, lease: Duration, due: &mut bool) -> bool {
    let renewed = shop.coordinator.renew(job.id, job.fence, Some(lease)).await;
    // It is tried again every second: one line for an outage is enough.
    if let (Err(error), false) = (&renewed, *due) {
        tracing::warn!(%error, "could not renew the lease");
    }
    *due = renewed.is_err();
    renewed.is_err_and(|error| error.is_stale())
}

/// Whether nobody waits for this job any more. A store that is away has not said so.
async fn is_over(shop: &Project, job: &Leased) -> bool {
    let held = shop.coordinator.renew(job.id, job.fence, None).await;
    held.is_err_and(|error| error.is_stale())
}

/// The start was refused. A stale lease is somebody else's business; any other refusal gives the
/// job up, so that it does not come round for ever.
async fn not_ours(shop: &Project, id: &TicketId, lease: Lease, error: Error) -> Result<(), Error> {
    if error.is_stale() {
        return Ok(());
    }
    let Some(message) = error.refusal() else {
        return Err(error);
    };
    if !is_still_held(shop, id, lease).await? {
        return Ok(());
    }
    let failure = if error.is_about_the_judge() {
        Failure::NoJudge
    } else {
        Failure::Permanent
    };
    let what = EventKind::JobFailed {
        lease,
        failure,
        message,
        usage: Usage::default(),
    };
    ignore_stale(shop.report(id, Report::new(shop.house(), what)).await)
}

async fn report(
    shop: &Project,
    id: &TicketId,
    actor: Actor,
    lease: Lease,
    brought: Result<JobOutput, JobError>,
) -> Result<(), Error> {
    let failed = |failure, message, usage| {
        let what = EventKind::JobFailed {
            lease,
            failure,
            message,
            usage,
        };
        Report::new(shop.house(), what)
    };
    let came_to = match &brought {
        Ok(brought) => Ok(brought.what.name()),
        Err(trouble) => Err((trouble.failure, trouble.message.clone())),
    };
    let (report, came_to_nothing) = match brought {
        Ok(JobOutput { what, artefacts }) => {
            let report = Report {
                artefacts,
                ..Report::new(actor, what)
            };
            (report, false)
        }
        Err(trouble) => (
            failed(trouble.failure, trouble.message, trouble.usage),
            true,
        ),
    };
    let mut decided = shop.report(id, report).await;
    let refused = match &decided {
        Err(error) if error.is_stale() => {
            tracing::info!(target: "job", %error, "late report refused");
            return Ok(());
        }
        Err(error) => error.refusal(),
        Ok(_) => None,
    };
    match (&decided, came_to) {
        (Ok(_), Ok(result)) => trace::finished(result),
        (Ok(_), Err((failure, message))) => trace::failed(failure, &message),
        // It is reported again, or given up with an error of its own.
        (Err(_), _) => {}
    }
    if came_to_nothing || refused.is_some() {
        agents::forget(shop, id, lease);
    }
    if let Some(why) = refused {
        if !is_still_held(shop, id, lease).await? {
            return Ok(());
        }
        // What was brought is not acceptable: that is a failure of the job, and is said so.
        trace::failed(Failure::Transient, &why);
        let report = failed(Failure::Transient, why, Usage::default());
        decided = shop.report(id, report).await;
    }
    if let Ok(ticket) = &decided {
        write_round_document(&shop.files(id), ticket);
        build::remove_worktree(shop, ticket).await;
    }
    ignore_stale(decided)
}

/// Out of quota is so for everybody who uses that provider, and ends by itself.
async fn pause_provider(
    shop: &Project,
    member: &AgentConfig,
    trouble: &JobError,
) -> Result<(), Error> {
    let Failure::Quota { until } = trouble.failure else {
        return Ok(());
    };
    let pause = Pause {
        scope: PauseScope::Provider(member.adapter.name().to_owned()),
        until: Some(until),
        why: findings::one_line(&trouble.message),
        by: shop.house().agent,
    };
    shop.coordinator.pause_provider(pause).await
}

/// Whether the ticket still waits for a report under this lease. It may have ended meanwhile, or
/// gone to another worker.
async fn is_still_held(shop: &Project, id: &TicketId, lease: Lease) -> Result<bool, Error> {
    let ticket = shop.ticket(id).await?;
    let mut jobs = ticket.jobs.iter();
    Ok(jobs.any(|job| job.serial == lease.serial && job.fence <= lease.fence))
}

fn ignore_stale(decided: Result<Ticket, Error>) -> Result<(), Error> {
    match decided {
        Ok(_) => Ok(()),
        Err(error) if error.is_stale() => Ok(()),
        Err(error) => Err(error),
    }
}

/// The last round's findings, as a document for people. It can be made again from the log at any
/// time, so a failure to write it stops nothing.
pub fn write_round_document(files: &TicketFiles, ticket: &Ticket) {
    let Some(round) = ticket.rounds.last() else {
        return;
    };
    let path = files.round_document(round.number);
    if let Ok(text) = flow::export::findings_document(ticket, None) {
        let made = path.parent().map_or(Ok(()), private::make_dir);
        let written = made.and_then(|()| private::write(&path, text));
        written.log_err("write the round's findings document");
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}
