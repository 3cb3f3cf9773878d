//! Runs of a ticket's agents, and the files that runs and checks left, for clients that read them
//! as bytes.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use engine::project::TicketFiles;
use engine::run_records::{self, RecordedRun};
use flow::access::Access;
use flow::event::Lease;
use flow::{Ticket, TicketId, Time};
use rustix::fs::OFlags;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Artefact, Stored};

use super::App;
use crate::failure::Failure;

/// A run of an agent for a ticket.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TicketRun {
    /// Number of the job and its fence: `3-1`.
    pub id: String,
    /// `build`, `review` or `verify`.
    pub role: String,
    pub round: u32,
    pub agent: String,
    pub started: Time,
    pub is_running: bool,
    /// How the run ended, if its end was recorded.
    pub end: Option<String>,
    pub wall_ms: Option<u64>,
    pub model: Option<String>,
    /// Size of the transcript until now.
    pub bytes: u64,
}

/// A file of a ticket's rounds.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ArtefactEntry {
    /// Name of the file in the path of the route that reads it.
    #[serde(default)]
    pub id: String,
    #[serde(flatten)]
    pub artefact: Artefact,
}

/// A file that is open for reading.
#[derive(Debug)]
pub struct StoredFile {
    pub file: File,
    /// Size when it was opened. A transcript may grow.
    pub bytes: u64,
    /// Changes with the file's content.
    pub etag: String,
}

/// State of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    Running,
    /// The text tells how it ended.
    Ended(String),
}

pub async fn list_runs(app: &App, ticket: &str) -> Result<Vec<TicketRun>, Failure> {
    let ticket = app.ticket(ticket).await?.ticket;
    let runs = run_records::runs_of_ticket(&files_of(app, &ticket.id));
    Ok(runs.into_iter().map(|run| describe(run, &ticket)).collect())
}

/// Returns the silence after which a run of this ticket is ended.
pub async fn idle_limit_ms(app: &App, stored: &Stored) -> Result<u64, Failure> {
    let policy = app.coordinator.policy_of(stored).await?;
    Ok(policy.limits.idle_secs.saturating_mul(1000))
}

fn files_of(app: &App, ticket: &TicketId) -> TicketFiles {
    TicketFiles::new(&app.environment.data_dir, ticket)
}

/// Returns the id of a run in lists and addresses.
pub(super) fn run_id(recorded: &RecordedRun) -> String {
    format!("{}-{}", recorded.job, recorded.try_number)
}

fn describe(recorded: RecordedRun, ticket: &Ticket) -> TicketRun {
    let id = run_id(&recorded);
    let run = recorded.run;
    let lease = Lease {
        serial: recorded.job,
        fence: recorded.try_number,
    };
    let is_held = Access::Spawned(lease).is_live(ticket);
    TicketRun {
        id,
        role: run.role,
        round: run.round,
        agent: run.agent,
        started: run.started,
        is_running: run.ended.is_none() && is_held,
        end: run.ended.as_ref().map(|end| findings::one_line(&end.how)),
        wall_ms: run.ended.as_ref().map(|end| end.wall_ms),
        model: run.ended.and_then(|end| end.model),
        bytes: fs::metadata(&recorded.transcript).map_or(0, |file| file.len()),
    }
}

/// Parses the id of a run.
fn parse_run(text: &str) -> Option<Lease> {
    let (serial, fence) = text.split_once('-')?;
    Some(Lease {
        serial: serial.parse().ok()?,
        fence: fence.parse().ok()?,
    })
}

fn no_run(ticket: &TicketId, run: &str) -> Failure {
    let run = findings::one_line(run);
    Failure::not_found(format!("{ticket} has no run {run}"))
        .hint(format!("GET /api/v1/tickets/{ticket}/runs lists its runs"))
}

