//! Tickets, their findings and their story.

use flow::event::Besides;
use flow::ticket::{Context, PRIORITY_DEFAULT, Spec, label};
use flow::usage::Caps;
use flow::{Policy, Stage, TicketId};
use serde::Deserialize;
use serde_json::json;

use super::{Answer, Call, Method, Route, Who, changed};
use crate::operations::tickets::BudgetScope;
use crate::operations::{self, Cursor, escalations, export, history, project, tickets};
use crate::settings::ticket_file::{Wanted, id_for};
use crate::web::problem::Problem;

const PAGED: &[(&str, &str)] = &[
    ("after", "the next of the page before"),
    ("limit", "at most so many, up to 1000"),
];

pub const ROUTES: &[Route] = &[
    Route {
        method: Method::Get,
        path: "/api/v1/tickets",
        does: "Lists tickets, newest first.",
        who: Who::People,
        query: &[
            ("stage", "only tickets in this stage"),
            ("after", "the next of the page before"),
            ("limit", "at most so many, up to 1000"),
        ],
        takes: None,
        perform: |call| Box::pin(list(call)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/tickets",
        does: "Adds a ticket.",
        who: Who::People,
        query: &[],
        takes: Some(|| schemars::schema_for!(NewTicket)),
        perform: |call| Box::pin(add(call)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/tickets/{ticket}",
        does: "Shows one ticket, whole.",
        who: Who::People,
        query: &[],
        takes: None,
        perform: |call| Box::pin(show(call)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/tickets/{ticket}/cancel",
        does: "Stops a ticket for good.",
        who: Who::People,
        query: &[],
        takes: Some(|| schemars::schema_for!(Why)),
        perform: |call| Box::pin(cancel(call)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/tickets/{ticket}/findings/{finding}/waive",
        does: "Lets one open finding stand, in the caller's name.",
        who: Who::People,
        query: &[],
        takes: Some(|| schemars::schema_for!(Why)),
        perform: |call| Box::pin(waive(call)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/tickets/{ticket}/budget",
        does: "Sets what a ticket may spend.",
        who: Who::People,
        query: &[],
        takes: Some(|| schemars::schema_for!(NewBudget)),
        perform: |call| Box::pin(budget(call)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/tickets/{ticket}/export",
        does: "A ticket in another system's form.",
        who: Who::People,
        query: &[
            ("form", "task, epic-state, findings or report"),
            ("round", "the last, where it is not said"),
        ],
        takes: None,
        perform: |call| Box::pin(exported(call)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/tickets/{ticket}/log",
        does: "A ticket's story.",
        who: Who::People,
        query: &[("limit", "at most so many, up to 1000")],
        takes: None,
        perform: |call| Box::pin(log(call)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/escalations",
        does: "Lists the tickets that wait for a person.",
        who: Who::People,
        query: PAGED,
        takes: None,
        perform: |call| Box::pin(waiting(call)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/escalations/{ticket}",
        does: "Settles one, in the caller's name.",
        who: Who::People,
        query: &[],
        takes: Some(|| schemars::schema_for!(Decision)),
        perform: |call| Box::pin(settle(call)),
    },
];

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewTicket {
    /// Made of the title, where it is not given.
    #[serde(default)]
    id: Option<String>,
    title: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    acceptance_criteria: Vec<String>,
    /// Higher goes first; 50 where it is not given.
    #[serde(default)]
    priority: Option<i32>,
    #[serde(default)]
    depends_on: Vec<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    critical: bool,
    /// A path on the server.
    #[serde(default)]
    repository: Option<String>,
    #[serde(default)]
    base_branch: Option<String>,
    #[serde(default)]
    epic: Option<String>,
    /// Labels (`KEY=VALUE`) that a worker must have to take it up.
    #[serde(default)]
    needs: Vec<String>,
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Why {
    /// It is recorded with your name.
    why: String,
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewBudget {
    scope: ScopeWord,
    #[serde(default)]
    usd_micros: Option<u64>,
    #[serde(default)]
    tokens: Option<u64>,
    #[serde(default)]
    wall_secs: Option<u64>,
    why: String,
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ScopeWord {
    Round,
    Ticket,
    Day,
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Decision {
    /// accept, continue, take-over, reset, reassign or reject.
    choice: String,
    #[serde(default)]
    why: String,
    /// With accept: although checks are not green.
    #[serde(default)]
    over_red_checks: bool,
    /// With reassign.
    #[serde(default)]
    builder: Option<String>,
    /// With reassign.
    #[serde(default)]
    reviewer: Option<String>,
}

async fn list(call: Call) -> Result<Answer, Problem> {
    let stage = |word: &str| {
        let known = Stage::ALL.into_iter().find(|stage| stage.word() == word);
        known.ok_or_else(|| {
            let words: Vec<&str> = Stage::ALL.iter().map(|stage| stage.word()).collect();
            Problem::new(
                axum::http::StatusCode::BAD_REQUEST,
                format!("{word:?} is no stage"),
            )
            .hint(format!("stages are {}", words.join(", ")))
        })
    };
    let stages = call.asked("stage").map(stage).transpose()?;
    let stages = stages.into_iter().collect();
    let mut page = tickets::list(&call.office, stages, &call.page()?).await?;
    if let Some(only) = &call.speaker.ticket {
        page.items.retain(|row| row.id == *only);
    }
    Answer::ok(page)
}

async fn add(call: Call) -> Result<Answer, Problem> {
    let wanted: NewTicket = call.body()?;
    let id = wanted
        .id
        .as_deref()
        .map(operations::ticket_id)
        .transpose()?;
    let id = id.unwrap_or_else(|| id_for(&wanted.title));
    let depends_on: Result<_, _> = wanted
        .depends_on
        .iter()
        .map(|id| TicketId::new(id))
        .collect();
    let needs: Result<_, _> = wanted.needs.iter().map(|text| label(text)).collect();
    let mut spec = Spec {
        title: wanted.title,
        description: wanted.description,
        acceptance: wanted.acceptance_criteria,
        priority: wanted.priority.unwrap_or(PRIORITY_DEFAULT),
        depends_on: depends_on.map_err(crate::failure::Failure::usage)?,
        kind: wanted.kind,
        critical: wanted.critical,
        protected: Vec::new(),
        context: Context {
            epic: wanted.epic,
            base_branch: wanted.base_branch,
            needs: needs.map_err(crate::failure::Failure::usage)?,
            ..Context::default()
        },
    };
    let policy = match &wanted.repository {
        Some(place) => project::settle(&call.office, place, &mut spec).await?,
        None => Policy::default(),
    };
    let new = Wanted { id: Some(id), spec };
    let added = tickets::add(&call.office, vec![new], &policy).await?;
    let Some(added) = added.into_iter().next() else {
        return Answer::ok(json!(null));
    };
    let stored = call.office.ticket(added.id.as_str()).await?;
    Answer::made(super::standing(&stored.ticket))
}

async fn show(call: Call) -> Result<Answer, Problem> {
    let stored = call.ticket().await?;
    Ok(Answer {
        version: Some(stored.ticket.version),
        ..Answer::ok(stored)?
    })
}

async fn cancel(call: Call) -> Result<Answer, Problem> {
    let (id, Why { why }) = (call.ticket().await?.ticket.id, call.body()?);
    tickets::cancel(&call.office, id.as_str(), &why).await?;
    changed(&call.ticket().await?.ticket)
}

async fn waive(call: Call) -> Result<Answer, Problem> {
    let (id, Why { why }) = (call.ticket().await?.ticket.id, call.body()?);
    let finding = call.named("finding");
    changed(&tickets::waive(&call.office, id.as_str(), finding, &why).await?)
}

async fn budget(call: Call) -> Result<Answer, Problem> {
    let wanted: NewBudget = call.body()?;
    let id = call.ticket().await?.ticket.id;
    let scope = match wanted.scope {
        ScopeWord::Round => BudgetScope::Round,
        ScopeWord::Ticket => BudgetScope::Ticket,
        ScopeWord::Day => BudgetScope::Day,
    };
    let caps = Caps {
        usd_micros: wanted.usd_micros,
        tokens: wanted.tokens,
        wall_secs: wanted.wall_secs,
    };
    let ticket = tickets::raise(&call.office, id.as_str(), scope, caps, &wanted.why).await?;
    changed(&ticket)
}

async fn exported(call: Call) -> Result<Answer, Problem> {
    let id = call.ticket().await?.ticket.id.to_string();
    let form = match call.asked("form").unwrap_or("task") {
        "task" => export::Form::Task,
        "epic-state" => export::Form::EpicState,
        "findings" => export::Form::Findings,
        "report" => export::Form::Report,
        other => {
            let why = format!("there is no form {other:?}");
            return Err(Problem::new(axum::http::StatusCode::BAD_REQUEST, why)
                .hint("forms are task, epic-state, findings and report"));
        }
    };
    let documents = export::export(&call.office, form, &[id], call.number("round")?).await?;
    Answer::ok(json!({ "documents": documents }))
}

async fn log(call: Call) -> Result<Answer, Problem> {
    let id = call.ticket().await?.ticket.id;
    let most = call.page()?.most;
    let lines = history::log(&call.office, Some(&id), Cursor::default(), most).await?;
    Answer::ok(json!({ "items": lines }))
}

async fn waiting(call: Call) -> Result<Answer, Problem> {
    Answer::ok(escalations::list(&call.office, &call.page()?).await?)
}

async fn settle(call: Call) -> Result<Answer, Problem> {
    let decision: Decision = call.body()?;
    let id = call.ticket().await?.ticket.id;
    let besides = Besides {
        over_red_checks: decision.over_red_checks,
        builder: decision.builder,
        reviewer: decision.reviewer,
    };
    let choice = escalations::choice(&decision.choice.replace('_', "-"), besides)?;
    let ticket = escalations::resolve(&call.office, id.as_str(), choice, &decision.why).await?;
    changed(&ticket)
}
