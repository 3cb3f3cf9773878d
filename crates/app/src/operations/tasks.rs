//! Tasks: jobs on an agent's queue, outside tickets. The repository and branch of a task come from
//! the job that its creator holds, never from the creator's text.
//!
//! Agents of other systems queue work for each other this way. A reviewer that queues a `fix` means
//! a rejection, so it is read as its verdict.

pub mod listing;

use std::time::Duration;

use engine::coordinator::Once;
use engine::git::without_secret;
use engine::session;
use flow::attempt::{Attempt, HeldClaim};
use flow::{Queue, Refused, Role, Task, TicketId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use store::{FinishedTask, FreeJob, Job, JobId, JobState, JobWork, TaskOutcome};

use super::App;
use super::assignments;
use super::assignments::claims::{self, ClaimRef};
use super::assignments::verdict::{self, VerdictInput};
use super::identity::Identity;
use crate::failure::{ExitKind, Failure};

/// Maximum number of open tasks in a queue.
/// An agent in a loop would otherwise fill the queue for all.
pub const QUEUE_MAX: u64 = 100;
/// Dependencies of a new task that are looked up, to name those that do not exist.
const DEPENDENCIES_CHECKED_MAX: usize = 20;
/// Longest part of an unknown id that is repeated.
const NAME_CHARS_MAX: usize = 80;
/// Type of a task that names none.
const KIND_DEFAULT: &str = "task";
/// Lease of a task.
const LEASE: Duration = Duration::from_secs(1800);
const FIELDS_INHERITED: [&str; 8] = [
    "repository",
    "base_branch",
    "remote",
    "needs",
    "jira_key",
    "jira_project",
    "github_repo",
    "epic_key",
];

/// Fields that decide where a worker performs the task. An agent cannot set them.
/// Else an agent could let a worker act in any repository of its machine.
const FIELDS_OF_PLACE: [&str; 4] = ["repository", "base_branch", "remote", "needs"];

/// Field of a task's body with the hash of the call that queued it, if the call has a key.
const REQUEST: &str = "request";

/// Arguments of a call that queues a task.
#[derive(Clone, Debug, Default, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TaskRequest {
    /// The queue for the task: the name of its agent.
    #[schemars(required)]
    pub agent_id: String,
    /// implementation, review, fix, …
    pub task_type: String,
    #[schemars(required)]
    pub title: String,
    pub description: String,
    pub priority: Option<i32>,
    pub context: Map<String, Value>,
    pub depends_on: Vec<String>,
    pub acceptance_criteria: Vec<String>,
    /// Send it with a fix.
    pub attempt: Option<String>,
}

impl TaskRequest {
    /// Returns the type; a task may leave it out.
    fn kind(&self) -> &str {
        match self.task_type.trim() {
            "" => KIND_DEFAULT,
            kind => kind,
        }
    }
}

/// Answer to a call that queues a task.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct QueuedTask {
    pub task_id: String,
    pub queue: String,
    pub message: String,
}

