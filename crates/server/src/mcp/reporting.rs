//! How a report is answered: once for each attempt, and on record where it is refused.

use engine::coordinator::Once;
use flow::Ticket;
use flow::attempt::Attempt;
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
        who: &Identity,
        tool: &str,
        reported: Result<T, Failure>,
    ) -> Result<Json<T>, String> {
        match reported {
            Ok(answer) => Ok(Json(answer)),
            Err(failure) => Err(self.refuse_result(who, tool, failure).await),
        }
    }

    /// A report that counts once: the first answer to the same call where it came before, or where
    /// it came in the same instant and won.
    pub(super) async fn reported<T: for<'a> Deserialize<'a>>(
        &self,
        once: Option<&Once>,
        report: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        if let Some(answer) = self.answered(once).await? {
            return Ok(answer);
        }
        match report.await {
            Ok(answer) => Ok(answer),
            Err(failure) => self.answered(once).await?.ok_or(failure),
        }
    }

    /// The first answer to the same call, if it came before.
    async fn answered<T: for<'a> Deserialize<'a>>(
        &self,
        once: Option<&Once>,
    ) -> Result<Option<T>, Failure> {
        let Some(once) = once else {
            return Ok(None);
        };
        let first = assignments::recall(&self.office, &once.key, &once.payload_hash).await?;
        first
            .map(|answer| serde_json::from_value(answer).map_err(Failure::error))
            .transpose()
    }
}

/// The claim that a report is made under, bound to who makes it: a retry is known by it. What is no attempt is
/// refused where the claim is looked at.
pub(super) fn once(
    who: &Identity,
    what: &str,
    attempt: Option<&str>,
    payload: &impl Serialize,
    answer: fn(&Ticket) -> Value,
) -> Option<Once> {
    let attempt: Attempt = attempt?.parse().ok()?;
    let payload = serde_json::to_vec(payload).unwrap_or_default();
    Some(Once {
        key: format!("mcp/{}/{attempt}/{what}", who.actor.agent),
        payload_hash: engine::hash::short(&payload),
        answer,
    })
}
