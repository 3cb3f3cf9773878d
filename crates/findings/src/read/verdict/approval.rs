//! The closed lists of what approves, and how a value is compared with them.
//!
//! An approval counts only if it is the whole of a value. "Whole" is decided here: the value is
//! one phrase of a list, in any letter case, perhaps in bold or between back-ticks or behind a
//! sign such as ✅, and then it ends, or a new sentence begins that [`super::cues`] has to vouch
//! for. A quotation mark, a bracket, a question mark or one more word makes it something else.

use super::approval_lists::{
    ALONE, CROSSES, GENERIC, LABELLED, LABELS, NO, QUESTIONS, SIGNS, TITLES, YES,
};

/// How an approving phrase stands in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::read) enum ApprovalMatch<'a> {
    /// The value is the phrase and nothing else.
    Whole,
    /// The phrase ends, and this text follows it.
    Explained(&'a str),
}

/// The value behind the label of a verdict.
pub(in crate::read) fn labelled(value: &str) -> Option<ApprovalMatch<'_>> {
    if is_tick(value) {
        return Some(ApprovalMatch::Whole);
    }
    answer(value, &[LABELLED, GENERIC], true)
}

/// The value of a key that can only be a verdict. A test run's words count unless the object is
/// a test report.
pub(in crate::read) fn keyed(value: &str, test_report: bool) -> Option<ApprovalMatch<'_>> {
    let generic: &[&str] = if test_report { &[] } else { GENERIC };
    answer(value, &[LABELLED, generic], false)
}

/// A line that is nothing but an approval.
pub(in crate::read) fn alone(line: &str) -> Option<ApprovalMatch<'_>> {
    answer(line, &[ALONE], false)
}

/// The answer to a question such as `Ready to merge?`.
pub(in crate::read) fn affirmed(value: &str) -> Option<ApprovalMatch<'_>> {
    if is_tick(value) {
        return Some(ApprovalMatch::Whole);
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

fn answer<'a>(value: &'a str, lists: &[&[&str]], code: bool) -> Option<ApprovalMatch<'a>> {
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
fn ending(rest: &str) -> Option<ApprovalMatch<'_>> {
    let rest = undecorated(rest);
    let Some(first) = rest.chars().next() else {
        return Some(ApprovalMatch::Whole);
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
        ApprovalMatch::Whole
    } else {
        ApprovalMatch::Explained(clause)
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
            assert_eq!(labelled(value), Some(ApprovalMatch::Whole), "{value}");
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
            Some(ApprovalMatch::Explained("All is fixed."))
        );
        assert_eq!(
            labelled("**PASS** — all resolved"),
            Some(ApprovalMatch::Explained("all resolved"))
        );
        assert_eq!(alone("PASS"), None);
        assert_eq!(alone("`APPROVED`"), None);
    }
}
