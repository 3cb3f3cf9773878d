//! What is going on: counts, jobs, epics, what was learned; and tasks for agents (001).

use schemars::schema_for;
use serde::Deserialize;
use serde_json::Map;

use super::{ApiCall, ApiResponse, Route, RouteAccess};
use crate::web::problem::Problem;
use app::operations::questions::Method;
use app::operations::questions::work::{
    CancelTask, ListEpics, ListJobs, ReadLog, ShowCosts, ShowEpic, ShowInsights, ShowStatus,
    SignEpic,
};
use app::operations::tasks;

const JOBS: &[(&str, &str)] = &[
    ("queue", "only of this queue"),
    ("state", "waiting, ready, leased, done, dropped or dead"),
    ("after", "the next of the page before"),
    ("limit", "at most so many, up to 1000"),
];
const LOG: &[(&str, &str)] = &[
    ("ticket", "only this ticket's"),
    (
        "after",
        "what came after this place (12.345); else the newest",
    ),
    ("limit", "at most so many, up to 10000"),
    ("wait_secs", "with after: wait so long for news, up to 50"),
];

pub const ROUTES: &[Route] = &[
    Route::of::<ShowStatus>(RouteAccess::People, "How many tickets stand where."),
    Route::of::<ShowCosts>(RouteAccess::People, "What the newest tickets have cost."),
    Route::of::<ListJobs>(RouteAccess::People, "Lists jobs, newest first.").query(JOBS),
    Route::of::<ReadLog>(RouteAccess::People, "What has happened, told in sentences.").query(LOG),
    Route::of::<ListEpics>(RouteAccess::People, "Lists epics."),
    Route::of::<ShowEpic>(RouteAccess::People, "Shows one epic and how it stands."),
    Route::of::<SignEpic>(
        RouteAccess::People,
        "Signs an epic whose tickets have all landed.",
    )
    .takes(|| schema_for!(SignEpic)),
    Route::of::<ShowInsights>(RouteAccess::People, "What all tickets together teach."),
    Route {
        method: Method::Post,
        path: "/api/v1/tasks",
        does: "Queues a task for an agent.",
        who: RouteAccess::People,
        query: &[],
        takes: Some(|| schema_for!(tasks::TaskRequest)),
        perform: |call| Box::pin(task(call)),
    },
    Route::of::<CancelTask>(
        RouteAccess::People,
        "Cancels a task; who has it in hand is stopped.",
    )
    .takes(|| schema_for!(CancelTask)),
    Route {
        method: Method::Post,
        path: "/queue",
        does: "Queues the review of a pull request, for CI jobs.",
        who: RouteAccess::People,
        query: &[],
        takes: Some(|| schema_for!(PullRequestTask)),
        perform: |call| Box::pin(pull_request(call)),
    },
];

/// 001's short form.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct PullRequestTask {
    agent_id: String,
    /// Its number; a CI job's template may write it as text.
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
    let wanted: tasks::TaskRequest = call.body()?;
    ApiResponse::made(tasks::queue(&call.office, &call.speaker, wanted).await?)
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
    let wanted = tasks::TaskRequest {
        agent_id,
        task_type: "review".to_owned(),
        title: format!("Review PR #{pr}"),
        description: format!("Review pull request #{pr}."),
        context,
        ..tasks::TaskRequest::default()
    };
    ApiResponse::made(tasks::queue(&call.office, &call.speaker, wanted).await?)
}
