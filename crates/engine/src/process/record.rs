//! Keeps a small file per live run, so that the next Countersign finds the processes of a killed
//! one.
//!
//! The file is written before the fork: if we are killed right after the fork, the child is found
//! by its mark. Nothing is synced to disk, because after a power cut no process is left to find.
//!
//! A record names processes by pid and start time, and is valid only for one boot and one PID
//! namespace. The module refuses to act on a record from anywhere else.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::tree::{ProcessIdentity, ProcessTree, boot_and_pid_namespace, new_mark};
use super::{Error, RunId};
use crate::log::removed;
use crate::private_files;

// The owner is dead and no one waits for results, so the grace is shorter than for a live run.
const TERM_GRACE: Duration = Duration::from_millis(500);
/// File name ending of a record that is being written.
const TEMP_SUFFIX: &str = "half";

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LiveRunEntry {
    run: String,
    place: String,
    owner: ProcessIdentity,
    mark: String,
    leader: Option<ProcessIdentity>,
    /// Processes that belong to the run only through their parents, not by group or mark.
    #[serde(default)]
    strays: Vec<ProcessIdentity>,
}

/// The record file of a live run.
#[derive(Debug)]
pub(super) struct LiveRunRecord {
    path: PathBuf,
    entry: LiveRunEntry,
}

impl LiveRunRecord {
    pub fn create(data_dir: &Path, run_id: &RunId) -> Result<Self, Error> {
        let path = runs_dir(data_dir).join(format!("{run_id}.json"));
        // Without a start time a reused pid could not be told from ours, so nothing is started.
        let Some(owner) = ProcessIdentity::ourselves() else {
            let source =
                io::Error::other("/proc is not mounted, so processes cannot be identified");
            return Err(Error::File {
                path: "/proc/self/stat".into(),
                source,
            });
        };
        let mark = new_mark(run_id.as_str(), owner);
        let entry = LiveRunEntry {
            run: run_id.to_string(),
            place: boot_and_pid_namespace(),
            owner,
            mark,
            leader: None,
            strays: Vec::new(),
        };
        let record = Self { path, entry };
        record.write()?;
        Ok(record)
    }

    pub fn mark(&self) -> &str {
        &self.entry.mark
    }

    pub fn set_leader(&mut self, leader: Option<ProcessIdentity>) -> Result<(), Error> {
        self.entry.leader = leader;
        self.write()
    }

    /// Records the strays; writes the file only if they have changed.
    pub fn set_strays(&mut self, strays: Vec<ProcessIdentity>) -> Result<(), Error> {
        if self.entry.strays == strays {
            return Ok(());
        }
        self.entry.strays = strays;
        self.write()
    }

    pub fn remove(&self) {
        // If this fails, the next sweep finds the record without live processes and removes it.
        removed(&self.path, fs::remove_file(&self.path));
    }

    fn write(&self) -> Result<(), Error> {
        // Serialising plain data does not fail; an empty record is treated as a truncated one.
        let text = serde_json::to_vec(&self.entry).unwrap_or_default();
        // The name has the writer's identity, so that a sweep removes the half-written file only
        // if its writer is dead.
        let ProcessIdentity { pid, start } = self.entry.owner;
        let half = self
            .path
            .with_extension(format!("{pid}.{start}.{TEMP_SUFFIX}"));
        let result = private_files::make_dir(self.path.parent().unwrap_or(Path::new(".")))
            .and_then(|()| private_files::write(&half, text))
            // A rename is atomic: a sweep sees the old record or the new one, never half of it.
            .and_then(|()| fs::rename(&half, &self.path));
        result.map_err(|source| Error::File {
            path: self.path.clone(),
            source,
        })
    }
}

fn runs_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("runs")
}

/// Result of a sweep for one earlier run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweptRun {
    pub run: String,
    pub ended: usize,
    pub left: usize,
}

/// Ends the processes that an earlier, killed Countersign started from this data directory.
///
/// It goes by recorded identity and mark only. It does not touch a run whose owner is alive. It
/// keeps a record that it cannot read, because the owner is unknown.
pub async fn end_orphaned_runs(data_dir: &Path) -> Result<Vec<SweptRun>, Error> {
    end_runs_where(data_dir, |entry| !entry.owner.is_alive()).await
}

