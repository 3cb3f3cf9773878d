//! Severity in generated reviews: headings, labels and items in many styles and languages.

use findings::{ReviewClaim, Severity, read};
use proptest::prelude::*;
use proptest::sample::select;

/// A degree in many words: as a heading has it, and what it means.
const DEGREES: [(&str, Severity); 40] = [
    ("Critical", Severity::Critical),
    ("CRITICAL", Severity::Critical),
    ("Blocker", Severity::Critical),
    ("P0", Severity::Critical),
    ("High", Severity::High),
    ("Major", Severity::High),
    ("P1", Severity::High),
    ("Medium", Severity::Medium),
    ("Moderate", Severity::Medium),
    ("P2", Severity::Medium),
    ("Low", Severity::Low),
    ("Minor", Severity::Low),
    ("Nit", Severity::Suggestion),
    ("Kritisch", Severity::Critical),
    ("Hoch", Severity::High),
    ("Mittel", Severity::Medium),
    ("Niedrig", Severity::Low),
    ("Critique", Severity::Critical),
    ("Élevée", Severity::High),
    ("Moyenne", Severity::Medium),
    ("Faible", Severity::Low),
    ("Crítico", Severity::Critical),
    ("Alta", Severity::High),
    ("Média", Severity::Medium),
    ("Baixa", Severity::Low),
    ("Критический", Severity::Critical),
    ("Высокий", Severity::High),
    ("Средний", Severity::Medium),
    ("Низкий", Severity::Low),
    ("重大", Severity::Critical),
    ("严重", Severity::Critical),
    ("高", Severity::High),
    ("中", Severity::Medium),
    ("低", Severity::Low),
    ("軽微", Severity::Low),
    ("심각", Severity::Critical),
    ("높음", Severity::High),
    ("중간", Severity::Medium),
    ("낮음", Severity::Low),
    ("Yüksek", Severity::High),
];

/// Headings over a list of findings; `%` is the degree, `#` a count.
const HEADINGS: [&str; 30] = [
    "## %",
    "### % (#)",
    "### 🔴 % — # issues",
    "## % Issues (# found)",
    "## %: #",
    "## [%] # issues",
    "### % severity (#)",
    "## % – must be fixed before merge",
    "**% (#)**",
    "## # % issues",
    "#### % Priority Issues (Blocking)",
    "## % (# issues, 1 file)",
    "## % severity findings",
    "### Severity: %",
    "## % / Should discuss",
    "## % · #",
    "### % [#]",
    "## 1. %",
    "### % Findings (must fix before release)",
    "## ❌ % (#)",
    "### % — these block the merge",
    "## % | # findings",
    "### Findings: %",
    "### Findings — %",
    "## % problems that need attention",
    "## % findings in this change",
    "### ⚠️ %（#）",
    "## *% issues* (#)",
    "## % findings - #",
    "### # × %",
];

/// How the two findings of [`document`] are written.
const ITEMS: [&str; 15] = [
    "- **`src/a.rs:12`** — The lock is never released\n- **`src/b.rs:40`** — The buffer overflows on long input",
    "- **src/a.rs:12**: The lock is never released\n- **src/b.rs:40**: The buffer overflows on long input",
    "1. **src/a.rs:12** The lock is never released. Fix it.\n2. **src/b.rs:40** The buffer overflows on long input.",
    "**src/a.rs:12** — The lock is never released\n\n**src/b.rs:40** — The buffer overflows on long input",
    "**`src/a.rs:12`**\nThe lock is never released\n\n**`src/b.rs:40`**\nThe buffer overflows on long input",
    "**`src/a.rs:12`**\n\nThe lock is never released\n\n**`src/b.rs:40`**\n\nThe buffer overflows on long input",
    "**Lock never released** The lock in `src/a.rs:12` is never released.\n\n**Buffer overflow** The buffer in `src/b.rs:40` overflows on long input.",
    "- **Lock leak** The lock in `src/a.rs:12` is never released.\n- **Buffer overflow** The buffer in `src/b.rs:40` overflows.",
    "#### `src/a.rs:12`\nThe lock is never released\n\n#### `src/b.rs:40`\nThe buffer overflows on long input",
    "- `src/a.rs:12` The lock is never released\n- `src/b.rs:40` The buffer overflows on long input",
    "1. **The lock is never released** (`src/a.rs:12`)\n   It stays.\n2. **The buffer overflows** (`src/b.rs:40`)\n   Boom.",
    "- **src/a.rs**\n  - Line 12: The lock is never released\n- **src/b.rs**\n  - Line 40: The buffer overflows",
    "**1. The lock is never released** — `src/a.rs:12`\n\nText.\n\n**2. The buffer overflows** — `src/b.rs:40`\n\nText.",
    "| File | Issue |\n|---|---|\n| src/a.rs:12 | The lock is never released |\n| src/b.rs:40 | The buffer overflows on long input |",
    "- The lock is never released 【F:src/a.rs†L12-L14】\n- The buffer overflows on long input 【F:src/b.rs†L40】",
];

