//! Metrics for Prometheus, and the readiness probe.

use std::fmt::Write as _;

use axum::Extension;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use flow::Role;

use super::ServerState;
use super::problem::Problem;
use super::trace::Cause;
use app::operations::identity::Identity;
use app::operations::metrics::{self, FAMILIES, Metric, MetricFamily};

/// Answers the readiness probe: the server is ready if the store responds.
pub async fn ready(State(state): State<ServerState>) -> Response {
    match state.app.check_store().await {
        Ok(()) => (StatusCode::OK, "ready\n").into_response(),
        Err(failure) => {
            // Anybody may ask, so the answer does not name the database. The log has the cause.
            let cause = failure.to_string();
            let why = "the database does not answer";
            let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, why).retry_after(1);
            let mut response = Response::from(problem);
            response.extensions_mut().insert(Cause(cause));
            response
        }
    }
}

/// Serves the metrics to people, services and administrators. Agents are refused, because the
/// metrics show the work of others.
pub async fn show(
    State(state): State<ServerState>,
    Extension(identity): Extension<Identity>,
) -> Result<Response, Problem> {
    match identity.actor.role {
        Role::Human | Role::Service | Role::Admin | Role::Viewer => {}
        role @ (Role::Builder | Role::Reviewer | Role::Verifier) => {
            let why = format!("a {} may not read the metrics", role.as_str());
            return Err(Problem::new(StatusCode::FORBIDDEN, why).refusal());
        }
    }
    if let Some(only) = &identity.ticket {
        // The metrics count the tickets of everybody.
        let why = format!("this token is only for ticket {only}");
        return Err(Problem::new(StatusCode::FORBIDDEN, why).refusal());
    }
    let measures = metrics::collect_metrics(&state.app, &state.metric_sums).await?;
    let headers = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    Ok((headers, text(&measures)).into_response())
}

fn text(measures: &[Metric]) -> String {
    let mut out = String::new();
    // A family without a value is shown too, so that rules about it can be checked.
    for family in FAMILIES {
        let MetricFamily { name, kind, help } = family;
        let _ = writeln!(out, "# HELP {name} {help}");
        let _ = writeln!(out, "# TYPE {name} {}", kind.as_str());
        for measure in measures.iter().filter(|one| one.family.name == *name) {
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
            let _ = writeln!(out, "{name}{}{labels} {}", measure.part, measure.value);
        }
    }
    out
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
