//! The git hook that reviews what is about to be pushed. Somebody else's hook is never touched.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::project;
use crate::failure::{ExitKind, Failure};
use crate::settings::{Environment, hooks_are_elsewhere};

const NAME: &str = "pre-push";
/// By this line a hook of ours is known.
const OURS: &str =
    "# Installed by `countersign hook install`; `countersign hook uninstall` removes it.";

/// What was done, and what the person should know.
#[derive(Clone, Debug)]
pub struct InstalledHook {
    pub path: PathBuf,
    /// One of ours was there before.
    pub renewed: bool,
    pub remarks: Vec<String>,
}

/// Writes the hook; `words` are what `review` is given beside the range.
pub async fn install(
    surroundings: &Environment,
    directory: &Path,
    words: &[String],
) -> Result<InstalledHook, Failure> {
    let path = place(surroundings, directory, words).await?;
    let renewed = match std::fs::read_to_string(&path) {
        Ok(text) if text.contains(OURS) => true,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        Ok(_) | Err(_) => return Err(somebodys(&path, words)),
    };
    let failed = |error: std::io::Error| {
        Failure::error(format!("{} cannot be written: {error}", path.display()))
    };
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(failed)?;
    }
    std::fs::write(&path, script(words)).map_err(failed)?;
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&path, executable).map_err(failed)?;
    let elsewhere = surroundings
        .home
        .as_deref()
        .is_some_and(hooks_are_elsewhere);
    let remark = "your own git configuration names core.hooksPath: git may look for hooks there and not here";
    Ok(InstalledHook {
        path,
        renewed,
        remarks: elsewhere.then(|| remark.to_owned()).into_iter().collect(),
    })
}

/// Takes ours away; false where there is none.
pub async fn uninstall(
    surroundings: &Environment,
    directory: &Path,
) -> Result<Option<PathBuf>, Failure> {
    let path = place(surroundings, directory, &[]).await?;
    match std::fs::read_to_string(&path) {
        Ok(text) if text.contains(OURS) => std::fs::remove_file(&path)
            .map(|()| Some(path.clone()))
            .map_err(|error| Failure::error(format!("{}: {error}", path.display()))),
        Ok(_) => Err(Failure::new(
            ExitKind::Refused,
            format!("{} is not ours and is left as it is", path.display()),
        )),
        Err(_) => Ok(None),
    }
}

/// Where git looks for it, unless the project keeps its hooks among its files.
async fn place(
    surroundings: &Environment,
    directory: &Path,
    words: &[String],
) -> Result<PathBuf, Failure> {
    let git = project::open(surroundings, directory).await?;
    if let Some(elsewhere) = git.hooks_path().await.map_err(Failure::error)? {
        return Err(Failure::new(
            ExitKind::Refused,
            format!("this repository keeps its hooks in {elsewhere} (core.hooksPath)"),
        )
        .hint(add_by_hand(&format!("{elsewhere}/{NAME}"), words)));
    }
    Ok(git.common_dir().join("hooks").join(NAME))
}

fn somebodys(path: &Path, words: &[String]) -> Failure {
    Failure::new(
        ExitKind::Refused,
        format!(
            "{} is there already, is not ours, and is left as it is",
            path.display()
        ),
    )
    .hint(add_by_hand(&path.display().to_string(), words))
}

fn add_by_hand(path: &str, words: &[String]) -> String {
    let words = joined(words);
    format!("add this line to {path} yourself: countersign review{words} || exit 1")
}

/// Each with a blank before it.
fn joined(words: &[String]) -> String {
    let words = words.iter().map(|word| quoted(word));
    words.fold(String::new(), |line, word| line + " " + &word)
}

/// As a shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn script(words: &[String]) -> String {
    let words = joined(words);
    format!(
        r#"#!/bin/sh
{OURS}
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
        assert_eq!(quoted("--fail-on=low"), "--fail-on=low");
        assert_eq!(quoted("lint=a 'b'"), r"'lint=a '\''b'\'''");
        assert_eq!(quoted(""), "''");
        assert!(script(&["a b".to_owned()]).contains("\"$range\" 'a b' <"));
    }
}
