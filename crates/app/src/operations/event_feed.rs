//! An event feed for external readers: the log from a stored cursor. The cursor is leased, so that
//! one reader of each name is active at a time, on any number of machines and after crashes.
//!
//! The cursor moves after delivery, so a crash repeats the last events and loses none.

use std::time::Duration;

use store::CursorMove;

use super::history::{LogFollower, LogLine};
use super::{App, Cursor, overview};
use crate::failure::Failure;
use engine::log::LogErr;

/// Number of events that are read at a time.
const CHUNK: u32 = 100;

/// A reader of the log that continues from its stored cursor.
#[derive(Debug)]
pub struct EventFeed {
    app: App,
    name: String,
    holder: String,
    /// Time without a renewal after which another reader may take the cursor.
    lease: Duration,
    follower: LogFollower,
    cursor: Cursor,
}

/// A part of the log, in order.
#[derive(Debug)]
pub struct FeedPage {
    pub lines: Vec<LogLine>,
    pub end: Cursor,
}

impl EventFeed {
    /// Opens the reader of that name. A new one begins after `start`. Returns `None` if another
    /// process holds the cursor.
    pub async fn open(
        app: &App,
        name: &str,
        start: Cursor,
        lease: Duration,
    ) -> Result<Option<Self>, Failure> {
        // The process is a part of the name: two feeds of one name on one machine are two holders.
        let holder = format!("{}:{}", engine::worker::name::process_name(), name);
        let store = &app.coordinator.store;
        let cursor = store
            .lease_cursor(name, &holder, CursorMove::StartAt(start), lease)
            .await?;
        Ok(cursor.map(|cursor| Self {
            app: app.clone(),
            name: name.to_owned(),
            holder,
            lease,
            follower: LogFollower::default(),
            cursor,
        }))
    }

    /// Returns the next lines, or nothing if there are none yet.
    pub async fn next_page(&mut self) -> Result<Option<FeedPage>, Failure> {
        let page = self
            .follower
            .read(&self.app, None, self.cursor, CHUNK)
            .await?;
        let lines = page.lines;
        Ok(page.end.map(|end| FeedPage { lines, end }))
    }

    /// Stores that everything up to the cursor was delivered; returns false if the lease is lost.
    pub async fn advance_to(&mut self, to: Cursor) -> Result<bool, Failure> {
        self.cursor = to;
        self.store_cursor(self.lease).await
    }

    /// Renews the lease; returns false if it is lost.
    pub async fn renew(&self) -> Result<bool, Failure> {
        self.store_cursor(self.lease).await
    }

    /// Releases the cursor for other readers.
    pub async fn release(&self) {
        // After a failure the cursor is free when the lease expires.
        // A lease of zero ends at once, without a verb of its own.
        let released = self.store_cursor(Duration::ZERO).await;
        released.log_err("release the place of a reader in the event log");
    }

    async fn store_cursor(&self, lease: Duration) -> Result<bool, Failure> {
        let store = &self.app.coordinator.store;
        let (name, holder) = (&self.name, &self.holder);
        let to = CursorMove::To(self.cursor);
        let moved = store.lease_cursor(name, holder, to, lease).await?;
        Ok(moved.is_some())
    }

    /// Waits until there may be more events.
    pub async fn wait_for_events(&self, most: Duration) {
        overview::wait_for_change(&self.app, self.cursor, most).await;
    }
}
