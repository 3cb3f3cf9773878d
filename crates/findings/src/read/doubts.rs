//! Signs in the text itself that an approval in it may not be real: hidden or struck-out
//! characters, a diff, a truncated end.

use super::markup::MarkupLine;

/// Looks for invisible characters and characters that change how others are shown.
pub(super) fn doubt_in_characters(text: &str) -> Option<&'static str> {
    let mut before = ' ';
    let mut hidden = false;
    let body = text.trim_start_matches('\u{feff}');
    for c in body.chars() {
        match c {
            '\n' | '\t' | '\r' => {}
            '\u{61c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                return Some("the text has characters that change its direction");
            }
            '\u{335}'..='\u{338}' | '\u{20d2}'..='\u{20d3}' | '\u{20e5}' => {
                return Some("the text is struck through");
            }
            c if c.is_control() => return Some("the text has control characters"),
            '\u{ad}'
            | '\u{34f}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2060}'..='\u{2065}'
            | '\u{206a}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}' => {
                hidden = true;
                continue;
            }
            _ => {}
        }
        if hidden && (c.is_alphanumeric() || before.is_alphanumeric()) {
            return Some("the text has invisible characters inside words");
        }
        hidden = false;
        before = c;
    }
    (hidden && before.is_alphanumeric()).then_some("the text has invisible characters inside words")
}

/// Doubts a document that is indented like code, because it is quoted.
pub(super) fn of_indent(text: &str) -> Option<&'static str> {
    let first = text.lines().find(|line| !line.trim().is_empty())?;
    (first.starts_with("    ") || first.starts_with('\t'))
        .then_some("the JSON is quoted, commented out or set apart")
}

/// Looks for tags that hide their content.
fn of_tags(text: &str) -> Option<&'static str> {
    const TAG_BYTES_MAX: usize = 300;
    text.split('<').skip(1).find_map(|rest| {
        let end = rest
            .bytes()
            .take(TAG_BYTES_MAX)
            .position(|byte| byte == b'>')?;
        let tag = rest.get(..end)?.to_ascii_lowercase();
        let is_element = tag.starts_with(|c: char| c.is_ascii_alphabetic());
        let hides = [
            "hidden",
            "display",
            "visibility",
            "opacity",
            "font-size",
            "template",
            "noscript",
            "style=",
            "title=",
        ]
        .iter()
        .any(|sign| tag.contains(sign));
        (is_element && hides).then_some("part of the text is not shown")
    })
}

/// Returns the first doubt about the lines of a document.
pub(super) fn doubt_in_text(text: &str, lines: &[MarkupLine]) -> Option<&'static str> {
    doubt_in_characters(text)
        .or_else(|| of_tags(text))
        .or_else(|| {
            lines.iter().find_map(|line| match line {
                MarkupLine::Text { text, .. } => doubt_in_line(text),
                MarkupLine::Code(_) | MarkupLine::Open(_) | MarkupLine::Close => None,
            })
        })
        .or_else(|| doubt_at_end(text))
}

/// Doubts JSON at this position: there is something before it on its line, it is indented like
/// code, or the text has comments.
pub(super) fn doubt_at_offset(text: &str, start: usize) -> Option<&'static str> {
    let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
    // The span of a fence starts at its line, so skip quotation marks before the fence itself.
    let rest = &text[start..];
    let fence = rest.len() - rest.trim_start_matches([' ', '\t', '>', '+', '|']).len();
    let before = &text[line..start + fence];
    let marked = before
        .chars()
        .any(|c| !c.is_alphanumeric() && !matches!(c, ' ' | ',' | '.' | ':' | '\u{feff}'));
    let indented = before.trim().is_empty() && (before.contains('\t') || before.len() >= 4);
    (marked || indented || text.contains("<!--"))
        .then_some("the JSON is quoted, commented out or set apart")
}

fn doubt_in_line(line: &str) -> Option<&'static str> {
    if line.contains("~~") {
        return Some("part of the text is struck through");
    }
    ["diff --git ", "@@ -", "+++ ", "--- a/"]
        .iter()
        .any(|mark| line.starts_with(mark))
        .then_some("the text is a diff")
}

/// Looks for signs of truncation: a fence that is never closed, or dots at the end.
fn doubt_at_end(text: &str) -> Option<&'static str> {
    let mut open: Option<(char, usize)> = None;
    for line in text.lines() {
        let bare = line.trim_start_matches([' ', '\t', '>']).trim_end();
        let mark = bare.chars().next().filter(|&c| c == '`' || c == '~');
        let width = mark.map_or(0, |mark| bare.chars().take_while(|&c| c == mark).count());
        match open {
            None if width >= 3 && !bare[width..].contains('`') => {
                open = mark.map(|mark| (mark, width));
            }
            Some((kind, wide)) if mark == Some(kind) && width >= wide && bare.len() == width => {
                open = None;
            }
            _ => {}
        }
    }
    if open.is_some() {
        return Some("a code block is never closed; the text may be truncated");
    }
    let end = text.trim_end();
    let cut = [
        "…",
        "...",
        "[...]",
        "[…]",
        "(...)",
        "truncated]",
        "truncated)",
        "[cut]",
        "<snip>",
        "[snip]",
    ]
    .iter()
    .any(|mark| ends_in(end, mark));
    cut.then_some("the text ends in dots or a sign of truncation")
}

/// Returns whether the text ends in the mark, ignoring ASCII case.
fn ends_in(text: &str, mark: &str) -> bool {
    text.len()
        .checked_sub(mark.len())
        .and_then(|at| text.get(at..))
        .is_some_and(|tail| tail.eq_ignore_ascii_case(mark))
}
