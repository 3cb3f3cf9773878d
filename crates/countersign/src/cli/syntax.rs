//! Highlights code line by line: comments, strings, numbers and keywords.
//!
//! A diff shows fragments of files, on which a full grammar would fail too. This highlighter knows
//! five families of languages, needs no tables at start, and at worst picks a wrong colour.

use ratatui::style::{Color, Style};
use ratatui::text::Span;

use super::paint::dim;

/// Family of languages with the same comments and strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LanguageFamily {
    /// `//` comments, and single quotes that are mostly lifetimes.
    Rust,
    /// `//` comments.
    Slashes,
    /// `#` comments.
    Hashes,
    /// `--` comments.
    Dashes,
    /// Strings and numbers only.
    Data,
    /// No colours.
    Prose,
}

impl LanguageFamily {
    pub fn from_path(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        let ending = name.rsplit('.').next().unwrap_or(name).to_ascii_lowercase();
        match ending.as_str() {
            "rs" => Self::Rust,
            "c" | "h" | "cc" | "cpp" | "hpp" | "java" | "js" | "jsx" | "mjs" | "ts" | "tsx"
            | "go" | "kt" | "swift" | "cs" | "scala" | "dart" | "zig" | "php" | "scss"
            | "proto" | "groovy" => Self::Slashes,
            "py" | "sh" | "bash" | "zsh" | "fish" | "rb" | "pl" | "toml" | "yaml" | "yml"
            | "ini" | "conf" | "r" | "ex" | "exs" | "nix" | "dockerfile" | "makefile" | "mk"
            | "cmake" | "tf" => Self::Hashes,
            "sql" | "lua" | "hs" | "elm" | "adb" => Self::Dashes,
            "json" | "xml" | "html" | "css" | "svg" => Self::Data,
            _ => Self::Prose,
        }
    }

    fn comment(self) -> Option<&'static str> {
        match self {
            Self::Rust | Self::Slashes => Some("//"),
            Self::Hashes => Some("#"),
            Self::Dashes => Some("--"),
            Self::Data | Self::Prose => None,
        }
    }
}

/// Keywords of most languages.
const KEYWORDS: &[&str] = &[
    "abstract",
    "and",
    "as",
    "async",
    "await",
    "begin",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "def",
    "default",
    "defer",
    "do",
    "done",
    "elif",
    "else",
    "end",
    "enum",
    "esac",
    "except",
    "export",
    "extends",
    "false",
    "fi",
    "final",
    "finally",
    "fn",
    "for",
    "from",
    "func",
    "function",
    "if",
    "impl",
    "implements",
    "import",
    "in",
    "interface",
    "lambda",
    "let",
    "local",
    "loop",
    "match",
    "mod",
    "module",
    "mut",
    "new",
    "nil",
    "none",
    "not",
    "null",
    "or",
    "package",
    "pass",
    "private",
    "protected",
    "pub",
    "public",
    "raise",
    "readonly",
    "return",
    "select",
    "self",
    "static",
    "struct",
    "super",
    "switch",
    "then",
    "this",
    "throw",
    "trait",
    "true",
    "try",
    "type",
    "union",
    "unless",
    "unsafe",
    "until",
    "use",
    "val",
    "var",
    "void",
    "where",
    "while",
    "with",
    "yield",
];

/// Splits a line into spans with their colours.
pub fn highlight(text: &str, family: LanguageFamily) -> Vec<Span<'static>> {
    if family == LanguageFamily::Prose {
        return vec![Span::raw(text.to_owned())];
    }
    let mut spans = Vec::new();
    let mut rest = text;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let (length, style) = next_token(rest, first, before, family);
        let (token, after) = rest.split_at(length);
        before = token.chars().next_back().unwrap_or(' ');
        push(&mut spans, token, style);
        rest = after;
    }
    spans
}

/// Appends a piece, joined with the last one if both have the same colour.
fn push(spans: &mut Vec<Span<'static>>, text: &str, style: Style) {
    match spans.last_mut() {
        Some(last) if last.style == style => last.content.to_mut().push_str(text),
        Some(_) | None => spans.push(Span::styled(text.to_owned(), style)),
    }
}

