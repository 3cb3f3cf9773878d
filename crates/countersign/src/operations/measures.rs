//! Numbers for those who watch from afar.

use std::collections::BTreeMap;

use flow::Task;
use store::{JobQuery, JobState, Page};

use super::{Office, tickets};
use crate::failure::Failure;

/// A queue longer than this is shown as this long.
const COUNTED_MAX: u32 = 1000;

/// One number, and what it counts.
#[derive(Clone, Debug)]
pub struct Measure {
    pub name: &'static str,
    pub means: &'static str,
    pub labels: Vec<(&'static str, String)>,
    pub value: u64,
}

/// All of them; those of one name stand together.
pub async fn gather(office: &Office) -> Result<Vec<Measure>, Failure> {
    let mut found = Vec::new();
    for (stage, count) in tickets::tally(office).await? {
        found.push(Measure {
            name: "countersign_tickets",
            means: "Tickets by stage.",
            labels: vec![("stage", stage.word().to_owned())],
            value: count,
        });
    }
    found.extend(queues(office).await?);
    let store = &office.desk.store;
    let now = (office.desk.clock)();
    let spent = store.spent_since(now.day()).await?;
    found.push(Measure {
        name: "countersign_spent_today_usd_micros",
        means: "Millionths of a dollar that agents have cost today (UTC).",
        labels: Vec::new(),
        value: spent.usd_micros,
    });
    found.push(Measure {
        name: "countersign_pauses",
        means: "Agents, queues and providers that are given nothing for now.",
        labels: Vec::new(),
        value: count(store.pauses().await?.len()),
    });
    found.push(Measure {
        name: "countersign_leases_lapsed",
        means: "Jobs whose lease has run out and that nobody has taken back yet.",
        labels: Vec::new(),
        value: count(store.lapsed(COUNTED_MAX).await?.len()),
    });
    Ok(found)
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
        found.extend(counts.into_iter().map(|(queue, value)| Measure {
            name,
            means,
            labels: vec![("queue", queue)],
            value,
        }));
    }
    Ok(found)
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
