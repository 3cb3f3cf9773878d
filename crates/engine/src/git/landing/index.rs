//! The person's index: locked as git locks it, made anew beside it, and put in its place in one step.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::super::commit::copy_index;
use super::super::remove::remove_tree;
use super::super::stale::remove_file;
use super::super::{Error, Oid, Repository, WorkTreeDirs};
use super::{STAGE, WorkTreePlan};

/// What a lock of ours says; git's holds an index, or nothing.
const MARK: &str = "countersign is landing a change\n";
const FIRST_LOOK: Duration = Duration::from_millis(4);
const LAST_LOOK: Duration = Duration::from_millis(100);

/// The files that a landing keeps for one git directory.
#[derive(Debug)]
pub(super) struct IndexFiles {
    /// A directory of ours for the rest.
    dir: PathBuf,
    index: PathBuf,
    lock: PathBuf,
    mark: PathBuf,
    /// The new one while it is made, then a second name of it.
    pub next: PathBuf,
    made: PathBuf,
    /// The person's, until the branch has moved.
    before: PathBuf,
}

impl IndexFiles {
    pub fn of(git_dir: &Path) -> Self {
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

    /// Takes git's own lock on the index, as soon as nobody has it.
    pub async fn lock(&self, patience: Duration) -> Result<(), Error> {
        fs::create_dir_all(&self.dir).map_err(Error::file(&self.dir))?;
        fs::write(&self.mark, MARK).map_err(Error::file(&self.mark))?;
        let until = Instant::now() + patience;
        let mut pause = FIRST_LOOK;
        loop {
            // A link is there with its content or not at all, so that a kill leaves no lock that
            // nobody knows.
            let locked = match fs::hard_link(&self.mark, &self.lock) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    create(&self.lock).map_err(|_| error)
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

    /// Lets go of the lock, if it is ours, and removes our own files.
    pub fn clean_up(&self) -> Result<(), Error> {
        if self.is_ours() {
            remove_file(&self.lock)?;
        }
        remove_tree(&self.dir).map_err(Error::file(&self.dir))
    }

    /// The new index takes the place of the person's.
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

    /// The person's index again, if ours lies there and nobody has written to it.
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

fn create(path: &Path) -> io::Result<()> {
    use std::io::Write;
    let mut file = fs::File::create_new(path)?;
    file.write_all(MARK.as_bytes())
}

/// A full index without anybody's caches: the person's git makes those again.
fn plain() -> Vec<std::ffi::OsString> {
    let settings = ["core.splitIndex=false", "index.sparse=false"];
    let words = settings.iter().flat_map(|setting| ["-c", setting]);
    words.map(Into::into).collect()
}

impl Repository {
    /// A copy of the person's index, brought from the old commit to the new one: what is staged for
    /// other paths stays. The inner error says what is in the way.
    pub(super) async fn two_way(
        &self,
        plan: &WorkTreePlan,
        index: &Path,
        (place, mode): (&WorkTreeDirs, &str),
        [old, new]: [&Oid; 2],
    ) -> Result<Result<(), String>, Error> {
        let theirs = plan.index_files().index;
        if !theirs.exists() {
            return Ok(Err("nothing is checked out there".to_owned()));
        }
        if theirs.is_symlink() {
            return Ok(Err("its index is a symbolic link".to_owned()));
        }
        copy_index(&theirs, index).map_err(Error::file(index))?;
        let run = self.git_at(place).index(index).settings(plain());
        let merge = ["read-tree", "-m", mode, old.as_str(), new.as_str()];
        match run.args(merge).done().await {
            Ok(()) => Ok(Ok(())),
            Err(Error::Failed { detail, .. }) => Ok(Err(detail)),
            Err(error) => Err(error),
        }
    }

    /// Makes the new index beside the person's; the inner error says what is in the way.
    pub(super) async fn next_index(
        &self,
        plan: &WorkTreePlan,
        old: &Oid,
        new: &Oid,
    ) -> Result<Result<(), String>, Error> {
        let (place, files) = (&plan.place, plan.index_files());
        let git = || self.git_at(place).index(&files.next).settings(plain());
        // Without a look at the files: those are ours to look at.
        let merged = self.two_way(plan, &files.next, (place, "-i"), [old, new]);
        if let Err(why) = merged.await? {
            return Ok(Err(why));
        }
        if !plan.outside.is_empty() {
            let mark = ["update-index", "-z", "--skip-worktree", "--stdin"];
            let names = super::names(plan.outside.iter().map(PathBuf::as_path));
            git().args(mark).stdin(names).done().await?;
        }
        Ok(Ok(()))
    }

    /// The new index learns the times of the files that lie there now.
    pub(super) async fn refresh(&self, plan: &WorkTreePlan) -> Result<(), Error> {
        let files = plan.index_files();
        let run = self
            .git_at(&plan.place)
            .index(&files.next)
            .settings(plain());
        // Its code says that somebody has changes of their own, which is their business.
        let args = ["update-index", "-q", "--refresh"];
        run.args(args).answers(&[1]).done().await
    }

    /// Whether the work tree is on the branch, at the commit.
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
