//! The root under construction, and the only way in which the set-up of a sandbox writes.
//!
//! It refuses to make anything but inside of file systems in memory that it mounted itself, never
//! replaces what is there, and follows no symbolic link. By the time anything is made here the
//! machine's own root is out of reach, so that a mistake ends in an error and not in a file of
//! the person's.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, statat, symlinkat,
};
use rustix::mount::{MoveMountFlags, move_mount};

const NO_LINKS: ResolveFlags = ResolveFlags::IN_ROOT
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

/// Opens what is at a canonical path below `root`, without any right to read or write it.
pub fn open_below(root: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let path = match path.strip_prefix("/") {
        Ok(rest) if rest.as_os_str().is_empty() => Path::new("."),
        Ok(rest) => rest,
        Err(_) => path,
    };
    let by_name = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat2(root, path, by_name, Mode::empty(), NO_LINKS)?)
}

/// The new root.
#[derive(Debug)]
pub struct NewRoot {
    root: OwnedFd,
    /// The device numbers of the file systems in memory that are ours to write in.
    own: Vec<u64>,
}

impl NewRoot {
    /// `root` is the directory on which a file system in memory was just mounted.
    pub fn new(root: OwnedFd) -> io::Result<Self> {
        let own = vec![device(&root)?];
        Ok(Self { root, own })
    }

    /// Attaches a detached mount at a canonical path, whose mount point is made where it is ours to
    /// make, and must be there already everywhere else.
    pub fn attach(&self, tree: &OwnedFd, at: &Path, is_dir: bool) -> io::Result<()> {
        let point = self.mount_point(at, is_dir)?;
        let by_handle =
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        Ok(move_mount(tree, "", &point, "", by_handle)?)
    }

    /// Attaches a file system in memory that is made just for this, and may be written in later.
    pub fn attach_own(&mut self, tree: &OwnedFd, at: &Path) -> io::Result<()> {
        self.attach(tree, at, true)?;
        let found = device(open_below(&self.root, at)?)?;
        self.own.push(found);
        Ok(())
    }

    pub fn link(&self, at: &Path, to: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(at)?;
        self.must_be_ours(&parent, at)?;
        Ok(symlinkat(to, &parent, name)?)
    }

    /// Whether anything is at this place.
    pub fn has(&self, at: &Path) -> bool {
        open_below(&self.root, at).is_ok()
    }

    pub fn dir(&self, at: &Path) -> io::Result<()> {
        self.mount_point(at, true).map(drop)
    }

    fn mount_point(&self, at: &Path, is_dir: bool) -> io::Result<OwnedFd> {
        match open_below(&self.root, at) {
            Ok(point) => {
                let found = rustix::fs::fstat(&point)?;
                let kind = rustix::fs::FileType::from_raw_mode(found.st_mode);
                if kind.is_dir() == is_dir {
                    return Ok(point);
                }
                return Err(told(at, "a file and a directory at one place"));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let (parent, name) = self.parent(at)?;
        self.must_be_ours(&parent, at)?;
        if is_dir {
            mkdirat(&parent, name, Mode::from_raw_mode(0o755))?;
        } else {
            let anew = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(0o444);
            drop(openat(&parent, name, anew | OFlags::RDONLY, mode)?);
        }
        open_below(&self.root, at)
    }

    /// The directory around a place, made where it is missing, and the name in it.
    fn parent<'a>(&self, at: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
        let (Some(parent), Some(name)) = (at.parent(), at.file_name()) else {
            return Err(told(at, "it has no name"));
        };
        Ok((self.mount_point(parent, true)?, name))
    }

    fn must_be_ours(&self, dir: &OwnedFd, at: &Path) -> io::Result<()> {
        if self.own.contains(&device(dir)?) {
            return Ok(());
        }
        Err(told(
            at,
            "it would have to be made in a directory that is not ours",
        ))
    }
}

fn device(dir: impl AsFd) -> io::Result<u64> {
    Ok(statat(dir, "", AtFlags::EMPTY_PATH)?.st_dev)
}

fn told(at: &Path, why: &str) -> io::Error {
    io::Error::other(format!("{}: {why}", at.display()))
}
