//! Opens an `SQLite` file: durable settings, migrations, and clear errors if it cannot be used.
//!
//! It refuses a file of another program, a schema of a newer version, and a version of `SQLite`
//! that can corrupt data. Each refusal says what to do.

use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::error::Error;
use crate::settings::Settings;

use super::identity;

/// Minimum version: from 3.7.0 to 3.51.2 a checkpoint during a write could corrupt the file.
const VERSION_MIN: i32 = 3_051_003;

/// `application_id` of the file; refuses databases of other programs.
const APPLICATION_ID: i32 = 0x4353_676e;

/// Migrations in order; the schema version is the number of applied ones.
const MIGRATIONS: [&str; 12] = [
    include_str!("../../migrations/sqlite/0001_first.sql"),
    include_str!("../../migrations/sqlite/0002_tokens.sql"),
    include_str!("../../migrations/sqlite/0003_bookmarks.sql"),
    include_str!("../../migrations/sqlite/0004_parcels.sql"),
    include_str!("../../migrations/sqlite/0005_run_tokens.sql"),
    include_str!("../../migrations/sqlite/0006_provider_limits.sql"),
    include_str!("../../migrations/sqlite/0007_callers.sql"),
    include_str!("../../migrations/sqlite/0008_identity.sql"),
    include_str!("../../migrations/sqlite/0009_claims.sql"),
    include_str!("../../migrations/sqlite/0010_statements.sql"),
    include_str!("../../migrations/sqlite/0011_sessions.sql"),
    include_str!("../../migrations/sqlite/0012_forge_states.sql"),
];

// A statement that falls out of the cache has to be parsed and planned again.
const STATEMENTS_MAX: usize = 128;

/// Maximum retries of [`turn_to_wal`] when several processes open a new file at the same time.
const TURNS_MAX: u32 = 64;

/// Opens the write connection. Creates the file and its schema if there is none.
pub(super) fn writer(path: &Path, settings: &Settings) -> Result<Connection, Error> {
    version_is_sound(rusqlite::version_number(), rusqlite::version())?;
    make_parent(path)?;
    // Before the file is created: an empty database at this path would hide that one was lost.
    identity::check_may_create(path)?;
    // SQLite creates files with the process's umask, which usually lets others read.
    make_privately(path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        // Each connection is used by one thread at a time, so SQLite's own mutex would only cost
        // time.
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, flags).map_err(|error| opening(path, error))?;
    prepare(&mut db, path, settings).map_err(|error| error.at(path))?;
    Ok(db)
}

/// Creates the directory of a database.
pub(super) fn make_parent(path: &Path) -> Result<(), Error> {
    let Some(parent) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) else {
        return Ok(());
    };
    // The directory holds briefs and tokens' hashes; other users of the machine must not list it.
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(parent)
        .map_err(|error| cannot_write(path, &error.to_string()))
}

/// Creates the file readable only by its owner. `SQLite` gives the `-wal` and `-shm` files the same
/// mode.
fn make_privately(path: &Path) {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    // The file may exist already; any other error shows when SQLite opens it next.
    let _ = options.open(path);
}

/// Opens a read-only connection.
pub(super) fn reader(path: &Path, settings: &Settings) -> Result<Connection, Error> {
    // A read-only connection cannot create the file, and a mistake in a query cannot write.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(|error| opening(path, error))?;
    tune(&db, settings)?;
    Ok(db)
}

fn tune(db: &Connection, settings: &Settings) -> rusqlite::Result<()> {
    db.busy_timeout(settings.busy_timeout)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Otherwise SQLite plans a statement again whenever a bound value, such as a LIMIT, might make
    // another plan better: that took a third of the writer's time.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

pub(super) fn version_is_sound(number: i32, name: &str) -> Result<(), Error> {
    if number >= VERSION_MIN {
        return Ok(());
    }
    Err(Error::Other(format!(
        "this program was built with SQLite {name}, which can corrupt a database; build it with 3.51.3 or newer"
    )))
}

fn opening(path: &Path, error: rusqlite::Error) -> Error {
    if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) {
        return cannot_write(path, &error.to_string());
    }
    Error::from(error).at(path)
}

fn cannot_write(path: &Path, why: &str) -> Error {
    Error::ReadOnly(format!(
        "{}: {why}; make the file and its directory writable, or name another with --data-dir",
        path.display()
    ))
}

fn prepare(db: &mut Connection, path: &Path, settings: &Settings) -> Result<(), Error> {
    tune(db, settings)?;
    // SQLite opens a file without write permission as read-only instead of failing.
    if db.is_readonly("main")? {
        return Err(Error::ReadOnly(
            "the file is read-only; make it writable, or name another with --data-dir".to_owned(),
        ));
    }
    // WAL lets readers work while the writer commits.
    turn_to_wal(db).map_err(|error| match error.sqlite_error_code() {
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly) => cannot_write(path, &error.to_string()),
        _ => Error::from(error),
    })?;
    // FULL: with NORMAL a power cut can lose an acknowledged commit.
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "foreign_keys", true)?;
    // Savepoints keep their undo log in the temp store; on disk it would cost more than the commit.
    db.pragma_update(None, "temp_store", "MEMORY")?;
    // After a long read the WAL can grow large; without a limit the file keeps that size for ever.
    db.pragma_update(None, "journal_size_limit", 64 << 20)?;
    migrate(db)
}

/// Switches to WAL. When several processes open a new file at the same time, `SQLite` refuses all
/// but one at once and ignores the busy timeout, because each reads and none may become the writer.
/// A refused process waits for a write lock (with the busy timeout) and tries again; by then
/// another process has usually switched the mode.
fn turn_to_wal(db: &Connection) -> rusqlite::Result<()> {
    let switch = || db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()));
    for _ in 0..TURNS_MAX {
        match switch() {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                db.execute_batch("BEGIN IMMEDIATE; ROLLBACK")?;
            }
            result => return result,
        }
    }
    switch()
}

/// Returns the schema version of a database of ours. Fails for one of another program, and for one
/// of a newer version.
pub(super) fn require_known_schema(db: &Connection) -> Result<i64, Error> {
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    let found: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let owner: i32 = db.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    if owner != APPLICATION_ID {
        return Err(Error::Other(
            "this is not a database of Countersign; name another file".to_owned(),
        ));
    }
    if found > known {
        return Err(Error::NewerSchema { found, known });
    }
    Ok(found)
}

fn migrate(db: &mut Connection) -> Result<(), Error> {
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    // IMMEDIATE, so that one of two programs that start at the same time waits for the other.
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found: i64 = tx.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let owner: i32 = tx.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let tables: i64 = tx.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    // An empty file has no owner yet, so only a file with tables is refused.
    if owner != APPLICATION_ID && tables > 0 {
        return Err(Error::Other(
            "this database belongs to another program; name another file".to_owned(),
        ));
    }
    // A newer program may have written columns that this one would ignore and lose.
    if found > known {
        return Err(Error::NewerSchema { found, known });
    }
    let applied = usize::try_from(found).unwrap_or(0);
    if applied == MIGRATIONS.len() {
        return Ok(());
    }
    // All migrations are one transaction: a crash leaves the old schema or the new one.
    for migration in MIGRATIONS.iter().skip(applied) {
        tx.execute_batch(migration)?;
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", known)?;
    tx.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::version_is_sound;

    #[test]
    fn the_bundled_sqlite_is_one_that_does_not_corrupt() {
        version_is_sound(rusqlite::version_number(), rusqlite::version()).unwrap();
        assert!(version_is_sound(3_051_002, "3.51.2").is_err());
    }
}
