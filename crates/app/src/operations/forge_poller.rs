//! Asks forges for news: the fallback for servers that no webhook reaches, and the repair for those
//! whose webhooks get lost. Unchanged lists cost a forge nothing (`ETag`), a quiet repository is
//! asked less often, and the calls stay within a budget.
//!
//! The state is in the store and its version is the lock, so the whole fleet asks once.

use std::sync::Arc;
use std::time::Duration;

use engine::log::LogErr;
use engine::process::StopSignal;
use forge::command::parse_command;
use forge::{CommentQuery, ForgeCursor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::ForgeState;

use super::App;
use super::connections::LinkedForge;
use super::forge_connection::forge_failure;
use super::forge_inbox::ForgeInbox;
use super::forge_work::{ForgeJob, ForgeSubject, ForgeTask, queue_once};
use crate::failure::Failure;
use crate::settings::connections::ForgeLink;

const INTERVAL_MIN_MS: u64 = 30_000;
const INTERVAL_MAX_MS: u64 = 300_000;
/// Interval at which the times of the next questions are compared with the clock.
const TICK: Duration = Duration::from_secs(5);
const HOUR_MS: i64 = 3_600_000;
/// Calls an hour that a forge permits if it does not say so.
const LIMIT_DEFAULT: u64 = 5_000;
/// Part of the hourly limit that the poller may use.
const BUDGET_PERCENT: u64 = 20;
const STATES_MAX: u32 = 1000;
/// A day, and an hour for clocks that differ.
const DAY_MS: i64 = 25 * HOUR_MS;
/// Maximum number of pages of comments that are read at once.
const COMMENT_PAGES_MAX: usize = 10;

/// State of the poller of one connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct PollState {
    /// Time of the next questions.
    next_at: i64,
    interval_ms: u64,
    changes: PollCursor,
    issues: Vec<PollCursor>,
    comments: PollCursor,
    last_at: i64,
    /// Start of the hour that is counted.
    hour_at: i64,
    calls: u64,
    limit: u64,
    /// News of the last time that there were any.
    found: u64,
    error: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct PollCursor {
    updated_at: String,
    etag: Option<String>,
}

impl From<PollCursor> for ForgeCursor {
    fn from(cursor: PollCursor) -> Self {
        Self {
            updated_at: cursor.updated_at,
            etag: cursor.etag,
        }
    }
}

impl From<ForgeCursor> for PollCursor {
    fn from(cursor: ForgeCursor) -> Self {
        Self {
            updated_at: cursor.updated_at,
            etag: cursor.etag,
        }
    }
}

impl PollState {
    fn budget(&self) -> u64 {
        let limit = if self.limit == 0 {
            LIMIT_DEFAULT
        } else {
            self.limit
        };
        limit * BUDGET_PERCENT / 100
    }

    /// Plans the next questions after these: at once again in 30 seconds if there was something,
    /// else later and later; and not before the hour ends once the budget is used up.
    fn plan(&mut self, now: i64, calls: u64, found: u64) {
        if now - self.hour_at >= HOUR_MS {
            self.hour_at = now;
            self.calls = 0;
        }
        self.calls += calls;
        self.last_at = now;
        if found > 0 {
            self.found = found;
            self.interval_ms = INTERVAL_MIN_MS;
        } else {
            let longer = self.interval_ms.max(INTERVAL_MIN_MS / 2) * 2;
            self.interval_ms = longer.min(INTERVAL_MAX_MS);
        }
        self.next_at = now + i64::try_from(self.interval_ms).unwrap_or(HOUR_MS);
        // The next questions cost about as much as these.
        if self.calls + calls > self.budget() {
            self.next_at = self.next_at.max(self.hour_at + HOUR_MS);
        }
    }
}

/// A poller, as `status` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PollerStatus {
    pub connection: String,
    pub last_at: Option<flow::Time>,
    pub next_at: Option<flow::Time>,
    /// Calls of this hour, and how many the poller may make.
    pub calls: u64,
    pub budget: u64,
    pub error: Option<String>,
}

