//! Reading history: ranges, diffs, and who wrote them.

use super::run::GitCommand;
use super::{Error, Oid, Repository};

/// How much of a diff stands around a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffContext {
    /// Three lines, for reading.
    Usual,
    /// None, for mapping lines.
    None,
}

/// A diff as text; cut where it is longer than 64 MiB.
#[derive(Clone, Debug)]
pub struct DiffText {
    pub text: String,
    pub cut: bool,
}

/// One file of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    pub path: String,
    /// Where it was, if it was renamed.
    pub old_path: Option<String>,
    /// Git's letter: `A`dded, `D`eleted, `M`odified, `R`enamed, `T`ype changed.
    pub status: char,
    /// None for a binary file.
    pub added: Option<u32>,
    pub removed: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommitPerson {
    pub name: String,
    pub email: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    pub oid: Oid,
    pub author: CommitPerson,
    pub committer: CommitPerson,
    /// Seconds since 1970, as the committer's clock had it.
    pub committed_at: i64,
    pub message: String,
}

/// A file of a commit, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    pub path: String,
    pub is_link: bool,
    pub bytes: u64,
}

/// Reads a line of `ls-tree -l`: `100644 blob 1f7a…     312\tREADME.md`.
fn named_file(line: &str) -> Option<NamedFile> {
    let (facts, path) = line.split_once('\t')?;
    let mut facts = facts.split_ascii_whitespace();
    let (mode, kind, bytes) = (facts.next()?, facts.next()?, facts.nth(1)?);
    (kind == "blob").then_some(NamedFile {
        path: path.to_owned(),
        is_link: mode == "120000",
        bytes: bytes.parse().ok()?,
    })
}

const DIFF: &[&str] = &[
    "diff-tree",
    "-r",
    "-M",
    "-l1000",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--submodule=short",
];

impl Repository {
    pub async fn tree_of(&self, commit: &Oid) -> Result<Oid, Error> {
        let args = ["rev-parse", "--verify", &format!("{commit}^{{tree}}")];
        let text = self.fact(&args).await?;
        Oid::parse(&text).ok_or_else(|| Error::UnknownRevision {
            rev: commit.to_string(),
        })
    }

    pub async fn merge_base(&self, a: &Oid, b: &Oid) -> Result<Oid, Error> {
        if a == b || self.facts.is_so(&descent(a, b)) {
            return Ok(a.clone());
        }
        let said = self.fact(&["merge-base", a.as_str(), b.as_str()]).await?;
        let unrelated = || Error::Unrelated {
            a: a.to_string(),
            b: b.to_string(),
        };
        Oid::parse(&said).ok_or_else(unrelated)
    }

    /// False after history at or below `ancestor` was rewritten.
    pub async fn is_ancestor(&self, ancestor: &Oid, of: &Oid) -> Result<bool, Error> {
        let args = descent(ancestor, of);
        if ancestor == of || self.facts.is_so(&args) {
            return Ok(true);
        }
        let is = self.git().args(args).answers(&[1]).said().await?.code == 0;
        if is {
            self.facts.learn_so(&args);
        }
        Ok(is)
    }

    /// The branch that work starts from where nobody said otherwise: the
    /// remote's default, else `main`, `master` or `trunk`, else the current one.
    pub async fn default_base(&self) -> Result<String, Error> {
        let remote = [
            "symbolic-ref",
            "--quiet",
            "--short",
            "refs/remotes/origin/HEAD",
        ];
        let remote = self.git().args(remote).answers(&[1]).text().await?;
        let remote = remote.strip_prefix("origin/").map(str::to_owned);
        let usual = ["main", "master", "trunk"].map(str::to_owned);
        for branch in remote.into_iter().chain(usual) {
            if self.branch(&branch).await?.is_some() {
                return Ok(branch);
            }
        }
        let current = ["symbolic-ref", "--quiet", "--short", "HEAD"];
        let run = self
            .own
            .as_ref()
            .map_or_else(|| self.git(), |own| self.git_at(own));
        let current = run.args(current).answers(&[1]).text().await?;
        if current.is_empty() {
            return Err(Error::UnknownRevision {
                rev: "main, master or trunk".to_owned(),
            });
        }
        Ok(current)
    }

