//! What is written can be read again: every form that has a reader keeps title, file, line and
//! severity of every finding, and a refusal never becomes an empty report.

use findings::write::{self, DiffLines, DocumentHeader, FindingEntry, GithubReviewEvent};
use findings::{
    BlockingIssue, Category, Finding, Rating, Review, ReviewClaim, ReviewFormat, Severity, read,
};
use proptest::prelude::*;
use proptest::sample::select;

type Facts = (String, Option<String>, Option<u32>, Severity);

fn facts(findings: &[Finding]) -> Vec<Facts> {
    findings
        .iter()
        .map(|finding| {
            (
                finding.title.clone(),
                finding.file.clone(),
                finding.line,
                finding.rating.severity,
            )
        })
        .collect()
}

/// A title that holds what the marks of a format are made of.
fn machine_title() -> impl Strategy<Value = String> {
    "[A-Z][a-z]{2,9}( [a-z]{1,9}| <[a-z]{1,5}>| \"[a-z]{1,5}\"| &amp;| &| '[a-z]{1,5}'| %0A| 100%| :: [a-z]{2,4}| a,b=c:d| \\]\\]>| 漢字| é| -->| #1){1,6} end"
}

/// A title in plain words, as Markdown can carry it.
fn plain_title() -> impl Strategy<Value = String> {
    let first = select(vec!["The", "This", "A", "Every", "One"]);
    let noun = select(vec!["lock", "buffer", "query", "token", "parser", "header"]);
    let verb = select(vec!["leaks", "overflows", "loops", "stalls", "escapes"]);
    let tail = select(vec![
        "on long input",
        "after a restart",
        "for empty names",
        "in the second pass",
    ]);
    (first, noun, verb, tail, 0_u32..1000).prop_map(|(first, noun, verb, tail, number)| {
        format!("{first} {noun} {verb} {tail} of unit{number}")
    })
}

fn finding(title: impl Strategy<Value = String>) -> impl Strategy<Value = Finding> {
    let place = prop_oneof![
        Just((None, None, None)),
        "[a-z]{1,8}/[a-z_]{1,8}\\.(rs|py|go)".prop_map(|file| (Some(file), None, None)),
        (
            "[a-z]{1,8}/[a-z_]{1,8}\\.(rs|py|go)",
            1_u32..9000,
            0_u32..30
        )
            .prop_map(|(file, line, more)| (
                Some(file),
                Some(line),
                (more > 0).then_some(line + more)
            )),
    ];
    let fix = prop_oneof![Just(None), Just(Some("Drop it at the end.".to_owned()))];
    let category = prop_oneof![Just(None), select(Category::ALL.to_vec()).prop_map(Some)];
    (title, place, select(Severity::ALL.to_vec()), fix, category).prop_map(
        |(title, (file, line, end_line), severity, fix, category)| Finding {
            problem: fix
                .as_ref()
                .map(|_| "It stays open for too long.".to_owned()),
            file,
            line,
            end_line,
            fix,
            category,
            ..Finding::new(&title, Rating::of(Some(severity.word()), false))
        },
    )
}

/// Findings whose titles differ, so that no reader takes two for one.
fn apart(findings: Vec<Finding>) -> Vec<Finding> {
    let mut findings = findings;
    for (at, finding) in findings.iter_mut().enumerate() {
        finding.title = format!("{} no{at}", finding.title);
        finding.line = finding
            .line
            .map(|line| line + 10_000 * u32::try_from(at).unwrap_or(0));
        finding.end_line = None;
    }
    findings
}

