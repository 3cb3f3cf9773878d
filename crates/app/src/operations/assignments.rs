//! Work for agents that come by themselves, in the words of the systems that they were written for:
//! an assignment is a job of a ticket in their hands. What they report goes to the desk.

pub mod claims;
pub mod context;
pub mod verdict;

use std::time::Duration;

use engine::coordinator::{Once, Report};
use engine::session::{self, AgentSession, Said, SessionClaim};
use flow::brief::Recipient;
use flow::dialect::{Dialect, word};
use flow::event::{FindingReport, ReportedOutcome};
use flow::{EventKind, Task, Ticket, TicketId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::Noted;

use super::identity::Identity;
use super::{App, project, tasks};
use crate::failure::{ExitKind, Failure};
pub use claims::ClaimRef;

/// Agents that connect by themselves answer with tools.
const RECIPIENT: Recipient = Recipient::Connected;

/// A job in an agent's hands. The first fields are 000's.
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
    /// Unless a heartbeat comes.
    pub lease_until: String,
    pub base_branch: String,
    pub repository: Option<String>,
    /// The exact commit to judge.
    pub commit: Option<String>,
    /// The brief.
    pub brief: String,
}

/// What a builder says when it submits.
#[derive(Clone, Debug, Default, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BuilderSubmission {
    /// The ticket's own, unless another is named.
    pub branch_name: Option<String>,
    pub summary: String,
    pub claims: Vec<CriterionReport>,
    pub findings: Vec<FindingResponse>,
}

/// One acceptance criterion, in the builder's eyes.
#[derive(Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CriterionReport {
    pub criterion: String,
    pub met: bool,
    #[serde(default)]
    pub evidence: String,
}

/// What became of a finding.
#[derive(Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FindingResponse {
    /// As the brief names it: F1, F2, …
    pub id: String,
    pub outcome: FixOutcome,
    /// Why, where it was not fixed.
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
    pub fn agent_session(&self) -> AgentSession {
        AgentSession {
            actor: self.actor.clone(),
            ticket: self.ticket.clone(),
            standing: self.standing,
            task_queues: tasks::queues(self),
        }
    }
}

/// What the agent has in hand, else the most urgent that it may take.
pub async fn current(office: &App, speaker: &Identity) -> Result<Option<Assignment>, Failure> {
    match session::take(&office.desk, &speaker.agent_session()).await? {
        Some(errand) => {
            let described = describe(office, &errand).await?;
            claims::given(office, speaker, &errand.attempt()).await?;
            Ok(Some(described))
        }
        None => Ok(None),
    }
}

/// Waits until there may be a job, a task or a message for this agent.
pub async fn wait(office: &App, speaker: &Identity, most: Duration) {
    session::wait(&office.desk, &speaker.agent_session(), most).await;
}

/// Returns the ticket of the job that this agent holds.
pub async fn held(office: &App, speaker: &Identity) -> Result<Option<TicketId>, Failure> {
    let held = session::held(&office.desk, &speaker.agent_session()).await?;
    Ok(held.map(|claim| claim.stored.ticket.id))
}

/// The agent says that it is at work.
pub async fn accept(
    office: &App,
    speaker: &Identity,
    named: &ClaimRef,
) -> Result<Assignment, Failure> {
    let errand = claims::reporting(office, speaker, named).await?;
    session::start(&office.desk, &speaker.agent_session(), &errand).await?;
    describe(office, &claims::reporting(office, speaker, named).await?).await
}

/// Prolongs the lease; says until when, and under which attempt.
pub async fn beat(
    office: &App,
    speaker: &Identity,
    named: &ClaimRef,
) -> Result<Option<(String, String)>, Failure> {
    let session = speaker.agent_session();
    let Some(errand) = session::held(&office.desk, &session).await? else {
        return Ok(None);
    };
    claims::admit(office, speaker, named, Some(&errand.claim())).await?;
    let until = session::beat(&office.desk, &session, &errand).await?;
    Ok(Some((until.iso(), errand.attempt().to_string())))
}

/// Puts the newest commit of the branch forward.
pub async fn submit(
    office: &App,
    speaker: &Identity,
    named: &ClaimRef,
    said: BuilderSubmission,
    once: Option<Once>,
) -> Result<Ticket, Failure> {
    let errand = claims::reporting(office, speaker, named).await?;
    let ticket = &errand.stored.ticket;
    if !matches!(errand.task, Task::Build { .. }) {
        let kind = errand.task.word();
        return Err(Failure::new(
            ExitKind::Refused,
            format!("what you have in hand is a {kind}, not a build"),
        )
        .hint("answer it with submit_review_result"));
    }
    let (git, rules) = project::of_ticket(office, ticket).await?;
    let branch = said
        .branch_name
        .clone()
        .unwrap_or_else(|| branch_of(ticket));
    let put =
        engine::perform::put_forward(&git, &rules, ticket, &branch, &speaker.actor.agent).await?;
    let desk = &office.desk;
    let session = speaker.agent_session();
    let (policy, said) = (&rules.policy, of_builder(said));
    let ticket = session::submit(desk, policy, &session, &errand, (put, said), once).await?;
    claims::reported(office, speaker, &errand.attempt()).await;
    Ok(ticket)
}

