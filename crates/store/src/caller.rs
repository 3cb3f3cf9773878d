//! State of one caller between its calls. The store compares versions and decides nothing.

use flow::attempt::CallerState;

/// Maximum number of stored sessions per token; older ones are deleted. A deleted session counts as
/// one without a claim, so its reports must name their attempt or claim again.
pub(crate) const SESSIONS_MAX: i64 = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerRecord {
    /// Id of the caller's token.
    pub token: String,
    /// Session id; empty if the protocol has no sessions.
    pub session: String,
    /// Version that was read; 0 for a new caller.
    pub version: u64,
    pub state: CallerState,
}
