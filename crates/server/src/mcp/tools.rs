//! The tools, with the seeds' names and fields. An error that the agent can act on is an answer.

use std::time::Duration;

use flow::standing::{Action, Denied};
use flow::{Role, Ticket};
use rmcp::handler::server::common::Extension;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{Json, tool, tool_router};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::reporting::once;
use super::words::{
    AcceptedReply, AssignmentParams, DisputeParams, HeartbeatParams, HelpParams, LeaseReply,
    MessageReply, NoParams, ReviewResultParams, SendMessageParams, SubmitParams, SubmitReply,
    SummaryParams, WaitParams, WorkReply,
};
use super::{McpServer, told};
use app::failure::Failure;
use app::operations::assignments::verdict::{self, ReviewOutcome, VerdictInput};
use app::operations::assignments::{self, BuilderSubmission, ClaimRef, claims, context};
use app::operations::identity::Identity;
use app::operations::messages::{self, MessageKind};
use app::operations::tasks;

type CallerIdentity = Extension<Identity>;

/// Longer waits are cut by what stands between.
const WAIT_SECS_MAX: u64 = 50;
/// How soon work is looked for again where what there is was not for the agent that waits.
const REST: Duration = Duration::from_millis(250);
const WAIT_SECS_DEFAULT: u64 = 25;

/// What somebody may call: its role's, but for what those may not do whom we have started.
pub fn of(speaker: &Identity) -> Vec<&'static str> {
    let tools = of_role(speaker.actor.role).iter().copied();
    tools
        .filter(|tool| speaker.standing.may(deed(tool)).is_ok())
        .collect()
}

/// Why somebody may not call what others of its role may.
pub fn barred(speaker: &Identity, tool: &str) -> Option<Denied> {
    let theirs = of_role(speaker.actor.role).contains(&tool);
    speaker.standing.may(deed(tool)).err().filter(|_| theirs)
}

fn deed(tool: &str) -> Action {
    match tool {
        "heartbeat" | "checkpoint" | "request_help" | "send_message" | "dispute_finding"
        | "get_review_context" => Action::Speak,
        "get_my_assignment" | "wait_for_work" | "accept_assignment" => Action::Take,
        "queue_task_for_agent" => Action::Order,
        _ => Action::Report,
    }
}

/// What each role may call.
fn of_role(role: Role) -> &'static [&'static str] {
    match role {
        Role::Builder => &[
            "get_my_assignment",
            "wait_for_work",
            "accept_assignment",
            "submit_for_review",
            "dispute_finding",
            "complete",
            "heartbeat",
            "checkpoint",
            "request_help",
            "send_message",
            "queue_task_for_agent",
        ],
        Role::Reviewer => &[
            "get_my_assignment",
            "wait_for_work",
            "accept_assignment",
            "get_review_context",
            "submit_review_result",
            "complete",
            "heartbeat",
            "checkpoint",
            "request_help",
            "send_message",
            "queue_task_for_agent",
        ],
        Role::Verifier => &[
            "get_my_assignment",
            "wait_for_work",
            "accept_assignment",
            "get_review_context",
            "submit_review_result",
            "heartbeat",
            "request_help",
        ],
        Role::Human | Role::Service | Role::Admin => &["send_message", "queue_task_for_agent"],
    }
}

