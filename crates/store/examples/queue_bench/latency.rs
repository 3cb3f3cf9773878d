//! Measures the latency of single operations.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use flow::job::NewJob;
use flow::ticket::Spec;
use flow::{Actor, Effect, Event, EventKind, Policy, Role, Task, Ticket, TicketId, Time};
use store::{Change, Store};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::ours::{ask, done, job};

pub const SAMPLES: usize = 500;
/// Pause between samples, long enough for the worker to fall asleep.
pub const GAP: Duration = Duration::from_millis(4);

pub fn report(what: &str, mut samples: Vec<Duration>) -> f64 {
    samples.sort_unstable();
    let at = |share: usize| samples[(samples.len() - 1) * share / 100].as_secs_f64() * 1000.0;
    println!("| {what} | {:.2} ms | {:.2} ms |", at(50), at(99));
    at(50)
}

/// Measures the time from enqueueing a job until a waiting worker has it.
pub async fn from_enqueue_to_start(
    what: &str,
    producer: &Arc<dyn Store>,
    consumer: &Arc<dyn Store>,
) {
    let (send, mut started) = mpsc::channel(1);
    let worker = Arc::clone(consumer);
    let task = tokio::spawn(async move {
        let ask = ask(1);
        let mut jobs = Vec::new();
        loop {
            let next = worker.finish(done(jobs), Some(&ask)).await.unwrap();
            if next.is_empty() {
                worker.wait(&ask, Duration::from_secs(60)).await;
            } else {
                send.send(Instant::now()).await.unwrap();
            }
            jobs = next;
        }
    });
    let mut samples = Vec::new();
    for _ in 0..SAMPLES {
        let _ = tokio::time::timeout(GAP, std::future::pending::<()>()).await;
        let began = Instant::now();
        producer.enqueue(vec![job()]).await.unwrap();
        samples.push(started.recv().await.unwrap() - began);
    }
    task.abort();
    println!("\n| enqueue → start | p50 | p99 |\n|---|---:|---:|");
    report(what, samples);
}

/// Measures decisions with their event, one after the other.
pub async fn of_a_state_change(store: &Arc<dyn Store>) {
    let mut change = creation("T-0", Vec::new());
    store.commit(change.clone()).await.unwrap();
    let mut samples = Vec::new();
    for _ in 0..2000 {
        change.base_version = Some(change.ticket.version);
        change.ticket.version += 1;
        let next = change.clone();
        let began = Instant::now();
        store.commit(next).await.unwrap();
        samples.push(began.elapsed());
    }
    println!("\n| state change with its event | p50 | p99 |\n|---|---:|---:|");
    report("one writer", samples);
}

/// Measures a claim while the numbers of blocked tickets and finished jobs grow.
pub async fn of_a_claim(store: &Arc<dyn Store>) {
    println!("\n| claim | p50 | p99 |\n|---|---:|---:|");
    let mut filled = 0;
    let mut first = None;
    let mut last = 0.0;
    for size in [100, 10_000, 100_000] {
        fill(store, filled, size).await;
        filled = size;
        let mut samples = Vec::new();
        for _ in 0..SAMPLES {
            store.enqueue(vec![job()]).await.unwrap();
            let began = Instant::now();
            let jobs = store.claim(&ask(1)).await.unwrap();
            samples.push(began.elapsed());
            store.finish(done(jobs), None).await.unwrap();
        }
        let what = format!("with {size} blocked tickets and {size} finished jobs");
        last = report(&what, samples);
        first.get_or_insert(last);
    }
    let ratio = last / first.unwrap_or(last);
    println!("\nclaim at 100,000 against 100: {ratio:.2}");
}

/// Measures a claim for a provider, with and without a limit, while other leases count against it.
pub async fn of_a_providers_claim(store: &Arc<dyn Store>) {
    const HELD: u32 = 200;
    println!("\n| claim for a provider | p50 | p99 |\n|---|---:|---:|");
    let request = |limit| ask(limit).with_provider("claude");
    let jobs = (0..HELD).map(|_| job()).collect();
    store.enqueue(jobs).await.unwrap();
    assert_eq!(store.claim(&request(HELD)).await.unwrap().len(), 200);
    let cases = [
        ("none is named", ask(1), None),
        ("without a limit", request(1), None),
        ("with a limit, 200 leases held", request(1), Some(HELD + 1)),
    ];
    for (what, request, limit) in cases {
        store.limit_provider("claude", limit).await.unwrap();
        let mut samples = Vec::new();
        for _ in 0..SAMPLES {
            store.enqueue(vec![job()]).await.unwrap();
            let began = Instant::now();
            let claimed = store.claim(&request).await.unwrap();
            samples.push(began.elapsed());
            store.finish(done(claimed), None).await.unwrap();
        }
        report(what, samples);
    }
}

async fn fill(store: &Arc<dyn Store>, from: u32, to: u32) {
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..32 {
        let store = Arc::clone(store);
        writers.spawn(async move {
            for n in (from..to).filter(|n| n % 32 == writer) {
                let job = Effect::Enqueue(NewJob {
                    serial: 1,
                    task: Task::Build { round: 1 },
                    priority: 50,
                    not_before: Time(i64::MAX),
                    agent: None,
                });
                let change = creation(&format!("B-{n}"), vec![job]);
                store.commit(change).await.unwrap();
            }
        });
    }
    writers.join_all().await;
    let mut left = to - from;
    while left > 0 {
        let batch = left.min(500);
        let jobs = (0..batch).map(|_| job()).collect();
        store.enqueue(jobs).await.unwrap();
        let claimed = store.claim(&ask(batch)).await.unwrap();
        store.finish(done(claimed), None).await.unwrap();
        left -= batch;
    }
}

fn creation(name: &str, effects: Vec<Effect>) -> Change {
    let id = TicketId::new(name).unwrap();
    let policy = Policy::default();
    let event = Event {
        at: Time(1000),
        by: Actor::new("bench", Role::Human),
        expects: None,
        what: EventKind::Created {
            spec: Box::new(Spec {
                title: "A ticket of ordinary length, to be written often".to_owned(),
                description: "What is wanted, in a few sentences. ".repeat(20),
                ..Spec::default()
            }),
            met: BTreeSet::new(),
            failed: Vec::new(),
        },
    };
    let ticket: Ticket = flow::open_ticket(&id, &event, &policy).unwrap().ticket;
    Change {
        ticket,
        base_version: None,
        event,
        policy,
        effects,
        reads: Vec::new(),
        remember: None,
        artefacts: Vec::new(),
        queue_max: None,
        then: None,
    }
}
