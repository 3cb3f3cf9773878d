//! Starts programs, watches them, and ends them with everything they started.
//!
//! The only place in Countersign that spawns. A run has an explicit environment,
//! its own process group, three limits (wall, idle, output) and a transcript;
//! whatever happens, it ends as a recorded [`Exit`] and nothing of it is left.
//! What it refuses: to know what the program is for, to kill anything by name,
//! and to touch a run whose owning Countersign is still alive.
//!
//! [`Host::run`] is for agents and checks. [`output`] is for our own short
//! commands (git), which neither daemonise nor need a transcript.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;

use crate::sandbox::{self, Proof, RefusedHost, SandboxSpec};

mod attend;
mod cgroup;
mod disk;
mod fork;
mod hold;
mod lines;
mod memory;
mod output;
mod record;
mod run;
mod spawn;
mod tree;
mod voice;
mod warden;

pub use attend::attend;
pub use cgroup::{Cgroup, CgroupLimits};
pub use disk::DiskQuota;
pub(crate) use hold::tie_to;
pub use hold::{adopt_orphans, hold};
pub use output::{CommandOutput, ShortCommand, output};
pub use record::{SweptRun, end_runs, sweep};
pub use spawn::{find_program, plain};
pub use tree::{ProcessIdentity, place};
pub use warden::{
    ForkSide, ProgramExit, ResourceLimits, Supervision, become_program, free_bytes, watch_over,
    watch_over_ourselves,
};

