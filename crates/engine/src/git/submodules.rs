//! Submodules in checkouts and worktrees, from the user's own clone of each.
//!
//! Nothing is fetched: git keeps the clones of submodules in its own directory (`modules/<name>`),
//! and their files are written from there. A submodule that is not there, or lacks the commit, stays
//! an empty directory, and `missing_submodules` names it.

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
        let mut todo = vec![(
            self.common.clone(),
            commit.as_str().to_owned(),
            dir.to_owned(),
            0,
        )];
        while let Some((git_dir, commit, dir, level)) = todo.pop() {
            for one in self.submodules(&git_dir, &commit).await? {
                let Some(own) = one.git_dir else { continue };
                let target = dir.join(&one.path);
                // Only the empty directory that git made is filled. A link or a file there belongs
                // to the change, and files there to a builder.
                let is_empty =
                    fs::read_dir(&target).is_ok_and(|mut entries| entries.next().is_none());
                if !is_empty || target.is_symlink() {
                    continue;
                }
                self.fill_submodule(&own, &one.commit, &target).await?;
                if level < LEVELS_MAX {
                    todo.push((own, one.commit.to_string(), target, level + 1));
                }
            }
        }
        Ok(())
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
        let git = || GitCommand::new(&self.tool, git_dir).with_git_dir(git_dir);
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
            let own = git_dir.join("modules").join(&name);
            let git_dir = self.clone_has_commit(&own, &commit).await.then_some(own);
            found.push(Submodule {
                path: path.into(),
                commit,
                git_dir,
            });
        }
        Ok(found)
    }

    /// Returns whether a clone has the commit, and nothing in its configuration that would run.
    async fn clone_has_commit(&self, git_dir: &Path, commit: &Oid) -> bool {
        if !git_dir.join("HEAD").is_file() {
            return false;
        }
        let git = || GitCommand::new(&self.tool, git_dir).with_git_dir(git_dir);
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

fn remove_if_there(file: &Path) -> std::io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
