//! Notifications: signed webhooks, commands and Slack messages. Each target has its own position in
//! the log, which advances after delivery. So a crash loses nothing, a repeated message has the
//! same id, and a slow or dead target delays only itself.
//!
//! Delivery is at least once and in order. A receiver that must not act twice compares the id of
//! the message.

mod delivery;
mod http;
mod notification;
mod sender;

use std::time::Duration;

use engine::process::StopSignal;
use serde::Serialize;
use tokio::task::JoinSet;

use app::failure::Failure;
use app::operations::{App, overview};
use app::settings::Environment;
use app::settings::notify::NotifyTarget;
use notification::Notification;
use sender::{DeliveryOutcome, NotificationSender};

/// Time that running deliveries get when the program ends.
/// The rest is sent at the next start, so waiting longer gains nothing.
const GRACE: Duration = Duration::from_secs(10);

/// Running delivery tasks, one per target.
#[derive(Debug, Default)]
pub struct DeliveryTasks {
    running: JoinSet<()>,
}

/// Checks that every target can be used: its address, and the file with its certificates.
pub fn check(targets: &[NotifyTarget], environment: &Environment) -> Result<(), Failure> {
    for target in targets {
        NotificationSender::new(target.clone(), environment)?;
    }
    Ok(())
}

/// Starts to notify each target, from its last position or from now on.
pub async fn start(
    app: &App,
    targets: Vec<NotifyTarget>,
    stop: &StopSignal,
) -> Result<DeliveryTasks, Failure> {
    let mut running = JoinSet::new();
    if targets.is_empty() {
        return Ok(DeliveryTasks { running });
    }
    // A new target starts at the newest event, not at the beginning of the log.
    let newest = overview::latest_cursor(app).await?;
    for target in targets {
        // A bad address ends the start, before any target is served.
        let sender = NotificationSender::new(target, &app.environment)?;
        running.spawn(delivery::run_delivery(
            app.clone(),
            sender,
            newest,
            stop.clone(),
        ));
    }
    Ok(DeliveryTasks { running })
}

impl DeliveryTasks {
    /// Waits for running deliveries after the stop signal. Messages that are not delivered in time
    /// are sent at the next start.
    pub async fn finish(self) {
        self.finish_within(GRACE).await;
    }

    /// Does the same in the given time.
    pub async fn finish_within(mut self, grace: Duration) {
        let all = async { while self.running.join_next().await.is_some() {} };
        let sent = tokio::time::timeout(grace, all).await;
        if sent.is_err() {
            tracing::warn!("notifications were not sent in time; they are sent at the next start");
        }
    }
}

/// A target's answer to a test message.
#[derive(Clone, Debug, Serialize)]
pub struct TestDelivery {
    pub name: String,
    pub fine: bool,
    pub answer: String,
}

/// Sends one test message to the target, without retries.
/// No retries: the person waits for the answer and wants to see the first error.
pub async fn send_test(app: &App, target: NotifyTarget) -> Result<TestDelivery, Failure> {
    let name = target.name.clone();
    let sender = NotificationSender::new(target, &app.environment)?;
    let now = app.now();
    let (fine, answer) = match sender.deliver(&Notification::test_message(now), now).await {
        DeliveryOutcome::Delivered(answer) => (true, answer),
        DeliveryOutcome::Retry(why) | DeliveryOutcome::Rejected(why) => (false, why),
    };
    Ok(TestDelivery { name, fine, answer })
}
