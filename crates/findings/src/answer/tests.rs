use proptest::prelude::*;
use serde_json::json;

use super::*;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

fn form() -> Value {
    json!({"verdict": "approve", "commit": COMMIT, "complete": true, "findings": [
        {"severity": "low", "file": "src/a.rs", "line": 3, "title": "A name misleads",
         "problem": "`len` is a byte count.", "impact": "", "fix": "Call it bytes."}],
        "dimension_scores": {"code_quality": {"score": 95}, "test_quality": {"score": null}},
        "criteria": [{"criterion": "1", "met": true, "evidence": "tests/a.rs"}],
        "notes": "The tests cover the change."})
}

fn claim(text: &str) -> ReviewClaim {
    read_answer(text, COMMIT, &[]).review.claim
}

fn with(name: &str, value: Value) -> String {
    let mut form = form();
    form[name] = value;
    form.to_string()
}

#[test]
fn the_form_approves_bare_or_in_one_fence() {
    for text in [
        form().to_string(),
        format!("\u{feff}\n {form:#} \n", form = form()),
        format!("```json\n{:#}\n```\n", form()),
        format!("```\n{}\n```", form()),
        json!({"verdict": "approve", "commit": COMMIT, "complete": true}).to_string(),
        with("usage", json!({"usd": 0.1, "tokens_in": 10, "model": "m"})),
        with("notes", json!("")),
        with("summary", json!("Reads well; the edge cases are tested.")),
        with(
            "criteria",
            json!([{"criterion": 1, "met": true, "evidence": "tests/test_x.py::test_y"}]),
        ),
        with(
            "criteria",
            json!([{"criterion": "AC-2", "met": true, "evidence": "src/a.rs:12"}]),
        ),
        with("errors", json!([])),
    ] {
        let read = read_answer(&text, COMMIT, &[]);
        assert_eq!(read.review.claim, ReviewClaim::Approved, "{text}\n{read:?}");
        assert_eq!(read.unclear, None);
    }
    let review = read_answer(&form().to_string(), COMMIT, &[]).review;
    assert_eq!(review.findings.len(), 1, "{review:?}");
}

