//! Read-only layers that several runs share: prepared caches, and checked-out trees.
//!
//! A layer never changes once it has its name. It is made in a directory of its own, synced to disk
//! and renamed, so a half-made layer is never used. Every user holds a shared lock on it, and only
//! a layer without users is removed. The operating system releases the lock of a process that dies.
//!
//! Locks are files next to the layers, because a directory that is renamed or removed cannot keep
//! one. The order is always: lock, check that the lock file is still the named one, use.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use crate::clock;
use crate::git::remove_tree;
use crate::log::removed;
use crate::private_files;

/// Maximum number of attempts to lock a layer that is being removed. Each attempt waits for the
/// lock, so a second attempt is rare and a thousand mean an error.
const LOCK_TRIES_MAX: u32 = 1_000;
/// Maximum number of files in a directory that is summarised. A summary of more files would take
/// minutes; such a directory is not worth a layer.
const ENTRIES_MAX: u64 = 2_000_000;
/// Prefix of directories that are not layers yet, or no longer.
const UNNAMED: &str = ".part-";

/// A directory with layers of one kind.
#[derive(Clone, Debug)]
pub struct LayerStore {
    root: PathBuf,
}

/// A layer in use. It cannot be removed while this value exists.
#[derive(Debug)]
pub struct LayerLease {
    pub dir: PathBuf,
    #[expect(dead_code, reason = "held for its lock")]
    lock: File,
}

/// A layer on disk, for those who clean up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLayer {
    pub name: String,
    pub dir: PathBuf,
    pub used: SystemTime,
}

impl LayerStore {
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Returns the layer with this name for use, if it exists.
    pub fn lease(&self, name: &str) -> io::Result<Option<LayerLease>> {
        let dir = self.root.join(name);
        if !dir.is_dir() {
            return Ok(None);
        }
        let path = self.lock_path(name);
        for _ in 0..LOCK_TRIES_MAX {
            let lock = open_lock(&path)?;
            // It is locked against users only for the moment of a rename.
            lock.lock_shared()?;
            // The lock file may have been removed together with its layer since it was opened.
            // Without the check two processes could hold locks on different files of the same name.
            if !is_same_file(&lock, &path) {
                continue;
            }
            // The layer was removed while we waited.
            if !dir.is_dir() {
                return Ok(None);
            }
            // The time of the last use decides which layers go first.
            lock.set_modified(clock::system_time())?;
            return Ok(Some(LayerLease { dir, lock }));
        }
        Err(io::Error::other(format!(
            "{} is locked by another process",
            path.display()
        )))
    }

    /// Creates an empty directory, to be filled and then published. It is this process's own.
    pub fn begin(&self, name: &str) -> io::Result<PathBuf> {
        private_files::make_dir(&self.root)?;
        let part = self
            .root
            .join(format!("{UNNAMED}{}-{name}", std::process::id()));
        // The pid in the name was ours in an earlier life; its process is dead.
        remove_tree(&part)?;
        private_files::make_dir(&part)?;
        Ok(part)
    }

    /// Gives a filled directory its name. If another process was faster, its layer stays, because
    /// runs may already use it.
    pub fn publish(&self, part: &Path, name: &str) -> io::Result<()> {
        let dir = self.root.join(name);
        match fs::rename(part, &dir) {
            // A rename onto a directory fails if that one is not empty, which a published layer
            // never is.
            Err(_) if dir.is_dir() => remove_tree(part),
            renamed => renamed,
        }
    }

