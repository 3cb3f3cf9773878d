//! Metrics for monitoring systems.

mod calls;
mod families;
mod sums;

pub use calls::CallMetrics;
pub use families::{FAMILIES, MetricFamily, MetricKind};
pub use sums::MetricSums;

use std::collections::BTreeMap;

use flow::Queue;
use flow::quality::{
    DurationHistogram, QualityMetrics, ROUND_BUCKETS_MS, VerdictCounts, WAIT_BUCKETS_MS,
};
use store::{JobQuery, JobState, Page, Store};

use super::{App, silent_agents, tickets};
use crate::failure::Failure;
use families::{
    AGENTS_SILENT, APPROVALS, BUILD_INFO, CLAIM_SECONDS, COST_PER_LANDED, COST_PER_TICKET,
    FINDINGS, JOBS_DEAD, JOBS_LEASED, JOBS_READY, LEASES_LAPSED, PAUSES, REVIEWS, ROUND_SECONDS,
    ROUNDS, SPENT_TODAY, TICKETS,
};

/// Maximum number of lapsed leases that are counted.
const COUNTED_MAX: u32 = 1000;

/// Counts the jobs whose lease has expired.
async fn lapsed(store: &dyn Store) -> Result<usize, store::Error> {
    let query = JobQuery {
        lapsed: true,
        ..JobQuery::default()
    };
    let page = Page {
        after: None,
        most: COUNTED_MAX,
    };
    Ok(store.jobs(&query, &page).await?.items.len())
}

/// One value of a family.
#[derive(Clone, Debug)]
pub struct Metric {
    pub family: &'static MetricFamily,
    /// Suffix for a value of a histogram: `_bucket`, `_sum` or `_count`.
    pub part: &'static str,
    pub labels: Vec<(&'static str, String)>,
    pub value: f64,
}

impl Metric {
    fn new(family: &'static MetricFamily, value: u64) -> Self {
        Self {
            family,
            part: "",
            labels: Vec::new(),
            value: number(value),
        }
    }

    fn secs(mut self, ms: u64) -> Self {
        self.value = number(ms) / 1000.0;
        self
    }

    fn label(mut self, label: &'static str, value: impl ToString) -> Self {
        self.labels.push((label, value.to_string()));
        self
    }
}

/// Collects all metrics. Metrics of one name are next to each other, as the text format requires.
pub async fn collect_metrics(app: &App, running: &MetricSums) -> Result<Vec<Metric>, Failure> {
    let mut metrics = vec![Metric::new(&BUILD_INFO, 1).label("version", env!("CARGO_PKG_VERSION"))];
    let tally = tickets::tally(app).await?.into_iter();
    metrics.extend(
        tally.map(|(stage, count)| Metric::new(&TICKETS, count).label("stage", stage.as_str())),
    );
    metrics.extend(queue_metrics(app).await?);
    let store = &app.coordinator.store;
    let spent = store
        .spent_since((app.coordinator.clock)().start_of_day())
        .await?;
    let silent = silent_agents::list_silent(app).await?.len();
    metrics.extend([
        Metric::new(&SPENT_TODAY, spent.usd_micros),
        Metric::new(&PAUSES, count(store.pauses().await?.len())),
        Metric::new(&LEASES_LAPSED, count(lapsed(store.as_ref()).await?)),
        Metric::new(&AGENTS_SILENT, count(silent)),
    ]);
    let sums = running.current_values(app).await?;
    metrics.extend([
        Metric::new(&COST_PER_TICKET, sums.quality.usd_micros_per_ticket()),
        Metric::new(&COST_PER_LANDED, sums.quality.usd_micros_per_landed()),
    ]);
    metrics.extend(quality_metrics(&sums.quality));
    for (queue, durations) in &sums.waits {
        let pattern = Metric::new(&CLAIM_SECONDS, 0).label("queue", queue);
        metrics.extend(histogram(&pattern, durations, WAIT_BUCKETS_MS));
    }
    metrics.extend(app.calls.metrics());
    Ok(metrics)
}

/// Builds the metrics of rounds, reviews and findings.
fn quality_metrics(quality: &QualityMetrics) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for (round, count) in &quality.rounds_to_approval {
        metrics.push(Metric::new(&APPROVALS, *count).label("round", round));
    }
    for (family, label, counts) in [
        (&ROUNDS, "builder", &quality.built),
        (&REVIEWS, "reviewer", &quality.reviewed),
    ] {
        for (agent, VerdictCounts { approved, rejected }) in counts {
            for (word, count) in [("approved", *approved), ("rejected", *rejected)] {
                let metric = Metric::new(family, count).label(label, agent);
                metrics.push(metric.label("verdict", word));
            }
        }
    }
    for ((severity, status), count) in &quality.findings {
        let metric = Metric::new(&FINDINGS, *count).label("severity", severity);
        metrics.push(metric.label("status", status));
    }
    let pattern = Metric::new(&ROUND_SECONDS, 0);
    metrics.extend(histogram(&pattern, &quality.rounds, ROUND_BUCKETS_MS));
    metrics
}

/// Builds a histogram with the name and labels of the pattern.
fn histogram(pattern: &Metric, durations: &DurationHistogram, ends_ms: &[u64]) -> Vec<Metric> {
    let metric = |part: &'static str, value: u64| Metric {
        part,
        value: number(value),
        ..pattern.clone()
    };
    let ends = ends_ms
        .iter()
        .map(|end| (number(*end) / 1000.0).to_string());
    let counts = durations.within.iter().copied().chain(std::iter::repeat(0));
    let mut metrics: Vec<Metric> = ends
        .zip(counts)
        .chain([("+Inf".to_owned(), durations.count)])
        .map(|(end, count)| metric("_bucket", count).label("le", end))
        .collect();
    metrics.push(metric("_sum", 0).secs(durations.sum_ms));
    metrics.push(metric("_count", durations.count));
    metrics
}

async fn queue_metrics(app: &App) -> Result<Vec<Metric>, Failure> {
    let depths = app.coordinator.store.count_jobs().await?;
    let mut metrics = Vec::new();
    for (state, family) in [
        (JobState::Ready, &JOBS_READY),
        (JobState::Leased, &JOBS_LEASED),
        (JobState::Dead, &JOBS_DEAD),
    ] {
        const OF_LOOP: [Queue; 7] = Queue::OF_LOOP;
        let mut counts: BTreeMap<&str, u64> =
            OF_LOOP.iter().map(|queue| (queue.name(), 0)).collect();
        let of_state = depths
            .iter()
            .filter(|(_, job_state, _)| *job_state == state);
        counts.extend(of_state.map(|(queue, _, count)| (queue.name(), *count)));
        let counts = counts.into_iter();
        metrics
            .extend(counts.map(|(queue, value)| Metric::new(family, value).label("queue", queue)));
    }
    Ok(metrics)
}

/// Converts a count, which is exact up to 2^53.
#[expect(
    clippy::cast_precision_loss,
    reason = "metrics are floating-point numbers"
)]
fn number(value: u64) -> f64 {
    value as f64
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