/// Every deviation from the form that is not a refusal gives an unknown claim with a reason.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of answers")]
fn what_misses_the_form_is_unknown_and_says_why() {
    let other = COMMIT.replace('0', "1");
    let mut rows: Vec<(String, &str)> = vec![
        (with("verdict", json!("approved")), "verdict"),
        (with("verdict", json!("Approve")), "verdict"),
        (with("verdict", json!("APPROVE")), "verdict"),
        (with("verdict", json!("approve ")), "verdict"),
        (with("verdict", json!(true)), "verdict"),
        (with("verdict", json!(["approve"])), "verdict"),
        (
            with("verdict", json!("approve | request_changes")),
            "verdict",
        ),
        (with("commit", json!(other)), "names the commit"),
        (with("commit", json!(COMMIT[..10])), "names the commit"),
        (
            with("commit", json!(COMMIT.to_uppercase())),
            "names the commit",
        ),
        (
            with("commit", json!(format!("{COMMIT} "))),
            "names the commit",
        ),
        (with("commit", json!("HEAD")), "names the commit"),
        (with("commit", json!("")), "names no commit"),
        (with("commit", Value::Null), "names no commit"),
        (with("complete", json!(false)), "complete"),
        (with("complete", json!("true")), "complete"),
        (with("complete", json!(1)), "complete"),
        (with("complete", Value::Null), "complete"),
        (with("findings", json!({"0": "x"})), "not a list"),
        (with("findings", json!("none")), "not a list"),
        (with("findings", json!([["nested"]])), "not an object"),
        (with("findings", json!(["a text"])), "not an object"),
        (
            with("findings", json!([{"severity": "low"}])),
            "has no text",
        ),
        (
            with("findings", json!([{"title": "x", "more": {"deep": 1}}])),
            "cannot be read",
        ),
        (
            with("findings", json!([{"title": "x", "blocking": true}])),
            "cannot be read",
        ),
        (
            with(
                "findings",
                json!([{"title": "x", "severity": "low, no: critical"}]),
            ),
            "severity",
        ),
        (with("criteria", json!([{"criterion": "1"}])), "met"),
        (
            with("criteria", json!([{"criterion": "1", "met": "true"}])),
            "met",
        ),
        (with("criteria", json!("all met")), "not a list"),
        (with("blocking_issues", json!("one")), "not a list"),
        (with("blocking_issues", json!([{}])), "message"),
        (with("dimension_scores", json!([1])), "dimension_scores"),
        (with("overall_score", json!("high")), "overall_score"),
        (
            with("error", json!("context window exceeded")),
            "unknown field: `error`",
        ),
        (with("incomplete", json!(true)), "unknown field"),
        (with("do_not_merge", json!("")), "unknown field"),
        (with("the login is broken", Value::Null), "unknown field"),
        (with("notes", json!(["The login is broken."])), "not a text"),
        (with("notes", json!(7)), "not a text"),
        (
            with("findings", json!([{"title": 7, "severity": "low"}])),
            "cannot be read",
        ),
        (
            with("findings", json!([{"title": "x", "must_fix": 1}])),
            "cannot be read",
        ),
        (
            with(
                "findings",
                json!([{"title": "x", "this must be fixed": ""}]),
            ),
            "unknown field",
        ),
        (
            with(
                "dimension_scores",
                json!({"the login is broken": {"score": 9}}),
            ),
            "dimension_scores",
        ),
        (
            with(
                "dimension_scores",
                json!({"security": {"score": 9, "weight": "blocks the merge"}}),
            ),
            "dimension_scores",
        ),
        (
            with(
                "dimension_scores",
                json!({"security": {"score": 9, "comment": "The key leaks out."}}),
            ),
            "or leave it out",
        ),
        (
            with(
                "criteria",
                json!([{"criterion": "The key ends up in the log.", "met": true}]),
            ),
            "or leave it out",
        ),
        (
            with(
                "criteria",
                json!([{"criterion": "1", "met": true, "remark": "The key leaks out."}]),
            ),
            "cannot be read",
        ),
        (
            with("model", json!("the key ends up in the log")),
            "or leave it out",
        ),
        (
            with("usage", json!({"model": "the key ends up in the log"})),
            "or leave it out",
        ),
        (with("approved", json!("not yet")), "approved"),
        (with("truncated", json!(1)), "unknown field"),
        (with("review", form()), "unknown field"),
        (with("notes", json!({"a": "b"})), "not a text"),
        (json!([form()]).to_string(), "one JSON object"),
        (json!({"answer": form()}).to_string(), "no `verdict`"),
        (String::new(), "is empty"),
        ("LGTM".to_owned(), "one JSON object"),
        ("Verdict: approve".to_owned(), "one JSON object"),
        ("approve".to_owned(), "one JSON object"),
        (
            json!({"approved": true, "commit": COMMIT, "complete": true}).to_string(),
            "verdict",
        ),
    ];
    let text = form().to_string();
    for (before, after) in [
        ("Here is my review:\n", ""),
        ("", "\nI hope that this helps."),
        ("", "}"),
        ("", ","),
        ("// checked\n", ""),
        ("> ", ""),
        ("```json\n", ""),
        ("", "\n```"),
        ("```json\n", "\n```\nDone."),
        ("Done.\n```json\n", "\n```"),
        ("```json\n```\n", "\n```"),
        ("<answer>", "</answer>"),
    ] {
        rows.push((format!("{before}{text}{after}"), "JSON object"));
    }
    rows.push((format!("{text}\n{text}"), "JSON object"));
    rows.push((text.replace("true", "True"), "JSON object"));
    rows.push((text.replacen('"', "'", 2), "JSON object"));
    rows.push((
        text.replacen("{\"", "{\"verdict\":\"approve\",\"", 1),
        "twice",
    ));
    rows.push((text.replacen("{\"", "{\"complete\":false,\"", 1), "twice"));
    rows.push((
        text.replacen("\"title\"", "\"severity\":\"critical\",\"title\"", 1),
        "twice",
    ));
    let count = rows.len();
    for (text, reason) in rows {
        let read = read_answer(&text, COMMIT, &[]);
        assert_eq!(read.review.claim, ReviewClaim::Unknown, "{text}\n{read:?}");
        let why = read.unclear.unwrap_or_default();
        assert!(why.contains(reason), "{text}\nsays {why:?}, not {reason:?}");
    }
    println!("{count} answers that miss the form, 0 approved");
}

