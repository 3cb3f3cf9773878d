//! Which of the known CLIs are here, and in what state.

use std::path::{Path, PathBuf};

use engine::agent::installed::{self, CliLocation};
use engine::agent::{AgentCli, known};
use engine::process::find_program;

use crate::settings::{Environment, passed_on};

/// A known CLI that is on `PATH`; it was not started.
#[derive(Clone, Debug, serde::Serialize)]
pub struct DetectedCli {
    pub name: &'static str,
    pub path: PathBuf,
    /// Where a login was seen.
    pub login: Option<String>,
}

pub fn known_names() -> Vec<&'static str> {
    known::ALL.iter().map(|cli| cli.name).collect()
}

/// The known CLIs that are here, those with a login first.
pub fn here(surroundings: &Environment, directory: &Path) -> Vec<DetectedCli> {
    let find = |cli: &'static AgentCli| {
        let path = find_program(cli.program.as_ref(), &surroundings.path, directory).ok()?;
        Some(DetectedCli {
            name: cli.name,
            path,
            login: login(cli, surroundings),
        })
    };
    let mut found: Vec<DetectedCli> = known::ALL.into_iter().filter_map(find).collect();
    found.sort_by_key(|agent| agent.login.is_none());
    found
}

/// A known CLI as it is found here.
#[derive(Clone, Debug, serde::Serialize)]
pub struct CliReport {
    pub name: &'static str,
    pub title: &'static str,
    pub path: Option<PathBuf>,
    pub version: Option<String>,
    /// Flags that we use and that its help does not have.
    pub missing_flags: Vec<String>,
    /// Where a login was seen; whether it still holds only the provider knows.
    pub login: Option<String>,
    /// What to do before it can be used.
    pub advice: Vec<String>,
}

/// All known CLIs, found by their own names.
pub async fn look(surroundings: &Environment, directory: &Path) -> Vec<CliReport> {
    let mut seen = Vec::new();
    for cli in known::ALL {
        seen.push(look_at(cli, surroundings, directory).await);
    }
    seen
}

async fn look_at(
    cli: &'static AgentCli,
    surroundings: &Environment,
    directory: &Path,
) -> CliReport {
    let mut seen = CliReport {
        name: cli.name,
        title: cli.title,
        path: None,
        version: None,
        missing_flags: Vec::new(),
        login: login(cli, surroundings),
        advice: Vec::new(),
    };
    let Ok(program) = find_program(cli.program.as_ref(), &surroundings.path, directory) else {
        seen.advice.push(format!("install it: {}", cli.install));
        return seen;
    };
    seen.path = Some(program.clone());
    let place = CliLocation {
        program,
        before: Vec::new(),
    };
    match installed::examine(cli, &place, &surroundings.path, &surroundings.data_dir).await {
        Ok(found) => {
            if !found.missing.is_empty() {
                seen.advice.push(format!("update it: {}", cli.install));
            }
            seen.version = Some(found.version);
            seen.missing_flags = found.missing;
        }
        Err(error) => seen.advice.push(error.to_string()),
    }
    if seen.login.is_none() {
        seen.advice.push(format!("log in: {}", cli.log_in));
    }
    seen
}

/// The first of its files or keys that is there.
fn login(cli: &AgentCli, surroundings: &Environment) -> Option<String> {
    let key = |name: &&&str| name.contains("KEY") || name.contains("TOKEN");
    let keys = cli.variables.iter().filter(key).copied();
    let key = passed_on(keys)
        .into_iter()
        .next()
        .map(|(name, _)| name.to_string_lossy().into_owned());
    let home = surroundings.home.as_ref()?;
    let file = cli.files.iter().find(|name| home.join(name).is_file());
    key.or_else(|| file.map(|name| format!("~/{name}")))
}
