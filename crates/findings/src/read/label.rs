//! Reads severity labels before, after or instead of a sentence: `[P1] …`, `**HIGH**: …`,
//! `🔴 Critical — …`, `… (Critical, fixed)`, and headings that are only a label.

use std::sync::LazyLock;

use regex::Regex;

use crate::severity::Severity;

pub(super) use super::degree::DegreeStrength;
use super::degree::{scale_word, singular};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SeverityLabel<'a> {
    pub raw: String,
    pub rest: &'a str,
    pub plain: DegreeStrength,
}

/// Matches `1.`, `F3 --`, `R12:`, `Finding 2:`, `#4`, `[SEC-01]` in front of a title.
static ORDINAL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(?:(?i:finding|issue|bug|problem|item|comment|fix)\s*#?[0-9]{1,3}\s*(?:[:：.)]|--|[-–—])\s*|#?[0-9]{1,3}(?:\.[0-9]{1,2})*(?:[.):]|\s+[-–—])\s*|\[?[A-Z]{1,6}-?[A-Z]{0,6}-?[0-9]{1,4}(?:\.[0-9]{1,2})*\]?\s*(?:[:：.)]|--|[-–—])+\s*)").ok()
});

/// Splits off the number or id of a finding; returns it and the rest.
pub(super) fn split_ordinal(text: &str) -> (Option<&str>, &str) {
    let bare = text.trim_start_matches(|c: char| {
        c == '*' || c.is_whitespace() || c == '\u{fe0f}' || (!c.is_ascii() && !c.is_alphanumeric())
    });
    let Some(matched) = ORDINAL.as_ref().and_then(|pattern| pattern.find(bare)) else {
        return (None, text);
    };
    let name = matched
        .as_str()
        .trim_matches(|c: char| !c.is_alphanumeric());
    // `P1 —` is a severity, not the id of a finding.
    if scale_word(name).is_some() {
        return (None, text);
    }
    (Some(name), &bare[matched.end()..])
}

/// Reads the severity label at the start of a text.
pub(super) fn leading_label(text: &str) -> Option<SeverityLabel<'_>> {
    let mut rest = text.trim_start();
    let signs = rest
        .find(|c: char| !is_sign_or_blank(c))
        .unwrap_or(rest.len());
    let sign = rest[..signs]
        .trim()
        .chars()
        .find(|&c| Severity::from_word(&c.to_string()).is_some());
    rest = rest[signs..].trim_start();
    let label = bracketed(rest)
        .or_else(|| worded(rest))
        .or_else(|| after_category(rest));
    label.or_else(|| {
        sign.map(|sign| SeverityLabel {
            raw: sign_text(text, sign),
            rest,
            plain: DegreeStrength::Weak,
        })
    })
}

/// Reads the severity after a category: `[Security] CRITICAL: …`.
fn after_category(text: &str) -> Option<SeverityLabel<'_>> {
    let (name, after) = text.strip_prefix('[')?.split_once(']')?;
    crate::Category::from_label(name.trim())?;
    let rest = after.trim_start_matches(['*', '_', ':', ' ']);
    let label = bracketed(rest).or_else(|| worded(rest))?;
    (label.plain == DegreeStrength::Strong).then_some(label)
}

fn sign_text(text: &str, sign: char) -> String {
    let with_selector = format!("{sign}\u{fe0f}");
    if text.contains(&with_selector) {
        with_selector
    } else {
        sign.to_string()
    }
}

fn is_sign_or_blank(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '*' | '_' | '\u{fe0f}')
        || (!c.is_alphanumeric() && !c.is_ascii() && !matches!(c, '【' | '「' | '“' | '‘' | '§'))
}

fn bracketed(text: &str) -> Option<SeverityLabel<'_>> {
    let open = text.chars().next()?;
    let close = match open {
        '[' => ']',
        '(' => ')',
        '【' => '】',
        '`' => '`',
        _ => return None,
    };
    let inner = &text[open.len_utf8()..];
    let end = inner.find(close).filter(|&end| end > 0 && end < 40)?;
    let word = inner[..end]
        .trim()
        .trim_matches(|c: char| !c.is_alphanumeric());
    let first = word.split([' ', '/', '|', ',']).next().unwrap_or_default();
    let plain = scale_word(first).or_else(|| scale_word(word))?;
    let rest = trim_lead(&inner[end + close.len_utf8()..]);
    Some(SeverityLabel {
        raw: word.to_owned(),
        rest,
        plain,
    })
}

/// Reads a severity word that ends with a colon, a dash or the end of its emphasis, or that a place
/// follows.
fn worded(text: &str) -> Option<SeverityLabel<'_>> {
    let end = text
        .find(|c: char| !(c.is_alphanumeric() || c == '-'))
        .unwrap_or(text.len());
    let word = text[..end].trim_end_matches('-');
    let plain = scale_word(word).or_else(|| {
        scale_word(word.split_once(['-', '/'])?.0).filter(|_| {
            word.split(['-', '/'])
                .all(|part| scale_word(part).is_some())
        })
    })?;
    let mut after = &text[word.len()..];
    let mut raw = word.to_owned();
    for tail in [" priority", " severity"] {
        if after.len() >= tail.len()
            && after.is_char_boundary(tail.len())
            && after[..tail.len()].eq_ignore_ascii_case(tail)
        {
            raw.push_str(&after[..tail.len()]);
            after = &after[tail.len()..];
        }
    }
    let numbered = after.trim_start_matches(|c: char| c == ' ' || c == '#' || c.is_ascii_digit());
    let after = if ends_label(numbered) {
        numbered
    } else {
        after
    };
    if !ends_label(after) {
        return None;
    }
    Some(SeverityLabel {
        raw: singular(&raw),
        rest: trim_lead(after),
        plain,
    })
}

