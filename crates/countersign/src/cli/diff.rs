//! Renders a diff with each finding under its lines. `ticket diff` prints these lines, and `watch`
//! scrolls through them.

use flow::ledger::LedgerEntry;
use flow::narrate::{Mood, count_noun, short_commit};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

use super::Context;
use super::out::terminal_size;
use super::paint::{Glyphs, bold, dim, hyperlink, mood_style, render_line};
use super::syntax::{LanguageFamily, highlight};
use app::failure::{ExitKind, Failure};
use app::operations::diff::{DiffFile, DiffHunk, DiffRow, DiffRowKind, RoundDiff};
use app::operations::questions::tickets::ShowDiff;

/// A rendered line and what it refers to.
#[derive(Clone, Debug)]
pub struct DiffLine {
    pub line: Line<'static>,
    /// Id of the finding that begins at this line.
    pub finding: Option<String>,
    /// File and line that this line shows.
    pub location: Option<(String, Option<u32>)>,
}

pub async fn perform(id: &str, round: Option<u32>, context: &Context) -> Result<ExitKind, Failure> {
    let ticket = id.to_owned();
    let changes = context.ask(ShowDiff::of_round(ticket, round)).await?;
    let out = &context.out;
    out.print_json(&changes);
    if out.json {
        return Ok(ExitKind::Done);
    }
    for rendered in render_diff(&changes, terminal_size().0, &out.glyphs()) {
        let text = render_line(&rendered.line, out.terminal.colours);
        let link = rendered.location.zip(changes.root.as_ref());
        // Only headings get a hyperlink; a line of code has its number already.
        let is_heading = rendered.finding.is_some()
            || link.as_ref().is_some_and(|((_, line), _)| line.is_none());
        out.line(match link {
            Some(((file, line), root)) if is_heading => {
                hyperlink(&text, &root.join(file), line, out.terminal.links)
            }
            Some(_) | None => text,
        });
    }
    Ok(ExitKind::Done)
}

/// Renders the whole diff. Findings are wrapped to `width`; lines of code are not.
pub fn render_diff(changes: &RoundDiff, width: usize, glyphs: &Glyphs) -> Vec<DiffLine> {
    let mut rendered = vec![plain_line(diff_heading(changes))];
    for file in &changes.files {
        rendered.push(plain_line(Line::default()));
        rendered.push(DiffLine {
            location: Some((file.path.clone(), None)),
            ..plain_line(file_heading(file))
        });
        push_file(file, changes, width, glyphs, &mut rendered);
    }
    let elsewhere: Vec<&LedgerEntry> = changes.findings_elsewhere().collect();
    if !elsewhere.is_empty() {
        rendered.push(plain_line(Line::default()));
        rendered.push(plain_line(Line::styled(
            "findings outside the changed lines",
            bold(),
        )));
    }
    for entry in elsewhere {
        rendered.extend(render_finding(entry, 2, width, glyphs));
    }
    if changes.cut {
        rendered.push(plain_line(Line::styled(
            "the diff is too long; the rest is not shown",
            mood_style(Mood::Urgent),
        )));
    }
    rendered
}

pub fn plain_line(line: Line<'static>) -> DiffLine {
    DiffLine {
        line,
        finding: None,
        location: None,
    }
}

fn diff_heading(changes: &RoundDiff) -> Line<'static> {
    let open = changes
        .findings
        .iter()
        .filter(|entry| entry.status.is_open());
    Line::from(vec![
        Span::styled(changes.ticket.to_string(), bold()),
        Span::raw(format!(
            "  round {}  {}..{}  {}, {} open",
            changes.round,
            short_commit(&changes.base),
            short_commit(&changes.commit),
            count_noun(changes.files.len(), "file"),
            count_noun(open.count(), "finding"),
        )),
    ])
}

