//! The outer and the inner process of a sandbox: each starts one program and waits for it.
//!
//! Both are single-threaded and use blocking calls. They hold no state that a crash could lose: the
//! kernel ends the inner process with the outer one. The module refuses to hide an end: a limit
//! that was exceeded is an error with its reason.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal as Name};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, pidfd_open, pidfd_send_signal, wait, waitpid,
};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::cgroup::Cgroup;
use super::fork::fork;
use super::memory;
use super::tree::{self, ProcessIdentity, ProcessTree};

/// Interval at which the resource limits are checked.
const CHECK_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Shortest interval between two memory counts, and the factor by which the interval exceeds the
/// time of a count. Counting reads the open files of every process, and a run can have many of
/// both. At a share of one twentieth the supervisor itself costs at most five per cent of a core.
const COUNT_EVERY: Duration = Duration::from_millis(500);
const COUNT_SHARE: u32 = 20;

/// Returns the free bytes on the disk of a directory.
pub fn free_bytes(dir: &Path) -> io::Result<u64> {
    let space = rustix::fs::statvfs(dir)?;
    // `f_bavail` leaves out the blocks that are reserved for root, which a run cannot use.
    Ok(space.f_bavail.saturating_mul(space.f_frsize))
}

/// The end of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ProgramExit {
    Code(i32),
    Signal(i32),
}

impl ProgramExit {
    /// Returns the exit code that a shell would report.
    pub fn code(self) -> u8 {
        match self {
            Self::Code(code) => u8::try_from(code).unwrap_or(1),
            // Shells use 128 plus the number; the saturation keeps an unknown number from wrapping
            // to success.
            Self::Signal(number) => 128_u8.saturating_add(u8::try_from(number).unwrap_or(0)),
        }
    }
}

/// Duties of the process that waits for the program.
#[derive(Clone, Copy, Debug)]
pub enum Supervision<'a> {
    /// We are the first process of a PID namespace and must reap every orphan in it.
    ReapAll,
    /// We enforce the limits that the kernel does not, and end the program if it exceeds them.
    Outside(&'a ResourceLimits),
}

#[derive(Debug)]
pub struct ResourceLimits {
    /// Directory that the program writes to.
    pub dir: PathBuf,
    /// The same directory, opened before our mounts were separated from the machine's. The inner
    /// process swaps our root as well as its own, and during the swap no path can be resolved.
    pub opened: OwnedFd,
    /// Free disk space that must remain there.
    pub floor_bytes: u64,
    /// Maximum number of processes, for users that the kernel does not limit.
    pub processes: Option<u64>,
    /// Maximum memory of the whole run, which no kernel limit bounds without a control group.
    pub memory_bytes: u64,
    /// Available memory that the machine must keep.
    pub memory_floor_bytes: u64,
    /// Whether the run has its own tmpfs mounts.
    pub own_mounts: bool,
    /// The run's control group; the next child starts in it.
    pub group: Option<Cgroup>,
    /// Whether we must end the processes that the program leaves behind, because no PID namespace
    /// ends with it.
    pub kills_descendants: bool,
}

impl ResourceLimits {
    /// Returns a description of the exceeded limit, if there is one. The checks go from cheap to
    /// expensive: two system calls first, then the process table, and the memory of every process
    /// last.
    fn exceeded(&self, counts_memory: bool) -> io::Result<Option<String>> {
        let space = rustix::fs::fstatvfs(&self.opened)?;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        if free < self.floor_bytes {
            let (left, at) = (free >> 20, self.dir.display());
            return Ok(Some(format!(
                "only {left} MiB are left on the disk of {at}"
            )));
        }
        // A cheap last check: memory in flight between processes belongs to no process's files.
        // An unreadable file is no reason to end a run.
        let left = memory::available_bytes().unwrap_or(u64::MAX);
        if left < self.memory_floor_bytes {
            let left = left >> 20;
            return Ok(Some(format!(
                "the machine has only {left} MiB of memory left"
            )));
        }
        // Listing the processes costs more than the rest, and is only needed for these two limits.
        if !counts_memory && self.processes.is_none() {
            return Ok(None);
        }
        let running = tree::descendants();
        let count = running.len() as u64;
        if self.processes.is_some_and(|most| count > most) {
            return Ok(Some(format!(
                "it had {count} processes, more than its limit"
            )));
        }
        if !counts_memory {
            return Ok(None);
        }
        let used = memory::held_bytes(&running, self.own_mounts);
        let over = used > self.memory_bytes;
        let (used, limit) = (used >> 20, self.memory_bytes >> 20);
        Ok(over.then(|| format!("it used {used} MiB of memory, its limit is {limit} MiB")))
    }
}

/// Becomes the program; returns only on failure.
#[expect(
    clippy::disallowed_methods,
    reason = "becomes the program, in the module that spawns"
)]
pub fn become_program(program: &Path, args: &[OsString]) -> io::Result<Infallible> {
    // `exec` keeps the signal mask, so a program would start deaf to SIGTERM.
    unblock_termination_signals()?;
    Err(Command::new(program).args(args).exec())
}

