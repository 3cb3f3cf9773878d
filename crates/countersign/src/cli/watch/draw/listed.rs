//! One page of tickets, a line each.

use flow::narrate::Mood;
use flow::usage::dollars;
use flow::{Stage, Time};
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{Theme, in_front};
use crate::cli::paint::{bold, dim, elapsed, fitted, of_mood, of_stage};
use crate::cli::watch::model::View;
use app::operations::TicketRow;
use app::operations::overview::TicketGroup;

pub fn tickets(view: &View, area: Rect, look: &Theme) -> Vec<Line<'static>> {
    let list = &view.list;
    if list.rows.is_empty() {
        let text = match (view.loaded, view.overview.count(view.group)) {
            (true, 0) if view.group == TicketGroup::All => {
                "no tickets yet; `countersign run \"what shall be done\"` makes one"
            }
            (true, 0) => "none of these",
            (true | false, _) => "reading",
        };
        return vec![Line::styled(format!("  {text}"), dim())];
    }
    let widths = ColumnWidths::new(&list.rows, area.width.into());
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

    fn row(&self, row: &TicketRow, chosen: bool, now: Time, look: &Theme) -> Line<'static> {
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