    /// The tip of a local branch, if there is such a branch.
    pub async fn branch(&self, name: &str) -> Result<Option<Oid>, Error> {
        self.read_ref(&format!("refs/heads/{name}")).await
    }

    /// Where work on a base branch starts. The remote's word counts, unless the local branch has
    /// all of it and more: what has landed here and is not pushed yet belongs to the base too.
    pub async fn base(&self, branch: &str) -> Result<Oid, Error> {
        let local = self.branch(branch).await?;
        let remote = format!("refs/remotes/origin/{branch}");
        let remote = self.read_ref(&remote).await?;
        match (local, remote) {
            (Some(local), Some(remote)) if self.is_ancestor(&remote, &local).await? => Ok(local),
            (_, Some(remote)) => Ok(remote),
            (Some(local), None) => Ok(local),
            (None, None) => Err(Error::UnknownRevision {
                rev: branch.to_owned(),
            }),
        }
    }

    /// A file as it is in a commit; None if it is not there or is no file.
    pub async fn file_at(&self, commit: &Oid, path: &str) -> Result<Option<Vec<u8>>, Error> {
        let run = self
            .git()
            .args(["cat-file", "blob", &format!("{commit}:{path}")]);
        let said = run.answers(&[128]).said().await?;
        if said.cut {
            return Err(Error::TooLarge(format!("cat-file {path}")));
        }
        Ok((said.code == 0).then_some(said.out))
    }

    /// Those of the paths that are files of a commit.
    pub async fn named_files_at(
        &self,
        commit: &Oid,
        paths: &[&str],
    ) -> Result<Vec<NamedFile>, Error> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let run = self.git().env("GIT_LITERAL_PATHSPECS", "1");
        let list = ["ls-tree", "-z", "-l", "--full-tree", commit.as_str(), "--"];
        let found = run.args(list).args(paths).fields().await?;
        Ok(found.iter().filter_map(|line| named_file(line)).collect())
    }

    /// The paths of all files of a commit.
    pub async fn files_at(&self, commit: &Oid) -> Result<Vec<String>, Error> {
        let list = [
            "ls-tree",
            "-r",
            "-z",
            "--full-tree",
            "--name-only",
            commit.as_str(),
        ];
        self.git().args(list).fields().await
    }

    /// For differences: without anybody's attributes, so that no `*.py -diff` hides a change from us.
    /// There is no work tree here; git would take them from the person's index, and newer versions
    /// from a tree, unless another is named.
    fn git_for_diff(&self, like: &Oid) -> GitCommand<'_> {
        let no_index = self.common.join("countersign-no-index");
        let run = self.git().index(&no_index);
        run.env("GIT_ATTR_SOURCE", empty_tree(like))
    }

    pub async fn diff(
        &self,
        from: &Oid,
        to: &Oid,
        context: DiffContext,
    ) -> Result<DiffText, Error> {
        let unified = match context {
            DiffContext::Usual => "-U3",
            DiffContext::None => "-U0",
        };
        let args = [DIFF, &["-p", unified, from.as_str(), to.as_str()]].concat();
        if let Some(text) = self.facts.known(&args) {
            return Ok(DiffText { text, cut: false });
        }
        let said = self.git_for_diff(from).args(&args).said().await?;
        let text = String::from_utf8_lossy(&said.out).into_owned();
        if !said.cut {
            self.facts.learn(&args, &text);
        }
        Ok(DiffText {
            text,
            cut: said.cut,
        })
    }

    pub async fn files_changed(&self, from: &Oid, to: &Oid) -> Result<Vec<ChangedFile>, Error> {
        let more = ["-z", "--raw", "--numstat", from.as_str(), to.as_str()];
        let args = [DIFF, &more].concat();
        let known = self.facts.known(&args);
        let text = if let Some(text) = known {
            text
        } else {
            let text = self.git_for_diff(from).args(&args).text().await?;
            self.facts.learn(&args, &text);
            text
        };
        let fields: Vec<String> = text.split_terminator('\0').map(str::to_owned).collect();
        Ok(file_changes(&fields))
    }

    /// The commits of `from..to`, newest first, at most `max` of them.
    pub async fn log(&self, from: &Oid, to: &Oid, max: u32) -> Result<Vec<Commit>, Error> {
        let range = format!("{from}..{to}");
        let max = format!("--max-count={max}");
        let format = "--format=tformat:%H%x00%an%x00%ae%x00%cn%x00%ce%x00%ct%x00%B";
        let fields = self
            .git()
            .args(["log", "-z", "--no-mailmap", &max, format, &range])
            .fields();
        Ok(fields.await?.chunks_exact(7).filter_map(commit).collect())
    }

    /// Everybody who wrote or committed a part of `from..to`.
    pub async fn people(&self, from: &Oid, to: &Oid) -> Result<Vec<CommitPerson>, Error> {
        let range = format!("{from}..{to}");
        let format = "--format=tformat:%an%x00%ae%x00%cn%x00%ce";
        let text = self
            .fact(&["log", "-z", "--no-mailmap", format, &range])
            .await?;
        let fields: Vec<String> = text.split('\0').map(str::to_owned).collect();
        let mut people: Vec<CommitPerson> = fields.chunks_exact(2).map(person).collect();
        people.sort();
        people.dedup();
        Ok(people)
    }
}

