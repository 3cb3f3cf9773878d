//! Work for agents that connect over MCP. The names of tools and fields are those that such agents
//! already know: an assignment is a job of a ticket that the agent has claimed. The coordinator
//! gets every report.

pub mod base_proof;
pub mod change;
pub mod claims;
pub mod context;
pub mod verdict;

use std::time::Duration;

use engine::coordinator::{Once, Report};
use engine::session::{self, AgentSession, SessionClaim, SubmissionNotes};
use flow::brief::{Recipient, RepositoryWays};
use flow::dialect::{Dialect, stage_word};
use flow::event::{FindingReport, ReportedOutcome};
use flow::{EventKind, Task, Ticket, TicketId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::Noted;

use super::identity::Identity;
use super::{App, git_access, project, tasks};
use crate::failure::{ExitKind, Failure};
use base_proof::BaseState;
pub use claims::ClaimRef;

/// Claims that one call gives back because they cannot be served, before it answers without work.
const UNSERVED_MAX: u32 = 16;
/// Agents that connect by themselves answer with tools.
const RECIPIENT: Recipient = Recipient::Connected;

/// A job that an agent has claimed. The first six fields have the names that existing agents
/// expect.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Assignment {
    /// The `assignment_id` of other calls.
    pub id: i64,
    /// pending, `in_progress`, rework or completed.
    pub status: String,
    pub review_attempt: u32,
    pub max_cycles: u32,
    /// Feedback to answer.
    pub review_feedback: Option<String>,
    pub branch_name: String,
    pub ticket: String,
    /// build, review or verify.
    pub kind: String,
    pub title: String,
    /// Names this claim: send it with every report.
    pub attempt: String,
    /// The lease ends then, unless a heartbeat extends it.
    pub lease_until: String,
    pub base_branch: String,
    /// A path on the server's machine.
    pub repository: Option<String>,
    /// For `git clone` from any machine.
    pub clone_url: Option<String>,
    /// Bearer credential of the clone; ends with the claim.
    pub clone_credential: Option<String>,
    /// The exact commit to judge.
    pub commit: Option<String>,
    /// The brief.
    pub brief: String,
}

/// A builder's report on its submission.
#[derive(Clone, Debug, Default, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BuilderSubmission {
    /// The default is the ticket's own branch.
    pub branch_name: Option<String>,
    pub summary: String,
    pub claims: Vec<CriterionReport>,
    pub findings: Vec<FindingResponse>,
}

/// The builder's claim about one acceptance criterion.
#[derive(Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CriterionReport {
    pub criterion: String,
    pub met: bool,
    #[serde(default)]
    pub evidence: String,
}

/// The builder's answer to a finding.
#[derive(Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FindingResponse {
    /// The finding's id in the brief: F1, F2, …
    pub id: String,
    pub outcome: FixOutcome,
    /// The reason if it was not fixed.
    #[serde(default)]
    pub note: String,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FixOutcome {
    Fixed,
    CouldNotFix,
    Disputed,
}

impl Identity {
    /// Builds the session under which the caller claims and reports.
    pub fn agent_session(&self) -> AgentSession {
        AgentSession {
            actor: self.actor.clone(),
            ticket: self.ticket.clone(),
            access: self.access,
            task_queues: tasks::queues(self),
        }
    }
}

/// Returns the job that the agent holds, or claims the most urgent one that it may take. A claim
/// that cannot be served goes back to the queue, and the agent gets the next one.
pub async fn current_assignment(
    app: &App,
    identity: &Identity,
) -> Result<Option<Assignment>, Failure> {
    for _ in 0..UNSERVED_MAX {
        let claimed = session::claim_next(&app.coordinator, &identity.agent_session()).await?;
        let Some(claim) = claimed else {
            return Ok(None);
        };
        let state = base_proof::wait_for_base(app, identity, &claim).await;
        let described = match state {
            // Other work would be a second claim. The next call asks again.
            Ok(BaseState::Pending) => return Ok(None),
            // A red base ended the claim.
            Ok(BaseState::Decided) => continue,
            Ok(BaseState::Known(note)) => build_assignment(app, identity, &claim, &note).await,
            Err(failure) => Err(failure),
        };
        match described {
            Ok(described) => {
                claims::record_claim(app, identity, &claim.attempt()).await?;
                return Ok(Some(described));
            }
            Err(failure) => give_back(app, identity, &claim, failure).await?,
        }
    }
    // The next call looks further.
    Ok(None)
}

/// Gives a claim back that cannot be served. An outage of the store is the server's own trouble and
/// not the ticket's, so it is returned to the caller.
async fn give_back(
    app: &App,
    identity: &Identity,
    claim: &SessionClaim,
    failure: Failure,
) -> Result<(), Failure> {
    if failure.exit == ExitKind::Store {
        return Err(failure);
    }
    let session = identity.agent_session();
    session::give_back(&app.coordinator, &session, claim, &failure.message).await?;
    claims::record_reported(app, identity, &claim.attempt()).await;
    Ok(())
}

