//! Draws the view. Nothing is decided here and nothing is read: the same view on the same size is
//! the same picture.

mod listed;
mod opened;
mod settle;
mod work;

use flow::Time;
use flow::narrate::Mood;
use flow::usage::dollars;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::model::{View, ViewScreen};
use crate::cli::paint::{Glyphs, bold, clipped, dim, of_mood, rough};
use app::operations::overview::TicketGroup;

/// What may be drawn with.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    pub glyphs: Glyphs,
    pub colours: bool,
}

/// From this height on, who works on what has a place below the tickets.
const TALL: u16 = 30;
/// How much of it.
const WORK_MAX: usize = 10;

pub fn draw(frame: &mut Frame<'_>, view: &mut View, look: &Theme) {
    let area = frame.area();
    view.size = (area.width, area.height);
    let [head, tabs, rule, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    line(
        frame,
        rule,
        Line::styled(look.glyphs.rule.repeat(rule.width.into()), dim()),
        look,
    );
    if view.screen == ViewScreen::Help {
        line(
            frame,
            head,
            Line::styled("countersign watch: keys", bold()),
            look,
        );
        lines(frame, body, help(), look);
    } else if view.opened.is_some() {
        opened::draw(frame, [head, tabs, body], view, look);
    } else {
        line(frame, head, summary(view, look), look);
        line(frame, tabs, groups(view, look), look);
        listed(frame, body, view, look);
    }
    line(frame, foot, footer(view, look), look);
    settle::draw(frame, body, view, look);
    if !look.colours {
        let buffer = frame.buffer_mut();
        for cell in &mut buffer.content {
            cell.fg = Color::Reset;
            cell.bg = Color::Reset;
        }
    }
}

fn line(frame: &mut Frame<'_>, area: Rect, line: Line<'static>, look: &Theme) {
    lines(frame, area, vec![line], look);
}

fn lines(frame: &mut Frame<'_>, area: Rect, lines: Vec<Line<'static>>, look: &Theme) {
    let fits = lines.into_iter().take(area.height.into());
    let cut = fits.map(|line| clipped(line, area.width.into(), &look.glyphs));
    frame.render_widget(Paragraph::new(cut.collect::<Vec<_>>()), area);
}

/// `12:04:33`, by universal time as in the log.
fn clock(now: Time) -> String {
    now.iso().chars().skip(11).take(8).collect()
}

fn summary(view: &View, look: &Theme) -> Line<'static> {
    let overview = &view.overview;
    let dot = format!(" {} ", look.glyphs.dot);
    let spent = overview.spent_today;
    let ready: u64 = overview.ready.values().sum();
    let more = if overview.more { "+" } else { "" };
    let mut spans = vec![Span::styled("countersign", bold())];
    let for_you = overview.count(TicketGroup::ForYou);
    let parts = [
        (for_you > 0).then(|| (of_mood(Mood::Urgent), format!("{for_you} for you"))),
        Some((Style::new(), format!("{} working", overview.leases.len()))),
        Some((dim(), format!("{ready}{more} queued"))),
        (!overview.pauses.is_empty()).then(|| {
            (
                of_mood(Mood::Urgent),
                format!("{} paused", overview.pauses.len()),
            )
        }),
        (spent.usd_micros > 0).then(|| (dim(), format!("{} today", dollars(spent.usd_micros)))),
        (spent.usd_micros == 0 && spent.tokens > 0)
            .then(|| (dim(), format!("{} tokens today", rough(spent.tokens)))),
        Some((dim(), clock(view.now))),
    ];
    for (style, text) in parts.into_iter().flatten() {
        spans.push(Span::styled(dot.clone(), dim()));
        spans.push(Span::styled(text, style));
    }
    Line::from(spans)
}

fn groups(view: &View, look: &Theme) -> Line<'static> {
    let mut spans = Vec::new();
    for (at, group) in TicketGroup::ALL.into_iter().enumerate() {
        let count = view.overview.count(group);
        let text = format!(" {} {} {count} ", at + 1, group.word());
        let here = group == view.group && view.screen == ViewScreen::Tickets;
        spans.push(Span::styled(text, tab_style(here)));
    }
    spans.push(Span::styled(
        " w work ",
        tab_style(view.screen == ViewScreen::Work),
    ));
    if let Some(typed) = &view.typed {
        let text = format!("open ticket: {typed}{}", look.glyphs.full);
        return Line::styled(text, bold());
    }
    Line::from(spans)
}

fn tab_style(here: bool) -> Style {
    if here {
        Style::new().add_modifier(Modifier::REVERSED)
    } else {
        dim()
    }
}

fn listed(frame: &mut Frame<'_>, area: Rect, view: &View, look: &Theme) {
    if view.screen == ViewScreen::Work {
        return lines(frame, area, work::work(view, area.width.into(), look), look);
    }
    let mut below = vec![Line::styled(
        look.glyphs.rule.repeat(area.width.into()),
        dim(),
    )];
    below.extend(work::work(view, area.width.into(), look));
    let is_tall = view.size.1 >= TALL;
    let height = if is_tall {
        below.len().min(WORK_MAX)
    } else {
        0
    };
    let height = Constraint::Length(u16::try_from(height).unwrap_or(0));
    let [table, panel] = Layout::vertical([Constraint::Min(0), height]).areas(area);
    lines(frame, table, listed::tickets(view, table, look), look);
    lines(frame, panel, below, look);
}

/// The line that the next key is about: one bar, whatever colours are in it.
pub fn in_front(mut line: Line<'static>, width: usize) -> Line<'static> {
    let rest = width.saturating_sub(line.width());
    line.push_span(" ".repeat(rest));
    for span in &mut line.spans {
        span.style = Style::new();
    }
    line.style(Style::new().add_modifier(Modifier::REVERSED))
}

fn footer(view: &View, look: &Theme) -> Line<'static> {
    if let Some((mood, text)) = &view.notice {
        return Line::styled(text.clone(), of_mood(*mood));
    }
    let dot = look.glyphs.dot;
    let text = match (&view.opened, view.screen) {
        (_, ViewScreen::Help) => "any key goes back".to_owned(),
        (Some(opened), _) if opened.settling.is_some() => String::new(),
        (Some(opened), _) => {
            let settle = if opened.waiting.is_some() {
                "s settle"
            } else {
                "j k scroll"
            };
            format!(
                "{settle} {dot} Tab next {dot} n finding {dot} [ ] round {dot} ? keys {dot} q back"
            )
        }
        (None, _) => format!(
            "j k move {dot} Enter open {dot} 1-5 group {dot} / id {dot} w work {dot} ? keys {dot} q quit"
        ),
    };
    Line::styled(text, dim())
}

fn help() -> Vec<Line<'static>> {
    let keys = [
        ("j k, arrows", "move, scroll; PgUp PgDn, g G: far"),
        ("Enter", "open the ticket"),
        (
            "1 to 5, Tab",
            "which tickets: all, for you, at work, waiting, ended",
        ),
        ("/", "open a ticket by its id"),
        ("w", "who works on what, queues, pauses"),
        ("r f d l, Tab", "in a ticket: rounds, findings, diff, log"),
        ("n N", "next and previous finding in the diff"),
        ("[ ]", "the change of another round"),
        ("s", "settle an escalation"),
        ("q, Esc", "back; at the list, quit"),
        ("Ctrl-C", "quit"),
    ];
    let row = |(key, what): (&str, &str)| {
        Line::from(vec![
            Span::styled(format!("  {key:14}"), bold()),
            Span::raw(what.to_owned()),
        ])
    };
    keys.map(row).into()
}
