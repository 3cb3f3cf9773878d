//! Numbers for those who watch from afar.

use std::collections::BTreeMap;

use flow::Task;
use flow::insight::Costs;
use flow::quality::{BUCKETS_SECS, Quality, Spread, Verdicts, quality};
use store::{JobQuery, JobState, Page};

use super::{Office, insights, silence, tickets};
use crate::failure::Failure;

/// A queue longer than this is shown as this long.
const COUNTED_MAX: u32 = 1000;

/// One number, and what it counts.
#[derive(Clone, Debug)]
pub struct Measure {
    pub name: &'static str,
    pub means: &'static str,
    /// Of a histogram: `_bucket`, `_sum` or `_count`.
    pub part: &'static str,
    pub labels: Vec<(&'static str, String)>,
    pub value: u64,
}

impl Measure {
    fn one(name: &'static str, means: &'static str, value: u64) -> Self {
        Self {
            name,
            means,
            part: "",
            labels: Vec::new(),
            value,
        }
    }

    fn of(mut self, label: &'static str, value: impl ToString) -> Self {
        self.labels.push((label, value.to_string()));
        self
    }

    fn part(mut self, part: &'static str) -> Self {
        self.part = part;
        self
    }
}

/// All of them; those of one name stand together.
pub async fn gather(office: &Office) -> Result<Vec<Measure>, Failure> {
    let one = Measure::one;
    let mut found: Vec<Measure> = tickets::tally(office)
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
        count(store.lapsed(COUNTED_MAX).await?.len()),
    ));
    found.push(one(
        "countersign_agents_silent",
        "Agents that do not call although work waits for them.",
        count(silence::silent(office).await?.len()),
    ));
    let newest = insights::newest(office).await?;
    found.extend(cost(&Costs::of(&newest)));
    found.extend(told(&quality(&newest)));
    Ok(found)
}

/// What the newest tickets have cost.
fn cost(costs: &Costs) -> Vec<Measure> {
    let one = Measure::one;
    vec![
        one(
            "countersign_usd_micros_per_ticket",
            "Millionths of a dollar that each of the newest tickets has cost.",
            costs.usd_micros_per_ticket,
        ),
        one(
            "countersign_usd_micros_per_landed",
            "Millionths of a dollar for each of the newest changes that landed, all others' cost included.",
            costs.usd_micros_per_accepted.unwrap_or_default(),
        ),
    ]
}

/// How well the loop works, of the newest tickets.
fn told(quality: &Quality) -> Vec<Measure> {
    let one = Measure::one;
    let mut found = Vec::new();
    for (rounds, count) in &quality.rounds_to_approval {
        let means = "The newest tickets by the round in which they were approved.";
        found.push(one("countersign_approved_in_round", means, *count).of("round", rounds));
    }
    for (name, means, label, all) in [
        (
            "countersign_rounds",
            "Rounds of the newest tickets, by who built any part and by verdict.",
            "builder",
            &quality.built,
        ),
        (
            "countersign_reviews",
            "Reviews of the newest tickets, by who gave them and what they said.",
            "reviewer",
            &quality.reviewed,
        ),
    ] {
        for (who, Verdicts { approved, rejected }) in all {
            for (word, count) in [("approved", *approved), ("rejected", *rejected)] {
                let measure = one(name, means, count).of(label, who);
                found.push(measure.of("verdict", word));
            }
        }
    }
    for ((severity, fate), count) in &quality.findings {
        let means = "Findings of the newest tickets, by severity and what became of them.";
        let measure = one("countersign_findings", means, *count);
        found.push(measure.of("severity", severity).of("fate", fate));
    }
    found.extend(spread(&quality.round_secs));
    found
}

fn spread(took: &Spread) -> Vec<Measure> {
    let one = |part: &'static str, value: u64| {
        let means = "Seconds from a review's beginning to its verdict, of the newest tickets.";
        Measure::one("countersign_round_seconds", means, value).part(part)
    };
    let ends = BUCKETS_SECS.iter().map(ToString::to_string);
    let ends = ends.chain(["+Inf".to_owned()]);
    let counts = took.within.into_iter().chain([took.count]);
    let buckets = ends.zip(counts);
    let mut found: Vec<Measure> = buckets
        .map(|(end, count)| one("_bucket", count).of("le", end))
        .collect();
    found.push(one("_sum", took.sum_secs));
    found.push(one("_count", took.count));
    found
}

async fn queues(office: &Office) -> Result<Vec<Measure>, Failure> {
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
        let query = JobQuery {
            state: Some(state),
            ..JobQuery::default()
        };
        let page = Page {
            after: None,
            most: COUNTED_MAX,
        };
        let mut counts: BTreeMap<String, u64> = Task::QUEUES
            .iter()
            .map(|queue| ((*queue).to_owned(), 0))
            .collect();
        for job in office.desk.store.jobs(&query, &page).await?.items {
            *counts.entry(job.queue).or_default() += 1;
        }
        let counts = counts.into_iter();
        found.extend(
            counts.map(|(queue, value)| Measure::one(name, means, value).of("queue", queue)),
        );
    }
    Ok(found)
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
