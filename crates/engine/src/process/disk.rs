//! How much a run has put on the disk, looked at from outside while it goes on and once more at
//! its end. What was there before it began is not its own.
//!
//! It counts blocks and names below the run's directories, follows no link, and stops counting
//! where the answer is clear. A tree that is too deep for a path is too much. What it may not open
//! it cannot count: the bound on the disk's free space, in the sandbox, holds for that too.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long after a look the next one comes at the earliest.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looking takes at most this part of the time: one of so many.
const SHARE: u32 = 20;
const BLOCK_BYTES: u64 = 512;

/// What one run may add below its directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskQuota {
    pub dirs: Vec<PathBuf>,
    pub bytes_max: u64,
    /// Files, directories and links.
    pub files_max: u64,
}

/// What lies there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DiskUsage {
    pub bytes: u64,
    pub files: u64,
}

/// An allotment and what was there before the run.
#[derive(Debug)]
pub(super) struct DiskMonitor {
    allotment: DiskQuota,
    before: DiskUsage,
}

impl DiskMonitor {
    pub async fn begin(allotment: DiskQuota) -> Self {
        let dirs = outermost(&allotment.dirs);
        let allotment = DiskQuota { dirs, ..allotment };
        let no_end = DiskUsage {
            bytes: u64::MAX,
            files: u64::MAX,
        };
        let before = look(&allotment.dirs, no_end).await;
        Self { allotment, before }
    }

    /// What the run has added, if that is too much.
    pub async fn over(&self) -> Option<DiskUsage> {
        let most = DiskUsage {
            bytes: self.before.bytes.saturating_add(self.allotment.bytes_max),
            files: self.before.files.saturating_add(self.allotment.files_max),
        };
        let now = look(&self.allotment.dirs, most).await;
        let added = DiskUsage {
            bytes: now.bytes.saturating_sub(self.before.bytes),
            files: now.files.saturating_sub(self.before.files),
        };
        (now.bytes > most.bytes || now.files > most.files).then_some(added)
    }

    /// Completes when the run has added too much.
    pub async fn overrun(&self) -> DiskUsage {
        let mut pause = LOOK_EVERY;
        loop {
            sleep(pause).await;
            let began = Instant::now();
            if let Some(added) = self.over().await {
                return added;
            }
            pause = LOOK_EVERY.max(began.elapsed() * SHARE);
        }
    }
}

async fn look(dirs: &[PathBuf], most: DiskUsage) -> DiskUsage {
    let dirs = dirs.to_vec();
    let looked = tokio::task::spawn_blocking(move || count(dirs, most)).await;
    looked.unwrap_or_default()
}

/// Counts until everything is counted, or more than `most` is.
fn count(mut dirs: Vec<PathBuf>, most: DiskUsage) -> DiskUsage {
    let mut taken = DiskUsage::default();
    while let Some(dir) = dirs.pop() {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            // Deeper than the kernel takes a path: nothing there could be counted, so it is over.
            Err(error) if error.kind() == ErrorKind::InvalidFilename => {
                taken.files = most.files.saturating_add(1);
                return taken;
            }
            Err(_) => continue,
        };
        for entry in entries.flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            taken.files += 1;
            taken.bytes += meta.blocks() * BLOCK_BYTES;
            if taken.bytes > most.bytes || taken.files > most.files {
                return taken;
            }
            if meta.is_dir() {
                dirs.push(entry.path());
            }
        }
    }
    taken
}

/// Without those that lie in another.
fn outermost(dirs: &[PathBuf]) -> Vec<PathBuf> {
    let inside = |dir: &Path, other: &Path| dir != other && dir.starts_with(other);
    let mut found: Vec<PathBuf> = dirs.to_vec();
    found.sort();
    found.dedup();
    let all = found.clone();
    found.retain(|dir| !all.iter().any(|other| inside(dir, other)));
    found
}

#[cfg(test)]
mod tests {
    use rustix::fs::{Mode, OFlags, mkdirat, open, openat};

    use super::*;

    fn no_end() -> DiskUsage {
        DiskUsage {
            bytes: u64::MAX,
            files: u64::MAX,
        }
    }

    #[test]
    fn what_lies_below_is_counted_once_and_links_lead_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        fs::write(dir.path().join("a/b/file"), vec![1; 100_000]).unwrap();
        std::os::unix::fs::symlink("/", dir.path().join("root")).unwrap();
        let dirs = outermost(&[dir.path().join("a"), dir.path().to_owned()]);
        assert_eq!(dirs, [dir.path()]);
        let taken = count(dirs, no_end());
        assert_eq!(taken.files, 4);
        assert!((100_000..200_000).contains(&taken.bytes), "{taken:?}");
    }

    #[test]
    fn a_tree_too_deep_to_be_counted_is_too_much() {
        let dir = tempfile::tempdir().unwrap();
        let name = "n".repeat(200);
        let mut here = dir.path().to_owned();
        let (mut levels, most) = (
            0,
            DiskUsage {
                bytes: 1 << 30,
                files: 1000,
            },
        );
        while here.as_os_str().len() < 3800 {
            here.push(&name);
            fs::create_dir(&here).unwrap();
            levels += 1;
        }
        assert_eq!(count(vec![dir.path().to_owned()], most).files, levels);
        // One step further, from inside, since the whole path is too long.
        let mut last = open(&here, OFlags::DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..3 {
            mkdirat(&last, &name, Mode::RWXU).unwrap();
            last = openat(&last, &name, OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        assert_eq!(count(vec![dir.path().to_owned()], most).files, 1001);
        drop(last);
        crate::git::remove_tree(&dir.path().join(&name)).unwrap();
    }

    #[tokio::test]
    async fn what_was_there_before_is_not_the_runs() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str| fs::write(dir.path().join(name), "x").unwrap();
        (0..100).for_each(|n| put(&format!("before-{n}")));
        let gauge = DiskMonitor::begin(DiskQuota {
            dirs: vec![dir.path().to_owned()],
            bytes_max: 1 << 30,
            files_max: 10,
        })
        .await;
        assert_eq!(gauge.over().await, None);
        (0..10).for_each(|n| put(&format!("new-{n}")));
        assert_eq!(gauge.over().await, None);
        put("one-too-many");
        assert_eq!(gauge.over().await.map(|added| added.files), Some(11));
    }
}
