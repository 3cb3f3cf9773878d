//! Finds the processes of a run and ends them.
//!
//! A process is identified by pid and start time together, so that a reused pid is never mistaken
//! for it. It is signalled through a pidfd that was opened before the start time was compared.
//!
//! No single criterion finds every process. A group is left by `setsid`, an environment can be
//! overwritten, and a parent can end. The scan combines them and remembers what it saw. It refuses
//! to signal a process that started before the run's leader.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, waitpid,
};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::spawn;

/// Longest time for killing processes that keep appearing; then the rest is reported as left.
const KILL_TIME_MAX: Duration = Duration::from_secs(10);
/// Longest wait for a process whose environment cannot be read yet. An exec takes milliseconds. A
/// process that hides its environment for longer has none.
const SETTLE_MAX: Duration = Duration::from_millis(300);
/// Longest environment that is read: twice the kernel's default limit.
const ENVIRONMENT_MAX: usize = 4 << 20;
// Short, because a fork bomb creates processes between two scans.
const SCAN_INTERVAL: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessIdentity {
    pub pid: i32,
    /// Start time in clock ticks since boot, from `/proc/<pid>/stat`.
    pub start: u64,
}

impl ProcessIdentity {
    pub fn of(pid: i32) -> Option<Self> {
        read_entry(pid).map(|entry| entry.id)
    }

    pub fn ourselves() -> Option<Self> {
        i32::try_from(std::process::id()).ok().and_then(Self::of)
    }

    // A zombie still has its entry in `/proc`, but runs no code and takes no signal.
    pub fn is_alive(self) -> bool {
        read_entry(self.pid).is_some_and(|entry| entry.id == self && !entry.dead)
    }

    fn signal(self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else {
            return;
        };
        // The order matters: a pidfd always means one process. If its pid was reused before it was
        // opened, the start time differs; afterwards it cannot be reused unnoticed.
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else {
            return;
        };
        if Self::of(self.pid) == Some(self) {
            // The process may have ended in this instant, which is what we want.
            let _ = pidfd_send_signal(handle, signal);
        }
    }
}

/// Returns a mark that no other run has. Run ids are unique only per data directory, and a run of
/// another Countersign must never be taken for ours.
pub(super) fn new_mark(run: &str, owner: ProcessIdentity) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // The start time of the owner makes the mark unique even if its pid is reused.
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{run}@{}.{}.{count}", owner.pid, owner.start)
}

/// Returns the ids of this boot and this PID namespace. A pid has no meaning outside of them.
pub fn boot_and_pid_namespace() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), space.display())
}

struct ProcessEntry {
    id: ProcessIdentity,
    parent: i32,
    group: i32,
    dead: bool,
}

impl ProcessEntry {
    /// Returns whether this is a kernel thread, which never has an environment.
    fn is_kernel_thread(&self) -> bool {
        const KTHREADD: i32 = 2;
        self.id.pid == KTHREADD || self.parent == KTHREADD
    }
}

fn read_entry(pid: i32) -> Option<ProcessEntry> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The process name in parentheses may contain anything, even parentheses.
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..]
        .split_ascii_whitespace()
        .collect();
    Some(ProcessEntry {
        id: ProcessIdentity {
            pid,
            // The numbers count from the field after the name: state is 0, and the start time is
            // 19.
            start: fields.get(19)?.parse().ok()?,
        },
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        // `X` is a process that is being removed; it can be seen for an instant.
        dead: matches!(*fields.first()?, "Z" | "X"),
    })
}

fn all_processes() -> Vec<ProcessEntry> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(read_entry)
        .collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MarkState {
    Yes,
    No,
    /// The environment is empty, as for a process in the middle of an exec.
    Unsettled,
}

fn mark_state(pid: i32, mark: &[u8]) -> MarkState {
    match read_environment(pid) {
        Ok(environ) if environ.is_empty() => MarkState::Unsettled,
        Ok(environ) if environ.split(|&byte| byte == 0).any(|entry| entry == mark) => {
            MarkState::Yes
        }
        // An error means a process of another user or one that has ended: neither is ours.
        Ok(_) | Err(_) => MarkState::No,
    }
}

