//! Exchanges one file of a work tree for its new version, and back.
//!
//! The new version is staged completely outside the work tree, so that a reader sees the old file
//! or the new one and never a part. The old one is kept until the branch has moved. A file that
//! someone wrote to at the last moment is noticed after the exchange, and restored.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::{Deserialize, Serialize};

/// Identifies a file and its version, to notice that someone wrote to it.
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

/// A path to change, with an old file, a new one, or both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileStep {
    #[serde(with = "super::journal::path_text")]
    pub path: PathBuf,
    /// File as it was inspected, with the content of the old commit.
    was: Option<FileStamp>,
    /// True if there is a new version.
    puts: bool,
    /// Staged new version.
    new: Option<FileStamp>,
}

/// A work tree, and our directory with its staged versions.
#[derive(Clone, Copy, Debug)]
pub(super) struct StagedWorkTree<'a> {
    pub root: &'a Path,
    pub stage: &'a Path,
}

impl StagedWorkTree<'_> {
    /// Returns the path of the new version before the exchange, and of the old one after it.
    fn staged_path(&self, step: &FileStep) -> PathBuf {
        self.stage.join("new").join(&step.path)
    }

    fn backup_path(&self, number: usize) -> PathBuf {
        self.stage.join("old").join(number.to_string())
    }
}

/// Reason why a step was not done.
#[derive(Debug)]
pub(super) enum FileStepError {
    /// Someone changed the file after we inspected it; their version stays.
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

    /// Returns whether the step creates a file where none was.
    pub fn adds_file(&self) -> bool {
        self.was.is_none()
    }

    pub fn has_new_version(&self) -> bool {
        self.puts
    }

    /// Records the stamp of the staged new version. Returns false if it is missing.
    pub fn record_staged(&mut self, site: StagedWorkTree<'_>) -> bool {
        self.new = FileStamp::at(&site.staged_path(self));
        self.new.is_some()
    }

    pub fn apply(&self, site: StagedWorkTree<'_>, number: usize) -> Result<(), FileStepError> {
        let full = site.root.join(&self.path);
        match (self.was, self.puts) {
            (Some(was), true) => self.exchange(site, number, was),
            (Some(was), false) => {
                let backup = site.backup_path(number);
                move_to_free(&full, &backup)?;
                if FileStamp::at(&backup) != Some(was) {
                    move_to_free(&backup, &full)?;
                    return Err(FileStepError::Disturbed);
                }
                remove_empty_parents(site.root, &self.path);
                Ok(())
            }
            (None, true) => {
                make_parent_dirs(site.root, &self.path)?;
                Ok(move_to_free(&site.staged_path(self), &full)?)
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
        let (full, ready) = (site.root.join(&self.path), site.staged_path(self));
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
                let backup = site.backup_path(number);
                move_to_free(&full, &backup)?;
                Ok(fs::rename(&ready, &full)?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Restores the old file, if ours is in place now. It is safe to call for any state, and more
    /// than once.
    pub fn undo(&self, site: StagedWorkTree<'_>, number: usize) -> io::Result<()> {
        let (full, ready, backup) = (
            site.root.join(&self.path),
            site.staged_path(self),
            site.backup_path(number),
        );
        let here = FileStamp::at(&full);
        let is_ours = here.is_some() && here == self.new;
        match (self.was, self.puts) {
            (Some(was), true) => {
                if is_ours && FileStamp::at(&ready) == Some(was) {
                    swap(&ready, &full)
                } else if (is_ours || here.is_none()) && FileStamp::at(&backup) == Some(was) {
                    fs::rename(&backup, &full)
                } else {
                    Ok(())
                }
            }
            (Some(was), false) => {
                if here.is_none() && FileStamp::at(&backup) == Some(was) {
                    make_parent_dirs(site.root, &self.path)?;
                    move_to_free(&backup, &full)
                } else {
                    Ok(())
                }
            }
            (None, true) if is_ours => {
                fs::rename(&full, &ready)?;
                remove_empty_parents(site.root, &self.path);
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }
}

fn swap(one: &Path, other: &Path) -> io::Result<()> {
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

/// Moves a file to a path that is free.
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
    let unsupported = [libc::EINVAL, libc::ENOSYS, libc::EOPNOTSUPP];
    error
        .raw_os_error()
        .is_some_and(|code| unsupported.contains(&code))
}

/// Creates the directories above the path. Removes an empty directory at the path itself, as git
/// does.
fn make_parent_dirs(root: &Path, path: &Path) -> io::Result<()> {
    let full = root.join(path);
    if fs::symlink_metadata(&full).is_ok_and(|meta| meta.is_dir()) {
        remove_empty(&full)?;
    }
    match full.parent() {
        Some(parent) => fs::create_dir_all(parent),
        None => Ok(()),
    }
}

/// Removes nested directories without files; fails if there is a file.
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
fn remove_empty_parents(root: &Path, path: &Path) {
    for dir in path.ancestors().skip(1) {
        // Removing a directory that is not empty fails, which ends the loop.
        if dir.as_os_str().is_empty() || fs::remove_dir(root.join(dir)).is_err() {
            return;
        }
    }
}
