//! A process of ours that starts one program and waits for it: the two ends of a sandbox.

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

/// How often we look whether it is still within its allowance.
const LOOK_EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// How often the memory is added up at most, and which part of the time that may take: it reads
/// the open files of every process, and a run can have many of both.
const COUNT_EVERY: Duration = Duration::from_millis(500);
const COUNT_SHARE: u32 = 20;

/// What is left to us on the disk of a directory.
pub fn free_bytes(dir: &Path) -> io::Result<u64> {
    let space = rustix::fs::statvfs(dir)?;
    Ok(space.f_bavail.saturating_mul(space.f_frsize))
}

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ProgramExit {
    Code(i32),
    Signal(i32),
}

impl ProgramExit {
    /// As a shell would say it.
    pub fn code(self) -> u8 {
        match self {
            Self::Code(code) => u8::try_from(code).unwrap_or(1),
            Self::Signal(number) => 128_u8.saturating_add(u8::try_from(number).unwrap_or(0)),
        }
    }
}

/// What is looked after while the program runs.
#[derive(Clone, Copy, Debug)]
pub enum Supervision<'a> {
    /// We are the first process of a PID namespace: everybody's end is ours to take.
    EverybodyHere,
    /// What no limit of the kernel bounds: the program is ended beyond it.
    Outside(&'a ResourceLimits),
}

#[derive(Debug)]
pub struct ResourceLimits {
    /// Where it writes.
    pub dir: PathBuf,
    /// The same, opened before our mounts were separated from the machine's: whoever is inside
    /// swaps our root as well as its own, and while it does nothing can be found by its name.
    pub opened: OwnedFd,
    /// Free space that must be left there.
    pub floor_bytes: u64,
    /// For those whom the limit of the kernel does not bind.
    pub processes: Option<u64>,
    /// Of all that the run holds together, which no limit of the kernel bounds without a control
    /// group.
    pub memory_bytes: u64,
    /// Free memory that the machine must have left.
    pub memory_floor_bytes: u64,
    /// Whether the run has file systems in memory of its own.
    pub own_mounts: bool,
    /// The run's control group, which whoever is started next is born in.
    pub group: Option<Cgroup>,
    /// Whether what the program leaves behind is ours to end, because no namespace ends with it.
    pub hunts: bool,
}

impl ResourceLimits {
    /// What is over, if anything is.
    fn exceeded(&self, counts_memory: bool) -> io::Result<Option<String>> {
        let space = rustix::fs::fstatvfs(&self.opened)?;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        if free < self.floor_bytes {
            let (left, at) = (free >> 20, self.dir.display());
            return Ok(Some(format!(
                "only {left} MiB are left on the disk of {at}"
            )));
        }
        // The last net, and a cheap one: memory in flight between processes is in nobody's files.
        let left = memory::available_bytes().unwrap_or(u64::MAX);
        if left < self.memory_floor_bytes {
            let left = left >> 20;
            return Ok(Some(format!(
                "the machine has only {left} MiB of memory left"
            )));
        }
        if !counts_memory && self.processes.is_none() {
            return Ok(None);
        }
        let running = tree::descendants();
        let count = running.len() as u64;
        if self.processes.is_some_and(|most| count > most) {
            return Ok(Some(format!("it had {count} processes")));
        }
        if !counts_memory {
            return Ok(None);
        }
        let held = memory::held_bytes(&running, self.own_mounts);
        let over = held > self.memory_bytes;
        Ok(over.then(|| format!("it took {} MiB of memory", held >> 20)))
    }
}

/// Becomes the program; returns only on failure.
#[expect(
    clippy::disallowed_methods,
    reason = "becomes the program, in the room that spawns"
)]
pub fn become_program(program: &Path, args: &[OsString]) -> io::Result<Infallible> {
    hear_requests_to_end()?;
    Err(Command::new(program).args(args).exec())
}

/// Starts the program with our streams, directory and environment, and waits for its end. A
/// polite request to end is the program's to answer, not ours: it gets its own.
#[expect(clippy::disallowed_methods, reason = "this is the room that spawns")]
pub fn watch_over(
    program: &Path,
    args: &[OsString],
    watch: Supervision<'_>,
) -> io::Result<ProgramExit> {
    if matches!(watch, Supervision::EverybodyHere) {
        // The program inherits what is blocked, and must hear requests to end. Nothing but a kill
        // ends the first process of a PID namespace, so that this instant is no gap.
        hear_requests_to_end()?;
    } else {
        leave_politeness_to_others()?;
    }
    let child = Command::new(program).args(args).spawn()?;
    leave_politeness_to_others()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("the child has no pid"))?;
    match watch {
        Supervision::EverybodyHere => reap_until(pid),
        Supervision::Outside(allowance) => keep_within(pid, allowance),
    }
}

