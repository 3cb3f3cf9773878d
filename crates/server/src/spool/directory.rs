//! Access to a directory that others write to as well. All access goes through its handle, name by
//! name, and follows no links; files are written atomically.
//!
//! A path is looked up again at every use, and others may replace a part of it by a link in
//! between. A handle stays the directory that was opened, so a check and the use after it mean the
//! same thing.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    self, AtFlags, FileType, FlockOperation, Mode, OFlags, RawDir, RenameFlags, Stat,
};

/// Names returned per listing; the rest follows when these are gone.
/// A directory with a million files must not fill the memory.
const NAMES_MAX: usize = 2000;
// `NOFOLLOW` refuses a link in the place of a directory; `CLOEXEC` keeps the handle out of child
// processes.
const DIR_FLAGS: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

#[derive(Debug)]
pub struct SpoolDir(OwnedFd);

/// Identifies an unchanged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFingerprint {
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

/// Content found under a name.
#[derive(Debug)]
pub enum SpoolEntry {
    File(FileFingerprint, Vec<u8>),
    /// A file above the size limit.
    Large,
    /// A link, a directory, a pipe, …
    Other,
}

impl SpoolDir {
    /// Opens the configured directory, and creates it if missing.
    pub fn open(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        // The configured path itself may be a link: the person chose it.
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(fs::open(path, flags, Mode::empty())?))
    }

    /// Takes the lock. Returns false if another process has it.
    pub fn lock(&self) -> io::Result<bool> {
        // The kernel drops the lock with the process, so a crash leaves none behind.
        match fs::flock(&self.0, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a subdirectory, and creates it if missing.
    pub fn open_dir(&self, name: &str) -> io::Result<Self> {
        // The umask decides in the end; other programs have to write here.
        match fs::mkdirat(&self.0, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Self(fs::openat(&self.0, name, DIR_FLAGS, Mode::empty())?))
    }

    /// Lists the names in it, sorted, without hidden files.
    pub fn names(&self) -> io::Result<Vec<std::ffi::OsString>> {
        // A fresh handle, because reading a directory moves its position, which handles share.
        let directory = fs::openat(&self.0, ".", DIR_FLAGS, Mode::empty())?;
        let mut buffer = Vec::with_capacity(32 * 1024);
        let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
        let mut names = Vec::new();
        while let Some(entry) = entries.next() {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
            // Hidden files are half-written ones, ours included.
            if names.len() < NAMES_MAX && !name.as_bytes().starts_with(b".") {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Reads a regular file of at most `max` bytes.
    pub fn read(&self, name: &OsStr, max: usize) -> io::Result<SpoolEntry> {
        // NONBLOCK: opening a pipe would otherwise wait for a writer.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match fs::openat(&self.0, name, flags, Mode::empty()) {
            Ok(file) => file,
            // A link and a socket answer with these errors.
            Err(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO) => return Ok(SpoolEntry::Other),
            Err(error) => return Err(error.into()),
        };
        // Asked of the open file and not of its name, which may mean another file by now.
        let stat = fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(SpoolEntry::Other);
        }
        let mut bytes = Vec::new();
        // One byte more than the limit shows that the file is longer. The size in `stat` may grow
        // meanwhile.
        let mut limited = File::from(file).take(max as u64 + 1);
        limited.read_to_end(&mut bytes)?;
        if bytes.len() > max {
            return Ok(SpoolEntry::Large);
        }
        Ok(SpoolEntry::File(fingerprint_of(&stat), bytes))
    }

    /// Returns the fingerprint of a regular file, `None` for anything else.
    pub fn fingerprint(&self, name: &OsStr) -> Option<FileFingerprint> {
        let stat = fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        is_file.then(|| fingerprint_of(&stat))
    }

    /// Whether anything exists under this name.
    pub fn has(&self, name: &OsStr) -> bool {
        fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Writes a file atomically, replacing any other.
    pub fn write(&self, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
        let temporary = format!(".{}.part", name.to_string_lossy());
        // `EXCL` fails on anything that exists, so a planted link is not written through.
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        // A leftover of a killed process, or a trap such as a link.
        self.remove(temporary.as_ref())?;
        let mut file = File::from(fs::openat(&self.0, temporary.as_str(), flags, mode)?);
        file.write_all(bytes)?;
        // The data is on disk before the name appears. Else a power cut could leave an empty file
        // under the final name.
        file.sync_data()?;
        Ok(fs::renameat(&self.0, temporary.as_str(), &self.0, name)?)
    }

    /// Appends to a file; one that is longer than `max` is rotated first.
    pub fn append(&self, name: &str, bytes: &[u8], max: u64) -> io::Result<()> {
        let current = self.fingerprint(name.as_ref());
        if current.is_some_and(|print| print.bytes > max) {
            // One old file is kept. Others may read it while we write.
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

    /// Moves an entry to an unused name in another directory.
    pub fn move_to(&self, name: &OsStr, target: &Self, new: &str) -> io::Result<()> {
        // Without it a rename would silently replace a file that another process has just put
        // there.
        let flags = RenameFlags::NOREPLACE;
        Ok(fs::renameat_with(&self.0, name, &target.0, new, flags)?)
    }

    /// Removes a file if it exists.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        match fs::unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn fingerprint_of(stat: &Stat) -> FileFingerprint {
    FileFingerprint {
        inode: stat.st_ino,
        bytes: u64::try_from(stat.st_size).unwrap_or_default(),
        changed: (
            stat.st_mtime,
            i64::try_from(stat.st_mtime_nsec).unwrap_or_default(),
        ),
    }
}
