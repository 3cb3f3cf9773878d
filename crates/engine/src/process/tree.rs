//! Who belongs to a run, and how they are ended.
//!
//! A process is known by pid and start time together, so that a reused pid is
//! never mistaken for it, and is signalled through a pidfd that was opened
//! before the start time was compared.

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

/// How long members that keep appearing are hunted before we give up and say so.
const HUNT_MAX: Duration = Duration::from_secs(10);
/// How long somebody who cannot be judged is waited for.
const SETTLE_MAX: Duration = Duration::from_millis(300);
/// Twice what the kernel takes by default.
const ENVIRONMENT_MAX: usize = 4 << 20;
const LOOK_AGAIN: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessIdentity {
    pub pid: i32,
    /// Clock ticks since boot, from `/proc/<pid>/stat`.
    pub start: u64,
}

impl ProcessIdentity {
    pub fn of(pid: i32) -> Option<Self> {
        read(pid).map(|entry| entry.id)
    }

    pub fn ourselves() -> Option<Self> {
        i32::try_from(std::process::id()).ok().and_then(Self::of)
    }

    pub fn is_alive(self) -> bool {
        read(self.pid).is_some_and(|entry| entry.id == self && !entry.dead)
    }

    fn signal(self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else {
            return;
        };
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else {
            return;
        };
        if Self::of(self.pid) == Some(self) {
            // It may have gone in this instant, which is what we want.
            let _ = pidfd_send_signal(handle, signal);
        }
    }
}

/// A value of the mark that no other run has: run ids are unique per data
/// directory only, and one of another Countersign must never be taken for ours.
pub(super) fn new_mark(run: &str, owner: ProcessIdentity) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{run}@{}.{}.{count}", owner.pid, owner.start)
}

/// This boot and this PID namespace: outside of them a pid means nothing.
pub fn place() -> String {
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
    /// A thread of the kernel: it never has an environment.
    fn of_the_kernel(&self) -> bool {
        const KTHREADD: i32 = 2;
        self.id.pid == KTHREADD || self.parent == KTHREADD
    }
}

fn read(pid: i32) -> Option<ProcessEntry> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, parentheses included.
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..]
        .split_ascii_whitespace()
        .collect();
    Some(ProcessEntry {
        id: ProcessIdentity {
            pid,
            start: fields.get(19)?.parse().ok()?,
        },
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        dead: matches!(*fields.first()?, "Z" | "X"),
    })
}

fn everybody() -> Vec<ProcessEntry> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(read)
        .collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MarkState {
    Yes,
    No,
    /// Nothing to read, which is how a process looks in the middle of an exec.
    Unsettled,
}

fn marked(pid: i32, mark: &[u8]) -> MarkState {
    match environment(pid) {
        Ok(environ) if environ.is_empty() => MarkState::Unsettled,
        Ok(environ) if environ.split(|&byte| byte == 0).any(|entry| entry == mark) => {
            MarkState::Yes
        }
        Ok(_) | Err(_) => MarkState::No,
    }
}

/// In large pieces: what is read in one call is whole, but an exec between two
/// calls ends the reading early.
fn environment(pid: i32) -> io::Result<Vec<u8>> {
    let mut file = File::open(format!("/proc/{pid}/environ"))?;
    let mut all = vec![0; 64 << 10];
    let mut length = 0;
    loop {
        let count = file.read(&mut all[length..])?;
        length += count;
        if count == 0 || length > ENVIRONMENT_MAX {
            all.truncate(length);
            return Ok(all);
        }
        all.resize(length + (64 << 10), 0);
    }
}

/// How many of those who hide are kept on record.
const STRAYS_MAX: usize = 1_000;

/// Everything that belongs to one run: its leader, the leader's group, whoever
/// carries the run's mark, and all their descendants.
#[derive(Clone, Debug)]
pub(super) struct ProcessTree {
    pub mark: Vec<u8>,
    pub leader: Option<ProcessIdentity>,
    /// Seen among them before, whatever they have left since: group, session, environment, parents.
    pub strays: Vec<ProcessIdentity>,
    /// Take in what was reparented to us from runs that are over.
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