/// Queues a task. A reviewer's task to fix the change that it reviews counts as its verdict.
pub async fn queue_task(
    app: &App,
    identity: &Identity,
    request: TaskRequest,
) -> Result<QueuedTask, Failure> {
    let fixes = request.task_type == "fix";
    // A repeated call gets its first answer, before anything is judged again.
    if fixes && let Some(queued) = previous_fix(app, identity, &request).await? {
        return Ok(queued);
    }
    let claim_held = session::current_claim(&app.coordinator, &identity.agent_session()).await?;
    let reviewed = claim_held
        .as_ref()
        .filter(|claim_held| fixes && matches!(claim_held.task, Task::Review { .. }));
    if let Some(claim) = reviewed {
        return submit_fix_verdict(app, identity, &claim.stored.ticket.id, request).await;
    }
    let claim = match &claim_held {
        Some(claim) => Some(claim.claim()),
        None => held_task(app, identity).await?.as_ref().map(claim_of),
    };
    let may_be_late = fixes && identity.actor.role == Role::Reviewer;
    if may_be_late && claim.is_none() {
        // The reviewer lost its claim, and this fix is its late verdict. It must not become a task.
        claims::check_no_lost_claim(app, identity).await?;
    }
    // A reviewer with a task of its own queue sends work on from there, but the fix may also be the
    // late verdict of another process.
    if request.attempt.is_some() || (may_be_late && claim_held.is_none() && claim.is_some()) {
        let claim_ref = ClaimRef::attempt(request.attempt.clone());
        claims::check_report(app, identity, &claim_ref, claim.as_ref()).await?;
    }
    let queue = queue_name(&request.agent_id)?;
    let has_called = listing::queues(app).await?.contains(&queue);
    let is_known = has_called || listing::has_open_tasks(app, &queue).await?;
    let by_agent = matches!(
        identity.actor.role,
        Role::Builder | Role::Reviewer | Role::Verifier
    );
    // A person may queue work before the agent or worker is there. An agent only mistypes a name.
    if !is_known && by_agent {
        return Err(Failure::new(
            ExitKind::Refused,
            format!("unknown agent {queue:?}; the task was not queued"),
        )
        .hint("ask a person to create it: countersign token create --agent NAME --role ROLE"));
    }
    let unknown = unknown_tasks(app, &request.depends_on).await?;
    let parent = claim_held.map(|claim_held| json!(claim_held.stored.ticket.spec.context));
    let id = task_id(app, &request)?;
    let priority = request.priority.unwrap_or(flow::ticket::PRIORITY_DEFAULT);
    let body = task(app, identity, &id, request, parent);
    // The key may exist already: the same call again, or another with the same key.
    if let Err(error) = enqueue(app, &queue, priority, body, &id).await {
        require_same_request(app, &id, error).await?;
    }
    Ok(QueuedTask {
        // Does not depend on open tasks: a repeated request gets the same answer.
        message: queued_message(&queue, has_called, &unknown),
        task_id: id,
        queue,
    })
}

/// Names the tasks that do not exist. A task that waits for one of them waits until it is created.
async fn unknown_tasks(app: &App, ids: &[String]) -> Result<Vec<String>, Failure> {
    let mut unknown = Vec::new();
    for id in ids.iter().take(DEPENDENCIES_CHECKED_MAX) {
        let job = app.coordinator.store.job_by_key(&key_of(id)).await?;
        if job.is_none() {
            unknown.push(findings::shorten(&findings::one_line(id), NAME_CHARS_MAX));
        }
    }
    Ok(unknown)
}

fn queued_message(queue: &str, has_called: bool, unknown: &[String]) -> String {
    let mut message = format!("queued for {queue}");
    if !has_called {
        message.push_str("; no agent or worker of that name has called yet");
    }
    if !unknown.is_empty() {
        message.push_str("; it waits for a task that does not exist: ");
        message.push_str(&unknown.join(", "));
    }
    message
}

/// Reports a reviewer's task to fix the change as its verdict on the claim that it holds.
async fn submit_fix_verdict(
    app: &App,
    identity: &Identity,
    ticket: &TicketId,
    request: TaskRequest,
) -> Result<QueuedTask, Failure> {
    let once = once(identity, &request);
    let claim_ref = ClaimRef::attempt(request.attempt.clone()).with_verdict(&request);
    let verdict_input = VerdictInput {
        approved: Some(false),
        feedback: request.description,
        ..VerdictInput::default()
    };
    let outcome = verdict::submit_verdict(app, identity, &claim_ref, verdict_input, once).await?;
    Ok(QueuedTask {
        task_id: ticket.to_string(),
        queue: request.agent_id,
        message: outcome.message,
    })
}

