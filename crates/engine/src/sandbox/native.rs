//! The native rung's namespaces and mounts: a new root in which everything is read-only but the
//! run's own, made with the rights of a user namespace and none of the machine's.

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

use super::new_root::NewRoot;
use super::root::{self, RootPart, RootParts};
use super::sources::{HostRoot, KernelMounts};
use super::{SandboxNetwork, SandboxSpec, handover, loopback};

/// Where the new root is put together, on a file system in memory; must be there on every machine.
const YARD: &str = "/tmp";
/// The machine's own root, as seen from the yard.
pub const OLD: &str = "/old";
const NEW: &str = "/new";
/// Nothing: an overlay wants two directories.
pub const EMPTY: &str = "/empty";
/// Overlays of directories of which single files are shown.
pub const AROUND: &str = "/around";

const QUIET: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

/// Leaves the machine's namespaces. Whoever is started next is the first process of a new one.
/// `notes` is the directory of the specification.
pub fn separate(network: &SandboxNetwork, notes: &Path) -> io::Result<()> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    let mut kinds = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP;
    if network.is_apart() {
        kinds |= CloneFlags::CLONE_NEWNET;
    }
    unshare(kinds).map_err(forbidden)?;
    become_user(0, uid, 0, gid, "/proc")?;
    if network.is_apart() {
        loopback::up()?;
    }
    match network {
        SandboxNetwork::Proxy(proxied) => handover::hand_over(proxied, notes),
        SandboxNetwork::On | SandboxNetwork::Off => Ok(()),
    }
}

fn forbidden(error: nix::Error) -> io::Error {
    io::Error::other(format!(
        "namespaces are forbidden on this machine ({error}); see kernel.unprivileged_userns_clone, \
         user.max_user_namespaces and kernel.apparmor_restrict_unprivileged_userns"
    ))
}

/// Our one user, under another number inside.
fn become_user(uid: u32, outer_uid: u32, gid: u32, outer_gid: u32, proc: &str) -> io::Result<()> {
    let own = Path::new(proc).join("self");
    fs::write(own.join("setgroups"), "deny")?;
    fs::write(own.join("uid_map"), format!("{uid} {outer_uid} 1"))?;
    fs::write(own.join("gid_map"), format!("{gid} {outer_gid} 1"))
}

/// What came of putting the root together.
#[derive(Clone, Copy, Debug)]
pub struct BuiltRoot {
    /// Whether no socket, pipe or lock of anybody else can be reached through what is shown.
    pub apart: bool,
}

/// Makes the new root and enters it. Everything that the machine gives is taken hold of first, then
/// the machine's own root is let go of, and only then the first file or directory is made.
pub fn build(confinement: &SandboxSpec) -> io::Result<BuiltRoot> {
    let parts = root::parts(confinement)?;
    let person = owner()?;
    setsid()?;
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?;
    enter_yard()?;
    let mut sources = HostRoot::open()?;
    let mut pieces = Vec::new();
    for part in &parts {
        let found = sources.gather(part, &mut pieces);
        found.map_err(|error| told(&format!("{} for the new root", part.at.display()), error))?;
    }
    let kernel = sources.kernel()?;
    let built = BuiltRoot {
        apart: sources.apart,
    };
    drop(sources);
    unmount(OLD, UnmountFlags::DETACH)?;
    memory(Path::new(NEW), 4 << 20)?;
    let by_name = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut root = NewRoot::new(open(NEW, by_name, Mode::empty())?)?;
    for piece in &pieces {
        let done = piece.put(&mut root);
        done.map_err(|error| told(&format!("{} in the new root", piece.at.display()), error))?;
    }
    drop(pieces);
    devices(&root, &kernel)?;
    processes(&root, &kernel, confinement)?;
    close(&parts)?;
    leave_yard()?;
    person.again()?;
    Ok(built)
}

pub fn told(what: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Who we are outside: the number that our one user has there.
struct OuterUser {
    uid: u32,
    gid: u32,
}

fn owner() -> io::Result<OuterUser> {
    let outer = |map: &str| -> io::Result<u32> {
        let text = fs::read_to_string(map)?;
        let number = text.split_ascii_whitespace().nth(1);
        number
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| io::Error::other(format!("{map} is not to be understood: {text}")))
    };
    Ok(OuterUser {
        uid: outer("/proc/self/uid_map")?,
        gid: outer("/proc/self/gid_map")?,
    })
}

impl OuterUser {
    /// A second user namespace: the mounts belong to the first, so that whatever rights were won
    /// in this one are none over them. Inside, people have the number that they have outside.
    fn again(&self) -> io::Result<()> {
        unshare(CloneFlags::CLONE_NEWUSER)?;
        become_user(self.uid, 0, self.gid, 0, "/proc")
    }
}

