//! Opens the machine's files and directories for a new root, before the machine's own root is
//! detached. It opens nothing for reading or writing, and follows no symbolic link.
//!
//! The handles are detached mounts (`open_tree`, `fsmount`). They stay valid after the machine's
//! root is gone, and attaching one resolves no path of the machine. A file that is swapped for a
//! symbolic link after the plan was made therefore gives an error, not another file.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::native::{EMPTY_DIR, HOST_ROOT, OVERLAYS_DIR, mount_point, path_below, with_context};
use super::new_root::{NewRoot, open_below};
use super::root::{self, RootPart, RootPartKind};

const ATTRIBUTES: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);

/// Creates a file system that is not attached yet. An option without a value is a flag.
fn make_file_system(
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

/// Creates a copy of a mount and all mounts below it, which is not attached yet. `AT_RECURSIVE` is
/// required: in a user namespace the kernel refuses to copy a mount without the locked mounts below
/// it, because that could reveal files that they hide.
fn clone_mount(source: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(source, "", flags)?)
}

/// Returns a path for an open directory that is safe in overlay options: its own name may contain
/// commas, colons or backslashes, and this one has none. The path goes through the old root's
/// `/proc`, which is still mounted at this time.
fn fd_path(dir: &OwnedFd) -> String {
    format!("{HOST_ROOT}/proc/self/fd/{}", dir.as_raw_fd())
}

/// A mount from the machine and its path in the new root.
#[derive(Debug)]
pub struct MountSource {
    pub at: PathBuf,
    what: MountSourceKind,
}

#[derive(Debug)]
enum MountSourceKind {
    Dir(OwnedFd),
    File(OwnedFd),
    /// Covers a file that must stay hidden.
    Mask(OwnedFd),
    Memory(OwnedFd),
    Link(PathBuf),
}

impl MountSource {
    pub fn attach_to(&self, root: &mut NewRoot) -> io::Result<()> {
        match &self.what {
            MountSourceKind::Dir(tree) => root.attach(tree, &self.at, true),
            MountSourceKind::File(tree) => root.attach(tree, &self.at, false),
            // The plan is a snapshot, and other programs keep deleting files of the person's home.
            // A file that was deleted since the plan was made needs no mask.
            MountSourceKind::Mask(tree) => match root.attach(tree, &self.at, false) {
                Err(_) if !root.exists(&self.at) => Ok(()),
                done => done,
            },
            MountSourceKind::Memory(tree) => root.attach_own(tree, &self.at),
            MountSourceKind::Link(to) => root.link(&self.at, to),
        }
    }
}

/// The machine's root; everything in it is opened by canonical path only.
#[derive(Debug)]
pub struct HostRoot {
    old: OwnedFd,
    /// Mount points of the machine.
    mounts: Vec<PathBuf>,
    /// Overlays of the directories that contain singly mounted files.
    around: HashMap<PathBuf, Option<OwnedFd>>,
    /// Whether everything so far is mounted through overlays.
    pub apart: bool,
}

