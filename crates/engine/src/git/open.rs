//! Finds a repository by reading files: no git runs before its location is known.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Error, GitProgram, Oid, Repository, WorkTreeDirs};

impl Repository {
    /// Opens the repository that contains `path`: a work tree or a directory below it, a linked
    /// worktree, or a bare repository.
    pub async fn open(tool: GitProgram, path: &Path) -> Result<Self, Error> {
        let start = fs::canonicalize(path).map_err(Error::file(path))?;
        let location = start.ancestors().find_map(find_repository);
        let (common, tree) = location.ok_or_else(|| Error::NotARepository(path.to_owned()))?;
        let mut repository = Self {
            tool,
            common,
            own: None,
            quarantine_objects: None,
            facts: Arc::default(),
        };
        if let Some(tree) = tree {
            repository.own = repository.place_at(tree.git_dir, &tree.path).await?;
        }
        let branches = repository
            .git()
            .args(["for-each-ref", "--count=1", "refs/heads"]);
        if branches.text().await?.is_empty() && repository.resolve("HEAD").await.is_err() {
            return Err(Error::NoCommits(path.to_owned()));
        }
        repository.refuse_commands(None).await?;
        Ok(repository)
    }

    /// Returns the common git directory, which is the same from every worktree of the repository.
    pub fn common_dir(&self) -> &Path {
        &self.common
    }

    /// Returns the user's own work tree that was opened; `None` for a bare repository.
    pub fn work_tree(&self) -> Option<&Path> {
        self.own.as_ref().map(|own| own.path.as_path())
    }

    pub fn is_bare(&self) -> bool {
        self.own.is_none()
    }

    /// Returns the commit that a revision names.
    pub async fn resolve(&self, rev: &str) -> Result<Oid, Error> {
        let run = match &self.own {
            Some(own) => self.git_at(own),
            None => self.git(),
        };
        let commit_rev = format!("{rev}^{{commit}}");
        let output = run
            .args([
                "rev-parse",
                "--verify",
                "--quiet",
                "--end-of-options",
                &commit_rev,
            ])
            .accept_codes(&[1, 128])
            .output()
            .await?;
        Oid::parse(&output.text()).ok_or_else(|| Error::UnknownRevision {
            rev: rev.to_owned(),
        })
    }
}

/// Returns the common git directory, and the directory that leads to it, if there is one. Git may
/// use another one as the work tree.
fn find_repository(dir: &Path) -> Option<(PathBuf, Option<WorkTreeDirs>)> {
    let dot_git = dir.join(".git");
    let git_dir = if dot_git.is_dir() {
        fs::canonicalize(dot_git).ok()
    } else {
        gitdir_pointer(&dot_git)
    };
    if let Some(git_dir) = git_dir.filter(|git_dir| git_dir.join("HEAD").symlink_metadata().is_ok())
    {
        let common = common_dir_of(&git_dir)?;
        return Some((
            common,
            Some(WorkTreeDirs {
                git_dir,
                path: dir.to_owned(),
            }),
        ));
    }
    let bare = ["HEAD", "objects", "refs"]
        .iter()
        .all(|part| dir.join(part).symlink_metadata().is_ok());
    bare.then(|| (dir.to_owned(), None))
}

/// Returns the git directory that a `.git` file names.
pub(super) fn gitdir_pointer(file: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(file).ok()?;
    let target = text.strip_prefix("gitdir:")?.trim();
    fs::canonicalize(file.parent()?.join(target)).ok()
}

fn common_dir_of(git_dir: &Path) -> Option<PathBuf> {
    let Ok(text) = fs::read_to_string(git_dir.join("commondir")) else {
        return Some(git_dir.to_owned());
    };
    fs::canonicalize(git_dir.join(text.trim())).ok()
}
