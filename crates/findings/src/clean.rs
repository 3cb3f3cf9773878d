//! Makes text from an agent safe to show, store and compare.
//!
//! A reviewer's text may contain terminal escapes, direction overrides or invisible characters.
//! This module removes them; cleaning is idempotent. Paths become relative to the repository and
//! cannot leave it.
//!
//! Everything that an agent writes goes through here before it is stored, shown or put into a
//! brief. The attacks: a terminal escape that rewrites the screen, a direction override that shows
//! code in another order, an invisible letter that makes two names look equal, a path that leads
//! out of the repository.

use std::iter::Peekable;
use std::str::CharIndices;

use serde_json::Value;

/// Maximum length of a title, in characters.
pub const TITLE_CHARS_MAX: usize = 240;
/// Maximum length of the text of one field, in characters.
pub const FIELD_CHARS_MAX: usize = 16_000;
/// Maximum number of findings read from one document.
pub const FINDINGS_MAX: usize = 10_000;

const ESCAPE: char = '\u{1b}';
const CSI: char = '\u{9b}';
const OSC: char = '\u{9d}';
const BELL: char = '\u{7}';

/// Prefix of the bearer tokens that Countersign issues; [`TOKEN_DIGITS`] hexadecimal digits follow.
/// The fixed prefix and length make our tokens easy to find in any text.
pub const TOKEN_PREFIX: &str = "cs_";
pub const TOKEN_DIGITS: usize = 64;
const TOKEN_MASK: &str = "cs_[redacted]";

/// Removes control and escape sequences, bidi controls, invisible characters and the secrets of our
/// own tokens. Line ends become `\n`; tabs stay.
pub fn clean(text: &str) -> String {
    // Invisible characters go first. They could split a token, so that it is not recognised.
    let visible = strip_hidden(text);
    if has_token(&visible) {
        return without_tokens(&visible);
    }
    visible
}

/// Cleans a name or another short text on one line: line ends and tabs become spaces, other spaces
/// stay.
pub fn clean_name(text: &str) -> String {
    clean(text).replace(['\n', '\t'], " ")
}

/// Cleans every string and every key in a JSON value.
pub fn clean_json(value: &mut Value) {
    match value {
        Value::String(text) if needs_cleaning(text) => *text = clean(text),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::Array(items) => items.iter_mut().for_each(clean_json),
        Value::Object(fields) => {
            // Most keys are clean; the object is rebuilt only if one is not.
            if fields.keys().any(|key| needs_cleaning(key)) {
                let entries = std::mem::take(fields).into_iter();
                fields.extend(entries.map(|(key, value)| (clean(&key), value)));
            }
            fields.values_mut().for_each(clean_json);
        }
    }
}

fn needs_cleaning(text: &str) -> bool {
    text.chars().any(is_hidden) || has_token(text)
}

fn has_token(text: &str) -> bool {
    text.match_indices(TOKEN_PREFIX)
        .any(|(at, _)| is_token(text, at))
}

fn is_token(text: &str, at: usize) -> bool {
    let digits = text.as_bytes().get(at + TOKEN_PREFIX.len()..);
    let digits = digits.and_then(|rest| rest.get(..TOKEN_DIGITS));
    digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

fn without_tokens(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for (at, _) in text.match_indices(TOKEN_PREFIX) {
        // Overlapping matches: `cs_cs_…` has a prefix inside a prefix.
        if at >= from && is_token(text, at) {
            out.push_str(&text[from..at]);
            out.push_str(TOKEN_MASK);
            from = at + TOKEN_PREFIX.len() + TOKEN_DIGITS;
        }
    }
    out.push_str(&text[from..]);
    out
}

/// Like [`clean`], but keeps the secrets of tokens: for the one command that shows a token.
pub fn strip_hidden(text: &str) -> String {
    // Most texts are clean.
    if !text.chars().any(is_hidden) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for_each_visible(text, |_, c| out.push(c));
    out
}

/// Calls `keep` with each character that cleaning leaves, and with its position in the text.
pub fn for_each_visible(text: &str, mut keep: impl FnMut(usize, char)) {
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            ESCAPE | CSI | OSC => skip_sequence(text, at, c, &mut chars),
            '\r' => {
                // `\r\n` is one line end. A lone `\r` would let the text overwrite the line before
                // it on a terminal.
                if chars.peek().is_none_or(|&(_, next)| next != '\n') {
                    keep(at, '\n');
                }
            }
            // Editors and browsers show them as line ends, and terminals do not.
            '\u{2028}' | '\u{2029}' => keep(at, '\n'),
            c if is_hidden(c) => {}
            c => keep(at, c),
        }
    }
}

