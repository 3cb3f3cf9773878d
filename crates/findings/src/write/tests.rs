use serde_json::json;

use super::*;
use crate::finding::{BlockingIssue, Category, DimensionScore, ReviewClaim, Weight};
use crate::severity::{Rating, Severity};
use crate::{Review, read};

fn finding(title: &str, severity: &str) -> Finding {
    Finding::new(title, Rating::of(Some(severity), false))
}

/// One finding of each severity, with and without parts.
fn some() -> Vec<Finding> {
    vec![
        Finding {
            problem: Some("The token is compared byte by byte.".into()),
            impact: Some("An attacker can measure it.".into()),
            fix: Some("Compare in constant time.".into()),
            file: Some("src/auth/token.rs".into()),
            line: Some(41),
            end_line: Some(47),
            category: Some(Category::Security),
            ..finding("Token comparison leaks its timing", "critical")
        },
        Finding {
            fix: Some("Batch them.".into()),
            file: Some("src/db/users.rs".into()),
            line: Some(9),
            category: Some(Category::Performance),
            ..finding("One query runs for every user", "high")
        },
        Finding {
            file: Some("docs/guide.md".into()),
            ..finding("The guide names a flag that is gone", "medium")
        },
        Finding {
            file: Some("src/a b.rs".into()),
            line: Some(3),
            ..finding("The loop variable shadows a field", "low")
        },
        finding("Consider a shorter name for the crate", "suggestion"),
    ]
}

type Facts = (
    String,
    Option<String>,
    Option<u32>,
    Option<u32>,
    Severity,
    Option<String>,
    Option<String>,
    Option<String>,
);

fn facts(finding: &Finding) -> Facts {
    (
        finding.title.clone(),
        finding.file.clone(),
        finding.line,
        finding.end_line,
        finding.rating.severity,
        finding.problem.clone(),
        finding.impact.clone(),
        finding.fix.clone(),
    )
}

fn written(findings: &[Finding]) -> Vec<FindingEntry<'_>> {
    findings.iter().map(FindingEntry::from).collect()
}

fn all_facts(findings: &[Finding]) -> Vec<Facts> {
    findings.iter().map(facts).collect()
}

/// Fields that every format keeps: title, file, line, and whether it must be fixed.
fn core(findings: &[Finding]) -> Vec<(String, Option<String>, Option<u32>, bool)> {
    findings
        .iter()
        .map(|finding| {
            (
                finding.title.clone(),
                finding.file.clone(),
                finding.line,
                finding.rating.severity.is_must_fix(),
            )
        })
        .collect()
}

const HEAD: DocumentHeader<'_> = DocumentHeader {
    story: "2.1",
    round: 2,
    reviewer: "Agent (Fresh Context)",
    date: "2026-01-02 03:04",
    branch: "story-2-1",
    recommendation: "Request changes",
};

#[test]
fn the_findings_document_has_the_fourth_seeds_form() {
    let findings = some();
    let entries = [FindingEntry {
        id: Some("F3"),
        finding: &findings[0],
    }];
    let text = write_findings_document(&HEAD, &entries);
    let expected = "# Story 2.1 Code Review Findings - Round 2\n\n**Reviewer:** Agent (Fresh Context)\n**Date:** 2026-01-02 03:04\n**Branch:** story-2-1\n\n## Critical Issues (Must Fix)\n\n1. **[Security]:** Token comparison leaks its timing (F3)\n   - **File:** src/auth/token.rs:41-47\n   - **Problem:** The token is compared byte by byte.\n   - **Impact:** An attacker can measure it.\n   - **Fix:** Compare in constant time.\n\n## Important Issues (Should Fix)\n\nNone.\n\n## Minor Issues (Nice to Have)\n\nNone.\n\n## Summary\n\n- **Total findings:** 1\n- **Critical:** 1\n- **Important:** 0\n- **Minor:** 0\n- **Recommendation:** Request changes\n";
    assert_eq!(text, expected);
}

#[test]
fn the_findings_document_is_read_back_whole() {
    let findings = some();
    let review = read(&write_findings_document(&HEAD, &written(&findings)));
    assert_eq!(all_facts(&review.findings), all_facts(&findings));
    assert_eq!(review.claim, ReviewClaim::ChangesRequested);
}

#[test]
fn the_checklist_has_the_first_seeds_form() {
    let findings = some();
    let text = checklist(&written(&findings[1..2]));
    assert_eq!(
        text,
        "## Review Findings\n\n1. [ ] **HIGH** (performance): src/db/users.rs:9\n    Issue: One query runs for every user\n    Fix: Batch them.\n"
    );
}

