//! State of the connections to forges and trackers, as a person reads it: what arrives, what is
//! asked, and what fails. No secret is part of it.

use engine::log::LogErr;
use flow::Time;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::ForgeState;

use super::forge_poller::{self, PollerStatus};
use super::forge_work::{ForgeJob, NEWS_QUEUE, REVIEW_QUEUE};
use super::{App, Page, queue};
use crate::failure::Failure;
use crate::settings::connections::ForgeLink;

/// Interval at which refused webhooks are written down: anybody can send one.
const REFUSAL_INTERVAL_MS: i64 = 60_000;
/// Given up jobs of a queue that are looked at.
const JOBS_MAX: u32 = 100;
const EVENT_CHARS_MAX: usize = 60;

/// Webhooks of a connection, as they are stored.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct WebhookRecord {
    accepted: u64,
    accepted_at: i64,
    event: String,
    refused_at: i64,
    refusal: String,
}

/// A connection and its state.
#[derive(Debug)]
pub struct ConnectionStatus {
    pub name: String,
    /// Kind of the forge or tracker.
    pub kind: &'static str,
    pub repository: String,
    /// Whether it has a secret, so that its webhooks are accepted.
    pub takes_webhooks: bool,
    pub webhooks: u64,
    /// Time and event of the last webhook that was accepted.
    pub last_webhook: Option<(Time, String)>,
    /// Time and reason of the last webhook that was refused.
    pub last_refusal: Option<(Time, String)>,
    /// The poller, if the forge is asked for news.
    pub poller: Option<PollerStatus>,
    /// Number of jobs that were given up, and the error of the newest one.
    pub given_up: usize,
    pub last_error: Option<String>,
}

/// Lists the connections with their state, in the order of the configuration.
pub async fn list(app: &App, links: &[ForgeLink]) -> Result<Vec<ConnectionStatus>, Failure> {
    let pollers = forge_poller::list_pollers(app).await?;
    let failed = given_up_jobs(app).await?;
    let mut all = Vec::with_capacity(links.len());
    for link in links {
        let record = read_record(&load_state(app, link.name()).await?);
        let poller = pollers.iter().find(|one| one.connection == link.name());
        let mut errors = failed.iter().filter(|(name, _)| name == link.name());
        let event = |at: i64, text: String| (at > 0).then_some((Time(at), text));
        all.push(ConnectionStatus {
            name: link.name().to_owned(),
            kind: link.kind.word(),
            repository: link.section.repository.clone(),
            takes_webhooks: link.secrets.is_some(),
            webhooks: record.accepted,
            last_webhook: event(record.accepted_at, record.event),
            last_refusal: event(record.refused_at, record.refusal),
            poller: poller.filter(|_| link.section.poll).cloned(),
            given_up: errors.clone().count(),
            last_error: errors.next().map(|(_, error)| error.clone()),
        });
    }
    Ok(all)
}

/// Returns the connection and the error of each job that was given up, the newest first.
async fn given_up_jobs(app: &App) -> Result<Vec<(String, String)>, Failure> {
    let page = Page {
        most: JOBS_MAX,
        ..Page::default()
    };
    let mut jobs = Vec::new();
    for name in [NEWS_QUEUE, REVIEW_QUEUE] {
        let found = queue::jobs(app, Some(name), Some("dead"), None, &page).await?;
        jobs.extend(found.items);
    }
    jobs.sort_by_key(|job| std::cmp::Reverse(job.created_at));
    let read = |job: store::Job| {
        let connection = ForgeJob::read(&job.work)?.connection;
        Some((connection, job.last_error.unwrap_or_default()))
    };
    Ok(jobs.into_iter().filter_map(read).collect())
}

/// Counts an accepted webhook. It is a note for people, so a failure does not refuse the webhook.
pub(super) async fn note_webhook(app: &App, connection: &str, event: &str) {
    let now = app.now().0;
    let event = findings::shorten(&findings::one_line(event), EVENT_CHARS_MAX);
    let noted = change_record(app, connection, |record| {
        record.accepted += 1;
        record.accepted_at = now;
        record.event.clone_from(&event);
        true
    });
    noted.await.log_err("note a webhook");
}

/// Notes that webhooks for these connections were refused.
pub(super) async fn note_refusal(app: &App, connections: &[&str], refusal: &str) {
    let now = app.now().0;
    for connection in connections {
        let noted = change_record(app, connection, |record| {
            let is_due = now - record.refused_at >= REFUSAL_INTERVAL_MS;
            record.refused_at = now;
            refusal.clone_into(&mut record.refusal);
            is_due
        });
        noted.await.log_err("note a refused webhook");
    }
}

/// Changes the record, if the change says that it is to be written. Of two that write at once, one
/// is lost.
async fn change_record(
    app: &App,
    connection: &str,
    change: impl FnOnce(&mut WebhookRecord) -> bool,
) -> Result<(), Failure> {
    let state = load_state(app, connection).await?;
    let mut record = read_record(&state);
    if change(&mut record) {
        let body = json!(record);
        let store = &app.coordinator.store;
        store.put_forge_state(ForgeState { body, ..state }).await?;
    }
    Ok(())
}

async fn load_state(app: &App, connection: &str) -> Result<ForgeState, Failure> {
    let store = &app.coordinator.store;
    Ok(store.forge_state(&format!("hook/{connection}")).await?)
}

fn read_record(state: &ForgeState) -> WebhookRecord {
    serde_json::from_value(state.body.clone()).unwrap_or_default()
}
