//! What is to be reviewed: a range, a branch, the index, the work tree, one commit or a patch; each
//! comes to two exact commits.

use std::path::Path;

use engine::git::{Oid, Repository};
use engine::log::removed;

use super::{App, ReviewOptions};
use crate::failure::Failure;
use crate::settings::{read_bounded, read_stdin};

/// A larger patch is no change that anybody reviews.
const PATCH_BYTES_MAX: usize = 16 << 20;

#[derive(Clone, Debug, Default)]
pub enum ReviewTarget {
    /// What HEAD has over the base branch.
    #[default]
    Head,
    /// A branch or any revision, over the base branch.
    Revision(String),
    /// What the second has since it left the first.
    Range(String, String),
    Staged,
    Worktree,
    Commit(String),
    /// A file, or `-` for the standard input.
    Patch(String),
}

impl ReviewTarget {
    /// `BASE..HEAD`, `BASE...HEAD` or a revision.
    pub fn of_word(word: &str) -> Self {
        let or_head = |rev: &str| if rev.is_empty() { "HEAD" } else { rev }.to_owned();
        match word.split_once("...").or_else(|| word.split_once("..")) {
            Some((from, to)) => Self::Range(or_head(from), or_head(to)),
            None => Self::Revision(word.to_owned()),
        }
    }
}

/// Exactly what is looked at.
#[derive(Clone, Debug)]
pub struct ReviewedChange {
    /// As a person would call it.
    pub name: String,
    pub base: Oid,
    pub head: Oid,
}

pub async fn find(
    office: &App,
    git: &Repository,
    directory: &Path,
    wish: &ReviewOptions,
    base_branch: &str,
) -> Result<ReviewedChange, Failure> {
    match &wish.target {
        ReviewTarget::Head => {
            let head = git.own_branch().await.map_err(Failure::error)?;
            since(git, base_branch, head.as_deref().unwrap_or("HEAD")).await
        }
        ReviewTarget::Revision(rev) => since(git, base_branch, rev).await,
        ReviewTarget::Range(from, to) => {
            let from_commit = git.resolve(from).await.map_err(Failure::usage)?;
            range(git, &from_commit, from, to).await
        }
        ReviewTarget::Commit(rev) => {
            let head = git.resolve(rev).await.map_err(Failure::usage)?;
            let base = git.before(&head).await.map_err(Failure::error)?;
            let name = format!("commit {}", head.short());
            Ok(ReviewedChange { name, base, head })
        }
        ReviewTarget::Staged | ReviewTarget::Worktree | ReviewTarget::Patch(_) => {
            aside(office, git, directory, wish).await
        }
    }
}

async fn since(git: &Repository, base_branch: &str, rev: &str) -> Result<ReviewedChange, Failure> {
    let tip = git.base(base_branch).await.map_err(Failure::usage)?;
    range(git, &tip, base_branch, rev).await
}

async fn range(
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

/// What is in no commit yet, put together in an index of our own.
async fn aside(
    office: &App,
    git: &Repository,
    directory: &Path,
    wish: &ReviewOptions,
) -> Result<ReviewedChange, Failure> {
    let head = git.resolve("HEAD").await.map_err(Failure::usage)?;
    let scratch = ScratchIndex::new(office)?;
    let (name, base, made) = match &wish.target {
        ReviewTarget::Patch(file) => {
            let bytes = match file.as_str() {
                "-" => read_stdin(PATCH_BYTES_MAX)?,
                name => read_bounded(&directory.join(name), "the patch", PATCH_BYTES_MAX)?,
            };
            if bytes.len() > PATCH_BYTES_MAX {
                return Err(Failure::usage("the patch is larger than 16 MiB"));
            }
            let base = match &wish.base {
                Some(branch) => git.base(branch).await.map_err(Failure::usage)?,
                None => head,
            };
            let made = git.patched(&base, bytes, &scratch.index()).await;
            let hint = "make it with `git diff` or `git format-patch --stdout`; --base names what it is for";
            let made = made.map_err(|error| Failure::usage(error).hint(hint))?;
            (format!("patch {file}"), base, made)
        }
        target => {
            whole(git)?;
            let staged = matches!(target, ReviewTarget::Staged);
            let (name, made) = if staged {
                ("what is staged", git.staged(&scratch.index()).await)
            } else {
                ("your work tree", git.as_it_lies(&scratch.index()).await)
            };
            (name.to_owned(), head, made.map_err(Failure::error)?)
        }
    };
    Ok(ReviewedChange {
        name,
        base,
        head: made,
    })
}

/// Half a merge is no change that can be judged.
fn whole(git: &Repository) -> Result<(), Failure> {
    match git.unfinished() {
        None => Ok(()),
        Some(operation) => Err(Failure::usage(format!(
            "a {operation} waits to be finished in this repository"
        ))
        .hint(format!(
            "finish it, or `git {operation} --abort`, or review commits: countersign review BASE..HEAD"
        ))),
    }
}

/// A directory for one index, gone when it is dropped.
struct ScratchIndex(std::path::PathBuf);

impl ScratchIndex {
    fn new(office: &App) -> Result<Self, Failure> {
        let name = format!("aside-{}", std::process::id());
        let dir = office.surroundings.data_dir.join(name);
        engine::private::make_dir(&dir)
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
