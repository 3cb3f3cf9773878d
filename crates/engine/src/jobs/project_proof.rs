//! Runs a project's setup and checks on its base outside of any ticket, for a person who wants to
//! know whether they work in the sandbox.

use flow::event::Lease;
use flow::ticket::{CheckResult, Spec};
use flow::{Actor, Event, EventKind, TicketId};

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
    let context = JobContext {
        project,
        ticket: &ticket,
        agent: None,
        job: None,
        lease: Lease {
            serial: 1,
            fence: 1,
        },
        stop,
    };
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