/// Reads the environment in large pieces. One call reads consistent bytes, but an exec between two
/// calls ends the reading early.
fn read_environment(pid: i32) -> io::Result<Vec<u8>> {
    let mut file = File::open(format!("/proc/{pid}/environ"))?;
    let mut all = vec![0; 64 << 10];
    let mut length = 0;
    loop {
        let count = file.read(&mut all[length..])?;
        length += count;
        // The bound also holds for a process that makes its environment grow while it is read.
        if count == 0 || length > ENVIRONMENT_MAX {
            all.truncate(length);
            return Ok(all);
        }
        all.resize(length + (64 << 10), 0);
    }
}

/// Maximum number of recorded strays. Recorded strays are written to a file every second; a fork
/// bomb must not make that file huge.
const STRAYS_MAX: usize = 1_000;

/// All processes of one run: its leader, the leader's group, every process with the run's mark,
/// and all their descendants.
#[derive(Clone, Debug)]
pub(super) struct ProcessTree {
    pub mark: Vec<u8>,
    pub leader: Option<ProcessIdentity>,
    /// Processes that belonged to the run in an earlier scan, even if they have since left their
    /// group, session, environment or parents.
    pub strays: Vec<ProcessIdentity>,
    /// Whether to include processes that were reparented to us from finished runs.
    pub with_orphans: bool,
}

impl ProcessTree {
    pub fn of(mark: &str, leader: Option<ProcessIdentity>) -> Self {
        Self {
            mark: format!("{}={mark}", super::RUN_MARK).into_bytes(),
            leader,
            strays: Vec::new(),
            with_orphans: false,
        }
    }

    fn scan(&self) -> ProcessTreeScan {
        let all = all_processes();
        let us = i32::try_from(std::process::id()).unwrap_or(0);
        // A process that started before the leader cannot belong to the run.
        let since = self.leader.map_or(0, |leader| leader.start);
        let mut scan = ProcessTreeScan::default();
        let mut members = HashSet::new();
        for entry in all
            .iter()
            .filter(|entry| entry.id.start >= since && !entry.dead)
        {
            let led = |leader: ProcessIdentity| entry.id == leader || entry.group == leader.pid;
            // The leader's pid is the id of its group, and stays reserved while the group has a
            // member.
            if self.leader.is_some_and(led) {
                members.insert(entry.id);
                continue;
            }
            match mark_state(entry.id.pid, &self.mark) {
                MarkState::Yes => drop(members.insert(entry.id)),
                MarkState::No => {}
                // A kernel thread never has an environment. Any other process gets another look.
                MarkState::Unsettled => scan.unsettled |= !entry.is_kernel_thread(),
            }
        }
        let by_group_or_mark = members.clone();
        let is_stray = |entry: &&ProcessEntry| !entry.dead && self.strays.contains(&entry.id);
        members.extend(all.iter().filter(is_stray).map(|entry| entry.id));
        if self.with_orphans {
            members.extend(reap_and_list_orphans(&all, us));
        }
        // Descendants are added last, so that children of strays and orphans are found as well.
        add_descendants(&all, &mut members);
        // `is_alive` is asked again, because the table was read some time ago.
        members.retain(|id| id.pid != us && id.is_alive());
        scan.strays = members.difference(&by_group_or_mark).copied().collect();
        scan.members = members.into_iter().collect();
        scan
    }

    /// Finds processes that belong to the run but could not be recognised by group or mark after
    /// the end of their parents.
    pub async fn find_strays(&self) -> Vec<ProcessIdentity> {
        let tree = self.clone();
        // Reading `/proc` takes milliseconds on a busy machine, too long for an async thread.
        let scan = tokio::task::spawn_blocking(move || tree.scan()).await;
        let mut strays: Vec<ProcessIdentity> =
            scan.unwrap_or_default().strays.into_iter().collect();
        strays.sort_by_key(|id| (id.pid, id.start));
        strays.truncate(STRAYS_MAX);
        strays
    }

