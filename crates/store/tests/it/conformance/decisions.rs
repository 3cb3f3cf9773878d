//! Commits: whole, guarded, once.

use std::collections::BTreeSet;

use flow::ticket::TicketContext;
use flow::{Policy, Stage};
use serde_json::json;
use store::{Artefact, Change, CommitOutcome, Error, EventQuery, JobQuery, Page, Remembered};
use store::{Store, TicketOrder, TicketQuery, TicketSort};

use crate::support::{
    TestStore, ask, blank, build, claim_one, creation, id, is_conflict, step, waived, with_build,
    written,
};

pub async fn a_decision_is_written_whole_or_not_at_all(house: TestStore) {
    let store = house.store;
    let ticket = with_build(&*store, "T-1").await;
    // Its last part, a job that does not exist, cannot be written.
    let mut change = step(&ticket, waived());
    change.effects = vec![build(2), flow::Effect::Finish { serial: 9 }];
    change.remember = Some(remembered("key", "hash"));
    change.ticket.spec.depends_on = BTreeSet::from([id("T-0")]);
    assert!(store.commit(change).await.is_err());

    assert_eq!(
        store.ticket(&id("T-1")).await.unwrap().unwrap().ticket,
        ticket
    );
    let events = store.events(&all_of("T-1")).await.unwrap();
    assert_eq!(events.len(), 1);
    let jobs = store.jobs(&JobQuery::default(), &Page::default()).await;
    assert_eq!(jobs.unwrap().items.len(), 1);
    assert_eq!(store.recall("key").await.unwrap(), None);
    assert!(store.dependents(&id("T-0")).await.unwrap().is_empty());
}

pub async fn a_ticket_is_read_back_as_it_was_written(house: TestStore) {
    let store = house.store;
    let mut ticket = blank("T-1");
    ticket.spec.description = String::from("ünïcode \"quoted\"\n\u{1F980}");
    let number = written(store.commit(creation(ticket.clone())).await.unwrap());
    let by_id = store.ticket(&id("T-1")).await.unwrap().unwrap();
    assert_eq!((by_id.number, &by_id.ticket), (number, &ticket));
    assert_eq!(store.ticket(&id("T-2")).await.unwrap(), None);
}

pub async fn an_id_is_taken_once(house: TestStore) {
    let store = house.store;
    written(store.commit(creation(blank("T-1"))).await.unwrap());
    let again = store.commit(creation(blank("T-1"))).await;
    assert!(matches!(again, Err(Error::Exists(taken)) if taken == id("T-1")));
}

