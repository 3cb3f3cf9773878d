//! Combines two histories without a work tree: it only writes objects.

use super::{CommitIdentity, Error, Oid, Repository};

/// Most commits that one change replays. Each replayed commit costs several git commands.
const REPLAY_MAX: usize = 1000;

/// Shape of the landed history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeStyle {
    /// The commit itself if the base has not moved, else a merge commit.
    FastForward,
    /// Always a merge commit.
    Merge,
    /// One commit with the whole change.
    Squash,
    /// The commits of the change, each on top of the base.
    Rebase,
}

/// Style, names and text of the commits that a combination makes.
#[derive(Clone, Copy, Debug)]
pub struct CombinePlan<'a> {
    pub style: MergeStyle,
    /// Author of a merge or squash commit. A replayed commit keeps its own.
    pub author: &'a CommitIdentity,
    pub committer: &'a CommitIdentity,
    /// Message of a merge or squash commit.
    pub message: &'a str,
    /// Makes the message of a replayed commit from its own.
    pub rewrite: fn(&str, &str) -> String,
    /// Second argument of `rewrite`.
    pub trailers: &'a str,
}

impl<'a> CombinePlan<'a> {
    /// Returns a plan in which one identity makes a commit with this message.
    pub fn simple(style: MergeStyle, identity: &'a CommitIdentity, message: &'a str) -> Self {
        Self {
            style,
            author: identity,
            committer: identity,
            message,
            rewrite: |own, _| own.to_owned(),
            trailers: "",
        }
    }
}

/// A combination of a base and a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeResult {
    /// If the base has all of the change, `commit` is the base itself (squash and rebase).
    Clean { commit: Oid, tree: Oid },
    /// No commit was made. The messages are those of git.
    Conflicts {
        files: Vec<String>,
        messages: String,
    },
}

/// A commit of the change, to be replayed.
#[derive(Clone, Debug)]
struct ReplayedCommit {
    oid: Oid,
    is_merge: bool,
    author: CommitIdentity,
    /// Seconds since 1970 and the time zone, as git writes them.
    authored_at: String,
    message: String,
}

impl Repository {
    /// Combines a change with a base; no branch moves.
    pub async fn combine(
        &self,
        base: &Oid,
        head: &Oid,
        plan: &CombinePlan<'_>,
    ) -> Result<MergeResult, Error> {
        // A base that has not moved needs no new commit, so the landed commit is the reviewed one.
        if plan.style == MergeStyle::FastForward && self.is_ancestor(base, head).await? {
            let tree = self.tree_of(head).await?;
            return Ok(MergeResult::Clean {
                commit: head.clone(),
                tree,
            });
        }
        // A merge driver in the configuration would run a program.
        self.refuse_commands(None).await?;
        let tree = match self.merged_tree(base, head).await? {
            Ok(tree) => tree,
            Err(conflicts) => return Ok(conflicts),
        };
        let commit = match plan.style {
            MergeStyle::Merge | MergeStyle::FastForward => {
                self.commit_with_names(&tree, &[base, head], plan).await?
            }
            // The base has all of the change already, and an empty commit would say nothing.
            MergeStyle::Squash if tree == self.tree_of(base).await? => base.clone(),
            MergeStyle::Squash => self.commit_with_names(&tree, &[base], plan).await?,
            MergeStyle::Rebase => self.replay(base, head, plan).await?,
        };
        Ok(MergeResult::Clean { commit, tree })
    }

    /// Merges two commits into a tree, or returns the conflicts.
    async fn merged_tree(&self, base: &Oid, head: &Oid) -> Result<Result<Oid, MergeResult>, Error> {
        let args = [
            "merge-tree",
            "--write-tree",
            "-z",
            "--name-only",
            "--messages",
        ];
        let run = self
            .git()
            .args(args)
            .args([base.as_str(), head.as_str()])
            // Git answers 1 for conflicts.
            .accept_codes(&[1]);
        let output = run.output().await?;
        let fields = output.fields();
        let tree = fields.first().and_then(|field| Oid::parse(field));
        Ok(match (tree, output.code) {
            (Some(tree), 0) => Ok(tree),
            _ => Err(parse_conflicts(&fields)),
        })
    }

    async fn commit_with_names(
        &self,
        tree: &Oid,
        parents: &[&Oid],
        plan: &CombinePlan<'_>,
    ) -> Result<Oid, Error> {
        let parents = parents.iter().flat_map(|parent| ["-p", parent.as_str()]);
        let run = self.git().identity(plan.committer).author(plan.author);
        let run = run.args(["commit-tree", "-F", "-"]).args(parents);
        run.args([tree.as_str()]).stdin(plan.message).oid().await
    }

