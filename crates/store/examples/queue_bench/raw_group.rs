//! Baseline with one writer thread and group commit: the steps and tables of `raw_sqlite`, for
//! workers that wait for each answer. It has the structure of the store without its features.

use std::thread;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::raw_sqlite::{begin, commit, fresh, put_in, turn};

const GROUP_MAX: usize = 128;
/// Yields before a small group is committed, as in the store.
const MOMENTS_MAX: u32 = 20;

enum Step {
    PutIn,
    Turn(Option<i64>),
}

type Call = (Step, oneshot::Sender<Option<i64>>);

pub async fn jobs_per_second(jobs: u32, workers: u32) -> f64 {
    let (directory, db) = fresh();
    let (inbox, receiver) = mpsc::channel(1024);
    let writer = thread::spawn(move || serve(&db, receiver));
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..workers {
        tasks.spawn(work(inbox.clone(), jobs / workers));
    }
    drop(inbox);
    let finished: u32 = tasks.join_all().await.into_iter().sum();
    assert_eq!(finished, jobs / workers * workers);
    let speed = f64::from(finished) / began.elapsed().as_secs_f64();
    writer.join().unwrap();
    drop(directory);
    speed
}

async fn work(inbox: mpsc::Sender<Call>, rounds: u32) -> u32 {
    let mut job = None;
    let mut finished = 0;
    for _ in 0..rounds {
        call(&inbox, Step::PutIn).await;
        finished += u32::from(job.is_some());
        job = call(&inbox, Step::Turn(job)).await;
    }
    while job.is_some() {
        finished += 1;
        job = call(&inbox, Step::Turn(job)).await;
    }
    finished
}

async fn call(inbox: &mpsc::Sender<Call>, step: Step) -> Option<i64> {
    let (reply, answer) = oneshot::channel();
    inbox.send((step, reply)).await.ok().unwrap();
    answer.await.unwrap()
}

fn serve(db: &Connection, mut receiver: mpsc::Receiver<Call>) {
    let mut last = 0;
    let mut answers = Vec::with_capacity(GROUP_MAX);
    while let Some(first) = receiver.blocking_recv() {
        begin(db);
        let mut next = Some(first);
        while let Some((step, reply)) = next {
            let answer = match step {
                Step::PutIn => {
                    put_in(db);
                    None
                }
                Step::Turn(job) => turn(db, job),
            };
            answers.push((reply, answer));
            next = gather(&mut receiver, answers.len(), last);
        }
        commit(db);
        last = answers.len();
        for (reply, answer) in answers.drain(..) {
            reply.send(answer).unwrap();
        }
    }
}

fn gather(receiver: &mut mpsc::Receiver<Call>, size: usize, last: usize) -> Option<Call> {
    if size >= GROUP_MAX {
        return None;
    }
    let yields = if size < last { MOMENTS_MAX } else { 0 };
    for _ in 0..yields {
        if let Ok(call) = receiver.try_recv() {
            return Some(call);
        }
        thread::yield_now();
    }
    receiver.try_recv().ok()
}
