//! Wake-ups between connections, without a notification for each commit, which would cost two
//! thirds of the throughput. A waiter arms a row for its queue and looks once more. A writer checks
//! the row after its commit; if it is armed, the writer disarms it and sends one notification. So
//! only the change from quiet to busy costs anything.
//!
//! Notifications are hints. A lost one is repaired by the fallback poll, so nothing here has to be
//! exact.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::task::AbortHandle;
use tokio_postgres::AsyncMessage;

use crate::error::Error;
use crate::notifier::Notifier;
use crate::rows::clean;

use super::connect::PgAddress;
use super::errors::failed;
use super::pipeline::{Pipeline, values};

#[derive(Debug)]
pub(super) struct ChannelNotifier {
    address: PgAddress,
    /// Channel name, one per schema: notifications reach the whole database.
    channel: String,
    notifier: Arc<Notifier>,
    /// Started by the first waiter; a program that never waits needs no such connection.
    listener: OnceCell<Listener>,
}

#[derive(Debug)]
struct Listener {
    task: AbortHandle,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ChannelNotifier {
    pub(super) fn new(address: PgAddress, schema: &str, notifier: Arc<Notifier>) -> Self {
        Self {
            address,
            channel: format!("countersign_{schema}"),
            notifier,
            listener: OnceCell::new(),
        }
    }

    /// Arms the rows of these queues; a waiter does this before its last look.
    pub(super) fn arm(queues: &[String]) -> Pipeline {
        // Rows are locked in the order of their names, so two waiters cannot deadlock.
        let mut queues: Vec<String> = queues.iter().map(|queue| clean(queue)).collect();
        queues.sort_unstable();
        queues.dedup();
        let mut steps = Pipeline::default();
        steps.push(
            "INSERT INTO wakeups AS w (queue, armed) SELECT unnest($1::text[]), true
            ON CONFLICT (queue) DO UPDATE SET armed = true WHERE NOT w.armed",
            values![queues],
        );
        steps
    }

    /// Notifies the waiters of these queues; a writer does this after its commit. Before the commit
    /// it could find a row unarmed that a waiter arms just before it looks in vain.
    pub(super) fn fire(&self, queues: &[String]) -> Pipeline {
        let mut steps = Pipeline::default();
        if !queues.is_empty() {
            steps.push(
                "UPDATE wakeups SET armed = false WHERE queue = ANY ($1::text[]) AND armed
                RETURNING pg_notify($2, queue)",
                values![queues.to_vec(), self.channel.clone()],
            );
        }
        steps
    }

    /// Notifies all waiters, for callers that do not know the queue.
    pub(super) fn fire_all(&self) -> Pipeline {
        let mut steps = Pipeline::default();
        steps.push(
            "UPDATE wakeups SET armed = false WHERE queue IN
                (SELECT queue FROM wakeups WHERE armed ORDER BY queue FOR UPDATE SKIP LOCKED)
            RETURNING pg_notify($1, queue)",
            values![self.channel.clone()],
        );
        steps
    }

    /// Starts to listen. If that fails, only the fallback poll remains, and the next waiter tries
    /// again.
    pub(super) async fn listen(&self) -> Result<(), Error> {
        let begin = || async {
            let first = connect(&self.address, &self.channel, &self.notifier).await?;
            let (address, channel) = (self.address.clone(), self.channel.clone());
            let notifier = Arc::clone(&self.notifier);
            let task = tokio::spawn(async move {
                let mut listening = Some(first);
                loop {
                    // The first connection exists already, so that `listen` can report its error.
                    if let Some(connection) = listening.take() {
                        connection.ended().await;
                    }
                    // Notifications may have been missed without a connection, so all waiters look.
                    notifier.nudge();
                    // A restarting server refuses connections for a while; the pause keeps us from
                    // spinning.
                    tokio::time::sleep(Duration::from_millis(500)).await;
                    listening = connect(&address, &channel, &notifier).await.ok();
                    // A second look, because something may have happened between the first one and
                    // LISTEN.
                    notifier.nudge();
                }
            });
            Ok(Listener {
                task: task.abort_handle(),
            })
        };
        self.listener.get_or_try_init(begin).await.map(|_| ())
    }
}

/// A connection that listens. It ends when it is dropped, or when the server closes it.
struct Listening {
    client: tokio_postgres::Client,
    driver: tokio::task::JoinHandle<()>,
}

impl Listening {
    async fn ended(mut self) {
        // The reason does not matter: the caller connects again.
        let _ = (&mut self.driver).await;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

async fn connect(
    address: &PgAddress,
    channel: &str,
    notifier: &Arc<Notifier>,
) -> Result<Listening, Error> {
    let (client, mut connection) = address
        .config
        .connect(address.tls.clone())
        .await
        .map_err(|e| failed(&e))?;
    let notifier = Arc::clone(notifier);
    let driver = tokio::spawn(async move {
        // The connection must be polled for anything to happen, also for LISTEN below.
        while let Some(Ok(message)) =
            std::future::poll_fn(|context| connection.poll_message(context)).await
        {
            if let AsyncMessage::Notification(notification) = message {
                notifier.wake([&notification.payload().to_owned()]);
            }
        }
    });
    let listening = Listening { client, driver };
    // A schema name may contain any character.
    let quoted = channel.replace('"', "\"\"");
    listening
        .client
        .batch_execute(&format!("LISTEN \"{quoted}\""))
        .await
        .map_err(|e| failed(&e))?;
    Ok(listening)
}
