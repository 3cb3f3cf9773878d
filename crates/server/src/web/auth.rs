//! Auth middleware: checks the host and origin of a request and authenticates its bearer token,
//! before any body is read. It refuses foreign hosts and origins, and calls without a valid token.
//!
//! The attack is a page in the browser of a person who runs the server: it can send requests to
//! this machine. The browser writes the page's own host name and origin into them, and by those
//! they are refused.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use serde_json::json;

use super::ServerState;
use super::problem::{Problem, RefusalReason};
use super::trace;
use app::failure::Failure;
use app::operations::identity::{self, AuthError, Identity};

/// Routes that answer to any host.
const PROBES: [&str; 2] = ["/healthz", "/readyz"];
/// Beginnings of the paths that only programs call.
const FOR_PROGRAMS: [&str; 3] = ["/api/", "/git/", "/hooks/"];
/// Characters of a request path that are recorded with a refusal.
const PATH_CHARS_MAX: usize = 200;

/// Refuses foreign hosts and origins, so that a web page in a user's browser cannot call the server
/// (DNS rebinding, cross-site requests).
pub async fn check_origin(
    State(state): State<ServerState>,
    request: Request,
    next: Next,
) -> Response {
    // Kept for the record, because the request moves into the handler.
    let path = request.uri().path().to_owned();
    let problem = origin_problem(&state, &request).or_else(|| path_problem(&path));
    let response = match problem {
        None => next.run(request).await,
        Some(problem) => problem.into(),
    };
    record_refusal(&state, &path, response).await
}

/// Refuses a path for programs with bytes that are no text. A page of the dashboard says so itself.
fn path_problem(path: &str) -> Option<Problem> {
    if !FOR_PROGRAMS.iter().any(|start| path.starts_with(start)) {
        return None;
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let hex = others.get(..2).filter(|_| *first == b'%');
        let hex = hex.and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            bytes.push(byte);
            rest = others.get(2..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = others;
        }
    }
    let why = "the path is not valid UTF-8 after decoding";
    let problem = || Problem::new(StatusCode::BAD_REQUEST, why);
    std::str::from_utf8(&bytes).is_err().then(problem)
}

fn origin_problem(state: &ServerState, request: &Request) -> Option<Problem> {
    // Probes call a machine by its address, or send no host at all. The answer tells nobody
    // anything but that the server runs.
    if PROBES.contains(&request.uri().path()) {
        return None;
    }
    let headers = request.headers();
    // A proxy in front may have used the first one while we would use the last.
    if headers.get_all(header::HOST).iter().count() > 1 {
        let why = "the request has more than one Host header";
        return Some(Problem::new(StatusCode::BAD_REQUEST, why));
    }
    let host = request_host(request);
    let is_own = |host: &&str| host_name(host).is_some_and(|name| is_own_host(state, name));
    // With an absolute address, the header is a second name: a proxy may have gone by that one.
    let in_header = headers.get(header::HOST);
    let header_is_own = in_header.is_none_or(|host| host.to_str().is_ok_and(|host| is_own(&host)));
    let Some(host) = host.filter(|host| header_is_own && is_own(host)) else {
        let why = "this server does not answer to that host name";
        return Some(
            Problem::new(StatusCode::FORBIDDEN, why)
                .hint("use its address, or start the server with --host NAME"),
        );
    };
    // Only browsers send an origin. Programs have none and are let through to the token check.
    if !headers.contains_key(header::ORIGIN) {
        return None;
    }
    // An origin that is no text counts as another origin.
    let origin = text(headers, header::ORIGIN).unwrap_or_default();
    let same = origin
        .split_once("://")
        .is_some_and(|(_, from)| from.eq_ignore_ascii_case(host));
    if same {
        return None;
    }
    Some(Problem::new(
        StatusCode::FORBIDDEN,
        "pages of another origin may not call this server",
    ))
}

/// Returns the address by which the client reached this server.
pub(crate) fn reached_at(state: &ServerState, request: &Request) -> Option<String> {
    let scheme = if state.encrypted { "https" } else { "http" };
    request_host(request).map(|host| format!("{scheme}://{host}"))
}

