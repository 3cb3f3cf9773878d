//! Disk space. On a full disk even the smallest insert fails. So no new work starts when little
//! space is left, and a ballast file can be deleted to make space for recording the failure.
//!
//! `SQLite` needs space for its WAL even to delete rows, so a full disk cannot be repaired through
//! the database alone.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::settings::Settings;

#[derive(Debug)]
pub(super) struct Space {
    directory: PathBuf,
    ballast: PathBuf,
    ballast_bytes: usize,
    free_min: u64,
    has_ballast: bool,
}

impl Space {
    pub(super) fn new(database: &Path, settings: &Settings) -> Self {
        let directory = database.parent().filter(|dir| !dir.as_os_str().is_empty());
        let mut space = Self {
            directory: directory.unwrap_or(Path::new(".")).to_owned(),
            ballast: sibling_path(database, "ballast"),
            ballast_bytes: settings.ballast_bytes,
            free_min: settings.free_space_min_bytes,
            has_ballast: false,
        };
        // A shorter file is left from a crash while it was written, and does not count.
        space.has_ballast = std::fs::metadata(&space.ballast)
            .is_ok_and(|metadata| metadata.len() >= space.ballast_bytes as u64);
        space.keep_ballast();
        space
    }

    /// Refuses new work if too little space is left to record it.
    pub(super) fn gate(&mut self) -> Result<(), Error> {
        let free = self.free();
        if free < self.free_min {
            return Err(Error::DiskFull(format!(
                "only {} KiB are free, new work needs at least {} KiB",
                free >> 10,
                self.free_min >> 10
            )));
        }
        // The disk had been full and has space again, so the reserve is restored.
        if !self.has_ballast {
            self.keep_ballast();
        }
        Ok(())
    }

    /// Deletes the ballast file, because the disk is full.
    pub(super) fn release(&mut self) {
        self.has_ballast = false;
        // If the file is missing or cannot be deleted, there is no other space to free.
        let _ = std::fs::remove_file(&self.ballast);
    }

    fn keep_ballast(&mut self) {
        // Only with enough space: the ballast itself must not fill the disk.
        if !self.has_ballast && self.free() >= self.free_min {
            self.has_ballast = self.write_ballast().is_ok();
        }
    }

    fn write_ballast(&self) -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&self.ballast)?;
        // Not zeros: a file system could store those as a hole.
        file.write_all(&vec![0xCB; self.ballast_bytes])?;
        // Without a sync the blocks may not be allocated yet, and deleting the file would free
        // nothing.
        file.sync_all()
    }

    /// Returns the free bytes. An error counts as free space: the write itself will fail.
    fn free(&self) -> u64 {
        rustix::fs::statvfs(&self.directory).map_or(u64::MAX, |stats| {
            stats.f_bavail.saturating_mul(stats.f_frsize)
        })
    }
}

/// Returns the path of a file next to the database: its name with a suffix.
pub(super) fn sibling_path(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-");
    name.push(suffix);
    PathBuf::from(name)
}
