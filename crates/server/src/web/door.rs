//! The door: from where one may call, and who is recognised. It is asked before anything is read.

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

/// What is written down of where somebody wanted to go.
const PATH_CHARS_MAX: usize = 200;

/// A page in a browser must not reach us under a name that is not ours, nor from another's page.
pub async fn place(State(house): State<ServerState>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let response = match stranger(&house, &request) {
        None => next.run(request).await,
        Some(problem) => problem.into(),
    };
    write_down(&house, &path, response).await
}

fn stranger(house: &ServerState, request: &Request) -> Option<Problem> {
    let headers = request.headers();
    // A proxy before us may have taken the first and we the last.
    if headers.get_all(header::HOST).iter().count() > 1 {
        let why = "the request has more than one Host";
        return Some(Problem::new(StatusCode::BAD_REQUEST, why));
    }
    let host = request
        .uri()
        .authority()
        .map(axum::http::uri::Authority::as_str)
        .or_else(|| text(headers, header::HOST));
    let ours = |host: &&str| name_of(host).is_some_and(|name| is_ours(house, name));
    let Some(host) = host.filter(ours) else {
        let why = "this server does not answer to that name";
        return Some(
            Problem::new(StatusCode::FORBIDDEN, why)
                .hint("call it by its address, or start it with --host NAME"),
        );
    };
    if !headers.contains_key(header::ORIGIN) {
        return None;
    }
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

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// `name:port` without the port; nothing where it is anything else, such as `name:port.evil`,
/// `name:port@evil` or `me@name`.
fn name_of(host: &str) -> Option<&str> {
    let (name, rest) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |port: &str| {
        let digits = port.bytes().all(|byte| byte.is_ascii_digit());
        digits && port.parse::<u16>().is_ok()
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    let sound = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
    (sound && !name.is_empty() && name.chars().all(plain)).then_some(name)
}

fn is_ours(house: &ServerState, name: &str) -> bool {
    let known = house.hosts.iter().map(String::as_str);
    ["localhost", "127.0.0.1", "::1"]
        .into_iter()
        .chain(known)
        .any(|ours| ours.eq_ignore_ascii_case(name))
}

/// Who calls, by its token; nobody passes without.
pub async fn recognise(
    State(house): State<ServerState>,
    mut request: Request,
    next: Next,
) -> Response {
    match speaker(&house, request.headers()).await {
        Ok(Ok(speaker)) => {
            let name = speaker.actor.agent.clone();
            trace::authenticated(&name);
            if !house.rates.admit(&name) {
                return Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many calls at once")
                    .hint("wait a second")
                    .retry_after(1)
                    .into();
            }
            request.extensions_mut().insert(speaker.clone());
            let mut response = next.run(request).await;
            // Who it was that was refused, for whoever writes it down.
            response.extensions_mut().insert(speaker);
            response
        }
        Ok(Err(stranger)) => refuse(stranger),
        Err(failure) => Problem::from(failure).into(),
    }
}

async fn speaker(
    house: &ServerState,
    headers: &HeaderMap,
) -> Result<Result<Identity, AuthError>, Failure> {
    let bearer = text(headers, header::AUTHORIZATION)
        .and_then(|words| words.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, secret)| secret.trim());
    let Some(secret) = bearer else {
        return Ok(Err(AuthError::Silent));
    };
    identity::recognise(&house.office, secret).await
}

fn refuse(stranger: AuthError) -> Response {
    let problem = Problem::new(StatusCode::UNAUTHORIZED, stranger)
        .hint("`countersign token create --agent NAME --role ROLE` makes one");
    match stranger {
        // Browsers and probes come so; it is nobody's attempt at anything.
        AuthError::Silent => problem,
        AuthError::Unknown | AuthError::Expired | AuthError::Revoked | AuthError::Over => {
            problem.refusal()
        }
    }
    .into()
}

/// Every refusal is on record; a flood of them is not.
async fn write_down(house: &ServerState, path: &str, response: Response) -> Response {
    if let Some(RefusalReason(why)) = response.extensions().get() {
        let speaker = response.extensions().get::<Identity>();
        let role = speaker.map(|speaker| speaker.actor.role.word());
        let path = findings::shorten(&findings::one_line(path), PATH_CHARS_MAX);
        let body = json!({"path": path, "role": role, "why": why});
        identity::note_refusal(&house.office, speaker, body).await;
    }
    response
}

#[cfg(test)]
mod tests {
    use super::name_of;

    #[test]
    fn a_host_is_its_name_without_the_port() {
        for (host, name) in [
            ("127.0.0.1:7420", "127.0.0.1"),
            ("[::1]:7420", "::1"),
            ("localhost", "localhost"),
            ("evil.example:7420", "evil.example"),
        ] {
            assert_eq!(name_of(host), Some(name));
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
            assert_eq!(name_of(host), None, "{host}");
        }
    }
}
