//! Copies a database file while programs use it, and puts a copy back.
//!
//! A plain copy of the file would miss the commits that are still in its `-wal` file. `SQLite`'s
//! backup interface copies all pages in one read transaction: the copy is the database at one
//! moment, and writers go on meanwhile.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::error::Error;
use crate::settings::Settings;

use super::space::sibling_path;
use super::{identity, open};

/// Time between two attempts to begin a copy while the database is locked.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// Replaced databases that are kept; then the newest of them is overwritten.
const REPLACED_MAX: u32 = 1000;

/// A copy of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseCopy {
    pub bytes: u64,
    /// Schema version of the copy.
    pub schema: i64,
    /// Number of events in its log.
    pub events: u64,
    /// Path under which a replaced database is kept.
    pub replaced: Option<PathBuf>,
}

/// Writes a copy of the database to a new file that only its owner can read. With `replace` it may
/// replace an earlier copy.
pub fn backup(database: &Path, file: &Path, replace: bool) -> Result<DatabaseCopy, Error> {
    if !database.exists() {
        return Err(Error::Other(format!(
            "there is no database at {}",
            database.display()
        )));
    }
    if file.exists() && !replace {
        return Err(Error::Other(format!("{} exists", file.display())));
    }
    let part = part_of(file);
    // The name under which it is written says nothing to the user.
    let parent = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    if let Some(parent) = parent.filter(|dir| !dir.is_dir()) {
        let why = format!("there is no directory {}", parent.display());
        return Err(Error::Other(why));
    }
    let result = copy_into(database, &part).and_then(|()| {
        let copy = check(&part)?;
        fs::rename(&part, file).map_err(|error| at(file, &error))?;
        sync_dir(file);
        Ok(copy)
    });
    if result.is_err() {
        // The error that is returned says more than a failure to tidy up.
        let _ = fs::remove_file(&part);
    }
    result
}

/// Puts a copy in the place of a database that no program uses. With `replace` an existing database
/// is kept next to it under another name.
pub fn restore(file: &Path, database: &Path, replace: bool) -> Result<DatabaseCopy, Error> {
    if !file.exists() {
        return Err(Error::Other(format!("{} does not exist", file.display())));
    }
    if file.is_dir() {
        return Err(Error::Other(format!("{} is a directory", file.display())));
    }
    // Everything that can be wrong with the copy is found before anything is changed.
    let mut copy = check(file)?;
    let is_replaced = fs::metadata(database).is_ok_and(|metadata| metadata.len() > 0);
    if is_replaced {
        if !replace {
            return Err(Error::Other(format!(
                "there is a database at {} already",
                database.display()
            )));
        }
        require_unused(database)?;
    }
    open::make_parent(database)?;
    let part = part_of(database);
    let result = copy_into(file, &part).and_then(|()| {
        if is_replaced {
            let aside = free_name(database);
            fs::rename(database, &aside).map_err(|error| at(&aside, &error))?;
            // A sound database has left it empty; a damaged one may have its newest commits there.
            let journal = sibling_path(database, "wal");
            if journal.exists() {
                let kept = sibling_path(&aside, "wal");
                fs::rename(&journal, &kept).map_err(|error| at(&kept, &error))?;
            }
            copy.replaced = Some(aside);
        }
        // They belong to the old file. The next program writes the mark for the new one.
        for old in [
            sibling_path(database, "wal"),
            sibling_path(database, "shm"),
            identity::mark(database),
        ] {
            match fs::remove_file(&old) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(at(&old, &error));
                }
                Ok(()) | Err(_) => {}
            }
        }
        fs::rename(&part, database).map_err(|error| at(database, &error))?;
        sync_dir(database);
        Ok(copy)
    });
    if result.is_err() {
        // The error that is returned says more than a failure to tidy up.
        let _ = fs::remove_file(&part);
    }
    result
}

/// Returns the name under which a replaced database is kept. An earlier one is never overwritten: the
/// wrong copy may have been restored first.
fn free_name(database: &Path) -> PathBuf {
    let name = |number: u32| match number {
        1 => sibling_path(database, "replaced"),
        _ => sibling_path(database, &format!("replaced-{number}")),
    };
    let mut names = (1..=REPLACED_MAX).map(name);
    let free = names.find(|name| !name.exists());
    free.unwrap_or_else(|| name(REPLACED_MAX))
}

/// Copies all pages of a database into a new private file.
fn copy_into(from: &Path, part: &Path) -> Result<(), Error> {
    match fs::remove_file(part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(part, &error)),
        Ok(()) | Err(_) => {}
    }
    let mut options = OpenOptions::new();
    // Private from the first byte on: the database has hashes of tokens and texts of tickets.
    let created = options.write(true).create_new(true).mode(0o600).open(part);
    drop(created.map_err(|error| at(part, &error))?);
    let source = open::reader(from, &Settings::default())?;
    let mut target = Connection::open(part)?;
    let backup = Backup::new(&source, &mut target)?;
    // All pages in one step, so that a writer cannot make it begin again.
    backup.run_to_completion(i32::MAX, RETRY_DELAY, None)?;
    drop(backup);
    // The copy of a WAL database is one too, and would need a second file to be read.
    target.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))?;
    target.close().map_err(|(_, error)| error)?;
    let synced = File::open(part).and_then(|file| file.sync_all());
    synced.map_err(|error| at(part, &error))
}

/// Checks that a file is a whole database of ours whose schema this program knows.
fn check(file: &Path) -> Result<DatabaseCopy, Error> {
    let inspect = || {
        // Immutable: nothing may be written next to somebody's copy.
        let name = format!("file:{}?immutable=1", uri_path(file));
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let db = Connection::open_with_flags(name, flags)?;
        let schema = open::require_known_schema(&db)?;
        let state: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if state != "ok" {
            return Err(Error::Other(format!("the copy is damaged: {state}")));
        }
        let events: i64 = db.query_row("SELECT count(*) FROM events", [], |row| row.get(0))?;
        Ok(DatabaseCopy {
            bytes: fs::metadata(file).map_or(0, |metadata| metadata.len()),
            schema,
            events: u64::try_from(events).unwrap_or(0),
            replaced: None,
        })
    };
    inspect().map_err(|error: Error| error.at(file))
}

/// Fails if any program has the database open. A program in WAL mode holds a shared lock for as long
/// as it has the file open, so leaving that mode needs the file alone.
fn require_unused(database: &Path) -> Result<(), Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let leave = || {
        let db = Connection::open_with_flags(database, flags)?;
        db.busy_timeout(Duration::ZERO)?;
        db.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))
    };
    match leave() {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
            Err(Error::Locked(format!(
                "a program uses {}; stop all servers, workers and runs first",
                database.display()
            )))
        }
        // A damaged database is the usual reason for a restore.
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns a path for `file:` names, in which three characters have a meaning.
fn uri_path(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let text = path.to_string_lossy();
    text.replace('%', "%25")
        .replace('?', "%3f")
        .replace('#', "%23")
}

/// Returns the name under which a file is written before it is complete.
fn part_of(file: &Path) -> PathBuf {
    sibling_path(file, &format!("{}-part", std::process::id()))
}

fn at(path: &Path, error: &io::Error) -> Error {
    Error::Other(format!("{}: {error}", path.display()))
}

/// Makes a rename durable. Not fatal: the content is on disk already.
fn sync_dir(file: &Path) {
    let parent = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    let synced = File::open(parent.unwrap_or(Path::new("."))).and_then(|dir| dir.sync_all());
    if let Err(error) = synced {
        tracing::warn!(%error, "could not sync the directory");
    }
}
