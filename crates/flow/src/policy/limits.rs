//! Bounds that are not rounds: tries, times, sizes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::check_range;
use crate::ticket::Time;

/// Waits for quota of one job that count as no attempt.
pub const QUOTA_WAITS_MAX: u32 = 10;
/// Longest wait for quota: the longest limits that providers have are weekly. A longer one is
/// looked at again after this time.
const QUOTA_WAIT_MS_MAX: u64 = 7 * 86_400 * 1000;
/// Factor between the backoff of a failed attempt and the shortest wait for quota: a run that ends
/// for lack of quota has usually been paid for in part.
const QUOTA_BACKOFF_FACTOR: u64 = 8;

/// Bounds that are not rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Tries of one job.
    pub retries_max: u32,
    /// The first wait before a retry.
    pub backoff_secs: u64,
    /// The longest wait before a retry.
    pub backoff_secs_max: u64,
    /// Fresh reviewers that are tried before a person is asked.
    pub unusable_reviews_max: u32,
    /// Red checks in one round.
    pub red_checks_max: u32,
    /// Merge conflicts before a person is asked.
    pub conflicts_max: u32,
    /// Approvals that a moved base branch may void.
    pub stale_max: u32,
    /// Reworks of one round that skip the review because findings are not fixed.
    pub unfixed_max: u32,
    /// Commits that the landing queue tries together.
    pub batch_max: u32,
    /// Time that a worker holds a job without a sign of life.
    pub lease_secs: u64,
    /// The longest build.
    pub build_secs: u64,
    /// The longest run of all checks.
    pub check_secs: u64,
    /// The longest review.
    pub review_secs: u64,
    /// The longest verification.
    pub verify_secs: u64,
    /// The longest landing.
    pub merge_secs: u64,
    /// Silence that ends a run.
    pub idle_secs: u64,
    /// Bytes of output that are kept of a run.
    pub output_bytes_max: u64,
    /// Bytes that a run may write.
    pub disk_bytes_max: u64,
    /// Files, directories and links that a run may create.
    pub disk_files_max: u64,
    /// Findings that are kept of one review; more are counted.
    pub findings_max: u32,
    /// Silence of an agent that is reported.
    pub heartbeat_secs: u64,
    #[serde(skip_serializing)]
    #[schemars(skip)]
    pub queue_max: RetiredLimit,
    #[serde(skip_serializing)]
    #[schemars(skip)]
    pub watchdog_secs: RetiredLimit,
    #[serde(skip_serializing)]
    #[schemars(skip)]
    pub poll_secs: RetiredLimit,
}

/// A limit of an earlier version that had no effect. Stored policies have it, so it is read and
/// ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetiredLimit;

impl<'de> Deserialize<'de> for RetiredLimit {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(from).map(|_| Self)
    }
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
            heartbeat_secs: 600,
            queue_max: RetiredLimit,
            watchdog_secs: RetiredLimit,
            poll_secs: RetiredLimit,
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

    /// Returns when a job may start again whose provider is out of quota, after `waits` earlier
    /// waits of the same job.
    ///
    /// The agent names the end of the wait, so it is only a wish: a time in the past would start a
    /// paid run at once, again and again, and one in the far future would stop the job for ever.
    /// The wait therefore grows with every repetition and is never longer than a week.
    pub fn quota_wait(&self, job: &str, waits: u32, until: Time, at: Time) -> Time {
        let least = self
            .backoff_ms(job, waits.saturating_add(1))
            .saturating_mul(QUOTA_BACKOFF_FACTOR);
        let latest = at.plus_ms(QUOTA_WAIT_MS_MAX);
        until.max(at.plus_ms(least)).min(latest)
    }

    pub(super) fn problems(&self, found: &mut Vec<String>) {
        const WEEK: u64 = 7 * 86_400;
        check_range(found, "limits.lease_secs", self.lease_secs, 1..=86_400);
        for (name, value) in [
            ("limits.build_secs", self.build_secs),
            ("limits.check_secs", self.check_secs),
            ("limits.review_secs", self.review_secs),
            ("limits.verify_secs", self.verify_secs),
            ("limits.merge_secs", self.merge_secs),
            ("limits.idle_secs", self.idle_secs),
        ] {
            check_range(found, name, value, 1..=WEEK);
        }
        check_range(found, "limits.retries_max", self.retries_max, 0..=100);
        check_range(found, "limits.batch_max", self.batch_max, 1..=100);
        for (name, value, least) in [
            ("limits.disk_bytes_max", self.disk_bytes_max, 1 << 20),
            ("limits.disk_files_max", self.disk_files_max, 1),
        ] {
            check_range(found, name, value, least..=1 << 50);
        }
        check_range(found, "limits.findings_max", self.findings_max, 1..=10_000);
    }
}
