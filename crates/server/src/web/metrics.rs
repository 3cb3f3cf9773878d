//! Numbers for Prometheus, and whether we are fit to serve.

use std::fmt::Write as _;

use axum::Extension;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use flow::Role;

use super::ServerState;
use super::problem::Problem;
use app::operations::identity::Identity;
use app::operations::measures::{self, Metric};

/// Ready means that the store answers.
pub async fn ready(State(house): State<ServerState>) -> Response {
    match house.office.check_store().await {
        Ok(()) => (StatusCode::OK, "ready\n").into_response(),
        Err(failure) => Problem::from(failure).into(),
    }
}

/// For people and for those who watch the service; an agent learns nothing of others' work here.
pub async fn show(
    State(house): State<ServerState>,
    Extension(speaker): Extension<Identity>,
) -> Result<Response, Problem> {
    match speaker.actor.role {
        Role::Human | Role::Service | Role::Admin => {}
        role @ (Role::Builder | Role::Reviewer | Role::Verifier) => {
            let why = format!("a {} may not read the metrics", role.word());
            return Err(Problem::new(StatusCode::FORBIDDEN, why).refusal());
        }
    }
    let measures = measures::gather(&house.office, &house.running).await?;
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    Ok((kind, text(&measures)).into_response())
}

fn text(measures: &[Metric]) -> String {
    let mut out = String::new();
    let mut last = "";
    for measure in measures {
        if measure.name != last {
            let _ = writeln!(out, "# HELP {} {}", measure.name, measure.means);
            let kind = if measure.part.is_empty() {
                "gauge"
            } else {
                "histogram"
            };
            let _ = writeln!(out, "# TYPE {} {kind}", measure.name);
            last = measure.name;
        }
        let labels: Vec<String> = measure
            .labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        let labels = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{}}}", labels.join(","))
        };
        let name = format!("{}{}", measure.name, measure.part);
        let _ = writeln!(out, "{name}{labels} {}", measure.value);
    }
    out
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
