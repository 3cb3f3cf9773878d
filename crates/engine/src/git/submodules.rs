//! Submodules in checkouts and worktrees, from the user's own clone of each.
//!
//! Nothing is fetched: git keeps the clones of submodules in its own directory (`modules/<name>`),
//! and their files are written from there, or from the repository on this machine that the user
//! configured as its address. A submodule that is not there, or lacks the commit, stays an empty
//! directory, and `missing_submodules` names it.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::command::GitCommand;
use super::{Error, Oid, Repository};

/// Maximum number of submodules, and of levels of submodules in submodules.
const SUBMODULES_MAX: usize = 1_000;
const LEVELS_MAX: usize = 5;
const MODULES_FILE: &str = ".gitmodules";

/// A submodule at a commit of the repository around it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Submodule {
    path: PathBuf,
    commit: Oid,
    /// Git directory of the user's clone, if it has the commit.
    git_dir: Option<PathBuf>,
}

impl Repository {
    /// Returns the paths of submodules of a commit that this machine does not have.
    pub async fn missing_submodules(&self, commit: &Oid) -> Result<Vec<String>, Error> {
        let all = self.submodules(&self.common, commit.as_str()).await?;
        let missing = all.iter().filter(|one| one.git_dir.is_none());
        Ok(missing
            .map(|one| one.path.display().to_string())
            .take(SUBMODULES_MAX)
            .collect())
    }

    /// Writes the files of the submodules of a commit into a directory that has the commit's files.
    pub async fn fill_submodules(&self, commit: &Oid, dir: &Path) -> Result<(), Error> {
        for one in self.submodules(&self.common, commit.as_str()).await? {
            self.fill_with_nested(one, dir).await?;
        }
        Ok(())
    }

