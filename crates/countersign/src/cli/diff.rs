//! A change as lines for the eye, with the findings under the lines they speak of. The same lines
//! are printed by `ticket diff` and scrolled through in `watch`.

use flow::ledger::LedgerEntry;
use flow::narrate::{Mood, short};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

use super::Context;
use super::out::size;
use super::paint::{Glyphs, bold, dim, linked, of_mood, printed};
use super::syntax::{LanguageFamily, coloured};
use app::failure::{ExitKind, Failure};
use app::operations::diff::{DiffFile, DiffHunk, DiffRow, DiffRowKind, RoundDiff};
use app::operations::questions::tickets::ShowDiff;

/// A line, and what it leads to.
#[derive(Clone, Debug)]
pub struct DiffLine {
    pub line: Line<'static>,
    /// The finding whose remark begins here.
    pub finding: Option<String>,
    /// The file, and the line in it, that this is about.
    pub place: Option<(String, Option<u32>)>,
}

pub async fn perform(id: &str, round: Option<u32>, desktop: &Context) -> Result<ExitKind, Failure> {
    let ticket = id.to_owned();
    let changes = desktop.ask(ShowDiff { ticket, round }).await?;
    let out = &desktop.out;
    out.answer(&changes);
    if out.json {
        return Ok(ExitKind::Done);
    }
    for shown in lines(&changes, size().0, &out.glyphs()) {
        let text = printed(&shown.line, out.terminal.colours);
        let link = shown.place.zip(changes.root.as_ref());
        // A line of code is its own address: only headings lead somewhere.
        let is_heading =
            shown.finding.is_some() || link.as_ref().is_some_and(|((_, line), _)| line.is_none());
        out.line(match link {
            Some(((file, line), root)) if is_heading => {
                linked(&text, &root.join(file), line, out.terminal.links)
            }
            Some(_) | None => text,
        });
    }
    Ok(ExitKind::Done)
}

/// The whole change. Remarks are folded to `width`; lines of code are not.
pub fn lines(changes: &RoundDiff, width: usize, glyphs: &Glyphs) -> Vec<DiffLine> {
    let mut shown = vec![plain(head(changes))];
    for file in &changes.files {
        shown.push(plain(Line::default()));
        shown.push(DiffLine {
            place: Some((file.path.clone(), None)),
            ..plain(title(file))
        });
        body(file, changes, width, glyphs, &mut shown);
    }
    let elsewhere: Vec<&LedgerEntry> = changes.elsewhere().collect();
    if !elsewhere.is_empty() {
        shown.push(plain(Line::default()));
        shown.push(plain(Line::styled("not at a line of the change", bold())));
    }
    for entry in elsewhere {
        shown.extend(remark(entry, 2, width, glyphs));
    }
    if changes.cut {
        shown.push(plain(Line::styled(
            "the rest of the diff is left out: it is too long",
            of_mood(Mood::Urgent),
        )));
    }
    shown
}

pub fn plain(line: Line<'static>) -> DiffLine {
    DiffLine {
        line,
        finding: None,
        place: None,
    }
}

fn head(changes: &RoundDiff) -> Line<'static> {
    let open = changes
        .findings
        .iter()
        .filter(|entry| entry.status.is_open());
    Line::from(vec![
        Span::styled(changes.ticket.to_string(), bold()),
        Span::raw(format!(
            "  round {}  {}..{}  {}, {} open",
            changes.round,
            short(&changes.base),
            short(&changes.commit),
            counted(changes.files.len(), "file"),
            counted(open.count(), "finding"),
        )),
    ])
}

fn counted(n: usize, noun: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {noun}{plural}")
}

fn title(file: &DiffFile) -> Line<'static> {
    let what = match file.status {
        'A' => "  new",
        'D' => "  deleted",
        'T' => "  type changed",
        _ => "",
    };
    let was = file.old_path.as_ref().map(|old| format!("  was {old}"));
    let mut spans = vec![
        Span::styled(file.path.clone(), bold()),
        Span::styled(format!("{what}{}", was.unwrap_or_default()), dim()),
    ];
    match (file.added, file.removed) {
        (Some(added), Some(removed)) => {
            spans.push(Span::styled(format!("  +{added}"), of_mood(Mood::Good)));
            spans.push(Span::styled(format!(" -{removed}"), of_mood(Mood::Bad)));
        }
        (None, _) | (_, None) => spans.push(Span::styled("  binary", dim())),
    }
    Line::from(spans)
}