/// Sixteen writers, each on its own handle, each adding ten to one number in the ticket.
pub async fn sixteen_writers_lose_no_update(house: TestStore) {
    house.store.commit(creation(blank("T-1"))).await.unwrap();
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let store = house.another().await;
        writers.spawn(async move {
            let mut written = 0;
            while written < 10 {
                let seen = store.ticket(&id("T-1")).await.unwrap().unwrap().ticket;
                let mut change = step(&seen, waived());
                change.ticket.jobs_ordered += 1;
                match store.commit(change).await {
                    Ok(_) => written += 1,
                    Err(Error::Conflict { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended.unwrap();
    }
    let ticket = house
        .store
        .ticket(&id("T-1"))
        .await
        .unwrap()
        .unwrap()
        .ticket;
    assert_eq!((ticket.version, ticket.jobs_ordered), (161, 160));
}

pub async fn the_same_call_again_gets_the_first_answer(house: TestStore) {
    let store = house.store;
    let mut first = creation(blank("T-1"));
    first.remember = Some(remembered("key", "hash"));
    written(store.commit(first.clone()).await.unwrap());
    // The answer of the second call is not the one that counts.
    first.remember.as_mut().unwrap().answer = json!("another");
    let again = store.commit(first).await.unwrap();
    assert_eq!(again, CommitOutcome::Again(json!({ "answer": "hash" })));
    let recalled = store.recall("key").await.unwrap();
    assert_eq!(recalled, Some(remembered("key", "hash")));
}

pub async fn ten_same_calls_at_once_write_once(house: TestStore) {
    let ticket = with_build(&*house.store, "T-1").await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let store = house.another().await;
        let mut change = step(&ticket, waived());
        change.remember = Some(remembered("key", "hash"));
        calls.spawn(async move { store.commit(change).await.unwrap() });
    }
    let answers = calls.join_all().await;
    let again = |one: &&CommitOutcome| matches!(one, CommitOutcome::Again(_));
    assert_eq!(answers.iter().filter(again).count(), 9);
    let ticket = house
        .store
        .ticket(&id("T-1"))
        .await
        .unwrap()
        .unwrap()
        .ticket;
    assert_eq!(ticket.version, 2);
}

pub async fn a_key_for_another_payload_is_refused(house: TestStore) {
    let store = house.store;
    let mut change = creation(blank("T-1"));
    change.remember = Some(remembered("key", "hash"));
    store.commit(change).await.unwrap();
    let mut other = creation(blank("T-2"));
    other.remember = Some(remembered("key", "other hash"));
    let refused = store.commit(other).await;
    assert!(matches!(refused, Err(Error::KeyReused { key }) if key == "key"));
    assert_eq!(store.ticket(&id("T-2")).await.unwrap(), None);
}

pub async fn a_ticket_that_was_looked_at_must_not_have_changed(house: TestStore) {
    let store = house.store;
    let seen = blank("T-1");
    store.commit(creation(seen.clone())).await.unwrap();
    store.commit(creation(blank("T-2"))).await.unwrap();
    let on_seen = |version| Change {
        reads: vec![(id("T-1"), version)],
        ..step(&blank("T-2"), waived())
    };
    store.commit(step(&seen, waived())).await.unwrap();
    is_conflict(&store.commit(on_seen(1)).await);
    store.commit(on_seen(2)).await.unwrap();
    let mut missing = step(&seen, waived());
    missing.reads = vec![(id("T-9"), 1)];
    is_conflict(&store.commit(missing).await);
}

pub async fn a_version_out_of_step_is_refused(house: TestStore) {
    let store = house.store;
    store.commit(creation(blank("T-1"))).await.unwrap();
    let mut change = step(&blank("T-1"), waived());
    change.ticket.version = 3;
    assert!(matches!(store.commit(change).await, Err(Error::Other(_))));
    is_conflict(
        &store
            .commit(step(&step(&blank("T-1"), waived()).ticket, waived()))
            .await,
    );
}

pub async fn lists_are_paged_and_stay_so_while_tickets_come(house: TestStore) {
    let store = house.store;
    for n in 1..=5 {
        store
            .commit(creation(blank(&format!("T-{n}"))))
            .await
            .unwrap();
    }
    let page = |after| Page { after, most: 2 };
    let first = store
        .tickets(&TicketQuery::default(), &page(None))
        .await
        .unwrap();
    assert_eq!(names(&first.items), ["T-5", "T-4"]);
    store.commit(creation(blank("T-6"))).await.unwrap();
    let second = store
        .tickets(&TicketQuery::default(), &page(first.next))
        .await
        .unwrap();
    assert_eq!(names(&second.items), ["T-3", "T-2"]);
    let third = store
        .tickets(&TicketQuery::default(), &page(second.next))
        .await
        .unwrap();
    assert_eq!(
        (names(&third.items), third.next),
        (vec!["T-1".to_owned()], None)
    );
}

pub async fn lists_are_narrowed_by_stage_epic_and_repository(house: TestStore) {
    let store = house.store;
    for n in 0..12_usize {
        let mut ticket = blank(&format!("T-{n:02}"));
        ticket.stage = [Stage::Queued, Stage::Building, Stage::Done][n % 3];
        ticket.spec.context = TicketContext {
            epic: (n < 6).then(|| "E-1".to_owned()),
            repository: Some(format!("/repo/{}", n % 2)),
            ..TicketContext::default()
        };
        store.commit(creation(ticket)).await.unwrap();
    }
    let list = async |query: TicketQuery| {
        let page = store.tickets(&query, &Page::default()).await.unwrap();
        names(&page.items)
    };
    let stages = vec![Stage::Building, Stage::Done];
    let query = |stages, epic: Option<&str>, repository: Option<&str>| TicketQuery {
        stages,
        epic: epic.map(str::to_owned),
        repository: repository.map(str::to_owned),
        ..TicketQuery::default()
    };
    assert_eq!(list(query(stages.clone(), None, None)).await.len(), 8);
    assert_eq!(
        list(query(stages.clone(), None, None)).await[..3],
        ["T-11", "T-10", "T-08"]
    );
    assert_eq!(
        list(query(stages, Some("E-1"), Some("/repo/1"))).await,
        ["T-05", "T-01"]
    );
    assert_eq!(list(query(vec![], Some("E-1"), None)).await.len(), 6);
    assert!(
        list(query(vec![Stage::Failed], None, None))
            .await
            .is_empty()
    );
}

pub async fn tickets_are_counted_by_stage(house: TestStore) {
    let store = house.store;
    for (name, stage) in [
        ("T-1", Stage::Done),
        ("T-2", Stage::Queued),
        ("T-3", Stage::Done),
    ] {
        let mut ticket = blank(name);
        ticket.stage = stage;
        store.commit(creation(ticket)).await.unwrap();
    }
    let tally = store.count_tickets(&TicketQuery::default()).await.unwrap();
    assert_eq!(tally, [(Stage::Queued, 1), (Stage::Done, 2)]);
    let only = TicketQuery {
        only: Some(id("T-3")),
        stages: vec![Stage::Queued],
        ..TicketQuery::default()
    };
    assert_eq!(
        store.count_tickets(&only).await.unwrap(),
        [(Stage::Done, 1)]
    );
}

pub async fn tickets_are_found_by_words_and_by_the_beginning_of_the_id(house: TestStore) {
    let store = house.store;
    for (name, title, epic) in [
        ("api-1", "Greet the user", None),
        ("api-2", "Escape 100% of the Names_", Some("Login")),
        ("web-1", "GREET by name", Some("login")),
    ] {
        let mut ticket = blank(name);
        title.clone_into(&mut ticket.spec.title);
        ticket.spec.context.epic = epic.map(str::to_owned);
        store.commit(creation(ticket)).await.unwrap();
    }
    let find = async |words: &[&str], prefix: Option<&str>| {
        let query = TicketQuery {
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            id_prefix: prefix.map(str::to_owned),
            ..TicketQuery::default()
        };
        let rows = store.tickets(&query, &Page::default()).await.unwrap();
        names(&rows.items)
    };
    assert_eq!(find(&["greet"], None).await, ["web-1", "api-1"]);
    assert_eq!(find(&["NAME", "login"], None).await, ["web-1", "api-2"]);
    assert_eq!(find(&["greet"], Some("api")).await, ["api-1"]);
    assert_eq!(find(&[], Some("api-")).await, ["api-2", "api-1"]);
    // Characters of patterns stand for themselves.
    assert_eq!(find(&["0% of"], None).await, ["api-2"]);
    assert_eq!(find(&["names_"], None).await, ["api-2"]);
    assert!(find(&["%"], Some("web")).await.is_empty());
    assert!(find(&["'; DROP TABLE tickets; --"], None).await.is_empty());
}

pub async fn a_sorted_list_goes_on_where_it_was_while_tickets_change(house: TestStore) {
    let store = house.store;
    for (name, priority, stage) in [
        ("T-1", 50, Stage::Queued),
        ("T-2", 90, Stage::Queued),
        ("T-3", 50, Stage::Done),
        ("T-4", 10, Stage::Queued),
        ("T-5", -3, Stage::Done),
    ] {
        let mut ticket = blank(name);
        ticket.spec.priority = priority;
        ticket.stage = stage;
        store.commit(creation(ticket)).await.unwrap();
    }
    let sorts = [
        (TicketSort::Priority, ["T-5", "T-4", "T-1", "T-3", "T-2"]),
        // The most urgent first, and of equals the oldest.
        (TicketSort::Urgency, ["T-2", "T-1", "T-3", "T-4", "T-5"]),
    ];
    for ((by, ascending_order), ascending) in sorts
        .into_iter()
        .flat_map(|sort| [(sort, false), (sort, true)])
    {
        for stages in [vec![], vec![Stage::Queued, Stage::Done]] {
            let mut query = TicketQuery {
                stages,
                order: TicketOrder { by, ascending },
                ..TicketQuery::default()
            };
            let (mut all, mut after) = (Vec::new(), None);
            loop {
                let page = Page { after, most: 2 };
                let rows = store.tickets(&query, &page).await.unwrap();
                all.extend(names(&rows.items));
                let last = rows.items.last().unwrap();
                query.after_value = Some(by.value(last));
                after = rows.next;
                if after.is_none() {
                    break;
                }
            }
            let mut expected = ascending_order.to_vec();
            if !ascending {
                expected.reverse();
            }
            assert_eq!(all, expected, "{}", by.word());
        }
    }
    // Every column that is offered exists in both databases.
    for by in TicketSort::ALL {
        let query = TicketQuery {
            order: TicketOrder {
                by,
                ascending: true,
            },
            // Below every value, also where a high priority sorts as a low number.
            after_value: Some(-1_000),
            ..TicketQuery::default()
        };
        let page = Page {
            after: Some(0),
            most: 9,
        };
        let rows = store.tickets(&query, &page).await.unwrap();
        assert_eq!(rows.items.len(), 5, "{}", by.word());
    }
}

pub async fn dependants_follow_the_spec(house: TestStore) {
    let store = house.store;
    let mut ticket = blank("T-3");
    ticket.spec.depends_on = BTreeSet::from([id("T-1"), id("T-2")]);
    ticket.waits_for = ticket.spec.depends_on.clone();
    store.commit(creation(ticket.clone())).await.unwrap();
    assert_eq!(store.dependents(&id("T-1")).await.unwrap(), [id("T-3")]);
    let row = &store
        .tickets(&TicketQuery::default(), &Page::default())
        .await
        .unwrap()
        .items[0];
    assert_eq!(row.waits_for, 2);

    let mut change = step(&ticket, waived());
    change.ticket.spec.depends_on = BTreeSet::from([id("T-2"), id("T-4")]);
    store.commit(change).await.unwrap();
    assert!(store.dependents(&id("T-1")).await.unwrap().is_empty());
    assert_eq!(store.dependents(&id("T-2")).await.unwrap(), [id("T-3")]);
    assert_eq!(store.dependents(&id("T-4")).await.unwrap(), [id("T-3")]);
}

pub async fn a_policy_comes_back_as_it_was(house: TestStore) {
    let store = house.store;
    let policy = Policy {
        max_rounds: 4,
        ..Policy::default()
    };
    let mut change = creation(blank("T-1"));
    change.policy = policy.clone();
    store.commit(change).await.unwrap();
    assert_eq!(
        store.policy(&policy.id()).await.unwrap(),
        Some(policy.clone())
    );
    assert_eq!(store.policy("unknown").await.unwrap(), None);
    let events = store.events(&all_of("T-1")).await.unwrap();
    assert_eq!(events[0].policy, Some(policy.id()));
    let stored = store.ticket(&id("T-1")).await.unwrap().unwrap();
    assert_eq!(stored.policy, policy.id());
}

pub async fn artefacts_are_listed_and_a_repeated_one_is_one(house: TestStore) {
    let store = house.store;
    let ticket = blank("T-1");
    let artefact = |name: &str, bytes| Artefact {
        ticket: id("T-1"),
        round: 1,
        kind: "transcript".to_owned(),
        name: name.to_owned(),
        path: format!("T-1/1/{name}.txt"),
        bytes,
    };
    let mut change = creation(ticket.clone());
    change.artefacts = vec![artefact("builder", 10), artefact("reviewer", 20)];
    store.commit(change).await.unwrap();
    let mut change = step(&ticket, waived());
    change.artefacts = vec![artefact("builder", 30)];
    store.commit(change).await.unwrap();
    let found = store.artefacts(&id("T-1")).await.unwrap();
    assert_eq!(found, [artefact("builder", 30), artefact("reviewer", 20)]);
}

pub async fn the_next_job_is_claimed_with_the_decision(house: TestStore) {
    let store = house.store;
    let mut change = creation(blank("T-1"));
    change.effects = vec![build(1)];
    change.then = Some(ask("build"));
    let CommitOutcome::Written { claimed, .. } = store.commit(change).await.unwrap() else {
        panic!("it was never asked before");
    };
    assert_eq!(claimed[0].ticket, Some(id("T-1")));
    assert!(store.claim(&ask("build")).await.unwrap().is_empty());
    let ticket = with_build(&*store, "T-2").await;
    assert_eq!(
        claim_one(&*store, &ask("build")).await.ticket,
        Some(ticket.id)
    );
}

pub async fn text_with_nul_is_kept_without_it(house: TestStore) {
    let store = house.store;
    let mut ticket = blank("T-1");
    ticket.spec.title = String::from("a\0b");
    store.commit(creation(ticket.clone())).await.unwrap();
    let page = store
        .tickets(&TicketQuery::default(), &Page::default())
        .await
        .unwrap();
    assert_eq!(page.items[0].title, "ab");
    // The body is JSON, where NUL is an escape: it comes back whole.
    assert_eq!(
        store.ticket(&id("T-1")).await.unwrap().unwrap().ticket,
        ticket
    );
}

/// An open must-fix finding shows in the list until it is fixed.
pub async fn findings_and_rounds_follow_the_ticket(house: TestStore) {
    let store = house.store;
    let mut change = creation(blank("T-1"));
    change.ticket.ledger = serde_json::from_value(json!([finding("open")])).unwrap();
    change.ticket.rounds = serde_json::from_value(json!([round()])).unwrap();
    store.commit(change.clone()).await.unwrap();
    assert_eq!(open_must_fix(&*store).await, 1);
    // The same again writes nothing new, and is no mistake.
    let mut next = step(&change.ticket, waived());
    store.commit(next.clone()).await.unwrap();
    next = step(&next.ticket, waived());
    next.ticket.ledger = serde_json::from_value(json!([finding("fixed")])).unwrap();
    store.commit(next.clone()).await.unwrap();
    assert_eq!(open_must_fix(&*store).await, 0);
    let stored = store.ticket(&id("T-1")).await.unwrap().unwrap();
    assert_eq!(stored.ticket, next.ticket);
}

async fn open_must_fix(store: &dyn Store) -> u32 {
    let all = TicketQuery::default();
    let page = store.tickets(&all, &Page::default()).await.unwrap();
    page.items[0].open_must_fix
}

fn finding(status: &str) -> serde_json::Value {
    json!({
        "id": "F1", "fingerprint": "f00", "reported_by": ["reviewer"],
        "first_round": 1, "last_round": 1, "status": status,
        "blocking": false, "untouched": false, "note": null, "history": [],
        "finding": {
            "title": "Password in the log", "file": "src/a.rs", "line": 12,
            "rating": { "severity": "high", "raw": "HIGH" },
            "category": "security", "actionable": true,
        },
    })
}

fn round() -> serde_json::Value {
    json!({
        "number": 1, "allowed": 3, "commit": "c0ffee", "tree": "7ee", "review_started_at": 4, "decided_at": 5,
        "verdict": {
            "approved": false, "gates": [], "claims": {}, "disagreement": null,
            "open_must_fix": 1, "follow_ups": [], "overall_score": 60,
        },
        "panel": [], "checks": [],
        "usage": { "usd_micros": 1, "tokens": 2, "wall_ms": 3 },
    })
}

fn remembered(key: &str, hash: &str) -> Remembered {
    Remembered {
        key: key.to_owned(),
        payload_hash: hash.to_owned(),
        answer: json!({ "answer": hash }),
    }
}

fn all_of(ticket: &str) -> EventQuery {
    EventQuery {
        ticket: Some(id(ticket)),
        most: 100,
        ..EventQuery::default()
    }
}

fn names(rows: &[store::TicketRow]) -> Vec<String> {
    rows.iter().map(|row| row.id.to_string()).collect()
}
