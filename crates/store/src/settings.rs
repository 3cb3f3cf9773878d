//! Sizes and time-outs of the store. Everything that could grow has its limit here.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long to wait for somebody else's lock.
    pub busy_timeout: Duration,
    /// How many operations `SQLite`'s writer commits as one group.
    pub group_max: usize,
    /// How many operations may wait for the writer before callers have to.
    pub writer_queue_max: usize,
    /// Reading connections to `SQLite`.
    pub readers_max: usize,
    /// Connections to `PostgreSQL`.
    pub connections_max: usize,
    pub connect_timeout: Duration,
    /// The slow look under every wake-up, should one get lost.
    pub poll: Duration,
    /// Below this much free space no job is claimed.
    pub free_space_min_bytes: u64,
    /// Kept beside an `SQLite` file, and given up when the disk is full so that the failure can
    /// still be recorded.
    pub ballast_bytes: usize,
    /// How often a job that no ticket follows may lose its lease before it is dead.
    pub attempts_max: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            busy_timeout: Duration::from_secs(10),
            group_max: 128,
            writer_queue_max: 1024,
            readers_max: 4,
            connections_max: 12,
            connect_timeout: Duration::from_secs(10),
            poll: Duration::from_secs(30),
            free_space_min_bytes: 16 << 20,
            ballast_bytes: 512 << 10,
            attempts_max: 5,
        }
    }
}
