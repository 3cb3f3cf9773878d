//! The closed lists of what approves, and how a value is compared with them.
//!
//! An approval counts only if it is the whole of a value. "Whole" is decided here: the value is
//! one phrase of a list, in any letter case, perhaps in bold or between back-ticks or behind a
//! sign such as ✅, and then it ends, or a new sentence begins that [`super::cues`] has to vouch
//! for. A quotation mark, a bracket, a question mark or one more word makes it something else.

/// How an approving phrase stands in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::read) enum Answer<'a> {
    /// The value is the phrase and nothing else.
    Whole,
    /// The phrase ends, and this text follows it.
    Explained(&'a str),
}

/// Phrases that approve where a label or a key says that a verdict follows.
const LABELLED: &[&str] = &[
    "approve",
    "approved",
    "approves",
    "approval granted",
    "i approve",
    "we approve",
    "approve this",
    "approve this change",
    "approve this pr",
    "i approve this change",
    "i approve this pr",
    "approved for merge",
    "approved to merge",
    "approve and merge",
    "approved without changes",
    "approve without changes",
    "approve with comments",
    "approved with comments",
    "approve with suggestions",
    "approved with suggestions",
    "approve with nits",
    "approved with nits",
    "approve with follow up",
    "approve with minor comments",
    "approve with minor suggestions",
    "approve with minor nits",
    "accept",
    "accepted",
    "accept with comments",
    "accept with nits",
    "accept with follow up",
    "lgtm",
    "looks good to me",
    "ship it",
    "ready to merge",
    "ready for merge",
    "ready to be merged",
    "good to merge",
    "safe to merge",
    "signed off",
    "countersigned",
    "no changes requested",
    "no changes required",
    "no changes needed",
    // German
    "genehmigt",
    "genehmigen",
    "genehmigung erteilt",
    "ich genehmige",
    "freigegeben",
    "freigabe erteilt",
    "angenommen",
    "akzeptiert",
    "zugestimmt",
    "bereit zum mergen",
    "kann gemergt werden",
    "keine änderungen nötig",
    "keine änderungen erforderlich",
    // French
    "approuvé",
    "approuvée",
    "approuver",
    "j'approuve",
    "accepté",
    "acceptée",
    "validé",
    "validée",
    "prêt à fusionner",
    "prête à fusionner",
    "prêt à être fusionné",
    "aucune modification requise",
    // Spanish
    "aprobado",
    "aprobada",
    "aprobar",
    "apruebo",
    "se aprueba",
    "aceptado",
    "aceptada",
    "listo para fusionar",
    "lista para fusionar",
    // Portuguese
    "aprovado",
    "aprovada",
    "aprovar",
    "aprovo",
    "aceito",
    "pronto para merge",
    "pronto para mesclar",
    // Italian
    "approvato",
    "approvata",
    "approvare",
    "approvo",
    "accettato",
    "accettata",
    "pronto per il merge",
    // Chinese
    "批准",
    "已批准",
    "批准合并",
    "同意合并",
    "可以合并",
    "可合并",
    "同意",
    "通过",
    "已通过",
    "审查通过",
    "评审通过",
    "审核通过",
    "核准",
    "通過",
    "批准合併",
    "可以合併",
    // Japanese
    "承認",
    "承認します",
    "承認しました",
    "承認する",
    "承認済み",
    "マージ可",
    "マージ可能",
    "マージ可能です",
    // Russian
    "одобрено",
    "одобрен",
    "одобрена",
    "одобряю",
    "одобрить",
    "принято",
    "утверждено",
    "готово к слиянию",
    "можно сливать",
    // Korean
    "승인",
    "승인됨",
    "승인합니다",
    "승인함",
    "병합 가능",
];

/// Phrases that approve behind the label of a verdict, but that programs also print for a test
/// run: they count in prose behind a label, and never under a key of a test report.
const GENERIC: &[&str] = &["pass", "passed", "merge"];

