//! Limits and timeouts of the store. Everything that can grow has its limit here.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Maximum wait for a lock that another process holds.
    pub busy_timeout: Duration,
    /// Maximum number of operations that the `SQLite` writer commits as one group.
    pub group_max: usize,
    /// Capacity of the writer's queue; when it is full, callers wait.
    pub writer_queue_max: usize,
    /// Maximum number of read connections to `SQLite`.
    pub readers_max: usize,
    /// Maximum number of connections to `PostgreSQL`.
    pub connections_max: usize,
    pub connect_timeout: Duration,
    /// Fallback poll interval in case a wake-up is lost.
    pub poll: Duration,
    /// No job is claimed when less disk space is free.
    pub free_space_min_bytes: u64,
    /// Size of the ballast file next to an `SQLite` file. It is deleted when the disk is full, so
    /// that the failure can still be recorded.
    pub ballast_bytes: usize,
    /// Lost leases after which a job without a ticket is dead.
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
