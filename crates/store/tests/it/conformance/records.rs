//! Messages, heartbeats, epics, tokens.

use std::time::Duration;

use flow::Time;
use flow::attempt::CallerState;
use flow::event::Lease;
use serde_json::json;
use store::{
    Agent, CallerRecord, ClaimStatement, Cursor, CursorMove, Epic, ForgeState, FreeJob, NewMessage,
    RuleUpdate, StatementKind, Store, StoredBundle, Token,
};

use crate::support::{TestStore, blank, creation, id};

pub async fn a_message_is_processed_once(house: TestStore) {
    let message = |content: &str| NewMessage {
        at: Time(1),
        from: "worker".to_owned(),
        to: "ada".to_owned(),
        kind: "question".to_owned(),
        ticket: Some(id("T-1")),
        content: content.to_owned(),
    };
    let first = house.store.send(message("first")).await.unwrap();
    house.store.send(message("second")).await.unwrap();
    let open = house.store.messages("ada", 1).await.unwrap();
    assert_eq!((open[0].id, &open[0].message), (first, &message("first")));
    assert!(house.store.messages("bob", 10).await.unwrap().is_empty());

    let mut markers = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let store = house.another().await;
        markers.spawn(async move { store.mark_processed(first, Time(2)).await.unwrap() });
    }
    let marked = markers.join_all().await;
    assert_eq!(marked.iter().filter(|won| **won).count(), 1);
    let open = house.store.messages("ada", 10).await.unwrap();
    assert_eq!(open.len(), 1);
    assert_eq!(open[0].message.content, "second");
}

fn caller(session: &str, version: u64, open: &str) -> CallerRecord {
    CallerRecord {
        token: "t1".to_owned(),
        session: session.to_owned(),
        version,
        state: CallerState {
            open: Some(open.to_owned()),
            ..CallerState::default()
        },
    }
}

pub async fn a_caller_is_written_by_who_read_it_last(house: TestStore) {
    let store = &house.store;
    assert_eq!(store.caller("t1", "").await.unwrap(), None);
    let mut writers = tokio::task::JoinSet::new();
    for n in 0..10 {
        let store = house.another().await;
        let new = caller("", 0, &format!("greet/{n}/1"));
        writers.spawn(async move { store.put_caller(new).await.unwrap() });
    }
    let written = writers.join_all().await;
    assert_eq!(written.iter().filter(|won| **won).count(), 1);
    let known = store.caller("t1", "").await.unwrap().unwrap();
    assert_eq!(known.version, 1);
    assert!(store.put_caller(caller("", 1, "greet/1/2")).await.unwrap());
    assert!(!store.put_caller(caller("", 1, "greet/1/3")).await.unwrap());
    let known = store.caller("t1", "").await.unwrap();
    assert_eq!(known, Some(caller("", 2, "greet/1/2")));
    assert_eq!(store.caller("t1", "other").await.unwrap(), None);
    assert_eq!(store.caller("t2", "").await.unwrap(), None);
}

pub async fn the_state_of_a_forge_is_written_by_its_last_reader(house: TestStore) {
    let store = &house.store;
    let new = store.forge_state("poll/app").await.unwrap();
    assert_eq!((new.version, &new.body), (0, &json!(null)));
    let mut writers = tokio::task::JoinSet::new();
    for n in 0..10 {
        let store = house.another().await;
        let state = ForgeState {
            body: json!({ "cursor": n }),
            ..new.clone()
        };
        writers.spawn(async move { store.put_forge_state(state).await.unwrap() });
    }
    let written = writers.join_all().await;
    assert_eq!(written.iter().filter(|won| **won).count(), 1);
    let mut known = store.forge_state("poll/app").await.unwrap();
    assert_eq!(known.version, 1);
    known.body = json!({"etag": "\"1\""});
    assert!(store.put_forge_state(known.clone()).await.unwrap());
    assert!(!store.put_forge_state(known.clone()).await.unwrap());
    let other = ForgeState {
        name: "poll/application".to_owned(),
        ..new
    };
    assert!(store.put_forge_state(other).await.unwrap());
    let found = store.forge_state("poll/app").await.unwrap();
    assert_eq!((found.version, found.body), (2, known.body));
    let names = store.forge_states("poll/", 10).await.unwrap().into_iter();
    let names: Vec<String> = names.map(|state| state.name).collect();
    assert_eq!(names, ["poll/app", "poll/application"]);
    assert!(store.forge_states("rate/", 10).await.unwrap().is_empty());
}

