//! Throw-away checkouts of one exact tree, for reviewers and for checks.
//!
//! A checkout is a repository of its own: one commit with the tree on top of the
//! merge base, so that no message and no commit of earlier rounds is in it. For a
//! reviewer the files that tools read by themselves are those of the base, and the
//! change's attributes count for nothing: a change must not configure the one who
//! judges it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::slice::from_ref;

use super::mirror::borrow_from;
use super::remove::remove_tree;
use super::run::GitCommand;
use super::tool_files::{is_agent_configuration, is_read_by_tools};
use super::{CommitIdentity, Error, Oid, Repository};

/// What a checkout is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckoutPurpose<'a> {
    /// To be read: files that tools read by themselves are the base's, but for these paths.
    Review { ordinary: &'a [String] },
    /// For a reviewer to build and run: the tree, with the base's instructions for agents.
    Trial,
    /// Exactly the tree.
    Check,
}

impl CheckoutPurpose<'_> {
    /// Whether the file is the base's, whatever the change does to it.
    fn is_from_base(&self, path: &str) -> bool {
        match self {
            Self::Review { ordinary } => {
                let is_ordinary = || ordinary.iter().any(|known| known == path);
                is_agent_configuration(path) || is_read_by_tools(path) && !is_ordinary()
            }
            Self::Trial => is_agent_configuration(path),
            Self::Check => false,
        }
    }

    /// The attributes that a change cannot set here: this file goes before all others. A reviewer
    /// sees every file as it is stored, and every difference as text where it is text.
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
    /// The one commit; its tree is the tree that was asked for.
    pub commit: Oid,
    pub tree: Oid,
    pub base: Oid,
    /// Where its older objects are; to be readable wherever the checkout is.
    pub mirror: PathBuf,
    /// Files that the change touches and of which the base's version is here, or none.
    pub from_base: Vec<String>,
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
        purpose: CheckoutPurpose<'_>,
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

        let inside = CheckoutRepo {
            repository: self,
            dir,
            git_dir: &git_dir,
            oid_len: base.as_str().len(),
        };
        if let Some(attributes) = purpose.attributes() {
            inside.write_info("attributes", attributes)?;
        }
        let commit = inside
            .one_commit(&tree, base, self.committed_at(head).await?)
            .await?;
        let changed = self.files_changed(base, head).await?;
        let touched: BTreeSet<String> = changed
            .into_iter()
            .flat_map(|file| [Some(file.path), file.old_path])
            .flatten()
            .collect();
        let from_base = inside.fill(&touched, &purpose).await?;
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
        self.fact(&args).await
    }
}

struct CheckoutRepo<'a> {
    repository: &'a Repository,
    dir: &'a Path,
    git_dir: &'a Path,
    /// Of an object's name, which depends on the kind of hash.
    oid_len: usize,
}

