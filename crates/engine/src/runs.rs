//! What is on record about each run of an agent: who, for what, what it cost, how it ended. A file
//! beside the transcript, written at the start and again at the end, so that a run that failed or
//! still goes on can be read too.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use flow::Time;
use flow::usage::Caps;
use serde::{Deserialize, Serialize};

use crate::agent::AgentUsage;
use crate::workshop::TicketFiles;

pub const RECORD: &str = "run.json";
/// The raw output of a run.
pub const TRANSCRIPT: &str = "transcript.log";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunRecord {
    /// build, review or verify
    pub role: String,
    pub round: u32,
    pub agent: String,
    /// Whose output the transcript is.
    pub format: String,
    pub started: Time,
    /// What it may use up, where the budget says so.
    #[serde(skip_serializing_if = "is_unbounded")]
    pub budget: Caps,
    /// The id of the token that it was given, where it was given one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// None while it goes on, or where nobody saw its end.
    pub ended: Option<RunEnd>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    pub how: String,
    pub wall_ms: u64,
    pub model: Option<String>,
    pub session: Option<String>,
    pub turns: Option<u64>,
    /// How often it was not let use a tool.
    pub denials: u64,
    #[serde(flatten)]
    pub usage: AgentUsage,
}

/// A run and where it is.
#[derive(Clone, Debug)]
pub struct RecordedRun {
    pub run: RunRecord,
    /// The job, and which try of it.
    pub job: u32,
    pub try_number: u64,
    pub transcript: PathBuf,
}

fn is_unbounded(caps: &Caps) -> bool {
    *caps == Caps::default()
}

pub fn write(dir: &Path, run: &RunRecord) -> io::Result<()> {
    // Whole or not at all: a reader may come at any instant.
    let part = dir.join("run.part");
    crate::private::write(&part, serde_json::to_vec_pretty(run)?)?;
    fs::rename(part, dir.join(RECORD))
}

/// The record in this directory, where there is one.
pub fn read(dir: &Path) -> Option<RunRecord> {
    serde_json::from_slice(&fs::read(dir.join(RECORD)).ok()?).ok()
}

/// A record that came from another machine, as it may be kept and shown; none where it is no record.
pub fn cleaned(text: &[u8]) -> Option<Vec<u8>> {
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

/// All runs of a ticket, in the order of their jobs.
pub fn of_ticket(files: &TicketFiles) -> Vec<RecordedRun> {
    let mut found = Vec::new();
    for (job, dir) in numbered(&files.jobs(), "") {
        let Ok(serial) = u32::try_from(job) else {
            continue;
        };
        for (fence, dir) in numbered(&dir, "run-") {
            let text = fs::read(dir.join(RECORD)).unwrap_or_default();
            if let Ok(run) = serde_json::from_slice(&text) {
                found.push(RecordedRun {
                    run,
                    job: serial,
                    try_number: fence,
                    transcript: dir.join(TRANSCRIPT),
                });
            }
        }
    }
    found.sort_by_key(|found| (found.job, found.try_number));
    found
}

/// Directories whose names are a number after the prefix.
pub fn numbered(dir: &Path, prefix: &str) -> Vec<(u64, PathBuf)> {
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
