//! The history below the base, in a separate object store.
//!
//! Throw-away checkouts borrow from it. They could borrow from the repository itself, but then
//! every object of earlier rounds, including messages, would be one command away from a reviewer
//! that must not know them.
//!
//! It only grows, and can be thrown away at any time: everything in it is in the repository.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::command::GitCommand;
use super::landing::write_durably;
use super::lock::RepositoryLock;
use super::state::sync;
use super::{Error, Oid, Repository};

/// Maximum number of bases that are passed to git as already present. Git compares against each of
/// them, and the newest ones share nearly all history.
const BASES_MAX: usize = 50;

impl Repository {
    /// Copies the commit and all its ancestors to the mirror.
    pub(super) async fn update_mirror(&self, dir: &Path, base: &Oid) -> Result<(), Error> {
        let parent = dir.parent().unwrap_or(Path::new("/"));
        crate::private_files::make_dir(parent).map_err(Error::file(parent))?;
        // Two checkouts of one repository may ask for different bases at the same time.
        let _lock = RepositoryLock::take(&dir.with_extension("lock")).await?;
        let list = dir.join("bases");
        let bases = fs::read_to_string(&list).unwrap_or_default();
        let mut bases: Vec<String> = bases.lines().map(str::to_owned).collect();
        if !is_whole(dir, base.as_str().len() / 2) {
            // The mirror was cut short by a power failure or a full disk: everything can be copied
            // again.
            bases.clear();
        }
        // The usual case: the base has not moved since the last checkout.
        if bases.iter().any(|oid| oid == base.as_str()) {
            return Ok(());
        }
        if bases.is_empty() {
            // Nothing borrows from it yet; a killed git may have left it half done.
            reset_mirror(dir)?;
            self.init(dir, &["--bare"]).await?;
        }
        // A base may have vanished from the repository, for example after a forced push.
        let haves = self.existing_oids(&bases).await?;
        self.copy_objects(base, &haves, dir).await?;
        bases.insert(0, base.to_string());
        bases.truncate(BASES_MAX);
        // Sync the objects to disk before the list says that they exist.
        sync(dir).await?;
        write_durably(&list, bases.join("\n").as_bytes())
    }

    /// Copies the objects that `want` needs beyond `haves` to another object store.
    pub(super) async fn copy_objects(
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
            .run()
            .await?;
        // The index is made in the target, so that git looks for bases of deltas there.
        let index = GitCommand::new(&self.tool, git_dir).with_git_dir(git_dir);
        index.args(["index-pack"]).args([&pack]).run().await
    }

    /// Creates an empty repository without templates, hooks or settings.
    pub(super) async fn init(&self, dir: &Path, options: &[&str]) -> Result<(), Error> {
        crate::private_files::make_dir(dir).map_err(Error::file(dir))?;
        let format = self
            .cached_answer(&["rev-parse", "--show-object-format"])
            .await?;
        // Object ids of different formats cannot be mixed in one store.
        let format = format!("--object-format={format}");
        let init =
            GitCommand::new(&self.tool, dir).args(["init", "--quiet", "--template=", &format]);
        init.args(options).run().await
    }

    async fn existing_oids(&self, oids: &[String]) -> Result<Vec<Oid>, Error> {
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

/// Returns whether every pack ends with the checksum in its index, and git's own files are not
/// empty. This reads a few bytes of each file: it finds truncated files, not altered ones.
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
        let recorded = last_bytes(&index, 2 * hash_bytes);
        match (pack, recorded) {
            (Some(pack), Some(recorded)) => pack[..] == recorded[..hash_bytes],
            _ => false,
        }
    };
    // A power cut leaves empty files rather than wrong ones.
    holds_something("HEAD") && holds_something("config") && packs.all(pack_is_whole)
}

/// Returns the last bytes of a file; `None` if it is shorter.
fn last_bytes(path: &Path, count: usize) -> Option<Vec<u8>> {
    let mut file = fs::File::open(path).ok()?;
    file.seek(SeekFrom::End(-i64::try_from(count).ok()?)).ok()?;
    let mut bytes = vec![0; count];
    file.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

fn reset_mirror(dir: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file(dir)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Lets one object store borrow from another.
pub(super) fn borrow_from(mirror: &Path, git_dir: &Path) -> Result<(), Error> {
    let file: PathBuf = git_dir.join("objects/info/alternates");
    let dir = git_dir.join("objects/info");
    // The path is stored and read from another directory, so it must be absolute.
    let objects = fs::canonicalize(mirror.join("objects")).map_err(Error::file(mirror))?;
    fs::create_dir_all(&dir).map_err(Error::file(&dir))?;
    fs::write(&file, format!("{}\n", objects.display())).map_err(Error::file(&file))
}
