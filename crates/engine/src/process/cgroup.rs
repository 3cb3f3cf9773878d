//! A control group of its own for one run, where the machine lets us make one.
//!
//! Version 2 only. The group lies beside ours, in a directory that was delegated to us (systemd does
//! that for every user session) and that hands the memory controller down. The kernel then counts
//! all memory, whoever holds it, and refuses more. Where any step is refused there is no group, and
//! the watcher's own count is the bound; it runs in either case.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, open, openat, unlinkat};

/// Where version 2 is mounted: alone, or beside version 1.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
const PREFIX: &str = "countersign-";
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);
const SWEPT_MAX: usize = 1000;
const REMOVE_TRIES: u32 = 50;
const REMOVE_PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

/// What the kernel bounds for the whole group.
#[derive(Clone, Copy, Debug)]
pub struct CgroupLimits {
    pub memory_bytes: u64,
    pub processes: u64,
}

/// We are in the group until [`Group::leave`], so that whoever is forked meanwhile is born in it.
#[derive(Debug)]
pub struct Cgroup {
    name: String,
    /// Opened before anything is separated: afterwards their names lead elsewhere.
    parent: OwnedFd,
    dir: OwnedFd,
    back: OwnedFd,
}

impl Cgroup {
    /// Makes the group and enters it; none where the machine does not allow that.
    pub fn enter(limits: CgroupLimits) -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
        MOUNTS
            .iter()
            .find_map(|mount| Self::beside(Path::new(mount), path, limits))
    }

    fn beside(mount: &Path, own: &str, limits: CgroupLimits) -> Option<Self> {
        let ours = mount.join(own);
        let parent = if own.is_empty() {
            ours.as_path()
        } else {
            ours.parent()?
        };
        let handed_down = fs::read_to_string(parent.join("cgroup.subtree_control")).ok()?;
        if !handed_down.split_whitespace().any(|name| name == "memory") {
            return None;
        }
        sweep(parent);
        let name = format!("{PREFIX}{}", std::process::id());
        let write = OFlags::WRONLY | OFlags::CLOEXEC;
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
        if group.limit(limits).is_err() || group.write("cgroup.procs", "0").is_err() {
            group.end();
            return None;
        }
        Some(group)
    }

    fn limit(&self, limits: CgroupLimits) -> io::Result<()> {
        self.write("memory.max", &limits.memory_bytes.to_string())?;
        // Not every kernel has these, and the bound holds without them.
        let _ = self.write("memory.swap.max", "0");
        let _ = self.write("pids.max", &limits.processes.saturating_add(8).to_string());
        Ok(())
    }

    fn write(&self, name: &str, value: &str) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(&self.dir, name, flags, Mode::empty())?;
        rustix::io::write(&file, value.as_bytes())?;
        Ok(())
    }

    /// Goes back to where we were; what was forked meanwhile stays.
    pub fn leave(&self) -> io::Result<()> {
        rustix::io::write(&self.back, b"0")?;
        Ok(())
    }

    /// Ends whoever is left in the group and removes it.
    pub fn end(&self) {
        // Where we could not go back, nobody may be killed: we would be among them.
        if self.leave().is_ok() {
            // Kernels before 5.14 have no such file; the tree of the run is ended in another way too.
            let _ = self.write("cgroup.kill", "1");
        }
        let events = openat(&self.dir, "cgroup.events", OFlags::CLOEXEC, Mode::empty());
        for _ in 0..REMOVE_TRIES {
            match (
                unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR),
                &events,
            ) {
                // The kernel tells when the last of them has gone.
                (Err(rustix::io::Errno::BUSY), Ok(events)) => {
                    let mut news = [PollFd::new(events, PollFlags::PRI)];
                    // Where waiting fails, the next try is made at once; their number is bounded.
                    let _ = poll(&mut news, Some(&REMOVE_PAUSE));
                }
                _ => return,
            }
        }
    }
}

/// Groups whose watcher was killed before it could remove them. One with somebody in it stays.
fn sweep(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    for entry in ours.take(SWEPT_MAX) {
        // A group in use cannot be removed, and is to stay.
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

    /// A directory that looks like the kernel's, as far as names go.
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
            assert!(Cgroup::beside(dir.path(), "app.slice/ours.scope", LIMITS).is_none());
            assert_eq!(
                fs::read_dir(dir.path().join("app.slice")).unwrap().count(),
                2
            );
        }
        assert!(Cgroup::beside(Path::new("/nonexistent"), "a/b", LIMITS).is_none());
    }

    /// The kernel fills a new group with its files; a plain directory is left as it cannot be used.
    #[test]
    fn a_group_that_cannot_be_limited_is_removed_again() {
        let dir = mount("cpu memory pids\n");
        assert!(Cgroup::beside(dir.path(), "app.slice/ours.scope", LIMITS).is_none());
        let left = fs::read_dir(dir.path().join("app.slice")).unwrap().count();
        assert_eq!(left, 2);
    }
}
