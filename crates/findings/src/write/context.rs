//! Instructions for a builder in the formats of other systems: revision instructions and rework
//! context.

use std::fmt::Write;

use super::{FindingEntry, inline};
use crate::finding::{BlockingIssue, DimensionScore, Weight};

/// Writes the rework context around the reviewer's feedback.
pub fn rework_context(feedback: &str) -> String {
    format!(
        "## Review Feedback - Changes Required\n\nThe code reviewer has identified issues that must be fixed:\n\n{}\n\n---\n\n**Instructions:**\n1. Address each issue listed above\n2. Focus only on the identified problems\n3. Call apmas_complete when fixes are done\n4. The reviewer will automatically re-review your changes\n",
        crate::clean(feedback).trim()
    )
}

/// Writes the structured feedback of a rework context: severity, location, description and fix of
/// each finding.
pub fn feedback(entries: &[FindingEntry<'_>]) -> String {
    let mut out = String::new();
    for (index, entry) in entries.iter().enumerate() {
        let finding = entry.finding;
        let place = super::inline_location(finding)
            .map(|place| format!(" {place}"))
            .unwrap_or_default();
        let _ = writeln!(
            out,
            "{}. **{}**{place}: {}",
            index + 1,
            feedback_word(finding.rating.severity),
            inline(&finding.title)
        );
        for (label, text) in [
            ("Problem", &finding.problem),
            ("Impact", &finding.impact),
            ("Suggested fix", &finding.fix),
        ] {
            if let Some(text) = text {
                let _ = writeln!(out, "   - **{label}:** {}", inline(text));
            }
        }
    }
    out
}

/// Returns the severity word of the rework context, which has critical, major and minor.
fn feedback_word(severity: crate::Severity) -> &'static str {
    match severity {
        crate::Severity::Critical => "critical",
        crate::Severity::High => "major",
        crate::Severity::Medium | crate::Severity::Low | crate::Severity::Suggestion => "minor",
    }
}

/// Writes the revision instructions that go with a review report.
pub fn revision_instructions(
    overall_score: Option<u8>,
    blocking: &[BlockingIssue],
    revision_notes: &str,
    scores: &[(String, DimensionScore)],
) -> String {
    let mut out = String::from(
        "REVISION REQUIRED\n\nYour previous implementation was reviewed and requires improvements.\n\nReview Status: FAIL\n",
    );
    let score = overall_score.map_or_else(|| "-".to_owned(), |score| score.to_string());
    let _ = write!(out, "Overall Score: {score}/100\n\nBLOCKING ISSUES:\n");
    for issue in blocking {
        let dimension = issue
            .dimension
            .as_deref()
            .map(|name| format!("[{}] ", inline(name)))
            .unwrap_or_default();
        let _ = writeln!(out, "- {dimension}{}", inline(&issue.message));
        if let Some(action) = &issue.required_action {
            let _ = writeln!(out, "  Required action: {}", inline(action));
        }
    }
    if blocking.is_empty() {
        out.push_str("None\n");
    }
    let _ = write!(
        out,
        "\nREQUIRED CHANGES:\n{}\n\nDIMENSION SCORES:\n",
        crate::clean(revision_notes).trim()
    );
    for (name, score) in scores {
        let weight = score
            .weight
            .map(|weight| format!(" ({})", weight_word(weight)))
            .unwrap_or_default();
        let _ = writeln!(out, "- {name}: {}{weight}", score.score);
    }
    out.push_str("\nPlease address all blocking issues and revision notes.\nMaintain all previously working functionality.\nRe-run tests to ensure nothing breaks.\n");
    out
}

fn weight_word(weight: Weight) -> &'static str {
    match weight {
        Weight::Critical => "critical",
        Weight::Important => "important",
        Weight::Moderate => "moderate",
    }
}
