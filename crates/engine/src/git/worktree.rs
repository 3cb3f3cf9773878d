//! Worktrees that can be requested twice, and after any kill.
//!
//! Adding and removing happens under one lock per repository. A marker file next to the worktree
//! says that it was completed. Without it nobody has worked there yet, and a half-made worktree is
//! made again. With it the files are someone's work and are kept, whichever part of git's own
//! records is gone.
//!
//! The module refuses a directory with files of anyone else, and never follows a pointer that an
//! agent could have written.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::landing::write_durably;
use super::lock::RepositoryLock;
use super::remove::remove_tree;
use super::stale_locks::remove_file;
use super::state::{sync, sync_file};
use super::{Error, Oid, Repository, WorkTreeDirs};

/// Content of `commondir` in the git directory of a worktree.
const COMMON: &str = "../..\n";
/// Maximum number of worktrees with one name. A bound for the search of a free name; in practice
/// the first or second is free.
const WORKTREES_MAX: u32 = 100_000;

/// A worktree of ours, with its branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worktree {
    pub path: PathBuf,
    pub git_dir: PathBuf,
    pub branch: String,
    pub origin: WorktreeOrigin,
}

/// How the worktree was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorktreeOrigin {
    /// Neither the worktree nor its branch existed: nobody has worked on either.
    Fresh,
    /// The worktree existed and was complete.
    Found,
    /// The worktree was damaged or gone; existing files are still there.
    Recovered,
}

