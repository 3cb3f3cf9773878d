//! Makes commits from the files of a worktree, and keeps refs to them.
//!
//! It uses plumbing commands only. `git add` and `git commit` would run hooks, and would look
//! inside nested repositories with a git that uses their configuration.
//!
//! New objects go to a separate directory and enter the repository only after git's strict check.
//! The module refuses to commit on any other branch than the worktree's own.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::nested::{SaveBudget, SaveLimits, plain};
use super::remove::remove_tree;
use super::{Error, Oid, Repository, WorkTreeDirs, Worktree};
use crate::log::removed;

/// Maximum number of attempts that leave out refused files, before nothing is saved at all.
const UNSOUND_TRIES_MAX: usize = 8;
/// Maximum number of listed files that git cannot store.
const UNSTORABLE_MAX: usize = 20;
const UNSTORABLE_CHARS_MAX: usize = 200;

/// Author of a commit of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitIdentity {
    pub name: String,
    pub email: String,
}

impl CommitIdentity {
    pub fn countersign() -> Self {
        Self {
            name: "Countersign".to_owned(),
            email: "countersign@localhost".to_owned(),
        }
    }
}

/// Result of committing a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeCommit {
    /// Commit; `None` if there was nothing to commit.
    pub commit: Option<Oid>,
    /// Repositories inside the worktree. They are not part of the commit: it would contain a link
    /// to a commit that nobody else has.
    pub nested: Vec<String>,
    /// Files whose names git cannot store (`.GIT/x`), so that they are missing from the commit.
    pub unstorable: Vec<String>,
}

impl Repository {
    /// Commits everything that is not ignored onto the branch of the worktree.
    pub async fn commit_all(
        &self,
        worktree: &Worktree,
        identity: &CommitIdentity,
        message: &str,
    ) -> Result<WorktreeCommit, Error> {
        let place = worktree.work_tree_dirs()?;
        let head = self.head_at(&place).await?;
        // The agent may have switched branches; a commit would then land on a branch of the user's.
        if head.branch.as_ref() != Some(&worktree.branch) {
            return Err(Error::WrongBranch {
                path: worktree.path.clone(),
                expected: worktree.branch.clone(),
                found: head.branch.unwrap_or_else(|| "a detached HEAD".to_owned()),
            });
        }
        let (apart, objects_dir) = self.apart(&place)?;
        // The snapshot uses our own index, so a failure leaves the worktree's index as it was.
        let snapshot = apart.snapshot(&place, &mut LargeFilePolicy::Refuse).await?;
        let tree = &snapshot.tree;
        let mut new_commit = None;
        // Comparing trees and not files: a touched file without a change makes no commit.
        if *tree != self.tree_of(&head.commit).await? {
            let commit = apart
                .commit_tree(tree, &[&head.commit], identity, message)
                .await?;
            // Objects before the ref. A ref to a missing object would break the repository.
            self.take_objects(&commit, &head.commit, &objects_dir)
                .await?;
            let name = format!("refs/heads/{}", worktree.branch);
            let args = ["update-ref", "-m", "countersign: commit", &name];
            self.git()
                .args(args)
                // Compare and swap with the commit that was read above, in case something else
                // moved the branch.
                .args([commit.as_str(), head.commit.as_str()])
                .run()
                .await?;
            new_commit = Some(commit);
        }
        let index = place.git_dir.join("index");
        // The index follows the commit. If we are killed before this line, the next commit finds no
        // difference and replaces the index then.
        fs::rename(&snapshot.index, &index).map_err(Error::file(&index))?;
        remove_tree(&objects_dir).map_err(Error::file(&objects_dir))?;
        Ok(WorktreeCommit {
            commit: new_commit,
            nested: snapshot.nested,
            unstorable: snapshot.unstorable,
        })
    }

