//! Lists jobs for people.

use std::collections::BTreeMap;

use flow::TicketId;
use store::{Job, JobQuery, JobState, JobWork, Page, Paged};

use super::App;
use crate::failure::Failure;

/// Jobs of each queue that are read for their age.
const AGES_MAX: u32 = 1_000;

/// State of one queue.
#[derive(Clone, Debug, Default)]
pub struct QueueDepth {
    pub name: String,
    /// Jobs that a worker could claim now.
    pub ready: u64,
    /// Jobs that wait for a time or for another job.
    pub waiting: u64,
    pub leased: u64,
    pub dead: u64,
    /// How long the ready jobs have waited, in milliseconds: the oldest, and two percentiles.
    pub oldest_ms: Option<u64>,
    pub p50_ms: Option<u64>,
    pub p95_ms: Option<u64>,
}

/// Loads the state of every queue that has jobs.
pub async fn load_queues(app: &App) -> Result<Vec<QueueDepth>, Failure> {
    let store = &app.coordinator.store;
    let mut queues: BTreeMap<String, QueueDepth> = BTreeMap::new();
    for (queue, state, count) in store.count_jobs().await? {
        let name = queue.to_string();
        let entry = queues.entry(name.clone()).or_insert_with(|| QueueDepth {
            name,
            ..QueueDepth::default()
        });
        match state {
            JobState::Ready => entry.ready += count,
            JobState::Waiting => entry.waiting += count,
            JobState::Leased => entry.leased += count,
            JobState::Dead => entry.dead += count,
            JobState::Done | JobState::Dropped => {}
        }
        if state == JobState::Ready {
            let query = JobQuery {
                queue: Some(queue),
                state: Some(state),
                ..JobQuery::default()
            };
            let page = Page {
                after: None,
                most: AGES_MAX,
            };
            let jobs = store.jobs(&query, &page).await?.items;
            let ages = jobs
                .iter()
                .map(|job| app.now().0 - job.created_at.0.max(job.not_before.0));
            let mut ages: Vec<u64> = ages.map(|age| u64::try_from(age).unwrap_or(0)).collect();
            ages.sort_unstable();
            let percentile = |percent: usize| {
                let place = (ages.len() * percent).div_ceil(100).checked_sub(1)?;
                ages.get(place).copied()
            };
            entry.p50_ms = percentile(50);
            entry.p95_ms = percentile(95);
            entry.oldest_ms = ages.last().copied();
        }
    }
    Ok(queues.into_values().collect())
}

/// Lists jobs, newest first; `state` is a job state's name.
pub async fn jobs(
    app: &App,
    queue: Option<&str>,
    state: Option<&str>,
    ticket: Option<TicketId>,
    page: &Page,
) -> Result<Paged<Job>, Failure> {
    let query = JobQuery {
        queue: queue.map(Into::into),
        state: state.map(parse_state).transpose()?,
        ticket,
        ..JobQuery::default()
    };
    Ok(app.coordinator.store.jobs(&query, page).await?)
}

/// Returns the cells of a job's line: number, queue, state, ticket or task, and title.
pub fn job_cells(job: &Job) -> Vec<String> {
    let text = |name: &str| match &job.work {
        JobWork::Free { body, .. } => body.get(name)?.as_str().map(findings::one_line),
        JobWork::Task(_) => None,
    };
    let ticket = job.ticket.as_ref().map(ToString::to_string);
    vec![
        job.id.0.to_string(),
        job.queue.to_string(),
        job.state.word().to_owned(),
        ticket.or_else(|| text("id")).unwrap_or_default(),
        text("title").unwrap_or_default(),
    ]
}

fn parse_state(word: &str) -> Result<JobState, Failure> {
    serde_json::from_value(word.into()).map_err(|_| {
        Failure::usage(format!("{word:?} is not a state of a job"))
            .hint("states are waiting, ready, leased, done, dropped and dead")
    })
}
