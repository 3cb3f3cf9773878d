//! Finds the work tree of each git directory of the user, by asking git.
//!
//! A git directory need not be in its work tree: `.git` may be a file or a symbolic link, and the
//! configuration may name a work tree elsewhere. A landing that gets this wrong moves the branch
//! and leaves the index behind, so anything uncertain is refused with its reason.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::command::GitCommand;
use super::landing::write_durably;
use super::{Error, Oid, Repository, WorkTreeDirs};
use crate::log::LogErr;

/// File of ours in a git directory that does not say where its work tree is.
const NOTE: &str = "countersign-work-tree";
/// Maximum size of a file that points to a path.
const POINTER_BYTES_MAX: u64 = 16 << 10;

/// Work tree of a git directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    /// There is none: the repository is bare, or its work tree was removed.
    None,
    At(PathBuf),
    /// There is one at an unknown location; holds the reason.
    Unclear(String),
}

impl Repository {
    /// Finds the work tree of a git directory of this repository. `seen` is one that the user is
    /// in.
    pub(super) async fn work_tree_of(
        &self,
        git_dir: &Path,
        seen: Option<&Path>,
    ) -> Result<Tree, Error> {
        let holds_index = fs::symlink_metadata(git_dir.join("index")).is_ok();
        let mut trees = Vec::new();
        let mut add = |path: PathBuf| {
            if leads_to(&path, git_dir) && !trees.contains(&path) {
                trees.push(path);
            }
        };
        let parent = git_dir.parent().filter(|_| git_dir.ends_with(".git"));
        let own = self.own.as_ref().filter(|own| own.git_dir == git_dir);
        let candidates = [
            parent.map(Path::to_owned),
            linked(git_dir),
            seen.map(Path::to_owned),
            own.map(|own| own.path.clone()),
            noted(git_dir),
        ];
        for path in candidates.into_iter().flatten() {
            if let Ok(path) = fs::canonicalize(path) {
                add(path);
            }
        }
        let git = git_dir.display();
        let answer = match self.ask_for_tree(git_dir).await {
            // The worktree of a finished ticket may be removed while we ask.
            Err(_) if !git_dir.is_dir() => return Ok(Tree::None),
            Err(Error::Failed { detail, .. }) => {
                return Ok(Tree::Unclear(format!(
                    "git cannot use {git} ({detail}); see core.worktree and core.bare in its configuration"
                )));
            }
            answer => answer?,
        };
        Ok(match answer {
            None if holds_index => Tree::Unclear(format!(
                "core.bare is true for {git}, and yet it has an index; set it right with \
                 `git config core.bare false`, or remove {git}/index if it has no work tree"
            )),
            None => Tree::None,
            // From inside a git directory, git prints that directory unless core.worktree names
            // another.
            Some(configured) if configured != git_dir => match fs::canonicalize(&configured) {
                Ok(path) if path.is_dir() => Tree::At(path),
                Ok(_) | Err(_) => Tree::Unclear(format!(
                    "core.worktree of {git} names {}, which is not a directory; set it right with \
                     `git config core.worktree`",
                    configured.display()
                )),
            },
            Some(_) => match &trees[..] {
                [path] => Tree::At(path.clone()),
                [one, other, ..] => Tree::Unclear(format!(
                    "{} and {} are both work trees of {git}, with one index; keep one, or use \
                     `git worktree add`",
                    one.display(),
                    other.display()
                )),
                [] if is_gone(git_dir) || !holds_index => Tree::None,
                [] => Tree::Unclear(format!(
                    "{git} has an index and does not say where its work tree is; run countersign \
                     once in that work tree"
                )),
            },
        })
    }

    /// Returns the work tree that git uses from inside a git directory; `None` if git considers it
    /// bare.
    async fn ask_for_tree(&self, git_dir: &Path) -> Result<Option<PathBuf>, Error> {
        // Run without GIT_COMMON_DIR, because it keeps git from reading core.worktree.
        let run = || GitCommand::new(&self.tool, git_dir).with_git_dir(git_dir);
        let bare = ["rev-parse", "--is-bare-repository"];
        if run().args(bare).text().await? == "true" {
            return Ok(None);
        }
        let top = ["rev-parse", "--path-format=absolute", "--show-toplevel"];
        let mut path = run().args(top).output().await?.out;
        while path.last() == Some(&b'\n') {
            path.pop();
        }
        Ok(Some(PathBuf::from(OsString::from_vec(path))))
    }

