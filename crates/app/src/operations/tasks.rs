//! 001's tasks: a free job on an agent's queue. What a task says of where it belongs is taken from
//! the work that its maker has in hand, never from its maker's words.

pub mod board;

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

/// 001's own limit on a queue.
pub const QUEUE_MAX: u64 = 100;
/// 001's time limit of a task.
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

/// Where a worker would take the task up. An agent cannot choose that.
const FIELDS_OF_PLACE: [&str; 4] = ["repository", "base_branch", "remote", "needs"];

/// In a task's body: the hash of the call that asked for it, where that names itself.
const REQUEST: &str = "request";

/// 001's arguments.
#[derive(Clone, Debug, Default, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TaskRequest {
    /// The queue that it goes to.
    pub agent_id: String,
    /// implementation, review, fix, …
    pub task_type: String,
    pub title: String,
    pub description: String,
    pub priority: Option<i32>,
    pub context: Map<String, Value>,
    pub depends_on: Vec<String>,
    pub acceptance_criteria: Vec<String>,
    /// Send it with a fix.
    pub attempt: Option<String>,
}

/// What became of it.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct QueuedTask {
    pub task_id: String,
    pub queue: String,
    pub message: String,
}

/// Queues a task. A judge's task to fix what it judges is its verdict.
pub async fn queue(
    office: &App,
    speaker: &Identity,
    wanted: TaskRequest,
) -> Result<QueuedTask, Failure> {
    let fixes = wanted.task_type == "fix";
    if fixes && let Some(queued) = fixed_before(office, speaker, &wanted).await? {
        return Ok(queued);
    }
    let held = session::held(&office.desk, &speaker.agent_session()).await?;
    let reviewed = held
        .as_ref()
        .filter(|held| fixes && matches!(held.task, Task::Review { .. }));
    if let Some(errand) = reviewed {
        return fix(office, speaker, &errand.stored.ticket.id, wanted).await;
    }
    if fixes && held.is_none() && speaker.actor.role == Role::Reviewer {
        claims::must_not_have_lost_one(office, speaker).await?;
    }
    if wanted.attempt.is_some() {
        let claim = match &held {
            Some(errand) => Some(errand.claim()),
            None => self::held(office, speaker).await?.as_ref().map(claim),
        };
        let named = ClaimRef::attempt(wanted.attempt.clone());
        claims::admit(office, speaker, &named, claim.as_ref()).await?;
    }
    let queue = queue_name(&wanted.agent_id)?;
    let parent = held.map(|held| json!(held.stored.ticket.spec.context));
    let id = task_id(office, &wanted)?;
    let priority = wanted.priority.unwrap_or(flow::ticket::PRIORITY_DEFAULT);
    let body = task(office, speaker, &id, wanted, parent);
    if let Err(error) = put(office, &queue, priority, body, &id).await {
        must_be_the_same(office, &id, error).await?;
    }
    Ok(QueuedTask {
        message: format!("queued for {queue}"),
        task_id: id,
        queue,
    })
}

/// A judge's task to fix what it judges: its verdict on the claim that it holds.
async fn fix(
    office: &App,
    speaker: &Identity,
    ticket: &TicketId,
    wanted: TaskRequest,
) -> Result<QueuedTask, Failure> {
    let once = once(speaker, &wanted);
    let named = ClaimRef::attempt(wanted.attempt.clone()).with_verdict(&wanted);
    let word = VerdictInput {
        approved: Some(false),
        feedback: wanted.description,
        ..VerdictInput::default()
    };
    let outcome = verdict::pass(office, speaker, &named, word, once).await?;
    Ok(QueuedTask {
        task_id: ticket.to_string(),
        queue: wanted.agent_id,
        message: outcome.message,
    })
}

/// The first answer to the same request for a fix under the attempt that it names.
async fn fixed_before(
    office: &App,
    speaker: &Identity,
    wanted: &TaskRequest,
) -> Result<Option<QueuedTask>, Failure> {
    let named = ClaimRef::attempt(wanted.attempt.clone());
    let (Some(Attempt::Job { ticket, .. }), Some(once)) = (named.parsed()?, once(speaker, wanted))
    else {
        return Ok(None);
    };
    let first = assignments::recall(office, &once.key, &once.payload_hash).await?;
    Ok(first.map(|answer| QueuedTask {
        task_id: ticket.to_string(),
        queue: wanted.agent_id.clone(),
        message: answer["message"].as_str().unwrap_or_default().to_owned(),
    }))
}

fn once(speaker: &Identity, wanted: &TaskRequest) -> Option<Once> {
    let payload = serde_json::to_vec(wanted).unwrap_or_default();
    Some(Once {
        key: format!(
            "mcp/{}/{}/fix",
            speaker.actor.agent,
            wanted.attempt.as_ref()?
        ),
        payload_hash: engine::hash::short(&payload),
        answer: verdict::outcome_value,
    })
}

