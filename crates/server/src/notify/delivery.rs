//! Delivery loop of one target: sends events in order, with a bounded number of retries. A target
//! that accepts nothing is given up, which is recorded once; then each message is tried once, until
//! one arrives.
//!
//! Two servers may share one database. The lease on the position lets one of them deliver; the
//! other takes over when it is lost.

use std::time::Duration;

use engine::log::LogErr;
use engine::process::StopSignal;
use flow::{Actor, Role};
use serde_json::json;

use super::notification::{GIVEN_UP, Notification, TARGET_BACK, feed_name};
use super::sender::{DeliveryOutcome, NotificationSender};
use app::failure::Failure;
use app::operations::event_feed::{EventFeed, FeedPage};
use app::operations::{App, Cursor};

/// Lease on the target's position. After a crash it stays taken for this long.
const LEASE: Duration = Duration::from_secs(10);
/// Interval at which the lease is renewed.
/// A third of the lease, so that one failed renewal does not lose it.
const RENEW: Duration = Duration::from_secs(3);

/// Reason why delivery ended.
enum DeliveryEnd {
    /// Another process holds the lease, or the store is unreachable.
    Lost,
    Stopped,
}

#[derive(Debug)]
struct TargetDelivery {
    app: App,
    sender: NotificationSender,
    stop: StopSignal,
    /// Messages lost since the target was given up; `None` while it works.
    /// While the target is given up, each message is tried once and counted. A retry of each would
    /// take hours to come back to the present.
    lost_count: Option<u64>,
}

pub async fn run_delivery(app: App, sender: NotificationSender, start: Cursor, stop: StopSignal) {
    let name = feed_name(&sender.target.name);
    let mut delivery = TargetDelivery {
        app: app.acting_as(Actor::new(&name, Role::Service)),
        sender,
        stop,
        lost_count: None,
    };
    loop {
        // A short process may be asked to stop after its first failure. It tries once more then, so
        // that its last event, which is most often the escalation, is not lost.
        let is_last = delivery.stop.is_requested();
        // Opened again after every loss: the position may have moved under another process.
        let feed = EventFeed::open(&delivery.app, &name, start, LEASE).await;
        if let Some(Some(feed)) = feed.log_err("read the event log for a notification") {
            let end = delivery.follow(feed).await;
            if let Some(DeliveryEnd::Stopped) = end.log_err("send notifications") {
                return;
            }
        }
        if is_last {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(RENEW) => {}
            () = delivery.stop.requested() => {}
        }
    }
}

impl TargetDelivery {
    async fn follow(&mut self, mut feed: EventFeed) -> Result<DeliveryEnd, Failure> {
        loop {
            let Some(page) = feed.next_page().await? else {
                tokio::select! {
                    () = feed.wait_for_events(RENEW) => {}
                    () = self.stop.requested() => {
                        // The stop and an event can arrive together, for example at the end of
                        // `run`.
                        // Events that arrived at the same moment are delivered too.
                        if feed.next_page().await?.is_none() {
                            feed.release().await;
                            return Ok(DeliveryEnd::Stopped);
                        }
                    }
                }
                if !feed.renew().await? {
                    return Ok(DeliveryEnd::Lost);
                }
                continue;
            };
            if let Some(end) = self.deliver_page(&mut feed, page).await? {
                return Ok(end);
            }
        }
    }

    /// Delivers the messages of a page that match the target, in order.
    async fn deliver_page(
        &mut self,
        feed: &mut EventFeed,
        page: FeedPage,
    ) -> Result<Option<DeliveryEnd>, Failure> {
        let mut last_cursor = None;
        let mut nth = 0;
        for line in &page.lines {
            // Several lines of the log can have one position. The number tells their messages
            // apart, so that each has an id of its own.
            if last_cursor.is_some_and(|last| last != line.cursor) {
                nth = 0;
            }
            let message = Notification::from_log_line(line, nth);
            nth += 1;
            if message.is_for(&self.sender.target) {
                // Advance past earlier events, so that they are not read again.
                // Before a message is sent, everything before it counts as done. After a crash only
                // this message is repeated.
                if let Some(last) = last_cursor.filter(|last| *last != line.cursor)
                    && !feed.advance_to(last).await?
                {
                    return Ok(Some(DeliveryEnd::Lost));
                }
                if let Some(end) = self.deliver_with_retries(feed, &message).await? {
                    return Ok(Some(end));
                }
            }
            last_cursor = Some(line.cursor);
        }
        let still_leased = feed.advance_to(page.end).await?;
        Ok((!still_leased).then_some(DeliveryEnd::Lost))
    }

