//! Tokens: who may speak, as whom, of what, until when. The store compares hashes and looks at no role.

use flow::event::Lease;
use flow::{TicketId, Time};
use serde::{Deserialize, Serialize};

/// A token without its secret, of which only the hash is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Names it in lists; no secret.
    pub id: String,
    #[serde(skip_serializing, default)]
    pub hash: String,
    pub agent: String,
    /// Whom the agent stands for.
    pub principal: String,
    pub role: String,
    /// The family of the model behind it, where it is known.
    pub family: Option<String>,
    /// The only ticket that it may speak of.
    pub ticket: Option<TicketId>,
    /// The lease of the run that it was made for. Such tokens are many, and are forgotten when they
    /// have ended and another is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    pub created_by: String,
    pub created_at: Time,
    pub expires_at: Option<Time>,
    pub revoked_at: Option<Time>,
}

/// Which tokens are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenQuery {
    /// Only the one whose secret has this hash.
    pub hash: Option<String>,
    pub most: u32,
}
