//! Stores to test, and tickets built by hand: the store looks at versions, fences and keys,
//! so a ticket here has no more than a version and a stage.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flow::event::Lease;
use flow::job::{NewJob, OpenJob};
use flow::ticket::Spec;
use flow::{Actor, Effect, Event, EventKind, Policy, Role, Task, Ticket, TicketId, Time};
use serde_json::{Value, json};
use store::StoredEvent;
use store::{
    Change, ClaimRequest, CommitOutcome, Error, EventQuery, FreeJob, JobId, Leased, Settings, Store,
};
use tempfile::TempDir;

use crate::skip;

/// One store to test, and a way to open it again as somebody else would.
pub struct TestStore {
    pub store: Arc<dyn Store>,
    pub place: String,
    _directory: Option<TempDir>,
}

impl TestStore {
    pub async fn sqlite() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("store.db").display().to_string();
        Self {
            store: open(&place).await,
            place,
            _directory: Some(directory),
        }
    }

    /// A schema of its own on the server that the environment names, or a word on why not.
    pub async fn postgres() -> Option<Self> {
        let place = empty_schema().await?;
        Some(Self {
            store: open(&place).await,
            place,
            _directory: None,
        })
    }

    /// Returns the schema of a `PostgreSQL` store, which is removed when the test has passed.
    pub fn schema(&self) -> Option<String> {
        Self::schema_of(&self.place)
    }

    pub fn schema_of(place: &str) -> Option<String> {
        let (_, schema) = place.split_once("search_path%3D")?;
        Some(schema.to_owned())
    }

    /// Another handle, as another process would have.
    pub async fn another(&self) -> Arc<dyn Store> {
        open(&self.place).await
    }
}

/// A new schema on the server that the environment names.
pub async fn empty_schema() -> Option<String> {
    let Some(server) = server() else {
        skip::lacks("COUNTERSIGN_TEST_POSTGRES names no server");
        return None;
    };
    let schema = unique_name();
    on_server(&server, &format!("CREATE SCHEMA {schema}")).await;
    let joint = if server.contains('?') { '&' } else { '?' };
    Some(format!("{server}{joint}options=-csearch_path%3D{schema}"))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the tests' own switch; nothing of the program reads it"
)]
fn server() -> Option<String> {
    std::env::var("COUNTERSIGN_TEST_POSTGRES").ok()
}

/// The server's address without TLS settings, and the file of the authority that vouches for it.
#[expect(
    clippy::disallowed_methods,
    reason = "the tests' own switch; nothing of the program reads it"
)]
pub fn server_with_tls() -> Option<(String, String)> {
    let authority = std::env::var("COUNTERSIGN_TEST_POSTGRES_CA").ok();
    let (Some(server), Some(authority)) = (server(), authority.filter(|file| !file.is_empty()))
    else {
        skip::lacks("COUNTERSIGN_TEST_POSTGRES_CA names no authority");
        return None;
    };
    let place = server.split('?').next().unwrap_or_default().to_owned();
    Some((place, authority))
}

/// Runs a statement on a connection of its own, not through the store.
pub async fn on_server(place: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(place, tokio_postgres::NoTls)
        .await
        .unwrap();
    let driver = tokio::spawn(connection);
    client.batch_execute(sql).await.unwrap();
    drop(client);
    driver.await.unwrap().unwrap();
}

pub async fn drop_schema(schema: &str) {
    let sql = format!("DROP SCHEMA {schema} CASCADE");
    on_server(&server().unwrap(), &sql).await;
}

/// A name that no other test of this or another run has.
fn unique_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let directory = tempfile::tempdir().unwrap();
    let random = directory.path().file_name().unwrap().to_string_lossy();
    let random: String = random.chars().filter(char::is_ascii_alphanumeric).collect();
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("countersign_{}_{next}", random.to_lowercase())
}

pub async fn open(place: &str) -> Arc<dyn Store> {
    store::open_with(place, settings()).await.unwrap()
}

pub fn settings() -> Settings {
    Settings {
        // A wake-up that gets lost must show as a failure, not as a delay.
        poll: Duration::from_secs(3600),
        ..Settings::default()
    }
}

pub const LONG: Duration = Duration::from_secs(3600);

pub fn id(text: &str) -> TicketId {
    TicketId::new(text).unwrap()
}

pub fn person() -> Actor {
    Actor::new("ada", Role::Human)
}

/// A ticket as `flow` opens it, without the jobs that it would order.
pub fn blank(name: &str) -> Ticket {
    let spec = Spec {
        title: format!("Title of {name}"),
        priority: 50,
        ..Spec::default()
    };
    let opened = flow::open_ticket(&id(name), &event(created(spec)), &Policy::default());
    let mut ticket = opened.unwrap().ticket;
    ticket.jobs.clear();
    ticket.jobs_ordered = 0;
    ticket
}

