//! Everything at a glance, for those who watch: how many tickets stand where, who works on what,
//! what waits, what it has cost today. Read in bounded pages, whatever there is.

use std::collections::BTreeMap;
use std::time::Duration;

use flow::{Stage, TicketId, Time, Usage};
use serde::Serialize;
use store::{Cursor, Job, JobQuery, JobState, JobWork, Page, Paged, Pause, TicketRow};

use super::{App, tickets};
use crate::failure::Failure;

/// How many jobs of each kind are looked at.
const JOBS_MAX: u32 = 100;
/// For how many leases the agent behind the worker is looked up.
const AGENTS_MAX: usize = 20;

/// How tickets are grouped for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TicketGroup {
    #[default]
    All,
    /// A person is asked.
    ForYou,
    AtWork,
    /// For other tickets, or for somebody who took over.
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
            Self::AtWork => stage.is_at_work(),
            Self::Waiting => matches!(stage, Stage::Pending | Stage::Blocked),
            Self::Ended => stage.is_terminal(),
        }
    }

    /// None for all: that is one walk and not thirteen.
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

#[derive(Clone, Debug, Default, Serialize)]
pub struct Overview {
    /// The last thing that is in it.
    pub cursor: Cursor,
    pub tally: Vec<(Stage, u64)>,
    pub leases: Vec<ActiveLease>,
    /// Jobs that wait for a worker, by queue.
    pub ready: BTreeMap<String, u64>,
    /// There are more jobs than were looked at.
    pub more: bool,
    pub pauses: Vec<Pause>,
    /// Of all tickets, since the day began by universal time.
    pub spent_today: Usage,
}

/// A job in somebody's hands.
#[derive(Clone, Debug, Serialize)]
pub struct ActiveLease {
    pub kind: String,
    pub ticket: Option<TicketId>,
    /// The agent, where it is known; else the worker.
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

pub async fn look(office: &App) -> Result<Overview, Failure> {
    let store = &office.desk.store;
    // Read first: what happens while the rest is read is looked at again.
    let cursor = newest(office).await?;
    let (leased, more_leased) = jobs(office, JobState::Leased).await?;
    let (ready, more_ready) = jobs(office, JobState::Ready).await?;
    let mut queues: BTreeMap<String, u64> = BTreeMap::new();
    for job in ready {
        *queues.entry(job.queue.into()).or_default() += 1;
    }
    Ok(Overview {
        cursor,
        tally: store.count_tickets().await?,
        leases: leases(office, leased).await?,
        ready: queues,
        more: more_leased || more_ready,
        pauses: store.pauses().await?,
        spent_today: store.spent_since((office.desk.clock)().day()).await?,
    })
}

async fn jobs(office: &App, state: JobState) -> Result<(Vec<Job>, bool), Failure> {
    let query = JobQuery {
        state: Some(state),
        ..JobQuery::default()
    };
    let page = Page {
        after: None,
        most: JOBS_MAX,
    };
    let found = office.desk.store.jobs(&query, &page).await?;
    Ok((found.items, found.next.is_some()))
}

/// The queue knows workers; whom they work for stands in the ticket.
async fn leases(office: &App, jobs: Vec<Job>) -> Result<Vec<ActiveLease>, Failure> {
    let mut leases = Vec::with_capacity(jobs.len());
    for (at, job) in jobs.into_iter().enumerate() {
        let known = if at < AGENTS_MAX {
            agent(office, &job).await?
        } else {
            None
        };
        leases.push(ActiveLease {
            kind: match job.work {
                JobWork::Task(task) => task.word().to_owned(),
                JobWork::Free { kind, .. } => kind,
            },
            ticket: job.ticket,
            holder: known.or(job.holder).unwrap_or_default(),
            until: job.lease_until,
            attempts: job.attempts,
        });
    }
    Ok(leases)
}

async fn agent(office: &App, job: &Job) -> Result<Option<String>, Failure> {
    let (Some(id), Some(serial)) = (&job.ticket, job.serial) else {
        return Ok(None);
    };
    let stored = office.desk.store.ticket(id).await?;
    Ok(stored.and_then(|stored| {
        let mut jobs = stored.ticket.jobs.into_iter();
        jobs.find(|one| one.serial == serial)?.holder
    }))
}

/// One page of a group's tickets, newest first.
pub async fn page(
    office: &App,
    group: TicketGroup,
    after: Option<i64>,
    most: u32,
) -> Result<Paged<TicketRow>, Failure> {
    tickets::list(office, group.stages(), &Page { after, most }).await
}

/// The place in the log up to which everything has happened.
pub async fn newest(office: &App) -> Result<Cursor, Failure> {
    let newest = office.desk.store.newest_events(None, 1).await?;
    Ok(newest.last().map(|event| event.cursor).unwrap_or_default())
}

/// Returns when something has been decided after this place, or after `most`.
pub async fn changed(office: &App, after: Cursor, most: Duration) {
    office.desk.store.wait_for_events(after, most).await;
}
