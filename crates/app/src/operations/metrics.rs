//! Metrics for monitoring systems.

mod sums;

pub use sums::MetricSums;

use std::collections::BTreeMap;

use flow::Queue;
use flow::quality::{
    DurationHistogram, QualityMetrics, ROUND_BUCKETS_MS, VerdictCounts, WAIT_BUCKETS_MS,
};
use store::{JobQuery, JobState, Page, Store};

use super::{App, silent_agents, tickets};
use crate::failure::Failure;

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

/// One value with its name and meaning.
#[derive(Clone, Debug)]
pub struct Metric {
    pub name: &'static str,
    pub help: &'static str,
    /// Suffix for a value of a histogram: `_bucket`, `_sum` or `_count`.
    pub part: &'static str,
    pub labels: Vec<(&'static str, String)>,
    pub value: f64,
}

impl Metric {
    fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self {
            name,
            help,
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
    let counter = Metric::counter;
    let mut metrics: Vec<Metric> = tickets::tally(app)
        .await?
        .into_iter()
        .map(|(stage, count)| {
            counter("countersign_tickets", "Tickets by stage.", count)
                .label("stage", stage.as_str())
        })
        .collect();
    metrics.extend(queue_metrics(app).await?);
    let store = &app.coordinator.store;
    let spent = store
        .spent_since((app.coordinator.clock)().start_of_day())
        .await?;
    metrics.push(counter(
        "countersign_spent_today_usd_micros",
        "Millionths of a dollar that agents have cost today (UTC).",
        spent.usd_micros,
    ));
    metrics.push(counter(
        "countersign_pauses",
        "Agents, queues and providers that are paused.",
        count(store.pauses().await?.len()),
    ));
    metrics.push(counter(
        "countersign_leases_lapsed",
        "Jobs whose lease has expired and that are not taken back yet.",
        count(lapsed(store.as_ref()).await?),
    ));
    metrics.push(counter(
        "countersign_agents_silent",
        "Agents that make no calls although work waits for them.",
        count(silent_agents::list_silent(app).await?.len()),
    ));
    let sums = running.current_values(app).await?;
    metrics.extend(cost_metrics(&sums.quality));
    metrics.extend(quality_metrics(&sums.quality));
    metrics.extend(wait_metrics(&sums.waits));
    Ok(metrics)
}

/// Builds the metrics of costs.
fn cost_metrics(quality: &QualityMetrics) -> Vec<Metric> {
    let counter = Metric::counter;
    vec![
        counter(
            "countersign_usd_micros_per_ticket",
            "Millionths of a dollar that each ticket has cost, of those that cost anything.",
            quality.usd_micros_per_ticket(),
        ),
        counter(
            "countersign_usd_micros_per_landed",
            "Millionths of a dollar for each change that landed, all others' cost included.",
            quality.usd_micros_per_landed(),
        ),
    ]
}

/// Builds the metrics of rounds, reviews and findings.
fn quality_metrics(quality: &QualityMetrics) -> Vec<Metric> {
    let counter = Metric::counter;
    let mut metrics = Vec::new();
    for (rounds, count) in &quality.rounds_to_approval {
        let help = "Tickets by the round in which they were approved.";
        metrics.push(counter("countersign_approved_in_round", help, *count).label("round", rounds));
    }
    for (name, help, label, counts) in [
        (
            "countersign_rounds",
            "Rounds by builder of any part and by verdict.",
            "builder",
            &quality.built,
        ),
        (
            "countersign_reviews",
            "Reviews by reviewer and verdict.",
            "reviewer",
            &quality.reviewed,
        ),
    ] {
        for (agent, VerdictCounts { approved, rejected }) in counts {
            for (word, count) in [("approved", *approved), ("rejected", *rejected)] {
                let measure = counter(name, help, count).label(label, agent);
                metrics.push(measure.label("verdict", word));
            }
        }
    }
    for ((severity, status), count) in &quality.findings {
        let help = "Findings by severity and outcome.";
        let measure = counter("countersign_findings", help, *count);
        metrics.push(measure.label("severity", severity).label("status", status));
    }
    let help = "Seconds from the start of a review to its verdict.";
    let pattern = Metric::counter("countersign_round_seconds", help, 0);
    metrics.extend(histogram(&pattern, &quality.rounds, ROUND_BUCKETS_MS));
    metrics
}

/// Builds the metrics of waiting times by queue.
fn wait_metrics(waits: &BTreeMap<String, DurationHistogram>) -> Vec<Metric> {
    let help = "Seconds that ready jobs waited, since the first request to this server.";
    let histogram_of = |(queue, durations): (&String, &DurationHistogram)| {
        let pattern = Metric::counter("countersign_claim_seconds", help, 0).label("queue", queue);
        histogram(&pattern, durations, WAIT_BUCKETS_MS)
    };
    waits.iter().flat_map(histogram_of).collect()
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
    for (state, name, help) in [
        (
            JobState::Ready,
            "countersign_jobs_ready",
            "Jobs that wait for a worker, by queue.",
        ),
        (
            JobState::Leased,
            "countersign_jobs_leased",
            "Jobs that a worker or agent holds, by queue.",
        ),
        (
            JobState::Dead,
            "countersign_jobs_dead",
            "Jobs that failed for good, by queue.",
        ),
    ] {
        const OF_LOOP: [Queue; 6] = Queue::OF_LOOP;
        let mut counts: BTreeMap<&str, u64> =
            OF_LOOP.iter().map(|queue| (queue.name(), 0)).collect();
        let of_state = depths
            .iter()
            .filter(|(_, job_state, _)| *job_state == state);
        counts.extend(of_state.map(|(queue, _, count)| (queue.name(), *count)));
        let counts = counts.into_iter();
        metrics.extend(
            counts.map(|(queue, value)| Metric::counter(name, help, value).label("queue", queue)),
        );
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
