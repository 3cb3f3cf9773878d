//! Namespaces and mounts of the native level: a new root in which everything except the run's own
//! directories is read-only. It needs the rights of a user namespace and none on the machine.
//!
//! The order of the steps is the design. Everything from the machine is opened first, by handle.
//! Then the machine's root is detached, and only then are files created and mounts attached, by
//! handle again. So no path of the machine is resolved after the point where a mistake could write
//! to it. The module refuses to continue after any failed step: a partial root is never entered.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, unshare};
use rustix::fs::{Mode, OFlags, StatVfsMountFlags, open};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change,
    mount_remount, unmount,
};
use rustix::process::{getgid, getuid, pivot_root, setsid};

use super::host_root::{HostRoot, KernelMounts};
use super::new_root::NewRoot;
use super::root::{self, RootPart, RootParts};
use super::{SandboxNetwork, SandboxSpec, handover, loopback};

/// Mount point of the tmpfs on which the new root is built; it must exist on every machine.
const STAGING_DIR: &str = "/tmp";
/// Path of the machine's own root while the new root is built.
pub const HOST_ROOT: &str = "/old";
const NEW_ROOT: &str = "/new";
/// An empty directory, because a read-only overlay needs two lower directories.
pub const EMPTY_DIR: &str = "/empty";
/// Parent of the overlays of directories from which single files are mounted.
pub const OVERLAYS_DIR: &str = "/around";

// Set-user-id programs and device files have no effect in any of our mounts.
const QUIET: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

/// Leaves the machine's namespaces. The next child is the first process of a new PID namespace.
/// `notes` is the directory of the specification.
pub fn unshare_namespaces(network: &SandboxNetwork, notes: &Path) -> io::Result<()> {
    // The ids must be read before `unshare`: inside an unmapped user namespace they are 65534.
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    // One `unshare` call makes the user namespace first, so the others belong to it and need no
    // right on the machine.
    let mut kinds = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        // Without a cgroup namespace `/proc/self/cgroup` would show the path of our own group.
        | CloneFlags::CLONE_NEWCGROUP;
    if network.is_isolated() {
        kinds |= CloneFlags::CLONE_NEWNET;
    }
    unshare(kinds).map_err(namespaces_forbidden)?;
    // Without a mapping the kernel refuses to create any file, even on our own tmpfs. The program
    // never runs as this root: `enter_second_user_namespace` restores the person's own id.
    become_user(0, uid, 0, gid, "/proc")?;
    if network.is_isolated() {
        loopback::bring_up_loopback()?;
    }
    match network {
        // The listeners must be created inside the new network namespace, and sent out now, while
        // the socket file of the receiver is still reachable by path.
        SandboxNetwork::Proxy(rules) => handover::send_listeners(rules, notes),
        SandboxNetwork::On | SandboxNetwork::Off => Ok(()),
    }
}

fn namespaces_forbidden(error: nix::Error) -> io::Error {
    io::Error::other(format!(
        "namespaces are forbidden on this machine ({error}); see kernel.unprivileged_userns_clone, \
         user.max_user_namespaces and kernel.apparmor_restrict_unprivileged_userns"
    ))
}

/// Maps our own user and group, the only ones, to other ids inside the namespace.
fn become_user(uid: u32, outer_uid: u32, gid: u32, outer_gid: u32, proc: &str) -> io::Result<()> {
    let own = Path::new(proc).join("self");
    // The kernel accepts an unprivileged gid_map only after setgroups is denied.
    fs::write(own.join("setgroups"), "deny")?;
    fs::write(own.join("uid_map"), format!("{uid} {outer_uid} 1"))?;
    fs::write(own.join("gid_map"), format!("{gid} {outer_gid} 1"))
}

/// Result of building the root.
#[derive(Clone, Copy, Debug)]
pub struct BuiltRoot {
    /// Whether no socket, pipe or lock of another process is reachable through the mounted files.
    pub apart: bool,
}