fn body(
    file: &DiffFile,
    changes: &RoundDiff,
    width: usize,
    glyphs: &Glyphs,
    shown: &mut Vec<DiffLine>,
) {
    let family = LanguageFamily::of(&file.path);
    let digits = digits(file);
    let indent = digits + 1;
    let mut left: Vec<&LedgerEntry> = changes.at(&file.path).collect();
    for hunk in &file.hunks {
        shown.push(plain(between(hunk, digits, glyphs)));
        for row in &hunk.rows {
            shown.push(DiffLine {
                place: row.new.map(|line| (file.path.clone(), Some(line))),
                ..plain(code(row, family, digits))
            });
            let (here, others): (Vec<_>, Vec<_>) = left
                .into_iter()
                .partition(|entry| row.new.is_some() && last_line(entry) == row.new);
            left = others;
            for entry in here {
                shown.extend(remark(entry, indent, width, glyphs));
            }
        }
    }
    for entry in left {
        shown.extend(remark(entry, indent, width, glyphs));
    }
}

/// Between two pieces of a file: what the next one belongs to.
fn between(hunk: &DiffHunk, digits: usize, glyphs: &Glyphs) -> Line<'static> {
    let text = format!("{} {}", glyphs.rule.repeat(digits), hunk.heading);
    Line::styled(text.trim_end().to_owned(), dim())
}

/// A remark stands under the last line that it speaks of.
fn last_line(entry: &LedgerEntry) -> Option<u32> {
    entry.finding.end_line.or(entry.finding.line)
}

fn digits(file: &DiffFile) -> usize {
    let rows = file.hunks.iter().flat_map(|hunk| &hunk.rows);
    let most = rows.filter_map(|row| row.new.max(row.old)).max();
    most.unwrap_or(0).to_string().len().max(3)
}

fn code(row: &DiffRow, family: LanguageFamily, digits: usize) -> Line<'static> {
    let (sign, style) = match row.kind {
        DiffRowKind::Added => ("+", Style::new().fg(Color::Green)),
        DiffRowKind::Removed => ("-", Style::new().fg(Color::Red)),
        DiffRowKind::Kept => (" ", dim()),
    };
    let number = row.new.or(row.old).unwrap_or_default();
    let mut spans = vec![Span::styled(format!("{number:>digits$} {sign} "), style)];
    let text = row.text.replace('\t', "    ");
    match row.kind {
        DiffRowKind::Removed => spans.push(Span::styled(text, style)),
        DiffRowKind::Added | DiffRowKind::Kept => spans.extend(coloured(&text, family)),
    }
    Line::from(spans)
}

/// A finding as a note in the margin.
pub fn remark(entry: &LedgerEntry, indent: usize, width: usize, glyphs: &Glyphs) -> Vec<DiffLine> {
    let finding = &entry.finding;
    let (open, style) = (entry.status.is_open(), of_entry(entry));
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
                of_mood(Mood::Good)
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
    let room = width.saturating_sub(indent + 2).clamp(16, 100);
    let mut lines = vec![heading];
    for (style_of_text, text) in texts {
        for part in folded(&text, room) {
            lines.push(Line::from(vec![
                Span::styled(format!("{pad}{} ", glyphs.side), style),
                Span::styled(part, style_of_text),
            ]));
        }
    }
    if let Some(last) = lines.last_mut().and_then(|line| line.spans.first_mut()) {
        last.content = format!("{pad}{} ", glyphs.corner_bottom).into();
    }
    let place = finding.file.clone().map(|file| (file, finding.line));
    let mut shown: Vec<DiffLine> = lines.into_iter().map(plain).collect();
    if let Some(first) = shown.first_mut() {
        first.finding = Some(entry.id.clone());
        first.place = place;
    }
    shown
}

pub fn of_entry(entry: &LedgerEntry) -> Style {
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

/// Folds at spaces; a word that is longer than the room is cut into pieces.
pub fn folded(text: &str, room: usize) -> Vec<String> {
    let room = room.max(1);
    let mut lines = vec![String::new()];
    let wide = |text: &str| Span::raw(text.to_owned()).width();
    for word in text.split_whitespace() {
        let mut word = word.to_owned();
        loop {
            let line = lines.last().map(String::as_str).unwrap_or_default();
            let joined = if line.is_empty() {
                word.clone()
            } else {
                format!("{line} {word}")
            };
            if wide(&joined) <= room {
                if let Some(last) = lines.last_mut() {
                    *last = joined;
                }
                break;
            }
            if !line.is_empty() {
                lines.push(String::new());
                continue;
            }
            let head: String = first_cells(&word, room);
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

/// At least one character, so that cutting always gets on.
fn first_cells(word: &str, room: usize) -> String {
    let mut head = String::new();
    for c in word.chars() {
        let longer = format!("{head}{c}");
        if !head.is_empty() && Span::raw(longer.as_str()).width() > room {
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
        assert_eq!(folded("one two three", 8), ["one two", "three"]);
        assert_eq!(folded("abcdefgh i", 3), ["abc", "def", "gh", "i"]);
        assert_eq!(folded("", 3), [""]);
        assert_eq!(folded("漢字", 1), ["漢", "字"]);
    }
}
