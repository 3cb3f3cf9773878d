//! Wakes the spool when something changes in its directories (inotify); a scan finds out what.
//! Without a watch, only the slow scan remains.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use engine::log::LogErr;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::sync::Notify;

#[derive(Debug)]
pub struct SpoolWatcher {
    inotify: Option<Arc<InotifyWatch>>,
    changed: Arc<Notify>,
}

#[derive(Debug)]
struct InotifyWatch {
    changes: OwnedFd,
    /// Becomes readable when the watcher is dropped.
    end: OwnedFd,
}

impl SpoolWatcher {
    pub fn new() -> Self {
        let changed = Arc::<Notify>::default();
        let inotify = open_inotify().ok().map(Arc::new);
        if let Some(watcher) = inotify.clone() {
            let sender = Arc::clone(&changed);
            // Without the thread, the slow scan still works.
            thread::Builder::new()
                .name("spool-watch".to_owned())
                .spawn(move || watcher.forward_events(&sender))
                .log_err("start the thread that watches the spool");
        }
        Self { inotify, changed }
    }

    /// Adds a directory; adding it twice has no effect.
    pub fn add(&self, directory: &Path) {
        let Some(watcher) = &self.inotify else { return };
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_TO
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::ONLYDIR
            | WatchFlags::DONT_FOLLOW;
        // The machine may have too many watches; the slow scan covers this directory then.
        let watched = inotify::add_watch(&watcher.changes, directory, flags);
        watched.log_err("watch a directory of the spool");
    }

    /// Waits for a change.
    pub async fn wait_for_change(&self) {
        self.changed.notified().await;
    }
}

impl Drop for SpoolWatcher {
    fn drop(&mut self) {
        if let Some(watcher) = &self.inotify {
            // Ignored: the counter cannot overflow with a single write.
            let _ = rustix::io::write(&watcher.end, &1_u64.to_ne_bytes());
        }
    }
}

fn open_inotify() -> rustix::io::Result<InotifyWatch> {
    Ok(InotifyWatch {
        changes: inotify::init(CreateFlags::CLOEXEC)?,
        end: eventfd(0, EventfdFlags::CLOEXEC)?,
    })
}

impl InotifyWatch {
    /// Drains events and wakes the spool. Their content and number do not matter.
    fn forward_events(&self, changed: &Notify) {
        let mut buffer = [0_u8; 4096];
        loop {
            let mut descriptors = [
                PollFd::new(&self.changes, PollFlags::IN),
                PollFd::new(&self.end, PollFlags::IN),
            ];
            let waited = rustix::io::retry_on_intr(|| poll(&mut descriptors, None));
            if waited.is_err() || !descriptors[1].revents().is_empty() {
                return;
            }
            if rustix::io::read(&self.changes, &mut buffer).is_err() {
                return;
            }
            changed.notify_one();
        }
    }
}
