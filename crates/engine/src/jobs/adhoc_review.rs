//! Reviews a change that belongs to no ticket: with the same checkouts, sandbox, reader and state
//! machine, on a ticket that is in no store. It builds nothing and lands nothing.

use std::sync::Arc;

use findings::ReviewClaim;
use flow::event::{Failure, Lease};
use flow::job::OpenJob;
use flow::ticket::Spec;
use flow::{Actor, Event, EventKind, Task, Ticket, TicketId, Usage};
use serde_json::json;
use tokio::task::JoinSet;

use super::{JobContext, JobError, JobOutput, perform_task, submission};
use crate::git::{LeakedSecret, Oid};
use crate::log::removed;
use crate::process::StopSignal;
use crate::project::Project;

/// Name of the built-in reviewer that looks for passwords and keys in the change.
pub const SECRETS_REVIEWER: &str = "secrets";
/// Maximum number of attempts of a job.
const TRIES_MAX: u64 = 2;

/// The change to review.
#[derive(Debug)]
pub struct AdhocRequest {
    pub id: TicketId,
    pub spec: Spec,
    /// Name of the change, in place of a branch name.
    pub name: String,
    pub base: Oid,
    pub head: Oid,
    /// True if the checks of the project run too.
    pub checks: bool,
}

/// A finished job of a reviewer.
#[derive(Clone, Debug)]
pub struct AdhocJobDone {
    pub reviewer: String,
    pub agent: String,
    pub usage: Usage,
}

#[derive(Debug)]
pub struct AdhocReview {
    pub ticket: Ticket,
    pub finished_jobs: Vec<AdhocJobDone>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the review was stopped")]
    Stopped,
    #[error("{0}")]
    Failed(String),
    #[error(transparent)]
    Refused(#[from] flow::Refused),
}

impl From<JobError> for Error {
    fn from(error: JobError) -> Self {
        match error.failure {
            Failure::Interrupted => Self::Stopped,
            Failure::Transient
            | Failure::Permanent
            | Failure::NoJudge
            | Failure::Budget
            | Failure::Deferred { .. }
            | Failure::Quota { .. } => Self::Failed(error.message),
        }
    }
}

/// Reviews the change to the end, and calls `hear` for each finished job.
pub async fn run_adhoc_review(
    project: &Arc<Project>,
    request: &AdhocRequest,
    stop: StopSignal,
    hear: impl Fn(&AdhocJobDone),
) -> Result<AdhocReview, Error> {
    let policy = &project.config.policy;
    let submission = submission::describe_range(
        &project.git,
        &project.config,
        (&request.spec, None),
        (&request.base, &request.head),
        &request.name,
    )
    .await?;
    let spec = request.spec.clone();
    let ticket = flow::adhoc_review::open_for_review(
        &request.id,
        spec,
        submission,
        policy,
        (project.clock)(),
    )?;
    let mut session = AdhocSession {
        project,
        request,
        stop,
        ticket,
        finished_jobs: Vec::new(),
    };
    loop {
        let jobs = session.open_jobs();
        if jobs.is_empty() {
            break;
        }
        session.run_jobs(jobs, &hear).await?;
    }
    let AdhocSession {
        ticket,
        finished_jobs: mut looks,
        ..
    } = session;
    looks.sort_by_key(|done| {
        ticket
            .panel
            .iter()
            .position(|reviewer| reviewer.name == done.reviewer)
    });
    Ok(AdhocReview {
        ticket,
        finished_jobs: looks,
    })
}

/// State of a review without a ticket.
struct AdhocSession<'a> {
    project: &'a Arc<Project>,
    request: &'a AdhocRequest,
    stop: StopSignal,
    ticket: Ticket,
    finished_jobs: Vec<AdhocJobDone>,
}

/// A job, its lease and its result.
type EndedJob = (OpenJob, Lease, Result<JobOutput, JobError>);

