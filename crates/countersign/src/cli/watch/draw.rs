//! Draws the view. Nothing is decided here and nothing is read: the same view on the same size is
//! the same picture.

mod opened;
mod settle;

use flow::narrate::Mood;
use flow::usage::dollars;
use flow::{Stage, Time};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::model::{Screen, View};
use crate::cli::paint::{Glyphs, bold, clipped, dim, elapsed, fitted, of_mood, of_stage, rough};
use crate::operations::overview::{Group, Lease};
use crate::operations::{Scope, TicketRow};

/// What may be drawn with.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub glyphs: Glyphs,
    pub colours: bool,
}

/// From this height on, who works on what has a place below the tickets.
const TALL: u16 = 30;
/// How much of it.
const WORK_MAX: usize = 10;

pub fn draw(frame: &mut Frame<'_>, view: &mut View, look: &Look) {
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
    if view.screen == Screen::Help {
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

fn line(frame: &mut Frame<'_>, area: Rect, line: Line<'static>, look: &Look) {
    lines(frame, area, vec![line], look);
}

fn lines(frame: &mut Frame<'_>, area: Rect, lines: Vec<Line<'static>>, look: &Look) {
    let fits = lines.into_iter().take(area.height.into());
    let cut = fits.map(|line| clipped(line, area.width.into(), &look.glyphs));
    frame.render_widget(Paragraph::new(cut.collect::<Vec<_>>()), area);
}

/// `12:04:33`, by universal time as in the log.
fn clock(now: Time) -> String {
    now.iso().chars().skip(11).take(8).collect()
}

fn summary(view: &View, look: &Look) -> Line<'static> {
    let overview = &view.overview;
    let dot = format!(" {} ", look.glyphs.dot);
    let spent = overview.spent_today;
    let ready: u64 = overview.ready.values().sum();
    let more = if overview.more { "+" } else { "" };
    let mut spans = vec![Span::styled("countersign", bold())];
    let for_you = overview.count(Group::ForYou);
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

fn groups(view: &View, look: &Look) -> Line<'static> {
    let mut spans = Vec::new();
    for (at, group) in Group::ALL.into_iter().enumerate() {
        let count = view.overview.count(group);
        let text = format!(" {} {} {count} ", at + 1, group.word());
        let here = group == view.group && view.screen == Screen::Tickets;
        spans.push(Span::styled(text, tab_style(here)));
    }
    spans.push(Span::styled(
        " w work ",
        tab_style(view.screen == Screen::Work),
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

fn listed(frame: &mut Frame<'_>, area: Rect, view: &View, look: &Look) {
    if view.screen == Screen::Work {
        return lines(frame, area, work(view, area.width.into(), look), look);
    }
    let mut below = vec![Line::styled(
        look.glyphs.rule.repeat(area.width.into()),
        dim(),
    )];
    below.extend(work(view, area.width.into(), look));
    let is_tall = view.size.1 >= TALL;
    let height = if is_tall {
        below.len().min(WORK_MAX)
    } else {
        0
    };
    let height = Constraint::Length(u16::try_from(height).unwrap_or(0));
    let [table, panel] = Layout::vertical([Constraint::Min(0), height]).areas(area);
    lines(frame, table, tickets(view, table, look), look);
    lines(frame, panel, below, look);
}

fn tickets(view: &View, area: Rect, look: &Look) -> Vec<Line<'static>> {
    let list = &view.list;
    if list.rows.is_empty() {
        let text = match (view.loaded, view.overview.count(view.group)) {
            (true, 0) if view.group == Group::All => {
                "no tickets yet; `countersign run \"what shall be done\"` makes one"
            }
            (true, 0) => "none of these",
            (true | false, _) => "reading",
        };
        return vec![Line::styled(format!("  {text}"), dim())];
    }
    let widths = Widths::new(&list.rows, area.width.into());
    let height = usize::from(area.height).saturating_sub(1).max(1);
    // The choice is kept off the edges, so that what comes next is seen.
    let last_top = list.rows.len().saturating_sub(height);
    let top = list.at.saturating_sub(height / 2).min(last_top);
    let place = format!(
        "{} of {}",
        list.before() + list.at + 1,
        view.overview.count(view.group)
    );
    let mut shown = vec![widths.head(&place)];
    let rows = list.rows.iter().enumerate().skip(top).take(height);
    shown.extend(rows.map(|(at, row)| widths.row(row, at == list.at, view.now, look)));
    shown
}

/// How wide each column is; what does not fit goes, the least telling first.
struct Widths {
    id: usize,
    whole: usize,
}

impl Widths {
    fn new(rows: &[TicketRow], whole: usize) -> Self {
        let longest = rows.iter().map(|row| row.id.as_str().len()).max();
        Self {
            id: longest.unwrap_or(6).clamp(6, (whole / 3).clamp(6, 28)),
            whole,
        }
    }

    fn is_wide(&self) -> bool {
        self.whole >= 60
    }

    fn head(&self, place: &str) -> Line<'static> {
        let id = self.id;
        let text = if self.is_wide() {
            let (stage, age, cost) = ("stage", "age", "cost");
            format!(
                "  {:id$}  {stage:9}  rd  {cost:>6}  {age:>7}  {place}",
                "ticket"
            )
        } else {
            format!("  {:id$}  {place}", "ticket")
        };
        Line::styled(text, dim())
    }

    fn row(&self, row: &TicketRow, chosen: bool, now: Time, look: &Look) -> Line<'static> {
        let id = self.id;
        let mark = if chosen { look.glyphs.chosen } else { " " };
        let name = fitted(row.id.as_str(), id, &look.glyphs);
        let mut spans = vec![
            Span::raw(format!("{mark} ")),
            Span::styled(format!("{name:id$}  "), bold()),
            Span::styled(format!("{:9}", row.stage.word()), of_stage(row.stage)),
        ];
        if self.is_wide() {
            let age = elapsed(now.0 - row.updated_at.0);
            spans.push(Span::raw(format!("  {:>2}", row.round)));
            spans.push(Span::raw(format!("  {:>6}", cost(row))));
            spans.push(Span::styled(format!("  {age:>7}"), dim()));
        }
        if row.open_must_fix > 0 {
            let text = format!("  {} must-fix", row.open_must_fix);
            spans.push(Span::styled(text, of_mood(Mood::Bad)));
        }
        let title = findings::one_line(&row.title);
        spans.push(Span::styled(format!("  {title}"), title_style(row.stage)));
        if chosen {
            return in_front(Line::from(spans), self.whole);
        }
        Line::from(spans)
    }
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

fn title_style(stage: Stage) -> Style {
    if stage.is_terminal() {
        dim()
    } else {
        Style::new()
    }
}

fn cost(row: &TicketRow) -> String {
    if row.usd_micros == 0 {
        String::new()
    } else {
        dollars(row.usd_micros)
    }
}

/// Who works on what, what waits for a worker, and what is paused.
fn work(view: &View, width: usize, look: &Look) -> Vec<Line<'static>> {
    let overview = &view.overview;
    let queues: Vec<String> = overview
        .ready
        .iter()
        .map(|(queue, count)| format!("{count} {queue}"))
        .collect();
    let queued = if queues.is_empty() {
        "nothing waits for a worker".to_owned()
    } else {
        format!("waiting for a worker: {}", queues.join(", "))
    };
    let mut shown = Vec::new();
    for pause in &overview.pauses {
        let (kind, name) = match &pause.scope {
            Scope::Agent(name) => ("agent", name),
            Scope::Queue(name) => ("queue", name),
            Scope::Provider(name) => ("provider", name),
        };
        let until = pause
            .until
            .map(|until| format!(" for {}", elapsed(until.0 - view.now.0)));
        let text = format!(
            "  paused: {kind} {}{}  {}",
            findings::one_line(name),
            until.unwrap_or_default(),
            findings::one_line(&pause.why)
        );
        shown.push(Line::styled(text, of_mood(Mood::Urgent)));
    }
    if overview.leases.is_empty() {
        shown.push(Line::styled("  nobody is at work", dim()));
    }
    shown.extend(
        overview
            .leases
            .iter()
            .map(|lease| leased(lease, width, view.now, look)),
    );
    shown.push(Line::styled(format!("  {queued}"), dim()));
    let stages = overview.tally.iter();
    let stages: Vec<String> = stages
        .map(|(stage, count)| format!("{count} {stage}"))
        .collect();
    if view.screen == Screen::Work && !stages.is_empty() {
        let text = format!("  tickets: {}", stages.join(", "));
        shown.push(Line::styled(text, dim()));
    }
    shown
}

fn leased(lease: &Lease, width: usize, now: Time, look: &Look) -> Line<'static> {
    let id = lease
        .ticket
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    let room = (width / 3).clamp(6, 28);
    let left = lease.until.map(|until| until.0 - now.0);
    let (style, left) = match left {
        Some(left) if left < 0 => (of_mood(Mood::Bad), "lease lost".to_owned()),
        Some(left) => (dim(), format!("lease {}", elapsed(left))),
        None => (dim(), String::new()),
    };
    let again = if lease.attempts > 0 {
        format!("  try {}", lease.attempts + 1)
    } else {
        String::new()
    };
    Line::from(vec![
        Span::styled(format!("  {:7}", lease.kind), Style::new().fg(Color::Cyan)),
        Span::styled(
            format!(" {:room$}", fitted(&id, room, &look.glyphs)),
            bold(),
        ),
        Span::raw(format!("  {}", findings::one_line(&lease.holder))),
        Span::styled(format!("  {left}"), style),
        Span::styled(again, of_mood(Mood::Urgent)),
    ])
}

fn footer(view: &View, look: &Look) -> Line<'static> {
    if let Some((mood, text)) = &view.notice {
        return Line::styled(text.clone(), of_mood(*mood));
    }
    let dot = look.glyphs.dot;
    let text = match (&view.opened, view.screen) {
        (_, Screen::Help) => "any key goes back".to_owned(),
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
