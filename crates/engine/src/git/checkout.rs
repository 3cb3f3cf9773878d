//! Throw-away checkouts of one exact tree, for reviewers and for checks.
//!
//! A checkout is a separate repository with one commit of the tree on top of the merge base, so
//! that it contains no message and no commit of earlier rounds. For a reviewer, files that tools
//! read automatically come from the base, and the attributes of the change have no effect: a change
//! must not configure its reviewer.
//!
//! It refuses to share objects with the repository: a reviewer could otherwise read commits of
//! earlier rounds by their names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::slice::from_ref;

use super::command::GitCommand;
use super::mirror::borrow_from;
use super::remove::remove_tree;
use super::tool_files::{is_agent_configuration, is_read_by_tools};
use super::{CommitIdentity, Error, Oid, Repository};

/// Purpose of a checkout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckoutPurpose<'a> {
    /// For reading: files that tools read automatically come from the base, except for these paths.
    Review { ordinary: &'a [String] },
    /// For building and running by a reviewer: the tree, with the agent instructions of the base.
    Trial,
    /// For checks: exactly the tree.
    Check,
}

impl CheckoutPurpose<'_> {
    /// Returns whether the file comes from the base, whatever the change does to it.
    fn is_from_base(&self, path: &str) -> bool {
        match self {
            Self::Review { ordinary } => {
                let is_ordinary = || ordinary.iter().any(|other| other == path);
                // Instructions for agents are never ordinary, even if the project's rules list
                // them.
                is_agent_configuration(path) || is_read_by_tools(path) && !is_ordinary()
            }
            Self::Trial => is_agent_configuration(path),
            Self::Check => false,
        }
    }

    /// Returns the attributes that a change cannot override: this file has precedence over all
    /// others. A reviewer sees every file as it is stored, and every text difference as text.
    fn attributes(self) -> Option<&'static str> {
        match self {
            Self::Review { .. } => Some(concat!(
                "* !diff !text !eol !crlf !working-tree-encoding !filter !ident !merge ",
                "!whitespace !encoding !export-ignore !export-subst !delta ",
                "!conflict-marker-size !linguist-generated !linguist-vendored ",
                "!linguist-documentation !gitlab-generated\n"
            )),
            Self::Trial => Some("* !diff !linguist-generated !linguist-vendored\n"),
            Self::Check => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkout {
    pub dir: PathBuf,
    /// The only commit. Its tree is the requested tree.
    pub commit: Oid,
    pub tree: Oid,
    pub base: Oid,
    /// Directory of its older objects. It must be readable wherever the checkout is.
    pub mirror: PathBuf,
    /// Files that the change touches and that come from the base here, or are missing.
    pub from_base: Vec<String>,
}

/// Branch names inside a checkout.
const UNDER_REVIEW: &str = "change";
const BASE: &str = "base";

impl Repository {
    /// Makes `dir` a checkout of the commit's tree on top of `base`, and replaces what was there.
    /// `mirror` is a directory of the caller, one per repository, that will hold the history below
    /// the base.
    pub async fn checkout(
        &self,
        head: &Oid,
        base: &Oid,
        purpose: CheckoutPurpose<'_>,
        mirror: &Path,
        dir: &Path,
    ) -> Result<Checkout, Error> {
        // The mirror comes first, because the new repository borrows from it.
        self.update_mirror(mirror, base).await?;
        remove_tree(dir).map_err(Error::file(dir))?;
        self.init(dir, &["--initial-branch", UNDER_REVIEW]).await?;
        let git_dir = dir.join(".git");
        borrow_from(mirror, &git_dir)?;
        let tree = self.tree_of(head).await?;
        // Only objects that the base does not have are copied.
        self.copy_objects(&tree, from_ref(base), &git_dir).await?;

        let repo = CheckoutRepo {
            repository: self,
            dir,
            git_dir: &git_dir,
            oid_len: base.as_str().len(),
        };
        if let Some(attributes) = purpose.attributes() {
            // The attributes are written before any file, as git applies them while it writes
            // files.
            repo.write_info("attributes", attributes)?;
        }
        let commit = repo
            // The time of the original commit keeps the id the same for every attempt.
            .make_commit(&tree, base, self.committed_at(head).await?)
            .await?;
        let changed = self.files_changed(base, head).await?;
        let touched: BTreeSet<String> = changed
            .into_iter()
            // A renamed file counts under both names: either may be one that tools read.
            .flat_map(|file| [Some(file.path), file.old_path])
            .flatten()
            .collect();
        let mut from_base = repo.fill_work_tree(&touched, &purpose).await?;
        if purpose == CheckoutPurpose::Check {
            self.fill_submodules(head, dir).await?;
        } else {
            let is_from_base = |path: &str| purpose.is_from_base(path);
            let filled = self.fill_reviewed_submodules((head, base), dir, &from_base, is_from_base);
            from_base.extend(filled.await?);
        }
        Ok(Checkout {
            dir: dir.to_owned(),
            commit,
            tree,
            base: base.clone(),
            mirror: mirror.to_owned(),
            from_base,
        })
    }

    async fn committed_at(&self, commit: &Oid) -> Result<String, Error> {
        let args = [
            "log",
            "--max-count=1",
            "--format=%ct +0000",
            commit.as_str(),
        ];
        self.cached_answer(&args).await
    }
}

/// Repository of a checkout.
struct CheckoutRepo<'a> {
    repository: &'a Repository,
    dir: &'a Path,
    git_dir: &'a Path,
    /// Length of an object name, which depends on the object format.
    oid_len: usize,
}

