//! The dialogue that settles an escalation, drawn over the ticket.

use flow::narrate::Mood;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Clear;

use super::{Theme, in_front, lines};
use crate::cli::paint::{bold, dim, of_mood};
use crate::cli::watch::model::View;
use crate::cli::watch::model::settle::{DecisionForm, ResolveDialog, meaning};

/// Below this width names of fields are not lined up.
const NARROW: usize = 40;

pub fn draw(frame: &mut Frame<'_>, area: Rect, view: &View, look: &Theme) {
    let Some(opened) = &view.opened else {
        return;
    };
    let Some(settling) = &opened.settling else {
        return;
    };
    let text = match &settling.form {
        None => choosing(settling, area.width.into(), look),
        Some(form) => filling(settling, form, area.width.into(), look),
    };
    let mut shown = vec![
        Line::styled(look.glyphs.rule.repeat(area.width.into()), dim()),
        Line::styled(format!("settle {}", opened.id), bold()),
    ];
    shown.extend(text);
    // At the bottom, where the eye is; the evidence stays in sight above.
    let height = u16::try_from(shown.len())
        .unwrap_or(u16::MAX)
        .min(area.height);
    let [_, sheet] = Layout::vertical([Constraint::Min(0), Constraint::Length(height)]).areas(area);
    frame.render_widget(Clear, sheet);
    lines(frame, sheet, shown, look);
}

fn choosing(settling: &ResolveDialog, width: usize, look: &Theme) -> Vec<Line<'static>> {
    let rows = settling.choices.iter().enumerate().map(|(at, choice)| {
        let here = at == settling.at;
        let mark = if here { look.glyphs.chosen } else { " " };
        let line = Line::from(vec![
            Span::raw(format!("{mark} {} ", at + 1)),
            Span::styled(format!("{choice:9}"), bold()),
            Span::raw(format!("  {}", meaning(choice))),
        ]);
        if here { in_front(line, width) } else { line }
    });
    let mut shown: Vec<_> = rows.collect();
    shown.push(Line::styled(
        "a number or Enter chooses; Esc decides nothing",
        dim(),
    ));
    shown
}

fn filling(
    settling: &ResolveDialog,
    form: &DecisionForm,
    width: usize,
    look: &Theme,
) -> Vec<Line<'static>> {
    let choice = settling.choice();
    let mut shown = vec![Line::from(vec![
        Span::styled(format!("{choice:9}"), bold()),
        Span::raw(format!("  {}", meaning(choice))),
    ])];
    for (at, field) in form.fields.iter().enumerate() {
        let here = at == form.at && !settling.sent;
        let mark = if here { look.glyphs.chosen } else { " " };
        let cursor = if here && !field.toggle { "_" } else { "" };
        let hint = if field.text.is_empty() || field.toggle {
            format!("  ({})", field.hint)
        } else {
            String::new()
        };
        let pad = if width < NARROW { 0 } else { 15 };
        let label = format!("{mark} {:pad$} ", field.name);
        // What is being typed stays in sight: a long text shows its end.
        let room = width.saturating_sub(label.chars().count() + 1);
        let skipped = field.text.chars().count().saturating_sub(room);
        let text: String = field.text.chars().skip(skipped).collect();
        shown.push(Line::from(vec![
            Span::raw(label),
            Span::styled(format!("{text}{cursor}"), bold()),
            Span::styled(hint, dim()),
        ]));
    }
    shown.push(match (form.missing, settling.sent) {
        (_, true) => Line::styled("on its way", dim()),
        (Some(name), _) => Line::styled(format!("{name} is needed"), of_mood(Mood::Bad)),
        (None, _) => Line::styled(
            "Enter goes on and, at the end, decides; Esc goes back",
            dim(),
        ),
    });
    shown
}
