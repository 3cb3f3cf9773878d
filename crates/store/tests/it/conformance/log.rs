//! The event log: complete, in order, and nothing removed that is still needed.

use std::collections::BTreeSet;
use std::time::Duration;

use flow::{EventKind, Stage, Time, Usage};
use serde_json::json;
use store::{Cursor, EventBody, EventQuery, JobQuery, NewMessage, Noted, Page, Remembered};
use store::{Retention, Store};

use crate::support::{
    TestStore, ask, blank, claim_one, creation, event, id, lease_of, number, step, waived,
    with_build,
};

pub async fn a_tickets_events_are_complete_and_in_order(house: TestStore) {
    let store = house.store;
    let mut ticket = blank("T-1");
    store.commit(creation(ticket.clone())).await.unwrap();
    store.commit(creation(blank("T-2"))).await.unwrap();
    for _ in 0..20 {
        let change = step(&ticket, waived());
        ticket = change.ticket.clone();
        store.commit(change).await.unwrap();
    }
    let mut query = EventQuery {
        ticket: Some(id("T-1")),
        most: 6,
        ..EventQuery::default()
    };
    let mut all = Vec::new();
    loop {
        let page = store.events(&query).await.unwrap();
        let Some(last) = page.last() else { break };
        query.after = last.cursor;
        all.extend(page);
    }
    let versions: Vec<u64> = all.iter().filter_map(|event| event.version).collect();
    assert_eq!(versions, (1..=21).collect::<Vec<u64>>());
    assert_eq!(
        (all[0].name.as_str(), all[0].by.as_str()),
        ("created", "ada")
    );
    assert_eq!(all[1].body, EventBody::Decided(Box::new(event(waived()))));
}

pub async fn the_latest_events_come_in_the_order_in_which_they_happened(house: TestStore) {
    let store = house.store;
    let mut ticket = blank("T-1");
    store.commit(creation(ticket.clone())).await.unwrap();
    for _ in 0..5 {
        let change = step(&ticket, waived());
        ticket = change.ticket.clone();
        store.commit(change).await.unwrap();
    }
    store.commit(creation(blank("T-2"))).await.unwrap();
    let own = store.newest_events(Some(&id("T-1")), 3).await.unwrap();
    let versions: Vec<_> = own.iter().filter_map(|event| event.version).collect();
    assert_eq!(versions, [4, 5, 6]);
    let mut all = store.newest_events(None, 2).await.unwrap();
    // On PostgreSQL what is newer than any transaction at work on the server is not shown yet.
    for _ in 0..1000 {
        if all
            .last()
            .is_some_and(|event| event.ticket == Some(id("T-2")))
        {
            break;
        }
        let seen = all.last().map(|event| event.cursor).unwrap_or_default();
        store.wait_for_events(seen, Duration::from_millis(20)).await;
        all = store.newest_events(None, 2).await.unwrap();
    }
    let tickets: Vec<_> = all.iter().map(|event| event.ticket.clone()).collect();
    assert_eq!(tickets, [Some(id("T-1")), Some(id("T-2"))]);
    assert!(
        store
            .newest_events(Some(&id("T-3")), 3)
            .await
            .unwrap()
            .is_empty()
    );
}

/// Basis of `doctor --verify-log`: real decisions are stored and replayed.
pub async fn replaying_the_log_gives_the_ticket(house: TestStore) {
    let store = house.store;
    let policy = flow::Policy::default();
    let opened = event(EventKind::Created {
        spec: Box::new(blank("T-1").spec),
        met: BTreeSet::new(),
        failed: Vec::new(),
    });
    let first = flow::open_ticket(&id("T-1"), &opened, &policy).unwrap();
    let mut change = creation(first.ticket.clone());
    change.event = opened;
    change.effects = first.effects;
    store.commit(change).await.unwrap();
    let cancelled = event(EventKind::Cancelled {
        why: "not wanted".to_owned(),
    });
    let second = flow::advance(&first.ticket, &cancelled, &policy).unwrap();
    let mut change = step(&first.ticket, cancelled.what);
    change.ticket = second.ticket;
    change.effects = second.effects;
    store.commit(change).await.unwrap();

    let query = EventQuery {
        ticket: Some(id("T-1")),
        most: 100,
        ..EventQuery::default()
    };
    let log = store.events(&query).await.unwrap();
    let mut played = Vec::new();
    for stored in &log {
        let policy = store.policy(stored.policy.as_ref().unwrap()).await.unwrap();
        let EventBody::Decided(event) = &stored.body else {
            panic!("a note: {stored:?}");
        };
        played.push((event, policy.unwrap()));
    }
    let played = played
        .iter()
        .map(|(event, policy)| (event.as_ref(), policy));
    let replayed = flow::replay(&id("T-1"), played).unwrap().unwrap();
    let stored = store.ticket(&id("T-1")).await.unwrap().unwrap();
    assert_eq!(stored.ticket, replayed);
}

