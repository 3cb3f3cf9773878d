//! Tests of the formats of other systems. Everything else is tested in the module of its reader.

use std::fmt::Write as _;

use super::*;
use crate::Severity;

#[test]
fn the_arguments_of_a_review_tool_are_read() {
    let review = read(
        r#"{"assignment_id": 4, "approved": false, "feedback": "The cache is never cleared."}"#,
    );
    assert_eq!(review.claim, ReviewClaim::ChangesRequested);
    assert_eq!(review.notes.as_deref(), Some("The cache is never cleared."));
    assert_eq!(review.format, ReviewFormat::Json);
}

#[test]
fn a_fenced_list_of_findings_is_read() {
    let review = read(
        "I looked at it.\n\n```json\n[{\"file\": \"lib/cart.py\", \"line_number\": 9, \"severity\": \"MAJOR\", \"description\": \"Totals are summed as floats\", \"suggested_fix\": \"Use Decimal\", \"category\": \"correctness\"}]\n```\n",
    );
    assert_eq!(review.format, ReviewFormat::JsonInProse);
    let finding = &review.findings[0];
    assert_eq!(
        (finding.file.as_deref(), finding.line),
        (Some("lib/cart.py"), Some(9))
    );
    assert_eq!(finding.rating.severity, Severity::High);
    assert_eq!(finding.rating.raw.as_deref(), Some("MAJOR"));
    assert_eq!(finding.fix.as_deref(), Some("Use Decimal"));
    assert_eq!(finding.category, Some(crate::Category::Correctness));
}

/// An item beyond the thousandth is one of its own, with its own severity.
#[test]
fn a_numbered_list_may_be_long() {
    let mut text = String::new();
    for number in 1..=2_100 {
        let severity = if number == 2_100 { "critical" } else { "minor" };
        let digits = number.to_string().into_bytes().into_iter();
        let name: String = digits
            .map(|digit| char::from(digit - b'0' + b'a'))
            .collect();
        let _ = writeln!(
            text,
            "{number}. {severity} greet.sh:{number}: The {name} is wrong."
        );
    }
    let review = read(&text);
    assert_eq!(review.findings.len(), 2_100);
    let last = review.findings.last().unwrap();
    assert_eq!(last.rating.severity, Severity::Critical);
    assert_eq!(last.line, Some(2_100));
}

#[test]
fn a_review_report_is_read_with_its_scores_and_blocking_issues() {
    let review = read(
        r#"{"ticket_id": "t", "status": "fail", "overall_score": 61, "dimension_scores": {"test_quality": {"score": 55, "weight": "important"}},
        "findings": [{"dimension": "test_quality", "severity": "warning", "file": "a/b.py", "line": 4, "message": "No test for the empty list", "suggestion": "Add one"}],
        "blocking_issues": [{"dimension": "code_quality", "message": "Two parsers", "required_action": "Keep one"}],
        "revision_notes": "Add the tests", "approved": false, "pass_criteria_met": {"no_blocking_issues": false}}"#,
    );
    assert_eq!(review.claim, ReviewClaim::ChangesRequested);
    assert_eq!(review.overall_score, Some(61));
    assert_eq!(review.scores["test_quality"].score, 55);
    assert_eq!(review.findings.len(), 1);
    assert_eq!(review.findings[0].rating.severity, Severity::Medium);
    assert_eq!(
        review.findings[0].dimension.as_deref(),
        Some("test_quality")
    );
    assert_eq!(
        review.blocking_issues[0].required_action.as_deref(),
        Some("Keep one")
    );
    assert_eq!(review.notes.as_deref(), Some("Add the tests"));
}

#[test]
fn a_message_of_a_reviewer_is_read() {
    let review = read(
        r#"{"to": "developer", "type": "changes_requested", "content": "Fix the lock order."}"#,
    );
    assert_eq!(review.claim, ReviewClaim::ChangesRequested);
    assert_eq!(review.notes.as_deref(), Some("Fix the lock order."));
}

#[test]
fn fields_that_contradict_each_other_never_approve() {
    let review = read(r#"{"status": "fail", "approved": true, "findings": []}"#);
    assert_eq!(review.claim, ReviewClaim::ChangesRequested);
    assert!(!review.remarks.is_empty());
}

#[test]
fn json_that_approves_with_a_critical_finding_does_not_approve() {
    let review = read(
        r#"{"verdict": "approve", "findings": [{"severity": "critical", "title": "Key in the log", "file": "a.go"}]}"#,
    );
    assert_eq!(review.claim, ReviewClaim::Unknown);
    assert!(
        review
            .remarks
            .iter()
            .any(|remark| remark.contains("must-fix"))
    );
}

#[test]
fn an_approval_that_is_cut_off_is_no_approval() {
    let review = read(r#"{"approved": true, "findings": [{"severity": "low", "title": "Typ"#);
    assert_eq!(review.claim, ReviewClaim::Unknown);
    assert_eq!(review.format, ReviewFormat::RepairedJson);
}

#[test]
fn nothing_is_unknown() {
    for text in ["", "   \n", "{}", "[]", "{\"a\": 1}", "\u{feff}"] {
        assert_eq!(read(text).claim, ReviewClaim::Unknown, "{text}");
    }
}

#[test]
fn paths_of_a_checkout_are_made_relative_to_it() {
    let review = crate::read_with_roots(
        &["/srv/repos/t-1"],
        r#"[{"file": "/srv/repos/t-1/src/a.rs", "line": 1, "severity": "low", "title": "Name is short"}]"#,
    );
    assert_eq!(review.findings[0].file.as_deref(), Some("src/a.rs"));
}

#[test]
fn a_section_without_issues_does_not_approve_the_change() {
    assert_eq!(
        read("# Review\n\n## Critical\n\nNo issues found.\n").claim,
        ReviewClaim::Unknown
    );
    assert_eq!(read("No issues found.").claim, ReviewClaim::Unknown);
}

proptest::proptest! {
    #[test]
    fn no_bytes_panic_and_paths_stay_inside(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
        let review = read(&String::from_utf8_lossy(&bytes));
        for finding in &review.findings {
            proptest::prop_assert!(!finding.title.is_empty());
            proptest::prop_assert!(finding.file.as_deref().is_none_or(|file| file.split('/').all(|part| part != "..")));
        }
    }

    #[test]
    fn markdown_like_text_does_not_panic(text in "([#>*`|\\-\\[\\](){}:\\n ]|[a-z]{1,4}|[0-9]{1,3}|critical|file|\\*\\*|\\.rs:|🔴|é){0,80}") {
        let review = read(&text);
        proptest::prop_assert!(review.sureness <= 100);
    }

    #[test]
    fn what_is_cut_off_never_approves(cut in 0_usize..120) {
        let whole = r#"{"approved": true, "verdict": "approve", "findings": [{"severity": "low", "title": "Some name is too short to read", "file": "a.rs"}]}"#;
        let cut = cut.min(whole.len() - 1);
        proptest::prop_assert_ne!(read(&whole[..cut]).claim, ReviewClaim::Approved);
    }
}
