//! REST API: a table of routes. The router and the `OpenAPI` document are both generated from it,
//! so they cannot disagree. Each handler translates one operation and decides nothing.

mod people;
mod tickets;
mod work;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::pin::Pin;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use axum::{Extension, Json};
use engine::coordinator::Once;
use flow::{Policy, Role, Ticket, TicketId};
use schemars::SchemaGenerator;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::ServerState;
use super::problem::Problem;
use super::representation::{json_answer, strip_weak};
use app::failure::Failure;
use app::fields::{self, read_fields};
use app::operations::identity::Identity;
use app::operations::questions::{Method, Question, TicketSummary, path_fields};
use app::operations::{self, App, CallToken, assignments};

const FIELDS_HINT: &str = "see /api/v1/openapi.json for the expected fields";
/// Longest `Idempotency-Key`.
const KEY_CHARS_MAX: usize = 255;

/// Function that generates the schema of a body.
pub type SchemaFn = fn() -> schemars::Schema;
/// Function that adds the type of an answer to the document's schemas and refers to it. All
/// answers share one generator, so a type is described once.
pub type AnswerSchemaFn = fn(&mut SchemaGenerator) -> schemars::Schema;

/// Callers that a route admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteAccess {
    /// People, programs and administrators, and viewers if the route only reads. Agents use MCP
    /// tools instead.
    People,
    Administrators,
    /// Everybody with a valid token, agents too.
    Anyone,
}

impl RouteAccess {
    pub fn admits(self, method: Method, role: Role) -> bool {
        match self {
            Self::People if role == Role::Viewer => method == Method::Get,
            Self::People => matches!(role, Role::Human | Role::Service | Role::Admin),
            Self::Administrators => role == Role::Admin,
            Self::Anyone => true,
        }
    }
}

pub type RouteFuture = Pin<Box<dyn Future<Output = Result<ApiResponse, Problem>> + Send>>;

#[derive(Clone, Copy, Debug)]
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    pub summary: &'static str,
    pub access: RouteAccess,
    /// Query parameters, each with its description.
    pub query: &'static [(&'static str, &'static str)],
    pub takes: Option<SchemaFn>,
    pub answers: AnswerSchemaFn,
    /// True if the answer is 201 and not 200.
    pub creates: bool,
    /// True if the answer has the version of a ticket as its `ETag`, and `If-Match` is compared.
    pub versioned: bool,
    pub perform: fn(ApiCall) -> RouteFuture,
}

impl Route {
    /// Builds the route of a `Question`.
    pub const fn for_question<Q: Question>(access: RouteAccess, summary: &'static str) -> Self {
        Self {
            method: Q::METHOD,
            path: Q::PATH,
            summary,
            access,
            query: &[],
            takes: None,
            answers: SchemaGenerator::subschema_for::<Q::Answer>,
            creates: Q::CREATES,
            versioned: false,
            perform: |call| Box::pin(answer_question::<Q>(call)),
        }
    }

    pub const fn query(mut self, query: &'static [(&'static str, &'static str)]) -> Self {
        self.query = query;
        self
    }

    /// Marks a route whose answer has the version of a ticket.
    pub const fn versioned(mut self) -> Self {
        self.versioned = true;
        self
    }

    pub const fn takes(mut self, schema: SchemaFn) -> Self {
        self.takes = Some(schema);
        self
    }
}

/// An authenticated call with its parsed request.
#[derive(Debug)]
pub struct ApiCall {
    pub app: App,
    pub identity: Identity,
    path: BTreeMap<String, String>,
    query: BTreeMap<String, String>,
    body: Bytes,
}

/// A JSON answer, with the version of the ticket if it has one.
#[derive(Debug)]
pub struct ApiResponse {
    pub status: StatusCode,
    pub value: Value,
    pub version: Option<u64>,
}

