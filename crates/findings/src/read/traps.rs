//! Traps from real reviews, each reproduced with a small document of our own.

use super::*;
use crate::Severity;

fn claim(text: &str) -> ReviewClaim {
    read(text).claim
}

fn titles(text: &str) -> Vec<String> {
    read(text)
        .findings
        .into_iter()
        .map(|finding| finding.title)
        .collect()
}

/// Raw severity, file, line and title of the first finding.
fn first(text: &str) -> (String, String, u32, String) {
    let finding = read(text).findings.into_iter().next();
    finding.map_or_else(Default::default, |finding| {
        (
            finding.rating.raw.unwrap_or_default(),
            finding.file.unwrap_or_default(),
            finding.line.unwrap_or_default(),
            finding.title,
        )
    })
}

fn facts(raw: &str, file: &str, line: u32, title: &str) -> (String, String, u32, String) {
    (raw.to_owned(), file.to_owned(), line, title.to_owned())
}

#[test]
fn i_cant_approve_this_pr() {
    assert_eq!(
        claim("I can't approve this PR"),
        ReviewClaim::ChangesRequested
    );
}

#[test]
fn unable_to_approve_until() {
    assert_eq!(
        claim("Unable to approve until the migration is reversible."),
        ReviewClaim::ChangesRequested
    );
}

#[test]
fn lgtm_except_the_password_is_logged() {
    assert_eq!(
        claim("LGTM except the password is logged in plain text"),
        ReviewClaim::ChangesRequested
    );
}

#[test]
fn json_approve_with_a_critical_finding_is_shown_as_a_disagreement() {
    let review = read(
        r#"Fine.\n{"approved": true, "findings": [{"severity": "CRITICAL", "file": "a.py", "line": 2, "description": "Secrets are committed"}]}"#,
    );
    assert_eq!(review.findings[0].rating.severity, Severity::Critical);
    assert!(
        review
            .remarks
            .iter()
            .any(|remark| remark.starts_with("approves, but"))
    );
}

#[test]
fn approved_with_high_confidence_is_an_approval() {
    let review = read("APPROVED. HIGH confidence: all tests pass");
    assert_eq!(review.claim, ReviewClaim::Approved);
    assert!(review.findings.is_empty());
}

#[test]
fn an_approval_beside_open_must_fix_findings_is_none() {
    let review = read(
        "## Important Issues\n\n1. **The lock is taken twice**\n   - **File:** src/q.rs:3\n\n## Summary\n\n- **Recommendation:** Approve.\n",
    );
    assert_eq!(
        (review.claim, review.findings.len()),
        (ReviewClaim::Unknown, 1)
    );
    assert!(!review.remarks.is_empty());
}

#[test]
fn a_review_without_a_verdict_has_none() {
    assert_eq!(
        claim(
            "Full review comments:\n\n- [P1] Close the socket — net/io.rs:10-12\n  It stays open when the peer hangs up.\n"
        ),
        ReviewClaim::Unknown
    );
}

#[test]
fn a_reviewer_that_stopped_before_its_verdict_has_not_approved() {
    let review = read(
        "The test suite of the other branch is still running; I am waiting for it to end before I run the new tests. I will finalize my findings then.",
    );
    assert_eq!(
        (review.claim, review.findings.len(), review.format),
        (ReviewClaim::Unknown, 0, ReviewFormat::Nothing)
    );
}

#[test]
fn a_person_who_asks_for_a_review_has_not_reviewed() {
    let review = read(
        "---\nid: \"7\"\nauthor: \"someone\"\n---\n\nplease look at this ticket and help us plan the next steps",
    );
    assert_eq!(
        (review.claim, review.findings.len()),
        (ReviewClaim::Unknown, 0)
    );
}

