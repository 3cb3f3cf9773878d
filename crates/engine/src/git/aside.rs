//! Commits that no ref points to, made of what lies beside history: the index, the work tree, a
//! patch. Everything is put together in an index of the caller's; the person's own index and files
//! are only read.

use std::fs;
use std::path::Path;

use super::commit::LargeFilePolicy;
use super::{CommitIdentity, Error, Oid, Repository, WorkTreeDirs};

impl Repository {
    /// What is staged, as a commit on HEAD. `index` is a file that may be made and overwritten.
    pub async fn staged(&self, index: &Path) -> Result<Oid, Error> {
        let place = self.own_place()?;
        self.copy_index(place, index).await?;
        let tree = self.write_tree(place, index).await?;
        self.on_head(&tree, "What is staged").await
    }

    /// The work tree as it lies, untracked files included and ignored ones not, as a commit on HEAD.
    pub async fn as_it_lies(&self, index: &Path) -> Result<Oid, Error> {
        let place = self.own_place()?;
        self.refuse_commands(Some(place)).await?;
        self.copy_index(place, index).await?;
        let snapshot = self
            .snapshot_from(place, index.to_owned(), &mut LargeFilePolicy::Refuse)
            .await?;
        self.on_head(&snapshot.tree, "The work tree as it lies")
            .await
    }

    /// The patch put on top of `base`.
    pub async fn patched(&self, base: &Oid, patch: Vec<u8>, index: &Path) -> Result<Oid, Error> {
        let git = || self.git().index(index);
        git().args(["read-tree", base.as_str()]).done().await?;
        let apply = ["apply", "--cached", "--whitespace=nowarn", "-"];
        let applied = git().args(apply).stdin(patch).done().await;
        applied.map_err(|error| match error {
            Error::Failed { detail, .. } => Error::DoesNotApply {
                base: base.short().to_owned(),
                detail,
            },
            other => other,
        })?;
        let tree = git().args(["write-tree"]).oid().await?;
        self.commit_tree(&tree, &[base], &CommitIdentity::countersign(), "The patch")
            .await
    }

    /// The first parent; for a commit that has none, an empty commit.
    pub async fn before(&self, commit: &Oid) -> Result<Oid, Error> {
        match self.resolve(&format!("{commit}^1")).await {
            Err(Error::UnknownRevision { .. }) => {}
            found => return found,
        }
        let nothing = self.git().args(["mktree"]).stdin("").oid().await?;
        self.commit_tree(&nothing, &[], &CommitIdentity::countersign(), "Nothing")
            .await
    }

    fn own_place(&self) -> Result<&WorkTreeDirs, Error> {
        let bare = || Error::NotARepository(self.common.clone());
        self.own.as_ref().ok_or_else(bare)
    }

    async fn copy_index(&self, place: &WorkTreeDirs, index: &Path) -> Result<(), Error> {
        let theirs = place.git_dir.join("index");
        if theirs.exists() {
            return fs::copy(&theirs, index)
                .map(drop)
                .map_err(Error::file(&theirs));
        }
        let empty = self.git_at(place).index(index);
        empty.args(["read-tree", "--empty"]).done().await
    }

    async fn on_head(&self, tree: &Oid, message: &str) -> Result<Oid, Error> {
        let head = self.resolve("HEAD").await?;
        self.commit_tree(tree, &[&head], &CommitIdentity::countersign(), message)
            .await
    }
}
