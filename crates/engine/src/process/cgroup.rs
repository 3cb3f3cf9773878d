//! Creates a control group for one run, if the machine allows it.
//!
//! Only version 2 is supported. The group is a sibling of ours, in a directory that is delegated
//! to us (systemd does that for every user session) and that enables the memory controller for its
//! children. The kernel then counts all memory of the run and refuses more. If any step fails, the
//! run has no group, and the count of the supervisor is the only bound; that count runs in both
//! cases.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, open, openat, unlinkat};

/// Mount points of version 2: alone, or together with version 1.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
const PREFIX: &str = "countersign-";
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);
// A bound for one sweep: a later start removes the rest.
const SWEPT_MAX: usize = 1000;
// Half a second in total: the kernel removes killed processes within milliseconds.
const REMOVE_TRIES: u32 = 50;
const REMOVE_PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

/// Limits that the kernel enforces for the whole group.
#[derive(Clone, Copy, Debug)]
pub struct CgroupLimits {
    pub memory_bytes: u64,
    pub processes: u64,
}

/// A control group. We are in it until [`Cgroup::leave`], so that children forked before that
/// start in it.
#[derive(Debug)]
pub struct Cgroup {
    name: String,
    /// The directories are opened before the mounts are separated: afterwards their paths resolve
    /// to something else.
    parent: OwnedFd,
    dir: OwnedFd,
    back: OwnedFd,
}

impl Cgroup {
    /// Creates the group and enters it. Returns nothing if the machine does not allow that.
    pub fn enter(limits: CgroupLimits) -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        // Version 2 is the line with the hierarchy number zero and no controllers.
        let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
        MOUNTS
            .iter()
            .find_map(|mount| Self::create_beside(Path::new(mount), path, limits))
    }

    fn create_beside(mount: &Path, own: &str, limits: CgroupLimits) -> Option<Self> {
        let ours = mount.join(own);
        // In a container our group may look like the root of all groups; then the new one is its
        // child.
        let parent = if own.is_empty() {
            ours.as_path()
        } else {
            ours.parent()?
        };
        // Without this controller a group would limit nothing, and the kernel allows enabling it
        // only for groups without processes of their own.
        let controllers = fs::read_to_string(parent.join("cgroup.subtree_control")).ok()?;
        if !controllers.split_whitespace().any(|name| name == "memory") {
            return None;
        }
        remove_abandoned(parent);
        let name = format!("{PREFIX}{}", std::process::id());
        let write = OFlags::WRONLY | OFlags::CLOEXEC;
        // The way back is opened first: without it we could enter the group and never leave.
        let back = open(ours.join("cgroup.procs"), write, Mode::empty()).ok()?;
        let parent = open(parent, DIRECTORY, Mode::empty()).ok()?;
        mkdirat(&parent, &name, Mode::from_raw_mode(0o755)).ok()?;
        let group = openat(&parent, &name, DIRECTORY, Mode::empty()).map(|dir| Self {
            name,
            parent,
            dir,
            back,
        });
        let group = group.ok()?;
        // Limits are set before the first process enters, so that none runs without them. Zero
        // means the writing process.
        if group.apply_limits(limits).is_err() || group.write("cgroup.procs", "0").is_err() {
            group.kill_and_remove();
            return None;
        }
        Some(group)
    }

    fn apply_limits(&self, limits: CgroupLimits) -> io::Result<()> {
        self.write("memory.max", &limits.memory_bytes.to_string())?;
        // Not every kernel has these two files, and the memory bound holds without them.
        // Without this a run over its limit would move to swap and slow down the whole machine.
        let _ = self.write("memory.swap.max", "0");
        // A few more than the limit, for our own processes in the group.
        let _ = self.write("pids.max", &limits.processes.saturating_add(8).to_string());
        Ok(())
    }

    fn write(&self, name: &str, value: &str) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(&self.dir, name, flags, Mode::empty())?;
        rustix::io::write(&file, value.as_bytes())?;
        Ok(())
    }

    /// Moves us back to our former group; children that were forked in the meantime stay.
    pub fn leave(&self) -> io::Result<()> {
        rustix::io::write(&self.back, b"0")?;
        Ok(())
    }

    /// Kills all processes that are left in the group and removes it.
    pub fn kill_and_remove(&self) {
        // If we could not leave, we must not kill the group: we would be among the killed.
        if self.leave().is_ok() {
            // Kernels before 5.14 have no such file; the process tree of the run is also ended in
            // another way.
            let _ = self.write("cgroup.kill", "1");
        }
        let events = openat(&self.dir, "cgroup.events", OFlags::CLOEXEC, Mode::empty());
        for _ in 0..REMOVE_TRIES {
            match (
                // The kernel refuses with EBUSY until every killed process is gone.
                unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR),
                &events,
            ) {
                // The kernel signals on this file when the last process has gone.
                (Err(rustix::io::Errno::BUSY), Ok(events)) => {
                    let mut changes = [PollFd::new(events, PollFlags::PRI)];
                    // If waiting fails, the next attempt follows at once; their number is bounded.
                    let _ = poll(&mut changes, Some(&REMOVE_PAUSE));
                }
                // It is removed, or it cannot be; a later start tries again.
                _ => return,
            }
        }
    }
}

/// Removes groups whose supervisor was killed before it could remove them.
fn remove_abandoned(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    for entry in ours.take(SWEPT_MAX) {
        // The kernel refuses to remove a group with processes, which is what we want.
        let _ = fs::remove_dir(entry.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: CgroupLimits = CgroupLimits {
        memory_bytes: 1 << 20,
        processes: 10,
    };

    /// Creates a directory with the names of a cgroup mount.
    fn mount(controllers: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let ours = dir.path().join("app.slice/ours.scope");
        fs::create_dir_all(&ours).unwrap();
        fs::write(ours.join("cgroup.procs"), "").unwrap();
        let control = dir.path().join("app.slice/cgroup.subtree_control");
        fs::write(control, controllers).unwrap();
        dir
    }

    #[test]
    fn without_the_memory_controller_there_is_no_group_and_nothing_is_left() {
        for controllers in ["", "cpu pids\n", "memory_recursiveprot\n"] {
            let dir = mount(controllers);
            assert!(Cgroup::create_beside(dir.path(), "app.slice/ours.scope", LIMITS).is_none());
            assert_eq!(
                fs::read_dir(dir.path().join("app.slice")).unwrap().count(),
                2
            );
        }
        assert!(Cgroup::create_beside(Path::new("/nonexistent"), "a/b", LIMITS).is_none());
    }

    // The kernel fills a new group with its files; a plain directory has none, so limiting it
    // fails.
    #[test]
    fn a_group_that_cannot_be_limited_is_removed_again() {
        let dir = mount("cpu memory pids\n");
        assert!(Cgroup::create_beside(dir.path(), "app.slice/ours.scope", LIMITS).is_none());
        let left = fs::read_dir(dir.path().join("app.slice")).unwrap().count();
        assert_eq!(left, 2);
    }
}
