//! One target's life: what happens is brought to it in order, again and again where it does not take
//! it, up to a bound. A target that takes nothing is given up, which is noted once; from then on each
//! message is tried once, until one arrives.

use std::time::Duration;

use engine::log::LogErr;
use engine::process::StopSignal;
use flow::{Actor, Role};
use serde_json::json;

use super::courier::{DeliveryOutcome, NotificationSender};
use super::message::{BACK, GIVEN_UP, Notification, carrier_of};
use app::failure::Failure;
use app::operations::bulletin::{EventFeed, FeedPage};
use app::operations::{App, Cursor};

/// How long the place of one that was killed stays taken.
const LEASE: Duration = Duration::from_secs(10);
/// So often we say that we are still at it.
const RENEW: Duration = Duration::from_secs(3);

/// How a stretch of work ended.
enum DeliveryEnd {
    /// Somebody else goes on, or the store is away.
    Lost,
    Stopped,
}

#[derive(Debug)]
struct TargetDelivery {
    office: App,
    courier: NotificationSender,
    stop: StopSignal,
    /// Given up, and how much has been lost since.
    lost: Option<u64>,
}

pub async fn carry(office: App, courier: NotificationSender, start: Cursor, stop: StopSignal) {
    let name = carrier_of(&courier.target.name);
    let mut carrier = TargetDelivery {
        office: office.speaking_as(Actor::new(&name, Role::Service)),
        courier,
        stop,
        lost: None,
    };
    loop {
        let taken = EventFeed::take(&carrier.office, &name, start, LEASE).await;
        if let Some(Some(bulletin)) = taken.log_err("read the event log for a notification") {
            let ended = carrier.follow(bulletin).await;
            if let Some(DeliveryEnd::Stopped) = ended.log_err("send notifications") {
                return;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(RENEW) => {}
            () = carrier.stop.asked() => return,
        }
    }
}

impl TargetDelivery {
    async fn follow(&mut self, mut bulletin: EventFeed) -> Result<DeliveryEnd, Failure> {
        loop {
            let Some(issue) = bulletin.next().await? else {
                tokio::select! {
                    () = bulletin.wait(RENEW) => {}
                    () = self.stop.asked() => {
                        // What was decided in this instant is told too.
                        if bulletin.next().await?.is_none() {
                            bulletin.release().await;
                            return Ok(DeliveryEnd::Stopped);
                        }
                    }
                }
                if !bulletin.renew().await? {
                    return Ok(DeliveryEnd::Lost);
                }
                continue;
            };
            if let Some(ended) = self.bring(&mut bulletin, issue).await? {
                return Ok(ended);
            }
        }
    }

    /// Brings what is for the target, one after the other.
    async fn bring(
        &mut self,
        bulletin: &mut EventFeed,
        issue: FeedPage,
    ) -> Result<Option<DeliveryEnd>, Failure> {
        let mut told = None;
        let mut nth = 0;
        for line in &issue.lines {
            if told.is_some_and(|last| last != line.cursor) {
                nth = 0;
            }
            let message = Notification::of(line, nth);
            nth += 1;
            if message.is_for(&self.courier.target) {
                // What came before it need not be read again.
                if let Some(last) = told.filter(|last| *last != line.cursor)
                    && !bulletin.advance(last).await?
                {
                    return Ok(Some(DeliveryEnd::Lost));
                }
                if let Some(ended) = self.insist(bulletin, &message).await? {
                    return Ok(Some(ended));
                }
            }
            told = Some(line.cursor);
        }
        let ours = bulletin.advance(issue.end).await?;
        Ok((!ours).then_some(DeliveryEnd::Lost))
    }

    /// Tries until it arrives or is given up.
    async fn insist(
        &mut self,
        bulletin: &EventFeed,
        message: &Notification,
    ) -> Result<Option<DeliveryEnd>, Failure> {
        let mut tries = 0;
        loop {
            tries += 1;
            let (why, hopeless) = match self.send(bulletin, message).await? {
                None => return Ok(Some(DeliveryEnd::Lost)),
                Some(DeliveryOutcome::Delivered(_)) => {
                    self.arrived().await?;
                    return Ok(None);
                }
                Some(DeliveryOutcome::Again(why)) => (why, false),
                Some(DeliveryOutcome::Never(why)) => (why, true),
            };
            if hopeless || self.lost.is_some() || tries >= self.courier.target.tries_max {
                self.give_up(message, tries, &why).await?;
                return Ok(None);
            }
            let pause = self.courier.pause(message, tries);
            if let Some(ended) = self.rest(bulletin, pause).await? {
                return Ok(Some(ended));
            }
        }
    }

    /// One try, during which the place is kept; nothing where it was lost.
    async fn send(
        &self,
        bulletin: &EventFeed,
        message: &Notification,
    ) -> Result<Option<DeliveryOutcome>, Failure> {
        let now = self.office.now();
        let sending = self.courier.deliver(message, now);
        tokio::pin!(sending);
        loop {
            tokio::select! {
                outcome = &mut sending => return Ok(Some(outcome)),
                () = tokio::time::sleep(RENEW) => {}
            }
            if !bulletin.renew().await? {
                return Ok(None);
            }
        }
    }

    async fn arrived(&mut self) -> Result<(), Failure> {
        let Some(lost) = self.lost.take() else {
            return Ok(());
        };
        let why = format!("the target answers again; {lost} messages did not arrive");
        let name = &self.courier.target.name;
        let body = json!({"target": name, "lost": lost, "why": why});
        self.office.note(BACK, body).await
    }

    /// Noted once for as long as the target takes nothing.
    async fn give_up(
        &mut self,
        message: &Notification,
        tries: u32,
        why: &str,
    ) -> Result<(), Failure> {
        if let Some(lost) = &mut self.lost {
            *lost += 1;
            return Ok(());
        }
        let name = &self.courier.target.name;
        let why = format!(
            "{name} was not told of {} after {tries} tries: {why}",
            message.id
        );
        let body = json!({"target": name, "message": message.id, "tries": tries, "why": why});
        self.office.note(GIVEN_UP, body).await?;
        self.lost = Some(1);
        Ok(())
    }

    /// Waits, and keeps the place meanwhile.
    async fn rest(
        &mut self,
        bulletin: &EventFeed,
        pause: Duration,
    ) -> Result<Option<DeliveryEnd>, Failure> {
        let mut left = pause;
        while !left.is_zero() {
            let part = left.min(RENEW);
            tokio::select! {
                () = tokio::time::sleep(part) => {}
                () = self.stop.asked() => {
                    bulletin.release().await;
                    return Ok(Some(DeliveryEnd::Stopped));
                }
            }
            left -= part;
            if !bulletin.renew().await? {
                return Ok(Some(DeliveryEnd::Lost));
            }
        }
        Ok(None)
    }
}