    /// Returns the work tree that the user is in, and remembers it if its git directory does not
    /// name it.
    pub(super) async fn place_at(
        &self,
        git_dir: PathBuf,
        dir: &Path,
    ) -> Result<Option<WorkTreeDirs>, Error> {
        if fs::symlink_metadata(self.common.join("refs")).is_ok_and(|meta| meta.is_symlink()) {
            return Err(Error::Unserved(format!(
                "{}/refs is a symbolic link, so other repositories have the same branches and \
                 nobody knows what they have checked out; use `git worktree add` instead",
                self.common.display()
            )));
        }
        match self.work_tree_of(&git_dir, Some(dir)).await? {
            Tree::None => Ok(None),
            Tree::Unclear(why) => Err(Error::Unserved(why)),
            Tree::At(path) => {
                let recorded = Self::tree_of_files(&git_dir);
                if leads_to(&path, &git_dir) && recorded.as_deref() != Some(path.as_path()) {
                    note(&git_dir, &path);
                }
                Ok(Some(WorkTreeDirs { git_dir, path }))
            }
        }
    }

    /// Reads the work tree that a git directory names, or that we noted there.
    fn tree_of_files(git_dir: &Path) -> Option<PathBuf> {
        let parent = git_dir.parent().filter(|_| git_dir.ends_with(".git"));
        let parent = parent.map(Path::to_owned);
        let candidates = [parent, linked(git_dir), noted(git_dir)];
        let paths = candidates.into_iter().flatten();
        let mut real = paths.filter_map(|path| fs::canonicalize(path).ok());
        real.find(|path| leads_to(path, git_dir))
    }

    /// Returns the main work tree of the repository (not a linked one), if it is known.
    pub async fn main_tree(&self) -> Result<Option<PathBuf>, Error> {
        match self.work_tree_of(&self.common, None).await? {
            Tree::At(path) => Ok(Some(path)),
            Tree::None | Tree::Unclear(_) => Ok(None),
        }
    }

