//! What a builder sees of a repository's git directory, by allow-list: objects, refs and what git
//! cannot do without. The configuration is written anew from a few keys; nothing of the person's
//! file is copied as it is, so that no password, header, helper or include comes along.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Error, Repository};

/// What of the git directory is shown.
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
/// Addresses that the person typed stand in these, as they were typed.
const OWN_LOGS: &[&str] = &["logs/HEAD", "logs/refs/remotes", "logs/refs/stash"];

/// Keys of `core` that say how files are stored or shown.
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

/// More entries than a repository that people work in has.
const ENTRIES_MAX: usize = 10_000;
const ALTERNATES_MAX: usize = 16;

/// The git directory as one builder is shown it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuilderView {
    /// Instead of the repository's own configuration.
    pub config: String,
    /// Instead of each `config.worktree` that is there.
    pub worktree_configs: Vec<(PathBuf, String)>,
    pub hidden: Vec<PathBuf>,
    /// Directories of objects that the repository borrows.
    pub alternates: Vec<PathBuf>,
}

impl Repository {
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
            hidden: hidden(common),
            alternates: alternates(common),
        })
    }

    /// Git reads the file itself, so that continued lines, quotes and comments are what git takes
    /// them for; includes are not followed.
    async fn config_for_builders(&self, file: &Path) -> Result<String, Error> {
        let list = ["config", "--no-includes", "--null", "--list", "--file"];
        let listed = self.git().args(list).args([file]).fields().await?;
        Ok(written(&listed))
    }

    /// A git directory of its own for a builder whom no mount can hide anything from: what git needs
    /// to read, copied, and the objects where they are. `worktree` then points to it.
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
        let own = self.registered(worktree);
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
        // Git takes a directory for a repository only if it is there.
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

fn hidden(common: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(common).into_iter().flatten().flatten();
    let foreign = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_str();
        !name.is_some_and(|name| SHOWN.contains(&name) || comes_and_goes(name))
    });
    let mut found: Vec<PathBuf> = foreign.map(|entry| entry.path()).collect();
    let logs = OWN_LOGS.iter().map(|name| common.join(name));
    found.extend(logs.filter(|path| path.exists()));
    found
}

/// Locks of git and work of ours in progress, which hold nothing but object names, process ids and
/// paths. They are made and removed at any instant, so that none can be hidden for certain.
fn comes_and_goes(name: &str) -> bool {
    let is_lock = Path::new(name)
        .extension()
        .is_some_and(|kind| kind == "lock");
    is_lock || name == "gc.pid" || name.starts_with("countersign-")
}

/// Whether the person's own git may replace a hidden file of theirs at any instant. A mask over such a
/// file hides what was there, and nothing can be proven about what takes its place.
pub fn is_replaced_by_git(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| {
        name == "index" || name == "gc.log" || name.starts_with("rebase-") || {
            let in_capitals = |c: char| c.is_ascii_uppercase() || c == '_';
            name == "sequencer" || name.chars().all(in_capitals)
        }
    })
}

/// Repositories that share their objects with this one name them in a file.
fn alternates(common: &Path) -> Vec<PathBuf> {
    let objects = common.join("objects");
    let text = fs::read_to_string(objects.join("info/alternates")).unwrap_or_default();
    let named = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let dirs = named.map(|line| objects.join(line));
    dirs.filter(|dir| dir.is_dir())
        .take(ALTERNATES_MAX)
        .collect()
}

/// The configuration made of `key\nvalue` entries, with the keys that are admitted.
fn written(entries: &[String]) -> String {
    let mut text = String::from("# Written by Countersign from the few keys that git needs.\n");
    for entry in entries.iter().take(ENTRIES_MAX) {
        // A key without a value is a switch that is on.
        let (key, value) = entry.split_once('\n').unwrap_or((entry, "true"));
        if let Some(entry) = admitted(key, value) {
            text.push_str(&entry);
        }
    }
    text
}

fn admitted(key: &str, value: &str) -> Option<String> {
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
        Some(name) => writeln!(text, "[{section} \"{}\"]", escaped(name)),
        None => writeln!(text, "[{section}]"),
    };
    let _ = writeln!(text, "\t{variable} = \"{}\"", escaped(value.as_str()));
    Some(text)
}

/// As git reads it between quotes.
fn escaped(text: &str) -> String {
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

/// An address as far as it says where the repository is, and nothing by which one gets in.
fn without_credentials(url: &str) -> Option<String> {
    if url.chars().any(char::is_control) || url.contains("::") {
        return None;
    }
    let Some((scheme, rest)) = url.split_once("://") else {
        // A path, or user@host:path, in which nothing is secret but what follows a `?`.
        let user = url.split('@').next().unwrap_or_default();
        let colon = url.contains('@') && user.contains(':');
        return (!colon).then(|| url.split(['?', '#']).next().unwrap_or_default().to_owned());
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let end = rest.find('/').unwrap_or(rest.len());
    let host = rest[..end].rsplit('@').next().unwrap_or_default();
    // What is behind the host must not look like a second one.
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
        written(&listed)
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
