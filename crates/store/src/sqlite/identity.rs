//! Notices when the database file is deleted, replaced or cut short while a program works on it.
//!
//! `SQLite` goes on with the file that it has open, so a run would end well with a database that
//! nobody will find again. The file has a random id; a mark beside it repeats the id, so that the next
//! program does not silently begin with an empty database where there was one. While the store is
//! open, every read and every commit first compares what lies at the path with what was opened: a
//! `stat` of three files, which costs a few microseconds.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;

use rusqlite::Connection;

use crate::error::Error;

use super::space::beside;

/// An `SQLite` file has a header of so many bytes.
const HEADER_BYTES: u64 = 100;

/// The files that were opened.
#[derive(Debug)]
pub(super) struct DatabaseFiles {
    path: PathBuf,
    seen: Mutex<DatabaseFileIds>,
}

#[derive(Debug)]
struct DatabaseFileIds {
    main: Inode,
    /// Where `SQLite` keeps what is not in the main file yet, and who reads what.
    beside: [(PathBuf, Option<Inode>); 2],
    /// The main file never shrinks: it is never vacuumed.
    bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Inode {
    device: u64,
    number: u64,
}

impl Inode {
    fn of(found: &fs::Metadata) -> Self {
        Self {
            device: found.dev(),
            number: found.ino(),
        }
    }
}

/// Refuses to make an empty database where the mark says that there was one.
pub(super) fn may_be_made(path: &Path) -> Result<(), Error> {
    let mark = mark(path);
    let there = fs::metadata(path).map_or(0, |found| found.len());
    if there > 0 || fs::symlink_metadata(&mark).is_err() {
        return Ok(());
    }
    let what = if path.exists() { "is empty" } else { "is gone" };
    Err(Error::Gone(format!(
        "{} {what}, though {} says that it was in use; {}",
        path.display(),
        mark.display(),
        what_to_do(&mark)
    )))
}

fn what_to_do(mark: &Path) -> String {
    format!(
        "restore it from a backup, name another place with --data-dir, or remove {} to start with \
         what is there now",
        mark.display()
    )
}

impl DatabaseFiles {
    /// Compares the id in the file with the mark, and remembers which files were opened.
    pub(super) fn establish(path: &Path, db: &Connection) -> Result<Self, Error> {
        let id: String = db.query_row("SELECT id FROM database_identity", [], |row| row.get(0))?;
        let mark = mark(path);
        let marked = fs::read_to_string(&mark).unwrap_or_default();
        let marked = marked.trim();
        if marked.is_empty() {
            // Without a mark a lost database is noticed only while it is open.
            if let Err(error) = write_mark(&mark, &id) {
                let path = mark.display();
                tracing::warn!(%error, %path, "could not write the mark of the database");
            }
        } else if marked != id {
            return Err(Error::Gone(format!(
                "{} is another database than the one that was in use here; {}",
                path.display(),
                what_to_do(&mark)
            )));
        }
        let main = fs::metadata(path).map_err(|_| gone(path, "was deleted"))?;
        let beside = ["wal", "shm"].map(|what| {
            let path = beside(path, what);
            let found = fs::metadata(&path).ok();
            (path, found.as_ref().map(Inode::of))
        });
        Ok(Self {
            path: path.to_owned(),
            seen: Mutex::new(DatabaseFileIds {
                main: Inode::of(&main),
                beside,
                bytes: main.len(),
            }),
        })
    }

    /// Whether the files at their paths are still those that were opened.
    pub(super) fn check(&self) -> Result<(), Error> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let main = fs::metadata(&self.path).map_err(|_| gone(&self.path, "was deleted"))?;
        if Inode::of(&main) != seen.main {
            return Err(gone(&self.path, "was replaced by another file"));
        }
        if main.len() < seen.bytes.max(HEADER_BYTES) {
            return Err(gone(&self.path, "was cut short"));
        }
        seen.bytes = main.len();
        for (path, known) in &mut seen.beside {
            let found = fs::metadata(&*path).ok().as_ref().map(Inode::of);
            match (*known, found) {
                (None, found) => *known = found,
                (Some(_), None) => return Err(gone(path, "was deleted")),
                (Some(known), Some(found)) if known != found => {
                    return Err(gone(path, "was replaced by another file"));
                }
                (Some(_), Some(_)) => {}
            }
        }
        Ok(())
    }
}

fn gone(path: &Path, how: &str) -> Error {
    Error::Gone(format!(
        "{} {how} while it was in use: what was written since may be lost, and nothing more is \
         written; restore it from a backup, then run again",
        path.display()
    ))
}

fn mark(path: &Path) -> PathBuf {
    beside(path, "id")
}

/// Whole or not at all, and readable by its owner alone.
fn write_mark(mark: &Path, id: &str) -> io::Result<()> {
    let part = mark.with_extension(format!("{}-part", std::process::id()));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&part)?;
    file.write_all(format!("{id}\n").as_bytes())?;
    file.sync_all()?;
    fs::rename(&part, mark)
}
