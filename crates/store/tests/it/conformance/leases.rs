//! Leases and fences: one live holder, and no report from the past.

use std::time::Duration;

use flow::job::{DependencyUpdate, NewJob};
use flow::{Effect, EventKind, Task, Time, Usage};
use serde_json::json;
use store::{
    Change, ClaimRequest, Error, FinishedTask, JobQuery, JobState, Leased, Page, TaskOutcome,
};

use crate::support::{
    LONG, TestStore, ask, blank, claim_one, creation, is_conflict, is_stale, lease_of, number,
    step, waived, with_build,
};

pub async fn a_stale_fence_is_refused(house: TestStore) {
    let store = house.store;
    let ticket = with_build(&*store, "T-1").await;
    let job = claim_one(&*store, &ask("build")).await;
    let report = |fence| {
        let mut change = step(&ticket, unusable(&job, fence));
        change.effects = vec![Effect::Finish { serial: 1 }];
        change
    };
    is_stale(&store.commit(report(job.fence - 1)).await);
    is_stale(&store.commit(report(job.fence + 1)).await);
    store.commit(report(job.fence)).await.unwrap();
    // The fence is right and the job has ended: late all the same.
    let mut late = report(job.fence);
    late.base_version = Some(2);
    late.ticket.version = 3;
    is_stale(&store.commit(late).await);
    let mut unknown = step(&ticket, waived());
    unknown.event.what = EventKind::Started {
        lease: flow::event::Lease {
            serial: 7,
            fence: 1,
        },
    };
    is_stale(&store.commit(unknown).await);
}

pub async fn a_lease_is_lost_only_when_it_has_run_out(house: TestStore) {
    let store = house.store;
    let ticket = with_build(&*store, "T-1").await;
    let job = claim_one(&*store, &ask("build")).await;
    let mut lost = step(
        &ticket,
        EventKind::LeaseLost {
            lease: lease_of(&job),
        },
    );
    lost.effects = vec![Effect::Retry {
        serial: 1,
        not_before: Time(0),
    }];
    assert!(store.expire(10).await.unwrap().of_tickets.is_empty());
    is_conflict(&store.commit(lost.clone()).await);
    store
        .renew(job.id, job.fence, Duration::ZERO)
        .await
        .unwrap();
    let lapsed = store.expire(10).await.unwrap().of_tickets;
    assert_eq!((lapsed.len(), lapsed[0].id), (1, job.id));
    store.commit(lost.clone()).await.unwrap();
    // The zombie wakes up: its report comes too late, and the next holder's does not.
    let next = claim_one(&*store, &ask("build")).await;
    let report = |job: &Leased| step(&lost.ticket, unusable(job, job.fence));
    is_stale(&store.commit(report(&job)).await);
    is_stale(&store.renew(job.id, job.fence, LONG).await);
    store.commit(report(&next)).await.unwrap();
}

pub async fn a_job_dropped_while_leased_takes_no_report(house: TestStore) {
    let store = house.store;
    let ticket = with_build(&*store, "T-1").await;
    let job = claim_one(&*store, &ask("build")).await;
    let mut cancelled = step(&ticket, waived());
    cancelled.effects = vec![Effect::Drop {
        serial: 1,
        why: "cancelled".to_owned(),
    }];
    store.commit(cancelled.clone()).await.unwrap();
    is_stale(
        &store
            .commit(step(&cancelled.ticket, unusable(&job, job.fence)))
            .await,
    );
    is_stale(&store.renew(job.id, job.fence, LONG).await);
    assert!(store.expire(10).await.unwrap().of_tickets.is_empty());
}

pub async fn a_lease_is_prolonged_by_its_holder_alone(house: TestStore) {
    let store = house.store;
    number(&*store, "work", 1).await;
    let short = ClaimRequest {
        lease: Duration::from_secs(60),
        ..ask("work")
    };
    let job = claim_one(&*store, &short).await;
    let until = store.renew(job.id, job.fence, LONG).await.unwrap();
    assert!(until > job.until);
    is_stale(&store.renew(job.id, job.fence + 1, LONG).await);
    is_stale(&store.renew(store::JobId(job.id.0 + 1), 1, LONG).await);
    let page = store
        .jobs(&JobQuery::default(), &Page::default())
        .await
        .unwrap();
    assert_eq!(page.items[0].lease_until, Some(until));
}

pub async fn a_lapsed_free_job_goes_to_the_next_worker(house: TestStore) {
    let store = house.store;
    number(&*store, "work", 1).await;
    let first = claim_one(&*store, &at_once("work")).await;
    let second = claim_one(&*store, &ask("work")).await;
    assert_eq!((second.id, second.fence, second.attempts), (first.id, 2, 1));
    is_stale(&store.finish(vec![done(&first)], None).await);
    store.finish(vec![done(&second)], None).await.unwrap();
}

pub async fn a_free_job_that_loses_every_lease_is_dead(house: TestStore) {
    let store = house.store;
    number(&*store, "work", 1).await;
    for attempts in 0..6 {
        assert_eq!(
            claim_one(&*store, &at_once("work")).await.attempts,
            attempts
        );
    }
    assert!(store.claim(&at_once("work")).await.unwrap().is_empty());
    let page = store
        .jobs(&JobQuery::default(), &Page::default())
        .await
        .unwrap();
    assert_eq!(
        (page.items[0].state, page.items[0].attempts),
        (JobState::Dead, 6)
    );
    assert!(page.items[0].last_error.as_ref().unwrap().contains("lease"));
    // Its history is in the log.
    let query = store::EventQuery {
        most: 100,
        ..store::EventQuery::default()
    };
    let names = crate::support::settled_events(&*store, &query, 13).await;
    let lost = names.iter().filter(|event| event.name == "job_lease_lost");
    assert_eq!(lost.count(), 5);
    assert_eq!(names.last().unwrap().name, "job_dead");
}

