//! Lines of a diff that can carry a comment. A forge refuses a whole review for one line that is
//! not in its diff, so every anchor is checked here first.

use std::collections::BTreeMap;

use findings::diff::{DiffPart, DiffReader};

/// Side of a diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DiffSide {
    /// Before the change: removed and unchanged lines.
    Left,
    /// After the change: added and unchanged lines.
    Right,
}

/// Line, or range of lines, that a comment is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineAnchor {
    pub path: String,
    pub side: DiffSide,
    /// First line, if the comment is about several.
    pub start_line: Option<u32>,
    /// Last line.
    pub line: u32,
}

/// Place for a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// On lines that the diff has.
    Line(LineAnchor),
    /// On a file of the diff.
    File(String),
    /// In the text of the review, because the diff does not have the file.
    Body,
}

/// Position of a line on both sides, as GitLab needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinePosition {
    pub old_path: String,
    pub new_path: String,
    pub old_line: Option<u32>,
    pub new_line: Option<u32>,
}

/// Sizes beyond which a forge shows no diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiffLimits {
    pub files: usize,
    pub lines: usize,
    pub bytes: usize,
    pub file_lines: usize,
    pub file_bytes: usize,
}

impl DiffLimits {
    pub const GITHUB: Self = Self {
        files: 300,
        lines: 20_000,
        bytes: 1_000_000,
        file_lines: 20_000,
        file_bytes: 500_000,
    };
    /// GitLab collapses larger files, and shows no position in them.
    pub const GITLAB: Self = Self {
        files: 1000,
        lines: 50_000,
        bytes: 5_000_000,
        file_lines: 20_000,
        file_bytes: 200_000,
    };
    pub const NONE: Self = Self {
        files: usize::MAX,
        lines: usize::MAX,
        bytes: usize::MAX,
        file_lines: usize::MAX,
        file_bytes: usize::MAX,
    };
}

type LinePair = (Option<u32>, Option<u32>);

#[derive(Clone, Debug, Default)]
struct CommentableFile {
    old_path: String,
    hunks: Vec<Vec<LinePair>>,
    lines: usize,
    bytes: usize,
}

/// Files and lines of a diff that can carry comments.
#[derive(Clone, Debug, Default)]
pub struct CommentableLines {
    files: BTreeMap<String, CommentableFile>,
}

/// Names of a file in the headings of a diff.
#[derive(Debug, Default)]
struct Headings {
    old: Option<String>,
    new: Option<String>,
}

impl CommentableLines {
    /// Reads a unified diff with the context that the forge shows (three lines). Lines end at
    /// `\n` only: a lone `\r` is part of a line for git.
    pub fn parse(diff: &str, limits: DiffLimits) -> Self {
        let mut lines = Self::default();
        let (mut total_lines, mut total_bytes) = (0_usize, 0_usize);
        let mut names = Headings::default();
        let mut current: Option<String> = None;
        let mut reader = DiffReader::default();
        for line in diff.split('\n') {
            match reader.read(line) {
                DiffPart::Heading(text) => {
                    if let Some(rest) = text.strip_prefix("diff --git ") {
                        names = same_name(rest);
                        current = lines.open_file(&names, limits);
                    } else if names.read(text) {
                        if let Some(path) = current.take() {
                            lines.drop_empty(&path);
                        }
                        current = lines.open_file(&names, limits);
                    }
                }
                DiffPart::Hunk(..) => {
                    if let Some(file) = lines.file_mut(current.as_ref()) {
                        file.hunks.push(Vec::new());
                    }
                }
                DiffPart::Row { old, new, text, .. } => {
                    total_lines += 1;
                    total_bytes += text.len() + 2;
                    let within = total_lines <= limits.lines && total_bytes <= limits.bytes;
                    let Some(file) = lines.file_mut(current.as_ref()) else {
                        continue;
                    };
                    file.lines += 1;
                    file.bytes += text.len() + 2;
                    if !within {
                        continue;
                    }
                    if file.lines > limits.file_lines || file.bytes > limits.file_bytes {
                        // A file that is too large is not shown at all.
                        file.hunks.clear();
                    } else if let Some(hunk) = file.hunks.last_mut() {
                        hunk.push((old, new));
                    }
                }
                DiffPart::Marker => {}
            }
        }
        lines
    }

    fn open_file(&mut self, names: &Headings, limits: DiffLimits) -> Option<String> {
        let path = names.new.as_ref().or(names.old.as_ref())?;
        if self.files.len() >= limits.files && !self.files.contains_key(path) {
            return None;
        }
        let old_path = names.old.as_ref().unwrap_or(path).clone();
        let file = self.files.entry(path.clone()).or_default();
        file.old_path = old_path;
        Some(path.clone())
    }