impl ApiResponse {
    pub fn ok(value: impl serde::Serialize) -> Result<Self, Problem> {
        let value = serde_json::to_value(value).map_err(|error| {
            let why = format!("could not serialise the answer: {error}");
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, why)
        })?;
        Ok(Self {
            status: StatusCode::OK,
            value,
            version: None,
        })
    }

    pub fn created(value: impl serde::Serialize) -> Result<Self, Problem> {
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
    /// Deserialises the question from the path plus the query or the body.
    fn question<Q: Question>(&self) -> Result<Q, Problem> {
        if Q::METHOD == Method::Get {
            return self.read_parameters().map_err(|why| bad_parameters(&why));
        }
        read_fields(&self.fields(Q::PATH)?).map_err(|why| bad_body(&why))
    }

    /// Deserialises the path's and the query's fields. The error names the parameter.
    fn read_parameters<Q: Question>(&self) -> Result<Q, String> {
        serde_urlencoded::from_str(&self.parameters()).map_err(|error| {
            let error = error.to_string();
            let alone = self.query.iter().find(|field| {
                let text = serde_urlencoded::to_string([field]).unwrap_or_default();
                let read = serde_urlencoded::from_str::<Q>(&text);
                read.is_err_and(|one| one.to_string() == error)
            });
            match alone {
                Some((name, _)) => fields::name_field(name, &error),
                None => error,
            }
        })
    }

    /// Writes the path's and the query's fields as one query, from which a question reads numbers too.
    fn parameters(&self) -> String {
        let fields: Vec<_> = self.path.iter().chain(&self.query).collect();
        serde_urlencoded::to_string(fields).unwrap_or_default()
    }

    /// Merges the path's fields into those of the body.
    fn fields(&self, path: &'static str) -> Result<Value, Problem> {
        let nothing = self.body.is_empty() && path_fields(path).next().is_some();
        let mut fields = if nothing { Map::new() } else { self.object()? };
        for (name, value) in &self.path {
            if fields.insert(name.clone(), value.clone().into()).is_some() {
                return Err(bad_body(&format!(
                    "{name} belongs in the path, not in the body"
                )));
            }
        }
        Ok(fields.into())
    }

    /// Deserialises the body.
    pub fn body<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        read_fields(&self.object()?.into()).map_err(|why| bad_body(&why))
    }

    /// Reads the body as an object in which every key is there once: of two equal keys, a parser
    /// keeps one, and the sender may mean the other.
    fn object(&self) -> Result<Map<String, Value>, Problem> {
        if std::str::from_utf8(&self.body).is_ok_and(findings::repeats_a_key) {
            return Err(bad_body(&"the same key is twice in one object"));
        }
        let value = serde_json::from_slice(&self.body).map_err(|error| bad_body(&error))?;
        match value {
            Value::Object(fields) => Ok(fields),
            _ => Err(bad_body(&"it must be a JSON object")),
        }
    }

    /// Refuses a change outside the ticket that the token is limited to.
    async fn require_scope(&self, method: Method, tickets: Vec<&str>) -> Result<(), Problem> {
        let changes = method != Method::Get;
        if let (Some(only), true, true) = (&self.identity.ticket, changes, tickets.is_empty()) {
            let why = format!("this token is only for ticket {only}");
            return Err(Problem::new(StatusCode::FORBIDDEN, why));
        }
        for ticket in tickets {
            require_ticket(&self.app, &self.identity, ticket).await?;
        }
        Ok(())
    }
}

/// Checks that the ticket exists and is in the token's scope. A ticket outside it is reported as
/// not found, so that a token cannot probe for ids.
pub async fn require_ticket(
    app: &App,
    identity: &Identity,
    ticket: &str,
) -> Result<TicketId, Problem> {
    let id = operations::parse_ticket_id(ticket)
        .map_err(|failure| Problem::from(Failure::not_found(failure)))?;
    if identity.ticket.as_ref().is_some_and(|only| *only != id) {
        let problem = Problem::from(Failure::from(engine::coordinator::Error::NoSuchTicket(id)));
        return Err(problem.refusal());
    }
    Ok(app.ticket(ticket).await?.ticket.id)
}

fn bad_parameters(error: &dyn Display) -> Problem {
    let why = format!("invalid request parameters: {error}");
    Problem::new(StatusCode::BAD_REQUEST, why).hint(FIELDS_HINT)
}

fn bad_body(error: &dyn Display) -> Problem {
    let why = format!("invalid request body: {error}");
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, why).hint(FIELDS_HINT)
}

/// Reads, checks and answers a question. Generic only where the types differ: it is compiled for
/// every question.
async fn answer_question<Q: Question>(call: ApiCall) -> Result<ApiResponse, Problem> {
    let question: Q = call.question()?;
    Box::pin(call.require_scope(Q::METHOD, question.tickets())).await?;
    let answer = question.answer(&call.app).await;
    let answer = answer.map_err(|failure| answer_problem(Q::METHOD, failure))?;
    Ok(ApiResponse {
        status: if Q::CREATES {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        },
        version: Q::version(&answer),
        ..ApiResponse::ok(answer)?
    })
}

fn answer_problem(method: Method, failure: Failure) -> Problem {
    let problem = Problem::from(failure);
    match method {
        Method::Get => problem.into_bad_query(),
        Method::Post | Method::Delete => problem,
    }
}

/// Returns all routes.
pub fn routes() -> Vec<Route> {
    [tickets::ROUTES, people::ROUTES, work::ROUTES].concat()
}

