//! Runs an agent on a brief in a directory, and reads what it answers.
//!
//! An adapter is what differs between agents: arguments, environment, and a pure
//! function from a line of output to an event. Everything else is here, once. It
//! refuses to know what the work is for: it takes a brief and a directory, and
//! hands back what was said, what it cost and how it ended. What an agent wrote
//! is untrusted text, and is neither believed nor cleaned here.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use heard::Heard;

use crate::process::{self, Exit, Host, Limits, Line, RunId, Spec, Stop};
use crate::sandbox::{Confinement, Proof};

pub mod answer;
pub mod command;
pub mod event;
mod heard;
pub mod scripted;

pub use command::Command;
pub use event::{AgentEvent, Usage};
pub use scripted::Scripted;

/// The version of what an agent is given and may answer; see docs/agents.md.
pub const CONTRACT: &str = "1";

/// How much of a result file is read.
const RESULT_MAX: usize = 16 << 20;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the agent `{agent}` cannot run: {source}")]
    NotInstalled {
        agent: String,
        source: process::Error,
    },
    #[error("{}: {source}; see that the data directory is writable", path.display())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    Process(process::Error),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    Build,
    Review,
    Verify,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Review => "review",
            Self::Verify => "verify",
        }
    }
}

/// What the agent is told about the repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub commit: Option<String>,
    pub base: Option<String>,
    pub branch: Option<String>,
}

/// One piece of work for one agent.
#[derive(Clone, Debug)]
pub struct Assignment {
    pub run_id: RunId,
    pub role: Role,
    /// A label, for the agent to repeat.
    pub ticket: String,
    pub round: u32,
    /// Which of several that do the same, from 1.
    pub slot: u32,
    pub brief: String,
    /// Where it works.
    pub dir: PathBuf,
    /// Its own home, and nobody else's.
    pub home: PathBuf,
    /// Its own temporary files; the brief is put there too.
    pub scratch: PathBuf,
    /// A copy of what it judges that it may change, where one was laid out.
    pub copy: Option<PathBuf>,
    /// Where it may leave its result.
    pub result_file: PathBuf,
    pub transcript: PathBuf,
    /// What it gets beside the contract: `PATH`, credentials, a locale.
    pub env: Vec<(OsString, OsString)>,
    pub facts: Facts,
    pub limits: Limits,
    pub model: Option<String>,
    /// What it may see and touch; without one, all that we may.
    pub confinement: Option<Confinement>,
}

/// How an adapter wants its agent started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    pub program: OsString,
    pub args: Vec<OsString>,
    /// Beside the contract's variables, and stronger.
    pub env: Vec<(OsString, OsString)>,
    pub stdin: Vec<u8>,
}

/// What is particular about one agent. Pure: nothing is started or read here.
pub trait Adapter: Send + Sync {
    fn name(&self) -> &str;
    fn invocation(&self, assignment: &Assignment) -> Invocation;
    /// What a line of its stdout means, if it means anything.
    fn event(&self, line: &str) -> Option<AgentEvent>;
    /// What it must be able to read, beside the system, the tools and its own directories.
    fn reads(&self) -> Vec<PathBuf> {
        Vec::new()
    }
    /// Files of the person's that it needs in its own home: from where, to where below it.
    fn credentials(&self) -> Vec<(PathBuf, PathBuf)> {
        Vec::new()
    }
}

/// Where a result was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The agent's own last word, in its output format.
    Event,
    File,
    /// The last JSON on stdout.
    Json,
    /// All that was said on stdout.
    Text,
}

/// What came of an assignment.
#[derive(Clone, Debug)]
pub struct Report {
    pub exit: Exit,
    /// None if it answered nothing at all.
    pub result: Option<(String, Source)>,
    pub events: Vec<AgentEvent>,
    pub usage: Usage,
    pub wall: Duration,
    pub session: Option<String>,
    pub model: Option<String>,
    pub transcript: PathBuf,
    /// The end of stderr, for a message that says why.
    pub complaint: String,
    /// Processes that it left behind and that could not be ended.
    pub survivors: usize,
    /// How it was confined, if it was.
    pub proof: Option<Proof>,
}

