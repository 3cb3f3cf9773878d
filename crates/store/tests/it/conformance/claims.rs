//! Tests which worker gets which job, and when.

use flow::event::Failure;
use flow::{Effect, EventKind, Queue, Time, Usage};
use serde_json::json;
use store::{
    Change, ClaimRequest, ClaimTarget, Error, FinishedTask, FreeJob, JobQuery, JobState, Page,
    Pause, PauseScope, ServedQueue, TaskOutcome,
};
use store::{JobWork, Store};

use super::leases::done;
use crate::support::{
    LONG, TestStore, ask, ask_as, blank, build, claim_one, creation, enqueue, free, id, lease_of,
    number, step, waived, with_build,
};

pub async fn priority_goes_first_then_age(house: TestStore) {
    let store = house.store;
    for (n, priority) in [(1, 50), (2, 10), (3, 90), (4, 50), (5, 90)] {
        let job = FreeJob {
            priority,
            ..free("work", json!(n))
        };
        enqueue(&*store, job).await;
    }
    let two = ClaimRequest {
        limit: 2,
        ..ask("work")
    };
    let mut order = Vec::new();
    loop {
        let claimed = store.claim(&two).await.unwrap();
        if claimed.is_empty() {
            break;
        }
        order.extend(claimed.into_iter().map(|job| body(&job.work)));
    }
    assert_eq!(order, [3, 5, 1, 4, 2]);
}

pub async fn a_job_for_an_agent_goes_to_it_alone(house: TestStore) {
    let store = house.store;
    let named = FreeJob {
        agent: Some("qa-1".to_owned()),
        priority: 90,
        ..free("work", json!(1))
    };
    enqueue(&*store, named).await;
    number(&*store, "work", 2).await;
    assert_eq!(body(&claim_one(&*store, &ask("work")).await.work), 2);
    assert!(store.claim(&ask("work")).await.unwrap().is_empty());
    let qa = ask_as("qa-1", "work");
    assert_eq!(body(&claim_one(&*store, &qa).await.work), 1);
}

pub async fn a_lease_names_the_worker_and_not_the_agent(house: TestStore) {
    let store = house.store;
    number(&*store, "work", 1).await;
    let of_worker = ClaimRequest {
        worker: "boot:42:7".to_owned(),
        ..ask_as("qa-1", "work")
    };
    assert_eq!(claim_one(&*store, &of_worker).await.holder, "boot:42:7");
}

pub async fn a_worker_of_one_ticket_gets_its_jobs_alone(house: TestStore) {
    let store = house.store;
    with_build(&*store, "T-1").await;
    with_build(&*store, "T-2").await;
    let of_two = ClaimRequest {
        only: Some(ClaimTarget::Ticket(id("T-2"))),
        limit: 5,
        ..ask("build")
    };
    let claimed = store.claim(&of_two).await.unwrap();
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].ticket, Some(id("T-2")));
    assert!(store.claim(&of_two).await.unwrap().is_empty());
}

pub async fn who_asks_for_its_own_gets_nothing_that_is_anybodys(house: TestStore) {
    let store = house.store;
    number(&*store, "work", 1).await;
    let own = FreeJob {
        agent: Some("qa-1".to_owned()),
        ..free("work", json!(2))
    };
    enqueue(&*store, own).await;
    let only = ClaimRequest {
        queues: vec![ServedQueue {
            assigned_only: true,
            ..ServedQueue::new("work", "qa-1")
        }],
        limit: 5,
        ..ask("work")
    };
    let claimed = store.claim(&only).await.unwrap();
    let bodies: Vec<u64> = claimed.iter().map(|job| body(&job.work)).collect();
    assert_eq!(bodies, [2]);
    assert!(store.claim(&only).await.unwrap().is_empty());
}

pub async fn who_has_chosen_a_job_gets_that_one_or_none(house: TestStore) {
    let store = house.store;
    let urgent = FreeJob {
        priority: 99,
        ..free("work", json!(1))
    };
    enqueue(&*store, urgent).await;
    number(&*store, "work", 2).await;
    let listed = store.jobs(&JobQuery::default(), &Page::default()).await;
    let listed = listed.unwrap().items;
    let second = listed.iter().find(|job| body(&job.work) == 2).unwrap();
    let chosen = |queue: &str| ClaimRequest {
        only: Some(ClaimTarget::Job(second.id)),
        limit: 5,
        ..ask(queue)
    };
    assert!(store.claim(&chosen("other")).await.unwrap().is_empty());
    let claimed = store.claim(&chosen("work")).await.unwrap();
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].id, second.id);
    assert!(store.claim(&chosen("work")).await.unwrap().is_empty());
}

