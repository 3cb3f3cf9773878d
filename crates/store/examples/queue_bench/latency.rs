//! How long things take, one at a time.

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
/// Long enough for the worker to have gone to sleep.
pub const GAP: Duration = Duration::from_millis(4);

pub fn report(what: &str, mut samples: Vec<Duration>) -> f64 {
    samples.sort_unstable();
    let at = |share: usize| samples[(samples.len() - 1) * share / 100].as_secs_f64() * 1000.0;
    println!("| {what} | {:.2} ms | {:.2} ms |", at(50), at(99));
    at(50)
}

/// From before the call that puts a job in until a worker that waited has it.
pub async fn from_enqueue_to_start(what: &str, giver: &Arc<dyn Store>, taker: &Arc<dyn Store>) {
    let (send, mut started) = mpsc::channel(1);
    let worker = Arc::clone(taker);
    let task = tokio::spawn(async move {
        let ask = ask(1);
        let mut held = Vec::new();
        loop {
            let next = worker.finish(done(held), Some(&ask)).await.unwrap();
            if next.is_empty() {
                worker.wait(&ask, Duration::from_secs(60)).await;
            } else {
                send.send(Instant::now()).await.unwrap();
            }
            held = next;
        }
    });
    let mut samples = Vec::new();
    for _ in 0..SAMPLES {
        let _ = tokio::time::timeout(GAP, std::future::pending::<()>()).await;
        let began = Instant::now();
        giver.enqueue(vec![job()]).await.unwrap();
        samples.push(started.recv().await.unwrap() - began);
    }
    task.abort();
    println!("\n| enqueue → start | p50 | p99 |\n|---|---:|---:|");
    report(what, samples);
}

/// A decision with its event, one after the other.
pub async fn of_a_state_change(store: &Arc<dyn Store>) {
    let mut change = creation("T-0", Vec::new());
    store.commit(change.clone()).await.unwrap();
    let mut samples = Vec::new();
    for _ in 0..2000 {
        change.was = Some(change.ticket.version);
        change.ticket.version += 1;
        let next = change.clone();
        let began = Instant::now();
        store.commit(next).await.unwrap();
        samples.push(began.elapsed());
    }
    println!("\n| state change with its event | p50 | p99 |\n|---|---:|---:|");
    report("one writer", samples);
}

/// A claim among ever more tickets that are blocked and jobs that have been finished.
pub async fn of_a_claim(store: &Arc<dyn Store>) {
    println!("\n| claim | p50 | p99 |\n|---|---:|---:|");
    let mut there = 0;
    let mut first = None;
    let mut last = 0.0;
    for size in [100, 10_000, 100_000] {
        fill(store, there, size).await;
        there = size;
        let mut samples = Vec::new();
        for _ in 0..SAMPLES {
            store.enqueue(vec![job()]).await.unwrap();
            let began = Instant::now();
            let held = store.claim(&ask(1)).await.unwrap();
            samples.push(began.elapsed());
            store.finish(done(held), None).await.unwrap();
        }
        let what = format!("beside {size} blocked tickets and {size} finished jobs");
        last = report(&what, samples);
        first.get_or_insert(last);
    }
    let ratio = last / first.unwrap_or(last);
    println!("\nclaim at 100,000 against 100: {ratio:.2}");
}

/// A claim for a provider, with and without a limit, beside leases that count against it.
pub async fn of_a_providers_claim(store: &Arc<dyn Store>) {
    const HELD: u32 = 200;
    println!("\n| claim for a provider | p50 | p99 |\n|---|---:|---:|");
    let of = |limit| ask(limit).with_provider("claude");
    let jobs = (0..HELD).map(|_| job()).collect();
    store.enqueue(jobs).await.unwrap();
    assert_eq!(store.claim(&of(HELD)).await.unwrap().len(), 200);
    let ways = [
        ("none is named", ask(1), None),
        ("without a limit", of(1), None),
        ("with a limit, 200 leases held", of(1), Some(HELD + 1)),
    ];
    for (what, asked, limit) in ways {
        store.limit_provider("claude", limit).await.unwrap();
        let mut samples = Vec::new();
        for _ in 0..SAMPLES {
            store.enqueue(vec![job()]).await.unwrap();
            let began = Instant::now();
            let held = store.claim(&asked).await.unwrap();
            samples.push(began.elapsed());
            store.finish(done(held), None).await.unwrap();
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
        let held = store.claim(&ask(batch)).await.unwrap();
        store.finish(done(held), None).await.unwrap();
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
    let ticket: Ticket = flow::open(&id, &event, &policy).unwrap().ticket;
    Change {
        ticket,
        was: None,
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