pub async fn the_newest_sessions_of_a_token_are_kept(house: TestStore) {
    let store = house.store;
    assert!(store.put_caller(caller("", 0, "greet/1/1")).await.unwrap());
    for n in 0..150 {
        let new = caller(&format!("s{n:03}"), 0, "greet/1/1");
        assert!(store.put_caller(new).await.unwrap());
    }
    let mut kept = 0;
    for n in 0..150 {
        let found = store.caller("t1", &format!("s{n:03}")).await.unwrap();
        kept += usize::from(found.is_some());
    }
    assert!((100..=101).contains(&kept), "{kept}");
    assert!(store.caller("t1", "s149").await.unwrap().is_some());
    // The token's own record is none of them.
    assert!(store.caller("t1", "").await.unwrap().is_some());
}

pub async fn the_last_heartbeat_is_seen(house: TestStore) {
    let store = house.store;
    let beat = |name: &str, at| Agent {
        name: name.to_owned(),
        role: "builder".to_owned(),
        seen_at: Time(at),
        body: json!({ "job": at }),
    };
    for agent in [beat("qa-1", 1), beat("qa-2", 1), beat("qa-1", 5)] {
        store.beat(agent).await.unwrap();
    }
    assert_eq!(
        store.agents().await.unwrap(),
        [beat("qa-1", 5), beat("qa-2", 1)]
    );
}

pub async fn one_reader_at_a_time_goes_on_from_a_cursor(house: TestStore) {
    let place = |sequence| Cursor {
        transaction: 0,
        sequence,
    };
    let (one, two) = (house.another().await, house.store);
    let long = Duration::from_secs(60);
    let take = async |store: &dyn Store, who| {
        let start = place(if who == "one" { 3 } else { 9 });
        let start = CursorMove::StartAt(start);
        store.lease_cursor("ops", who, start, long).await.unwrap()
    };
    assert_eq!(take(&*one, "one").await, Some(place(3)));
    assert_eq!(take(&*one, "one").await, Some(place(3)));
    assert_eq!(take(&*two, "two").await, None);
    let moved = two
        .lease_cursor("ops", "two", CursorMove::To(place(5)), long)
        .await;
    assert_eq!(moved.unwrap(), None);
    // Moved with a lease that is over at once, it is anybody's.
    let moved = one.lease_cursor("ops", "one", CursorMove::To(place(7)), Duration::ZERO);
    assert_eq!(moved.await.unwrap(), Some(place(7)));
    assert_eq!(take(&*two, "two").await, Some(place(7)));
    let late = one
        .lease_cursor("ops", "one", CursorMove::To(place(8)), long)
        .await;
    assert_eq!(late.unwrap(), None);
}

pub async fn a_job_is_found_by_its_key(house: TestStore) {
    let store = house.store;
    let job = FreeJob {
        queue: "qa".into(),
        kind: "review".to_owned(),
        body: json!({"id": "t"}),
        priority: 50,
        not_before: None,
        agent: None,
        key: Some("task/t".to_owned()),
        queue_max: None,
        needs: std::collections::BTreeSet::new(),
        depends_on: Vec::new(),
    };
    let id = store.enqueue(vec![job]).await.unwrap()[0];
    let found = store.job_by_key("task/t").await.unwrap().unwrap();
    assert_eq!((found.id, found.queue.name()), (id, "qa"));
    assert_eq!(store.job_by_key("task/u").await.unwrap(), None);
}

pub async fn epics_are_put_and_listed(house: TestStore) {
    let store = house.store;
    let epic = |title: &str| Epic {
        id: "E-1".to_owned(),
        title: title.to_owned(),
        body: json!({ "requirements": ["one", "two"] }),
        updated_at: Time(1),
    };
    store.put_epic(epic("first")).await.unwrap();
    store.put_epic(epic("second")).await.unwrap();
    assert_eq!(store.epics().await.unwrap(), [epic("second")]);
}

pub fn token(id: &str, at: i64) -> Token {
    Token {
        id: id.to_owned(),
        hash: format!("hash of {id}"),
        agent: "qa-1".to_owned(),
        principal: "qa".to_owned(),
        role: "reviewer".to_owned(),
        family: Some("openai".to_owned()),
        ticket: Some(crate::support::id("T-1")),
        lease: None,
        created_by: "ada".to_owned(),
        created_at: Time(at),
        expires_at: Some(Time(90)),
        revoked_at: None,
        kind: store::TokenKind::Bearer,
        parent: None,
        uses: 0,
    }
}

