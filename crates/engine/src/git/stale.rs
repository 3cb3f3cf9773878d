//! Locks that a killed git left behind: git itself never takes them away, and refuses whatever
//! needs them from then on.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Error, Repository};

/// Longer than any git has a ref locked with nothing open.
const SHARED_FOR: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

impl Repository {
    /// At a ref of ours. Whoever changes it has the ticket's lease, so no other git is at it.
    pub(super) fn unlock_own_ref(&self, name: &str) -> Result<(), Error> {
        remove_file(&self.ref_lock(name))
    }

    /// At a branch that people use too, and at `HEAD`, which git locks with it: only a lock that
    /// nobody has open and that stays for longer than git needs one.
    pub(super) async fn unlock_shared_branch(&self, branch: &str) -> Result<(), Error> {
        for name in [format!("refs/heads/{branch}"), "HEAD".to_owned()] {
            self.unlock_shared_ref(&name).await?;
        }
        Ok(())
    }

    /// The same at a ref of ours that is brought before anybody has a lease, by several at once.
    pub(super) async fn unlock_shared_ref(&self, name: &str) -> Result<(), Error> {
        let lock = self.ref_lock(name);
        if stays(&lock).await {
            remove_file(&lock)?;
        }
        Ok(())
    }

    fn ref_lock(&self, name: &str) -> PathBuf {
        self.common.join(format!("{name}.lock"))
    }
}

async fn stays(lock: &Path) -> bool {
    let made = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    let Some(first) = made(lock) else {
        return false;
    };
    for _ in 0..SHARED_FOR.as_millis() / LOOK_AGAIN.as_millis() {
        if made(lock) != Some(first) || is_open(lock) {
            return false;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    true
}

/// Whether any process that we may look at has the file open.
pub(super) fn is_open(path: &Path) -> bool {
    let entries = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten();
    let handles = entries("/proc".into()).flat_map(|process| entries(process.path().join("fd")));
    handles
        .into_iter()
        .any(|handle| fs::read_link(handle.path()).is_ok_and(|to| to == path))
}

/// It may be gone already.
pub(super) fn remove_file(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file(path)(error)),
        _ => Ok(()),
    }
}