pub async fn several_queues_are_one_line(house: TestStore) {
    let store = house.store;
    number(&*store, "a", 1).await;
    number(&*store, "b", 2).await;
    let urgent = FreeJob {
        priority: 99,
        ..free("b", json!(3))
    };
    enqueue(&*store, urgent).await;
    number(&*store, "c", 4).await;
    let both = ClaimRequest {
        limit: 10,
        ..ClaimRequest::new("worker", "worker", ["a", "b", "b"], LONG)
    };
    let claimed = store.claim(&both).await.unwrap();
    let order: Vec<u64> = claimed.iter().map(|job| body(&job.work)).collect();
    assert_eq!(order, [3, 1, 2]);
}

pub async fn a_job_waits_for_its_time(house: TestStore) {
    let store = house.store;
    let now = store.now().await.unwrap();
    let later = |ms| FreeJob {
        not_before: Some(now.plus_ms(ms)),
        ..free("work", json!(ms))
    };
    enqueue(&*store, later(3_600_000)).await;
    assert!(store.claim(&ask("work")).await.unwrap().is_empty());
    assert_eq!(in_state(&*store, JobState::Waiting).await, 1);
    // No notification comes when a job falls due: the wait itself knows the time.
    enqueue(&*store, later(60)).await;
    assert_eq!(body(&next(&*store, &ask("work")).await.work), 60);
    assert!(store.now().await.unwrap() >= now.plus_ms(60));
    assert!(store.claim(&ask("work")).await.unwrap().is_empty());
}

pub async fn a_retry_keeps_the_fence_and_counts(house: TestStore) {
    let store = house.store;
    let ticket = with_build(&*store, "T-1").await;
    let first = claim_one(&*store, &ask("build")).await;
    assert_eq!((first.fence, first.attempts), (1, 0));
    let now = store.now().await.unwrap();
    let change = failed(&ticket, &first, 1, now.plus_ms(3_600_000));
    store.commit(change.clone()).await.unwrap();
    assert!(store.claim(&ask("build")).await.unwrap().is_empty());
    let waiting = &list(&*store).await[0];
    assert_eq!(
        (waiting.state, waiting.fence, waiting.attempts),
        (JobState::Waiting, 1, 1)
    );
    assert_eq!(waiting.last_error.as_deref(), Some("no network"));
    assert_eq!((&waiting.holder, waiting.lease_until), (&None, None));
    assert_eq!(waiting.not_before, now.plus_ms(3_600_000));

    // Another job, due at once, comes back with a new fence.
    let ticket = with_build(&*store, "T-2").await;
    let first = claim_one(&*store, &ask("build")).await;
    store
        .commit(failed(&ticket, &first, 1, Time(0)))
        .await
        .unwrap();
    let second = claim_one(&*store, &ask("build")).await;
    assert_eq!((second.id, second.fence, second.attempts), (first.id, 2, 1));
}

pub async fn dead_and_dropped_jobs_are_kept_and_shown(house: TestStore) {
    let store = house.store;
    let ticket = with_build(&*store, "T-1").await;
    let job = claim_one(&*store, &ask("build")).await;
    let mut change = failed(&ticket, &job, 1, Time(0));
    change.effects = vec![
        Effect::Bury {
            serial: 1,
            why: "five times".to_owned(),
        },
        build(2),
    ];
    store.commit(change.clone()).await.unwrap();
    let mut drop = step(&change.ticket, waived());
    drop.effects = vec![Effect::Drop {
        serial: 2,
        why: "cancelled".to_owned(),
    }];
    store.commit(drop).await.unwrap();
    assert!(store.claim(&ask("build")).await.unwrap().is_empty());
    let all = list(&*store).await;
    assert_eq!(
        (all[0].state, all[0].last_error.as_deref()),
        (JobState::Dropped, Some("cancelled"))
    );
    assert_eq!(
        (all[1].state, all[1].last_error.as_deref()),
        (JobState::Dead, Some("five times"))
    );
    assert_eq!(in_state(&*store, JobState::Dead).await, 1);
    assert_eq!(in_state(&*store, JobState::Dropped).await, 1);
}

