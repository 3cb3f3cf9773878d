//! A database of the first release is opened: what it kept under made-up addresses arrives in tables
//! of its own, and waiting jobs know what they need.

use flow::event::Lease;
use rusqlite::Connection;
use store::{ClaimRequest, JobQuery, Page, StatementKind, Store};

use crate::support::{
    LONG, TestStore, ask, blank, drop_schema, empty_schema, id, number, on_server, open,
};

/// The schema of the first release.
const SQLITE: [&str; 8] = [
    include_str!("../../migrations/sqlite/0001_first.sql"),
    include_str!("../../migrations/sqlite/0002_tokens.sql"),
    include_str!("../../migrations/sqlite/0003_bookmarks.sql"),
    include_str!("../../migrations/sqlite/0004_parcels.sql"),
    include_str!("../../migrations/sqlite/0005_run_tokens.sql"),
    include_str!("../../migrations/sqlite/0006_provider_limits.sql"),
    include_str!("../../migrations/sqlite/0007_callers.sql"),
    include_str!("../../migrations/sqlite/0008_identity.sql"),
];
const POSTGRES: [&str; 7] = [
    include_str!("../../migrations/postgres/0001_first.sql"),
    include_str!("../../migrations/postgres/0002_tokens.sql"),
    include_str!("../../migrations/postgres/0003_bookmarks.sql"),
    include_str!("../../migrations/postgres/0004_parcels.sql"),
    include_str!("../../migrations/postgres/0005_run_tokens.sql"),
    include_str!("../../migrations/postgres/0006_provider_limits.sql"),
    include_str!("../../migrations/postgres/0007_callers.sql"),
];

/// Rows as the first release wrote them, in SQL that both databases read.
fn rows() -> String {
    let mut ticket = blank("T-1");
    ticket.spec.context.needs.insert("gpu=yes".to_owned());
    let ticket = serde_json::to_string(&ticket).unwrap().replace('\'', "''");
    format!(
        "INSERT INTO tickets (id, version, stage, title, priority, round, waits_for, open_must_fix,
            usd_micros, created_at, updated_at, policy, body)
        VALUES ('T-1', 1, 'building', 'one', 50, 1, 0, 0, 0, 1, 1, 'p', '{ticket}');
        INSERT INTO jobs (queue, state, agent, priority, ticket, serial, tracked, kind, created_at,
            not_before, body)
        VALUES ('build', 'ready', '', 50, 'T-1', 3, true, 'build', 1, 0,
            '{{\"kind\":\"build\",\"round\":1}}');
        INSERT INTO jobs (queue, state, agent, priority, tracked, kind, created_at, not_before, key,
            body)
        VALUES ('qa', 'ready', '', 50, false, 'review', 1, 0, 'task/b',
                '{{\"id\":\"b\",\"depends_on\":[\"a\"],\"context\":{{\"needs\":[]}}}}'),
            ('qa', 'ready', '', 40, false, 'review', 1, 0, 'task/a',
                '{{\"id\":\"a\",\"context\":{{\"needs\":[\"gpu=yes\"]}}}}');
        INSERT INTO messages (at, sender, recipient, kind, ticket, content, processed_at)
        VALUES (11, 'bea', 'dispute:T-1/3/7', 'info', 'T-1', 'F1\nnot reachable\nat all', NULL),
            (12, 'bea', 'dispute:T-1/3/7', 'info', 'T-1', 'F2', NULL),
            (13, 'bea', 'dispute:T-1/3/70', 'info', 'T-1', 'F1\nanother claim', NULL),
            (14, 'rita', 'verdict:T-1/4/8/c0ffee', 'approved', 'T-1', 'good', NULL),
            (15, 'rita', 'verdict:T-1/4/8/c0ffee', 'changes_requested', 'T-1', 'but', NULL),
            (16, 'ada', 'house-rules-accepted:/srv/a.git', 'rule_accepted', NULL, 'test first', NULL),
            (17, 'ada', 'house-rules-accepted:/srv/a.git', 'rule_accepted', NULL, 'no more', 99),
            (18, 'ada', 'house-rules-rejected:/srv/a.git', 'rule_rejected', NULL, 'tabs', NULL),
            (19, 'ada', 'house-rules-accepted:/srv/b.git', 'rule_accepted', NULL, 'other', NULL),
            (20, 'bea', 'rita', 'question', 'T-1', 'when?', NULL);"
    )
}

