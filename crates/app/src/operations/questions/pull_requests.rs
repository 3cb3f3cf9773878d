//! Requests about the pull request of a ticket.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Method, Question, TicketSummary};
use crate::failure::Failure;
use crate::operations::{App, change_reports};

/// Asks for a look at the pull request of a ticket now.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LookAtPullRequest {
    pub ticket: String,
    /// The reason, such as the event of a webhook.
    pub why: String,
}

#[async_trait]
impl Question for LookAtPullRequest {
    type Answer = TicketSummary;
    const METHOD: Method = Method::Post;
    const PATH: &'static str = "/api/v1/tickets/{ticket}/pull-request/look";

    fn tickets(&self) -> Vec<&str> {
        vec![&self.ticket]
    }

    fn version(answer: &TicketSummary) -> Option<u64> {
        Some(answer.version)
    }

    async fn answer(self, app: &App) -> Result<TicketSummary, Failure> {
        let ticket = change_reports::queue_report(app, &self.ticket, &self.why).await?;
        Ok(TicketSummary::from_ticket(&ticket))
    }
}
