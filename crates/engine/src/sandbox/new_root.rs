//! The root under construction, and the only code that writes files while a sandbox is set up.
//!
//! It creates entries only inside tmpfs mounts that it made itself, never replaces an existing
//! one, and follows no symbolic link. When it creates the first entry, the machine's own root is
//! already out of reach, so a mistake ends in an error and not in a file of the person's.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, statat, symlinkat,
};
use rustix::mount::{MoveMountFlags, move_mount};

// `NO_SYMLINKS` fails on a link instead of following it. `IN_ROOT` keeps `..` and absolute paths
// below the handle. Together a swapped path component ends in an error.
const NO_LINKS: ResolveFlags = ResolveFlags::IN_ROOT
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

/// Opens a canonical path below `root`, without permission to read or write it.
pub fn open_below(root: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let path = match path.strip_prefix("/") {
        Ok(rest) if rest.as_os_str().is_empty() => Path::new("."),
        Ok(rest) => rest,
        Err(_) => path,
    };
    // `O_PATH` triggers nothing: opening a pipe or a device for reading could block or have
    // effects.
    let by_name = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat2(root, path, by_name, Mode::empty(), NO_LINKS)?)
}

/// The new root directory.
#[derive(Debug)]
pub struct NewRoot {
    root: OwnedFd,
    /// Device numbers of the tmpfs mounts in which we may create entries. A device number
    /// identifies a mount better than a path: two file systems never share one.
    own: Vec<u64>,
}

impl NewRoot {
    /// Wraps `root`, a directory on which a tmpfs was just mounted.
    pub fn new(root: OwnedFd) -> io::Result<Self> {
        let own = vec![device_number(&root)?];
        Ok(Self { root, own })
    }

    /// Attaches a detached mount at a canonical path. The mount point is created inside our own
    /// tmpfs mounts, and must already exist anywhere else.
    pub fn attach(&self, tree: &OwnedFd, at: &Path, is_dir: bool) -> io::Result<()> {
        let point = self.mount_point(at, is_dir)?;
        let by_handle =
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        Ok(move_mount(tree, "", &point, "", by_handle)?)
    }

    /// Attaches a new tmpfs, in which entries may be created later.
    pub fn attach_own(&mut self, tree: &OwnedFd, at: &Path) -> io::Result<()> {
        self.attach(tree, at, true)?;
        // The number is read after attaching, through the path, so it is that of the file system
        // which later lookups will meet.
        let own_device = device_number(open_below(&self.root, at)?)?;
        self.own.push(own_device);
        Ok(())
    }

    pub fn link(&self, at: &Path, to: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(at)?;
        self.ensure_own_file_system(&parent, at)?;
        Ok(symlinkat(to, &parent, name)?)
    }

    /// Returns whether the path exists.
    pub fn exists(&self, at: &Path) -> bool {
        open_below(&self.root, at).is_ok()
    }

    pub fn make_dir(&self, at: &Path) -> io::Result<()> {
        self.mount_point(at, true).map(drop)
    }

    fn mount_point(&self, at: &Path, is_dir: bool) -> io::Result<OwnedFd> {
        match open_below(&self.root, at) {
            Ok(point) => {
                let stat = rustix::fs::fstat(&point)?;
                let kind = rustix::fs::FileType::from_raw_mode(stat.st_mode);
                if kind.is_dir() == is_dir {
                    return Ok(point);
                }
                // Mounting a file over a directory fails in the kernel with a message that names
                // neither.
                return Err(path_error(at, "a file and a directory have the same path"));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let (parent, name) = self.parent(at)?;
        self.ensure_own_file_system(&parent, at)?;
        if is_dir {
            mkdirat(&parent, name, Mode::from_raw_mode(0o755))?;
        } else {
            // `EXCL` and `NOFOLLOW` make sure that the entry is ours and new.
            let create_new = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(0o444);
            drop(openat(&parent, name, create_new | OFlags::RDONLY, mode)?);
        }
        open_below(&self.root, at)
    }

    /// Returns the parent directory, created if it is missing, and the file name. The recursion
    /// ends at `/`, which always exists.
    fn parent<'a>(&self, at: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
        let (Some(parent), Some(name)) = (at.parent(), at.file_name()) else {
            return Err(path_error(at, "it has no name"));
        };
        Ok((self.mount_point(parent, true)?, name))
    }

    fn ensure_own_file_system(&self, dir: &OwnedFd, at: &Path) -> io::Result<()> {
        if self.own.contains(&device_number(dir)?) {
            return Ok(());
        }
        Err(path_error(
            at,
            "it would have to be created in a directory that is not ours",
        ))
    }
}

fn device_number(dir: impl AsFd) -> io::Result<u64> {
    Ok(statat(dir, "", AtFlags::EMPTY_PATH)?.st_dev)
}

fn path_error(at: &Path, why: &str) -> io::Error {
    io::Error::other(format!("{}: {why}", at.display()))
}