/// Returns the ids of runs whose owner is alive. A record that cannot be read counts as a run of an
/// unknown ticket and is left out: nothing is removed on its account, and nothing is kept.
pub fn live_runs(data_dir: &Path) -> Vec<String> {
    let files = fs::read_dir(runs_dir(data_dir)).into_iter().flatten();
    let records = files.filter_map(|file| read_record(&file.ok()?.path()));
    let alive = records.filter(|entry| entry.owner.is_alive());
    alive.map(|entry| entry.run).collect()
}

/// Ends the runs that the caller selects by id, even if their owner is alive: a worker that lost
/// its lease while it was stopped must not continue through its child.
pub async fn end_runs(
    data_dir: &Path,
    selects: impl Fn(&str) -> bool + Send + Sync,
) -> Result<Vec<SweptRun>, Error> {
    end_runs_where(data_dir, |entry| selects(&entry.run)).await
}

async fn end_runs_where(
    data_dir: &Path,
    selects: impl Fn(&LiveRunEntry) -> bool + Send,
) -> Result<Vec<SweptRun>, Error> {
    let dir = runs_dir(data_dir);
    let files = match fs::read_dir(&dir) {
        Ok(files) => files,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(Error::File { path: dir, source }),
    };
    let here = boot_and_pid_namespace();
    let (boot, _) = here.split_once(' ').unwrap_or((&here, ""));
    let mut swept = Vec::new();
    for path in files.filter_map(|file| Some(file.ok()?.path())) {
        // Temporary files go first, because they do not have the ending of a record.
        if writer_of_temp_record(&path).is_some_and(|writer| !writer.is_alive()) {
            removed(&path, fs::remove_file(&path));
            continue;
        }
        if is_truncated_record(&path) {
            removed(&path, fs::remove_file(&path));
            continue;
        }
        let Some(entry) = read_record(&path) else {
            continue;
        };
        // Processes of an earlier boot are gone, and their pids now belong to others.
        // Another PID namespace of the same boot is a container with the same data directory. Its
        // pids mean nothing here, and its own Countersign sweeps them.
        if !entry.place.starts_with(boot) {
            removed(&path, fs::remove_file(&path));
        } else if entry.place == here && selects(&entry) {
            // The leader may be missing: we were killed between the fork and its record. The mark
            // is enough.
            let mut tree = ProcessTree::of(&entry.mark, entry.leader);
            tree.strays = entry.strays;
            let summary = tree.terminate(TERM_GRACE).await;
            if summary.left == 0 {
                removed(&path, fs::remove_file(&path));
            }
            swept.push(SweptRun {
                run: entry.run,
                ended: summary.ended,
                left: summary.left,
            });
        }
    }
    Ok(swept)
}

/// Returns whether the record is empty. A record gets its name after it was written, so only a
/// power cut leaves an empty one, and no process survives that.
fn is_truncated_record(path: &Path) -> bool {
    let is_record = path.extension().is_some_and(|ending| ending == "json");
    // A file system may fill a file with zeros whose length was written but whose data was not.
    is_record && fs::read(path).is_ok_and(|text| text.iter().all(|&byte| byte == 0))
}

fn writer_of_temp_record(path: &Path) -> Option<ProcessIdentity> {
    let name = path.file_name()?.to_str()?.strip_suffix(TEMP_SUFFIX)?;
    // A run id may contain dots, so the numbers are taken from the end.
    let mut parts = name.trim_end_matches('.').rsplit('.');
    let start = parts.next()?.parse().ok()?;
    let pid = parts.next()?.parse().ok()?;
    Some(ProcessIdentity { pid, start })
}

fn read_record(path: &Path) -> Option<LiveRunEntry> {
    if path.extension()? != "json" {
        return None;
    }
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_record_that_a_power_cut_emptied_goes_and_an_unreadable_one_stays() {
        let data = tempfile::TempDir::new().unwrap();
        let dir = runs_dir(data.path());
        fs::create_dir(&dir).unwrap();
        for (name, text) in [("a.json", ""), ("b.json", "\0\0"), ("c.json", "{\"run\":")] {
            fs::write(dir.join(name), text).unwrap();
        }
        assert_eq!(end_orphaned_runs(data.path()).await.unwrap(), []);
        let left: Vec<_> = fs::read_dir(&dir).unwrap().collect();
        assert_eq!(left.len(), 1);
        assert!(dir.join("c.json").exists());
    }
}