/// Lists the pollers of all connections that were ever asked.
pub async fn list_pollers(app: &App) -> Result<Vec<PollerStatus>, Failure> {
    let states = app
        .coordinator
        .store
        .forge_states("poll/", STATES_MAX)
        .await?;
    let time = |ms: i64| (ms > 0).then_some(flow::Time(ms));
    Ok(states
        .into_iter()
        .map(|state| {
            let name = state.name.trim_start_matches("poll/").to_owned();
            let poll = read_state(&state);
            let is_old = app.now().0 - poll.hour_at >= HOUR_MS;
            PollerStatus {
                connection: name,
                last_at: time(poll.last_at),
                next_at: time(poll.next_at),
                calls: if is_old { 0 } else { poll.calls },
                budget: poll.budget(),
                error: poll.error,
            }
        })
        .collect())
}

fn read_state(state: &ForgeState) -> PollState {
    serde_json::from_value(state.body.clone()).unwrap_or_default()
}

/// Makes the poller of a connection ask at its next tick.
pub async fn ask_soon(app: &App, connection: &str) -> Result<(), Failure> {
    let store = &app.coordinator.store;
    let state = store.forge_state(&format!("poll/{connection}")).await?;
    let mut poll = read_state(&state);
    poll.next_at = poll.next_at.min(app.now().0);
    let body = json!(poll);
    // If somebody else was faster, it asks now.
    store.put_forge_state(ForgeState { body, ..state }).await?;
    Ok(())
}