#[test]
fn notices_questions_and_prompts_are_not_reviews() {
    for text in [
        "You've hit your limit. It resets at 7pm. Approved requests resume by themselves.",
        "API Error: 529 overloaded_error",
        "Which branch should I review?",
        "You are a strict reviewer. List findings as:\n\n- [SEVERITY] file:line — description\n\nEnd with VERDICT: APPROVE or VERDICT: REQUEST_CHANGES",
        "",
    ] {
        let review = read(text);
        assert_eq!(
            (review.claim, review.findings.len()),
            (ReviewClaim::Unknown, 0),
            "{text}"
        );
    }
}

#[test]
fn emoji_are_severities() {
    let text = "**Review Decision: 🔴 Request Changes**\n\n## Critical Issues\n\n### 1. 🔴 The module is not linked\nIt is dead code.\n\n- **File:** `src/lib.rs`\n\n### 2. 🟡 A test is missing\nText.\n\n- **File:** `src/vm/mod.rs`\n";
    let raws: Vec<_> = read(text)
        .findings
        .into_iter()
        .map(|finding| finding.rating.raw.unwrap_or_default())
        .collect();
    assert_eq!(raws, ["Critical", "🟡"]);
    assert_eq!(claim(text), ReviewClaim::ChangesRequested);
}

#[test]
fn a_warning_sign_over_a_topic_rates_what_stands_under_it() {
    let text = "**Code quality: ✅**\n- It is tidy.\n\n**Security: ⚠️**\n- **Collision:** Two long names map to one key.\n  - **Recommendation:** Add a hash.\n\n## Decision\n**Approve**\n";
    assert_eq!(titles(text), ["Collision: Two long names map to one key."]);
}

#[test]
fn false_positives_and_fixed_findings_are_kept_but_ask_for_nothing() {
    let review = read(
        r#"[{"file": "a.rs", "line": 5, "summary": "Diagram omits a state", "severity": "high", "status": "FALSE_POSITIVE"},
        {"file": "b.rs", "line": 6, "summary": "Helper is duplicated", "severity": "medium", "status": "FIXED"},
        {"file": "c.rs", "line": 7, "summary": "Only one waiter is woken", "severity": "low", "status": "ACKNOWLEDGED"}]"#,
    );
    let actionable: Vec<bool> = review
        .findings
        .iter()
        .map(|finding| finding.actionable)
        .collect();
    assert_eq!(actionable, [false, false, true]);
}

#[test]
fn a_byte_order_mark_is_no_obstacle() {
    let text = "\u{feff}{\"findings\": [{\"title\": \"Token in storage\", \"severity\": \"medium\", \"where\": {\"file\": \"s/auth.ts\", \"line\": 20, \"snippet\": \"save(token)\"}}]}";
    assert_eq!(
        first(text),
        facts("medium", "s/auth.ts", 20, "Token in storage")
    );
    assert_eq!(
        read(text).findings[0].anchor.as_deref(),
        Some("save(token)")
    );
}

#[test]
fn raw_line_ends_in_strings_are_repaired() {
    let review = read(
        "{\"findings\": [{\"title\": \"Catalogue is loaded at once\", \"severity\": \"medium\", \"fix_example\": \"-a\n+b\nc\", \"where\": {\"file\": \"d/p.ts\", \"line\": 1}}]}",
    );
    assert_eq!(
        (review.format, review.findings.len()),
        (ReviewFormat::RepairedJson, 1)
    );
}

#[test]
fn a_line_range_may_be_text() {
    let review = read(
        r#"[{"file": "app.py", "line_range": "7-8", "issue": "The file is opened without care", "severity": "high"}]"#,
    );
    assert_eq!(
        (review.findings[0].line, review.findings[0].end_line),
        (Some(7), Some(8))
    );
}

#[test]
fn the_line_may_stand_in_the_file_field_and_priority_be_the_severity() {
    let text = r#"[{"file": "srv/h_test.go:311", "category": "test-gap", "priority": "HIGH", "summary": "The wrong failure is asserted", "detail": "…"}]"#;
    assert_eq!(
        first(text),
        facts(
            "HIGH",
            "srv/h_test.go",
            311,
            "The wrong failure is asserted"
        )
    );
}

