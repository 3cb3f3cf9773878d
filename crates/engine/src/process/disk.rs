//! Measures the disk use of a run from outside, while it runs and once more at its end. Files from
//! before the run do not count.
//!
//! It counts blocks and names below the run's directories, follows no link, and stops as soon as
//! the quota is exceeded. A tree that is too deep for a path counts as exceeded. It cannot count
//! directories that it may not open; the sandbox's floor for the disk's free space covers those.
//!
//! A kernel quota per directory would need root and a file system that is set up for it.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Shortest pause between two measurements.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);
/// The pause is at least this many times as long as the measurement, which limits its cost. At a
/// share of one twentieth a large tree is measured less often instead of costing more.
const MEASURE_TIME_SHARE: u32 = 20;
// `st_blocks` is in units of 512 bytes on every file system.
const BLOCK_BYTES: u64 = 512;

/// Limit on what one run may add below its directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskQuota {
    pub dirs: Vec<PathBuf>,
    /// Maximum of allocated blocks, not of lengths: a sparse file occupies little, and many
    /// tiny files occupy a lot.
    pub bytes_max: u64,
    /// Maximum number of files, directories and links.
    pub files_max: u64,
}

/// Blocks and names below a set of directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DiskUsage {
    pub bytes: u64,
    pub files: u64,
}

/// A quota and the usage before the run.
#[derive(Debug)]
pub(super) struct DiskMonitor {
    allotment: DiskQuota,
    before: DiskUsage,
}

impl DiskMonitor {
    pub async fn start(allotment: DiskQuota) -> Self {
        // Nested directories would be counted twice, before and after the run alike.
        let dirs = outermost_dirs(&allotment.dirs);
        let allotment = DiskQuota { dirs, ..allotment };
        // There is no limit before the run: the existing files are not at fault.
        let no_end = DiskUsage {
            bytes: u64::MAX,
            files: u64::MAX,
        };
        let before = measure(&allotment.dirs, no_end).await;
        Self { allotment, before }
    }

    /// Returns the additions of the run if they exceed the quota.
    pub async fn excess(&self) -> Option<DiskUsage> {
        let most = DiskUsage {
            bytes: self.before.bytes.saturating_add(self.allotment.bytes_max),
            files: self.before.files.saturating_add(self.allotment.files_max),
        };
        let now = measure(&self.allotment.dirs, most).await;
        let added = DiskUsage {
            bytes: now.bytes.saturating_sub(self.before.bytes),
            files: now.files.saturating_sub(self.before.files),
        };
        (now.bytes > most.bytes || now.files > most.files).then_some(added)
    }

    /// Completes when the run has exceeded its quota.
    pub async fn wait_for_excess(&self) -> DiskUsage {
        let mut pause = MEASURE_INTERVAL;
        loop {
            sleep(pause).await;
            let began = Instant::now();
            if let Some(added) = self.excess().await {
                return added;
            }
            pause = MEASURE_INTERVAL.max(began.elapsed() * MEASURE_TIME_SHARE);
        }
    }
}

async fn measure(dirs: &[PathBuf], most: DiskUsage) -> DiskUsage {
    let dirs = dirs.to_vec();
    let counted = tokio::task::spawn_blocking(move || count_usage(dirs, most)).await;
    // A panic in the walk counts as no use; the sandbox's floor still holds.
    counted.unwrap_or_default()
}

/// Counts everything below the directories, or stops once it has more than `most`.
fn count_usage(mut dirs: Vec<PathBuf>, most: DiskUsage) -> DiskUsage {
    let mut usage = DiskUsage::default();
    while let Some(dir) = dirs.pop() {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            // The path is longer than the kernel accepts, so nothing below can be counted: treat
            // it as exceeded.
            Err(error) if error.kind() == ErrorKind::InvalidFilename => {
                usage.files = most.files.saturating_add(1);
                return usage;
            }
            // The run may delete directories while we walk, or deny access to them.
            Err(_) => continue,
        };
        for entry in entries.flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            usage.files += 1;
            // A hard link is counted at each name, which errs on the strict side.
            usage.bytes += meta.blocks() * BLOCK_BYTES;
            // Stopping early bounds the cost of a measurement by the quota itself.
            if usage.bytes > most.bytes || usage.files > most.files {
                return usage;
            }
            if meta.is_dir() {
                dirs.push(entry.path());
            }
        }
    }
    usage
}

/// Removes directories that are below another one, so that nothing is counted twice.
fn outermost_dirs(dirs: &[PathBuf]) -> Vec<PathBuf> {
    let inside = |dir: &Path, other: &Path| dir != other && dir.starts_with(other);
    let mut outer: Vec<PathBuf> = dirs.to_vec();
    outer.sort();
    outer.dedup();
    let all = outer.clone();
    outer.retain(|dir| !all.iter().any(|other| inside(dir, other)));
    outer
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
        let dirs = outermost_dirs(&[dir.path().join("a"), dir.path().to_owned()]);
        assert_eq!(dirs, [dir.path()]);
        let usage = count_usage(dirs, no_end());
        assert_eq!(usage.files, 4);
        assert!((100_000..200_000).contains(&usage.bytes), "{usage:?}");
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
        assert_eq!(count_usage(vec![dir.path().to_owned()], most).files, levels);
        // Go on from an open directory, since the whole path is too long for one call.
        let mut last = open(&here, OFlags::DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..3 {
            mkdirat(&last, &name, Mode::RWXU).unwrap();
            last = openat(&last, &name, OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        assert_eq!(count_usage(vec![dir.path().to_owned()], most).files, 1001);
        drop(last);
        crate::git::remove_tree(&dir.path().join(&name)).unwrap();
    }

    #[tokio::test]
    async fn what_was_there_before_is_not_the_runs() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str| fs::write(dir.path().join(name), "x").unwrap();
        (0..100).for_each(|n| put(&format!("before-{n}")));
        let gauge = DiskMonitor::start(DiskQuota {
            dirs: vec![dir.path().to_owned()],
            bytes_max: 1 << 30,
            files_max: 10,
        })
        .await;
        assert_eq!(gauge.excess().await, None);
        (0..10).for_each(|n| put(&format!("new-{n}")));
        assert_eq!(gauge.excess().await, None);
        put("one-too-many");
        assert_eq!(gauge.excess().await.map(|added| added.files), Some(11));
    }
}