/// Asks all connections until the stop signal.
pub async fn run(
    app: App,
    inbox: Arc<ForgeInbox>,
    links: Arc<Vec<ForgeLink>>,
    mut stop: StopSignal,
) {
    loop {
        for link in links.iter().filter(|link| link.section.poll) {
            let polled = Box::pin(poll_if_due(&app, &inbox, link.name())).await;
            polled.log_err("poll a forge");
            if stop.is_requested() {
                return;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(TICK) => {}
            () = stop.requested() => return,
        }
    }
}

async fn poll_if_due(app: &App, inbox: &ForgeInbox, connection: &str) -> Result<(), Failure> {
    let store = &app.coordinator.store;
    let name = format!("poll/{connection}");
    let mut state = store.forge_state(&name).await?;
    let mut poll = read_state(&state);
    let now = app.now().0;
    // A clock that was set back must not stop the poller for longer than an hour.
    let next = poll.next_at.min(now + HOUR_MS);
    if next > now {
        return Ok(());
    }
    // Taken for the time of the questions: another server finds a later time and leaves it.
    poll.next_at = now + i64::try_from(INTERVAL_MIN_MS).unwrap_or(HOUR_MS);
    state.body = json!(poll);
    if !store.put_forge_state(state).await? {
        return Ok(());
    }
    let client = match inbox.client(connection).await {
        Ok(client) => client,
        Err(failure) => return save(app, &name, |poll| record_error(poll, now, &failure)).await,
    };
    let before = client.meter.calls();
    let asked = ask(inbox, &client, &mut poll).await;
    let calls = client.meter.calls() - before;
    let limit = client.meter.limit();
    let asked = asked.map(|found| (poll, found));
    save(app, &name, |current| match &asked {
        Ok((poll, found)) => {
            let hour = (current.hour_at, current.calls);
            *current = poll.clone();
            (current.hour_at, current.calls) = hour;
            current.limit = limit.unwrap_or(current.limit);
            current.error = None;
            current.plan(now, calls, *found);
        }
        Err(failure) => {
            current.plan(now, calls, 0);
            record_error(current, now, failure);
        }
    })
    .await?;
    asked.map(drop)
}

fn record_error(poll: &mut PollState, now: i64, failure: &Failure) {
    poll.error = Some(findings::one_line(&failure.message));
    let later = i64::try_from(INTERVAL_MAX_MS).unwrap_or(HOUR_MS);
    poll.next_at = poll.next_at.max(now + later);
}

/// Writes the state, again if a webhook has asked for news meanwhile.
async fn save(
    app: &App,
    name: &str,
    change: impl Fn(&mut PollState) + Send,
) -> Result<(), Failure> {
    let store = &app.coordinator.store;
    for _ in 0..5 {
        let state = store.forge_state(name).await?;
        let mut poll = read_state(&state);
        change(&mut poll);
        let body = json!(poll);
        if store.put_forge_state(ForgeState { body, ..state }).await? {
            return Ok(());
        }
    }
    Ok(())
}

/// Asks for changes, issues and comments, and queues a look at each place with news. Returns their
/// number.
async fn ask(
    inbox: &ForgeInbox,
    client: &LinkedForge,
    poll: &mut PollState,
) -> Result<u64, Failure> {
    let mut places = Vec::new();
    let lists_comments = ask_for_comments(inbox, client, poll, &mut places).await?;
    if let Some(forge) = client.forge() {
        let page = forge.changes_since(&poll.changes.clone().into()).await;
        let page = page.map_err(forge_failure)?;
        for change in page.changes {
            // Where comments are listed, only our tickets and wanted reviews cost another call.
            if !lists_comments || inbox.minds_change(client, &change).await? {
                places.push((ForgeSubject::Change(change.number), change.updated_at));
            }
        }
        poll.changes = page.cursor.into();
    }
    let tracker = client.tracker();
    let filters = client.intake_filters(client.own_login().await?);
    poll.issues.resize(filters.len(), PollCursor::default());
    for (filter, cursor) in filters.iter().zip(&mut poll.issues) {
        let page = tracker.issues_since(filter, &cursor.clone().into()).await;
        let page = page.map_err(forge_failure)?;
        for issue in page.issues {
            places.push((ForgeSubject::Issue(issue.key), issue.updated_at));
        }
        *cursor = page.cursor.into();
    }
    let mut found = 0;
    for (subject, at) in places {
        let place = match &subject {
            ForgeSubject::Change(number) => format!("change/{number}"),
            ForgeSubject::Issue(key) => format!("issue/{key}"),
            ForgeSubject::Branch(_) | ForgeSubject::Repository => continue,
        };
        let key = format!("poll/{place}/{at}");
        let job = ForgeJob::new(client.name(), ForgeTask::Look(subject));
        found += u64::from(queue_once(inbox.app(), &key, &job).await?);
    }
    Ok(found)
}

/// Finds the places with new commands. Returns false for a forge that does not list the comments of a
/// repository: it has them with its changes and issues.
async fn ask_for_comments(
    inbox: &ForgeInbox,
    client: &LinkedForge,
    poll: &mut PollState,
    places: &mut Vec<(ForgeSubject, String)>,
) -> Result<bool, Failure> {
    if poll.comments.updated_at.is_empty() {
        // Older commands are history, and a repository may have years of comments. Some forges write
        // times of another zone, which are compared as text.
        let start = inbox.connected_since(client.name()).await?;
        poll.comments.updated_at = flow::Time(start.0 - DAY_MS).to_iso();
    }
    for _ in 0..COMMENT_PAGES_MAX {
        let query = CommentQuery {
            on: None,
            cursor: poll.comments.clone().into(),
        };
        let page = match client.tracker().comments_since(&query).await {
            Ok(page) => page,
            Err(forge::ForgeError::Unsupported { .. }) => return Ok(false),
            Err(error) => return Err(forge_failure(error)),
        };
        for comment in &page.comments {
            if !comment.is_own && parse_command(&comment.body).is_some() {
                let subject = place_of(client, &comment.comment.on, &comment.url);
                places.push((subject, comment.updated_at.clone()));
            }
        }
        let is_last = page.cursor.updated_at == query.cursor.updated_at;
        poll.comments = page.cursor.into();
        if is_last {
            break;
        }
    }
    Ok(true)
}

/// Returns the place of a comment. Its address says whether it is on a change.
fn place_of(client: &LinkedForge, on: &str, url: &str) -> ForgeSubject {
    let is_change = ["/pull/", "/pulls/", "/merge_requests/"]
        .iter()
        .any(|part| url.contains(part));
    match on.parse() {
        Ok(number) if is_change && client.forge().is_some() => ForgeSubject::Change(number),
        _ => ForgeSubject::Issue(on.to_owned()),
    }
}

#[cfg(test)]
mod tests;
