//! Removes locks that a killed git left: git itself never removes them, and from then on refuses
//! everything that needs them.
//!
//! It refuses to remove a lock that may be in use: a wrong guess would let two writers into one
//! ref.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Error, Repository};

/// Time after which a lock is stale: longer than any git locks a ref without having the file open.
const STALE_AFTER: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

impl Repository {
    /// Removes the lock of a ref of ours. Only the holder of the ticket's lease changes it, so no
    /// other git is using it.
    pub(super) fn unlock_own_ref(&self, name: &str) -> Result<(), Error> {
        remove_file(&self.ref_lock(name))
    }

    /// Removes the lock of a branch that people use too, and of `HEAD`, which git locks with it:
    /// only if no process has it open and it stays for longer than git needs one.
    pub(super) async fn unlock_shared_branch(&self, branch: &str) -> Result<(), Error> {
        for name in [format!("refs/heads/{branch}"), "HEAD".to_owned()] {
            self.unlock_shared_ref(&name).await?;
        }
        Ok(())
    }

    /// Does the same for a ref of ours that several processes may fetch before anyone has a lease.
    pub(super) async fn unlock_shared_ref(&self, name: &str) -> Result<(), Error> {
        let lock = self.ref_lock(name);
        if is_lock_stale(&lock).await {
            remove_file(&lock)?;
        }
        Ok(())
    }

    fn ref_lock(&self, name: &str) -> PathBuf {
        self.common.join(format!("{name}.lock"))
    }
}

async fn is_lock_stale(lock: &Path) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    // No lock, nothing to do: the usual case costs one call.
    let Some(first) = modified(lock) else {
        return false;
    };
    for _ in 0..STALE_AFTER.as_millis() / POLL_INTERVAL.as_millis() {
        // A new time means another git took the lock meanwhile, and the wait starts over at the
        // caller.
        if modified(lock) != Some(first) || is_open(lock) {
            return false;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    true
}

/// Returns whether any process that we can inspect has the file open.
pub(super) fn is_open(path: &Path) -> bool {
    let entries = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten();
    // Processes of other users cannot be inspected; for them the time alone decides.
    let handles = entries("/proc".into()).flat_map(|process| entries(process.path().join("fd")));
    handles
        .into_iter()
        .any(|handle| fs::read_link(handle.path()).is_ok_and(|to| to == path))
}

/// Removes a file. It may be gone already.
pub(super) fn remove_file(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file(path)(error)),
        _ => Ok(()),
    }
}