pub async fn a_token_is_known_by_its_hash_until_it_is_revoked_and_after(house: TestStore) {
    let store = house.store;
    let newest = store::TokenQuery {
        hash: None,
        kind: store::TokenKind::Bearer,
        most: 10,
    };
    for token in [token("a", 1), token("b", 2)] {
        store.put_token(token).await.unwrap();
    }
    for again in [
        token("a", 3),
        Token {
            id: "c".to_owned(),
            ..token("b", 3)
        },
    ] {
        assert!(store.put_token(again).await.is_err());
    }
    assert_eq!(store.token("hash of a").await.unwrap(), Some(token("a", 1)));
    assert_eq!(store.token("hash of x").await.unwrap(), None);
    assert!(store.revoke("a", Time(5)).await.unwrap());
    assert!(!store.revoke("a", Time(6)).await.unwrap());
    assert!(!store.revoke("x", Time(6)).await.unwrap());
    let revoked = Token {
        revoked_at: Some(Time(5)),
        ..token("a", 1)
    };
    assert_eq!(
        store.tokens(&newest).await.unwrap(),
        [token("b", 2), revoked.clone()]
    );
    assert_eq!(
        store.token("hash of a").await.unwrap(),
        Some(revoked.clone())
    );
    // Those of runs come and go.
    let run = |id: &str, at| Token {
        lease: Some(Lease {
            serial: 7,
            fence: 3,
        }),
        ..token(id, at)
    };
    for (id, at) in [("r1", 7), ("r2", 8)] {
        store.put_token(run(id, at)).await.unwrap();
    }
    assert_eq!(store.token("hash of r1").await.unwrap(), Some(run("r1", 7)));
    assert!(store.revoke("r1", Time(9)).await.unwrap());
    store.put_token(run("r3", 10)).await.unwrap();
    let left = [run("r3", 10), run("r2", 8), token("b", 2), revoked.clone()];
    assert_eq!(store.tokens(&newest).await.unwrap(), left);
    let late = Token {
        expires_at: Some(Time(200)),
        ..run("r4", 90)
    };
    store.put_token(late.clone()).await.unwrap();
    let left = [late, token("b", 2), revoked];
    assert_eq!(store.tokens(&newest).await.unwrap(), left);
}

pub async fn a_shared_link_counts_its_uses_and_outlives_its_end(house: TestStore) {
    const MONTH: i64 = 30 * 24 * 3_600_000;
    let store = house.store;
    let link = |id: &str, at| Token {
        kind: store::TokenKind::SharedLink,
        ..token(id, at)
    };
    for (id, at) in [("l1", 1), ("l2", 2)] {
        store.put_token(link(id, at)).await.unwrap();
    }
    let used = |id: &'static str| store.change_token(id, store::TokenChange::CountUse);
    assert!(used("l1").await.unwrap() && used("l1").await.unwrap());
    assert!(store.revoke("l1", Time(5)).await.unwrap());
    // A revoked link counts no more, and one that is not there counts nothing.
    assert!(!used("l1").await.unwrap() && !used("l9").await.unwrap());
    let ended = Token {
        uses: 2,
        revoked_at: Some(Time(5)),
        ..link("l1", 1)
    };
    store.put_token(link("l3", 200)).await.unwrap();
    assert_eq!(store.token("hash of l1").await.unwrap(), Some(ended));
    assert_eq!(
        store.token("hash of l2").await.unwrap(),
        Some(link("l2", 2))
    );
    store.put_token(link("l4", 91 + MONTH)).await.unwrap();
    for id in ["l1", "l2", "l3"] {
        let hash = format!("hash of {id}");
        assert_eq!(store.token(&hash).await.unwrap(), None, "{id}");
    }
}

pub async fn a_session_is_extended_within_the_life_of_its_token(house: TestStore) {
    let store = house.store;
    let parent = Token {
        expires_at: Some(Time(500)),
        ..token("p1", 1)
    };
    let session = |id: &str, parent: Option<&str>| Token {
        kind: store::TokenKind::Session,
        parent: parent.map(str::to_owned),
        expires_at: Some(Time(100)),
        ..token(id, 1)
    };
    store.put_token(parent).await.unwrap();
    let (bound, free) = (session("s1", Some("p1")), session("s2", None));
    for one in [&bound, &free] {
        store.put_token(one.clone()).await.unwrap();
    }
    let extend = |id: &'static str, until| {
        let change = store::TokenChange::Extend(Time(until));
        store.change_token(id, change)
    };
    assert!(extend("s1", 500).await.unwrap());
    assert!(!extend("s1", 501).await.unwrap(), "its token ends before");
    assert!(extend("s2", 900).await.unwrap());
    assert!(!extend("s9", 900).await.unwrap(), "there is none");
    assert!(store.revoke("s2", Time(5)).await.unwrap());
    assert!(!extend("s2", 950).await.unwrap(), "it is revoked");
    for (id, until) in [("s1", 500), ("s2", 900)] {
        let stored = store.token(&format!("hash of {id}")).await.unwrap();
        assert_eq!(stored.unwrap().expires_at, Some(Time(until)), "{id}");
    }
}

