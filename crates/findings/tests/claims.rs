//! What counts as an approval in foreign text, and what never does: two lists, and variants that
//! are made from the first. The test prints the counts.

use findings::{ReviewClaim, read};
use proptest::prelude::*;

const APPROVALS: &str = include_str!("claims/approvals.txt");
const NON_APPROVALS: &str = include_str!("claims/non_approvals.txt");

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
    let entries = entries(NON_APPROVALS);
    let wrong: Vec<_> = entries.iter().filter(|(_, text)| approves(text)).collect();
    println!(
        "non-approvals: {} tried, {} read as approval",
        entries.len(),
        wrong.len()
    );
    assert!(entries.len() >= 300);
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
            .filter(|text| !text.contains(". ") && !text.contains(", "))
            .collect();
        let text = approvals[which % approvals.len()].trim_end_matches(['.', '!', '*', '`', '✅', '👍', ' ']);
        prop_assert!(!approves(&format!("{text} {word}")), "{text} {word}");
        prop_assert!(!approves(&format!("{word} {text}")), "{word} {text}");
    }
}
