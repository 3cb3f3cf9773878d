//! Requests about current work, the log, epics, costs and insights.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use flow::insight::{Costs, Insights};
use flow::{Stage, Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Cursor, Job, Paged, Pause};

use super::{Items, Method, Question, page, parse_cursor};
use crate::failure::Failure;
use crate::operations::epics::EpicReport;
use crate::operations::forge_poller::{self, PollerStatus};
use crate::operations::history::{self, LogLine};
use crate::operations::silent_agents::{self, SilentAgent};
use crate::operations::tasks::listing;
use crate::operations::{App, epics, insights, overview, parse_ticket_id, project, queue, tickets};

/// Maximum number of log lines in one answer.
const LINES_MAX: u32 = 10_000;
const LINES_DEFAULT: u32 = 500;
/// Proxies between client and server cut longer waits.
const WAIT_SECS_MAX: u64 = 50;
const COST_DAYS_DEFAULT: u32 = 30;
/// Maximum number of days in one answer: each is a sum over the log.
const COST_DAYS_MAX: u32 = 90;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShowStatus {
    /// Only tickets of this repository: its common git directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StatusSummary {
    pub tally: BTreeMap<Stage, u64>,
    /// Number of tickets that are not counted, because they belong to other repositories.
    #[serde(default)]
    pub elsewhere: u64,
    pub pauses: Vec<Pause>,
    /// Agents that make no calls although work waits for them.
    #[serde(default)]
    pub silent: Vec<SilentAgent>,
    /// Open tasks outside tickets, by queue.
    #[serde(default)]
    pub tasks: BTreeMap<String, u64>,
    /// Pollers of forges, and the calls that they used.
    #[serde(default)]
    pub forges: Vec<PollerStatus>,
}

#[async_trait]
impl Question for ShowStatus {
    type Answer = StatusSummary;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/status";

    async fn answer(self, app: &App) -> Result<StatusSummary, Failure> {
        let repository = project::repository_name(app, self.repository).await;
        let (all, pauses, silent, tasks, forges) = tokio::try_join!(
            tickets::tally(app),
            tickets::pauses(app),
            silent_agents::list_silent(app),
            listing::count_open(app),
            forge_poller::list_pollers(app)
        )?;
        let total: u64 = all.iter().map(|(_, count)| count).sum();
        let tally = match &repository {
            Some(repository) => tickets::tally_of(app, repository).await?,
            None => all,
        };
        let shown: u64 = tally.iter().map(|(_, count)| count).sum();
        Ok(StatusSummary {
            elsewhere: total.saturating_sub(shown),
            tally: tally.into_iter().collect(),
            pauses,
            silent,
            tasks,
            forges,
        })
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShowCosts {
    /// Only tickets of this repository: its common git directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
}

#[async_trait]
impl Question for ShowCosts {
    type Answer = Costs;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/costs";

    async fn answer(self, app: &App) -> Result<Costs, Failure> {
        app.require_all_tickets()?;
        let repository = project::repository_name(app, self.repository).await;
        insights::costs(app, repository).await
    }
}

/// Shows the cost of each day, in UTC. Tickets and tasks count, as for the day's limit.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShowDailyCosts {
    /// Number of days up to today.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days: Option<u32>,
}

/// Cost of one day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DayCost {
    /// `2026-02-03`, in UTC.
    pub day: String,
    pub spent: Usage,
}

#[async_trait]
impl Question for ShowDailyCosts {
    type Answer = Items<DayCost>;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/costs/days";

    async fn answer(self, app: &App) -> Result<Self::Answer, Failure> {
        app.require_all_tickets()?;
        let days = self.days.unwrap_or(COST_DAYS_DEFAULT);
        if !(1..=COST_DAYS_MAX).contains(&days) {
            let why = format!("days is {days}: use 1 to {COST_DAYS_MAX}");
            return Err(Failure::usage(why));
        }
        let items = insights::daily_costs(app, days).await?;
        Ok(Items { items })
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListJobs {
    pub queue: Option<String>,
    pub state: Option<String>,
    pub ticket: Option<String>,
    pub after: Option<i64>,
    pub limit: Option<u32>,
}

#[async_trait]
impl Question for ListJobs {
    type Answer = Paged<Job>;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/jobs";

    async fn answer(self, app: &App) -> Result<Self::Answer, Failure> {
        let (queue, state) = (self.queue.as_deref(), self.state.as_deref());
        // A token for one ticket lists only that one, whatever it asks for.
        let only = match (&app.call.only_ticket, &self.ticket) {
            (Some(only), _) => Some(only.clone()),
            (None, Some(named)) => Some(app.ticket(named).await?.ticket.id),
            (None, None) => None,
        };
        queue::jobs(app, queue, state, only, &page(self.after, self.limit)).await
    }
}

/// Cancels a task.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelTask {
    pub task: String,
    /// The reason; it is recorded with your name.
    pub why: String,
}

/// State of a task.
#[derive(Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TaskSummary {
    pub task_id: String,
    pub queue: String,
    pub status: flow::task::TaskStatus,
    /// Agent that holds the task, or held it last.
    pub agent: Option<String>,
}

