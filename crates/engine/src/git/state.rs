//! Reads the state of a work tree, and syncs written files to disk.

use std::fs::File;
use std::path::Path;

use super::{Error, Oid, Repository, WorkTreeDirs, Worktree};

/// Branch and commit of a work tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkTreeHead {
    /// `None` if HEAD is detached.
    pub branch: Option<String>,
    pub commit: Oid,
}

/// Files that git keeps while an operation is unfinished.
const UNFINISHED: &[(&str, &str)] = &[
    ("MERGE_HEAD", "merge"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
];

impl Repository {
    /// Returns the paths that differ from HEAD in the user's own work tree, including untracked
    /// files; none for a bare repository.
    pub async fn dirty(&self) -> Result<Vec<String>, Error> {
        match &self.own {
            Some(own) => self.dirty_at(own).await,
            None => Ok(Vec::new()),
        }
    }

    /// Returns the same paths without untracked files.
    pub async fn changed_tracked(&self) -> Result<Vec<String>, Error> {
        match &self.own {
            Some(own) => self.changed_at(own).await,
            None => Ok(Vec::new()),
        }
    }

    /// Returns the branch of the user's own work tree, if it is on one.
    pub async fn own_branch(&self) -> Result<Option<String>, Error> {
        match &self.own {
            Some(own) => Ok(self.head_at(own).await?.branch),
            None => Ok(None),
        }
    }

    pub async fn dirty_in(&self, worktree: &Worktree) -> Result<Vec<String>, Error> {
        self.dirty_at(&worktree.work_tree_dirs()?).await
    }

    /// Returns whether git ignores a directory of that name.
    pub async fn is_ignored(&self, worktree: &Worktree, path: &Path) -> Result<bool, Error> {
        let mut name = path.as_os_str().to_owned();
        name.push("/");
        let output = self
            .git_at(&worktree.work_tree_dirs()?)
            .args(["check-ignore", "--quiet", "--"])
            .args([name])
            .accept_codes(&[1])
            .output()
            .await?;
        Ok(output.code == 0)
    }

    /// Returns `merge`, `rebase`, … if such an operation is unfinished in the user's work tree.
    pub fn unfinished_operation(&self) -> Option<&'static str> {
        unfinished_in(&self.own.as_ref()?.git_dir)
    }

    pub fn unfinished_in(&self, worktree: &Worktree) -> Option<&'static str> {
        unfinished_in(&worktree.git_dir)
    }

    pub async fn head_of(&self, worktree: &Worktree) -> Result<WorkTreeHead, Error> {
        self.head_at(&worktree.work_tree_dirs()?).await
    }

    /// Syncs everything written so far to disk. Call it before a result is recorded: with its own
    /// fsync settings, git loses refs at a power cut.
    pub async fn sync(&self) -> Result<(), Error> {
        sync(&self.common).await
    }

    pub(super) async fn head_at(&self, place: &WorkTreeDirs) -> Result<WorkTreeHead, Error> {
        let both = ["rev-parse", "HEAD^{commit}", "--symbolic-full-name", "HEAD"];
        let output = self.git_at(place).args(both).text().await?;
        let (commit, full) = output.split_once('\n').unwrap_or((&output, ""));
        let commit = Oid::parse(commit).ok_or_else(|| Error::UnknownRevision {
            rev: "HEAD".to_owned(),
        })?;
        let branch = full.strip_prefix("refs/heads/").map(str::to_owned);
        Ok(WorkTreeHead { branch, commit })
    }

    pub(super) async fn dirty_at(&self, place: &WorkTreeDirs) -> Result<Vec<String>, Error> {
        let entries = self.status_at(place).await?;
        Ok(entries.into_iter().map(|(path, _)| path).collect())
    }

    /// Returns the tracked paths that differ from HEAD; new files do not count as changes.
    pub(super) async fn changed_at(&self, place: &WorkTreeDirs) -> Result<Vec<String>, Error> {
        let entries = self.status_at(place).await?.into_iter();
        Ok(entries
            .filter(|(_, new)| !new)
            .map(|(path, _)| path)
            .collect())
    }

    /// Returns every path that differs from HEAD, and whether it is untracked.
    ///
    /// Submodules are compared by commit only: looking inside one would run git there with its own
    /// configuration.
    async fn status_at(&self, place: &WorkTreeDirs) -> Result<Vec<(String, bool)>, Error> {
        self.refuse_commands(Some(place)).await?;
        let args = [
            "status",
            "--porcelain=v1",
            "-z",
            "--no-renames",
            "--untracked-files=all",
            "--ignore-submodules=dirty",
        ];
        let entries = self.git_at(place).args(args).fields().await?;
        Ok(entries
            .iter()
            .filter_map(|entry| Some((entry.get(3..)?.to_owned(), entry.starts_with("??"))))
            .collect())
    }
}

pub(super) fn unfinished_in(git_dir: &Path) -> Option<&'static str> {
    UNFINISHED
        .iter()
        .find(|(file, _)| git_dir.join(file).exists())
        .map(|(_, what)| *what)
}

pub(super) async fn sync(dir: &Path) -> Result<(), Error> {
    let dir = dir.to_owned();
    let synced = tokio::task::spawn_blocking(move || {
        let file = File::open(&dir).map_err(Error::file(&dir))?;
        rustix::fs::syncfs(file).map_err(|error| Error::file(&dir)(error.into()))
    });
    synced.await.unwrap_or(Ok(()))
}

/// Syncs one file, or the names in one directory.
pub(super) fn sync_file(path: &Path) -> Result<(), Error> {
    let synced = File::open(path).and_then(|file| file.sync_all());
    synced.map_err(Error::file(path))
}
