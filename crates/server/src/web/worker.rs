//! Where workers that are elsewhere call. It is no part of the document for programs: both ends are
//! this program. Who is no worker is turned away before anything is read.

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

/// Large bodies that are read at once, and how long each may take or wait for its turn.
pub const LARGE_AT_ONCE: usize = 4;
const READ_WITHIN: Duration = Duration::from_secs(120);
const PLACE_WITHIN: Duration = Duration::from_secs(30);

pub async fn call(
    State(house): State<ServerState>,
    Extension(speaker): Extension<Identity>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Problem> {
    let office = &house.office;
    if let Err(why) = rpc::may_work(&speaker) {
        return Err(Problem::new(StatusCode::FORBIDDEN, why)
            .hint("`countersign token create --agent NAME --role service` makes one"));
    }
    let place = if is_small(&headers) {
        None
    } else {
        Some(a_place(&house.parcels).await?)
    };
    let body = body::read(body, engine::coordinator::wire::BODY_MAX, READ_WITHIN).await?;
    let name = &speaker.actor.agent;
    let admits = || house.refusals.admit(name);
    let answered = rpc::answer(office, (&speaker, &admits), &body).await;
    drop(place);
    answered.map(Json).map_err(Problem::from)
}

/// As small as anybody's; who does not say how much it sends may send much.
fn is_small(headers: &HeaderMap) -> bool {
    let length = headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    length.is_some_and(|length| length <= super::BODY_MAX)
}

/// Only so many large bodies are in memory at once.
async fn a_place(parcels: &Semaphore) -> Result<SemaphorePermit<'_>, Problem> {
    let place = tokio::time::timeout(PLACE_WITHIN, parcels.acquire()).await;
    let busy = || {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too much is being sent at once",
        )
    };
    match place {
        Ok(Ok(place)) => Ok(place),
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
        // What was refused is on record, and what is to be tried again is no refusal.
        problem.noted().with(error)
    }
}
