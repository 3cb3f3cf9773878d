//! Uses the store like a worker: enqueues jobs, then completes its jobs and claims the next ones in
//! one call.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use store::{ClaimRequest, FinishedTask, FreeJob, Leased, Store, TaskOutcome};
use tokio::time::Instant;

pub fn ask(limit: u32) -> ClaimRequest {
    ClaimRequest {
        limit,
        ..ClaimRequest::new("bench", "bench", ["work"], Duration::from_secs(60))
    }
}

pub fn job() -> FreeJob {
    FreeJob {
        queue: "work".into(),
        kind: "noop".to_owned(),
        body: json!({ "n": 1 }),
        priority: 50,
        not_before: None,
        agent: None,
        key: None,
        queue_max: None,
        needs: std::collections::BTreeSet::new(),
        depends_on: Vec::new(),
    }
}

pub fn done(jobs: Vec<Leased>) -> Vec<FinishedTask> {
    let end = |job: Leased| FinishedTask {
        job: job.id,
        fence: job.fence,
        outcome: TaskOutcome::Done {
            result: json!(null),
        },
    };
    jobs.into_iter().map(end).collect()
}

pub async fn jobs_per_second(store: &Arc<dyn Store>, jobs: u32, workers: u32, batch: u32) -> f64 {
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..workers {
        let store = Arc::clone(store);
        tasks.spawn(work(store, jobs / workers / batch, batch));
    }
    let finished: u32 = tasks.join_all().await.into_iter().sum();
    // A worker may claim the jobs of another; together they finish all.
    assert_eq!(finished, jobs / workers / batch * batch * workers);
    f64::from(finished) / began.elapsed().as_secs_f64()
}

async fn work(store: Arc<dyn Store>, rounds: u32, batch: u32) -> u32 {
    let ask = ask(batch);
    let mut claimed = Vec::new();
    let mut finished = 0;
    for _ in 0..rounds {
        let jobs = (0..batch).map(|_| job()).collect();
        store.enqueue(jobs).await.unwrap();
        finished += u32::try_from(claimed.len()).unwrap();
        claimed = store.finish(done(claimed), Some(&ask)).await.unwrap();
    }
    while !claimed.is_empty() {
        finished += u32::try_from(claimed.len()).unwrap();
        claimed = store.finish(done(claimed), Some(&ask)).await.unwrap();
    }
    finished
}