pub fn router() -> Router<ServerState> {
    let mut by_path: BTreeMap<&str, MethodRouter<ServerState>> = BTreeMap::new();
    for route in routes() {
        let methods = by_path.remove(route.path).unwrap_or_default();
        let handler = move |state, identity, path, uri, headers, body| {
            answer(route, state, identity, path, uri, headers, body)
        };
        let methods = match route.method {
            Method::Get => methods.get(handler),
            Method::Post => methods.post(handler),
            Method::Delete => methods.delete(handler),
        };
        by_path.insert(route.path, methods);
    }
    let router = by_path
        .into_iter()
        .fold(Router::new(), |router, (path, methods)| {
            router.route(path, methods)
        });
    router.method_not_allowed_fallback(|| async {
        Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "this route does not support the method",
        )
    })
}

async fn answer(
    route: Route,
    State(state): State<ServerState>,
    Extension(identity): Extension<Identity>,
    Path(path): Path<BTreeMap<String, String>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    require_access(&route, &identity)?;
    let query = read_query(&route, uri.query().unwrap_or_default())?;
    let mut app = state.app.acting_as(identity.actor.clone());
    app.call.expected_version = expected_version(&headers)?;
    app.call.only_ticket.clone_from(&identity.ticket);
    app.call.token = Some(CallToken {
        id: identity.token.clone(),
        expires_at: identity.expires_at,
    });
    let once = idempotency_key(&route, &identity, &path, &headers, &body)?;
    if let Some(first) = previous_answer(&app, &route, once.as_ref()).await? {
        return Ok(first.into_response());
    }
    app.call.once.clone_from(&once);
    let call = ApiCall {
        app: app.clone(),
        identity,
        path,
        query,
        body,
    };
    match (route.perform)(call).await {
        Ok(answer) if route.method == Method::Get => {
            Ok(json_answer(&headers, &answer.value, answer.version).await)
        }
        Ok(answer) => Ok(answer.into_response()),
        // The same call may have arrived at the same time and won.
        Err(problem) => match previous_answer(&app, &route, once.as_ref()).await? {
            Some(first) => Ok(first.into_response()),
            None => Err(problem),
        },
    }
}

/// Returns the stored answer if the same call was made before.
async fn previous_answer(
    app: &App,
    route: &Route,
    once: Option<&Once>,
) -> Result<Option<ApiResponse>, Problem> {
    let Some(once) = once else {
        return Ok(None);
    };
    let first = assignments::recall_answer(app, &once.key, &once.payload_hash).await;
    // A repeated call gets the status of the first one as well.
    let respond = if route.creates {
        ApiResponse::created
    } else {
        ApiResponse::ok
    };
    first?.map(respond).transpose()
}

fn require_access(route: &Route, identity: &Identity) -> Result<(), Problem> {
    let role = identity.actor.role;
    if route.access.admits(route.method, role) {
        return Ok(());
    }
    let hint = match (role, route.access) {
        (Role::Builder | Role::Reviewer | Role::Verifier, _) => "agents use the tools at /mcp",
        (_, RouteAccess::Administrators) => "it needs a token of the role admin",
        (Role::Viewer, _) => "a viewer reads; use a token of the role human, service or admin",
        (Role::Human | Role::Service | Role::Admin, _) => "it needs a token of another role",
    };
    let why = format!("the role {} may not do this", role.as_str());
    Err(Problem::new(StatusCode::FORBIDDEN, why).hint(hint))
}

/// Reads the query. Each parameter must be known, and be there once.
fn read_query(route: &Route, query: &str) -> Result<BTreeMap<String, String>, Problem> {
    let bad = |why: String| Problem::new(StatusCode::BAD_REQUEST, why);
    let pairs: Vec<(String, String)> =
        serde_urlencoded::from_str(query).map_err(|error| bad_parameters(&error))?;
    let mut parameters = BTreeMap::new();
    for (name, value) in pairs {
        if !route.query.iter().any(|(known, _)| *known == name) {
            let known: Vec<&str> = route.query.iter().map(|(known, _)| *known).collect();
            let problem = bad(format!("unknown query parameter {name:?}"));
            return Err(match known.as_slice() {
                [] => problem.hint("this route has no parameters"),
                known => problem.hint(format!("its parameters are {}", known.join(", "))),
            });
        }
        if parameters.contains_key(&name) {
            let problem = bad(format!(
                "the query parameter {name:?} is given more than once"
            ));
            return Err(problem.hint("give it once; several stages are separated by commas"));
        }
        parameters.insert(name, value);
    }
    Ok(parameters)
}

