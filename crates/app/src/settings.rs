//! The only place that reads the environment and configuration files. Everything else is handed
//! values.

pub mod detect;
pub mod epic_file;
pub mod file;
mod keys;
pub mod layers;
pub mod logging;
pub mod notify;
pub mod schema;
pub mod server;
pub mod terminal;
pub mod ticket_file;
pub mod trouble;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use crate::failure::Failure;

/// What the program takes from its surroundings, read once.
#[derive(Clone, Debug)]
pub struct Environment {
    pub data_dir: PathBuf,
    /// The person's own, of which agents see nothing but the tools in it.
    pub home: Option<PathBuf>,
    /// `None` where there is no home to look in.
    pub user_file: Option<PathBuf>,
    /// A `PostgreSQL` address or a path, instead of the database in the data directory.
    pub database: Option<String>,
    /// The person at the terminal, as recorded in decisions.
    pub person: String,
    /// Where we are spoken for by a server, and as whom we speak to it.
    pub server: server::ServerSettings,
    pub path: OsString,
    /// Our own program, to start agents through.
    pub program: PathBuf,
    /// Where the data directory, the database and the person were named.
    pub origins: SettingOrigins,
}

/// `flag`, `environment` or `default`.
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
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the place that the others are sent to"
    )]
    pub fn read(
        data_dir: Option<PathBuf>,
        database: Option<String>,
        server: Option<String>,
    ) -> Result<Self, Failure> {
        let text = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
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
            database: origin(database.is_some(), set("COUNTERSIGN_DATABASE")),
            person: origin(false, set("COUNTERSIGN_PERSON")),
        };
        let data_dir = data_dir
            .or_else(|| text("COUNTERSIGN_DATA_DIR").map(PathBuf::from))
            .or_else(|| below("XDG_DATA_HOME", ".local/share").map(|dir| dir.join("countersign")))
            .ok_or_else(|| {
                Failure::usage("there is no place for data: HOME and XDG_DATA_HOME are not set")
                    .hint("say where with --data-dir DIR")
            })?;
        let program = std::env::current_exe()
            .map_err(|error| Failure::error(format!("our own program cannot be found: {error}")))?;
        let user_file =
            below("XDG_CONFIG_HOME", ".config").map(|dir| dir.join("countersign/config.toml"));
        let told = server::ServerVariables {
            url: text("COUNTERSIGN_SERVER"),
            token: text("COUNTERSIGN_TOKEN"),
            certificate: text("COUNTERSIGN_CERTIFICATE"),
        };
        Ok(Self {
            data_dir: absolute(&data_dir)?,
            home: home.clone(),
            server: server::find(server, told, user_file.as_deref())?,
            user_file,
            database: database.or_else(|| text("COUNTERSIGN_DATABASE")),
            person: text("COUNTERSIGN_PERSON")
                .or_else(|| text("USER"))
                .or_else(|| text("LOGNAME"))
                .unwrap_or_else(|| "somebody".to_owned()),
            path: std::env::var_os("PATH").unwrap_or_default(),
            program,
            origins,
        })
    }

    /// Where the store is.
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

/// What this machine is called.
pub fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let sound = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let name: String = name.chars().filter(|c| sound(*c)).collect();
    if name.is_empty() {
        return "worker".to_owned();
    }
    name
}

/// Makes a path absolute, without `..`: the sandbox shows directories under their own names, so a path
/// through a directory that it does not show would lead nowhere inside.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let fail = |error: std::io::Error| Failure::usage(format!("{}: {error}", path.display()));
    let whole = std::path::absolute(path).map_err(fail)?;
    let mut plain = PathBuf::new();
    for part in whole.components() {
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

/// Reads a file of bounded size; `what` says what it is for.
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

/// Reads the standard input, up to a bound.
pub fn read_stdin(most: usize) -> Result<Vec<u8>, Failure> {
    use std::io::Read;
    let mut bytes = Vec::new();
    std::io::stdin()
        .take(most as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::usage(format!("the standard input cannot be read: {error}")))?;
    Ok(bytes)
}

/// The person's editor, as they name it: `VISUAL`, then `EDITOR`.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the place that the others are sent to"
)]
pub fn editor() -> Option<String> {
    let named = |name: &str| std::env::var(name).ok();
    let set = |line: &String| !line.trim().is_empty();
    named("VISUAL")
        .filter(set)
        .or_else(|| named("EDITOR").filter(set))
}

/// Whether the person's own git configuration puts hooks elsewhere.
pub fn hooks_are_elsewhere(home: &Path) -> bool {
    let files = [".gitconfig", ".config/git/config"];
    files.iter().any(|name| {
        let text = std::fs::read_to_string(home.join(name)).unwrap_or_default();
        text.to_lowercase().contains("hookspath")
    })
}

/// What an agent is passed of the environment: what is set of these, and nothing else.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the place that the others are sent to"
)]
pub fn passed_on<'a>(names: impl Iterator<Item = &'a str>) -> Vec<(OsString, OsString)> {
    let set = names.filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
    set.filter(|(_, value): &(OsString, OsString)| !value.is_empty())
        .collect()
}

/// The environment as it is: a scripted agent takes its part from it.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the place that the others are sent to"
)]
pub fn agent_variables() -> BTreeMap<String, String> {
    let text = |word: OsString| word.into_string().ok();
    std::env::vars_os()
        .filter_map(|(name, value)| Some((text(name)?, text(value)?)))
        .collect()
}
