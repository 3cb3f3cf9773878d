//! Many at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use store::{Ask, JobId, JobQuery, JobState, Page, Store};

use super::leases::done;
use crate::support::{House, ask, free};

/// Ten connections put in and work off 400 jobs between them; some lose their lease on purpose.
pub async fn ten_connections_lose_no_job_and_run_none_twice(house: House) {
    const JOBS: usize = 400;
    let mut givers = tokio::task::JoinSet::new();
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..10 {
        let store = house.another().await;
        givers.spawn(put_in(Arc::clone(&store), JOBS / 10));
        workers.spawn(async move { work_off(&*store, &format!("worker-{worker}")).await });
    }
    givers.join_all().await;
    let mut finished: BTreeMap<JobId, u32> = BTreeMap::new();
    // Everybody leaves an empty queue behind; the last one found it empty after the last giver.
    let mut ended = workers.join_all().await;
    ended.push(work_off(&*house.store, "last").await);
    for id in ended.into_iter().flatten() {
        *finished.entry(id).or_default() += 1;
    }
    assert_eq!(finished.len(), JOBS);
    assert!(finished.values().all(|times| *times == 1));
    let query = JobQuery {
        state: Some(JobState::Done),
        ..JobQuery::default()
    };
    let page = Page {
        after: None,
        most: 1000,
    };
    let done = house.store.jobs(&query, &page).await.unwrap();
    assert_eq!(done.items.len(), JOBS);
}

async fn put_in(store: Arc<dyn Store>, jobs: usize) {
    for n in 0..jobs {
        store.enqueue(vec![free("work", json!(n))]).await.unwrap();
    }
}

/// Claims and finishes until the queue is empty; says what it was allowed to finish. Every fifth
/// claim is under a lease that is over at once, so that others take the job from it.
async fn work_off(store: &dyn Store, name: &str) -> Vec<JobId> {
    let mut finished = Vec::new();
    for round in 0.. {
        let lapsing = round % 5 == 4;
        let asked = Ask {
            agent: name.to_owned(),
            most: 3,
            lease: if lapsing {
                std::time::Duration::ZERO
            } else {
                ask("work").lease
            },
            ..ask("work")
        };
        let claimed = store.claim(&asked).await.unwrap();
        if claimed.is_empty() {
            return finished;
        }
        for job in claimed {
            match store.finish(vec![done(&job)], None).await {
                Ok(_) => finished.push(job.id),
                Err(store::Error::StaleFence { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }
    finished
}

/// However many ask at once, no more of one provider's jobs are held than it may have.
pub async fn ten_connections_keep_to_a_provider_s_limit(house: House) {
    const JOBS: usize = 60;
    const LIMIT: usize = 3;
    put_in(Arc::clone(&house.store), JOBS).await;
    let most = u32::try_from(LIMIT).unwrap();
    house
        .store
        .limit_provider("claude", Some(most))
        .await
        .unwrap();
    let counts = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let (store, counts) = (house.another().await, Arc::clone(&counts));
        workers.spawn(async move {
            while counts.1.load(Ordering::SeqCst) < JOBS {
                let asked = Ask {
                    provider: Some("claude".to_owned()),
                    most: 2,
                    ..ask("work")
                };
                for job in store.claim(&asked).await.unwrap() {
                    let held = counts.0.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(held <= LIMIT, "{held} are held");
                    tokio::task::yield_now().await;
                    counts.0.fetch_sub(1, Ordering::SeqCst);
                    counts.1.fetch_add(1, Ordering::SeqCst);
                    store.finish(vec![done(&job)], None).await.unwrap();
                }
            }
        });
    }
    workers.join_all().await;
    assert_eq!(counts.1.load(Ordering::SeqCst), JOBS);
}
