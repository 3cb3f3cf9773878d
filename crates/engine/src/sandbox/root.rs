//! What the root of a confined run is made of, in the order in which it is put together: a list,
//! so that our own mounts and bubblewrap's arguments are the same root.
//!
//! Everything that could go wrong with a mount point is found here, before anything is mounted: a
//! part whose place would have to be created in a directory of the person's is refused.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{SandboxSpec, paths};

/// The devices that everybody needs and nobody can do harm with.
pub const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// One thing in the root, at its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootPart {
    pub at: PathBuf,
    pub what: RootPartKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootPartKind {
    /// A directory of the machine's, read-only.
    Seen {
        from: PathBuf,
    },
    /// A regular file of the machine's, read-only.
    SeenFile {
        from: PathBuf,
    },
    Own {
        from: PathBuf,
    },
    /// Changes go to `changes`.
    Layered {
        from: PathBuf,
        changes: PathBuf,
        work: PathBuf,
    },
    /// An empty file system in memory.
    Memory {
        bytes: u64,
    },
    /// Something is there, and nothing can be seen of it.
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
            Self::Own { .. } | Self::Layered { .. } | Self::Memory { .. } => true,
            Self::Seen { .. }
            | Self::SeenFile { .. }
            | Self::MaskedDir
            | Self::MaskedFile
            | Self::Link { .. } => false,
        }
    }

    /// Whether its mount point is a directory.
    pub fn is_dir(&self) -> bool {
        match self {
            Self::Seen { .. }
            | Self::Own { .. }
            | Self::Layered { .. }
            | Self::Memory { .. }
            | Self::MaskedDir => true,
            Self::SeenFile { .. } | Self::MaskedFile | Self::Link { .. } => false,
        }
    }

    /// Where on the machine its content is; `None` for what is made in memory.
    fn source(&self) -> Option<&Path> {
        match self {
            Self::Seen { from }
            | Self::SeenFile { from }
            | Self::Own { from }
            | Self::Layered { from, .. } => Some(from),
            Self::Memory { .. } | Self::MaskedDir | Self::MaskedFile | Self::Link { .. } => None,
        }
    }
}

/// The parts, outer ones first. What is not there outside is left out: it cannot be seen anyway.
/// So are sockets, pipes and devices, which lead to whoever is at their other end.
pub fn parts(confinement: &SandboxSpec) -> io::Result<Vec<RootPart>> {
    let mut parts = Vec::new();
    let mut put = |at: &Path, what: RootPartKind| {
        let at = at.to_owned();
        parts.push(RootPart { at, what });
    };
    for link in &confinement.links {
        let to = link.to.clone();
        put(&link.at, RootPartKind::Link { to });
    }
    for dir in ["/tmp", "/run", "/var/tmp", "/dev/shm"] {
        let bytes = confinement.bounds.tmp_bytes;
        put(Path::new(dir), RootPartKind::Memory { bytes });
    }
    for path in &confinement.read {
        seen(path, path, &mut put);
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
        put(path, RootPartKind::Own { from });
    }
    for layer in &confinement.layered {
        let what = RootPartKind::Layered {
            from: layer.dir.clone(),
            changes: layer.changes.clone(),
            work: layer.work.clone(),
        };
        put(&layer.dir, what);
    }
    for path in &confinement.shut {
        seen(path, path, &mut put);
    }
    for lent in &confinement.lent {
        seen(&lent.from, &lent.to, &mut put);
    }
    parts.sort_by(|a, b| a.at.cmp(&b.at));
    // Of two parts at one place the stronger was put later.
    parts.reverse();
    parts.dedup_by(|a, b| a.at == b.at);
    parts.reverse();
    let all = parts.clone();
    let shown = RootParts::of(&all);
    parts.retain(|part| match &part.what {
        RootPartKind::MaskedDir | RootPartKind::MaskedFile => is_shown(&shown, &part.at),
        RootPartKind::Seen { from } | RootPartKind::SeenFile { from } => {
            !is_seen_anyway(&shown, &part.at, from)
        }
        RootPartKind::Link { .. } => is_ours(&shown, &part.at),
        RootPartKind::Own { .. } | RootPartKind::Layered { .. } | RootPartKind::Memory { .. } => {
            true
        }
    });
    let kept = parts.clone();
    let places = RootParts::of(&kept);
    // Others work in the person's directories meanwhile: what has gone needs no mask.
    parts.retain(|part| !part.what.is_mask() || part.at.symlink_metadata().is_ok());
    for part in &parts {
        match must_have_mount_point(&places, part) {
            Err(_) if part.what.is_mask() && part.at.symlink_metadata().is_err() => {}
            other => other?,
        }
    }
    Ok(parts)
}

