//! Resets a worktree to a commit without losing its changes.

use std::fs;

use super::{Error, Oid, Repository, Worktree};
use crate::log::removed;

/// Directories that an unfinished git operation leaves in the git directory.
const UNFINISHED: &[&str] = &["rebase-merge", "rebase-apply", "sequencer"];

impl Repository {
    /// Saves under `keep` the commits and files that [`Repository::reset_worktree`] would drop, and
    /// changes nothing in the worktree. Returns false if there is nothing to drop.
    pub async fn save_worktree_state(
        &self,
        worktree: &Worktree,
        commit: &Oid,
        keep: &str,
    ) -> Result<bool, Error> {
        let place = worktree.work_tree_dirs()?;
        let head = self.head_at(&place).await?;
        let clean = self.save_leftovers(worktree, keep).await?.is_none();
        let at_rest = head.branch.as_deref() == Some(&worktree.branch) && &head.commit == commit;
        if clean && at_rest {
            return Ok(false);
        }
        if clean && &head.commit != commit && !self.is_ancestor(&head.commit, commit).await? {
            self.keep_ref(keep, &head.commit, None).await?;
        }
        Ok(true)
    }

    /// Resets the worktree to its branch at `commit`, without changes and untracked files; ignored
    /// files stay.
    pub async fn reset_worktree(&self, worktree: &Worktree, commit: &Oid) -> Result<(), Error> {
        let place = worktree.work_tree_dirs()?;
        for name in UNFINISHED {
            let path = place.git_dir.join(name);
            removed(&path, fs::remove_dir_all(&path));
        }
        let branch = format!("refs/heads/{}", worktree.branch);
        let git = || self.git_at(&place);
        let head = fs::read_to_string(place.git_dir.join("HEAD"));
        if !head.is_ok_and(|text| text == format!("ref: {branch}\n")) {
            git().args(["symbolic-ref", "HEAD", &branch]).run().await?;
        }
        git()
            .args(["reset", "--hard", "--quiet", commit.as_str()])
            .run()
            .await?;
        git()
            .args(["clean", "-d", "--force", "--quiet"])
            .run()
            .await
    }
}
