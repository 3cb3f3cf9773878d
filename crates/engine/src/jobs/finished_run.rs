//! The record of a finished run, on disk before it is reported. A worker that dies in between must
//! not make anyone pay for the same run twice.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use flow::event::Lease;
use flow::{TicketId, Usage};
use serde::{Deserialize, Serialize};
use store::Artefact;

use super::{JobContext, JobError};
use crate::log::removed;
use crate::private_files;
use crate::project::Project;
use crate::run_records;

/// Record of a finished run, in the directory of that run.
pub(super) const ENDED_FILE: &str = "ended.json";
/// A finished run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AgentRun {
    pub result: Option<String>,
    /// Output next to the result.
    #[serde(default)]
    pub other_output: Option<String>,
    /// First answer of a reviewer that was asked again for the required form.
    #[serde(default)]
    pub first: Option<String>,
    pub usage: Usage,
    pub session: Option<String>,
    pub artefacts: Vec<Artefact>,
    /// Commit that a builder left.
    pub head: Option<String>,
    /// Files of a builder whose names git cannot store.
    #[serde(default)]
    pub unstorable: Vec<String>,
    /// Forbidden changes of a reviewer or verifier.
    pub tampered: Option<String>,
    /// Description of the sandbox that was enforced, if there was one.
    pub sandbox: Option<String>,
}

/// Returns the newest finished run of this job, under any lease.
pub fn newest_finished_run(context: &JobContext<'_>) -> Option<AgentRun> {
    let runs = runs_of(context.project, &context.ticket.id, context.lease);
    let texts = runs.filter_map(|(fence, dir)| Some((fence, fs::read(dir.join(ENDED_FILE)).ok()?)));
    let (_, newest) = texts.max_by_key(|(fence, _)| *fence)?;
    serde_json::from_slice(&newest).ok()
}

/// Returns the fence of the run to report: the newest finished one, or the one under our lease.
pub fn reported_fence(context: &JobContext<'_>) -> u64 {
    let runs = runs_of(context.project, &context.ticket.id, context.lease);
    let ended = runs.filter(|(_, dir)| dir.join(ENDED_FILE).exists());
    let newest = ended.map(|(fence, _)| fence).max();
    newest.unwrap_or(context.lease.fence)
}

/// Records the end of the run on disk, atomically.
pub fn record_run(context: &JobContext<'_>, run: &AgentRun) -> Result<(), JobError> {
    let path = record_file(context);
    let text = serde_json::to_vec(run).map_err(JobError::transient)?;
    let partial = path.with_extension("part");
    let mut file = private_files::create(&partial)?;
    file.write_all(&text)?;
    file.sync_all()?;
    fs::rename(partial, &path)?;
    // The report also names the transcript: after a power cut all of it must exist.
    let dir = fs::File::open(context.run_dir())?;
    Ok(rustix::fs::syncfs(dir).map_err(io::Error::from)?)
}

/// Removes the records of a failed run, so that the agent runs again. Later holders keep theirs.
pub fn forget_run(project: &Project, ticket: &TicketId, lease: Lease) {
    for (_, dir) in runs_of(project, ticket, lease) {
        let path = dir.join(ENDED_FILE);
        removed(&path, fs::remove_file(&path));
    }
}

pub(super) fn record_file(context: &JobContext<'_>) -> PathBuf {
    context.run_dir().join(ENDED_FILE)
}

/// Returns the directories of the runs of this job, up to the fence of the lease.
pub(super) fn runs_of(
    project: &Project,
    ticket: &TicketId,
    lease: Lease,
) -> impl Iterator<Item = (u64, PathBuf)> {
    let dirs =
        run_records::numbered_dirs(&project.ticket_files(ticket).job_dir(lease.serial), "run-");
    let up_to_ours = move |(fence, _): &(u64, PathBuf)| *fence <= lease.fence;
    dirs.into_iter().filter(up_to_ours)
}
