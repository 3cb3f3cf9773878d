//! Checks that the body of an MCP call is one message of JSON-RPC. Anything else is answered in the
//! form of that protocol, with its codes and the cause.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const INVALID_PARAMS: i32 = -32602;

/// Error of a body that is no message.
#[derive(Debug, PartialEq)]
pub struct MessageError {
    code: i32,
    /// Id of the message, if it can be told.
    id: Value,
    message: String,
}

impl IntoResponse for MessageError {
    fn into_response(self) -> Response {
        let error = json!({"code": self.code, "message": self.message});
        let body = json!({"jsonrpc": "2.0", "id": self.id, "error": error});
        (StatusCode::BAD_REQUEST, Json(body)).into_response()
    }
}

/// Checks the frame of a message. The server of the protocol reads what is in it.
pub fn check(body: &[u8]) -> Result<(), MessageError> {
    let message: Value = serde_json::from_slice(body).map_err(|error| MessageError {
        code: PARSE_ERROR,
        id: Value::Null,
        message: format!("the body is not JSON: {error}"),
    })?;
    let id = message.get("id").filter(|id| is_id(id)).cloned();
    let fail = |code: i32, why: &str| {
        Err(MessageError {
            code,
            id: id.clone().unwrap_or(Value::Null),
            message: why.to_owned(),
        })
    };
    let Value::Object(fields) = &message else {
        let why = match message {
            Value::Array(_) => "several messages in one body are not supported; send one at a time",
            _ => "a message is a JSON object",
        };
        return fail(INVALID_REQUEST, why);
    };
    if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return fail(INVALID_REQUEST, "jsonrpc must be \"2.0\"");
    }
    if fields.contains_key("id") && id.is_none() {
        return fail(INVALID_REQUEST, "id must be a string or an integer");
    }
    match fields.get("method") {
        Some(Value::String(_)) => {}
        Some(_) => return fail(INVALID_REQUEST, "method must be a string"),
        // An answer to a request of the server.
        None if fields.contains_key("result") || fields.contains_key("error") => {}
        None => return fail(INVALID_REQUEST, "the message has no method"),
    }
    match fields.get("params") {
        None | Some(Value::Null | Value::Object(_)) => Ok(()),
        Some(_) => fail(INVALID_PARAMS, "params must be an object"),
    }
}

fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_i64() || id.is_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_message_passes_and_others_get_their_code_and_their_id() {
        let checked = |body: &str| check(body.as_bytes()).map_err(|error| (error.code, error.id));
        for good in [
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        ] {
            assert_eq!(checked(good), Ok(()), "{good}");
        }
        for (bad, code, id) in [
            ("", PARSE_ERROR, json!(null)),
            ("{", PARSE_ERROR, json!(null)),
            ("[]", INVALID_REQUEST, json!(null)),
            ("1", INVALID_REQUEST, json!(null)),
            (r#"{"id":7,"method":"ping"}"#, INVALID_REQUEST, json!(7)),
            (r#"{"jsonrpc":"2.0","id":7}"#, INVALID_REQUEST, json!(7)),
            (
                r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
                INVALID_REQUEST,
                json!(null),
            ),
            (
                r#"{"jsonrpc":"2.0","id":"x","method":5}"#,
                INVALID_REQUEST,
                json!("x"),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#,
                INVALID_PARAMS,
                json!(1),
            ),
        ] {
            assert_eq!(checked(bad), Err((code, id)), "{bad}");
        }
    }
}
