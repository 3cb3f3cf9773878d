//! Git bundles for repositories that have no other connection. A bundle contains objects only: git
//! checks each one by its hash, and that nothing is missing below the commit.
//!
//! It refuses a bundle above a size, and one whose history is incomplete: a ref to it would break
//! every later fetch.

use std::fs;
use std::path::Path;

use super::command::GitCommand;
use super::lock::RepositoryLock;
use super::{Error, GitProgram, Oid, Repository};

impl Repository {
    /// Packs the commit with everything it needs beyond `have`. Returns `None` if that is larger
    /// than `bytes_max`.
    pub async fn pack_commit(
        &self,
        commit: &Oid,
        have: Option<&Oid>,
        bytes_max: usize,
        temp_file: &Path,
    ) -> Result<Option<Vec<u8>>, Error> {
        let have = have.map(|have| format!("^{have}\n")).unwrap_or_default();
        let args = ["pack-objects", "--revs", "--stdout", "-q"];
        let run = self.git().args(args).stdin(format!("{commit}\n{have}"));
        // Through a file: a bundle may be larger than what we would hold in memory.
        run.stdout_to(temp_file).run().await?;
        let size = fs::metadata(temp_file)
            .map_err(Error::file(temp_file))?
            .len();
        let fits = usize::try_from(size).is_ok_and(|size| size <= bytes_max);
        let bytes = fits.then(|| fs::read(temp_file)).transpose();
        let bytes = bytes.map_err(Error::file(temp_file))?;
        fs::remove_file(temp_file).map_err(Error::file(temp_file))?;
        Ok(bytes)
    }

    /// Unpacks objects, and points a ref of ours at their commit. Several processes may do this at
    /// once: one unpacks, and the others find the result.
    pub async fn unpack_commit(
        &self,
        bytes: Vec<u8>,
        commit: &Oid,
        name: &str,
    ) -> Result<(), Error> {
        let _lock = RepositoryLock::take(&self.common.join("countersign-bundles.lock")).await?;
        // Another process was faster while we waited for the lock.
        if self.read_ref(name).await?.as_ref() == Some(commit) {
            return Ok(());
        }
        // `--strict` refuses crafted objects, and `--fix-thin` completes deltas against objects
        // that we have.
        let args = ["index-pack", "--stdin", "--strict", "--fix-thin"];
        self.git().args(args).stdin(bytes).run().await?;
        let complete = [
            "rev-list",
            "--objects",
            "--quiet",
            commit.as_str(),
            "--not",
            "--all",
            "--",
        ];
        // A pack can be sound and still lack a parent commit; this walk fails on it.
        self.git().args(complete).run().await?;
        // The value is read now, because the ref may have been set by an earlier round.
        let now = self.read_ref(name).await?;
        self.share_ref(name, commit, now.as_ref()).await?;
        Ok(())
    }
}

impl GitProgram {
    /// Creates an empty bare repository at `dir`, unless there is one. Replicas of a worker that
    /// start together ask for the same one: the first creates it, and the others wait for it.
    pub async fn ensure_empty_repository(&self, branch: &str, dir: &Path) -> Result<(), Error> {
        // The usual case, without a lock.
        if dir.join("HEAD").exists() {
            return Ok(());
        }
        let parent = dir.parent().unwrap_or(Path::new("/"));
        crate::private_files::make_dir(parent).map_err(Error::file(parent))?;
        let _lock = RepositoryLock::take(&dir.with_extension("lock")).await?;
        if dir.join("HEAD").exists() {
            return Ok(());
        }
        // Renamed when it is whole: git writes `HEAD` before it is done, and may be killed.
        let part = dir.with_extension("part");
        super::remove_tree(&part).map_err(Error::file(&part))?;
        self.create_bare(branch, &part).await?;
        super::remove_tree(dir).map_err(Error::file(dir))?;
        fs::rename(&part, dir).map_err(Error::file(dir))
    }

    /// Creates an empty bare repository. The caller holds the lock of `dir`.
    pub(super) async fn create_bare(&self, branch: &str, dir: &Path) -> Result<(), Error> {
        crate::private_files::make_dir(dir).map_err(Error::file(dir))?;
        let init = [
            "init",
            "--quiet",
            "--bare",
            "--template=",
            "--initial-branch",
        ];
        let run = GitCommand::new(self, dir).durable();
        run.args(init).args([branch]).run().await
    }

    /// Opens a repository that may have no commit yet.
    pub fn repository_at(&self, dir: &Path) -> Repository {
        Repository {
            tool: self.clone(),
            common: dir.to_owned(),
            quarantine_objects: None,
            own: None,
            facts: std::sync::Arc::default(),
        }
    }
}
