//! The overview for the live view: tickets by stage, active leases, waiting jobs, today's cost.
//! Every list is read in bounded pages.

use std::collections::BTreeMap;
use std::time::Duration;

use flow::{Stage, TicketId, Time, Usage};
use serde::Serialize;
use store::{Cursor, Job, JobQuery, JobState, JobWork, Page, Paged, Pause, TicketRow};

use super::{App, tickets};
use crate::failure::Failure;

/// Maximum number of jobs of each state that are read.
const JOBS_MAX: u32 = 100;
/// Maximum number of leases for which the worker's agent is looked up.
const AGENTS_MAX: usize = 20;

/// Group of tickets, as people see them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TicketGroup {
    #[default]
    All,
    /// Tickets that wait for a person's decision.
    ForYou,
    AtWork,
    /// Tickets that wait for other tickets, or for a person who took over.
    Waiting,
    Ended,
}

impl TicketGroup {
    pub const ALL: [Self; 5] = [
        Self::All,
        Self::ForYou,
        Self::AtWork,
        Self::Waiting,
        Self::Ended,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::ForYou => "for you",
            Self::AtWork => "at work",
            Self::Waiting => "waiting",
            Self::Ended => "ended",
        }
    }

    fn has(self, stage: Stage) -> bool {
        match self {
            Self::All => true,
            Self::ForYou => stage == Stage::Escalated,
            Self::AtWork => stage.is_active(),
            Self::Waiting => matches!(stage, Stage::Pending | Stage::Blocked),
            Self::Ended => stage.is_terminal(),
        }
    }

    /// Returns the stages of a group. The list is empty for all, because one query without a filter
    /// is cheaper than one per stage.
    pub fn stages(self) -> Vec<Stage> {
        match self {
            Self::All => Vec::new(),
            Self::ForYou | Self::AtWork | Self::Waiting | Self::Ended => {
                let all = Stage::ALL.into_iter();
                all.filter(|stage| self.has(*stage)).collect()
            }
        }
    }
}

/// State of all tickets and jobs at one position of the log.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Overview {
    /// Position in the log of the newest event in the overview.
    pub cursor: Cursor,
    pub tally: Vec<(Stage, u64)>,
    pub leases: Vec<ActiveLease>,
    /// Jobs that wait for a worker, by queue.
    pub ready: BTreeMap<String, u64>,
    /// True if there are more jobs than were read.
    pub more: bool,
    pub pauses: Vec<Pause>,
    /// Usage of all tickets today (UTC).
    pub spent_today: Usage,
}

/// A job that a worker holds.
#[derive(Clone, Debug, Serialize)]
pub struct ActiveLease {
    pub kind: String,
    pub ticket: Option<TicketId>,
    /// The agent if it is known, else the worker.
    pub holder: String,
    pub until: Option<Time>,
    pub attempts: u32,
}

impl Overview {
    pub fn count(&self, group: TicketGroup) -> u64 {
        let stages = self.tally.iter().filter(|(stage, _)| group.has(*stage));
        stages.map(|(_, count)| count).sum()
    }
}

/// Loads the overview.
pub async fn load_overview(app: &App, repository: Option<&str>) -> Result<Overview, Failure> {
    let store = &app.coordinator.store;
    // The cursor comes first, so that events during the other reads cause another update.
    let cursor = latest_cursor(app).await?;
    let (leased, more_leased) = jobs(app, JobState::Leased).await?;
    let (ready, more_ready) = jobs(app, JobState::Ready).await?;
    let mut queues: BTreeMap<String, u64> = BTreeMap::new();
    for job in ready {
        *queues.entry(job.queue.into()).or_default() += 1;
    }
    Ok(Overview {
        cursor,
        tally: match repository {
            Some(repository) => tickets::tally_of(app, repository).await?,
            None => tickets::tally(app).await?,
        },
        leases: leases(app, leased, repository).await?,
        ready: queues,
        more: more_leased || more_ready,
        pauses: store.pauses().await?,
        spent_today: store
            .spent_since((app.coordinator.clock)().start_of_day())
            .await?,
    })
}

async fn jobs(app: &App, state: JobState) -> Result<(Vec<Job>, bool), Failure> {
    let query = JobQuery {
        state: Some(state),
        ..JobQuery::default()
    };
    let page = Page {
        after: None,
        most: JOBS_MAX,
    };
    let listed = app.coordinator.store.jobs(&query, &page).await?;
    Ok((listed.items, listed.next.is_some()))
}

/// Builds the leases with their agents. The queue knows only workers; the ticket has the agent.
async fn leases(
    app: &App,
    jobs: Vec<Job>,
    repository: Option<&str>,
) -> Result<Vec<ActiveLease>, Failure> {
    let mut leases = Vec::with_capacity(jobs.len());
    for job in jobs {
        let ticket = match &job.ticket {
            // Agents are looked up for the first leases only; a repository needs every ticket.
            Some(id) if repository.is_some() || leases.len() < AGENTS_MAX => {
                app.coordinator.store.ticket(id).await?
            }
            Some(_) | None => None,
        };
        let ticket = ticket.map(|stored| stored.ticket);
        let context = ticket.as_ref().map(|ticket| &ticket.spec.context);
        let own = context.and_then(|context| context.repository.as_deref());
        if repository.is_some() && own != repository {
            continue;
        }
        let agent_name = ticket.and_then(|ticket| {
            let mut jobs = ticket.jobs.into_iter();
            jobs.find(|open| Some(open.serial) == job.serial)?.holder
        });
        leases.push(ActiveLease {
            kind: match job.work {
                JobWork::Task(task) => task.word().to_owned(),
                JobWork::Free { kind, .. } => kind,
            },
            ticket: job.ticket,
            holder: agent_name.or(job.holder).unwrap_or_default(),
            until: job.lease_until,
            attempts: job.attempts,
        });
    }
    Ok(leases)
}

/// Loads one page of a group's tickets, newest first.
pub async fn load_page(
    app: &App,
    group: TicketGroup,
    (repository, after): (Option<&str>, Option<i64>),
    most: u32,
) -> Result<Paged<TicketRow>, Failure> {
    let repository = repository.map(str::to_owned);
    tickets::list(app, group.stages(), repository, &Page { after, most }).await
}

/// Returns the position of the newest event in the log.
pub async fn latest_cursor(app: &App) -> Result<Cursor, Failure> {
    let newest = app.coordinator.store.newest_events(None, 1).await?;
    Ok(newest.last().map(|event| event.cursor).unwrap_or_default())
}

/// Returns when there is an event after this position, when the server stops, or after `most`.
pub async fn wait_for_change(app: &App, after: Cursor, most: Duration) {
    let change = app.coordinator.store.wait_for_events(after, most);
    app.unless_stopped(change).await;
}
