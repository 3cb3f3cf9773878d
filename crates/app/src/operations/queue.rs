//! Lists jobs for people.

use flow::TicketId;
use store::{Job, JobQuery, JobState, JobWork, Page, Paged};

use super::App;
use crate::failure::Failure;

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
