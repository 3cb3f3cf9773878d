//! Webhooks of forges and trackers. They have no token: their signature over the raw bytes is the
//! proof. A sender that proves nothing learns nothing, also not which repositories are known here.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::problem::Problem;
use super::{ServerState, auth, body};
use app::operations::webhooks_in::{
    self, ArrivedWebhook, GenericOutcome, WEBHOOK_BYTES_MAX, WebhookOutcome, WebhookRejection,
};

/// Time in which a webhook must arrive.
const READ_WITHIN: Duration = Duration::from_secs(10);
/// Webhooks that are read and proven at once. Each may have four megabytes, and is compared with
/// several secrets.
pub const AT_ONCE: usize = 16;
/// Name of the listener for programs with a token.
const GENERIC: &str = "generic";

/// Accepts a webhook of `/hooks/{forge}`.
pub async fn receive(
    State(state): State<ServerState>,
    Path(forge): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    if forge == GENERIC {
        return Box::pin(receive_generic(&state, &headers, body)).await;
    }
    let links = state.links();
    let is_listening = links
        .iter()
        .any(|link| link.secrets.is_some() && link.kind.answers_to(&forge));
    if !is_listening {
        return not_here().into();
    }
    // One name for all: an address can be made up, and the senders are few.
    if !state.allows_call("webhooks") {
        return busy();
    }
    let Ok(_permit) = state.webhook_permits().try_acquire_owned() else {
        return busy();
    };
    let bytes = match body::read(body, WEBHOOK_BYTES_MAX, READ_WITHIN).await {
        Ok(bytes) => bytes,
        Err(problem) => return problem.into(),
    };
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let webhook = ArrivedWebhook {
        forge: &forge,
        header: &header,
        body: &bytes,
    };
    match webhooks_in::receive(&state.app, &links, webhook).await {
        Ok(outcome) => accepted(outcome),
        Err(rejection) => rejected(rejection),
    }
}

async fn receive_generic(state: &ServerState, headers: &HeaderMap, body: Body) -> Response {
    let identity = match auth::identify(state, headers).await {
        Ok(Ok(identity)) => identity,
        Ok(Err(error)) => return auth::auth_problem(error),
        Err(failure) => return Problem::from(failure).into(),
    };
    if !state.allows_call(&identity.actor.agent) {
        return busy();
    }
    let bytes = match body::read(body, WEBHOOK_BYTES_MAX, READ_WITHIN).await {
        Ok(bytes) => bytes,
        Err(problem) => return problem.into(),
    };
    let webhook = match serde_json::from_slice(&bytes) {
        Ok(webhook) => webhook,
        Err(error) => {
            let why = format!("the body is not understood: {error}");
            let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, why);
            return problem
                .hint("send {\"project\": \"PROJ\", \"issue\": \"PROJ-7\"}; see docs/webhooks.md")
                .into();
        }
    };
    let key = headers.get("idempotency-key");
    let key = key.and_then(|value| value.to_str().ok());
    let links = state.links();
    let app = state.app.acting_as(identity.actor.clone());
    let received = webhooks_in::receive_generic(&app, &links, &identity, (key, webhook));
    match Box::pin(received).await {
        Ok(GenericOutcome::Looked(outcome)) => accepted(outcome),
        Ok(GenericOutcome::Queued(queued)) => {
            (StatusCode::ACCEPTED, Json(json!(queued))).into_response()
        }
        Err(rejection) => rejected(rejection),
    }
}

fn accepted(outcome: WebhookOutcome) -> Response {
    (
        StatusCode::ACCEPTED,
        Json(json!({"status": outcome.word()})),
    )
        .into_response()
}

fn not_here() -> Problem {
    Problem::not_found("nothing listens here")
}

fn busy() -> Response {
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many webhooks at once")
        .retry_after(5)
        .into()
}

fn rejected(rejection: WebhookRejection) -> Response {
    match rejection {
        WebhookRejection::NotHere => not_here().into(),
        WebhookRejection::TooLarge => {
            let why = "a webhook has at most 4 MiB";
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why).into()
        }
        WebhookRejection::Unproven(refusal) => {
            tracing::warn!(%refusal, "a webhook was refused");
            let problem = Problem::new(StatusCode::UNAUTHORIZED, "the webhook is not accepted");
            problem.refusal().into()
        }
        WebhookRejection::NotPermitted(failure) => {
            let problem = Problem::new(StatusCode::FORBIDDEN, failure.message);
            let hints = failure.hints.into_iter();
            hints.fold(problem, Problem::hint).into()
        }
        WebhookRejection::Unreadable => {
            let why = "the webhook is not understood";
            Problem::new(StatusCode::BAD_REQUEST, why).into()
        }
        WebhookRejection::Failed(failure) => {
            let problem = Problem::from(failure);
            // A full queue or an unreachable store: the sender may try again.
            let mut response: Response = problem.into();
            if response.status().is_server_error() {
                let later = header::HeaderValue::from_static("30");
                response.headers_mut().insert(header::RETRY_AFTER, later);
            }
            response
        }
    }
}
