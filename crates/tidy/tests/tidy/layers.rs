//! Tells apart what is code, comment and quotation in a Rust source, so that a rule about code is
//! not tripped by a sentence about it. It knows tokens only: no grammar, no macros.

/// Three texts with the lines and columns of the original; what belongs to another layer is blank.
pub struct Layers {
    pub code: String,
    pub comments: String,
    pub quoted: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Code,
    Comment,
    Quoted,
}

pub fn split(text: &str) -> Layers {
    let mut layers = Layers {
        code: String::new(),
        comments: String::new(),
        quoted: String::new(),
    };
    let mut at = 0;
    let mut before = ' ';
    while at < text.len() {
        let rest = &text[at..];
        let (kind, len) = token(rest, before);
        let piece = &rest[..len];
        layers.push(piece, kind);
        before = piece.chars().next_back().unwrap_or(' ');
        at += len;
    }
    layers
}

impl Layers {
    fn push(&mut self, piece: &str, kind: Kind) {
        for (layer, own) in [
            (&mut self.code, Kind::Code),
            (&mut self.comments, Kind::Comment),
            (&mut self.quoted, Kind::Quoted),
        ] {
            if own == kind {
                layer.push_str(piece);
            } else {
                layer.extend(piece.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            }
        }
    }
}

/// The kind of what `rest` begins with, and how many bytes of it belong together.
fn token(rest: &str, before: char) -> (Kind, usize) {
    if rest.starts_with("//") {
        return (Kind::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (Kind::Comment, block_comment(rest));
    }
    if let Some(len) = raw_string(rest, before) {
        return (Kind::Quoted, len);
    }
    if rest.starts_with('"') {
        return (Kind::Quoted, string(rest));
    }
    if let Some(len) = character(rest) {
        return (Kind::Quoted, len);
    }
    (Kind::Code, rest.chars().next().map_or(1, char::len_utf8))
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        let here = &rest[at..];
        if here.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += here.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// `r"…"`, `r#"…"#` and their byte and C kin, unless the `r` ends a longer word.
fn raw_string(rest: &str, before: char) -> Option<usize> {
    if before.is_alphanumeric() || before == '_' {
        return None;
    }
    let start = rest
        .strip_prefix(['b', 'c'])
        .unwrap_or(rest)
        .strip_prefix('r')?;
    let body = start.trim_start_matches('#');
    let hashes = start.len() - body.len();
    let body = body.strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let opening = rest.len() - body.len();
    Some(
        body.find(&end)
            .map_or(rest.len(), |at| opening + at + end.len()),
    )
}

fn string(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// A character literal; a lifetime begins alike and is code.
fn character(rest: &str) -> Option<usize> {
    let body = rest.strip_prefix('\'')?;
    if let Some(escape) = body.strip_prefix('\\') {
        let first = escape.chars().next()?.len_utf8();
        return Some(2 + first + escape[first..].find('\'')? + 1);
    }
    let first = body.chars().next()?.len_utf8();
    body[first..].starts_with('\'').then_some(first + 2)
}

#[test]
fn code_comments_and_quotations_are_told_apart() {
    let text = r##"let a = "x // no"; // say "hi"
/* a /* b */ c */ fn f<'a>(c: char) -> &'a str { if c == '"' || c == '\'' { r#"raw " SELECT"# } else { b"\"q" } }"##;
    let layers = split(text);
    assert_eq!(
        layers.code.lines().next().map(str::trim_end),
        Some("let a =          ;")
    );
    assert_eq!(
        layers.comments.lines().next().map(str::trim),
        Some("// say \"hi\"")
    );
    assert!(
        layers
            .code
            .contains("fn f<'a>(c: char) -> &'a str { if c ==")
    );
    assert!(layers.quoted.contains("SELECT") && !layers.code.contains("SELECT"));
    assert!(layers.quoted.contains("q\"") && layers.code.trim_end().ends_with("} }"));
    assert_eq!(layers.code.lines().count(), text.lines().count());
}
