//! What is going on, what happened, what was learned.

use std::collections::BTreeMap;
use std::time::Duration;

use flow::Stage;
use flow::insight::{Costs, Insights};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Cursor, Job, Paged, Pause};

use super::{Items, Method, Question, cursor, page};
use crate::failure::Failure;
use crate::operations::epics::EpicReport;
use crate::operations::history::{self, LogLine};
use crate::operations::silence::{self, Silent};
use crate::operations::tasks::board;
use crate::operations::{App, epics, insights, overview, queue, ticket_id, tickets};

/// More lines of the log are not told at once.
const LINES_MAX: u32 = 10_000;
const LINES_DEFAULT: u32 = 500;
/// Longer waits are cut by what stands between.
const WAIT_SECS_MAX: u64 = 50;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShowStatus {}

#[derive(Debug, Serialize, Deserialize)]
pub struct StatusSummary {
    pub tally: BTreeMap<Stage, u64>,
    pub pauses: Vec<Pause>,
    /// Agents that do not call although work waits for them.
    #[serde(default)]
    pub silent: Vec<Silent>,
}

impl Question for ShowStatus {
    type Answer = StatusSummary;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/status";

    async fn answer(self, office: &App) -> Result<StatusSummary, Failure> {
        let (tally, pauses, silent) = tokio::try_join!(
            tickets::tally(office),
            tickets::pauses(office),
            silence::silent(office)
        )?;
        Ok(StatusSummary {
            tally: tally.into_iter().collect(),
            pauses,
            silent,
        })
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShowCosts {}

impl Question for ShowCosts {
    type Answer = Costs;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/costs";

    async fn answer(self, office: &App) -> Result<Costs, Failure> {
        insights::costs(office).await
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListJobs {
    pub queue: Option<String>,
    pub state: Option<String>,
    pub after: Option<i64>,
    pub limit: Option<u32>,
}

impl Question for ListJobs {
    type Answer = Paged<Job>;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/jobs";

    async fn answer(self, office: &App) -> Result<Self::Answer, Failure> {
        let (queue, state) = (self.queue.as_deref(), self.state.as_deref());
        let only = office.call.only.clone();
        queue::jobs(office, queue, state, only, &page(self.after, self.limit)).await
    }
}

/// A task that is no longer wanted.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelTask {
    pub task: String,
    /// It is recorded with your name.
    pub why: String,
}

/// How a task stands.
#[derive(Debug, Serialize, Deserialize)]
pub struct TaskSummary {
    pub task_id: String,
    pub queue: String,
    pub status: flow::free::TaskStatus,
    /// Who has it in hand, or had it last.
    pub agent: Option<String>,
}

impl Question for CancelTask {
    type Answer = TaskSummary;
    const METHOD: Method = Method::Post;
    const PATH: &'static str = "/api/v1/tasks/{task}/cancel";

    async fn answer(self, office: &App) -> Result<TaskSummary, Failure> {
        let card = board::cancel(office, &self.task, &self.why).await?;
        Ok(TaskSummary {
            task_id: card.id,
            queue: card.queue,
            status: card.standing,
            agent: card.agent,
        })
    }
}

/// The newest of the log, or with `after` the first after that place.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadLog {
    pub ticket: Option<String>,
    /// `12.345`
    pub after: Option<String>,
    pub limit: Option<u32>,
    /// With `after`: wait so long for something to happen, where nothing has.
    pub wait_secs: Option<u64>,
}

/// Lines of the log.
#[derive(Debug, Serialize, Deserialize)]
pub struct LogLines {
    pub items: Vec<LogLine>,
    /// Where to go on: the `after` of the next question.
    pub end: Cursor,
}

impl Question for ReadLog {
    type Answer = LogLines;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/log";

    fn tickets(&self) -> Vec<&str> {
        self.ticket.as_deref().into_iter().collect()
    }

    async fn answer(self, office: &App) -> Result<LogLines, Failure> {
        let ticket = self.ticket.as_deref().map(ticket_id).transpose()?;
        let ticket = ticket.or_else(|| office.call.only.clone());
        if let Some(id) = &ticket {
            office.desk.ticket(id).await?;
        }
        let most = self.limit.unwrap_or(LINES_DEFAULT).clamp(1, LINES_MAX);
        let Some(after) = self.after.as_deref() else {
            let newest = overview::newest(office).await?;
            let items = history::latest(office, ticket.as_ref(), most).await?;
            let end = items.last().map_or(newest, |line| line.cursor);
            return Ok(LogLines { items, end });
        };
        let after = cursor(after).map_err(Failure::usage)?;
        let wait = Duration::from_secs(self.wait_secs.unwrap_or(0).min(WAIT_SECS_MAX));
        let told = history::read_on(office, ticket.as_ref(), after, most, wait).await?;
        Ok(LogLines {
            items: told.lines,
            end: told.end.unwrap_or(after),
        })
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListEpics {}

impl Question for ListEpics {
    type Answer = Items<EpicReport>;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/epics";

    async fn answer(self, office: &App) -> Result<Self::Answer, Failure> {
        let items = epics::list(office).await?;
        Ok(Items { items })
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowEpic {
    pub epic: String,
}

impl Question for ShowEpic {
    type Answer = EpicReport;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/epics/{epic}";

    async fn answer(self, office: &App) -> Result<EpicReport, Failure> {
        epics::look(office, &self.epic).await
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignEpic {
    pub epic: String,
    /// It is recorded with your name.
    pub why: String,
}

impl Question for SignEpic {
    type Answer = EpicReport;
    const METHOD: Method = Method::Post;
    const PATH: &'static str = "/api/v1/epics/{epic}/accept";

    async fn answer(self, office: &App) -> Result<EpicReport, Failure> {
        epics::sign(office, &self.epic, &self.why).await
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShowInsights {}

impl Question for ShowInsights {
    type Answer = Insights;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/insights";

    async fn answer(self, office: &App) -> Result<Insights, Failure> {
        insights::gather(office).await
    }
}
