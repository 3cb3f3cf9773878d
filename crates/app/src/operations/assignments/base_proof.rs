//! Proves the base before an agent that connects by itself gets a build. The server runs the setup
//! and the checks, and keeps the agent's lease meanwhile: the agent hears of no work until the base
//! is known to be green, and of this ticket no more if it is red.
//!
//! A proof that cannot be made here, for example without a sandbox, does not stop the agent: the
//! proof saves money and guards nothing. Its brief says that the base is not proven.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::pin::pin;
use std::sync::Mutex;
use std::time::Duration;

use engine::coordinator::{Coordinator, Report};
use engine::jobs::project_proof::{ProofError, needs_proof, prove_for_claim};
use engine::log::LogErr;
use engine::process::StopSignal;
use engine::project::Project;
use engine::session::{self, SessionClaim};
use flow::{Actor, Task};
use tokio::sync::Notify;

use super::super::App;
use super::super::identity::Identity;
use super::super::project::{self, ProjectOptions};
use crate::failure::{ExitKind, Failure};

/// Time for which one call waits for a proof. Most clients end a call after a minute.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// Maximum number of proofs that run at once. Those of one repository wait for the first of them, so
/// few do any work.
const RUNNING_MAX: usize = 64;
/// Maximum number of remembered failures; all are forgotten when there are more.
const FAILED_MAX: usize = 1_000;

/// Proofs that run for agents, and those that could not be made, by attempt.
#[derive(Debug, Default)]
pub struct SessionProofs {
    running: Mutex<BTreeSet<String>>,
    failed: Mutex<BTreeMap<String, String>>,
    ended: Notify,
}

impl SessionProofs {
    /// Waits until some proof has ended.
    pub async fn ended(&self) {
        self.ended.notified().await;
    }

    fn is_running(&self, attempt: &str) -> bool {
        lock(&self.running).contains(attempt)
    }

    /// Registers a proof, unless it runs already or too many do. Returns whether it may begin.
    fn begin(&self, attempt: &str) -> bool {
        let mut running = lock(&self.running);
        running.len() < RUNNING_MAX && running.insert(attempt.to_owned())
    }

    fn end(&self, attempt: &str, failure: Option<String>) {
        if let Some(why) = failure {
            let mut failed = lock(&self.failed);
            if failed.len() >= FAILED_MAX {
                failed.clear();
            }
            failed.insert(attempt.to_owned(), why);
        }
        lock(&self.running).remove(attempt);
        self.ended.notify_waiters();
    }