fn file_heading(file: &DiffFile) -> Line<'static> {
    let label = match file.status {
        'A' => "  new",
        'D' => "  deleted",
        'T' => "  type changed",
        _ => "",
    };
    let was = file.old_path.as_ref().map(|old| format!("  was {old}"));
    let mut spans = vec![
        Span::styled(file.path.clone(), bold()),
        Span::styled(format!("{label}{}", was.unwrap_or_default()), dim()),
    ];
    match (file.added, file.removed) {
        (Some(added), Some(removed)) => {
            spans.push(Span::styled(format!("  +{added}"), mood_style(Mood::Good)));
            spans.push(Span::styled(format!(" -{removed}"), mood_style(Mood::Bad)));
        }
        (None, _) | (_, None) => spans.push(Span::styled("  binary", dim())),
    }
    Line::from(spans)
}

fn push_file(
    file: &DiffFile,
    changes: &RoundDiff,
    width: usize,
    glyphs: &Glyphs,
    rendered: &mut Vec<DiffLine>,
) {
    let family = LanguageFamily::from_path(&file.path);
    let digits = digits(file);
    let indent = digits + 1;
    let mut left: Vec<&LedgerEntry> = changes.findings_in(&file.path).collect();
    for hunk in &file.hunks {
        rendered.push(plain_line(hunk_separator(hunk, digits, glyphs)));
        for row in &hunk.rows {
            rendered.push(DiffLine {
                location: row.new.map(|line| (file.path.clone(), Some(line))),
                ..plain_line(code_line(row, family, digits))
            });
            // A finding stands below its last line, once, in the first hunk that shows it.
            let (at_line, others): (Vec<_>, Vec<_>) = left
                .into_iter()
                .partition(|entry| row.new.is_some() && last_line(entry) == row.new);
            left = others;
            for entry in at_line {
                rendered.extend(render_finding(entry, indent, width, glyphs));
            }
        }
    }
    // Findings on lines that the diff does not show come at the end of their file.
    for entry in left {
        rendered.extend(render_finding(entry, indent, width, glyphs));
    }
}

/// Separates two hunks, with the heading of the next one.
fn hunk_separator(hunk: &DiffHunk, digits: usize, glyphs: &Glyphs) -> Line<'static> {
    let text = format!("{} {}", glyphs.rule.repeat(digits), hunk.heading);
    Line::styled(text.trim_end().to_owned(), dim())
}

/// Returns the last line of a finding; the finding is shown below it.
fn last_line(entry: &LedgerEntry) -> Option<u32> {
    entry.finding.end_line.or(entry.finding.line)
}

fn digits(file: &DiffFile) -> usize {
    let rows = file.hunks.iter().flat_map(|hunk| &hunk.rows);
    let max = rows.filter_map(|row| row.new.max(row.old)).max();
    // At least three digits, so that small files have the same margin.
    max.unwrap_or(0).to_string().len().max(3)
}

fn code_line(row: &DiffRow, family: LanguageFamily, digits: usize) -> Line<'static> {
    let (sign, style) = match row.kind {
        DiffRowKind::Added => ("+", Style::new().fg(Color::Green)),
        DiffRowKind::Removed => ("-", Style::new().fg(Color::Red)),
        DiffRowKind::Kept => (" ", dim()),
    };
    let number = row.new.or(row.old).unwrap_or_default();
    let mut spans = vec![Span::styled(format!("{number:>digits$} {sign} "), style)];
    // A tab has another width on each terminal, and the columns would not fit.
    let text = row.text.replace('\t', "    ");
    match row.kind {
        // Removed code is no longer read as code, so it has one colour.
        DiffRowKind::Removed => spans.push(Span::styled(text, style)),
        DiffRowKind::Added | DiffRowKind::Kept => spans.extend(highlight(&text, family)),
    }
    Line::from(spans)
}

