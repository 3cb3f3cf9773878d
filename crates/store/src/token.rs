//! Tokens: agent, role, scope and expiry. The store compares hashes and ignores roles.

use flow::event::Lease;
use flow::{TicketId, Time};
use serde::{Deserialize, Serialize};

/// A token without its secret; only the hash is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Token {
    /// Id for lists; not secret.
    pub id: String,
    #[serde(skip_serializing, default)]
    pub hash: String,
    pub agent: String,
    /// Person or team behind the agent.
    pub principal: String,
    pub role: String,
    /// Model family of the agent, if known.
    pub family: Option<String>,
    /// Ticket that the token is limited to.
    pub ticket: Option<TicketId>,
    /// Lease of the run that the token was made for. There are many such tokens; adding one deletes
    /// those that were revoked or have expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    pub created_by: String,
    pub created_at: Time,
    pub expires_at: Option<Time>,
    pub revoked_at: Option<Time>,
}

/// Filter for a list of tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenQuery {
    /// Only the token whose secret has this hash.
    pub hash: Option<String>,
    pub most: u32,
}
