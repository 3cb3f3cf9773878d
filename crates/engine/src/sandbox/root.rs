//! Plans the root of a sandbox as an ordered list of parts, so that our own mounts and
//! bubblewrap's arguments give the same root.
//!
//! It checks every mount point before anything is mounted, and refuses a part whose mount point
//! would have to be created in a directory of the person's.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{SandboxSpec, paths};

/// Devices that every program needs and that can do no harm. `/dev/tty` opens the caller's own
/// controlling terminal only.
pub const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// One entry of the root and its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootPart {
    pub at: PathBuf,
    pub what: RootPartKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootPartKind {
    /// A directory of the machine, read-only.
    ReadOnlyDir {
        from: PathBuf,
    },
    /// A regular file of the machine, read-only.
    ReadOnlyFile {
        from: PathBuf,
    },
    Writable {
        from: PathBuf,
    },
    /// An overlay whose changes go to `changes`. Without `lowers` it shows `from`, and may become
    /// read-only; with them it shows those.
    Overlay {
        from: PathBuf,
        lowers: Vec<PathBuf>,
        changes: PathBuf,
        work: PathBuf,
    },
    /// An empty tmpfs.
    Tmpfs {
        bytes: u64,
    },
    /// Hides an existing directory.
    MaskedDir,
    MaskedFile,
    Link {
        to: PathBuf,
    },
}

impl RootPartKind {
    fn is_mask(&self) -> bool {
        matches!(self, Self::MaskedDir | Self::MaskedFile)
    }

    pub fn is_writable(&self) -> bool {
        match self {
            Self::Writable { .. } | Self::Overlay { .. } | Self::Tmpfs { .. } => true,
            Self::ReadOnlyDir { .. }
            | Self::ReadOnlyFile { .. }
            | Self::MaskedDir
            | Self::MaskedFile
            | Self::Link { .. } => false,
        }
    }

    /// Returns whether its mount point is a directory.
    pub fn is_dir(&self) -> bool {
        match self {
            Self::ReadOnlyDir { .. }
            | Self::Writable { .. }
            | Self::Overlay { .. }
            | Self::Tmpfs { .. }
            | Self::MaskedDir => true,
            Self::ReadOnlyFile { .. } | Self::MaskedFile | Self::Link { .. } => false,
        }
    }

    /// Returns the path of its content on the machine, or `None` if it exists only in memory.
    fn source(&self) -> Option<&Path> {
        match self {
            Self::ReadOnlyDir { from }
            | Self::ReadOnlyFile { from }
            | Self::Writable { from }
            | Self::Overlay { from, .. } => Some(from),
            Self::Tmpfs { .. } | Self::MaskedDir | Self::MaskedFile | Self::Link { .. } => None,
        }
    }
}

/// Returns the parts, outer ones first. It leaves out paths that do not exist on the machine, and
/// sockets, pipes and devices, because they lead to other processes.
pub fn root_parts(confinement: &SandboxSpec) -> io::Result<Vec<RootPart>> {
    let mut parts = Vec::new();
    let mut put = |at: &Path, what: RootPartKind| {
        let at = at.to_owned();
        parts.push(RootPart { at, what });
    };
    // Later entries win at the same path, so the order of the following loops is a precedence: a
    // credential covers a closed path, which covers a writable one, which covers a mask.
    for link in &confinement.links {
        let to = link.to.clone();
        put(&link.at, RootPartKind::Link { to });
    }
    // Programs expect these directories to be writable. They are private and vanish with the run.
    for dir in ["/tmp", "/run", "/var/tmp", "/dev/shm"] {
        let bytes = confinement.bounds.tmp_bytes;
        put(Path::new(dir), RootPartKind::Tmpfs { bytes });
    }
    for path in &confinement.read {
        add_seen(path, path, &mut put);
    }
    for path in &confinement.masked {
        match fs::symlink_metadata(path) {
            Ok(meta) if meta.is_dir() => put(path, RootPartKind::MaskedDir),
            Ok(_) => put(path, RootPartKind::MaskedFile),
            Err(_) => {}
        }
    }
    for path in &confinement.write {
        let from = path.clone();
        put(path, RootPartKind::Writable { from });
    }
    for layer in &confinement.layered {
        let what = RootPartKind::Overlay {
            from: layer.dir.clone(),
            lowers: layer.lowers.clone(),
            changes: layer.changes.clone(),
            work: layer.work.clone(),
        };
        put(&layer.dir, what);
    }
    for path in &confinement.shut {
        add_seen(path, path, &mut put);
    }
    for credential in &confinement.credentials {
        add_seen(&credential.from, &credential.to, &mut put);
    }
    // Sorting by path puts every directory before its content. The sort is stable, so entries with
    // the same path stay in the order of precedence.
    parts.sort_by(|a, b| a.at.cmp(&b.at));
    // Of two parts with the same path, the later one takes precedence.
    // `dedup_by` keeps the first of equal neighbours; reversed, that is the latest entry.
    parts.reverse();
    parts.dedup_by(|a, b| a.at == b.at);
    parts.reverse();
    let all = parts.clone();
    let all_by_path = RootParts::new(&all);
    parts.retain(|part| match &part.what {
        RootPartKind::MaskedDir | RootPartKind::MaskedFile => is_shown(&all_by_path, &part.at),
        RootPartKind::ReadOnlyDir { from } | RootPartKind::ReadOnlyFile { from } => {
            !is_already_shown(&all_by_path, &part.at, from)
        }
        RootPartKind::Link { .. } => is_in_own_directory(&all_by_path, &part.at),
        RootPartKind::Writable { .. }
        | RootPartKind::Overlay { .. }
        | RootPartKind::Tmpfs { .. } => true,
    });
    let needed = parts.clone();
    let needed_by_path = RootParts::new(&needed);
    // Other programs change the person's directories in the meantime: a deleted path needs no mask.
    // Deleted masks are removed after `needed` is built, so that a part inside one is still judged
    // against the same surroundings.
    parts.retain(|part| !part.what.is_mask() || part.at.symlink_metadata().is_ok());
    for part in &parts {
        match ensure_mount_point(&needed_by_path, part) {
            // It was deleted between the line above and the check.
            Err(_) if part.what.is_mask() && part.at.symlink_metadata().is_err() => {}
            other => other?,
        }
    }
    Ok(parts)
}