/// Mounts that the kernel provides: devices, terminals and `/proc`.
#[derive(Debug)]
pub struct KernelMounts {
    pub devices: Vec<(&'static str, OwnedFd)>,
    pub terminals: Option<OwnedFd>,
    pub processes: OwnedFd,
}

impl HostRoot {
    pub fn open() -> io::Result<Self> {
        let by_name = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let old = open(HOST_ROOT, by_name, Mode::empty())?;
        let table = fs::read_to_string(path_below(HOST_ROOT, Path::new("/proc/self/mountinfo")))?;
        let mut mounts: Vec<PathBuf> = table
            .lines()
            // Only mounts below the old root count; our own staging mounts are in the table as
            // well.
            .filter_map(mount_point)
            .filter_map(|at| Some(Path::new("/").join(at.strip_prefix(HOST_ROOT).ok()?)))
            .collect();
        mounts.sort();
        mounts.dedup();
        // A home with many tools gives hundreds of parts, and 1024 is a common soft limit.
        // Each part stays open until it is attached, so raise the limit on open files.
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

    fn open_source(&self, from: &Path) -> io::Result<OwnedFd> {
        open_below(&self.old, from)
    }

    pub fn collect_part(
        &mut self,
        part: &RootPart,
        sources: &mut Vec<MountSource>,
    ) -> io::Result<()> {
        let what = match &part.what {
            RootPartKind::ReadOnlyDir { from } => return self.collect_dir(from, &part.at, sources),
            RootPartKind::ReadOnlyFile { from } => MountSourceKind::File(self.overlay_file(from)?),
            RootPartKind::Writable { from } => {
                MountSourceKind::Dir(clone_mount(&self.open_source(from)?)?)
            }
            RootPartKind::Overlay {
                from,
                lowers,
                changes,
                work,
            } => match self.make_overlay(lowers_or_dir(lowers, from), changes, work)? {
                Some(tree) => MountSourceKind::Dir(tree),
                // Nothing else has the content of the layers.
                None if !lowers.is_empty() => {
                    return Err(io::Error::new(
                        io::ErrorKind::Unsupported,
                        "the disk of the data directory supports no overlay",
                    ));
                }
                // The disk does not support overlays: mount the directory read-only.
                None => return self.collect_dir(from, &part.at, sources),
            },
            // World-writable with the sticky bit, as programs expect of `/tmp`.
            RootPartKind::Tmpfs { bytes } => MountSourceKind::Memory(make_tmpfs(*bytes, "1777")?),
            // A masked directory holds only mount points of inner parts, never data.
            RootPartKind::MaskedDir => MountSourceKind::Memory(make_tmpfs(64 << 10, "0755")?),
            RootPartKind::MaskedFile => {
                MountSourceKind::Mask(clone_mount(&self.open_source(Path::new("/dev/null"))?)?)
            }
            RootPartKind::Link { to } => MountSourceKind::Link(to.clone()),
        };
        let at = part.at.clone();
        sources.push(MountSource { at, what });
        Ok(())
    }

    /// Opens a directory and the mounts below it, through overlays. Through an overlay the kernel
    /// treats every file as a separate one: connecting to a socket, opening a pipe or taking a
    /// lock does not reach processes outside.
    fn collect_dir(
        &mut self,
        from: &Path,
        at: &Path,
        sources: &mut Vec<MountSource>,
    ) -> io::Result<()> {
        let source = self.open_source(from)?;
        // The kernel makes up the files in `/sys` and `/proc`. They hold no sockets of other
        // processes, so a plain copy of them does not count against `apart`.
        let virtual_files = ["/sys", "/proc"].iter().any(|top| from.starts_with(top));
        let overlaid = if virtual_files {
            None
        } else {
            read_only_overlay(&source)
        };
        let Some(tree) = overlaid else {
            // A plain copy still works, but a socket in it leads to its owner outside. The caller
            // then refuses UNIX sockets as a whole.
            self.apart &= virtual_files;
            let what = MountSourceKind::Dir(clone_mount(&source)?);
            let at = at.to_owned();
            sources.push(MountSource { at, what });
            return Ok(());
        };
        let what = MountSourceKind::Dir(tree);
        sources.push(MountSource {
            at: at.to_owned(),
            what,
        });
        // An overlay shows one file system: mounts below the directory would appear empty without
        // this.
        for inner in self.mounts_below(from) {
            let Ok(below) = inner.strip_prefix(from) else {
                continue;
            };
            let at = at.join(below);
            // A mount that we cannot open is left out.
            // For example a FUSE mount of another session, or one that was unmounted meanwhile.
            let Ok(source) = self.open_source(&inner) else {
                continue;
            };
            let kind = FileType::from_raw_mode(fstat(&source)?.st_mode);
            let what = match kind {
                FileType::Directory => {
                    let tree = read_only_overlay(&source);
                    self.apart &= tree.is_some();
                    MountSourceKind::Dir(tree.map_or_else(|| clone_mount(&source), Ok)?)
                }
                // A single mounted file has no directory to overlay; it is a plain file by the
                // check above.
                FileType::RegularFile => MountSourceKind::File(clone_mount(&source)?),
                _ => continue,
            };
            sources.push(MountSource { at, what });
        }
        Ok(())
    }

    fn mounts_below(&self, dir: &Path) -> Vec<PathBuf> {
        let inner = |at: &&PathBuf| at.starts_with(dir) && at.as_path() != dir;
        self.mounts.iter().filter(inner).cloned().collect()
    }

    /// Opens a file through an overlay of its directory, for the same reason. If that is not
    /// possible it opens the file itself; a lock on it then locks the person's file.
    fn overlay_file(&mut self, from: &Path) -> io::Result<OwnedFd> {
        let source = self.open_source(from)?;
        if let (Some(parent), Some(name)) = (from.parent(), from.file_name())
            // A file that is itself a mount point would show the file below it through the overlay.
            && !self.mounts.iter().any(|at| at == from)
            && let Some(dir) = self.overlay_around(parent)
            && let Ok(file) = open_below(dir, Path::new(name))
        {
            return clone_mount(&file);
        }
        clone_mount(&source)
    }

    fn overlay_around(&mut self, dir: &Path) -> Option<&OwnedFd> {
        if !self.around.contains_key(dir) {
            let overlay = self.attached_overlay(dir);
            // A failure is remembered too, so that it is not tried again for every file in the
            // directory.
            self.around.insert(dir.to_owned(), overlay.ok());
        }
        self.around.get(dir)?.as_ref()
    }

    /// Creates an overlay and attaches it outside of the new root, because only attached mounts
    /// can be copied.
    fn attached_overlay(&self, dir: &Path) -> io::Result<OwnedFd> {
        let source = self.open_source(dir)?;
        let none = || io::Error::from(io::ErrorKind::Unsupported);
        let tree = read_only_overlay(&source).ok_or_else(none)?;
        // The number of overlays so far is a unique name.
        let at = Path::new(OVERLAYS_DIR).join(self.around.len().to_string());
        fs::create_dir(&at)?;
        let from_handle = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(&tree, "", rustix::fs::CWD, &at, from_handle)?;
        Ok(tree)
    }

    /// Creates a writable overlay. Returns nothing if the disk does not support it. `volatile`
    /// skips syncing: the changes are collected and written to disk after the run, and are
    /// worthless without it.
    fn make_overlay(
        &self,
        lowers: &[PathBuf],
        changes: &Path,
        work: &Path,
    ) -> io::Result<Option<OwnedFd>> {
        let lowers: io::Result<Vec<OwnedFd>> =
            lowers.iter().map(|path| self.open_source(path)).collect();
        let (lowers, upper, work) = (lowers?, self.open_source(changes)?, self.open_source(work)?);
        let lower: Vec<String> = lowers.iter().map(fd_path).collect();
        let lower = lower.join(":");
        let handles = [&upper, &work].map(fd_path);
        // `userxattr` is needed in a user namespace, where `trusted.*` attributes cannot be
        // written.
        let mut options = vec![
            ("lowerdir", lower.as_str()),
            ("upperdir", handles[0].as_str()),
            ("workdir", handles[1].as_str()),
            ("userxattr", ""),
            ("volatile", ""),
        ];
        // Try again without `volatile`, which only saves time.
        for _ in 0..2 {
            if let Ok(tree) = make_file_system("overlay", &options, ATTRIBUTES) {
                return Ok(Some(tree));
            }
            options.pop();
        }
        Ok(None)
    }

    pub fn kernel_mounts(&self) -> io::Result<KernelMounts> {
        // `/dev/tty` is the controlling terminal; after `setsid` there is none, and the node would
        // only mislead programs.
        let names = root::DEVICES.into_iter().filter(|name| *name != "tty");
        let devices: io::Result<Vec<_>> = names
            .map(|name| {
                let source = self.open_source(&Path::new("/dev").join(name))?;
                Ok((name, clone_mount(&source)?))
            })
            .collect();
        let no_programs = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let terminals = [("newinstance", ""), ("ptmxmode", "0666"), ("mode", "620")];
        let quiet = ATTRIBUTES | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        // The kernel permits a new `/proc` in a user namespace only if an unmasked one is already
        // visible. Container runtimes mask it, hence the hint.
        let processes = make_file_system("proc", &[], quiet)
            .map_err(|error| with_context("could not mount /proc (is this a container?)", error))?;
        Ok(KernelMounts {
            devices: devices?,
            // Without its own devpts a run has no terminals; the machine's are never mounted.
            terminals: make_file_system("devpts", &terminals, no_programs).ok(),
            processes,
        })
    }
}

fn lowers_or_dir<'a>(lowers: &'a [PathBuf], dir: &'a PathBuf) -> &'a [PathBuf] {
    if lowers.is_empty() {
        std::slice::from_ref(dir)
    } else {
        lowers
    }
}

/// Creates a read-only overlay of a directory. Returns nothing if the kernel refuses it.
fn read_only_overlay(source: &OwnedFd) -> Option<OwnedFd> {
    let lower = format!("{}:{EMPTY_DIR}", fd_path(source));
    let attributes = ATTRIBUTES | MountAttrFlags::MOUNT_ATTR_RDONLY;
    let options = [("lowerdir", lower.as_str()), ("userxattr", "")];
    make_file_system("overlay", &options, attributes).ok()
}

fn make_tmpfs(bytes: u64, mode: &str) -> io::Result<OwnedFd> {
    let size = bytes.to_string();
    make_file_system("tmpfs", &[("size", &size), ("mode", mode)], ATTRIBUTES)
}
