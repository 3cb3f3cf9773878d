//! Wake-ups between processes that share one `SQLite` file. A commit that made work ready writes to
//! a small file next to the database, and waiting processes watch that file with inotify. Without a
//! watch only the fallback poll remains.
//!
//! The content of the file means nothing, and its size never grows. A wake-up may be lost or
//! doubled; both are harmless.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::inotify;

use crate::notifier::Notifier;

use super::space::sibling_path;

/// Notifies other processes.
#[derive(Debug)]
pub(super) struct FileNotifier {
    file: Option<File>,
}

impl FileNotifier {
    pub(super) fn new(database: &Path) -> Self {
        let mut options = OpenOptions::new();
        // Every process writes to the same file, so it must never be truncated or replaced: a watch
        // follows the inode.
        options.write(true).create(true).truncate(false).mode(0o600);
        Self {
            file: options.open(path(database)).ok(),
        }
    }

    pub(super) fn notify(&self) {
        if let Some(file) = &self.file {
            // If the wake-up cannot be sent, the fallback poll finds the work.
            // Writing at offset zero triggers `MODIFY` and needs no seek.
            let _ = file.write_at(b"!", 0);
        }
    }
}

/// Forwards notifications of other processes to the waiters of this one, until it is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    file_notifier: FileNotifier,
}

impl Watch {
    pub(super) fn new(database: &Path, notifier: Arc<Notifier>) -> Self {
        let stop = Arc::<AtomicBool>::default();
        // The watch needs the file; `FileNotifier::new` in the writer has created it before.
        if let Ok(watch) = watch(&path(database)) {
            let stop = Arc::clone(&stop);
            let forward = move || pass_on(&watch, &notifier, &stop);
            // Without the thread the fallback poll still works.
            let _ = thread::Builder::new()
                .name("store-watch".to_owned())
                .spawn(forward);
        }
        Self {
            stop,
            file_notifier: FileNotifier::new(database),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // The thread blocks in `read`; a write to the file wakes it, and it sees `stop`.
        self.file_notifier.notify();
    }
}

fn path(database: &Path) -> PathBuf {
    sibling_path(database, "wake")
}

fn watch(path: &Path) -> io::Result<OwnedFd> {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC)?;
    // Only `MODIFY`: reading or closing the file by another process is no wake-up.
    inotify::add_watch(&watch, path, inotify::WatchFlags::MODIFY)?;
    Ok(watch)
}

/// Reads all pending inotify events at once; their number does not matter.
fn pass_on(watch: &OwnedFd, notifier: &Notifier, stop: &AtomicBool) {
    // An event without a name has 16 bytes, so this holds 256 of them.
    let mut buffer = [0_u8; 4096];
    while rustix::io::retry_on_intr(|| rustix::io::read(watch, &mut buffer)).is_ok() {
        if stop.load(Ordering::Acquire) {
            return;
        }
        // Which queue has work is not known here, so all waiters look again.
        notifier.nudge();
    }
}