#[test]
fn a_refusal_is_heard_in_any_form() {
    for text in [
        json!({"verdict": "request_changes", "commit": "another", "complete": false}).to_string(),
        json!({"verdict": "request_changes"}).to_string(),
        json!({"verdict": "changes_requested", "findings": []}).to_string(),
        "Verdict: request changes".to_owned(),
        "I cannot approve this.".to_owned(),
        with("notes", json!("I request changes: the password is logged.")),
        with("summary", json!("Verdict: request changes")),
        with("feedback", json!("I cannot approve this.")),
    ] {
        let read = read_answer(&text, COMMIT, &[]);
        assert_eq!(
            read.review.claim,
            ReviewClaim::ChangesRequested,
            "{text}\n{read:?}"
        );
        assert_eq!(read.unclear, None);
    }
}

#[test]
fn findings_in_the_notes_of_an_approval_are_kept() {
    let text = with(
        "notes",
        json!("## Critical\n\n- src/a.rs:12: the password is logged in plain text\n"),
    );
    let read = read_answer(&text, COMMIT, &[]).review;
    let grave = |finding: &&Finding| finding.rating.severity == Severity::Critical;
    assert!(read.findings.iter().any(|one| grave(&one)), "{read:?}");
}

#[test]
fn a_reviewer_that_echoes_its_brief_approves_nothing() {
    let brief = format!(
        "# Review greet\n\nYou are an independent reviewer.\n\nCommit under review: `{COMMIT}`.\n\n```json\n\
         {{\"verdict\": \"approve | request_changes\", \"commit\": \"{COMMIT}\", \"complete\": true}}\n```\n"
    );
    assert_ne!(claim(&brief), ReviewClaim::Approved);
    let inside = format!(
        "{{\"verdict\": \"approve | request_changes\", \"commit\": \"{COMMIT}\", \"complete\": true}}"
    );
    assert_ne!(claim(&inside), ReviewClaim::Approved);
}

#[test]
fn what_is_said_beside_an_approval_can_refuse_and_never_approve() {
    let approved = read_answer(&form().to_string(), COMMIT, &[]);
    let refused = apply_text_beside(approved.clone(), "Verdict: request changes");
    assert_eq!(refused.review.claim, ReviewClaim::ChangesRequested);
    for report in [
        "Done.",
        "I read the diff, then I ran the tests and wrote the result file.",
        "I looked at src/a.rs first. The function parses a header. The answer is in the file.",
        &form().to_string(),
    ] {
        assert_eq!(
            apply_text_beside(approved.clone(), report),
            approved,
            "{report}"
        );
    }
    for doubt in [
        "I did not read a.py.",
        "Approve only if the key is rotated.",
        "I ran the tests. The login is broken.",
        "Just kidding.",
        "Please revert line 3 before merging.",
    ] {
        let read = apply_text_beside(approved.clone(), doubt);
        assert_ne!(read.review.claim, ReviewClaim::Approved, "{doubt}");
        assert!(!read.confirmable);
    }
    let grave = "## Critical\n\n- src/a.rs:12: the password is logged in plain text\n";
    let read = apply_text_beside(approved.clone(), grave).review;
    let is_grave = |finding: &Finding| finding.rating.severity == Severity::Critical;
    assert!(
        read.claim == ReviewClaim::ChangesRequested || read.findings.iter().any(is_grave),
        "{read:?}"
    );
    let unknown = read_answer("Fine.", COMMIT, &[]);
    let still = apply_text_beside(unknown, &form().to_string());
    assert_eq!(still.review.claim, ReviewClaim::Unknown);
}