impl CheckoutRepo<'_> {
    fn git(&self) -> GitCommand<'_> {
        let run = GitCommand::new(&self.repository.tool, self.dir).with_git_dir(self.git_dir);
        run.env("GIT_WORK_TREE", self.dir)
    }

    /// The same tree, base and time give the same commit.
    async fn one_commit(&self, tree: &Oid, base: &Oid, at: String) -> Result<Oid, Error> {
        let run = self.git().by(&CommitIdentity::countersign());
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
        Ok(commit)
    }

    /// Fills the work tree, and says which of the touched files are not as the change has them.
    async fn fill(
        &self,
        touched: &BTreeSet<String>,
        purpose: &CheckoutPurpose<'_>,
    ) -> Result<Vec<String>, Error> {
        let mut steering: BTreeSet<String> = touched
            .iter()
            .filter(|path| purpose.is_from_base(path))
            .cloned()
            .collect();
        if *purpose == CheckoutPurpose::Check {
            self.git()
                .args(["read-tree", "-u", "--reset", "HEAD"])
                .done()
                .await?;
            return Ok(Vec::new());
        }
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

    /// The work tree with the base's version of some files. The index has the change's, marked so that
    /// the difference is not taken for somebody's edit.
    async fn lay_out(
        &self,
        touched: &BTreeSet<String>,
        steering: &BTreeSet<String>,
    ) -> Result<(), Error> {
        self.clear()?;
        self.git().args(["read-tree", "HEAD"]).done().await?;
        let ours = self.entries("HEAD", steering).await?;
        let theirs = self.entries(BASE, steering).await?;
        // A directory of the base that is a file in the change has no room for what was in it.
        let has_room = |path: &str| {
            let mut around = Path::new(path).ancestors().skip(1).filter_map(Path::to_str);
            !around.any(|dir| {
                touched.contains(dir) && !steering.contains(dir) && !theirs.contains_key(dir)
            })
        };
        let theirs: BTreeMap<&String, &String> =
            theirs.iter().filter(|(path, _)| has_room(path)).collect();
        self.put_in_index(steering, |path| theirs.get(path).copied())
            .await?;
        let all = ["checkout-index", "--all", "--force", "--index"];
        self.git().args(all).done().await?;
        self.put_in_index(steering, |path| ours.get(path)).await?;
        let marked: String = ours.keys().flat_map(|path| [path.as_str(), "\0"]).collect();
        self.git()
            .args(["update-index", "-z", "--skip-worktree", "--stdin"])
            .stdin(marked)
            .done()
            .await?;
        let strange = theirs.keys().filter(|path| !ours.contains_key(**path));
        let excluded: String = strange.map(|path| excluded(path)).collect();
        self.write_info("exclude", &excluded)
    }

    /// Everything but the repository itself.
    fn clear(&self) -> Result<(), Error> {
        for entry in fs::read_dir(self.dir).map_err(Error::file(self.dir))? {
            let path = entry.map_err(Error::file(self.dir))?.path();
            if path != self.git_dir {
                remove_tree(&path).map_err(Error::file(&path))?;
            }
        }
        Ok(())
    }

    /// Mode and object of those of the paths that a commit has, as an index takes them.
    async fn entries(
        &self,
        rev: &str,
        paths: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, String>, Error> {
        let mut found = BTreeMap::new();
        let paths: Vec<&String> = paths.iter().collect();
        for some in paths.chunks(PATHS_AT_ONCE) {
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
                    found.insert(path.to_owned(), format!("{mode} {oid}"));
                }
            }
        }
        Ok(found)
    }

    /// Each path as `entry` says, or not at all. Removed first: one may be where another's directory is.
    async fn put_in_index<'e>(
        &self,
        paths: &BTreeSet<String>,
        entry: impl Fn(&String) -> Option<&'e String>,
    ) -> Result<(), Error> {
        let nothing = "0".repeat(self.oid_len);
        let gone = paths.iter().map(|path| format!("0 {nothing}\t{path}\0"));
        let put = paths.iter().filter_map(|path| {
            let entry = entry(path)?;
            Some(format!("{entry}\t{path}\0"))
        });
        let lines: String = gone.chain(put).collect();
        self.git()
            .args(["update-index", "-z", "--index-info"])
            .stdin(lines)
            .done()
            .await
    }

    /// Touched files that a tool reads by another name: a link of the base that leads to them.
    fn behind_links(
        &self,
        touched: &BTreeSet<String>,
        steering: &BTreeSet<String>,
        purpose: &CheckoutPurpose<'_>,
    ) -> Result<BTreeSet<String>, Error> {
        let mut found = BTreeSet::new();
        let mut dirs = vec![self.dir.to_owned()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir).map_err(Error::file(&dir))? {
                let entry = entry.map_err(Error::file(&dir))?;
                let (path, kind) = (entry.path(), entry.file_type());
                let kind = kind.map_err(Error::file(&path))?;
                if kind.is_dir() && path != self.git_dir {
                    dirs.push(path);
                    continue;
                }
                let Ok(below) = path.strip_prefix(self.dir) else {
                    continue;
                };
                let Some(name) = below.to_str() else {
                    // Names that are no text cannot be asked for one by one, so it is left out.
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
                let Some(to) = inside(&around.join(to)) else {
                    continue;
                };
                let behind = touched
                    .iter()
                    .filter(|path| Path::new(path).starts_with(&to));
                let through = touched.iter().filter(|path| to.starts_with(path));
                found.extend(behind.chain(through).cloned());
            }
        }
        Ok(found.difference(steering).cloned().collect())
    }

    fn write_info(&self, name: &str, text: &str) -> Result<(), Error> {
        let dir = self.git_dir.join("info");
        fs::create_dir_all(&dir).map_err(Error::file(&dir))?;
        let file = dir.join(name);
        fs::write(&file, text).map_err(Error::file(&file))
    }
}

/// Links that lead to links are followed so often.
const LINKS_MAX: usize = 8;
/// Paths that one command is asked about.
const PATHS_AT_ONCE: usize = 200;

/// A path below the top, without dots in it; nothing if it leads out.
fn inside(path: &Path) -> Option<PathBuf> {
    let mut found = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => found.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !found.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(found).filter(|found| !found.as_os_str().is_empty())
}

/// A line that hides exactly this path from `git status`.
fn excluded(path: &str) -> String {
    let mut line = String::from("/");
    for letter in path.chars() {
        if matches!(letter, '\\' | '*' | '?' | '[' | ']' | ' ' | '!' | '#') {
            line.push('\\');
        }
        line.push(letter);
    }
    line.push('\n');
    line
}