#[test]
fn the_checklist_is_read_back() {
    let findings = some();
    let review = read(&checklist(&written(&findings)));
    let places = |findings: &[Finding]| -> Vec<_> {
        findings
            .iter()
            .map(|finding| {
                (
                    finding.file.clone(),
                    finding.line,
                    finding.rating.severity,
                    finding.fix.clone(),
                )
            })
            .collect()
    };
    assert_eq!(places(&review.findings), places(&findings));
    assert!(
        review
            .findings
            .iter()
            .zip(&findings)
            .all(|(actual, expected)| actual.title.starts_with(&expected.title))
    );
}

#[test]
fn the_first_seeds_list_is_read_back() {
    let findings = some();
    let review = read(&qa_findings(&written(&findings)).to_string());
    let degrees = |findings: &[Finding]| -> Vec<_> {
        findings
            .iter()
            .map(|finding| {
                (
                    finding.file.clone(),
                    finding.line,
                    finding.rating.severity,
                    finding.category,
                )
            })
            .collect()
    };
    assert_eq!(degrees(&review.findings), degrees(&findings));
}

#[test]
fn the_review_report_has_the_second_seeds_keys_and_is_read_back() {
    let findings = some();
    let listed: Vec<&Finding> = findings.iter().collect();
    let scores = [(
        "test_quality".to_owned(),
        DimensionScore {
            score: 70,
            weight: Some(Weight::Important),
        },
    )];
    let blocking = [BlockingIssue {
        dimension: Some("code_quality".into()),
        message: "Two parsers".into(),
        required_action: Some("Keep one".into()),
    }];
    let report = review_report(&ReviewReport {
        ticket_id: "t-1",
        reviewed_at: "2026-01-02T03:04:05Z",
        reviewer: "code-review-agent",
        approved: false,
        overall_score: Some(61),
        revision_count: 1,
        scores: &scores,
        findings: &listed,
        blocking_issues: &blocking,
        revision_notes: Some("Do it"),
        all_critical_dimensions_pass: Some(true),
        overall_score_above_threshold: Some(false),
    });
    let keys: Vec<&str> = report
        .as_object()
        .map(|object| object.keys().map(String::as_str).collect())
        .unwrap_or_default();
    assert_eq!(
        keys,
        [
            "ticket_id",
            "reviewed_at",
            "reviewer",
            "status",
            "overall_score",
            "revision_count",
            "dimension_scores",
            "findings",
            "blocking_issues",
            "revision_notes",
            "approved",
            "pass_criteria_met"
        ]
    );
    let review = crate::read_value(&report);
    assert_eq!(core(&review.findings), core(&findings));
    assert_eq!(
        (review.claim, review.overall_score, review.blocking_issues),
        (ReviewClaim::ChangesRequested, Some(61), blocking.to_vec())
    );
    assert_eq!(review.scores["test_quality"], scores[0].1);
}

#[test]
fn sarif_is_read_back_whole() {
    let findings = some();
    let review = read(&sarif("countersign", "0.1.0", &written(&findings)).to_string());
    assert_eq!(all_facts(&review.findings), all_facts(&findings));
}

#[test]
fn rdjson_and_rdjsonl_are_read_back() {
    let findings = some();
    let entries = written(&findings);
    let parts = |review: &Review| -> Vec<_> {
        review
            .findings
            .iter()
            .map(|finding| {
                (
                    finding.title.clone(),
                    finding.problem.clone(),
                    finding.impact.clone(),
                    finding.fix.clone(),
                )
            })
            .collect()
    };
    let whole = read(&rdjson("countersign", &entries).to_string());
    assert_eq!(core(&whole.findings), core(&findings));
    let expected: Vec<_> = findings
        .iter()
        .map(|finding| {
            (
                finding.title.clone(),
                finding.problem.clone(),
                finding.impact.clone(),
                finding.fix.clone(),
            )
        })
        .collect();
    assert_eq!(parts(&whole), expected);
    assert_eq!(core(&read(&rdjsonl(&entries)).findings), core(&findings));
}

#[test]
fn gitlab_and_workflow_commands_are_read_back() {
    let findings: Vec<Finding> = some()
        .into_iter()
        .filter(|finding| finding.line.is_some())
        .collect();
    let entries = written(&findings);
    assert_eq!(
        core(&read(&gitlab(&entries).to_string()).findings),
        core(&findings)
    );
    assert_eq!(
        core(&read(&workflow_commands(&entries)).findings),
        core(&findings)
    );
}

