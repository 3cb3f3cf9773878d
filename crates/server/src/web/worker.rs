//! Endpoint of the worker protocol. It is not part of the `OpenAPI` document, because both ends are
//! this program. Callers that are not workers are refused before their body is read.
//!
//! Bundles of commits are the only large bodies of this server. They have limits of their own, so
//! that ordinary calls keep the small one.

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::{Extension, Json};
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::problem::Problem;
use super::{ServerState, body};
use app::operations::identity::Identity;
use app::operations::rpc::{self, Declined};

/// Large bodies that are read at the same time.
/// Each may be as large as a bundle and is held in memory while it is read.
pub const LARGE_AT_ONCE: usize = 4;
/// Time in which a body must arrive.
/// A bundle over a slow line needs more time than an ordinary body.
const READ_WITHIN: Duration = Duration::from_secs(120);
/// Time that a large body waits for its permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(30);

pub async fn call(
    State(state): State<ServerState>,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Problem> {
    let app = &state.app;
    // Before the body: a stolen agent token must not be able to make the server read large bodies.
    if let Err(why) = rpc::may_work(&identity) {
        return Err(Problem::new(StatusCode::FORBIDDEN, why).hint(
            "create a worker token: `countersign token create --agent NAME --role service`",
        ));
    }
    let permit = if is_small(&headers) {
        None
    } else {
        Some(acquire_large_permit(&state.large_bodies).await?)
    };
    let body = body::read(body, engine::coordinator::wire::BODY_MAX, READ_WITHIN).await?;
    let name = &identity.actor.agent;
    let admits = || state.refusals.allow(name);
    let answer = rpc::answer(app, (&identity, &admits), &body).await;
    // Held until the call is answered, because the body is in memory until then.
    drop(permit);
    answer.map(Json).map_err(Problem::from)
}

/// Whether the body fits the limit of ordinary requests. Without `Content-Length` it counts as
/// large.
fn is_small(headers: &HeaderMap) -> bool {
    let length = headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    length.is_some_and(|length| length <= super::BODY_MAX)
}

/// Waits for a permit to read a large body, because the bodies are held in memory.
async fn acquire_large_permit(permits: &Semaphore) -> Result<SemaphorePermit<'_>, Problem> {
    let permit = tokio::time::timeout(PERMIT_TIMEOUT, permits.acquire()).await;
    let busy = || {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many large uploads at once",
        )
    };
    match permit {
        Ok(Ok(permit)) => Ok(permit),
        Ok(Err(_)) | Err(_) => Err(busy().retry_after(5)),
    }
}

impl From<Declined> for Problem {
    fn from(declined: Declined) -> Self {
        let Declined {
            barred,
            failure,
            error,
        } = declined;
        let problem = if barred {
            Self::new(StatusCode::FORBIDDEN, failure)
        } else {
            Self::from(failure)
        };
        // The operation has recorded refusals already, and a retryable error is not one.
        problem.already_recorded().with(error)
    }
}
