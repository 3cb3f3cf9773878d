//! Work that arrives from forges and trackers, as jobs of the durable queue. Each job has a key, so
//! that the same news (a webhook that is delivered twice, a comment that a webhook and the poller
//! both report) is worked on once.
//!
//! A job says where to look and never what is there: its handler reads the state from the forge.

use flow::Queue;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{FreeJob, JobWork};

use super::App;
use crate::failure::Failure;

/// Maximum number of open jobs of a queue. Beyond it webhooks are refused, and the poller finds
/// what they were about.
pub const OPEN_MAX: u64 = 10_000;
const PRIORITY: i32 = 50;

/// Queues of this work. Their names cannot be those of agents.
pub const NEWS_QUEUE: &str = "forge:news";
pub const REVIEW_QUEUE: &str = "forge:reviews";

/// Place on a forge or tracker.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForgeSubject {
    Change(u64),
    Issue(String),
    /// Branch of the repository, whose change has news.
    Branch(String),
    /// Nothing in particular: the poller's questions are asked at once.
    Repository,
}

impl ForgeSubject {
    /// Returns the name of the place for comments: the number of a change, the key of an issue.
    pub fn on(&self) -> Option<String> {
        match self {
            Self::Change(number) => Some(number.to_string()),
            Self::Issue(key) => Some(key.clone()),
            Self::Branch(_) | Self::Repository => None,
        }
    }

    pub fn describe(&self) -> String {
        match self {
            Self::Change(number) => format!("change {number}"),
            Self::Issue(key) => format!("issue {key}"),
            Self::Branch(name) => format!("branch {name}"),
            Self::Repository => "the repository".to_owned(),
        }
    }
}

/// A command in a comment, as it was found.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, not states"
)]
pub struct FoundCommand {
    pub subject: ForgeSubject,
    pub comment: String,
    /// True for a comment on a line of a change.
    pub inline: bool,
    pub author: String,
    pub is_bot: bool,
    pub is_own: bool,
    pub edited: bool,
    pub text: String,
}

/// One piece of work.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForgeTask {
    Look(ForgeSubject),
    Command(FoundCommand),
    Review { number: u64, head: String },
    TakeIn { key: String },
    ReportIssue { ticket: String },
}

impl ForgeTask {
    fn queue(&self) -> &'static str {
        match self {
            Self::Review { .. } => REVIEW_QUEUE,
            Self::Look(_) | Self::Command(_) | Self::TakeIn { .. } | Self::ReportIssue { .. } => {
                NEWS_QUEUE
            }
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Look(_) => "look",
            Self::Command(_) => "command",
            Self::Review { .. } => "review",
            Self::TakeIn { .. } => "take_in",
            Self::ReportIssue { .. } => "report_issue",
        }
    }

    fn title(&self, connection: &str) -> String {
        match self {
            Self::Look(subject) => format!("look at {} of {connection}", subject.describe()),
            Self::Command(command) => {
                format!(
                    "command of {} in {connection}",
                    findings::one_line(&command.author)
                )
            }
            Self::Review { number, .. } => format!("review change {number} of {connection}"),
            Self::TakeIn { key } => format!("make a ticket of issue {key} of {connection}"),
            Self::ReportIssue { ticket } => format!("write the state of {ticket} to its issue"),
        }
    }
}

/// The body of a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ForgeJob {
    pub connection: String,
    pub task: ForgeTask,
}

impl ForgeJob {
    pub fn new(connection: &str, task: ForgeTask) -> Self {
        Self {
            connection: connection.to_owned(),
            task,
        }
    }

    /// Reads the body of a job; `None` for one that an older or newer version wrote.
    pub fn read(work: &JobWork) -> Option<Self> {
        match work {
            JobWork::Free { body, .. } => serde_json::from_value(body.clone()).ok(),
            JobWork::Task(_) => None,
        }
    }
}

/// Queues a piece of work once; returns false if the key is known.
pub async fn queue_once(app: &App, key: &str, job: &ForgeJob) -> Result<bool, Failure> {
    let key = format!("forge/{}/{key}", job.connection);
    let store = &app.coordinator.store;
    if store.job_by_key(&key).await?.is_some() {
        return Ok(false);
    }
    let mut body = serde_json::to_value(job).map_err(Failure::error)?;
    body["title"] = Value::String(job.task.title(&job.connection));
    let queued = store.enqueue(vec![FreeJob {
        queue: Queue::from(job.task.queue()),
        kind: job.task.kind().to_owned(),
        body,
        priority: PRIORITY,
        not_before: None,
        agent: None,
        key: Some(key),
        queue_max: Some(OPEN_MAX),
        needs: std::collections::BTreeSet::default(),
        depends_on: Vec::new(),
    }]);
    match queued.await {
        Ok(_) => Ok(true),
        // Somebody was faster: with the same words, or with others, as an edited comment has them.
        Err(store::Error::KeyReused { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether a queue has work from forges, which is not for agents.
pub fn is_forge_queue(queue: &Queue) -> bool {
    [NEWS_QUEUE, REVIEW_QUEUE].contains(&queue.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_read_as_it_was_written_and_no_agent_can_name_its_queue() {
        for task in [
            ForgeTask::Look(ForgeSubject::Repository),
            ForgeTask::Look(ForgeSubject::Change(7)),
            ForgeTask::TakeIn {
                key: "PROJ-1".to_owned(),
            },
        ] {
            let job = ForgeJob::new("app", task);
            assert!(crate::operations::tasks::queue_name(job.task.queue()).is_err());
            let mut body = serde_json::to_value(&job).unwrap();
            body["title"] = Value::String("x".to_owned());
            let kind = job.task.kind().to_owned();
            assert_eq!(ForgeJob::read(&JobWork::Free { kind, body }), Some(job));
        }
    }
}
