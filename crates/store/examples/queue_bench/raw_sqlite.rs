//! Baseline for `SQLite`: the same steps on minimal tables, without writer thread, channel, lease
//! or fence.

use rusqlite::{Connection, OptionalExtension, params};
use tempfile::TempDir;
use tokio::time::Instant;

/// Measures jobs per second. Each job is two operations: enqueue; complete and claim the next.
pub fn jobs_per_second(jobs: u32, operations: u32) -> f64 {
    let (_directory, db) = fresh();
    let began = Instant::now();
    let mut job = None;
    let pairs = (operations / 2).max(1);
    for _ in 0..jobs / pairs {
        if operations == 1 {
            begin(&db);
            put_in(&db);
            commit(&db);
            begin(&db);
            job = turn(&db, job);
            commit(&db);
            continue;
        }
        begin(&db);
        for _ in 0..pairs {
            put_in(&db);
            job = turn(&db, job);
        }
        commit(&db);
    }
    f64::from(jobs) / began.elapsed().as_secs_f64()
}

pub fn fresh() -> (TempDir, Connection) {
    let directory = tempfile::tempdir_in(".").unwrap();
    let db = Connection::open(directory.path().join("raw.db")).unwrap();
    db.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
        CREATE TABLE jobs (id INTEGER PRIMARY KEY, queue TEXT, state TEXT, priority INTEGER,
            holder TEXT, until INTEGER, body TEXT) STRICT;
        CREATE INDEX ready ON jobs (queue, priority DESC, id) WHERE state = 'ready';
        CREATE TABLE events (sequence INTEGER PRIMARY KEY, at INTEGER, name TEXT, body TEXT) STRICT;",
    )
    .unwrap();
    (directory, db)
}

pub fn begin(db: &Connection) {
    let mut begin = db.prepare_cached("BEGIN IMMEDIATE").unwrap();
    begin.execute([]).unwrap();
}

pub fn commit(db: &Connection) {
    db.prepare_cached("COMMIT").unwrap().execute([]).unwrap();
}

pub fn put_in(db: &Connection) {
    db.prepare_cached(
        "INSERT INTO jobs (queue, state, priority, body) VALUES ('work', 'ready', 50, '{\"n\":1}')",
    )
    .unwrap()
    .execute([])
    .unwrap();
    note(db, "enqueued", db.last_insert_rowid());
}

pub fn turn(db: &Connection, job: Option<i64>) -> Option<i64> {
    if let Some(id) = job {
        db.prepare_cached("UPDATE jobs SET state = 'done' WHERE id = ?1")
            .unwrap()
            .execute([id])
            .unwrap();
        note(db, "done", id);
    }
    let next: i64 = db
        .prepare_cached(
            "SELECT id FROM jobs WHERE state = 'ready' AND queue = 'work'
            ORDER BY priority DESC, id LIMIT 1",
        )
        .unwrap()
        .query_row([], |row| row.get(0))
        .optional()
        .unwrap()?;
    db.prepare_cached("UPDATE jobs SET state = 'leased', holder = 'raw', until = 1 WHERE id = ?1")
        .unwrap()
        .execute([next])
        .unwrap();
    note(db, "claimed", next);
    Some(next)
}

fn note(db: &Connection, name: &str, job: i64) {
    db.prepare_cached(
        "INSERT INTO events (at, name, body) VALUES (1, ?1, '{\"job\":' || ?2 || '}')",
    )
    .unwrap()
    .execute(params![name, job])
    .unwrap();
}
