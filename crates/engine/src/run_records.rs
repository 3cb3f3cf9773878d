//! Records of agent runs: agent, task, cost and end. Each is a file next to the transcript, written
//! at the start and again at the end, so that failed and running runs can be read too.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use flow::Time;
use flow::usage::Caps;
use serde::{Deserialize, Serialize};

use crate::agent::AgentUsage;
use crate::project::TicketFiles;

pub const RECORD_FILE: &str = "run.json";
/// Raw output of a run.
pub const TRANSCRIPT_FILE: &str = "transcript.log";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunRecord {
    /// `build`, `review` or `verify`.
    pub role: String,
    pub round: u32,
    pub agent: String,
    /// Name of the CLI format of the transcript.
    pub format: String,
    pub started: Time,
    /// Limits of the run, if the budget sets any.
    #[serde(skip_serializing_if = "is_unbounded")]
    pub budget: Caps,
    /// Id of its run token, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// `None` while the run continues, or if its end was not seen.
    pub ended: Option<RunEnd>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    pub how: String,
    pub wall_ms: u64,
    pub model: Option<String>,
    pub session: Option<String>,
    pub turns: Option<u64>,
    /// Number of refused tool calls.
    pub denials: u64,
    #[serde(flatten)]
    pub usage: AgentUsage,
}

/// A run and its location.
#[derive(Clone, Debug)]
pub struct RecordedRun {
    pub run: RunRecord,
    /// Serial of the job.
    pub job: u32,
    pub try_number: u64,
    pub transcript: PathBuf,
}

fn is_unbounded(caps: &Caps) -> bool {
    *caps == Caps::default()
}

pub fn write_record(dir: &Path, run: &RunRecord) -> io::Result<()> {
    // Replace the file atomically, because a reader may come at any moment.
    let part = dir.join("run.part");
    crate::private_files::write(&part, serde_json::to_vec_pretty(run)?)?;
    fs::rename(part, dir.join(RECORD_FILE))
}

/// Returns the record in this directory, if there is one.
pub fn read_record(dir: &Path) -> Option<RunRecord> {
    serde_json::from_slice(&fs::read(dir.join(RECORD_FILE)).ok()?).ok()
}

/// Cleans a record from another machine, so that it can be stored and shown. Returns `None` if it
/// is not a record.
pub fn sanitize_record(text: &[u8]) -> Option<Vec<u8>> {
    let mut run: RunRecord = serde_json::from_slice(text).ok()?;
    let ended = run.ended.as_mut();
    let of_end = ended.map(|end| [Some(&mut end.how), end.model.as_mut(), end.session.as_mut()]);
    let of_run = [
        Some(&mut run.role),
        Some(&mut run.agent),
        Some(&mut run.format),
    ];
    let all = of_run.into_iter().chain([run.token.as_mut()]);
    for word in all.chain(of_end.into_iter().flatten()).flatten() {
        *word = findings::one_line(word);
    }
    serde_json::to_vec_pretty(&run).ok()
}

/// Returns all runs of a ticket, in the order of their jobs.
pub fn runs_of_ticket(files: &TicketFiles) -> Vec<RecordedRun> {
    let mut runs = Vec::new();
    for (job, dir) in numbered_dirs(&files.jobs_dir(), "") {
        let Ok(serial) = u32::try_from(job) else {
            continue;
        };
        for (fence, dir) in numbered_dirs(&dir, "run-") {
            let text = fs::read(dir.join(RECORD_FILE)).unwrap_or_default();
            if let Ok(run) = serde_json::from_slice(&text) {
                runs.push(RecordedRun {
                    run,
                    job: serial,
                    try_number: fence,
                    transcript: dir.join(TRANSCRIPT_FILE),
                });
            }
        }
    }
    runs.sort_by_key(|run| (run.job, run.try_number));
    runs
}

/// Returns the directories whose names are a number after the prefix.
pub fn numbered_dirs(dir: &Path, prefix: &str) -> Vec<(u64, PathBuf)> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let numbers = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let number = entry
            .file_name()
            .to_str()?
            .strip_prefix(prefix)?
            .parse()
            .ok()?;
        Some((number, entry.path()))
    });
    numbers.collect()
}