    /// Returns the work trees that have the branch checked out. The inner error names a git
    /// directory that has it checked out and cannot be supported, with the reason.
    pub(super) async fn places_on(
        &self,
        branch: &str,
    ) -> Result<Result<Vec<WorkTreeDirs>, (PathBuf, String)>, Error> {
        let mut places = Vec::new();
        for git_dir in self.git_dirs() {
            let found = match self.branch_of(&git_dir).await {
                Ok(found) if found.as_deref() == Some(branch) => {
                    self.work_tree_of(&git_dir, None).await
                }
                Ok(_) => Ok(Tree::None),
                Err(error) => Err(error),
            };
            match found {
                Ok(Tree::None) => {}
                Ok(Tree::At(path)) => places.push(WorkTreeDirs { git_dir, path }),
                Ok(Tree::Unclear(why)) => return Ok(Err((git_dir, why))),
                // Another process removed the worktree meanwhile, for example that of a ticket that
                // has ended. It has no branch checked out any more.
                Err(_) if !has_head(&git_dir) && git_dir != self.common => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Ok(places))
    }

    /// Fails early if a landing on the branch could not update a work tree, before any work starts.
    pub async fn must_serve(&self, branch: &str) -> Result<(), Error> {
        let branch = self.real_branch(branch).await?;
        match self.places_on(&branch).await? {
            Ok(_) => Ok(()),
            Err((_, why)) => Err(Error::Unserved(why)),
        }
    }

    /// Returns the git directories of the repository: its own, and those of linked worktrees.
    pub(super) fn git_dirs(&self) -> Vec<PathBuf> {
        let linked = fs::read_dir(self.common.join("worktrees"));
        let linked = linked.into_iter().flatten().flatten().map(|dir| dir.path());
        let whole = linked.filter(|dir| has_head(dir));
        std::iter::once(self.common.clone()).chain(whole).collect()
    }

    /// Returns the branch of HEAD in a git directory; `None` if it is detached.
    async fn branch_of(&self, git_dir: &Path) -> Result<Option<String>, Error> {
        let head = git_dir.join("HEAD");
        let plain = fs::symlink_metadata(&head).is_ok_and(|meta| meta.is_file())
            && !self.common.join("reftable").exists();
        if let Some(text) = pointer(&head).filter(|_| plain) {
            let text = String::from_utf8_lossy(&text).into_owned();
            match text.strip_prefix("ref: refs/heads/") {
                Some(name) if !self.is_alias(name) => return Ok(Some(name.to_owned())),
                None if Oid::parse(&text).is_some() => return Ok(None),
                Some(_) | None => {}
            }
        }
        self.named_by("HEAD", git_dir).await
    }

    /// Resolves a branch name that is a symbolic ref to another branch.
    pub(super) async fn real_branch(&self, branch: &str) -> Result<String, Error> {
        if !self.is_alias(branch) && !self.common.join("reftable").exists() {
            return Ok(branch.to_owned());
        }
        let name = format!("refs/heads/{branch}");
        let real = self.named_by(&name, &self.common).await?;
        Ok(real.unwrap_or_else(|| branch.to_owned()))
    }

    /// Returns whether a branch is a symbolic ref. If refs are files, a symbolic ref is always a
    /// file of its own.
    fn is_alias(&self, branch: &str) -> bool {
        let file = self.common.join("refs/heads").join(branch);
        let is_link = file.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
        is_link || pointer(&file).is_some_and(|text| text.starts_with(b"ref:"))
    }

    async fn named_by(&self, name: &str, git_dir: &Path) -> Result<Option<String>, Error> {
        let run = GitCommand::new(&self.tool, git_dir).with_git_dir(git_dir);
        let args = [
            "rev-parse",
            "--symbolic-full-name",
            "--end-of-options",
            name,
        ];
        let output = run
            .args(args)
            .accept_codes(&[1, 128])
            .output()
            .await?
            .text();
        let last = output.lines().last().unwrap_or_default();
        Ok(last.strip_prefix("refs/heads/").map(str::to_owned))
    }
}

fn has_head(git_dir: &Path) -> bool {
    git_dir.join("HEAD").symlink_metadata().is_ok()
}

/// Returns whether `.git` in the directory is, or names, the git directory.
fn leads_to(dir: &Path, git_dir: &Path) -> bool {
    let dot_git = dir.join(".git");
    let target = if dot_git.is_dir() {
        fs::canonicalize(&dot_git).ok()
    } else {
        super::open::gitdir_pointer(&dot_git)
    };
    target.is_some_and(|target| fs::canonicalize(git_dir).is_ok_and(|real| real == target))
}

/// Returns the worktree path that the git directory of a linked worktree records.
pub(super) fn linked(git_dir: &Path) -> Option<PathBuf> {
    let text = pointer(&git_dir.join("gitdir"))?;
    let path = git_dir.join(Path::new(OsStr::from_bytes(&text)));
    Some(path.parent()?.to_owned())
}

fn noted(git_dir: &Path) -> Option<PathBuf> {
    let text = pointer(&git_dir.join(NOTE))?;
    Some(PathBuf::from(OsString::from_vec(text)))
}

/// Notes the work tree. Without write permission, commands work only inside the work tree.
fn note(git_dir: &Path, path: &Path) {
    let text = [path.as_os_str().as_bytes(), b"\n"].concat();
    let result = write_durably(&git_dir.join(NOTE), &text);
    result.log_err("note where the work tree is");
}

/// Returns whether a linked worktree was removed. A locked one may come back.
fn is_gone(git_dir: &Path) -> bool {
    git_dir.join("commondir").exists() && !git_dir.join("locked").exists()
}

/// Returns the single line of a small file.
fn pointer(file: &Path) -> Option<Vec<u8>> {
    let small = fs::metadata(file).is_ok_and(|meta| meta.len() <= POINTER_BYTES_MAX);
    let mut text = fs::read(file).ok().filter(|_| small)?;
    while text
        .last()
        .is_some_and(|byte| matches!(byte, b'\n' | b'\r'))
    {
        text.pop();
    }
    (!text.is_empty()).then_some(text)
}
