//! Draws the view. It decides and reads nothing: the same view at the same size gives the same
//! screen.

mod comment_dialog;
mod open_ticket;
mod resolve_dialog;
mod ticket_list;
mod work;

use flow::Time;
use flow::narrate::Mood;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::model::{View, ViewScreen};
use crate::cli::paint::{Glyphs, bold, dim, format_count, mood_style, truncate_line};
use app::operations::overview::TicketGroup;

/// Glyphs and colours to draw with.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    pub glyphs: Glyphs,
    pub colours: bool,
}

/// From this height on, the running work is shown below the tickets.
const TALL_SCREEN_ROWS: u16 = 30;
/// Maximum number of lines for the running work.
const WORK_MAX: usize = 10;

pub fn draw(frame: &mut Frame<'_>, view: &mut View, theme: &Theme) {
    let area = frame.area();
    // Keys that page need to know how much was visible.
    view.size = (area.width, area.height);
    let [head, tabs, rule, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_line(
        frame,
        rule,
        Line::styled(theme.glyphs.rule.repeat(rule.width.into()), dim()),
        theme,
    );
    if view.screen == ViewScreen::Help {
        draw_line(
            frame,
            head,
            Line::styled("countersign watch: keys", bold()),
            theme,
        );
        draw_lines(frame, body, help_lines(), theme);
    } else if view.opened.is_some() {
        open_ticket::draw(frame, [head, tabs, body], view, theme);
    } else {
        draw_line(frame, head, summary(view, theme), theme);
        draw_line(frame, tabs, group_tabs(view, theme), theme);
        draw_ticket_list(frame, body, view, theme);
    }
    draw_line(frame, foot, footer(view, theme), theme);
    // Dialogs come last, because they lie over the rest.
    resolve_dialog::draw(frame, body, view, theme);
    comment_dialog::draw(frame, body, view, theme);
    // Taken out at the end, in one place: no other code has to know whether there are colours.
    if !theme.colours {
        let buffer = frame.buffer_mut();
        for cell in &mut buffer.content {
            cell.fg = Color::Reset;
            cell.bg = Color::Reset;
        }
    }
}

fn draw_line(frame: &mut Frame<'_>, area: Rect, line: Line<'static>, theme: &Theme) {
    draw_lines(frame, area, vec![line], theme);
}

fn draw_lines(frame: &mut Frame<'_>, area: Rect, lines: Vec<Line<'static>>, theme: &Theme) {
    // A terminal can be smaller than any of our lines, and the library must not wrap them.
    let fits = lines.into_iter().take(area.height.into());
    let cut = fits.map(|line| truncate_line(line, area.width.into(), &theme.glyphs));
    frame.render_widget(Paragraph::new(cut.collect::<Vec<_>>()), area);
}

/// Formats the time as in the log: `12:04:33`, UTC.
fn clock(now: Time) -> String {
    now.to_iso().chars().skip(11).take(8).collect()
}

fn summary(view: &View, theme: &Theme) -> Line<'static> {
    let overview = &view.overview;
    let dot = format!(" {} ", theme.glyphs.dot);
    let spent = overview.spent_today;
    let ready: u64 = overview.ready.values().sum();
    // The overview reads bounded pages, so the count may be a part.
    let more = if overview.more { "+" } else { "" };
    let mut spans = vec![Span::styled("countersign", bold())];
    let for_you = overview.count(TicketGroup::ForYou);
    let parts = [
        (for_you > 0).then(|| (mood_style(Mood::Urgent), format!("{for_you} for you"))),
        Some((Style::new(), format!("{} working", overview.leases.len()))),
        Some((dim(), format!("{ready}{more} queued"))),
        (!overview.pauses.is_empty()).then(|| {
            (
                mood_style(Mood::Urgent),
                format!("{} paused", overview.pauses.len()),
            )
        }),
        (spent.usd_micros > 0).then(|| (dim(), format!("{} today", spent.describe_amount()))),
        // Agents without a price report tokens only; "$0.00" would look free.
        (spent.usd_micros == 0 && spent.tokens > 0).then(|| {
            (
                dim(),
                format!("{} tokens today", format_count(spent.tokens)),
            )
        }),
        Some((dim(), clock(view.now))),
    ];
    for (style, text) in parts.into_iter().flatten() {
        spans.push(Span::styled(dot.clone(), dim()));
        spans.push(Span::styled(text, style));
    }
    Line::from(spans)
}