/// Eight writers commit while a reader follows the cursor: it misses nothing and sees nothing
/// twice, however the commits overlap.
pub async fn the_cursor_skips_nothing_under_concurrent_commits(house: TestStore) {
    const WRITERS: usize = 8;
    const EACH: usize = 40;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let store = house.another().await;
        writers.spawn(async move {
            for n in 0..EACH {
                store
                    .note(note(&format!("{writer}/{n}"), None, 1))
                    .await
                    .unwrap();
            }
        });
    }
    let mut seen = Vec::new();
    let mut query = EventQuery {
        most: 7,
        ..EventQuery::default()
    };
    while seen.len() < WRITERS * EACH {
        for event in house.store.events(&query).await.unwrap() {
            assert!(event.cursor > query.after);
            query.after = event.cursor;
            seen.push(event.name);
        }
    }
    writers.join_all().await;
    assert!(house.store.events(&query).await.unwrap().is_empty());
    let unique: BTreeSet<&String> = seen.iter().collect();
    assert_eq!(unique.len(), seen.len());
}

pub async fn what_changed_no_ticket_is_noted(house: TestStore) {
    let store = house.store;
    store.commit(creation(blank("T-1"))).await.unwrap();
    store
        .note(note("stale_result", Some("T-1"), 5))
        .await
        .unwrap();
    let query = EventQuery {
        ticket: Some(id("T-1")),
        most: 10,
        ..EventQuery::default()
    };
    let events = store.events(&query).await.unwrap();
    let noted = &events[1];
    assert_eq!((noted.version, noted.name.as_str()), (None, "stale_result"));
    assert_eq!(
        noted.body,
        EventBody::Noted(json!({ "why": "stale_result" }))
    );
    assert!(events[0].cursor < noted.cursor && Cursor::default() < events[0].cursor);
}

pub async fn what_was_spent_is_added_up_from_a_time_on(house: TestStore) {
    let store = house.store;
    let used = |n| Usage {
        usd_micros: n,
        tokens: 10 * n,
        wall_ms: 100 * n,
        ..Usage::default()
    };
    for (name, at, n) in [("T-1", 1000, 1), ("T-2", 2000, 2), ("T-3", 3000, 4)] {
        let ticket = with_build(&*store, name).await;
        let job = claim_one(&*store, &ask("build")).await;
        let mut change = step(
            &ticket,
            EventKind::ReviewUnusable {
                lease: lease_of(&job),
                why: String::new(),
                usage: used(n),
            },
        );
        change.event.at = Time(at);
        store.commit(change).await.unwrap();
    }
    assert_eq!(store.spent_since(Time(0)).await.unwrap(), used(7));
    assert_eq!(store.spent_since(Time(2000)).await.unwrap(), used(6));
    assert_eq!(
        store.spent_since(Time(3001)).await.unwrap(),
        Usage::default()
    );
    // The same by day, agent and model.
    let all = store.spending(Time(0)).await.unwrap();
    let sum = all
        .iter()
        .fold(Usage::default(), |sum, one| sum.plus(one.usage));
    assert_eq!(sum, used(7));
    assert!(
        all.iter()
            .all(|one| one.day == Time(0) && !one.by.is_empty()),
        "{all:?}"
    );
    assert!(store.spending(Time(3001)).await.unwrap().is_empty());
}

pub async fn what_was_spent_on_no_ticket_is_added_up_too(house: TestStore) {
    let store = house.store;
    let used = Usage {
        usd_micros: 3,
        tokens: 0,
        wall_ms: 0,
        ..Usage::default()
    };
    let ran = note("task_ran", None, 2000);
    for key in ["task/1/1", "task/1/2", "task/1/1"] {
        store.spend(key, ran.clone(), used).await.unwrap();
    }
    store.note(note("task_ran", None, 2000)).await.unwrap();
    assert_eq!(
        store.spent_since(Time(2000)).await.unwrap(),
        used.plus(used)
    );
    let all = store.spending(Time(2000)).await.unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
    let one = &all[0];
    assert_eq!(
        (one.day, one.usage, &one.model),
        (Time(0), used.plus(used), &None)
    );
    assert_eq!(
        store.spent_since(Time(2001)).await.unwrap(),
        Usage::default()
    );
}

