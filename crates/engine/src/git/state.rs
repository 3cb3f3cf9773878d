//! What state a work tree is in, and making what was written last.

use std::fs::File;
use std::path::Path;

use super::{Error, Oid, Repository, WorkTreeDirs, Worktree};

/// Where a work tree stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkTreeHead {
    /// None when it is detached.
    pub branch: Option<String>,
    pub commit: Oid,
}

/// Files that git keeps while an operation waits to be finished.
const UNFINISHED: &[(&str, &str)] = &[
    ("MERGE_HEAD", "merge"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
];

impl Repository {
    /// What differs from HEAD in the person's own work tree, untracked files
    /// included; empty for a bare repository.
    pub async fn dirty(&self) -> Result<Vec<String>, Error> {
        match &self.own {
            Some(own) => self.dirty_at(own).await,
            None => Ok(Vec::new()),
        }
    }

    /// The same without files that git does not know.
    pub async fn changed(&self) -> Result<Vec<String>, Error> {
        match &self.own {
            Some(own) => self.changed_at(own).await,
            None => Ok(Vec::new()),
        }
    }

    /// The branch that the person's own work tree is on, if it is on one.
    pub async fn own_branch(&self) -> Result<Option<String>, Error> {
        match &self.own {
            Some(own) => Ok(self.head_at(own).await?.branch),
            None => Ok(None),
        }
    }

    pub async fn dirty_in(&self, worktree: &Worktree) -> Result<Vec<String>, Error> {
        self.dirty_at(&worktree.place()?).await
    }

    /// Whether a directory of that name would be no part of a commit.
    pub async fn ignores(&self, worktree: &Worktree, path: &Path) -> Result<bool, Error> {
        let mut name = path.as_os_str().to_owned();
        name.push("/");
        let said = self
            .git_at(&worktree.place()?)
            .args(["check-ignore", "--quiet", "--"])
            .args([name])
            .answers(&[1])
            .said()
            .await?;
        Ok(said.code == 0)
    }

    /// `merge`, `rebase`, … if one waits to be finished in the person's work tree.
    pub fn unfinished(&self) -> Option<&'static str> {
        unfinished_in(&self.own.as_ref()?.git_dir)
    }

    pub fn unfinished_in(&self, worktree: &Worktree) -> Option<&'static str> {
        unfinished_in(&worktree.git_dir)
    }

    pub async fn head_of(&self, worktree: &Worktree) -> Result<WorkTreeHead, Error> {
        self.head_at(&worktree.place()?).await
    }

    /// Everything written so far is on the disk. To be called before a result is
    /// recorded: git's own fsync settings lose refs at a power cut.
    pub async fn sync(&self) -> Result<(), Error> {
        sync(&self.common).await
    }

    pub(super) async fn head_at(&self, place: &WorkTreeDirs) -> Result<WorkTreeHead, Error> {
        let both = ["rev-parse", "HEAD^{commit}", "--symbolic-full-name", "HEAD"];
        let said = self.git_at(place).args(both).text().await?;
        let (commit, full) = said.split_once('\n').unwrap_or((&said, ""));
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

    /// What differs from HEAD among the files that git knows: new ones are nobody's change.
    pub(super) async fn changed_at(&self, place: &WorkTreeDirs) -> Result<Vec<String>, Error> {
        let entries = self.status_at(place).await?.into_iter();
        Ok(entries
            .filter(|(_, new)| !new)
            .map(|(path, _)| path)
            .collect())
    }

    /// Every path that differs from HEAD, and whether git does not know it.
    ///
    /// Submodules are compared by commit only: looking inside one would run git
    /// there, with whatever configuration it has.
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

/// One file, or the names in one directory.
pub(super) fn sync_file(path: &Path) -> Result<(), Error> {
    let synced = File::open(path).and_then(|file| file.sync_all());
    synced.map_err(Error::file(path))
}
