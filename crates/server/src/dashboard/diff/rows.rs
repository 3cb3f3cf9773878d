//! Lines of a file's diff: unified or split, with their colours, the findings at their lines, and
//! the form for a comment.

use findings::diff::DiffRowKind;
use flow::ledger::LedgerEntry;
use maud::{Markup, html};

use super::super::highlight::{Highlighting, LineSpan};
use super::super::ticket;
use super::ShownDiff;
use app::operations::diff::{DiffFile, DiffHunk, DiffRow};

/// Rows in one `tbody`: the browser skips the layout of those that are not visible.
const CHUNK_ROWS: usize = 60;

/// A file that is rendered, with its index and its findings.
struct ShownFile<'a> {
    index: usize,
    found: Vec<&'a LedgerEntry>,
    colours: Option<&'a [Vec<LineSpan>]>,
    /// Beginning of the address that opens the comment form without script.
    address: String,
    comment_line: Option<u32>,
}

/// Two sides of a line in the split view, as places in the hunk.
type RowPair = (Option<usize>, Option<usize>);

impl ShownDiff<'_> {
    pub(super) fn table(&self, index: usize, file: &DiffFile) -> Markup {
        let found: Vec<&LedgerEntry> = self.diff.findings_in(&file.path).collect();
        // A finding may be on a line that the diff does not show. It is shown above the file then,
        // and never lost.
        let has_row = |line: u32| {
            let mut rows = file.hunks.iter().flat_map(|hunk| &hunk.rows);
            rows.any(|row| row.new == Some(line))
        };
        let outside = found
            .iter()
            .filter(|entry| entry.finding.line.is_none_or(|line| !has_row(line)));
        let place = self.query.comment_place();
        let query = self.query.with("", "");
        let shown = ShownFile {
            index,
            colours: match &self.colours[index] {
                Highlighting::On(colours) => Some(colours),
                Highlighting::Off(_) => None,
            },
            address: if query == "?" {
                query
            } else {
                format!("{query}&")
            },
            comment_line: place.filter(|(at, _)| *at == index).map(|(_, line)| line),
            found: found.clone(),
        };
        let split = self.query.is_split();
        let columns = if split { 4 } else { 3 };
        // Colours are counted over the whole file, because a comment may begin in one hunk and end
        // in the next.
        let mut first = 0;
        html! {
            @for entry in outside { (ticket::finding(self.context, self.ticket, entry)) }
            table.diff.split[split] data-path=(file.path) {
                @if split { colgroup { col.line; col; col.line; col; } }
                @for hunk in &file.hunks {
                    tbody { tr.hunk { td colspan=(columns) { (hunk_heading(hunk)) } } }
                    @if split { (self.split_rows(&shown, file, hunk, first)) }
                    @else { (self.unified_rows(&shown, file, hunk, first)) }
                    @let () = first += hunk.rows.len();
                }
            }
        }
    }

    fn unified_rows(
        &self,
        shown: &ShownFile<'_>,
        file: &DiffFile,
        hunk: &DiffHunk,
        first: usize,
    ) -> Markup {
        html! {
            @for (chunk_index, chunk) in hunk.rows.chunks(CHUNK_ROWS).enumerate() {
                tbody { @for (index, row) in chunk.iter().enumerate() {
                    @let (class, sign) = kind_words(row.kind);
                    tr.(class) {
                        td.line { @if let Some(line) = row.old { (line) } }
                        // Comments are on the new side: a removed line has no place in the next
                        // commit.
                        td.line { (line_link(shown, row.new)) }
                        td.code { span.sign { (sign) } (coloured(shown, first + chunk_index * CHUNK_ROWS + index, row)) }
                    }
                    (self.notes_at(shown, file, row.new, 3))
                } }
            }
        }
    }

    fn split_rows(
        &self,
        shown: &ShownFile<'_>,
        file: &DiffFile,
        hunk: &DiffHunk,
        first: usize,
    ) -> Markup {
        let side = |place: Option<usize>, is_new: bool| {
            let row = place.and_then(|place| Some((place, hunk.rows.get(place)?)));
            // One side has fewer lines. An empty cell keeps the two sides level.
            let Some((place, row)) = row else {
                return html! { td.line.none {} td.code.none {} };
            };
            let (class, sign) = kind_words(row.kind);
            html! {
                td.line.(class) {
                    @if is_new { (line_link(shown, row.new)) } @else if let Some(line) = row.old { (line) }
                }
                td.code.(class) { span.sign { (sign) } (coloured(shown, first + place, row)) }
            }
        };
        html! {
            @for chunk in pair_rows(&hunk.rows).chunks(CHUNK_ROWS) {
                tbody { @for (old, new) in chunk {
                    tr { (side(*old, false)) (side(*new, true)) }
                    // Findings name lines of the new file, also in the split view.
                    @let line = new.and_then(|place| hunk.rows.get(place)?.new);
                    (self.notes_at(shown, file, line, 4))
                } }
            }
        }
    }

    /// Renders the findings of a line, and the comment form if it is open there.
    fn notes_at(
        &self,
        shown: &ShownFile<'_>,
        file: &DiffFile,
        line: Option<u32>,
        columns: usize,
    ) -> Markup {
        let Some(line) = line else {
            return html! {};
        };
        html! {
            @for entry in shown.found.iter().filter(|entry| entry.finding.line == Some(line)) {
                tr.at { td colspan=(columns) { (ticket::finding(self.context, self.ticket, entry)) } }
            }
            @if shown.comment_line == Some(line) && self.context.may_change() {
                tr.at #comment-form { td colspan=(columns) { (self.comment_form(&file.path, Some(line))) } }
            }
        }
    }
}

