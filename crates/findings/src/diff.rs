//! The one parser of unified diffs. It tells headings from changed lines by counting: a removed line
//! `-- a/x` looks like the heading `--- a/x`, and only the hunk's lengths say which one it is.

use serde::{Deserialize, Serialize};

/// Ranges of a hunk before and after the change, from `@@ -12,3 +14,0 @@`. Serialised as four
/// numbers, because a change has many of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(from = "[u32; 4]", into = "[u32; 4]")]
pub struct HunkRanges {
    pub old_start: u32,
    pub old_len: u32,
    pub new_start: u32,
    pub new_len: u32,
}

impl From<[u32; 4]> for HunkRanges {
    fn from([old_start, old_len, new_start, new_len]: [u32; 4]) -> Self {
        Self {
            old_start,
            old_len,
            new_start,
            new_len,
        }
    }
}

impl From<HunkRanges> for [u32; 4] {
    fn from(hunk: HunkRanges) -> Self {
        [hunk.old_start, hunk.old_len, hunk.new_start, hunk.new_len]
    }
}

impl HunkRanges {
    /// Parses the heading of a hunk, and returns the text after its ranges as well.
    fn parse(line: &str) -> Option<(Self, &str)> {
        let (ranges, heading) = line.strip_prefix("@@ -")?.split_once(" @@")?;
        let (old, new) = ranges.split_once(" +")?;
        let ((old_start, old_len), (new_start, new_len)) = (range(old)?, range(new)?);
        let ranges = Self::from([old_start, old_len, new_start, new_len]);
        Some((ranges, heading.trim()))
    }
}

/// Numbers over the limit are refused, so that sums of a few of them cannot overflow.
/// Line numbers come from a text of an agent or a tool.
fn range(text: &str) -> Option<(u32, u32)> {
    let (start, len) = text.split_once(',').unwrap_or((text, "1"));
    let (start, len) = (start.parse().ok()?, len.parse().ok()?);
    (start < u32::MAX / 4 && len < u32::MAX / 4).then_some((start, len))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiffRowKind {
    Kept,
    Added,
    Removed,
}

/// One line of a diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffPart<'a> {
    /// A line outside the hunks: names, modes, `diff --git`.
    Heading(&'a str),
    /// The heading of a hunk, with the text behind its ranges.
    Hunk(HunkRanges, &'a str),
    /// A line of a hunk, with its numbers before and after the change.
    Row {
        kind: DiffRowKind,
        old: Option<u32>,
        new: Option<u32>,
        text: &'a str,
    },
    /// `\ No newline at end of file`
    Marker,
}

/// Position in a diff that is read line by line.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiffReader {
    old: u32,
    new: u32,
    /// Old and new lines that the hunk still has.
    left: (u32, u32),
}

impl DiffReader {
    pub fn read<'a>(&mut self, line: &'a str) -> DiffPart<'a> {
        // Only here can a line be a heading. Inside a hunk the sign decides.
        if self.left == (0, 0) {
            return self.read_heading(line);
        }
        let (kind, text) = match line.split_at_checked(1) {
            Some(("+", text)) => (DiffRowKind::Added, text),
            Some(("-", text)) => (DiffRowKind::Removed, text),
            Some((" ", text)) => (DiffRowKind::Kept, text),
            // Some tools strip blanks at the ends of lines, also the sign of an empty line.
            None if line.is_empty() => (DiffRowKind::Kept, ""),
            Some(("\\", _)) => return DiffPart::Marker,
            // A broken or edited diff must not swallow the heading of the next file.
            // The hunk is shorter than it said.
            _ => {
                self.left = (0, 0);
                return self.read_heading(line);
            }
        };
        DiffPart::Row {
            kind,
            old: (kind != DiffRowKind::Added).then(|| advance(&mut self.old, &mut self.left.0)),
            new: (kind != DiffRowKind::Removed).then(|| advance(&mut self.new, &mut self.left.1)),
            text,
        }
    }

    fn read_heading<'a>(&mut self, line: &'a str) -> DiffPart<'a> {
        let Some((ranges, heading)) = HunkRanges::parse(line) else {
            return match line.strip_prefix('\\') {
                Some(_) => DiffPart::Marker,
                None => DiffPart::Heading(line),
            };
        };
        (self.old, self.new) = (ranges.old_start, ranges.new_start);
        self.left = (ranges.old_len, ranges.new_len);
        DiffPart::Hunk(ranges, heading)
    }
}

/// Counts one line of a side, and returns its number.
fn advance(next: &mut u32, left: &mut u32) -> u32 {
    // The counts come from the text, so nothing here may underflow.
    *left = left.saturating_sub(1);
    let number = *next;
    *next = next.saturating_add(1);
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<DiffPart<'_>> {
        let mut reader = DiffReader::default();
        text.lines().map(|line| reader.read(line)).collect()
    }

    #[test]
    fn lines_that_look_like_headings_are_told_apart_by_the_lengths() {
        let lines = read("--- a/x\n+++ b/x\n@@ -2,2 +2 @@ fn x\n--- a/y\n+++ b/y\n-z\n--- a/w\n");
        let row = |kind, old, new, text| DiffPart::Row {
            kind,
            old,
            new,
            text,
        };
        assert_eq!(
            lines,
            [
                DiffPart::Heading("--- a/x"),
                DiffPart::Heading("+++ b/x"),
                DiffPart::Hunk(HunkRanges::from([2, 2, 2, 1]), "fn x"),
                row(DiffRowKind::Removed, Some(2), None, "-- a/y"),
                row(DiffRowKind::Added, None, Some(2), "++ b/y"),
                row(DiffRowKind::Removed, Some(3), None, "z"),
                DiffPart::Heading("--- a/w"),
            ]
        );
    }

    #[test]
    fn a_hunk_that_ends_early_does_not_take_the_next_file() {
        let lines =
            read("@@ -1,9 +1,9 @@\n a\n\\ No newline at end of file\ndiff --git a/y b/y\n+b");
        assert!(matches!(lines[1], DiffPart::Row { new: Some(1), .. }));
        assert_eq!(
            lines[2..],
            [
                DiffPart::Marker,
                DiffPart::Heading("diff --git a/y b/y"),
                DiffPart::Heading("+b"),
            ]
        );
    }

    #[test]
    fn numbers_that_would_overflow_are_no_hunk() {
        for line in [
            "@@ -9,99999999999 +1 @@",
            "@@ -1 +2147483648,1 @@",
            "@@ -1 1 @@",
            "@@ -x +1 @@",
            "@@ -1 +1",
        ] {
            assert_eq!(read(line), [DiffPart::Heading(line)], "{line}");
        }
    }
}
