//! Bounds that are not rounds: tries, times, sizes.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::within;

/// Bounds that are not rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    pub retries_max: u32,
    pub backoff_secs: u64,
    pub backoff_secs_max: u64,
    pub unusable_reviews_max: u32,
    pub red_checks_max: u32,
    pub conflicts_max: u32,
    pub stale_max: u32,
    pub unfixed_max: u32,
    /// Commits that the landing queue tries together.
    pub batch_max: u32,
    pub lease_secs: u64,
    pub build_secs: u64,
    pub check_secs: u64,
    pub review_secs: u64,
    pub verify_secs: u64,
    pub merge_secs: u64,
    pub idle_secs: u64,
    pub output_bytes_max: u64,
    /// What one run may add on the disk.
    pub disk_bytes_max: u64,
    /// How many files, directories and links.
    pub disk_files_max: u64,
    /// Findings of one review beyond these are counted, not kept.
    pub findings_max: u32,
    pub queue_max: u32,
    pub heartbeat_secs: u64,
    pub watchdog_secs: u64,
    pub poll_secs: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            retries_max: 5,
            backoff_secs: 2,
            backoff_secs_max: 300,
            unusable_reviews_max: 2,
            red_checks_max: 3,
            conflicts_max: 3,
            stale_max: 5,
            unfixed_max: 2,
            batch_max: 8,
            lease_secs: 60,
            build_secs: 1_800,
            check_secs: 900,
            review_secs: 900,
            verify_secs: 600,
            merge_secs: 900,
            idle_secs: 600,
            output_bytes_max: 64 * 1024 * 1024,
            disk_bytes_max: 10 << 30,
            disk_files_max: 1_000_000,
            findings_max: 200,
            queue_max: 100,
            heartbeat_secs: 600,
            watchdog_secs: 60,
            poll_secs: 30,
        }
    }
}

impl Limits {
    /// Doubles with every try, up to the limit, give or take a fifth: the same for the same job and
    /// try, so that replaying gives the same time, and unlike its neighbours'.
    pub fn backoff_ms(&self, job: &str, attempts: u32) -> u64 {
        let doubled = self
            .backoff_secs
            .saturating_mul(1 << attempts.saturating_sub(1).min(20));
        let ms = doubled.min(self.backoff_secs_max).saturating_mul(1000);
        let seed = Sha256::digest(format!("{job}/{attempts}"));
        let share = u64::from(seed.first().copied().unwrap_or_default());
        ms * 4 / 5 + ms * 2 / 5 * share / 255
    }

    pub(super) fn problems(&self, found: &mut Vec<String>) {
        const WEEK: u64 = 7 * 86_400;
        within(found, "limits.lease_secs", self.lease_secs, 1..=86_400);
        for (name, value) in [
            ("limits.build_secs", self.build_secs),
            ("limits.check_secs", self.check_secs),
            ("limits.review_secs", self.review_secs),
            ("limits.verify_secs", self.verify_secs),
            ("limits.merge_secs", self.merge_secs),
            ("limits.idle_secs", self.idle_secs),
        ] {
            within(found, name, value, 1..=WEEK);
        }
        within(found, "limits.retries_max", self.retries_max, 0..=100);
        within(found, "limits.batch_max", self.batch_max, 1..=100);
        for (name, value, least) in [
            ("limits.disk_bytes_max", self.disk_bytes_max, 1 << 20),
            ("limits.disk_files_max", self.disk_files_max, 1),
        ] {
            within(found, name, value, least..=1 << 50);
        }
        within(found, "limits.findings_max", self.findings_max, 1..=10_000);
    }
}
