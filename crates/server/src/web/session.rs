//! Sessions of older MCP protocols, as a label without state: a client gets a random
//! `Mcp-Session-Id` on `initialize` and repeats it, which distinguishes two processes that share a
//! token. Any server accepts any label, so clients do not notice a restart. The newest protocol has
//! no sessions.
//!
//! The label proves nothing and grants nothing. It only separates the claims of two processes, see
//! `flow::attempt`.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use serde::Deserialize;

use super::json_rpc;
use super::problem::Problem;
use app::operations::identity::Identity;

pub const HEADER: &str = "mcp-session-id";
/// Maximum length of a label; a longer one is not ours and is ignored.
const LENGTH_MAX: usize = 128;

/// Reads the session label of a call, and assigns one on `initialize`.
pub async fn label_session(mut request: Request, next: Next) -> Response {
    let session = session_of(request.headers());
    // Set from the header of this call, never from an earlier one: there is no state to go stale.
    if let Some(identity) = request.extensions_mut().get_mut::<Identity>() {
        identity.session = session;
    }
    // Only calls have a body. A stream or the end of a session is passed through.
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    // An outer layer has buffered the body, so this does not wait.
    let bytes = match body.collect().await {
        Ok(whole) => whole.to_bytes(),
        Err(_) => return next.run(Request::from_parts(head, Body::empty())).await,
    };
    if let Err(problem) = json_rpc::check(&bytes) {
        return problem.into_response();
    }
    // A parser keeps one of two equal keys, so `approved` could be given as both true and false.
    if std::str::from_utf8(&bytes).is_ok_and(findings::repeats_a_key) {
        let why = "the JSON of this call has the same key twice in one object; nothing was done";
        let problem = Problem::new(StatusCode::BAD_REQUEST, why);
        return problem.hint("send each key once").into();
    }
    let begins = is_initialize(&bytes);
    let mut response = next.run(Request::from_parts(head, bytes.into())).await;
    if begins
        && response.status().is_success()
        && let Some(label) = new_session_id().and_then(|label| HeaderValue::try_from(label).ok())
    {
        response.headers_mut().insert(HEADER, label);
    }
    response
}

/// Reads the label from the headers; an invalid one counts as none.
fn session_of(headers: &HeaderMap) -> Option<String> {
    let label = headers.get(HEADER)?.to_str().ok()?;
    // The label becomes a part of a key in the store.
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fits = !label.is_empty() && label.len() <= LENGTH_MAX && label.chars().all(is_allowed);
    fits.then(|| label.to_owned())
}

/// Creates a random label. Returns `None` if the system has no randomness; the client then has no
/// session.
pub fn new_session_id() -> Option<String> {
    let secret = engine::secret::generate().ok()?;
    Some(engine::hash::short_sha256(secret.as_bytes()))
}

fn is_initialize(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Message {
        method: Option<String>,
    }
    let message = serde_json::from_slice::<Message>(body);
    message.is_ok_and(|message| message.method.as_deref() == Some("initialize"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_short_and_plain_or_none() {
        let read = |label: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, HeaderValue::from_bytes(label).unwrap());
            session_of(&headers)
        };
        assert_eq!(read(b"0af3-X_y.z"), Some("0af3-X_y.z".to_owned()));
        let long = "x".repeat(LENGTH_MAX + 1);
        for bad in [&b""[..], b"a b", b"a/b", b"\xff", long.as_bytes()] {
            assert_eq!(read(bad), None);
        }
        assert_eq!(session_of(&HeaderMap::new()), None);
    }

    #[test]
    fn labels_are_given_at_the_beginning_and_differ() {
        assert!(is_initialize(
            br#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#
        ));
        for other in [
            &b"{\"method\":\"tools/call\"}"[..],
            b"[]",
            b"",
            b"initialize",
        ] {
            assert!(!is_initialize(other));
        }
        assert_ne!(new_session_id(), new_session_id());
    }
}
