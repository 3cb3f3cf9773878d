//! MCP tools. Their names and fields are part of the public interface. An error that the agent can
//! act on is returned as the tool's answer, not as a protocol error.

use std::time::Duration;

use flow::{Policy, Ticket};
use rmcp::handler::server::common::Extension;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{Json, tool, tool_router};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::reporting::once;
use super::tool_types::{
    AcceptedReply, AssignmentParams, DiffParams, DisputeParams, HeartbeatParams, HelpParams,
    LeaseReply, MessageReply, NoParams, ReportStatus, ReviewResultParams, SendMessageParams,
    SubmitParams, SubmitReply, SummaryParams, WaitParams, WorkReply,
};
use super::{McpServer, error_text};
use app::failure::Failure;
use app::operations::assignments::verdict::{self, ReviewOutcome, VerdictInput};
use app::operations::assignments::{self, BuilderSubmission, ClaimRef, change, claims, context};
use app::operations::identity::Identity;
use app::operations::messages::{self, MessageKind};
use app::operations::tasks;

pub(super) type CallerIdentity = Extension<Identity>;

/// Longest time that a call waits for work.
/// Proxies in between cut longer waits.
const WAIT_SECS_MAX: u64 = 50;
/// Back-off after a wake-up without work for this agent.
const EMPTY_CLAIM_DELAY: Duration = Duration::from_millis(250);
const WAIT_SECS_DEFAULT: u64 = 25;

