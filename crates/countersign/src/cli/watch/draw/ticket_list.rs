//! Draws a page of tickets, one line each.

use flow::narrate::Mood;
use flow::usage::format_dollars;
use flow::{Stage, Time};
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{Theme, highlight_row};
use crate::cli::paint::{bold, dim, format_elapsed, mood_style, stage_style, truncate};
use crate::cli::watch::model::View;
use app::operations::TicketRow;
use app::operations::overview::TicketGroup;

pub fn ticket_lines(view: &View, area: Rect, theme: &Theme) -> Vec<Line<'static>> {
    let list = &view.list;
    if list.rows.is_empty() {
        let text = match (view.loaded, view.overview.count(view.group)) {
            (true, 0) if view.group == TicketGroup::All => {
                "no tickets yet; run `countersign run \"…\"` to create one"
            }
            (true, 0) => "no tickets in this group",
            (true | false, _) => "reading",
        };
        return vec![Line::styled(format!("  {text}"), dim())];
    }
    let widths = ColumnWidths::new(&list.rows, area.width.into());
    let height = usize::from(area.height).saturating_sub(1).max(1);
    // Keep the selection away from the edges, so that the next rows are visible.
    let last_top = list.rows.len().saturating_sub(height);
    let top = list.at.saturating_sub(height / 2).min(last_top);
    let position = format!(
        "{} of {}",
        list.rows_before() + list.at + 1,
        view.overview.count(view.group)
    );
    let mut lines = vec![widths.head(&position)];
    let rows = list.rows.iter().enumerate().skip(top).take(height);
    lines.extend(rows.map(|(at, row)| widths.row(row, at == list.at, view.now, theme)));
    lines
}

/// Widths of the columns. On a narrow screen the less important columns are left out.
struct ColumnWidths {
    id: usize,
    whole: usize,
}

impl ColumnWidths {
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

    fn head(&self, position: &str) -> Line<'static> {
        let id = self.id;
        let text = if self.is_wide() {
            let (stage, age, cost) = ("stage", "age", "cost");
            format!(
                "  {:id$}  {stage:9}  rd  {cost:>6}  {age:>7}  {position}",
                "ticket"
            )
        } else {
            format!("  {:id$}  {position}", "ticket")
        };
        Line::styled(text, dim())
    }

    fn row(&self, row: &TicketRow, chosen: bool, now: Time, theme: &Theme) -> Line<'static> {
        let id = self.id;
        let mark = if chosen { theme.glyphs.chosen } else { " " };
        let name = truncate(row.id.as_str(), id, &theme.glyphs);
        let mut spans = vec![
            Span::raw(format!("{mark} ")),
            Span::styled(format!("{name:id$}  "), bold()),
            Span::styled(format!("{:9}", row.stage.as_str()), stage_style(row.stage)),
        ];
        if self.is_wide() {
            let age = format_elapsed(now.0 - row.updated_at.0);
            spans.push(Span::raw(format!("  {:>2}", row.round)));
            spans.push(Span::raw(format!("  {:>6}", cost(row))));
            spans.push(Span::styled(format!("  {age:>7}"), dim()));
        }
        if row.open_must_fix > 0 {
            let text = format!("  {} must-fix", row.open_must_fix);
            spans.push(Span::styled(text, mood_style(Mood::Bad)));
        }
        let title = findings::one_line(&row.title);
        spans.push(Span::styled(format!("  {title}"), title_style(row.stage)));
        if chosen {
            return highlight_row(Line::from(spans), self.whole);
        }
        Line::from(spans)
    }
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
        format_dollars(row.usd_micros)
    }
}