/// The empty tree, by the same kind of hash as another object.
fn empty_tree(like: &Oid) -> &'static str {
    if like.as_str().len() == 64 {
        "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
    } else {
        "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    }
}

/// Asks whether the one comes before the other.
fn descent<'a>(ancestor: &'a Oid, of: &'a Oid) -> [&'a str; 4] {
    let (ancestor, of) = (ancestor.as_str(), of.as_str());
    ["merge-base", "--is-ancestor", ancestor, of]
}

fn person(pair: &[String]) -> CommitPerson {
    CommitPerson {
        name: pair[0].clone(),
        email: pair[1].clone(),
    }
}

fn commit(fields: &[String]) -> Option<Commit> {
    Some(Commit {
        oid: Oid::parse(&fields[0])?,
        author: person(&fields[1..3]),
        committer: person(&fields[3..5]),
        committed_at: fields[5].parse().ok()?,
        message: fields[6].trim_end().to_owned(),
    })
}

/// Raw records (`:modes oids status`, path, and the new path of a rename), then
/// numstat records (`added\tremoved\tpath`, or with an empty path and both after).
fn file_changes(fields: &[String]) -> Vec<ChangedFile> {
    let mut changes = Vec::new();
    let mut counted = 0;
    let mut fields = fields.iter();
    while let Some(field) = fields.next() {
        if let Some(raw) = field.strip_prefix(':') {
            changes.extend(raw_change(raw, &mut fields));
        } else if let Some((added, removed, renamed)) = counts(field) {
            if renamed {
                fields.by_ref().take(2).for_each(drop);
            }
            if let Some(change) = changes.get_mut(counted) {
                change.added = added;
                change.removed = removed;
                counted += 1;
            }
        }
    }
    changes
}

fn raw_change<'a>(raw: &str, fields: &mut impl Iterator<Item = &'a String>) -> Option<ChangedFile> {
    let status = raw.rsplit(' ').next()?.chars().next()?;
    let first = fields.next()?.clone();
    let (path, old_path) = match status {
        'R' | 'C' => (fields.next()?.clone(), Some(first)),
        _ => (first, None),
    };
    Some(ChangedFile {
        path,
        old_path,
        status,
        added: None,
        removed: None,
    })
}

fn counts(field: &str) -> Option<(Option<u32>, Option<u32>, bool)> {
    let mut parts = field.splitn(3, '\t');
    let added = parts.next()?.parse().ok();
    let removed = parts.next()?.parse().ok();
    Some((added, removed, parts.next()?.is_empty()))
}
