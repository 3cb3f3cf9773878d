//! What a review holds once it has been read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::severity::Rating;

/// One defect that one reviewer reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impact: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// Relative to the repository and confined to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_line: Option<u32>,
    pub rating: Rating,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<Category>,
    /// 002's dimension, or a custom one of the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dimension: Option<String>,
    /// The reviewer's own confidence, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<u8>,
    /// The linter's rule, where a linter reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The text of the line that the finding points at, where the reviewer quoted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
    /// False for praise, "no fix needed" and the like: shown, never counted.
    pub actionable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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

/// What the reviewer itself says about the change. Never the verdict: that is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    Approved,
    ChangesRequested,
    Unknown,
}

/// One review, read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    pub claim: Claim,
    /// The words that the claim was taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_text: Option<String>,
    pub findings: Vec<Finding>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocking_issues: Vec<BlockingIssue>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<String, Score>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overall_score: Option<u8>,
    /// What the builder is told to change, in the reviewer's words (002's revision notes, 000's feedback).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// One answer for each acceptance criterion that the reviewer spoke to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<CriterionAnswer>,
    /// What it says of findings of earlier rounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Disposition>,
    /// Which way the text was read.
    pub way: Way,
    /// How sure the reading is, in percent.
    pub sureness: u8,
    /// What was odd: an unknown severity, a cut-off document, a contradiction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// 002's blocking issue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockingIssue {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dimension: Option<String>,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_action: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Score {
    /// 0 to 100.
    pub score: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<Weight>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    Critical,
    Important,
    Moderate,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CriterionAnswer {
    pub criterion: String,
    pub met: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
}

/// What a document says of a finding of an earlier round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disposition {
    /// The id or the title that the document uses.
    pub subject: String,
    pub fixed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
}

/// Which reader understood the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
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
    /// Nothing that is a review was found.
    Nothing,
}