/// Waits until there may be a job, a task or a message for this agent, until the proof of a base
/// has ended, or until the server stops.
pub async fn wait(app: &App, identity: &Identity, most: Duration) {
    let session = identity.agent_session();
    let change = async {
        tokio::select! {
            () = session::wait(&app.coordinator, &session, most) => {}
            () = app.proofs.ended() => {}
        }
    };
    app.unless_stopped(change).await;
}

/// Returns the ticket of the job that this agent holds.
pub async fn held_ticket(app: &App, identity: &Identity) -> Result<Option<TicketId>, Failure> {
    let held = session::current_claim(&app.coordinator, &identity.agent_session()).await?;
    Ok(held.map(|claim| claim.stored.ticket.id))
}

/// Records that the agent has started its job.
pub async fn accept(
    app: &App,
    identity: &Identity,
    claim_ref: &ClaimRef,
) -> Result<Assignment, Failure> {
    let claim = claims::require_reported_claim(app, identity, claim_ref).await?;
    // Described first, so that a job that cannot be served is not started.
    let described = match base_proof::wait_for_base(app, identity, &claim).await {
        Ok(BaseState::Known(note)) => build_assignment(app, identity, &claim, &note).await,
        Ok(BaseState::Pending | BaseState::Decided) => return Err(base_proof::not_proven(&claim)),
        Err(failure) => Err(failure),
    };
    let mut assignment = match described {
        Ok(assignment) => assignment,
        Err(failure) => {
            let (ticket, why) = (&claim.stored.ticket.id, failure.message.clone());
            give_back(app, identity, &claim, failure).await?;
            return Err(
                Failure::new(ExitKind::Refused, format!("{ticket} was given back: {why}"))
                    .hint("call get_my_assignment: you get other work"),
            );
        }
    };
    let ticket = session::start(&app.coordinator, &identity.agent_session(), &claim).await?;
    stage_word(ticket.stage, Dialect::Sergeant).clone_into(&mut assignment.status);
    Ok(assignment)
}

/// Extends the lease; returns its new end and the attempt that it belongs to.
pub async fn renew_lease(
    app: &App,
    identity: &Identity,
    claim_ref: &ClaimRef,
) -> Result<Option<(String, String)>, Failure> {
    let session = identity.agent_session();
    let Some(claim) = session::current_claim(&app.coordinator, &session).await? else {
        return Ok(None);
    };
    claims::check_report(app, identity, claim_ref, Some(&claim.claim())).await?;
    let until = session::renew_lease(&app.coordinator, &session, &claim).await?;
    Ok(Some((until.to_iso(), claim.attempt().to_string())))
}

/// Submits the newest commit of the branch.
pub async fn submit(
    app: &App,
    identity: &Identity,
    claim_ref: &ClaimRef,
    report: BuilderSubmission,
    once: Option<Once>,
) -> Result<Ticket, Failure> {
    let claim = claims::require_reported_claim(app, identity, claim_ref).await?;
    let ticket = &claim.stored.ticket;
    if !matches!(claim.task, Task::Build { .. }) {
        let kind = claim.task.word();
        return Err(Failure::new(
            ExitKind::Refused,
            format!("your assignment is a {kind}, not a build"),
        )
        .hint("answer it with submit_review_result"));
    }
    let (git, rules) = project::open_ticket_repository(app, ticket).await?;
    let branch = report
        .branch_name
        .clone()
        .unwrap_or_else(|| branch_of(ticket));
    let submission =
        engine::jobs::describe_submission(&git, &rules, ticket, &branch, &identity.actor.agent)
            .await?;
    let coordinator = &app.coordinator;
    let session = identity.agent_session();
    let (policy, report) = (&rules.policy, builder_report(report));
    let ticket = session::submit(
        coordinator,
        policy,
        &session,
        &claim,
        (submission, report),
        once,
    )
    .await?;
    claims::record_reported(app, identity, &claim.attempt()).await;
    Ok(ticket)
}

fn builder_report(submission: BuilderSubmission) -> SubmissionNotes {
    let claim = |claim: CriterionReport| findings::CriterionAnswer {
        criterion: findings::clean(&claim.criterion),
        met: claim.met,
        evidence: Some(findings::clean(&claim.evidence)).filter(|text| !text.is_empty()),
    };
    let report = |response: FindingResponse| FindingReport {
        finding: response.id,
        outcome: match response.outcome {
            FixOutcome::Fixed => ReportedOutcome::Fixed,
            FixOutcome::CouldNotFix => ReportedOutcome::CouldNotFix,
            FixOutcome::Disputed => ReportedOutcome::Disputed,
        },
        note: findings::clean(&response.note),
    };
    SubmissionNotes {
        summary: submission.summary,
        claims: submission.claims.into_iter().map(claim).collect(),
        reports: submission.findings.into_iter().map(report).collect(),
    }
}

