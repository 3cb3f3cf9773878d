//! Many at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flow::{Queue, Time};
use serde_json::json;
use store::{ClaimRequest, JobId, JobQuery, JobState, NewMessage, Page, Store};

use super::leases::done;
use super::records::token;
use crate::support::{TestStore, ask, ask_as, enqueue, free};

/// Ten connections put in and work off 400 jobs between them; some lose their lease on purpose.
pub async fn ten_connections_lose_no_job_and_run_none_twice(house: TestStore) {
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
        let asked = ClaimRequest {
            limit: 3,
            lease: if lapsing {
                std::time::Duration::ZERO
            } else {
                ask("work").lease
            },
            ..ask_as(name, "work")
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
pub async fn ten_connections_keep_to_a_provider_s_limit(house: TestStore) {
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
                let asked = ClaimRequest {
                    limit: 2,
                    ..ask("work").with_provider("claude")
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

/// One claim at a time, over all the queues that are named, however many ask in one instant.
pub async fn ten_connections_of_one_holder_have_one_claim(house: TestStore) {
    put_in(Arc::clone(&house.store), 20).await;
    let alone = || ClaimRequest {
        exclusive: ["work", "other"].map(Queue::from).to_vec(),
        limit: 1,
        ..ask("work")
    };
    for round in 0..5 {
        let mut askers = tokio::task::JoinSet::new();
        for _ in 0..10 {
            let (store, asked) = (house.another().await, alone());
            askers.spawn(async move { store.claim(&asked).await.unwrap() });
        }
        let claimed: Vec<_> = askers.join_all().await.into_iter().flatten().collect();
        assert_eq!(claimed.len(), 1, "in round {round}");
        // Another holder, or one that may have several, is not held up.
        let other = ClaimRequest {
            worker: format!("other-{round}"),
            ..alone()
        };
        assert_eq!(house.store.claim(&other).await.unwrap().len(), 1);
        let several = ClaimRequest {
            exclusive: Vec::new(),
            ..alone()
        };
        let second = house.store.claim(&several).await.unwrap();
        assert_eq!(second.len(), 1);
        let ended = claimed.iter().chain(&second).map(done).collect();
        house.store.finish(ended, None).await.unwrap();
    }
}

/// Questions of many callers may travel together; each sees what it wrote before it asked.
pub async fn two_hundred_ask_at_once_and_each_has_its_own_answer(house: TestStore) {
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..200 {
        let store = Arc::clone(&house.store);
        callers.spawn(async move { asks(&*store, &format!("caller-{caller}")).await });
    }
    callers.join_all().await;
}

async fn asks(store: &dyn Store, name: &str) {
    assert_eq!(store.token(&format!("hash of {name}")).await.unwrap(), None);
    store.put_token(token(name, 1)).await.unwrap();
    let queues = [Queue::from(name), Queue::from(format!("{name} too"))];
    assert!(!store.has_open(Some(&queues)).await.unwrap());
    enqueue(store, free(queues[1].name(), json!(1))).await;
    assert!(store.has_open(Some(&queues)).await.unwrap());
    let mut sent = Vec::new();
    for content in ["first", "second", "third"] {
        sent.push((store.send(letter(name, content)).await.unwrap(), content));
    }
    let found = store.messages(name, 2).await.unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|one| (one.id, one.message.content.as_str()))
        .collect();
    assert_eq!(found, sent[..2]);
    let known = store.token(&format!("hash of {name}")).await.unwrap();
    assert_eq!(known, Some(token(name, 1)));
    store.revoke(name, Time(7)).await.unwrap();
    let known = store.token(&format!("hash of {name}")).await.unwrap();
    assert_eq!(known.unwrap().revoked_at, Some(Time(7)));
}

fn letter(to: &str, content: &str) -> NewMessage {
    NewMessage {
        at: Time(1),
        from: "ada".to_owned(),
        to: to.to_owned(),
        kind: "info".to_owned(),
        ticket: None,
        content: content.to_owned(),
    }
}

pub async fn who_gives_up_asking_holds_up_nobody(house: TestStore) {
    house.store.send(letter("ada", "hello")).await.unwrap();
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let store = Arc::clone(&house.store);
        callers.spawn(async move { store.messages("ada", 1).await.unwrap().len() });
    }
    callers.join_next().await.unwrap().unwrap();
    callers.shutdown().await;
    assert_eq!(house.store.messages("ada", 1).await.unwrap().len(), 1);
}
