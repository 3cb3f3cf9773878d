//! Draws the open ticket.

use flow::narrate::Mood;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{Theme, draw_line, draw_lines, highlight_row, tab_style};
use crate::cli::diff::{self, DiffLine};
use crate::cli::paint::{bold, dim, mood_style, stage_style, wrap_words};
use crate::cli::ticket;
use crate::cli::watch::model::View;
use crate::cli::watch::model::comment_dialog::CommentDialog;
use crate::cli::watch::model::open_ticket::{OpenTicket, TabLayout, TabLayoutKey, TicketTab};

pub fn draw(frame: &mut Frame<'_>, areas: [Rect; 3], view: &mut View, theme: &Theme) {
    let [top, tabs, body] = areas;
    let Some(opened) = view.opened.as_deref_mut() else {
        return;
    };
    draw_line(frame, top, head(opened), theme);
    draw_line(frame, tabs, tab_line(opened), theme);
    lay_out(opened, body.width.into(), theme);
    let banner = banner(opened);
    let room = usize::from(body.height).saturating_sub(banner.len());
    let chosen = opened
        .comment_dialog
        .as_ref()
        .and_then(CommentDialog::chosen_line);
    // Below the last line there may be space while a line is chosen: the dialog covers the bottom.
    if chosen.is_none() {
        let last = opened.drawn.lines.len().saturating_sub(room);
        opened.top = opened.top.min(last);
    }
    let lines = opened.drawn.lines.iter().enumerate();
    let visible = lines.skip(opened.top).take(room).map(|(at, line)| {
        if chosen == Some(at) {
            highlight_row(line.clone(), body.width.into())
        } else {
            line.clone()
        }
    });
    draw_lines(
        frame,
        body,
        banner.into_iter().chain(visible).collect(),
        theme,
    );
}

fn head(opened: &OpenTicket) -> Line<'static> {
    let mut spans = vec![Span::styled(opened.id.to_string(), bold())];
    let Some(stored) = &opened.stored else {
        spans.push(Span::styled("  reading", dim()));
        return Line::from(spans);
    };
    let ticket = &stored.ticket;
    spans.push(Span::styled(
        format!("  {}", ticket.stage),
        stage_style(ticket.stage),
    ));
    spans.push(Span::raw(format!("  round {}", ticket.round)));
    let spent = ticket.spent.ticket;
    if spent.usd_micros > 0 || spent.unpriced_runs > 0 {
        let cost = spent.describe_cost(&ticket.unpriced);
        spans.push(Span::raw(format!("  {cost}")));
    }
    let title = findings::one_line(&ticket.spec.title);
    spans.push(Span::styled(format!("  {title}"), dim()));
    Line::from(spans)
}

fn tab_line(opened: &OpenTicket) -> Line<'static> {
    let count = |tab: TicketTab| match (tab, &opened.stored) {
        (TicketTab::Rounds, Some(stored)) => format!(" {}", stored.ticket.rounds.len()),
        (TicketTab::Findings, Some(stored)) => format!(" {}", stored.ticket.ledger.entries.len()),
        (TicketTab::Rounds | TicketTab::Findings | TicketTab::Diff | TicketTab::Log, _) => {
            String::new()
        }
    };
    let tabs = TicketTab::ALL.into_iter().map(|tab| {
        let text = format!(" {}{} ", tab.word(), count(tab));
        Span::styled(text, tab_style(tab == opened.tab))
    });
    Line::from(tabs.collect::<Vec<_>>())
}

/// Returns the line above everything else if the ticket waits for a person.
fn banner(opened: &OpenTicket) -> Vec<Line<'static>> {
    let Some(waiting) = &opened.waiting else {
        return Vec::new();
    };
    let reason = findings::one_line(&waiting.reason);
    vec![Line::from(vec![
        Span::styled(
            format!("waits for you: {reason}; "),
            mood_style(Mood::Urgent),
        ),
        Span::raw("s settles it"),
    ])]
}

