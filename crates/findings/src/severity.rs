//! The one severity scale. Every reviewer's own word is kept beside it.

use serde::{Deserialize, Serialize};

/// How much a finding matters, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Critical,
    High,
    Medium,
    Low,
    Suggestion,
}

impl Severity {
    /// All of the scale, worst first.
    pub const ALL: [Self; 5] = [
        Self::Critical,
        Self::High,
        Self::Medium,
        Self::Low,
        Self::Suggestion,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
            Self::Suggestion => "suggestion",
        }
    }
}

/// A severity and how we came to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rating {
    pub severity: Severity,
    /// The word as the reviewer wrote it.
    pub raw: Option<String>,
    /// The word is none that we know, so it counts as high and is shown as such.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown_word: bool,
}