#[tool_router(router = tools, vis = "pub(super)")]
impl McpServer {
    #[tool(
        description = "Returns your current assignment, or leases you the most urgent one that you may take.",
        annotations(
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn get_my_assignment(
        &self,
        Extension(identity): CallerIdentity,
        _: Parameters<NoParams>,
    ) -> Result<Json<WorkReply>, String> {
        Box::pin(self.current_work(&identity)).await
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
        Extension(identity): CallerIdentity,
        Parameters(wait): Parameters<WaitParams>,
    ) -> Result<Json<WorkReply>, String> {
        let secs = wait.timeout_secs.unwrap_or(WAIT_SECS_DEFAULT);
        let end = Instant::now() + Duration::from_secs(secs.min(WAIT_SECS_MAX));
        // Looks before it waits: work that was there before the call wakes nobody.
        let mut woke_early = false;
        loop {
            let work = Box::pin(self.current_work(&identity)).await?;
            // The time is taken after the look, because the look may have waited for the store.
            let left = end.saturating_duration_since(Instant::now());
            let has_work = work.0.assignment.is_some() || work.0.task.is_some();
            // A server that stops answers its callers, so that they connect to the next one.
            let is_stopping = self.app.stop.is_requested();
            if has_work || !work.0.messages.is_empty() || left.is_zero() || is_stopping {
                return Ok(work);
            }
            if woke_early {
                // A ready job that is not for this agent would wake it at once, without end.
                tokio::time::sleep(EMPTY_CLAIM_DELAY.min(left)).await;
            }
            let began = Instant::now();
            assignments::wait(&self.app, &identity, left).await;
            woke_early = began.elapsed() < EMPTY_CLAIM_DELAY;
        }
    }

    #[tool(
        description = "Accept your assignment: you start to work on it.",
        annotations(
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn accept_assignment(
        &self,
        Extension(identity): CallerIdentity,
        Parameters(params): Parameters<AssignmentParams>,
    ) -> Result<Json<AcceptedReply>, String> {
        let accepted = assignments::accept(&self.app, &identity, &params.into()).await;
        let accepted = accepted.map(|assignment| AcceptedReply {
            // Only what the agent needs to go on: it has had the whole assignment already.
            status: assignment.status,
            attempt: assignment.attempt,
            lease_until: assignment.lease_until,
        });
        self.answer(&identity, "accept_assignment", accepted).await
    }

    #[tool(
        description = "Submit the newest commit of your branch for checks and review.",
        annotations(
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn submit_for_review(
        &self,
        Extension(identity): CallerIdentity,
        Parameters(submission): Parameters<SubmitParams>,
    ) -> Result<Json<SubmitReply>, String> {
        let once = once(
            &identity,
            "submit",
            submission.attempt.as_deref(),
            &submission,
            submit_reply_value,
        );
        // The report consumes the identity, and the answer is recorded under it.
        let (app, call, caller) = (&self.app, once.clone(), identity.clone());
        let claim = ClaimRef {
            number: submission.assignment_id,
            ..ClaimRef::attempt(submission.attempt)
        };
        let report = async move {
            let submission = BuilderSubmission {
                branch_name: submission.branch_name,
                summary: submission.summary,
                claims: submission.claims,
                findings: submission.findings,
            };
            let ticket = assignments::submit(app, &identity, &claim, submission, call).await?;
            Ok(submit_reply(&ticket))
        };
        // An agent that lost our answer repeats the call. It gets the first answer again and no
        // error.
        let reported = self.run_once(once.as_ref(), Box::pin(report)).await;
        self.answer(&caller, "submit_for_review", reported).await
    }

    #[tool(
        description = "Returns the review context: commits, changed files, test status, criteria, feedback.",
        annotations(
            read_only_hint = true,
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn get_review_context(
        &self,
        Extension(identity): CallerIdentity,
        Parameters(params): Parameters<AssignmentParams>,
    ) -> Result<Json<context::ReviewContext>, String> {
        let context = context::load_review_context(&self.app, &identity, &params.into()).await;
        self.answer(&identity, "get_review_context", context).await
    }

    #[tool(
        description = "Returns the change as a diff, in pages: call again with offset = next.",
        annotations(
            read_only_hint = true,
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn get_diff(
        &self,
        Extension(identity): CallerIdentity,
        Parameters(params): Parameters<DiffParams>,
    ) -> Result<Json<change::DiffPage>, String> {
        let claim = ClaimRef::attempt(params.attempt);
        let request = change::DiffRequest {
            file: params.file,
            offset: params.offset.unwrap_or_default(),
            // The size of a page is ours to choose: the answer must fit the limits of MCP clients.
            page_bytes: None,
        };
        let page = Box::pin(change::load_diff_page(
            &self.app, &identity, &claim, &request,
        ))
        .await;
        self.answer(&identity, "get_diff", page).await
    }

    #[tool(
        description = "Your verdict on the exact commit. Needs approved (if false, with feedback or findings), or answers for a verification. Pass or fail is recomputed.",
        annotations(
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn submit_review_result(
        &self,
        Extension(identity): CallerIdentity,
        Parameters(review): Parameters<ReviewResultParams>,
    ) -> Result<Json<ReviewOutcome>, String> {
        // The claim is looked up by the attempt, so that a late review of an earlier claim is
        // recognised.
        let attempt = review.attempt.clone();
        let once = once(
            &identity,
            "review",
            attempt.as_deref(),
            &review,
            verdict::outcome_value,
        );
        let claim = ClaimRef {
            number: review.assignment_id,
            ..ClaimRef::attempt(attempt).with_verdict(&review)
        };
        let verdict = verdict_input(review);
        let report = verdict::submit_verdict(&self.app, &identity, &claim, verdict, once.clone());
        let reported = self.run_once(once.as_ref(), Box::pin(report)).await;
        self.answer(&identity, "submit_review_result", reported)
            .await
    }

    #[tool(
        description = "Dispute a finding with a reason; a verifier will decide. It is sent with your next submission.",
        annotations(
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn dispute_finding(
        &self,
        Extension(identity): CallerIdentity,
        Parameters(dispute): Parameters<DisputeParams>,
    ) -> Result<Json<MessageReply>, String> {
        let DisputeParams {
            finding,
            reason,
            attempt,
        } = dispute;
        let claim = ClaimRef::attempt(attempt);
        let disputed = messages::dispute(&self.app, &identity, &claim, (&finding, &reason)).await;
        let outcome = disputed.map(|()| MessageReply {
            message: format!(
                "{finding} is disputed; the dispute is sent with your next submission"
            ),
        });
        self.answer(&identity, "dispute_finding", outcome).await
    }

    #[tool(
        description = "Finish your turn: a builder's branch is submitted, a reviewer's messages become its verdict, a task is done.",
        annotations(
            destructive_hint = false,
            idempotent_hint = false,
            open_world_hint = false
        )
    )]
    async fn complete(
        &self,
        Extension(identity): CallerIdentity,
        Parameters(summary): Parameters<SummaryParams>,
    ) -> Result<Json<MessageReply>, String> {
        let once = once(
            &identity,
            "complete",
            summary.attempt.as_deref(),
            &summary,
            submit_reply_value,
        );
        let (app, caller, call) = (&self.app, &identity, once.clone());
        let report = async move {
            let claim = ClaimRef::attempt(summary.attempt);
            // A task has no ticket. If the caller has one, `complete` means it; otherwise its
            // assignment.
            let message = match tasks::finish_task(app, caller, &claim, &summary.summary).await? {
                Some(id) => format!("task {id} is done"),
                None => Box::pin(messages::complete(
                    app,
                    caller,
                    &claim,
                    &summary.summary,
                    call,
                ))
                .await?
                .message(),
            };
            Ok(MessageReply { message })
        };
        let outcome = self.run_once(once.as_ref(), Box::pin(report)).await;
        self.answer(&identity, "complete", outcome).await
    }

    #[tool(
        description = "Report that you are still working; renews your lease.",
        annotations(
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn heartbeat(
        &self,
        Extension(identity): CallerIdentity,
        Parameters(beat): Parameters<HeartbeatParams>,
    ) -> Result<Json<LeaseReply>, String> {
        let alive = self.renew_lease(&identity, beat.attempt).await;
        self.answer(&identity, "heartbeat", alive).await
    }

    #[tool(
        description = "Record your progress; renews your lease.",
        annotations(
            destructive_hint = false,
            idempotent_hint = false,
            open_world_hint = false
        )
    )]
    async fn checkpoint(
        &self,
        Extension(identity): CallerIdentity,
        Parameters(note): Parameters<SummaryParams>,
    ) -> Result<Json<LeaseReply>, String> {
        let claim = ClaimRef::attempt(note.attempt);
        let noted = assignments::checkpoint(&self.app, &identity, &claim, &note.summary).await;
        // A checkpoint of a lost claim must not renew the lease of a newer one, so it is recorded
        // first.
        let alive = match noted {
            Ok(()) => self.renew_lease(&identity, claim.attempt).await,
            Err(failure) => Err(failure),
        };
        self.answer(&identity, "checkpoint", alive).await
    }

    #[tool(
        description = "Ask a person for help when you cannot go on; your assignment waits for the answer.",
        annotations(
            destructive_hint = false,
            idempotent_hint = false,
            open_world_hint = false
        )
    )]
    async fn request_help(
        &self,
        Extension(identity): CallerIdentity,
        Parameters(reason): Parameters<HelpParams>,
    ) -> Result<Json<MessageReply>, String> {
        let once = once(
            &identity,
            "help",
            reason.attempt.as_deref(),
            &reason,
            waiting_value,
        );
        let (app, caller, call) = (&self.app, &identity, once.clone());
        let report = async move {
            let claim = ClaimRef::attempt(reason.attempt);
            let request = assignments::request_help(app, caller, &claim, &reason.why, call);
            Ok(waiting(&request.await?))
        };
        let outcome = self.run_once(once.as_ref(), Box::pin(report)).await;
        self.answer(&identity, "request_help", outcome).await
    }

    #[tool(
        description = "Send a message to another agent. A reviewer's approved or changes_requested becomes its verdict when it calls complete.",
        annotations(
            destructive_hint = false,
            idempotent_hint = false,
            open_world_hint = false
        )
    )]
    async fn send_message(
        &self,
        Extension(identity): CallerIdentity,
        Parameters(message): Parameters<SendMessageParams>,
    ) -> Result<Json<MessageReply>, String> {
        let submits = message.kind == MessageKind::NeedsReview;
        // Only a message that submits may not be sent twice. Two equal messages to a person are two
        // messages.
        let attempt = message.attempt.as_deref().filter(|_| submits);
        let once = once(&identity, "message", attempt, &message, submit_reply_value);
        let (app, caller, call) = (&self.app, &identity, once.clone());
        let report = async move {
            let claim = ClaimRef::attempt(message.attempt.clone()).with_verdict(&message);
            let text = (message.kind, message.content.as_str());
            let sent =
                Box::pin(messages::send(app, caller, &message.to, text, &claim, call)).await?;
            let message = match sent {
                Some(completed) => completed.message(),
                None => format!("sent to {}", message.to),
            };
            Ok(MessageReply { message })
        };
        let outcome = self.run_once(once.as_ref(), Box::pin(report)).await;
        self.answer(&identity, "send_message", outcome).await
    }