/// Returns the host and port that the client names. HTTP/2 and proxies put them into the address,
/// HTTP/1.1 into a header.
fn request_host(request: &Request) -> Option<&str> {
    let authority = request.uri().authority();
    authority
        .map(axum::http::uri::Authority::as_str)
        .or_else(|| text(request.headers(), header::HOST))
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Returns the name in `name:port`. Returns `None` for anything else, such as `name:port.evil`,
/// `name:port@evil` or `me@name`.
fn host_name(host: &str) -> Option<&str> {
    let (name, rest) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |port: &str| {
        let digits = port.bytes().all(|byte| byte.is_ascii_digit());
        digits && port.parse::<u16>().is_ok()
    };
    // No `@`, no slash and no blank: each of them would let one parser see another host than this
    // one.
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    let is_valid = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
    (is_valid && !name.is_empty() && name.chars().all(plain)).then_some(name)
}

fn is_own_host(state: &ServerState, name: &str) -> bool {
    let configured = state.hosts.iter().map(String::as_str);
    ["localhost", "127.0.0.1", "::1"]
        .into_iter()
        .chain(configured)
        .any(|host| host.eq_ignore_ascii_case(name))
}

/// Authenticates the bearer token and applies the caller's rate limit.
pub async fn authenticate(
    State(state): State<ServerState>,
    mut request: Request,
    next: Next,
) -> Response {
    // One store lookup per call, by the hash of the token.
    match identify(&state, request.headers()).await {
        Ok(Ok(mut identity)) => {
            identity.server_url = reached_at(&state, &request);
            let name = identity.actor.agent.clone();
            trace::authenticated(&name);
            // The limit counts by agent and not by address: many agents share one machine.
            if !state.rates.allow(&name) {
                return Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many calls at once")
                    .hint("wait a second")
                    .retry_after(1)
                    .into();
            }
            request.extensions_mut().insert(identity.clone());
            let mut response = next.run(request).await;
            // The outer middleware records refusals and needs the caller.
            response.extensions_mut().insert(identity);
            response
        }
        Ok(Err(error)) => auth_problem(error),
        Err(failure) => Problem::from(failure).into(),
    }
}

pub(super) async fn identify(
    state: &ServerState,
    headers: &HeaderMap,
) -> Result<Result<Identity, AuthError>, Failure> {
    // The scheme is compared without regard to case, as HTTP demands.
    let bearer = text(headers, header::AUTHORIZATION)
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, secret)| secret.trim());
    let Some(secret) = bearer else {
        return Ok(Err(AuthError::NoToken));
    };
    identity::authenticate(&state.app, secret).await
}

pub(super) fn auth_problem(error: AuthError) -> Response {
    let problem = Problem::new(StatusCode::UNAUTHORIZED, error)
        .hint("create a token: `countersign token create --agent NAME --role ROLE`");
    match error {
        // Browsers and probes send no token; that is not an attempt worth recording.
        AuthError::NoToken => problem,
        AuthError::Unknown
        | AuthError::Expired
        | AuthError::Revoked
        | AuthError::RunEnded
        | AuthError::ClaimEnded => problem.refusal(),
    }
    .into()
}

/// Records a refusal in the event log; `note_refusal` limits how many are recorded.
async fn record_refusal(state: &ServerState, path: &str, response: Response) -> Response {
    if let Some(RefusalReason(why)) = response.extensions().get() {
        let identity = response.extensions().get::<Identity>();
        let role = identity.map(|identity| identity.actor.role.as_str());
        // The path is chosen by the caller and ends up in the log.
        let path = findings::shorten(&findings::one_line(path), PATH_CHARS_MAX);
        let body = json!({"path": path, "role": role, "why": why});
        identity::note_refusal(&state.app, identity, body).await;
    }
    response
}

#[cfg(test)]
mod tests {
    use super::host_name;

    #[test]
    fn a_host_is_its_name_without_the_port() {
        for (host, name) in [
            ("127.0.0.1:7420", "127.0.0.1"),
            ("[::1]:7420", "::1"),
            ("localhost", "localhost"),
            ("evil.example:7420", "evil.example"),
        ] {
            assert_eq!(host_name(host), Some(name));
        }
        for host in [
            "127.0.0.1:7555.evil",
            "127.0.0.1:7555@evil",
            "127.0.0.1@evil",
            "evil@127.0.0.1",
            "127.0.0.1:7555:7555",
            "127.0.0.1:",
            "127.0.0.1:99999",
            "127.0.0.1:+80",
            "[::1]evil",
            "[::1",
            "localhost/evil",
            "localhost evil",
            "",
            ":80",
        ] {
            assert_eq!(host_name(host), None, "{host}");
        }
    }
}
