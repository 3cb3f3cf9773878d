//! Judging a change that belongs to no ticket: the same checkouts, the same sandbox, the same
//! reading, and the same machine, on a ticket that is in no store. Nothing is built and nothing lands.

use std::path::PathBuf;
use std::sync::Arc;

use findings::ReviewClaim;
use flow::event::{Failure, Lease};
use flow::job::OpenJob;
use flow::ticket::Spec;
use flow::{Actor, Event, EventKind, Task, Ticket, TicketId, Usage};
use serde_json::json;
use tokio::task::JoinSet;

use super::{JobContext, JobError, JobOutput, do_task, submission};
use crate::git::{LeakedSecret, Oid};
use crate::log::removed;
use crate::process::StopSignal;
use crate::workshop::Project;

/// The seat that needs no program: what looks like a password or a key in the change.
pub const SECRETS: &str = "secrets";
/// How often a run that came to nothing is tried.
const TRIES_MAX: u64 = 2;

/// Who judges what.
#[derive(Debug)]
pub struct AdhocRequest {
    pub id: TicketId,
    pub spec: Spec,
    /// What the change is called where a branch's name would stand.
    pub name: String,
    pub base: Oid,
    pub head: Oid,
    /// Whether the project's checks are run too.
    pub checks: bool,
}

/// One job of a judge, as it ended.
#[derive(Clone, Debug)]
pub struct AdhocJobDone {
    pub seat: String,
    pub who: String,
    pub usage: Usage,
}

#[derive(Debug)]
pub struct AdhocReview {
    pub ticket: Ticket,
    pub looks: Vec<AdhocJobDone>,
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
    fn from(trouble: JobError) -> Self {
        match trouble.failure {
            Failure::Interrupted => Self::Stopped,
            Failure::Transient
            | Failure::Permanent
            | Failure::NoJudge
            | Failure::Budget
            | Failure::Deferred { .. }
            | Failure::Quota { .. } => Self::Failed(trouble.message),
        }
    }
}

/// Has the change judged to the end; `hear` is told who has ended.
pub async fn ask(
    shop: &Arc<Project>,
    asked: &AdhocRequest,
    stop: StopSignal,
    hear: impl Fn(&AdhocJobDone),
) -> Result<AdhocReview, Error> {
    let policy = &shop.project.policy;
    let put = submission::describe_range(
        &shop.git,
        &shop.project,
        (&asked.spec, None),
        (&asked.base, &asked.head),
        &asked.name,
    )
    .await?;
    let spec = asked.spec.clone();
    let ticket = flow::opinion::put_forward(&asked.id, spec, put, policy, (shop.clock)())?;
    let mut table = AdhocSession {
        shop,
        asked,
        stop,
        ticket,
        looks: Vec::new(),
    };
    loop {
        let jobs = table.open_jobs();
        if jobs.is_empty() {
            break;
        }
        table.round_of(jobs, &hear).await?;
    }
    let AdhocSession {
        ticket, mut looks, ..
    } = table;
    looks.sort_by_key(|look| ticket.seats.iter().position(|seat| seat.name == look.seat));
    Ok(AdhocReview { ticket, looks })
}

struct AdhocSession<'a> {
    shop: &'a Arc<Project>,
    asked: &'a AdhocRequest,
    stop: StopSignal,
    ticket: Ticket,
    looks: Vec<AdhocJobDone>,
}

/// What came of a job: the lease it was under, and what it brought.
type EndedJob = (OpenJob, Lease, Result<JobOutput, JobError>);