    fn look(&self) -> ProcessTreeScan {
        let all = everybody();
        let us = i32::try_from(std::process::id()).unwrap_or(0);
        let since = self.leader.map_or(0, |leader| leader.start);
        let mut seen = ProcessTreeScan::default();
        let mut found = HashSet::new();
        for entry in all
            .iter()
            .filter(|entry| entry.id.start >= since && !entry.dead)
        {
            let led = |leader: ProcessIdentity| entry.id == leader || entry.group == leader.pid;
            if self.leader.is_some_and(led) {
                found.insert(entry.id);
                continue;
            }
            match marked(entry.id.pid, &self.mark) {
                MarkState::Yes => drop(found.insert(entry.id)),
                MarkState::No => {}
                MarkState::Unsettled => seen.unsettled |= !entry.of_the_kernel(),
            }
        }
        let of_the_house = found.clone();
        let known = |entry: &&ProcessEntry| !entry.dead && self.strays.contains(&entry.id);
        found.extend(all.iter().filter(known).map(|entry| entry.id));
        if self.with_orphans {
            found.extend(orphans(&all, us));
        }
        add_descendants(&all, &mut found);
        found.retain(|id| id.pid != us && id.is_alive());
        seen.strays = found.difference(&of_the_house).copied().collect();
        seen.members = found.into_iter().collect();
        seen
    }

    /// Those who belong to it and could not be told by group or mark, once their parents are gone.
    pub async fn look_for_strays(&self) -> Vec<ProcessIdentity> {
        let family = self.clone();
        let seen = tokio::task::spawn_blocking(move || family.look()).await;
        let mut strays: Vec<ProcessIdentity> =
            seen.unwrap_or_default().strays.into_iter().collect();
        strays.sort_by_key(|id| (id.pid, id.start));
        strays.truncate(STRAYS_MAX);
        strays
    }

    /// Ends everybody: SIGTERM, the grace, then SIGKILL until none is left.
    pub async fn end(&self, term_grace: Duration) -> KillSummary {
        let mut met = HashSet::new();
        let started = Instant::now();
        let mut asked = HashSet::new();
        loop {
            let family = self.clone();
            let seen = tokio::task::spawn_blocking(move || family.look()).await;
            let seen = seen.unwrap_or_else(|_| self.look());
            met.extend(seen.members.iter().copied());
            let spent = started.elapsed();
            let left = seen.members.len();
            let settled = !seen.unsettled || spent > SETTLE_MAX;
            if left == 0 && settled || spent > term_grace + HUNT_MAX {
                return KillSummary {
                    ended: met.len() - left,
                    left,
                };
            }
            for member in seen.members {
                if spent >= term_grace {
                    member.signal(Signal::KILL);
                } else if asked.insert(member) {
                    member.signal(Signal::TERM);
                }
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Ends everybody now, for a caller that cannot wait.
    pub fn kill(&self) -> bool {
        for _ in 0..50 {
            let seen = self.look();
            if seen.members.is_empty() && !seen.unsettled {
                return true;
            }
            for member in seen.members {
                member.signal(Signal::KILL);
            }
            std::thread::yield_now();
        }
        false
    }
}

/// What one look at the process table shows.
#[derive(Default)]
struct ProcessTreeScan {
    members: Vec<ProcessIdentity>,
    /// Those of them whom nothing but their parents gives away.
    strays: HashSet<ProcessIdentity>,
    /// Somebody could not be judged; look again.
    unsettled: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct KillSummary {
    pub ended: usize,
    pub left: usize,
}

fn add_descendants(all: &[ProcessEntry], found: &mut HashSet<ProcessIdentity>) {
    let mut pids: HashSet<i32> = found.iter().map(|id| id.pid).collect();
    loop {
        let before = pids.len();
        for entry in all {
            if pids.contains(&entry.parent) && pids.insert(entry.id.pid) {
                found.insert(entry.id);
            }
        }
        if pids.len() == before {
            return;
        }
    }
}

/// Everybody below this process. If `/proc` does not show us, it is that of a PID namespace which we
/// made and are not in: all whom it shows are below us, by numbers that mean nothing out here.
pub(super) fn descendants() -> Vec<ProcessIdentity> {
    let all = everybody();
    let us = std::process::id();
    let is_us = |id: ProcessIdentity| u32::try_from(id.pid) == Ok(us);
    let Some(ourselves) = all.iter().find(|entry| is_us(entry.id)) else {
        return all.iter().map(|entry| entry.id).collect();
    };
    let mut found = HashSet::from([ourselves.id]);
    add_descendants(&all, &mut found);
    found.remove(&ourselves.id);
    found.into_iter().collect()
}

/// Children of ours that we did not start: their run is over, because a held
/// leader adopts its own orphans for as long as it lives. The dead among them
/// are reaped here, since nobody else will.
fn orphans(all: &[ProcessEntry], us: i32) -> Vec<ProcessIdentity> {
    let known = spawn::known();
    let strangers = all
        .iter()
        .filter(|entry| entry.parent == us && !known.contains(&entry.id.pid));
    let mut alive = Vec::new();
    for stranger in strangers {
        if !stranger.dead {
            alive.push(stranger.id);
        } else if let Some(pid) = Pid::from_raw(stranger.id.pid) {
            // Somebody else's child is not ours to reap.
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
    alive
}
