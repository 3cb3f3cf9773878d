//! Who may speak, and what they may be given.

use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::{Answer, Call, Method, Route, Who};
use crate::operations::{Scope, identity, pauses, tickets};
use crate::web::problem::Problem;

pub const ROUTES: &[Route] = &[
    Route {
        method: Method::Get,
        path: "/api/v1/tokens",
        does: "Lists tokens, without their secrets.",
        who: Who::Administrators,
        query: &[],
        takes: None,
        perform: |call| Box::pin(tokens(call)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/tokens",
        does: "Makes a token; its secret is shown this once.",
        who: Who::Administrators,
        query: &[],
        takes: Some(|| schemars::schema_for!(NewToken)),
        perform: |call| Box::pin(create(call)),
    },
    Route {
        method: Method::Delete,
        path: "/api/v1/tokens/{token}",
        does: "Revokes a token.",
        who: Who::Administrators,
        query: &[],
        takes: None,
        perform: |call| Box::pin(revoke(call)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/tokens/{token}/rotate",
        does: "A new secret for the same agent; the old one ends.",
        who: Who::Administrators,
        query: &[],
        takes: None,
        perform: |call| Box::pin(rotate(call)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/agents",
        does: "Agents and workers that have been seen.",
        who: Who::People,
        query: &[],
        takes: None,
        perform: |call| Box::pin(agents(call)),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/pauses",
        does: "Agents, queues and providers that are given nothing for now.",
        who: Who::People,
        query: &[],
        takes: None,
        perform: |call| Box::pin(paused(call)),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/pauses",
        does: "Gives an agent, a queue or a provider nothing for now.",
        who: Who::People,
        query: &[],
        takes: Some(|| schemars::schema_for!(NewPause)),
        perform: |call| Box::pin(pause(call)),
    },
    Route {
        method: Method::Delete,
        path: "/api/v1/pauses/{scope}/{name}",
        does: "Ends a pause.",
        who: Who::People,
        query: &[],
        takes: None,
        perform: |call| Box::pin(resume(call)),
    },
];

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewToken {
    agent: String,
    role: RoleWord,
    #[serde(default)]
    principal: Option<String>,
    #[serde(default)]
    family: Option<String>,
    #[serde(default)]
    ticket: Option<String>,
    #[serde(default)]
    ttl_secs: Option<u64>,
}

#[derive(Clone, Copy, Debug, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RoleWord {
    Builder,
    Reviewer,
    Verifier,
    Human,
    Service,
    Admin,
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewPause {
    scope: ScopeWord,
    name: String,
    #[serde(default)]
    why: String,
    /// Without end, where it is not given.
    #[serde(default)]
    for_secs: Option<u64>,
}

#[derive(Clone, Copy, Debug, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ScopeWord {
    Agent,
    Queue,
    Provider,
}

impl ScopeWord {
    fn of(self, name: String) -> Scope {
        match self {
            Self::Agent => Scope::Agent(name),
            Self::Queue => Scope::Queue(name),
            Self::Provider => Scope::Provider(name),
        }
    }
}

async fn tokens(call: Call) -> Result<Answer, Problem> {
    Answer::ok(json!({"items": identity::list(&call.office).await?}))
}

async fn create(call: Call) -> Result<Answer, Problem> {
    let wanted: NewToken = call.body()?;
    let role = match wanted.role {
        RoleWord::Builder => flow::Role::Builder,
        RoleWord::Reviewer => flow::Role::Reviewer,
        RoleWord::Verifier => flow::Role::Verifier,
        RoleWord::Human => flow::Role::Human,
        RoleWord::Service => flow::Role::Service,
        RoleWord::Admin => flow::Role::Admin,
    };
    let ticket = wanted.ticket.as_deref().map(crate::operations::ticket_id);
    let wanted = identity::Wanted {
        agent: wanted.agent,
        principal: wanted.principal,
        role,
        family: wanted.family,
        ticket: ticket.transpose()?,
        ttl_ms: wanted.ttl_secs.map(|secs| secs.saturating_mul(1000)),
    };
    Answer::made(identity::create(&call.office, wanted).await?)
}

async fn revoke(call: Call) -> Result<Answer, Problem> {
    known(&call).await?;
    Answer::ok(identity::revoke(&call.office, call.named("token")).await?)
}

async fn rotate(call: Call) -> Result<Answer, Problem> {
    known(&call).await?;
    Answer::made(identity::rotate(&call.office, call.named("token")).await?)
}

async fn known(call: &Call) -> Result<(), Problem> {
    let id = call.named("token");
    let tokens = identity::list(&call.office).await?;
    if tokens.iter().any(|token| token.id == id) {
        return Ok(());
    }
    Err(Problem::not_found(format!("there is no token {id}")))
}

async fn agents(call: Call) -> Result<Answer, Problem> {
    Answer::ok(json!({"items": pauses::seen(&call.office).await?}))
}

async fn paused(call: Call) -> Result<Answer, Problem> {
    Answer::ok(json!({"items": tickets::pauses(&call.office).await?}))
}

async fn pause(call: Call) -> Result<Answer, Problem> {
    let wanted: NewPause = call.body()?;
    let scope = wanted.scope.of(findings::one_line(&wanted.name));
    Answer::made(pauses::pause(&call.office, scope, &wanted.why, wanted.for_secs).await?)
}

async fn resume(call: Call) -> Result<Answer, Problem> {
    let scope = match call.named("scope") {
        "agent" => ScopeWord::Agent,
        "queue" => ScopeWord::Queue,
        "provider" => ScopeWord::Provider,
        other => {
            let why = format!("{other:?} cannot be paused");
            return Err(Problem::new(StatusCode::BAD_REQUEST, why)
                .hint("an agent, a queue or a provider can"));
        }
    };
    let scope = scope.of(call.named("name").to_owned());
    if !pauses::resume(&call.office, &scope).await? {
        return Err(Problem::not_found("there is no such pause"));
    }
    Answer::ok(json!({"resumed": scope}))
}
