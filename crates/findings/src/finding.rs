//! The types of a review that has been read.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::severity::Rating;

/// One defect that one reviewer reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Finding {
    pub title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impact: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// Path relative to the repository; it cannot leave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_line: Option<u32>,
    pub rating: Rating,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<Category>,
    /// Scored dimension of the review report, or a custom one of the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dimension: Option<String>,
    /// The reviewer's own confidence, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<u8>,
    /// Rule of the linter, if a linter reported the finding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Text of the line that the finding points at, if the reviewer quoted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
    /// False for praise, "no fix needed" and similar: shown, never counted.
    pub actionable: bool,
}

impl Finding {
    /// Builds a finding that has only a title and a rating.
    pub fn new(title: &str, rating: Rating) -> Self {
        Self {
            title: title.to_owned(),
            problem: None,
            impact: None,
            fix: None,
            file: None,
            line: None,
            end_line: None,
            rating,
            category: None,
            dimension: None,
            confidence: None,
            rule: None,
            anchor: None,
            actionable: true,
        }
    }
}

#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    Security,
    Correctness,
    Performance,
    Readability,
    Testing,
    Requirements,
    Coordination,
    Patterns,
    BestPractices,
}

/// The reviewer's own claim about the change. It is never the verdict, which is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReviewClaim {
    Approved,
    ChangesRequested,
    Unknown,
}

/// One review, as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Review {
    pub claim: ReviewClaim,
    /// Words from which the claim was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_text: Option<String>,
    pub findings: Vec<Finding>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocking_issues: Vec<BlockingIssue>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<String, DimensionScore>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overall_score: Option<u8>,
    /// Requested changes in the reviewer's words (`revision_notes`, `feedback`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// One answer for each acceptance criterion that the reviewer mentions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<CriterionAnswer>,
    /// Statements about findings of earlier rounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Disposition>,
    /// Format in which the text was read. Stored reviews call it `way`.
    #[serde(rename = "way")]
    pub format: ReviewFormat,
    /// Confidence of the reader in its result, in percent.
    pub sureness: u8,
    /// Warnings about the text: an unknown severity, a cut-off document, a contradiction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

impl Review {
    /// Builds a review with only a claim and findings, as certain as structured JSON.
    pub fn new(claim: ReviewClaim, findings: Vec<Finding>) -> Self {
        Self {
            claim,
            claim_text: None,
            findings,
            blocking_issues: Vec::new(),
            scores: BTreeMap::new(),
            overall_score: None,
            notes: None,
            criteria: Vec::new(),
            earlier: Vec::new(),
            format: ReviewFormat::Json,
            sureness: 100,
            remarks: Vec::new(),
        }
    }
}

/// Blocking issue of a review report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct BlockingIssue {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dimension: Option<String>,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_action: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DimensionScore {
    /// 0 to 100.
    pub score: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<Weight>,
}

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    Critical,
    Important,
    Moderate,
}

/// The reviewer's answer to one acceptance criterion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CriterionAnswer {
    pub criterion: String,
    pub met: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
}

/// A statement about a finding of an earlier round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Disposition {
    /// Id or title that the document uses.
    pub subject: String,
    pub fixed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
}

/// Format in which a text was understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReviewFormat {
    /// The structured arguments of a review tool, or a whole JSON document.
    Json,
    /// JSON found inside prose, fenced or bare.
    JsonInProse,
    /// JSON that had to be repaired first.
    RepairedJson,
    Markdown,
    Text,
    Sarif,
    Rdjson,
    Linter,
    /// The text contains no review.
    Nothing,
}

impl Category {
    pub const ALL: [Self; 9] = [
        Self::Security,
        Self::Correctness,
        Self::Performance,
        Self::Readability,
        Self::Testing,
        Self::Requirements,
        Self::Coordination,
        Self::Patterns,
        Self::BestPractices,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Self::Security => "security",
            Self::Correctness => "correctness",
            Self::Performance => "performance",
            Self::Readability => "readability",
            Self::Testing => "testing",
            Self::Requirements => "requirements",
            Self::Coordination => "coordination",
            Self::Patterns => "patterns",
            Self::BestPractices => "best_practices",
        }
    }

    /// Returns the category of a reviewer's label, by the words in it.
    pub fn from_label(label: &str) -> Option<Self> {
        let label = label.to_lowercase();
        let words: Vec<&str> = label.split(|c: char| !c.is_alphanumeric()).collect();
        CATEGORY_WORDS
            .iter()
            .find(|(stem, _)| words.iter().any(|word| word.starts_with(stem)))
            .map(|&(_, category)| category)
    }
}

/// Word beginnings in order of precedence: "test correctness" is about tests.
const CATEGORY_WORDS: [(&str, Category); 44] = [
    ("secur", Category::Security),
    ("vulnerab", Category::Security),
    ("injection", Category::Security),
    ("auth", Category::Security),
    ("secret", Category::Security),
    ("privacy", Category::Security),
    ("test", Category::Testing),
    ("coverage", Category::Testing),
    ("perf", Category::Performance),
    ("efficien", Category::Performance),
    ("latency", Category::Performance),
    ("scalab", Category::Performance),
    ("memory", Category::Performance),
    ("requirement", Category::Requirements),
    ("acceptance", Category::Requirements),
    ("scope", Category::Requirements),
    ("spec", Category::Requirements),
    ("coordination", Category::Coordination),
    ("interface", Category::Coordination),
    ("contract", Category::Coordination),
    ("compat", Category::Coordination),
    ("pattern", Category::Patterns),
    ("architect", Category::Patterns),
    ("design", Category::Patterns),
    ("consisten", Category::Patterns),
    ("correct", Category::Correctness),
    ("bug", Category::Correctness),
    ("logic", Category::Correctness),
    ("functional", Category::Correctness),
    ("behavio", Category::Correctness),
    ("race", Category::Correctness),
    ("concurren", Category::Correctness),
    ("data", Category::Correctness),
    ("error", Category::Correctness),
    ("crash", Category::Correctness),
    ("reliab", Category::Correctness),
    ("readab", Category::Readability),
    ("style", Category::Readability),
    ("naming", Category::Readability),
    ("doc", Category::Readability),
    ("clarity", Category::Readability),
    ("maintain", Category::Readability),
    ("best", Category::BestPractices),
    ("quality", Category::BestPractices),
];