#[test]
fn the_words_of_the_ticket_name_a_criterion() {
    let criteria = ["Names without letters are rejected".to_owned()];
    let text = with(
        "criteria",
        json!([{"criterion": "1. Names without letters are rejected.", "met": true, "evidence": "tests/a.rs"}]),
    );
    let claim = |criteria: &[String]| read_answer(&text, COMMIT, criteria).review.claim;
    assert_eq!(claim(&criteria), ReviewClaim::Approved);
    assert_eq!(claim(&[]), ReviewClaim::Unknown);
}

#[test]
fn the_same_call_again_confirms_only_what_is_not_understood() {
    let call = |feedback: &str| {
        let fields = json!({"approved": true, "feedback": feedback});
        let fields = fields.as_object().unwrap().clone();
        let first = read_tool_call(&fields, COMMIT, &[]);
        let again = read_confirmed_tool_call(&fields, COMMIT, &[]);
        (first, again.review.claim)
    };
    let (first, again) = call("The migration drops old rows.");
    assert_eq!(first.review.claim, ReviewClaim::Unknown);
    assert!(first.confirmable);
    let why = first.unclear.unwrap();
    assert!(why.contains("The migration drops old rows."), "{why}");
    assert_eq!(again, ReviewClaim::Approved);
    for doubt in ["LGTM if the tests pass.", "I did not read a.py."] {
        let (first, again) = call(doubt);
        assert!(!first.confirmable, "{doubt}");
        assert_ne!(again, ReviewClaim::Approved, "{doubt}");
    }
    let (_, again) = call("I cannot approve this.");
    assert_eq!(again, ReviewClaim::ChangesRequested);
}

#[test]
fn a_tool_call_is_the_form_and_its_text_can_overrule_it() {
    let call = |value: Value| {
        let fields = value.as_object().unwrap().clone();
        read_tool_call(&fields, COMMIT, &[])
    };
    for yes in [
        json!({"approved": true}),
        json!({"approved": true, "feedback": "fine"}),
        json!({"approved": true, "commit": COMMIT, "findings": [{"title": "x", "severity": "minor"}]}),
    ] {
        assert_eq!(
            call(yes.clone()).review.claim,
            ReviewClaim::Approved,
            "{yes}"
        );
    }
    for no in [
        json!({"approved": true, "feedback": "I cannot approve this: it leaks."}),
        json!({"approved": true, "feedback": "Verdict: request changes"}),
        json!({"approved": false, "feedback": "fine"}),
    ] {
        assert_eq!(
            call(no.clone()).review.claim,
            ReviewClaim::ChangesRequested,
            "{no}"
        );
    }
    for unclear in [
        json!({"approved": true, "commit": "HEAD"}),
        json!({"approved": true, "findings": [{"title": "x", "parts": [1]}]}),
        json!({"approved": "true"}),
        json!({"feedback": "fine"}),
    ] {
        assert_eq!(
            call(unclear.clone()).review.claim,
            ReviewClaim::Unknown,
            "{unclear}"
        );
    }
}

