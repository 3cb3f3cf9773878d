//! Configuration that would run programs, and cannot be switched off from
//! outside: refused.
//!
//! Most such keys are either overridden by the runner or read only by verbs that
//! we never use. What is left are filters and merge drivers, whose names the
//! repository makes up. Running them would run a builder's code as us; leaving
//! them out would write other content than the project means. So the answer is
//! no, and it names the keys.

use super::{Error, Repository, WorkTreeDirs};

impl Repository {
    /// Refuses, before a verb that would read or write work tree files or merge.
    pub(super) async fn refuse_commands(&self, place: Option<&WorkTreeDirs>) -> Result<(), Error> {
        let run = match place {
            Some(place) => self.git_at(place),
            None => self.git(),
        };
        let listed = run.args(["config", "--list", "-z", "--show-scope", "--includes"]);
        let keys = commands(&listed.fields().await?);
        if keys.is_empty() {
            Ok(())
        } else {
            Err(Error::CommandsInConfig { keys })
        }
    }
}

impl Repository {
    /// Where the repository says that its hooks are, if it says so. We never run them.
    pub async fn hooks_path(&self) -> Result<Option<String>, Error> {
        let args = ["config", "--local", "--get", "core.hooksPath"];
        let said = self.git().args(args).answers(&[1]).text().await?;
        Ok((!said.is_empty()).then_some(said))
    }
}

/// The refused keys among `scope, key\nvalue, scope, key\nvalue, …`.
fn commands(fields: &[String]) -> Vec<String> {
    let mut keys: Vec<String> = fields
        .chunks_exact(2)
        .filter(|pair| pair[0] != "command")
        .map(|pair| pair[1].split_once('\n').unwrap_or((&pair[1], "true")))
        .filter(|(key, value)| is_command(key, value))
        .map(|(key, _)| key.to_owned())
        .collect();
    keys.sort();
    keys.dedup();
    keys
}

/// Git gives section and last word in lower case, and what is between as it is.
fn is_command(key: &str, value: &str) -> bool {
    if value.is_empty() {
        return false;
    }
    let Some((section, rest)) = key.split_once('.') else {
        return false;
    };
    let word = rest.rsplit_once('.').map_or(rest, |(_, word)| word);
    match section {
        "filter" => matches!(word, "clean" | "smudge" | "process"),
        "merge" => word == "driver",
        // Its condition may come true after we have looked.
        "includeif" => true,
        // These replace the runner's view of where things are.
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
        commands(&fields)
    }

    #[test]
    fn filters_and_merge_drivers_are_refused_wherever_they_are_local() {
        let found = refused(&[
            ("local", "filter.lfs.process", "git-lfs filter-process"),
            ("worktree", "filter.a.b.clean", "evil"),
            ("local", "merge.mine.driver", "evil %A"),
            ("local", "includeif.onbranch:x.path", "evil"),
        ]);
        let all = [
            "filter.a.b.clean",
            "filter.lfs.process",
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
            ("local", "filter.off.clean", ""),
            ("local", "alias.st", "!status"),
            ("command", "filter.ours.clean", "cat"),
            ("local", "merge.conflictstyle", "zdiff3"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }
}
