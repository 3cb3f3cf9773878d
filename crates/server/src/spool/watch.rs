//! Says that something has changed in directories; what it was, a look shows. Where no watch can be
//! had, the slow scan is all there is.

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
    eyes: Option<Arc<InotifyWatch>>,
    rung: Arc<Notify>,
}

#[derive(Debug)]
struct InotifyWatch {
    changes: OwnedFd,
    /// Readable when nobody listens any more.
    end: OwnedFd,
}

impl SpoolWatcher {
    pub fn new() -> Self {
        let rung = Arc::<Notify>::default();
        let eyes = open().ok().map(Arc::new);
        if let Some(eyes) = eyes.clone() {
            let rung = Arc::clone(&rung);
            // Without the thread there is still the slow scan.
            thread::Builder::new()
                .name("spool-watch".to_owned())
                .spawn(move || eyes.pass_on(&rung))
                .log_err("start the thread that watches the spool");
        }
        Self { eyes, rung }
    }

    /// Watches a directory too; one that is watched already is watched once.
    pub fn add(&self, directory: &Path) {
        let Some(eyes) = &self.eyes else { return };
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_TO
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::ONLYDIR
            | WatchFlags::DONT_FOLLOW;
        // Too many watches on this machine: the slow scan sees it.
        let watched = inotify::add_watch(&eyes.changes, directory, flags);
        watched.log_err("watch a directory of the spool");
    }

    /// Returns when something has changed.
    pub async fn rung(&self) {
        self.rung.notified().await;
    }
}

impl Drop for SpoolWatcher {
    fn drop(&mut self) {
        if let Some(eyes) = &self.eyes {
            // The counter cannot be full, and without the thread nobody reads it.
            let _ = rustix::io::write(&eyes.end, &1_u64.to_ne_bytes());
        }
    }
}

fn open() -> rustix::io::Result<InotifyWatch> {
    Ok(InotifyWatch {
        changes: inotify::init(CreateFlags::CLOEXEC)?,
        end: eventfd(0, EventfdFlags::CLOEXEC)?,
    })
}

impl InotifyWatch {
    /// Takes all that is there at once; what it says, and how often, does not matter.
    fn pass_on(&self, rung: &Notify) {
        let mut buffer = [0_u8; 4096];
        loop {
            let mut both = [
                PollFd::new(&self.changes, PollFlags::IN),
                PollFd::new(&self.end, PollFlags::IN),
            ];
            let waited = rustix::io::retry_on_intr(|| poll(&mut both, None));
            if waited.is_err() || !both[1].revents().is_empty() {
                return;
            }
            if rustix::io::read(&self.changes, &mut buffer).is_err() {
                return;
            }
            rung.notify_one();
        }
    }
}
