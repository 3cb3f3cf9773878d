//! Compares values with the closed lists of approving phrases.
//!
//! An approval counts only if it is a whole value: one phrase of a list, in any letter case,
//! perhaps in bold, in back-ticks or after a sign such as ✅. Then the value ends, or a new sentence
//! starts that [`super::cues`] must vouch for. A quotation mark, a bracket, a question mark or one
//! more word makes it something else.
//!
//! Homoglyphs, combining marks and strike-through make another word, which is not in the list. That
//! is why letters are compared one by one and nothing is normalised.

use super::approval_lists::{
    ALONE, CROSSES, GENERIC, LABELLED, LABELS, NO, QUESTIONS, SIGNS, TITLES, YES,
};

/// Match of an approving phrase in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::read) enum ApprovalMatch<'a> {
    /// The value is only the phrase.
    Whole,
    /// The phrase ends, and this text follows it.
    Explained(&'a str),
}

/// Matches the value after the label of a verdict.
pub(in crate::read) fn match_labelled(value: &str) -> Option<ApprovalMatch<'_>> {
    // A tick behind the label `Verdict:` is the usual short form.
    if is_tick(value) {
        return Some(ApprovalMatch::Whole);
    }
    match_lists(value, &[LABELLED, GENERIC], true)
}

/// Matches the value of a key that can only be a verdict. Words of test runs such as `passed` count
/// unless the object is a test report.
/// In a test report `passed` is the result of a test, and no verdict on the change.
pub(in crate::read) fn match_keyed(value: &str, test_report: bool) -> Option<ApprovalMatch<'_>> {
    let generic: &[&str] = if test_report { &[] } else { GENERIC };
    match_lists(value, &[LABELLED, generic], false)
}

/// Matches a line that is only an approval.
/// Without a label only phrases that can mean nothing else count.
pub(in crate::read) fn match_whole_line(line: &str) -> Option<ApprovalMatch<'_>> {
    match_lists(line, &[ALONE], false)
}

/// Matches the answer to a question such as `Ready to merge?`.
pub(in crate::read) fn match_yes(value: &str) -> Option<ApprovalMatch<'_>> {
    if is_tick(value) {
        return Some(ApprovalMatch::Whole);
    }
    match_lists(value, &[YES], false)
}

/// Returns whether the answer to a question or the value of a verdict is a plain no.
pub(in crate::read) fn is_no(value: &str) -> bool {
    let bare = value.trim_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '_' | '`'));
    let signs: String = bare
        .chars()
        .filter(|c| !matches!(c, '\u{fe0f}' | ' ' | '.'))
        .collect();
    let crossed = !signs.is_empty() && signs.chars().all(|c| CROSSES.contains(&c));
    // A cross before the word belongs to it: `❌ No`.
    crossed || match_lists(bare.trim_start_matches(CROSSES), &[NO], true).is_some()
}

/// Returns whether a whole label announces a verdict on the change.
pub(in crate::read) fn is_label(label: &str) -> bool {
    among(label, LABELS)
}

/// Returns whether a whole title is that of a review.
pub(in crate::read) fn is_title(title: &str) -> bool {
    among(title, TITLES)
}

/// Returns whether a text, without its question mark, asks for the verdict.
pub(in crate::read) fn is_question(text: &str) -> bool {
    among(text, QUESTIONS)
}

fn among(text: &str, list: &[&str]) -> bool {
    // A label is short. A longer text is compared with no list.
    if text.len() > 200 {
        return false;
    }
    let bare = text
        .trim_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '_') || SIGNS.contains(&c));
    list.iter()
        .any(|phrase| follow(bare, phrase).is_some_and(str::is_empty))
}

/// Returns whether a value is only `✅`; a thumb or a rocket alone means nothing.
fn is_tick(value: &str) -> bool {
    let bare = value
        .trim_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '_' | '.' | '\u{fe0f}'));
    matches!(bare, "✅" | "☑" | "✔")
}

fn match_lists<'a>(value: &'a str, lists: &[&[&str]], code: bool) -> Option<ApprovalMatch<'a>> {
    let opened = value.trim_start_matches(|c: char| {
        c.is_whitespace() || matches!(c, '*' | '_') || SIGNS.contains(&c)
    });
    let (inner, ticks) = match opened.strip_prefix('`') {
        // Two back-ticks open a quotation of code with a back-tick in it.
        Some(inner) if code && !inner.starts_with('`') => (inner, true),
        _ => (opened, false),
    };
    let mut rest = lists
        .iter()
        .flat_map(|list| list.iter())
        .filter_map(|phrase| follow(inner, phrase))
        // The longest phrase is the one that leaves the least: `approve with comments` before
        // `approve`.
        .min_by_key(|rest| rest.len())?;
    if ticks {
        // The closing back-tick has to follow at once, so that nothing is hidden inside.
        rest = rest.strip_prefix('`')?;
    }
    match_ending(rest)
}

/// Returns the rest after the phrase at the start of the text; words may be joined by `_`, `-` or
/// blanks.
fn follow<'a>(text: &'a str, phrase: &str) -> Option<&'a str> {
    let mut rest = text;
    for expected in phrase.chars() {
        if expected == ' ' {
            let next = rest.trim_start_matches([' ', '_', '-', '\u{a0}']);
            if next.len() == rest.len() {
                return None;
            }
            rest = next;
            continue;
        }
        let c = rest.chars().next()?;
        // Letters are compared one by one, so that a homoglyph or a ligature is another letter.
        let same = c == expected
            || c.to_lowercase().eq(std::iter::once(expected))
            || (expected == '\'' && c == '’');
        if !same {
            return None;
        }
        rest = &rest[c.len_utf8()..];
    }
    // The phrase must end here: a letter, or a character that joins letters, makes it another word.
    let mut next = rest.chars();
    match next.next() {
        Some(c) if c.is_alphanumeric() => None,
        // `approved-by` and `approve'd` are other words.
        Some('_' | '-' | '\'' | '’') if next.next().is_some_and(char::is_alphanumeric) => None,
        _ => Some(rest),
    }
}

/// Checks that the value ends after its phrase, or a new clause starts. Any other sign is a doubt.
fn match_ending(rest: &str) -> Option<ApprovalMatch<'_>> {
    let rest = undecorated(rest);
    let Some(first) = rest.chars().next() else {
        return Some(ApprovalMatch::Whole);
    };
    let after = &rest[first.len_utf8()..];
    let clause = match first {
        // Dots are an omission: the sentence goes on somewhere else.
        '.' if after.starts_with('.') => return None,
        '.' | '!' | '。' | '！' | ',' | ';' | ':' | '，' | '、' | '；' | '：' | '—' | '–' => {
            after.trim_start_matches('!')
        }
        // Brackets stay, so that their content is read as it is.
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

/// Removes closing emphasis, signs and blanks from the front; a line end stays.
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
            assert_eq!(match_labelled(value), Some(ApprovalMatch::Whole), "{value}");
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
            assert_eq!(match_labelled(value), None, "{value}");
        }
        assert_eq!(
            match_labelled("Approve. All is fixed."),
            Some(ApprovalMatch::Explained("All is fixed."))
        );
        assert_eq!(
            match_labelled("**PASS** — all resolved"),
            Some(ApprovalMatch::Explained("all resolved"))
        );
        assert_eq!(match_whole_line("PASS"), None);
        assert_eq!(match_whole_line("`APPROVED`"), None);
    }
}
