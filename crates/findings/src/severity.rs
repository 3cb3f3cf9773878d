//! The one severity scale. The reviewer's own word is kept as well.

mod languages;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use languages::UNSPACED;
pub(crate) use languages::{
    Plainness, foreign_severity, is_no_severity, is_unspaced_filler, unspaced_degree,
};

/// Severity of a finding, worst first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Critical,
    High,
    Medium,
    Low,
    Suggestion,
}

impl Severity {
    /// The whole scale, worst first.
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

/// A severity and the word it was read from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Rating {
    pub severity: Severity,
    /// Word as the reviewer wrote it.
    pub raw: Option<String>,
    /// True if the word is unknown; then it counts as high and is flagged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown_word: bool,
}

/// A severity that was not read from a word.
impl From<Severity> for Rating {
    fn from(severity: Severity) -> Self {
        Self {
            severity,
            raw: None,
            unknown_word: false,
        }
    }
}

impl Severity {
    /// Returns whether the finding must be fixed: critical and high.
    pub fn is_must_fix(self) -> bool {
        self <= Self::High
    }

    /// Maps a reviewer's word to our scale; `None` if it is not a known severity.
    ///
    /// The first known word of a phrase counts, so `Critical Issues (Must Fix)`, `[P1]` and
    /// `🟡 Medium` are all understood.
    pub fn from_word(word: &str) -> Option<Self> {
        let lower = word.to_lowercase();
        first_word(&lower)
            .or_else(|| lower.chars().find_map(known_sign))
            .or_else(|| {
                UNSPACED
                    .iter()
                    .find(|(part, _)| lower.contains(part))
                    .map(|&(_, severity)| severity)
            })
    }
}

impl Rating {
    /// Rates a finding by the reviewer's own word. An unknown word counts as high and is flagged.
    /// No word at all counts as medium if the reviewer approves, else as high.
    pub fn of(word: Option<&str>, approves: bool) -> Self {
        let raw = word
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .map(str::to_owned);
        let Some(word) = raw.as_deref() else {
            let severity = if approves {
                Severity::Medium
            } else {
                Severity::High
            };
            return Self {
                severity,
                raw: None,
                unknown_word: false,
            };
        };
        let severity = Severity::from_word(word);
        Self {
            severity: severity.unwrap_or(Severity::High),
            unknown_word: severity.is_none(),
            raw,
        }
    }
}

/// Finds the earliest known phrase or word; a phrase covers the words in it.
fn first_word(lower: &str) -> Option<Severity> {
    let phrase = PHRASES
        .iter()
        .filter_map(|&(phrase, severity)| Some((find_whole(lower, phrase)?, severity)))
        .min_by_key(|&(at, _)| at);
    let word = words(lower).find_map(|(at, word)| Some((at, known_word(word)?)));
    match (phrase, word) {
        (Some((at, severity)), Some((word_at, _))) if at <= word_at => Some(severity),
        (_, Some((_, severity))) | (Some((_, severity)), None) => Some(severity),
        (None, None) => None,
    }
}

fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let start = text.as_ptr() as usize;
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(move |word| (word.as_ptr() as usize - start, word))
}

fn find_whole(text: &str, phrase: &str) -> Option<usize> {
    text.match_indices(phrase).map(|(at, _)| at).find(|&at| {
        let before = text[..at].chars().next_back();
        let after = text[at + phrase.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

/// Phrases whose single words would mislead.
const PHRASES: [(&str, Severity); 23] = [
    ("non-blocking", Severity::Low),
    ("nonblocking", Severity::Low),
    ("non blocking", Severity::Low),
    ("not blocking", Severity::Low),
    ("non-critical", Severity::Low),
    ("not critical", Severity::Low),
    ("nice to have", Severity::Suggestion),
    ("nice-to-have", Severity::Suggestion),
    ("must fix", Severity::High),
    ("must-fix", Severity::High),
    ("must_fix", Severity::High),
    ("should fix", Severity::Medium),
    ("should-fix", Severity::Medium),
    ("should_fix", Severity::Medium),
    ("could fix", Severity::Low),
    ("very high", Severity::Critical),
    ("very low", Severity::Suggestion),
    ("nên sửa", Severity::Medium),
    ("ghi nhận", Severity::Low),
    ("chặn", Severity::Critical),
    ("potential_issue", Severity::Medium),
    ("potential issue", Severity::Medium),
    ("code smell", Severity::Low),
];

fn known_word(word: &str) -> Option<Severity> {
    let severity = match word {
        "critical" | "crit" | "blocker" | "blockers" | "blocking" | "block" | "fatal"
        | "catastrophic" | "severe" | "showstopper" | "emergency" | "urgent" | "p0" | "s0"
        | "sev0" => Severity::Critical,
        "high" | "major" | "important" | "error" | "errors" | "serious" | "significant"
        | "must" | "required" | "bug" | "danger" | "p1" | "s1" | "sev1" => Severity::High,
        "medium" | "med" | "moderate" | "warning" | "warnings" | "warn" | "normal" | "average"
        | "should" | "caution" | "p2" | "s2" | "sev2" | "concern" | "concerns" | "risk" => {
            Severity::Medium
        }
        "low" | "minor" | "note" | "notice" | "convention" | "refactor" | "weak" | "could"
        | "p3" | "s3" | "sev3" | "observation" | "advisory" | "p4" => Severity::Low,
        "suggestion" | "suggestions" | "suggest" | "info" | "informational" | "information"
        | "nit" | "nits" | "nitpick" | "nitpicks" | "trivial" | "style" | "cosmetic"
        | "optional" | "hint" | "help" | "question" | "improvement" | "improvements"
        | "enhancement" | "nice" | "consider" | "idea" | "polish" | "praise" | "none" | "p5"
        | "minimal" | "negligible" | "fyi" => Severity::Suggestion,
        _ => return foreign_severity(word).map(|(severity, _)| severity),
    };
    Some(severity)
}

/// Maps the colours and signs that reviewers use as a scale.
fn known_sign(sign: char) -> Option<Severity> {
    let severity = match sign {
        '🔴' | '⛔' | '🛑' | '🚨' | '🚫' | '🟥' => Severity::Critical,
        '🟠' | '❌' | '❗' | '🟧' | '🔥' | '🐛' => Severity::High,
        '🟡' | '⚠' | '🟨' => Severity::Medium,
        '🔵' | '🟢' | '⚪' | '🟦' | '🟩' | '🧹' => Severity::Low,
        '💡' | 'ℹ' | '💭' => Severity::Suggestion,
        _ => return None,
    };
    Some(severity)
}

#[cfg(test)]
mod tests;
