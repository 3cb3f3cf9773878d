//! Refuses configuration that would run programs and cannot be switched off from outside.
//!
//! Most such keys are either overridden by the runner or read only by commands that we never use.
//! The rest are filters and merge drivers, whose names the repository chooses. Running them would
//! run a builder's code as us; skipping them would write different content than the project
//! intends. So they are refused, with the names of the keys. Git LFS is the exception: its filter
//! is well known, and a file without it is its pointer, which is what the commit has.

use std::path::{Path, PathBuf};

use super::{CommitIdentity, Error, Repository, WorkTreeDirs};

/// Longest name or address of a person on a commit.
const IDENTITY_CHARS_MAX: usize = 200;

impl Repository {
    /// Fails if such keys exist. Call it before a command that reads or writes work tree files or
    /// merges.
    pub(super) async fn refuse_commands(&self, place: Option<&WorkTreeDirs>) -> Result<(), Error> {
        let run = match place {
            Some(place) => self.git_at(place),
            None => self.git(),
        };
        let listed = run.args(["config", "--list", "-z", "--show-scope", "--includes"]);
        let keys = command_keys(&listed.fields().await?);
        if keys.is_empty() {
            Ok(())
        } else {
            Err(Error::CommandsInConfig { keys })
        }
    }
}

impl Repository {
    /// Returns the name and address that the person uses for commits here, from the repository's
    /// configuration and these files, the strongest first. The files are read with the person's
    /// home directory, which their `include.path` may name; `git config` runs no program.
    pub async fn person_identity(
        &self,
        home: &Path,
        files: &[PathBuf],
    ) -> Result<Option<CommitIdentity>, Error> {
        let mut found = [None, None];
        for (key, value) in ["user.name", "user.email"].into_iter().zip(&mut found) {
            for file in files {
                let args = ["config", "--includes", "--get", key];
                let run = self.git().args(args).accept_codes(&[1]);
                let run = run.env("HOME", home).env("GIT_CONFIG_GLOBAL", file);
                let text = run.text().await?;
                let text = identity_part(&text);
                if !text.is_empty() {
                    *value = Some(text);
                    break;
                }
            }
        }
        let [name, email] = found;
        Ok(name
            .zip(email)
            .map(|(name, email)| CommitIdentity { name, email }))
    }

    /// Returns the configured directory of hooks, if there is one. We never run them.
    pub async fn hooks_path(&self) -> Result<Option<String>, Error> {
        let args = ["config", "--local", "--get", "core.hooksPath"];
        let output = self.git().args(args).accept_codes(&[1]).text().await?;
        Ok((!output.is_empty()).then_some(output))
    }
}

/// Returns the refused keys among `scope, key\nvalue, scope, key\nvalue, …`.
pub(super) fn command_keys(fields: &[String]) -> Vec<String> {
    let mut keys: Vec<String> = fields
        .chunks_exact(2)
        .filter(|pair| pair[0] != "command")
        .map(|pair| pair[1].split_once('\n').unwrap_or((&pair[1], "true")))
        .filter(|(key, value)| is_command_key(key, value))
        .map(|(key, _)| key.to_owned())
        .collect();
    keys.sort();
    keys.dedup();
    keys
}

/// Returns a name or address on one line, without the signs that end it in a commit.
fn identity_part(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    let kept = line
        .chars()
        .filter(|c| !c.is_control() && !matches!(c, '<' | '>'));
    kept.take(IDENTITY_CHARS_MAX).collect()
}

/// Returns whether a key would run a program. Git prints the section and the last word in lower
/// case, and the part between as it is.
fn is_command_key(key: &str, value: &str) -> bool {
    if value.is_empty() {
        return false;
    }
    let Some((section, rest)) = key.split_once('.') else {
        return false;
    };
    let word = rest.rsplit_once('.').map_or(rest, |(_, word)| word);
    match section {
        // The runner switches this filter off by name.
        "filter" if rest.strip_suffix(word) == Some("lfs.") => false,
        "filter" => matches!(word, "clean" | "smudge" | "process"),
        "merge" => word == "driver",
        // Its condition may become true after our check.
        "includeif" => true,
        // These replace the runner's view of locations.
        "core" => matches!(word, "gitproxy" | "alternaterefscommand"),
        "trailer" => matches!(word, "command" | "cmd"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(entries: &[(&str, &str, &str)]) -> Vec<String> {
        let fields: Vec<String> = entries
            .iter()
            .flat_map(|(scope, key, value)| [(*scope).to_owned(), format!("{key}\n{value}")])
            .collect();
        command_keys(&fields)
    }

    #[test]
    fn filters_and_merge_drivers_are_refused_wherever_they_are_local() {
        let found = refused(&[
            ("local", "filter.lfs.x.process", "evil"),
            ("worktree", "filter.a.b.clean", "evil"),
            ("local", "merge.mine.driver", "evil %A"),
            ("local", "includeif.onbranch:x.path", "evil"),
        ]);
        let all = [
            "filter.a.b.clean",
            "filter.lfs.x.process",
            "includeif.onbranch:x.path",
        ];
        assert_eq!(found[..3], all);
        assert_eq!(found[3], "merge.mine.driver");
    }

    #[test]
    fn what_is_switched_off_or_harmless_passes() {
        let found = refused(&[
            ("local", "core.hookspath", ".husky"),
            ("local", "core.fsmonitor", "true"),
            ("local", "commit.gpgsign", "true"),
            ("local", "filter.lfs.required", "true"),
            ("local", "filter.lfs.process", "git-lfs filter-process"),
            ("local", "filter.off.clean", ""),
            ("local", "alias.st", "!status"),
            ("command", "filter.ours.clean", "cat"),
            ("local", "merge.conflictstyle", "zdiff3"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }
}
