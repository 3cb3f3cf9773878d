//! Installs and removes the git hooks that review commits before a push or after a commit. A hook
//! that is not ours is never changed.
//!
//! No link is followed: a repository from elsewhere could have a link in place of its hooks
//! directory, and the hook would be written to a file of the person.

use std::path::{Path, PathBuf};

use engine::linkless_files::LinklessPath;

use super::agent_files::{cannot_write, refusal_kind};
use super::project;
use crate::failure::{ExitKind, Failure};
use crate::settings::{Environment, has_custom_hooks_path};

/// Moment at which git runs the hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitHook {
    /// The review ends before the push, and can stop it.
    PrePush,
    /// The review runs in the background.
    PostCommit,
}

impl GitHook {
    fn name(self) -> &'static str {
        match self {
            Self::PrePush => "pre-push",
            Self::PostCommit => "post-commit",
        }
    }

    /// Returns the path of the hook below the git directory.
    fn below(self) -> &'static Path {
        Path::new(match self {
            Self::PrePush => "hooks/pre-push",
            Self::PostCommit => "hooks/post-commit",
        })
    }
}

/// Mode of the hook, less the person's umask.
const EXECUTABLE: u32 = 0o777;
/// Identifies our own hook. It must not change: installed hooks have it.
/// An older version's hook is recognised by it and renewed.
const HOOK_MARKER: &str =
    "# Installed by `countersign hook install`; `countersign hook uninstall` removes it.";

/// Result of an installation, with remarks for the person.
#[derive(Clone, Debug)]
pub struct InstalledHook {
    pub path: PathBuf,
    /// True if an older hook of ours was replaced.
    pub renewed: bool,
    pub remarks: Vec<String>,
}

/// Writes the hook; `words` are the arguments of `review` in addition to the range.
pub async fn install(
    environment: &Environment,
    directory: &Path,
    kind: GitHook,
    words: &[String],
) -> Result<InstalledHook, Failure> {
    let git_dir = hooks_root(environment, directory, kind, words).await?;
    let hook = place(&git_dir, kind);
    let path = hook.path();
    let failed = |error: std::io::Error| {
        Failure::new(refusal_kind(&error), cannot_write(&path, &error)).hint(add_by_hand(
            &path.display().to_string(),
            kind,
            words,
        ))
    };
    let renewed = match hook.read() {
        Ok(Some(text)) if text.contains(HOOK_MARKER) => true,
        Ok(None) => false,
        Ok(Some(_)) => return Err(foreign_hook_error(&path, kind, words)),
        // A binary or another encoding is no hook of ours.
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            return Err(foreign_hook_error(&path, kind, words));
        }
        Err(error) => return Err(failed(error)),
    };
    hook.write(&hook_script(kind, words), EXECUTABLE)
        .map_err(failed)?;
    let has_custom_path = environment
        .home
        .as_deref()
        .is_some_and(has_custom_hooks_path);
    let remark = "your git configuration sets core.hooksPath: git may ignore this hook";
    Ok(InstalledHook {
        path,
        renewed,
        remarks: has_custom_path
            .then(|| remark.to_owned())
            .into_iter()
            .collect(),
    })
}

/// Removes our hook; returns `None` if there is none.
pub async fn uninstall(
    environment: &Environment,
    directory: &Path,
    kind: GitHook,
) -> Result<Option<PathBuf>, Failure> {
    let git_dir = hooks_root(environment, directory, kind, &[]).await?;
    let hook = place(&git_dir, kind);
    let path = hook.path();
    match hook.read() {
        Ok(Some(text)) if text.contains(HOOK_MARKER) => hook
            .remove()
            .map(|()| Some(path.clone()))
            .map_err(|error| Failure::error(format!("{}: {error}", path.display()))),
        Ok(None) => Ok(None),
        Ok(Some(_)) | Err(_) => Err(Failure::new(
            ExitKind::Refused,
            format!(
                "{} was not installed by Countersign; it is left as it is",
                path.display()
            ),
        )),
    }
}

fn place(git_dir: &Path, kind: GitHook) -> LinklessPath<'_> {
    LinklessPath {
        root: git_dir,
        below: kind.below(),
    }
}

