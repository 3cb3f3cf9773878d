//! One page of tickets and the choice in it. Past the end of a page is the next one.

use app::operations::{Paged, TicketRow};

/// How many tickets are kept at a time; the others are a page away.
pub const PAGE: u32 = 200;

/// One page of tickets.
#[derive(Debug, Default)]
pub struct TicketListPage {
    pub rows: Vec<TicketRow>,
    /// After which ticket this page begins, and those before it.
    pub after: Vec<i64>,
    pub next: Option<i64>,
    pub at: usize,
    /// Where the choice goes when the page that was asked for is there.
    pub land_at_end: bool,
    /// Enter was faster than the page.
    pub open_when_read: bool,
}

impl TicketListPage {
    pub fn chosen(&self) -> Option<&TicketRow> {
        self.rows.get(self.at)
    }

    /// How many tickets are on the pages before.
    pub fn before(&self) -> usize {
        self.after.len() * PAGE as usize
    }

    /// Takes what was read; the choice stays on its ticket where that is still there.
    pub fn take(&mut self, page: Paged<TicketRow>) {
        let chosen = self.chosen().map(|row| row.number);
        self.rows = page.items;
        self.next = page.next;
        let last = self.rows.len().saturating_sub(1);
        let again = self.rows.iter().position(|row| Some(row.number) == chosen);
        self.at = again.unwrap_or(self.at).min(last);
        if std::mem::take(&mut self.land_at_end) {
            self.at = last;
        }
    }

    /// True where another page is to be read, as in the other two ways to move.
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
        // While a page is being read, the one before it has not been left yet.
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
