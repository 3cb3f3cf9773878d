//! Sessions of the older MCP protocols, as a label and without state: a client that begins is given a
//! random `Mcp-Session-Id` and repeats it, so that two processes with one token can be told apart.
//! Any server understands any label, so a restart is not noticed. The newest protocol has no sessions.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::BodyExt;
use serde::Deserialize;

use app::operations::identity::Identity;

pub const HEADER: &str = "mcp-session-id";
/// A longer label is none of ours, and not kept.
const LENGTH_MAX: usize = 128;

/// Reads the label of a call, and gives one to a client that begins.
pub async fn label(mut request: Request, next: Next) -> Response {
    let session = session_of(request.headers());
    if let Some(speaker) = request.extensions_mut().get_mut::<Identity>() {
        speaker.session = session;
    }
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    // It has been read whole and is in memory.
    let bytes = match body.collect().await {
        Ok(whole) => whole.to_bytes(),
        Err(_) => return next.run(Request::from_parts(head, Body::empty())).await,
    };
    let begins = begins(&bytes);
    let mut response = next.run(Request::from_parts(head, bytes.into())).await;
    if begins
        && response.status().is_success()
        && let Some(label) = fresh().and_then(|label| HeaderValue::try_from(label).ok())
    {
        response.headers_mut().insert(HEADER, label);
    }
    response
}

/// The label that a caller repeats; what cannot be one counts as none.
fn session_of(headers: &HeaderMap) -> Option<String> {
    let label = headers.get(HEADER)?.to_str().ok()?;
    let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fits = !label.is_empty() && label.len() <= LENGTH_MAX && label.chars().all(sound);
    fits.then(|| label.to_owned())
}

/// A new label; none where there is no randomness, and the client then counts as one without a
/// session.
pub fn fresh() -> Option<String> {
    let secret = engine::secret::mint().ok()?;
    Some(engine::hash::short(secret.as_bytes()))
}

fn begins(body: &[u8]) -> bool {
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
        assert!(begins(br#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#));
        for other in [
            &b"{\"method\":\"tools/call\"}"[..],
            b"[]",
            b"",
            b"initialize",
        ] {
            assert!(!begins(other));
        }
        assert_ne!(fresh(), fresh());
    }
}