pub async fn the_store_says_what_it_is(house: TestStore) {
    let what = house.store.database().await.unwrap().description;
    assert!(what.contains(" at "), "{what}");
    assert!(house.store.now().await.unwrap() > Time(1_700_000_000_000));
}

pub async fn a_bundle_is_wanted_put_and_taken(house: TestStore) {
    let store = house.store;
    store.want_bundle("base:main:/srv/repos/app").await.unwrap();
    store.want_bundle("base:main:/srv/repos/app").await.unwrap();
    let wanted = store.wanted_bundles(10).await.unwrap();
    assert_eq!(wanted, ["base:main:/srv/repos/app"]);
    let asked = store.bundle(&wanted[0]).await.unwrap().unwrap();
    assert_eq!(asked.bytes, None);
    let bundle = StoredBundle {
        key: wanted[0].clone(),
        tip: "abc".to_owned(),
        why: None,
        bytes: Some(vec![0, 1, 255]),
    };
    store.put_bundle(bundle.clone()).await.unwrap();
    assert!(store.wanted_bundles(10).await.unwrap().is_empty());
    assert_eq!(
        store.bundle(&bundle.key).await.unwrap(),
        Some(bundle.clone())
    );
    store.want_bundle(&bundle.key).await.unwrap();
    assert_eq!(store.wanted_bundles(10).await.unwrap().len(), 1);
    let still = store.bundle(&bundle.key).await.unwrap().unwrap();
    assert_eq!(
        still.bytes, bundle.bytes,
        "the old one serves until the new one is there"
    );
    assert_eq!(store.bundle("other").await.unwrap(), None);
}

pub async fn what_is_said_under_a_claim_is_kept_for_that_claim(house: TestStore) {
    let store = house.store;
    store.commit(creation(blank("T-1"))).await.unwrap();
    let lease = |serial, fence| Lease { serial, fence };
    let say = async |lease, kind: StatementKind, text: &str| {
        let statement = ClaimStatement {
            ticket: id("T-1"),
            lease,
            kind,
            at: Time(5),
            by: "bea".to_owned(),
            text: text.to_owned(),
        };
        store.add_statement(statement.clone()).await.unwrap();
        statement
    };
    let dispute = StatementKind::Dispute {
        finding: "F1".to_owned(),
    };
    let first = say(lease(1, 2), dispute, "no").await;
    let second = say(lease(1, 2), StatementKind::ChangesRequested, "b").await;
    say(lease(1, 3), StatementKind::Approved, "c").await;
    let said = store.statements(&id("T-1"), lease(1, 2), 9).await.unwrap();
    assert_eq!(said, [first.clone(), second]);
    let said = store.statements(&id("T-1"), lease(1, 2), 1).await.unwrap();
    assert_eq!(said, [first]);
    let none = store.statements(&id("T-2"), lease(1, 2), 9).await.unwrap();
    assert!(none.is_empty());
}

pub async fn a_rule_is_in_force_until_it_is_withdrawn(house: TestStore) {
    let store = house.store;
    let answer = |repository: &str, accepted, text: &str| RuleUpdate::Answer {
        repository: repository.to_owned(),
        accepted,
        text: text.to_owned(),
        by: "ada".to_owned(),
        at: Time(5),
    };
    for rule in [
        answer("/a", true, "one"),
        answer("/a", false, "two"),
        answer("/b", true, "three"),
    ] {
        assert!(store.update_rule(rule).await.unwrap());
    }
    let texts = async |repository: &str| {
        let rules = store.rules(repository, 9).await.unwrap().into_iter();
        rules
            .map(|rule| (rule.accepted, rule.text))
            .collect::<Vec<_>>()
    };
    let (one, two) = ((true, "one".to_owned()), (false, "two".to_owned()));
    assert_eq!(texts("/a").await, [one, two.clone()]);
    let id = store.rules("/a", 1).await.unwrap()[0].id;
    let withdraw = RuleUpdate::Withdraw { id, at: Time(6) };
    assert!(store.update_rule(withdraw.clone()).await.unwrap());
    assert!(!store.update_rule(withdraw).await.unwrap());
    assert_eq!(texts("/a").await, [two]);
    assert_eq!(texts("/b").await.len(), 1);
}
