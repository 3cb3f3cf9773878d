//! Starts programs, watches them, and ends them with everything they started.
//!
//! This is the only module of Countersign that spawns processes. A run has an explicit
//! environment, its own process group, three limits (wall, idle, output) and a transcript. It
//! always ends as a [`ProcessExit`], and none of its processes is left behind. The module does not
//! know the purpose of a program, never kills by name, and never touches a run whose owning
//! Countersign is still alive.
//!
//! [`ProcessHost::run`] is for agents and checks. [`run_short_command`] is for our own short commands (git),
//! which neither daemonise nor need a transcript.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;

use crate::sandbox::{self, Proof, RefusedHost, SandboxSpec};

mod cgroup;
mod disk;
mod fork;
mod init;
mod lines;
mod memory;
mod output;
mod parent_death;
mod record;
mod run;
mod spawn;
mod stdin;
mod terminal;
mod tree;

pub use cgroup::{Cgroup, CgroupLimits};
pub use disk::DiskQuota;
pub use init::{
    ForkSide, ProgramExit, ResourceLimits, Supervision, become_program, fork_supervised,
    free_bytes, run_supervised,
};
pub use output::{CommandOutput, ShortCommand, run_short_command};
pub(crate) use parent_death::tie_to_parent;
pub use parent_death::{adopt_orphans, exec_tied_to_parent};
pub use record::{SweptRun, end_orphaned_runs, end_runs, live_runs};
pub use spawn::{find_program, normalize_program_path};
pub use terminal::run_at_terminal;
pub use tree::{ProcessIdentity, boot_and_pid_namespace};

