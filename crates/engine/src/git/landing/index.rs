//! The user's index: locked as git locks it, built next to it, and replaced in one step.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::super::commit::copy_index;
use super::super::remove::remove_tree;
use super::super::stale_locks::remove_file;
use super::super::{Error, Oid, Repository, WorkTreeDirs};
use super::{STAGE, WorkTreePlan};

/// Content of our lock file. A lock of git contains an index, or nothing.
const MARK: &str = "countersign is landing a change\n";
/// First pause between two attempts to lock. It doubles up to the last one.
const FIRST_LOOK: Duration = Duration::from_millis(4);
const LAST_LOOK: Duration = Duration::from_millis(100);

/// Files that a landing keeps for one git directory.
#[derive(Debug)]
pub(super) struct IndexFiles {
    /// Directory of ours for the other files.
    dir: PathBuf,
    index: PathBuf,
    lock: PathBuf,
    mark: PathBuf,
    /// New index while it is built, then a second name of it.
    pub next: PathBuf,
    made: PathBuf,
    /// User's index, until the branch has moved.
    before: PathBuf,
}

impl IndexFiles {
    pub fn in_git_dir(git_dir: &Path) -> Self {
        let dir = git_dir.join(STAGE).join("index");
        Self {
            index: git_dir.join("index"),
            lock: git_dir.join("index.lock"),
            mark: dir.join("lock"),
            next: dir.join("next"),
            made: dir.join("made"),
            before: dir.join("before"),
            dir,
        }
    }

    pub fn start_empty(&self) -> Result<(), Error> {
        remove_tree(&self.dir).map_err(Error::file(&self.dir))?;
        fs::create_dir_all(&self.dir).map_err(Error::file(&self.dir))
    }

    /// Takes git's own lock on the index as soon as it is free.
    pub async fn lock(&self, timeout: Duration) -> Result<(), Error> {
        fs::create_dir_all(&self.dir).map_err(Error::file(&self.dir))?;
        fs::write(&self.mark, MARK).map_err(Error::file(&self.mark))?;
        let until = Instant::now() + timeout;
        let mut pause = FIRST_LOOK;
        loop {
            // A hard link exists with its content or not at all, so a kill never leaves a lock of
            // unknown origin.
            let locked = match fs::hard_link(&self.mark, &self.lock) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    create_lock_file(&self.lock).map_err(|_| error)
                }
                linked => linked,
            };
            match locked {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::file(&self.lock)(error));
                }
                Err(_) if self.is_ours() => return Ok(()),
                Err(_) if Instant::now() > until => {
                    return Err(Error::IndexLocked(self.lock.clone()));
                }
                Err(_) => sleep(pause).await,
            }
            pause = (pause * 2).min(LAST_LOOK);
        }
    }

    fn is_ours(&self) -> bool {
        fs::read(&self.lock).is_ok_and(|text| text == MARK.as_bytes())
    }

    /// Releases the lock, if it is ours, and removes our own files.
    pub fn clean_up(&self) -> Result<(), Error> {
        if self.is_ours() {
            remove_file(&self.lock)?;
        }
        remove_tree(&self.dir).map_err(Error::file(&self.dir))
    }

    /// Replaces the user's index with the new one.
    pub fn replace(&self) -> Result<(), Error> {
        let keep = |from: &Path, to: &Path| {
            let linked = fs::hard_link(from, to);
            linked
                .or_else(|_| copy_index(from, to))
                .map_err(Error::file(to))
        };
        keep(&self.index, &self.before)?;
        keep(&self.next, &self.made)?;
        fs::rename(&self.next, &self.index).map_err(Error::file(&self.index))
    }

    /// Restores the user's index, if ours is still in place and unmodified.
    pub fn restore(&self) -> Result<(), Error> {
        let (Ok(made), Ok(now)) = (fs::read(&self.made), fs::read(&self.index)) else {
            return Ok(());
        };
        if made == now && self.before.exists() && !self.next.exists() {
            fs::rename(&self.before, &self.index).map_err(Error::file(&self.index))?;
        }
        Ok(())
    }
}

fn create_lock_file(path: &Path) -> io::Result<()> {
    use std::io::Write;
    let mut file = fs::File::create_new(path)?;
    file.write_all(MARK.as_bytes())
}

/// Returns settings for a full index without caches: the user's git recreates those.
fn plain_index_args() -> Vec<std::ffi::OsString> {
    let settings = ["core.splitIndex=false", "index.sparse=false"];
    let words = settings.iter().flat_map(|setting| ["-c", setting]);
    words.map(Into::into).collect()
}

impl Repository {
    /// Updates a copy of the user's index from the old commit to the new one; staged changes of
    /// other paths stay. The inner error says what is in the way.
    pub(super) async fn merge_index(
        &self,
        plan: &WorkTreePlan,
        index: &Path,
        (place, mode): (&WorkTreeDirs, &str),
        [old, new]: [&Oid; 2],
    ) -> Result<Result<(), String>, Error> {
        let user_index = plan.index_files().index;
        if !user_index.exists() {
            return Ok(Err("nothing is checked out there".to_owned()));
        }
        if user_index.is_symlink() {
            return Ok(Err("its index is a symbolic link".to_owned()));
        }
        copy_index(&user_index, index).map_err(Error::file(index))?;
        let run = self.git_at(place).index(index).settings(plain_index_args());
        let merge = ["read-tree", "-m", mode, old.as_str(), new.as_str()];
        match run.args(merge).run().await {
            Ok(()) => Ok(Ok(())),
            Err(Error::Failed { detail, .. }) => Ok(Err(detail)),
            Err(error) => Err(error),
        }
    }

    /// Builds the new index next to the user's; the inner error says what is in the way.
    pub(super) async fn make_next_index(
        &self,
        plan: &WorkTreePlan,
        old: &Oid,
        new: &Oid,
    ) -> Result<Result<(), String>, Error> {
        let (place, files) = (&plan.place, plan.index_files());
        let git = || {
            self.git_at(place)
                .index(&files.next)
                .settings(plain_index_args())
        };
        // Ignore the files here: we check those ourselves.
        let merged = self.merge_index(plan, &files.next, (place, "-i"), [old, new]);
        if let Err(why) = merged.await? {
            return Ok(Err(why));
        }
        if !plan.outside.is_empty() {
            let mark = ["update-index", "-z", "--skip-worktree", "--stdin"];
            let names = super::nul_separated(plan.outside.iter().map(PathBuf::as_path));
            git().args(mark).stdin(names).run().await?;
        }
        Ok(Ok(()))
    }

    /// Updates the new index with the times of the current files.
    pub(super) async fn refresh_index(&self, plan: &WorkTreePlan) -> Result<(), Error> {
        let files = plan.index_files();
        let run = self
            .git_at(&plan.place)
            .index(&files.next)
            .settings(plain_index_args());
        // Exit code 1 means that the user has changes of their own, which is fine.
        let args = ["update-index", "-q", "--refresh"];
        run.args(args).accept_codes(&[1]).run().await
    }

    /// Returns whether the work tree is on the branch, at the commit.
    pub(super) async fn is_on(
        &self,
        place: &WorkTreeDirs,
        branch: &str,
        at: &Oid,
    ) -> Result<bool, Error> {
        let head = self.head_at(place).await?;
        Ok(head.branch.as_deref() == Some(branch) && head.commit == *at)
    }
}
