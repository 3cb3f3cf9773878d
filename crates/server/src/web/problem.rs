//! Errors as `application/problem+json`: the cause, and hints on what to do next.
//!
//! The same failure has an exit code on the command line and a status here. The code travels along,
//! so that a command against a server ends as it would locally.

use std::fmt::Display;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::trace::Cause;
use app::failure::{ExitKind, Failure};

#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    detail: String,
    hints: Vec<String>,
    /// Exit code that the command line would return for the same failure.
    exit: Option<u8>,
    retry_after_secs: Option<u32>,
    is_refusal: bool,
    /// Structured error for programs.
    error: Option<Box<Value>>,
}

/// Marks a response as a refusal; the auth middleware records it.
#[derive(Clone, Debug)]
pub struct RefusalReason(pub String);

impl Problem {
    pub fn new(status: StatusCode, detail: impl Display) -> Self {
        Self {
            status,
            // The detail may quote untrusted input.
            detail: findings::clean(&detail.to_string()),
            hints: Vec::new(),
            exit: None,
            retry_after_secs: None,
            // These two are worth a note in the event log by default: somebody tried something.
            is_refusal: matches!(
                status,
                StatusCode::FORBIDDEN | StatusCode::PAYLOAD_TOO_LARGE
            ),
            error: None,
        }
    }

    /// Adds a structured error for programs.
    #[must_use]
    pub fn with(mut self, error: Value) -> Self {
        self.error = Some(Box::new(error));
        self
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Display) -> Self {
        self.hints.push(hint.to_string());
        self
    }

    #[must_use]
    pub fn retry_after(mut self, secs: u32) -> Self {
        self.retry_after_secs = Some(secs);
        self
    }

    /// Marks the refusal as already recorded.
    #[must_use]
    pub fn already_recorded(mut self) -> Self {
        self.is_refusal = false;
        self
    }

    /// Marks the problem as a refusal, so that it is recorded.
    #[must_use]
    pub fn refusal(mut self) -> Self {
        self.is_refusal = true;
        self
    }

    /// Turns 422 into 400 for requests without a body.
    /// A client that sent no body cannot correct one.
    #[must_use]
    pub fn into_bad_query(mut self) -> Self {
        if self.status == StatusCode::UNPROCESSABLE_ENTITY {
            self.status = StatusCode::BAD_REQUEST;
        }
        self
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    pub fn not_found(detail: impl Display) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        // A match without a wildcard: a new exit code has to choose its status.
        let status = match failure.exit {
            _ if failure.not_found => StatusCode::NOT_FOUND,
            ExitKind::Usage => StatusCode::UNPROCESSABLE_ENTITY,
            // The store may be back in a moment, so the client is told to retry.
            ExitKind::Store => StatusCode::SERVICE_UNAVAILABLE,
            ExitKind::Error | ExitKind::Child(_) => StatusCode::INTERNAL_SERVER_ERROR,
            ExitKind::Done
            | ExitKind::ChangesRequested
            | ExitKind::Escalated
            | ExitKind::Failed
            | ExitKind::Refused
            | ExitKind::Waiting
            | ExitKind::Interrupted => StatusCode::CONFLICT,
        };
        let problem = Self {
            status,
            detail: failure.message,
            hints: failure.hints,
            exit: Some(failure.exit.code()),
            retry_after_secs: None,
            is_refusal: failure.exit == ExitKind::Refused && !failure.is_recorded,
            error: None,
        };
        if status == StatusCode::SERVICE_UNAVAILABLE {
            return problem.retry_after(1);
        }
        problem
    }
}

impl From<Problem> for Response {
    fn from(problem: Problem) -> Self {
        problem.into_response()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or("Problem"),
            "status": self.status.as_u16(),
            "detail": self.detail,
            "hints": self.hints,
            "exit": self.exit.unwrap_or(ExitKind::Error.code()),
        });
        if let (Some(error), Some(fields)) = (self.error, body.as_object_mut()) {
            fields.insert("error".to_owned(), *error);
        }
        let mut response = (self.status, Json(body)).into_response();
        if self.status.is_server_error() {
            response.extensions_mut().insert(Cause(self.detail.clone()));
        }
        if self.is_refusal {
            response.extensions_mut().insert(RefusalReason(self.detail));
        }
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, kind);
        if let Some(secs) = self.retry_after_secs {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(secs));
        }
        // HTTP demands this header with a 401.
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

pub fn unknown_path(uri: &Uri) -> Problem {
    Problem::not_found(format!("no route at {}", uri.path()))
        .hint("/api/v1/openapi.json lists all routes")
}