/// Phrases that approve as a line or a document of their own.
const ALONE: &[&str] = &[
    "approve",
    "approved",
    "approval granted",
    "i approve",
    "i approve this",
    "i approve this change",
    "i approve this pr",
    "i approve this pull request",
    "i approve this merge request",
    "i approve this patch",
    "i approve this commit",
    "i approve the change",
    "approved for merge",
    "approved without changes",
    "lgtm",
    "looks good to me",
    "ship it",
    "ready to merge",
    "genehmigt",
    "ich genehmige",
    "ich genehmige die änderung",
    "ich genehmige diese änderung",
    "freigegeben",
    "approuvé",
    "approuvée",
    "j'approuve",
    "j'approuve cette modification",
    "aprobado",
    "aprobada",
    "apruebo",
    "apruebo este cambio",
    "aprovado",
    "aprovada",
    "aprovo",
    "aprovo esta alteração",
    "approvato",
    "approvo",
    "批准",
    "已批准",
    "批准合并",
    "同意合并",
    "可以合并",
    "审查通过",
    "评审通过",
    "承認",
    "承認します",
    "承認しました",
    "одобрено",
    "одобряю",
    "승인",
    "승인합니다",
];

/// Labels behind which a verdict on the change itself stands. Whole labels only: the verdict of
/// somebody else, of an earlier round or of a test is another label.
const LABELS: &[&str] = &[
    "verdict",
    "the verdict",
    "my verdict",
    "final verdict",
    "overall verdict",
    "review verdict",
    "code review verdict",
    "decision",
    "my decision",
    "final decision",
    "overall decision",
    "review decision",
    "approval decision",
    "merge decision",
    "recommendation",
    "my recommendation",
    "final recommendation",
    "overall recommendation",
    "review recommendation",
    "merge recommendation",
    "urteil",
    "gesamturteil",
    "verdikt",
    "votum",
    "entscheidung",
    "empfehlung",
    "décision",
    "décision finale",
    "verdict final",
    "recommandation",
    "veredicto",
    "veredicto final",
    "decisión",
    "decisión final",
    "dictamen",
    "recomendación",
    "veredito",
    "veredito final",
    "decisão",
    "decisão final",
    "parecer",
    "recomendação",
    "verdetto",
    "decisione",
    "raccomandazione",
    "结论",
    "最终结论",
    "审查结论",
    "评审结论",
    "审查结果",
    "评审结果",
    "审核结果",
    "裁决",
    "决定",
    "判定",
    "結論",
    "決定",
    "最終判定",
    "総合判定",
    "レビュー結果",
    "вердикт",
    "решение",
    "итоговое решение",
    "рекомендация",
    "заключение",
    "판정",
    "결정",
    "결론",
    "검토 결과",
];

/// Titles of a document that may end in its verdict: `# Code review — approve`.
const TITLES: &[&str] = &[
    "review",
    "code review",
    "pr review",
    "pull request review",
    "merge request review",
    "agent review",
    "review report",
    "code review report",
    "review result",
    "final review",
    "prüfung",
    "codeprüfung",
    "revue",
    "revue de code",
    "revisión",
    "revisión de código",
    "revisão",
    "revisão de código",
    "代码审查",
    "审查",
    "评审",
    "コードレビュー",
    "レビュー",
    "ревью",
    "ревью кода",
];

/// Questions to which a yes approves the change.
const QUESTIONS: &[&str] = &[
    "approve",
    "approved",
    "do you approve",
    "do you approve this change",
    "lgtm",
    "ready to merge",
    "ready for merge",
    "ready to be merged",
    "is this ready to merge",
    "is it ready to merge",
    "safe to merge",
    "can this be merged",
    "can it be merged",
    "can this merge",
    "can we merge",
    "can we merge this",
    "should this be merged",
    "should this merge",
    "genehmigt",
    "bereit zum mergen",
    "kann das gemergt werden",
    "prêt à fusionner",
    "approuvé",
    "aprobado",
    "listo para fusionar",
    "aprovado",
    "pronto para merge",
    "可以合并",
    "可以合并吗",
    "是否批准",
    "マージ可能",
    "マージ可能ですか",
    "готово к слиянию",
    "одобрено",
];

