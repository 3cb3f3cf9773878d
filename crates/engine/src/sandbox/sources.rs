//! What the machine gives to a new root, taken hold of before the machine's own root is let go of.
//! Nothing is opened for reading or writing here, and no symbolic link is followed.

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

use super::native::{AROUND, EMPTY, OLD, below, mount_point, told};
use super::new_root::{NewRoot, open_below};
use super::root::{self, RootPart, RootPartKind};

const ATTRIBUTES: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);

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
pub struct MountSource {
    pub at: PathBuf,
    what: MountSourceKind,
}

#[derive(Debug)]
enum MountSourceKind {
    Dir(OwnedFd),
    File(OwnedFd),
    /// Over a file that must not be seen.
    Mask(OwnedFd),
    Memory(OwnedFd),
    Link(PathBuf),
}

impl MountSource {
    pub fn put(&self, root: &mut NewRoot) -> io::Result<()> {
        match &self.what {
            MountSourceKind::Dir(tree) => root.attach(tree, &self.at, true),
            MountSourceKind::File(tree) => root.attach(tree, &self.at, false),
            // What has gone since the plan was made needs no mask.
            MountSourceKind::Mask(tree) => match root.attach(tree, &self.at, false) {
                Err(_) if !root.has(&self.at) => Ok(()),
                done => done,
            },
            MountSourceKind::Memory(tree) => root.attach_own(tree, &self.at),
            MountSourceKind::Link(to) => root.link(&self.at, to),
        }
    }
}

/// The machine's root, from which everything is taken by canonical names only.
#[derive(Debug)]
pub struct HostRoot {
    old: OwnedFd,
    /// Where the machine has mounts.
    mounts: Vec<PathBuf>,
    /// Directories around single files that are shown.
    around: HashMap<PathBuf, Option<OwnedFd>>,
    /// Whether everything so far is shown through overlays.
    pub apart: bool,
}

/// What the kernel itself gives.
#[derive(Debug)]
pub struct KernelMounts {
    pub devices: Vec<(&'static str, OwnedFd)>,
    pub terminals: Option<OwnedFd>,
    pub processes: OwnedFd,
}

impl HostRoot {
    pub fn open() -> io::Result<Self> {
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

    pub fn gather(&mut self, part: &RootPart, pieces: &mut Vec<MountSource>) -> io::Result<()> {
        let what = match &part.what {
            RootPartKind::Seen { from } => return self.shown(from, &part.at, pieces),
            RootPartKind::SeenFile { from } => MountSourceKind::File(self.shown_file(from)?),
            RootPartKind::Own { from } => MountSourceKind::Dir(copy_of(&self.source(from)?)?),
            RootPartKind::Layered {
                from,
                changes,
                work,
            } => match self.layer(from, changes, work)? {
                Some(tree) => MountSourceKind::Dir(tree),
                // The disk cannot carry a layer: then nothing in there can be changed at all.
                None => return self.shown(from, &part.at, pieces),
            },
            RootPartKind::Memory { bytes } => MountSourceKind::Memory(in_memory(*bytes, "1777")?),
            RootPartKind::MaskedDir => MountSourceKind::Memory(in_memory(64 << 10, "0755")?),
            RootPartKind::MaskedFile => {
                MountSourceKind::Mask(copy_of(&self.source(Path::new("/dev/null"))?)?)
            }
            RootPartKind::Link { to } => MountSourceKind::Link(to.clone()),
        };
        let at = part.at.clone();
        pieces.push(MountSource { at, what });
        Ok(())
    }

    /// A directory, and what is mounted below it. Through an overlay every file is one of the run's
    /// own to the kernel: to connect to a socket, open a pipe or take a lock reaches nobody outside.
    fn shown(&mut self, from: &Path, at: &Path, pieces: &mut Vec<MountSource>) -> io::Result<()> {
        let source = self.source(from)?;
        let virtual_files = ["/sys", "/proc"].iter().any(|top| from.starts_with(top));
        let covered = if virtual_files {
            None
        } else {
            overlay(&source)
        };
        let Some(tree) = covered else {
            self.apart &= virtual_files;
            let what = MountSourceKind::Dir(copy_of(&source)?);
            let at = at.to_owned();
            pieces.push(MountSource { at, what });
            return Ok(());
        };
        let what = MountSourceKind::Dir(tree);
        pieces.push(MountSource {
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
                FileType::Directory => {
                    let tree = overlay(&source);
                    self.apart &= tree.is_some();
                    MountSourceKind::Dir(tree.map_or_else(|| copy_of(&source), Ok)?)
                }
                FileType::RegularFile => MountSourceKind::File(copy_of(&source)?),
                _ => continue,
            };
            pieces.push(MountSource { at, what });
        }
        Ok(())
    }

    fn mounts_below(&self, dir: &Path) -> Vec<PathBuf> {
        let inner = |at: &&PathBuf| at.starts_with(dir) && at.as_path() != dir;
        self.mounts.iter().filter(inner).cloned().collect()
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
        let tree = overlay(&source).ok_or_else(none)?;
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

    pub fn kernel(&self) -> io::Result<KernelMounts> {
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
        Ok(KernelMounts {
            devices: devices?,
            // Without terminals of its own a run has none; the machine's are never lent.
            terminals: file_system("devpts", &terminals, no_programs).ok(),
            processes,
        })
    }
}

/// A directory as the run's own to the kernel; none where it refuses that.
fn overlay(source: &OwnedFd) -> Option<OwnedFd> {
    let lower = format!("{}:{EMPTY}", by_handle(source));
    let attributes = ATTRIBUTES | MountAttrFlags::MOUNT_ATTR_RDONLY;
    let options = [("lowerdir", lower.as_str()), ("userxattr", "")];
    file_system("overlay", &options, attributes).ok()
}

fn in_memory(bytes: u64, mode: &str) -> io::Result<OwnedFd> {
    let size = bytes.to_string();
    file_system("tmpfs", &[("size", &size), ("mode", mode)], ATTRIBUTES)
}