/// Tells whether a run goes on. A run whose worker died has no recorded end; the ticket knows that
/// its lease is over.
pub async fn run_state(app: &App, ticket: &TicketId, run: &str) -> Result<RunState, Failure> {
    let lease = parse_run(run).ok_or_else(|| no_run(ticket, run))?;
    let dir = files_of(app, ticket).run_dir(lease.serial, lease.fence);
    let record = run_records::read_record(&dir).ok_or_else(|| no_run(ticket, run))?;
    if let Some(end) = record.ended {
        return Ok(RunState::Ended(findings::one_line(&end.how)));
    }
    let stored = app.coordinator.ticket(ticket).await?;
    Ok(if Access::Spawned(lease).is_live(&stored.ticket) {
        RunState::Running
    } else {
        RunState::Ended("its end was not recorded".to_owned())
    })
}

/// Opens the transcript of a run.
pub fn open_transcript(app: &App, ticket: &TicketId, run: &str) -> Result<StoredFile, Failure> {
    let lease = parse_run(run).ok_or_else(|| no_run(ticket, run))?;
    let files = files_of(app, ticket);
    let dir = files.run_dir(lease.serial, lease.fence);
    open_below(&files.dir(), &dir.join(run_records::TRANSCRIPT_FILE))
        .ok_or_else(|| no_run(ticket, run))
}

/// Reads the brief of the run with this transcript, at most `most` bytes of it.
pub fn read_brief(app: &App, ticket: &TicketId, transcript: &Path, most: u64) -> Option<String> {
    let brief = transcript.parent()?.join("scratch").join("brief.md");
    let stored = open_below(&files_of(app, ticket).dir(), &brief)?;
    let mut text = Vec::new();
    stored.file.take(most).read_to_end(&mut text).ok()?;
    Some(findings::clean(&String::from_utf8_lossy(&text)))
}

pub async fn list_artefacts(app: &App, ticket: &TicketId) -> Result<Vec<ArtefactEntry>, Failure> {
    let artefacts = app.coordinator.store.artefacts(ticket).await?;
    let entry = |artefact: Artefact| ArtefactEntry {
        id: artefact_id(&artefact),
        artefact,
    };
    Ok(artefacts.into_iter().map(entry).collect())
}

fn artefact_id(artefact: &Artefact) -> String {
    let Artefact {
        round,
        kind,
        name,
        path,
        ..
    } = artefact;
    let key = format!("{round}\0{kind}\0{name}\0{path}");
    engine::hash::short_sha256(key.as_bytes())
}

/// Opens an artefact. The id is looked up in the ticket's list, so a caller cannot name a path.
pub async fn open_artefact(app: &App, ticket: &TicketId, id: &str) -> Result<StoredFile, Failure> {
    let mut entries = list_artefacts(app, ticket).await?.into_iter();
    let path = entries
        .find(|entry| entry.id == id)
        .map(|entry| app.environment.data_dir.join(entry.artefact.path));
    path.and_then(|path| open_below(&files_of(app, ticket).dir(), &path))
        .ok_or_else(|| {
            Failure::not_found(format!("{ticket} has no such file, or it was removed")).hint(
                format!("GET /api/v1/tickets/{ticket}/artefacts lists its files"),
            )
        })
}

/// Opens a regular file below a directory. Agents write into some of these directories, so neither
/// a link out of it nor a pipe is opened.
fn open_below(dir: &Path, path: &Path) -> Option<StoredFile> {
    let path = fs::canonicalize(path).ok()?;
    if !path.starts_with(fs::canonicalize(dir).ok()?) {
        return None;
    }
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(flags).ok()?)
        .open(path)
        .ok()?;
    let meta = file.metadata().ok().filter(fs::Metadata::is_file)?;
    let (inode, bytes) = (meta.ino(), meta.len());
    let etag = format!(
        "\"{inode:x}-{bytes:x}-{:x}-{:x}\"",
        meta.mtime(),
        meta.mtime_nsec()
    );
    Some(StoredFile { file, bytes, etag })
}