pub async fn retention_never_touches_live_tickets(house: TestStore) {
    let store = house.store;
    // A live ticket with an ended job and a note, and a done ticket that it depends on.
    let mut done = blank("T-0");
    done.stage = Stage::Done;
    store.commit(creation(done)).await.unwrap();
    let mut ticket = with_build(&*store, "T-1").await;
    let mut change = step(&ticket, waived());
    change.ticket.spec.depends_on = BTreeSet::from([id("T-0")]);
    change.effects = vec![flow::Effect::Finish { serial: 1 }];
    store.commit(change.clone()).await.unwrap();
    ticket = change.ticket;
    store
        .note(note("stale_result", Some("T-1"), 1))
        .await
        .unwrap();

    let removed = store.retain(&everything(&*store).await).await.unwrap();
    assert_eq!(removed, store::Removed::default());
    assert_eq!(
        store.ticket(&id("T-1")).await.unwrap().unwrap().ticket,
        ticket
    );
    assert!(store.ticket(&id("T-0")).await.unwrap().is_some());
    let jobs = store
        .jobs(&JobQuery::default(), &Page::default())
        .await
        .unwrap();
    assert_eq!(jobs.items.len(), 1);
    let query = EventQuery {
        ticket: Some(id("T-1")),
        most: 10,
        ..EventQuery::default()
    };
    assert_eq!(store.events(&query).await.unwrap().len(), 3);
}

pub async fn retention_removes_what_is_old(house: TestStore) {
    let store = house.store;
    let mut change = creation(blank("T-1"));
    change.ticket.stage = Stage::Failed;
    change.remember = Some(Remembered {
        key: "key".to_owned(),
        payload_hash: "hash".to_owned(),
        answer: json!(1),
    });
    change.artefacts = vec![store::Artefact {
        ticket: id("T-1"),
        round: 1,
        kind: "check".to_owned(),
        name: "test".to_owned(),
        path: "T-1/1/test.txt".to_owned(),
        bytes: 3,
    }];
    store.commit(change).await.unwrap();
    number(&*store, "work", 1).await;
    number(&*store, "work", 2).await;
    let job = claim_one(&*store, &ask("work")).await;
    let ended = store::FinishedTask {
        job: job.id,
        fence: job.fence,
        outcome: store::TaskOutcome::Done { result: json!(1) },
    };
    store.finish(vec![ended], None).await.unwrap();
    let message = store.send(message()).await.unwrap();
    store.send(message_to("bob")).await.unwrap();
    store.mark_processed(message, Time(1)).await.unwrap();

    let all = everything(&*store).await;
    let tickets_stay = Retention {
        tickets: false,
        ..all.clone()
    };
    let removed = store.retain(&tickets_stay).await.unwrap();
    let expected = store::Removed {
        jobs: 1,
        messages: 1,
        answers: 1,
        // The newest event may have to stay, to keep its number.
        notes: removed.notes.clamp(3, 4),
        tickets: 0,
    };
    assert_eq!(removed, expected);
    assert!(store.ticket(&id("T-1")).await.unwrap().is_some());
    assert_eq!(store.retain(&all).await.unwrap().tickets, 1);
    assert_eq!(store.ticket(&id("T-1")).await.unwrap(), None);
    assert!(store.artefacts(&id("T-1")).await.unwrap().is_empty());
    let query = EventQuery {
        ticket: Some(id("T-1")),
        most: 10,
        ..EventQuery::default()
    };
    assert!(store.events(&query).await.unwrap().is_empty());
    assert_eq!(store.messages("bob", 10).await.unwrap().len(), 1);
    claim_one(&*store, &ask("work")).await;
    // The name is free again.
    store.commit(creation(blank("T-1"))).await.unwrap();
}

async fn everything(store: &dyn Store) -> Retention {
    Retention {
        before: store.now().await.unwrap().plus_ms(1000),
        tickets: true,
    }
}

fn note(name: &str, ticket: Option<&str>, at: i64) -> Noted {
    Noted {
        at: Time(at),
        ticket: ticket.map(id),
        name: name.to_owned(),
        by: "worker".to_owned(),
        body: json!({ "why": name }),
    }
}

fn message() -> NewMessage {
    message_to("ada")
}

fn message_to(to: &str) -> NewMessage {
    NewMessage {
        at: Time(1),
        from: "worker".to_owned(),
        to: to.to_owned(),
        kind: "question".to_owned(),
        ticket: None,
        content: "which one?".to_owned(),
    }
}
