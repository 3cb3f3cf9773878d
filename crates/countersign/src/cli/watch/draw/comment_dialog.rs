//! Draws the dialog for a person's finding, over the diff.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::Theme;
use super::resolve_dialog::{draw_sheet, field_lines};
use crate::cli::paint::{bold, dim};
use crate::cli::watch::model::View;

pub fn draw(frame: &mut Frame<'_>, area: Rect, view: &View, theme: &Theme) {
    let Some(opened) = &view.opened else {
        return;
    };
    let Some(dialog) = &opened.comment_dialog else {
        return;
    };
    let heading = Line::styled(format!("a finding of yours on {}", opened.id), bold());
    let mut lines = vec![heading];
    match &dialog.form {
        None => lines.push(Line::styled(
            format!(
                "{}; j k: another line; Enter: write; Esc: cancel",
                dialog.place()
            ),
            dim(),
        )),
        Some(form) => lines.extend(field_lines(
            form,
            dialog.sent,
            "Enter: next field, or add it at the last one; Esc: back",
            (area.width.into(), theme),
        )),
    }
    draw_sheet(frame, area, lines, theme);
}
