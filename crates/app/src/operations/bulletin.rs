//! What happens, for those outside: the log from where a reader was, one reader of each name at a time,
//! over crashes and on any number of machines.

use std::time::Duration;

use store::CursorMove;

use super::history::{LogFollower, LogLine};
use super::{App, Cursor, overview};
use crate::failure::Failure;
use engine::log::LogErr;

/// How many events are read at a time.
const CHUNK: u32 = 100;

/// A reader of the log that goes on where it was.
#[derive(Debug)]
pub struct EventFeed {
    office: App,
    name: String,
    holder: String,
    /// The place is somebody else's when nothing was heard from us for so long.
    lease: Duration,
    follower: LogFollower,
    place: Cursor,
}

/// Some of the log, in order.
#[derive(Debug)]
pub struct FeedPage {
    pub lines: Vec<LogLine>,
    pub end: Cursor,
}

impl EventFeed {
    /// The reader of that name; where it is new, it begins with what comes after `start`.
    pub async fn take(
        office: &App,
        name: &str,
        start: Cursor,
        lease: Duration,
    ) -> Result<Option<Self>, Failure> {
        let holder = format!("{}:{}", engine::worker::name::process_name(), name);
        let store = &office.desk.store;
        let place = store
            .lease_cursor(name, &holder, CursorMove::StartAt(start), lease)
            .await?;
        Ok(place.map(|place| Self {
            office: office.clone(),
            name: name.to_owned(),
            holder,
            lease,
            follower: LogFollower::default(),
            place,
        }))
    }

    /// What comes next; nothing where there is nothing yet.
    pub async fn next(&mut self) -> Result<Option<FeedPage>, Failure> {
        let told = self
            .follower
            .read(&self.office, None, self.place, CHUNK)
            .await?;
        let lines = told.lines;
        Ok(told.end.map(|end| FeedPage { lines, end }))
    }

    /// Everything up to there is told; false where the place is no longer ours.
    pub async fn advance(&mut self, to: Cursor) -> Result<bool, Failure> {
        self.place = to;
        self.keep(self.lease).await
    }

    /// Says that we are still at it.
    pub async fn renew(&self) -> Result<bool, Failure> {
        self.keep(self.lease).await
    }

    /// Lets anybody go on from here.
    pub async fn release(&self) {
        // Else it is free when the lease has run out.
        let released = self.keep(Duration::ZERO).await;
        released.log_err("release the place of a reader in the event log");
    }

    async fn keep(&self, lease: Duration) -> Result<bool, Failure> {
        let store = &self.office.desk.store;
        let (name, holder) = (&self.name, &self.holder);
        let to = CursorMove::To(self.place);
        let moved = store.lease_cursor(name, holder, to, lease).await?;
        Ok(moved.is_some())
    }

    /// Until there may be more.
    pub async fn wait(&self, most: Duration) {
        overview::changed(&self.office, self.place, most).await;
    }
}