/// Cleans a text and folds all white space, so that the result is one line.
pub fn one_line(text: &str) -> String {
    let cleaned = clean(text);
    let mut out = String::with_capacity(cleaned.len());
    for word in cleaned.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// Cuts a text at a character boundary, if possible at a nearby space, and marks the cut with `…`.
pub fn shorten(text: &str, chars_max: usize) -> String {
    let Some((cut, _)) = text.char_indices().nth(chars_max) else {
        return text.to_owned();
    };
    let head = &text[..cut];
    let end = head
        .rfind(' ')
        // A space in the last quarter: cutting at an earlier one would lose too much.
        .filter(|&space| space * 4 > cut * 3)
        .unwrap_or(cut);
    format!("{}…", head[..end].trim_end())
}

/// Returns the text up to `bytes_max` bytes, or a little less: it never cuts a character.
pub(crate) fn prefix(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns whether a character is invisible, or changes how a terminal shows others. Line ends and
/// tabs do not count.
pub fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        // Soft hyphen, Hangul fillers, byte-order mark, direction marks, tags and variation
        // selectors: all of them show nothing or change their neighbours. U+FE0F stays, because it
        // belongs to emoji.
        '\u{ad}'
        | '\u{61c}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{fe00}'..='\u{fe0e}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}' => true,
        c => c.is_control(),
    }
}

/// Skips the sequence after an escape character. A sequence that never ends hides no text: only its
/// introducer is removed. The search stops at the next escape, which keeps the whole scan linear.
fn skip_sequence(text: &str, at: usize, introducer: char, chars: &mut Peekable<CharIndices<'_>>) {
    let kind = if introducer == ESCAPE {
        match chars.peek() {
            // Only a printable character continues an escape. Anything else is text after a lone
            // escape.
            Some(&(_, c)) if ('\u{20}'..='\u{7e}').contains(&c) => {
                chars.next();
                c
            }
            _ => return,
        }
    } else if introducer == CSI {
        '['
    } else {
        ']'
    };
    let end = match kind {
        '[' => end_of_csi(text, at),
        ']' | 'P' | 'X' | '^' | '_' => end_of_string(text, at),
        '('..='/' => chars.peek().map(|&(at, c)| at + c.len_utf8()),
        _ => None,
    };
    if let Some(end) = end {
        while chars.next_if(|&(at, _)| at < end).is_some() {}
    }
}

fn end_of_csi(text: &str, at: usize) -> Option<usize> {
    let rest = text[at..].char_indices().skip(1);
    // The limit keeps the scan linear.
    for (offset, c) in rest.take(64) {
        match c {
            '[' if offset == 1 => {}
            '\u{20}'..='\u{3f}' => {}
            '\u{40}'..='\u{7e}' => return Some(at + offset + c.len_utf8()),
            _ => return None,
        }
    }
    None
}

fn end_of_string(text: &str, at: usize) -> Option<usize> {
    let mut rest = text[at..].char_indices().skip(1).peekable();
    while let Some((offset, c)) = rest.next() {
        match c {
            BELL | '\u{9c}' => return Some(at + offset + c.len_utf8()),
            ESCAPE => {
                return rest
                    .next()
                    .filter(|&(_, c)| c == '\\')
                    .map(|(offset, _)| at + offset + 1);
            }
            // A string that runs over a line end is no sequence but text that would be hidden.
            '\n' | CSI | OSC => return None,
            _ => {}
        }
    }
    None
}

/// Makes a path relative to the repository and keeps it inside: no root, no drive, no `..`. `None`
/// if no path is left.
pub fn confine(path: &str) -> Option<String> {
    let mut path = one_line(path).replace('\\', "/");
    // Removing a part may expose another one to remove; a few passes are enough.
    for _ in 0..8 {
        let relative_path = relative(&path);
        if relative_path == path {
            // A path is shown in one line, and real ones are shorter.
            return (!path.is_empty() && path.len() <= 1024).then_some(path);
        }
        path = relative_path;
    }
    None
}