fn document(heading: &str, degree: &str, count: u32, items: &str) -> String {
    let heading = heading
        .replace('#', "\u{1}")
        .replacen("\u{1}\u{1}\u{1}\u{1} ", "#### ", 1)
        .replacen("\u{1}\u{1}\u{1} ", "### ", 1)
        .replacen("\u{1}\u{1} ", "## ", 1)
        .replace('\u{1}', &count.to_string())
        .replace('%', degree);
    format!(
        "# Code review\n\nSome words about the change.\n\n{heading}\n\n{items}\n\n## Verdict\n\nRequest changes\n"
    )
}

/// How languages name the severity of a finding, and how they say it; with what it means.
const LABELS: [(&str, &str, Severity); 24] = [
    ("Severity", "Low", Severity::Low),
    ("重大度", "中", Severity::Medium),
    ("重大度", "軽微", Severity::Low),
    ("深刻度", "高", Severity::High),
    ("優先度", "低", Severity::Low),
    ("严重程度", "中等", Severity::Medium),
    ("严重性", "轻微", Severity::Low),
    ("嚴重程度", "高", Severity::High),
    ("심각도", "중간", Severity::Medium),
    ("심각도", "낮음", Severity::Low),
    ("Schweregrad", "mittel", Severity::Medium),
    ("Schweregrad", "gering", Severity::Low),
    ("Gravité", "faible", Severity::Low),
    ("Sévérité", "moyenne", Severity::Medium),
    ("Severidad", "media", Severity::Medium),
    ("Gravedad", "baja", Severity::Low),
    ("Severidade", "baixa", Severity::Low),
    ("Gravidade", "média", Severity::Medium),
    ("Gravità", "bassa", Severity::Low),
    ("Серьёзность", "средняя", Severity::Medium),
    ("Критичность", "низкая", Severity::Low),
    ("Önem derecesi", "düşük", Severity::Low),
    ("Ernst", "laag", Severity::Low),
    ("Priorytet", "niski", Severity::Low),
];

const LABEL_FORMS: [&str; 7] = [
    "**{label}:** {value}",
    "- **{label}**: {value}",
    "{label}: {value}",
    "{label}：{value}",
    "**{label}: {value}**",
    "- {label}: **{value}**",
    "**{label}:** {value} | **File:** src/a.rs:12",
];

const NOTHING: [&str; 14] = [
    "clean",
    "none",
    "None",
    "n/a",
    "N/A",
    "ok",
    "OK",
    "no issues",
    "passed",
    "✅",
    "なし",
    "无",
    "없음",
    "keine",
];

