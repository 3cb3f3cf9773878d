//! What one writer thread can do that commits what has queued up as a group: the steps and tables
//! of `raw_sqlite`, for workers that each wait for their answer before they go on. The store's own
//! shape, without anything that makes it a store.

use std::thread;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::raw_sqlite::{begin, commit, fresh, put_in, turn};

const GROUP_MAX: usize = 128;
/// As in the store: those who were answered together are given a moment to come back.
const MOMENTS_MAX: u32 = 20;

enum Step {
    PutIn,
    Turn(Option<i64>),
}

type Call = (Step, oneshot::Sender<Option<i64>>);

pub async fn jobs_per_second(jobs: u32, workers: u32) -> f64 {
    let (directory, db) = fresh();
    let (inbox, outbox) = mpsc::channel(1024);
    let writer = thread::spawn(move || serve(&db, outbox));
    let began = Instant::now();
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..workers {
        all.spawn(work(inbox.clone(), jobs / workers));
    }
    drop(inbox);
    let finished: u32 = all.join_all().await.into_iter().sum();
    assert_eq!(finished, jobs / workers * workers);
    let speed = f64::from(finished) / began.elapsed().as_secs_f64();
    writer.join().unwrap();
    drop(directory);
    speed
}

async fn work(inbox: mpsc::Sender<Call>, rounds: u32) -> u32 {
    let mut held = None;
    let mut finished = 0;
    for _ in 0..rounds {
        call(&inbox, Step::PutIn).await;
        finished += u32::from(held.is_some());
        held = call(&inbox, Step::Turn(held)).await;
    }
    while held.is_some() {
        finished += 1;
        held = call(&inbox, Step::Turn(held)).await;
    }
    finished
}

async fn call(inbox: &mpsc::Sender<Call>, step: Step) -> Option<i64> {
    let (reply, answer) = oneshot::channel();
    inbox.send((step, reply)).await.ok().unwrap();
    answer.await.unwrap()
}

fn serve(db: &Connection, mut outbox: mpsc::Receiver<Call>) {
    let mut last = 0;
    let mut answers = Vec::with_capacity(GROUP_MAX);
    while let Some(first) = outbox.blocking_recv() {
        begin(db);
        let mut next = Some(first);
        while let Some((step, reply)) = next {
            let answer = match step {
                Step::PutIn => {
                    put_in(db);
                    None
                }
                Step::Turn(held) => turn(db, held),
            };
            answers.push((reply, answer));
            next = gather(&mut outbox, answers.len(), last);
        }
        commit(db);
        last = answers.len();
        for (reply, answer) in answers.drain(..) {
            reply.send(answer).unwrap();
        }
    }
}

fn gather(outbox: &mut mpsc::Receiver<Call>, here: usize, last: usize) -> Option<Call> {
    if here >= GROUP_MAX {
        return None;
    }
    let moments = if here < last { MOMENTS_MAX } else { 0 };
    for _ in 0..moments {
        if let Ok(call) = outbox.try_recv() {
            return Some(call);
        }
        thread::yield_now();
    }
    outbox.try_recv().ok()
}