const YES: &[&str] = &[
    "yes", "ja", "oui", "sí", "si", "sim", "sì", "是", "可以", "はい", "да", "예", "네",
];

const NO: &[&str] = &[
    "no",
    "nope",
    "nein",
    "non",
    "não",
    "нет",
    "否",
    "不",
    "不可以",
    "いいえ",
    "아니요",
    "아니오",
];

/// Signs that alone refuse.
const CROSSES: &[char] = &['❌', '✗', '✘', '🔴', '⛔', '🛑', '👎', '🚫'];

/// Signs that may stand before or behind an approval without saying anything of their own.
const SIGNS: &[char] = &[
    '✅', '☑', '✔', '✓', '🟢', '🎉', '🚀', '👍', '🙌', '\u{fe0f}',
];

/// The value behind the label of a verdict.
pub(in crate::read) fn labelled(value: &str) -> Option<Answer<'_>> {
    if is_tick(value) {
        return Some(Answer::Whole);
    }
    answer(value, &[LABELLED, GENERIC], true)
}

/// The value of a key that can only be a verdict. A test run's words count unless the object is
/// a test report.
pub(in crate::read) fn keyed(value: &str, test_report: bool) -> Option<Answer<'_>> {
    let generic: &[&str] = if test_report { &[] } else { GENERIC };
    answer(value, &[LABELLED, generic], false)
}

/// A line that is nothing but an approval.
pub(in crate::read) fn alone(line: &str) -> Option<Answer<'_>> {
    answer(line, &[ALONE], false)
}

/// The answer to a question such as `Ready to merge?`.
pub(in crate::read) fn affirmed(value: &str) -> Option<Answer<'_>> {
    if is_tick(value) {
        return Some(Answer::Whole);
    }
    answer(value, &[YES], false)
}

/// Whether the answer to a question or the value of a verdict is a plain no.
pub(in crate::read) fn denied(value: &str) -> bool {
    let bare = value.trim_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '_' | '`'));
    let signs: String = bare
        .chars()
        .filter(|c| !matches!(c, '\u{fe0f}' | ' ' | '.'))
        .collect();
    let crossed = !signs.is_empty() && signs.chars().all(|c| CROSSES.contains(&c));
    crossed || answer(bare.trim_start_matches(CROSSES), &[NO], true).is_some()
}

/// Whether a label, whole, announces a verdict on the change.
pub(in crate::read) fn is_label(label: &str) -> bool {
    among(label, LABELS)
}

/// Whether a title, whole, is that of a review.
pub(in crate::read) fn is_title(title: &str) -> bool {
    among(title, TITLES)
}

/// Whether a text, without its question mark, asks for the verdict.
pub(in crate::read) fn is_question(text: &str) -> bool {
    among(text, QUESTIONS)
}

fn among(text: &str, list: &[&str]) -> bool {
    if text.len() > 200 {
        return false;
    }
    let bare = text
        .trim_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '_') || SIGNS.contains(&c));
    list.iter()
        .any(|phrase| follow(bare, phrase).is_some_and(str::is_empty))
}

/// `✅` alone behind a label; a thumb or a rocket alone says nothing.
fn is_tick(value: &str) -> bool {
    let bare = value
        .trim_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '_' | '.' | '\u{fe0f}'));
    matches!(bare, "✅" | "☑" | "✔")
}

fn answer<'a>(value: &'a str, lists: &[&[&str]], code: bool) -> Option<Answer<'a>> {
    let opened = value.trim_start_matches(|c: char| {
        c.is_whitespace() || matches!(c, '*' | '_') || SIGNS.contains(&c)
    });
    let (inner, ticks) = match opened.strip_prefix('`') {
        Some(inner) if code && !inner.starts_with('`') => (inner, true),
        _ => (opened, false),
    };
    let mut rest = lists
        .iter()
        .flat_map(|list| list.iter())
        .filter_map(|phrase| follow(inner, phrase))
        .min_by_key(|rest| rest.len())?;
    if ticks {
        rest = rest.strip_prefix('`')?;
    }
    ending(rest)
}

