//! Draws the dialog that resolves an escalation, over the ticket.

use flow::narrate::Mood;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Clear;

use super::{Theme, draw_lines, highlight_row};
use crate::cli::paint::{bold, dim, mood_style};
use crate::cli::watch::model::View;
use crate::cli::watch::model::resolve_dialog::{DecisionForm, ResolveDialog};
use app::operations::escalations::choice_meaning;

/// Below this width, field names are not aligned.
const NARROW_COLUMNS: usize = 40;

pub fn draw(frame: &mut Frame<'_>, area: Rect, view: &View, theme: &Theme) {
    let Some(opened) = &view.opened else {
        return;
    };
    let Some(dialog) = &opened.resolve_dialog else {
        return;
    };
    let text = match &dialog.form {
        None => choice_lines(dialog, area.width.into(), theme),
        Some(form) => form_lines(dialog, form, area.width.into(), theme),
    };
    let mut lines = vec![Line::styled(format!("settle {}", opened.id), bold())];
    lines.extend(text);
    draw_sheet(frame, area, lines, theme);
}

/// Draws lines at the bottom of the area, so that the evidence stays visible above.
pub fn draw_sheet(frame: &mut Frame<'_>, area: Rect, text: Vec<Line<'static>>, theme: &Theme) {
    let rule = theme.glyphs.rule.repeat(area.width.into());
    let mut lines = vec![Line::styled(rule, dim())];
    lines.extend(text);
    let height = u16::try_from(lines.len())
        .unwrap_or(u16::MAX)
        .min(area.height);
    let [_, sheet] = Layout::vertical([Constraint::Min(0), Constraint::Length(height)]).areas(area);
    frame.render_widget(Clear, sheet);
    draw_lines(frame, sheet, lines, theme);
}

fn choice_lines(dialog: &ResolveDialog, width: usize, theme: &Theme) -> Vec<Line<'static>> {
    let rows = dialog.choices.iter().enumerate().map(|(at, choice)| {
        let selected = at == dialog.at;
        let mark = if selected { theme.glyphs.chosen } else { " " };
        let line = Line::from(vec![
            Span::raw(format!("{mark} {} ", at + 1)),
            Span::styled(format!("{choice:9}"), bold()),
            Span::raw(format!("  {}", choice_meaning(choice))),
        ]);
        if selected {
            highlight_row(line, width)
        } else {
            line
        }
    });
    let mut lines: Vec<_> = rows.collect();
    lines.push(Line::styled("number or Enter: choose; Esc: cancel", dim()));
    lines
}

fn form_lines(
    dialog: &ResolveDialog,
    form: &DecisionForm,
    width: usize,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let choice = dialog.choice();
    let mut lines = vec![Line::from(vec![
        Span::styled(format!("{choice:9}"), bold()),
        Span::raw(format!("  {}", choice_meaning(choice))),
    ])];
    let keys = "Enter: next field, or decide at the last one; Esc: back";
    lines.extend(field_lines(form, dialog.sent, keys, (width, theme)));
    lines
}

/// Renders the fields of a form, and below them the missing field or the keys.
pub fn field_lines(
    form: &DecisionForm,
    sent: bool,
    keys: &'static str,
    (width, theme): (usize, &Theme),
) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for (at, field) in form.fields.iter().enumerate() {
        let selected = at == form.at && !sent;
        let mark = if selected { theme.glyphs.chosen } else { " " };
        let cursor = if selected && !field.toggle { "_" } else { "" };
        let hint = if field.text.is_empty() || field.toggle {
            format!("  ({})", field.hint)
        } else {
            String::new()
        };
        let pad = if width < NARROW_COLUMNS { 0 } else { 15 };
        let label = format!("{mark} {:pad$} ", field.name);
        // A long text shows its end, where the user types.
        let room = width.saturating_sub(label.chars().count() + 1);
        let skipped = field.text.chars().count().saturating_sub(room);
        let text: String = field.text.chars().skip(skipped).collect();
        lines.push(Line::from(vec![
            Span::raw(label),
            Span::styled(format!("{text}{cursor}"), bold()),
            Span::styled(hint, dim()),
        ]));
    }
    lines.push(match (form.missing, sent) {
        (_, true) => Line::styled("sending", dim()),
        (Some(name), _) => Line::styled(format!("{name} is required"), mood_style(Mood::Bad)),
        (None, _) => Line::styled(keys, dim()),
    });
    lines
}
