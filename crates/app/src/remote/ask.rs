//! A question put to a server: written as its path, query and body, and its answer read.

use std::fmt::Write as _;

use hyper::body::Bytes;
use hyper::{Method as Verb, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::RemoteServer;
use crate::failure::{ExitKind, Failure};
use crate::operations::questions::{Method, Question};

impl RemoteServer {
    pub async fn ask<Q: Question>(&self, question: &Q) -> Result<Q::Answer, Failure> {
        let (path, body) = written(question)?;
        let verb = match Q::METHOD {
            Method::Get => Verb::GET,
            Method::Post => Verb::POST,
            Method::Delete => Verb::DELETE,
        };
        let headers = [("content-type", "application/json")];
        let response = self.send(verb, &path, &headers, body).await?;
        let status = response.status();
        let body = self.whole(response).await?;
        if !status.is_success() {
            return Err(self.refused(status, &body));
        }
        serde_json::from_slice(&body).map_err(|error| {
            Failure::error(format!(
                "the answer of {} is not understood: {error}",
                self.place.url
            ))
            .hint("it may be another version: compare `countersign --version` there and here")
        })
    }

    fn refused(&self, status: StatusCode, body: &Bytes) -> Failure {
        let Ok(problem) = serde_json::from_slice::<ApiProblem>(body) else {
            let url = &self.place.url;
            return Failure::error(format!("{url} answered {status}, and does not say why"))
                .hint("see that it is Countersign that listens there");
        };
        let exit = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ExitKind::Refused,
            StatusCode::TOO_MANY_REQUESTS => ExitKind::Store,
            _ => ExitKind::of(problem.exit).unwrap_or(ExitKind::Error),
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

/// Where it is asked, and what is sent.
fn written<Q: Question>(question: &Q) -> Result<(String, Vec<u8>), Failure> {
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
            Some(name) => encoded(&plain(&rest.remove(name).unwrap_or_default())),
            None => part.to_owned(),
        };
        let _ = write!(path, "/{text}");
    }
    if Q::METHOD != Method::Get {
        let body = serde_json::to_vec(&rest).map_err(Failure::error)?;
        return Ok((path, body));
    }
    let said = rest.iter().filter(|(_, value)| !value.is_null());
    for (at, (name, value)) in said.enumerate() {
        let mark = if at == 0 { '?' } else { '&' };
        let _ = write!(path, "{mark}{name}={}", encoded(&plain(value)));
    }
    Ok((path, Vec::new()))
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// As it may stand in a path or a query.
fn encoded(text: &str) -> String {
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
        let (path, body) = written(&list).unwrap();
        assert_eq!(path, "/api/v1/tickets?stage=done%2Cfailed&limit=7");
        assert!(body.is_empty());
        let waive = WaiveFinding {
            ticket: "a b/c".to_owned(),
            finding: "F1".to_owned(),
            why: "ours".to_owned(),
        };
        let (path, body) = written(&waive).unwrap();
        assert_eq!(path, "/api/v1/tickets/a%20b%2Fc/findings/F1/waive");
        assert_eq!(body, br#"{"why":"ours"}"#);
    }
}
