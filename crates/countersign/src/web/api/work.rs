//! What is going on: counts, jobs, epics, what was learned; and tasks for agents (001).

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Answer, Call, Method, Route, Who};
use crate::operations::{epics, insights, queue, tasks, tickets};
use crate::web::problem::Problem;

pub const ROUTES: &[Route] = &[
    Route {
        method: Method::Get,
        path: "/api/v1/status",
        does: "How many tickets stand where.",
        who: Who::People,
        query: &[],
        takes: None,
        perform: |call| Box::pin(status(call)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/jobs",
        does: "Lists jobs, newest first.",
        who: Who::People,
        query: &[
            ("queue", "only of this queue"),
            ("state", "waiting, ready, leased, done, dropped or dead"),
            ("after", "the next of the page before"),
            ("limit", "at most so many, up to 1000"),
        ],
        takes: None,
        perform: |call| Box::pin(jobs(call)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/epics",
        does: "Lists epics.",
        who: Who::People,
        query: &[],
        takes: None,
        perform: |call| Box::pin(all_epics(call)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/insights",
        does: "What all tickets together teach.",
        who: Who::People,
        query: &[],
        takes: None,
        perform: |call| Box::pin(learned(call)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/tasks",
        does: "Queues a task for an agent.",
        who: Who::People,
        query: &[],
        takes: Some(|| schemars::schema_for!(tasks::Wanted)),
        perform: |call| Box::pin(task(call)),
    },
    Route {
        method: Method::Post,
        path: "/queue",
        does: "Queues the review of a pull request, for CI jobs.",
        who: Who::People,
        query: &[],
        takes: Some(|| schemars::schema_for!(PullRequest)),
        perform: |call| Box::pin(pull_request(call)),
    },
];

/// 001's short form.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct PullRequest {
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

async fn status(call: Call) -> Result<Answer, Problem> {
    let tally = tickets::tally(&call.office).await?;
    let counts: Map<String, Value> = tally
        .into_iter()
        .map(|(stage, count)| (stage.word().to_owned(), count.into()))
        .collect();
    Answer::ok(json!({"tally": counts, "pauses": tickets::pauses(&call.office).await?}))
}

async fn jobs(call: Call) -> Result<Answer, Problem> {
    let (queue, state) = (call.asked("queue"), call.asked("state"));
    let ticket = call.speaker.ticket.clone();
    let page = call.page()?;
    Answer::ok(queue::jobs(&call.office, queue, state, ticket, &page).await?)
}

async fn all_epics(call: Call) -> Result<Answer, Problem> {
    Answer::ok(json!({"items": epics::list(&call.office).await?}))
}

async fn learned(call: Call) -> Result<Answer, Problem> {
    Answer::ok(insights::gather(&call.office).await?)
}

async fn task(call: Call) -> Result<Answer, Problem> {
    let wanted: tasks::Wanted = call.body()?;
    Answer::made(tasks::queue(&call.office, &call.speaker, wanted).await?)
}

async fn pull_request(call: Call) -> Result<Answer, Problem> {
    let PullRequest {
        agent_id,
        pr,
        github_repo,
    } = call.body()?;
    let mut context = Map::new();
    context.insert("pr_number".to_owned(), pr.into());
    if let Some(repo) = github_repo {
        context.insert("github_repo".to_owned(), repo.into());
    }
    let wanted = tasks::Wanted {
        agent_id,
        task_type: "review".to_owned(),
        title: format!("Review PR #{pr}"),
        description: format!("Review pull request #{pr}."),
        context,
        ..tasks::Wanted::default()
    };
    Answer::made(tasks::queue(&call.office, &call.speaker, wanted).await?)
}