    #[tool(
        description = "Queue a task for another agent: agent_id and title are required. A reviewer's task of type fix sends the reviewed change back.",
        annotations(
            destructive_hint = false,
            idempotent_hint = false,
            open_world_hint = false
        )
    )]
    async fn queue_task_for_agent(
        &self,
        Extension(identity): CallerIdentity,
        Parameters(request): Parameters<tasks::TaskRequest>,
    ) -> Result<Json<tasks::QueuedTask>, String> {
        let queued = Box::pin(tasks::queue_task(&self.app, &identity, request)).await;
        self.answer(&identity, "queue_task_for_agent", queued).await
    }
}

impl McpServer {
    async fn current_work(&self, identity: &Identity) -> Result<Json<WorkReply>, String> {
        let app = &self.app;
        let assignment = Box::pin(assignments::current_assignment(app, identity))
            .await
            .map_err(error_text)?;
        let task = match &assignment {
            // One thing at a time: an agent with an assignment is not offered a task.
            Some(_) => None,
            None => tasks::current_task(app, identity)
                .await
                .map_err(error_text)?,
        };
        // Read last, because reading marks them: an error before this leaves them for the next
        // call.
        let messages = messages::read(app, identity).await.map_err(error_text)?;
        Ok(Json(WorkReply {
            assignment,
            task,
            messages,
        }))
    }

