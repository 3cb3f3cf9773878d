//! The only module that reads the environment and configuration files. All other code gets values.

pub mod config_merge;
pub mod config_problems;
pub mod connections;
pub mod database;
pub mod detect;
pub mod epic_file;
pub mod file;
pub mod forge;
pub mod forge_text;
pub mod forge_token;
pub mod import;
pub mod layers;
pub mod logging;
pub mod notify;
pub mod oidc;
pub mod renamed_keys;
pub mod schema;
pub mod server;
pub mod terminal;
pub mod ticket_fields;
pub mod ticket_file;
pub mod tracker;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use engine::certificates::{Certificates, VARIABLES};

use crate::failure::Failure;

/// Values from flags and the environment, read once.
#[derive(Clone, Debug)]
pub struct Environment {
    pub data_dir: PathBuf,
    /// Home directory of the person. Agents see nothing of it but the tools in it.
    pub home: Option<PathBuf>,
    /// Configuration file of the person; `None` if there is no home directory.
    pub user_file: Option<PathBuf>,
    /// `PostgreSQL` address or path that replaces the database in the data directory.
    pub database: Option<String>,
    /// The person at the terminal, as recorded in decisions.
    pub person: String,
    /// Address and token of the server, if one is configured.
    pub server: server::ServerSettings,
    pub path: OsString,
    /// Path of our own executable; agents are started through it.
    pub program: PathBuf,
    /// Whether the command line shows the database's password to all users of this machine.
    pub exposes_password: bool,
    /// Origin of the data directory, the database and the person.
    pub origins: SettingOrigins,
}

/// Origins of settings: each is `flag`, `environment` or `default`.
#[derive(Clone, Copy, Debug)]
pub struct SettingOrigins {
    pub data_dir: &'static str,
    pub database: &'static str,
    pub person: &'static str,
}

fn origin(by_flag: bool, by_environment: bool) -> &'static str {
    match (by_flag, by_environment) {
        (true, _) => "flag",
        (false, true) => "environment",
        (false, false) => "default",
    }
}

impl Environment {
    /// Reads the environment. Flags win over variables, and those over defaults.
    #[expect(
        clippy::disallowed_methods,
        reason = "other code must call this function instead"
    )]
    pub fn read(
        data_dir: Option<PathBuf>,
        (database, database_file): (Option<String>, Option<PathBuf>),
        server: Option<String>,
    ) -> Result<Self, Failure> {
        let text = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let database = database::DatabaseSources {
            flag: database,
            file_flag: database_file,
            variable: text("COUNTERSIGN_DATABASE"),
            file_variable: text("COUNTERSIGN_DATABASE_FILE").map(PathBuf::from),
        };
        let home = text("HOME")
            .map(|home| absolute(Path::new(&home)))
            .transpose()?;
        let below = |name: &str, fallback: &str| {
            text(name)
                .map(PathBuf::from)
                .or_else(|| home.as_ref().map(|home| home.join(fallback)))
        };
        let set = |name: &str| text(name).is_some();
        let origins = SettingOrigins {
            data_dir: origin(data_dir.is_some(), set("COUNTERSIGN_DATA_DIR")),
            database: origin(database.by_flag(), database.by_variable()),
            person: origin(false, set("COUNTERSIGN_PERSON")),
        };
        let data_dir = data_dir
            .or_else(|| text("COUNTERSIGN_DATA_DIR").map(PathBuf::from))
            .or_else(|| below("XDG_DATA_HOME", ".local/share").map(|dir| dir.join("countersign")))
            .ok_or_else(|| {
                Failure::usage("no data directory: HOME and XDG_DATA_HOME are not set")
                    .hint("choose one with --data-dir DIR")
            })?;
        let program = std::env::current_exe().map_err(|error| {
            Failure::error(format!(
                "cannot find the path of the countersign program: {error}"
            ))
        })?;
        let user_file =
            below("XDG_CONFIG_HOME", ".config").map(|dir| dir.join("countersign/config.toml"));
        let variables = server::ServerVariables {
            url: text("COUNTERSIGN_SERVER"),
            token: text("COUNTERSIGN_TOKEN"),
            certificate: text("COUNTERSIGN_CERTIFICATE"),
        };
        Ok(Self {
            data_dir: absolute(&data_dir)?,
            home: home.clone(),
            server: server::resolve(server, variables, user_file.as_deref())?,
            user_file,
            exposes_password: database.exposes_password(),
            database: database.resolve()?,
            person: text("COUNTERSIGN_PERSON")
                .or_else(|| text("USER"))
                .or_else(|| text("LOGNAME"))
                .unwrap_or_else(|| "somebody".to_owned()),
            path: std::env::var_os("PATH").unwrap_or_default(),
            program,
            origins,
        })
    }

    /// Returns the person's own git configuration files, the strongest first.
    pub fn git_config_files(&self) -> Vec<PathBuf> {
        let own = self.home.as_ref().map(|home| home.join(".gitconfig"));
        // The user file is below the configuration directory, in a directory of ours.
        let config_dir = self
            .user_file
            .as_ref()
            .and_then(|file| file.parent()?.parent());
        let shared = config_dir.map(|dir| dir.join("git/config"));
        own.into_iter().chain(shared).collect()
    }

    /// Returns the address of the store.
    pub fn database(&self) -> String {
        let inside = || {
            self.data_dir
                .join("countersign.db")
                .to_string_lossy()
                .into_owned()
        };
        self.database.clone().unwrap_or_else(inside)
    }
}

