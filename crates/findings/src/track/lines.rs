//! Maps lines of the old commit to the new one, from the output of `git diff -U0 -M`.
//!
//! The map is stored with a submission, so it keeps ranges only and no text.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::clean::confine;
use crate::diff::{DiffPart, DiffReader, HunkRanges};
use crate::finding::Finding;

/// The changes between two commits, file by file. Empty means that nothing changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct LineMap {
    files: BTreeMap<String, FileHunks>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
struct FileHunks {
    /// `None` when the file was deleted.
    new_path: Option<String>,
    hunks: Vec<HunkRanges>,
}

/// Location of an old line in the new commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedLine {
    /// New path of the file; `None` if it was deleted.
    pub file: Option<String>,
    /// New line; for a changed line, the line in its replacement.
    pub line: Option<u32>,
    /// True if the line itself was changed or deleted.
    pub touched: bool,
}

impl LineMap {
    /// Parses a diff. It skips parts that it cannot read; those lines count as unmoved.
    /// A diff that cannot be read must not move findings to wrong places, so what is unknown stays
    /// where it was.
    pub fn parse(diff: &str) -> Self {
        let mut map = Self::default();
        let mut current = DiffHeader::default();
        let mut reader = DiffReader::default();
        for line in diff.lines() {
            match reader.read(line) {
                DiffPart::Heading(line) => match line.strip_prefix("diff --git ") {
                    Some(rest) => {
                        map.close(std::mem::take(&mut current));
                        current.paths_of(rest);
                    }
                    None => current.take(line),
                },
                DiffPart::Hunk(hunk, _) => current.hunks.push(hunk),
                DiffPart::Row { .. } | DiffPart::Marker => {}
            }
        }
        map.close(current);
        map
    }

    fn close(&mut self, header: DiffHeader) {
        if let Some(old) = header.old {
            // Git writes a new path for a deleted file as well.
            let new_path = if header.deleted { None } else { header.new };
            self.files.insert(
                old,
                FileHunks {
                    new_path,
                    hunks: header.hunks,
                },
            );
        }
    }

    /// Returns the location of an old line in the new commit.
    pub fn map(&self, file: &str, line: Option<u32>) -> MappedLine {
        let Some(change) = self.files.get(file).or_else(|| self.by_suffix(file)) else {
            return MappedLine {
                file: Some(file.to_owned()),
                line,
                touched: false,
            };
        };
        let (line, touched) = line.map_or((None, false), |line| map_line(&change.hunks, line));
        MappedLine {
            file: change.new_path.clone(),
            line,
            touched,
        }
    }

    /// Finds a file by the end of its path: reviewers often leave out the first directories, or add
    /// those of the checkout. `None` if several files fit.
    fn by_suffix(&self, file: &str) -> Option<&FileHunks> {
        let mut fits = self
            .files
            .iter()
            .filter(|(path, _)| ends_with_path(path, file) || ends_with_path(file, path));
        let first = fits.next().map(|(_, change)| change);
        // Two files fit, for example two `mod.rs`. A guess could move a finding to the wrong one.
        if fits.next().is_some() { None } else { first }
    }

    /// Returns whether the change wrote any of these lines of the new commit.
    pub fn wrote_lines(&self, file: &str, line: u32, end_line: Option<u32>) -> bool {
        let end = end_line.unwrap_or(line).max(line);
        let changes = self
            .files
            .values()
            .filter(|change| change.new_path.as_deref() == Some(file));
        changes.flat_map(|change| &change.hunks).any(|hunk| {
            // A hunk without new lines wrote nothing, it only removed.
            hunk.new_len > 0 && hunk.new_start <= end && line < hunk.new_start + hunk.new_len
        })
    }