fn add_seen(from: &Path, at: &Path, put: &mut impl FnMut(&Path, RootPartKind)) {
    let source = from.to_owned();
    match fs::symlink_metadata(from) {
        Ok(meta) if meta.is_dir() => put(at, RootPartKind::ReadOnlyDir { from: source }),
        Ok(meta) if meta.is_file() => put(at, RootPartKind::ReadOnlyFile { from: source }),
        // It was deleted in the meantime, or is of a kind that is never mounted.
        Ok(_) | Err(_) => {}
    }
}

/// Returns whether a link is in a directory that we create. In any other directory the machine's
/// own links are visible already.
fn is_in_own_directory(places: &RootParts<'_>, at: &Path) -> bool {
    places.innermost_around(at).is_none_or(|part| {
        matches!(
            part.what,
            RootPartKind::Tmpfs { .. } | RootPartKind::MaskedDir
        )
    })
}

/// Refuses a part whose mount point would have to be created in a directory of the person's, or is
/// a directory where a file is mounted, or the reverse.
fn ensure_mount_point(places: &RootParts<'_>, part: &RootPart) -> io::Result<()> {
    let Some(around) = places.innermost_around(&part.at) else {
        return Ok(());
    };
    let refuse = |why: String| {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "{} cannot be mounted in the sandbox: {why}",
                part.at.display()
            ),
        ))
    };
    // The mount point is looked up in the source of the surrounding part, because the new root does
    // not exist yet.
    let below = part.at.strip_prefix(&around.at).unwrap_or(&part.at);
    let Some(source) = around.what.source() else {
        return match around.what {
            RootPartKind::Tmpfs { .. } | RootPartKind::MaskedDir => Ok(()),
            _ => refuse(format!(
                "its parent {} is not a directory",
                around.at.display()
            )),
        };
    };
    let mount_point = source.join(below);
    match fs::symlink_metadata(&mount_point) {
        Err(error) => refuse(format!(
            "it would have to be created as {}: {error}",
            mount_point.display()
        )),
        // Mounting through a link would cover the link's target at another path.
        Ok(_) if paths::real_path(&mount_point).as_deref() != Some(&mount_point) => refuse(
            format!("{} is behind a symbolic link", mount_point.display()),
        ),
        Ok(meta) if meta.is_dir() != part.what.is_dir() => {
            let kind = |is_dir| if is_dir { "a directory" } else { "a file" };
            refuse(format!(
                "{} is {}, and {} would cover it",
                mount_point.display(),
                kind(meta.is_dir()),
                kind(part.what.is_dir())
            ))
        }
        Ok(_) => Ok(()),
    }
}

/// The parts, indexed by path.
#[derive(Debug)]
pub struct RootParts<'a>(HashMap<&'a Path, &'a RootPart>);

impl<'a> RootParts<'a> {
    pub fn new(parts: &'a [RootPart]) -> Self {
        let places = parts.iter().map(|part| (part.at.as_path(), part));
        Self(places.collect())
    }

    /// Returns the innermost part that contains or is at the path.
    fn innermost(&self, at: &Path) -> Option<&'a RootPart> {
        at.ancestors().find_map(|at| self.0.get(at).copied())
    }

    fn innermost_around(&self, at: &Path) -> Option<&'a RootPart> {
        self.innermost(at.parent()?)
    }

    /// Returns whether a mount at `at` is writable: the innermost part decides.
    pub fn is_writable(&self, at: &Path) -> bool {
        self.innermost(at)
            .is_some_and(|part| part.what.is_writable())
    }
}

/// Returns whether the surrounding part already contains the same read-only path. This saves a
/// mount and an unmount for every start of an agent.
fn is_already_shown(places: &RootParts<'_>, at: &Path, from: &Path) -> bool {
    places
        .innermost_around(at)
        .is_some_and(|part| match &part.what {
            RootPartKind::ReadOnlyDir { from: around } => at
                .strip_prefix(&part.at)
                .is_ok_and(|below| around.join(below) == from),
            _ => false,
        })
}

/// Returns whether a mask is needed. A path behind another mask is already hidden, and so is a
/// path that no part contains. A tmpfs has nothing to hide, but the directories around the run's
/// own ones must stay closed.
fn is_shown(places: &RootParts<'_>, at: &Path) -> bool {
    places
        .innermost_around(at)
        // A mask inside a read-only file or a link has no directory to sit in.
        .is_some_and(|part| match part.what {
            RootPartKind::ReadOnlyDir { .. }
            | RootPartKind::Writable { .. }
            | RootPartKind::Overlay { .. } => true,
            RootPartKind::Tmpfs { .. } => places
                .0
                .values()
                .any(|inner| inner.at != at && is_within(inner, at)),
            RootPartKind::ReadOnlyFile { .. }
            | RootPartKind::MaskedDir
            | RootPartKind::MaskedFile
            | RootPartKind::Link { .. } => false,
        })
}

fn is_within(inner: &RootPart, at: &Path) -> bool {
    !inner.what.is_mask() && inner.at.starts_with(at)
}
