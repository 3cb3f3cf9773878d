//! The history below the base, in an object store of its own.
//!
//! Throw-away checkouts borrow from it. They could borrow from the repository
//! itself, but then every object of earlier rounds, messages included, would be
//! one command away from a reviewer who must not know them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::lock::Lock;
use super::run::Run;
use super::{Error, Oid, Repository};

/// How many bases are named to git as "already there".
const BASES_MAX: usize = 50;

impl Repository {
    /// Brings the commit and all its ancestors into the mirror.
    pub(super) async fn mirror(&self, dir: &Path, base: &Oid) -> Result<(), Error> {
        let parent = dir.parent().unwrap_or(Path::new("/"));
        crate::private::make_dir(parent).map_err(Error::file(parent))?;
        let _lock = Lock::take(&dir.with_extension("lock")).await?;
        let list = dir.join("bases");
        let known = fs::read_to_string(&list).unwrap_or_default();
        let mut known: Vec<String> = known.lines().map(str::to_owned).collect();
        if known.iter().any(|oid| oid == base.as_str()) {
            return Ok(());
        }
        if known.is_empty() {
            // Nobody borrows from it yet; a git that was killed may have left it half made.
            start_anew(dir)?;
            self.init(dir, &["--bare"]).await?;
        }
        let haves = self.still_here(&known).await?;
        self.transfer(base, &haves, dir).await?;
        known.insert(0, base.to_string());
        known.truncate(BASES_MAX);
        let half = dir.join("bases.half");
        fs::write(&half, known.join("\n")).map_err(Error::file(&half))?;
        fs::rename(&half, &list).map_err(Error::file(&list))
    }

    /// Copies what `want` needs beyond `haves` into another object store.
    pub(super) async fn transfer(
        &self,
        want: &Oid,
        haves: &[Oid],
        git_dir: &Path,
    ) -> Result<(), Error> {
        // Libraries that read git's files themselves look for packs by this name.
        let pack = git_dir.join(format!("objects/pack/pack-{}.pack", want.as_str()));
        let haves: String = haves
            .iter()
            .flat_map(|have| ["^", have.as_str(), "\n"])
            .collect();
        let revs = format!("{want}\n{haves}");
        let args = [
            "pack-objects",
            "--revs",
            "--stdout",
            "--delta-base-offset",
            "-q",
        ];
        self.git()
            .args(args)
            .stdin(revs)
            .stdout_to(&pack)
            .done()
            .await?;
        let index = Run::new(&self.tool, git_dir).with_git_dir(git_dir);
        index.args(["index-pack"]).args([&pack]).done().await
    }

    /// An empty repository without templates, hooks or anybody's settings.
    pub(super) async fn init(&self, dir: &Path, options: &[&str]) -> Result<(), Error> {
        crate::private::make_dir(dir).map_err(Error::file(dir))?;
        let format = self.fact(&["rev-parse", "--show-object-format"]).await?;
        let format = format!("--object-format={format}");
        let init = Run::new(&self.tool, dir).args(["init", "--quiet", "--template=", &format]);
        init.args(options).done().await
    }

    async fn still_here(&self, oids: &[String]) -> Result<Vec<Oid>, Error> {
        let run = self
            .git()
            .args(["cat-file", "--batch-check=%(objectname) %(objecttype)"]);
        let listed = run.stdin(oids.join("\n") + "\n").text().await?;
        let commits = listed
            .lines()
            .filter_map(|line| line.strip_suffix(" commit"));
        Ok(commits.filter_map(Oid::parse).collect())
    }
}

fn start_anew(dir: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file(dir)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Lets one object store borrow from another.
pub(super) fn borrow_from(mirror: &Path, git_dir: &Path) -> Result<(), Error> {
    let file: PathBuf = git_dir.join("objects/info/alternates");
    let dir = git_dir.join("objects/info");
    let objects = fs::canonicalize(mirror.join("objects")).map_err(Error::file(mirror))?;
    fs::create_dir_all(&dir).map_err(Error::file(&dir))?;
    fs::write(&file, format!("{}\n", objects.display())).map_err(Error::file(&file))
}