    /// Ends all processes: SIGTERM, the grace period, then SIGKILL until none is left.
    pub async fn terminate(&self, term_grace: Duration) -> KillSummary {
        let mut all_seen = HashSet::new();
        let started = Instant::now();
        let mut terminated = HashSet::new();
        loop {
            let tree = self.clone();
            let scan = tokio::task::spawn_blocking(move || tree.scan()).await;
            // The blocking pool may be shut down already, but the processes must be ended all the
            // same.
            let scan = scan.unwrap_or_else(|_| self.scan());
            all_seen.extend(scan.members.iter().copied());
            let spent = started.elapsed();
            let left = scan.members.len();
            let settled = !scan.unsettled || spent > SETTLE_MAX;
            // Nothing counts as ended while a process is unsettled: it may be about to exec with
            // our mark.
            if left == 0 && settled || spent > term_grace + KILL_TIME_MAX {
                return KillSummary {
                    ended: all_seen.len() - left,
                    left,
                };
            }
            for member in scan.members {
                // SIGKILL is repeated at every scan, because new children appear until their
                // parents are dead.
                if spent >= term_grace {
                    member.signal(Signal::KILL);
                // SIGTERM is sent once: programs treat a second one as a request to skip their
                // cleanup.
                } else if terminated.insert(member) {
                    member.signal(Signal::TERM);
                }
            }
            tokio::time::sleep(SCAN_INTERVAL).await;
        }
    }

    /// Kills all processes now, for a caller that cannot wait. Returns whether none is left.
    pub fn kill(&self) -> bool {
        // Fifty passes end any tree that does not fork faster than we kill; the rest is reported.
        for _ in 0..50 {
            let scan = self.scan();
            if scan.members.is_empty() && !scan.unsettled {
                return true;
            }
            for member in scan.members {
                member.signal(Signal::KILL);
            }
            std::thread::yield_now();
        }
        false
    }
}

/// Result of one scan of the process table.
#[derive(Default)]
struct ProcessTreeScan {
    members: Vec<ProcessIdentity>,
    /// Members that were recognised only through their parents.
    strays: HashSet<ProcessIdentity>,
    /// Whether a process could not be judged yet, so that another scan is needed.
    unsettled: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct KillSummary {
    pub ended: usize,
    pub left: usize,
}

fn add_descendants(all: &[ProcessEntry], members: &mut HashSet<ProcessIdentity>) {
    let mut pids: HashSet<i32> = members.iter().map(|id| id.pid).collect();
    // The table is in no order, so a child may come before its parent: repeat until nothing is
    // added.
    loop {
        let before = pids.len();
        for entry in all {
            if pids.contains(&entry.parent) && pids.insert(entry.id.pid) {
                members.insert(entry.id);
            }
        }
        if pids.len() == before {
            return;
        }
    }
}

/// Returns all descendants of this process. If `/proc` does not show us, it belongs to a PID
/// namespace that we created and are not in: all its processes are below us, with pids that mean
/// nothing out here.
pub(super) fn descendants() -> Vec<ProcessIdentity> {
    let all = all_processes();
    let us = std::process::id();
    let is_us = |id: ProcessIdentity| u32::try_from(id.pid) == Ok(us);
    let Some(ourselves) = all.iter().find(|entry| is_us(entry.id)) else {
        return all.iter().map(|entry| entry.id).collect();
    };
    let mut below = HashSet::from([ourselves.id]);
    add_descendants(&all, &mut below);
    below.remove(&ourselves.id);
    below.into_iter().collect()
}

/// Returns children of ours that we did not start. Their run is over, because a leader adopts its
/// own orphans as long as it lives. The dead ones are reaped here, because nothing else does it.
fn reap_and_list_orphans(all: &[ProcessEntry], us: i32) -> Vec<ProcessIdentity> {
    let our_children = spawn::known_children();
    let orphans = all
        .iter()
        .filter(|entry| entry.parent == us && !our_children.contains(&entry.id.pid));
    let mut alive = Vec::new();
    for orphan in orphans {
        if !orphan.dead {
            alive.push(orphan.id);
        } else if let Some(pid) = Pid::from_raw(orphan.id.pid) {
            // This fails if it is no longer our child, which is fine.
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
    alive
}
