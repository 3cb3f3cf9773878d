//! The native rung's namespaces and mounts: a new root in which everything is read-only but the
//! run's own, made with the rights of a user namespace and none of the machine's.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, unshare};
use rustix::fs::{FileType, Mode, OFlags, StatVfsMountFlags, fstat, open};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount,
    fsopen, mount, mount_bind_recursive, mount_change, mount_remount, move_mount, open_tree,
    unmount,
};
use rustix::process::{
    Resource, Rlimit, getgid, getrlimit, getuid, pivot_root, setrlimit, setsid,
};

use super::new_root::{NewRoot, open_below};
use super::root::{self, Part, Places, What};
use super::{Confinement, Network, loopback};

/// Where the new root is put together, on a file system in memory; must be there on every machine.
const YARD: &str = "/tmp";
/// The machine's own root, as seen from the yard.
const OLD: &str = "/old";
const NEW: &str = "/new";
/// Nothing: an overlay wants two directories.
const EMPTY: &str = "/empty";
/// Overlays of directories of which single files are shown.
const AROUND: &str = "/around";

const QUIET: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);
const ATTRIBUTES: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);

/// Leaves the machine's namespaces. Whoever is started next is the first process of a new one.
pub fn separate(network: Network) -> io::Result<()> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    let mut kinds = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP;
    if network == Network::Off {
        kinds |= CloneFlags::CLONE_NEWNET;
    }
    unshare(kinds).map_err(forbidden)?;
    become_user(0, uid, 0, gid, "/proc")?;
    if network == Network::Off {
        loopback::up()?;
    }
    Ok(())
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
pub struct Built {
    /// Whether no socket, pipe or lock of anybody else can be reached through what is shown.
    pub apart: bool,
}