fn ends_label(after: &str) -> bool {
    let gap = after.trim_start();
    after.is_empty()
        || gap.starts_with([':', '：', '—', '–', '|', ')', ']', '→'])
        || after.starts_with(['*', '_', '/'])
        || gap.starts_with("--")
        || (gap.starts_with("- ") && after.starts_with(' '))
        || gap.starts_with('(') && gap.len() < 24
        || begins_with_place(after)
}

/// Whether a place with a line follows the word at once: `critical src/a.rs:3: …`.
fn begins_with_place(after: &str) -> bool {
    let token = after.strip_prefix(' ').unwrap_or_default();
    let token = token.trim_start_matches('`').split(' ').next();
    let place = token.and_then(|token| token.split_once(':'));
    place.is_some_and(|(path, line)| {
        path.contains(['.', '/']) && line.starts_with(|c: char| c.is_ascii_digit())
    })
}

fn trim_lead(text: &str) -> &str {
    text.trim_start_matches([':', '：', '-', '–', '—', '*', '_', ' ', '|', '→', ')', ']'])
}

/// Reads a severity in brackets, or a sign, at the end of a text: `Lock order (High, fixed)`.
pub(super) fn trailing_label(text: &str) -> Option<SeverityLabel<'_>> {
    let bare = text.trim_end_matches(['*', ' ', ':', '：']);
    let close = bare.chars().next_back()?;
    let open = match close {
        ')' => '(',
        ']' => '[',
        '）' => '（',
        _ => return trailing_sign(bare),
    };
    let start = bare.rfind(open)?;
    let inner = &bare[start + open.len_utf8()..bare.len() - close.len_utf8()];
    let words = inner
        .split(|c: char| !(c.is_alphanumeric() || c == '-'))
        .filter(|word| !word.is_empty());
    let degree = words
        .clone()
        .take(3)
        .find_map(|word| scale_word(word).map(|plain| (word, plain)));
    let (word, plain) = match degree {
        Some(degree) if words.count() <= 4 => degree,
        _ => {
            let sign = inner
                .chars()
                .find(|&c| !c.is_ascii() && Severity::from_word(&c.to_string()).is_some())?;
            return Some(SeverityLabel {
                raw: sign_text(inner, sign),
                rest: bare[..start].trim_end(),
                plain: DegreeStrength::Weak,
            });
        }
    };
    Some(SeverityLabel {
        raw: word.to_owned(),
        rest: bare[..start].trim_end(),
        plain,
    })
}

fn trailing_sign(text: &str) -> Option<SeverityLabel<'_>> {
    let bare = text.trim_end_matches('\u{fe0f}');
    let sign = bare
        .chars()
        .next_back()
        .filter(|c| !c.is_alphanumeric() && Severity::from_word(&c.to_string()).is_some())?;
    let rest = bare[..bare.len() - sign.len_utf8()].trim_end_matches([' ', ':']);
    Some(SeverityLabel {
        raw: sign_text(text, sign),
        rest,
        plain: DegreeStrength::Weak,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Option<String> {
        leading_label(text).map(|label| label.raw)
    }

    #[test]
    fn labels_in_front_of_a_sentence_are_read() {
        assert_eq!(raw("[P1] Close the file").as_deref(), Some("P1"));
        assert_eq!(raw("**major** `a.rs:3` — text").as_deref(), Some("major"));
        assert_eq!(
            raw("**💡 Suggestion:** use a map").as_deref(),
            Some("Suggestion")
        );
        assert_eq!(raw("P1 — `a.rs:3` — text").as_deref(), Some("P1"));
        assert_eq!(
            raw("[CRITICAL][Security] No check").as_deref(),
            Some("CRITICAL")
        );
        assert_eq!(raw("Major 2 — lock order").as_deref(), Some("Major"));
        assert_eq!(raw("🔴 Broken build").as_deref(), Some("🔴"));
        assert_eq!(
            raw("**[Security]** CRITICAL: No check").as_deref(),
            Some("CRITICAL")
        );
        assert_eq!(raw("Critical path is blocked"), None);
        assert_eq!(raw("Low-level code is fine"), None);
    }

    #[test]
    fn what_counts_a_finding_is_no_part_of_its_title() {
        assert_eq!(split_ordinal("R3: Lock order"), (Some("R3"), "Lock order"));
        assert_eq!(
            split_ordinal("F1 -- Lock order"),
            (Some("F1"), "Lock order")
        );
        assert_eq!(split_ordinal("12. Lock order"), (Some("12"), "Lock order"));
        assert_eq!(split_ordinal("Bug 2：锁"), (Some("Bug 2"), "锁"));
        assert_eq!(split_ordinal("P1 — Lock order"), (None, "P1 — Lock order"));
        assert_eq!(split_ordinal("Lock order"), (None, "Lock order"));
    }
}
