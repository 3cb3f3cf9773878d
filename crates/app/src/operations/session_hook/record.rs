//! The memory of a session between two calls of the hook. There is one small file for each session;
//! the oldest go when there are too many.

use std::fs::{File, TryLockError};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::SessionCli;
use crate::failure::Failure;
use crate::settings::{Environment, read_bounded};

/// Directory of the files below the data directory.
const DIRECTORY: &str = "sessions";
/// Maximum number of sessions that are remembered.
const SESSIONS_MAX: usize = 200;
/// Maximum size of a file. Ours are far smaller.
const BYTES_MAX: usize = 256 << 10;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SessionRecord {
    /// Reviews since the person's last prompt.
    pub rounds: u32,
    /// Commit of the work tree from which the session's changes count.
    pub since: Option<String>,
    /// Tree that needs no review: it was reviewed, or it is older than the last prompt.
    pub known_tree: Option<String>,
    /// Open must-fix findings of the last review, as they were sent back.
    pub open: Vec<String>,
    /// Id of the last review.
    pub review: Option<String>,
    /// The person's last prompt.
    pub purpose: String,
    /// Commit whose background review was shown to this session.
    pub told_commit: Option<String>,
}

/// Place of the file of one session.
#[derive(Debug)]
pub(super) struct SessionFile {
    directory: PathBuf,
    path: PathBuf,
}

impl SessionFile {
    pub fn new(environment: &Environment, cli: SessionCli, session: &str) -> Self {
        let directory = environment.data_dir.join(DIRECTORY);
        // The id comes from another program and is no file name.
        let hash = engine::hash::sha256(format!("{} {session}", cli.name()).as_bytes());
        let path = directory.join(format!("{hash}.json"));
        Self { directory, path }
    }

    /// Loads the record; a missing or damaged file is an empty one.
    pub fn load(&self) -> SessionRecord {
        if !self.path.exists() {
            return SessionRecord::default();
        }
        let bytes = read_bounded(&self.path, "the session's record", BYTES_MAX);
        bytes
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }

    /// Takes the lock of the session; `None` if another call has it. The operating system releases it
    /// if that process dies.
    pub fn try_lock(&self) -> Result<Option<File>, Failure> {
        let path = self.path.with_extension("lock");
        let failed = |error: std::io::Error| {
            Failure::error(format!("{} cannot be written: {error}", path.display()))
        };
        engine::private_files::make_dir(&self.directory).map_err(failed)?;
        let file = engine::private_files::create(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    pub fn save(&self, record: &SessionRecord) -> Result<(), Failure> {
        let failed = |error: std::io::Error| {
            Failure::error(format!(
                "{} cannot be written: {error}",
                self.path.display()
            ))
        };
        engine::private_files::make_dir(&self.directory).map_err(failed)?;
        let is_new = !self.path.exists();
        let text = serde_json::to_string(record).map_err(Failure::error)?;
        // A half-written file would forget the rounds, so it takes its place when it is complete.
        let part = self
            .path
            .with_extension(format!("{}.part", std::process::id()));
        engine::private_files::write(&part, text)
            .and_then(|()| std::fs::rename(&part, &self.path))
            .map_err(failed)?;
        if is_new {
            self.remove_oldest();
        }
        Ok(())
    }

    fn remove_oldest(&self) {
        let Ok(entries) = std::fs::read_dir(&self.directory) else {
            return;
        };
        let mut files: Vec<_> = entries
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|end| end == "json"))
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        files.sort();
        let surplus = files.len().saturating_sub(SESSIONS_MAX);
        for (_, path) in files.into_iter().take(surplus) {
            let lock = path.with_extension("lock");
            engine::log::removed(&path, std::fs::remove_file(&path));
            engine::log::removed(&lock, std::fs::remove_file(&lock));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(dir: &std::path::Path, session: &str) -> SessionFile {
        let directory = dir.join(DIRECTORY);
        SessionFile {
            path: directory.join(format!("{session}.json")),
            directory,
        }
    }

    #[test]
    fn a_record_comes_back_and_a_damaged_one_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        let one = file(dir.path(), "one");
        assert_eq!(one.load().rounds, 0);
        let record = SessionRecord {
            rounds: 2,
            ..SessionRecord::default()
        };
        one.save(&record).unwrap();
        assert_eq!(one.load().rounds, 2);
        std::fs::write(&one.path, "{\"rounds\": 2").unwrap();
        assert_eq!(one.load().rounds, 0);
    }

    #[test]
    fn the_oldest_sessions_are_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..SESSIONS_MAX + 20 {
            let one = file(dir.path(), &format!("s{number}"));
            let _lock = one.try_lock().unwrap().unwrap();
            assert!(one.try_lock().unwrap().is_none(), "one call at a time");
            one.save(&SessionRecord::default()).unwrap();
        }
        let left = std::fs::read_dir(dir.path().join(DIRECTORY)).unwrap();
        assert_eq!(left.count(), 2 * SESSIONS_MAX);
    }
}
