//! Directories that a fresh checkout lacks because git does not store them: packages, build
//! results, caches of tools. This module names and copies them; it does not decide who may fill
//! them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use crate::check::Check;

/// Maximum number of entries in a cache that is copied for every run.
const ENTRIES_MAX: u64 = 2_000_000;
/// Bytes that are compared at once.
const COMPARED_BYTES: usize = 64 * 1024;

/// Setup of the project that makes a checkout usable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectSetup {
    pub command: Option<Check>,
    pub caches: Vec<CacheDir>,
}

impl ProjectSetup {
    pub fn is_empty(&self) -> bool {
        self.command.is_none() && self.caches.is_empty()
    }
}

/// A directory that is worth keeping from one checkout to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheDir {
    /// Below the checkout: `node_modules`, `target`.
    Checkout(PathBuf),
    /// Below the run's own home: `~/.cargo/registry`, `~/.npm`.
    Home(PathBuf),
}

impl CacheDir {
    pub fn parse(text: &str) -> Result<Self, String> {
        let (below_home, rest) = match text.strip_prefix("~/") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let path = Path::new(rest);
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        let is_git_dir = path.components().next() == Some(Component::Normal(".git".as_ref()));
        if rest.is_empty() || is_git_dir || !path.components().all(is_plain) {
            return Err(format!(
                "{text:?} is not a valid cache: name a directory below the checkout (\"target\") or below the run's home (\"~/.npm\")"
            ));
        }
        Ok(if below_home {
            Self::Home(path.to_owned())
        } else {
            Self::Checkout(path.to_owned())
        })
    }

    /// Returns the name as the configuration has it.
    pub fn name(&self) -> String {
        match self {
            Self::Checkout(path) => path.display().to_string(),
            Self::Home(path) => format!("~/{}", path.display()),
        }
    }

    /// Returns the path below the checkout or the home.
    pub fn below(&self) -> &Path {
        match self {
            Self::Checkout(path) | Self::Home(path) => path,
        }
    }

    /// Returns its path in the given checkout and home.
    pub fn path_in(&self, checkout: &Path, home: &Path) -> CachePath {
        match self {
            Self::Checkout(path) => CachePath {
                root: checkout.to_owned(),
                below: path.clone(),
            },
            Self::Home(path) => CachePath {
                root: home.to_owned(),
                below: path.clone(),
            },
        }
    }
}

/// A directory below a root in which untrusted code has written. A link on the way could lead
/// anywhere, so none is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachePath {
    root: PathBuf,
    below: PathBuf,
}

impl CachePath {
    /// Returns the directory if it exists and is one.
    pub fn existing_dir(&self) -> Option<PathBuf> {
        let mut at = self.root.clone();
        for part in self.below.components() {
            at.push(part);
            if !fs::symlink_metadata(&at).is_ok_and(|entry| entry.is_dir()) {
                return None;
            }
        }
        Some(at)
    }

    /// Returns the first symbolic link on the way, and its target.
    pub fn link_on_the_way(&self) -> Option<(PathBuf, PathBuf)> {
        let mut at = self.root.clone();
        for part in self.below.components() {
            at.push(part);
            if let Ok(target) = fs::read_link(&at) {
                return Some((at, target));
            }
        }
        None
    }

    /// Returns the directory, created with its parents if it is missing; `None` if something else
    /// is in the way.
    pub fn ensure_dir(&self) -> io::Result<Option<PathBuf>> {
        if let Some(existing) = self.existing_dir() {
            return Ok(Some(existing));
        }
        let target = self.prepare_target()?;
        if let Some(dir) = &target {
            fs::create_dir(dir)?;
        }
        Ok(target)
    }

    /// Returns the path to create it at, after creating its parents; `None` if something else is in
    /// the way.
    pub fn prepare_target(&self) -> io::Result<Option<PathBuf>> {
        let mut at = self.root.clone();
        fs::create_dir_all(&at)?;
        let mut parts = self.below.components().peekable();
        while let Some(part) = parts.next() {
            at.push(part);
            match fs::symlink_metadata(&at) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if parts.peek().is_some() {
                        fs::create_dir(&at)?;
                    }
                }
                Err(error) => return Err(error),
                Ok(entry) if entry.is_dir() && parts.peek().is_some() => {}
                Ok(_) => return Ok(None),
            }
        }
        Ok(Some(at))
    }
}

