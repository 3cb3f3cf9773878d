//! Parses git's unified diff. The file names come from git's list of changed files, because that
//! one does not quote them; the diff only supplies the lines.

use engine::git::ChangedFile;
use serde::{Deserialize, Serialize};

/// Maximum number of rows; nobody reads more.
const ROWS_MAX: usize = 50_000;
/// Maximum length of a line; the rest is cut.
const LINE_CHARS_MAX: usize = 2_000;

/// One changed file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffFile {
    pub path: String,
    pub old_path: Option<String>,
    /// Git's status letter: added, deleted, modified, renamed, type changed.
    pub status: char,
    /// Number of added lines; `None` for a binary file.
    pub added: Option<u32>,
    pub removed: Option<u32>,
    pub hunks: Vec<DiffHunk>,
}

/// A hunk of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffHunk {
    /// Git's heading of the hunk, for example the function around it.
    pub heading: String,
    pub rows: Vec<DiffRow>,
}

/// One line of a hunk, with its line numbers before and after the change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffRow {
    pub kind: DiffRowKind,
    pub old: Option<u32>,
    pub new: Option<u32>,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiffRowKind {
    Kept,
    Added,
    Removed,
}

/// Parses the files in git's order; the flag tells whether rows were left out.
pub fn parse_diff(text: &str, changed: &[ChangedFile]) -> (Vec<DiffFile>, bool) {
    let mut reader = DiffReader {
        files: Vec::new(),
        changed: changed.iter(),
        rows: 0,
        old: 0,
        new: 0,
        left: (0, 0),
    };
    for line in text.split('\n') {
        if reader.rows >= ROWS_MAX {
            return (reader.files, true);
        }
        reader.read_line(line);
    }
    (reader.files, false)
}

struct DiffReader<'a> {
    files: Vec<DiffFile>,
    changed: std::slice::Iter<'a, ChangedFile>,
    rows: usize,
    old: u32,
    new: u32,
    /// Numbers of old and new lines that the hunk still has. Inside a hunk no line is a heading.
    left: (u32, u32),
}

impl DiffReader<'_> {
    fn read_line(&mut self, line: &str) {
        if self.left == (0, 0) {
            self.read_heading(line);
            return;
        }
        let (sign, text) = line.split_at(line.chars().next().map_or(0, char::len_utf8));
        match sign {
            "+" => self.push_row(DiffRowKind::Added, text),
            "-" => self.push_row(DiffRowKind::Removed, text),
            " " | "" => self.push_row(DiffRowKind::Kept, text),
            // `\ No newline at end of file`
            _ => {}
        }
    }

    fn read_heading(&mut self, line: &str) {
        if line.starts_with("diff --git ") {
            self.files.extend(self.changed.next().map(file));
        } else if let Some((old, new, heading)) = ranges(line) {
            (self.old, self.new, self.left) = (old.0, new.0, (old.1, new.1));
            if let Some(file) = self.files.last_mut() {
                file.hunks.push(DiffHunk {
                    heading: findings::one_line(heading),
                    rows: Vec::new(),
                });
            }
        }
    }

    fn push_row(&mut self, kind: DiffRowKind, text: &str) {
        let (is_old, is_new) = (kind != DiffRowKind::Added, kind != DiffRowKind::Removed);
        let row = DiffRow {
            kind,
            old: is_old.then_some(self.old),
            new: is_new.then_some(self.new),
            text: findings::shorten(&findings::clean(text).replace('\n', " "), LINE_CHARS_MAX),
        };
        if is_old {
            self.old = self.old.saturating_add(1);
            self.left.0 = self.left.0.saturating_sub(1);
        }
        if is_new {
            self.new = self.new.saturating_add(1);
            self.left.1 = self.left.1.saturating_sub(1);
        }
        self.rows += 1;
        let hunk = self.files.last_mut().and_then(|file| file.hunks.last_mut());
        if let Some(hunk) = hunk {
            hunk.rows.push(row);
        }
    }
}

fn file(change: &ChangedFile) -> DiffFile {
    DiffFile {
        path: findings::one_line(&change.path),
        old_path: change.old_path.as_deref().map(findings::one_line),
        status: change.status,
        added: change.added,
        removed: change.removed,
        hunks: Vec::new(),
    }
}

type HunkRange = (u32, u32);

/// Parses `@@ -1,2 +3,4 @@ heading`: both ranges as start and length, and the rest.
fn ranges(line: &str) -> Option<(HunkRange, HunkRange, &str)> {
    let (ranges, heading) = line.strip_prefix("@@ -")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    let range = |text: &str| {
        let (start, length) = text.split_once(',').unwrap_or((text, "1"));
        Some((start.parse().ok()?, length.parse().ok()?))
    };
    Some((range(old)?, range(new)?, heading.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str) -> ChangedFile {
        ChangedFile {
            path: path.to_owned(),
            old_path: None,
            status: 'M',
            added: Some(1),
            removed: Some(1),
        }
    }

    const DIFF: &str = "\
diff --git a/a.sh b/a.sh
index 1..2 100644
--- a/a.sh
+++ b/a.sh
@@ -1,3 +1,3 @@ main()
 one
--- two
+++ two
 three
\\ No newline at end of file
diff --git \"a/\\303\\244.sh\" \"b/\\303\\244.sh\"
@@ -0,0 +1 @@
+red\u{1b}[31m
";

    #[test]
    fn lines_are_numbered_and_headings_told_from_text() {
        let (files, cut) = parse_diff(DIFF, &[change("a.sh"), change("ä.sh")]);
        assert!(!cut);
        let rows: Vec<_> = files[0].hunks[0]
            .rows
            .iter()
            .map(|row| (row.kind, row.old, row.new, row.text.as_str()))
            .collect();
        assert_eq!(
            rows,
            [
                (DiffRowKind::Kept, Some(1), Some(1), "one"),
                (DiffRowKind::Removed, Some(2), None, "-- two"),
                (DiffRowKind::Added, None, Some(2), "++ two"),
                (DiffRowKind::Kept, Some(3), Some(3), "three"),
            ]
        );
        assert_eq!(files[0].hunks[0].heading, "main()");
        assert_eq!(
            (
                files[1].path.as_str(),
                files[1].hunks[0].rows[0].text.as_str()
            ),
            ("ä.sh", "red")
        );
    }

    #[test]
    fn nonsense_is_read_without_a_fault() {
        for text in [
            "",
            "@@ -1 +1 @@\n+x",
            "diff --git",
            "@@ -9,99999999999 +1 @@",
        ] {
            let (files, cut) = parse_diff(text, &[]);
            assert!(files.is_empty() && !cut, "{text:?}");
        }
        let long = format!("diff --git\n@@ -0,0 +1,60000 @@\n{}", "+\n".repeat(60_000));
        assert!(parse_diff(&long, &[change("a")]).1);
    }
}