pub async fn a_full_queue_refuses(house: TestStore) {
    let store = house.store;
    let limited = |n: u64| FreeJob {
        queue_max: Some(2),
        ..free("work", json!(n))
    };
    let later = FreeJob {
        not_before: Some(store.now().await.unwrap().plus_ms(3_600_000)),
        ..limited(1)
    };
    enqueue(&*store, later).await;
    // All of a call or nothing: one of these two would have had room.
    let refused = store.enqueue(vec![limited(2), limited(3)]).await;
    assert!(matches!(
        refused,
        Err(Error::QueueFull {
            size: 2,
            most: 2,
            ..
        })
    ));
    assert_eq!(list(&*store).await.len(), 1);
    enqueue(&*store, limited(4)).await;
    assert!(matches!(
        store.enqueue(vec![limited(5)]).await,
        Err(Error::QueueFull { .. })
    ));
    // A leased job no longer waits in the queue.
    claim_one(&*store, &ask("work")).await;
    enqueue(&*store, limited(6)).await;

    let full = |name: &str| Change {
        effects: vec![build(1)],
        queue_max: Some(1),
        ..creation(blank(name))
    };
    store.commit(full("T-1")).await.unwrap();
    assert!(matches!(
        store.commit(full("T-2")).await,
        Err(Error::QueueFull { .. })
    ));
    assert_eq!(store.ticket(&id("T-2")).await.unwrap(), None);
}

pub async fn a_pause_stops_claims_and_ends(house: TestStore) {
    let store = house.store;
    number(&*store, "work", 1).await;
    let asked = ask("work").with_provider("acme");
    let pause = |scope: &PauseScope, until| Pause {
        scope: scope.clone(),
        until,
        why: "quota".to_owned(),
        by: "ada".to_owned(),
    };
    for scope in [
        PauseScope::Agent("worker".to_owned()),
        PauseScope::Queue("work".to_owned()),
        PauseScope::Provider("acme".to_owned()),
    ] {
        store.pause(pause(&scope, None)).await.unwrap();
        assert!(store.claim(&asked).await.unwrap().is_empty(), "{scope:?}");
        assert_eq!(store.pauses().await.unwrap(), [pause(&scope, None)]);
        assert!(store.resume(&scope).await.unwrap());
        assert!(!store.resume(&scope).await.unwrap());
    }
    // Another's pause is no concern of this one.
    store
        .pause(pause(&PauseScope::Agent("other".to_owned()), None))
        .await
        .unwrap();
    let until = store.now().await.unwrap().plus_ms(60);
    let queue = PauseScope::Queue("work".to_owned());
    store.pause(pause(&queue, Some(until))).await.unwrap();
    assert_eq!(body(&next(&*store, &asked).await.work), 1);
    assert!(store.now().await.unwrap() >= until);
    assert_eq!(store.pauses().await.unwrap().len(), 1);
}

pub async fn a_free_job_with_the_same_key_is_one_job(house: TestStore) {
    let store = house.store;
    let keyed = |body| FreeJob {
        key: Some("key".to_owned()),
        ..free("work", body)
    };
    let first = enqueue(&*store, keyed(json!({ "a": 1, "b": 2 }))).await;
    let again = enqueue(&*store, keyed(json!({ "b": 2, "a": 1 }))).await;
    assert_eq!(first, again);
    let other = store
        .enqueue(vec![free("work", json!(1)), keyed(json!(2))])
        .await;
    assert!(matches!(other, Err(Error::KeyReused { .. })));
    assert_eq!(list(&*store).await.len(), 1);
}

pub async fn finishing_claims_the_next(house: TestStore) {
    let store = house.store;
    number(&*store, "work", 1).await;
    number(&*store, "work", 2).await;
    let first = claim_one(&*store, &ask("work")).await;
    let ended = FinishedTask {
        job: first.id,
        fence: first.fence,
        outcome: TaskOutcome::Done {
            result: json!({ "ok": true }),
        },
    };
    let next = store
        .finish(vec![ended.clone()], Some(&ask("work")))
        .await
        .unwrap();
    assert_eq!(body(&next[0].work), 2);
    assert!(matches!(
        store.finish(vec![ended], None).await,
        Err(Error::StaleFence { .. })
    ));
    let done = &list(&*store).await[1];
    assert_eq!(
        (done.state, &done.result),
        (JobState::Done, &Some(json!({ "ok": true })))
    );
    let dead = FinishedTask {
        job: next[0].id,
        fence: next[0].fence,
        outcome: TaskOutcome::Dead {
            error: "no such program".to_owned(),
        },
    };
    assert!(store.finish(vec![dead], None).await.unwrap().is_empty());
    assert_eq!(list(&*store).await[0].state, JobState::Dead);
}