/// Copies a directory with its times and modes, because build tools compare them. Files share their
/// blocks if the file system supports that. Links stay links; other special files are left out.
pub fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    let mut left = ENTRIES_MAX;
    copy_dir(from, to, &mut left)
}

fn copy_dir(from: &Path, to: &Path, left: &mut u64) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        *left = left
            .checked_sub(1)
            .ok_or_else(|| io::Error::other(format!("more than {ENTRIES_MAX} files in a cache")))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_dir(&source, &target, left)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&source)?, &target)?;
        } else if kind.is_file() {
            fs::copy(&source, &target)?;
            let modified = entry.metadata()?.modified()?;
            // The owner of a read-only file can set its times through a read-only handle.
            File::open(&target)?.set_modified(modified)?;
        }
    }
    let own = fs::metadata(from)?;
    File::open(to)?.set_modified(own.modified()?)?;
    fs::set_permissions(to, own.permissions())
}

/// Replaces each file of `new` that is the same in `old` by a second name of the old one, and
/// returns the number of bytes that this frees. Both directories must be ones that nobody writes to
/// any more: a write to one name would change the other.
pub fn share_unchanged_files(new: &Path, old: &Path) -> io::Result<u64> {
    let (mut freed, mut left) = (0, ENTRIES_MAX);
    let mut dirs = vec![(new.to_owned(), old.to_owned())];
    while let Some((new, old)) = dirs.pop() {
        let own = fs::metadata(&new)?;
        let mut is_changed = false;
        for entry in fs::read_dir(&new)? {
            let entry = entry?;
            left = left.saturating_sub(1);
            if left == 0 {
                return Ok(freed);
            }
            let (path, other) = (entry.path(), old.join(entry.file_name()));
            let (Ok(meta), Ok(before)) = (entry.metadata(), fs::symlink_metadata(&other)) else {
                continue;
            };
            if meta.is_dir() && before.is_dir() {
                dirs.push((path, other));
            } else if is_same_file(&path, &meta, &other, &before)? && replace_by(&other, &path) {
                is_changed = true;
                freed += meta.blocks() * 512;
            }
        }
        // Build tools compare the times of directories as well.
        if is_changed {
            File::open(&new)?.set_modified(own.modified()?)?;
        }
    }
    Ok(freed)
}

/// Returns whether two different files have the same content, times and mode. An empty file has
/// nothing to share.
fn is_same_file(
    one: &Path,
    meta: &fs::Metadata,
    other: &Path,
    before: &fs::Metadata,
) -> io::Result<bool> {
    let facts = |meta: &fs::Metadata| {
        let times = (meta.mtime(), meta.mtime_nsec());
        (meta.len(), meta.mode(), meta.uid(), times)
    };
    let is_candidate = meta.is_file() && before.is_file() && meta.len() > 0;
    // On another file system there are no second names, and the same file has one already.
    if !is_candidate || meta.dev() != before.dev() || meta.ino() == before.ino() {
        return Ok(false);
    }
    if facts(meta) != facts(before) {
        return Ok(false);
    }
    // Times and sizes can be set by any program, so only the content proves it.
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    let (mut a, mut b) = (vec![0; COMPARED_BYTES], vec![0; COMPARED_BYTES]);
    loop {
        let read = one.read(&mut a)?;
        if read == 0 {
            return Ok(other.read(&mut b)? == 0);
        }
        if other.read_exact(&mut b[..read]).is_err() || a[..read] != b[..read] {
            return Ok(false);
        }
    }
}

