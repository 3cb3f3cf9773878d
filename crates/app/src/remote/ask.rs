//! Sends a question to a server as path, query and body, and reads the answer.

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
        let (path, body) = encode_question(question)?;
        let verb = match Q::METHOD {
            Method::Get => Verb::GET,
            Method::Post => Verb::POST,
            Method::Delete => Verb::DELETE,
        };
        let headers = [("content-type", "application/json")];
        let response = self.send(verb, &path, &headers, body).await?;
        let status = response.status();
        let body = self.read_body(response).await?;
        if !status.is_success() {
            return Err(self.refusal_error(status, &body));
        }
        serde_json::from_slice(&body).map_err(|error| {
            Failure::error(format!(
                "the answer of {} is not understood: {error}",
                self.address.url
            ))
            .hint(
                "the server may be another version: compare `countersign --version` there and here",
            )
        })
    }

    fn refusal_error(&self, status: StatusCode, body: &Bytes) -> Failure {
        let Ok(problem) = serde_json::from_slice::<ApiProblem>(body) else {
            let url = &self.address.url;
            return Failure::error(format!("{url} answered {status} without a reason"))
                .hint("check that a Countersign server listens there");
        };
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
fn encode_question<Q: Question>(question: &Q) -> Result<(String, Vec<u8>), Failure> {
    let fields = match serde_json::to_value(question).map_err(Failure::error)? {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let mut rest = fields;
    let mut path = String::new();
    for part in Q::PATH.split('/').skip(1) {
        let name = part
            .strip_prefix('{')
            .and_then(|part| part.strip_suffix('}'));
        let text = match name {
            Some(name) => percent_encode(&plain_value(&rest.remove(name).unwrap_or_default())),
            None => part.to_owned(),
        };
        let _ = write!(path, "/{text}");
    }
    if Q::METHOD != Method::Get {
        let body = serde_json::to_vec(&rest).map_err(Failure::error)?;
        return Ok((path, body));
    }
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

    #[test]
    fn a_question_is_written_as_its_path_and_the_rest() {
        let list = ListTickets {
            stage: Some("done,failed".to_owned()),
            after: None,
            limit: Some(7),
        };
        let (path, body) = encode_question(&list).unwrap();
        assert_eq!(path, "/api/v1/tickets?stage=done%2Cfailed&limit=7");
        assert!(body.is_empty());
        let waive = WaiveFinding {
            ticket: "a b/c".to_owned(),
            finding: "F1".to_owned(),
            why: "ours".to_owned(),
        };
        let (path, body) = encode_question(&waive).unwrap();
        assert_eq!(path, "/api/v1/tickets/a%20b%2Fc/findings/F1/waive");
        assert_eq!(body, br#"{"why":"ours"}"#);
    }
}
