//! Measures the memory of a run: its processes, shared memory that no process maps, files in
//! memory, and socket buffers.
//!
//! A control group would count all of that; without one, this module adds it up from `/proc`.
//! Shared memory that is both mapped and open counts twice: the sum is an upper bound.
//!
//! It errs on the high side, because the limit protects the machine. A process that has ended while
//! it is counted has no memory any more, and is skipped.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

use super::tree::ProcessIdentity;

/// The proportional share is read only for processes with at least this much shared memory,
/// because the kernel walks the page tables for it.
const SHARED_WORTH_ASKING: u64 = 1 << 20;
/// Twice the usual `net.core.wmem_max`: the most that the kernel lets one socket hold.
const SOCKET_BYTES: u64 = 416 << 10;
/// Mount points of the tmpfs file systems that a sandbox mounts for its run.
const MEMORY_MOUNTS: [&str; 4] = ["tmp", "run", "var/tmp", "dev/shm"];
const BLOCK_BYTES: u64 = 512;
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Adds up the memory of these processes, each object once.
pub(super) fn held_bytes(processes: &[ProcessIdentity], own_mounts: bool) -> u64 {
    let mut objects = OpenMemory::default();
    let mut bytes = 0_u64;
    for process in processes {
        bytes = bytes.saturating_add(own_bytes(process.pid));
        objects.add_open_files(process.pid);
    }
    if own_mounts {
        bytes = bytes.saturating_add(in_memory_mounts(processes));
    }
    bytes.saturating_add(objects.bytes)
}

/// Returns the kernel's estimate of the machine's available memory.
pub(super) fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    kib_field(&text, "MemAvailable:")
}

/// Returns the process's anonymous memory plus its share of the shared memory it maps.
fn own_bytes(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let anonymous = kib_field(&status, "RssAnon:").unwrap_or(0);
    let shared = kib_field(&status, "RssShmem:").unwrap_or(0);
    // `smaps_rollup` can take milliseconds for a large process, and most have little shared memory.
    if shared < SHARED_WORTH_ASKING {
        return anonymous;
    }
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    // Without permission to read it, all shared memory counts.
    anonymous + kib_field(&rollup, "Pss_Shmem:").unwrap_or(shared)
}

fn kib_field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// Memory that processes hold through open file descriptors, without mapping it.
#[derive(Default)]
struct OpenMemory {
    // Descriptors are inherited, so one file is usually open in many processes.
    seen: HashSet<(u64, u64)>,
    sockets: HashSet<String>,
    bytes: u64,
}

impl OpenMemory {
    fn add_open_files(&mut self, pid: i32) {
        let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            return;
        };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let Ok(target) = fs::read_link(&path) else {
                continue;
            };
            let target = target.to_string_lossy();
            if target.starts_with("socket:[") {
                if self.sockets.insert(target.into_owned()) {
                    self.bytes = self.bytes.saturating_add(SOCKET_BYTES);
                }
            // A memfd, and memory whose name is gone, appear in no directory and in no mount's
            // usage.
            } else if target.starts_with("/memfd:") || target.ends_with(" (deleted)") {
                // Other deleted files are on a disk, or in a mount that is counted separately.
                let Ok(meta) = fs::metadata(&path) else {
                    continue;
                };
                let in_memory = target.starts_with("/memfd:") || is_nameless_memory(&target);
                if in_memory && self.seen.insert((meta.dev(), meta.ino())) {
                    self.bytes = self.bytes.saturating_add(meta.blocks() * BLOCK_BYTES);
                }
            }
        }
    }
}

/// Recognises shared anonymous memory and System V segments by the kernel's names for them.
fn is_nameless_memory(target: &str) -> bool {
    target.starts_with("/dev/zero") || target.starts_with("/SYSV")
}

/// Returns the bytes in the run's own tmpfs mounts. They are read through the root of one of its
/// processes, because ours may be a different one.
fn in_memory_mounts(processes: &[ProcessIdentity]) -> u64 {
    let roots = processes
        .iter()
        .map(|process| format!("/proc/{}/root", process.pid));
    // A process may have ended, or may not have entered its new root yet.
    let mut readable = roots.filter(|root| fs::metadata(format!("{root}/tmp")).is_ok());
    let Some(root) = readable.next() else {
        return 0;
    };
    let mut counted = HashSet::new();
    let mut bytes = 0_u64;
    for name in MEMORY_MOUNTS {
        let path = format!("{root}/{name}");
        let (Ok(meta), Ok(filesystem), Ok(space)) = (
            fs::metadata(&path),
            rustix::fs::statfs(&path),
            rustix::fs::statvfs(&path),
        ) else {
            continue;
        };
        // `/run` and `/var/tmp` may lie in the same mount, which then counts once.
        if u64::try_from(filesystem.f_type) == Ok(TMPFS_MAGIC) && counted.insert(meta.dev()) {
            // `f_bfree` and not `f_bavail`: used is everything that is not free.
            let used = space.f_blocks.saturating_sub(space.f_bfree);
            bytes = bytes.saturating_add(used.saturating_mul(space.f_frsize));
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn memory_that_nobody_maps_is_counted_once() {
        let us = ProcessIdentity::ourselves().unwrap();
        let before = held_bytes(&[us], false);
        let held = rustix::fs::memfd_create("held", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let mut file = fs::File::from(held);
        file.write_all(&vec![1; 64 << 20]).unwrap();
        let twice = file.try_clone().unwrap();
        let grown = held_bytes(&[us], false).saturating_sub(before);
        // Other tests in this process allocate and free memory at the same time.
        assert!((56 << 20..120 << 20).contains(&grown), "{grown}");
        drop((file, twice));
    }

    #[test]
    fn a_field_of_the_kernel_is_read_whole_or_not_at_all() {
        let text = "RssAnon:\t    1234 kB\nRssShmem:\t  x kB\n";
        assert_eq!(kib_field(text, "RssAnon:"), Some(1234 << 10));
        assert_eq!(kib_field(text, "RssShmem:"), None);
        assert_eq!(kib_field(text, "RssFile:"), None);
        assert!(available_bytes().is_some());
    }
}
