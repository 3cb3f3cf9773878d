//! The history below the base, in an object store of its own.
//!
//! Throw-away checkouts borrow from it. They could borrow from the repository
//! itself, but then every object of earlier rounds, messages included, would be
//! one command away from a reviewer who must not know them.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::landing::write_durably;
use super::lock::RepositoryLock;
use super::run::GitCommand;
use super::state::sync;
use super::{Error, Oid, Repository};

/// How many bases are named to git as "already there".
const BASES_MAX: usize = 50;

impl Repository {
    /// Brings the commit and all its ancestors into the mirror.
    pub(super) async fn mirror(&self, dir: &Path, base: &Oid) -> Result<(), Error> {
        let parent = dir.parent().unwrap_or(Path::new("/"));
        crate::private::make_dir(parent).map_err(Error::file(parent))?;
        let _lock = RepositoryLock::take(&dir.with_extension("lock")).await?;
        let list = dir.join("bases");
        let known = fs::read_to_string(&list).unwrap_or_default();
        let mut known: Vec<String> = known.lines().map(str::to_owned).collect();
        if !is_whole(dir, base.as_str().len() / 2) {
            // Cut off by a power failure, or by a full disk: all of it can be had again.
            known.clear();
        }
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
        // Objects are on disk before anybody is told that they are there.
        sync(dir).await?;
        write_durably(&list, known.join("\n").as_bytes())
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
        let index = GitCommand::new(&self.tool, git_dir).with_git_dir(git_dir);
        index.args(["index-pack"]).args([&pack]).done().await
    }

    /// An empty repository without templates, hooks or anybody's settings.
    pub(super) async fn init(&self, dir: &Path, options: &[&str]) -> Result<(), Error> {
        crate::private::make_dir(dir).map_err(Error::file(dir))?;
        let format = self.fact(&["rev-parse", "--show-object-format"]).await?;
        let format = format!("--object-format={format}");
        let init =
            GitCommand::new(&self.tool, dir).args(["init", "--quiet", "--template=", &format]);
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

/// Whether every pack ends with the checksum that its index has for it, and git's own files are not
/// empty. This reads a few bytes of each file: it finds what was cut short, not what was altered.
fn is_whole(dir: &Path, hash_bytes: usize) -> bool {
    let holds_something =
        |name: &str| fs::metadata(dir.join(name)).is_ok_and(|meta| meta.len() > 0);
    let Ok(packs) = fs::read_dir(dir.join("objects/pack")) else {
        return false;
    };
    let mut packs = packs
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "idx"));
    let pack_is_whole = |index: PathBuf| {
        let pack = last_bytes(&index.with_extension("pack"), hash_bytes);
        let known = last_bytes(&index, 2 * hash_bytes);
        match (pack, known) {
            (Some(pack), Some(known)) => pack[..] == known[..hash_bytes],
            _ => false,
        }
    };
    holds_something("HEAD") && holds_something("config") && packs.all(pack_is_whole)
}

/// None where there are not as many.
fn last_bytes(path: &Path, count: usize) -> Option<Vec<u8>> {
    let mut file = fs::File::open(path).ok()?;
    file.seek(SeekFrom::End(-i64::try_from(count).ok()?)).ok()?;
    let mut bytes = vec![0; count];
    file.read_exact(&mut bytes).ok()?;
    Some(bytes)
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
