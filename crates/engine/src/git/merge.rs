//! Merges two histories without a work tree: it only writes objects.

use super::{CommitIdentity, Error, Oid, Repository};

/// Shape of the landed history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeStyle {
    /// The commit itself if the base has not moved, else a merge commit.
    FastForward,
    /// Always a merge commit.
    Merge,
    /// One commit with the whole change.
    Squash,
}

/// A combination of a base and a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeResult {
    Clean {
        commit: Oid,
        tree: Oid,
    },
    /// No commit was made. The messages are those of git.
    Conflicts {
        files: Vec<String>,
        messages: String,
    },
}

impl Repository {
    /// Combines a change with a base; no branch moves.
    pub async fn combine(
        &self,
        base: &Oid,
        head: &Oid,
        how: MergeStyle,
        identity: &CommitIdentity,
        message: &str,
    ) -> Result<MergeResult, Error> {
        if how == MergeStyle::FastForward && self.is_ancestor(base, head).await? {
            let tree = self.tree_of(head).await?;
            return Ok(MergeResult::Clean {
                commit: head.clone(),
                tree,
            });
        }
        self.refuse_commands(None).await?;
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
            .accept_codes(&[1]);
        let output = run.output().await?;
        let fields = output.fields();
        let tree = fields.first().and_then(|field| Oid::parse(field));
        let (Some(tree), 0) = (tree, output.code) else {
            return Ok(parse_conflicts(&fields));
        };
        let parents: &[&Oid] = match how {
            MergeStyle::Squash => &[base],
            MergeStyle::Merge | MergeStyle::FastForward => &[base, head],
        };
        let commit = self.commit_tree(&tree, parents, identity, message).await?;
        Ok(MergeResult::Clean { commit, tree })
    }
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