    /// Forgets a name that a later heading corrects.
    fn drop_empty(&mut self, path: &str) {
        if self
            .files
            .get(path)
            .is_some_and(|file| file.hunks.is_empty())
        {
            self.files.remove(path);
        }
    }

    fn file_mut(&mut self, path: Option<&String>) -> Option<&mut CommentableFile> {
        self.files.get_mut(path?)
    }

    pub fn has_file(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// Returns whether a comment can be on this line.
    pub fn has_line(&self, path: &str, side: DiffSide, line: u32) -> bool {
        self.hunk_of(path, side, line).is_some()
    }

    fn hunk_of(&self, path: &str, side: DiffSide, line: u32) -> Option<&Vec<LinePair>> {
        let has = |hunk: &&Vec<LinePair>| hunk.iter().any(|pair| number(pair, side) == Some(line));
        self.files.get(path)?.hunks.iter().find(has)
    }

    /// Finds the closest place for a comment that the forge accepts: the range within one hunk, its
    /// last or first line, the file, or the text of the review.
    pub fn place(&self, wanted: &LineAnchor) -> Placement {
        let LineAnchor {
            path,
            side,
            start_line,
            line,
        } = wanted;
        let start = start_line.filter(|start| start < line);
        let Some(hunk) = self.hunk_of(path, *side, *line) else {
            let first = start.filter(|start| self.has_line(path, *side, *start));
            return match first {
                Some(first) => Placement::Line(LineAnchor {
                    start_line: None,
                    line: first,
                    ..wanted.clone()
                }),
                None if self.has_file(path) => Placement::File(path.clone()),
                None => Placement::Body,
            };
        };
        let in_hunk = |start: &u32| hunk.iter().any(|pair| number(pair, *side) == Some(*start));
        Placement::Line(LineAnchor {
            start_line: start.filter(in_hunk),
            ..wanted.clone()
        })
    }

    /// Returns the numbers of a line on both sides. An unchanged line has two.
    pub fn position(&self, path: &str, side: DiffSide, line: u32) -> Option<LinePosition> {
        let file = self.files.get(path)?;
        let hunk = self.hunk_of(path, side, line)?;
        let pair = hunk.iter().find(|pair| number(pair, side) == Some(line))?;
        Some(LinePosition {
            old_path: file.old_path.clone(),
            new_path: path.to_owned(),
            old_line: pair.0,
            new_line: pair.1,
        })
    }
}

fn number(pair: &LinePair, side: DiffSide) -> Option<u32> {
    match side {
        DiffSide::Left => pair.0,
        DiffSide::Right => pair.1,
    }
}

impl Headings {
    /// Takes a name from a heading, and returns whether it did.
    fn read(&mut self, line: &str) -> bool {
        let taken = |name: &str, prefix: &str| {
            let name = unquoted(name.strip_suffix('\t').unwrap_or(name))?;
            let name = name.strip_prefix(prefix)?.to_owned();
            Some(name)
        };
        if let Some(name) = line.strip_prefix("--- ") {
            self.old = taken(name, "a/");
        } else if let Some(name) = line.strip_prefix("+++ ") {
            self.new = taken(name, "b/");
        } else if let Some(name) = line.strip_prefix("rename from ") {
            self.old = taken(name, "");
            return false;
        } else if let Some(name) = line.strip_prefix("rename to ") {
            self.new = taken(name, "");
        } else {
            return false;
        }
        true
    }
}

/// Reads `a/x b/x`, which is unambiguous if both names are the same. A rename names both again.
fn same_name(rest: &str) -> Headings {
    let name = if rest.starts_with('"') {
        let first = rest.split_once("\" \"");
        first.and_then(|(old, _)| unquoted(&format!("{old}\"")))
    } else {
        let half = rest.len().saturating_sub(1) / 2;
        let (old, new) = (rest.get(..half), rest.get(half + 1..));
        let old_name = old.and_then(|old| old.strip_prefix("a/"));
        let same = old_name == new.and_then(|new| new.strip_prefix("b/"));
        old.filter(|_| same).map(str::to_owned)
    };
    let name = name.and_then(|name| name.strip_prefix("a/").map(str::to_owned));
    Headings {
        old: name.clone(),
        new: name,
    }
}

/// Removes git's quotes and escapes. `None` for a name that is not UTF-8: no forge can be told it.
fn unquoted(name: &str) -> Option<String> {
    let Some(inner) = name
        .strip_prefix('"')
        .and_then(|name| name.strip_suffix('"'))
    else {
        return Some(name.to_owned());
    };
    let mut bytes = Vec::new();
    let mut rest = inner.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next()? {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'v' => 11,
            first @ b'0'..=b'3' => {
                let digits = [first, rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 8).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