fn lay_out(opened: &mut OpenTicket, width: usize, theme: &Theme) {
    let Some(stored) = &opened.stored else {
        return;
    };
    let key = TabLayoutKey {
        tab: opened.tab,
        width,
        version: stored.ticket.version,
        round: opened.diff.as_ref().map(|diff| diff.round),
        log: opened.log.len(),
    };
    if opened.drawn.key == Some(key) {
        return;
    }
    let lines = match opened.tab {
        TicketTab::Rounds => plain_lines(round_lines(opened, width)),
        TicketTab::Findings => finding_lines(opened, width, theme),
        TicketTab::Diff => diff_lines(opened, width, theme),
        TicketTab::Log => plain_lines(log_lines(opened, width)),
    };
    let begins = |(at, line): (usize, &DiffLine)| line.finding.is_some().then_some(at);
    let place = |(at, line): (usize, &DiffLine)| match &line.location {
        Some((path, Some(number))) => Some((at, format!("{path}:{number}"))),
        Some((_, None)) | None => None,
    };
    opened.drawn = TabLayout {
        key: Some(key),
        findings: lines.iter().enumerate().filter_map(begins).collect(),
        places: lines.iter().enumerate().filter_map(place).collect(),
        lines: lines.into_iter().map(|line| line.line).collect(),
    };
}

fn plain_lines(lines: Vec<Line<'static>>) -> Vec<DiffLine> {
    lines.into_iter().map(diff::plain_line).collect()
}

fn round_lines(opened: &OpenTicket, width: usize) -> Vec<Line<'static>> {
    let Some(stored) = &opened.stored else {
        return Vec::new();
    };
    let texts = ticket::describe(stored);
    let lines = texts.iter().flat_map(|text| text.split('\n'));
    // The heading already shows the first line.
    let wrapped = lines.skip(1).flat_map(|text| {
        let is_text = text.starts_with(' ');
        let style = if is_text { Style::new() } else { bold() };
        let parts = wrap_words(&findings::clean(text), width, 4);
        parts.into_iter().map(move |part| Line::styled(part, style))
    });
    wrapped.collect()
}

fn finding_lines(opened: &OpenTicket, width: usize, theme: &Theme) -> Vec<DiffLine> {
    let Some(stored) = &opened.stored else {
        return Vec::new();
    };
    let entries = &stored.ticket.ledger.entries;
    if entries.is_empty() {
        return plain_lines(vec![Line::styled("  no findings", dim())]);
    }
    // Open findings come first.
    let (open, closed): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.status.is_open());
    let mut lines = Vec::new();
    for entry in open.into_iter().chain(closed) {
        let mut rendered = diff::render_finding(entry, 0, width, &theme.glyphs);
        if let Some(first) = rendered.first_mut() {
            let location = entry.location();
            first.line.spans.push(Span::raw(format!("  {location}")));
        }
        lines.extend(rendered);
        lines.push(diff::plain_line(Line::default()));
    }
    lines
}

fn diff_lines(opened: &OpenTicket, width: usize, theme: &Theme) -> Vec<DiffLine> {
    if let Some(changes) = &opened.diff {
        return diff::render_diff(changes, width, &theme.glyphs);
    }
    let committed = opened
        .stored
        .as_ref()
        .and_then(|stored| stored.ticket.submission.as_ref());
    let text = if committed.is_some() {
        "  reading"
    } else {
        "  no commit yet"
    };
    plain_lines(vec![Line::styled(text, dim())])
}

fn log_lines(opened: &OpenTicket, width: usize) -> Vec<Line<'static>> {
    let wrapped = opened.log.iter().flat_map(|line| {
        let time: String = line.at.to_iso().chars().skip(11).take(8).collect();
        let text = format!("{time}  {}", findings::one_line(&line.text));
        wrap_words(&text, width, 10)
    });
    wrapped.map(Line::raw).collect()
}
