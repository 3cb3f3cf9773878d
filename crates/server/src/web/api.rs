//! REST: a table of routes. The router and the `OpenAPI` document are both made of it, so that the
//! one cannot say what the other does not do. Each handler is a translation of one operation.

mod people;
mod tickets;
mod work;

use std::collections::BTreeMap;
use std::pin::Pin;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use axum::{Extension, Json};
use engine::coordinator::Once;
use flow::{Role, Ticket};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::ServerState;
use super::problem::Problem;
use app::failure::Failure;
use app::operations::identity::Identity;
use app::operations::questions::{Method, Question, TicketSummary, in_path};
use app::operations::{self, App, assignments};

/// What a body's schema is called here: a function that makes it.
pub type SchemaFn = fn() -> schemars::Schema;

/// Who may call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteAccess {
    /// People, programs and administrators; agents have their tools.
    People,
    Administrators,
}

impl RouteAccess {
    pub fn admits(self, role: Role) -> bool {
        match self {
            Self::People => matches!(role, Role::Human | Role::Service | Role::Admin),
            Self::Administrators => role == Role::Admin,
        }
    }
}

pub type RouteFuture = Pin<Box<dyn Future<Output = Result<ApiResponse, Problem>> + Send>>;

#[derive(Clone, Copy, Debug)]
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    pub does: &'static str,
    pub who: RouteAccess,
    /// Each with what it means.
    pub query: &'static [(&'static str, &'static str)],
    pub takes: Option<SchemaFn>,
    pub perform: fn(ApiCall) -> RouteFuture,
}

impl Route {
    /// A question, as it is.
    pub const fn of<Q: Question>(who: RouteAccess, does: &'static str) -> Self {
        Self {
            method: Q::METHOD,
            path: Q::PATH,
            does,
            who,
            query: &[],
            takes: None,
            perform: |call| Box::pin(asked::<Q>(call)),
        }
    }

    pub const fn query(mut self, query: &'static [(&'static str, &'static str)]) -> Self {
        self.query = query;
        self
    }

    pub const fn takes(mut self, schema: SchemaFn) -> Self {
        self.takes = Some(schema);
        self
    }
}

/// One call, recognised and read.
#[derive(Debug)]
pub struct ApiCall {
    pub office: App,
    pub speaker: Identity,
    path: BTreeMap<String, String>,
    query: BTreeMap<String, String>,
    body: Bytes,
}

/// What is answered: a value, and its version where it has one.
#[derive(Debug)]
pub struct ApiResponse {
    pub status: StatusCode,
    pub value: Value,
    pub version: Option<u64>,
}

impl ApiResponse {
    pub fn ok(value: impl serde::Serialize) -> Result<Self, Problem> {
        let value = serde_json::to_value(value).map_err(|error| {
            let why = format!("the answer cannot be written: {error}");
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, why)
        })?;
        Ok(Self {
            status: StatusCode::OK,
            value,
            version: None,
        })
    }

    pub fn made(value: impl serde::Serialize) -> Result<Self, Problem> {
        Ok(Self {
            status: StatusCode::CREATED,
            ..Self::ok(value)?
        })
    }
}

impl IntoResponse for ApiResponse {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.value)).into_response();
        let tag = self.version.map(|version| format!("\"{version}\""));
        if let Some(tag) = tag.and_then(|tag| HeaderValue::try_from(tag).ok()) {
            response.headers_mut().insert(header::ETAG, tag);
        }
        response
    }
}

impl ApiCall {
    /// What is asked, whole: from the path, and from the query or the body.
    fn question<Q: Question>(&self) -> Result<Q, Problem> {
        let hint = "/api/v1/openapi.json says what it should be";
        if Q::METHOD == Method::Get {
            let said: Vec<_> = self.path.iter().chain(&self.query).collect();
            let text = serde_urlencoded::to_string(said).unwrap_or_default();
            let read = serde_urlencoded::from_str(&text);
            return read.map_err(|error| {
                Problem::new(StatusCode::BAD_REQUEST, format!("the question: {error}")).hint(hint)
            });
        }
        let bad = |error: &dyn std::fmt::Display| {
            let why = format!("the body: {error}");
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, why).hint(hint)
        };
        let nothing = self.body.is_empty() && in_path(Q::PATH).next().is_some();
        let body: &[u8] = if nothing { b"{}" } else { &self.body };
        let mut said: Map<String, Value> =
            serde_json::from_slice(body).map_err(|error| bad(&error))?;
        for (name, value) in &self.path {
            if said.insert(name.clone(), value.clone().into()).is_some() {
                return Err(bad(&format!("{name} is said in the path")));
            }
        }
        serde_json::from_value(said.into()).map_err(|error| bad(&error))
    }

    /// The body, in the form that is wanted.
    pub fn body<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                format!("the body: {error}"),
            )
            .hint("/api/v1/openapi.json says what it should be")
        })
    }

    /// A token for one ticket changes nothing else.
    async fn must_be_in_scope<Q: Question>(&self, question: &Q) -> Result<(), Problem> {
        let named = question.tickets();
        let changes = Q::METHOD != Method::Get;
        if let (Some(only), true, true) = (&self.speaker.ticket, changes, named.is_empty()) {
            let why = format!("this token speaks of {only} alone");
            return Err(Problem::new(StatusCode::FORBIDDEN, why));
        }
        for ticket in named {
            self.must_be_known(ticket).await?;
        }
        Ok(())
    }

    /// There is such a ticket, and the token may speak of it; to others it is as if there were none.
    async fn must_be_known(&self, ticket: &str) -> Result<(), Problem> {
        let id = operations::ticket_id(ticket)
            .map_err(|failure| Problem::from(Failure::missing(failure)))?;
        if self.speaker.ticket.as_ref().is_some_and(|only| *only != id) {
            let problem =
                Problem::from(Failure::from(engine::coordinator::Error::NoSuchTicket(id)));
            return Err(problem.refusal());
        }
        self.office.ticket(ticket).await?;
        Ok(())
    }
}

