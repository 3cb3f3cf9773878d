//! Named policies to start from.

use super::{
    Land, Limits, MinorOnly, OnExhausted, Policy, ReviewerConfig, VerifyNewFindings,
    VerifyOpenFindings,
};

impl Policy {
    /// The names that [`Policy::preset`] knows, without the names of earlier versions.
    pub const PRESETS: [&'static str; 7] = [
        "standard",
        "second-look",
        "careful",
        "strict-three",
        "fail-after-three",
        "four-rounds",
        "keep-branch",
    ];

    /// Presets of earlier versions, which were named after documents, and their names today.
    pub const RENAMED_PRESETS: [(&'static str, &'static str); 5] = [
        ("sergeant", "strict-three"),
        ("queue", "standard"),
        ("scored", "fail-after-three"),
        ("supervisor", "four-rounds"),
        ("story", "keep-branch"),
    ];

    /// Returns today's name of a preset; other names stay as they are.
    pub fn current_preset_name(name: &str) -> &str {
        let mut renamed = Self::RENAMED_PRESETS.iter();
        let current = renamed.find(|(old, _)| *old == name);
        current.map_or(name, |(_, new)| new)
    }

    /// A named policy. `second-look`: a second reviewer reads each change that the first would
    /// approve. `careful`: three reviewers with a focus each, and two verifiers must agree.
    /// `strict-three`: minor findings go to rework too. `fail-after-three`: a ticket without an
    /// approval after three rounds fails. `four-rounds`: one rework more. `keep-branch`: an
    /// approved branch is not merged.
    pub fn preset(name: &str) -> Option<Self> {
        let standard = Self::default();
        Some(match Self::current_preset_name(name) {
            "standard" => standard,
            "second-look" => Self {
                reviewers: vec![ReviewerConfig::default(), second_look()],
                verify: VerifyNewFindings::MustFix,
                verify_open: VerifyOpenFindings::BeforeReview,
                ..standard
            },
            "careful" => Self {
                reviewers: ["correctness", "requirements", "tests"]
                    .map(focus_reviewer)
                    .to_vec(),
                verify: VerifyNewFindings::MustFix,
                second_opinion: true,
                verify_open: VerifyOpenFindings::BeforeReview,
                ..standard
            },
            "strict-three" => Self {
                minor_only: MinorOnly::Rework,
                ..standard
            },
            "fail-after-three" => Self {
                on_exhausted: OnExhausted::Fail,
                limits: Limits {
                    review_secs: 120,
                    ..standard.limits
                },
                ..standard
            },
            "four-rounds" => Self {
                max_rounds: 4,
                ..standard
            },
            "keep-branch" => Self {
                land: Land::Branch,
                ..standard
            },
            _ => return None,
        })
    }
}

/// For a change of some size; a few lines are seen whole by one.
fn second_look() -> ReviewerConfig {
    ReviewerConfig {
        name: "second-look".to_owned(),
        second_reviewer: true,
        lines_min: 20,
        ..ReviewerConfig::default()
    }
}

fn focus_reviewer(name: &str) -> ReviewerConfig {
    ReviewerConfig {
        name: name.to_owned(),
        focus: Some(name.to_owned()),
        ..ReviewerConfig::default()
    }
}