    /// Saves the uncommitted files of a worktree under a ref, with nested repositories as plain
    /// files, and changes nothing there. Returns `None` if everything is committed.
    pub async fn save_leftovers(
        &self,
        worktree: &Worktree,
        name: &str,
    ) -> Result<Option<Oid>, Error> {
        let place = worktree.work_tree_dirs()?;
        let head = self.head_at(&place).await?;
        let mut budget = SaveBudget::new(SaveLimits::default());
        let (apart, objects_dir) = self.apart(&place)?;
        let snapshot = apart
            .snapshot(&place, &mut LargeFilePolicy::LeaveOut(&mut budget))
            .await?;
        if !snapshot.nested.is_empty() {
            apart
                .add_nested(&place, &snapshot.index, &snapshot.nested, &mut budget)
                .await?;
        }
        let saved = self
            .save_soundly(
                &place,
                (&apart, &objects_dir),
                (&head.commit, &snapshot.index),
                budget,
            )
            .await?;
        // The saved copy of the index is not needed: the worktree itself stays unchanged.
        fs::remove_file(&snapshot.index).map_err(Error::file(&snapshot.index))?;
        remove_tree(&objects_dir).map_err(Error::file(&objects_dir))?;
        let Some(commit) = saved else {
            return Ok(None);
        };
        // Only the holder of the ticket's lease writes this ref, so a lock on it was left by a
        // killed git.
        self.unlock_own_ref(name)?;
        self.git()
            .args(["update-ref", "--no-deref", name, commit.as_str()])
            .run()
            .await?;
        Ok(Some(commit))
    }

    /// Commits the index to the repository without the files that git's strict check refuses: they
    /// are listed and left out. Returns `None` if no difference is left.
    async fn save_soundly(
        &self,
        place: &WorkTreeDirs,
        (apart, objects_dir): (&Self, &Path),
        (head, index): (&Oid, &Path),
        mut budget: SaveBudget,
    ) -> Result<Option<Oid>, Error> {
        let (identity, unchanged) = (CommitIdentity::countersign(), self.tree_of(head).await?);
        // An unsound object without a path is a directory or a commit, and cannot be left out
        // alone.
        let mut is_hopeless = false;
        for tries in 0..=UNSOUND_TRIES_MAX {
            let mut tree = apart.write_tree(place, index).await?;
            // The last attempt saves an empty change with a message that says what was left out.
            if tries == UNSOUND_TRIES_MAX || is_hopeless {
                tree = unchanged.clone();
            }
            if tree == unchanged && tries == 0 {
                return Ok(None);
            }
            let note = budget.describe_left_out();
            let message = format!("Leftovers, saved before the worktree was cleaned{note}");
            let commit = apart
                .commit_tree(&tree, &[head], &identity, &message)
                .await?;
            let paths = match self.take_objects(&commit, head, objects_dir).await {
                Ok(()) => return Ok(Some(commit)),
                Err(Error::Unsound { paths, .. }) => paths,
                Err(error) => return Err(error),
            };
            // No path was named, so the next round would fail in the same way.
            is_hopeless = paths.is_empty();
            let mut names = Vec::new();
            for path in &paths {
                budget.leave_out(path, "`git fsck` refuses it");
                names.extend_from_slice(path.as_os_str().as_bytes());
                names.push(0);
            }
            if is_hopeless {
                budget.leave_out(Path::new("everything"), "`git fsck` refuses it");
                continue;
            }
            // A directory may have the name of a file that git reads.
            let remove = ["rm", "-r", "-f", "-q", "--cached", "--ignore-unmatch"];
            let from = ["--pathspec-from-file=-", "--pathspec-file-nul"];
            let run = apart.git_at(place).index(index).args(remove).args(from);
            // Without this a file named `:(glob)*` would be taken for a pattern and remove
            // everything.
            let run = run.env("GIT_LITERAL_PATHSPECS", "1").stdin(names);
            run.run().await?;
        }
        Ok(None)
    }

    /// Points a ref of ours at a commit. `old` is its expected value (`None`: it must not exist).
    /// Returns false if it has another value, and true if it has the new one already.
    pub async fn keep_ref(&self, name: &str, new: &Oid, old: Option<&Oid>) -> Result<bool, Error> {
        self.unlock_own_ref(name)?;
        self.update_ref(name, new, old).await
    }

    /// Does the same for a ref that other processes may change too: their locks are respected.
    pub async fn share_ref(&self, name: &str, new: &Oid, old: Option<&Oid>) -> Result<bool, Error> {
        self.unlock_shared_ref(name).await?;
        self.update_ref(name, new, old).await
    }

    async fn update_ref(&self, name: &str, new: &Oid, old: Option<&Oid>) -> Result<bool, Error> {
        // Git treats the zero id as "must not exist".
        let expected = old.map_or_else(|| new.zero(), Oid::to_string);
        let args = ["update-ref", "--no-deref", name, new.as_str(), &expected];
        if self
            .git()
            .args(args)
            .accept_codes(&[1, 128])
            .output()
            .await?
            .code
            == 0
        {
            return Ok(true);
        }
        // The update may have failed because it was done before, by a run that was killed.
        Ok(self.read_ref(name).await?.as_ref() == Some(new))
    }

