//! Numbers for those who watch from afar.

mod running;

pub use running::MetricSums;

use std::collections::BTreeMap;

use flow::Queue;
use flow::quality::{DurationHistogram, QualityMetrics, ROUNDS_MS, VerdictCounts, WAITS_MS};
use store::{JobQuery, JobState, Page, Store};

use super::{App, silence, tickets};
use crate::failure::Failure;

/// More lapsed leases are shown as so many.
const COUNTED_MAX: u32 = 1000;

/// The number of jobs whose lease has run out.
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

/// One number, and what it counts.
#[derive(Clone, Debug)]
pub struct Metric {
    pub name: &'static str,
    pub means: &'static str,
    /// Of a histogram: `_bucket`, `_sum` or `_count`.
    pub part: &'static str,
    pub labels: Vec<(&'static str, String)>,
    pub value: f64,
}

impl Metric {
    fn one(name: &'static str, means: &'static str, value: u64) -> Self {
        Self {
            name,
            means,
            part: "",
            labels: Vec::new(),
            value: number(value),
        }
    }

    fn secs(mut self, ms: u64) -> Self {
        self.value = number(ms) / 1000.0;
        self
    }

    fn of(mut self, label: &'static str, value: impl ToString) -> Self {
        self.labels.push((label, value.to_string()));
        self
    }
}

/// All of them; those of one name stand together.
pub async fn gather(office: &App, running: &MetricSums) -> Result<Vec<Metric>, Failure> {
    let one = Metric::one;
    let mut found: Vec<Metric> = tickets::tally(office)
        .await?
        .into_iter()
        .map(|(stage, count)| {
            one("countersign_tickets", "Tickets by stage.", count).of("stage", stage.word())
        })
        .collect();
    found.extend(queues(office).await?);
    let store = &office.desk.store;
    let spent = store.spent_since((office.desk.clock)().day()).await?;
    found.push(one(
        "countersign_spent_today_usd_micros",
        "Millionths of a dollar that agents have cost today (UTC).",
        spent.usd_micros,
    ));
    found.push(one(
        "countersign_pauses",
        "Agents, queues and providers that are given nothing for now.",
        count(store.pauses().await?.len()),
    ));
    found.push(one(
        "countersign_leases_lapsed",
        "Jobs whose lease has run out and that nobody has taken back yet.",
        count(lapsed(store.as_ref()).await?),
    ));
    found.push(one(
        "countersign_agents_silent",
        "Agents that do not call although work waits for them.",
        count(silence::silent(office).await?.len()),
    ));
    let sums = running.told(office).await?;
    found.extend(cost(&sums.quality));
    found.extend(told(&sums.quality));
    found.extend(waits(&sums.waits));
    Ok(found)
}

/// What tickets have cost.
fn cost(quality: &QualityMetrics) -> Vec<Metric> {
    let one = Metric::one;
    vec![
        one(
            "countersign_usd_micros_per_ticket",
            "Millionths of a dollar that each ticket has cost, of those that cost anything.",
            quality.usd_micros_per_ticket(),
        ),
        one(
            "countersign_usd_micros_per_landed",
            "Millionths of a dollar for each change that landed, all others' cost included.",
            quality.usd_micros_per_landed(),
        ),
    ]
}

/// How well the loop works.
fn told(quality: &QualityMetrics) -> Vec<Metric> {
    let one = Metric::one;
    let mut found = Vec::new();
    for (rounds, count) in &quality.rounds_to_approval {
        let means = "Tickets by the round in which they were approved.";
        found.push(one("countersign_approved_in_round", means, *count).of("round", rounds));
    }
    for (name, means, label, all) in [
        (
            "countersign_rounds",
            "Rounds by who built any part and by verdict.",
            "builder",
            &quality.built,
        ),
        (
            "countersign_reviews",
            "Reviews by who gave them and what they said.",
            "reviewer",
            &quality.reviewed,
        ),
    ] {
        for (who, VerdictCounts { approved, rejected }) in all {
            for (word, count) in [("approved", *approved), ("rejected", *rejected)] {
                let measure = one(name, means, count).of(label, who);
                found.push(measure.of("verdict", word));
            }
        }
    }
    for ((severity, fate), count) in &quality.findings {
        let means = "Findings by severity and what became of them.";
        let measure = one("countersign_findings", means, *count);
        found.push(measure.of("severity", severity).of("fate", fate));
    }
    let means = "Seconds from a review's beginning to its verdict.";
    let pattern = Metric::one("countersign_round_seconds", means, 0);
    found.extend(spread(&pattern, &quality.rounds, ROUNDS_MS));
    found
}

/// How long jobs waited, by queue.
fn waits(waits: &BTreeMap<String, DurationHistogram>) -> Vec<Metric> {
    let means = "Seconds from when a job was ready to when somebody was at work on it, since this server was first asked.";
    let of = |(queue, took): (&String, &DurationHistogram)| {
        let pattern = Metric::one("countersign_claim_seconds", means, 0).of("queue", queue);
        spread(&pattern, took, WAITS_MS)
    };
    waits.iter().flat_map(of).collect()
}

/// A histogram: the pattern has its name and its labels.
fn spread(pattern: &Metric, took: &DurationHistogram, ends_ms: &[u64]) -> Vec<Metric> {
    let one = |part: &'static str, value: u64| Metric {
        part,
        value: number(value),
        ..pattern.clone()
    };
    let ends = ends_ms
        .iter()
        .map(|end| (number(*end) / 1000.0).to_string());
    let counts = took.within.iter().copied().chain(std::iter::repeat(0));
    let mut found: Vec<Metric> = ends
        .zip(counts)
        .chain([("+Inf".to_owned(), took.count)])
        .map(|(end, count)| one("_bucket", count).of("le", end))
        .collect();
    found.push(one("_sum", 0).secs(took.sum_ms));
    found.push(one("_count", took.count));
    found
}

async fn queues(office: &App) -> Result<Vec<Metric>, Failure> {
    let depths = office.desk.store.count_jobs().await?;
    let mut found = Vec::new();
    for (state, name, means) in [
        (
            JobState::Ready,
            "countersign_jobs_ready",
            "Jobs that wait for a worker, by queue.",
        ),
        (
            JobState::Leased,
            "countersign_jobs_leased",
            "Jobs in somebody's hands, by queue.",
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
        let of_state = depths.iter().filter(|(_, known, _)| *known == state);
        counts.extend(of_state.map(|(queue, _, count)| (queue.name(), *count)));
        let counts = counts.into_iter();
        found.extend(
            counts.map(|(queue, value)| Metric::one(name, means, value).of("queue", queue)),
        );
    }
    Ok(found)
}

/// Exact as far as anybody counts.
#[expect(
    clippy::cast_precision_loss,
    reason = "whoever reads these numbers reads them as such"
)]
fn number(value: u64) -> f64 {
    value as f64
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