/// Builds the new root and enters it. It first opens everything from the machine, then detaches
/// the machine's own root, and only then creates the first file or directory.
pub fn build_root(confinement: &SandboxSpec) -> io::Result<BuiltRoot> {
    // The plan is made from paths of the machine, so it must exist before the root is replaced.
    let parts = root::root_parts(confinement)?;
    // The staging root has no `/proc` at this path, so the ids are read while it still exists.
    let outer_user = outer_user()?;
    // A new session has no controlling terminal.
    setsid()?;
    // Our mounts must not propagate to the machine.
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?;
    enter_staging_root()?;
    let mut host = HostRoot::open()?;
    // Masks, links and tmpfs mounts are collected with the rest: the list keeps the order of the
    // plan, in which outer parts are before inner ones. Attaching in that order never hides a part.
    let mut mounts = Vec::new();
    for part in &parts {
        let result = host.collect_part(part, &mut mounts);
        result.map_err(|error| {
            with_context(&format!("{} for the new root", part.at.display()), error)
        })?;
    }
    let kernel = host.kernel_mounts()?;
    let built = BuiltRoot { apart: host.apart };
    // `HostRoot` holds a handle on the machine's root; it must not survive the detach.
    drop(host);
    // `DETACH` is lazy: the copied mounts hold what they need, and nothing else stays reachable. A
    // plain unmount would fail with EBUSY because the tree below has mounts.
    unmount(HOST_ROOT, UnmountFlags::DETACH)?;
    mount_tmpfs(Path::new(NEW_ROOT), 4 << 20)?;
    let by_name = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut root = NewRoot::new(open(NEW_ROOT, by_name, Mode::empty())?)?;
    for mount in &mounts {
        let result = mount.attach_to(&mut root);
        result.map_err(|error| {
            with_context(&format!("{} in the new root", mount.at.display()), error)
        })?;
    }
    // Attached mounts no longer need their handles, and an open handle is a way around the paths.
    drop(mounts);
    // Devices and `/proc` are attached last, so that no part of the plan can cover them.
    mount_devices(&root, &kernel)?;
    mount_proc(&root, &kernel, confinement)?;
    // Remounting read-only must be the last change: it also closes the tmpfs of the root itself, in
    // which the mount points were created.
    make_read_only(&parts)?;
    leave_staging_root()?;
    outer_user.enter_second_user_namespace()?;
    Ok(built)
}

pub fn with_context(what: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// User and group ids that we have outside of the namespace.
struct OuterUser {
    uid: u32,
    gid: u32,
}

fn outer_user() -> io::Result<OuterUser> {
    let outer = |map: &str| -> io::Result<u32> {
        let text = fs::read_to_string(map)?;
        // A line is `inside outside count`; we wrote exactly one.
        let number = text.split_ascii_whitespace().nth(1);
        number
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| io::Error::other(format!("{map} cannot be parsed: {text}")))
    };
    Ok(OuterUser {
        uid: outer("/proc/self/uid_map")?,
        gid: outer("/proc/self/gid_map")?,
    })
}

impl OuterUser {
    /// Enters a second user namespace. The mounts belong to the first one, so rights gained in the
    /// second give no power over them. Inside, the user has the same id as outside.
    fn enter_second_user_namespace(&self) -> io::Result<()> {
        // Only the user namespace is new. The mount namespace still belongs to the first one, in
        // which a process of the second has no capability.
        unshare(CloneFlags::CLONE_NEWUSER)?;
        become_user(self.uid, 0, self.gid, 0, "/proc")
    }
}

/// Replaces the machine's root with an empty tmpfs; the old root is then at [`HOST_ROOT`].
fn enter_staging_root() -> io::Result<()> {
    // The tmpfs needs room only for directory entries; 1 MiB is more than enough.
    mount_tmpfs(Path::new(STAGING_DIR), 1 << 20)?;
    let old = Path::new(STAGING_DIR).join(HOST_ROOT.trim_start_matches('/'));
    // `pivot_root` needs the place of the old root to be below the new one.
    fs::create_dir(&old)?;
    pivot_root(STAGING_DIR, &old)?;
    // `pivot_root` does not promise to move the working directory; a process that kept it would
    // still stand in the machine's root.
    std::env::set_current_dir("/")?;
    for dir in [NEW_ROOT, EMPTY_DIR, OVERLAYS_DIR] {
        fs::create_dir(dir)?;
    }
    Ok(())
}

fn leave_staging_root() -> io::Result<()> {
    std::env::set_current_dir(NEW_ROOT)?;
    // This stacks the old root over the new one at the same path; detaching it leaves the new root.
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    std::env::set_current_dir("/")
}

// Options are one string for the kernel, with a terminating zero byte.
fn mount_tmpfs(at: &Path, bytes: u64) -> io::Result<()> {
    let size = format!("size={bytes},mode=0755\0");
    let options = std::ffi::CStr::from_bytes_with_nul(size.as_bytes()).map_err(io::Error::other)?;
    Ok(mount("tmpfs", at, "tmpfs", QUIET, options)?)
}

pub fn path_below(root: &str, path: &Path) -> PathBuf {
    Path::new(root).join(path.strip_prefix("/").unwrap_or(path))
}

fn mount_devices(root: &NewRoot, kernel: &KernelMounts) -> io::Result<()> {
    let dev = Path::new("/dev");
    for (name, device) in &kernel.devices {
        root.attach(device, &dev.join(name), false)?;
    }
    // Programs and shells expect these links (`/dev/stdin`, process substitution), and a tmpfs has
    // none.
    for (name, to) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        root.link(&dev.join(name), Path::new(to))?;
    }
    root.make_dir(&dev.join("pts"))?;
    match &kernel.terminals {
        Some(terminals) => root.attach(terminals, &dev.join("pts"), true),
        None => Ok(()),
    }
}