/// A call that came before under the same key, and asked for the same.
async fn must_be_the_same(office: &App, id: &str, error: store::Error) -> Result<(), store::Error> {
    let (Some(once), store::Error::KeyReused { .. }) = (&office.call.once, &error) else {
        return Err(error);
    };
    let first = office.desk.store.job_by_key(&key_of(id)).await?;
    let first = first.map(|job| body(job.work));
    match first.as_ref().and_then(|body| body.get(REQUEST)) {
        Some(hash) if *hash == json!(once.payload_hash) => Ok(()),
        _ => Err(error),
    }
}

/// Puts a task of 001's form into a queue; one that is there already is not put twice.
pub async fn put(
    office: &App,
    queue: &str,
    priority: i32,
    mut body: Value,
    id: &str,
) -> Result<(), store::Error> {
    // Whoever sees the queue sees a task's context.
    if let Some(Value::String(address)) = body.pointer_mut("/context/remote") {
        *address = without_secret(address);
    }
    findings::clean_json(&mut body);
    let kind = body.get("type").and_then(Value::as_str).unwrap_or("task");
    let ticket = flow::free::ticket(&body, 0, (office.desk.clock)());
    let needs = ticket.map(|ticket| ticket.spec.context.needs);
    let depends_on = flow::free::depends_on(&body);
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
    office.desk.store.enqueue(vec![job]).await?;
    Ok(())
}

fn key_of(id: &str) -> String {
    format!("task/{id}")
}

/// The loop's own queues are not for tasks.
pub fn queue_name(agent: &str) -> Result<String, Failure> {
    let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fits = !agent.is_empty() && agent.len() <= 64 && agent.chars().all(sound);
    if !fits || Queue::from(agent).is_of_loop() {
        return Err(Failure::new(
            ExitKind::Refused,
            format!("{agent:?} cannot name a queue"),
        )
        .hint("use an agent's name: letters, digits, '-', '_' and '.', none of the loop's own queues"));
    }
    Ok(agent.to_owned())
}

fn task_id(office: &App, wanted: &TaskRequest) -> Result<String, Failure> {
    let kind = findings::one_line(&wanted.task_type);
    if let Some(once) = &office.call.once {
        let call = engine::hash::short(once.key.as_bytes());
        return Ok(format!("{kind}-{}-{call}", wanted.agent_id));
    }
    let salt = engine::secret::mint().map_err(Failure::error)?;
    let salt = engine::hash::short(salt.as_bytes());
    let now = (office.desk.clock)().0;
    Ok(format!("{kind}-{}-{now}-{}", wanted.agent_id, &salt[..6]))
}

fn task(
    office: &App,
    speaker: &Identity,
    id: &str,
    wanted: TaskRequest,
    parent: Option<Value>,
) -> Value {
    let mut context = wanted.context;
    if let Role::Builder | Role::Reviewer | Role::Verifier = speaker.actor.role {
        context.retain(|field, _| !FIELDS_OF_PLACE.contains(&field.as_str()));
    }
    for field in FIELDS_INHERITED {
        if let Some(value) = parent.as_ref().and_then(|parent| parent.get(field)) {
            context.insert(field.to_owned(), value.clone());
        }
    }
    let mut body = json!({
        "id": id,
        "type": wanted.task_type,
        "status": "pending",
        "priority": wanted.priority.unwrap_or(flow::ticket::PRIORITY_DEFAULT),
        "created_by": speaker.actor.agent,
        "assigned_to": wanted.agent_id,
        "created_at": (office.desk.clock)().iso(),
        "title": findings::clean(&wanted.title),
        "description": findings::clean(&wanted.description),
        "depends_on": wanted.depends_on,
        "blocks": [],
        "acceptance_criteria": wanted.acceptance_criteria,
        "deliverables": [],
        "notes": [],
        "context": context,
        "retry_count": 0,
        "plan": null,
    });
    if let Some(once) = &office.call.once {
        body[REQUEST] = json!(once.payload_hash);
    }
    body
}

/// The task in the agent's hands, else the next of its queue.
pub async fn current(office: &App, speaker: &Identity) -> Result<Option<Value>, Failure> {
    let queues = queues(speaker);
    if !office.desk.store.has_open(Some(&queues)).await? {
        return Ok(None);
    }
    let (job, fence, work) = match held(office, speaker).await? {
        Some(job) => (job.id, job.fence, job.work),
        None => match session::take_task(&office.desk, &speaker.agent_session(), LEASE).await? {
            Some(job) => (job.id, job.fence, job.work),
            None => return Ok(None),
        },
    };
    let attempt = Attempt::Task { job: job.0, fence };
    claims::given(office, speaker, &attempt).await?;
    let mut body = body(work);
    body["attempt"] = json!(attempt.to_string());
    Ok(Some(body))
}