proptest! {
    #[test]
    fn a_headings_severity_reaches_every_item_under_it(
        heading in select(HEADINGS.to_vec()),
        (degree, severity) in select(DEGREES.to_vec()),
        count in 1_u32..40,
        items in select(ITEMS.to_vec()),
    ) {
        let text = document(heading, degree, count, items);
        let review = read(&text);
        let got: Vec<_> = review
            .findings
            .iter()
            .map(|finding| (finding.file.as_deref(), finding.line, finding.rating.severity))
            .collect();
        prop_assert_eq!(
            got,
            vec![(Some("src/a.rs"), Some(12), severity), (Some("src/b.rs"), Some(40), severity)],
            "{}", text
        );
    }

    #[test]
    fn a_labelled_severity_beats_the_headings_sign(
        (label, value, severity) in select(LABELS.to_vec()),
        form in select(LABEL_FORMS.to_vec()),
        sign in select(vec!["🔴", "🟠", "❌", "🚨", "🔥"]),
        is_listed in any::<bool>(),
    ) {
        let field = form.replace("{label}", label).replace("{value}", value);
        let place = if form.contains("File:") { "" } else { "**File:** `src/a.rs:12`\n\n" };
        let head = if is_listed { "## Issues\n\n" } else { "" };
        let text = format!("{head}### {sign} The lock is never released\n\n{field}\n\n{place}**Problem:** it stays locked.\n\n**Fix:** drop it.\n");
        let review = read(&text);
        prop_assert_eq!(review.findings.len(), 1, "{}", text);
        prop_assert_eq!(review.findings[0].rating.severity, severity, "{}", text);
        prop_assert_eq!(review.findings[0].line, Some(12), "{}", text);
    }

    #[test]
    fn a_severity_column_is_known_in_every_language((label, value, severity) in select(LABELS.to_vec())) {
        let text = format!("| {label} | File | Issue |\n|---|---|---|\n| {value} | src/a.rs:12 | The lock is never released |\n");
        let review = read(&text);
        prop_assert_eq!(review.findings.len(), 1, "{}", text);
        prop_assert_eq!(review.findings[0].rating.severity, severity, "{}", text);
    }

    #[test]
    fn what_is_rated_as_nothing_is_no_finding(word in select(NOTHING.to_vec())) {
        let listed = serde_json::json!({"verdict": "approve", "findings": [{"severity": word, "title": "The lock handling was checked", "file": "src/a.rs"}]});
        prop_assert_eq!(read(&listed.to_string()).findings, vec![]);
        let alone = serde_json::json!({"severity": word, "summary": "The lock handling was checked"});
        prop_assert_eq!(read(&alone.to_string()).findings, vec![]);
        let text = format!("## Findings\n\n### Lock handling\n\n**Severity:** {word}\n\n**File:** src/a.rs:3\n");
        prop_assert_eq!(read(&text).findings, vec![], "{}", text);
        let text = format!("| Severity | File | Issue |\n|---|---|---|\n| {word} | src/a.rs:12 | The lock handling was checked |\n");
        prop_assert_eq!(read(&text).findings, vec![], "{}", text);
    }

    #[test]
    fn a_bold_item_with_prose_behind_it_is_kept(
        lead in select(vec![
            "Validation missing", "Test coverage", "Scope creep", "Error context lost", "Summary table wrong", "Good path only",
            "Deadlock", "Missing null check in the handler", "Results unsorted", "Acceptance check skipped", "Metrics dropped",
            "Next page lost", "Evidence deleted", "Verification skipped", "Overview page broken", "Decision table incomplete",
        ]),
        joint in select(vec![" ", ": ", " — ", " - ", ". "]),
        marker in select(vec!["- ", "* ", "1. ", ""]),
        heading in select(vec!["## Issues", "## Findings (2)", "### High", "## Problems found"]),
    ) {
        let text = format!("# Review\n\n{heading}\n\n{marker}**{lead}**{joint}the handler in `src/a.rs:12` accepts an empty name.\n\n## Verdict\n\nRequest changes\n");
        let review = read(&text);
        prop_assert_eq!(review.findings.len(), 1, "{}", text);
        prop_assert_eq!(review.findings[0].file.as_deref(), Some("src/a.rs"), "{}", text);
        prop_assert_eq!(review.findings[0].line, Some(12), "{}", text);
    }

    #[test]
    fn what_the_prose_calls_fixed_does_not_fill_an_empty_list(
        lead in select(vec![
            "All five are fixed:", "All five findings are now fixed:", "These were all resolved:", "Both are addressed:",
            "I verified that all 3 issues were fixed:", "Everything from round 1 has been fixed:", "The following are fixed:",
        ]),
        verdict in select(vec!["approve", "approved"]),
    ) {
        let text = format!(
            "{lead}\n\n1. **High** `src/a.rs:12` — The lock is never released\n2. **Critical** `src/b.rs:40` — The buffer overflows\n\n```json\n{{\"verdict\": \"{verdict}\", \"findings\": []}}\n```\n"
        );
        let review = read(&text);
        let open: Vec<_> = review.findings.iter().filter(|finding| finding.actionable).collect();
        prop_assert!(open.is_empty(), "{text}\n{open:?}");
    }

    #[test]
    fn what_is_not_all_fixed_stays_a_finding(
        lead in select(vec![
            "All five must be fixed:", "All of these are not fixed:", "Two of five are still not fixed:",
            "These issues should be fixed:", "All are fixed except these issues:",
            "The issues are resolved, but these remain:", "Fixed issues that still fail:",
        ]),
    ) {
        let text = format!("{lead}\n\n1. **High** `src/a.rs:12` — The lock is never released\n2. **Critical** `src/b.rs:40` — The buffer overflows\n");
        let open = read(&text).findings.iter().filter(|finding| finding.actionable).count();
        prop_assert_eq!(open, 2, "{}", text);
    }

    #[test]
    fn a_citation_is_a_place(
        path in "[a-z]{1,8}/[a-z_]{1,8}\\.(rs|py|go|tsx)",
        line in 1_u32..90_000,
        span in 0_u32..400,
        before in any::<bool>(),
    ) {
        let citation = if span == 0 {
            format!("【F:{path}†L{line}】")
        } else {
            format!("【F:{path}†L{line}-L{}】", line + span)
        };
        let said = "The lock is never released";
        let item = if before { format!("{citation} {said}") } else { format!("{said} {citation}") };
        let json = serde_json::json!({"findings": [{"title": said, "severity": "high", "location": citation}]}).to_string();
        for text in [format!("## High\n\n- {item}\n"), format!("## Issues\n\n1. **{said}**\n   It stays. {citation}\n"), json] {
            let review = read(&text);
            prop_assert_eq!(review.findings.len(), 1, "{}", text);
            let finding = &review.findings[0];
            prop_assert_eq!(finding.title.as_str(), said, "{}", text);
            prop_assert_eq!((finding.file.as_deref(), finding.line), (Some(path.as_str()), Some(line)), "{}", text);
            prop_assert_eq!(finding.end_line, (span > 0).then_some(line + span), "{}", text);
        }
    }

    #[test]
    fn the_documents_severity_counts_where_a_diagnostic_has_none(
        (word, severity) in select(vec![("ERROR", Severity::High), ("WARNING", Severity::Medium), ("INFO", Severity::Suggestion)]),
        (own, own_severity) in select(vec![("ERROR", Severity::High), ("WARNING", Severity::Medium), ("INFO", Severity::Suggestion)]),
        unset in select(vec![serde_json::Value::Null, "UNKNOWN_SEVERITY".into(), 0.into(), "".into()]),
    ) {
        let at = |line: u32| serde_json::json!({"path": "src/a.rs", "range": {"start": {"line": line}}});
        let report = serde_json::json!({
            "source": {"name": "mylint"},
            "severity": word,
            "diagnostics": [
                {"message": "one", "location": at(1)},
                {"message": "two", "location": at(2), "severity": unset},
                {"message": "three", "location": at(3), "severity": own, "source": {"name": "other"}},
            ],
        });
        let review = read(&report.to_string());
        let got: Vec<_> = review.findings.iter().map(|finding| (finding.rating.severity, finding.rule.as_deref())).collect();
        prop_assert_eq!(got, vec![(severity, Some("mylint")), (severity, Some("mylint")), (own_severity, Some("other"))]);
    }
}

/// A degree whose heading has nothing under it rates what follows on the same level.
#[test]
fn an_empty_degree_heading_rates_what_follows() {
    let text = "# Review\n\n### High\n\n### 1. The lock is never released\n\n`src/a.rs:12`\n\n### 2. The buffer overflows\n\n`src/b.rs:40`\n\n### Low\n\n### 3. A name is long\n\n`src/c.rs:4`\n\n### Summary\n\nThree findings.\n\n**Verdict:** Request changes\n";
    let review = read(text);
    let got: Vec<_> = review
        .findings
        .iter()
        .map(|finding| (finding.line, finding.rating.severity))
        .collect();
    assert_eq!(
        got,
        [
            (Some(12), Severity::High),
            (Some(40), Severity::High),
            (Some(4), Severity::Low)
        ]
    );
    assert_eq!(review.claim, ReviewClaim::ChangesRequested);
}
