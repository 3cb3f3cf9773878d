//! Worktrees that can be asked for twice, and after any kill.
//!
//! Adds and removals happen under one lock per repository. A note beside the
//! worktree says that it was completed: without it nobody has worked there yet,
//! and whatever is half-made is made anew; with it the files are somebody's work
//! and are kept, whichever part of git's own records is gone.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::landing::write_durably;
use super::lock::RepositoryLock;
use super::remove::remove_tree;
use super::stale::remove_file;
use super::state::{sync, sync_file};
use super::{Error, Oid, Repository, WorkTreeDirs};

/// What git writes into the `commondir` of a worktree's git directory.
const COMMON: &str = "../..\n";
/// As many worktrees of one name, at most.
const WORKTREES_MAX: u32 = 100_000;

/// A worktree of ours, with the branch that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worktree {
    pub path: PathBuf,
    pub git_dir: PathBuf,
    pub branch: String,
    pub made: WorktreeOrigin,
}

/// What it took to have the worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorktreeOrigin {
    /// Neither it nor its branch was there: nobody has worked on either.
    Fresh,
    /// It was there, whole.
    Found,
    /// It was damaged, or gone; the files that were there are still there.
    Recovered,
}

impl Worktree {
    /// Where to run git for it. Its git directory says where the refs are, in a
    /// file that whoever worked there could write; it is set right first.
    pub(super) fn place(&self) -> Result<WorkTreeDirs, Error> {
        let file = self.git_dir.join("commondir");
        if fs::read_to_string(&file).is_ok_and(|text| text != COMMON) {
            write_durably(&file, COMMON.as_bytes())?;
        }
        Ok(WorkTreeDirs {
            git_dir: self.git_dir.clone(),
            path: self.path.clone(),
        })
    }
}

impl Repository {
    /// A worktree at `path` on `branch`, which starts at `start` unless it exists.
    /// The same call again gives the same worktree.
    pub async fn worktree(
        &self,
        branch: &str,
        start: &Oid,
        path: &Path,
    ) -> Result<Worktree, Error> {
        let _lock = self.lock().await?;
        self.unlock_shared_ref(&format!("refs/heads/{branch}"))
            .await?;
        let path = settle(path)?;
        let git_dir = self.registered(&path);
        let made = match (note_of(&path).exists(), git_dir, path.is_dir()) {
            (true, Some(git_dir), true) if self.is_broken(&git_dir, branch) => {
                self.ensure_branch(branch, start).await?;
                self.register_again(branch, &path).await?
            }
            (true, Some(git_dir), true) => mend(&git_dir, &path)?,
            (true, Some(git_dir), false) => self.fill(&git_dir, &path).await?,
            (true, None, true) => self.register_again(branch, &path).await?,
            (_, git_dir, _) => self.make(branch, start, git_dir, &path).await?,
        };
        let git_dir = self
            .registered(&path)
            .ok_or_else(|| Error::Occupied(path.clone()))?;
        Ok(Worktree {
            path,
            git_dir,
            branch: branch.to_owned(),
            made,
        })
    }

    /// The worktree at `path`, if it is there and whole.
    pub fn find_worktree(&self, branch: &str, path: &Path) -> Option<Worktree> {
        let path = fs::canonicalize(path).ok()?;
        let git_dir = self.registered(&path)?;
        Some(Worktree {
            path,
            git_dir,
            branch: branch.to_owned(),
            made: WorktreeOrigin::Found,
        })
    }

    /// Removes a worktree and forgets it. What is not committed there is first
    /// saved under `keep`; the commit that holds it is returned. The branch stays.
    pub async fn remove_worktree(
        &self,
        worktree: &Worktree,
        keep: &str,
    ) -> Result<Option<Oid>, Error> {
        let _lock = self.lock().await?;
        let path = &worktree.path;
        let saved = match self.registered(path) {
            Some(_) if path.is_dir() => self.save_leftovers(worktree, keep).await?,
            _ => None,
        };
        let note = note_of(path);
        if let Some(git_dir) = self.registered(path) {
            self.discard_records(&git_dir)?;
        }
        remove_tree(path).map_err(Error::file(path))?;
        remove_file(&note)?;
        Ok(saved)
    }

    /// The records disappear whole: what a kill or a power cut leaves of them would break git.
    fn discard_records(&self, git_dir: &Path) -> Result<(), Error> {
        let gone = self.common.join("countersign-worktree.gone");
        remove_tree(&gone).map_err(Error::file(&gone))?;
        fs::rename(git_dir, &gone).map_err(Error::file(git_dir))?;
        remove_tree(&gone).map_err(Error::file(&gone))
    }

    pub(super) async fn lock(&self) -> Result<RepositoryLock, Error> {
        RepositoryLock::take(&self.common.join("countersign.lock")).await
    }

