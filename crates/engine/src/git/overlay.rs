//! Takes commits that were made in a layer over our git directory, like a fetch: only objects that
//! the branch needs, checked on the way, and the branch only from its known commit.

use std::fs;
use std::io;
use std::path::Path;

use super::remove::remove_tree;
use super::{Error, Oid, Repository, Worktree};

/// Maximum size of a ref file: an object name and a line end.
const REF_BYTES_MAX: u64 = 200;

impl Repository {
    /// Moves the branch of the worktree to its commit in the layer, if there is one. The files of
    /// the worktree are left alone.
    pub async fn import_from_overlay(
        &self,
        worktree: &Worktree,
        layer: &Path,
    ) -> Result<Option<Oid>, Error> {
        let name = format!("refs/heads/{}", worktree.branch);
        let Some(new) = read_ref(&layer.join(&name)) else {
            return Ok(None);
        };
        let Some(old) = self.branch_tip(&worktree.branch).await? else {
            return Ok(None);
        };
        if new == old {
            return Ok(None);
        }
        let objects = layer.join("objects");
        ensure_only_plain_files(&objects).map_err(Error::file(&objects))?;
        self.take_objects(&new, &old, layer).await?;
        let args = ["update-ref", "-m", "countersign: the builder's commits"];
        self.git()
            .args(args)
            .args([&name, new.as_str(), old.as_str()])
            .run()
            .await?;
        let place = worktree.work_tree_dirs()?;
        self.git_at(&place)
            .args(["read-tree", "HEAD"])
            .run()
            .await?;
        Ok(Some(new))
    }
}

/// Reads a ref file of the layer. The builder wrote it, so links and large files are refused.
fn read_ref(file: &Path) -> Option<Oid> {
    let meta = fs::symlink_metadata(file).ok()?;
    if !meta.is_file() || meta.len() > REF_BYTES_MAX {
        return None;
    }
    Oid::parse(fs::read_to_string(file).ok()?.trim())
}

/// Removes everything but files and directories: git would follow links for us.
fn ensure_only_plain_files(dir: &Path) -> io::Result<()> {
    let meta = match fs::symlink_metadata(dir) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !meta.is_dir() {
        return fs::remove_file(dir);
    }
    remove_tree(&dir.join("info"))?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            ensure_only_plain_files(&entry.path())?;
        } else if !kind.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