    /// Writes the submodules of a reviewer's checkout. A submodule that counts as a file of the base
    /// has the base's commit. In one that the change moves, the files that `is_from_base` names are
    /// missing: the change could bring instructions for its reviewer in them. Returns the missing.
    pub(super) async fn fill_reviewed_submodules(
        &self,
        (head, base): (&Oid, &Oid),
        dir: &Path,
        from_base: &[String],
        is_from_base: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>, Error> {
        let changed = self.submodules(&self.common, head.as_str()).await?;
        let mut missing = Vec::new();
        if changed.is_empty() {
            return Ok(missing);
        }
        let before = self.submodules(&self.common, base.as_str()).await?;
        for one in changed {
            let old = before.iter().find(|old| old.path == one.path);
            let is_listed = from_base.iter().any(|path| Path::new(path) == one.path);
            let is_moved = old.is_none_or(|old| old.commit != one.commit);
            if !is_moved {
                self.fill_with_nested(one, dir).await?;
            } else if is_listed {
                if let Some(old) = old {
                    self.fill_with_nested(old.clone(), dir).await?;
                }
            } else {
                let filled = dir.join(&one.path);
                if self.fill_with_nested(one, dir).await? {
                    missing.extend(remove_named(&filled, dir, &is_from_base)?);
                }
            }
        }
        Ok(missing)
    }

    /// Writes a submodule and the submodules in it. Returns whether there was anything to write.
    async fn fill_with_nested(&self, one: Submodule, dir: &Path) -> Result<bool, Error> {
        let mut is_filled = false;
        let mut todo = vec![(one, dir.to_owned(), 0)];
        while let Some((one, dir, level)) = todo.pop() {
            let target = dir.join(&one.path);
            let Some(own) = one.git_dir else { continue };
            // Only the empty directory that git made is filled. A link or a file there belongs to
            // the change, and files there to a builder. A link on the way would lead us out.
            let is_empty = fs::read_dir(&target).is_ok_and(|mut entries| entries.next().is_none());
            if !is_empty || has_link(&dir, &one.path) {
                continue;
            }
            self.fill_submodule(&own, &one.commit, &target).await?;
            is_filled = true;
            if level < LEVELS_MAX {
                let nested = self.submodules(&own, one.commit.as_str()).await?;
                todo.extend(
                    nested
                        .into_iter()
                        .map(|one| (one, target.clone(), level + 1)),
                );
            }
        }
        Ok(is_filled)
    }

    /// Writes one submodule's files. It has no `.git` of its own, so that nothing in the checkout
    /// leads to the user's clone.
    async fn fill_submodule(&self, git_dir: &Path, commit: &Oid, dir: &Path) -> Result<(), Error> {
        let index = dir.join(".countersign-index");
        let run = GitCommand::new(&self.tool, dir).with_git_dir(git_dir);
        let run = run
            .env("GIT_WORK_TREE", dir)
            .env("GIT_INDEX_FILE", &index)
            // The clone names a work tree of its own, which is not ours to write.
            .args(["read-tree", "-u", "--reset"])
            .args([commit.as_str()]);
        let filled = run.run().await;
        for file in [index.clone(), dir.join(".countersign-index.lock")] {
            crate::log::removed(&file, remove_if_there(&file));
        }
        filled
    }

    /// Lists the submodules of a commit. A commit without `.gitmodules` has none, and costs one
    /// lookup.
    async fn submodules(&self, git_dir: &Path, commit: &str) -> Result<Vec<Submodule>, Error> {
        let git = || self.git_of_clone(git_dir);
        let named = git().args(["ls-tree", "-z", "--full-tree", commit, "--", MODULES_FILE]);
        if named.fields().await?.is_empty() {
            return Ok(Vec::new());
        }
        let blob = format!("{commit}:{MODULES_FILE}");
        let args = [
            "config",
            "--blob",
            &blob,
            "--null",
            "--get-regexp",
            r"^submodule\..*\.path$",
        ];
        let names = git().args(args).accept_codes(&[1]).fields().await?;
        let names: Vec<(String, String)> = names
            .iter()
            .filter_map(|line| {
                let (key, path) = line.split_once('\n')?;
                let name = key.strip_prefix("submodule.")?.strip_suffix(".path")?;
                Some((path.to_owned(), name.to_owned()))
            })
            .take(SUBMODULES_MAX)
            .collect();
        let mut found = Vec::new();
        for (path, name) in names {
            let tree = ["ls-tree", "-z", "--full-tree", commit, "--"];
            let run = git().env("GIT_LITERAL_PATHSPECS", "1").args(tree);
            let lines = run.args([&path]).fields().await?;
            let commit = lines.iter().find_map(|line| {
                let (meta, listed) = line.split_once('\t')?;
                let commit = meta.strip_prefix("160000 commit ")?;
                (listed == path).then(|| Oid::parse(commit)).flatten()
            });
            // The names come from the change: one that leads elsewhere is no submodule.
            let is_plain = is_plain(Path::new(&path)) && is_plain(Path::new(&name));
            let Some(commit) = commit.filter(|_| is_plain) else {
                continue;
            };
            let own = self.find_clone(git_dir, (&name, &path), &commit).await?;
            found.push(Submodule {
                path: path.into(),
                commit,
                git_dir: own,
            });
        }
        Ok(found)
    }

    /// Returns the git directory of a clone on this machine that has the commit: git's own clone,
    /// that of a linked worktree, one in the user's work tree, or the repository at the address that
    /// the user configured. The address in `.gitmodules` is never read: the change could name any
    /// directory there.
    async fn find_clone(
        &self,
        around: &Path,
        (name, path): (&str, &str),
        commit: &Oid,
    ) -> Result<Option<PathBuf>, Error> {
        let mut places = vec![around.join("modules").join(name)];
        if let Some(own) = self.own.as_ref().filter(|_| around == self.common) {
            places.push(own.git_dir.join("modules").join(name));
            let inside = own.path.join(path).join(".git");
            places.extend(
                Some(inside).filter(|dir| !has_link(&own.path, Path::new(path)) && dir.is_dir()),
            );
        }
        for place in places {
            if self.clone_has_commit(&place, commit).await {
                return Ok(Some(place));
            }
        }
        let key = format!("submodule.{name}.url");
        let git = self.git_of_clone(around);
        let address = git.args(["config", "--local", "--get", &key]);
        let address = address.accept_codes(&[1]).text().await?;
        let address = address.strip_prefix("file://").unwrap_or(&address);
        let address = Path::new(address);
        if !address.is_absolute() {
            return Ok(None);
        }
        for place in [address.join(".git"), address.to_owned()] {
            if self.clone_has_commit(&place, commit).await {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// Starts a git command that reads from a clone. The clone may name a work tree that is not there
    /// any more, and git would refuse to read from it.
    fn git_of_clone(&self, git_dir: &Path) -> GitCommand<'_> {
        let run = GitCommand::new(&self.tool, git_dir).with_git_dir(git_dir);
        run.env("GIT_WORK_TREE", git_dir)
    }

    /// Returns whether a clone has the commit, and nothing in its configuration that would run.
    async fn clone_has_commit(&self, git_dir: &Path, commit: &Oid) -> bool {
        if !git_dir.join("HEAD").is_file() {
            return false;
        }
        let git = || self.git_of_clone(git_dir);
        let object = format!("{commit}^{{commit}}");
        let listed = git().args(["config", "--list", "-z", "--show-scope", "--includes"]);
        let is_safe = listed
            .fields()
            .await
            .is_ok_and(|all| super::config::command_keys(&all).is_empty());
        is_safe && git().args(["cat-file", "-e", &object]).run().await.is_ok()
    }
}

fn is_plain(path: &Path) -> bool {
    let is_normal = |part: Component<'_>| matches!(part, Component::Normal(_));
    path.components().next().is_some() && path.components().all(is_normal)
}

/// Returns whether a part of the path below the directory is a symbolic link.
fn has_link(dir: &Path, below: &Path) -> bool {
    let mut place = dir.to_owned();
    below.components().any(|part| {
        place.push(part);
        place.is_symlink()
    })
}

/// Removes the files below a directory whose names, seen from `top`, are among the named ones.
/// Returns them.
fn remove_named(
    dir: &Path,
    top: &Path,
    is_named: impl Fn(&str) -> bool,
) -> Result<Vec<String>, Error> {
    let mut removed = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).map_err(Error::file(&dir))? {
            let entry = entry.map_err(Error::file(&dir))?;
            let path = entry.path();
            let kind = entry.file_type().map_err(Error::file(&path))?;
            let below = path.strip_prefix(top).unwrap_or(&path);
            let name = below.to_string_lossy().into_owned();
            if kind.is_dir() {
                dirs.push(path);
            } else if is_named(&name) {
                fs::remove_file(&path).map_err(Error::file(&path))?;
                removed.push(name);
            }
        }
    }
    removed.sort_unstable();
    Ok(removed)
}

fn remove_if_there(file: &Path) -> std::io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
