//! Logs errors that stop where they occur.

use std::fmt::Display;
use std::panic::Location;

/// Logs an error that the caller does not pass on.
pub trait LogErr<T> {
    /// Logs the error as a warning, with the source location of the call. `attempt` completes the
    /// sentence "could not …".
    fn log_err(self, attempt: &str) -> Option<T>;
}

impl<T, E: Display> LogErr<T> for Result<T, E> {
    #[track_caller]
    fn log_err(self, attempt: &str) -> Option<T> {
        match self {
            Ok(value) => Some(value),
            Err(error) => {
                tracing::warn!(%error, at = %Location::caller(), "could not {attempt}");
                None
            }
        }
    }
}

/// Logs a failed removal, unless the file or directory was already gone: removal is often a
/// precaution, and several workers may remove the same leftover.
#[track_caller]
pub fn removed(path: &std::path::Path, outcome: std::io::Result<()>) {
    match outcome {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            let path = path.display();
            tracing::warn!(%error, at = %Location::caller(), "could not remove {path}");
        }
        Ok(()) | Err(_) => {}
    }
}