    pub(super) async fn commit_tree(
        &self,
        tree: &Oid,
        parents: &[&Oid],
        identity: &CommitIdentity,
        message: &str,
    ) -> Result<Oid, Error> {
        let parents = parents.iter().flat_map(|parent| ["-p", parent.as_str()]);
        let run = self
            .git()
            .identity(identity)
            .args(["commit-tree", "-F", "-"])
            .args(parents);
        run.args([tree.as_str()]).stdin(message).oid().await
    }

    /// Writes the worktree as a tree, in a separate index. It starts with a copy of the worktree's
    /// index, whose file times save reading every file. If that one hides files from git, or is
    /// damaged, it starts from HEAD.
    async fn snapshot(
        &self,
        place: &WorkTreeDirs,
        large: &mut LargeFilePolicy<'_>,
    ) -> Result<WorktreeSnapshot, Error> {
        self.refuse_commands(Some(place)).await?;
        // No agent works here any more, so a lock was left by a killed git.
        let lock = place.git_dir.join("index.lock");
        removed(&lock, fs::remove_file(&lock));
        let index = place.git_dir.join("countersign-index");
        let lock = place.git_dir.join("countersign-index.lock");
        removed(&lock, fs::remove_file(&lock));
        let worktree_index = place.git_dir.join("index");
        // Entries marked as unchanged would hide an agent's changes from the commit.
        if self.hides_nothing(place).await? && copy_index(&worktree_index, &index).is_ok() {
            match self.snapshot_from(place, index.clone(), large).await {
                Ok(snapshot) => return Ok(snapshot),
                // Another index would not make the file smaller.
                Err(error @ Error::LargeFile { .. }) => return Err(error),
                Err(error) => tracing::debug!(%error, "index not usable, starting from HEAD"),
            }
        }
        // The first attempt has already counted files against the budget.
        large.start_again();
        removed(&index, fs::remove_file(&index));
        self.git_at(place)
            .index(&index)
            .args(["read-tree", "HEAD"])
            .run()
            .await?;
        self.snapshot_from(place, index, large).await
    }

    /// Adds all changes of the worktree to an existing index and writes its tree.
    pub(super) async fn snapshot_from(
        &self,
        place: &WorkTreeDirs,
        index: PathBuf,
        large: &mut LargeFilePolicy<'_>,
    ) -> Result<WorktreeSnapshot, Error> {
        let git = || self.git_at(place).index(&index);
        let list = [
            "ls-files",
            "-z",
            "--others",
            "--exclude-standard",
            "--modified",
            "--deleted",
        ];
        let changed = git().args(list).output().await?;
        // A cut list would commit only a part of the change, silently.
        if changed.cut {
            return Err(Error::TooLarge("ls-files".to_owned()));
        }
        let sorted = SortedPaths::sort(&changed.out, &place.path, large)?;
        // Removals come first: a file may have become a directory with files in it.
        if !sorted.gone.is_empty() {
            let remove = ["update-index", "-z", "--force-remove", "--stdin"];
            git().args(remove).stdin(sorted.gone).run().await?;
        }
        let added = !sorted.there.is_empty();
        if added {
            // `--replace` lets a file take the place of a directory, which git refuses otherwise.
            let add = ["update-index", "-z", "--add", "--replace", "--stdin"];
            // Git then skips names that `git fsck` would refuse, including those of other systems.
            let careful = ["-c", "core.protectHFS=true", "-c", "core.protectNTFS=true"];
            let git = || git().settings(careful.map(Into::into).to_vec());
            git().args(add).stdin(sorted.there).run().await?;
        }
        let tree = self.write_tree(place, &index).await?;
        // Git skips bad names without an error, so a second listing shows what is missing.
        let unstorable = if added {
            self.still_unknown(place, &index).await?
        } else {
            Vec::new()
        };
        Ok(WorktreeSnapshot {
            tree,
            index,
            nested: sorted.nested,
            unstorable,
        })
    }

    /// Returns the files that git skipped, because a repository cannot have their names.
    async fn still_unknown(
        &self,
        place: &WorkTreeDirs,
        index: &Path,
    ) -> Result<Vec<String>, Error> {
        let list = [
            "ls-files",
            "-z",
            "--others",
            "--exclude-standard",
            "--modified",
        ];
        let listed = self.git_at(place).index(index).args(list).output().await?;
        let names = listed.out.split(|&byte| byte == 0);
        let files = names.filter(|name| !name.is_empty() && !name.ends_with(b"/"));
        Ok(files
            .take(UNSTORABLE_MAX)
            .map(|name| plain(&String::from_utf8_lossy(name), UNSTORABLE_CHARS_MAX))
            .collect())
    }