#[tool_router(router = tools, vis = "pub(super)")]
impl McpServer {
    #[tool(
        description = "The work in your hands, or the most urgent that you may take; a lease on it begins.",
        annotations(
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn get_my_assignment(
        &self,
        Extension(who): CallerIdentity,
        _: Parameters<NoParams>,
    ) -> Result<Json<WorkReply>, String> {
        self.work(&who).await
    }

    #[tool(
        description = "Like get_my_assignment, but waits until there is something.",
        annotations(
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn wait_for_work(
        &self,
        Extension(who): CallerIdentity,
        Parameters(wait): Parameters<WaitParams>,
    ) -> Result<Json<WorkReply>, String> {
        let secs = wait.timeout_secs.unwrap_or(WAIT_SECS_DEFAULT);
        let end = Instant::now() + Duration::from_secs(secs.min(WAIT_SECS_MAX));
        let mut in_vain = false;
        loop {
            let work = self.work(&who).await?;
            let left = end.saturating_duration_since(Instant::now());
            let found = work.0.assignment.is_some() || work.0.task.is_some();
            if found || !work.0.messages.is_empty() || left.is_zero() {
                return Ok(work);
            }
            if in_vain {
                // What is ready is not for this agent, and would wake it without end.
                tokio::time::sleep(REST.min(left)).await;
            }
            let began = Instant::now();
            assignments::wait(&self.office, &who, left).await;
            in_vain = began.elapsed() < REST;
        }
    }

    #[tool(
        description = "Say that you are at work on your assignment.",
        annotations(
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn accept_assignment(
        &self,
        Extension(who): CallerIdentity,
        Parameters(which): Parameters<AssignmentParams>,
    ) -> Result<Json<AcceptedReply>, String> {
        let accepted = assignments::accept(&self.office, &who, &which.into()).await;
        let accepted = accepted.map(|assignment| AcceptedReply {
            status: assignment.status,
            attempt: assignment.attempt,
            lease_until: assignment.lease_until,
        });
        self.answer(&who, "accept_assignment", accepted).await
    }

    #[tool(
        description = "Put the newest commit of your branch forward for checks and review.",
        annotations(
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn submit_for_review(
        &self,
        Extension(who): CallerIdentity,
        Parameters(put): Parameters<SubmitParams>,
    ) -> Result<Json<SubmitReply>, String> {
        let once = once(&who, "submit", put.attempt.as_deref(), &put, taken_value);
        let (office, call, speaker) = (&self.office, once.clone(), who.clone());
        let named = ClaimRef {
            number: put.assignment_id,
            ..ClaimRef::attempt(put.attempt)
        };
        let report = async move {
            let said = BuilderSubmission {
                branch_name: put.branch_name,
                summary: put.summary,
                claims: put.claims,
                findings: put.findings,
            };
            let ticket = assignments::submit(office, &who, &named, said, call).await?;
            Ok(taken(&ticket))
        };
        let reported = self.reported(once.as_ref(), Box::pin(report)).await;
        self.answer(&speaker, "submit_for_review", reported).await
    }

    #[tool(
        description = "The eleven fields that a review rests on.",
        annotations(
            read_only_hint = true,
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn get_review_context(
        &self,
        Extension(who): CallerIdentity,
        Parameters(which): Parameters<AssignmentParams>,
    ) -> Result<Json<context::ReviewContext>, String> {
        let context = context::of(&self.office, &who, &which.into()).await;
        self.answer(&who, "get_review_context", context).await
    }

    #[tool(
        description = "Your verdict on the exact commit: approved with feedback, or a whole report. Pass or fail is recomputed from it.",
        annotations(
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn submit_review_result(
        &self,
        Extension(who): CallerIdentity,
        Parameters(judged): Parameters<ReviewResultParams>,
    ) -> Result<Json<ReviewOutcome>, String> {
        let attempt = judged.attempt.clone();
        let once = once(
            &who,
            "review",
            attempt.as_deref(),
            &judged,
            verdict::outcome_value,
        );
        let named = ClaimRef {
            number: judged.assignment_id,
            ..ClaimRef::attempt(attempt).with_verdict(&judged)
        };
        let word = word(judged);
        let report = verdict::pass(&self.office, &who, &named, word, once.clone());
        let reported = self.reported(once.as_ref(), Box::pin(report)).await;
        self.answer(&who, "submit_review_result", reported).await
    }

    #[tool(
        description = "Say that a finding is wrong, and why; a verifier will decide. Goes with your next submission.",
        annotations(
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn dispute_finding(
        &self,
        Extension(who): CallerIdentity,
        Parameters(dispute): Parameters<DisputeParams>,
    ) -> Result<Json<MessageReply>, String> {
        let DisputeParams {
            finding,
            reason,
            attempt,
        } = dispute;
        let named = ClaimRef::attempt(attempt);
        let disputed = messages::dispute(&self.office, &who, &named, (&finding, &reason)).await;
        let said = disputed.map(|()| MessageReply {
            message: format!("{finding} is disputed; that goes with your result"),
        });
        self.answer(&who, "dispute_finding", said).await
    }

    #[tool(
        description = "Your turn is over: a builder's branch is put forward, a reviewer's messages become its verdict, a task is done.",
        annotations(
            destructive_hint = false,
            idempotent_hint = false,
            open_world_hint = false
        )
    )]
    async fn complete(
        &self,
        Extension(who): CallerIdentity,
        Parameters(ended): Parameters<SummaryParams>,
    ) -> Result<Json<MessageReply>, String> {
        let once = once(
            &who,
            "complete",
            ended.attempt.as_deref(),
            &ended,
            taken_value,
        );
        let (office, speaker, call) = (&self.office, &who, once.clone());
        let report = async move {
            let named = ClaimRef::attempt(ended.attempt);
            let message = match tasks::finish(office, speaker, &named, &ended.summary).await? {
                Some(id) => format!("task {id} is done"),
                None => messages::complete(office, speaker, &named, &ended.summary, call)
                    .await?
                    .message(),
            };
            Ok(MessageReply { message })
        };
        let said = self.reported(once.as_ref(), Box::pin(report)).await;
        self.answer(&who, "complete", said).await
    }

    #[tool(
        description = "A sign of life; keeps your lease.",
        annotations(
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn heartbeat(
        &self,
        Extension(who): CallerIdentity,
        Parameters(beat): Parameters<HeartbeatParams>,
    ) -> Result<Json<LeaseReply>, String> {
        let alive = self.alive(&who, beat.attempt).await;
        self.answer(&who, "heartbeat", alive).await
    }

    #[tool(
        description = "Note how far you are; keeps your lease too.",
        annotations(
            destructive_hint = false,
            idempotent_hint = false,
            open_world_hint = false
        )
    )]
    async fn checkpoint(
        &self,
        Extension(who): CallerIdentity,
        Parameters(ended): Parameters<SummaryParams>,
    ) -> Result<Json<LeaseReply>, String> {
        let named = ClaimRef::attempt(ended.attempt);
        let noted = assignments::checkpoint(&self.office, &who, &named, &ended.summary).await;
        let alive = match noted {
            Ok(()) => self.alive(&who, named.attempt).await,
            Err(failure) => Err(failure),
        };
        self.answer(&who, "checkpoint", alive).await
    }

    #[tool(
        description = "You cannot go on: a person is asked, and your assignment waits for the answer.",
        annotations(
            destructive_hint = false,
            idempotent_hint = false,
            open_world_hint = false
        )
    )]
    async fn request_help(
        &self,
        Extension(who): CallerIdentity,
        Parameters(reason): Parameters<HelpParams>,
    ) -> Result<Json<MessageReply>, String> {
        let once = once(
            &who,
            "help",
            reason.attempt.as_deref(),
            &reason,
            waiting_value,
        );
        let (office, speaker, call) = (&self.office, &who, once.clone());
        let report = async move {
            let named = ClaimRef::attempt(reason.attempt);
            let asked = assignments::ask_for_help(office, speaker, &named, &reason.why, call);
            Ok(waiting(&asked.await?))
        };
        let said = self.reported(once.as_ref(), Box::pin(report)).await;
        self.answer(&who, "request_help", said).await
    }

    #[tool(
        description = "A message to another agent. A reviewer's approved or changes_requested becomes its verdict when it calls complete.",
        annotations(
            destructive_hint = false,
            idempotent_hint = false,
            open_world_hint = false
        )
    )]
    async fn send_message(
        &self,
        Extension(who): CallerIdentity,
        Parameters(post): Parameters<SendMessageParams>,
    ) -> Result<Json<MessageReply>, String> {
        let submits = post.kind == MessageKind::NeedsReview;
        let attempt = post.attempt.as_deref().filter(|_| submits);
        let once = once(&who, "message", attempt, &post, taken_value);
        let (office, speaker, call) = (&self.office, &who, once.clone());
        let report = async move {
            let named = ClaimRef::attempt(post.attempt.clone()).with_verdict(&post);
            let words = (post.kind, post.content.as_str());
            let sent = messages::send(office, speaker, &post.to, words, &named, call).await?;
            let message = match sent {
                Some(completed) => completed.message(),
                None => format!("sent to {}", post.to),
            };
            Ok(MessageReply { message })
        };
        let said = self.reported(once.as_ref(), Box::pin(report)).await;
        self.answer(&who, "send_message", said).await
    }

