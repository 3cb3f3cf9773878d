//! Throw-away checkouts of one exact tree, for reviewers and for checks.
//!
//! A checkout is a repository of its own: one commit with the tree on top of the
//! merge base, so that no message and no commit of earlier rounds is in it. For a
//! reviewer the files that steer agents are those of the base: a change must not
//! instruct the one who judges it.

use std::fs;
use std::path::{Path, PathBuf};
use std::slice::from_ref;

use super::mirror::borrow_from;
use super::remove::remove_tree;
use super::run::Run;
use super::{Error, Identity, Oid, Repository};

/// What a checkout is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Agent configuration is taken from the base.
    Review,
    /// Exactly the tree.
    Check,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkout {
    pub dir: PathBuf,
    /// The one commit; its tree is the tree that was asked for.
    pub commit: Oid,
    pub tree: Oid,
    pub base: Oid,
    /// Where its older objects are; to be readable wherever the checkout is.
    pub mirror: PathBuf,
    /// Files that steer agents and that the change touches.
    pub agent_files: Vec<String>,
}

/// Branch names inside a checkout.
const UNDER_REVIEW: &str = "change";
const BASE: &str = "base";

impl Repository {
    /// Makes `dir` a checkout of the commit's tree on top of `base`; what was at
    /// `dir` before is replaced. `mirror` is a directory of the caller's, one per
    /// repository, that holds the history below the base from then on.
    pub async fn checkout(
        &self,
        head: &Oid,
        base: &Oid,
        purpose: Purpose,
        mirror: &Path,
        dir: &Path,
    ) -> Result<Checkout, Error> {
        self.mirror(mirror, base).await?;
        remove_tree(dir).map_err(Error::file(dir))?;
        self.init(dir, &["--initial-branch", UNDER_REVIEW]).await?;
        let git_dir = dir.join(".git");
        borrow_from(mirror, &git_dir)?;
        let tree = self.tree_of(head).await?;
        self.transfer(&tree, from_ref(base), &git_dir).await?;

        let inside = Inside {
            repository: self,
            dir,
            git_dir: &git_dir,
        };
        let commit = inside
            .one_commit(&tree, base, self.committed_at(head).await?)
            .await?;
        let changed = self.files_changed(base, head).await?;
        let touched = changed
            .into_iter()
            .flat_map(|file| [Some(file.path), file.old_path]);
        let mut agent_files: Vec<String> = touched
            .flatten()
            .filter(|path| is_agent_configuration(path))
            .collect();
        agent_files.sort();
        agent_files.dedup();
        if purpose == Purpose::Review {
            for path in &agent_files {
                inside.take_from_base(path).await?;
            }
        }
        Ok(Checkout {
            dir: dir.to_owned(),
            commit,
            tree,
            base: base.clone(),
            mirror: mirror.to_owned(),
            agent_files,
        })
    }

    async fn committed_at(&self, commit: &Oid) -> Result<String, Error> {
        let args = [
            "log",
            "--max-count=1",
            "--format=%ct +0000",
            commit.as_str(),
        ];
        self.fact(&args).await
    }
}

struct Inside<'a> {
    repository: &'a Repository,
    dir: &'a Path,
    git_dir: &'a Path,
}