async fn arrives(store: &dyn Store) {
    let said = async |serial, fence| {
        let lease = Lease { serial, fence };
        let said = store.statements(&id("T-1"), lease, 9).await.unwrap();
        let words = said.into_iter().map(|one| (one.kind, one.text, one.by));
        words.collect::<Vec<_>>()
    };
    let dispute = |finding: &str, text: &str| {
        let finding = finding.to_owned();
        let kind = StatementKind::Dispute { finding };
        (kind, text.to_owned(), "bea".to_owned())
    };
    let of_claim = [dispute("F1", "not reachable\nat all"), dispute("F2", "")];
    assert_eq!(said(3, 7).await, of_claim);
    assert_eq!(said(3, 70).await, [dispute("F1", "another claim")]);
    let rita = |kind, text: &str| (kind, text.to_owned(), "rita".to_owned());
    let verdict = [
        rita(StatementKind::Approved, "good"),
        rita(StatementKind::ChangesRequested, "but"),
    ];
    assert_eq!(said(4, 8).await, verdict);

    let rules = store.rules("/srv/a.git", 9).await.unwrap();
    let rules: Vec<(i64, bool, &str, i64)> = rules
        .iter()
        .map(|rule| (rule.id, rule.accepted, rule.text.as_str(), rule.at.0))
        .collect();
    assert_eq!(rules, [(6, true, "test first", 16), (8, false, "tabs", 18)]);
    assert_eq!(store.rules("/srv/b.git", 9).await.unwrap().len(), 1);

    // Letters stay letters, and nothing else is left among them.
    assert_eq!(store.messages("rita", 9).await.unwrap().len(), 1);
    for gone in ["dispute:T-1/3/7", "house-rules-accepted:/srv/a.git"] {
        assert!(store.messages(gone, 9).await.unwrap().is_empty());
    }
    waits_as_before(store).await;
}

async fn waits_as_before(store: &dyn Store) {
    let with = |queue: &str, labels: &[&str]| ClaimRequest {
        labels: Some(labels.iter().map(|label| (*label).to_owned()).collect()),
        limit: 9,
        ..ask(queue)
    };
    assert!(store.claim(&with("build", &[])).await.unwrap().is_empty());
    assert!(store.claim(&with("qa", &[])).await.unwrap().is_empty());
    let able = &["gpu=yes"];
    assert_eq!(store.claim(&with("build", able)).await.unwrap().len(), 1);
    let first = store.claim(&with("qa", able)).await.unwrap().remove(0);
    let by_key = store.job_by_key("task/a").await.unwrap().unwrap();
    assert_eq!(first.id, by_key.id);
    store.renew(first.id, first.fence, LONG).await.unwrap();
    assert!(store.claim(&with("qa", able)).await.unwrap().is_empty());
    let all = store.jobs(&JobQuery::default(), &Page::default()).await;
    assert_eq!(all.unwrap().items.len(), 3);
    number(store, "work", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_the_first_release_is_brought_up_to_date() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let old = Connection::open(&path).unwrap();
    for migration in SQLITE {
        old.execute_batch(migration).unwrap();
    }
    old.execute_batch(&rows()).unwrap();
    old.pragma_update(None, "application_id", 0x4353_676e)
        .unwrap();
    old.pragma_update(None, "user_version", 8).unwrap();
    drop(old);
    let place = path.display().to_string();
    arrives(&*open(&place).await).await;
    // The second time there is nothing to do.
    let rules = open(&place).await.rules("/srv/a.git", 9).await.unwrap();
    assert_eq!(rules.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_the_first_release_is_brought_up_to_date() {
    let Some(place) = empty_schema().await else {
        return;
    };
    for migration in POSTGRES {
        on_server(&place, migration).await;
    }
    let version = format!(
        "CREATE TABLE schema_version (version bigint NOT NULL);
        INSERT INTO schema_version VALUES ({})",
        POSTGRES.len()
    );
    on_server(&place, &version).await;
    on_server(&place, &rows()).await;
    let store = open(&place).await;
    arrives(&*store).await;
    drop(store);
    drop_schema(&TestStore::schema_of(&place).unwrap()).await;
}