proptest! {
    /// Only the exact form approves, whatever is cut out of it or put into it.
    #[test]
    fn a_damaged_form_never_approves(at in 0_usize..500, len in 1_usize..40, junk in "[a-z{}\",: ]{0,8}") {
        let text = form().to_string();
        let (at, end) = (at.min(text.len() - 1), (at + len).min(text.len()));
        prop_assume!(at < end);
        let damaged = format!("{}{junk}{}", &text[..at], &text[end..]);
        let same = serde_json::from_str::<Value>(&damaged).ok().is_some_and(|value| {
            let exact = |name: &str| value.get(name) == form().get(name);
            exact("verdict") && exact("commit") && exact("complete")
        });
        if !same {
            prop_assert_ne!(claim(&damaged), ReviewClaim::Approved, "{}", damaged);
        }
    }

    #[test]
    fn text_around_the_form_never_approves(before in "\\PC{0,30}", after in "\\PC{0,30}") {
        prop_assume!(!before.trim().is_empty() || !after.trim().is_empty());
        let around = format!("{before}{}{after}", form());
        prop_assert_ne!(claim(&around), ReviewClaim::Approved, "{}", around);
    }

    #[test]
    fn no_field_approves_in_the_place_of_the_verdict(name in "[a-z_]{2,14}", yes in prop::sample::select(
        vec![json!(true), json!("approve"), json!("approved"), json!("LGTM"), json!(100)])) {
        prop_assume!(name != "verdict");
        let mut fields = json!({"commit": COMMIT, "complete": true, "findings": []});
        fields[&name] = yes;
        prop_assert_ne!(claim(&fields.to_string()), ReviewClaim::Approved);
    }

    #[test]
    fn any_text_is_read_without_a_panic_and_without_an_approval(text in "\\PC{0,200}") {
        prop_assert_ne!(claim(&text), ReviewClaim::Approved);
    }
}

#[test]
fn the_text_of_a_refusal_is_read_for_findings_if_it_lists_none() {
    let read = |fields: Value| {
        let Value::Object(fields) = fields else {
            panic!("fields")
        };
        read_tool_call(&fields, "c1", &[]).review
    };
    let facts = |review: &Review| -> Vec<(Severity, Option<String>)> {
        let findings = review.findings.iter();
        findings
            .map(|it| (it.rating.severity, it.file.clone()))
            .collect()
    };
    let lists = [
        "I found these:\n```json\n[{\"file\": \"a.py\", \"line_number\": 4, \"severity\": \"CRITICAL\", \
         \"description\": \"SQL injection\"}, {\"file\": \"b.py\", \"line_number\": 9, \"severity\": \"MAJOR\", \
         \"description\": \"N+1 query\"}]\n```",
        "1. critical a.py:4: SQL injection\n2. major b.py:9: N+1 query",
        "1. [ ] **CRITICAL** (security): a.py:4\n    Issue: SQL injection\n    Fix: bind it\n\n\
         2. [ ] **HIGH** (performance): b.py:9\n    Issue: N+1 query\n    Fix: batch it",
    ];
    for text in lists {
        let review = read(json!({"approved": false, "feedback": text}));
        assert_eq!(review.claim, ReviewClaim::ChangesRequested);
        let expected = [
            (Severity::Critical, Some("a.py".to_owned())),
            (Severity::High, Some("b.py".to_owned())),
        ];
        assert_eq!(facts(&review), expected, "{text}");
    }
    // A sentence stays whole: it is the reason of the refusal.
    let review = read(json!({"approved": false, "feedback": "The cache is never cleared."}));
    assert_eq!(facts(&review), []);
    assert_eq!(review.notes.as_deref(), Some("The cache is never cleared."));
    // Listed findings are not told twice.
    let item = json!({"title": "SQL injection", "severity": "high", "file": "a.py"});
    let review = read(json!({"approved": false, "feedback": lists[1], "findings": [item]}));
    assert_eq!(review.findings.len(), 1);
}

