//! Answers reports: once per attempt, and recorded if refused.
//!
//! Agents lose answers: their client times out, or the server restarts. They then send the same
//! report again, which must not count twice and must not fail.

use engine::coordinator::Once;
use flow::attempt::Attempt;
use flow::{Policy, Ticket};
use rmcp::Json;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::McpServer;
use app::failure::Failure;
use app::operations::assignments;
use app::operations::identity::Identity;

impl McpServer {
    /// Answers a report, and records a refused one.
    pub(super) async fn answer<T>(
        &self,
        identity: &Identity,
        tool: &str,
        reported: Result<T, Failure>,
    ) -> Result<Json<T>, String> {
        match reported {
            Ok(answer) => Ok(Json(answer)),
            Err(failure) => Err(self.refuse_result(identity, tool, failure).await),
        }
    }

    /// Runs a report at most once: returns the stored answer if the same call came before, or came
    /// at the same time and won.
    pub(super) async fn run_once<T: for<'a> Deserialize<'a>>(
        &self,
        once: Option<&Once>,
        report: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        // Asked before the report runs, which covers the ordinary repetition.
        if let Some(answer) = self.previous_answer(once).await? {
            return Ok(answer);
        }
        match report.await {
            Ok(answer) => Ok(answer),
            // Two equal calls at the same time: the second is refused by the fence and finds the
            // first one's answer here.
            Err(failure) => self.previous_answer(once).await?.ok_or(failure),
        }
    }

    /// Returns the stored answer if the same call was made before.
    async fn previous_answer<T: for<'a> Deserialize<'a>>(
        &self,
        once: Option<&Once>,
    ) -> Result<Option<T>, Failure> {
        let Some(once) = once else {
            return Ok(None);
        };
        let first = assignments::recall_answer(&self.app, &once.key, &once.payload_hash).await?;
        first
            .map(|answer| serde_json::from_value(answer).map_err(Failure::error))
            .transpose()
    }
}

/// Builds the key that recognises a retried report: the claim's attempt, bound to the caller. An
/// invalid attempt gives no key; it is refused when the claim is checked.
pub(super) fn once(
    identity: &Identity,
    action: &str,
    attempt: Option<&str>,
    payload: &impl Serialize,
    answer: fn(&Ticket, &Policy) -> Value,
) -> Option<Once> {
    let attempt: Attempt = attempt?.parse().ok()?;
    let payload = serde_json::to_vec(payload).unwrap_or_default();
    Some(Once {
        // The agent's name is a part of the key, so that no caller can read the answer of another.
        key: format!("mcp/{}/{attempt}/{action}", identity.actor.agent),
        payload_hash: engine::hash::short_sha256(&payload),
        answer,
    })
}
