//! The tools, with the seeds' names and fields. An error that the agent can act on is an answer.

use std::time::Duration;

use engine::desk::Once;
use flow::standing::{Barred, Deed};
use flow::{Role, Ticket};
use rmcp::handler::server::common::Extension;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{Json, tool, tool_router};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::words::{
    Accepted, Alive, Dispute, Ended, Judgement, Nothing, Post, Reason, Said, Submission, Taken,
    Wait, Which, Work,
};
use super::{Counter, told};
use crate::failure::Failure;
use crate::operations::assignments::verdict::{self, Outcome, Word};
use crate::operations::assignments::{self, Submitted, context};
use crate::operations::identity::Speaker;
use crate::operations::messages::{self, Completed};
use crate::operations::tasks;

type Caller = Extension<Speaker>;

/// Longer waits are cut by what stands between.
const WAIT_SECS_MAX: u64 = 50;
/// How soon work is looked for again where what there is was not for the agent that waits.
const REST: Duration = Duration::from_millis(250);
const WAIT_SECS_DEFAULT: u64 = 25;

/// What somebody may call: its role's, but for what those may not do whom we have started.
pub fn of(speaker: &Speaker) -> Vec<&'static str> {
    let tools = of_role(speaker.actor.role).iter().copied();
    tools
        .filter(|tool| speaker.standing.may(deed(tool)).is_ok())
        .collect()
}

/// Why somebody may not call what others of its role may.
pub fn barred(speaker: &Speaker, tool: &str) -> Option<Barred> {
    let theirs = of_role(speaker.actor.role).contains(&tool);
    speaker.standing.may(deed(tool)).err().filter(|_| theirs)
}