    /// Writes everything of a part to disk, for layers that must survive a power cut whole. One
    /// call for the file system is faster than syncing thousands of files one by one.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(File::open(&self.root)?)?)
    }

    /// Locks the making of a layer, if nobody else makes it now.
    pub fn try_lock_making(&self, name: &str) -> io::Result<Option<File>> {
        private_files::make_dir(&self.root)?;
        // A lock of its own: making takes minutes, and must not keep users of an older layer
        // waiting.
        let file = open_lock(&self.root.join(format!("{name}.making")))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Lists the layers, the last used first.
    pub fn list(&self) -> Vec<StoredLayer> {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let mut layers: Vec<StoredLayer> = entries
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                if name.starts_with(UNNAMED) || !entry.file_type().ok()?.is_dir() {
                    return None;
                }
                let own = entry.metadata().ok()?;
                // A layer without a lock file was never used; its own time counts.
                let lock = fs::metadata(self.lock_path(&name)).unwrap_or(own);
                Some(StoredLayer {
                    used: lock.modified().ok()?,
                    dir: entry.path(),
                    name,
                })
            })
            .collect();
        // The name decides between equal times, so that the order is always the same.
        layers.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.name.cmp(&b.name)));
        layers
    }

    /// Removes a layer, unless a run uses it. Returns whether it is gone.
    pub fn remove_unused(&self, name: &str) -> io::Result<bool> {
        let (dir, path) = (self.root.join(name), self.lock_path(name));
        let lock = open_lock(&path)?;
        // A user holds a shared lock, so an exclusive one is possible only without users.
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The rename makes the layer disappear at once. Removing it in place would show users half
        // a layer.
        let gone = self
            .root
            .join(format!("{UNNAMED}{}-gone-{name}", std::process::id()));
        remove_tree(&gone)?;
        match fs::rename(&dir, &gone) {
            // A missing layer is fine: only its lock file was left.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        for file in [path, self.root.join(format!("{name}.making"))] {
            removed(&file, fs::remove_file(&file));
        }
        // New users cannot find it any more, so the slow part needs no lock.
        // The lock file is removed while it is locked: a process that waits for it finds, by
        // comparing files, that its lock is worthless.
        drop(lock);
        remove_tree(&gone)?;
        Ok(true)
    }

    /// Removes unused layers beyond the newest `keep` whose names begin with `group`, and what
    /// killed processes left.
    pub fn trim(&self, group: &str, keep: usize) {
        self.remove_parts();
        let ours = self.list().into_iter();
        for old in ours
            .filter(|layer| layer.name.starts_with(group))
            .skip(keep)
        {
            removed(&old.dir, self.remove_unused(&old.name).map(drop));
        }
    }

    /// Removes half-made and half-removed layers of processes that have ended.
    pub fn remove_parts(&self) {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            let rest = name.to_str().and_then(|name| name.strip_prefix(UNNAMED));
            let pid = rest.and_then(|rest| rest.split('-').next()?.parse().ok());
            let is_alive = |pid| crate::process::ProcessIdentity::of(pid).is_some();
            // A part without a readable pid belongs to no process, and goes too.
            if rest.is_some() && !pid.is_some_and(is_alive) {
                removed(&entry.path(), remove_tree(&entry.path()));
            }
        }
    }

    fn lock_path(&self, name: &str) -> PathBuf {
        self.root.join(format!("{name}.lock"))
    }
}

fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    // `append` creates the file without truncating it; the lock needs no content.
    options.create(true).append(true).mode(0o600).open(path)
}

fn is_same_file(open: &File, path: &Path) -> bool {
    let of = |meta: fs::Metadata| (meta.dev(), meta.ino());
    match (open.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(named)) => of(open) == of(named),
        _ => false,
    }
}

/// Names, sizes and times of everything in a directory, without reading a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeSummary {
    pub digest: String,
    pub bytes: u64,
    pub files: u64,
}