/// What follows the phrase at the start of the text; words may be joined by `_`, `-` or blanks.
fn follow<'a>(text: &'a str, phrase: &str) -> Option<&'a str> {
    let mut rest = text;
    for wanted in phrase.chars() {
        if wanted == ' ' {
            let next = rest.trim_start_matches([' ', '_', '-', '\u{a0}']);
            if next.len() == rest.len() {
                return None;
            }
            rest = next;
            continue;
        }
        let c = rest.chars().next()?;
        let same = c == wanted
            || c.to_lowercase().eq(std::iter::once(wanted))
            || (wanted == '\'' && c == '’');
        if !same {
            return None;
        }
        rest = &rest[c.len_utf8()..];
    }
    // The phrase must end here: a letter, or what joins letters, makes it another word.
    let mut next = rest.chars();
    match next.next() {
        Some(c) if c.is_alphanumeric() => None,
        Some('_' | '-' | '\'' | '’') if next.next().is_some_and(char::is_alphanumeric) => None,
        _ => Some(rest),
    }
}

/// Whether the value ends behind its phrase, or a new clause begins. Every other sign is a doubt.
fn ending(rest: &str) -> Option<Answer<'_>> {
    let rest = undecorated(rest);
    let Some(first) = rest.chars().next() else {
        return Some(Answer::Whole);
    };
    let after = &rest[first.len_utf8()..];
    let clause = match first {
        '.' if after.starts_with('.') => return None,
        '.' | '!' | '。' | '！' | ',' | ';' | ':' | '，' | '、' | '；' | '：' | '—' | '–' => {
            after.trim_start_matches('!')
        }
        // Brackets stay, so that what is in them is read as it stands.
        '(' | '（' | '\n' => rest,
        '-' if after.starts_with([' ', '-']) => after.trim_start_matches('-'),
        _ => return None,
    };
    let clause = undecorated(clause).trim_start_matches(['\n', ' ']);
    Some(if clause.is_empty() {
        Answer::Whole
    } else {
        Answer::Explained(clause)
    })
}

/// Takes closing emphasis, signs and blanks off the front; a line end stays.
fn undecorated(text: &str) -> &str {
    text.trim_start_matches(|c: char| {
        matches!(c, ' ' | '\t' | '\u{a0}' | '*' | '_') || SIGNS.contains(&c)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_compared_whole() {
        for value in [
            "approve",
            "**APPROVED**",
            "`accept`",
            "Approve** ✅",
            "✅ Approved.",
            "APPROVE_WITH_COMMENTS",
            "ship-it!",
            "批准。",
            "Одобрено",
            "✅",
            "LGTM 👍",
        ] {
            assert_eq!(labelled(value), Some(Answer::Whole), "{value}");
        }
        for value in [
            "approval denied",
            "approve nothing",
            "approve?",
            "approve…",
            "approve...",
            "\"approve\"",
            "[approve]",
            "(approve)",
            "approve / reject",
            "approve|reject",
            "approve with required changes",
            "承認できません",
            "批准前必须修复",
            "approved_by",
            "ap\u{336}prove",
            "approve\u{336}",
            "Ａpprove",
            "аpprove",
            "`approve",
            "👍",
            "ok",
            "",
        ] {
            assert_eq!(labelled(value), None, "{value}");
        }
        assert_eq!(
            labelled("Approve. All is fixed."),
            Some(Answer::Explained("All is fixed."))
        );
        assert_eq!(
            labelled("**PASS** — all resolved"),
            Some(Answer::Explained("all resolved"))
        );
        assert_eq!(alone("PASS"), None);
        assert_eq!(alone("`APPROVED`"), None);
    }
}