/// Returns the first answer to the same request for a fix under the named attempt.
async fn previous_fix(
    app: &App,
    identity: &Identity,
    request: &TaskRequest,
) -> Result<Option<QueuedTask>, Failure> {
    let claim_ref = ClaimRef::attempt(request.attempt.clone());
    let (Some(Attempt::Job { ticket, .. }), Some(once)) =
        (claim_ref.parse_attempt()?, once(identity, request))
    else {
        return Ok(None);
    };
    let first = assignments::recall_answer(app, &once.key, &once.payload_hash).await?;
    Ok(first.map(|answer| QueuedTask {
        task_id: ticket.to_string(),
        queue: request.agent_id.clone(),
        message: answer["message"].as_str().unwrap_or_default().to_owned(),
    }))
}

fn once(identity: &Identity, request: &TaskRequest) -> Option<Once> {
    let payload = serde_json::to_vec(request).unwrap_or_default();
    Some(Once {
        key: format!(
            "mcp/{}/{}/fix",
            identity.actor.agent,
            request.attempt.as_ref()?
        ),
        payload_hash: engine::hash::short_sha256(&payload),
        answer: verdict::outcome_value,
    })
}

/// Accepts a repeated key if the earlier call had the same content.
async fn require_same_request(
    app: &App,
    id: &str,
    error: store::Error,
) -> Result<(), store::Error> {
    let (Some(once), store::Error::KeyReused { .. }) = (&app.call.once, &error) else {
        return Err(error);
    };
    let first = app.coordinator.store.job_by_key(&key_of(id)).await?;
    let first = first.map(|job| task_body(job.work));
    match first.as_ref().and_then(|body| body.get(REQUEST)) {
        Some(hash) if *hash == json!(once.payload_hash) => Ok(()),
        _ => Err(error),
    }
}

/// Puts a task file's content into a queue. A task that is already there is not added again.
pub async fn enqueue(
    app: &App,
    queue: &str,
    priority: i32,
    mut body: Value,
    id: &str,
) -> Result<(), store::Error> {
    // Everybody who can list the queue sees a task's context, so the password must go.
    if let Some(Value::String(address)) = body.pointer_mut("/context/remote") {
        *address = without_secret(address);
    }
    findings::clean_json(&mut body);
    let kind = body
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or(KIND_DEFAULT);
    let ticket = flow::task::ticket_from_task(&body, 0, (app.coordinator.clock)());
    // A task that is no sound ticket is still queued. The worker reports what is wrong with it.
    let needs = ticket.map(|ticket| ticket.spec.context.needs);
    let depends_on = flow::task::depends_on(&body);
    let job = FreeJob {
        queue: queue.into(),
        kind: findings::one_line(kind),
        priority,
        not_before: None,
        agent: None,
        key: Some(key_of(id)),
        queue_max: Some(QUEUE_MAX),
        needs: needs.unwrap_or_default(),
        depends_on: depends_on.iter().map(|id| key_of(id)).collect(),
        body,
    };
    app.coordinator.store.enqueue(vec![job]).await?;
    Ok(())
}

fn key_of(id: &str) -> String {
    format!("task/{id}")
}

/// Validates the name of a task queue. The names of the ticket queues are reserved.
pub fn queue_name(agent: &str) -> Result<String, Failure> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fits = !agent.is_empty() && agent.len() <= 64 && agent.chars().all(is_allowed);
    // A queue named `review` would mix tasks with jobs of tickets.
    if !fits || Queue::from(agent).is_of_loop() {
        return Err(
            Failure::new(ExitKind::Refused, format!("{agent:?} cannot name a queue"))
                .hint("use an agent's name: letters, digits, '-', '_' and '.'; no ticket queue"),
        );
    }
    Ok(agent.to_owned())
}

fn task_id(app: &App, request: &TaskRequest) -> Result<String, Failure> {
    let kind = findings::one_line(request.kind());
    // The same key gives the same id, so that a repetition finds its task.
    if let Some(once) = &app.call.once {
        let call = engine::hash::short_sha256(once.key.as_bytes());
        return Ok(format!("{kind}-{}-{call}", request.agent_id));
    }
    let salt = engine::secret::generate().map_err(Failure::error)?;
    // Two calls in one millisecond need different ids.
    let salt = engine::hash::short_sha256(salt.as_bytes());
    let now = (app.coordinator.clock)().0;
    Ok(format!("{kind}-{}-{now}-{}", request.agent_id, &salt[..6]))
}