/// Summarises a directory. The change time of each file is part of it, so that every write is
/// noticed, even one that restores size and modification time.
pub fn summarise_tree(dir: &Path) -> io::Result<TreeSummary> {
    let (mut all, mut bytes, mut files) = (Sha256::new(), 0_u64, 0_u64);
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        // Sorting makes the digest independent of the order in which the disk lists names.
        let entries: io::Result<Vec<_>> = fs::read_dir(&dir)?.collect();
        let mut entries = entries?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            files += 1;
            if files > ENTRIES_MAX {
                return Err(io::Error::other(format!(
                    "more than {ENTRIES_MAX} files in {}",
                    dir.display()
                )));
            }
            let meta = entry.metadata()?;
            all.update(entry.path().as_os_str().as_encoded_bytes());
            // The separator keeps a name and the numbers after it apart.
            all.update([0]);
            let numbers = [i64::from(meta.mode()), meta.mtime(), meta.mtime_nsec()];
            // A program can set the modification time, but not the change time.
            for number in numbers.into_iter().chain([meta.ctime(), meta.ctime_nsec()]) {
                all.update(number.to_le_bytes());
            }
            if meta.is_dir() {
                dirs.push(entry.path());
            } else {
                all.update(meta.len().to_le_bytes());
                // Directories are left out of the size: their blocks depend on the file system.
                bytes += meta.blocks() * 512;
            }
        }
    }
    let digest: [u8; 32] = all.finalize().into();
    Ok(TreeSummary {
        // 128 bits are plenty against accidents; the content is our own.
        digest: crate::hash::hex(&digest[..16]),
        bytes,
        files,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn store(dir: &Path) -> LayerStore {
        LayerStore::new(dir.join("layers"))
    }

    fn make(store: &LayerStore, name: &str, text: &str) {
        let part = store.begin(name).unwrap();
        fs::write(part.join("file"), text).unwrap();
        store.publish(&part, name).unwrap();
    }

    #[test]
    fn a_half_made_layer_is_never_found_and_goes() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let part = store.begin("a").unwrap();
        assert!(store.lease("a").unwrap().is_none());
        assert_eq!(store.list(), []);
        // The maker still lives.
        store.remove_parts();
        assert!(part.is_dir());
        // No process has this number.
        let dead = part.with_file_name(format!("{UNNAMED}4194304999-a"));
        fs::rename(&part, &dead).unwrap();
        store.remove_parts();
        assert!(!dead.exists());
    }

    #[test]
    fn a_layer_in_use_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        make(&store, "a", "first");
        let lease = store.lease("a").unwrap().unwrap();
        // A second maker loses, and a cleaner waits.
        make(&store, "a", "second");
        assert!(!store.remove_unused("a").unwrap());
        assert_eq!(fs::read_to_string(lease.dir.join("file")).unwrap(), "first");
        drop(lease);
        assert!(store.remove_unused("a").unwrap());
        assert!(store.lease("a").unwrap().is_none());
        make(&store, "a", "third");
        let lease = store.lease("a").unwrap().unwrap();
        assert_eq!(fs::read_to_string(lease.dir.join("file")).unwrap(), "third");
    }

    #[test]
    fn the_least_recently_used_layers_of_a_group_go_first() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        for (at, name) in ["x-1", "x-2", "x-3", "y-1"].iter().enumerate() {
            make(&store, name, "");
            let lock = open_lock(&store.lock_path(name)).unwrap();
            let used = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 + at as u64);
            lock.set_modified(used).unwrap();
        }
        drop(store.lease("x-1").unwrap());
        store.trim("x-", 2);
        let mut names: Vec<String> = store.list().into_iter().map(|one| one.name).collect();
        names.sort();
        assert_eq!(names, ["x-1", "x-3", "y-1"]);
    }

    #[test]
    fn only_one_makes_a_layer_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let making = store.try_lock_making("a").unwrap();
        assert!(making.is_some());
        assert!(store.try_lock_making("a").unwrap().is_none());
        drop(making);
        assert!(store.try_lock_making("a").unwrap().is_some());
    }

    #[test]
    fn a_summary_notices_every_kind_of_change() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("tree");
        fs::create_dir_all(root.join("a")).unwrap();
        fs::write(root.join("a/file"), "12345").unwrap();
        let time = fs::metadata(root.join("a/file"))
            .unwrap()
            .modified()
            .unwrap();
        let first = summarise_tree(&root).unwrap();
        assert_eq!(summarise_tree(&root).unwrap(), first);
        // The same size and the same modification time.
        fs::write(root.join("a/file"), "54321").unwrap();
        File::open(root.join("a/file"))
            .unwrap()
            .set_modified(time)
            .unwrap();
        let second = summarise_tree(&root).unwrap();
        assert_ne!(second.digest, first.digest);
        fs::create_dir(root.join("b")).unwrap();
        assert_ne!(summarise_tree(&root).unwrap().digest, second.digest);
    }
}
