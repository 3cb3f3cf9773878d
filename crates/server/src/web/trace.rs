//! Request log: one span and one line per request. The target is `request`, so that a log filter
//! can select it.
//!
//! No header and no body is logged: they hold tokens and texts of tickets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use tokio::time::Instant;
use tracing::{Instrument, Span, error_span, field};

use super::ServerState;

/// Header with the id of a request in the log. A client may send its own.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const ID_CHARS_MAX: usize = 64;
const PATH_CHARS_MAX: usize = 200;
/// Routes that monitoring polls every few seconds.
/// At level `info` they would be most of the log.
const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// Reason of a server error, attached to the response for the log.
#[derive(Clone, Debug)]
pub struct Cause(pub String);

/// Logs a request when its response begins; a stream may continue after that.
pub async fn request(State(state): State<ServerState>, request: Request, next: Next) -> Response {
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let method = request.method().clone();
    // A client's own id is kept, so that its log and ours can be joined.
    let id = sent_id(request.headers()).unwrap_or_else(fresh_id);
    let route = route_of(&request);
    // Level `error` keeps the span enabled under every filter, so its fields are on each line
    // inside it.
    let span = error_span!(
        target: "request",
        "request",
        id,
        method = %request.method(),
        route,
        caller = field::Empty,
    );
    let began = Instant::now();
    let mut response = next.run(request).instrument(span.clone()).await;
    let (took, status) = (began.elapsed(), response.status().as_u16());
    span.in_scope(|| log(&route, &response, took));
    let matched = matched.as_ref().map(MatchedPath::as_str);
    let calls = &state.app.calls;
    calls.count_request(method.as_str(), matched, status, took);
    if let Ok(value) = HeaderValue::try_from(id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// Adds the authenticated caller to the span of the request.
pub fn authenticated(caller: &str) {
    Span::current().record("caller", caller);
}

fn log(route: &str, response: &Response, took: Duration) {
    let status = response.status();
    let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let code = status.as_u16();
    // The cause is attached by the handler, because the client gets the same text and the log must
    // not parse it.
    if status.is_server_error() {
        let cause = response.extensions().get::<Cause>();
        let error = cause.map_or("unknown", |Cause(why)| why);
        tracing::error!(target: "request", status = code, duration_ms, error, "request failed");
    } else if PROBES.contains(&route) && status == StatusCode::OK {
        tracing::debug!(target: "request", status = code, duration_ms, "request answered");
    } else {
        tracing::info!(target: "request", status = code, duration_ms, "request answered");
    }
}

/// Returns the route pattern, so that lines of one route can be counted, or the path if no route
/// matched.
fn route_of(request: &Request) -> String {
    match request.extensions().get::<MatchedPath>() {
        Some(route) => route.as_str().to_owned(),
        None => findings::shorten(&findings::one_line(request.uri().path()), PATH_CHARS_MAX),
    }
}

fn sent_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(REQUEST_ID)?.to_str().ok()?;
    // The id goes back in a header and into the log, so it is plain text.
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fits = !id.is_empty() && id.len() <= ID_CHARS_MAX && id.chars().all(plain);
    fits.then(|| id.to_owned())
}

/// Returns an id that is unique in this process by a counter and across restarts by the time.
fn fresh_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{:x}-{count:x}", engine::clock::now().0)
}
