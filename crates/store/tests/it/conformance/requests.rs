//! A claim respects labels, dependencies, pauses of the worker, several agents and providers in one
//! request, and jobs that were passed over, given back or left behind.

use std::collections::BTreeSet;
use std::time::Duration;

use flow::{Queue, Time};
use serde_json::json;
use store::{
    ClaimRequest, ClaimTarget, FreeJob, JobId, JobQuery, JobState, Leased, Page, Pause, PauseScope,
    ServedQueue, Store,
};

use super::leases::done;
use crate::support::{
    LONG, TestStore, ask, claim_one, enqueue, free, is_stale, number, with_build,
};

fn keyed(key: &str, depends_on: &[&str]) -> FreeJob {
    FreeJob {
        key: Some(key.to_owned()),
        depends_on: depends_on.iter().map(|key| (*key).to_owned()).collect(),
        ..free("work", json!(key))
    }
}

fn labels(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

async fn claimed(store: &dyn Store, request: &ClaimRequest) -> Vec<JobId> {
    let jobs = store.claim(request).await.unwrap();
    jobs.into_iter().map(|job| job.id).collect()
}

pub async fn a_job_goes_to_a_worker_that_has_its_labels(house: TestStore) {
    let store = house.store;
    let needy = FreeJob {
        needs: ["gpu=yes", "os=linux"].map(str::to_owned).into(),
        ..free("work", json!(1))
    };
    let needy = enqueue(&*store, needy).await;
    let plain = number(&*store, "work", 2).await;
    let with = |names: &[&str]| ClaimRequest {
        labels: Some(labels(names)),
        limit: 5,
        ..ask("work")
    };
    assert_eq!(claimed(&*store, &with(&["gpu=yes"])).await, [plain]);
    assert!(claimed(&*store, &with(&[])).await.is_empty());
    // Nothing is there for it, so the wait is not cut short.
    store.wait(&with(&[]), Duration::from_millis(1)).await;
    let all = ["gpu=yes", "os=linux", "ram=64"];
    assert_eq!(claimed(&*store, &with(&all)).await, [needy]);
}

pub async fn a_request_without_labels_does_not_look_at_them(house: TestStore) {
    let store = house.store;
    let needy = FreeJob {
        needs: ["gpu=yes".to_owned()].into(),
        ..free("work", json!(1))
    };
    let needy = enqueue(&*store, needy).await;
    assert_eq!(claimed(&*store, &ask("work")).await, [needy]);
}

pub async fn a_job_is_claimed_once_its_dependencies_are_done(house: TestStore) {
    let store = house.store;
    let last = enqueue(&*store, keyed("c", &["a", "b", "never"])).await;
    let second = enqueue(&*store, keyed("b", &["a"])).await;
    let first = enqueue(&*store, keyed("a", &[])).await;
    let of_last = ClaimRequest {
        only: Some(ClaimTarget::Job(last)),
        ..ask("work")
    };
    for expected in [first, second] {
        assert!(claimed(&*store, &of_last).await.is_empty());
        let job = claim_one(&*store, &ask("work")).await;
        assert_eq!(job.id, expected);
        // In hand is not done.
        assert!(claimed(&*store, &ask("work")).await.is_empty());
        store.finish(vec![done(&job)], None).await.unwrap();
    }
    assert!(claimed(&*store, &ask("work")).await.is_empty());
}

pub async fn who_waits_for_a_dependency_is_woken_when_it_is_done(house: TestStore) {
    let store = house.store;
    enqueue(&*store, keyed("a", &[])).await;
    enqueue(&*store, keyed("b", &["a"])).await;
    let first = claim_one(&*store, &ask("work")).await;
    store.wait(&ask("work"), Duration::from_millis(1)).await;
    let (waiting, request) = (store.clone(), ask("work"));
    let waiter = tokio::spawn(async move {
        waiting.wait(&request, Duration::from_secs(60)).await;
        waiting.claim(&request).await.unwrap().len()
    });
    store.finish(vec![done(&first)], None).await.unwrap();
    assert_eq!(waiter.await.unwrap(), 1);
}

pub async fn one_request_serves_several_agents_and_their_providers(house: TestStore) {
    let store = house.store;
    let of = |queue: &str, agent: &str, assigned_only: bool| ServedQueue {
        assigned_only,
        provider: Some(agent.to_owned()),
        ..ServedQueue::new(queue, agent)
    };
    let for_codex = FreeJob {
        agent: Some("codex".to_owned()),
        ..free("build", json!(0))
    };
    let for_codex = enqueue(&*store, for_codex).await;
    let builds = [
        number(&*store, "build", 1).await,
        number(&*store, "build", 2).await,
    ];
    let check = number(&*store, "check", 3).await;
    store.limit_provider("claude", Some(1)).await.unwrap();
    let request = ClaimRequest {
        queues: vec![
            of("build", "claude", false),
            of("build", "codex", true),
            ServedQueue::new("check", "countersign"),
        ],
        limit: 9,
        ..ClaimRequest::new("worker", "", Vec::<String>::new(), LONG)
    };
    let mut jobs = store.claim(&request).await.unwrap();
    jobs.sort_by_key(|job| job.id);
    let seen: Vec<(JobId, Option<&str>, Option<&str>)> = jobs
        .iter()
        .map(|job| (job.id, job.agent.as_deref(), job.provider.as_deref()))
        .collect();
    assert_eq!(
        seen,
        [
            (for_codex, Some("codex"), Some("codex")),
            (builds[0], None, Some("claude")),
            (check, None, None),
        ]
    );
    // A paused provider keeps the others from nothing.
    store.limit_provider("claude", None).await.unwrap();
    pause(&*store, PauseScope::Provider("claude".to_owned())).await;
    let more = number(&*store, "check", 4).await;
    assert_eq!(claimed(&*store, &request).await, [more]);
    store
        .resume(&PauseScope::Provider("claude".to_owned()))
        .await
        .unwrap();
    let of_ticket = ClaimRequest {
        only: Some(ClaimTarget::Job(builds[1])),
        ..request
    };
    let last = store.claim(&of_ticket).await.unwrap();
    assert_eq!(last[0].provider.as_deref(), Some("claude"));
}

pub async fn a_pause_of_the_worker_s_own_name_stops_its_claims(house: TestStore) {
    let store = house.store;
    let job = number(&*store, "work", 1).await;
    let request = ClaimRequest {
        paused_as: vec!["qa-1".to_owned(), "qa".to_owned()],
        ..ask("work")
    };
    for name in ["qa", "qa-1"] {
        let scope = PauseScope::Agent(name.to_owned());
        pause(&*store, scope.clone()).await;
        assert!(claimed(&*store, &request).await.is_empty());
        assert!(store.resume(&scope).await.unwrap());
    }
    assert_eq!(claimed(&*store, &request).await, [job]);
}

async fn pause(store: &dyn Store, scope: PauseScope) {
    let pause = Pause {
        scope,
        until: None,
        why: "to rest".to_owned(),
        by: "ada".to_owned(),
    };
    store.pause(pause).await.unwrap();
}

pub async fn a_job_that_was_passed_over_is_not_given_again(house: TestStore) {
    let store = house.store;
    let first = number(&*store, "work", 1).await;
    let second = number(&*store, "work", 2).await;
    let request = ClaimRequest {
        except: vec![first],
        limit: 5,
        ..ask("work")
    };
    assert_eq!(claimed(&*store, &request).await, [second]);
    assert_eq!(claimed(&*store, &ask("work")).await, [first]);
}

pub async fn a_job_that_is_released_is_as_it_was_but_for_its_fence(house: TestStore) {
    let store = house.store;
    with_build(&*store, "T-1").await;
    number(&*store, "work", 1).await;
    for queue in ["build", "work"] {
        let job = claim_one(&*store, &ask(queue)).await;
        is_stale(&store.release(job.id, job.fence + 1).await);
        store.release(job.id, job.fence).await.unwrap();
        is_stale(&store.release(job.id, job.fence).await);
        is_stale(&store.renew(job.id, job.fence, LONG).await);
        let next: Leased = claim_one(&*store, &ask(queue)).await;
        let same = (next.id, next.fence, next.attempts);
        assert_eq!(same, (job.id, job.fence + 1, job.attempts));
    }
}

pub async fn leases_that_ran_out_are_given_back_or_left_to_their_tickets(house: TestStore) {
    let store = house.store;
    with_build(&*store, "T-1").await;
    number(&*store, "work", 1).await;
    number(&*store, "other", 2).await;
    let nothing = store.expire(10).await.unwrap();
    assert_eq!((nothing.requeued, nothing.of_tickets.len()), (0, 0));
    for queue in ["build", "work", "other"] {
        let at_once = ClaimRequest {
            lease: Duration::ZERO,
            ..ask(queue)
        };
        claim_one(&*store, &at_once).await;
    }
    for requeued in [2, 0] {
        let expired = store.expire(10).await.unwrap();
        assert_eq!(expired.requeued, requeued);
        assert_eq!(expired.of_tickets.len(), 1);
        assert_eq!(expired.of_tickets[0].queue, Queue::Build);
    }
    let ready = JobQuery {
        state: Some(JobState::Ready),
        ..JobQuery::default()
    };
    let ready = store.jobs(&ready, &Page::default()).await.unwrap().items;
    assert_eq!(ready.len(), 2);
}

pub async fn what_a_claim_could_take_is_listed_before_it_is_claimed(house: TestStore) {
    let store = house.store;
    let now = store.now().await.unwrap();
    let later = |ms: i64| FreeJob {
        not_before: Some(Time(now.0 + ms)),
        ..free("work", json!(ms))
    };
    let lapsed = number(&*store, "work", 1).await;
    let at_once = ClaimRequest {
        lease: Duration::ZERO,
        ..ask("work")
    };
    assert_eq!(claimed(&*store, &at_once).await, [lapsed]);
    enqueue(&*store, later(3_600_000)).await;
    let due = enqueue(&*store, later(30)).await;
    let ready = number(&*store, "work", 2).await;
    let query = JobQuery {
        queue: Some("work".into()),
        agent: Some("worker".to_owned()),
        claimable: true,
        urgent_first: true,
        ..JobQuery::default()
    };
    let mut listed = Vec::new();
    while listed.len() < 3 {
        // The clock is the database's: what is due soon is due when that says so.
        let page = store.jobs(&query, &Page::default()).await.unwrap();
        listed = page.items.into_iter().map(|job| job.id).collect();
        tokio::task::yield_now().await;
    }
    assert_eq!(listed, [lapsed, due, ready]);
    let chosen = ClaimRequest {
        only: Some(ClaimTarget::Job(due)),
        ..ask("work")
    };
    assert_eq!(claimed(&*store, &chosen).await, [due]);
}