    /// Replays the commits of the change on the base, along first parents. Each new tree is the
    /// merge of the base with the change up to that commit, so the last one is exactly the merge of
    /// the whole change. A commit that alone conflicts with the base becomes part of the next one
    /// that does not, as does a conflict that the change resolved in a merge commit. A commit that
    /// adds nothing to the base is left out.
    async fn replay(&self, base: &Oid, head: &Oid, plan: &CombinePlan<'_>) -> Result<Oid, Error> {
        let (mut top, mut top_tree) = (base.clone(), self.tree_of(base).await?);
        let mut folded: Vec<ReplayedCommit> = Vec::new();
        for commit in self.commits_to_replay(base, head).await? {
            // On top of the base the merge is the commit's own tree, which saves a merge.
            let tree = if self.is_ancestor(base, &commit.oid).await? {
                Some(self.tree_of(&commit.oid).await?)
            } else {
                self.merged_tree(base, &commit.oid).await?.ok()
            };
            let Some(tree) = tree else {
                folded.push(commit);
                continue;
            };
            if tree != top_tree {
                top = self
                    .commit_replayed(&tree, &top, (&commit, &folded), plan)
                    .await?;
                top_tree = tree;
            }
            // Folded commits are part of this one now, or added nothing.
            folded.clear();
        }
        Ok(top)
    }

    async fn commit_replayed(
        &self,
        tree: &Oid,
        parent: &Oid,
        (commit, folded): (&ReplayedCommit, &[ReplayedCommit]),
        plan: &CombinePlan<'_>,
    ) -> Result<Oid, Error> {
        // The message of a merge with the base says nothing about the change.
        let named = match folded.last() {
            Some(last) if commit.is_merge => last,
            Some(_) | None => commit,
        };
        let mut message = named.message.clone();
        let others = folded.iter().filter(|other| other.oid != named.oid);
        let subjects: Vec<String> = others
            .filter_map(|other| other.message.lines().next())
            .map(|subject| format!("* {subject}"))
            .collect();
        if !subjects.is_empty() {
            message = format!(
                "{}\n\nIncludes:\n{}",
                message.trim_end(),
                subjects.join("\n")
            );
        }
        let run = self.git().identity(plan.committer).author(&named.author);
        let run = run.env("GIT_AUTHOR_DATE", &named.authored_at);
        let run = run.args([
            "commit-tree",
            "-F",
            "-",
            "-p",
            parent.as_str(),
            tree.as_str(),
        ]);
        run.stdin((plan.rewrite)(&message, plan.trailers))
            .oid()
            .await
    }

    /// Returns the commits of the change that the base does not have, oldest first.
    async fn commits_to_replay(
        &self,
        base: &Oid,
        head: &Oid,
    ) -> Result<Vec<ReplayedCommit>, Error> {
        let range = format!("{base}..{head}");
        // One more than the limit, to see that it is exceeded.
        let max = format!("--max-count={}", REPLAY_MAX + 1);
        let format = "--format=tformat:%H%x00%P%x00%an%x00%ae%x00%ad%x00%B";
        let args = ["log", "-z", "--no-mailmap", "--first-parent", "--date=raw"];
        let run = self.git().args(args).args([&max, format, &range]);
        let output = run.output().await?;
        let fields = output.fields();
        let mut commits: Vec<ReplayedCommit> =
            fields.chunks_exact(6).filter_map(replayed_commit).collect();
        // A message with a NUL, or a cut output, gives fields that do not fit: refuse rather than
        // lose commits.
        if output.cut || commits.len() > REPLAY_MAX || commits.len() * 6 != fields.len() {
            return Err(Error::TooManyCommits { max: REPLAY_MAX });
        }
        commits.reverse();
        Ok(commits)
    }
}

fn replayed_commit(fields: &[String]) -> Option<ReplayedCommit> {
    let [oid, parents, name, email, date, message] = fields else {
        return None;
    };
    // Git refuses to make a commit by nobody, but it can read one.
    let or_unknown = |text: &String| match text.trim() {
        "" => "unknown".to_owned(),
        text => text.to_owned(),
    };
    Some(ReplayedCommit {
        oid: Oid::parse(oid)?,
        is_merge: parents.contains(' '),
        author: CommitIdentity {
            name: or_unknown(name),
            email: or_unknown(email),
        },
        authored_at: date.clone(),
        message: message.clone(),
    })
}

/// Parses the output after the tree: the files, an empty field, then per message the number of
/// paths, the paths, its kind and its text.
fn parse_conflicts(fields: &[String]) -> MergeResult {
    let mut rest = fields.get(1..).unwrap_or_default().iter();
    let mut files: Vec<String> = rest
        .by_ref()
        .take_while(|field| !field.is_empty())
        .cloned()
        .collect();
    // One file may have several conflicts.
    files.dedup();
    let mut messages = String::new();
    while let Some(count) = rest.next().and_then(|count| count.parse::<usize>().ok()) {
        let mut message = rest.by_ref().skip(count + 1);
        messages.push_str(message.next().map_or("", String::as_str));
    }
    MergeResult::Conflicts {
        files,
        messages: messages.trim_end().to_owned(),
    }
}