fn head() -> DocumentHeader<'static> {
    DocumentHeader {
        story: "T-1",
        round: 1,
        reviewer: "r",
        date: "2026-01-02 03:04",
        branch: "b",
        recommendation: "Request changes",
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn machine_forms_keep_every_finding(findings in prop::collection::vec(finding(machine_title()), 1..6)) {
        let findings = apart(findings);
        let entries: Vec<FindingEntry<'_>> = findings.iter().map(FindingEntry::from).collect();
        let written = [
            ("sarif", write::sarif("countersign", "0", &entries).to_string()),
            ("rdjson", write::rdjson("countersign", &entries).to_string()),
            ("gitlab", write::gitlab(&entries).to_string()),
            ("commands", write::workflow_commands(&entries)),
            ("junit", write::junit("countersign", &entries)),
        ];
        for (form, text) in written {
            prop_assert_eq!(facts(&read(&text).findings), facts(&findings), "{}\n{}", form, text);
        }
        let lines = write::rdjsonl(&entries);
        prop_assert_eq!(facts(&read(&lines).findings), facts(&findings), "{}", lines);
        // Checkstyle groups by file.
        let text = write::checkstyle(&entries);
        let mut wanted = facts(&findings);
        let mut got = facts(&read(&text).findings);
        wanted.sort();
        got.sort();
        prop_assert_eq!(got, wanted, "{}", text);
    }

    #[test]
    fn machine_forms_keep_problem_and_fix(findings in prop::collection::vec(finding(machine_title()), 1..4)) {
        let findings = apart(findings);
        let entries: Vec<FindingEntry<'_>> = findings.iter().map(FindingEntry::from).collect();
        let parts = |findings: &[Finding]| -> Vec<_> {
            let mut parts: Vec<_> = findings.iter().map(|finding| (finding.title.clone(), finding.problem.clone(), finding.fix.clone())).collect();
            parts.sort();
            parts
        };
        for text in [
            write::sarif("countersign", "0", &entries).to_string(),
            write::rdjson("countersign", &entries).to_string(),
            write::gitlab(&entries).to_string(),
            write::workflow_commands(&entries),
            write::junit("countersign", &entries),
            write::checkstyle(&entries),
        ] {
            prop_assert_eq!(parts(&read(&text).findings), parts(&findings), "{}", text);
        }
    }

    #[test]
    fn forms_for_people_keep_every_finding(findings in prop::collection::vec(finding(plain_title()), 1..6)) {
        let findings = apart(findings);
        let entries: Vec<FindingEntry<'_>> = findings.iter().map(FindingEntry::from).collect();
        // The document sorts by severity.
        let text = write::write_findings_document(&head(), &entries);
        let mut wanted = facts(&findings);
        let mut got = facts(&read(&text).findings);
        wanted.sort();
        got.sort();
        prop_assert_eq!(&got, &wanted, "{}", text);
        let checklist = write::checklist(&entries);
        let places = |findings: &[Finding]| -> Vec<_> {
            findings.iter().map(|finding| (finding.file.clone(), finding.line, finding.rating.severity)).collect()
        };
        let read_back = read(&checklist).findings;
        prop_assert_eq!(places(&read_back), places(&findings), "{}", checklist);
        prop_assert!(read_back.iter().zip(&findings).all(|(got, wanted)| got.title.starts_with(&wanted.title)), "{}", checklist);
        let qa = write::qa_findings(&entries).to_string();
        prop_assert_eq!(places(&read(&qa).findings), places(&findings), "{}", qa);
    }

    #[test]
    fn xml_is_well_formed_whatever_it_holds(title in ".{0,40}", file in ".{0,20}", fix in prop::option::of(".{0,40}")) {
        let finding = Finding { file: Some(file), fix, ..Finding::new(&title, Rating::of(Some("high"), false)) };
        let entries = [FindingEntry::from(&finding)];
        for text in [write::checkstyle(&entries), write::junit(&title, &entries)] {
            prop_assert!(is_well_formed(&text), "{}", text);
        }
    }

    #[test]
    fn a_refusal_is_in_every_form(
        claim in select(vec![ReviewClaim::ChangesRequested, ReviewClaim::Approved, ReviewClaim::Unknown]),
        own in prop::collection::vec(finding(plain_title()), 0..3),
        idle in any::<bool>(),
        blocking in prop::collection::vec("[A-Z][a-z]{3,8} [a-z]{3,8} is broken", 0..3),
        notes in prop::option::of("[A-Z][a-z]{3,8} must be rewritten"),
    ) {
        let mut review = Review::new(claim, apart(own));
        for finding in &mut review.findings {
            finding.actionable = !idle;
        }
        review.blocking_issues = blocking.iter().map(|message| BlockingIssue { dimension: None, message: message.clone(), required_action: None }).collect();
        review.notes = notes;
        let verdict = write::combined_verdict(&[&review]);
        let all = write::reported_findings(&review);
        let must_fix = all.iter().any(|finding| finding.rating.severity.is_must_fix());
        prop_assert_eq!(verdict == ReviewClaim::ChangesRequested, must_fix);
        prop_assert_eq!(verdict == ReviewClaim::Approved, claim == ReviewClaim::Approved && !must_fix);
        for message in &blocking {
            prop_assert!(all.iter().any(|finding| &finding.title == message));
        }
        let entries: Vec<FindingEntry<'_>> = all.iter().map(FindingEntry::from).collect();
        let texts = [
            write::sarif("countersign", "0", &entries).to_string(),
            write::rdjson("countersign", &entries).to_string(),
            write::rdjsonl(&entries),
            write::gitlab(&entries).to_string(),
            write::workflow_commands(&entries),
            write::checkstyle(&entries),
            write::junit("countersign", &entries),
            write::write_findings_document(&head(), &entries),
            write::checklist(&entries),
            write::qa_findings(&entries).to_string(),
        ];
        for text in texts {
            let read_back = read(&text).findings;
            prop_assert_eq!(read_back.len(), all.len(), "{}", text);
            prop_assert_eq!(read_back.iter().any(|finding| finding.rating.severity.is_must_fix()), must_fix, "{}", text);
        }
        let github = write::github_review(GithubReviewEvent::from(verdict), None, "Review", "countersign", &entries, &DiffLines::default());
        prop_assert_eq!(github["event"] == "APPROVE", verdict == ReviewClaim::Approved);
        prop_assert_eq!(github["event"] == "REQUEST_CHANGES", must_fix);
        let body = github["body"].as_str().unwrap_or_default();
        prop_assert!(all.iter().all(|finding| body.contains(&write::escape_for_forge(&finding.title))), "{}", body);
    }

    #[test]
    fn a_commit_id_is_a_real_one_or_absent(word in "(HEAD|main|[0-9a-f]{7}|[0-9a-f]{40}|[0-9a-f]{64}|[0-9a-g]{40}|)") {
        let review = write::github_review(GithubReviewEvent::Comment, Some(&word), "s", "m", &[], &DiffLines::default());
        let is_id = matches!(word.len(), 40 | 64) && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        prop_assert_eq!(review.get("commit_id").is_some(), is_id);
    }

    #[test]
    fn paths_of_a_checkout_are_those_of_the_repository(
        root in "/(tmp|var/tmp|home/u|private/var)/[a-z0-9._-]{1,12}(/[a-z0-9._-]{1,10}){0,4}/checkout",
        path in "[a-z]{1,8}/[a-z_]{1,8}\\.(rs|py|go)",
        line in 1_u32..900,
        scheme in select(vec!["", "file://"]),
    ) {
        prop_assume!(!root.split('/').any(|part| part == "." || part == ".."));
        let copy = format!("{root}-copy/deep");
        for place in [&root, &copy] {
            let full = format!("{place}/{path}");
            let json = serde_json::json!({"findings": [{"title": "The lock leaks", "severity": "high", "file": format!("{scheme}{full}"), "line": line}]}).to_string();
            let escaped = json.replace('/', "\\/");
            let gcc = format!("{full}:{line}:1: error: the lock leaks\n");
            let prose = format!("## High\n\n- `{full}:{line}` — The lock leaks\n");
            let sarif = serde_json::json!({"version": "2.1.0", "runs": [{"results": [{"level": "error", "message": {"text": "The lock leaks"}, "locations": [{"physicalLocation": {"artifactLocation": {"uri": format!("{scheme}{full}")}, "region": {"startLine": line}}}]}]}]}).to_string();
            for text in [json, escaped, gcc, prose, sarif] {
                let review = findings::read_with_roots(&[&root, &copy], &text);
                prop_assert_eq!(review.findings.len(), 1, "{}", text);
                prop_assert_eq!((review.findings[0].file.as_deref(), review.findings[0].line), (Some(path.as_str()), Some(line)), "{}", text);
            }
        }
        // What lies outside stays confined and is not taken for a file of the repository.
        let outside = format!("{root}x/{path}:{line}:1: error: the lock leaks\n");
        let review = findings::read_with_roots(&[&root, &copy], &outside);
        prop_assert!(review.findings.iter().all(|finding| finding.file.as_deref() != Some(path.as_str())));
        prop_assert!(review.findings.iter().all(|finding| !finding.file.as_deref().unwrap_or_default().starts_with('/')));
    }
}

