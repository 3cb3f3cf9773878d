//! Waiting for work. The slow poll is switched off here (see `support::settings`), so whatever
//! returns in time was woken.

use std::time::Duration;

use store::{Cursor, EventQuery};
use tokio::time::timeout;

use crate::support::{
    LONG, TestStore, ask, blank, claim_one, creation, number, step, waived, with_build,
};

/// Far more than a wake-up needs, far less than the poll.
const SOON: Duration = Duration::from_secs(20);

pub async fn a_job_wakes_who_waits(house: TestStore) {
    woken_by(&house, &house).await;
}

pub async fn a_job_that_came_before_the_wait_is_seen(house: TestStore) {
    assert!(house.store.claim(&ask("work")).await.unwrap().is_empty());
    number(&*house.another().await, "work", 1).await;
    timeout(SOON, house.store.wait(&ask("work"), LONG))
        .await
        .unwrap();
    claim_one(&*house.store, &ask("work")).await;
}

pub async fn a_commit_of_another_connection_wakes_who_waits(house: TestStore) {
    let other = house.another().await;
    let store = house.store.clone();
    let waiter = tokio::spawn(async move {
        while store.claim(&ask("build")).await.unwrap().is_empty() {
            store.wait(&ask("build"), LONG).await;
        }
    });
    with_build(&*other, "T-1").await;
    timeout(SOON, waiter).await.unwrap().unwrap();
}

pub async fn who_waits_for_another_queue_sleeps_on(house: TestStore) {
    let store = house.store.clone();
    let waiter = tokio::spawn(async move { store.wait(&ask("other"), LONG).await });
    woken_by(&house, &house).await;
    assert!(!waiter.is_finished());
    waiter.abort();
}

pub async fn waiting_ends_by_itself(house: TestStore) {
    timeout(
        SOON,
        house.store.wait(&ask("work"), Duration::from_millis(30)),
    )
    .await
    .unwrap();
}

/// A decision that makes no job ready wakes watchers of the log too.
pub async fn a_decision_wakes_who_watches_the_log(house: TestStore) {
    let other = house.another().await;
    let store = house.store.clone();
    let watcher = tokio::spawn(async move {
        let mut seen = Vec::new();
        let mut after = Cursor::default();
        while seen.len() < 5 {
            store.wait_for_events(after, LONG).await;
            let query = EventQuery {
                after,
                most: 10,
                ..EventQuery::default()
            };
            for event in store.events(&query).await.unwrap() {
                after = event.cursor;
                seen.extend(event.version);
            }
        }
        seen
    });
    let mut ticket = blank("T-1");
    other.commit(creation(ticket.clone())).await.unwrap();
    for _ in 0..4 {
        let change = step(&ticket, waived());
        ticket = change.ticket.clone();
        other.commit(change).await.unwrap();
    }
    let seen = timeout(SOON, watcher).await.unwrap().unwrap();
    assert_eq!(seen, [1, 2, 3, 4, 5]);
}

pub async fn watching_the_log_ends_by_itself(house: TestStore) {
    let moment = Duration::from_millis(30);
    timeout(SOON, house.store.wait_for_events(Cursor::default(), moment))
        .await
        .unwrap();
}

/// Twenty times over: a waiter that has found nothing gets each job as it comes.
async fn woken_by(waiting: &TestStore, giving: &TestStore) {
    let store = waiting.store.clone();
    let waiter = tokio::spawn(async move {
        let mut got = 0;
        while got < 20 {
            got += store.claim(&ask("work")).await.unwrap().len();
            if got < 20 {
                store.wait(&ask("work"), LONG).await;
            }
        }
    });
    for n in 0..20 {
        number(&*giving.store, "work", n).await;
    }
    timeout(SOON, waiter).await.unwrap().unwrap();
}