/// Makes the new root and enters it. Everything that the machine gives is taken hold of first, then
/// the machine's own root is let go of, and only then the first file or directory is made.
pub fn build(confinement: &Confinement) -> io::Result<Built> {
    let parts = root::parts(confinement)?;
    let person = owner()?;
    setsid()?;
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?;
    enter_yard()?;
    let mut sources = Sources::open()?;
    let mut pieces = Vec::new();
    for part in &parts {
        let found = sources.gather(part, &mut pieces);
        found.map_err(|error| told(&format!("{} for the new root", part.at.display()), error))?;
    }
    let kernel = sources.kernel()?;
    let built = Built {
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

fn told(what: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Who we are outside: the number that our one user has there.
struct Person {
    uid: u32,
    gid: u32,
}

fn owner() -> io::Result<Person> {
    let outer = |map: &str| -> io::Result<u32> {
        let text = fs::read_to_string(map)?;
        let number = text.split_ascii_whitespace().nth(1);
        number
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| io::Error::other(format!("{map} is not to be understood: {text}")))
    };
    Ok(Person {
        uid: outer("/proc/self/uid_map")?,
        gid: outer("/proc/self/gid_map")?,
    })
}

impl Person {
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

fn below(root: &str, path: &Path) -> PathBuf {
    Path::new(root).join(path.strip_prefix("/").unwrap_or(path))
}

/// A file system that is attached nowhere yet. An option without a value is a flag.
fn file_system(
    kind: &str,
    options: &[(&str, &str)],
    attributes: MountAttrFlags,
) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in options {
        if value.is_empty() {
            fsconfig_set_flag(&context, *name)?;
        } else {
            fsconfig_set_string(&context, *name, *value)?;
        }
    }
    fsconfig_create(&context)?;
    let handle = FsMountFlags::FSMOUNT_CLOEXEC;
    Ok(fsmount(&context, handle, attributes)?)
}

/// A copy of a mount, and of all below it, that is attached nowhere yet.
fn copy_of(source: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(source, "", flags)?)
}

/// How the kernel is told of a directory that we have open: whatever its name is, with commas,
/// colons or backslashes, this one has none.
fn by_handle(dir: &OwnedFd) -> String {
    format!("{OLD}/proc/self/fd/{}", dir.as_raw_fd())
}

/// Something that was taken from the machine and has its place in the new root.
#[derive(Debug)]
struct Piece {
    at: PathBuf,
    what: PieceKind,
}

#[derive(Debug)]
enum PieceKind {
    Dir(OwnedFd),
    File(OwnedFd),
    Memory(OwnedFd),
    Link(PathBuf),
}

impl Piece {
    fn put(&self, root: &mut NewRoot) -> io::Result<()> {
        match &self.what {
            PieceKind::Dir(tree) => root.attach(tree, &self.at, true),
            PieceKind::File(tree) => root.attach(tree, &self.at, false),
            PieceKind::Memory(tree) => root.attach_own(tree, &self.at),
            PieceKind::Link(to) => root.link(&self.at, to),
        }
    }
}

/// The machine's root, from which everything is taken by canonical names only.
#[derive(Debug)]
struct Sources {
    old: OwnedFd,
    /// Where the machine has mounts.
    mounts: Vec<PathBuf>,
    /// Directories around single files that are shown.
    around: HashMap<PathBuf, Option<OwnedFd>>,
    apart: bool,
}

/// What the kernel itself gives.
#[derive(Debug)]
struct Kernel {
    devices: Vec<(&'static str, OwnedFd)>,
    terminals: Option<OwnedFd>,
    processes: OwnedFd,
}

impl Sources {
    fn open() -> io::Result<Self> {
        let by_name = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let old = open(OLD, by_name, Mode::empty())?;
        let table = fs::read_to_string(below(OLD, Path::new("/proc/self/mountinfo")))?;
        let mut mounts: Vec<PathBuf> = table
            .lines()
            .filter_map(mount_point)
            .filter_map(|at| Some(Path::new("/").join(at.strip_prefix(OLD).ok()?)))
            .collect();
        mounts.sort();
        mounts.dedup();
        // Each part is held open until it has its place.
        let most = getrlimit(Resource::Nofile).maximum;
        let raised = Rlimit {
            current: most,
            maximum: most,
        };
        setrlimit(Resource::Nofile, raised)?;
        Ok(Self {
            old,
            mounts,
            around: HashMap::new(),
            apart: true,
        })
    }

    fn source(&self, from: &Path) -> io::Result<OwnedFd> {
        open_below(&self.old, from)
    }

    fn gather(&mut self, part: &Part, pieces: &mut Vec<Piece>) -> io::Result<()> {
        let what = match &part.what {
            What::Seen { from } => return self.shown(from, &part.at, pieces),
            What::SeenFile { from } => PieceKind::File(self.shown_file(from)?),
            What::Own { from } => PieceKind::Dir(copy_of(&self.source(from)?)?),
            What::Layered {
                from,
                changes,
                work,
            } => match self.layer(from, changes, work)? {
                Some(tree) => PieceKind::Dir(tree),
                // The disk cannot carry a layer: then nothing in there can be changed at all.
                None => return self.shown(from, &part.at, pieces),
            },
            What::Memory { bytes } => PieceKind::Memory(in_memory(*bytes, "1777")?),
            What::MaskedDir => PieceKind::Memory(in_memory(64 << 10, "0755")?),
            What::MaskedFile => PieceKind::File(copy_of(&self.source(Path::new("/dev/null"))?)?),
            What::Link { to } => PieceKind::Link(to.clone()),
        };
        let at = part.at.clone();
        pieces.push(Piece { at, what });
        Ok(())
    }

    /// A directory, and what is mounted below it. Through an overlay every file is one of the run's
    /// own to the kernel: to connect to a socket, open a pipe or take a lock reaches nobody outside.
    fn shown(&mut self, from: &Path, at: &Path, pieces: &mut Vec<Piece>) -> io::Result<()> {
        let source = self.source(from)?;
        let virtual_files = ["/sys", "/proc"].iter().any(|top| from.starts_with(top));
        let covered = if virtual_files { None } else { self.overlay(&source) };
        let Some(tree) = covered else {
            self.apart &= virtual_files;
            let what = PieceKind::Dir(copy_of(&source)?);
            let at = at.to_owned();
            pieces.push(Piece { at, what });
            return Ok(());
        };
        let what = PieceKind::Dir(tree);
        pieces.push(Piece {
            at: at.to_owned(),
            what,
        });
        for inner in self.mounts_below(from) {
            let Ok(below) = inner.strip_prefix(from) else {
                continue;
            };
            let at = at.join(below);
            // What may not even be opened is not shown.
            let Ok(source) = self.source(&inner) else {
                continue;
            };
            let kind = FileType::from_raw_mode(fstat(&source)?.st_mode);
            let what = match kind {
                FileType::Directory => match self.overlay(&source) {
                    Some(tree) => PieceKind::Dir(tree),
                    None => {
                        self.apart = false;
                        PieceKind::Dir(copy_of(&source)?)
                    }
                },
                FileType::RegularFile => PieceKind::File(copy_of(&source)?),
                _ => continue,
            };
            pieces.push(Piece { at, what });
        }
        Ok(())
    }

    fn mounts_below(&self, dir: &Path) -> Vec<PathBuf> {
        let inner = |at: &&PathBuf| at.starts_with(dir) && at.as_path() != dir;
        self.mounts.iter().filter(inner).cloned().collect()
    }

    fn overlay(&self, source: &OwnedFd) -> Option<OwnedFd> {
        let lower = format!("{}:{EMPTY}", by_handle(source));
        let attributes = ATTRIBUTES | MountAttrFlags::MOUNT_ATTR_RDONLY;
        let options = [("lowerdir", lower.as_str()), ("userxattr", "")];
        file_system("overlay", &options, attributes).ok()
    }

    /// A file through an overlay of the directory around it, for the same reason; as it is, where
    /// that is not possible: then a lock on it is one on the person's file.
    fn shown_file(&mut self, from: &Path) -> io::Result<OwnedFd> {
        let source = self.source(from)?;
        if let (Some(parent), Some(name)) = (from.parent(), from.file_name())
            && !self.mounts.iter().any(|at| at == from)
            && let Some(dir) = self.around(parent)
            && let Ok(file) = open_below(dir, Path::new(name))
        {
            return copy_of(&file);
        }
        copy_of(&source)
    }

    fn around(&mut self, dir: &Path) -> Option<&OwnedFd> {
        if !self.around.contains_key(dir) {
            let made = self.attached_overlay(dir);
            self.around.insert(dir.to_owned(), made.ok());
        }
        self.around.get(dir)?.as_ref()
    }

    /// Attached in the yard: only what is attached somewhere can be copied.
    fn attached_overlay(&self, dir: &Path) -> io::Result<OwnedFd> {
        let source = self.source(dir)?;
        let none = || io::Error::from(io::ErrorKind::Unsupported);
        let tree = self.overlay(&source).ok_or_else(none)?;
        let at = Path::new(AROUND).join(self.around.len().to_string());
        fs::create_dir(&at)?;
        let from_handle = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(&tree, "", rustix::fs::CWD, &at, from_handle)?;
        Ok(tree)
    }

    /// Lays the changes over what they change; none where the disk cannot carry that. What is in a
    /// layer is taken from it after the run and written to the disk then, and without the run it is
    /// nothing: so it need not be on the disk before.
    fn layer(&self, from: &Path, changes: &Path, work: &Path) -> io::Result<Option<OwnedFd>> {
        let [lower, upper, work] = [from, changes, work].map(|path| self.source(path));
        let (lower, upper, work) = (lower?, upper?, work?);
        let handles = [&lower, &upper, &work].map(by_handle);
        let mut options = vec![
            ("lowerdir", handles[0].as_str()),
            ("upperdir", handles[1].as_str()),
            ("workdir", handles[2].as_str()),
            ("userxattr", ""),
            ("volatile", ""),
        ];
        for _ in 0..2 {
            if let Ok(tree) = file_system("overlay", &options, ATTRIBUTES) {
                return Ok(Some(tree));
            }
            options.pop();
        }
        Ok(None)
    }

    fn kernel(&self) -> io::Result<Kernel> {
        let names = root::DEVICES.into_iter().filter(|name| *name != "tty");
        let devices: io::Result<Vec<_>> = names
            .map(|name| {
                let source = self.source(&Path::new("/dev").join(name))?;
                Ok((name, copy_of(&source)?))
            })
            .collect();
        let no_programs = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let terminals = [("newinstance", ""), ("ptmxmode", "0666"), ("mode", "620")];
        let quiet = ATTRIBUTES | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let processes = file_system("proc", &[], quiet)
            .map_err(|error| told("a /proc of its own (is this a container?)", error))?;
        Ok(Kernel {
            devices: devices?,
            // Without terminals of its own a run has none; the machine's are never lent.
            terminals: file_system("devpts", &terminals, no_programs).ok(),
            processes,
        })
    }
}

fn in_memory(bytes: u64, mode: &str) -> io::Result<OwnedFd> {
    let size = bytes.to_string();
    file_system("tmpfs", &[("size", &size), ("mode", mode)], ATTRIBUTES)
}

fn devices(root: &NewRoot, kernel: &Kernel) -> io::Result<()> {
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

fn processes(root: &NewRoot, kernel: &Kernel, confinement: &Confinement) -> io::Result<()> {
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
fn close(parts: &[Part]) -> io::Result<()> {
    let table = fs::read_to_string(below(NEW, Path::new("/proc/self/mountinfo")))?;
    let places = Places::of(parts);
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
fn mount_point(line: &str) -> Option<PathBuf> {
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