fn task(
    app: &App,
    identity: &Identity,
    id: &str,
    request: TaskRequest,
    parent: Option<Value>,
) -> Value {
    let kind = request.kind().to_owned();
    let mut context = request.context;
    if let Role::Builder | Role::Reviewer | Role::Verifier = identity.actor.role {
        context.retain(|field, _| !FIELDS_OF_PLACE.contains(&field.as_str()));
    }
    // Inherited last, so that the job's own place wins over the request.
    for field in FIELDS_INHERITED {
        if let Some(value) = parent.as_ref().and_then(|parent| parent.get(field)) {
            context.insert(field.to_owned(), value.clone());
        }
    }
    let mut body = json!({
        "id": id,
        "type": kind,
        "status": "pending",
        "priority": request.priority.unwrap_or(flow::ticket::PRIORITY_DEFAULT),
        "created_by": identity.actor.agent,
        "assigned_to": request.agent_id,
        "created_at": (app.coordinator.clock)().to_iso(),
        "title": findings::clean(&request.title),
        "description": findings::clean(&request.description),
        "depends_on": request.depends_on,
        "blocks": [],
        "acceptance_criteria": request.acceptance_criteria,
        "deliverables": [],
        "notes": [],
        "context": context,
        "retry_count": 0,
        "plan": null,
    });
    if let Some(once) = &app.call.once {
        body[REQUEST] = json!(once.payload_hash);
    }
    body
}

/// Returns the task that the agent holds, or claims the next one of its queues.
pub async fn current_task(app: &App, identity: &Identity) -> Result<Option<Value>, Failure> {
    let queues = queues(identity);
    // A cheap question first: most calls find no work.
    if !app.coordinator.store.has_open(Some(&queues)).await? {
        return Ok(None);
    }
    let (job, fence, work) = match held_task(app, identity).await? {
        Some(job) => (job.id, job.fence, job.work),
        None => match session::take_task(&app.coordinator, &identity.agent_session(), LEASE).await?
        {
            Some(job) => (job.id, job.fence, job.work),
            None => return Ok(None),
        },
    };
    let attempt = Attempt::Task { job: job.0, fence };
    claims::record_claim(app, identity, &attempt).await?;
    let mut body = task_body(work);
    body["attempt"] = json!(attempt.to_string());
    Ok(Some(body))
}

/// Builds the claim on a task that a report is compared with.
fn claim_of(job: &Job) -> HeldClaim {
    let id = match &job.work {
        JobWork::Free { body, .. } => body["id"].as_str().unwrap_or_default(),
        JobWork::Task(_) => "",
    };
    HeldClaim::of_task(job.id.0, job.fence, id)
}

/// Ends the task that the agent holds. Returns its id, or `None` if the attempt belongs to a job of a
/// ticket, which another operation completes.
pub async fn finish_task(
    app: &App,
    identity: &Identity,
    claim_ref: &ClaimRef,
    summary: &str,
) -> Result<Option<String>, Failure> {
    let attempt = claim_ref.parse_attempt()?;
    // A review or a build is completed by another operation.
    if let Some(Attempt::Job { .. }) = attempt {
        return Ok(None);
    }
    let Some(job) = held_task(app, identity).await? else {
        return previous_finish(app, identity, attempt, summary).await;
    };
    let claim = claim_of(&job);
    // A summary that was sent before may be a repetition that arrives late: without an attempt and
    // a session it must not end the next task.
    let claim_ref = claim_ref.clone().with_verdict(&("complete", summary));
    let checked = claims::check_report(app, identity, &claim_ref, Some(&claim)).await;
    // The report may be the repetition of one that already ended this task.
    if let Err(failure) = checked {
        let previous = previous_finish(app, identity, attempt, summary).await;
        return match previous {
            Ok(Some(id)) => Ok(Some(id)),
            Ok(None) | Err(_) => Err(failure),
        };
    }
    claims::record_verdict_words(app, identity, &claim_ref).await?;
    let mut result = json!({"summary": findings::clean(summary), "by": identity.actor.agent});
    if let JobWork::Free { kind, .. } = &job.work {
        flow::task::add_findings(kind, &mut result);
    }
    let ended = FinishedTask {
        job: job.id,
        fence: job.fence,
        outcome: TaskOutcome::Done { result },
    };
    app.coordinator.store.finish(vec![ended], None).await?;
    claims::record_reported(app, identity, &claim.attempt).await;
    let id = task_body(job.work)
        .get("id")
        .and_then(Value::as_str)
        .map(str::to_owned);
    Ok(Some(id.unwrap_or_default()))
}

