//! Syntax highlighting of diffs: the lines of a hunk are parsed in order, once as they were and once
//! as they are. A file that is long, or has a long line, is shown without colours, because parsing
//! would take longer than reading.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use app::operations::diff::{DiffFile, DiffRowKind, RoundDiff};
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

/// Limits of a file and of a page.
const FILE_BYTES_MAX: usize = 150_000;
const PAGE_BYTES_MAX: usize = 600_000;
const LINE_BYTES_MAX: usize = 1_000;
/// Spans that are remembered, over all files.
const CACHED_SPANS_MAX: usize = 400_000;

static SYNTAXES: LazyLock<SyntaxSet> = LazyLock::new(two_face::syntax::extra_newlines);
static CACHE: LazyLock<Mutex<HighlightCache>> = LazyLock::new(Mutex::default);

/// Scopes that get a colour, the class of each, and the more special ones first.
static CLASSES: LazyLock<Vec<(Scope, &'static str)>> = LazyLock::new(|| {
    let pairs = [
        ("comment", "c"),
        ("string", "s"),
        ("constant.character", "s"),
        ("constant", "n"),
        ("keyword.operator", ""),
        ("keyword", "k"),
        ("storage", "k"),
        ("variable.language", "k"),
        ("entity.name.function", "f"),
        ("support.function", "f"),
        ("variable.function", "f"),
        ("entity.name.tag", "k"),
        ("entity.name", "t"),
        ("support.type", "t"),
        ("support.class", "t"),
        ("entity.other.attribute-name", "f"),
        ("markup.heading", "k"),
        ("markup.raw", "s"),
    ];
    let scopes = pairs.into_iter();
    scopes
        .filter_map(|(name, class)| Some((Scope::new(name).ok()?, class)))
        .collect()
});

/// A part of a line: the byte offset at which it ends, and its class.
pub type LineSpan = (usize, &'static str);

/// Colours of the rows of a file, in the order of its hunks.
pub type FileColours = Arc<Vec<Vec<LineSpan>>>;

/// Result for one file.
#[derive(Clone, Debug)]
pub enum Highlighting {
    On(FileColours),
    /// No colours, with the reason if the reader should know it.
    Off(Option<&'static str>),
}

#[derive(Debug, Default)]
struct HighlightCache {
    files: HashMap<String, FileColours>,
    spans: usize,
}

impl HighlightCache {
    fn insert(&mut self, key: String, colours: &FileColours) {
        let spans: usize = colours.iter().map(Vec::len).sum();
        // Old diffs are rarely read again, so it is enough to start again at the limit.
        if self.spans + spans > CACHED_SPANS_MAX {
            self.files.clear();
            self.spans = 0;
        }
        self.spans += spans;
        self.files.insert(key, Arc::clone(colours));
    }
}

/// Highlights the files of a diff for which `is_shown` is true. It computes, so call it on a thread
/// for blocking work.
pub fn highlight_diff(diff: &RoundDiff, is_shown: &[bool]) -> Vec<Highlighting> {
    let mut bytes_left = PAGE_BYTES_MAX;
    let files = diff.files.iter().zip(is_shown);
    files
        .map(|(file, shown)| {
            if !shown {
                return Highlighting::Off(None);
            }
            let key = format!("{} {} {}", diff.base, diff.commit, file.path);
            highlight_cached(key, file, &mut bytes_left)
        })
        .collect()
}

fn highlight_cached(key: String, file: &DiffFile, bytes_left: &mut usize) -> Highlighting {
    let lock = || CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let known = lock().files.get(&key).map(Arc::clone);
    // The same key may be a part of the file.
    if let Some(known) = known.filter(|known| known.len() == row_count(file)) {
        return Highlighting::On(known);
    }
    let rows = || file.hunks.iter().flat_map(|hunk| &hunk.rows);
    let bytes: usize = rows().map(|row| row.text.len()).sum();
    if rows().any(|row| row.text.len() > LINE_BYTES_MAX) {
        return Highlighting::Off(Some("a line is very long"));
    }
    if bytes > FILE_BYTES_MAX {
        return Highlighting::Off(Some("the file is long"));
    }
    let Some(syntax) = find_syntax(file) else {
        return Highlighting::Off(None);
    };
    if bytes > *bytes_left {
        return Highlighting::Off(Some("the diff is long"));
    }
    *bytes_left -= bytes;
    let colours = Arc::new(highlight_file(file, syntax));
    lock().insert(key, &colours);
    Highlighting::On(colours)
}

fn row_count(file: &DiffFile) -> usize {
    file.hunks.iter().map(|hunk| hunk.rows.len()).sum()
}

fn find_syntax(file: &DiffFile) -> Option<&'static SyntaxReference> {
    let name = file.path.rsplit('/').next()?;
    let ending = name.rsplit_once('.').map_or(name, |(_, ending)| ending);
    let by_name = SYNTAXES.find_syntax_by_extension(name);
    let by_ending = || SYNTAXES.find_syntax_by_extension(ending);
    let by_line = || {
        let first = file.hunks.first()?.rows.first()?;
        SYNTAXES.find_syntax_by_first_line(&first.text)
    };
    let found = by_name.or_else(by_ending).or_else(by_line)?;
    (found.name != "Plain Text").then_some(found)
}

/// One side of a diff while it is parsed.
struct SideParser {
    state: ParseState,
    scopes: ScopeStack,
}

impl SideParser {
    fn new(syntax: &SyntaxReference) -> Self {
        Self {
            state: ParseState::new(syntax),
            scopes: ScopeStack::new(),
        }
    }

    /// Parses a line and returns its parts. A line that the grammar cannot read has none.
    fn parse(&mut self, text: &str) -> Vec<LineSpan> {
        let line = format!("{text}\n");
        let Ok(changes) = self.state.parse_line(&line, &SYNTAXES) else {
            return Vec::new();
        };
        let mut spans: Vec<LineSpan> = Vec::new();
        let mut push = |end: usize, class: &'static str| match spans.last_mut() {
            Some(last) if last.1 == class => last.0 = end,
            Some(last) if last.0 >= end => {}
            None if end == 0 => {}
            _ => spans.push((end, class)),
        };
        for (at, change) in changes {
            push(at.min(text.len()), class_of(&self.scopes));
            if self.scopes.apply(&change).is_err() {
                return Vec::new();
            }
        }
        push(text.len(), class_of(&self.scopes));
        spans
    }
}

