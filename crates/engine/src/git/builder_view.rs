//! The view of a repository's git directory that a builder gets, by allow-list: objects, refs and
//! the files without which git does not work. The configuration is written from scratch with a few keys. Nothing of
//! the user's file is copied as it is, so that no password, header, helper or include gets in.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Error, Repository};

/// Visible entries of the git directory.
const SHOWN: &[&str] = &[
    "HEAD",
    "branches",
    "config",
    "config.worktree",
    "description",
    "hooks",
    "info",
    "logs",
    "objects",
    "packed-refs",
    "refs",
    "reftable",
    "shallow",
    "worktrees",
];
/// Logs that contain addresses as the user typed them.
const OWN_LOGS: &[&str] = &["logs/HEAD", "logs/refs/remotes", "logs/refs/stash"];

/// Keys of `core` that control how files are stored or shown.
const CORE: &[&str] = &[
    "abbrev",
    "autocrlf",
    "bare",
    "eol",
    "filemode",
    "ignorecase",
    "logallrefupdates",
    "longpaths",
    "precomposeunicode",
    "protecthfs",
    "protectntfs",
    "quotepath",
    "repositoryformatversion",
    "safecrlf",
    "sharedrepository",
    "sparsecheckout",
    "sparsecheckoutcone",
    "symlinks",
];

/// Maximum number of entries; no repository in real use has more.
const ENTRIES_MAX: usize = 10_000;
const ALTERNATES_MAX: usize = 16;

/// The view of the git directory for one builder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuilderView {
    /// Replacement of the repository's own configuration.
    pub config: String,
    /// Replacements of existing `config.worktree` files.
    pub worktree_configs: Vec<(PathBuf, String)>,
    pub hidden: Vec<PathBuf>,
    /// Object directories that the repository borrows from.
    pub alternates: Vec<PathBuf>,
}

impl Repository {
    /// Returns the view of the git directory for a builder.
    pub async fn builder_view(&self) -> Result<BuilderView, Error> {
        let common = self.common_dir();
        let mut worktree_configs = Vec::new();
        for file in worktree_configs_of(common) {
            let text = self.config_for_builders(&file).await?;
            worktree_configs.push((file, text));
        }
        Ok(BuilderView {
            config: self.config_for_builders(&common.join("config")).await?,
            worktree_configs,
            hidden: hidden_paths(common),
            alternates: alternates(common),
        })
    }

    /// Reads a configuration file for builders. Git itself parses it, so that continued lines,
    /// quotes and comments mean what they mean to git; includes are not followed.
    async fn config_for_builders(&self, file: &Path) -> Result<String, Error> {
        let list = ["config", "--no-includes", "--null", "--list", "--file"];
        let listed = self.git().args(list).args([file]).fields().await?;
        Ok(render_config(&listed))
    }

    /// Creates a separate git directory for a builder when mounts cannot hide anything: a copy of
    /// the files that git reads, with the objects left in place. `worktree` then points to it.
    pub fn copy_for_builder(
        &self,
        view: &BuilderView,
        worktree: &Path,
        to: &Path,
    ) -> Result<(), Error> {
        let file = |path: &Path, text: &[u8]| fs::write(path, text).map_err(Error::file(path));
        super::remove_tree(to).map_err(Error::file(to))?;
        let info = to.join("objects/info");
        fs::create_dir_all(&info).map_err(Error::file(&info))?;
        let common = self.common_dir();
        file(&to.join("config"), view.config.as_bytes())?;
        let mut objects = common.join("objects").into_os_string().into_encoded_bytes();
        objects.push(b'\n');
        file(&info.join("alternates"), &objects)?;
        let own = self.registered_git_dir(worktree);
        let own = own.ok_or_else(|| Error::Occupied(worktree.to_owned()))?;
        let names = [
            (own.as_path(), "HEAD"),
            (own.as_path(), "index"),
            (common, "packed-refs"),
            (common, "shallow"),
        ];
        for (dir, name) in names {
            let from = dir.join(name);
            if from.is_file() {
                fs::copy(&from, to.join(name)).map_err(Error::file(&from))?;
            }
        }
        let mut left = ENTRIES_MAX;
        for name in ["info", "refs", "reftable"] {
            copy_files(&common.join(name), &to.join(name), &mut left)?;
        }
        // Git accepts a directory as a repository only if `refs` exists.
        let refs = to.join("refs");
        fs::create_dir_all(&refs).map_err(Error::file(&refs))
    }
}