/// Runs the agent to its end, whatever that end is. An agent that fails is a
/// report; only what keeps it from starting at all is an error.
pub async fn run(
    host: &Host,
    adapter: &dyn Adapter,
    assignment: &Assignment,
    mut on_event: impl FnMut(&AgentEvent) + Send,
    stop: Stop,
) -> Result<Report, Error> {
    prepare(assignment)?;
    let invocation = adapter.invocation(assignment);
    let mut env = contract(assignment);
    for (name, value) in invocation.env {
        env.retain(|(known, _)| *known != name);
        env.push((name, value));
    }
    let spec = Spec {
        run_id: assignment.run_id.clone(),
        program: invocation.program,
        args: invocation.args,
        env,
        cwd: assignment.dir.clone(),
        stdin: invocation.stdin,
        transcript: assignment.transcript.clone(),
        limits: assignment.limits,
        confinement: assignment.confinement.clone().map(|mut confinement| {
            confinement.read.extend(adapter.reads());
            confinement
        }),
    };
    let mut heard = Heard::default();
    let on_line = |line: Line| {
        if let Some(event) = heard.take(adapter, line) {
            on_event(&event);
            heard.keep(event);
        }
    };
    let ended = host
        .run(spec, on_line, stop)
        .await
        .map_err(|error| match error {
            missing @ process::Error::NotInstalled { .. } => Error::NotInstalled {
                agent: adapter.name().to_owned(),
                source: missing,
            },
            other => Error::Process(other),
        })?;
    let result = heard.result(read_result(&assignment.result_file));
    let mut usage = heard.usage;
    let mut model = heard.model.or_else(|| assignment.model.clone());
    if let Some((text, Source::File | Source::Json)) = &result
        && let Some((told, name)) = event::usage_in(text)
    {
        usage = usage.or(told);
        model = name.or(model);
    }
    Ok(Report {
        exit: ended.exit,
        result,
        events: heard.events,
        usage,
        wall: ended.wall,
        session: heard.session,
        model,
        transcript: assignment.transcript.clone(),
        complaint: heard.complaint,
        survivors: ended.survivors,
        proof: ended.proof,
    })
}

/// The brief's place, for agents that read it from a file.
pub fn brief_file(assignment: &Assignment) -> PathBuf {
    assignment.scratch.join("brief.md")
}

/// Directories that must be there, and a result that must not: one of an
/// earlier attempt would be taken for this one's.
fn prepare(assignment: &Assignment) -> Result<(), Error> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::File { path, source }
    };
    let parent = assignment
        .result_file
        .parent()
        .unwrap_or(&assignment.scratch);
    for dir in [
        &assignment.home,
        &assignment.scratch.join("tmp"),
        &parent.to_owned(),
    ] {
        fs::create_dir_all(dir).map_err(failed(dir))?;
    }
    match fs::remove_file(&assignment.result_file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(failed(&assignment.result_file)(error));
        }
        _ => {}
    }
    let brief = brief_file(assignment);
    fs::write(&brief, &assignment.brief).map_err(failed(&brief))
}

/// The environment of contract version 1.
fn contract(assignment: &Assignment) -> Vec<(OsString, OsString)> {
    let mut env = assignment.env.clone();
    let mut set = |name: &str, value: OsString| {
        env.retain(|(known, _)| known != name);
        env.push((name.into(), value));
    };
    let facts = &assignment.facts;
    set("HOME", assignment.home.clone().into());
    set("TMPDIR", assignment.scratch.join("tmp").into());
    set("COUNTERSIGN_CONTRACT", CONTRACT.into());
    set("COUNTERSIGN_ROLE", assignment.role.as_str().into());
    set("COUNTERSIGN_TICKET", assignment.ticket.clone().into());
    set("COUNTERSIGN_ROUND", assignment.round.to_string().into());
    set("COUNTERSIGN_SLOT", assignment.slot.to_string().into());
    set("COUNTERSIGN_BRIEF_FILE", brief_file(assignment).into());
    set(
        "COUNTERSIGN_RESULT_FILE",
        assignment.result_file.clone().into(),
    );
    let optional = [
        ("COUNTERSIGN_COMMIT", &facts.commit),
        ("COUNTERSIGN_BASE", &facts.base),
        ("COUNTERSIGN_BRANCH", &facts.branch),
        ("COUNTERSIGN_MODEL", &assignment.model),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            set(name, value.into());
        }
    }
    if let Some(copy) = &assignment.copy {
        set("COUNTERSIGN_COPY", copy.into());
    }
    env
}

/// A link is not followed: it could lead to a file that only we may read.
fn read_result(path: &Path) -> Option<String> {
    if !fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(path)
        .ok()?
        .take(RESULT_MAX as u64)
        .read_to_end(&mut bytes)
        .ok()?;
    let text = String::from_utf8_lossy(&bytes).replace('\0', "\u{FFFD}");
    (!text.trim().is_empty()).then_some(text)
}

#[cfg(test)]
mod tests;
