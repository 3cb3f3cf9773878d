//! The open ticket.

use flow::narrate::Mood;
use flow::usage::dollars;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{Theme, line, lines, tab_style};
use crate::cli::diff::{self, DiffLine};
use crate::cli::paint::{bold, dim, of_mood, of_stage, wrapped};
use crate::cli::ticket;
use crate::cli::watch::model::View;
use crate::cli::watch::model::opened::{OpenTicket, TabLayout, TabLayoutKey, TicketTab};

pub fn draw(frame: &mut Frame<'_>, areas: [Rect; 3], view: &mut View, look: &Theme) {
    let [top, tabs, body] = areas;
    let Some(opened) = view.opened.as_deref_mut() else {
        return;
    };
    line(frame, top, head(opened), look);
    line(frame, tabs, tab_line(opened), look);
    lay_out(opened, body.width.into(), look);
    let banner = banner(opened);
    let room = usize::from(body.height).saturating_sub(banner.len());
    let last = opened.drawn.lines.len().saturating_sub(room);
    opened.top = opened.top.min(last);
    let seen = opened
        .drawn
        .lines
        .iter()
        .skip(opened.top)
        .take(room)
        .cloned();
    lines(frame, body, banner.into_iter().chain(seen).collect(), look);
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
        of_stage(ticket.stage),
    ));
    spans.push(Span::raw(format!("  round {}", ticket.round)));
    if ticket.spent.ticket.usd_micros > 0 {
        spans.push(Span::raw(format!(
            "  {}",
            dollars(ticket.spent.ticket.usd_micros)
        )));
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

/// Above everything where a person is asked.
fn banner(opened: &OpenTicket) -> Vec<Line<'static>> {
    let Some(waiting) = &opened.waiting else {
        return Vec::new();
    };
    let reason = findings::one_line(&waiting.reason);
    vec![Line::from(vec![
        Span::styled(format!("waits for you: {reason}; "), of_mood(Mood::Urgent)),
        Span::raw("s settles it"),
    ])]
}

fn lay_out(opened: &mut OpenTicket, width: usize, look: &Theme) {
    let Some(stored) = &opened.stored else {
        return;
    };
    let of = TabLayoutKey {
        tab: opened.tab,
        width,
        version: stored.ticket.version,
        round: opened.diff.as_ref().map(|diff| diff.round),
        log: opened.log.len(),
    };
    if opened.drawn.of == Some(of) {
        return;
    }
    let shown = match opened.tab {
        TicketTab::Rounds => plain(rounds(opened, width)),
        TicketTab::Findings => entries(opened, width, look),
        TicketTab::Diff => changes(opened, width, look),
        TicketTab::Log => plain(story(opened, width)),
    };
    let begins = |(at, shown): (usize, &DiffLine)| shown.finding.is_some().then_some(at);
    opened.drawn = TabLayout {
        of: Some(of),
        findings: shown.iter().enumerate().filter_map(begins).collect(),
        lines: shown.into_iter().map(|shown| shown.line).collect(),
    };
}

fn plain(lines: Vec<Line<'static>>) -> Vec<DiffLine> {
    lines.into_iter().map(diff::plain).collect()
}

fn rounds(opened: &OpenTicket, width: usize) -> Vec<Line<'static>> {
    let Some(stored) = &opened.stored else {
        return Vec::new();
    };
    let texts = ticket::describe(stored);
    let lines = texts.iter().flat_map(|text| text.split('\n'));
    // The first line is the head's.
    let told = lines.skip(1).flat_map(|text| {
        let is_text = text.starts_with(' ');
        let style = if is_text { Style::new() } else { bold() };
        let parts = wrapped(&findings::clean(text), width, 4);
        parts.into_iter().map(move |part| Line::styled(part, style))
    });
    told.collect()
}

fn entries(opened: &OpenTicket, width: usize, look: &Theme) -> Vec<DiffLine> {
    let Some(stored) = &opened.stored else {
        return Vec::new();
    };
    let entries = &stored.ticket.ledger.entries;
    if entries.is_empty() {
        return plain(vec![Line::styled("  nobody has found anything", dim())]);
    }
    // What is open comes first.
    let (open, closed): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.status.is_open());
    let mut shown = Vec::new();
    for entry in open.into_iter().chain(closed) {
        let mut remark = diff::remark(entry, 0, width, &look.glyphs);
        if let Some(first) = remark.first_mut() {
            let place = entry.place();
            first.line.spans.push(Span::raw(format!("  {place}")));
        }
        shown.extend(remark);
        shown.push(diff::plain(Line::default()));
    }
    shown
}

fn changes(opened: &OpenTicket, width: usize, look: &Theme) -> Vec<DiffLine> {
    if let Some(changes) = &opened.diff {
        return diff::lines(changes, width, &look.glyphs);
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
    plain(vec![Line::styled(text, dim())])
}

fn story(opened: &OpenTicket, width: usize) -> Vec<Line<'static>> {
    let told = opened.log.iter().flat_map(|line| {
        let time: String = line.at.iso().chars().skip(11).take(8).collect();
        let text = format!("{time}  {}", findings::one_line(&line.text));
        wrapped(&text, width, 10)
    });
    told.map(Line::raw).collect()
}