    /// Sends a message until it arrives or is given up.
    async fn deliver_with_retries(
        &mut self,
        feed: &EventFeed,
        message: &Notification,
    ) -> Result<Option<DeliveryEnd>, Failure> {
        let mut tries = 0;
        loop {
            tries += 1;
            let (why, is_final) = match self.send(feed, message).await? {
                None => return Ok(Some(DeliveryEnd::Lost)),
                Some(DeliveryOutcome::Delivered(_)) => {
                    // Written before the next message, so that the log shows when the target came
                    // back.
                    self.note_recovery().await?;
                    return Ok(None);
                }
                Some(DeliveryOutcome::Retry(why)) => (why, false),
                Some(DeliveryOutcome::Rejected(why)) => (why, true),
            };
            // In a given-up target the first failure is enough.
            if is_final || self.lost_count.is_some() || tries >= self.sender.target.tries_max {
                self.give_up(message, tries, &why).await?;
                return Ok(None);
            }
            let pause = self.sender.retry_delay(message, tries);
            if let Some(end) = self.back_off(feed, pause).await? {
                return Ok(Some(end));
            }
        }
    }

    /// Sends a message once while it renews the lease. Returns `None` if the lease is lost.
    async fn send(
        &self,
        feed: &EventFeed,
        message: &Notification,
    ) -> Result<Option<DeliveryOutcome>, Failure> {
        let now = self.app.now();
        // Renewed while it sends: a slow target may take longer than the lease.
        let sending = self.sender.deliver(message, now);
        tokio::pin!(sending);
        loop {
            tokio::select! {
                outcome = &mut sending => return Ok(Some(outcome)),
                () = tokio::time::sleep(RENEW) => {}
            }
            if !feed.renew().await? {
                return Ok(None);
            }
        }
    }

    async fn note_recovery(&mut self) -> Result<(), Failure> {
        let Some(lost) = self.lost_count.take() else {
            return Ok(());
        };
        let why = format!("the target works again; {lost} messages were lost");
        let name = &self.sender.target.name;
        let body = json!({"target": name, "lost": lost, "why": why});
        self.app.note(TARGET_BACK, body).await
    }

    /// Records that the target is given up, once until it works again.
    async fn give_up(
        &mut self,
        message: &Notification,
        tries: u32,
        why: &str,
    ) -> Result<(), Failure> {
        if let Some(lost) = &mut self.lost_count {
            *lost += 1;
            return Ok(());
        }
        let name = &self.sender.target.name;
        let why = format!(
            "could not deliver {} to {name} after {tries} tries: {why}",
            message.id
        );
        let body = json!({"target": name, "message": message.id, "tries": tries, "why": why});
        self.app.note(GIVEN_UP, body).await?;
        self.lost_count = Some(1);
        Ok(())
    }

    /// Waits while it renews the lease.
    async fn back_off(
        &mut self,
        feed: &EventFeed,
        pause: Duration,
    ) -> Result<Option<DeliveryEnd>, Failure> {
        // In parts, so that the lease is renewed and a stop is heard.
        let mut left = pause;
        while !left.is_zero() {
            let part = left.min(RENEW);
            tokio::select! {
                () = tokio::time::sleep(part) => {}
                () = self.stop.requested() => {
                    feed.release().await;
                    return Ok(Some(DeliveryEnd::Stopped));
                }
            }
            left -= part;
            if !feed.renew().await? {
                return Ok(Some(DeliveryEnd::Lost));
            }
        }
        Ok(None)
    }
}
