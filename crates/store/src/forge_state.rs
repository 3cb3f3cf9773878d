//! State of a connection to a forge or tracker. The store compares versions and decides nothing.

use flow::Time;
use serde_json::Value;

/// A named value that the whole fleet shares, such as the position of a poller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgeState {
    pub name: String,
    /// Version that was read; 0 for a new one.
    pub version: u64,
    /// Time of the last write, by the database's clock. Ignored when it is written.
    pub at: Time,
    pub body: Value,
}