pub async fn no_ticket_job_is_finished_behind_its_ticket(house: TestStore) {
    let store = house.store;
    with_build(&*store, "T-1").await;
    let job = claim_one(&*store, &ask("build")).await;
    let ended = FinishedTask {
        job: job.id,
        fence: job.fence,
        outcome: TaskOutcome::Done { result: json!(1) },
    };
    assert!(matches!(
        store.finish(vec![ended], None).await,
        Err(Error::Other(_))
    ));
    assert_eq!(list(&*store).await[0].state, JobState::Leased);
}

pub async fn jobs_are_paged(house: TestStore) {
    let store = house.store;
    for n in 0..5 {
        number(&*store, if n == 2 { "other" } else { "work" }, n).await;
    }
    let query = JobQuery {
        queue: Some("work".into()),
        ..JobQuery::default()
    };
    let page = |after| Page { after, most: 3 };
    let first = store.jobs(&query, &page(None)).await.unwrap();
    assert_eq!(first.items.len(), 3);
    let second = store.jobs(&query, &page(first.next)).await.unwrap();
    assert_eq!((second.items.len(), second.next), (1, None));
    assert_eq!(second.items[0].work, work(0));
    let query = JobQuery {
        urgent_first: true,
        ..query
    };
    let urgent = store.jobs(&query, &page(None)).await.unwrap();
    assert_eq!(urgent.next, None);
    assert_eq!(urgent.items[0].work, work(0), "the order of claims");
}

pub async fn jobs_are_found_by_who_has_them_and_who_could(house: TestStore) {
    let store = house.store;
    for (n, priority, agent) in [
        (1, 50, None),
        (2, 90, Some("qa-1")),
        (3, 70, Some("qa-2")),
        (4, 60, None),
    ] {
        let job = FreeJob {
            priority,
            agent: agent.map(str::to_owned),
            ..free("work", json!(n))
        };
        enqueue(&*store, job).await;
    }
    let found = |query: JobQuery, most| {
        let (store, page) = (&store, Page { after: None, most });
        async move {
            let jobs = store.jobs(&query, &page).await.unwrap().items;
            jobs.iter().map(|job| body(&job.work)).collect::<Vec<_>>()
        }
    };
    let could = |agent: &str| JobQuery {
        queue: Some("work".into()),
        state: Some(JobState::Ready),
        agent: Some(agent.to_owned()),
        urgent_first: true,
        ..JobQuery::default()
    };
    assert_eq!(found(could("qa-1"), 9).await, [2, 4, 1]);
    assert_eq!(found(could("qa-2"), 2).await, [3, 4]);
    assert_eq!(found(could(""), 9).await, [4, 1], "nobody in particular");
    let of_qa = ClaimRequest {
        worker: "guest:qa-1".to_owned(),
        ..ask_as("qa-1", "work")
    };
    claim_one(&*store, &of_qa).await;
    claim_one(&*store, &ask("work")).await;
    let held = async |holder: &str, queue: &str| {
        let queues = [queue.into(), "other".into()];
        let held = store.held_jobs(holder, &queues).await.unwrap();
        held.iter().map(|job| body(&job.work)).collect::<Vec<_>>()
    };
    assert_eq!(held("guest:qa-1", "work").await, [2]);
    assert!(held("guest:qa-1", "elsewhere").await.is_empty());
    assert!(held("guest:qa-3", "work").await.is_empty());
}

/// The next job, waited for.
async fn next(store: &dyn Store, ask: &ClaimRequest) -> store::Leased {
    loop {
        if let Some(job) = store.claim(ask).await.unwrap().pop() {
            return job;
        }
        store.wait(ask, LONG).await;
    }
}

fn failed(ticket: &flow::Ticket, job: &store::Leased, attempts: u32, not_before: Time) -> Change {
    let mut change = step(
        ticket,
        EventKind::JobFailed {
            lease: lease_of(job),
            failure: Failure::Transient,
            message: "no network".to_owned(),
            usage: Usage::default(),
        },
    );
    change.ticket.jobs[0].attempts = attempts;
    change.effects = vec![Effect::Retry {
        serial: 1,
        not_before,
    }];
    change
}

