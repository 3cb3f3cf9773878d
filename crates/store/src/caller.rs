//! What is known of one caller between its calls. The store compares versions and decides nothing.

use flow::attempt::CallerState;

/// How many sessions of one token are kept, the newest; a session that is forgotten has been given
/// nothing, so its reports have to name their attempt or ask again.
pub(crate) const SESSIONS_MAX: i64 = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerRecord {
    /// The id of its token.
    pub token: String,
    /// Empty where the protocol has no sessions.
    pub session: String,
    /// The version that was read; 0 where there was none.
    pub version: u64,
    pub state: CallerState,
}