/// Environment variable that marks every process of a run. The mark survives where a process group
/// and a session do not: a daemon that calls `setsid` still carries the environment that it was
/// started with.
pub const RUN_MARK: &str = "COUNTERSIGN_RUN";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{program}` is not installed: looked in {searched}; install it or give its full path")]
    NotInstalled { program: String, searched: String },
    #[error("the directory {} to run `{program}` in does not exist; create it or name another", dir.display())]
    NoDirectory { program: String, dir: PathBuf },
    #[error("`{0}` cannot be a run id: use letters, digits, `.`, `-` and `_`, at most 120 of them")]
    BadRunId(String),
    #[error("`{0}` needs a sandbox, but no launcher is configured; nothing was started")]
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

/// Name of one run: unique per data directory and safe as a file name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunId(String);

impl RunId {
    pub fn new(id: &str) -> Result<Self, Error> {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        // The id becomes a file name and part of the mark, so a path separator, a leading dot or an
        // `@` must not get in. 120 characters leave room for the endings below the kernel's 255.
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

/// Limits of a run. Every field is a hard bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Time from the start to the end.
    pub wall: Duration,
    /// Longest time without a byte on stdout or stderr.
    pub idle: Duration,
    /// Maximum size of the transcript; later output is read and dropped.
    pub output_bytes: u64,
    /// Longest line; a longer one is passed on in pieces of this size.
    pub line_bytes: usize,
    /// Time between SIGTERM and SIGKILL.
    pub term_grace: Duration,
    /// Time for which the pipes are read after the leader's exit.
    pub drain_grace: Duration,
    /// Time that a finished program has to exit by itself.
    pub exit_grace: Duration,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        Self {
            // An agent works for minutes on one brief, and thinks for minutes without output. The
            // limits are for one that hangs.
            wall: Duration::from_secs(30 * 60),
            idle: Duration::from_secs(10 * 60),
            // The transcript is kept per run; 64 MiB is far above any real one and still fits a
            // small disk.
            output_bytes: 64 << 20,
            line_bytes: 1 << 20,
            // Two seconds let a program write its last state, and a person may be waiting for the
            // stop.
            term_grace: Duration::from_secs(2),
            drain_grace: Duration::from_secs(2),
            // Some agents keep a connection or a background task open after their result, so an
            // exit of their own may take a moment.
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
    /// The complete environment: nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
    pub cwd: PathBuf,
    pub stdin: Vec<u8>,
    /// Whether stdin stays open for the replies of `on_line`, until a reply sets `over`.
    pub keeps_stdin_open: bool,
    /// File for the raw output: stdout and stderr together, line by line.
    pub transcript: PathBuf,
    pub limits: ProcessLimits,
    /// Disk quota. Without one, only the sandbox limits the run's disk use.
    pub disk_quota: Option<DiskQuota>,
    /// Sandbox of the run; it needs a launcher. Without it the run has our own permissions.
    pub sandbox: Option<SandboxSpec>,
}

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessExit {
    Code(i32),
    /// Killed by a signal that we did not send.
    Signal(i32),
    WallLimit,
    IdleLimit,
    /// Stopped by us because it exceeded its disk quota, with its usage at that time.
    DiskLimit {
        bytes: u64,
        files: u64,
    },
    Cancelled,
    /// Stopped by us because it had finished its work but did not exit by itself.
    Dismissed,
}

impl ProcessExit {
    pub fn success(self) -> bool {
        // A dismissed program had already delivered its result, so ending it is no failure.
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
            // The count ends as soon as it is over the limit, so both numbers are lower bounds.
            Self::DiskLimit { bytes, files: 0 } => write!(
                f,
                "stopped at its disk limit, after at least {} MiB",
                bytes >> 20
            ),
            Self::DiskLimit { bytes, files } => write!(
                f,
                "stopped at its disk limit, after at least {} MiB in {files} files",
                bytes >> 20
            ),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Dismissed => f.write_str("stopped by Countersign after it had finished"),
        }
    }
}

/// Result of a finished run.
#[derive(Clone, Debug)]
pub struct ProcessEnd {
    pub exit: ProcessExit,
    pub wall: Duration,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    pub lines: u64,
    /// Whether the transcript is shorter than the output.
    pub cut: bool,
    /// Error that stopped the writing of the transcript, if there was one.
    pub transcript_error: Option<String>,
    /// Number of processes that we had to end: after a stop, or because they outlived the leader.
    pub swept: usize,
    /// Number of processes that could not be ended; their record stays for the next sweep.
    pub survivors: usize,
    /// Proof of the sandbox, if there was one.
    pub proof: Option<Proof>,
    /// Hosts that our proxy refused, if the run's network is limited to a list of hosts.
    pub refused_hosts: Vec<RefusedHost>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    Out,
    Err,
}

/// A line as text, without its line end. Invalid UTF-8 and NULs are replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputLine {
    pub stream: OutputStream,
    pub text: String,
    /// False for a piece of a line that is longer than the limit.
    pub whole: bool,
}

/// Reaction of the caller to a line of output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineReaction {
    /// Bytes for the program's stdin, if it stays open.
    pub say: Vec<u8>,
    /// Replaces the bytes that are written to stdin before the program is stopped. For example a
    /// request to cancel in the agent's own protocol, which lets it save its session.
    pub farewell: Option<Vec<u8>>,
    /// Whether the program has finished its work: stdin is closed, and the program is stopped if
    /// it does not exit within `exit_grace`.
    pub over: bool,
}

/// Lets a caller that only listens return `()`.
impl From<()> for LineReaction {
    fn from((): ()) -> Self {
        Self::default()
    }
}

/// A program that starts every child: `program args… -- child args…`.
///
/// Our own binary with the verb `hold` ties the child's life to ours; with the verb `confine` it
/// also sets up the sandbox. The binary is ours because the kernel clears a parent-death signal at
/// a fork: only code that runs in the child itself can set it.
#[derive(Clone, Debug)]
pub struct Launcher {
    pub program: PathBuf,
    pub args: Vec<OsString>,
}

impl Launcher {
    /// Returns `exe hold <our pid> -- …`, where `exe` passes the rest to [`exec_tied_to_parent`].
    pub fn tied_to_us(exe: &Path) -> Self {
        let parent = std::process::id().to_string();
        Self {
            program: exe.to_owned(),
            args: vec!["hold".into(), parent.into()],
        }
    }
}

impl Launcher {
    /// Returns the same program with the verb `confine`, which holds the child in a sandbox.
    fn with_sandbox(&self, specification: &Path) -> Self {
        let parent = std::process::id().to_string();
        Self {
            program: self.program.clone(),
            args: vec!["confine".into(), parent.into(), specification.into()],
        }
    }
}

/// Starts runs: the directory of their records, and their launcher.
#[derive(Clone, Debug)]
pub struct ProcessHost {
    pub data_dir: PathBuf,
    pub launcher: Option<Launcher>,
    /// Whether processes that were reparented to us are ended with the run. Needs
    /// [`adopt_orphans`] and a launcher with the verb `hold` or `confine`.
    pub adopts_orphans: bool,
}

/// Asks a run to stop; it then ends as [`ProcessExit::Cancelled`].
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

impl Stopper {
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

/// The run's side of a [`Stopper`]. Dropping the stopper does not stop the run.
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

    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Completes when the stop has been requested.
    pub async fn requested(&mut self) {
        // The sender is gone without a stop, so the run must not be taken for a cancelled one.
        if self.0.wait_for(|stopped| *stopped).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests;
