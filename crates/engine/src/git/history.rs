//! Reads history: ranges, diffs and authors.

use super::command::GitCommand;
use super::{CommitIdentity, Error, Oid, Repository};

/// Number of unchanged lines around a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffContext {
    /// Three lines, for reading.
    Usual,
    /// No lines, for mapping line numbers.
    None,
}

/// A diff as text, cut at 64 MiB.
#[derive(Clone, Debug)]
pub struct DiffText {
    pub text: String,
    pub cut: bool,
}

/// One file of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    pub path: String,
    /// Earlier path, if it was renamed.
    pub old_path: Option<String>,
    /// Git's letter: `A`dded, `D`eleted, `M`odified, `R`enamed, `T`ype changed.
    pub status: char,
    /// Added lines; `None` for a binary file.
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
    /// Seconds since 1970 by the clock of the committer.
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

/// Arguments of all diffs. External diffs and text conversions are off, because they would run
/// programs.
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
        let text = self.cached_answer(&args).await?;
        Oid::parse(&text).ok_or_else(|| Error::UnknownRevision {
            rev: commit.to_string(),
        })
    }

    /// Returns the entries of a commit's top directory except one file, as a text that is equal if
    /// all other content is equal.
    pub async fn tree_without(&self, commit: &Oid, file: &str) -> Result<String, Error> {
        let listed = self
            .cached_answer(&["ls-tree", &commit.to_string()])
            .await?;
        let name = |line: &&str| line.split_once('\t').is_none_or(|(_, name)| name != file);
        let lines: Vec<&str> = listed.lines().filter(name).collect();
        Ok(lines.join("\n"))
    }

    /// Returns the best common ancestor of two commits.
    pub async fn merge_base(&self, a: &Oid, b: &Oid) -> Result<Oid, Error> {
        if a == b || self.facts.is_known_yes(&is_ancestor_args(a, b)) {
            return Ok(a.clone());
        }
        let output = self
            .cached_answer(&["merge-base", a.as_str(), b.as_str()])
            .await?;
        let unrelated = || Error::Unrelated {
            a: a.to_string(),
            b: b.to_string(),
        };
        Oid::parse(&output).ok_or_else(unrelated)
    }

    /// Returns whether `ancestor` is an ancestor of `of`. It is false after history at or below
    /// `ancestor` was rewritten.
    pub async fn is_ancestor(&self, ancestor: &Oid, of: &Oid) -> Result<bool, Error> {
        let args = is_ancestor_args(ancestor, of);
        if ancestor == of || self.facts.is_known_yes(&args) {
            return Ok(true);
        }
        let is = self
            .git()
            .args(args)
            .accept_codes(&[1])
            .output()
            .await?
            .code
            == 0;
        if is {
            self.facts.insert_yes(&args);
        }
        Ok(is)
    }

    /// Returns the default base branch: the remote's default, else `main`, `master` or `trunk`,
    /// else the current one.
    pub async fn default_base(&self) -> Result<String, Error> {
        let remote = [
            "symbolic-ref",
            "--quiet",
            "--short",
            "refs/remotes/origin/HEAD",
        ];
        let remote = self.git().args(remote).accept_codes(&[1]).text().await?;
        let remote = remote.strip_prefix("origin/").map(str::to_owned);
        let common_names = ["main", "master", "trunk"].map(str::to_owned);
        for branch in remote.into_iter().chain(common_names) {
            if self.branch_tip(&branch).await?.is_some() {
                return Ok(branch);
            }
        }
        let current = ["symbolic-ref", "--quiet", "--short", "HEAD"];
        let run = self
            .own
            .as_ref()
            .map_or_else(|| self.git(), |own| self.git_at(own));
        let current = run.args(current).accept_codes(&[1]).text().await?;
        if current.is_empty() {
            return Err(Error::UnknownRevision {
                rev: "main, master or trunk".to_owned(),
            });
        }
        Ok(current)
    }

    /// Returns the tip of a local branch, if it exists.
    pub async fn branch_tip(&self, name: &str) -> Result<Option<Oid>, Error> {
        self.read_ref(&format!("refs/heads/{name}")).await
    }

    /// Returns the commit that work on a base branch starts from. This is the commit of the remote,
    /// unless the local branch contains it and more: changes that landed here and are not pushed
    /// yet belong to the base too.
    pub async fn base_tip(&self, branch: &str) -> Result<Oid, Error> {
        let local = self.branch_tip(branch).await?;
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

    /// Returns a file of a commit; `None` if it is missing or not a file.
    pub async fn file_at(&self, commit: &Oid, path: &str) -> Result<Option<Vec<u8>>, Error> {
        let run = self
            .git()
            .args(["cat-file", "blob", &format!("{commit}:{path}")]);
        let output = run.accept_codes(&[128]).output().await?;
        if output.cut {
            return Err(Error::TooLarge(format!("cat-file {path}")));
        }
        Ok((output.code == 0).then_some(output.out))
    }

    /// Returns those of the paths that are files of a commit.
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
        let lines = run.args(list).args(paths).fields().await?;
        Ok(lines.iter().filter_map(|line| named_file(line)).collect())
    }

    /// Returns the paths of all files of a commit.
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

    /// Returns a git command for diffs without any attributes, so that no `*.py -diff` hides a
    /// change from us. There is no work tree here; git would read attributes from the user's index,
    /// and newer versions from a tree, unless another source is given.
    fn git_for_diff(&self, like: &Oid) -> GitCommand<'_> {
        let no_index = self.common.join("countersign-no-index");
        let run = self.git().index(&no_index);
        run.env("GIT_ATTR_SOURCE", empty_tree(like))
    }

    /// Returns the diff of two commits as text.
    pub async fn diff(
        &self,
        from: &Oid,
        to: &Oid,
        context: DiffContext,
    ) -> Result<DiffText, Error> {
        self.diff_of_paths(from, to, context, &[]).await
    }

    /// Returns the diff of some paths; without a path, of all. A renamed file needs both its names.
    pub async fn diff_of_paths(
        &self,
        from: &Oid,
        to: &Oid,
        context: DiffContext,
        paths: &[&str],
    ) -> Result<DiffText, Error> {
        let unified = match context {
            DiffContext::Usual => "-U3",
            DiffContext::None => "-U0",
        };
        // A path is a name here and never a pattern.
        let literal: Vec<String> = paths
            .iter()
            .map(|path| format!(":(literal){path}"))
            .collect();
        let mut args = [DIFF, &["-p", unified, from.as_str(), to.as_str(), "--"]].concat();
        args.extend(literal.iter().map(String::as_str));
        if let Some(text) = self.facts.get(&args) {
            return Ok(DiffText { text, cut: false });
        }
        let output = self.git_for_diff(from).args(&args).output().await?;
        let text = String::from_utf8_lossy(&output.out).into_owned();
        if !output.cut {
            self.facts.insert(&args, &text);
        }
        Ok(DiffText {
            text,
            cut: output.cut,
        })
    }

    /// Returns an id of the change between two commits that is the same on another base, as long as
    /// the lines around it are the same there. Line numbers do not count. Everything else does: a
    /// few lines of context, binary content, modes, and bytes that are no UTF-8.
    pub async fn change_id(&self, from: &Oid, to: &Oid) -> Result<String, Error> {
        let whole = ["-p", "-U3", "--binary", "--full-index"];
        let ends = [from.as_str(), to.as_str()];
        let args = [DIFF, &whole, &ends].concat();
        let mut output = self.git_for_diff(from).args(&args).output().await?;
        if output.cut {
            // Too long to be compared as text. The names of all blobs are exact as well; they only
            // differ if the base has changed the same files.
            let args = [DIFF, &["--raw", "--full-index"], &ends].concat();
            output = self.git_for_diff(from).args(&args).output().await?;
            if output.cut {
                return Err(Error::TooLarge("diff-tree --raw".to_owned()));
            }
        }
        let lines = output.out.split(|byte| *byte == b'\n');
        let counted =
            lines.filter(|line| !line.starts_with(b"@@ ") && !line.starts_with(b"index "));
        Ok(crate::hash::sha256(
            &counted.collect::<Vec<_>>().join(&b'\n'),
        ))
    }

    /// Returns the files that differ between two commits.
    pub async fn files_changed(&self, from: &Oid, to: &Oid) -> Result<Vec<ChangedFile>, Error> {
        let more = ["-z", "--raw", "--numstat", from.as_str(), to.as_str()];
        let args = [DIFF, &more].concat();
        let cached = self.facts.get(&args);
        let text = if let Some(text) = cached {
            text
        } else {
            let text = self.git_for_diff(from).args(&args).text().await?;
            self.facts.insert(&args, &text);
            text
        };
        let fields: Vec<String> = text.split_terminator('\0').map(str::to_owned).collect();
        Ok(file_changes(&fields))
    }

    /// Returns the commits of `from..to`, newest first, at most `max`.
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

    /// Returns the author of the newest commit that is no merge; `None` if it names nobody.
    pub async fn author_of(&self, commit: &Oid) -> Result<Option<CommitIdentity>, Error> {
        let format = "--format=tformat:%an%x00%ae";
        let args = ["log", "-z", "--no-mailmap", "--no-merges", "--max-count=1"];
        let run = self.git().args(args).args([format, commit.as_str()]);
        let fields = run.fields().await?;
        let [name, email] = fields.as_slice() else {
            return Ok(None);
        };
        let (name, email) = (name.trim(), email.trim());
        Ok(
            (!name.is_empty() && !email.is_empty()).then(|| CommitIdentity {
                name: name.to_owned(),
                email: email.to_owned(),
            }),
        )
    }

    /// Returns the subjects of the newest commits, newest first.
    pub async fn recent_subjects(&self, tip: &Oid, max: usize) -> Result<Vec<String>, Error> {
        let max = format!("--max-count={max}");
        let args = ["log", "-z", "--no-merges", &max, "--format=tformat:%s"];
        self.git().args(args).args([tip.as_str()]).fields().await
    }

    /// Returns all authors and committers of `from..to`.
    pub async fn authors_and_committers(
        &self,
        from: &Oid,
        to: &Oid,
    ) -> Result<Vec<CommitPerson>, Error> {
        let range = format!("{from}..{to}");
        let format = "--format=tformat:%an%x00%ae%x00%cn%x00%ce";
        let text = self
            .cached_answer(&["log", "-z", "--no-mailmap", format, &range])
            .await?;
        let fields: Vec<String> = text.split('\0').map(str::to_owned).collect();
        let mut people: Vec<CommitPerson> = fields.chunks_exact(2).map(person).collect();
        people.sort();
        people.dedup();
        Ok(people)
    }
}

/// Returns the empty tree in the same object format as `like`.
fn empty_tree(like: &Oid) -> &'static str {
    if like.as_str().len() == 64 {
        "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
    } else {
        "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    }
}

/// Returns the git arguments that ask whether one commit is an ancestor of another.
fn is_ancestor_args<'a>(ancestor: &'a Oid, of: &'a Oid) -> [&'a str; 4] {
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

/// Parses raw records (`:modes oids status`, path, and the new path of a rename), then numstat
/// records (`added\tremoved\tpath`, or with an empty path and both after).
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