/// Swaps the machine's root for an empty yard; the root is then at [`OLD`].
fn enter_yard() -> io::Result<()> {
    memory(Path::new(YARD), 1 << 20)?;
    let old = Path::new(YARD).join(OLD.trim_start_matches('/'));
    fs::create_dir(&old)?;
    pivot_root(YARD, &old)?;
    std::env::set_current_dir("/")?;
    for dir in [NEW, EMPTY, AROUND] {
        fs::create_dir(dir)?;
    }
    Ok(())
}

fn leave_yard() -> io::Result<()> {
    std::env::set_current_dir(NEW)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    std::env::set_current_dir("/")
}

fn memory(at: &Path, bytes: u64) -> io::Result<()> {
    let size = format!("size={bytes},mode=0755\0");
    let options = std::ffi::CStr::from_bytes_with_nul(size.as_bytes()).map_err(io::Error::other)?;
    Ok(mount("tmpfs", at, "tmpfs", QUIET, options)?)
}

pub fn below(root: &str, path: &Path) -> PathBuf {
    Path::new(root).join(path.strip_prefix("/").unwrap_or(path))
}

fn devices(root: &NewRoot, kernel: &KernelMounts) -> io::Result<()> {
    let dev = Path::new("/dev");
    for (name, device) in &kernel.devices {
        root.attach(device, &dev.join(name), false)?;
    }
    for (name, to) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        root.link(&dev.join(name), Path::new(to))?;
    }
    root.dir(&dev.join("pts"))?;
    match &kernel.terminals {
        Some(terminals) => root.attach(terminals, &dev.join("pts"), true),
        None => Ok(()),
    }
}

/// Whoever may write here writes to the whole machine.
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

fn processes(root: &NewRoot, kernel: &KernelMounts, confinement: &SandboxSpec) -> io::Result<()> {
    root.attach(&kernel.processes, Path::new("/proc"), true)?;
    let proc = below(NEW, Path::new("/proc"));
    let quiet = QUIET | MountFlags::NOEXEC;
    limit_pids(&proc, confinement.bounds.processes);
    // No namespaces but the one that we are about to make.
    fs::write(proc.join("sys/user/max_user_namespaces"), "1")?;
    for name in SHUT_IN_PROC {
        let at = proc.join(name);
        if at.exists() {
            mount_bind_recursive(&at, &at)?;
            mount_remount(&at, MountFlags::BIND | MountFlags::RDONLY | quiet, c"")?;
        }
    }
    for name in MASKED_IN_PROC {
        let at = proc.join(name);
        if at.exists() {
            mount_bind_recursive(below(NEW, Path::new("/dev/null")), &at)?;
        }
    }
    Ok(())
}

/// The limit on processes is not one for the machine's own root; a PID namespace's is. Before
/// 6.14 the number was the machine's and must not be touched.
fn limit_pids(proc: &Path, processes: u64) {
    let release = fs::read_to_string(proc.join("sys/kernel/osrelease")).unwrap_or_default();
    let mut numbers = release.split('.').map(str::parse::<u32>);
    if let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next())
        && (major, minor) >= (6, 14)
    {
        // Where it is refused, the other limit stands.
        drop(fs::write(
            proc.join("sys/kernel/pid_max"),
            processes.max(512).to_string(),
        ));
    }
}

/// Makes every mount read-only that is not the run's own, the root last.
fn close(parts: &[RootPart]) -> io::Result<()> {
    let table = fs::read_to_string(below(NEW, Path::new("/proc/self/mountinfo")))?;
    let places = RootParts::of(parts);
    for at in table.lines().filter_map(mount_point) {
        let Ok(inside) = at.strip_prefix(NEW) else {
            continue;
        };
        let inside = Path::new("/").join(inside);
        let ours = ["/dev/pts", "/proc"]
            .iter()
            .any(|own| inside.starts_with(own));
        if inside == Path::new("/") || ours {
            continue;
        }
        let open = places.is_writable(&inside) || is_device(&inside);
        remount(&at, !open, is_device(&inside))
            .map_err(|error| told(&format!("closing {}", inside.display()), error))?;
    }
    remount(Path::new(NEW), true, false)
}

fn is_device(inside: &Path) -> bool {
    inside.parent() == Some(Path::new("/dev"))
}

/// Keeps what the machine set and adds to it; taking away is not possible.
fn remount(at: &Path, read_only: bool, device: bool) -> io::Result<()> {
    let known = rustix::fs::statvfs(at)?.f_flag;
    let mut flags = MountFlags::BIND | MountFlags::NOSUID;
    let kept = [
        (StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ];
    for (has, flag) in kept {
        if known.contains(has) {
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

/// The fifth field, in which blanks and the like are written as numbers.
pub fn mount_point(line: &str) -> Option<PathBuf> {
    let field = line.split(' ').nth(4)?;
    let mut bytes = Vec::new();
    let mut rest = field.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| *first == b'\\');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        let byte = code.and_then(|code| u8::from_str_radix(code, 8).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    Some(PathBuf::from(OsString::from_vec(bytes)))
}