impl Worktree {
    /// Returns the directories to run git with. The git directory says where the refs are, in a
    /// file that the agent could write; it is corrected first.
    pub(super) fn work_tree_dirs(&self) -> Result<WorkTreeDirs, Error> {
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
    /// Returns a worktree at `path` on `branch`, which starts at `start` unless it exists. The same
    /// call again returns the same worktree.
    pub async fn ensure_worktree(
        &self,
        branch: &str,
        start: &Oid,
        path: &Path,
    ) -> Result<Worktree, Error> {
        // Git's own worktree commands do not exclude each other: two could register the same path.
        let _lock = self.lock_repository().await?;
        self.unlock_shared_ref(&format!("refs/heads/{branch}"))
            .await?;
        let path = canonical_worktree_path(path)?;
        let git_dir = self.registered_git_dir(&path);
        // The marker, the records and the files can each be missing after a kill. The arms go
        // through all combinations.
        let origin = match (ready_marker(&path).exists(), git_dir, path.is_dir()) {
            (true, Some(git_dir), true) if self.is_broken(&git_dir, branch) => {
                self.ensure_branch(branch, start).await?;
                self.register_again(branch, &path).await?
            }
            (true, Some(git_dir), true) => repair_worktree(&git_dir, &path)?,
            (true, Some(git_dir), false) => self.restore_files(&git_dir, &path).await?,
            (true, None, true) => self.register_again(branch, &path).await?,
            (_, git_dir, _) => self.make_worktree(branch, start, git_dir, &path).await?,
        };
        // The records are read back, because git may have chosen another name for them.
        let git_dir = self
            .registered_git_dir(&path)
            .ok_or_else(|| Error::Occupied(path.clone()))?;
        Ok(Worktree {
            path,
            git_dir,
            branch: branch.to_owned(),
            origin,
        })
    }

    /// Returns the worktree at `path`, if it exists and is complete.
    pub fn find_worktree(&self, branch: &str, path: &Path) -> Option<Worktree> {
        let path = fs::canonicalize(path).ok()?;
        let git_dir = self.registered_git_dir(&path)?;
        Some(Worktree {
            path,
            git_dir,
            branch: branch.to_owned(),
            origin: WorktreeOrigin::Found,
        })
    }

    /// Removes a worktree and its records. Uncommitted changes are saved under `keep` first, and
    /// their commit is returned. The branch stays.
    pub async fn remove_worktree(
        &self,
        worktree: &Worktree,
        keep: &str,
    ) -> Result<Option<Oid>, Error> {
        let _lock = self.lock_repository().await?;
        let path = &worktree.path;
        // A worktree without its directory has no changes to save.
        let saved = match self.registered_git_dir(path) {
            Some(_) if path.is_dir() => self.save_leftovers(worktree, keep).await?,
            _ => None,
        };
        let note = ready_marker(path);
        // Records before files: a crash in between leaves files with their marker, which
        // `ensure_worktree` registers again.
        if let Some(git_dir) = self.registered_git_dir(path) {
            self.discard_records(&git_dir)?;
        }
        remove_tree(path).map_err(Error::file(path))?;
        // The marker goes last: without it, files that are left would count as half-made.
        remove_file(&note)?;
        Ok(saved)
    }

    /// Removes the records in one step: a part of them, left by a kill or a power cut, would break
    /// git.
    fn discard_records(&self, git_dir: &Path) -> Result<(), Error> {
        let gone = self.common.join("countersign-worktree.gone");
        remove_tree(&gone).map_err(Error::file(&gone))?;
        fs::rename(git_dir, &gone).map_err(Error::file(git_dir))?;
        remove_tree(&gone).map_err(Error::file(&gone))
    }

    pub(super) async fn lock_repository(&self) -> Result<RepositoryLock, Error> {
        RepositoryLock::take(&self.common.join("countersign.lock")).await
    }

    /// Returns the git directory of a worktree, if it is complete enough to use. It is found
    /// through the repository, not through the worktree.
    pub(super) fn registered_git_dir(&self, path: &Path) -> Option<PathBuf> {
        let pointer = path.join(".git");
        let entries = fs::read_dir(self.common.join("worktrees")).ok()?;
        let dirs = entries.filter_map(|entry| Some(entry.ok()?.path()));
        // The pointer in the worktree is the agent's to change, so it is not asked.
        dirs.into_iter().find(|dir| {
            let points_here = fs::read_to_string(dir.join("gitdir"))
                .is_ok_and(|text| Path::new(text.trim_end_matches('\n')) == pointer);
            points_here && dir.join("HEAD").exists() && dir.join("commondir").exists()
        })
    }

    /// Returns whether git cannot tell from its records what is checked out. Another branch, or
    /// none, is a valid state; a missing branch or an unreadable file is not.
    fn is_broken(&self, git_dir: &Path, branch: &str) -> bool {
        let head = fs::read_to_string(git_dir.join("HEAD")).unwrap_or_default();
        let head = head.trim_end();
        let own_ref = format!("refs/heads/{branch}");
        match head.strip_prefix("ref: ") {
            Some(name) if name == own_ref => !self.may_have_ref(&own_ref),
            Some(name) => !name.starts_with("refs/"),
            None => Oid::parse(head).is_none(),
        }
    }

    /// Makes a worktree from scratch. Refuses a directory with files that are not ours.
    async fn make_worktree(
        &self,
        branch: &str,
        start: &Oid,
        unfinished: Option<PathBuf>,
        path: &Path,
    ) -> Result<WorktreeOrigin, Error> {
        // A half-made worktree has only our own files, so it may be removed.
        if unfinished.is_none() && has_user_files(path) {
            return Err(Error::Occupied(path.to_owned()));
        }
        self.refuse_commands(None).await?;
        let existed = unfinished.is_some() || path.exists();
        remove_tree(path).map_err(Error::file(path))?;
        self.remove_broken_records(path)?;
        // The branch is made before the records, which name it.
        let is_new_branch = self.ensure_branch(branch, start).await?;
        self.add_records(branch, path).await?;
        let git_dir = self
            .registered_git_dir(path)
            .ok_or_else(|| Error::Occupied(path.to_owned()))?;
        self.check_out(&git_dir, path).await?;
        // The files must be on disk before the marker says that they are complete.
        sync(path).await?;
        write_durably(&ready_marker(path), format!("{branch}\n").as_bytes())?;
        Ok(if is_new_branch && !existed {
            WorktreeOrigin::Fresh
        } else {
            WorktreeOrigin::Recovered
        })
    }

    /// Creates only git's records; our own runner writes the files afterwards.
    async fn add_records(&self, branch: &str, path: &Path) -> Result<(), Error> {
        // Here git keeps more than three files, and their format is its own business.
        let plain = !["reftable", "config.worktree"]
            .iter()
            .any(|name| self.common.join(name).exists());
        if plain {
            return self.write_records(branch, path);
        }
        self.add_by_git(branch, path).await?;
        sync(&self.common).await
    }

    /// Creates the records in one rename: git writes them file by file, and a power cut would leave
    /// some of them empty, which `git fsck` reports as a broken repository.
    fn write_records(&self, branch: &str, path: &Path) -> Result<(), Error> {
        let part = self.common.join("countersign-worktree.part");
        // A part left by a kill is worthless, since it never got its name.
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
            // Write the pointer first: git prunes records whose worktree does not point back.
            fs::write(&pointer, pointer_text(&git_dir)).map_err(Error::file(&pointer))?;
            fs::rename(&part, &git_dir).map_err(Error::file(&git_dir))?;
            // The rename must be on disk before anything refers to the worktree.
            return sync_file(&all);
        }
        Err(Error::Occupied(all))
    }

    /// Adds a worktree with git's own command, where the records need no care of ours.
    async fn add_by_git(&self, branch: &str, path: &Path) -> Result<(), Error> {
        let run = self.git().args([
            "worktree",
            "add",
            "--quiet",
            "--force",
            "--no-checkout",
            "--",
        ]);
        run.args([path.as_os_str(), branch.as_ref()]).run().await
    }

    async fn check_out(&self, git_dir: &Path, path: &Path) -> Result<(), Error> {
        let place = WorkTreeDirs {
            git_dir: git_dir.to_owned(),
            path: path.to_owned(),
        };
        // We hold the repository's lock, so this one belongs to a killed git.
        remove_file(&git_dir.join("index.lock"))?;
        self.git_at(&place)
            .args(["read-tree", "-u", "--reset", "HEAD"])
            .run()
            .await
    }