/// Notes the agent's progress in the log.
pub async fn checkpoint(
    app: &App,
    identity: &Identity,
    claim_ref: &ClaimRef,
    summary: &str,
) -> Result<(), Failure> {
    let claim = claims::require_reported_claim(app, identity, claim_ref).await?;
    // No verdict is computed from a checkpoint, so a rejection in it would be lost.
    let judges = matches!(claim.task, Task::Review { .. } | Task::Verify { .. });
    if judges && findings::read(summary).claim == findings::ReviewClaim::ChangesRequested {
        return Err(
            Failure::new(ExitKind::Refused, "this checkpoint rejects the change, but a checkpoint is not a verdict; it was not recorded")
                .hint("to reject, call submit_review_result (approved: false, with feedback); a checkpoint is for progress only"),
        );
    }
    let noted = Noted {
        at: (app.coordinator.clock)(),
        ticket: Some(claim.stored.ticket.id),
        name: "checkpoint".to_owned(),
        by: identity.actor.agent.clone(),
        body: json!({"summary": findings::clean(summary)}),
    };
    Ok(app.coordinator.store.note(noted).await?)
}

/// Escalates the ticket to a person because the agent cannot continue.
pub async fn request_help(
    app: &App,
    identity: &Identity,
    claim_ref: &ClaimRef,
    why: &str,
    once: Option<Once>,
) -> Result<Ticket, Failure> {
    let claim = claims::require_reported_claim(app, identity, claim_ref).await?;
    let session = identity.agent_session();
    session::start(&app.coordinator, &session, &claim).await?;
    let kind = EventKind::HelpRequested {
        why: findings::clean(why),
        lease: Some(claim.lease),
    };
    let report = Report {
        once,
        ..Report::new(session.actor_for(&claim.task), kind)
    };
    let id = &claim.stored.ticket.id;
    let ticket = app.coordinator.decide(id, &claim.policy, report).await?;
    claims::record_reported(app, identity, &claim.attempt()).await;
    Ok(ticket)
}

async fn build_assignment(
    app: &App,
    identity: &Identity,
    claim: &SessionClaim,
    base_note: &str,
) -> Result<Assignment, Failure> {
    let stored = &claim.stored;
    let ticket = &stored.ticket;
    let (git, rules) = project::open_ticket_repository(app, ticket).await?;
    let (policy, project_rules) = (&rules.policy, &rules.rules);
    let (brief, commit) = match &claim.task {
        Task::Review {
            reviewer, commit, ..
        } => (
            flow::brief::for_reviewer(ticket, reviewer, policy, project_rules, RECIPIENT),
            Some(commit),
        ),
        Task::Verify {
            findings, commit, ..
        } => (
            flow::brief::for_verifier(ticket, findings, project_rules, RECIPIENT),
            Some(commit),
        ),
        Task::Build { .. }
        | Task::Check { .. }
        | Task::Merge { .. }
        | Task::Tell { .. }
        | Task::Report => (
            flow::brief::for_builder(ticket, policy, project_rules, RECIPIENT),
            None,
        ),
    };
    let builds = matches!(claim.task, Task::Build { .. });
    let clone_url = git_access::clone_url(identity, claim);
    let branch = branch_of(ticket);
    let ways = RepositoryWays {
        path: &git.common_dir().to_string_lossy(),
        branch: &branch,
        base_branch: &rules.base_branch,
        commit: commit.map(String::as_str),
        clone_url: clone_url.as_deref(),
    };
    let brief = flow::brief::with_repository_ways(&format!("{base_note}{brief}"), &ways);
    let credential = clone_url
        .as_ref()
        .and_then(|_| identity.claim_credential(&claim.attempt()));
    Ok(Assignment {
        id: stored.number,
        status: stage_word(ticket.stage, Dialect::Sergeant).to_owned(),
        review_attempt: ticket.review_attempt(),
        max_cycles: policy.rounds_allowed(ticket.counts.granted),
        review_feedback: flow::brief::feedback(ticket, policy).filter(|_| builds),
        branch_name: branch,
        ticket: ticket.id.to_string(),
        kind: claim.task.word().to_owned(),
        title: ticket.spec.title.clone(),
        attempt: claim.attempt().to_string(),
        lease_until: claim.until.to_iso(),
        base_branch: rules.base_branch,
        repository: ticket.spec.context.repository.clone(),
        clone_url,
        clone_credential: credential,
        commit: commit.cloned(),
        brief,
    })
}

pub(super) fn branch_of(ticket: &Ticket) -> String {
    engine::jobs::branch_name(ticket)
}

/// Returns the stored answer if a call with the same idempotency key was answered before. The same
/// key with another payload is an error.
pub async fn recall_answer(
    app: &App,
    key: &str,
    payload_hash: &str,
) -> Result<Option<Value>, Failure> {
    match app.coordinator.store.recall(key).await? {
        Some(stored) if stored.payload_hash == payload_hash => Ok(Some(stored.answer)),
        Some(_) => Err(store::Error::KeyReused {
            key: key.to_owned(),
        }
        .into()),
        None => Ok(None),
    }
}