/// Returns the task that this attempt has already ended with the same summary. Without an attempt
/// at a task there is none.
async fn previous_finish(
    app: &App,
    identity: &Identity,
    attempt: Option<Attempt>,
    summary: &str,
) -> Result<Option<String>, Failure> {
    let Some(attempt @ Attempt::Task { job, fence }) = attempt else {
        return Ok(None);
    };
    let job_found = app.coordinator.store.job(JobId(job)).await?;
    let finished = job_found.filter(|job_found| {
        // Another holder's result is never given away.
        let is_ours = job_found.holder == Some(identity.agent_session().holder());
        job_found.state == JobState::Done && job_found.fence == fence && is_ours
    });
    let named = Some(attempt.to_string());
    let Some(done) = finished else {
        return Err(claims::refusal_error(Refused::NothingHeld { named }));
    };
    let reported = done.result.as_ref().map(|result| &result["summary"]);
    if reported != Some(&json!(findings::clean(summary))) {
        let key = attempt.to_string();
        return Err(store::Error::KeyReused { key }.into());
    }
    let id = task_body(done.work)["id"].as_str().map(str::to_owned);
    Ok(Some(id.unwrap_or_default()))
}

/// Extends the lease on the held task; returns its new end and the attempt that it belongs to.
pub async fn renew_lease(
    app: &App,
    identity: &Identity,
    claim_ref: &ClaimRef,
) -> Result<Option<(String, String)>, Failure> {
    let Some(job) = held_task(app, identity).await? else {
        return Ok(None);
    };
    let claim = claim_of(&job);
    claims::check_report(app, identity, claim_ref, Some(&claim)).await?;
    let until = app
        .coordinator
        .store
        .renew(job.id, job.fence, LEASE)
        .await?;
    Ok(Some((until.to_iso(), claim.attempt.to_string())))
}

async fn held_task(app: &App, identity: &Identity) -> Result<Option<Job>, Failure> {
    let (holder, queues) = (identity.agent_session().holder(), queues(identity));
    let jobs = app.coordinator.store.held_jobs(&holder, &queues).await?;
    Ok(jobs.into_iter().next())
}

fn task_body(work: JobWork) -> Value {
    match work {
        JobWork::Free { body, .. } => body,
        JobWork::Task(_) => Value::Null,
    }
}

/// Returns the task queues of a caller. A token for one ticket has none.
pub fn queues(identity: &Identity) -> Vec<Queue> {
    if identity.ticket.is_some() {
        return Vec::new();
    }
    queues_of(&identity.actor.agent)
}

/// Returns the task queues of an agent or worker: its own, and for a replica (`qa-2`) also the
/// queue of all replicas (`qa`).
pub fn queues_of(name: &str) -> Vec<Queue> {
    let mut queues = vec![Queue::from(name)];
    if let Some((kind, number)) = name.rsplit_once('-')
        && !number.is_empty()
        && number.chars().all(|c| c.is_ascii_digit())
    {
        queues.push(kind.into());
    }
    // An agent named `build` has no queue of tasks.
    queues.retain(|queue| !queue.is_of_loop());
    queues
}