/// Starts the program with our streams, directory and environment, and waits for its end. We block
/// SIGTERM, SIGINT and SIGHUP: the program gets the signal itself and may react to it.
#[expect(clippy::disallowed_methods, reason = "this is the module that spawns")]
pub fn run_supervised(
    program: &Path,
    args: &[OsString],
    watch: Supervision<'_>,
) -> io::Result<ProgramExit> {
    if matches!(watch, Supervision::ReapAll) {
        // The program inherits blocked signals, so they must be unblocked before the spawn. Only
        // SIGKILL ends the first process of a PID namespace, so a signal in this instant cannot
        // end us.
        unblock_termination_signals()?;
    } else {
        block_termination_signals()?;
    }
    // The launcher's signals must not end us between the spawn and the wait: the child would lose
    // its supervisor.
    let child = Command::new(program).args(args).spawn()?;
    block_termination_signals()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("the child has no pid"))?;
    match watch {
        Supervision::ReapAll => reap_until(pid),
        Supervision::Outside(limits) => supervise(pid, limits),
    }
}

impl ResourceLimits {
    /// Leaves the run's control group, so that our own memory does not count; the child stays in
    /// it.
    fn leave_group(&self) {
        if let Some(group) = &self.group {
            // If that fails, our few pages count as the run's.
            let _ = group.leave();
        }
    }

    fn end_group(&self) {
        if let Some(group) = &self.group {
            group.kill_and_remove();
        }
    }
}

/// The process in which a fork returned.
#[derive(Clone, Copy, Debug)]
pub enum ForkSide {
    /// The outer process, after the end of the inner one.
    Outside(ProgramExit),
    Inside,
}

/// Forks. The outer process supervises the inner one until its end.
pub fn fork_supervised(limits: ResourceLimits) -> io::Result<ForkSide> {
    // Signals are blocked before the fork, so that neither side can be ended half-way.
    block_termination_signals()?;
    let Some(inner) = fork()? else {
        // An open descriptor works without permission checks, so the inner process must not keep
        // any.
        drop(limits);
        return Ok(ForkSide::Inside);
    };
    supervise(inner, &limits).map(ForkSide::Outside)
}

fn block_termination_signals() -> io::Result<()> {
    Ok(termination_signals().thread_block()?)
}

fn unblock_termination_signals() -> io::Result<()> {
    Ok(termination_signals().thread_unblock()?)
}

fn termination_signals() -> SigSet {
    SigSet::from_iter([Name::SIGTERM, Name::SIGINT, Name::SIGHUP])
}

/// Waits for the end of the process, and ends it if it exceeds a limit.
fn supervise(pid: Pid, limits: &ResourceLimits) -> io::Result<ProgramExit> {
    // The child inherited the group at the fork, so leaving now moves only us.
    limits.leave_group();
    let ending = watch_until_exit(pid, limits);
    limits.end_group();
    ending
}

fn watch_until_exit(pid: Pid, limits: &ResourceLimits) -> io::Result<ProgramExit> {
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    // `waitpid` has no timeout; a pidfd can be polled, which allows for checks in between.
    if let Err(why) = wait_within_limits(&handle, limits) {
        // In a PID namespace no process outlives the first one, and the pids of its `/proc` cannot
        // be signalled from here. Without a namespace the descendants are searched and killed.
        // A process that has ended in the meantime cannot be signalled; it is reaped below.
        let _ = pidfd_send_signal(&handle, Signal::KILL);
        kill_descendants(pid, limits);
        drop(reap(pid));
        return Err(why);
    }
    let ending = reap(pid);
    // After reaping, because a dead leader no longer adopts: its orphans are now our children.
    kill_descendants(pid, limits);
    ending
}

/// Kills the remaining descendants of the program.
fn kill_descendants(pid: Pid, limits: &ResourceLimits) {
    if limits.kills_descendants && !tree::descendants().is_empty() {
        // No process has this mark: the search here goes by parents only.
        let mut processes = ProcessTree::of("nobody carries this", None);
        processes.leader = ProcessIdentity::of(pid.as_raw_nonzero().get());
        processes.with_orphans = true;
        processes.kill();
    }
}

/// Reaps our own child.
fn reap(pid: Pid) -> io::Result<ProgramExit> {
    loop {
        let ended = match waitpid(Some(pid), WaitOptions::empty()) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        if let Some(ending) = ended.and_then(|(_, status)| exit_from_status(status)) {
            return Ok(ending);
        }
    }
}

/// Reaps all children until this one has ended. Orphans of the namespace become children of its
/// first process; their exit codes are dropped.
fn reap_until(wanted: Pid) -> io::Result<ProgramExit> {
    loop {
        let ended = match wait(WaitOptions::empty()) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        if let Some((pid, status)) = ended
            && pid == wanted
            && let Some(ending) = exit_from_status(status)
        {
            return Ok(ending);
        }
    }
}

fn exit_from_status(status: WaitStatus) -> Option<ProgramExit> {
    let code = status.exit_status().map(ProgramExit::Code);
    code.or_else(|| status.terminating_signal().map(ProgramExit::Signal))
}

/// Waits for the end of the process. Returns an error if it exceeded a limit and must be killed.
fn wait_within_limits(handle: &OwnedFd, limits: &ResourceLimits) -> io::Result<()> {
    let mut count_at = Instant::now() + COUNT_EVERY;
    loop {
        let mut ends = [PollFd::new(handle, PollFlags::IN)];
        match poll(&mut ends, Some(&CHECK_INTERVAL)) {
            Ok(0) => {}
            // A signal interrupts `poll`; the limits are checked at the next timeout.
            Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let began = Instant::now();
        let counts_memory = began >= count_at;
        if let Some(why) = limits.exceeded(counts_memory)? {
            return Err(io::Error::other(format!("the run was ended: {why}")));
        }
        if counts_memory {
            // Counting adapts to its own cost, so that a run with many processes does not slow
            // itself down.
            count_at = Instant::now() + COUNT_EVERY.max(began.elapsed() * COUNT_SHARE);
        }
    }
}
