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
    fn stages(self) -> Vec<Stage> {
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
pub async fn load_overview(app: &App) -> Result<Overview, Failure> {
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
        tally: store.count_tickets().await?,
        leases: leases(app, leased).await?,
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
async fn leases(app: &App, jobs: Vec<Job>) -> Result<Vec<ActiveLease>, Failure> {
    let mut leases = Vec::with_capacity(jobs.len());
    for (index, job) in jobs.into_iter().enumerate() {
        let agent_name = if index < AGENTS_MAX {
            agent(app, &job).await?
        } else {
            None
        };
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

async fn agent(app: &App, job: &Job) -> Result<Option<String>, Failure> {
    let (Some(id), Some(serial)) = (&job.ticket, job.serial) else {
        return Ok(None);
    };
    let stored = app.coordinator.store.ticket(id).await?;
    Ok(stored.and_then(|stored| {
        let mut jobs = stored.ticket.jobs.into_iter();
        jobs.find(|entry| entry.serial == serial)?.holder
    }))
}

/// Loads one page of a group's tickets, newest first.
pub async fn load_page(
    app: &App,
    group: TicketGroup,
    after: Option<i64>,
    most: u32,
) -> Result<Paged<TicketRow>, Failure> {
    tickets::list(app, group.stages(), &Page { after, most }).await
}

/// Returns the position of the newest event in the log.
pub async fn latest_cursor(app: &App) -> Result<Cursor, Failure> {
    let newest = app.coordinator.store.newest_events(None, 1).await?;
    Ok(newest.last().map(|event| event.cursor).unwrap_or_default())
}

/// Returns when there is an event after this position, or after `most`.
pub async fn wait_for_change(app: &App, after: Cursor, most: Duration) {
    app.coordinator.store.wait_for_events(after, most).await;
}