fn hunk_heading(hunk: &DiffHunk) -> Markup {
    // A hunk that only removes has no line in the new file.
    let start = hunk.rows.iter().find_map(|row| row.new.or(row.old));
    html! { "⋯ " @if let Some(line) = start { "line " (line) " " } (hunk.heading) }
}

fn kind_words(kind: DiffRowKind) -> (&'static str, &'static str) {
    match kind {
        DiffRowKind::Added => ("added", "+"),
        DiffRowKind::Removed => ("removed", "−"),
        DiffRowKind::Kept => ("kept", " "),
    }
}

/// Renders a line number that opens the comment form at its line.
fn line_link(shown: &ShownFile<'_>, line: Option<u32>) -> Markup {
    html! {
        @if let Some(line) = line {
            a href=(format!("{}comment={}.{line}#comment-form", shown.address, shown.index)) data-line=(line) { (line) }
        }
    }
}

/// Renders the text of a row in its colours.
fn coloured(shown: &ShownFile<'_>, place: usize, row: &DiffRow) -> Markup {
    let spans = shown.colours.and_then(|colours| colours.get(place));
    // Colours that do not cover the text exactly are of another line. Plain text is right at least.
    let spans = spans.filter(|spans| spans.last().is_some_and(|last| last.0 == row.text.len()));
    let Some(spans) = spans else {
        return html! { (row.text) };
    };
    let mut start = 0;
    html! {
        @for (end, class) in spans {
            @let part = row.text.get(start..*end).unwrap_or_default();
            @if class.is_empty() { (part) } @else { i.(class) { (part) } }
            @let () = start = *end;
        }
    }
}

/// Puts removed lines next to the added ones that replace them.
fn pair_rows(rows: &[DiffRow]) -> Vec<RowPair> {
    let mut pairs = Vec::new();
    let (mut removed, mut added): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    let flush = |removed: &mut Vec<usize>, added: &mut Vec<usize>, pairs: &mut Vec<RowPair>| {
        // By position: the first removed line next to the first added one, without a search for
        // likeness.
        for index in 0..removed.len().max(added.len()) {
            pairs.push((removed.get(index).copied(), added.get(index).copied()));
        }
        removed.clear();
        added.clear();
    };
    for (index, row) in rows.iter().enumerate() {
        match row.kind {
            DiffRowKind::Removed => {
                // A removal after an addition begins another change.
                if !added.is_empty() {
                    flush(&mut removed, &mut added, &mut pairs);
                }
                removed.push(index);
            }
            DiffRowKind::Added => added.push(index),
            DiffRowKind::Kept => {
                flush(&mut removed, &mut added, &mut pairs);
                pairs.push((Some(index), Some(index)));
            }
        }
    }
    flush(&mut removed, &mut added, &mut pairs);
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_and_added_lines_stand_next_to_each_other() {
        let row = |kind| DiffRow {
            kind,
            old: None,
            new: None,
            text: String::new(),
        };
        let kinds = [
            DiffRowKind::Kept,
            DiffRowKind::Removed,
            DiffRowKind::Removed,
            DiffRowKind::Added,
            DiffRowKind::Kept,
            DiffRowKind::Added,
        ];
        let rows: Vec<DiffRow> = kinds.into_iter().map(row).collect();
        assert_eq!(
            pair_rows(&rows),
            [
                (Some(0), Some(0)),
                (Some(1), Some(3)),
                (Some(2), None),
                (Some(4), Some(4)),
                (None, Some(5)),
            ]
        );
    }
}