/// Gives the file `of` a second name in the place of `path`. Returns false if that is not possible,
/// for example because it has too many names; then `path` stays as it is.
fn replace_by(of: &Path, path: &Path) -> bool {
    let Some(name) = path.file_name() else {
        return false;
    };
    let mut part = std::ffi::OsString::from(".countersign-link-");
    part.push(name);
    let part = path.with_file_name(part);
    if fs::hard_link(of, &part).is_err() {
        return false;
    }
    if fs::rename(&part, path).is_ok() {
        return true;
    }
    crate::log::removed(&part, fs::remove_file(&part));
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_below_the_checkout_or_the_home() {
        assert_eq!(
            CacheDir::parse("target"),
            Ok(CacheDir::Checkout("target".into()))
        );
        assert_eq!(
            CacheDir::parse("~/.cargo/registry"),
            Ok(CacheDir::Home(".cargo/registry".into()))
        );
        for wrong in ["", "~/", "/etc", "../up", "a/../../b", ".git/hooks", "~"] {
            let parsed = CacheDir::parse(wrong);
            assert!(
                parsed.is_err() || wrong == "~",
                "{wrong:?} became {parsed:?}"
            );
        }
    }

    #[test]
    fn no_link_on_the_way_is_followed() {
        let root = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::create_dir(outside.path().join("deep")).unwrap();
        std::os::unix::fs::symlink(outside.path(), root.path().join("a")).unwrap();
        let place = CacheDir::Checkout("a/deep".into()).path_in(root.path(), root.path());
        assert_eq!(place.existing_dir(), None);
        let place = CacheDir::Checkout("a/new".into()).path_in(root.path(), root.path());
        assert_eq!(place.prepare_target().unwrap(), None);
        assert!(!outside.path().join("new").exists());
    }

    #[test]
    fn a_copy_has_the_times_the_modes_and_the_links() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let from = root.path().join("from");
        fs::create_dir_all(from.join("deep")).unwrap();
        fs::write(from.join("deep/tool"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(from.join("deep/tool"), fs::Permissions::from_mode(0o555)).unwrap();
        let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        File::open(from.join("deep/tool"))
            .unwrap()
            .set_modified(old)
            .unwrap();
        std::os::unix::fs::symlink("deep/tool", from.join("link")).unwrap();
        let to = root.path().join("to");
        copy_tree(&from, &to).unwrap();
        let copied = fs::metadata(to.join("deep/tool")).unwrap();
        assert_eq!(copied.modified().unwrap(), old);
        assert_eq!(copied.permissions().mode() & 0o777, 0o555);
        assert_eq!(
            fs::read_link(to.join("link")).unwrap(),
            Path::new("deep/tool")
        );
    }

    #[test]
    fn unchanged_files_share_their_blocks_and_changed_ones_do_not() {
        let root = tempfile::tempdir().unwrap();
        let (old, new) = (root.path().join("old"), root.path().join("new"));
        fs::create_dir_all(old.join("deep")).unwrap();
        for name in ["same", "other", "touched", "mode"] {
            fs::write(old.join("deep").join(name), "content").unwrap();
        }
        fs::write(old.join("gone"), "x").unwrap();
        std::os::unix::fs::symlink("deep/same", old.join("link")).unwrap();
        copy_tree(&old, &new).unwrap();
        let set = |name: &str, change: &dyn Fn(&Path)| {
            let file = new.join("deep").join(name);
            let time = fs::metadata(&file).unwrap().modified().unwrap();
            change(&file);
            time
        };
        // The same size and time, and other content.
        let time = set("other", &|file| fs::write(file, "CONTENT").unwrap());
        let other = File::open(new.join("deep/other")).unwrap();
        other.set_modified(time).unwrap();
        set("touched", &|file| {
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
            File::open(file).unwrap().set_modified(time).unwrap();
        });
        set("mode", &|file| {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(file, fs::Permissions::from_mode(0o500)).unwrap();
        });
        fs::remove_file(new.join("gone")).unwrap();
        fs::write(new.join("added"), "new").unwrap();
        let time = |dir: &Path| fs::metadata(dir).unwrap().modified().unwrap();
        let before = time(&new.join("deep"));
        let freed = share_unchanged_files(&new, &old).unwrap();
        assert!(freed > 0);
        let names = |name: &str| fs::metadata(new.join("deep").join(name)).unwrap().nlink();
        let shared: Vec<u64> = ["same", "other", "touched", "mode"].map(names).to_vec();
        assert_eq!(shared, [2, 1, 1, 1]);
        assert_eq!(
            fs::read_to_string(new.join("deep/other")).unwrap(),
            "CONTENT"
        );
        assert!(!new.join("gone").exists() && new.join("added").exists());
        assert_eq!(time(&new.join("deep")), before);
        // Removing one directory leaves the other whole.
        fs::remove_dir_all(&old).unwrap();
        assert_eq!(
            fs::read_to_string(new.join("deep/same")).unwrap(),
            "content"
        );
        // A second call has nothing to do.
        assert_eq!(share_unchanged_files(&new, &new).unwrap(), 0);
    }
}
