//! Wake-ups between processes that share one `SQLite` file: a small file beside it, written after a
//! commit that made work ready, and watched by whoever waits. Where no watch can be had, the slow
//! poll under every wait is all there is.

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

use super::space::beside;

/// Notifies other processes.
#[derive(Debug)]
pub(super) struct FileNotifier {
    file: Option<File>,
}

impl FileNotifier {
    pub(super) fn new(database: &Path) -> Self {
        let mut how = OpenOptions::new();
        how.write(true).create(true).truncate(false).mode(0o600);
        Self {
            file: how.open(path(database)).ok(),
        }
    }

    pub(super) fn notify(&self) {
        if let Some(file) = &self.file {
            // A wake-up that cannot be sent is what the slow poll is for.
            let _ = file.write_at(b"!", 0);
        }
    }
}

/// Passes notifications of other processes on to the waiters of this one, until it is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    file_notifier: FileNotifier,
}

impl Watch {
    pub(super) fn new(database: &Path, notifier: Arc<Notifier>) -> Self {
        let stop = Arc::<AtomicBool>::default();
        if let Ok(watch) = watch(&path(database)) {
            let stop = Arc::clone(&stop);
            let watching = move || pass_on(&watch, &notifier, &stop);
            // Without the thread there is still the slow poll.
            let _ = thread::Builder::new()
                .name("store-watch".to_owned())
                .spawn(watching);
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
        self.file_notifier.notify();
    }
}

fn path(database: &Path) -> PathBuf {
    beside(database, "wake")
}

fn watch(path: &Path) -> io::Result<OwnedFd> {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC)?;
    inotify::add_watch(&watch, path, inotify::WatchFlags::MODIFY)?;
    Ok(watch)
}

/// Takes all that is there at once; how many notifications there were does not matter.
fn pass_on(watch: &OwnedFd, notifier: &Notifier, stop: &AtomicBool) {
    let mut buffer = [0_u8; 4096];
    while rustix::io::retry_on_intr(|| rustix::io::read(watch, &mut buffer)).is_ok() {
        if stop.load(Ordering::Acquire) {
            return;
        }
        notifier.nudge();
    }
}
