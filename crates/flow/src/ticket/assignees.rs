//! Agents that a ticket is bound to.

use serde::{Deserialize, Serialize};

/// Agents that a person chose for the ticket, the builder of the current submission, and its
/// session to continue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Assignees {
    pub builder: Option<String>,
    pub reviewer: Option<String>,
    pub session: Option<String>,
    /// Agent or person that made the current submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub built_by: Option<String>,
}
