//! Events out: a signed webhook, a command, a message for Slack. Each target has its own place in the
//! log, which moves on when it has been told; so a crash loses nothing, a message that comes twice has
//! the same id, and a slow or dead target holds up nobody but itself.

mod carry;
mod courier;
mod http;
mod message;

use std::time::Duration;

use engine::process::StopSignal;
use serde::Serialize;
use tokio::task::JoinSet;

use app::failure::Failure;
use app::operations::{App, overview};
use app::settings::notify::NotifyTarget;
use courier::{DeliveryOutcome, NotificationSender};
use message::Notification;

/// How long what is on its way may take when the program ends.
const GRACE: Duration = Duration::from_secs(10);

/// Those who carry the messages.
#[derive(Debug)]
pub struct DeliveryTasks {
    running: JoinSet<()>,
}

/// Begins to tell each target what happens from now on, or from where it was.
pub async fn start(
    office: &App,
    targets: Vec<NotifyTarget>,
    stop: &StopSignal,
) -> Result<DeliveryTasks, Failure> {
    let mut running = JoinSet::new();
    if targets.is_empty() {
        return Ok(DeliveryTasks { running });
    }
    let newest = overview::newest(office).await?;
    for target in targets {
        let courier = NotificationSender::new(target, &office.surroundings)?;
        running.spawn(carry::carry(office.clone(), courier, newest, stop.clone()));
    }
    Ok(DeliveryTasks { running })
}

impl DeliveryTasks {
    /// Waits for what is on its way, after they were told to stop; what does not arrive in time is
    /// sent by whoever starts next.
    pub async fn finish(mut self) {
        let all = async { while self.running.join_next().await.is_some() {} };
        let sent = tokio::time::timeout(GRACE, all).await;
        if sent.is_err() {
            tracing::warn!("notifications are left unsent: the next start sends them");
        }
    }
}

/// What a target said to a message that only tries it out.
#[derive(Clone, Debug, Serialize)]
pub struct TestDelivery {
    pub name: String,
    pub fine: bool,
    pub answer: String,
}

/// Sends one message to the target, once.
pub async fn try_out(office: &App, target: NotifyTarget) -> Result<TestDelivery, Failure> {
    let name = target.name.clone();
    let courier = NotificationSender::new(target, &office.surroundings)?;
    let now = office.now();
    let (fine, answer) = match courier.deliver(&Notification::to_try(now), now).await {
        DeliveryOutcome::Delivered(answer) => (true, answer),
        DeliveryOutcome::Again(why) | DeliveryOutcome::Never(why) => (false, why),
    };
    Ok(TestDelivery { name, fine, answer })
}