fn relative(path: &str) -> String {
    let bare = strip_scheme(path.trim_matches([' ', '`', '"', '\'', '<', '>', '*']));
    let mut parts: Vec<&str> = Vec::new();
    for part in bare.split('/') {
        match part {
            "" | "." => {}
            // A `..` above the top is dropped instead of refused, so that the rest of the path is
            // still useful.
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn strip_scheme(path: &str) -> &str {
    let path = path.strip_prefix("file://").unwrap_or(path);
    let path = path.strip_prefix("%SRCROOT%").unwrap_or(path);
    let mut chars = path.chars();
    let drive = chars.next().is_some_and(|c| c.is_ascii_alphabetic())
        && chars.next() == Some(':')
        && chars.next() == Some('/');
    if drive { &path[3..] } else { path }
}

/// Like [`confine`], and removes the repository's own directory from the front of the path.
pub fn confine_to(root: &str, path: &str) -> Option<String> {
    let path = confine(path)?;
    let Some(root) = confine(root) else {
        return Some(path);
    };
    match path
        .strip_prefix(&root)
        .and_then(|rest| rest.strip_prefix('/'))
    {
        Some(inside) if !inside.is_empty() => Some(inside.to_owned()),
        _ => Some(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_bidi_and_invisible_characters_are_taken_out() {
        assert_eq!(clean("a\u{1b}[31mred\u{1b}[0m b"), "ared b");
        assert_eq!(clean("x\u{1b}]0;title\u{7}y"), "xy");
        assert_eq!(clean("x\u{1b}]8;;u\u{1b}\\y"), "xy");
        assert_eq!(
            clean("if \u{202e}nimda\u{2066} \u{200b}ok\u{feff}\u{e0041}"),
            "if nimda ok"
        );
        assert_eq!(clean("a\0b\u{8}c\u{9b}2Jd"), "abcd");
        assert_eq!(
            clean("one\r\ntwo\rthree\u{2028}four\tfive"),
            "one\ntwo\nthree\nfour\tfive"
        );
    }

    #[test]
    fn a_sequence_that_never_ends_hides_no_text() {
        assert_eq!(clean("x\u{1b}]0;still here"), "x0;still here");
        assert_eq!(clean("\u{1b}[\n1"), "\n1");
    }

    #[test]
    fn paths_cannot_leave_the_repository() {
        assert_eq!(confine("../../etc/passwd").as_deref(), Some("etc/passwd"));
        assert_eq!(confine("/srv/x/./a//b.rs").as_deref(), Some("srv/x/a/b.rs"));
        assert_eq!(confine("C:\\work\\a.rs").as_deref(), Some("work/a.rs"));
        assert_eq!(confine("file:///w/a%20b.rs").as_deref(), Some("w/a%20b.rs"));
        assert_eq!(confine("src/../../x.rs").as_deref(), Some("x.rs"));
        assert_eq!(confine("../.."), None);
        assert_eq!(
            confine_to("/srv/x", "/srv/x/src/a.rs").as_deref(),
            Some("src/a.rs")
        );
        assert_eq!(
            confine_to("/srv/x", "src/a.rs").as_deref(),
            Some("src/a.rs")
        );
    }

    #[test]
    fn the_secrets_of_our_tokens_are_taken_out() {
        let token = format!("{TOKEN_PREFIX}{}", "0a".repeat(TOKEN_DIGITS / 2));
        let cleaned = clean(&format!(
            "a {token}\u{202e}{token}b cs_12 {TOKEN_PREFIX}{token}"
        ));
        assert_eq!(
            cleaned,
            "a cs_[redacted]cs_[redacted]b cs_12 cs_cs_[redacted]"
        );
        // Invisible characters do not hide a token.
        let split = format!("cs_\u{200b}{}", &token[3..]);
        assert_eq!(clean(&split), "cs_[redacted]");
        let mut value = serde_json::json!({"a\u{1b}[1m": [token, {"b": "x\u{202e}"}], "n": 1});
        clean_json(&mut value);
        assert_eq!(
            value,
            serde_json::json!({"a": ["cs_[redacted]", {"b": "x"}], "n": 1})
        );
        assert_eq!(clean_name("a\nb\tc  d"), "a b c  d");
    }

    proptest::proptest! {
        #[test]
        fn cleaning_twice_is_cleaning_once(text in ".*") {
            let once = clean(&text);
            proptest::prop_assert_eq!(clean(&once), once);
        }

        #[test]
        fn escapes_are_gone_whatever_follows_them(parts in proptest::collection::vec("\u{1b}[\\[\\]P(]?[0-9;]{0,3}[a-z\u{7}\u{9b}\u{202e}\r\n]?", 0..20)) {
            let once = clean(&parts.concat());
            proptest::prop_assert!(!once.chars().any(is_hidden));
            proptest::prop_assert_eq!(clean(&once), once);
        }

        #[test]
        fn confined_paths_stay_confined(path in ".{0,60}") {
            if let Some(inside) = confine(&path) {
                proptest::prop_assert!(!inside.starts_with('/'));
                proptest::prop_assert!(inside.split('/').all(|part| part != ".." && !part.is_empty()));
                proptest::prop_assert_eq!(confine(&inside), Some(inside));
            }
        }
    }
}
