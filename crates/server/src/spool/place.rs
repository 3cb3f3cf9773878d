//! A directory that others write to as well. Everything in it is reached from its own handle, name by
//! name, and no link is followed; what is written appears whole or not at all.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    self, AtFlags, FileType, FlockOperation, Mode, OFlags, RawDir, RenameFlags, Stat,
};

/// A longer list is looked at in parts: the rest comes when these are gone.
const NAMES_MAX: usize = 2000;
const HERE: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

#[derive(Debug)]
pub struct SpoolDir(OwnedFd);

/// By which a file is known again, unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFingerprint {
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

/// What lies under a name.
#[derive(Debug)]
pub enum SpoolEntry {
    File(FileFingerprint, Vec<u8>),
    /// A file with more bytes than are read.
    Large,
    /// A link, a directory, a pipe, …
    Other,
}

impl SpoolDir {
    /// The directory that the operator named; made where there is none.
    pub fn open(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(fs::open(path, flags, Mode::empty())?))
    }

    /// False where another program has it.
    pub fn lock(&self) -> io::Result<bool> {
        match fs::flock(&self.0, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// A directory in it; made where there is none.
    pub fn enter(&self, name: &str) -> io::Result<Self> {
        match fs::mkdirat(&self.0, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Self(fs::openat(&self.0, name, HERE, Mode::empty())?))
    }

    /// What is in it, in the order of the names.
    pub fn names(&self) -> io::Result<Vec<std::ffi::OsString>> {
        let again = fs::openat(&self.0, ".", HERE, Mode::empty())?;
        let mut room = Vec::with_capacity(32 * 1024);
        let mut entries = RawDir::new(again, room.spare_capacity_mut());
        let mut names = Vec::new();
        while let Some(entry) = entries.next() {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
            if names.len() < NAMES_MAX && !name.as_bytes().starts_with(b".") {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// The file's bytes, if it is one and has at most so many.
    pub fn read(&self, name: &OsStr, most: usize) -> io::Result<SpoolEntry> {
        // A pipe without a writer would make us wait for one.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match fs::openat(&self.0, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO) => return Ok(SpoolEntry::Other),
            Err(error) => return Err(error.into()),
        };
        let stat = fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(SpoolEntry::Other);
        }
        let mut bytes = Vec::new();
        let mut limited = File::from(file).take(most as u64 + 1);
        limited.read_to_end(&mut bytes)?;
        if bytes.len() > most {
            return Ok(SpoolEntry::Large);
        }
        Ok(SpoolEntry::File(print(&stat), bytes))
    }

    /// `None` where there is no such file, or something else of its name.
    pub fn print(&self, name: &OsStr) -> Option<FileFingerprint> {
        let stat = fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        is_file.then(|| print(&stat))
    }

    /// Whether anything at all has this name.
    pub fn has(&self, name: &OsStr) -> bool {
        fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Puts a whole file there, in the place of any other.
    pub fn write(&self, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
        let aside = format!(".{}.part", name.to_string_lossy());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        // Left by one of us that was killed, or a trap.
        self.remove(aside.as_ref())?;
        let mut file = File::from(fs::openat(&self.0, aside.as_str(), flags, mode)?);
        file.write_all(bytes)?;
        file.sync_data()?;
        Ok(fs::renameat(&self.0, aside.as_str(), &self.0, name)?)
    }

    /// Adds to the end of a file; one that is longer than `most` is put aside first.
    pub fn append(&self, name: &str, bytes: &[u8], most: u64) -> io::Result<()> {
        let long = self.print(name.as_ref());
        if long.is_some_and(|print| print.bytes > most) {
            fs::renameat(&self.0, name, &self.0, format!("{name}.1"))?;
        }
        let flags = OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::APPEND
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC
            | OFlags::NONBLOCK;
        let file = fs::openat(&self.0, name, flags, Mode::from_raw_mode(0o666))?;
        File::from(file).write_all(bytes)
    }

    /// Moves whatever has the name to a name in another directory that nothing has.
    pub fn carry(&self, name: &OsStr, to: &Self, new: &str) -> io::Result<()> {
        let flags = RenameFlags::NOREPLACE;
        Ok(fs::renameat_with(&self.0, name, &to.0, new, flags)?)
    }

    /// Removes a file; that there is none is fine.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        match fs::unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn print(stat: &Stat) -> FileFingerprint {
    FileFingerprint {
        inode: stat.st_ino,
        bytes: u64::try_from(stat.st_size).unwrap_or_default(),
        changed: (
            stat.st_mtime,
            i64::try_from(stat.st_mtime_nsec).unwrap_or_default(),
        ),
    }
}
