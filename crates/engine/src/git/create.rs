//! Creates a repository with one commit, and asks git for its version.

use std::path::Path;

use super::command::GitCommand;
use super::{CommitIdentity, Error, GitProgram};

impl GitProgram {
    /// Returns the version line, such as `git version 2.47.3`.
    pub async fn version(&self) -> Result<String, Error> {
        GitCommand::new(self, Path::new("/"))
            .args(["version"])
            .text()
            .await
    }

    /// Makes `dir` a repository with one commit on `branch` that contains all its files, if there
    /// are any.
    pub async fn create_repository(
        &self,
        dir: &Path,
        branch: &str,
        identity: &CommitIdentity,
        message: &str,
    ) -> Result<(), Error> {
        let git = || GitCommand::new(self, dir).durable().identity(identity);
        let init = ["init", "--quiet", "--template=", "--initial-branch", branch];
        git().args(init).run().await?;
        git().args(["add", "--all"]).run().await?;
        git()
            .args(["commit", "--quiet", "--allow-empty", "--message", message])
            .run()
            .await
    }
}