/// Returns the host name, without characters that do not belong in a worker's name.
pub fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let name: String = name.chars().filter(|c| is_allowed(*c)).collect();
    if name.is_empty() {
        return "worker".to_owned();
    }
    name
}

/// Makes a path absolute, without `..`: the sandbox shows directories under their own names, so a
/// path through a directory that it does not show would lead nowhere inside.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let fail = |error: std::io::Error| Failure::usage(format!("{}: {error}", path.display()));
    let full = std::path::absolute(path).map_err(fail)?;
    let mut plain = PathBuf::new();
    for part in full.components() {
        match part {
            // The parent of a symbolic link is the parent of its target.
            Component::ParentDir => {
                if let Ok(target) = plain.canonicalize() {
                    plain = target;
                }
                plain.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    Ok(plain)
}

/// Reads at most `most` + 1 bytes of a file, so that the caller sees when it is too long; `what`
/// names the file in errors.
pub fn read_bounded(path: &Path, what: &str, most: usize) -> Result<Vec<u8>, Failure> {
    use std::io::Read;
    let fail = |error: std::io::Error| {
        Failure::usage(format!("{what} {} cannot be read: {error}", path.display()))
    };
    let file = std::fs::File::open(path).map_err(fail)?;
    if file.metadata().map_err(fail)?.is_dir() {
        return Err(Failure::usage(format!(
            "{what} {} is a directory",
            path.display()
        )));
    }
    let mut bytes = Vec::new();
    file.take(most as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(fail)?;
    Ok(bytes)
}

/// Reads at most `most` + 1 bytes of the standard input.
pub fn read_stdin(most: usize) -> Result<Vec<u8>, Failure> {
    use std::io::Read;
    let mut bytes = Vec::new();
    std::io::stdin()
        .take(most as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::usage(format!("the standard input cannot be read: {error}")))?;
    Ok(bytes)
}

/// Returns the person's editor: `VISUAL`, then `EDITOR`.
#[expect(
    clippy::disallowed_methods,
    reason = "other code must call this function instead"
)]
pub fn editor() -> Option<String> {
    let variable = |name: &str| std::env::var(name).ok();
    let set = |line: &String| !line.trim().is_empty();
    variable("VISUAL")
        .filter(set)
        .or_else(|| variable("EDITOR").filter(set))
}

/// Tells whether the person's own git configuration sets `core.hooksPath`.
pub fn has_custom_hooks_path(home: &Path) -> bool {
    let files = [".gitconfig", ".config/git/config"];
    files.iter().any(|name| {
        let text = std::fs::read_to_string(home.join(name)).unwrap_or_default();
        text.to_lowercase().contains("hookspath")
    })
}

/// Returns those of the named variables that are set and not empty. An agent gets no others.
#[expect(
    clippy::disallowed_methods,
    reason = "other code must call this function instead"
)]
pub fn inherited_variables<'a>(names: impl Iterator<Item = &'a str>) -> Vec<(OsString, OsString)> {
    let set = names.filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
    set.filter(|(_, value): &(OsString, OsString)| !value.is_empty())
        .collect()
}

/// Returns the person's certificate authorities, as far as runs may have them.
pub fn certificates() -> Certificates {
    Certificates::select(inherited_variables(VARIABLES.into_iter()))
}

/// Returns whether Countersign started the process that this one runs in: an agent, a check or a
/// linter. Hooks do nothing there, because Countersign reviews that work itself.
#[expect(
    clippy::disallowed_methods,
    reason = "other code must call this function instead"
)]
pub fn is_inside_run() -> bool {
    std::env::var_os(engine::process::RUN_MARK).is_some()
}

/// Returns the directory that a variable names as the home of an agent CLI's settings.
#[expect(
    clippy::disallowed_methods,
    reason = "other code must call this function instead"
)]
pub fn agent_settings_dir(variable: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from)?;
    path.is_absolute().then_some(path)
}

/// Returns the whole environment, from which a scripted agent takes its part.
#[expect(
    clippy::disallowed_methods,
    reason = "other code must call this function instead"
)]
pub fn agent_variables() -> BTreeMap<String, String> {
    let text = |word: OsString| word.into_string().ok();
    std::env::vars_os()
        .filter_map(|(name, value)| Some((text(name)?, text(value)?)))
        .collect()
}
