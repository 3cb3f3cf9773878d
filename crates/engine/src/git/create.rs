//! A new repository with one commit, and what git itself says it is.

use std::path::Path;

use super::run::GitCommand;
use super::{CommitIdentity, Error, GitProgram};

impl GitProgram {
    /// `git version 2.47.3`.
    pub async fn version(&self) -> Result<String, Error> {
        GitCommand::new(self, Path::new("/"))
            .args(["version"])
            .text()
            .await
    }

    /// Makes `dir` a repository whose branch `branch` has all its files, if there are any, in one commit.
    pub async fn create(
        &self,
        dir: &Path,
        branch: &str,
        identity: &CommitIdentity,
        message: &str,
    ) -> Result<(), Error> {
        let git = || GitCommand::new(self, dir).durable().by(identity);
        let init = ["init", "--quiet", "--template=", "--initial-branch", branch];
        git().args(init).done().await?;
        git().args(["add", "--all"]).done().await?;
        git()
            .args(["commit", "--quiet", "--allow-empty", "--message", message])
            .done()
            .await
    }
}
