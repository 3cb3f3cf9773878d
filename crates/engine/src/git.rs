//! Git operations on paths, refs, commits and trees.
//!
//! All of them use one hardened runner (`git/run.rs`). The git directory and the work tree are
//! always given explicitly and never discovered from inside a worktree, because a builder can
//! rewrite the pointer file in it. No hook, filter, external diff or helper ever runs. This module
//! does not know what a branch is for. It never forces anything, fetches or pushes only if a remote
//! is configured (`git/remote.rs`), and deletes no unsaved work.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::process::{self, Launcher};

mod address;
mod builder_view;
mod bundle;
mod checkout;
mod claim_view;
mod command;
mod commit;
mod config;
mod create;
mod fact_cache;
mod history;
mod landing;
mod lock;
mod merge;
mod mirror;
mod nested;
mod open;
mod overlay;
mod places;
mod quarantine;
mod readable;
mod refs;
mod remote;
mod remove;
mod restore;
mod scan;
mod secrets;
mod stale_locks;
mod state;
mod submodules;
mod tool_files;
mod unreferenced_commit;
mod worktree;

use fact_cache::GitFactCache;

pub use address::without_secret;
pub use builder_view::{BuilderView, is_replaced_by_git};
pub use checkout::{Checkout, CheckoutPurpose};
pub use claim_view::{BackendRequest, ClaimView, PUSH_BYTES_MAX};
pub use commit::{CommitIdentity, WorktreeCommit};
pub use history::{ChangedFile, Commit, CommitPerson, DiffContext, DiffText, NamedFile};
pub use landing::LandingOutcome;
pub use lock::LandingTurn;
pub use merge::{CombinePlan, MergeResult, MergeStyle};
pub use readable::make_readable;
pub use remote::{NETWORK_VARIABLES, Remote};
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
    #[error("the worktree {} is on {found}, not on {expected}; switch back there with `git switch {expected}`", path.display())]
    WrongBranch {
        path: PathBuf,
        expected: String,
        found: String,
    },
    #[error("{} already exists and is not a worktree of Countersign; move it away", .0.display())]
    Occupied(PathBuf),
    #[error("another process has held {} for too long; see what is running there", .0.display())]
    Locked(PathBuf),
    #[error("{} still exists, so another git is running in that work tree; wait for it, or remove the file if there is none, then continue", .0.display())]
    IndexLocked(PathBuf),
    /// Git's own check refuses objects, so they never enter the repository.
    #[error(
        "`git fsck` refuses what would be committed: {}; remove it, also from commits already made",
        what.join("; ")
    )]
    Unsound {
        what: Vec<String>,
        paths: Vec<PathBuf>,
    },
    /// A landing could not move branch, index and files together there.
    #[error("{0}")]
    Unserved(String),
    #[error("the patch does not apply to {base}: {detail}")]
    DoesNotApply { base: String, detail: String },
    #[error("the output of `git {0}` is larger than its limit; the change is too large to look at")]
    TooLarge(String),
    #[error("the change has more than {max} commits, too many to replay one by one; squash it")]
    TooManyCommits { max: usize },
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
    /// The command did not finish, so it gave no answer.
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
    /// Returns whether the same call may succeed later: after a lock, a full process table or a
    /// lost race.
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

/// Name of a commit or a tree: 40 or 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Oid(String);

impl Oid {
    /// Returns `None` for anything but a complete object name.
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

    /// Returns the first ten digits.
    pub fn short(&self) -> &str {
        &self.0[..10]
    }

    /// Returns the object name that means "no object" to git, in this object format.
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

/// The git program and its launcher.
#[derive(Clone, Debug)]
pub struct GitProgram {
    /// Absolute path, as [`process::find_program`] returns it.
    pub program: PathBuf,
    pub launcher: Option<Launcher>,
    /// User's environment variables for git's connections to other machines.
    pub network_env: Vec<(OsString, OsString)>,
}

/// A repository at a known location. [`Repository::open`] opens one.
#[derive(Clone, Debug)]
pub struct Repository {
    tool: GitProgram,
    /// Common git directory with objects, refs and configuration. It identifies the repository.
    common: PathBuf,
    /// User's own work tree that was opened; `None` for a bare repository.
    own: Option<WorkTreeDirs>,
    /// Directory that new objects are written to until they are checked.
    quarantine_objects: Option<PathBuf>,
    facts: Arc<GitFactCache>,
}

/// A work tree and its git directory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WorkTreeDirs {
    git_dir: PathBuf,
    path: PathBuf,
}

#[cfg(test)]
mod tests;