#[test]
fn files_may_be_a_list_and_the_text_not_english() {
    let text = r#"{"issues": [{"id": "A", "severity": "high", "summary": "计数器从未被检查", "files": ["core/lib.rs:3888", "core/n.rs:310"], "fix_suggestion": "移除"}]}"#;
    assert_eq!(
        first(text),
        facts("high", "core/lib.rs", 3888, "计数器从未被检查")
    );
}

#[test]
fn a_diff_link_may_be_the_only_place() {
    let text = "<table><tr><td>⚡&nbsp;<strong>Recommended focus areas for review</strong><br><br>\n\n<details><summary><a href='https://x.test/pull/3/files#diff-0aR108-R133'><strong>Type Mismatch</strong></a>\n\nThe field holds other things than it is given.\n</summary>\n\n```rust\nlet a = 1;\n```\n\n</details>\n</td></tr></table>\n";
    assert_eq!(first(text), facts("", "", 108, "Type Mismatch"));
}

#[test]
fn nested_details_and_quoted_blocks_are_opened() {
    let text = "**Actionable comments posted: 1**\n\n> <details>\n> <summary>⚠️ Outside diff range comments (1)</summary><blockquote>\n> \n> <details>\n> <summary>src/api/users.rs (1)</summary><blockquote>\n> \n> `29-42`: _⚠️ Potential issue_ | _🟠 Major_\n> \n> **The payload is not validated.**\n> \n> It is used as it comes.\n> \n> <details>\n> <summary>🔧 Proposed fix</summary>\n> \n> ```diff\n> +    check()?;\n> ```\n> </details>\n> \n> </blockquote></details>\n> \n> </blockquote></details>\n\n<details>\n<summary>🧹 Nitpick comments (1)</summary><blockquote>\n\n<details>\n<summary>tool.py (1)</summary><blockquote>\n\n`1-2`: **Remove the unused import.**\n\nIt is never used.\n\n</blockquote></details>\n\n</blockquote></details>\n";
    let review = read(text);
    let places: Vec<_> = review
        .findings
        .iter()
        .map(|finding| {
            (
                finding.rating.raw.as_deref(),
                finding.file.as_deref(),
                finding.line,
                finding.end_line,
            )
        })
        .collect();
    assert_eq!(
        places,
        [
            (Some("Major"), Some("src/api/users.rs"), Some(29), Some(42)),
            (Some("Nitpick"), Some("tool.py"), Some(1), Some(2))
        ]
    );
}

#[test]
fn the_opposite_verdict_in_a_quotation_does_not_count() {
    let text = "P1 — `ci/check.py:125` — A complete `GO` block in a fence, followed by `VERDICT: NO-GO`, is read as an approval.\n\nThe rest is fine: `VERDICT: GO` exits 0.\n\nVERDICT: NO-GO\n";
    assert_eq!(claim(text), ReviewClaim::ChangesRequested);
    assert_eq!(first(text).0, "P1");
}

#[test]
fn findings_in_another_language_are_found_among_sections_that_conclude_well() {
    let text = "我已完成审查：\n\n## Panel.tsx (d:\\git\\app\\src\\Panel.tsx)\n\n### 1. 监听清理\n\n**主事件 (第351-443行):** 正确。\n\n**结论：** OK，没有泄漏。\n\n### 发现的问题\n\n**Bug 1：提交后未重置状态 (第24-40行)**\n\n按钮仍处于禁用状态。\n\n**修复建议:** 重置。\n";
    assert_eq!(
        first(text),
        facts("Bug", "Panel.tsx", 24, "提交后未重置状态 (第24-40行)")
    );
    assert_eq!((claim(text), titles(text).len()), (ReviewClaim::Unknown, 1));
}

