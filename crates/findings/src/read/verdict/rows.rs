//! Accounts for the rows of a table with an approval. A row is harmless only if its label is
//! known and its value speaks for the change, or if it is a minor finding.
//!
//! Tables next to a verdict are easy to overlook: "Security | poor" two rows below an approval. So
//! each row is accounted for, and an unknown row makes the approval doubtful.

use crate::severity::Severity;

use super::super::topic;
use super::approval::{self, ApprovalMatch};
use super::{candidates, cues, harmless, signs, stops, surroundings};

/// Heads of columns that say nothing about the change.
const HEADS: &[&str] = &[
    "",
    "#",
    "field",
    "value",
    "item",
    "items",
    "check",
    "checks",
    "result",
    "results",
    "status",
    "state",
    "name",
    "area",
    "aspect",
    "category",
    "topic",
    "criterion",
    "criteria",
    "met",
    "question",
    "answer",
    "key",
    "description",
    "dimension",
    "metric",
    "severity",
    "file",
    "files",
    "line",
    "location",
    "issue",
    "finding",
    "fix",
    "suggestion",
    "comment",
    "notes",
    "note",
    "detail",
    "details",
    "type",
    "id",
    "no",
    "evidence",
    "title",
    "test",
    "tests",
    "feld",
    "wert",
    "prüfung",
    "ergebnis",
    "kriterium",
    "champ",
    "valeur",
    "résultat",
    "critère",
    "campo",
    "valor",
    "resultado",
    "criterio",
    "critério",
    "valore",
    "risultato",
    "项目",
    "值",
    "结果",
    "項目",
    "値",
    "結果",
    "поле",
    "значение",
    "результат",
    "항목",
    "값",
    "결과",
];

/// Values that speak for the change, behind a label that names a quality or a check.
const GOOD: &[&str] = &[
    "yes",
    "ok",
    "okay",
    "pass",
    "passed",
    "passes",
    "passing",
    "all pass",
    "all passed",
    "all passing",
    "all green",
    "green",
    "good",
    "very good",
    "excellent",
    "clean",
    "done",
    "complete",
    "met",
    "fully met",
    "satisfied",
    "correct",
    "fine",
    "success",
    "successful",
    "covered",
    "ja",
    "gut",
    "bestanden",
    "erfüllt",
    "grün",
    "oui",
    "bon",
    "réussi",
    "rempli",
    "sí",
    "bien",
    "bueno",
    "cumplido",
    "pasan",
    "sim",
    "bom",
    "cumprido",
    "passam",
    "sì",
    "buono",
    "superato",
    "是",
    "通过",
    "良好",
    "はい",
    "合格",
    "良好",
    "да",
    "хорошо",
    "пройдены",
    "예",
    "통과",
    "좋음",
];

/// Returns whether every row is accounted for.
pub(super) fn are_harmless(rows: &[Vec<String>]) -> bool {
    rows.iter()
        .enumerate()
        .all(|(index, row)| is_harmless(row, index == 0))
}

fn is_harmless(row: &[String], first: bool) -> bool {
    let cells: Vec<&str> = row.iter().map(|cell| bare(cell)).collect();
    // Only the first row may be the head of the table.
    if cells.iter().all(|cell| cell.is_empty()) || (first && cells.iter().all(is_head)) {
        return true;
    }
    if is_minor_finding(&cells) {
        return true;
    }
    match cells.as_slice() {
        [label, value] => is_field(label, value),
        [label, values @ ..] => values
            .iter()
            .filter(|value| !value.is_empty())
            .all(|value| is_field(label, value)),
        [] => true,
    }
}

fn bare(cell: &str) -> &str {
    cell.trim_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '`' | '_'))
}

fn is_head(cell: &&str) -> bool {
    let lower = cell.to_lowercase();
    HEADS.contains(&lower.as_str()) || approval::is_label(cell)
}

/// Returns whether a row rates itself as minor and has nothing that contradicts this.
fn is_minor_finding(cells: &[&str]) -> bool {
    let mut rated = false;
    for cell in cells {
        if let Some(severity) = Severity::from_word(cell) {
            if severity.is_must_fix() {
                return false;
            }
            // "Note" and "info" are also labels of a remark, so they rate nothing.
            rated |= !surroundings::is_note(cell);
        }
    }
    rated
        // With two cells the second is the value of a label, and no rating of a finding.
        && cells.len() > 2
        && cells.iter().all(|cell| {
            !signs::has_grave(cell) && !stops::is_disaster(cell) && !cues::forbids(cell)
        })
}

/// Returns whether the value behind a label supports the change, or is a fact about the review.
pub(super) fn is_field(label: &str, value: &str) -> bool {
    let label = label.trim_end_matches([':', '：', ' ']);
    if signs::has_doubtful(label) || signs::has_doubtful(value) || signs::has_vote(value) {
        return false;
    }
    if approval::is_label(label) {
        return is_whole_or_harmless(approval::match_labelled(value));
    }
    if candidates::answer_to_question(label).is_some() || approval::is_question(label) {
        return is_whole_or_harmless(approval::match_yes(value));
    }
    if surroundings::is_metadata(label) {
        return surroundings::is_harmless_metadata(label, value);
    }
    let lower = value.to_lowercase();
    let plain = lower
        .trim_end_matches(['.', '!', '。', ' '])
        .trim_matches(|c: char| matches!(c, '✅' | '✔' | '☑' | '✓' | '🟢' | '\u{fe0f}' | ' '));
    let nothing = topic::is_nothing(value) && value.len() < 40 && !cues::objects(value)
        || matches!(
            plain,
            "0" | "no"
                | "none"
                | "nein"
                | "non"
                | "não"
                | "нет"
                | "无"
                | "なし"
                | "없음"
                | "-"
                | "—"
                | "–"
        );
    // Behind such a label only "none" is harmless. A number above zero counts findings.
    if names_trouble(label) {
        return nothing;
    }
    if !harmless::is_known(label) {
        return false;
    }
    let lower_label = label.to_lowercase();
    // Low is good for a risk and bad for a confidence, so both have lists of their own.
    if lower_label.contains("risk") {
        return matches!(plain, "low" | "none" | "minimal" | "very low");
    }
    if lower_label.contains("confidence") {
        return matches!(plain, "high" | "very high");
    }
    plain.is_empty() && !value.is_empty() || GOOD.contains(&plain) || harmless::is_harmless(value)
}

fn is_whole_or_harmless(found: Option<ApprovalMatch<'_>>) -> bool {
    match found {
        Some(ApprovalMatch::Whole) => true,
        Some(ApprovalMatch::Explained(rest)) => harmless::is_harmless(rest),
        None => false,
    }
}

/// Returns whether a label counts or lists something bad, so that only "none" is harmless.
fn names_trouble(label: &str) -> bool {
    const STEMS: [&str; 34] = [
        "issue",
        "problem",
        "bug",
        "finding",
        "blocker",
        "blocking",
        "critical",
        "high",
        "major",
        "medium",
        "minor",
        "low",
        "error",
        "warning",
        "failure",
        "concern",
        "regression",
        "defect",
        "violation",
        "vulnerab",
        "caveat",
        "objection",
        "open",
        "remaining",
        "befund",
        "fehler",
        "mängel",
        "problèm",
        "hallazgo",
        "achado",
        "问题",
        "問題",
        "замечан",
        "문제",
    ];
    let lower = label.to_lowercase();
    STEMS.iter().any(|stem| lower.contains(stem))
        && !lower.contains("handling")
        && !lower.contains("regression test")
        && !lower.starts_with("confidence")
}
