//! A small file per live run, so that the next Countersign finds what a killed
//! one had started.
//!
//! It is there before the child is: a child that was forked in the instant we
//! were killed is found by its mark. Nothing is synced to disk, because after a
//! power cut there is nothing to find.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::tree::{ProcessIdentity, ProcessTree, new_mark, place};
use super::{Error, RunId};
use crate::log::removed;
use crate::private;

const TERM_GRACE: Duration = Duration::from_millis(500);
/// How a record is called while it is being written.
const HALF: &str = "half";

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LiveRunEntry {
    run: String,
    place: String,
    owner: ProcessIdentity,
    mark: String,
    leader: Option<ProcessIdentity>,
    /// Who belongs to it although nothing but their parents says so.
    #[serde(default)]
    strays: Vec<ProcessIdentity>,
}

/// The record of a run that goes on.
#[derive(Debug)]
pub(super) struct LiveRunRecord {
    path: PathBuf,
    entry: LiveRunEntry,
}

impl LiveRunRecord {
    pub fn begin(data_dir: &Path, run_id: &RunId) -> Result<Self, Error> {
        let path = runs(data_dir).join(format!("{run_id}.json"));
        let Some(owner) = ProcessIdentity::ourselves() else {
            let source = io::Error::other("/proc is not mounted, so runs cannot be told apart");
            return Err(Error::File {
                path: "/proc/self/stat".into(),
                source,
            });
        };
        let mark = new_mark(run_id.as_str(), owner);
        let entry = LiveRunEntry {
            run: run_id.to_string(),
            place: place(),
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

    pub fn started(&mut self, leader: Option<ProcessIdentity>) -> Result<(), Error> {
        self.entry.leader = leader;
        self.write()
    }

    /// Written only where it is news.
    pub fn knows(&mut self, strays: Vec<ProcessIdentity>) -> Result<(), Error> {
        if self.entry.strays == strays {
            return Ok(());
        }
        self.entry.strays = strays;
        self.write()
    }

    pub fn remove(&self) {
        // A record that stays is found by the next sweep, which finds nobody.
        removed(&self.path, fs::remove_file(&self.path));
    }

    fn write(&self) -> Result<(), Error> {
        let text = serde_json::to_vec(&self.entry).unwrap_or_default();
        // Named after its writer, so that a killed one's can be told from one that is being written.
        let ProcessIdentity { pid, start } = self.entry.owner;
        let half = self.path.with_extension(format!("{pid}.{start}.{HALF}"));
        let written = private::make_dir(self.path.parent().unwrap_or(Path::new(".")))
            .and_then(|()| private::write(&half, text))
            .and_then(|()| fs::rename(&half, &self.path));
        written.map_err(|source| Error::File {
            path: self.path.clone(),
            source,
        })
    }
}

fn runs(data_dir: &Path) -> PathBuf {
    data_dir.join("runs")
}

/// What a sweep found of one earlier run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweptRun {
    pub run: String,
    pub ended: usize,
    pub left: usize,
}

/// Ends what an earlier, killed Countersign had started from this data directory.
///
/// By recorded identity and mark only. A run whose owner lives is not touched; a
/// record that cannot be read is left where it is, because its owner is unknown.
pub async fn sweep(data_dir: &Path) -> Result<Vec<SweptRun>, Error> {
    end_where(data_dir, |entry| !entry.owner.is_alive()).await
}

/// Ends the runs whose ids the caller names, although their owner may live: a
/// worker that lost its lease while it was stopped must not go on through its child.
pub async fn end_runs(
    data_dir: &Path,
    named: impl Fn(&str) -> bool + Send + Sync,
) -> Result<Vec<SweptRun>, Error> {
    end_where(data_dir, |entry| named(&entry.run)).await
}

async fn end_where(
    data_dir: &Path,
    wanted: impl Fn(&LiveRunEntry) -> bool + Send,
) -> Result<Vec<SweptRun>, Error> {
    let dir = runs(data_dir);
    let files = match fs::read_dir(&dir) {
        Ok(files) => files,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(Error::File { path: dir, source }),
    };
    let here = place();
    let (boot, _) = here.split_once(' ').unwrap_or((&here, ""));
    let mut swept = Vec::new();
    for path in files.filter_map(|file| Some(file.ok()?.path())) {
        if writer_of_half(&path).is_some_and(|writer| !writer.is_alive()) {
            removed(&path, fs::remove_file(&path));
            continue;
        }
        if is_cut_off(&path) {
            removed(&path, fs::remove_file(&path));
            continue;
        }
        let Some(entry) = read(&path) else { continue };
        if !entry.place.starts_with(boot) {
            removed(&path, fs::remove_file(&path));
        } else if entry.place == here && wanted(&entry) {
            let mut family = ProcessTree::of(&entry.mark, entry.leader);
            family.strays = entry.strays;
            let cleared = family.end(TERM_GRACE).await;
            if cleared.left == 0 {
                removed(&path, fs::remove_file(&path));
            }
            swept.push(SweptRun {
                run: entry.run,
                ended: cleared.ended,
                left: cleared.left,
            });
        }
    }
    Ok(swept)
}

/// A record gets its name when it is written, so that only a power cut leaves one without content;
/// nobody whom it could name has survived that.
fn is_cut_off(path: &Path) -> bool {
    let is_record = path.extension().is_some_and(|ending| ending == "json");
    is_record && fs::read(path).is_ok_and(|text| text.iter().all(|&byte| byte == 0))
}

fn writer_of_half(path: &Path) -> Option<ProcessIdentity> {
    let name = path.file_name()?.to_str()?.strip_suffix(HALF)?;
    let mut parts = name.trim_end_matches('.').rsplit('.');
    let start = parts.next()?.parse().ok()?;
    let pid = parts.next()?.parse().ok()?;
    Some(ProcessIdentity { pid, start })
}

fn read(path: &Path) -> Option<LiveRunEntry> {
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
        let dir = runs(data.path());
        fs::create_dir(&dir).unwrap();
        for (name, text) in [("a.json", ""), ("b.json", "\0\0"), ("c.json", "{\"run\":")] {
            fs::write(dir.join(name), text).unwrap();
        }
        assert_eq!(sweep(data.path()).await.unwrap(), []);
        let left: Vec<_> = fs::read_dir(&dir).unwrap().collect();
        assert_eq!(left.len(), 1);
        assert!(dir.join("c.json").exists());
    }
}
