//! The threshold of confidence under which a finding is a note: kept and shown, but it costs no round.

use findings::Finding;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Policy;

/// A share from 0 to 1, in whole percent.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "f64", into = "f64")]
#[schemars(with = "f64", extend("minimum" = 0, "maximum" = 1))]
pub struct Confidence {
    percent: u8,
}

impl Confidence {
    /// The default of a new policy.
    pub const STANDARD: Self = Self { percent: 60 };
    /// No threshold: every finding counts.
    pub const NONE: Self = Self { percent: 0 };

    /// Anything above 100 counts as 100.
    pub fn of_percent(percent: u8) -> Self {
        Self {
            percent: percent.min(100),
        }
    }

    pub fn percent(self) -> u8 {
        self.percent
    }

    /// Policies that were stored before there was a threshold do not name the key. They are read as
    /// they were decided by, so that their tickets replay.
    pub(super) fn before_the_key() -> Self {
        Self::NONE
    }

    /// A policy without a threshold is written as it was before there was one: its identity is a
    /// hash of what is written.
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    pub(super) fn is_none(&self) -> bool {
        *self == Self::NONE
    }
}

impl TryFrom<f64> for Confidence {
    type Error = &'static str;

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 to 100 after the check"
    )]
    fn try_from(share: f64) -> Result<Self, Self::Error> {
        if !(0.0..=1.0).contains(&share) {
            return Err("a confidence is a number from 0 to 1, such as 0.6");
        }
        Ok(Self {
            percent: (share * 100.0).round() as u8,
        })
    }
}

impl From<Confidence> for f64 {
    fn from(confidence: Confidence) -> Self {
        Self::from(confidence.percent) / 100.0
    }
}

impl Policy {
    /// Whether a finding is a note: its reviewer is less sure of it than the policy asks. A finding
    /// without a confidence is none, so a reviewer that cannot give one loses nothing.
    pub fn is_note(&self, finding: &Finding) -> bool {
        let least = self.min_confidence.percent;
        finding.confidence.is_some_and(|percent| percent < least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_percent_survives_writing() {
        for percent in 0..=100 {
            let confidence = Confidence::of_percent(percent);
            let text = serde_json::to_string(&confidence).unwrap();
            let read: Confidence = serde_json::from_str(&text).unwrap();
            assert_eq!(read, confidence, "{text}");
        }
    }

    #[test]
    fn only_shares_are_confidences() {
        for bad in ["-0.1", "1.01", "60", "\"high\"", "null", "true"] {
            assert!(serde_json::from_str::<Confidence>(bad).is_err(), "{bad}");
        }
        assert!(Confidence::try_from(f64::NAN).is_err());
        assert_eq!(
            serde_json::from_str::<Confidence>("1").unwrap().percent,
            100
        );
    }
}
