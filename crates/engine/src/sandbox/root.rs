//! What the root of a confined run is made of, in the order in which it is put together: a list,
//! so that our own mounts and bubblewrap's arguments are the same root.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::Confinement;

/// The devices that everybody needs and nobody can do harm with.
pub const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// One thing in the root, at its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub at: PathBuf,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// What is at this place outside.
    Seen {
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
    /// Another name for what is there under its real one. A layer cannot be mounted twice.
    Alias {
        of: PathBuf,
    },
}

impl What {
    fn is_mask(&self) -> bool {
        matches!(self, Self::MaskedDir | Self::MaskedFile)
    }

    pub fn is_writable(&self) -> bool {
        match self {
            Self::Own { .. } | Self::Layered { .. } | Self::Memory { .. } => true,
            Self::Seen { .. }
            | Self::MaskedDir
            | Self::MaskedFile
            | Self::Link { .. }
            | Self::Alias { .. } => false,
        }
    }
}

/// The parts, outer ones first, and other names last: they need what they are names of. What is not
/// there outside is left out: it cannot be seen anyway.
pub fn parts(confinement: &Confinement) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut put = |at: &Path, what: What| {
        let at = at.to_owned();
        parts.push(Part { at, what });
    };
    for dir in ["/tmp", "/run", "/var/tmp", "/dev/shm"] {
        let bytes = confinement.bounds.tmp_bytes;
        put(Path::new(dir), What::Memory { bytes });
    }
    for path in &confinement.read {
        if let Ok(to) = fs::read_link(path)
            && path.parent() == Some(Path::new("/"))
        {
            put(path, What::Link { to });
        } else {
            both(path, &mut put, |from| What::Seen { from });
        }
    }
    for path in &confinement.masked {
        match fs::symlink_metadata(path) {
            Ok(meta) if meta.is_dir() => put(path, What::MaskedDir),
            Ok(meta) if meta.is_file() => put(path, What::MaskedFile),
            _ => {}
        }
    }
    for path in &confinement.write {
        both(path, &mut put, |from| What::Own { from });
    }
    for layer in &confinement.layered {
        let [Ok(real), Ok(changes), Ok(work)] =
            [&layer.dir, &layer.changes, &layer.work].map(fs::canonicalize)
        else {
            continue;
        };
        if real != layer.dir {
            put(&layer.dir, What::Alias { of: real.clone() });
        }
        let what = What::Layered {
            from: real.clone(),
            changes,
            work,
        };
        put(&real, what);
    }
    for path in &confinement.shut {
        both(path, &mut put, |from| What::Seen { from });
    }
    for lent in &confinement.lent {
        if let Ok(from) = fs::canonicalize(&lent.from) {
            put(&lent.to, What::Seen { from });
        }
    }
    parts.sort_by(|a, b| a.at.cmp(&b.at));
    // Of two parts at one place the stronger was put later.
    parts.reverse();
    parts.dedup_by(|a, b| a.at == b.at);
    parts.reverse();
    let all = parts.clone();
    let shown = Places::of(&all);
    parts.retain(|part| match &part.what {
        What::MaskedDir | What::MaskedFile => is_shown(&shown, &part.at),
        What::Seen { from } => !is_seen_anyway(&shown, &part.at, from),
        What::Alias { .. } => !is_a_link_that_is_seen(&shown, &part.at),
        What::Own { .. } | What::Layered { .. } | What::Memory { .. } | What::Link { .. } => true,
    });
    parts.retain(|part| !is_behind_an_alias(&shown, &part.at));
    parts.sort_by_key(|part| matches!(part.what, What::Alias { .. }));
    parts
}

/// The parts by their places.
#[derive(Debug)]
pub struct Places<'a>(HashMap<&'a Path, &'a Part>);

impl<'a> Places<'a> {
    pub fn of(parts: &'a [Part]) -> Self {
        let places = parts.iter().map(|part| (part.at.as_path(), part));
        Self(places.collect())
    }

    /// The part that something at this place is in, or is.
    fn innermost(&self, at: &Path) -> Option<&'a Part> {
        at.ancestors().find_map(|at| self.0.get(at).copied())
    }

    fn innermost_around(&self, at: &Path) -> Option<&'a Part> {
        self.innermost(at.parent()?)
    }

    /// Whether what is mounted at `at` may be written: the innermost part decides.
    pub fn is_writable(&self, at: &Path) -> bool {
        self.innermost(at)
            .is_some_and(|part| match (&part.what, at.strip_prefix(&part.at)) {
                (What::Alias { of }, Ok(below)) => self.is_writable(&of.join(below)),
                (what, _) => what.is_writable(),
            })
    }
}

/// Inside of what is shown at its own place the machine's links are shown as well, and lead to the
/// real name by themselves.
fn is_a_link_that_is_seen(places: &Places<'_>, at: &Path) -> bool {
    places
        .innermost_around(at)
        .is_some_and(|part| match &part.what {
            What::Seen { from } | What::Own { from } | What::Layered { from, .. } => {
                *from == part.at
            }
            What::Link { .. } => true,
            What::Memory { .. } | What::MaskedDir | What::MaskedFile | What::Alias { .. } => false,
        })
}

/// What is behind another name is there under the real one.
fn is_behind_an_alias(places: &Places<'_>, at: &Path) -> bool {
    let mut around = at.ancestors().skip(1).filter_map(|at| places.0.get(at));
    around.any(|part| matches!(part.what, What::Alias { .. }))
}

/// Whether the part around already shows the same thing in the same way: one mount fewer to make
/// and to take down, for every start of an agent.
fn is_seen_anyway(places: &Places<'_>, at: &Path, from: &Path) -> bool {
    places
        .innermost_around(at)
        .is_some_and(|part| match &part.what {
            What::Seen { from: around } => at
                .strip_prefix(&part.at)
                .is_ok_and(|below| around.join(below) == from),
            _ => false,
        })
}

/// Whether there is anything to hide: what lies behind another mask is hidden, and so is what
/// nothing leads to. In memory there is nothing to hide, but there is something to keep shut: what
/// lies around the run's own directories.
fn is_shown(places: &Places<'_>, at: &Path) -> bool {
    places
        .innermost_around(at)
        .is_some_and(|part| match part.what {
            What::Seen { .. } | What::Own { .. } | What::Layered { .. } => true,
            What::Memory { .. } => places
                .0
                .values()
                .any(|inner| inner.at != at && is_within(inner, at)),
            What::MaskedDir | What::MaskedFile | What::Link { .. } | What::Alias { .. } => false,
        })
}

/// Under the name it was given, and under its real name where that is another one.
fn both(path: &Path, put: &mut impl FnMut(&Path, What), what: impl Fn(PathBuf) -> What) {
    let Ok(real) = fs::canonicalize(path) else {
        return;
    };
    if real != path {
        put(path, what(real.clone()));
    }
    put(&real.clone(), what(real));
}

fn is_within(inner: &Part, at: &Path) -> bool {
    !inner.what.is_mask() && inner.at.starts_with(at)
}