    /// The git directory that the repository keeps for a worktree, if it is whole
    /// enough to use. Found by what the repository says, not by the worktree.
    pub(super) fn registered(&self, path: &Path) -> Option<PathBuf> {
        let pointer = path.join(".git");
        let entries = fs::read_dir(self.common.join("worktrees")).ok()?;
        let dirs = entries.filter_map(|entry| Some(entry.ok()?.path()));
        dirs.into_iter().find(|dir| {
            let points_here = fs::read_to_string(dir.join("gitdir"))
                .is_ok_and(|text| Path::new(text.trim_end_matches('\n')) == pointer);
            points_here && dir.join("HEAD").exists() && dir.join("commondir").exists()
        })
    }

    /// Whether git could not tell from its records what is checked out. Another branch, or none,
    /// is a state like any other; no branch that is there, or nothing that can be read, is not.
    fn is_broken(&self, git_dir: &Path, branch: &str) -> bool {
        let head = fs::read_to_string(git_dir.join("HEAD")).unwrap_or_default();
        let head = head.trim_end();
        let ours = format!("refs/heads/{branch}");
        match head.strip_prefix("ref: ") {
            Some(name) if name == ours => !self.may_have_ref(&ours),
            Some(name) => !name.starts_with("refs/"),
            None => Oid::parse(head).is_none(),
        }
    }

    async fn make(
        &self,
        branch: &str,
        start: &Oid,
        half_made: Option<PathBuf>,
        path: &Path,
    ) -> Result<WorktreeOrigin, Error> {
        if half_made.is_none() && is_someones(path) {
            return Err(Error::Occupied(path.to_owned()));
        }
        self.refuse_commands(None).await?;
        let again = half_made.is_some() || path.exists();
        remove_tree(path).map_err(Error::file(path))?;
        self.drop_broken(path)?;
        let begins = self.ensure_branch(branch, start).await?;
        self.add(branch, path).await?;
        let git_dir = self
            .registered(path)
            .ok_or_else(|| Error::Occupied(path.to_owned()))?;
        self.check_out(&git_dir, path).await?;
        sync(path).await?;
        write_durably(&note_of(path), format!("{branch}\n").as_bytes())?;
        Ok(if begins && !again {
            WorktreeOrigin::Fresh
        } else {
            WorktreeOrigin::Recovered
        })
    }

    /// Only git's records; the files come after, from our own runner.
    async fn add(&self, branch: &str, path: &Path) -> Result<(), Error> {
        let plain = !["reftable", "config.worktree"]
            .iter()
            .any(|name| self.common.join(name).exists());
        if plain {
            return self.write_records(branch, path);
        }
        self.add_by_git(branch, path).await?;
        sync(&self.common).await
    }

    /// The records appear whole, with one rename: git writes them file by file, and a power cut
    /// would leave some of them empty, which `git fsck` takes for a broken repository.
    fn write_records(&self, branch: &str, path: &Path) -> Result<(), Error> {
        let part = self.common.join("countersign-worktree.part");
        remove_tree(&part).map_err(Error::file(&part))?;
        let refs = part.join("refs");
        fs::create_dir_all(&refs).map_err(Error::file(&refs))?;
        let pointer = path.join(".git");
        let texts = [
            ("HEAD", format!("ref: refs/heads/{branch}\n").into_bytes()),
            ("commondir", COMMON.as_bytes().to_vec()),
            ("gitdir", [pointer.as_os_str().as_bytes(), b"\n"].concat()),
        ];
        for (name, text) in texts {
            write_durably(&part.join(name), &text)?;
        }
        let all = self.common.join("worktrees");
        fs::create_dir_all(&all).map_err(Error::file(&all))?;
        fs::create_dir_all(path).map_err(Error::file(path))?;
        let stem = path.file_name().unwrap_or("worktree".as_ref()).to_owned();
        for number in 0..WORKTREES_MAX {
            let mut name = stem.clone();
            if number > 0 {
                name.push(number.to_string());
            }
            let git_dir = all.join(name);
            if git_dir.exists() {
                continue;
            }
            // First the pointer: git prunes records whose worktree does not point back.
            fs::write(&pointer, pointer_text(&git_dir)).map_err(Error::file(&pointer))?;
            fs::rename(&part, &git_dir).map_err(Error::file(&git_dir))?;
            return sync_file(&all);
        }
        Err(Error::Occupied(all))
    }

    async fn add_by_git(&self, branch: &str, path: &Path) -> Result<(), Error> {
        let run = self.git().args([
            "worktree",
            "add",
            "--quiet",
            "--force",
            "--no-checkout",
            "--",
        ]);
        run.args([path.as_os_str(), branch.as_ref()]).done().await
    }

    async fn check_out(&self, git_dir: &Path, path: &Path) -> Result<(), Error> {
        let place = WorkTreeDirs {
            git_dir: git_dir.to_owned(),
            path: path.to_owned(),
        };
        remove_file(&git_dir.join("index.lock"))?;
        self.git_at(&place)
            .args(["read-tree", "-u", "--reset", "HEAD"])
            .done()
            .await
    }