async fn asked<Q: Question>(call: ApiCall) -> Result<ApiResponse, Problem> {
    let question: Q = call.question()?;
    call.must_be_in_scope(&question).await?;
    let answer = question.answer(&call.office).await.map_err(|failure| {
        let problem = Problem::from(failure);
        match Q::METHOD {
            Method::Get => problem.of_question(),
            Method::Post | Method::Delete => problem,
        }
    })?;
    let version = Q::version(&answer);
    let answer = if Q::MAKES {
        ApiResponse::made(answer)?
    } else {
        ApiResponse::ok(answer)?
    };
    Ok(ApiResponse { version, ..answer })
}

/// Everything that can be called.
pub fn routes() -> Vec<Route> {
    [tickets::ROUTES, people::ROUTES, work::ROUTES].concat()
}

pub fn router() -> Router<ServerState> {
    let mut by_path: BTreeMap<&str, MethodRouter<ServerState>> = BTreeMap::new();
    for route in routes() {
        let known = by_path.remove(route.path).unwrap_or_default();
        let handler = move |state, speaker, path, query, headers, body| {
            answer(route, state, speaker, path, query, headers, body)
        };
        let with = match route.method {
            Method::Get => known.get(handler),
            Method::Post => known.post(handler),
            Method::Delete => known.delete(handler),
        };
        by_path.insert(route.path, with);
    }
    let router = by_path
        .into_iter()
        .fold(Router::new(), |router, (path, methods)| {
            router.route(path, methods)
        });
    router.method_not_allowed_fallback(|| async {
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "that cannot be done here")
    })
}

async fn answer(
    route: Route,
    State(house): State<ServerState>,
    Extension(speaker): Extension<Identity>,
    Path(path): Path<BTreeMap<String, String>>,
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    must_be_allowed(&route, &speaker)?;
    must_be_known(&route, &query)?;
    let mut office = house.office.speaking_as(speaker.actor.clone());
    office.call.expects = expected(&headers)?;
    office.call.only.clone_from(&speaker.ticket);
    let once = once(&route, &speaker, &path, &headers, &body);
    if let Some(first) = answered(&office, once.as_ref()).await? {
        return Ok(first.into_response());
    }
    office.call.once.clone_from(&once);
    let call = ApiCall {
        office: office.clone(),
        speaker,
        path,
        query,
        body,
    };
    match (route.perform)(call).await {
        Ok(answer) => Ok(answer.into_response()),
        // The same call may have come in the same instant, and won.
        Err(problem) => match answered(&office, once.as_ref()).await? {
            Some(first) => Ok(first.into_response()),
            None => Err(problem),
        },
    }
}

/// The first answer to the same call, if it came before.
async fn answered(office: &App, once: Option<&Once>) -> Result<Option<ApiResponse>, Problem> {
    let Some(once) = once else {
        return Ok(None);
    };
    let first = assignments::recall(office, &once.key, &once.payload_hash).await;
    first?.map(ApiResponse::ok).transpose()
}

fn must_be_allowed(route: &Route, speaker: &Identity) -> Result<(), Problem> {
    let role = speaker.actor.role;
    if route.who.admits(role) {
        return Ok(());
    }
    let why = format!("the role {} may not do this", role.word());
    Err(Problem::new(StatusCode::FORBIDDEN, why).hint("agents have their tools at /mcp"))
}

fn must_be_known(route: &Route, query: &BTreeMap<String, String>) -> Result<(), Problem> {
    let known = |name: &String| route.query.iter().any(|(known, _)| known == name);
    match query.keys().find(|name| !known(name)) {
        None => Ok(()),
        Some(name) => Err(Problem::new(
            StatusCode::BAD_REQUEST,
            format!("{name:?} is not asked for here"),
        )),
    }
}

/// `If-Match` names the version that the caller had seen.
fn expected(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(tag) = headers.get(header::IF_MATCH) else {
        return Ok(None);
    };
    let version = tag.to_str().ok().map(|tag| tag.trim_matches('"'));
    let version = version.and_then(|tag| tag.parse().ok());
    version.map(Some).ok_or_else(|| {
        Problem::new(
            StatusCode::BAD_REQUEST,
            "If-Match is no version of a ticket",
        )
    })
}

/// `Idempotency-Key`: the same call again gets the first answer.
fn once(
    route: &Route,
    speaker: &Identity,
    path: &BTreeMap<String, String>,
    headers: &HeaderMap,
    body: &Bytes,
) -> Option<Once> {
    let key = headers.get("idempotency-key")?.to_str().ok()?;
    let payload = json!([route.path, path, String::from_utf8_lossy(body)]).to_string();
    Some(Once {
        key: format!("rest/{}/{key}", speaker.actor.agent),
        payload_hash: engine::hash::short(payload.as_bytes()),
        answer: standing,
    })
}

/// The answer that is kept of a change.
fn standing(ticket: &Ticket) -> Value {
    json!(TicketSummary::of(ticket))
}
