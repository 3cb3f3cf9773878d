//! Counters of everything that has a limit.

use serde::{Deserialize, Serialize};

/// Counters that a limit of the policy is compared with.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Counts {
    /// Verdicts since the last reset by a person.
    pub verdicts: u32,
    /// Rounds that people granted on top of the policy's maximum since that reset.
    pub granted: u32,
    pub red_checks: u32,
    pub conflicts: u32,
    pub stale: u32,
    pub unusable_reviews: u32,
    /// Reworks of this round that left must-fix findings open.
    #[serde(default)]
    pub unfixed: u32,
    /// Submissions that changed a forbidden path.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub forbidden: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub fn is_zero(count: &u32) -> bool {
    *count == 0
}