impl AdhocSession<'_> {
    /// Jobs of judges; a build would be somebody's answer to the verdict.
    fn open_jobs(&self) -> Vec<OpenJob> {
        let judges = |job: &&OpenJob| {
            matches!(
                job.task,
                Task::Check { .. } | Task::Review { .. } | Task::Verify { .. }
            )
        };
        self.ticket.jobs.iter().filter(judges).cloned().collect()
    }

    /// All jobs that are open now, side by side.
    async fn round_of(
        &mut self,
        jobs: Vec<OpenJob>,
        hear: &impl Fn(&AdhocJobDone),
    ) -> Result<(), Error> {
        let mut runs: JoinSet<EndedJob> = JoinSet::new();
        for job in jobs {
            self.begin(&mut runs, job)?;
        }
        while let Some(ended) = runs.join_next().await {
            let (job, lease, brought) =
                ended.map_err(|error| Error::Failed(format!("a review ended badly: {error}")))?;
            match brought {
                Ok(brought) => self.report(&job, brought.what, hear)?,
                Err(trouble)
                    if trouble.failure == Failure::Transient && lease.fence < TRIES_MAX =>
                {
                    let again = self.give_back(&job, lease, &trouble)?;
                    let Some(job) = again else {
                        return Err(trouble.into());
                    };
                    self.begin(&mut runs, job)?;
                }
                Err(trouble) => return Err(trouble.into()),
            }
        }
        Ok(())
    }

    fn begin(&mut self, runs: &mut JoinSet<EndedJob>, job: OpenJob) -> Result<(), Error> {
        let lease = Lease {
            serial: job.serial,
            fence: job.fence + 1,
        };
        let shop = Arc::clone(self.shop);
        let actor = shop.actor(&job.task, job.agent.as_deref());
        self.tell(actor, EventKind::Started { lease })?;
        let (ticket, stop) = (self.ticket.clone(), self.stop.clone());
        let checks = self.asked.checks;
        runs.spawn(async move {
            let held = JobContext {
                shop: &shop,
                ticket: &ticket,
                member: shop.member(&job.task, job.agent.as_deref()),
                job: None,
                lease,
                stop,
            };
            let brought = Box::pin(look(&held, &job.task, checks)).await;
            (job, lease, brought)
        });
        Ok(())
    }

    /// Ends a failed try, so that the job is free to be taken again; nothing where no try is left.
    fn give_back(
        &mut self,
        job: &OpenJob,
        lease: Lease,
        trouble: &JobError,
    ) -> Result<Option<OpenJob>, Error> {
        let actor = self.shop.actor(&job.task, job.agent.as_deref());
        let failed = EventKind::JobFailed {
            lease,
            failure: trouble.failure,
            message: trouble.message.clone(),
            usage: trouble.usage,
        };
        self.tell(actor, failed)?;
        let mut open = self.ticket.jobs.iter();
        Ok(open.find(|open| open.serial == job.serial).cloned())
    }

    fn report(
        &mut self,
        job: &OpenJob,
        what: EventKind,
        hear: &impl Fn(&AdhocJobDone),
    ) -> Result<(), Error> {
        let actor = self.shop.actor(&job.task, job.agent.as_deref());
        let looked = AdhocJobDone {
            seat: seat_of(&job.task),
            who: actor.agent.clone(),
            usage: what.usage(),
        };
        self.tell(actor, what)?;
        hear(&looked);
        self.looks.push(looked);
        Ok(())
    }

    fn tell(&mut self, by: Actor, what: EventKind) -> Result<(), Error> {
        let event = Event {
            at: (self.shop.clock)(),
            by,
            expects: None,
            what,
        };
        let policy = &self.shop.project.policy;
        self.ticket = flow::advance(&self.ticket, &event, policy)?.ticket;
        Ok(())
    }
}

fn seat_of(task: &Task) -> String {
    match task {
        Task::Review { seat, .. } => seat.clone(),
        other => other.word().to_owned(),
    }
}

async fn look(held: &JobContext<'_>, task: &Task, checks: bool) -> Result<JobOutput, JobError> {
    match task {
        Task::Check { commit } if !checks => Ok(nothing_checked(held, commit)),
        Task::Review { commit, seat, .. } if seat == SECRETS => secrets(held, commit).await,
        other => do_task(held, other).await,
    }
}

fn nothing_checked(held: &JobContext<'_>, commit: &str) -> JobOutput {
    JobOutput {
        what: EventKind::Checked {
            lease: held.lease,
            commit: commit.to_owned(),
            results: Vec::new(),
            usage: Usage::default(),
        },
        artefacts: Vec::new(),
    }
}

async fn secrets(held: &JobContext<'_>, commit: &str) -> Result<JobOutput, JobError> {
    let base = super::check::base_of(held)?;
    let head =
        Oid::parse(commit).ok_or_else(|| JobError::permanent(format!("{commit} is no commit")))?;
    let scanned = Box::pin(super::commits::scan(held, &base, &head)).await?;
    let mut found: Vec<_> = scanned.secrets.iter().map(finding).collect();
    found.extend(scanned.unread.as_deref().map(unread));
    let (clean, said) = (found.is_empty(), json!({"findings": found}).to_string());
    let mut review = findings::read(&said);
    // No agent was asked: what was looked for was found, or it was not.
    review.claim = if clean {
        ReviewClaim::Approved
    } else {
        ReviewClaim::ChangesRequested
    };
    Ok(JobOutput {
        what: EventKind::Reviewed {
            lease: held.lease,
            commit: commit.to_owned(),
            review: Box::new(review),
            isolation: "no program ran".to_owned(),
            usage: Usage::default(),
        },
        artefacts: Vec::new(),
    })
}

fn finding(secret: &LeakedSecret) -> serde_json::Value {
    let mut finding = json!({
        "title": format!("A secret in the change: {}", secret.kind),
        "severity": "critical",
        "category": "security",
        "problem": format!(
            "It is in {}. A secret that is committed once is known to everybody who can read the repository.",
            secret.place
        ),
        "fix": "Take it out of the change and out of its commits, and replace the secret itself.",
    });
    if let Some(path) = &secret.path {
        finding["file"] = json!(path);
        finding["line"] = json!(secret.line);
    }
    finding
}

fn unread(why: &str) -> serde_json::Value {
    json!({
        "title": "Not all of the change was looked through for secrets",
        "severity": "high",
        "category": "security",
        "problem": format!("Nobody knows whether the rest is clean: {why}."),
        "fix": "Make the change smaller, or look through the rest by hand.",
    })
}

/// Everything but what is worth reading later goes: checkouts, homes, scratch.
pub fn tidy_up(shop: &Project, id: &TicketId) {
    for (_, job) in crate::runs::numbered(&shop.files(id).jobs(), "") {
        for (_, run) in crate::runs::numbered(&job, "run-") {
            for part in [
                "review",
                "scratch",
                "home",
                "lint/checkout",
                "lint/home",
                "lint/tmp",
            ] {
                let dir: PathBuf = run.join(part);
                removed(&dir, std::fs::remove_dir_all(&dir));
            }
        }
    }
}
