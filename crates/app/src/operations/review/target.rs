//! Resolves the target of a review (a range, a branch, the index, the work tree, one commit or a
//! patch) to two exact commits.

use std::path::Path;

use engine::git::{Oid, Repository};
use engine::log::removed;

use super::{App, ReviewOptions};
use crate::failure::Failure;
use crate::settings::{read_bounded, read_stdin};

/// Maximum size of a patch. Nobody can review a larger one.
const PATCH_BYTES_MAX: usize = 16 << 20;

/// Change to review, as named on the command line.
#[derive(Clone, Debug, Default)]
pub enum ReviewTarget {
    /// Commits of HEAD since the base branch.
    #[default]
    Head,
    /// Commits of a branch or any revision since the base branch.
    Revision(String),
    /// Commits of the second revision since it left the first.
    Range(String, String),
    Staged,
    Worktree,
    Commit(String),
    /// A file, or `-` for the standard input.
    Patch(String),
    /// Two commits that the caller has resolved.
    Exact(ReviewedChange),
}

impl ReviewTarget {
    /// Parses `BASE..HEAD`, `BASE...HEAD` or a revision.
    pub fn parse(word: &str) -> Self {
        let or_head = |rev: &str| if rev.is_empty() { "HEAD" } else { rev }.to_owned();
        match word.split_once("...").or_else(|| word.split_once("..")) {
            Some((from, to)) => Self::Range(or_head(from), or_head(to)),
            None => Self::Revision(word.to_owned()),
        }
    }
}

/// The two commits between which the change is.
#[derive(Clone, Debug)]
pub struct ReviewedChange {
    /// Name of the change for people.
    pub name: String,
    pub base: Oid,
    pub head: Oid,
}

/// Resolves the target to its commits.
pub async fn resolve(
    app: &App,
    git: &Repository,
    directory: &Path,
    options: &ReviewOptions,
    base_branch: &str,
) -> Result<ReviewedChange, Failure> {
    match &options.target {
        ReviewTarget::Exact(change) => Ok(change.clone()),
        ReviewTarget::Head => {
            let head = git.own_branch().await.map_err(Failure::error)?;
            change_since_base(git, base_branch, head.as_deref().unwrap_or("HEAD")).await
        }
        ReviewTarget::Revision(rev) => change_since_base(git, base_branch, rev).await,
        ReviewTarget::Range(from, to) => {
            let from_commit = git.resolve(from).await.map_err(Failure::usage)?;
            change_in_range(git, &from_commit, from, to).await
        }
        ReviewTarget::Commit(rev) => {
            let head = git.resolve(rev).await.map_err(Failure::usage)?;
            let base = git.parent_or_empty(&head).await.map_err(Failure::error)?;
            let name = format!("commit {}", head.short());
            Ok(ReviewedChange { name, base, head })
        }
        ReviewTarget::Staged | ReviewTarget::Worktree | ReviewTarget::Patch(_) => {
            uncommitted_change(app, git, directory, options).await
        }
    }
}

async fn change_since_base(
    git: &Repository,
    base_branch: &str,
    rev: &str,
) -> Result<ReviewedChange, Failure> {
    let tip = git.base_tip(base_branch).await.map_err(Failure::usage)?;
    change_in_range(git, &tip, base_branch, rev).await
}

async fn change_in_range(
    git: &Repository,
    from: &Oid,
    name: &str,
    to: &str,
) -> Result<ReviewedChange, Failure> {
    let head = git.resolve(to).await.map_err(Failure::usage)?;
    let base = git.merge_base(from, &head).await.map_err(Failure::usage)?;
    Ok(ReviewedChange {
        name: format!("{name}..{to}"),
        base,
        head,
    })
}

/// Makes a commit of changes that are in none yet, with an index of our own.
async fn uncommitted_change(
    app: &App,
    git: &Repository,
    directory: &Path,
    options: &ReviewOptions,
) -> Result<ReviewedChange, Failure> {
    let head = git.resolve("HEAD").await.map_err(Failure::usage)?;
    let scratch = ScratchIndex::new(app)?;
    let (name, base, commit) = match &options.target {
        ReviewTarget::Patch(file) => {
            let bytes = match file.as_str() {
                "-" => read_stdin(PATCH_BYTES_MAX)?,
                name => read_bounded(&directory.join(name), "the patch", PATCH_BYTES_MAX)?,
            };
            if bytes.len() > PATCH_BYTES_MAX {
                return Err(Failure::usage("the patch is larger than 16 MiB"));
            }
            let base = match &options.base {
                Some(branch) => git.base_tip(branch).await.map_err(Failure::usage)?,
                None => head,
            };
            let commit = git.commit_patch(&base, bytes, &scratch.index()).await;
            let hint = "make it with `git diff` or `git format-patch --stdout`; --base names its base branch";
            let commit = commit.map_err(|error| Failure::usage(error).hint(hint))?;
            (format!("patch {file}"), base, commit)
        }
        target => {
            require_no_merge(git)?;
            let staged = matches!(target, ReviewTarget::Staged);
            let (name, commit) = if staged {
                ("what is staged", git.commit_staged(&scratch.index()).await)
            } else {
                (
                    "your work tree",
                    git.commit_work_tree(&scratch.index()).await,
                )
            };
            (name.to_owned(), head, commit.map_err(Failure::error)?)
        }
    };
    Ok(ReviewedChange {
        name,
        base,
        head: commit,
    })
}

/// Commits the work tree without a ref, with untracked but without ignored files.
pub async fn snapshot_work_tree(app: &App, git: &Repository) -> Result<Oid, Failure> {
    require_no_merge(git)?;
    let scratch = ScratchIndex::new(app)?;
    let commit = git.commit_work_tree(&scratch.index()).await;
    commit.map_err(Failure::error)
}

/// Refuses a work tree with an unfinished merge or rebase, because it is no reviewable change.
fn require_no_merge(git: &Repository) -> Result<(), Failure> {
    match git.unfinished_operation() {
        None => Ok(()),
        Some(operation) => Err(Failure::usage(format!(
            "a {operation} is in progress in this repository"
        ))
        .hint(format!(
            "finish it, or `git {operation} --abort`, or review commits: countersign review BASE..HEAD"
        ))),
    }
}

/// Directory for a temporary index, removed on drop.
struct ScratchIndex(std::path::PathBuf);

impl ScratchIndex {
    fn new(app: &App) -> Result<Self, Failure> {
        let name = format!("aside-{}", std::process::id());
        let dir = app.environment.data_dir.join(name);
        engine::private_files::make_dir(&dir)
            .map_err(|error| Failure::error(format!("{}: {error}", dir.display())))?;
        Ok(Self(dir))
    }

    fn index(&self) -> std::path::PathBuf {
        self.0.join("index")
    }
}

impl Drop for ScratchIndex {
    fn drop(&mut self) {
        removed(&self.0, std::fs::remove_dir_all(&self.0));
    }
}