impl CheckoutRepo<'_> {
    fn git(&self) -> GitCommand<'_> {
        let run = GitCommand::new(&self.repository.tool, self.dir).with_git_dir(self.git_dir);
        run.env("GIT_WORK_TREE", self.dir)
    }

    /// Creates the commit. The same tree, base and time give the same commit.
    async fn make_commit(&self, tree: &Oid, base: &Oid, at: String) -> Result<Oid, Error> {
        let run = self.git().identity(&CommitIdentity::countersign());
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
            .run()
            .await?;
        Ok(commit)
    }

    /// Writes the work tree, and returns the touched files that differ from the change.
    async fn fill_work_tree(
        &self,
        touched: &BTreeSet<String>,
        purpose: &CheckoutPurpose<'_>,
    ) -> Result<Vec<String>, Error> {
        let mut steering: BTreeSet<String> = touched
            .iter()
            .filter(|path| purpose.is_from_base(path))
            .cloned()
            .collect();
        // A check sees exactly the change, because that is what will land.
        if *purpose == CheckoutPurpose::Check {
            self.git()
                .args(["read-tree", "-u", "--reset", "HEAD"])
                .run()
                .await?;
            return Ok(Vec::new());
        }
        // A link of the base may lead to a changed file, whose base version may be a link again.
        for _ in 0..LINKS_MAX {
            self.lay_out(touched, &steering).await?;
            let more = self.behind_links(touched, &steering, purpose)?;
            if more.is_empty() {
                return Ok(steering.into_iter().collect());
            }
            steering.extend(more);
        }
        Err(Error::Failed {
            verb: "checkout".to_owned(),
            dir: self.dir.to_owned(),
            detail: "links to files that tools read lead through too many others".to_owned(),
        })
    }

    /// Writes the work tree with the base's version of some files. The index has those of the
    /// change, marked so that the difference does not look like an edit.
    async fn lay_out(
        &self,
        touched: &BTreeSet<String>,
        steering: &BTreeSet<String>,
    ) -> Result<(), Error> {
        // Each round starts from nothing, because a file may have become a directory.
        self.clear()?;
        self.git().args(["read-tree", "HEAD"]).run().await?;
        let from_change = self.entries("HEAD", steering).await?;
        let from_base = self.entries(BASE, steering).await?;
        // If a directory of the base is a file in the change, there is no place for its files.
        let has_room = |path: &str| {
            let mut around = Path::new(path).ancestors().skip(1).filter_map(Path::to_str);
            !around.any(|dir| {
                touched.contains(dir) && !steering.contains(dir) && !from_base.contains_key(dir)
            })
        };
        let from_base: BTreeMap<&String, &String> = from_base
            .iter()
            .filter(|(path, _)| has_room(path))
            .collect();
        // First the base's versions, so that git writes those files.
        self.put_in_index(steering, |path| from_base.get(path).copied())
            .await?;
        let all = ["checkout-index", "--all", "--force", "--index"];
        self.git().args(all).run().await?;
        // Then the change's versions, so that `git diff` in the checkout shows the whole change.
        self.put_in_index(steering, |path| from_change.get(path))
            .await?;
        let marked: String = from_change
            .keys()
            .flat_map(|path| [path.as_str(), "\0"])
            .collect();
        self.git()
            .args(["update-index", "-z", "--skip-worktree", "--stdin"])
            .stdin(marked)
            .run()
            .await?;
        let base_only = from_base
            .keys()
            .filter(|path| !from_change.contains_key(**path));
        // Files that only the base has would appear as untracked.
        let excluded: String = base_only.map(|path| exclude_pattern(path)).collect();
        self.write_info("exclude", &excluded)
    }

    /// Removes everything but the repository itself.
    fn clear(&self) -> Result<(), Error> {
        for entry in fs::read_dir(self.dir).map_err(Error::file(self.dir))? {
            let path = entry.map_err(Error::file(self.dir))?.path();
            if path != self.git_dir {
                remove_tree(&path).map_err(Error::file(&path))?;
            }
        }
        Ok(())
    }

    /// Returns mode and object of those paths that a commit has, in the format of an index.
    async fn entries(
        &self,
        rev: &str,
        paths: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, String>, Error> {
        let mut entries = BTreeMap::new();
        let paths: Vec<&String> = paths.iter().collect();
        for some in paths.chunks(PATHS_AT_ONCE) {
            // A path such as `:(top)x` is a name here and not a pattern.
            let run = self.git().env("GIT_LITERAL_PATHSPECS", "1");
            let run = run.args(["ls-tree", "-z", "--full-tree", rev, "--"]);
            for line in run.args(some).fields().await? {
                let Some((meta, path)) = line.split_once('\t') else {
                    continue;
                };
                let mut words = meta.split(' ');
                let (Some(mode), Some(kind), Some(oid)) =
                    (words.next(), words.next(), words.next())
                else {
                    continue;
                };
                if kind != "tree" {
                    entries.insert(path.to_owned(), format!("{mode} {oid}"));
                }
            }
        }
        Ok(entries)
    }

    /// Sets each path as `entry` says, or removes it. Removals come first: one path may be in the
    /// place of another's directory.
    async fn put_in_index<'e>(
        &self,
        paths: &BTreeSet<String>,
        entry: impl Fn(&String) -> Option<&'e String>,
    ) -> Result<(), Error> {
        // Mode zero removes an entry.
        let nothing = "0".repeat(self.oid_len);
        let removals = paths.iter().map(|path| format!("0 {nothing}\t{path}\0"));
        let additions = paths.iter().filter_map(|path| {
            let entry = entry(path)?;
            Some(format!("{entry}\t{path}\0"))
        });
        let lines: String = removals.chain(additions).collect();
        self.git()
            .args(["update-index", "-z", "--index-info"])
            .stdin(lines)
            .run()
            .await
    }

    /// Returns touched files that a tool reads by another name: a link of the base leads to them.
    fn behind_links(
        &self,
        touched: &BTreeSet<String>,
        steering: &BTreeSet<String>,
        purpose: &CheckoutPurpose<'_>,
    ) -> Result<BTreeSet<String>, Error> {
        let mut hidden = BTreeSet::new();
        let mut dirs = vec![self.dir.to_owned()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir).map_err(Error::file(&dir))? {
                let entry = entry.map_err(Error::file(&dir))?;
                let (path, kind) = (entry.path(), entry.file_type());
                let kind = kind.map_err(Error::file(&path))?;
                // The repository's own directory is not part of the work tree.
                if kind.is_dir() && path != self.git_dir {
                    dirs.push(path);
                    continue;
                }
                let Ok(below) = path.strip_prefix(self.dir) else {
                    continue;
                };
                let Some(name) = below.to_str() else {
                    // Names that are not valid text cannot be requested one by one, so the file is
                    // removed.
                    if purpose.is_from_base(&below.to_string_lossy()) {
                        fs::remove_file(&path).map_err(Error::file(&path))?;
                    }
                    continue;
                };
                if !kind.is_symlink() || !purpose.is_from_base(name) {
                    continue;
                }
                let to = fs::read_link(&path).map_err(Error::file(&path))?;
                let around = Path::new(name).parent().unwrap_or(Path::new(""));
                // A link that leads out of the checkout reaches nothing in the sandbox.
                let Some(to) = normalize_inside(&around.join(to)) else {
                    continue;
                };
                let behind = touched
                    .iter()
                    .filter(|path| Path::new(path).starts_with(&to));
                // A link may also go through a changed path, for example a directory that became a
                // link.
                let through = touched.iter().filter(|path| to.starts_with(path));
                hidden.extend(behind.chain(through).cloned());
            }
        }
        Ok(hidden.difference(steering).cloned().collect())
    }

    fn write_info(&self, name: &str, text: &str) -> Result<(), Error> {
        let dir = self.git_dir.join("info");
        fs::create_dir_all(&dir).map_err(Error::file(&dir))?;
        let file = dir.join(name);
        fs::write(&file, text).map_err(Error::file(&file))
    }
}

/// Maximum length of a chain of links.
const LINKS_MAX: usize = 8;
/// Maximum number of paths per command. Arguments are limited in total length; 200 paths are far
/// below it.
const PATHS_AT_ONCE: usize = 200;

/// Normalises a path below the top; `None` if it leads out.
fn normalize_inside(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => normal.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !normal.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(normal).filter(|normal| !normal.as_os_str().is_empty())
}

/// Returns a line that hides exactly this path from `git status`.
fn exclude_pattern(path: &str) -> String {
    let mut line = String::from("/");
    for letter in path.chars() {
        // These characters have a meaning in exclude files.
        if matches!(letter, '\\' | '*' | '?' | '[' | ']' | ' ' | '!' | '#') {
            line.push('\\');
        }
        line.push(letter);
    }
    line.push('\n');
    line
}