    /// Moves a finding of the old commit to its lines in the new one.
    pub fn move_finding(&self, finding: &mut Finding) {
        let Some(file) = &finding.file else { return };
        let start = self.map(file, finding.line);
        let end = finding
            .end_line
            .and_then(|end| self.map(file, Some(end)).line);
        // An end before the start would be an empty range, so it is dropped.
        finding.end_line = end.filter(|end| start.line.is_some_and(|line| *end >= line));
        finding.line = start.line;
        // A deleted file keeps its old name in the finding: it has to be shown somewhere.
        if let Some(file) = start.file {
            finding.file = Some(file);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Lists the changed ranges such as `src/a.rs:3-7`, in line numbers of the new commit.
    pub fn changed_ranges(&self) -> Vec<String> {
        let mut ranges = Vec::new();
        for change in self.files.values() {
            let Some(path) = &change.new_path else {
                continue;
            };
            for hunk in &change.hunks {
                ranges.push(match hunk.new_len {
                    0 | 1 => format!("{path}:{}", hunk.new_start),
                    n => format!("{path}:{}-{}", hunk.new_start, hunk.new_start + n - 1),
                });
            }
        }
        ranges
    }

    /// Returns the sum of added and removed lines.
    pub fn changed_line_count(&self) -> u32 {
        let hunks = self.files.values().flat_map(|change| &change.hunks);
        hunks
            .map(|hunk| hunk.old_len.saturating_add(hunk.new_len))
            .fold(0, u32::saturating_add)
    }
}

pub(super) fn ends_with_path(path: &str, tail: &str) -> bool {
    path == tail
        || path
            .strip_suffix(tail)
            .is_some_and(|front| front.ends_with('/'))
}

fn map_line(hunks: &[HunkRanges], line: u32) -> (Option<u32>, bool) {
    let mut shift: i64 = 0;
    for hunk in hunks {
        // A pure insertion comes after its old line, so that line itself does not move.
        let first_after = if hunk.old_len == 0 {
            hunk.old_start + 1
        } else {
            hunk.old_start + hunk.old_len
        };
        if line >= first_after {
            shift += i64::from(hunk.new_len) - i64::from(hunk.old_len);
        } else if hunk.old_len > 0 && line >= hunk.old_start {
            // A changed line maps into its replacement, at the same offset, but not beyond its end.
            let offset = (line - hunk.old_start).min(hunk.new_len.saturating_sub(1));
            return (Some((hunk.new_start + offset).max(1)), true);
        }
    }
    // Never below 1, whatever the ranges of a broken diff add up to.
    (u32::try_from((i64::from(line) + shift).max(1)).ok(), false)
}

#[derive(Debug, Default)]
struct DiffHeader {
    old: Option<String>,
    new: Option<String>,
    deleted: bool,
    hunks: Vec<HunkRanges>,
}

impl DiffHeader {
    /// Reads `a/x b/x`. For paths with blanks, the `---`, `+++` and `rename` lines below correct
    /// it.
    fn paths_of(&mut self, rest: &str) {
        // Git writes both paths on one line without a clear separator. The lines below are exact,
        // and overwrite this.
        if let Some((old, new)) = rest.split_once(" b/") {
            self.old = path(old);
            self.new = confine(new);
        }
    }

    fn take(&mut self, line: &str) {
        if let Some(old) = line
            .strip_prefix("rename from ")
            .or_else(|| line.strip_prefix("copy from "))
        {
            self.old = confine(old);
        } else if let Some(new) = line
            .strip_prefix("rename to ")
            .or_else(|| line.strip_prefix("copy to "))
        {
            self.new = confine(new);
        } else if line.starts_with("deleted file") {
            self.deleted = true;
        } else if let Some(old) = line.strip_prefix("--- ").filter(|old| *old != "/dev/null") {
            self.old = path(old);
        } else if let Some(new) = line.strip_prefix("+++ ").filter(|new| *new != "/dev/null") {
            self.new = path(new);
        }
    }
}

fn path(text: &str) -> Option<String> {
    let text = text.trim_end_matches('\t').trim_matches('"');
    confine(
        text.strip_prefix("a/")
            .or_else(|| text.strip_prefix("b/"))
            .unwrap_or(text),
    )
}
