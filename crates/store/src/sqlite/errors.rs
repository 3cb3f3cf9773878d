//! Maps errors of `SQLite` to errors of the store.
//!
//! Variants exist where the caller acts differently: it waits for a lock, tells the person about a
//! full disk, or asks whether a commit was written. Everything else is text.

use std::path::Path;

use rusqlite::ErrorCode;
use rusqlite::types::FromSqlError;

use crate::error::Error;

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        let text = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked(text),
            Some(ErrorCode::ReadOnly) => Self::ReadOnly(text),
            Some(ErrorCode::DiskFull) => Self::DiskFull(text),
            Some(ErrorCode::NotADatabase) => Self::Other(format!(
                "this is not a Countersign database ({text}); name another file, or move this one away"
            )),
            Some(ErrorCode::DatabaseCorrupt) => Self::Other(format!(
                "the database is damaged ({text}); restore it from a backup"
            )),
            _ => Self::Other(format!("the database failed: {text}")),
        }
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::Other(format!("this cannot be written as JSON: {error}"))
    }
}

impl Error {
    /// Adds the path of the database file to the message; a user may have several.
    pub(super) fn at(self, path: &Path) -> Self {
        let name = |text: String| format!("{}: {text}", path.display());
        match self {
            Self::ReadOnly(text) => Self::ReadOnly(name(text)),
            Self::Locked(text) => Self::Locked(name(text)),
            Self::DiskFull(text) => Self::DiskFull(name(text)),
            Self::Unreachable(text) => Self::Unreachable(name(text)),
            Self::OutcomeUnknown(text) => Self::OutcomeUnknown(name(text)),
            Self::Other(text) => Self::Other(name(text)),
            // These errors name their subject themselves; the file's path would only distract.
            Self::Gone(_)
            | Self::Conflict { .. }
            | Self::StaleFence { .. }
            | Self::Exists(_)
            | Self::KeyReused { .. }
            | Self::QueueFull { .. }
            | Self::Paused { .. }
            | Self::NewerSchema { .. } => self,
        }
    }

    /// Maps the error of a failed COMMIT. `SQLite` detects a full disk or a lock before the
    /// commit's last page is in the WAL; after any other error the commit may have been written or
    /// not.
    pub(super) fn of_commit(error: rusqlite::Error) -> Self {
        match Self::from(error) {
            not_written @ (Self::DiskFull(_) | Self::Locked(_) | Self::ReadOnly(_)) => not_written,
            other => Self::OutcomeUnknown(other.to_string()),
        }
    }
}

/// A column holds a value of another type than expected.
impl From<FromSqlError> for Error {
    fn from(error: FromSqlError) -> Self {
        Self::Other(error.to_string())
    }
}
