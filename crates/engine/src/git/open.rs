//! Where a repository is, found by reading files: no git runs before we know.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Error, GitProgram, Oid, Repository, WorkTreeDirs};

impl Repository {
    /// Opens the repository that `path` is in: a work tree or anything below it,
    /// a linked worktree, or a bare repository.
    pub async fn open(tool: GitProgram, path: &Path) -> Result<Self, Error> {
        let start = fs::canonicalize(path).map_err(Error::file(path))?;
        let found = start.ancestors().find_map(find_here);
        let (common, tree) = found.ok_or_else(|| Error::NotARepository(path.to_owned()))?;
        let mut repository = Self {
            tool,
            common,
            own: None,
            apart: None,
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

    /// The key of the repository: the same from every worktree of it.
    pub fn common_dir(&self) -> &Path {
        &self.common
    }

    /// The person's own work tree that was opened, unless it is bare.
    pub fn work_tree(&self) -> Option<&Path> {
        self.own.as_ref().map(|own| own.path.as_path())
    }

    pub fn is_bare(&self) -> bool {
        self.own.is_none()
    }

    /// The commit that a name means.
    pub async fn resolve(&self, rev: &str) -> Result<Oid, Error> {
        let run = match &self.own {
            Some(own) => self.git_at(own),
            None => self.git(),
        };
        let wanted = format!("{rev}^{{commit}}");
        let said = run
            .args([
                "rev-parse",
                "--verify",
                "--quiet",
                "--end-of-options",
                &wanted,
            ])
            .answers(&[1, 128])
            .said()
            .await?;
        Oid::parse(&said.text()).ok_or_else(|| Error::UnknownRevision {
            rev: rev.to_owned(),
        })
    }
}

/// The common git directory, and the directory that leads to it if one does. Git may take another
/// for the work tree.
fn find_here(dir: &Path) -> Option<(PathBuf, Option<WorkTreeDirs>)> {
    let dot_git = dir.join(".git");
    let git_dir = if dot_git.is_dir() {
        fs::canonicalize(dot_git).ok()
    } else {
        pointed_to(&dot_git)
    };
    if let Some(git_dir) = git_dir.filter(|git_dir| git_dir.join("HEAD").symlink_metadata().is_ok())
    {
        let common = common_of(&git_dir)?;
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

/// The git directory that a `.git` file names.
pub(super) fn pointed_to(file: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(file).ok()?;
    let target = text.strip_prefix("gitdir:")?.trim();
    fs::canonicalize(file.parent()?.join(target)).ok()
}

fn common_of(git_dir: &Path) -> Option<PathBuf> {
    let Ok(text) = fs::read_to_string(git_dir.join("commondir")) else {
        return Some(git_dir.to_owned());
    };
    fs::canonicalize(git_dir.join(text.trim())).ok()
}