    pub(super) async fn write_tree(
        &self,
        place: &WorkTreeDirs,
        index: &Path,
    ) -> Result<Oid, Error> {
        self.git_at(place)
            .index(index)
            .args(["write-tree"])
            .oid()
            .await
    }

    /// Returns whether no entry of the worktree's index is excluded from comparison.
    async fn hides_nothing(&self, place: &WorkTreeDirs) -> Result<bool, Error> {
        let listed = self
            .git_at(place)
            .args(["ls-files", "-v", "-z"])
            .accept_codes(&[128])
            .output()
            .await?;
        let mut tags = listed
            .out
            .split(|&byte| byte == 0)
            .filter_map(|entry| entry.first());
        // Lower-case tags are "assume unchanged", `S` is "skip worktree".
        let plain = tags.all(|tag| tag.is_ascii_uppercase() && *tag != b'S');
        Ok(listed.code == 0 && !listed.cut && plain)
    }
}

/// A worktree written as a tree.
pub(super) struct WorktreeSnapshot {
    pub tree: Oid,
    pub index: PathBuf,
    /// Repositories inside the worktree, which are not in the index.
    pub nested: Vec<String>,
    pub unstorable: Vec<String>,
}

/// Changed paths by their current state.
#[derive(Default)]
struct SortedPaths {
    nested: Vec<String>,
    gone: Vec<u8>,
    there: Vec<u8>,
}

impl SortedPaths {
    /// Sorts paths that each end with a NUL; a nested repository ends with a slash.
    fn sort(list: &[u8], root: &Path, large: &mut LargeFilePolicy<'_>) -> Result<Self, Error> {
        let mut sorted = Self::default();
        for entry in list.split_inclusive(|&byte| byte == 0) {
            let path = Path::new(OsStr::from_bytes(
                entry.strip_suffix(b"\0").unwrap_or(entry),
            ));
            // Git lists a nested repository as one entry with a slash at its end.
            if entry.ends_with(b"/\0") {
                let name = path.to_string_lossy();
                sorted.nested.push(name.trim_end_matches('/').to_owned());
            // A path behind a link is not a file of this directory; git would read outside of the
            // worktree.
            } else if is_real_path(root, path) {
                if large.admits(root, path)? {
                    sorted.there.extend_from_slice(entry);
                }
            } else {
                sorted.gone.extend_from_slice(entry);
            }
        }
        Ok(sorted)
    }
}

/// Handling of files that are too large to read: a sparse file costs an agent nothing and git
/// minutes.
#[derive(Debug)]
pub(super) enum LargeFilePolicy<'a> {
    /// Fails with the name of the file: a commit never leaves anything out silently.
    Refuse,
    LeaveOut(&'a mut SaveBudget),
}

/// Maximum size of a file that is committed from a worktree.
const COMMITTED_FILE_MAX: u64 = 2 << 30;

impl LargeFilePolicy<'_> {
    fn start_again(&mut self) {
        if let Self::LeaveOut(budget) = self {
            **budget = SaveBudget::new(SaveLimits::default());
        }
    }

    fn admits(&mut self, root: &Path, path: &Path) -> Result<bool, Error> {
        let meta = fs::symlink_metadata(root.join(path));
        // A file that has gone in the meantime is handled by git itself.
        let bytes = meta.map_or(0, |meta| meta.len());
        match self {
            Self::LeaveOut(budget) => Ok(budget.try_admit(path, bytes)),
            Self::Refuse if bytes > COMMITTED_FILE_MAX => Err(Error::LargeFile {
                path: path.to_owned(),
                bytes,
            }),
            Self::Refuse => Ok(true),
        }
    }
}

/// Returns whether the path itself is a file, a link or a submodule, and not reached through a
/// link.
fn is_real_path(root: &Path, path: &Path) -> bool {
    let through_link = path
        .ancestors()
        .skip(1)
        .take_while(|dir| !dir.as_os_str().is_empty())
        .any(|dir| root.join(dir).is_symlink());
    let full = root.join(path);
    let kind = fs::symlink_metadata(&full).map(|meta| meta.file_type());
    !through_link && kind.is_ok_and(|kind| !kind.is_dir() || full.join(".git").exists())
}

/// Copies an index with its time. Git reads every file again that was written at the same instant
/// as the index, and a newer copy would make it trust the old sizes and times.
pub(super) fn copy_index(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::copy(from, to)?;
    let modified = fs::metadata(from)?.modified()?;
    fs::File::options()
        .write(true)
        .open(to)?
        .set_modified(modified)
}