    fn failure(&self, attempt: &str) -> Option<String> {
        lock(&self.failed).get(attempt).cloned()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // The sets stay usable after a panic: each change of them is one call.
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// State of the proof of the base that a claimed build starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BaseState {
    /// The agent may build. The note for its brief is empty if the base is green or needs no proof.
    Known(String),
    /// The proof is still running.
    Pending,
    /// The proof has just ended: the claim has to be read again.
    Decided,
}

/// Returns the refusal of a build whose base is not proven yet.
pub fn not_proven(claim: &SessionClaim) -> Failure {
    let ticket = &claim.stored.ticket.id;
    Failure::new(
        ExitKind::Refused,
        format!("the setup and the checks of {ticket} are still running on its base"),
    )
    .hint("call get_my_assignment or wait_for_work again")
}

/// Proves the base of a claimed build that nobody has begun, if it needs that. Waits a short time
/// for the result.
pub async fn wait_for_base(
    app: &App,
    identity: &Identity,
    claim: &SessionClaim,
) -> Result<BaseState, Failure> {
    let known = Ok(BaseState::Known(String::new()));
    let is_first = claim.stored.ticket.submission.is_none() && !claim.is_started();
    if !matches!(claim.task, Task::Build { .. }) || !is_first {
        return known;
    }
    let attempt = claim.attempt().to_string();
    if let Some(why) = app.proofs.failure(&attempt) {
        return Ok(BaseState::Known(note(&why)));
    }
    // Registered before the proof may end, so that its end is not missed.
    let mut ended = pin!(app.proofs.ended.notified());
    ended.as_mut().enable();
    if !app.proofs.is_running(&attempt) {
        let project = load_project(app, claim).await?;
        let (ticket, lease) = (&claim.stored.ticket, claim.lease);
        match needs_proof(&project, ticket, lease).await {
            Ok(false) => return known,
            Ok(true) => {}
            Err(error) => return Ok(BaseState::Known(note(&error.to_string()))),
        }
        if app.proofs.begin(&attempt) {
            let proof = prove(app.clone(), identity.clone(), claim.clone(), project);
            tokio::spawn(Box::pin(proof));
        }
    }
    // With too many proofs at once, the end of any other one makes room for this one.
    let waiting = async {
        loop {
            ended.as_mut().await;
            if !app.proofs.is_running(&attempt) {
                return;
            }
            ended.set(app.proofs.ended.notified());
            ended.as_mut().enable();
            if !app.proofs.is_running(&attempt) {
                return;
            }
        }
    };
    let waited = app.unless_stopped(tokio::time::timeout(WAIT_MAX, waiting));
    match waited.await {
        Some(Ok(())) => Ok(BaseState::Decided),
        Some(Err(_)) | None => Ok(BaseState::Pending),
    }
}

/// Returns the beginning of the brief of an agent whose base could not be proven.
fn note(why: &str) -> String {
    let why = findings::shorten(&findings::one_line(why), 300);
    format!(
        "The checks could not be run on the base for you ({why}). Run them before you change anything; if they are red there, ask for help instead of building.\n\n"
    )
}

async fn load_project(app: &App, claim: &SessionClaim) -> Result<std::sync::Arc<Project>, Failure> {
    let context = &claim.stored.ticket.spec.context;
    let path = context.repository.as_deref().ok_or_else(|| {
        Failure::usage(format!(
            "{} belongs to no repository",
            claim.stored.ticket.id
        ))
    })?;
    let options = ProjectOptions {
        base: context.base_branch.clone(),
        ..ProjectOptions::without_agents()
    };
    let loaded = project::load_project(app, Path::new(path), &options).await?;
    Ok(loaded.project)
}

/// Runs a proof to its end, and reports a red base.
async fn prove(
    app: App,
    identity: Identity,
    claim: SessionClaim,
    project: std::sync::Arc<Project>,
) {
    let attempt = claim.attempt().to_string();
    let (stopper, stop) = StopSignal::pair();
    let proving = prove_for_claim(&project, (&claim.stored.ticket, claim.lease), stop);
    let mut proving = pin!(proving);
    let proven = tokio::select! {
        proven = &mut proving => proven,
        () = keep_claim(&app, &claim) => {
            // The processes of the checks end before anything else happens.
            stopper.stop();
            proving.await
        }
    };
    let failure = match proven {
        Ok(None) | Err(ProofError::Stopped) => None,
        Ok(Some((what, artefacts))) => {
            let report = Report {
                artefacts,
                ..Report::new(Actor::system(), what)
            };
            let reported = report_red(&app, &identity, &claim, (&project, report)).await;
            reported.log_err("report a red base");
            None
        }
        Err(ProofError::Failed(why)) => {
            let failed: Result<(), ProofError> = Err(ProofError::Failed(why.clone()));
            failed.log_err("prove the base for an agent");
            Some(why)
        }
    };
    app.proofs.end(&attempt, failure);
}

/// Prolongs the agent's lease: it cannot do so itself, because it does not know of the claim yet.
/// Ends if the lease is lost or the server stops.
async fn keep_claim(app: &App, claim: &SessionClaim) {
    let lease = Duration::from_secs(claim.policy.limits.heartbeat_secs.max(1));
    let mut stop = app.stop.clone();
    loop {
        tokio::select! {
            () = tokio::time::sleep(lease / 3) => {}
            () = stop.requested() => return,
        }
        let renewed = app
            .coordinator
            .store
            .renew(claim.job, claim.lease.fence, lease);
        if renewed.await.log_err("keep the lease of a proof").is_none() {
            return;
        }
    }
}

/// Reports the start and the red base: a person decides, and the agent gets other work.
async fn report_red(
    app: &App,
    identity: &Identity,
    claim: &SessionClaim,
    (project, report): (&Project, Report),
) -> Result<(), Failure> {
    session::start(&app.coordinator, &identity.agent_session(), claim).await?;
    let (id, policy) = (&claim.stored.ticket.id, &project.config.policy);
    Coordinator::report(&app.coordinator, id, policy, report).await?;
    Ok(())
}