/// A strict look at what the writers may produce: tags that nest, attributes in double quotes,
/// nothing in between that would be markup.
fn is_well_formed(text: &str) -> bool {
    let Some(body) = text.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n") else {
        return false;
    };
    let mut open: Vec<&str> = Vec::new();
    let mut rest = body;
    while let Some(at) = rest.find('<') {
        if rest[..at].contains('>') || !entities_are_known(&rest[..at]) {
            return false;
        }
        let Some(end) = rest[at..].find('>') else {
            return false;
        };
        let tag = &rest[at + 1..at + end];
        rest = &rest[at + end + 1..];
        if tag.contains('<') || !entities_are_known(tag) || tag.matches('"').count() % 2 != 0 {
            return false;
        }
        if let Some(closed) = tag.strip_prefix('/') {
            if open.pop() != Some(closed) {
                return false;
            }
        } else if !tag.ends_with('/') {
            open.push(tag.split(' ').next().unwrap_or_default());
        }
    }
    open.is_empty() && rest.trim().is_empty() && text.chars().all(|c| c >= ' ' || c == '\n')
}

fn entities_are_known(text: &str) -> bool {
    text.split('&').skip(1).all(|part| {
        [
            "amp;", "lt;", "gt;", "quot;", "apos;", "#10;", "#9;", "#13;",
        ]
        .iter()
        .any(|entity| part.starts_with(entity))
    })
}

