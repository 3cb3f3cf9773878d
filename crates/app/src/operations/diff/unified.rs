//! Assigns git's unified diff to the changed files. The file names come from git's list of changed
//! files, because that one does not quote them; the diff only supplies the lines.

use engine::git::ChangedFile;
pub use findings::diff::DiffRowKind;
use findings::diff::{DiffPart, DiffReader};
use serde::{Deserialize, Serialize};

/// Maximum number of rows; nobody reads more.
const ROWS_MAX: usize = 50_000;
/// Maximum length of a line; the rest is cut.
const LINE_CHARS_MAX: usize = 2_000;

/// One changed file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DiffHunk {
    /// Git's heading of the hunk, for example the function around it.
    pub heading: String,
    pub rows: Vec<DiffRow>,
}

/// One line of a hunk, with its line numbers before and after the change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DiffRow {
    pub kind: DiffRowKind,
    pub old: Option<u32>,
    pub new: Option<u32>,
    pub text: String,
}

/// Parses the files in git's order; the flag tells whether rows were left out.
pub fn parse_diff(text: &str, changed: &[ChangedFile]) -> (Vec<DiffFile>, bool) {
    let mut files: Vec<DiffFile> = Vec::new();
    let (mut changed, mut reader, mut rows) = (changed.iter(), DiffReader::default(), 0);
    for line in text.split('\n') {
        if rows >= ROWS_MAX {
            return (files, true);
        }
        match reader.read(line) {
            DiffPart::Heading(line) if line.starts_with("diff --git ") => {
                files.extend(changed.next().map(file));
            }
            DiffPart::Hunk(_, heading) => {
                if let Some(file) = files.last_mut() {
                    file.hunks.push(DiffHunk {
                        heading: findings::one_line(heading),
                        rows: Vec::new(),
                    });
                }
            }
            DiffPart::Row {
                kind,
                old,
                new,
                text,
            } => {
                rows += 1;
                let hunk = files.last_mut().and_then(|file| file.hunks.last_mut());
                if let Some(hunk) = hunk {
                    hunk.rows.push(DiffRow {
                        kind,
                        old,
                        new,
                        text: shown(text),
                    });
                }
            }
            DiffPart::Heading(_) | DiffPart::Marker => {}
        }
    }
    (files, false)
}

fn shown(text: &str) -> String {
    findings::shorten(&findings::clean(text).replace('\n', " "), LINE_CHARS_MAX)
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
