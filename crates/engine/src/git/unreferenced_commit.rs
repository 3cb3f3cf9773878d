//! Makes commits without a ref from the index, the work tree or a patch. They are built in an index
//! of the caller; the user's own index and files are only read.

use std::fs;
use std::path::Path;

use super::commit::LargeFilePolicy;
use super::{CommitIdentity, Error, Oid, Repository, WorkTreeDirs};

impl Repository {
    /// Commits the staged changes on HEAD. `index` is a file that may be created and overwritten.
    pub async fn commit_staged(&self, index: &Path) -> Result<Oid, Error> {
        let place = self.own_work_tree_dirs()?;
        self.copy_index(place, index).await?;
        let tree = self.write_tree(place, index).await?;
        self.commit_on_head(&tree, "What is staged").await
    }

    /// Commits the current work tree on HEAD, with untracked but without ignored files.
    pub async fn commit_work_tree(&self, index: &Path) -> Result<Oid, Error> {
        let place = self.own_work_tree_dirs()?;
        self.refuse_commands(Some(place)).await?;
        self.copy_index(place, index).await?;
        let snapshot = self
            .snapshot_from(place, index.to_owned(), &mut LargeFilePolicy::Refuse)
            .await?;
        self.commit_on_head(&snapshot.tree, "The work tree as it lies")
            .await
    }

    /// Commits the patch on top of `base`.
    pub async fn commit_patch(
        &self,
        base: &Oid,
        patch: Vec<u8>,
        index: &Path,
    ) -> Result<Oid, Error> {
        let git = || self.git().index(index);
        git().args(["read-tree", base.as_str()]).run().await?;
        let apply = ["apply", "--cached", "--whitespace=nowarn", "-"];
        let applied = git().args(apply).stdin(patch).run().await;
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

    /// Returns the first parent, or an empty commit for a root commit.
    pub async fn parent_or_empty(&self, commit: &Oid) -> Result<Oid, Error> {
        match self.resolve(&format!("{commit}^1")).await {
            Err(Error::UnknownRevision { .. }) => {}
            parent => return parent,
        }
        let empty_tree = self.git().args(["mktree"]).stdin("").oid().await?;
        self.commit_tree(&empty_tree, &[], &CommitIdentity::countersign(), "Nothing")
            .await
    }

    fn own_work_tree_dirs(&self) -> Result<&WorkTreeDirs, Error> {
        let bare = || Error::NotARepository(self.common.clone());
        self.own.as_ref().ok_or_else(bare)
    }

    async fn copy_index(&self, place: &WorkTreeDirs, index: &Path) -> Result<(), Error> {
        let user_index = place.git_dir.join("index");
        if user_index.exists() {
            return fs::copy(&user_index, index)
                .map(drop)
                .map_err(Error::file(&user_index));
        }
        let empty = self.git_at(place).index(index);
        empty.args(["read-tree", "--empty"]).run().await
    }

    async fn commit_on_head(&self, tree: &Oid, message: &str) -> Result<Oid, Error> {
        let head = self.resolve("HEAD").await?;
        self.commit_tree(tree, &[&head], &CommitIdentity::countersign(), message)
            .await
    }
}