fn copy_files(from: &Path, to: &Path, left: &mut usize) -> Result<(), Error> {
    let Ok(entries) = fs::read_dir(from) else {
        return Ok(());
    };
    fs::create_dir_all(to).map_err(Error::file(to))?;
    for entry in entries.flatten() {
        if *left == 0 {
            return Ok(());
        }
        *left -= 1;
        let (path, at) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => copy_files(&path, &at, left)?,
            Ok(kind) if kind.is_file() => {
                fs::copy(&path, &at).map_err(Error::file(&path))?;
            }
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}

fn worktree_configs_of(common: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(common.join("worktrees")).into_iter().flatten();
    let dirs = entries
        .flatten()
        .take(ENTRIES_MAX)
        .map(|entry| entry.path());
    let dirs = dirs.chain([common.to_owned()]);
    let files = dirs.map(|dir| dir.join("config.worktree"));
    files.filter(|file| file.is_file()).collect()
}

fn hidden_paths(common: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(common).into_iter().flatten().flatten();
    let foreign = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_str();
        !name.is_some_and(|name| SHOWN.contains(&name) || is_transient_file(name))
    });
    let mut paths: Vec<PathBuf> = foreign.map(|entry| entry.path()).collect();
    let logs = OWN_LOGS.iter().map(|name| common.join(name));
    paths.extend(logs.filter(|path| path.exists()));
    paths
}

/// Returns whether the file is a lock of git or a temporary file of ours, which contain only object
/// names, process ids and paths. They come and go at any moment, so none can be hidden reliably.
fn is_transient_file(name: &str) -> bool {
    let is_lock = Path::new(name)
        .extension()
        .is_some_and(|kind| kind == "lock");
    is_lock || name == "gc.pid" || name.starts_with("countersign-")
}

/// Returns whether the user's own git may replace a hidden file at any moment. A mask over such a
/// file hides the old content, and nothing can be proven about its replacement.
pub fn is_replaced_by_git(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| {
        name == "index" || name == "gc.log" || name.starts_with("rebase-") || {
            let in_capitals = |c: char| c.is_ascii_uppercase() || c == '_';
            name == "sequencer" || name.chars().all(in_capitals)
        }
    })
}

/// Returns the object directories that `info/alternates` names.
fn alternates(common: &Path) -> Vec<PathBuf> {
    let objects = common.join("objects");
    let text = fs::read_to_string(objects.join("info/alternates")).unwrap_or_default();
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let dirs = lines.map(|line| objects.join(line));
    dirs.filter(|dir| dir.is_dir())
        .take(ALTERNATES_MAX)
        .collect()
}

/// Writes a configuration from `key\nvalue` entries, with the permitted keys only.
fn render_config(entries: &[String]) -> String {
    let mut text = String::from("# Written by Countersign from the few keys that git needs.\n");
    for entry in entries.iter().take(ENTRIES_MAX) {
        // A key without a value means `true`.
        let (key, value) = entry.split_once('\n').unwrap_or((entry, "true"));
        if let Some(entry) = admitted_entry(key, value) {
            text.push_str(&entry);
        }
    }
    text
}

/// Returns the configuration lines of an entry if its key is permitted. Values with credentials are
/// cleaned or dropped.
fn admitted_entry(key: &str, value: &str) -> Option<String> {
    let (section, rest) = key.split_once('.')?;
    let (name, variable) = match rest.rsplit_once('.') {
        Some((name, variable)) => (Some(name), variable),
        None => (None, rest),
    };
    let plain = |text: &str| {
        let sound = |c: char| c.is_ascii_alphanumeric() || "-_./:*+@".contains(c);
        text.len() <= 256 && text.chars().all(sound)
    };
    let value = match (section, name, variable) {
        ("core", None, variable) if CORE.contains(&variable) && plain(value) => value.to_owned(),
        ("extensions", None, variable) if plain(variable) && plain(value) => value.to_owned(),
        ("remote", Some(_), "url") => without_credentials(value)?,
        ("remote", Some(_), "fetch" | "promisor" | "partialclonefilter")
        | ("branch", Some(_), "remote" | "merge")
            if !value.contains("://") && !value.contains('\n') =>
        {
            value.to_owned()
        }
        _ => return None,
    };
    let mut text = String::new();
    let _ = match name {
        Some(name) => writeln!(text, "[{section} \"{}\"]", quote_value(name)),
        None => writeln!(text, "[{section}]"),
    };
    let _ = writeln!(text, "\t{variable} = \"{}\"", quote_value(value.as_str()));
    Some(text)
}

