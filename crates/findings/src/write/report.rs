//! The JSON review report, key for key.

use serde_json::{Map, Value, json};

use crate::finding::{BlockingIssue, DimensionScore, Finding, Weight};
use crate::severity::Severity;

/// Contents of a review report. The caller provides the time and the verdict.
#[derive(Clone, Debug)]
pub struct ReviewReport<'a> {
    pub ticket_id: &'a str,
    /// Time of the review in ISO 8601.
    pub reviewed_at: &'a str,
    pub reviewer: &'a str,
    pub approved: bool,
    pub overall_score: Option<u8>,
    pub revision_count: u32,
    pub scores: &'a [(String, DimensionScore)],
    pub findings: &'a [&'a Finding],
    pub blocking_issues: &'a [BlockingIssue],
    pub revision_notes: Option<&'a str>,
    /// `None` if nobody scored: nothing was compared.
    pub all_critical_dimensions_pass: Option<bool>,
    pub overall_score_above_threshold: Option<bool>,
}

/// Writes the report as JSON.
pub fn review_report(report: &ReviewReport<'_>) -> Value {
    json!({
        "ticket_id": report.ticket_id,
        "reviewed_at": report.reviewed_at,
        "reviewer": report.reviewer,
        "status": if report.approved { "pass" } else { "fail" },
        "overall_score": report.overall_score,
        "revision_count": report.revision_count,
        "dimension_scores": scores(report.scores),
        "findings": report.findings.iter().map(|finding| finding_json(finding)).collect::<Vec<_>>(),
        "blocking_issues": report.blocking_issues.iter().map(blocking).collect::<Vec<_>>(),
        "revision_notes": report.revision_notes,
        "approved": report.approved,
        "pass_criteria_met": {
            "all_critical_dimensions_pass": report.all_critical_dimensions_pass,
            "no_blocking_issues": report.blocking_issues.is_empty(),
            "overall_score_above_threshold": report.overall_score_above_threshold,
        },
    })
}

fn scores(scores: &[(String, DimensionScore)]) -> Value {
    let entries = scores.iter().map(|(name, score)| {
        let weight = score.weight.map(|weight| match weight {
            Weight::Critical => "critical",
            Weight::Important => "important",
            Weight::Moderate => "moderate",
        });
        (
            name.clone(),
            json!({"score": score.score, "weight": weight}),
        )
    });
    Value::Object(entries.collect::<Map<_, _>>())
}

fn finding_json(finding: &Finding) -> Value {
    let message = match &finding.problem {
        Some(problem) if !problem.starts_with(finding.title.trim_end_matches('…')) => {
            format!("{}\n\n{problem}", finding.title)
        }
        Some(problem) => problem.clone(),
        None => finding.title.clone(),
    };
    let mut object = Map::new();
    object.insert(
        "dimension".to_owned(),
        json!(
            finding
                .dimension
                .clone()
                .unwrap_or_else(|| dimension(finding).to_owned())
        ),
    );
    object.insert("severity".to_owned(), json!(word(finding.rating.severity)));
    object.insert("file".to_owned(), json!(finding.file));
    object.insert("line".to_owned(), json!(finding.line));
    object.insert("message".to_owned(), json!(message));
    object.insert("suggestion".to_owned(), json!(finding.fix));
    Value::Object(object)
}

fn blocking(issue: &BlockingIssue) -> Value {
    json!({"dimension": issue.dimension, "message": issue.message, "required_action": issue.required_action})
}

/// Returns the severity word of the report, which has three degrees.
fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical | Severity::High => "error",
        Severity::Medium | Severity::Low => "warning",
        Severity::Suggestion => "info",
    }
}

/// Returns the dimension of a finding's category, for findings without a dimension.
fn dimension(finding: &Finding) -> &'static str {
    use crate::finding::Category as C;
    match finding.category {
        Some(C::Requirements) => "requirement_adherence",
        Some(C::Coordination) => "coordination_compliance",
        Some(C::Patterns) => "pattern_consistency",
        Some(C::Testing) => "test_quality",
        Some(C::Security | C::Performance) => "security_performance",
        Some(C::Correctness | C::Readability | C::BestPractices) | None => "code_quality",
    }
}