/// The claim on a task that a report is compared with.
fn claim(job: &Job) -> HeldClaim {
    let id = match &job.work {
        JobWork::Free { body, .. } => body["id"].as_str().unwrap_or_default(),
        JobWork::Task(_) => "",
    };
    HeldClaim::of_task(job.id.0, job.fence, id)
}

/// Ends the task in the agent's hands.
pub async fn finish(
    office: &App,
    speaker: &Identity,
    named: &ClaimRef,
    summary: &str,
) -> Result<Option<String>, Failure> {
    let attempt = named.parsed()?;
    if let Some(Attempt::Job { .. }) = attempt {
        return Ok(None);
    }
    let Some(job) = held(office, speaker).await? else {
        return finished_before(office, speaker, attempt, summary).await;
    };
    let claim = claim(&job);
    let admitted = claims::admit(office, speaker, named, Some(&claim)).await;
    if let Err(failure) = admitted {
        let before = finished_before(office, speaker, attempt, summary).await;
        return match before {
            Ok(Some(id)) => Ok(Some(id)),
            Ok(None) | Err(_) => Err(failure),
        };
    }
    let ended = FinishedTask {
        job: job.id,
        fence: job.fence,
        outcome: TaskOutcome::Done {
            result: json!({"summary": findings::clean(summary), "by": speaker.actor.agent}),
        },
    };
    office.desk.store.finish(vec![ended], None).await?;
    claims::reported(office, speaker, &claim.attempt).await;
    let id = body(job.work)
        .get("id")
        .and_then(Value::as_str)
        .map(str::to_owned);
    Ok(Some(id.unwrap_or_default()))
}

/// The task that this attempt has ended before with the same words. Nothing where no attempt at a task
/// is named.
async fn finished_before(
    office: &App,
    speaker: &Identity,
    attempt: Option<Attempt>,
    summary: &str,
) -> Result<Option<String>, Failure> {
    let Some(attempt @ Attempt::Task { job, fence }) = attempt else {
        return Ok(None);
    };
    let found = office.desk.store.job(JobId(job)).await?;
    let ours = found.filter(|found| {
        let is_ours = found.holder == Some(speaker.agent_session().holder());
        found.state == JobState::Done && found.fence == fence && is_ours
    });
    let named = Some(attempt.to_string());
    let Some(done) = ours else {
        return Err(claims::refused(Refused::NothingHeld { named }));
    };
    let said = done.result.as_ref().map(|result| &result["summary"]);
    if said != Some(&json!(findings::clean(summary))) {
        let key = attempt.to_string();
        return Err(store::Error::KeyReused { key }.into());
    }
    let id = body(done.work)["id"].as_str().map(str::to_owned);
    Ok(Some(id.unwrap_or_default()))
}

/// Prolongs the lease on the task in hand; says until when, and under which attempt.
pub async fn beat(
    office: &App,
    speaker: &Identity,
    named: &ClaimRef,
) -> Result<Option<(String, String)>, Failure> {
    let Some(job) = held(office, speaker).await? else {
        return Ok(None);
    };
    let claim = claim(&job);
    claims::admit(office, speaker, named, Some(&claim)).await?;
    let until = office.desk.store.renew(job.id, job.fence, LEASE).await?;
    Ok(Some((until.iso(), claim.attempt.to_string())))
}

async fn held(office: &App, speaker: &Identity) -> Result<Option<Job>, Failure> {
    let (holder, queues) = (speaker.agent_session().holder(), queues(speaker));
    let held = office.desk.store.held_jobs(&holder, &queues).await?;
    Ok(held.into_iter().next())
}

fn body(work: JobWork) -> Value {
    match work {
        JobWork::Free { body, .. } => body,
        JobWork::Task(_) => Value::Null,
    }
}

/// A replica (`qa-2`) works from the queue of all of its kind (`qa`) too. A token for one ticket has
/// no other work.
pub fn queues(speaker: &Identity) -> Vec<Queue> {
    if speaker.ticket.is_some() {
        return Vec::new();
    }
    queues_of(&speaker.actor.agent)
}

/// What an agent or a worker of this name takes tasks from.
pub fn queues_of(name: &str) -> Vec<Queue> {
    let mut queues = vec![Queue::from(name)];
    if let Some((kind, number)) = name.rsplit_once('-')
        && !number.is_empty()
        && number.chars().all(|c| c.is_ascii_digit())
    {
        queues.push(kind.into());
    }
    queues.retain(|queue| !queue.is_of_loop());
    queues
}
