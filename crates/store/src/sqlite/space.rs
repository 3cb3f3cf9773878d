//! Room on the disk. When a disk is full even the smallest insert fails, so work is not begun
//! when little is left, and a ballast file lies ready to be given up for recording the failure.

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
            ballast: beside(database, "ballast"),
            ballast_bytes: settings.ballast_bytes,
            free_min: settings.free_space_min_bytes,
            has_ballast: false,
        };
        space.has_ballast = std::fs::metadata(&space.ballast)
            .is_ok_and(|found| found.len() >= space.ballast_bytes as u64);
        space.keep_ballast();
        space
    }

    /// Refuses new work where too little is left for its record.
    pub(super) fn gate(&mut self) -> Result<(), Error> {
        let free = self.free();
        if free < self.free_min {
            return Err(Error::DiskFull(format!(
                "only {} KiB are free, {} KiB are the least to begin work with",
                free >> 10,
                self.free_min >> 10
            )));
        }
        if !self.has_ballast {
            self.keep_ballast();
        }
        Ok(())
    }

    /// The disk is full: gives the ballast up.
    pub(super) fn release(&mut self) {
        self.has_ballast = false;
        // Whether it was there or not, there is nothing more to give.
        let _ = std::fs::remove_file(&self.ballast);
    }

    fn keep_ballast(&mut self) {
        if !self.has_ballast && self.free() >= self.free_min {
            self.has_ballast = self.write_ballast().is_ok();
        }
    }

    fn write_ballast(&self) -> std::io::Result<()> {
        let mut how = OpenOptions::new();
        how.write(true).create(true).truncate(true).mode(0o600);
        let mut file = how.open(&self.ballast)?;
        // Bytes that no file system can leave out as a hole.
        file.write_all(&vec![0xCB; self.ballast_bytes])?;
        file.sync_all()
    }

    /// What cannot be asked counts as room: the write itself will tell.
    fn free(&self) -> u64 {
        rustix::fs::statvfs(&self.directory).map_or(u64::MAX, |found| {
            found.f_bavail.saturating_mul(found.f_frsize)
        })
    }
}

/// A file of ours beside the database.
pub(super) fn beside(database: &Path, what: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-");
    name.push(what);
    PathBuf::from(name)
}