/// The environment variable by which everything that belongs to a run is known.
pub const RUN_MARK: &str = "COUNTERSIGN_RUN";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{program}` is not installed: looked in {searched}; install it or give its full path")]
    NotInstalled { program: String, searched: String },
    #[error("the directory {} to run `{program}` in does not exist; create it or name another", dir.display())]
    NoDirectory { program: String, dir: PathBuf },
    #[error("`{0}` cannot be a run id: use letters, digits, `.`, `-` and `_`, at most 120 of them")]
    BadRunId(String),
    #[error("`{0}` should be confined, and there is no launcher to do it; nothing was started")]
    NoLauncher(String),
    #[error(transparent)]
    Sandbox(#[from] sandbox::Error),
    #[error("`{program}` could not be started: {source}")]
    Spawn {
        program: String,
        source: std::io::Error,
    },
    #[error("{}: {source}; see that the disk is writable and not full", path.display())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
}

/// The name of one run: unique per data directory, safe as a file name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunId(String);

impl RunId {
    pub fn new(id: &str) -> Result<Self, Error> {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if id.is_empty() || id.len() > 120 || id.starts_with('.') || !id.chars().all(legal) {
            return Err(Error::BadRunId(id.to_owned()));
        }
        Ok(Self(id.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a run may use. Every field is a hard bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessLimits {
    /// From the start to the end.
    pub wall: Duration,
    /// Without a byte on stdout or stderr.
    pub idle: Duration,
    /// How much the transcript keeps; what comes after is read and dropped.
    pub output_bytes: u64,
    /// A longer line is handed on in pieces of this size.
    pub line_bytes: usize,
    /// Between SIGTERM and SIGKILL.
    pub term_grace: Duration,
    /// How long the pipes are read after the leader's exit.
    pub drain_grace: Duration,
    /// How long a program that has nothing more to do may take to end by itself.
    pub exit_grace: Duration,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        Self {
            wall: Duration::from_secs(30 * 60),
            idle: Duration::from_secs(10 * 60),
            output_bytes: 64 << 20,
            line_bytes: 1 << 20,
            term_grace: Duration::from_secs(2),
            drain_grace: Duration::from_secs(2),
            exit_grace: Duration::from_secs(5),
        }
    }
}

/// One program to run.
#[derive(Clone, Debug)]
pub struct ProcessSpec {
    pub run_id: RunId,
    /// A path, or a name looked up in the `PATH` of `env`.
    pub program: OsString,
    pub args: Vec<OsString>,
    /// The whole environment: nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
    pub cwd: PathBuf,
    pub stdin: Vec<u8>,
    /// Whether stdin stays open for what `on_line` answers, until that says it is over.
    pub converses: bool,
    /// Where the raw output goes, stdout and stderr together, line by line.
    pub transcript: PathBuf,
    pub limits: ProcessLimits,
    /// What it may put on the disk; without one, what the sandbox lets it.
    pub allotment: Option<DiskQuota>,
    /// What the run may see and touch; needs a launcher. Without one it may what we may.
    pub confinement: Option<SandboxSpec>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessExit {
    Code(i32),
    /// Killed by a signal that was not ours.
    Signal(i32),
    WallLimit,
    IdleLimit,
    /// It had put so much on the disk, which is more than it may.
    DiskLimit {
        bytes: u64,
        files: u64,
    },
    Cancelled,
    /// It had done all it was there for, did not end by itself, and was ended.
    Dismissed,
}

impl ProcessExit {
    pub fn success(self) -> bool {
        matches!(self, Self::Code(0) | Self::Dismissed)
    }
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "killed by signal {signal}"),
            Self::WallLimit => f.write_str("stopped at its time limit"),
            Self::IdleLimit => f.write_str("stopped after it had been silent for too long"),
            Self::DiskLimit { bytes, files } => write!(
                f,
                "stopped after it had put {} MiB in {files} files on the disk",
                bytes >> 20
            ),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Dismissed => f.write_str("ended by us, after its last word"),
        }
    }
}

/// What is known about a run once it is over.
#[derive(Clone, Debug)]
pub struct ProcessEnd {
    pub exit: ProcessExit,
    pub wall: Duration,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    pub lines: u64,
    /// The transcript is shorter than the output.
    pub cut: bool,
    /// Why the transcript could not be written, if it could not.
    pub transcript_error: Option<String>,
    /// Processes that we had to end: after a stop, or because they outlived the leader.
    pub swept: usize,
    /// Processes that could not be ended; their record stays for the next sweep.
    pub survivors: usize,
    /// How it was confined, if it was.
    pub proof: Option<Proof>,
    /// Hosts that it wanted to reach and may not, where its network is held to a list.
    pub refused_hosts: Vec<RefusedHost>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    Out,
    Err,
}

/// A line as text: broken UTF-8 replaced, NULs too, without its line end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputLine {
    pub stream: OutputStream,
    pub text: String,
    /// False for a piece of a line that is longer than the limit.
    pub whole: bool,
}

/// What the reader of a line wants to happen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineReaction {
    /// Said to the program, where it converses.
    pub say: Vec<u8>,
    /// From now on the last thing to be said to it, if it has to be stopped.
    pub farewell: Option<Vec<u8>>,
    /// Nothing more is wanted of it: stdin is closed, and soon the program is ended.
    pub over: bool,
}

/// Somebody who only listens.
impl From<()> for LineReaction {
    fn from((): ()) -> Self {
        Self::default()
    }
}

/// A program put in front of every child: `program args… -- child args…`.
///
/// Our own binary with the verb `hold` ties the child's life to ours; a sandbox
/// goes into the same place.
#[derive(Clone, Debug)]
pub struct Launcher {
    pub program: PathBuf,
    pub args: Vec<OsString>,
}

impl Launcher {
    /// `exe hold <our pid> -- …`, where `exe` hands what follows to [`hold()`].
    pub fn hold(exe: &Path) -> Self {
        let parent = std::process::id().to_string();
        Self {
            program: exe.to_owned(),
            args: vec!["hold".into(), parent.into()],
        }
    }
}

impl Launcher {
    /// The same program with the verb `confine`, which holds and locks in.
    fn confining(&self, specification: &Path) -> Self {
        let parent = std::process::id().to_string();
        Self {
            program: self.program.clone(),
            args: vec!["confine".into(), parent.into(), specification.into()],
        }
    }
}

/// Where runs are recorded, and what stands in front of each of them.
#[derive(Clone, Debug)]
pub struct ProcessHost {
    pub data_dir: PathBuf,
    pub launcher: Option<Launcher>,
    /// After [`adopt_orphans`], and with a launcher that holds: whatever was
    /// reparented to us is ended with the run.
    pub adopts: bool,
}

/// Asks a run to stop; it then ends as [`Exit::Cancelled`].
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

impl Stopper {
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

/// The run's side of a [`Stopper`]. A dropped stopper never stops anything.
#[derive(Clone, Debug)]
pub struct StopSignal(watch::Receiver<bool>);

impl StopSignal {
    pub fn pair() -> (Stopper, Self) {
        let (sender, receiver) = watch::channel(false);
        (Stopper(sender), Self(receiver))
    }

    pub fn never() -> Self {
        Self::pair().1
    }

    /// Completes when the stop has been asked for.
    pub async fn asked(&mut self) {
        if self.0.wait_for(|asked| *asked).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests;