/// Returns the class of the innermost scope that has one.
fn class_of(scopes: &ScopeStack) -> &'static str {
    let innermost = scopes.as_slice().iter().rev();
    let mut classes = innermost.filter_map(|scope| {
        let mut known = CLASSES.iter();
        known
            .find(|(prefix, _)| prefix.is_prefix_of(*scope))
            .map(|(_, class)| *class)
    });
    classes.next().unwrap_or_default()
}

fn highlight_file(file: &DiffFile, syntax: &SyntaxReference) -> Vec<Vec<LineSpan>> {
    let mut rows = Vec::new();
    for hunk in &file.hunks {
        let (mut old, mut new) = (SideParser::new(syntax), SideParser::new(syntax));
        let has_removed = hunk.rows.iter().any(|row| row.kind == DiffRowKind::Removed);
        for row in &hunk.rows {
            rows.push(match row.kind {
                DiffRowKind::Removed => old.parse(&row.text),
                DiffRowKind::Added => new.parse(&row.text),
                DiffRowKind::Kept => {
                    if has_removed {
                        old.parse(&row.text);
                    }
                    new.parse(&row.text)
                }
            });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use app::operations::diff::{DiffHunk, DiffRow};

    fn file(path: &str, lines: &[&str]) -> DiffFile {
        let row = |(index, text): (usize, &&str)| DiffRow {
            kind: DiffRowKind::Added,
            old: None,
            new: u32::try_from(index + 1).ok(),
            text: (*text).to_owned(),
        };
        DiffFile {
            path: path.to_owned(),
            old_path: None,
            status: 'A',
            added: Some(1),
            removed: Some(0),
            hunks: vec![DiffHunk {
                heading: String::new(),
                rows: lines.iter().enumerate().map(row).collect(),
            }],
        }
    }

    fn highlight(file: &DiffFile) -> Highlighting {
        let mut bytes_left = PAGE_BYTES_MAX;
        highlight_cached(format!("{file:?}"), file, &mut bytes_left)
    }

    #[test]
    fn words_of_a_language_have_classes_and_spans_cover_the_line() {
        let lines = ["// note", "fn greet() -> u8 { 7 }", "let name = \"ä\";"];
        let Highlighting::On(rows) = highlight(&file("a.rs", &lines)) else {
            panic!("no colours");
        };
        assert_eq!(rows[0], [(lines[0].len(), "c")]);
        let classes: Vec<&str> = rows[1].iter().map(|(_, class)| *class).collect();
        for class in ["k", "f", "n"] {
            assert!(classes.contains(&class), "{class}: {classes:?}");
        }
        for (line, spans) in lines.iter().zip(rows.iter()) {
            assert_eq!(spans.last().unwrap().0, line.len());
            assert!(spans.iter().all(|(end, _)| line.is_char_boundary(*end)));
            assert!(spans.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }

    #[test]
    fn long_lines_and_files_have_no_colours_and_say_so() {
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        let line = "let a = 1;".repeat(50);
        let many = vec![line.as_str(); 400];
        for file in [file("a.js", &[&long]), file("a.js", &many)] {
            assert!(matches!(highlight(&file), Highlighting::Off(Some(_))));
        }
        let unknown = file("data.unknown-ending", &["x"]);
        assert!(matches!(highlight(&unknown), Highlighting::Off(None)));
    }
}