    /// Whether it was not there before.
    async fn ensure_branch(&self, branch: &str, start: &Oid) -> Result<bool, Error> {
        if self.branch(branch).await?.is_some() {
            return Ok(false);
        }
        let name = format!("refs/heads/{branch}");
        let args = [
            "update-ref",
            "-m",
            "countersign: start",
            &name,
            start.as_str(),
            &start.zero(),
        ];
        match self.git().args(args).done().await {
            Ok(()) => Ok(true),
            // Somebody else was faster, or it cannot be made.
            Err(error) => match self.branch(branch).await? {
                Some(_) => Ok(false),
                None => Err(error),
            },
        }
    }

    /// The files are gone, the records are there.
    async fn fill(&self, git_dir: &Path, path: &Path) -> Result<WorktreeOrigin, Error> {
        self.refuse_commands(None).await?;
        fs::create_dir_all(path).map_err(Error::file(path))?;
        mend(git_dir, path)?;
        self.check_out(git_dir, path).await?;
        Ok(WorktreeOrigin::Recovered)
    }

    /// The files are there, the records are gone. Git will not add a worktree
    /// over files, so they step aside while it does.
    async fn register_again(&self, branch: &str, path: &Path) -> Result<WorktreeOrigin, Error> {
        let aside = path.with_extension("aside");
        let failed = Error::file;
        fs::rename(path, &aside).map_err(failed(path))?;
        self.drop_broken(path)?;
        let added = self.add(branch, path).await;
        remove_tree(path).map_err(failed(path))?;
        fs::rename(&aside, path).map_err(failed(&aside))?;
        added?;
        let git_dir = self
            .registered(path)
            .ok_or_else(|| Error::Occupied(path.to_owned()))?;
        mend(&git_dir, path)?;
        let place = WorkTreeDirs {
            git_dir,
            path: path.to_owned(),
        };
        self.git_at(&place)
            .args(["read-tree", "HEAD"])
            .done()
            .await?;
        Ok(WorktreeOrigin::Recovered)
    }

    /// Removes records of this worktree, whole or not. A half-made entry may not
    /// even say which worktree it is for; it then has the worktree's name.
    fn drop_broken(&self, path: &Path) -> Result<(), Error> {
        if let Some(git_dir) = self.registered(path) {
            self.discard_records(&git_dir)?;
        }
        let Some(name) = path.file_name() else {
            return Ok(());
        };
        let named = self.common.join("worktrees").join(name);
        let pointer = fs::read_to_string(named.join("gitdir")).unwrap_or_default();
        let points_elsewhere =
            !pointer.is_empty() && Path::new(pointer.trim()) != path.join(".git");
        if !points_elsewhere && named.exists() {
            self.discard_records(&named)?;
        }
        Ok(())
    }
}

/// Whole, or no more than the pointer and a stale lock away from it.
fn mend(git_dir: &Path, path: &Path) -> Result<WorktreeOrigin, Error> {
    remove_file(&git_dir.join("index.lock"))?;
    remove_file(&git_dir.join("HEAD.lock"))?;
    let common = git_dir.join("commondir");
    if !fs::read_to_string(&common).is_ok_and(|text| text == COMMON) {
        write_durably(&common, COMMON.as_bytes())?;
    }
    let pointer = path.join(".git");
    let wanted = pointer_text(git_dir);
    if fs::read(&pointer).is_ok_and(|text| text == wanted) {
        return Ok(WorktreeOrigin::Found);
    }
    remove_tree(&pointer).map_err(Error::file(&pointer))?;
    fs::write(&pointer, wanted).map_err(Error::file(&pointer))?;
    Ok(WorktreeOrigin::Recovered)
}

/// What a worktree says about where its records are.
fn pointer_text(git_dir: &Path) -> Vec<u8> {
    [b"gitdir: ", git_dir.as_os_str().as_bytes(), b"\n"].concat()
}

/// The path as git writes it: the parent real, the name as it is.
fn settle(path: &Path) -> Result<PathBuf, Error> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    crate::private::make_dir(parent).map_err(Error::file(parent))?;
    let parent = fs::canonicalize(parent).map_err(Error::file(parent))?;
    let aside = path.with_extension("aside");
    let path = parent.join(path.file_name().unwrap_or_default());
    // Killed while the files stood aside.
    if aside.is_dir() {
        remove_tree(&path).map_err(Error::file(&path))?;
        fs::rename(&aside, &path).map_err(Error::file(&aside))?;
    }
    Ok(path)
}

fn note_of(path: &Path) -> PathBuf {
    path.with_extension("ready")
}

/// Files that no half-made worktree of ours has.
fn is_someones(path: &Path) -> bool {
    let holds_something = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
    holds_something && !path.join(".git").is_file()
}
