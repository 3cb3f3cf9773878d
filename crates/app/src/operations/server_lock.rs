//! Lets one server at a time use a data directory. A second one would publish its own address over
//! the first one's, and both would use the same files.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tokio::time::Instant;

use super::service;
use crate::failure::{ExitKind, Failure};
use crate::settings::Environment;

const LOCK_FILE: &str = "server.lock";
/// Time for which a start waits for the previous server. A restart meets one that still answers its
/// last requests.
const HANDOVER_MAX: Duration = Duration::from_secs(3);
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// The lock on a data directory. The kernel releases it when the process ends, however it ends.
#[derive(Debug)]
pub struct ServerLock {
    _file: File,
}

/// Locks the data directory for a server, or fails and names the server that has it.
pub async fn acquire(environment: &Environment) -> Result<ServerLock, Failure> {
    let end = Instant::now() + HANDOVER_MAX;
    loop {
        if let Some(lock) = try_acquire(&environment.data_dir)? {
            return Ok(lock);
        }
        if Instant::now() >= end {
            return Err(in_use(environment)
                .hint("stop it first, or start this one with another --data-dir")
                .hint("several servers can share a PostgreSQL database, each with its own data directory"));
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

/// Locks the data directory at once. Returns `None` if a server uses it.
pub fn try_acquire(data_dir: &Path) -> Result<Option<ServerLock>, Failure> {
    let path = data_dir.join(LOCK_FILE);
    let fail = |error: std::io::Error| {
        Failure::error(format!("{} cannot be locked: {error}", path.display()))
    };
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(&path).map_err(fail)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(ServerLock { _file: file })),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(fail(error.into())),
    }
}

/// Builds the failure of a command that needs the data directory without a server.
pub fn in_use(environment: &Environment) -> Failure {
    let address = service::running_server(environment);
    let address = address.map_or_else(String::new, |server| format!(" ({})", server.url));
    Failure::new(
        ExitKind::Refused,
        format!(
            "a server already runs on the data directory {}{address}",
            environment.data_dir.display()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::try_acquire;

    #[test]
    fn one_server_at_a_time_has_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let first = try_acquire(dir.path()).unwrap();
        assert!(first.is_some());
        assert!(try_acquire(dir.path()).unwrap().is_none());
        drop(first);
        assert!(try_acquire(dir.path()).unwrap().is_some());
    }
}
