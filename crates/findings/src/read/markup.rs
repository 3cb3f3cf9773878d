//! Reduces a document to plain Markdown lines: quotes and boxes are unwrapped, HTML tags are
//! removed, `<details>` becomes nesting, code is separate.

/// One line of the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MarkupLine {
    Text {
        text: String,
        quoted: bool,
        /// Inside tags that quote, strike out or wrap: not the reviewer's own words.
        apart: bool,
    },
    Code(String),
    /// `<details>` with its summary.
    Open(String),
    Close,
}

/// Splits a cleaned text into lines.
pub(super) fn lines(text: &str) -> Vec<MarkupLine> {
    let mut reader = MarkupReader::default();
    for raw in body(text).lines() {
        reader.take(raw);
    }
    reader.finish()
}

/// Returns the text without its front matter.
fn body(text: &str) -> &str {
    // The first line keeps its indentation: four blanks make it code.
    let mut trimmed = text;
    while let Some((line, rest)) = trimmed.split_once('\n') {
        if !line.trim().is_empty() {
            break;
        }
        trimmed = rest;
    }
    let Some(rest) = trimmed.strip_prefix("---\n") else {
        return trimmed;
    };
    match rest.find("\n---\n") {
        Some(end)
            if end < 4000
                && rest[..end].lines().all(|line| {
                    line.contains(':') || line.starts_with([' ', '-', '#']) || line.is_empty()
                }) =>
        {
            &rest[end + 5..]
        }
        _ => trimmed,
    }
}

#[derive(Default)]
struct MarkupReader {
    out: Vec<MarkupLine>,
    fence: Option<(char, usize)>,
    /// The text of a `<summary>` that is still open.
    summary: Option<String>,
    in_comment: bool,
    depth: usize,
    /// Number of open tags that quote, strike out or wrap.
    apart: usize,
    /// Such a tag was open somewhere on the current line.
    line_apart: bool,
}

impl MarkupReader {
    fn take(&mut self, raw: &str) {
        let (line, quoted) = unquoted(unboxed(raw));
        if self.fenced(line) {
            return;
        }
        self.line_apart = self.apart > 0;
        if self.in_comment || line.contains('<') || self.summary.is_some() {
            self.take_html(line, quoted);
        } else {
            self.push(line, quoted);
        }
    }

    fn push(&mut self, text: &str, quoted: bool) {
        self.out.push(MarkupLine::Text {
            text: text
                .replace("&nbsp;", " ")
                .replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&amp;", "&"),
            quoted,
            apart: self.line_apart,
        });
    }

    /// Tracks fences; returns true if the line belongs to code.
    fn fenced(&mut self, line: &str) -> bool {
        let bare = line.trim();
        let mark = bare.chars().next().filter(|&c| c == '`' || c == '~');
        let width = mark.map_or(0, |mark| bare.chars().take_while(|&c| c == mark).count());
        match self.fence {
            Some((kind, wide)) => {
                if mark == Some(kind) && width >= wide && bare.len() == width {
                    self.fence = None;
                } else {
                    self.out.push(MarkupLine::Code(line.to_owned()));
                }
                true
            }
            None if width >= 3 && !bare[width..].contains('`') => {
                self.fence = mark.map(|mark| (mark, width));
                true
            }
            None => false,
        }
    }

    fn take_html(&mut self, line: &str, quoted: bool) {
        let mut text = String::new();
        let mut rest = line;
        while !rest.is_empty() {
            if self.in_comment {
                match rest.find("-->") {
                    Some(end) => {
                        self.in_comment = false;
                        rest = &rest[end + 3..];
                    }
                    None => rest = "",
                }
                continue;
            }
            let Some(at) = rest.find('<') else {
                text.push_str(rest);
                break;
            };
            text.push_str(&rest[..at]);
            rest = self.tag(&rest[at..], &mut text, quoted);
        }
        self.flush(&text, quoted, line.trim().is_empty());
    }

    fn flush(&mut self, text: &str, quoted: bool, blank: bool) {
        if let Some(summary) = &mut self.summary {
            summary.push_str(text);
            summary.push('\n');
        } else if blank || !text.trim().is_empty() {
            self.push(text, quoted);
        }
    }

