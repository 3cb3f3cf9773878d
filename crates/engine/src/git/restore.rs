//! Bringing a worktree back to a commit, without losing what was in it.

use std::fs;

use super::{Error, Oid, Repository, Worktree};
use crate::log::removed;

/// What a git operation that was not finished leaves in the git directory.
const UNFINISHED: &[&str] = &["rebase-merge", "rebase-apply", "sequencer"];

impl Repository {
    /// Saves under `keep` what [`Repository::put_back`] would drop, commits and files, and changes
    /// nothing in the worktree. False if it is as it should be already.
    pub async fn set_aside(
        &self,
        worktree: &Worktree,
        commit: &Oid,
        keep: &str,
    ) -> Result<bool, Error> {
        let place = worktree.place()?;
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

    /// Puts the worktree on its branch at `commit`, with no changes and no untracked files; what
    /// git ignores stays.
    pub async fn put_back(&self, worktree: &Worktree, commit: &Oid) -> Result<(), Error> {
        let place = worktree.place()?;
        for left in UNFINISHED {
            let path = place.git_dir.join(left);
            removed(&path, fs::remove_dir_all(&path));
        }
        let branch = format!("refs/heads/{}", worktree.branch);
        let git = || self.git_at(&place);
        let head = fs::read_to_string(place.git_dir.join("HEAD"));
        if !head.is_ok_and(|text| text == format!("ref: {branch}\n")) {
            git().args(["symbolic-ref", "HEAD", &branch]).done().await?;
        }
        git()
            .args(["reset", "--hard", "--quiet", commit.as_str()])
            .done()
            .await?;
        git()
            .args(["clean", "-d", "--force", "--quiet"])
            .done()
            .await
    }
}