/// Escapes a value for git's quotes.
fn quote_value(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\t' => escaped.push_str("\\t"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Removes all credentials from an address; `None` if that is not certain.
fn without_credentials(url: &str) -> Option<String> {
    if url.chars().any(char::is_control) || url.contains("::") {
        return None;
    }
    let Some((scheme, rest)) = url.split_once("://") else {
        // A path, or user@host:path. Only the part after a `?` can be secret.
        let user = url.split('@').next().unwrap_or_default();
        let colon = url.contains('@') && user.contains(':');
        return (!colon).then(|| url.split(['?', '#']).next().unwrap_or_default().to_owned());
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let end = rest.find('/').unwrap_or(rest.len());
    let host = rest[..end].rsplit('@').next().unwrap_or_default();
    // The path must not look like a second host.
    let path = &rest[end..];
    (!path.contains('@')).then(|| format!("{scheme}://{host}{path}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(entries: &[(&str, &str)]) -> String {
        let listed: Vec<String> = entries
            .iter()
            .map(|(key, value)| format!("{key}\n{value}"))
            .collect();
        render_config(&listed)
    }

    #[test]
    fn only_keys_that_git_needs_are_there() {
        let text = of(&[
            ("core.bare", "false"),
            ("core.sshcommand", "ssh -i key"),
            ("core.fsmonitor", "true"),
            ("extensions.worktreeconfig", "true"),
            ("sendemail.smtppass", "s3cret"),
            ("imap.pass", "s3cret"),
            (
                "http.https://forge.example/.extraheader",
                "AUTHORIZATION: s3cret",
            ),
            ("include.path", "/home/ada/s3cret"),
            ("credential.helper", "store --file s3cret"),
            ("url.https://x:s3cret@forge.example/.insteadof", "forge:"),
            ("submodule.a.url", "https://x:s3cret@forge.example/a"),
            (
                "remote.origin.url",
                "https://ada:s3cret@forge.example/a.git?token=s3cret",
            ),
            (
                "remote.origin.pushurl",
                "https://s3cret@forge.example/a.git",
            ),
            ("remote.odd.url", "ada:s3cret@forge.example:a.git"),
            ("remote.helper.url", "ext::sh -c s3cret"),
            ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
            ("branch.main.remote", "https://s3cret@forge.example/a.git"),
            ("branch.main.merge", "refs/heads/main"),
        ]);
        assert!(!text.contains("s3cret"), "{text}");
        for kept in [
            "[core]\n\tbare = \"false\"",
            "worktreeconfig = \"true\"",
            "url = \"https://forge.example/a.git\"",
            "[branch \"main\"]\n\tmerge",
        ] {
            assert!(text.contains(kept), "{kept}: {text}");
        }
    }

    proptest! {
        #[test]
        fn no_password_passes_in_an_address(
            user in "[a-z]{1,5}", secret in "[A-Z0-9]{8,12}", host in "[a-z]{1,8}", shape in 0_usize..6,
        ) {
            let url = match shape {
                0 => format!("https://{user}:{secret}@{host}/r.git"),
                1 => format!("https://{secret}@{host}/r.git"),
                2 => format!("https://{user}:{secret}@x@{host}/r"),
                3 => format!("ssh://{user}:{secret}@{host}:22/r"),
                4 => format!("https://{host}/r?access_token={secret}"),
                _ => format!("{user}:{secret}@{host}:r"),
            };
            let text = of(&[("remote.origin.url", &url)]);
            prop_assert!(!text.contains(&secret), "{}", text);
        }

        #[test]
        fn a_value_comes_back_from_git_as_it_was(value in "[ -~]{0,20}", name in "[ -~&&[^.]]{1,10}") {
            prop_assume!(!value.contains("://"));
            let text = of(&[(&format!("branch.{name}.merge"), &value)]);
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("config");
            fs::write(&file, &text).unwrap();
            // Read back by the rules that git's manual gives for quoted values.
            let quoted = text.split("merge = \"").nth(1).unwrap();
            let quoted = quoted.strip_suffix("\"\n").unwrap();
            let back = quoted.replace("\\\\", "\u{1}").replace("\\\"", "\"").replace('\u{1}', "\\");
            prop_assert_eq!(back, value);
        }
    }
}
