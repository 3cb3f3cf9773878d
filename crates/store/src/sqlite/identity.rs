//! Notices when the database file is deleted, replaced or cut short while a program works on it.
//!
//! `SQLite` keeps using the file that it has open, so a run could succeed on a database that no
//! longer exists at its path. The database has a random id, and a mark file next to it repeats the
//! id, so that the next program does not silently start with an empty database. While the store is
//! open, every read and every commit first compares the files at the paths with the opened ones: a
//! `stat` of three files, which costs a few microseconds.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;

use rusqlite::Connection;

use crate::error::Error;

use super::space::sibling_path;

/// Size of the header of an `SQLite` file. A shorter file cannot be a database, whatever its last
/// known size was.
const HEADER_BYTES: u64 = 100;

/// The opened files of the database.
#[derive(Debug)]
pub(super) struct DatabaseFiles {
    path: PathBuf,
    seen: Mutex<DatabaseFileIds>,
}

#[derive(Debug)]
struct DatabaseFileIds {
    main: Inode,
    /// The `-wal` file (commits that are not in the main file yet) and the `-shm` file (its index
    /// and the readers' marks).
    beside: [(PathBuf, Option<Inode>); 2],
    /// Last known size. The main file never shrinks, because it is never vacuumed.
    bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Inode {
    device: u64,
    number: u64,
}

impl Inode {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            number: metadata.ino(),
        }
    }
}

/// Refuses to create an empty database if the mark file shows that there was one.
pub(super) fn check_may_create(path: &Path) -> Result<(), Error> {
    let mark = mark(path);
    // A missing file and an empty one are the same here: `SQLite` would create a schema in both.
    let bytes = fs::metadata(path).map_or(0, |metadata| metadata.len());
    if bytes > 0 || fs::symlink_metadata(&mark).is_err() {
        return Ok(());
    }
    let state = if path.exists() { "is empty" } else { "is gone" };
    Err(Error::Gone(format!(
        "{} {state}, but {} shows that it was in use; {}",
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
    /// Compares the id in the database with the mark file, and records which files were opened.
    pub(super) fn establish(path: &Path, db: &Connection) -> Result<Self, Error> {
        let id: String = db.query_row("SELECT id FROM database_identity", [], |row| row.get(0))?;
        let mark = mark(path);
        let marked_id = fs::read_to_string(&mark).unwrap_or_default();
        let marked_id = marked_id.trim();
        // The first program to open the database writes the mark, also for databases of earlier
        // versions.
        if marked_id.is_empty() {
            // Not fatal: without the mark, a lost database is noticed only while it is open.
            if let Err(error) = write_mark(&mark, &id) {
                let path = mark.display();
                tracing::warn!(%error, %path, "could not write the mark file of the database");
            }
        } else if marked_id != id {
            return Err(Error::Gone(format!(
                "{} is not the database that was in use here; {}",
                path.display(),
                what_to_do(&mark)
            )));
        }
        let main = fs::metadata(path).map_err(|_| gone(path, "was deleted"))?;
        let beside = ["wal", "shm"].map(|suffix| {
            let path = sibling_path(path, suffix);
            let metadata = fs::metadata(&path).ok();
            (path, metadata.as_ref().map(Inode::of))
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

    /// Checks that the files at their paths are still the opened ones.
    pub(super) fn check(&self) -> Result<(), Error> {
        let mut opened = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let main = fs::metadata(&self.path).map_err(|_| gone(&self.path, "was deleted"))?;
        if Inode::of(&main) != opened.main {
            return Err(gone(&self.path, "was replaced by another file"));
        }
        // A tool that truncates the file, such as a wrong redirect in a shell, keeps the inode.
        if main.len() < opened.bytes.max(HEADER_BYTES) {
            return Err(gone(&self.path, "was cut short"));
        }
        opened.bytes = main.len();
        for (path, recorded) in &mut opened.beside {
            let current = fs::metadata(&*path).ok().as_ref().map(Inode::of);
            match (*recorded, current) {
                // The file did not exist before; SQLite creates both with the first write.
                (None, current) => *recorded = current,
                (Some(_), None) => return Err(gone(path, "was deleted")),
                (Some(recorded), Some(current)) if recorded != current => {
                    return Err(gone(path, "was replaced by another file"));
                }
                (Some(_), Some(_)) => {}
            }
        }
        Ok(())
    }
}

fn gone(path: &Path, event: &str) -> Error {
    Error::Gone(format!(
        "{} {event} while it was in use: recent writes may be lost, and Countersign writes nothing \
         more; restore it from a backup, then run again",
        path.display()
    ))
}

pub(super) fn mark(path: &Path) -> PathBuf {
    sibling_path(path, "id")
}

/// Writes the mark atomically (temporary file and rename), readable only by its owner.
fn write_mark(mark: &Path, id: &str) -> io::Result<()> {
    let part = mark.with_extension(format!("{}-part", std::process::id()));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&part)?;
    file.write_all(format!("{id}\n").as_bytes())?;
    // The mark must be on disk before its name is, or a power cut leaves an empty mark.
    file.sync_all()?;
    fs::rename(&part, mark)
}
