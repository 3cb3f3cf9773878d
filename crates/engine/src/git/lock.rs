//! One lock per repository, for operations that git itself does not guard.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use super::{Error, Repository};

/// Maximum wait for the lock of a repository.
const WAIT_MAX: Duration = Duration::from_secs(120);
// The lock is polled: a blocking call would hold an async thread, and could not be cancelled.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Lock that is held until dropped. The operating system releases it if we are killed.
#[derive(Debug)]
pub(super) struct RepositoryLock(#[expect(dead_code, reason = "held for its lock")] File);

impl RepositoryLock {
    pub async fn take(path: &Path) -> Result<Self, Error> {
        Self::take_within(path, WAIT_MAX).await
    }

    pub async fn take_within(path: &Path, wait: Duration) -> Result<Self, Error> {
        let file = open_lock_file(path)?;
        for _ in 0..wait.as_millis() / POLL_INTERVAL.as_millis() {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(POLL_INTERVAL).await,
                Err(TryLockError::Error(source)) => return Err(Error::file(path)(source)),
            }
        }
        Err(Error::Locked(path.to_owned()))
    }
}

/// Turn to land on a branch. It goes to the next waiter when this value is dropped or we die.
#[derive(Debug)]
pub struct LandingTurn(#[expect(dead_code, reason = "held for its lock")] File);

impl Repository {
    /// Takes the turn to land on a branch, if it is free.
    pub fn try_landing_turn(&self, branch: &str) -> Result<Option<LandingTurn>, Error> {
        // A branch name may contain slashes, so its hash is the file name.
        let name = crate::hash::short_sha256(branch.as_bytes());
        let path = self.common.join(format!("countersign-landing-{name}.lock"));
        let file = open_lock_file(&path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(LandingTurn(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(Error::file(&path)(source)),
        }
    }
}

/// Opens a lock file. Several users may share a repository, and another one may own the file:
/// reading it is enough to lock it.
fn open_lock_file(path: &Path) -> Result<File, Error> {
    let mut options = File::options();
    let opened = match options.create(true).append(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => File::open(path),
        opened => opened,
    };
    opened.map_err(Error::file(path))
}
