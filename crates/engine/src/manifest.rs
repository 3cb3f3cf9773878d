//! Records the exact content of a directory, so that "nothing changed" is a fact and does not
//! depend on git.
//!
//! A manifest has type, mode, size, content hash and link target of everything, including ignored
//! files and nested repositories. Of the checkout's own `.git` it covers the parts that matter:
//! HEAD, refs, configuration, hooks, attributes and excludes; not the index and the logs, which
//! harmless read commands rewrite. It reads and hashes; it changes nothing, follows no link, and
//! does not call git.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

type Hash = [u8; 32];

/// Parts of a checkout's `.git` that are recorded.
const GIT_PARTS: &[&str] = &[
    "HEAD",
    "commondir",
    "config",
    "config.worktree",
    "hooks",
    "info",
    "modules",
    "objects/info",
    "packed-refs",
    "refs",
    "reftable",
    "shallow",
    "worktrees",
];

#[derive(Debug, thiserror::Error)]
#[error("{} could not be read for the manifest: {source}", path.display())]
pub struct Error {
    path: PathBuf,
    source: io::Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    File,
    Dir,
    Link,
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ManifestEntry {
    kind: FileKind,
    mode: u32,
    size: u64,
    /// Hash of a file's content or a link's target, or `None` if there is nothing to read.
    hash: Option<Hash>,
}

/// Content of a directory at one point in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    entries: BTreeMap<PathBuf, ManifestEntry>,
}

/// One difference between two manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestChange {
    pub path: PathBuf,
    pub what: ManifestChangeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestChangeKind {
    Appeared,
    Vanished,
    BecameAnotherType,
    Mode,
    Content,
}

impl fmt::Display for ManifestChange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            ManifestChangeKind::Appeared => "appeared",
            ManifestChangeKind::Vanished => "disappeared",
            ManifestChangeKind::BecameAnotherType => "changed its type",
            ManifestChangeKind::Mode => "changed its mode",
            ManifestChangeKind::Content => "changed its content",
        };
        write!(out, "{} {what}", self.path.display())
    }
}

impl Manifest {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns one hash over all entries, for the record.
    pub fn digest(&self) -> String {
        let mut all = Sha256::new();
        for (path, entry) in &self.entries {
            all.update(path.as_os_str().as_bytes());
            all.update([0, entry.kind as u8]);
            all.update(entry.mode.to_le_bytes());
            all.update(entry.size.to_le_bytes());
            all.update(entry.hash.unwrap_or_default());
        }
        let hash: Hash = all.finalize().into();
        hash.iter().fold(String::new(), |mut text, byte| {
            // Writing into a string does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

/// Takes the manifest of a directory. It reads every file, so call it where blocking is allowed.
pub fn take_manifest(dir: &Path) -> Result<Manifest, Error> {
    let mut entries = BTreeMap::new();
    let mut files = Vec::new();
    let mut dirs = vec![PathBuf::new()];
    while let Some(inside) = dirs.pop() {
        let full = dir.join(&inside);
        let listed = match fs::read_dir(&full) {
            Ok(listed) => listed,
            // Its mode is in the manifest, so a change to it is still found.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => continue,
            Err(source) => return Err(Error { path: full, source }),
        };
        for child in listed {
            let child = child.map_err(|source| Error {
                path: full.clone(),
                source,
            })?;
            let path = inside.join(child.file_name());
            if is_excluded(&path) {
                continue;
            }
            let Some(entry) = read_entry(&dir.join(&path))? else {
                continue;
            };
            match entry.kind {
                FileKind::Dir => dirs.push(path.clone()),
                FileKind::File => files.push(path.clone()),
                FileKind::Link | FileKind::Other => {}
            }
            entries.insert(path, entry);
        }
    }
    for (path, hash) in hash_all(dir, &files)? {
        if let Some(entry) = entries.get_mut(&path) {
            entry.hash = hash;
        }
    }
    Ok(Manifest { entries })
}

/// Returns the differences, ordered by path.
pub fn diff(before: &Manifest, after: &Manifest) -> Vec<ManifestChange> {
    let mut changes = Vec::new();
    for (path, was) in &before.entries {
        let what = match after.entries.get(path) {
            None => ManifestChangeKind::Vanished,
            Some(is) if is == was => continue,
            Some(is) if is.kind != was.kind => ManifestChangeKind::BecameAnotherType,
            Some(is) if is.hash != was.hash || is.size != was.size => ManifestChangeKind::Content,
            Some(_) => ManifestChangeKind::Mode,
        };
        changes.push(ManifestChange {
            path: path.clone(),
            what,
        });
    }
    let new = after
        .entries
        .keys()
        .filter(|path| !before.entries.contains_key(*path));
    changes.extend(new.map(|path| ManifestChange {
        path: path.clone(),
        what: ManifestChangeKind::Appeared,
    }));
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    changes
}

/// Returns whether a path is not recorded. Only the top-level `.git` is recorded in part; a nested
/// one is a directory like any other.
fn is_excluded(path: &Path) -> bool {
    let Ok(inside) = path.strip_prefix(".git") else {
        return false;
    };
    !inside.as_os_str().is_empty()
        && !GIT_PARTS
            .iter()
            .any(|part| inside.starts_with(part) || Path::new(part).starts_with(inside))
}

fn read_entry(path: &Path) -> Result<Option<ManifestEntry>, Error> {
    let failed = |source| Error {
        path: path.to_owned(),
        source,
    };
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let (kind, size, hash) = if meta.is_file() {
        (FileKind::File, meta.len(), None)
    } else if meta.is_dir() {
        (FileKind::Dir, 0, None)
    } else if meta.is_symlink() {
        let target = fs::read_link(path).map_err(failed)?;
        (
            FileKind::Link,
            0,
            Some(Sha256::digest(target.as_os_str().as_bytes()).into()),
        )
    } else {
        (FileKind::Other, meta.rdev(), None)
    };
    Ok(Some(ManifestEntry {
        kind,
        mode: meta.mode(),
        size,
        hash,
    }))
}

type HashedFile = (PathBuf, Option<Hash>);

fn hash_all(dir: &Path, files: &[PathBuf]) -> Result<Vec<HashedFile>, Error> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = files.len().div_ceil(threads).max(1);
    let parts: Vec<Result<Vec<HashedFile>, Error>> = std::thread::scope(|scope| {
        let hash_part = |part: &[PathBuf]| part.iter().map(|path| hash_entry(dir, path)).collect();
        let running: Vec<_> = files
            .chunks(share)
            .map(|part| scope.spawn(move || hash_part(part)))
            .collect();
        running
            .into_iter()
            .filter_map(|part| part.join().ok())
            .collect()
    });
    let mut all = Vec::with_capacity(files.len());
    for part in parts {
        all.extend(part?);
    }
    Ok(all)
}

fn hash_entry(dir: &Path, path: &Path) -> Result<HashedFile, Error> {
    let full = dir.join(path);
    match hash_file(&full) {
        Ok(hash) => Ok((path.to_owned(), Some(hash))),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Ok((path.to_owned(), None))
        }
        Err(source) => Err(Error { path: full, source }),
    }
}

fn hash_file(path: &Path) -> io::Result<Hash> {
    let mut file = File::open(path)?;
    let mut chunk = vec![0; 64 << 10];
    let mut hash = Sha256::new();
    loop {
        let count = file.read(&mut chunk)?;
        if count == 0 {
            return Ok(hash.finalize().into());
        }
        hash.update(&chunk[..count]);
    }
}

#[cfg(test)]
mod tests;