pub async fn a_lapsed_tell_goes_to_the_next_worker(house: TestStore) {
    let store = house.store;
    let tell = Effect::Enqueue(NewJob {
        serial: 1,
        task: Task::Tell {
            update: DependencyUpdate::Met,
        },
        priority: 50,
        not_before: Time(0),
        agent: None,
    });
    let change = Change {
        effects: vec![tell],
        ..creation(blank("T-1"))
    };
    store.commit(change).await.unwrap();
    let first = claim_one(&*store, &at_once("tell")).await;
    let second = claim_one(&*store, &ask("tell")).await;
    assert_eq!(
        (second.id, second.fence, second.serial),
        (first.id, 2, Some(1))
    );
    store.finish(vec![done(&second)], None).await.unwrap();
}

pub async fn a_lapsed_job_of_a_ticket_waits_for_its_ticket(house: TestStore) {
    let store = house.store;
    with_build(&*store, "T-1").await;
    claim_one(&*store, &at_once("build")).await;
    assert!(store.claim(&ask("build")).await.unwrap().is_empty());
    assert_eq!(store.expire(10).await.unwrap().of_tickets.len(), 1);
}

pub async fn a_lapsed_free_job_is_ended_under_its_fence_alone(house: TestStore) {
    let store = house.store;
    number(&*store, "work", 1).await;
    let job = claim_one(&*store, &at_once("work")).await;
    let query = JobQuery {
        lapsed: true,
        ..JobQuery::default()
    };
    let listed = store.jobs(&query, &Page::default()).await.unwrap();
    let lapsed = &listed.items[0];
    let retry = |fence| FinishedTask {
        job: lapsed.id,
        fence,
        outcome: TaskOutcome::Retry {
            error: "the worker is gone".to_owned(),
            not_before: Time(0),
            counts: true,
        },
    };
    is_stale(&store.finish(vec![retry(lapsed.fence + 1)], None).await);
    store.finish(vec![retry(lapsed.fence)], None).await.unwrap();
    is_stale(&store.finish(vec![retry(lapsed.fence)], None).await);
    assert_eq!(claim_one(&*store, &ask("work")).await.attempts, 1);
    assert!(matches!(
        store.finish(vec![done(&job)], None).await,
        Err(Error::StaleFence {
            given: 1,
            current: 2,
            ..
        })
    ));
}

pub async fn a_free_job_that_is_given_back_has_not_failed(house: TestStore) {
    let store = house.store;
    number(&*store, "work", 1).await;
    for (counts, attempts) in [(true, 1), (false, 1), (true, 2)] {
        let held = claim_one(&*store, &ask("work")).await;
        let ended = FinishedTask {
            job: held.id,
            fence: held.fence,
            outcome: TaskOutcome::Retry {
                error: "once more".to_owned(),
                not_before: Time(0),
                counts,
            },
        };
        store.finish(vec![ended], None).await.unwrap();
        let jobs = store.jobs(&JobQuery::default(), &Page::default()).await;
        assert_eq!(jobs.unwrap().items[0].attempts, attempts);
    }
}

/// A lease that has run out as soon as it is given.
fn at_once(queue: &str) -> ClaimRequest {
    ClaimRequest {
        lease: Duration::ZERO,
        ..ask(queue)
    }
}

pub fn done(job: &Leased) -> FinishedTask {
    FinishedTask {
        job: job.id,
        fence: job.fence,
        outcome: TaskOutcome::Done {
            result: json!(null),
        },
    }
}

fn unusable(job: &Leased, fence: u64) -> EventKind {
    EventKind::ReviewUnusable {
        lease: flow::event::Lease {
            serial: job.serial.unwrap(),
            fence,
        },
        why: "empty".to_owned(),
        usage: Usage::default(),
    }
}

pub async fn a_free_job_that_is_dropped_takes_no_result(house: TestStore) {
    let store = house.store;
    for n in 0..3 {
        number(&*store, "work", n).await;
    }
    let held = claim_one(&*store, &ask("work")).await;
    assert!(store.cancel(held.id, "ada", "enough").await.unwrap());
    is_stale(&store.finish(vec![done(&held)], None).await);
    is_stale(&store.renew(held.id, held.fence, LONG).await);
    let found = store.job(held.id).await.unwrap().unwrap();
    assert_eq!(found.state, JobState::Dropped);
    assert_eq!(found.last_error.as_deref(), Some("enough"));
    // An ended job stays as it is, a waiting one is dropped too, and a ticket's job is not cancelled here.
    assert!(!store.cancel(held.id, "ada", "again").await.unwrap());
    let ready = claim_one(&*store, &at_once("work")).await;
    assert!(store.cancel(ready.id, "ada", "enough").await.unwrap());
    let last = claim_one(&*store, &ask("work")).await;
    assert_ne!(last.id, ready.id);
    store.finish(vec![done(&last)], None).await.unwrap();
    assert!(!store.cancel(last.id, "ada", "late").await.unwrap());
    with_build(&*store, "T-1").await;
    let build = claim_one(&*store, &ask("build")).await;
    assert!(!store.cancel(build.id, "ada", "no").await.unwrap());
    let query = store::EventQuery {
        most: 100,
        ..store::EventQuery::default()
    };
    let events = crate::support::settled_events(&*store, &query, 10).await;
    let dropped = events.iter().filter(|event| event.name == "job_dropped");
    let by: Vec<&str> = dropped.map(|event| &*event.by).collect();
    assert_eq!(by, ["ada", "ada"]);
}