/// Returns the length of the next token and its colour.
fn next_token(rest: &str, first: char, before: char, family: LanguageFamily) -> (usize, Style) {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let begins_comment = family.comment().is_some_and(|mark| rest.starts_with(mark));
    // `$#` and `a#b` are not comments.
    if begins_comment && (family != LanguageFamily::Hashes || before.is_whitespace()) {
        return (rest.len(), dim());
    }
    if matches!(first, '"' | '\'' | '`')
        && let Some(length) = string(rest, first)
        && (family != LanguageFamily::Rust || first != '\'' || is_char(&rest[..length]))
    {
        return (length, Style::new().fg(Color::Cyan));
    }
    if is_word(first) {
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let word = &rest[..length];
        let style = if first.is_ascii_digit() {
            Style::new().fg(Color::Cyan)
        } else if family != LanguageFamily::Data
            && KEYWORDS.binary_search(&lower(word).as_str()).is_ok()
        {
            Style::new().fg(Color::Magenta)
        } else {
            Style::new()
        };
        return (length, style);
    }
    (first.len_utf8(), Style::new())
}

/// Lowers a word that is all upper case, because SQL keywords often are.
fn lower(word: &str) -> String {
    let is_upper = word.chars().all(|c| c.is_ascii_uppercase());
    if is_upper {
        word.to_ascii_lowercase()
    } else {
        word.to_owned()
    }
}

/// Returns the length of a string that ends on this line; a single quote alone is an apostrophe.
fn string(rest: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(at + c.len_utf8()),
            _ => {}
        }
    }
    None
}

/// Matches `'a'` and `'\n'`, but not `'a, 'b`.
fn is_char(quoted: &str) -> bool {
    quoted.chars().count() == 3 || quoted.starts_with("'\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(text: &str, path: &str) -> String {
        let spans = highlight(text, LanguageFamily::from_path(path));
        let marks = spans.iter().map(|span| match span.style {
            style if style == dim() => format!("<c>{}</c>", span.content),
            style if style.fg == Some(Color::Cyan) => format!("<s>{}</s>", span.content),
            style if style.fg == Some(Color::Magenta) => format!("<k>{}</k>", span.content),
            _ => span.content.to_string(),
        });
        marks.collect()
    }

    #[test]
    fn words_are_in_order_so_that_they_are_found() {
        assert!(KEYWORDS.is_sorted());
    }

    #[test]
    fn comments_strings_numbers_and_words_are_told_apart() {
        let cases = [
            (
                "a.rs",
                "let x = \"a // b\"; // 12",
                "<k>let</k> x = <s>\"a // b\"</s>; <c>// 12</c>",
            ),
            (
                "a.rs",
                "fn f<'a>(x: &'a str) { 'x' }",
                "<k>fn</k> f<'a>(x: &'a str) { <s>'x'</s> }",
            ),
            (
                "a.sh",
                "[ $# -gt 1 ] # few",
                "[ $# -gt <s>1</s> ] <c># few</c>",
            ),
            (
                "a.sql",
                "SELECT 1 -- one",
                "<k>SELECT</k> <s>1</s> <c>-- one</c>",
            ),
            ("a.json", "{\"if\": 1}", "{<s>\"if\"</s>: <s>1</s>}"),
            ("a.md", "if # not", "if # not"),
            ("a.py", "it's = \"\\\"\"", "it's = <s>\"\\\"\"</s>"),
        ];
        for (path, text, wanted) in cases {
            assert_eq!(marked(text, path), wanted);
        }
    }

    #[test]
    fn nothing_is_lost_whatever_the_line() {
        for text in ["", "'", "\"\\", "é漢'字", "####", "// // //", "\t\t x"] {
            for path in ["a.rs", "a.sh", "a.sql", "a.json"] {
                let spans = highlight(text, LanguageFamily::from_path(path));
                let whole: String = spans.iter().map(|span| span.content.as_ref()).collect();
                assert_eq!(whole, text);
            }
        }
    }
}