impl ResourceLimits {
    /// The child is in the run's group; we are not to be counted with it.
    fn leave_group(&self) {
        if let Some(group) = &self.group {
            // Where that is refused our few pages count as the run's.
            let _ = group.leave();
        }
    }

    fn end_group(&self) {
        if let Some(group) = &self.group {
            group.end();
        }
    }
}

/// One of the two that were one.
#[derive(Clone, Copy, Debug)]
pub enum ForkSide {
    /// Who waited, with the other's end.
    Outside(ProgramExit),
    Inside,
}

/// Divides us in two, of which one watches over the other.
pub fn watch_over_ourselves(allowance: ResourceLimits) -> io::Result<ForkSide> {
    leave_politeness_to_others()?;
    let Some(other) = fork()? else {
        // What is open needs no permission: the one inside has nothing of it.
        drop(allowance);
        return Ok(ForkSide::Inside);
    };
    keep_within(other, &allowance).map(ForkSide::Outside)
}

fn leave_politeness_to_others() -> io::Result<()> {
    Ok(requests_to_end().thread_block()?)
}

fn hear_requests_to_end() -> io::Result<()> {
    Ok(requests_to_end().thread_unblock()?)
}

fn requests_to_end() -> SigSet {
    SigSet::from_iter([Name::SIGTERM, Name::SIGINT, Name::SIGHUP])
}

/// Waits for its end, or brings it about.
fn keep_within(pid: Pid, allowance: &ResourceLimits) -> io::Result<ProgramExit> {
    allowance.leave_group();
    let ending = watch_until_the_end(pid, allowance);
    allowance.end_group();
    ending
}

fn watch_until_the_end(pid: Pid, allowance: &ResourceLimits) -> io::Result<ProgramExit> {
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    if let Err(why) = wait_within(&handle, allowance) {
        // Of a PID namespace nobody outlives the first, and who lived there cannot be signalled
        // by the numbers of its `/proc`; without one the hunt begins.
        let _ = pidfd_send_signal(&handle, Signal::KILL);
        hunt(pid, allowance);
        drop(reap(pid));
        return Err(why);
    }
    let ending = reap(pid);
    hunt(pid, allowance);
    ending
}

/// Ends what the program left behind, or has not left yet.
fn hunt(pid: Pid, allowance: &ResourceLimits) {
    if allowance.hunts && !tree::descendants().is_empty() {
        let mut family = ProcessTree::of("nobody carries this", None);
        family.leader = ProcessIdentity::of(pid.as_raw_nonzero().get());
        family.with_orphans = true;
        family.kill();
    }
}

/// Takes the end of our own child.
fn reap(pid: Pid) -> io::Result<ProgramExit> {
    loop {
        let ended = match waitpid(Some(pid), WaitOptions::empty()) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        if let Some(ending) = ended.and_then(|(_, status)| read(status)) {
            return Ok(ending);
        }
    }
}

/// Takes everybody's end until it is this one's.
fn reap_until(wanted: Pid) -> io::Result<ProgramExit> {
    loop {
        let ended = match wait(WaitOptions::empty()) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        if let Some((pid, status)) = ended
            && pid == wanted
            && let Some(ending) = read(status)
        {
            return Ok(ending);
        }
    }
}

fn read(status: WaitStatus) -> Option<ProgramExit> {
    let code = status.exit_status().map(ProgramExit::Code);
    code.or_else(|| status.terminating_signal().map(ProgramExit::Signal))
}

/// Until it has ended; an error where it is to be ended.
fn wait_within(handle: &OwnedFd, allowance: &ResourceLimits) -> io::Result<()> {
    let mut count_at = Instant::now() + COUNT_EVERY;
    loop {
        let mut ends = [PollFd::new(handle, PollFlags::IN)];
        match poll(&mut ends, Some(&LOOK_EVERY)) {
            Ok(0) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let began = Instant::now();
        let counts_memory = began >= count_at;
        if let Some(why) = allowance.exceeded(counts_memory)? {
            return Err(io::Error::other(format!("the run was ended: {why}")));
        }
        if counts_memory {
            count_at = Instant::now() + COUNT_EVERY.max(began.elapsed() * COUNT_SHARE);
        }
    }
}