#[test]
fn text_that_is_no_review_is_no_clean_report() {
    for text in ["", "hello", "Segmentation fault"] {
        let review = read(text);
        assert_eq!(review.format, ReviewFormat::Nothing, "{text}");
        assert_eq!(write::reported_findings(&review).len(), 1, "{text}");
        assert_eq!(
            write::combined_verdict(&[&review]),
            ReviewClaim::Unknown,
            "{text}"
        );
    }
}

// An approval that does not count is neither an approval nor a clean report in any form.
#[test]
fn an_approval_that_does_not_count_is_in_every_form() {
    for text in [
        "Verdict: approve\n\n## Notes\n\nRefunds are paid to the wrong account.",
        "| Field | Value |\n|---|---|\n| Verdict | Approve |\n| Tests | ❌ |",
        "Verdict: approve\n\n👎",
        "{\"approved\": true, \"blocking\": true, \"dry_run\": true}",
        "{\"approved\": true, \"truncated\": true}",
        "{\"approved\": true, \"flag\": 7}",
        "{\"verdict\": \"approve\", \"findings\": [{\"severity\": \"low\", \"title\": \"The name is short\", \"file\": \"a.rs\", \"blocking\": true}]}",
    ] {
        let review = read(text);
        assert_ne!(
            write::combined_verdict(&[&review]),
            ReviewClaim::Approved,
            "{text}"
        );
        let all = write::reported_findings(&review);
        assert!(
            all.iter()
                .any(|finding| finding.rating.severity.is_must_fix()),
            "{text}"
        );
        let entries: Vec<FindingEntry<'_>> = all.iter().map(FindingEntry::from).collect();
        for written in [
            write::sarif("countersign", "0", &entries).to_string(),
            write::rdjson("countersign", &entries).to_string(),
            write::rdjsonl(&entries),
            write::gitlab(&entries).to_string(),
            write::workflow_commands(&entries),
            write::checkstyle(&entries),
            write::junit("countersign", &entries),
        ] {
            assert!(!read(&written).findings.is_empty(), "{written}");
        }
        let verdict = write::combined_verdict(&[&review]);
        let github = write::github_review(
            GithubReviewEvent::from(verdict),
            Some("HEAD"),
            "Review",
            "countersign",
            &entries,
            &DiffLines::default(),
        );
        assert!(
            github["event"] != "APPROVE" && github.get("commit_id").is_none(),
            "{github}"
        );
    }
}
