//! What counts as an approval in foreign text, and what never does: two lists, and variants that
//! are made from the first. The test prints the counts.

use findings::{ReviewClaim, read};
use proptest::prelude::*;

const APPROVALS: &str = include_str!("claims/approvals.txt");
const NON_APPROVALS: &str = include_str!("claims/non_approvals.txt");
/// An approving value, and something in the rest of the document that is not accounted for.
const UNACCOUNTED: &str = include_str!("claims/unaccounted.txt");

/// The entries of a list, each with its class.
fn entries(list: &str) -> Vec<(&str, String)> {
    let mut class = "";
    let mut entries = Vec::new();
    for line in list.lines() {
        let is_class = line.starts_with('[')
            && line.ends_with(']')
            && !line.contains(['{', '"'])
            && line.len() > 2;
        if is_class {
            class = line.trim_matches(['[', ']']);
        } else if !line.is_empty() && !line.ends_with("Our own sentences.") {
            entries.push((class, unescaped(line)));
        }
    }
    entries
}

/// `\n` and `\u{…}` as the characters that they stand for.
fn unescaped(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('n') {
            out.push('\n');
            rest = after;
        } else if let Some((digits, after)) = rest
            .strip_prefix("u{")
            .and_then(|inner| inner.split_once('}'))
        {
            let code = u32::from_str_radix(digits, 16).unwrap_or(0);
            out.push(char::from_u32(code).unwrap_or('\u{fffd}'));
            rest = after;
        } else {
            out.push('\\');
        }
    }
    out.push_str(rest);
    out
}

fn approves(text: &str) -> bool {
    read(text).claim == ReviewClaim::Approved
}

