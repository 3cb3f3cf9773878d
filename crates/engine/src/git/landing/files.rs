//! One file of a work tree, exchanged for its new version and back.
//!
//! The new version lies ready beside the repository, whole, so that whoever looks sees the old
//! file or the new one and never a part. The old one is kept until the branch has moved. A file
//! that somebody wrote to in the last instant is noticed after the exchange, and goes back.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::{Deserialize, Serialize};

/// Tells whether a file is the same one and was not written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileStamp {
    inode: u64,
    size: u64,
    mode: u32,
    seconds: i64,
    nanoseconds: i64,
}

impl FileStamp {
    pub fn of(meta: &Metadata) -> Self {
        Self {
            inode: meta.ino(),
            size: meta.size(),
            mode: meta.mode(),
            seconds: meta.mtime(),
            nanoseconds: meta.mtime_nsec(),
        }
    }

    pub fn at(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().map(|meta| Self::of(&meta))
    }
}

/// A path to change: there is an old file, a new one, or both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileStep {
    #[serde(with = "super::journal::path_text")]
    pub path: PathBuf,
    /// The file that was seen, and holds what the old commit has.
    was: Option<FileStamp>,
    /// Whether there is a new version.
    puts: bool,
    /// The new version, once it lies ready.
    new: Option<FileStamp>,
}

/// A work tree, and the directory of ours where its versions lie ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct StagedWorkTree<'a> {
    pub root: &'a Path,
    pub stage: &'a Path,
}

impl StagedWorkTree<'_> {
    /// Before the exchange the new version, after it the old one.
    fn ready(&self, step: &FileStep) -> PathBuf {
        self.stage.join("new").join(&step.path)
    }

    fn aside(&self, number: usize) -> PathBuf {
        self.stage.join("old").join(number.to_string())
    }
}

/// Why a step was not done.
#[derive(Debug)]
pub(super) enum FileStepError {
    /// Somebody changed the file since it was looked at; it is as they left it.
    Disturbed,
    Failed(io::Error),
}

impl From<io::Error> for FileStepError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::AlreadyExists
            | io::ErrorKind::DirectoryNotEmpty
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory => Self::Disturbed,
            _ => Self::Failed(error),
        }
    }
}

impl FileStep {
    pub fn new(path: &Path, was: Option<FileStamp>, puts: bool) -> Self {
        Self {
            path: path.to_owned(),
            was,
            puts,
            new: None,
        }
    }

    /// Whether there will be a file where none was.
    pub fn arrives(&self) -> bool {
        self.was.is_none()
    }

    pub fn puts(&self) -> bool {
        self.puts
    }

    /// Notes the new version that lies ready.
    pub fn is_ready(&mut self, site: StagedWorkTree<'_>) -> bool {
        self.new = FileStamp::at(&site.ready(self));
        self.new.is_some()
    }

    pub fn apply(&self, site: StagedWorkTree<'_>, number: usize) -> Result<(), FileStepError> {
        let full = site.root.join(&self.path);
        match (self.was, self.puts) {
            (Some(was), true) => self.exchange(site, number, was),
            (Some(was), false) => {
                let aside = site.aside(number);
                move_to_free(&full, &aside)?;
                if FileStamp::at(&aside) != Some(was) {
                    move_to_free(&aside, &full)?;
                    return Err(FileStepError::Disturbed);
                }
                prune(site.root, &self.path);
                Ok(())
            }
            (None, true) => {
                make_room(site.root, &self.path)?;
                Ok(move_to_free(&site.ready(self), &full)?)
            }
            (None, false) => Ok(()),
        }
    }

    fn exchange(
        &self,
        site: StagedWorkTree<'_>,
        number: usize,
        was: FileStamp,
    ) -> Result<(), FileStepError> {
        let (full, ready) = (site.root.join(&self.path), site.ready(self));
        match swap(&ready, &full) {
            Ok(()) => {
                if FileStamp::at(&ready) == Some(was) {
                    return Ok(());
                }
                swap(&ready, &full)?;
                Err(FileStepError::Disturbed)
            }
            // The file system cannot exchange two files in one step.
            Err(error) if is_unsupported(&error) => {
                if FileStamp::at(&full) != Some(was) {
                    return Err(FileStepError::Disturbed);
                }
                let aside = site.aside(number);
                move_to_free(&full, &aside)?;
                Ok(fs::rename(&ready, &full)?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Back to the old file, if it is ours that lies there now; done or not, once or twice.
    pub fn undo(&self, site: StagedWorkTree<'_>, number: usize) -> io::Result<()> {
        let (full, ready, aside) = (
            site.root.join(&self.path),
            site.ready(self),
            site.aside(number),
        );
        let here = FileStamp::at(&full);
        let ours = here.is_some() && here == self.new;
        match (self.was, self.puts) {
            (Some(was), true) => {
                if ours && FileStamp::at(&ready) == Some(was) {
                    swap(&ready, &full)
                } else if (ours || here.is_none()) && FileStamp::at(&aside) == Some(was) {
                    fs::rename(&aside, &full)
                } else {
                    Ok(())
                }
            }
            (Some(was), false) => {
                if here.is_none() && FileStamp::at(&aside) == Some(was) {
                    make_room(site.root, &self.path)?;
                    move_to_free(&aside, &full)
                } else {
                    Ok(())
                }
            }
            (None, true) if ours => {
                fs::rename(&full, &ready)?;
                prune(site.root, &self.path);
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }
}

fn swap(one: &Path, other: &Path) -> io::Result<()> {
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

/// Moves a file to where nothing is.
fn move_to_free(from: &Path, to: &Path) -> io::Result<()> {
    let moved = renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE).map_err(io::Error::from);
    match moved {
        Err(error) if is_unsupported(&error) => {
            if fs::symlink_metadata(to).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            fs::rename(from, to)
        }
        moved => moved,
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    let known = [libc::EINVAL, libc::ENOSYS, libc::EOPNOTSUPP];
    error
        .raw_os_error()
        .is_some_and(|code| known.contains(&code))
}

/// Makes the directories above the path. An empty directory in the place itself goes, as it does
/// for git.
fn make_room(root: &Path, path: &Path) -> io::Result<()> {
    let full = root.join(path);
    if fs::symlink_metadata(&full).is_ok_and(|meta| meta.is_dir()) {
        remove_empty(&full)?;
    }
    match full.parent() {
        Some(parent) => fs::create_dir_all(parent),
        None => Ok(()),
    }
}

/// Directories without a file in them, however deep; refuses where there is one.
fn remove_empty(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_empty(&entry.path())?;
        }
    }
    fs::remove_dir(dir)
}

/// Removes directories that have become empty, up to the root.
fn prune(root: &Path, path: &Path) {
    for dir in path.ancestors().skip(1) {
        // Removing one that is not empty fails, and that is the end.
        if dir.as_os_str().is_empty() || fs::remove_dir(root.join(dir)).is_err() {
            return;
        }
    }
}