fn work(n: u64) -> JobWork {
    JobWork::Free {
        kind: "task".to_owned(),
        body: json!(n),
    }
}

fn body(work: &JobWork) -> u64 {
    match work {
        JobWork::Free { body, .. } => body.as_u64().unwrap(),
        JobWork::Task(task) => panic!("{task:?}"),
    }
}

async fn list(store: &dyn Store) -> Vec<store::Job> {
    let page = store.jobs(&JobQuery::default(), &Page::default()).await;
    page.unwrap().items
}

async fn in_state(store: &dyn Store, state: JobState) -> usize {
    let query = JobQuery {
        state: Some(state),
        ..JobQuery::default()
    };
    let page = store.jobs(&query, &Page::default()).await;
    page.unwrap().items.len()
}

pub async fn jobs_are_counted_by_queue_and_state(house: TestStore) {
    let store = house.store;
    assert_eq!(store.count_jobs().await.unwrap(), []);
    for n in 0..3 {
        number(&*store, "work", n).await;
    }
    number(&*store, "rest", 0).await;
    let held = claim_one(&*store, &ask("work")).await;
    let dropped = claim_one(&*store, &ask("rest")).await;
    store.cancel(dropped.id, "ada", "enough").await.unwrap();
    let depths = store.count_jobs().await.unwrap();
    let work = |state, count| (Queue::from("work"), state, count);
    assert_eq!(
        depths,
        [work(JobState::Ready, 2), work(JobState::Leased, 1)]
    );
    let dead = TaskOutcome::Dead {
        error: "no luck".to_owned(),
    };
    let ended = FinishedTask {
        job: held.id,
        fence: held.fence,
        outcome: dead,
    };
    store.finish(vec![ended], None).await.unwrap();
    let depths = store.count_jobs().await.unwrap();
    assert_eq!(depths, [work(JobState::Ready, 2), work(JobState::Dead, 1)]);
}

pub async fn a_provider_is_given_no_more_than_its_limit(house: TestStore) {
    let store = house.store;
    for n in 0..9 {
        number(&*store, "work", n).await;
    }
    let of = |provider: &str| ClaimRequest {
        limit: 5,
        ..ask("work").with_provider(provider)
    };
    store.limit_provider("claude", Some(2)).await.unwrap();
    assert_eq!(
        store.restrictions().await.unwrap().provider_limits,
        [("claude".to_owned(), 2)]
    );
    let held = store.claim(&of("claude")).await.unwrap();
    assert_eq!(held.len(), 2);
    assert!(store.claim(&of("claude")).await.unwrap().is_empty());
    // Others are not held up; what ends makes room, and so does a lease that has run out.
    assert_eq!(store.claim(&of("codex")).await.unwrap().len(), 5);
    let next = store
        .finish(vec![done(&held[0])], Some(&of("claude")))
        .await
        .unwrap();
    assert_eq!(next.len(), 1);
    store
        .renew(held[1].id, held[1].fence, std::time::Duration::ZERO)
        .await
        .unwrap();
    assert_eq!(store.claim(&of("claude")).await.unwrap().len(), 1);
    store.limit_provider("claude", Some(0)).await.unwrap();
    assert!(store.claim(&of("claude")).await.unwrap().is_empty());
    store.limit_provider("claude", None).await.unwrap();
    assert_eq!(store.claim(&of("claude")).await.unwrap().len(), 1);
}

pub async fn a_queue_is_open_while_a_job_in_it_has_not_ended(house: TestStore) {
    let store = house.store;
    let queues = ["other", "work"].map(Queue::from);
    let open = || async { store.has_open(Some(&queues)).await.unwrap() };
    assert!(!store.has_open(Some(&[])).await.unwrap());
    assert!(!store.has_open(None).await.unwrap());
    number(&*store, "elsewhere", 0).await;
    assert!(!open().await);
    assert!(store.has_open(None).await.unwrap());
    number(&*store, "work", 1).await;
    assert!(open().await);
    let held = claim_one(&*store, &ask("work")).await;
    assert!(open().await);
    let later = FreeJob {
        not_before: Some(Time(i64::MAX / 2)),
        ..free("other", json!(2))
    };
    enqueue(&*store, later).await;
    store.finish(vec![done(&held)], None).await.unwrap();
    assert!(open().await);
    let only_work = &queues[1..];
    assert!(!store.has_open(Some(only_work)).await.unwrap());
}
