//! Bringing two histories together without a work tree, and landing the result.
//!
//! Combining writes objects only; landing is one compare-and-swap of one ref. So
//! a kill leaves either the old branch or the new one, and of two who land at
//! once one is told that the branch has moved.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::{Error, Identity, Oid, Place, Repository};

/// What the landed history looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The very commit where the base has not moved, else a merge commit.
    FastForward,
    /// Always a merge commit.
    Merge,
    /// One commit with the whole change.
    Squash,
}

/// A combination of a base and a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Combined {
    Clean {
        commit: Oid,
        tree: Oid,
    },
    /// Nothing was made. The messages are git's own.
    Conflicts {
        files: Vec<String>,
        messages: String,
    },
}

/// What became of landing a commit on a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Landed {
    /// The branch is there; `forwarded` are the work trees that went with it.
    Done { forwarded: Vec<PathBuf> },
    /// The branch is there, but a work tree on it could not follow: its files are
    /// still the old ones, and nothing in it was touched.
    LeftBehind { work_tree: PathBuf, why: String },
    /// The branch is no longer where the combination was made; make it again.
    Moved { to: Option<Oid> },
    /// Somebody's work tree is on the branch and has changes of its own, or an
    /// operation waits in it; the branch was not moved under it.
    Held { work_tree: PathBuf, why: String },
}

