//! The jobs, for those who want to see them.

use flow::TicketId;
use store::{Job, JobQuery, JobState, JobWork, Page, Paged};

use super::App;
use crate::failure::Failure;

/// Jobs, newest first; `state` in the words that a job's state has.
pub async fn jobs(
    office: &App,
    queue: Option<&str>,
    state: Option<&str>,
    ticket: Option<TicketId>,
    page: &Page,
) -> Result<Paged<Job>, Failure> {
    let query = JobQuery {
        queue: queue.map(Into::into),
        state: state.map(state_of).transpose()?,
        ticket,
        ..JobQuery::default()
    };
    Ok(office.desk.store.jobs(&query, page).await?)
}

/// One job in a line: its number, its queue, how it stands, and what it is about.
pub fn row(job: &Job) -> Vec<String> {
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

fn state_of(word: &str) -> Result<JobState, Failure> {
    serde_json::from_value(word.into()).map_err(|_| {
        Failure::usage(format!("{word:?} is no state of a job"))
            .hint("they are waiting, ready, leased, done, dropped and dead")
    })
}