/// Renders a finding as an indented box.
pub fn render_finding(
    entry: &LedgerEntry,
    indent: usize,
    width: usize,
    glyphs: &Glyphs,
) -> Vec<DiffLine> {
    let finding = &entry.finding;
    let (open, style) = (entry.status.is_open(), finding_style(entry));
    let pad = " ".repeat(indent);
    let by: Vec<&str> = entry.reported_by.iter().map(String::as_str).collect();
    let heading = Line::from(vec![
        Span::styled(format!("{pad}{} ", glyphs.corner_top), style),
        Span::styled(format!("{} {}", entry.id, entry.severity().word()), style),
        Span::styled(
            format!(" {}", entry.status_text()),
            if open {
                Style::new()
            } else {
                mood_style(Mood::Good)
            },
        ),
        Span::styled(
            format!(
                " {} round {}, {}",
                glyphs.dot,
                entry.first_round,
                findings::one_line(&by.join(", "))
            ),
            dim(),
        ),
    ]);
    let mut texts = vec![(bold(), findings::one_line(&finding.title))];
    let parts = [
        ("", &finding.problem),
        ("impact: ", &finding.impact),
        ("fix: ", &finding.fix),
    ];
    for (label, text) in parts {
        let text = text.as_deref().map(findings::one_line).unwrap_or_default();
        // Some reviewers repeat the title as the problem.
        if !text.is_empty() && text != findings::one_line(&finding.title) {
            texts.push((Style::new(), format!("{label}{text}")));
        }
    }
    if let Some(note) = &entry.note {
        let text = findings::one_line(&note.text);
        texts.push((
            dim(),
            format!(
                "{} in round {}: {text}",
                findings::one_line(&note.by),
                note.round
            ),
        ));
    }
    // Very wide lines are hard to read; very narrow ones could hold no word.
    let room = width.saturating_sub(indent + 2).clamp(16, 100);
    let mut lines = vec![heading];
    for (style_of_text, text) in texts {
        for part in wrap_text(&text, room) {
            lines.push(Line::from(vec![
                Span::styled(format!("{pad}{} ", glyphs.side), style),
                Span::styled(part, style_of_text),
            ]));
        }
    }
    if let Some(last) = lines.last_mut().and_then(|line| line.spans.first_mut()) {
        last.content = format!("{pad}{} ", glyphs.corner_bottom).into();
    }
    let location = finding.file.clone().map(|file| (file, finding.line));
    let mut rendered: Vec<DiffLine> = lines.into_iter().map(plain_line).collect();
    if let Some(first) = rendered.first_mut() {
        first.finding = Some(entry.id.clone());
        first.location = location;
    }
    rendered
}

pub fn finding_style(entry: &LedgerEntry) -> Style {
    use findings::Severity;
    if !entry.status.is_open() {
        return dim();
    }
    match entry.severity() {
        Severity::Critical | Severity::High => Style::new().fg(Color::Red),
        Severity::Medium => Style::new().fg(Color::Yellow),
        Severity::Low | Severity::Suggestion => Style::new().fg(Color::Blue),
    }
}

/// Wraps at spaces; a word that is longer than the width is cut into pieces.
pub fn wrap_text(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    let width_of = |text: &str| Span::raw(text.to_owned()).width();
    for word in text.split_whitespace() {
        let mut word = word.to_owned();
        loop {
            let line = lines.last().map(String::as_str).unwrap_or_default();
            let joined = if line.is_empty() {
                word.clone()
            } else {
                format!("{line} {word}")
            };
            if width_of(&joined) <= width {
                if let Some(last) = lines.last_mut() {
                    *last = joined;
                }
                break;
            }
            if !line.is_empty() {
                lines.push(String::new());
                continue;
            }
            let head: String = first_cells(&word, width);
            word = word.chars().skip(head.chars().count()).collect();
            if let Some(last) = lines.last_mut() {
                *last = head;
            }
            if word.is_empty() {
                break;
            }
            lines.push(String::new());
        }
    }
    lines
}

/// Returns the first cells of a word: at least one character, so that the caller always advances.
fn first_cells(word: &str, width: usize) -> String {
    let mut head = String::new();
    for c in word.chars() {
        let longer = format!("{head}{c}");
        if !head.is_empty() && Span::raw(longer.as_str()).width() > width {
            break;
        }
        head = longer;
    }
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_folded_at_spaces_and_long_words_are_cut() {
        assert_eq!(wrap_text("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap_text("abcdefgh i", 3), ["abc", "def", "gh", "i"]);
        assert_eq!(wrap_text("", 3), [""]);
        assert_eq!(wrap_text("漢字", 1), ["漢", "字"]);
    }
}
