//! Git, as data in and data out: paths and refs, commits and trees.
//!
//! Everything goes through one hardened runner (`git/run.rs`): the git
//! directory and the work tree are always named, never discovered from inside a
//! worktree, because a builder can rewrite the pointer file in it; no hook, no
//! filter, no external diff and no helper ever runs. It refuses to know what a
//! branch is for, to force anything on anybody, to fetch or push but where a
//! remote is named (`git/remote.rs`), and to delete work that was not saved.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::process::{self, Launcher};

mod address;
mod aside;
mod builder_view;
mod checkout;
mod commit;
mod config;
mod create;
mod facts;
mod history;
mod landing;
mod layer;
mod lock;
mod merge;
mod mirror;
mod nested;
mod open;
mod parcel;
mod places;
mod quarantine;
mod readable;
mod refs;
mod remote;
mod remove;
mod restore;
mod run;
mod scan;
mod secrets;
mod stale;
mod state;
mod tool_files;
mod worktree;

use facts::GitFactCache;

pub use address::without_secret;
pub use builder_view::{BuilderView, is_replaced_by_git};
pub use checkout::{Checkout, CheckoutPurpose};
pub use commit::{CommitIdentity, WorktreeCommit};
pub use history::{ChangedFile, Commit, CommitPerson, DiffContext, DiffText, NamedFile};
pub use landing::LandingOutcome;
pub use lock::LandingTurn;
pub use merge::{MergeResult, MergeStyle};
pub use readable::make_readable;
pub use remote::{ABROAD, Remote};
pub use remove::remove_tree;
pub use scan::{Scanned, Search};
pub use secrets::LeakedSecret;
pub use state::WorkTreeHead;
pub use tool_files::{is_agent_configuration, is_read_by_tools};
pub use worktree::{Worktree, WorktreeOrigin};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{} is not in a git repository; go to one, or make one with `git init`", .0.display())]
    NotARepository(PathBuf),
    #[error("the repository {} has no commits yet; make a first one, so that there is a base to work from", .0.display())]
    NoCommits(PathBuf),
    #[error("`{rev}` names no commit here; see `git branch --all` for what there is")]
    UnknownRevision { rev: String },
    #[error("{a} and {b} have no common ancestor, so there is no range to look at")]
    Unrelated { a: String, b: String },
    #[error(
        "the repository's configuration would run programs on our behalf: {}; \
         Countersign runs none of them, and the result would differ: unset each with `git config --unset`",
        keys.join(", ")
    )]
    CommandsInConfig { keys: Vec<String> },
    #[error("the worktree {} is on {found}, not on {expected}; whoever works there has to go back with `git switch {expected}`", path.display())]
    WrongBranch {
        path: PathBuf,
        expected: String,
        found: String,
    },
    #[error("{} is there already and is not a worktree of ours; move it away", .0.display())]
    Occupied(PathBuf),
    #[error("another process has held {} for too long; see what is running there", .0.display())]
    Locked(PathBuf),
    #[error("{} is there and stays, so another git is at work in that work tree; wait for it, or remove the file if none is, then continue", .0.display())]
    IndexLocked(PathBuf),
    /// Git's own check refuses objects: they never enter the repository.
    #[error(
        "`git fsck` refuses what would be committed: {}; take it out, also of commits already made",
        what.join("; ")
    )]
    Unsound {
        what: Vec<String>,
        paths: Vec<PathBuf>,
    },
    /// A landing there could not move branch, index and files together.
    #[error("{0}")]
    Unserved(String),
    #[error("the patch does not apply to {base}: {detail}")]
    DoesNotApply { base: String, detail: String },
    #[error("the output of `git {0}` is larger than its limit; the change is too large to look at")]
    TooLarge(String),
    #[error(
        "{} has {} MiB, and files over 2048 MiB are not committed; remove it, or name it in .gitignore",
        path.display(), bytes >> 20
    )]
    LargeFile { path: PathBuf, bytes: u64 },
    #[error("`git {verb}` failed in {}: {detail}", dir.display())]
    Failed {
        verb: String,
        dir: PathBuf,
        detail: String,
    },
    /// It did not come to its end, and so has said nothing about what it was asked.
    #[error("`git {verb}` in {} was ended before it was done: {how}", dir.display())]
    CutOff {
        verb: String,
        dir: PathBuf,
        how: String,
    },
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Process(#[from] process::Error),
}

impl Error {
    /// Worth another try as things are: somebody's lock, a full table, a lost race.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Locked(_)
                | Self::IndexLocked(_)
                | Self::Failed { .. }
                | Self::CutOff { .. }
                | Self::File { .. }
                | Self::Process(_)
        )
    }

    fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::File {
            path: path.to_owned(),
            source,
        }
    }
}

/// The name of a commit or a tree: hexadecimal, 40 or 64 long.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Oid(String);

impl Oid {
    /// None for anything that is not a whole object name.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let hex = text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (hex && matches!(text.len(), 40 | 64)).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first characters, as people write them.
    pub fn short(&self) -> &str {
        &self.0[..10]
    }

    /// What git takes for "there is none", in this object format.
    fn zero(&self) -> String {
        "0".repeat(self.0.len())
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Oid {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("`{text}` is not a whole object name"))
    }
}

impl From<Oid> for String {
    fn from(oid: Oid) -> Self {
        oid.0
    }
}

/// The git program, and what stands in front of it.
#[derive(Clone, Debug)]
pub struct GitProgram {
    /// An absolute path, as [`process::find_program`] gives it.
    pub program: PathBuf,
    pub launcher: Option<Launcher>,
    /// What the person whose program this is gives git for its way beyond this machine.
    pub abroad: Vec<(OsString, OsString)>,
}

/// A repository whose place is known. Opening one is [`Repository::open`].
#[derive(Clone, Debug)]
pub struct Repository {
    tool: GitProgram,
    /// Where objects, refs and configuration are: the key of a repository.
    common: PathBuf,
    /// The person's own work tree that we were pointed at, unless it is bare.
    own: Option<WorkTreeDirs>,
    /// Directory that new objects are written to until they are checked.
    apart: Option<PathBuf>,
    facts: Arc<GitFactCache>,
}

/// A work tree and the git directory that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WorkTreeDirs {
    git_dir: PathBuf,
    path: PathBuf,
}

#[cfg(test)]
mod tests;
