//! Routes for status, jobs, the log, epics and insights, and for queue tasks of agents.

use schemars::{SchemaGenerator, schema_for};
use serde::Deserialize;
use serde_json::Map;

use super::{ApiCall, ApiResponse, Route, RouteAccess};
use crate::web::problem::Problem;
use app::operations::questions::Method;
use app::operations::questions::work::{
    AcceptEpic, CancelTask, ListEpics, ListJobs, ReadLog, ShowCosts, ShowDailyCosts, ShowEpic,
    ShowInsights, ShowStatus,
};
use app::operations::tasks;

const JOBS: &[(&str, &str)] = &[
    ("queue", "only jobs of this queue"),
    ("state", "waiting, ready, leased, done, dropped or dead"),
    ("ticket", "only jobs of this ticket"),
    ("after", "the `next` value of the previous page"),
    ("limit", "maximum number of entries, up to 1000"),
];
const LOG: &[(&str, &str)] = &[
    ("ticket", "only entries of this ticket"),
    (
        "after",
        "entries after this position (12.345); default: the newest",
    ),
    ("limit", "maximum number of entries, up to 10000"),
    (
        "wait_secs",
        "with after: seconds to wait for new entries, up to 50",
    ),
    (
        "repository",
        "only entries of this repository (a path on the server)",
    ),
];

const REPOSITORY: &[(&str, &str)] = &[(
    "repository",
    "only tickets of this repository (a path on the server)",
)];

pub const ROUTES: &[Route] = &[
    Route::for_question::<ShowStatus>(RouteAccess::People, "Counts tickets by stage.")
        .query(REPOSITORY),
    Route::for_question::<ShowCosts>(RouteAccess::People, "Shows the cost of all tickets.")
        .query(REPOSITORY),
    Route::for_question::<ShowDailyCosts>(
        RouteAccess::People,
        "Shows the cost of each day (UTC), of tickets and tasks, up to today.",
    )
    .query(&[("days", "number of days, up to 90; default: 30")]),
    Route::for_question::<ListJobs>(RouteAccess::People, "Lists jobs, newest first.").query(JOBS),
    Route::for_question::<ReadLog>(RouteAccess::People, "Reads the log, in sentences.").query(LOG),
    Route::for_question::<ListEpics>(RouteAccess::People, "Lists epics."),
    Route::for_question::<ShowEpic>(RouteAccess::People, "Shows an epic and its status."),
    Route::for_question::<AcceptEpic>(
        RouteAccess::People,
        "Signs an epic whose tickets have all landed.",
    )
    .takes(|| schema_for!(AcceptEpic)),
    Route::for_question::<ShowInsights>(RouteAccess::People, "Shows insights from all tickets."),
    Route {
        method: Method::Post,
        path: "/api/v1/tasks",
        summary: "Queues a task for an agent.",
        access: RouteAccess::People,
        query: &[],
        takes: Some(|| schema_for!(tasks::TaskRequest)),
        answers: SchemaGenerator::subschema_for::<tasks::QueuedTask>,
        creates: true,
        versioned: false,
        perform: |call| Box::pin(task(call)),
    },
    Route::for_question::<CancelTask>(
        RouteAccess::People,
        "Cancels a task and stops the agent that runs it.",
    )
    .takes(|| schema_for!(CancelTask)),
    Route {
        method: Method::Post,
        path: "/queue",
        summary: "Queues the review of a pull request, for CI jobs.",
        access: RouteAccess::People,
        query: &[],
        takes: Some(|| schema_for!(PullRequestTask)),
        answers: SchemaGenerator::subschema_for::<tasks::QueuedTask>,
        creates: true,
        versioned: false,
        perform: |call| Box::pin(pull_request(call)),
    },
];

/// Short form of a review task for CI jobs.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct PullRequestTask {
    agent_id: String,
    /// Number of the pull request; a CI template may send it as text.
    #[serde(deserialize_with = "number")]
    #[schemars(with = "Number")]
    pr: u64,
    #[serde(default)]
    github_repo: Option<String>,
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
enum Number {
    Number(u64),
    Text(String),
}

fn number<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let bad = || serde::de::Error::custom("pr is the number of a pull request");
    match Number::deserialize(from).map_err(|_| bad())? {
        Number::Number(number) => Ok(number),
        Number::Text(text) => text.trim().parse().map_err(|_| bad()),
    }
}

async fn task(call: ApiCall) -> Result<ApiResponse, Problem> {
    let request: tasks::TaskRequest = call.body()?;
    ApiResponse::created(Box::pin(tasks::queue_task(&call.app, &call.identity, request)).await?)
}

async fn pull_request(call: ApiCall) -> Result<ApiResponse, Problem> {
    let PullRequestTask {
        agent_id,
        pr,
        github_repo,
    } = call.body()?;
    let mut context = Map::new();
    context.insert("pr_number".to_owned(), pr.into());
    if let Some(repo) = github_repo {
        context.insert("github_repo".to_owned(), repo.into());
    }
    let request = tasks::TaskRequest {
        agent_id,
        task_type: "review".to_owned(),
        title: format!("Review PR #{pr}"),
        description: format!("Review pull request #{pr}."),
        context,
        ..tasks::TaskRequest::default()
    };
    ApiResponse::created(Box::pin(tasks::queue_task(&call.app, &call.identity, request)).await?)
}