impl Inside<'_> {
    fn git(&self) -> Run<'_> {
        let run = Run::new(&self.repository.tool, self.dir).with_git_dir(self.git_dir);
        run.env("GIT_WORK_TREE", self.dir)
    }

    /// The same tree, base and time give the same commit.
    async fn one_commit(&self, tree: &Oid, base: &Oid, at: String) -> Result<Oid, Error> {
        let run = self.git().by(&Identity::countersign());
        let run = run
            .env("GIT_AUTHOR_DATE", &at)
            .env("GIT_COMMITTER_DATE", &at);
        let args = [
            "commit-tree",
            "-m",
            "The change under review",
            "-p",
            base.as_str(),
            tree.as_str(),
        ];
        let commit = run.args(args).oid().await?;
        let refs = [(UNDER_REVIEW, &commit), (BASE, base)];
        let lines = refs.map(|(name, oid)| format!("update refs/heads/{name} {oid}\n"));
        self.git()
            .args(["update-ref", "--stdin"])
            .stdin(lines.concat())
            .done()
            .await?;
        self.git()
            .args(["read-tree", "-u", "--reset", "HEAD"])
            .done()
            .await?;
        Ok(commit)
    }

    /// The base's version in the work tree; the index keeps the change's, marked
    /// so that the difference is not taken for somebody's edit.
    async fn take_from_base(&self, path: &str) -> Result<(), Error> {
        let listed = self
            .git()
            .args(["ls-tree", "-z", BASE, "--", path])
            .fields()
            .await?;
        let file = self.dir.join(path);
        remove_tree(&file).map_err(Error::file(&file))?;
        let mark = ["update-index", "--skip-worktree", "--", path];
        let in_change = self.git().args(mark).answers(&[128]).said().await?.code == 0;
        if listed.is_empty() {
            return Ok(());
        }
        let index = self.git_dir.join("base-index");
        self.git()
            .index(&index)
            .args(["read-tree", BASE])
            .done()
            .await?;
        let restore = ["checkout-index", "--force", "--", path];
        self.git().index(&index).args(restore).done().await?;
        fs::remove_file(&index).map_err(Error::file(&index))?;
        if in_change {
            Ok(())
        } else {
            self.exclude(path)
        }
    }

    fn exclude(&self, path: &str) -> Result<(), Error> {
        let file = self.git_dir.join("info/exclude");
        let dir = self.git_dir.join("info");
        let before = fs::read_to_string(&file).unwrap_or_default();
        fs::create_dir_all(&dir).map_err(Error::file(&dir))?;
        fs::write(&file, format!("{before}/{path}\n")).map_err(Error::file(&file))
    }
}

/// Files that agents obey, wherever in the tree they are.
const NAMES: &[&str] = &[
    "claude.md",
    "claude.local.md",
    "agents.md",
    "agents.override.md",
    "agent.md",
    "gemini.md",
    "qwen.md",
    "warp.md",
    ".mcp.json",
    "opencode.json",
    "opencode.jsonc",
    ".cursorrules",
    ".cursorignore",
    ".windsurfrules",
    ".clinerules",
    ".roorules",
    ".goosehints",
    ".rules",
    ".aider.conf.yml",
    ".aiderignore",
    ".geminiignore",
    ".aiexclude",
    ".worktreeinclude",
];

/// Directories of which agents obey every file.
const DIRS: &[&str] = &[
    ".claude",
    ".claude-plugin",
    ".codex",
    ".gemini",
    ".cursor",
    ".opencode",
    ".qwen",
    ".goose",
    ".copilot",
    ".agents",
    ".continue",
    ".windsurf",
    ".clinerules",
    ".roo",
    ".kiro",
    ".amp",
    ".aider",
];

/// Paths, and directories with a slash, that agents obey from the top only.
const PATHS: &[&str] = &[
    ".github/copilot-instructions.md",
    ".github/instructions/",
    ".github/agents/",
    ".github/prompts/",
    ".github/chatmodes/",
    ".github/skills/",
    ".github/hooks/",
    ".vscode/mcp.json",
    ".vscode/settings.json",
    ".vscode/tasks.json",
];

/// Whether a path is configuration that steers an agent which works there.
pub fn is_agent_configuration(path: &str) -> bool {
    let path = path.to_lowercase();
    let mut parts: Vec<&str> = path.split('/').collect();
    let name = parts.pop().unwrap_or_default();
    NAMES.contains(&name)
        || DIRS.contains(&name)
        || parts.iter().any(|part| DIRS.contains(part))
        || PATHS
            .iter()
            .any(|known| *known == path || known.ends_with('/') && path.starts_with(known))
}