impl AdhocSession<'_> {
    /// Returns the open jobs of checks and reviewers. A build would be an answer to the verdict.
    fn open_jobs(&self) -> Vec<OpenJob> {
        let judges = |job: &&OpenJob| {
            matches!(
                job.task,
                Task::Check { .. } | Task::Review { .. } | Task::Verify { .. }
            )
        };
        self.ticket.jobs.iter().filter(judges).cloned().collect()
    }

    /// Runs all open jobs concurrently.
    async fn run_jobs(
        &mut self,
        jobs: Vec<OpenJob>,
        hear: &impl Fn(&AdhocJobDone),
    ) -> Result<(), Error> {
        let mut runs: JoinSet<EndedJob> = JoinSet::new();
        for job in jobs {
            self.start_job(&mut runs, job)?;
        }
        while let Some(ended) = runs.join_next().await {
            let (job, lease, result) =
                ended.map_err(|error| Error::Failed(format!("a review job crashed: {error}")))?;
            match result {
                Ok(output) => self.apply_report(&job, output.what, hear)?,
                Err(error) if error.failure == Failure::Transient && lease.fence < TRIES_MAX => {
                    let again = self.give_back(&job, lease, &error)?;
                    let Some(job) = again else {
                        return Err(error.into());
                    };
                    self.start_job(&mut runs, job)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn start_job(&mut self, runs: &mut JoinSet<EndedJob>, job: OpenJob) -> Result<(), Error> {
        let lease = Lease {
            serial: job.serial,
            fence: job.fence + 1,
        };
        let project = Arc::clone(self.project);
        let actor = project.actor_for(&job.task, job.agent.as_deref());
        self.apply_event(actor, EventKind::Started { lease })?;
        let (ticket, stop) = (self.ticket.clone(), self.stop.clone());
        let checks = self.request.checks;
        runs.spawn(async move {
            let context = JobContext {
                project: &project,
                ticket: &ticket,
                agent: project.agent_for(&job.task, job.agent.as_deref()),
                job: None,
                lease,
                stop,
            };
            let result = Box::pin(perform_adhoc_task(&context, &job.task, checks)).await;
            (job, lease, result)
        });
        Ok(())
    }

    /// Ends a failed attempt, so that the job can be claimed again. Returns `None` if no attempt is
    /// left.
    fn give_back(
        &mut self,
        job: &OpenJob,
        lease: Lease,
        error: &JobError,
    ) -> Result<Option<OpenJob>, Error> {
        let actor = self.project.actor_for(&job.task, job.agent.as_deref());
        let failed = EventKind::JobFailed {
            lease,
            failure: error.failure,
            message: error.message.clone(),
            usage: error.usage,
        };
        self.apply_event(actor, failed)?;
        let mut open = self.ticket.jobs.iter();
        Ok(open.find(|open| open.serial == job.serial).cloned())
    }

    fn apply_report(
        &mut self,
        job: &OpenJob,
        what: EventKind,
        hear: &impl Fn(&AdhocJobDone),
    ) -> Result<(), Error> {
        let actor = self.project.actor_for(&job.task, job.agent.as_deref());
        let done = AdhocJobDone {
            reviewer: reviewer_name(&job.task),
            agent: actor.agent.clone(),
            usage: what.usage(),
        };
        self.apply_event(actor, what)?;
        hear(&done);
        self.finished_jobs.push(done);
        Ok(())
    }

    fn apply_event(&mut self, by: Actor, what: EventKind) -> Result<(), Error> {
        let event = Event {
            at: (self.project.clock)(),
            by,
            expects: None,
            what,
        };
        let policy = &self.project.config.policy;
        self.ticket = flow::advance(&self.ticket, &event, policy)?.ticket;
        Ok(())
    }
}

fn reviewer_name(task: &Task) -> String {
    match task {
        Task::Review { reviewer, .. } => reviewer.clone(),
        other => other.word().to_owned(),
    }
}

/// Runs one job. Checks may be off, and the secrets reviewer needs no agent.
async fn perform_adhoc_task(
    context: &JobContext<'_>,
    task: &Task,
    checks: bool,
) -> Result<JobOutput, JobError> {
    match task {
        Task::Check { commit } if !checks => Ok(skipped_checks(context, commit)),
        Task::Review {
            commit, reviewer, ..
        } if reviewer == SECRETS_REVIEWER => scan_secrets(context, commit).await,
        other => perform_task(context, other).await,
    }
}

fn skipped_checks(context: &JobContext<'_>, commit: &str) -> JobOutput {
    JobOutput {
        what: EventKind::Checked {
            lease: context.lease,
            commit: commit.to_owned(),
            results: Vec::new(),
            usage: Usage::default(),
        },
        artefacts: Vec::new(),
    }
}

async fn scan_secrets(context: &JobContext<'_>, commit: &str) -> Result<JobOutput, JobError> {
    let base = super::check::submission_base(context)?;
    let head = Oid::parse(commit)
        .ok_or_else(|| JobError::permanent(format!("{commit} is not a commit id")))?;
    let scanned = Box::pin(super::commits::scan(context, &base, &head)).await?;
    let mut items: Vec<_> = scanned.secrets.iter().map(secret_finding).collect();
    items.extend(scanned.unread.as_deref().map(unread));
    let (clean, text) = (items.is_empty(), json!({"findings": items}).to_string());
    let mut review = findings::read(&text);
    // No agent was asked: the scan either found something or not.
    review.claim = if clean {
        ReviewClaim::Approved
    } else {
        ReviewClaim::ChangesRequested
    };
    Ok(JobOutput {
        what: EventKind::Reviewed {
            answers_open: false,
            lease: context.lease,
            commit: commit.to_owned(),
            review: Box::new(review),
            sandbox: "no program ran".to_owned(),
            usage: Usage::default(),
        },
        artefacts: Vec::new(),
    })
}

fn secret_finding(secret: &LeakedSecret) -> serde_json::Value {
    let mut finding = json!({
        "title": format!("A secret in the change: {}", secret.kind),
        "severity": "critical",
        "category": "security",
        "problem": format!(
            "It is in {}. Everyone who can read the repository knows a secret once it is committed.",
            secret.place
        ),
        "fix": "Remove it from the change and from its commits, and replace the secret itself.",
    });
    if let Some(path) = &secret.path {
        finding["file"] = json!(path);
        finding["line"] = json!(secret.line);
    }
    finding
}

fn unread(why: &str) -> serde_json::Value {
    json!({
        "title": "The scan for secrets did not cover the whole change",
        "severity": "high",
        "category": "security",
        "problem": format!("The rest of the change may contain secrets: {why}."),
        "fix": "Make the change smaller, or check the rest by hand.",
    })
}

/// Removes checkouts, homes and scratch directories; files worth reading later stay.
pub fn clean_up(project: &Project, id: &TicketId) {
    for path in crate::cleanup::working_files(&project.ticket_files(id)) {
        removed(&path, crate::git::remove_tree(&path));
    }
}