    /// Handles one `<…` and returns the rest. Anything but an HTML tag stays as text.
    fn tag<'a>(&mut self, rest: &'a str, text: &mut String, quoted: bool) -> &'a str {
        if let Some(inner) = rest.strip_prefix("<!--") {
            self.in_comment = true;
            return inner;
        }
        let name: String = rest[1..]
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-'))
            .take(64)
            .collect();
        // A tag ends before the next one starts, so that many of them take linear time.
        let close = rest[1..]
            .find(['<', '>'])
            .map(|end| end + 1)
            .filter(|&end| end < 2000 && rest[end..].starts_with('>'));
        if close.is_some() && is_wrapping(&name) {
            let begins = text.ends_with(char::is_whitespace) || text.is_empty();
            match name.strip_prefix('/') {
                Some(_) => self.apart = self.apart.saturating_sub(1),
                None if begins || is_html(&name) => self.apart += 1,
                None => {}
            }
            self.line_apart = true;
        }
        let (Some(end), true) = (close, is_html(&name)) else {
            text.push('<');
            return &rest[1..];
        };
        let attributes = &rest[..end];
        match name.to_ascii_lowercase().as_str() {
            "details" => self.open(text, quoted),
            "/details" => {
                self.flush(&std::mem::take(text), quoted, false);
                if self.depth > 0 {
                    self.depth -= 1;
                    self.out.push(MarkupLine::Close);
                }
            }
            "summary" => {
                self.flush(&std::mem::take(text), quoted, false);
                self.summary = Some(String::new());
            }
            "/summary" => self.close_summary(text),
            "br" | "br/" => self.flush(&std::mem::take(text), quoted, false),
            "tr" | "td" | "th" | "p" | "li" | "h1" | "h2" | "h3" | "h4" | "/tr" | "/table"
            | "/p" => {
                self.flush(&std::mem::take(text), quoted, false);
                self.flush("", quoted, true);
            }
            "strong" | "b" | "/strong" | "/b" => text.push_str("**"),
            "code" | "/code" => text.push('`'),
            "a" => text.push_str(&lines_of_link(attributes)),
            _ => {}
        }
        &rest[end + 1..]
    }

    fn open(&mut self, text: &mut String, quoted: bool) {
        self.flush(&std::mem::take(text), quoted, false);
        self.depth += 1;
        self.out.push(MarkupLine::Open(String::new()));
    }

    /// Closes a summary: its first line names the block, the other lines are text.
    fn close_summary(&mut self, text: &mut String) {
        let Some(mut summary) = self.summary.take() else {
            return;
        };
        summary.push_str(&std::mem::take(text));
        let mut parts = summary
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty());
        let name = parts.next().unwrap_or_default().to_owned();
        if let Some(MarkupLine::Open(open)) = self.out.last_mut() {
            *open = name;
        } else {
            self.push(&name, false);
        }
        for part in parts {
            self.push(part, false);
        }
    }

    fn finish(mut self) -> Vec<MarkupLine> {
        if let Some(summary) = self.summary.take() {
            self.push(&summary, false);
        }
        self.out
    }
}

/// Returns whether a tag quotes, strikes out or wraps its content; a tag that is not HTML wraps,
/// too.
fn is_wrapping(name: &str) -> bool {
    let bare = name.trim_matches('/');
    let is_known_tag = is_html(name);
    let is_tag_name =
        !bare.is_empty() && bare.len() < 40 && bare.starts_with(|c: char| c.is_ascii_lowercase());
    (is_tag_name && !is_known_tag && !name.ends_with('/'))
        || (is_known_tag
            && matches!(
                bare.to_ascii_lowercase().as_str(),
                "blockquote" | "pre" | "s" | "code" | "kbd" | "sub" | "sup" | "small"
            ))
}

fn is_html(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "a",
        "b",
        "strong",
        "i",
        "em",
        "u",
        "s",
        "code",
        "br",
        "p",
        "div",
        "span",
        "table",
        "thead",
        "tbody",
        "tr",
        "td",
        "th",
        "details",
        "summary",
        "blockquote",
        "ul",
        "ol",
        "li",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "sub",
        "sup",
        "img",
        "hr",
        "pre",
        "kbd",
        "small",
        "big",
        "center",
        "font",
    ];
    let bare = name.trim_matches('/').to_ascii_lowercase();
    NAMES.contains(&bare.as_str())
}

/// Reads the lines from a link to a diff, often the only text that names them: `…#diff-…R12-R40`.
fn lines_of_link(attributes: &str) -> String {
    let Some(anchor) = attributes.split("#diff-").nth(1) else {
        return String::new();
    };
    let digits = |text: &str| {
        text.chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>()
    };
    let mut numbers = anchor
        .split('R')
        .skip(1)
        .map(digits)
        .filter(|digits| !digits.is_empty());
    match (numbers.next(), numbers.next()) {
        (Some(first), Some(last)) => format!("(L{first}-L{last}) "),
        (Some(first), None) => format!("(L{first}) "),
        _ => String::new(),
    }
}

/// Removes the marks of block quotes; their own indentation stays.
fn unquoted(line: &str) -> (&str, bool) {
    let mut rest = line;
    let mut quoted = false;
    while let Some(inner) = rest.trim_start().strip_prefix('>') {
        rest = inner.strip_prefix(' ').unwrap_or(inner);
        quoted = true;
    }
    (rest, quoted)
}

/// Removes the box that a terminal program drew around text.
fn unboxed(line: &str) -> &str {
    const FRAME: [char; 14] = [
        '│', '┃', '║', '╭', '╮', '╰', '╯', '┌', '┐', '└', '┘', '─', '━', '═',
    ];
    let trimmed = line.trim();
    if !trimmed.starts_with(FRAME) && !trimmed.ends_with(FRAME) {
        return line;
    }
    let inner = trimmed.trim_matches(|c: char| FRAME.contains(&c) || c == ' ');
    if trimmed.starts_with(['└', '├']) {
        line
    } else {
        inner
    }
}
