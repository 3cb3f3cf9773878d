//! One page of tickets and its selection. Moving past the end of a page loads the next one.

use app::operations::{Paged, TicketRow};

/// Tickets per page.
pub const PAGE: u32 = 200;

/// A page of tickets.
#[derive(Debug, Default)]
pub struct TicketListPage {
    pub rows: Vec<TicketRow>,
    /// Cursors of this page and the pages before it.
    pub after: Vec<i64>,
    pub next: Option<i64>,
    pub at: usize,
    /// Whether the selection goes to the end when the requested page arrives.
    pub land_at_end: bool,
    /// Whether to open the selected ticket when the page arrives, because Enter came first.
    pub open_when_read: bool,
}

impl TicketListPage {
    pub fn chosen(&self) -> Option<&TicketRow> {
        self.rows.get(self.at)
    }

    /// Returns the number of tickets on the pages before.
    pub fn rows_before(&self) -> usize {
        self.after.len() * PAGE as usize
    }

    /// Stores a loaded page. The selection stays on its ticket if that is still there.
    pub fn set_page(&mut self, page: Paged<TicketRow>) {
        let chosen = self.chosen().map(|row| row.number);
        self.rows = page.items;
        self.next = page.next;
        let last = self.rows.len().saturating_sub(1);
        let position = self.rows.iter().position(|row| Some(row.number) == chosen);
        self.at = position.unwrap_or(self.at).min(last);
        if std::mem::take(&mut self.land_at_end) {
            self.at = last;
        }
    }

    /// Moves down. Like `up` and `first`, it returns whether another page must be loaded.
    pub fn down(&mut self, by: usize) -> bool {
        let last = self.rows.len().saturating_sub(1);
        if self.at < last {
            self.at = self.at.saturating_add(by).min(last);
            return false;
        }
        let Some(next) = self.next.take() else {
            return false;
        };
        self.after.push(next);
        self.at = 0;
        self.rows.clear();
        true
    }

    pub fn up(&mut self, by: usize) -> bool {
        if self.at > 0 {
            self.at = self.at.saturating_sub(by);
            return false;
        }
        // While a page is loading there is no page to go back from.
        if self.rows.is_empty() || self.after.pop().is_none() {
            return false;
        }
        self.land_at_end = true;
        self.rows.clear();
        true
    }

    pub fn first(&mut self) -> bool {
        self.at = 0;
        if self.after.is_empty() {
            return false;
        }
        self.after.clear();
        self.rows.clear();
        true
    }
}
