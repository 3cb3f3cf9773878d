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
    #[serde(default, skip_serializing_if = "TokenKind::is_bearer")]
    pub kind: TokenKind,
    /// Token that a session was opened with. Revoking it revokes the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// How often a link to one ticket was opened; 0 for every other kind.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uses: u64,
}

impl Token {
    /// Returns how often a link was opened; `None` for a token that is no link.
    pub fn link_uses(&self) -> Option<u64> {
        (self.kind == TokenKind::SharedLink).then_some(self.uses)
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Change of a stored token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenChange {
    /// Ends the token, and the sessions that were opened with it.
    Revoke(Time),
    /// Counts one use.
    CountUse,
    /// Moves the end, unless the token that this one was opened with ends before.
    Extend(Time),
}

/// Way in which a secret is used. One kind is never accepted in place of another.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// Sent in the `Authorization` header.
    #[default]
    Bearer,
    /// Opens one session of a browser, once.
    LoginCode,
    /// Cookie of a browser.
    Session,
    /// Part of an address that shows one ticket. It stays listed for a while after its end, so that
    /// the address says that it has ended.
    SharedLink,
}

impl TokenKind {
    pub const ALL: [Self; 4] = [
        Self::Bearer,
        Self::LoginCode,
        Self::Session,
        Self::SharedLink,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bearer => "bearer",
            Self::LoginCode => "login_code",
            Self::Session => "session",
            Self::SharedLink => "shared_link",
        }
    }

    /// Reads the stored word. An unknown one is of a newer version and counts as a login code,
    /// which admits nobody by itself.
    pub fn parse(word: &str) -> Self {
        let mut kinds = Self::ALL.into_iter();
        kinds
            .find(|kind| kind.as_str() == word)
            .unwrap_or(Self::LoginCode)
    }

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_bearer(&self) -> bool {
        *self == Self::Bearer
    }
}

/// Time for which a link that has ended is kept.
pub(crate) const ENDED_LINK_MS: i64 = 30 * 24 * 3_600_000;

/// Filter for a list of tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenQuery {
    /// Only the token whose secret has this hash.
    pub hash: Option<String>,
    /// Kind of the listed tokens; a search by hash finds every kind.
    pub kind: TokenKind,
    pub most: u32,
}