fn created(spec: Spec) -> EventKind {
    EventKind::Created {
        spec: Box::new(spec),
        met: BTreeSet::new(),
        failed: Vec::new(),
    }
}

pub fn event(what: EventKind) -> Event {
    Event {
        at: Time(2000),
        by: person(),
        expects: None,
        what,
    }
}

/// The change that creates `ticket`.
pub fn creation(ticket: Ticket) -> Change {
    let what = created(ticket.spec.clone());
    Change {
        ticket,
        base_version: None,
        event: event(what),
        policy: Policy::default(),
        effects: Vec::new(),
        reads: Vec::new(),
        remember: None,
        artefacts: Vec::new(),
        queue_max: None,
        then: None,
    }
}

/// The change that `what` makes of `ticket`: one version more.
pub fn step(ticket: &Ticket, what: EventKind) -> Change {
    let mut next = ticket.clone();
    next.version += 1;
    Change {
        base_version: Some(ticket.version),
        event: event(what),
        ..creation(next)
    }
}

/// An event without a lease, for steps that only count.
pub fn waived() -> EventKind {
    EventKind::Waived {
        finding: "F1".to_owned(),
        why: "because".to_owned(),
    }
}

pub fn build(serial: u32) -> Effect {
    Effect::Enqueue(NewJob {
        serial,
        task: Task::Build { round: 1 },
        priority: 50,
        not_before: Time(0),
        agent: None,
    })
}

/// A ticket with one build job, as the store has it.
pub async fn with_build(store: &dyn Store, name: &str) -> Ticket {
    let mut ticket = blank(name);
    ticket.jobs = vec![open_job(1)];
    let change = Change {
        effects: vec![build(1)],
        ..creation(ticket.clone())
    };
    store.commit(change).await.unwrap();
    ticket
}

pub fn open_job(serial: u32) -> OpenJob {
    OpenJob {
        serial,
        task: Task::Build { round: 1 },
        attempts: 0,
        fence: 0,
        holder: None,
        agent: None,
        fallback: false,
        kept_for: None,
        quota_waits: 0,
    }
}

pub fn ask(queue: &str) -> ClaimRequest {
    ask_as("worker", queue)
}

pub fn ask_as(agent: &str, queue: &str) -> ClaimRequest {
    ClaimRequest::new("worker", agent, [queue], LONG)
}

pub fn lease_of(job: &Leased) -> Lease {
    Lease {
        serial: job.serial.unwrap(),
        fence: job.fence,
    }
}

pub fn free(queue: &str, body: Value) -> FreeJob {
    FreeJob {
        queue: queue.into(),
        kind: "task".to_owned(),
        body,
        priority: 50,
        not_before: None,
        agent: None,
        key: None,
        queue_max: None,
        needs: BTreeSet::new(),
        depends_on: Vec::new(),
    }
}

pub async fn enqueue(store: &dyn Store, job: FreeJob) -> JobId {
    store.enqueue(vec![job]).await.unwrap()[0]
}

/// A free job whose body is a number.
pub async fn number(store: &dyn Store, queue: &str, n: u64) -> JobId {
    enqueue(store, free(queue, json!(n))).await
}

pub async fn claim_one(store: &dyn Store, ask: &ClaimRequest) -> Leased {
    let mut claimed = store.claim(ask).await.unwrap();
    assert_eq!(claimed.len(), 1, "one job was expected");
    claimed.remove(0)
}

pub fn written(committed: CommitOutcome) -> i64 {
    match committed {
        CommitOutcome::Written { number, .. } => number,
        CommitOutcome::Again(answer) => panic!("answered again: {answer}"),
    }
}

pub fn is_conflict<T: std::fmt::Debug>(answer: &Result<T, Error>) {
    assert!(
        matches!(answer, Err(Error::Conflict { .. })),
        "a conflict was expected, not {answer:?}"
    );
}

pub fn is_stale<T: std::fmt::Debug>(answer: &Result<T, Error>) {
    assert!(
        matches!(answer, Err(Error::StaleFence { .. })),
        "a stale fence was expected, not {answer:?}"
    );
}

/// The log, once it shows `least` events: a log that never skips may show the newest ones a
/// moment later, when everything that began before them has ended.
pub async fn settled_events(
    store: &dyn Store,
    query: &EventQuery,
    least: usize,
) -> Vec<StoredEvent> {
    for _ in 0..100_000 {
        let events = store.events(query).await.unwrap();
        if events.len() >= least {
            return events;
        }
        tokio::task::yield_now().await;
    }
    panic!("the log never showed {least} events");
}