    /// Creates the branch if it is missing. Returns true if it was.
    async fn ensure_branch(&self, branch: &str, start: &Oid) -> Result<bool, Error> {
        if self.branch_tip(branch).await?.is_some() {
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
        match self.git().args(args).run().await {
            Ok(()) => Ok(true),
            // Another process was faster, or the branch cannot be created.
            Err(error) => match self.branch_tip(branch).await? {
                Some(_) => Ok(false),
                None => Err(error),
            },
        }
    }

    /// Restores the files of a worktree whose records exist.
    async fn restore_files(&self, git_dir: &Path, path: &Path) -> Result<WorktreeOrigin, Error> {
        self.refuse_commands(None).await?;
        fs::create_dir_all(path).map_err(Error::file(path))?;
        repair_worktree(git_dir, path)?;
        self.check_out(git_dir, path).await?;
        Ok(WorktreeOrigin::Recovered)
    }

    /// Restores the records of a worktree whose files exist. Git adds no worktree over existing
    /// files, so they are moved away meanwhile.
    async fn register_again(&self, branch: &str, path: &Path) -> Result<WorktreeOrigin, Error> {
        // The same name is looked for by `canonical_worktree_path`, after a kill in between.
        let moved = path.with_extension("aside");
        let failed = Error::file;
        fs::rename(path, &moved).map_err(failed(path))?;
        self.remove_broken_records(path)?;
        let added = self.add_records(branch, path).await;
        // Git has created an empty directory with a pointer, in the place of the files.
        remove_tree(path).map_err(failed(path))?;
        fs::rename(&moved, path).map_err(failed(&moved))?;
        // The error is returned only after the files are back.
        added?;
        let git_dir = self
            .registered_git_dir(path)
            .ok_or_else(|| Error::Occupied(path.to_owned()))?;
        repair_worktree(&git_dir, path)?;
        let place = WorkTreeDirs {
            git_dir,
            path: path.to_owned(),
        };
        // Only the index is filled; the files are the agent's and stay as they are.
        self.git_at(&place)
            .args(["read-tree", "HEAD"])
            .run()
            .await?;
        Ok(WorktreeOrigin::Recovered)
    }

    /// Removes the records of this worktree, complete or not. A half-made entry may not even say
    /// which worktree it is for; it then has the worktree's name.
    fn remove_broken_records(&self, path: &Path) -> Result<(), Error> {
        if let Some(git_dir) = self.registered_git_dir(path) {
            self.discard_records(&git_dir)?;
        }
        let Some(name) = path.file_name() else {
            return Ok(());
        };
        let records = self.common.join("worktrees").join(name);
        let pointer = fs::read_to_string(records.join("gitdir")).unwrap_or_default();
        let points_elsewhere =
            !pointer.is_empty() && Path::new(pointer.trim()) != path.join(".git");
        if !points_elsewhere && records.exists() {
            self.discard_records(&records)?;
        }
        Ok(())
    }
}

/// Repairs a worktree that is complete except for the pointer and stale locks.
fn repair_worktree(git_dir: &Path, path: &Path) -> Result<WorktreeOrigin, Error> {
    remove_file(&git_dir.join("index.lock"))?;
    remove_file(&git_dir.join("HEAD.lock"))?;
    let common = git_dir.join("commondir");
    if !fs::read_to_string(&common).is_ok_and(|text| text == COMMON) {
        write_durably(&common, COMMON.as_bytes())?;
    }
    let pointer = path.join(".git");
    let expected = pointer_text(git_dir);
    if fs::read(&pointer).is_ok_and(|text| text == expected) {
        return Ok(WorktreeOrigin::Found);
    }
    // An agent may have replaced the pointer with a directory.
    remove_tree(&pointer).map_err(Error::file(&pointer))?;
    fs::write(&pointer, expected).map_err(Error::file(&pointer))?;
    Ok(WorktreeOrigin::Recovered)
}

/// Returns the content of the `.git` file that points to the records of a worktree.
fn pointer_text(git_dir: &Path) -> Vec<u8> {
    [b"gitdir: ", git_dir.as_os_str().as_bytes(), b"\n"].concat()
}

/// Returns the path as git writes it: the parent with links resolved, the name as it is.
fn canonical_worktree_path(path: &Path) -> Result<PathBuf, Error> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    crate::private_files::make_dir(parent).map_err(Error::file(parent))?;
    let parent = fs::canonicalize(parent).map_err(Error::file(parent))?;
    let moved = path.with_extension("aside");
    let path = parent.join(path.file_name().unwrap_or_default());
    // We were killed while the files were moved away.
    if moved.is_dir() {
        remove_tree(&path).map_err(Error::file(&path))?;
        fs::rename(&moved, &path).map_err(Error::file(&moved))?;
    }
    Ok(path)
}

fn ready_marker(path: &Path) -> PathBuf {
    path.with_extension("ready")
}

/// Returns whether the path has files that no half-made worktree of ours has.
fn has_user_files(path: &Path) -> bool {
    let holds_something = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
    holds_something && !path.join(".git").is_file()
}