/// Reads the version of the ticket that the caller expects, from `If-Match`.
fn expected_version(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(tag) = headers.get(header::IF_MATCH) else {
        return Ok(None);
    };
    // Any version will do: the ticket only has to exist.
    if tag == "*" {
        return Ok(None);
    }
    // A compressed answer has the version as a weak tag; the version is the same.
    let version = tag
        .to_str()
        .ok()
        .map(|tag| strip_weak(tag).trim_matches('"'));
    let version = version.and_then(|tag| tag.parse().ok());
    version.map(Some).ok_or_else(|| {
        Problem::new(StatusCode::BAD_REQUEST, "If-Match is not a ticket version")
            .hint("send the ETag of the ticket as it was answered")
    })
}

/// Reads `Idempotency-Key`: a repeated call with the same key returns the first answer.
fn idempotency_key(
    route: &Route,
    identity: &Identity,
    path: &BTreeMap<String, String>,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Option<Once>, Problem> {
    let Some(key) = headers.get("idempotency-key") else {
        return Ok(None);
    };
    // A key that cannot be kept must not be dropped: its sender relies on it.
    let fits = |key: &&str| (1..=KEY_CHARS_MAX).contains(&key.len());
    let key = key.to_str().ok().filter(fits).ok_or_else(|| {
        let why = format!("Idempotency-Key must be 1 to {KEY_CHARS_MAX} visible ASCII characters");
        Problem::new(StatusCode::BAD_REQUEST, why)
    })?;
    let payload = json!([route.path, path, String::from_utf8_lossy(body)]).to_string();
    Ok(Some(Once {
        key: format!("rest/{}/{key}", identity.actor.agent),
        payload_hash: engine::hash::short_sha256(payload.as_bytes()),
        answer: summary_value,
    }))
}

/// Answer that is stored for a change.
fn summary_value(ticket: &Ticket, _: &Policy) -> Value {
    json!(TicketSummary::from_ticket(ticket))
}

#[cfg(test)]
mod tests {
    use app::operations::questions::decisions::{ListEscalations, ShowEscalation};
    use app::operations::questions::messages::ListMessages;
    use app::operations::questions::people::{
        ListAgents, ListPauses, ListProviderLimits, ListTokens, ShowCaller,
    };
    use app::operations::questions::tickets::{
        ExportTickets, ForecastTicket, ListArtefacts, ListEvents, ListRuns, ListTickets, ShowDiff,
        ShowTicket,
    };
    use app::operations::questions::work::{
        ListEpics, ListJobs, ReadLog, ShowCosts, ShowDailyCosts, ShowEpic, ShowInsights, ShowStatus,
    };

    use super::*;

    /// Returns the path of a question and the names of its fields, as its own refusal of an unknown
    /// one lists them.
    fn fields_of<Q: Question>() -> (&'static str, Vec<String>) {
        let unknown = json!({"?": 0});
        let refusal = read_fields::<Q>(&unknown).err().unwrap_or_default();
        let names = refusal.split('`').skip(1).step_by(2);
        let names = names.filter(|name| *name != "?").map(str::to_owned);
        (Q::PATH, names.collect())
    }

    #[test]
    fn every_field_of_a_reading_question_is_a_parameter() {
        let mut questions = BTreeMap::from([
            fields_of::<ExportTickets>(),
            fields_of::<ForecastTicket>(),
            fields_of::<ListAgents>(),
            fields_of::<ListArtefacts>(),
            fields_of::<ListEpics>(),
            fields_of::<ListEscalations>(),
            fields_of::<ListEvents>(),
            fields_of::<ListJobs>(),
            fields_of::<ListMessages>(),
            fields_of::<ListPauses>(),
            fields_of::<ListProviderLimits>(),
            fields_of::<ListRuns>(),
            fields_of::<ListTickets>(),
            fields_of::<ListTokens>(),
            fields_of::<ReadLog>(),
            fields_of::<ShowCaller>(),
            fields_of::<ShowCosts>(),
            fields_of::<ShowDailyCosts>(),
            fields_of::<ShowDiff>(),
            fields_of::<ShowEpic>(),
            fields_of::<ShowEscalation>(),
            fields_of::<ShowInsights>(),
            fields_of::<ShowStatus>(),
            fields_of::<ShowTicket>(),
        ]);
        let mut seen = 0;
        for route in routes().iter().filter(|route| route.method == Method::Get) {
            let mut given: Vec<String> = path_fields(route.path).map(str::to_owned).collect();
            given.extend(route.query.iter().map(|(name, _)| (*name).to_owned()));
            given.sort_unstable();
            let fields = questions.remove(route.path);
            assert!(fields.is_some(), "{} is not checked here", route.path);
            let mut fields = fields.unwrap_or_default();
            fields.sort_unstable();
            assert_eq!(given, fields, "{}", route.path);
            seen += fields.len();
        }
        assert!(seen > 30, "{seen}");
        assert!(questions.is_empty(), "{questions:?}");
    }
}
