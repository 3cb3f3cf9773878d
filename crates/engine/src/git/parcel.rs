//! Objects as bytes, for repositories that reach each other by no other way. What arrives is objects and
//! nothing else: git checks every one by its hash, and that nothing is missing below the commit.

use std::fs;
use std::path::Path;

use super::lock::RepositoryLock;
use super::run::GitCommand;
use super::{Error, GitProgram, Oid, Repository};

impl Repository {
    /// The commit with all that it needs beyond `have`; none where that is more than `bytes_max`.
    pub async fn pack(
        &self,
        commit: &Oid,
        have: Option<&Oid>,
        bytes_max: usize,
        aside: &Path,
    ) -> Result<Option<Vec<u8>>, Error> {
        let have = have.map(|have| format!("^{have}\n")).unwrap_or_default();
        let args = ["pack-objects", "--revs", "--stdout", "-q"];
        let run = self.git().args(args).stdin(format!("{commit}\n{have}"));
        run.stdout_to(aside).done().await?;
        let size = fs::metadata(aside).map_err(Error::file(aside))?.len();
        let fits = usize::try_from(size).is_ok_and(|size| size <= bytes_max);
        let bytes = fits.then(|| fs::read(aside)).transpose();
        let bytes = bytes.map_err(Error::file(aside))?;
        fs::remove_file(aside).map_err(Error::file(aside))?;
        Ok(bytes)
    }

    /// Takes objects in, and points a ref of ours at the commit that they are for. Several may bring the
    /// same: one does, and the others find it.
    pub async fn unpack(&self, bytes: Vec<u8>, commit: &Oid, name: &str) -> Result<(), Error> {
        let _lock = RepositoryLock::take(&self.common.join("countersign-parcels.lock")).await?;
        if self.read_ref(name).await?.as_ref() == Some(commit) {
            return Ok(());
        }
        let args = ["index-pack", "--stdin", "--strict", "--fix-thin"];
        self.git().args(args).stdin(bytes).done().await?;
        let whole = [
            "rev-list",
            "--objects",
            "--quiet",
            commit.as_str(),
            "--not",
            "--all",
            "--",
        ];
        self.git().args(whole).done().await?;
        let now = self.read_ref(name).await?;
        self.share_ref(name, commit, now.as_ref()).await?;
        Ok(())
    }
}

impl GitProgram {
    /// An empty bare repository at `dir`, unless there is one.
    pub async fn empty(&self, branch: &str, dir: &Path) -> Result<(), Error> {
        if dir.join("HEAD").exists() {
            return Ok(());
        }
        crate::private::make_dir(dir).map_err(Error::file(dir))?;
        let init = [
            "init",
            "--quiet",
            "--bare",
            "--template=",
            "--initial-branch",
        ];
        let run = GitCommand::new(self, dir).durable();
        run.args(init).args([branch]).done().await
    }

    /// As a repository that may have no commit yet.
    pub fn at(&self, dir: &Path) -> Repository {
        Repository {
            tool: self.clone(),
            common: dir.to_owned(),
            apart: None,
            own: None,
            facts: std::sync::Arc::default(),
        }
    }
}