/// Returns the git directory of the hook. Refused if the repository sets `core.hooksPath`.
async fn hooks_root(
    environment: &Environment,
    directory: &Path,
    kind: GitHook,
    words: &[String],
) -> Result<PathBuf, Failure> {
    let git = project::open_repository(environment, directory).await?;
    // Those hooks may belong to a tool or to the team.
    if let Some(elsewhere) = git.hooks_path().await.map_err(Failure::error)? {
        return Err(Failure::new(
            ExitKind::Refused,
            format!("this repository keeps its hooks in {elsewhere} (core.hooksPath)"),
        )
        .hint(add_by_hand(
            &format!("{elsewhere}/{}", kind.name()),
            kind,
            words,
        )));
    }
    Ok(git.common_dir().to_owned())
}

fn foreign_hook_error(path: &Path, kind: GitHook, words: &[String]) -> Failure {
    Failure::new(
        ExitKind::Refused,
        format!(
            "{} exists and was not installed by Countersign; it is left as it is",
            path.display()
        ),
    )
    .hint(add_by_hand(&path.display().to_string(), kind, words))
}

fn add_by_hand(path: &str, kind: GitHook, words: &[String]) -> String {
    let words = join_words(words);
    let line = match kind {
        GitHook::PrePush => format!("countersign review{words} || exit 1"),
        GitHook::PostCommit => background_line(&words),
    };
    format!("add this line to {path} yourself: {line}")
}

/// Returns the line that starts a review and does not wait for it.
fn background_line(words: &str) -> String {
    format!(
        "nohup countersign review --background --commit HEAD{words} </dev/null >/dev/null 2>&1 &"
    )
}

/// Joins the words, each with a blank before it.
pub(super) fn join_words(words: &[String]) -> String {
    let words = words.iter().map(|word| shell_quote(word));
    words.fold(String::new(), |line, word| line + " " + &word)
}

/// Quotes a word for a shell.
fn shell_quote(word: &str) -> String {
    // Everything else is quoted, so that the shell reads exactly these words.
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn hook_script(kind: GitHook, words: &[String]) -> String {
    let words = join_words(words);
    match kind {
        GitHook::PrePush => pre_push_script(&words),
        GitHook::PostCommit => post_commit_script(&words),
    }
}

fn post_commit_script(words: &str) -> String {
    let line = background_line(words);
    format!(
        r#"#!/bin/sh
{HOOK_MARKER}
# Reviews each commit in the background: one at a time, the newest first. `countersign status` shows
# what waits.
[ -z "$COUNTERSIGN_RUN" ] || exit 0 # Countersign reviews the commits of its own agents itself
command -v countersign >/dev/null || {{
    echo "post-commit: countersign is not on PATH; see .git/hooks/post-commit" >&2
    exit 0
}}
unset $(git rev-parse --local-env-vars) # the review works outside of this commit
{line}
"#
    )
}

fn pre_push_script(words: &str) -> String {
    format!(
        r#"#!/bin/sh
{HOOK_MARKER}
# Reviews what is about to be pushed. Findings that must be fixed stop the push;
# `git push --no-verify` goes past it once.
command -v countersign >/dev/null || {{
    echo "pre-push: countersign is not on PATH; see .git/hooks/pre-push" >&2
    exit 1
}}
nothing=$(git hash-object --stdin </dev/null | tr 0-9a-f 0)
while read -r _ new _ old; do
    [ "$new" != "$nothing" ] || continue # a branch is deleted
    if [ "$old" != "$nothing" ] && git cat-file -e "$old^{{commit}}" 2>/dev/null; then
        range=$old..$new
    else
        range=$new # a new branch: what it has over the base branch
    fi
    countersign review "$range"{words} </dev/null || exit $?
done
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_from_the_shell_as_they_were() {
        assert_eq!(shell_quote("--fail-on=low"), "--fail-on=low");
        assert_eq!(shell_quote("lint=a 'b'"), r"'lint=a '\''b'\'''");
        assert_eq!(shell_quote(""), "''");
        let words = ["a b".to_owned()];
        assert!(hook_script(GitHook::PrePush, &words).contains("\"$range\" 'a b' <"));
        assert!(hook_script(GitHook::PostCommit, &words).contains("--commit HEAD 'a b' </dev"));
    }
}