#[test]
fn no_text_of_the_list_is_read_as_an_approval() {
    let mut entries = entries(NON_APPROVALS);
    entries.extend(self::entries(UNACCOUNTED));
    let wrong: Vec<_> = entries.iter().filter(|(_, text)| approves(text)).collect();
    println!(
        "non-approvals: {} tried, {} read as approval",
        entries.len(),
        wrong.len()
    );
    assert!(entries.len() >= 1_100);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn clear_approvals_are_recognised() {
    let entries = entries(APPROVALS);
    let missed: Vec<_> = entries
        .iter()
        .filter(|(_, text)| !approves(text))
        .map(|(class, text)| (class, text, read(text).remarks))
        .collect();
    println!(
        "approvals: {} tried, {} recognised",
        entries.len(),
        entries.len() - missed.len()
    );
    assert!(entries.len() >= 160);
    assert!(missed.len() * 20 <= entries.len(), "{missed:#?}");
}

/// Text behind an approval, on its line, that takes it back.
const TAILS: &[&str] = &[
    " once the leak is fixed",
    " after rework",
    " if CI is green",
    ", but the tests fail",
    ", except for the leak",
    " (pending CI)",
    " (not)",
    "?",
    "…",
    "...",
    "/reject",
    " | reject",
    " or reject",
    " nothing",
    " with required changes",
    " — after the fix",
    ", sobald der Fehler behoben ist",
    ", aber ein Test fehlt",
    " sous réserve des tests",
    ", mais il manque un test",
    " cuando pasen las pruebas",
    ", pero falta una prueba",
    " desde que os testes passem",
    ", mas falta um teste",
    "，但需要修改",
    "前必须修复",
    "（修复后）",
    "ただし修正が必要",
    "できません",
    "しません",
    ", если тесты пройдут",
    ", но пароль в журнале",
    " после исправления",
    ", ma manca un test",
    " 불가",
];

/// Paragraphs behind an approval that take it back.
const AFTER: &[&str] = &[
    "I request changes.",
    "Do not merge.",
    "I cannot approve this.",
    "But fix the leak first.",
    "However, the loop never ends.",
    "Only if the tests pass.",
    "That was wrong.",
    "Scratch that.",
    "I could not read two of the files.",
    "I ran out of context.",
    "The review is incomplete.",
    "The password is logged in plain text.",
    "Please rotate the key.",
    "Verdict: reject",
    "REJECTED",
    "Urteil: abgelehnt",
    "Allerdings fehlt ein Test.",
    "Das kann ich nicht genehmigen.",
    "Cependant, la boucle ne se termine jamais.",
    "Je ne peux pas approuver ce changement.",
    "Sin embargo, hay una fuga.",
    "No puedo aprobar este cambio.",
    "Porém, o laço nunca termina.",
    "Não posso aprovar esta alteração.",
    "但是密码以明文记录。",
    "无法批准此更改。",
    "ただし、パスワードがログに出ています。",
    "承認できません。",
    "Однако цикл не заканчивается.",
    "Не могу одобрить это изменение.",
    "{\"verdict\": \"reject\"}",
    "## Critical\n\n1. `a.rs:3` — SQL injection.",
    "- **High** `a.rs:3` — The lock is taken twice.",
    "- [P0] a.rs:3 — Data loss.",
    "| Severity | File | Issue |\n|---|---|---|\n| Critical | a.rs:3 | The key is in the log |",
    "## Round 2\n\nThe cache leaks.",
    "```rust\nfn main() {",
    "And then the",
];

/// What makes the words after it somebody else's.
const BEFORE: &[&str] = &[
    "The author wrote:\n\n",
    "Bob says:\n\n",
    "Example:\n\n",
    "The answer must look like this:\n\n",
    "You are a reviewer. Answer with:\n\n",
    "Der Autor schreibt:\n\n",
    "L'auteur a écrit :\n\n",
    "El autor escribió:\n\n",
    "O autor escreveu:\n\n",
    "作者写道：\n\n",
    "作者の記述：\n\n",
    "Автор пишет:\n\n",
    "I request changes.\n\n",
    "## Previous review\n\n",
    "## Example\n\n",
    "diff --git a/r.md b/r.md\n@@ -1 +1 @@\n",
];

/// What a text is put into.
const AROUND: &[(&str, &str)] = &[
    ("\"", "\""),
    ("“", "”"),
    ("«", "»"),
    ("「", "」"),
    ("'", "'"),
    ("~~", "~~"),
    ("<s>", "</s>"),
    ("<del>", "</del>"),
    ("<!-- ", " -->"),
    ("<blockquote>\n", "\n</blockquote>"),
    ("<example>\n", "\n</example>"),
    ("<pre>\n", "\n</pre>"),
    ("<details>\n<summary>Old</summary>\n\n", "\n\n</details>"),
    ("- [ ] ", ""),
    ("[", "]"),
    ("(", ")"),
    ("\u{1b}[9m", "\u{1b}[0m"),
    ("\u{202e}", ""),
];

/// What stands before every line of a quotation.
const LINE_MARKS: &[&str] = &["> ", "+", "+ ", "    ", "\t", "| "];

fn is_json(text: &str) -> bool {
    text.starts_with('{')
}

/// Every variant of one approval that is none.
fn variants(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let one_line = !text.trim_end().contains('\n');
    let heads = text.starts_with(['#', '-', '|']);
    let trimmed = text.trim_end();
    if !is_json(text) && one_line && !heads {
        let bare = trimmed.trim_end_matches(['.', '!', '。', '*', '`', '✅', '👍', ' ']);
        let explained = bare.contains(". ") || bare.contains(", ");
        let tails = TAILS
            .iter()
            .filter(|tail| !explained || tail.trim() != "nothing");
        out.extend(tails.map(|tail| format!("{bare}{tail}")));
        out.extend(
            AROUND
                .iter()
                .map(|(open, close)| format!("{open}{text}{close}")),
        );
    }
    out.extend(AFTER.iter().map(|after| format!("{trimmed}\n\n{after}")));
    out.extend(BEFORE.iter().map(|before| format!("{before}{text}")));
    for mark in LINE_MARKS {
        let lines: Vec<String> = text.lines().map(|line| format!("{mark}{line}")).collect();
        // White space around a whole JSON document is no quotation.
        if !(is_json(text) && mark.trim().is_empty()) {
            out.push(lines.join("\n"));
        }
    }
    if !is_json(text) && !text.contains("```") {
        out.push(format!("```\n{text}\n```"));
        out.push(format!("```\n{text}"));
        out.push(format!("~~~text\n{text}\n~~~"));
    }
    if let Some(inner) = text.strip_prefix('{') {
        out.push(format!("{{\"error\": \"could not read a.rs\", {inner}"));
        out.push(format!("{{\"truncated\": true, {inner}"));
        out.push(format!("{{\"verdict\": \"reject\", {inner}"));
        out.push(format!("{{\"approved\": false, {inner}"));
        out.push(format!("{{\"status\": \"failed\", {inner}"));
        out.push(format!(
            "{{\"comment\": \"only once the leak is fixed\", {inner}"
        ));
        out.push(format!(
            "{{\"blocking_issues\": [\"The key is committed\"], {inner}"
        ));
        out.push(format!("{{\"problems\": [{{\"severity\": \"critical\", \"title\": \"Key in the log\", \"file\": \"a.go\"}}], {inner}"));
        out.push(format!("[{text}, {{\"verdict\": \"reject\"}}]"));
        out.push(format!("[{text}, {text}]"));
        out.push(format!("{{\"example\": {text}}}"));
        out.push(format!("{{\"previous\": {text}}}"));
        out.push(format!("{text}\n{{\"verdict\": \"request_changes\"}}"));
    }
    for (label, other) in [
        ("Verdict:", "Previous verdict:"),
        ("Verdict:", "CI verdict:"),
        ("Verdict:", "Status:"),
        ("Verdict:", "Verdict if fixed:"),
        ("Decision:", "Bob's decision:"),
        ("\"verdict\"", "\"status\""),
        ("\"verdict\"", "\"expected_verdict\""),
        ("\"approved\"", "\"mergeable\""),
        ("Urteil:", "Früheres Urteil:"),
        ("Veredicto:", "Veredicto anterior:"),
        ("结论：", "上一轮结论："),
        ("判定：", "前回の判定："),
        ("Вердикт:", "Прежний вердикт:"),
    ] {
        if text.contains(label) && !text.contains("Code review") {
            out.push(text.replace(label, other));
        }
    }
    out
}

#[test]
fn no_variant_of_an_approval_approves() {
    let mut tried = 0;
    let mut wrong = Vec::new();
    for (_, text) in entries(APPROVALS) {
        for variant in variants(&text) {
            tried += 1;
            if approves(&variant) {
                wrong.push(variant);
            }
        }
    }
    println!("variants: {tried} tried, {} read as approval", wrong.len());
    assert!(tried > 3000);
    assert!(
        wrong.is_empty(),
        "{} {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(60)]
    );
}

/// A long review that approves: more words than are judged one by one.
fn long_review() -> String {
    let sentence =
        "I read the whole diff and ran the tests. All tests pass and the code is clean. ";
    format!(
        "# Review\n\n## Summary\n\n{}\n\n",
        sentence.repeat(14).trim_end()
    )
}

// Length must not hide the text next to an approval.
#[test]
fn a_long_review_hides_nothing() {
    let head = long_review();
    assert!(approves(&format!("{head}## Verdict\n\nApprove\n")));
    let texts = entries(UNACCOUNTED);
    // Text before the verdict of a long review is searched for known phrases only.
    let described = ["## Summary", "## What I checked", "Votes:", "Panel:"];
    // So are its sections, except those that announce remarks.
    let remarks = [
        "note",
        "caveat",
        "comment",
        "remark",
        "appendix",
        "observ",
        "postscript",
    ];
    let in_section = |text: &str| {
        let lower = text.to_lowercase();
        let section = lower.split("\n\n## ").nth(1);
        section.is_some_and(|section| !remarks.iter().any(|word| section.starts_with(word)))
    };
    let texts: Vec<_> = texts
        .iter()
        .filter(|(_, text)| !in_section(text))
        .filter(|(_, text)| !is_json(text) && !described.iter().any(|head| text.starts_with(head)))
        .collect();
    let mut wrong = Vec::new();
    for (_, text) in &texts {
        let long = format!("{head}{text}");
        if approves(&long) {
            wrong.push(long[head.len()..].to_owned());
        }
    }
    println!(
        "behind a long review: {} tried, {} read as approval",
        texts.len(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Rows that contradict an approval or that nobody can account for.
const ROWS: &[&str] = &[
    "| Blocking | The token is in the log |",
    "| Security | ❌ |",
    "| Tests | ⚠️ |",
    "| Tests | 3 fail |",
    "| Safe to deploy | No |",
    "| Score | 1/10 |",
    "| Bob | reject |",
    "| Sicherheit | Das Passwort steht im Protokoll |",
    "| Tests | deux échouent |",
    "| Pruebas | fallan dos |",
    "| Segurança | a senha aparece no log |",
    "| 安全 | 令牌写入日志 |",
    "| 安全性 | 鍵がログに残る |",
    "| Безопасность | токен попадает в журнал |",
    "| 보안 | 토큰이 로그에 남습니다 |",
];
/// Rows that are accounted for.
const GOOD_ROWS: &[&str] = &[
    "| Tests | all pass |",
    "| Commit | 0123abc |",
    "| Findings | None |",
];

/// Sections that hold a defect, under every kind of heading.
const HEADINGS: &[&str] = &[
    "Notes",
    "Caveats",
    "Comments",
    "Appendix",
    "Remarks",
    "Observations",
    "Details",
    "Anmerkungen",
    "Hinweise",
    "Remarques",
    "Notas",
    "Observações",
    "Osservazioni",
    "备注",
    "備考",
    "Примечания",
    "비고",
    "Results",
    "Evidence",
    "Follow-up",
    "Misc",
];
const DEFECTS: &[&str] = &[
    "The session token ends up in the access log.",
    "Refunds are paid to the wrong account.",
    "Every second login ends in a 500.",
    "This must not go out.",
    "Die zweite Buchung geht verloren.",
    "La sauvegarde a disparu.",
    "La copia de seguridad desaparece.",
    "令牌会写进访问日志。",
    "トークンがログに書かれます。",
    "Токен попадает в журнал доступа.",
    "토큰이 로그에 남습니다.",
    "❌",
    "👎",
    "🤔",
    "-2",
];
const BAD_SIGNS: &[&str] = &[
    "❌",
    "⚠️",
    "🟡",
    "🟠",
    "🔴",
    "👎",
    "🤔",
    "⛔",
    "🚫",
    "🙃",
    "☐",
    "✗",
    "★☆☆☆☆",
    "-1",
    "0/10",
    ":(",
];
const FLAGS: &[&str] = &[
    "\"blocking\": true",
    "\"requires_changes\": true",
    "\"complete\": false",
    "\"truncated\": true",
    "\"dry_run\": true",
    "\"errors\": [\"x\"]",
    "\"confidence\": 0",
    "\"complete\": 0",
    "\"complete\": \"false\"",
    "\"blocking\": 1",
    "\"blocking\": \"yes\"",
    "\"second\": {\"verdict\": \"reject\"}",
    "\"reviewers\": [{\"verdict\": \"approve\"}, {\"verdict\": \"reject\"}]",
    "\"score\": 1",
    "\"flag\": false",
    "\"icon\": \"❌\"",
    "\"vote\": -1",
    "\"is_final\": false",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn no_order_of_rows_hides_one(bad in 0..ROWS.len(), at in 0_usize..4, long in any::<bool>(), verdict in 0_usize..3) {
        let verdict = ["| Verdict | Approve |", "| Decision | ✅ Approved |", "| Ready to merge? | Yes |"][verdict];
        let mut rows = vec![verdict];
        rows.extend(GOOD_ROWS);
        rows.insert(at, ROWS[bad]);
        let head = if long { long_review() } else { String::new() };
        let table = format!("{head}| Field | Value |\n|---|---|\n{}\n", rows.join("\n"));
        prop_assert!(!approves(&table), "{table}");
    }

    #[test]
    fn no_section_hides_a_defect(
        heading in 0..HEADINGS.len(), defect in 0..DEFECTS.len(), form in 0_usize..5, first in any::<bool>(),
        long in any::<bool>(),
    ) {
        let defect = DEFECTS[defect];
        let body = match form {
            0 => defect.to_owned(),
            1 => format!("- {defect}"),
            2 => format!("1. {defect}"),
            3 => format!("All tests pass.\n\n{defect}"),
            _ => format!("> {defect}"),
        };
        let section = format!("## {}\n\n{body}", HEADINGS[heading]);
        // In a long review a quotation or a list before the verdict is material, not an answer, and
        // only sections that announce remarks are read word by word.
        let remarks = heading < 6;
        prop_assume!(!(long && (first || form == 4 || !remarks)));
        let head = if long { long_review() } else { String::new() };
        let verdict = "## Verdict\n\nApprove";
        let text = if first { format!("{head}{section}\n\n{verdict}") } else { format!("{head}{verdict}\n\n{section}") };
        prop_assert!(!approves(&text), "{text}");
    }

    #[test]
    fn no_sign_is_passed_over(which in 0_usize..1000, sign in 0..BAD_SIGNS.len(), place in 0_usize..4) {
        let approvals: Vec<String> = entries(APPROVALS)
            .into_iter()
            .map(|(_, text)| text)
            .filter(|text| !is_json(text) && !text.contains("```"))
            .collect();
        let text = approvals[which % approvals.len()].trim_end();
        let sign = BAD_SIGNS[sign];
        let changed = match place {
            0 => format!("{text}\n\n{sign}"),
            1 => format!("{sign}\n\n{text}"),
            2 => format!("{text}\n\n- {sign} Tests"),
            _ => format!("{text}\n\nTests: {sign}"),
        };
        prop_assert!(!approves(&changed), "{changed}");
    }

    #[test]
    fn no_flag_is_passed_over(which in 0_usize..1000, flag in 0..FLAGS.len(), last in any::<bool>()) {
        let approvals: Vec<String> = entries(APPROVALS)
            .into_iter()
            .map(|(_, text)| text)
            .filter(|text| is_json(text) && text.ends_with('}'))
            .collect();
        let text = &approvals[which % approvals.len()];
        let flag = FLAGS[flag];
        let changed = if last {
            format!("{}, {flag}}}", &text[..text.len() - 1])
        } else {
            format!("{{{flag}, {}", &text[1..])
        };
        prop_assert!(!approves(&changed), "{changed}");
    }
}

/// Verdicts by language, for the sentences of the list.
const VERDICTS: [(&str, &str); 10] = [
    ("en", "Verdict: approve"),
    ("de", "Urteil: genehmigt"),
    ("fr", "Verdict : approuvé"),
    ("es", "Veredicto: aprobado"),
    ("pt", "Veredito: aprovado"),
    ("it", "Verdetto: approvato"),
    ("ru", "Вердикт: одобрено"),
    ("zh", "结论：批准"),
    ("ja", "判定：承認"),
    ("ko", "판정: 승인"),
];

#[test]
fn a_defect_in_plain_words_is_not_passed_over_in_a_short_text() {
    let (mut verdict, mut tried) = ("", 0);
    for line in include_str!("claims/plain_defects.txt").lines() {
        if let Some(language) = line.strip_prefix("## ") {
            verdict = VERDICTS.iter().find(|one| one.0 == language).unwrap().1;
            assert!(approves(verdict), "{verdict}");
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let json = serde_json::json!({"verdict": "approve", "summary": line});
        let notes = serde_json::json!({"verdict": "approve", "findings": [], "notes": [line]});
        let forms = [
            format!("{verdict}\n\n{line}\n"),
            format!("{line}\n\n{verdict}\n"),
            format!("{verdict}. {line}\n"),
            format!("{verdict}\n\n- [x] {line}\n"),
            format!("{verdict}\n\n## Summary\n\n- {line}\n"),
            format!("| Item | Result |\n|---|---|\n| Verdict | approve |\n| Summary | {line} |\n"),
            json.to_string(),
            notes.to_string(),
        ];
        for text in forms {
            tried += 1;
            assert!(!approves(&text), "{text}");
        }
    }
    println!("defects in plain words: {tried} tried, 0 read as approval");
}

/// Every limit that cuts makes the claim unknown.
#[test]
fn a_refusal_behind_a_limit_is_not_passed_over() {
    for lines in [10, 4_998, 5_001, 50_000] {
        let code = "x = 1\n".repeat(lines);
        let text = format!("Verdict: approve\n\n```\n{code}Do not merge this change today.\n```\n");
        assert!(!approves(&text), "{lines} lines of code");
    }
    for cells in [10, 6_000, 18_000, 60_000] {
        let row = " a |".repeat(cells);
        let text =
            format!("| Verdict | Approve |\n|---|---|\n| Security | it leaks the key |{row}");
        assert!(!approves(&text), "{cells} cells");
    }
}

#[test]
fn json_that_is_cut_anywhere_does_not_approve() {
    for (_, text) in entries(APPROVALS) {
        if !is_json(&text) {
            continue;
        }
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            assert!(!approves(&text[..end]), "{}", &text[..end]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    /// Two of the changes at once, in any order, and a benign text around them.
    #[test]
    fn no_mixture_of_changes_approves(
        which in 0_usize..1000,
        after in 0_usize..AFTER.len(),
        other in 0_usize..AFTER.len(),
        before in 0_usize..BEFORE.len() * 2,
        blank in 0_usize..3,
    ) {
        let approvals = entries(APPROVALS);
        let text = &approvals[which % approvals.len()].1;
        let before = BEFORE.get(before).copied().unwrap_or_default();
        let gap = ["\n\n", "\n\nAll tests pass.\n\n", "\n\n---\n\n"][blank];
        let mixed = format!("{before}{}{gap}{}\n\n{}", text.trim_end(), AFTER[after], AFTER[other]);
        prop_assert!(!approves(&mixed), "{mixed}");
    }

    /// A word more on the line of an approval makes it something else.
    #[test]
    fn a_word_more_never_approves(which in 0_usize..1000, word in "[a-z]{2,9}") {
        let approvals: Vec<String> = entries(APPROVALS)
            .into_iter()
            .map(|(_, text)| text)
            .filter(|text| !text.contains(['\n', '{', '|', '。', '?']))
            // A second sentence is judged by its words, and a random word may be a harmless one.
            .filter(|text| ![". ", "! ", ", "].iter().any(|end| text.contains(end)))
            .collect();
        let text = approvals[which % approvals.len()].trim_end_matches(['.', '!', '*', '`', '✅', '👍', ' ']);
        prop_assert!(!approves(&format!("{text} {word}")), "{text} {word}");
        prop_assert!(!approves(&format!("{word} {text}")), "{word} {text}");
    }
}