fn seen(from: &Path, at: &Path, put: &mut impl FnMut(&Path, RootPartKind)) {
    let source = from.to_owned();
    match fs::symlink_metadata(from) {
        Ok(meta) if meta.is_dir() => put(at, RootPartKind::Seen { from: source }),
        Ok(meta) if meta.is_file() => put(at, RootPartKind::SeenFile { from: source }),
        // Gone meanwhile, or nothing that is ever shown.
        Ok(_) | Err(_) => {}
    }
}

/// Whether the place of a link is in a directory that we make ourselves. In any other the machine's
/// own links are seen as they are.
fn is_ours(places: &RootParts<'_>, at: &Path) -> bool {
    places.innermost_around(at).is_none_or(|part| {
        matches!(
            part.what,
            RootPartKind::Memory { .. } | RootPartKind::MaskedDir
        )
    })
}

/// Refuses a part whose mount point would have to be made in a directory of the person's, or is of
/// another kind than what is put there.
fn must_have_mount_point(places: &RootParts<'_>, part: &RootPart) -> io::Result<()> {
    let Some(around) = places.innermost_around(&part.at) else {
        return Ok(());
    };
    let refuse = |why: String| {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "{} cannot be put into the sandbox: {why}",
                part.at.display()
            ),
        ))
    };
    let below = part.at.strip_prefix(&around.at).unwrap_or(&part.at);
    let Some(source) = around.what.source() else {
        return match around.what {
            RootPartKind::Memory { .. } | RootPartKind::MaskedDir => Ok(()),
            _ => refuse(format!("{} around it is no directory", around.at.display())),
        };
    };
    let place = source.join(below);
    match fs::symlink_metadata(&place) {
        Err(error) => refuse(format!(
            "it would have to be created as {}: {error}",
            place.display()
        )),
        Ok(_) if paths::real(&place).as_deref() != Some(&place) => {
            refuse(format!("{} is behind a symbolic link", place.display()))
        }
        Ok(meta) if meta.is_dir() != part.what.is_dir() => {
            let kind = |is_dir| if is_dir { "a directory" } else { "a file" };
            refuse(format!(
                "{} is {}, and {} would cover it",
                place.display(),
                kind(meta.is_dir()),
                kind(part.what.is_dir())
            ))
        }
        Ok(_) => Ok(()),
    }
}

/// The parts by their places.
#[derive(Debug)]
pub struct RootParts<'a>(HashMap<&'a Path, &'a RootPart>);

impl<'a> RootParts<'a> {
    pub fn of(parts: &'a [RootPart]) -> Self {
        let places = parts.iter().map(|part| (part.at.as_path(), part));
        Self(places.collect())
    }

    /// The part that something at this place is in, or is.
    fn innermost(&self, at: &Path) -> Option<&'a RootPart> {
        at.ancestors().find_map(|at| self.0.get(at).copied())
    }

    fn innermost_around(&self, at: &Path) -> Option<&'a RootPart> {
        self.innermost(at.parent()?)
    }

    /// Whether what is mounted at `at` may be written: the innermost part decides.
    pub fn is_writable(&self, at: &Path) -> bool {
        self.innermost(at)
            .is_some_and(|part| part.what.is_writable())
    }
}

/// Whether the part around already shows the same thing in the same way: one mount fewer to make
/// and to take down, for every start of an agent.
fn is_seen_anyway(places: &RootParts<'_>, at: &Path, from: &Path) -> bool {
    places
        .innermost_around(at)
        .is_some_and(|part| match &part.what {
            RootPartKind::Seen { from: around } => at
                .strip_prefix(&part.at)
                .is_ok_and(|below| around.join(below) == from),
            _ => false,
        })
}

/// Whether there is anything to hide: what lies behind another mask is hidden, and so is what
/// nothing leads to. In memory there is nothing to hide, but there is something to keep shut: what
/// lies around the run's own directories.
fn is_shown(places: &RootParts<'_>, at: &Path) -> bool {
    places
        .innermost_around(at)
        .is_some_and(|part| match part.what {
            RootPartKind::Seen { .. } | RootPartKind::Own { .. } | RootPartKind::Layered { .. } => {
                true
            }
            RootPartKind::Memory { .. } => places
                .0
                .values()
                .any(|inner| inner.at != at && is_within(inner, at)),
            RootPartKind::SeenFile { .. }
            | RootPartKind::MaskedDir
            | RootPartKind::MaskedFile
            | RootPartKind::Link { .. } => false,
        })
}

fn is_within(inner: &RootPart, at: &Path) -> bool {
    !inner.what.is_mask() && inner.at.starts_with(at)
}