fn group_tabs(view: &View, theme: &Theme) -> Line<'static> {
    let mut spans = Vec::new();
    for (at, group) in TicketGroup::ALL.into_iter().enumerate() {
        let count = view.overview.count(group);
        let text = format!(" {} {} {count} ", at + 1, group.word());
        let selected = group == view.group && view.screen == ViewScreen::Tickets;
        spans.push(Span::styled(text, tab_style(selected)));
    }
    spans.push(Span::styled(
        " w work ",
        tab_style(view.screen == ViewScreen::Work),
    ));
    if let Some(typed) = &view.typed {
        let text = format!("open ticket: {typed}{}", theme.glyphs.full);
        return Line::styled(text, bold());
    }
    Line::from(spans)
}

fn tab_style(selected: bool) -> Style {
    if selected {
        Style::new().add_modifier(Modifier::REVERSED)
    } else {
        dim()
    }
}

fn draw_ticket_list(frame: &mut Frame<'_>, area: Rect, view: &View, theme: &Theme) {
    if view.screen == ViewScreen::Work {
        return draw_lines(
            frame,
            area,
            work::work_lines(view, area.width.into(), theme),
            theme,
        );
    }
    let mut below = vec![Line::styled(
        theme.glyphs.rule.repeat(area.width.into()),
        dim(),
    )];
    below.extend(work::work_lines(view, area.width.into(), theme));
    let is_tall = view.size.1 >= TALL_SCREEN_ROWS;
    // On a low screen the tickets need all lines; the work has a screen of its own.
    let height = if is_tall {
        below.len().min(WORK_MAX)
    } else {
        0
    };
    let height = Constraint::Length(u16::try_from(height).unwrap_or(0));
    let [table, panel] = Layout::vertical([Constraint::Min(0), height]).areas(area);
    draw_lines(
        frame,
        table,
        ticket_list::ticket_lines(view, table, theme),
        theme,
    );
    draw_lines(frame, panel, below, theme);
}

/// Highlights the selected line as one bar, without its own colours.
pub fn highlight_row(mut line: Line<'static>, width: usize) -> Line<'static> {
    let rest = width.saturating_sub(line.width());
    line.push_span(" ".repeat(rest));
    for span in &mut line.spans {
        // Reversed colours of parts would make a striped bar.
        span.style = Style::new();
    }
    line.style(Style::new().add_modifier(Modifier::REVERSED))
}

fn footer(view: &View, theme: &Theme) -> Line<'static> {
    if let Some((mood, text)) = &view.notice {
        return Line::styled(text.clone(), mood_style(*mood));
    }
    let dot = theme.glyphs.dot;
    let text = match (&view.opened, view.screen) {
        (_, ViewScreen::Help) => "any key goes back".to_owned(),
        // While a person types, these keys are letters.
        (Some(opened), _) if opened.is_typing() => String::new(),
        (Some(opened), _) => {
            let settle = if opened.waiting.is_some() {
                "s settle"
            } else {
                "j k scroll"
            };
            format!(
                "{settle} {dot} c comment {dot} Tab next {dot} n finding {dot} [ ] round {dot} ? keys {dot} q back"
            )
        }
        (None, _) => format!(
            "j k move {dot} Enter open {dot} 1-5 group {dot} / id {dot} w work {dot} ? keys {dot} q quit"
        ),
    };
    Line::styled(text, dim())
}

fn help_lines() -> Vec<Line<'static>> {
    let keys = [
        ("j k, arrows", "move, scroll; PgUp PgDn, g G: far"),
        ("Enter", "open the ticket"),
        (
            "1 to 5, Tab",
            "filter tickets: all, for you, at work, waiting, ended",
        ),
        ("/", "open a ticket by its id"),
        ("w", "running work, queues, pauses"),
        ("r f d l, Tab", "in a ticket: rounds, findings, diff, log"),
        ("n N", "next and previous finding in the diff"),
        ("[ ]", "the diff of another round"),
        ("s", "settle an escalation"),
        ("c", "add a finding of yours; in the diff, on a line"),
        ("q, Esc", "back; at the list, quit"),
        ("Ctrl-C", "quit"),
    ];
    let row = |(key, meaning): (&str, &str)| {
        Line::from(vec![
            Span::styled(format!("  {key:14}"), bold()),
            Span::raw(meaning.to_owned()),
        ])
    };
    keys.map(row).into()
}
