//! Runs a project's setup and checks on its base outside of a job: for a person who wants to know
//! whether they work in the sandbox, and for agents that connect by themselves and claim a build.

use flow::event::Lease;
use flow::ticket::{CheckResult, Spec};
use flow::{Actor, Event, EventKind, Ticket, TicketId};
use store::Artefact;

use super::{JobContext, JobError, base_proof};
use crate::process::StopSignal;
use crate::project::Project;

/// Results of the setup and the checks on the base.
#[derive(Clone, Debug)]
pub struct ProjectProof {
    /// Commit of the base branch.
    pub base: String,
    pub checks: Vec<ProvenCheck>,
    /// Submodules that this machine does not have.
    pub missing_submodules: Vec<String>,
}

/// Result of the setup or of one check.
#[derive(Clone, Debug)]
pub struct ProvenCheck {
    pub result: CheckResult,
    /// Likely fix of a red one; empty if none is known.
    pub hint: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    #[error("the proof was stopped")]
    Stopped,
    #[error("{0}")]
    Failed(String),
}

impl From<JobError> for ProofError {
    fn from(error: JobError) -> Self {
        if error.failure == flow::event::Failure::Interrupted {
            Self::Stopped
        } else {
            Self::Failed(error.message)
        }
    }
}

/// Returns whether the base has to be proven before an agent may build this ticket.
pub async fn needs_proof(
    project: &Project,
    ticket: &Ticket,
    lease: Lease,
) -> Result<bool, ProofError> {
    let context = claim_context(project, (ticket, lease), StopSignal::never());
    Ok(base_proof::needs_proof(&context).await?)
}

/// Proves the base for a claimed build. Returns the event of a red base, and the output of its
/// checks. A green base is remembered.
pub async fn prove_for_claim(
    project: &Project,
    claim: (&Ticket, Lease),
    stop: StopSignal,
) -> Result<Option<(EventKind, Vec<Artefact>)>, ProofError> {
    let context = claim_context(project, claim, stop);
    let red = base_proof::prove_before_build(&context).await?;
    Ok(red.map(|red| (red.what, red.artefacts)))
}

/// Remembers that the base of a project is green with its configuration. The caller has seen each of
/// its checks green on the base.
pub async fn remember_proven(project: &Project) -> Result<(), ProofError> {
    let base = project.git.base_tip(&project.config.base_branch).await;
    let base = base.map_err(JobError::from)?;
    Ok(base_proof::remember_green(project, &base).await?)
}

/// Builds the context of a proof under a claim that this process does not work on itself.
fn claim_context<'a>(
    project: &'a Project,
    (ticket, lease): (&'a Ticket, Lease),
    stop: StopSignal,
) -> JobContext<'a> {
    JobContext {
        project,
        ticket,
        agent: None,
        job: None,
        lease,
        stop,
    }
}

/// Runs the setup and every check once on the base; red ones a second time. Files of the runs are
/// below the id, and the caller removes them.
pub async fn prove_project(
    project: &Project,
    id: &TicketId,
    stop: StopSignal,
) -> Result<ProjectProof, ProofError> {
    let policy = &project.config.policy;
    let spec = Spec {
        title: "Proof of the base".to_owned(),
        ..Spec::default()
    };
    let event = Event {
        at: (project.clock)(),
        by: Actor::system(),
        expects: None,
        what: EventKind::Created {
            spec: Box::new(spec),
            met: std::collections::BTreeSet::new(),
            failed: Vec::new(),
        },
    };
    // The ticket is in no store; it only names the files of the runs.
    let opened = flow::open_ticket(id, &event, policy);
    let ticket = opened
        .map_err(|refused| ProofError::Failed(refused.to_string()))?
        .ticket;
    let lease = Lease {
        serial: 1,
        fence: 1,
    };
    let context = claim_context(project, (&ticket, lease), stop);
    let git = &project.git;
    let base = git.base_tip(&project.config.base_branch).await;
    let base = base.map_err(JobError::from)?;
    let proof = base_proof::prove_now(&context, &base).await?;
    let mut checks = Vec::new();
    for result in proof.results {
        let hint = if result.outcome.is_green() {
            String::new()
        } else {
            base_proof::suggest_fix(&context, &base, std::slice::from_ref(&result)).await?
        };
        checks.push(ProvenCheck { result, hint });
    }
    let missing = git.missing_submodules(&base).await;
    Ok(ProjectProof {
        base: base.to_string(),
        checks,
        missing_submodules: missing.map_err(JobError::from)?,
    })
}