    #[tool(
        description = "Queue a task for another agent. A reviewer's task of type fix sends the change it judges back.",
        annotations(
            destructive_hint = false,
            idempotent_hint = false,
            open_world_hint = false
        )
    )]
    async fn queue_task_for_agent(
        &self,
        Extension(who): CallerIdentity,
        Parameters(wanted): Parameters<tasks::TaskRequest>,
    ) -> Result<Json<tasks::QueuedTask>, String> {
        let queued = tasks::queue(&self.office, &who, wanted).await;
        self.answer(&who, "queue_task_for_agent", queued).await
    }
}

impl McpServer {
    async fn work(&self, who: &Identity) -> Result<Json<WorkReply>, String> {
        let office = &self.office;
        let assignment = assignments::current(office, who).await.map_err(told)?;
        let task = match &assignment {
            Some(_) => None,
            None => tasks::current(office, who).await.map_err(told)?,
        };
        let messages = messages::read(office, who).await.map_err(told)?;
        Ok(Json(WorkReply {
            assignment,
            task,
            messages,
        }))
    }

    async fn alive(&self, who: &Identity, attempt: Option<String>) -> Result<LeaseReply, Failure> {
        let (office, named) = (&self.office, ClaimRef::attempt(attempt));
        let held = match assignments::beat(office, who, &named).await? {
            Some(held) => Some(held),
            None => tasks::beat(office, who, &named).await?,
        };
        if held.is_none() && named.attempt.is_some() {
            claims::admit(office, who, &named, None).await?;
        }
        let (lease_until, attempt) = held.unzip();
        Ok(LeaseReply {
            lease_until,
            attempt,
        })
    }
}