#[test]
fn feedback_of_the_third_seed_is_read_back() {
    let findings = some();
    let context = rework_context(&feedback(&written(&findings)));
    assert!(context.starts_with(
        "## Review Feedback - Changes Required\n\nThe code reviewer has identified issues"
    ));
    let review = read(&context);
    assert_eq!(core(&review.findings).len(), findings.len());
    assert!(
        review
            .findings
            .iter()
            .zip(&findings)
            .all(
                |(actual, expected)| actual.title == expected.title && actual.line == expected.line
            )
    );
}

#[test]
fn a_review_comments_only_on_lines_that_the_diff_has() {
    let findings = some();
    let diff = DiffLines::parse(
        "diff --git a/src/auth/token.rs b/src/auth/token.rs\n--- a/src/auth/token.rs\n+++ b/src/auth/token.rs\n@@ -39,3 +39,9 @@\n a\n+b\n+c\n+d\n+e\n+f\n+g\n b\n c\n",
    );
    let review = github_review(
        GithubReviewEvent::RequestChanges,
        Some("abc"),
        "Two findings",
        "countersign:t-1:1",
        &written(&findings),
        &diff,
    );
    assert_eq!(review["comments"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        (
            &review["comments"][0]["start_line"],
            &review["comments"][0]["line"]
        ),
        (&json!(41), &json!(47))
    );
    let body = review["body"].as_str().unwrap_or_default();
    assert!(body.contains("src/db/users.rs:9") && body.ends_with("<!-- countersign:t-1:1 -->"));
}

#[test]
fn a_summary_is_updated_not_repeated() {
    let findings = some();
    let first = summary("countersign:t-1", "Review", 1, &written(&findings));
    let second = summary("countersign:t-1", "Review", 2, &written(&findings[..1]));
    let body = replace_summary("Text of the author.", "countersign:t-1", &first);
    let body = replace_summary(&body, "countersign:t-1", &second);
    assert_eq!(body.matches("<!-- countersign:t-1 -->").count(), 1);
    assert!(
        body.starts_with("Text of the author.")
            && body.contains("Round 2")
            && !body.contains("Round 1")
    );
}

#[test]
fn text_for_a_forge_calls_nobody_and_closes_nothing() {
    let text = escape_for_forge(
        "Hi @alice, fixes #12 and owner/repo#3, closes https://x.test/o/r/issues/4, see GH-5 <img src=x> `@Inject Vec<T>`",
    );
    assert!(
        !text.contains("@alice")
            && !text.contains("#12")
            && !text.contains("#3")
            && !text.contains("issues/4")
            && !text.contains("GH-5")
    );
    assert!(text.contains("&lt;img") && text.contains("`@Inject Vec<T>`"));
}

#[test]
fn revision_instructions_have_the_second_seeds_parts() {
    let text = revision_instructions(
        Some(61),
        &[],
        "Add tests",
        &[(
            "code_quality".into(),
            DimensionScore {
                score: 60,
                weight: Some(Weight::Important),
            },
        )],
    );
    for part in [
        "REVISION REQUIRED",
        "Review Status: FAIL",
        "Overall Score: 61/100",
        "BLOCKING ISSUES:\nNone",
        "REQUIRED CHANGES:\nAdd tests",
        "DIMENSION SCORES:\n- code_quality: 60 (important)",
        "Re-run tests to ensure nothing breaks.",
    ] {
        assert!(text.contains(part), "{part}");
    }
}

#[test]
fn a_confidence_survives_the_forms_that_have_a_field_for_it() {
    for percent in [0, 1, 30, 60, 100] {
        let finding = Finding {
            confidence: Some(percent),
            problem: Some("It is wrong.".to_owned()),
            file: Some("src/a.rs".to_owned()),
            line: Some(3),
            ..Finding::new("The lock leaks on long input", Severity::High.into())
        };
        let entries = [FindingEntry::from(&finding)];
        let head = DocumentHeader {
            story: "T-1",
            round: 1,
            reviewer: "rita",
            date: "2026-01-01",
            branch: "b",
            recommendation: "Fix it.",
        };
        let texts = [
            sarif("countersign", "1", &entries).to_string(),
            write_findings_document(&head, &entries),
            json!({"findings": [{"title": finding.title, "severity": "high",
                "confidence": f64::from(percent) / 100.0}]})
            .to_string(),
        ];
        for text in texts {
            let read = read(&text);
            assert_eq!(read.findings[0].confidence, Some(percent), "{text}");
        }
    }
    let doubtful = json!({"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "t"}},
        "results": [{"ruleId": "A", "level": "error", "rank": 3.0, "message": {"text": "Overflow here"}}]}]});
    assert_eq!(read(&doubtful.to_string()).findings[0].confidence, None);
}