/// Entries of `/proc` in which a write would affect the whole machine.
const SHUT_IN_PROC: &[&str] = &[
    "sys",
    "sysrq-trigger",
    "irq",
    "bus",
    "fs",
    "driver",
    "mtrr",
    "scsi",
    "acpi",
];
/// Entries of `/proc` that reveal addresses, keys or logs of the kernel. An unprivileged user can
/// read some of them on many machines, and no tool of a project needs them.
const MASKED_IN_PROC: &[&str] = &[
    "kcore",
    "kallsyms",
    "kmsg",
    "keys",
    "key-users",
    "timer_list",
    "sched_debug",
    "config.gz",
    "kpagecount",
    "kpageflags",
    "kpagecgroup",
    "vmallocinfo",
    "modules",
];

fn mount_proc(root: &NewRoot, kernel: &KernelMounts, confinement: &SandboxSpec) -> io::Result<()> {
    root.attach(&kernel.processes, Path::new("/proc"), true)?;
    let proc = path_below(NEW_ROOT, Path::new("/proc"));
    let quiet = QUIET | MountFlags::NOEXEC;
    // This must precede the loop below, which makes `/proc/sys` read-only.
    limit_pids(&proc, confinement.bounds.processes);
    // Allow only the one namespace that we are about to create.
    fs::write(proc.join("sys/user/max_user_namespaces"), "1")?;
    for name in SHUT_IN_PROC {
        let at = proc.join(name);
        if at.exists() {
            mount_bind_recursive(&at, &at)?;
            // A read-only flag passed to the bind itself is ignored by the kernel; it takes a
            // second call.
            mount_remount(&at, MountFlags::BIND | MountFlags::RDONLY | quiet, c"")?;
        }
    }
    for name in MASKED_IN_PROC {
        let at = proc.join(name);
        if at.exists() {
            // Reading `/dev/null` gives an empty file, which tools accept more easily than an
            // error.
            mount_bind_recursive(path_below(NEW_ROOT, Path::new("/dev/null")), &at)?;
        }
    }
    Ok(())
}

/// Limits the processes of the PID namespace, which also binds the machine's root; the process
/// rlimit does not. Before Linux 6.14 `pid_max` was global to the machine and must not be touched.
fn limit_pids(proc: &Path, processes: u64) {
    let release = fs::read_to_string(proc.join("sys/kernel/osrelease")).unwrap_or_default();
    let mut numbers = release.split('.').map(str::parse::<u32>);
    if let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next())
        && (major, minor) >= (6, 14)
    {
        // If the kernel refuses it, the rlimit still applies.
        drop(fs::write(
            proc.join("sys/kernel/pid_max"),
            // Threads use pids too, and the kernel refuses values of 300 or less.
            processes.max(512).to_string(),
        ));
    }
}

/// Makes every mount except the run's own read-only, the root last.
fn make_read_only(parts: &[RootPart]) -> io::Result<()> {
    // The table is read from the new `/proc`, because inherited mounts below a part are in no plan
    // of ours: a home directory may contain other file systems.
    let table = fs::read_to_string(path_below(NEW_ROOT, Path::new("/proc/self/mountinfo")))?;
    let parts_by_path = RootParts::new(parts);
    for at in table.lines().filter_map(mount_point) {
        let Ok(inside) = at.strip_prefix(NEW_ROOT) else {
            continue;
        };
        let inside = Path::new("/").join(inside);
        // `/proc` has its own treatment, and a terminal must be writable.
        let ours = ["/dev/pts", "/proc"]
            .iter()
            .any(|own| inside.starts_with(own));
        if inside == Path::new("/") || ours {
            continue;
        }
        let writable = parts_by_path.is_writable(&inside) || is_device(&inside);
        remount(&at, !writable, is_device(&inside))
            .map_err(|error| with_context(&format!("closing {}", inside.display()), error))?;
    }
    remount(Path::new(NEW_ROOT), true, false)
}

fn is_device(inside: &Path) -> bool {
    inside.parent() == Some(Path::new("/dev"))
}

/// Remounts with the existing flags and additional ones. The kernel refuses to clear flags that
/// were set outside of the user namespace.
fn remount(at: &Path, read_only: bool, device: bool) -> io::Result<()> {
    // `statvfs` reports flags that the machine set. Leaving one of them out would ask the kernel to
    // clear a locked flag, and it answers with EPERM.
    let current = rustix::fs::statvfs(at)?.f_flag;
    let mut flags = MountFlags::BIND | MountFlags::NOSUID;
    let flag_pairs = [
        (StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ];
    for (has, flag) in flag_pairs {
        if current.contains(has) {
            flags |= flag;
        }
    }
    if read_only {
        flags |= MountFlags::RDONLY;
    }
    if !device {
        flags |= MountFlags::NODEV;
    }
    Ok(mount_remount(at, flags, c"")?)
}

/// Returns the mount point: the fifth field, in which blanks and similar bytes are octal escapes.
pub fn mount_point(line: &str) -> Option<PathBuf> {
    let field = line.split(' ').nth(4)?;
    let mut bytes = Vec::new();
    let mut rest = field.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| *first == b'\\');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        let byte = code.and_then(|code| u8::from_str_radix(code, 8).ok());
        // A backslash that starts no valid escape is taken literally.
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    Some(PathBuf::from(OsString::from_vec(bytes)))
}