impl From<AssignmentParams> for ClaimRef {
    fn from(which: AssignmentParams) -> Self {
        Self {
            number: which.assignment_id,
            ..Self::attempt(which.attempt)
        }
    }
}

fn waiting_value(ticket: &Ticket) -> Value {
    json!(waiting(ticket))
}

fn waiting(ticket: &Ticket) -> MessageReply {
    MessageReply {
        message: format!("{} waits for a person now", ticket.id),
    }
}

fn taken_value(ticket: &Ticket) -> Value {
    json!(taken(ticket))
}

fn taken(ticket: &Ticket) -> SubmitReply {
    let commit = ticket.submission.as_ref().map(|put| put.commit.clone());
    SubmitReply {
        status: "submitted".to_owned(),
        review_attempt: ticket.round,
        commit: commit.unwrap_or_default(),
        message: messages::submitted(ticket),
    }
}

fn word(judged: ReviewResultParams) -> VerdictInput {
    let mut report = Map::new();
    let fields = [
        ("commit", judged.commit.map(Value::from)),
        ("findings", judged.findings.map(|found| json!(found))),
        (
            "dimension_scores",
            judged.dimension_scores.map(Value::Object),
        ),
        (
            "blocking_issues",
            judged.blocking_issues.map(|found| json!(found)),
        ),
        ("overall_score", judged.overall_score.map(Value::from)),
        ("revision_notes", judged.revision_notes.map(Value::from)),
        ("criteria", judged.criteria.map(|found| json!(found))),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            report.insert(name.to_owned(), value);
        }
    }
    VerdictInput {
        approved: judged.approved,
        feedback: judged.feedback,
        report,
        answers: judged.answers,
    }
}