#[test]
fn notes_are_revision_notes() {
    let answer = |text: &str| read_answer(text, "c1", &[]).review.notes;
    let notes = answer(r#"{"verdict": "request_changes", "notes": "add tests", "findings": []}"#);
    assert_eq!(notes.as_deref(), Some("add tests"));
    let both = r#"{"verdict": "request_changes", "notes": "a", "revision_notes": "b"}"#;
    assert_eq!(answer(both).as_deref(), Some("b"));
}

/// Clients of other systems have one field for all that they say.
#[test]
fn a_refusal_in_words_is_read_point_by_point() {
    let points = |feedback: &str| {
        let call = json!({"approved": false, "feedback": feedback});
        let review = read_tool_call(call.as_object().unwrap(), COMMIT, &[]).review;
        let found = review.findings.into_iter();
        let point = |it: Finding| {
            let place = it.file.map(|file| match it.line {
                Some(line) => format!("{file}:{line}"),
                None => file,
            });
            format!(
                "{} {} {}",
                it.rating.severity.word(),
                place.unwrap_or_default(),
                it.title
            )
        };
        found.map(point).collect::<Vec<_>>()
    };
    for (feedback, expected) in [
        (
            "Issues: 1) Test doesn't validate edge case X, 2) Missing null check in Y",
            vec![
                "high  Test doesn't validate edge case X",
                "high  Missing null check in Y",
            ],
        ),
        (
            "1. The test misses an edge case\n2. No null check in parse()\n",
            vec![
                "high  The test misses an edge case",
                "high  No null check in parse()",
            ],
        ),
        (
            "1. **[Security]** CRITICAL: SQL is injected (src/db.py:7)\n2. MAJOR - a.py, line 2: leak\n",
            vec![
                "critical src/db.py:7 SQL is injected (src/db.py:7)",
                "high a.py:2 a.py, line 2: leak",
            ],
        ),
        (
            "Issues:\n- Severity: critical\n  File: src/m.py:1\n  Description: It crashes\n  \
             Suggested fix: Guard it\n- Severity: minor\n  File: src/m.py\n  Line: 2\n  \
             Description: The name misleads\n",
            vec![
                "critical src/m.py:1 It crashes",
                "low src/m.py:2 The name misleads",
            ],
        ),
        (
            "Issues: 1) critical: src/m.py:1 it crashes; 2) minor: src/m.py:2 the name misleads",
            vec![
                "critical src/m.py:1 src/m.py:1 it crashes",
                "low src/m.py:2 src/m.py:2 the name misleads",
            ],
        ),
    ] {
        assert_eq!(points(feedback), expected, "{feedback}");
    }
    // One point in plain words stays the text itself, and praise in a list is no finding.
    assert_eq!(points("An empty name is greeted."), Vec::<String>::new());
    let mixed = "- LGTM in general\n- The empty name is greeted\n- Exit code is wrong\n";
    assert_eq!(points(mixed).len(), 2);
}

/// A reviewer that always sends its findings document confirms its approval by sending it again.
#[test]
fn a_clean_findings_document_beside_an_approval_can_be_confirmed() {
    let document = |critical: &str| {
        format!(
            "# Story 1.2 Code Review Findings - Round 3\n\n**Reviewer:** Agent (Fresh Context)\n\
             **Date:** 2026-02-03 10:00\n**Branch:** story-1-2-x\n\n\
             ## Critical Issues (Must Fix)\n\n{critical}\n\n## Important Issues (Should Fix)\n\nNone.\n\n\
             ## Minor Issues (Nice to Have)\n\nNone.\n\n## Summary\n\n- **Total findings:** 0\n\
             - **Critical:** 0\n- **Important:** 0\n- **Minor:** 0\n- **Recommendation:** Review clean\n"
        )
    };
    let call = |critical: &str| {
        let call = json!({"approved": true, "feedback": document(critical)});
        call.as_object().unwrap().clone()
    };
    let clean = call("None.");
    assert!(read_tool_call(&clean, COMMIT, &[]).confirmable);
    let confirmed = read_confirmed_tool_call(&clean, COMMIT, &[]);
    assert_eq!(confirmed.review.claim, ReviewClaim::Approved);
    for other in ["1. **[Crash]:** It crashes", "Do not merge this."] {
        let read = read_confirmed_tool_call(&call(other), COMMIT, &[]);
        assert_ne!(read.review.claim, ReviewClaim::Approved, "{other}");
    }
}