    async fn renew_lease(
        &self,
        identity: &Identity,
        attempt: Option<String>,
    ) -> Result<LeaseReply, Failure> {
        let (app, claim) = (&self.app, ClaimRef::attempt(attempt));
        let lease = match assignments::renew_lease(app, identity, &claim).await? {
            Some(lease) => Some(lease),
            None => tasks::renew_lease(app, identity, &claim).await?,
        };
        // The named claim is not this caller's any more. This gives the reason, such as a lease
        // that ended.
        if lease.is_none() && claim.attempt.is_some() {
            claims::check_report(app, identity, &claim, None).await?;
        }
        let (lease_until, attempt) = lease.unzip();
        Ok(LeaseReply {
            lease_until,
            attempt,
        })
    }
}

impl From<AssignmentParams> for ClaimRef {
    fn from(params: AssignmentParams) -> Self {
        Self {
            number: params.assignment_id,
            ..Self::attempt(params.attempt)
        }
    }
}

fn waiting_value(ticket: &Ticket, _: &Policy) -> Value {
    json!(waiting(ticket))
}

fn waiting(ticket: &Ticket) -> MessageReply {
    MessageReply {
        message: format!("{} now waits for a person", ticket.id),
    }
}

fn submit_reply_value(ticket: &Ticket, _: &Policy) -> Value {
    json!(submit_reply(ticket))
}

fn submit_reply(ticket: &Ticket) -> SubmitReply {
    let commit = ticket
        .submission
        .as_ref()
        .map(|submission| submission.commit.clone());
    SubmitReply {
        status: "submitted".to_owned(),
        review_attempt: ticket.review_attempt(),
        commit: commit.unwrap_or_default(),
        message: messages::submitted_text(ticket),
    }
}

fn verdict_input(review: ReviewResultParams) -> VerdictInput {
    let mut report = Map::new();
    let fields = [
        ("commit", review.commit.map(Value::from)),
        ("findings", review.findings.map(|value| json!(value))),
        (
            "dimension_scores",
            review.dimension_scores.map(Value::Object),
        ),
        (
            "blocking_issues",
            review.blocking_issues.map(|value| json!(value)),
        ),
        ("overall_score", review.overall_score.map(Value::from)),
        ("revision_notes", review.revision_notes.map(Value::from)),
        ("criteria", review.criteria.map(|value| json!(value))),
    ];
    // Absent fields stay absent: a `null` would count as an answer to the reader of reports.
    for (name, value) in fields {
        if let Some(value) = value {
            report.insert(name.to_owned(), value);
        }
    }
    // A report that says `pass` and `approved: false` is no approval.
    let passes = review.status.map(|status| status == ReportStatus::Pass);
    let approved = match (review.approved, passes) {
        (Some(approved), Some(passes)) => Some(approved && passes),
        (approved, passes) => approved.or(passes),
    };
    VerdictInput {
        approved,
        ticket: review.ticket_id,
        feedback: review.feedback,
        report,
        answers: review.answers,
    }
}
