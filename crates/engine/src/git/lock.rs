//! One lock per repository, around whatever git itself does not guard.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use super::{Error, Repository};

const WAIT_MAX: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Held until dropped; the operating system lets go of it if we are killed.
#[derive(Debug)]
pub(super) struct RepositoryLock(#[expect(dead_code, reason = "held for its lock")] File);

impl RepositoryLock {
    pub async fn take(path: &Path) -> Result<Self, Error> {
        Self::take_within(path, WAIT_MAX).await
    }

    pub async fn take_within(path: &Path, wait: Duration) -> Result<Self, Error> {
        let file = open(path)?;
        for _ in 0..wait.as_millis() / LOOK_AGAIN.as_millis() {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(LOOK_AGAIN).await,
                Err(TryLockError::Error(source)) => return Err(Error::file(path)(source)),
            }
        }
        Err(Error::Locked(path.to_owned()))
    }
}

/// The right to land on a branch; the next in line has it when this one is dropped, or we die.
#[derive(Debug)]
pub struct LandingTurn(#[expect(dead_code, reason = "held for its lock")] File);

impl Repository {
    /// The turn to land on a branch, if nobody has it.
    pub fn landing_turn(&self, branch: &str) -> Result<Option<LandingTurn>, Error> {
        let name = crate::hash::short(branch.as_bytes());
        let path = self.common.join(format!("countersign-landing-{name}.lock"));
        let file = open(&path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(LandingTurn(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(Error::file(&path)(source)),
        }
    }
}

/// Several people may share a repository, and the first of them has made the file: for a lock it is
/// enough to read it.
fn open(path: &Path) -> Result<File, Error> {
    let mut options = File::options();
    let opened = match options.create(true).append(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => File::open(path),
        opened => opened,
    };
    opened.map_err(Error::file(path))
}