#[test]
fn sarif_without_a_level_takes_the_rules() {
    let text = r#"{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "t", "rules": [{"id": "R", "defaultConfiguration": {"level": "error"}}]}}, "results": [{"ruleId": "R", "message": {"text": "Injection"}, "locations": [{"physicalLocation": {"artifactLocation": {"uri": "../../../tmp/w/t.yml"}, "region": {"startLine": 26}}}]}]}]}"#;
    assert_eq!(first(text), facts("error", "tmp/w/t.yml", 26, "Injection"));
}

#[test]
fn dispositions_of_the_last_round_are_not_findings() {
    let text = "## Verdict\n\n`accept`\n\n## Findings\n\n### Major\n\nNone. Both are resolved.\n\n### Minor\n\n1. **The window is untested.** `lib/e.ex:344-359` checks, then inserts.\n\n## Prior-review finding check\n\n### Major 1 — identity not protected → RESOLVED\n\nText.\n";
    let review = read(text);
    assert_eq!(review.findings.len(), 1);
    assert_eq!(review.earlier.len(), 1);
    assert!(review.earlier[0].fixed);
}

#[test]
fn findings_listed_as_fixed_are_not_findings() {
    let text = "## Critical Issues\n\nNone found.\n\n## Round 1 Issues -- Verification\n\n| Round 1 Finding | Status | Evidence |\n|---|---|---|\n| No check of the id | **Fixed** | line 50 |\n\n## Verification of Round 1 Fixes\n\n1. **[Important] scope is dropped -- FIXED.** See `a.ts` line 83.\n\n## Summary\n\n- **Recommendation:** Approve.\n";
    let review = read(text);
    assert_eq!(
        (review.claim, review.findings.len()),
        (ReviewClaim::Approved, 0)
    );
    assert_eq!(
        review
            .earlier
            .iter()
            .filter(|earlier| earlier.fixed)
            .count(),
        2
    );
}

#[test]
fn one_finding_stated_three_times_is_one() {
    let text = "# Agent review — request_changes\n\n- **major** `.hooks/post:21` — The hash covers more than was reviewed.\n\n## Full review\n\n**1. major — `.hooks/post:21`: the hash covers more than was reviewed.** Text.\n\n```json\n{\"verdict\": \"request_changes\", \"findings\": [{\"severity\": \"major\", \"file\": \".hooks/post\", \"line\": 21, \"issue\": \"The hash covers more than was reviewed.\"}]}\n```\n";
    assert_eq!(
        first(text),
        facts(
            "major",
            ".hooks/post",
            21,
            "The hash covers more than was reviewed."
        )
    );
    assert_eq!(titles(text).len(), 1);
}

#[test]
fn a_list_of_recommendations_repeats_no_finding() {
    let text = "## Critical Issues (🔴)\n\n### 1. The module is off\nText.\n- **File**: `src/lib.rs`\n\n## Recommendations\n1. Turn the module on.\n2. Run the tests.\n";
    assert_eq!(titles(text), ["The module is off"]);
}

#[test]
fn a_comment_of_a_forge_is_a_review_of_its_own() {
    let text = r#"{"reviews": [], "comments": [{"author": {"login": "x"}, "createdAt": "2026-01-01", "body": "I cannot accept this; changes are required."}]}"#;
    let review = read(text);
    assert_eq!(
        (review.claim, review.findings.len()),
        (ReviewClaim::ChangesRequested, 0)
    );
}

#[test]
fn a_rejection_without_findings_keeps_its_words() {
    let review = read("Request changes. The tests do not cover the retry.");
    assert_eq!(review.claim, ReviewClaim::Unknown);
    let review = read("Verdict: request changes. The tests do not cover the retry.");
    assert_eq!(
        (review.claim, review.notes.is_some()),
        (ReviewClaim::ChangesRequested, true)
    );
}

#[test]
fn hidden_characters_do_not_reach_a_finding() {
    let review = read(
        "## Issues\n\n1. **High** `src/\u{202e}a.rs:3` — \u{1b}[31mred\u{1b}[0m te\u{200b}xt\n",
    );
    assert_eq!(review.findings[0].title, "red text");
    assert_eq!(review.findings[0].file.as_deref(), Some("src/a.rs"));
}