#[async_trait]
impl Question for CancelTask {
    type Answer = TaskSummary;
    const METHOD: Method = Method::Post;
    const PATH: &'static str = "/api/v1/tasks/{task}/cancel";

    async fn answer(self, app: &App) -> Result<TaskSummary, Failure> {
        let card = listing::cancel(app, &self.task, &self.why).await?;
        Ok(TaskSummary {
            task_id: card.id,
            queue: card.queue,
            status: card.status,
            agent: card.agent,
        })
    }
}

/// Reads the newest lines of the log, or with `after` the first lines after that position.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadLog {
    pub ticket: Option<String>,
    /// `12.345`
    pub after: Option<String>,
    pub limit: Option<u32>,
    /// With `after`: wait up to this long for a new line if there is none.
    pub wait_secs: Option<u64>,
    /// Only tickets of this repository.
    pub repository: Option<String>,
}

/// Lines of the log.
#[derive(Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LogLines {
    pub items: Vec<LogLine>,
    /// Position to continue from: the `after` of the next request.
    pub end: Cursor,
}

#[async_trait]
impl Question for ReadLog {
    type Answer = LogLines;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/log";

    fn tickets(&self) -> Vec<&str> {
        self.ticket.as_deref().into_iter().collect()
    }

    async fn answer(self, app: &App) -> Result<LogLines, Failure> {
        let ticket = self.ticket.as_deref().map(parse_ticket_id).transpose()?;
        let ticket = ticket.or_else(|| app.call.only_ticket.clone());
        if let Some(id) = &ticket {
            app.coordinator.ticket(id).await?;
        }
        // A named ticket is shown wherever it belongs.
        let repository = self.repository.filter(|_| ticket.is_none());
        let repository = project::repository_name(app, repository).await;
        let wanted = (ticket.as_ref(), repository.as_deref());
        let most = self.limit.unwrap_or(LINES_DEFAULT).clamp(1, LINES_MAX);
        let Some(after) = self.after.as_deref() else {
            let newest = overview::latest_cursor(app).await?;
            let items = history::latest(app, wanted, most).await?;
            let end = items.last().map_or(newest, |line| line.cursor);
            return Ok(LogLines { items, end });
        };
        let after = parse_cursor(after).map_err(Failure::usage)?;
        let wait = Duration::from_secs(self.wait_secs.unwrap_or(0).min(WAIT_SECS_MAX));
        let page = history::read_after(app, wanted, after, most, wait).await?;
        Ok(LogLines {
            items: page.lines,
            end: page.end.unwrap_or(after),
        })
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListEpics {}

#[async_trait]
impl Question for ListEpics {
    type Answer = Items<EpicReport>;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/epics";

    async fn answer(self, app: &App) -> Result<Self::Answer, Failure> {
        app.require_all_tickets()?;
        let items = epics::list(app).await?;
        Ok(Items { items })
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowEpic {
    pub epic: String,
}

#[async_trait]
impl Question for ShowEpic {
    type Answer = EpicReport;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/epics/{epic}";

    async fn answer(self, app: &App) -> Result<EpicReport, Failure> {
        app.require_all_tickets()?;
        epics::load_report(app, &self.epic).await
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptEpic {
    pub epic: String,
    /// The reason; it is recorded with your name.
    pub why: String,
}

#[async_trait]
impl Question for AcceptEpic {
    type Answer = EpicReport;
    const METHOD: Method = Method::Post;
    const PATH: &'static str = "/api/v1/epics/{epic}/accept";

    async fn answer(self, app: &App) -> Result<EpicReport, Failure> {
        epics::accept(app, &self.epic, &self.why).await
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShowInsights {}

#[async_trait]
impl Question for ShowInsights {
    type Answer = Insights;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/insights";

    async fn answer(self, app: &App) -> Result<Insights, Failure> {
        app.require_all_tickets()?;
        insights::load_insights(app).await
    }
}
