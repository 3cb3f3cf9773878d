//! Where workers that are elsewhere call. It is no part of the document for programs: both ends are
//! this program. Who is no worker is turned away before anything is read.

use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde_json::Value;

use super::House;
use super::problem::Problem;
use crate::operations::identity::Speaker;
use crate::operations::outpost::{self, Declined, call::BODY_MAX};

pub async fn call(
    State(house): State<House>,
    Extension(speaker): Extension<Speaker>,
    body: Body,
) -> Result<Json<Value>, Problem> {
    let office = &house.office;
    if let Err(why) = outpost::may_work(&speaker) {
        outpost::turned_away(office, &speaker, &why).await;
        return Err(Problem::new(StatusCode::FORBIDDEN, why)
            .hint("`countersign token create --agent NAME --role service` makes one"));
    }
    let body = to_bytes(body, BODY_MAX).await.map_err(|error| {
        let why = format!("the body is larger than {BODY_MAX} bytes, or broke off: {error}");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why)
    })?;
    let answered = outpost::answer(office, &speaker, &body).await;
    answered.map(Json).map_err(Problem::from)
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
        problem.with(error)
    }
}