fn deed(tool: &str) -> Deed {
    match tool {
        "heartbeat" | "checkpoint" | "request_help" | "send_message" | "dispute_finding"
        | "get_review_context" => Deed::Speak,
        "get_my_assignment" | "wait_for_work" | "accept_assignment" => Deed::Take,
        "queue_task_for_agent" => Deed::Order,
        _ => Deed::Report,
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
impl Counter {
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
        Extension(who): Caller,
        _: Parameters<Nothing>,
    ) -> Result<Json<Work>, String> {
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
        Extension(who): Caller,
        Parameters(wait): Parameters<Wait>,
    ) -> Result<Json<Work>, String> {
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
            let mut ask = tasks::ask(&who);
            ask.queues.extend(who.guest().ask(ask.lease).queues);
            ask.ticket.clone_from(&who.ticket);
            let began = Instant::now();
            self.office.desk.store.wait(&ask, left).await;
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
        Extension(who): Caller,
        Parameters(which): Parameters<Which>,
    ) -> Result<Json<Accepted>, String> {
        let accepted = assignments::accept(&self.office, &who, which.assignment_id).await;
        accepted
            .map(|assignment| {
                Json(Accepted {
                    status: assignment.status,
                    attempt: assignment.attempt,
                    lease_until: assignment.lease_until,
                })
            })
            .map_err(told)
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
        Extension(who): Caller,
        Parameters(put): Parameters<Submission>,
    ) -> Result<Json<Taken>, String> {
        let once = once(&who, "submit", put.attempt.as_deref(), &put, taken_value);
        let (office, call, speaker) = (&self.office, once.clone(), who.clone());
        let report = async move {
            let said = Submitted {
                branch_name: put.branch_name,
                summary: put.summary,
                claims: put.claims,
                findings: put.findings,
            };
            let ticket = assignments::submit(office, &who, put.assignment_id, said, call).await?;
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
        Extension(who): Caller,
        Parameters(which): Parameters<Which>,
    ) -> Result<Json<context::ReviewContext>, String> {
        let context = context::of(&self.office, &who, which.assignment_id).await;
        context.map(Json).map_err(told)
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
        Extension(who): Caller,
        Parameters(judged): Parameters<Judgement>,
    ) -> Result<Json<Outcome>, String> {
        let attempt = judged.attempt.clone();
        let once = once(
            &who,
            "review",
            attempt.as_deref(),
            &judged,
            verdict::outcome_value,
        );
        let (number, word) = (judged.assignment_id, word(judged));
        let report = verdict::pass(&self.office, &who, number, word, once.clone());
        let reported = self.reported(once.as_ref(), report).await;
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
        Extension(who): Caller,
        Parameters(dispute): Parameters<Dispute>,
    ) -> Result<Json<Said>, String> {
        let Dispute { finding, reason } = dispute;
        messages::dispute(&self.office, &who, &finding, &reason)
            .await
            .map_err(told)?;
        Ok(Json(Said {
            message: format!("{finding} is disputed; that goes with your result"),
        }))
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
        Extension(who): Caller,
        Parameters(ended): Parameters<Ended>,
    ) -> Result<Json<Said>, String> {
        let office = &self.office;
        let task = tasks::finish(office, &who, &ended.summary).await;
        let said = match task.map_err(told)? {
            Some(id) => Ok(format!("task {id} is done")),
            None => messages::complete(office, &who, &ended.summary)
                .await
                .map(outcome),
        };
        let said = said.map(|message| Said { message });
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
        Extension(who): Caller,
        _: Parameters<Nothing>,
    ) -> Result<Json<Alive>, String> {
        self.alive(&who).await
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
        Extension(who): Caller,
        Parameters(ended): Parameters<Ended>,
    ) -> Result<Json<Alive>, String> {
        assignments::checkpoint(&self.office, &who, &ended.summary)
            .await
            .map_err(told)?;
        self.alive(&who).await
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
        Extension(who): Caller,
        Parameters(reason): Parameters<Reason>,
    ) -> Result<Json<Said>, String> {
        let asked = assignments::ask_for_help(&self.office, &who, &reason.why).await;
        let ticket = asked.map_err(told)?;
        Ok(Json(Said {
            message: format!("{} waits for a person now", ticket.id),
        }))
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
        Extension(who): Caller,
        Parameters(post): Parameters<Post>,
    ) -> Result<Json<Said>, String> {
        let Post { to, kind, content } = post;
        let sent = messages::send(&self.office, &who, &to, kind, &content).await;
        let message = match sent.map_err(told)? {
            Some(completed) => outcome(completed),
            None => format!("sent to {to}"),
        };
        Ok(Json(Said { message }))
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
        Extension(who): Caller,
        Parameters(wanted): Parameters<tasks::Wanted>,
    ) -> Result<Json<tasks::Queued>, String> {
        let queued = tasks::queue(&self.office, &who, wanted).await;
        queued.map(Json).map_err(told)
    }
}

impl Counter {
    async fn work(&self, who: &Speaker) -> Result<Json<Work>, String> {
        let office = &self.office;
        let assignment = assignments::current(office, who).await.map_err(told)?;
        let task = match &assignment {
            Some(_) => None,
            None => tasks::current(office, who).await.map_err(told)?,
        };
        let messages = messages::read(office, who).await.map_err(told)?;
        Ok(Json(Work {
            assignment,
            task,
            messages,
        }))
    }

    async fn alive(&self, who: &Speaker) -> Result<Json<Alive>, String> {
        let ticket = assignments::beat(&self.office, who).await.map_err(told)?;
        let lease_until = match ticket {
            Some(until) => Some(until),
            None => tasks::beat(&self.office, who).await.map_err(told)?,
        };
        Ok(Json(Alive { lease_until }))
    }

    /// What is said to a report; one that is refused goes on record.
    async fn answer<T>(
        &self,
        who: &Speaker,
        tool: &str,
        reported: Result<T, Failure>,
    ) -> Result<Json<T>, String> {
        match reported {
            Ok(answer) => Ok(Json(answer)),
            Err(failure) => Err(self.refuse_result(who, tool, failure).await),
        }
    }

    /// A report that counts once: the first answer to the same call where it came before, or where
    /// it came in the same instant and won.
    async fn reported<T: for<'a> Deserialize<'a>>(
        &self,
        once: Option<&Once>,
        report: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        if let Some(answer) = self.answered(once).await? {
            return Ok(answer);
        }
        match report.await {
            Ok(answer) => Ok(answer),
            Err(failure) => self.answered(once).await?.ok_or(failure),
        }
    }

    /// The first answer to the same call, if it came before.
    async fn answered<T: for<'a> Deserialize<'a>>(
        &self,
        once: Option<&Once>,
    ) -> Result<Option<T>, Failure> {
        let Some(once) = once else {
            return Ok(None);
        };
        let first = assignments::recall(&self.office, &once.key, &once.payload_hash).await?;
        first
            .map(|answer| serde_json::from_value(answer).map_err(Failure::error))
            .transpose()
    }
}

/// The claim that a report is made under, bound to who makes it: a retry is known by it.
fn once(
    who: &Speaker,
    what: &str,
    attempt: Option<&str>,
    payload: &impl Serialize,
    answer: fn(&Ticket) -> Value,
) -> Option<Once> {
    let payload = serde_json::to_vec(payload).unwrap_or_default();
    Some(Once {
        key: format!("mcp/{}/{}/{what}", who.actor.agent, attempt?),
        payload_hash: engine::hash::short(&payload),
        answer,
    })
}

fn outcome(completed: Completed) -> String {
    match completed {
        Completed::Submitted(ticket) => taken(&ticket).message,
        Completed::Judged(outcome) => outcome.message,
    }
}

fn taken_value(ticket: &Ticket) -> Value {
    json!(taken(ticket))
}

fn taken(ticket: &Ticket) -> Taken {
    let commit = ticket.submission.as_ref().map(|put| put.commit.clone());
    Taken {
        status: "submitted".to_owned(),
        review_attempt: ticket.round,
        commit: commit.unwrap_or_default(),
        message: format!("{} is {} now", ticket.id, ticket.stage),
    }
}

fn word(judged: Judgement) -> Word {
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
    Word {
        approved: judged.approved,
        feedback: judged.feedback,
        report,
        answers: judged.answers,
    }
}