fn of_builder(said: BuilderSubmission) -> Said {
    let claim = |claim: CriterionReport| findings::CriterionAnswer {
        criterion: findings::clean(&claim.criterion),
        met: claim.met,
        evidence: Some(findings::clean(&claim.evidence)).filter(|text| !text.is_empty()),
    };
    let report = |handled: FindingResponse| FindingReport {
        finding: handled.id,
        outcome: match handled.outcome {
            FixOutcome::Fixed => ReportedOutcome::Fixed,
            FixOutcome::CouldNotFix => ReportedOutcome::CouldNotFix,
            FixOutcome::Disputed => ReportedOutcome::Disputed,
        },
        note: findings::clean(&handled.note),
    };
    Said {
        summary: said.summary,
        claims: said.claims.into_iter().map(claim).collect(),
        reports: said.findings.into_iter().map(report).collect(),
    }
}

/// Notes how far the agent is.
pub async fn checkpoint(
    office: &App,
    speaker: &Identity,
    named: &ClaimRef,
    summary: &str,
) -> Result<(), Failure> {
    let errand = claims::reporting(office, speaker, named).await?;
    // Nobody weighs a checkpoint, so a refusal in it would be lost.
    let judges = matches!(errand.task, Task::Review { .. } | Task::Verify { .. });
    if judges && findings::read(summary).claim == findings::ReviewClaim::ChangesRequested {
        return Err(
            Failure::new(ExitKind::Refused, "this checkpoint refuses the change, and a checkpoint is no verdict; it was not noted")
                .hint("refuse with submit_review_result (approved: false, with feedback), or send a checkpoint about your progress only"),
        );
    }
    let noted = Noted {
        at: (office.desk.clock)(),
        ticket: Some(errand.stored.ticket.id),
        name: "checkpoint".to_owned(),
        by: speaker.actor.agent.clone(),
        body: json!({"summary": findings::clean(summary)}),
    };
    Ok(office.desk.store.note(noted).await?)
}

/// The agent cannot go on: a person is asked.
pub async fn ask_for_help(
    office: &App,
    speaker: &Identity,
    named: &ClaimRef,
    why: &str,
    once: Option<Once>,
) -> Result<Ticket, Failure> {
    let errand = claims::reporting(office, speaker, named).await?;
    let session = speaker.agent_session();
    session::start(&office.desk, &session, &errand).await?;
    let what = EventKind::HelpRequested {
        why: findings::clean(why),
        lease: Some(errand.lease),
    };
    let report = Report {
        once,
        ..Report::new(session.actor_for(&errand.task), what)
    };
    let id = &errand.stored.ticket.id;
    let ticket = office.desk.decide(id, &errand.policy, report).await?;
    claims::reported(office, speaker, &errand.attempt()).await;
    Ok(ticket)
}

async fn describe(office: &App, errand: &SessionClaim) -> Result<Assignment, Failure> {
    let stored = &errand.stored;
    let ticket = &stored.ticket;
    let (_, rules) = project::of_ticket(office, ticket).await?;
    let (policy, house) = (&rules.policy, &rules.house);
    let (brief, commit) = match &errand.task {
        Task::Review { seat, commit, .. } => (
            flow::brief::for_reviewer(ticket, seat, policy, house, RECIPIENT),
            Some(commit),
        ),
        Task::Verify {
            findings, commit, ..
        } => (
            flow::brief::verify(ticket, findings, house, RECIPIENT),
            Some(commit),
        ),
        Task::Build { .. } | Task::Check { .. } | Task::Merge { .. } | Task::Tell { .. } => {
            (flow::brief::build(ticket, policy, house, RECIPIENT), None)
        }
    };
    let builds = matches!(errand.task, Task::Build { .. });
    Ok(Assignment {
        id: stored.number,
        status: word(ticket.stage, Dialect::Sergeant).to_owned(),
        review_attempt: ticket.round,
        max_cycles: policy.rounds_allowed(ticket.counts.granted),
        review_feedback: flow::brief::feedback(ticket, policy).filter(|_| builds),
        branch_name: branch_of(ticket),
        ticket: ticket.id.to_string(),
        kind: errand.task.word().to_owned(),
        title: ticket.spec.title.clone(),
        attempt: errand.attempt().to_string(),
        lease_until: errand.until.iso(),
        base_branch: rules.base_branch,
        repository: ticket.spec.context.repository.clone(),
        commit: commit.cloned(),
        brief,
    })
}

fn branch_of(ticket: &Ticket) -> String {
    engine::perform::branch(ticket)
}

/// The answer to a call that came before under the same key, if one did.
pub async fn recall(office: &App, key: &str, payload_hash: &str) -> Result<Option<Value>, Failure> {
    match office.desk.store.recall(key).await? {
        Some(first) if first.payload_hash == payload_hash => Ok(Some(first.answer)),
        Some(_) => Err(store::Error::KeyReused {
            key: key.to_owned(),
        }
        .into()),
        None => Ok(None),
    }
}