impl Repository {
    /// Combines a change with a base; no branch moves.
    pub async fn combine(
        &self,
        base: &Oid,
        head: &Oid,
        how: How,
        identity: &Identity,
        message: &str,
    ) -> Result<Combined, Error> {
        if how == How::FastForward && self.is_ancestor(base, head).await? {
            let tree = self.tree_of(head).await?;
            return Ok(Combined::Clean {
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
            .answers(&[1]);
        let said = run.said().await?;
        let fields = said.fields();
        let tree = fields.first().and_then(|field| Oid::parse(field));
        let (Some(tree), 0) = (tree, said.code) else {
            return Ok(conflicts(&fields));
        };
        let parents: &[&Oid] = match how {
            How::Squash => &[base],
            How::Merge | How::FastForward => &[base, head],
        };
        let commit = self.commit_tree(&tree, parents, identity, message).await?;
        Ok(Combined::Clean { commit, tree })
    }

    /// Moves a branch from `old` to `new`, if it still is at `old`.
    ///
    /// A clean work tree on that branch is brought along by a two-way merge of
    /// its index, which refuses to overwrite anything. One with changes of its own
    /// keeps the branch where it is: moving it would show the person a tree that
    /// undoes what has just landed.
    pub async fn land(&self, branch: &str, new: &Oid, old: &Oid) -> Result<Landed, Error> {
        let places = self.places_on(branch).await?;
        if self.branch(branch).await?.as_ref() == Some(new) {
            // Killed after the swap, perhaps before the work trees followed.
            return self.bring_along(places, old, new).await;
        }
        for place in &places {
            if let Some(why) = self.in_the_way(place, old, new).await? {
                let to = self.branch(branch).await?;
                if to.as_ref() != Some(old) {
                    // What is in the way was brought there by whoever moved the branch.
                    return Ok(Landed::Moved { to });
                }
                return Ok(Landed::Held {
                    work_tree: place.path.clone(),
                    why,
                });
            }
        }
        self.unlock_shared_branch(branch).await?;
        self.note_landing(branch, old, new)?;
        let name = format!("refs/heads/{branch}");
        let args = [
            "update-ref",
            "-m",
            "countersign: land",
            &name,
            new.as_str(),
            old.as_str(),
        ];
        if self.git().args(args).answers(&[1, 128]).said().await?.code != 0 {
            let to = self.branch(branch).await?;
            self.landing_is_over(branch);
            return Ok(Landed::Moved { to });
        }
        let landed = self.bring_along(places, old, new).await?;
        self.landing_is_over(branch);
        Ok(landed)
    }

    async fn bring_along(&self, places: Vec<Place>, old: &Oid, new: &Oid) -> Result<Landed, Error> {
        let mut forwarded = Vec::new();
        for place in places {
            match self.forward(&place, old, new, false).await {
                Ok(()) => forwarded.push(place.path),
                // The note of the landing stays: whoever comes next finishes it.
                Err(error) if is_no_word_on_the_tree(&error) => return Err(error),
                Err(error) => {
                    return Ok(Landed::LeftBehind {
                        work_tree: place.path,
                        why: error.to_string(),
                    });
                }
            }
        }
        Ok(Landed::Done { forwarded })
    }

    async fn in_the_way(
        &self,
        place: &Place,
        old: &Oid,
        new: &Oid,
    ) -> Result<Option<String>, Error> {
        if let Some(what) = super::state::unfinished_in(&place.git_dir) {
            return Ok(Some(format!("a {what} waits to be finished there")));
        }
        // New files are in the way only where the commit has one of the same name; see below.
        let changed = self.changed_at(place).await?;
        if let Some(first) = changed.first() {
            let more = changed.len() - 1;
            return Ok(Some(format!(
                "{first} and {more} more files there are not committed"
            )));
        }
        if let Some(path) = self.covered(place, old, new).await? {
            return Ok(Some(format!("{path} there would be overwritten")));
        }
        match self.forward(place, old, new, true).await {
            Ok(()) => Ok(None),
            Err(error) if is_no_word_on_the_tree(&error) => Err(error),
            Err(error) => Ok(Some(error.to_string())),
        }
    }

    /// A file, ignored or not, where the new commit adds one. Git would replace
    /// an ignored one without a word.
    async fn covered(&self, place: &Place, old: &Oid, new: &Oid) -> Result<Option<String>, Error> {
        let args = [
            "diff-tree",
            "-r",
            "-z",
            "--no-renames",
            "--name-status",
            "--diff-filter=AD",
        ];
        let listed = self
            .git()
            .args(args)
            .args([old.as_str(), new.as_str()])
            .fields()
            .await?;
        // A letter and a path, in turns.
        let of = |letter: &'static str| {
            let pairs = listed.chunks_exact(2);
            pairs.filter_map(move |pair| (pair[0] == letter).then_some(&pair[1]))
        };
        let deleted: HashSet<&Path> = of("D").map(Path::new).collect();
        let covers = |path: &Path| {
            let full = place.path.join(path);
            full.symlink_metadata()
                .is_ok_and(|_| !deleted.contains(path))
        };
        let blocked = |name: &&String| {
            let above = Path::new(name.as_str()).ancestors().skip(1);
            let in_the_way = |dir: &Path| !place.path.join(dir).is_dir() && covers(dir);
            covers(Path::new(name.as_str())) || above.into_iter().any(in_the_way)
        };
        Ok(of("A").find(blocked).cloned())
    }

    async fn forward(
        &self,
        place: &Place,
        old: &Oid,
        new: &Oid,
        rehearse: bool,
    ) -> Result<(), Error> {
        let dry = rehearse.then_some("--dry-run");
        let run = self.git_at(place).args(["read-tree", "-m", "-u"]).args(dry);
        run.args([old.as_str(), new.as_str()]).done().await
    }

    /// Work trees that have the branch checked out.
    pub(super) async fn places_on(&self, branch: &str) -> Result<Vec<Place>, Error> {
        let fields = self
            .git()
            .args(["worktree", "list", "--porcelain", "-z"])
            .fields()
            .await?;
        let wanted = format!("branch refs/heads/{branch}");
        let mut places = Vec::new();
        for entry in fields.split(String::is_empty) {
            let path = entry
                .first()
                .and_then(|line| line.strip_prefix("worktree "));
            let Some(path) = path.filter(|_| entry.contains(&wanted)) else {
                continue;
            };
            let path = PathBuf::from(path);
            let git_dir = self.git_dir_of(&path);
            places.extend(
                git_dir
                    .filter(|_| path.is_dir())
                    .map(|git_dir| Place { git_dir, path }),
            );
        }
        Ok(places)
    }

    fn git_dir_of(&self, path: &Path) -> Option<PathBuf> {
        let main = path.join(".git");
        if std::fs::canonicalize(&main).is_ok_and(|dir| dir == self.common && dir.is_dir()) {
            return Some(self.common.clone());
        }
        self.registered(path)
    }
}

/// After the tree: the files, an empty field, then per message how many paths,
/// the paths, its kind and its text.
fn conflicts(fields: &[String]) -> Combined {
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
    Combined::Conflicts {
        files,
        messages: messages.trim_end().to_owned(),
    }
}

/// Git was ended, or somebody had the index in this instant: it has not said that anything is in the
/// way, and may be asked again.
fn is_no_word_on_the_tree(error: &Error) -> bool {
    match error {
        Error::CutOff { .. } => true,
        Error::Failed { detail, .. } => detail.contains("index.lock"),
        _ => false,
    }
}
