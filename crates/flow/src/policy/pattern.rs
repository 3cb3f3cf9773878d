//! Path patterns, read as git reads the lines of a `.gitignore`: `tests/` is everything below any
//! `tests`, `*.lock` any such file at any depth, a slash at the start or in the middle anchors the
//! pattern at the top of the repository, `*`, `?` and `[a-z]` stay inside a directory, `**` goes
//! through any number of them, and `!` takes back what an earlier line of the same list matched.
//! Names are compared as bytes, case and all.

pub mod legacy;
mod name;
#[cfg(test)]
mod tests;

use name::{PatternToken, matches_name, tokens};

/// The longest pattern, in bytes.
/// Matching costs the product of both lengths, and a pattern is compared with every path of a
/// change.
pub const PATTERN_BYTES_MAX: usize = 1024;

/// A list of patterns. The last one that matches a path decides.
#[derive(Clone, Debug, Default)]
pub struct PathPatterns {
    patterns: Vec<PathPattern>,
}

#[derive(Clone, Debug)]
struct PathPattern {
    negated: bool,
    /// Written with a slash at the end: only a directory, with all that is below it.
    directory_only: bool,
    /// Compared with the whole path, not with the last name.
    anchored: bool,
    segments: Vec<Segment>,
}

#[derive(Clone, Debug)]
enum Segment {
    /// `**`
    AnyDepth,
    Name(Vec<PatternToken>),
}

impl PathPatterns {
    /// Lines that can match nothing (empty, comments, broken ones) are left out; [`problem`] names them.
    pub fn new<'a>(lines: impl IntoIterator<Item = &'a String>) -> Self {
        let lines = lines.into_iter();
        Self {
            patterns: lines.filter_map(|line| parse(line)).collect(),
        }
    }

    /// Whether the patterns mean this file, relative to the repository, or a directory above it.
    pub fn matches(&self, path: &str) -> bool {
        self.any(path, false)
    }

    /// Whether the patterns protect this path: [`Self::matches`], and `tests/` also means whatever is
    /// called `tests` itself. A submodule is one path for git and a directory for everybody else, and a
    /// file or a link in the place of a protected directory replaces all of it.
    /// A pattern that guards a directory must not be passed by replacing the directory.
    pub fn protects(&self, path: &str) -> bool {
        self.any(path, false) || self.any(path, true)
    }

    fn any(&self, path: &str, is_directory: bool) -> bool {
        let names: Vec<&[u8]> = path
            .split('/')
            .filter(|name| !name.is_empty())
            .map(str::as_bytes)
            .collect();
        // Every directory above the path is asked too, as git does: a file below an ignored
        // directory is ignored.
        (1..=names.len()).any(|end| {
            let above = names.get(..end).unwrap_or_default();
            self.decides(above, is_directory || end < names.len()) == Some(true)
        })
    }

    fn decides(&self, names: &[&[u8]], is_directory: bool) -> Option<bool> {
        // The last pattern decides, so the search begins at the end.
        let mut last_first = self.patterns.iter().rev();
        let found = last_first.find(|pattern| pattern.matches(names, is_directory));
        found.map(|pattern| !pattern.negated)
    }
}

/// Whether one pattern by itself means the path.
pub fn matches(pattern: &str, path: &str) -> bool {
    PathPatterns::new([&pattern.to_owned()]).matches(path)
}

/// Whether the pattern would mean the path if its `*` and `?` went through slashes, as those of
/// `protected` once did.
/// `config check` uses it to warn about patterns that matched more in an earlier version.
pub fn matches_across_slashes(pattern: &str, path: &str) -> bool {
    let whole = tokens(pattern.as_bytes()).map(|segments| {
        let slash = [PatternToken::Byte(b'/')];
        segments.join(&slash[..])
    });
    whole.is_some_and(|whole| matches_name(&whole, path.as_bytes()))
}

/// The reason why a pattern can match nothing, for the person who wrote it.
pub fn problem(pattern: &str) -> Option<String> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Some(format!("longer than {PATTERN_BYTES_MAX} bytes"));
    }
    if pattern.trim().is_empty() {
        return Some("empty".to_owned());
    }
    if pattern.starts_with('#') {
        return Some("a comment: write `\\#` for a name that begins with #".to_owned());
    }
    parse(pattern).is_none().then(|| {
        "broken: a `[` without its `]`, a `\\` at the end, or nothing but slashes".to_owned()
    })
}

fn parse(line: &str) -> Option<PathPattern> {
    if line.len() > PATTERN_BYTES_MAX || line.starts_with('#') {
        return None;
    }
    // Spaces first: git looks for `!` and the last slash in what is left.
    let line = without_trailing_spaces(line);
    let (negated, line) = match line.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let (directory_only, line) = match line.strip_suffix('/') {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    // Before the leading slash is removed: it is what anchors the pattern.
    let anchored = line.contains('/');
    let line = line.strip_prefix('/').unwrap_or(line);
    if line.is_empty() {
        return None;
    }
    let segments = tokens(line.as_bytes())?;
    Some(PathPattern {
        negated,
        directory_only,
        anchored,
        segments: segments.into_iter().map(segment).collect(),
    })
}

/// Spaces at the end do not count, unless a backslash stands before them.
fn without_trailing_spaces(line: &str) -> &str {
    let bare = line.trim_end_matches(' ');
    let slashes = bare.len() - bare.trim_end_matches('\\').len();
    // An odd number of backslashes quotes the first space; an even number is backslashes only.
    if bare.len() < line.len() && slashes % 2 == 1 {
        return line.get(..=bare.len()).unwrap_or(bare);
    }
    bare
}

fn segment(tokens: Vec<PatternToken>) -> Segment {
    let stars = tokens
        .iter()
        .all(|token| matches!(token, PatternToken::Star));
    if stars && tokens.len() >= 2 {
        return Segment::AnyDepth;
    }
    Segment::Name(tokens)
}

impl PathPattern {
    fn matches(&self, names: &[&[u8]], is_directory: bool) -> bool {
        if self.directory_only && !is_directory {
            return false;
        }
        if self.anchored {
            return matches_path(&self.segments, names);
        }
        // A pattern that is not anchored has no slash, so it has one segment.
        let (Some(segment), Some(name)) = (self.segments.first(), names.last()) else {
            return false;
        };
        segment.matches(name)
    }
}

impl Segment {
    fn matches(&self, name: &[u8]) -> bool {
        match self {
            Self::AnyDepth => true,
            Self::Name(tokens) => matches_name(tokens, name),
        }
    }
}

/// On a mismatch the last `**` takes one directory more, so the work is bounded by the product of
/// both lengths.
fn matches_path(segments: &[Segment], names: &[&[u8]]) -> bool {
    let (mut at, mut seen, mut back) = (0, 0, None);
    loop {
        match (segments.get(at), names.get(seen)) {
            (None, None) => return true,
            // `**` at the end needs something below it: `a/**` is not `a` itself.
            (Some(Segment::AnyDepth), here) => {
                if at + 1 == segments.len() {
                    return here.is_some();
                }
                back = Some((at, seen));
                at += 1;
                continue;
            }
            (Some(segment), Some(name)) if segment.matches(name) => {
                at += 1;
                seen += 1;
                continue;
            }
            (_, None) => return false,
            (_, Some(_)) => {}
        }
        let Some((depth, taken)) = back else {
            return false;
        };
        back = Some((depth, taken + 1));
        at = depth + 1;
        seen = taken + 1;
    }
}
