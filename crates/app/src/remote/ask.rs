//! Sends a question to a server as path, query and body, and reads the answer.
//!
//! One encoder for all questions: a field is a part of the path, of the query or of the body by its
//! name alone, so that the server's table and this client cannot drift apart.

use std::fmt::Write as _;

use hyper::body::Bytes;
use hyper::{Method as Verb, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::RemoteServer;
use crate::failure::{ExitKind, Failure};
use crate::operations::questions::{Method, Question};

impl RemoteServer {
    /// Sends a question and returns its answer, or the error that the server describes.
    pub async fn ask<Q: Question>(&self, question: &Q) -> Result<Q::Answer, Failure> {
        let fields = serde_json::to_value(question).map_err(Failure::error)?;
        // Only the types differ from question to question, so the request itself is compiled once.
        let answer = Box::pin(self.call(Q::METHOD, Q::PATH, fields)).await?;
        serde_json::from_slice(&answer).map_err(|error| self.answer_error(&error))
    }

    async fn call(
        &self,
        method: Method,
        path: &'static str,
        fields: Value,
    ) -> Result<Bytes, Failure> {
        let (path, body) = encode_question(method, path, fields)?;
        let verb = match method {
            Method::Get => Verb::GET,
            Method::Post => Verb::POST,
            Method::Delete => Verb::DELETE,
        };
        let headers = [("content-type", "application/json")];
        let response = self.send(verb, &path, &headers, body).await?;
        let status = response.status();
        let body = self.read_body(response).await?;
        if status.is_success() {
            Ok(body)
        } else {
            Err(self.refusal_error(status, &body))
        }
    }

    fn answer_error(&self, error: &serde_json::Error) -> Failure {
        Failure::error(format!(
            "the answer of {} is not understood: {error}",
            self.address.url
        ))
        .hint("the server may be another version: compare `countersign --version` there and here")
    }

    fn refusal_error(&self, status: StatusCode, body: &Bytes) -> Failure {
        // A proxy or another program answers with something else than our form.
        let Ok(problem) = serde_json::from_slice::<ApiProblem>(body) else {
            let url = &self.address.url;
            return Failure::error(format!("{url} answered {status} without a reason"))
                .hint("check that a Countersign server listens there");
        };
        // These statuses come from the server's own checks and have no exit code of a command.
        let exit = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ExitKind::Refused,
            StatusCode::TOO_MANY_REQUESTS => ExitKind::Store,
            _ => ExitKind::from_code(problem.exit).unwrap_or(ExitKind::Error),
        };
        Failure {
            hints: problem.hints,
            ..Failure::new(exit, problem.detail)
        }
    }
}

#[derive(Deserialize)]
struct ApiProblem {
    detail: String,
    #[serde(default)]
    hints: Vec<String>,
    #[serde(default)]
    exit: u8,
}

/// Builds the path with its query, and the body, of a question.
fn encode_question(
    method: Method,
    template: &str,
    fields: Value,
) -> Result<(String, Vec<u8>), Failure> {
    let mut rest = match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let mut path = String::new();
    for part in template.split('/').skip(1) {
        let name = part
            .strip_prefix('{')
            .and_then(|part| part.strip_suffix('}'));
        let text = match name {
            // Encoded, so that a slash in an id is no new part of the path.
            Some(name) => percent_encode(&plain_value(&rest.remove(name).unwrap_or_default())),
            None => part.to_owned(),
        };
        let _ = write!(path, "/{text}");
    }
    if method != Method::Get {
        let body = serde_json::to_vec(&rest).map_err(Failure::error)?;
        return Ok((path, body));
    }
    // An absent option is not sent, so that the server's default applies.
    let parameters = rest.iter().filter(|(_, value)| !value.is_null());
    for (at, (name, value)) in parameters.enumerate() {
        let separator = if at == 0 { '?' } else { '&' };
        let _ = write!(
            path,
            "{separator}{name}={}",
            percent_encode(&plain_value(value))
        );
    }
    Ok((path, Vec::new()))
}

fn plain_value(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Percent-encodes a text for a path or a query.
fn percent_encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            other => {
                let _ = write!(out, "%{other:02X}");
            }
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::questions::decisions::WaiveFinding;
    use crate::operations::questions::tickets::ListTickets;

    fn encode<Q: Question>(question: &Q) -> (String, Vec<u8>) {
        let fields = serde_json::to_value(question).unwrap();
        encode_question(Q::METHOD, Q::PATH, fields).unwrap()
    }

    #[test]
    fn a_question_is_written_as_its_path_and_the_rest() {
        let list = ListTickets {
            stage: Some("done,failed".to_owned()),
            limit: Some(7),
            ..ListTickets::default()
        };
        let (path, body) = encode(&list);
        assert_eq!(path, "/api/v1/tickets?stage=done%2Cfailed&limit=7");
        assert!(body.is_empty());
        let waive = WaiveFinding {
            ticket: "a b/c".to_owned(),
            finding: "F1".to_owned(),
            why: "ours".to_owned(),
        };
        let (path, body) = encode(&waive);
        assert_eq!(path, "/api/v1/tickets/a%20b%2Fc/findings/F1/waive");
        assert_eq!(body, br#"{"why":"ours"}"#);
    }
}
