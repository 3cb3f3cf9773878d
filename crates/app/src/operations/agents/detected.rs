//! Detects the known CLIs on this machine, and inspects their versions and logins.

use std::path::{Path, PathBuf};

use engine::agent::installed::{self, CliLocation};
use engine::agent::{AgentCli, registry};
use engine::process::find_program;

use crate::settings::{Environment, inherited_variables};

/// A known CLI on `PATH`; it was not started.
#[derive(Clone, Debug, serde::Serialize)]
pub struct DetectedCli {
    pub name: &'static str,
    pub path: PathBuf,
    /// Variable or file with a login.
    pub login: Option<String>,
}

/// Lists the known CLIs on this machine, those with a login first.
pub fn detect_clis(environment: &Environment, directory: &Path) -> Vec<DetectedCli> {
    let find = |cli: &'static AgentCli| {
        let path = find_program(cli.program.as_ref(), &environment.path, directory).ok()?;
        Some(DetectedCli {
            name: cli.name,
            path,
            login: find_login(cli, environment),
        })
    };
    let mut detected: Vec<DetectedCli> = registry::ALL.into_iter().filter_map(find).collect();
    detected.sort_by_key(|agent| agent.login.is_none());
    detected
}

/// State of a known CLI on this machine.
#[derive(Clone, Debug, serde::Serialize)]
pub struct CliReport {
    pub name: &'static str,
    pub title: &'static str,
    pub path: Option<PathBuf>,
    pub version: Option<String>,
    /// Flags that we use and that its help does not list.
    pub missing_flags: Vec<String>,
    /// Variable or file with a login. Only the provider knows whether it is still valid.
    pub login: Option<String>,
    /// Steps that are needed before it can be used.
    pub advice: Vec<String>,
}

/// Inspects all known CLIs, found by their own names.
pub async fn inspect_clis(environment: &Environment, directory: &Path) -> Vec<CliReport> {
    let mut reports = Vec::new();
    for cli in registry::ALL {
        reports.push(inspect_cli(cli, environment, directory).await);
    }
    reports
}

async fn inspect_cli(
    cli: &'static AgentCli,
    environment: &Environment,
    directory: &Path,
) -> CliReport {
    let mut report = CliReport {
        name: cli.name,
        title: cli.title,
        path: None,
        version: None,
        missing_flags: Vec::new(),
        login: find_login(cli, environment),
        advice: Vec::new(),
    };
    let Ok(program) = find_program(cli.program.as_ref(), &environment.path, directory) else {
        report.advice.push(format!("install it: {}", cli.install));
        return report;
    };
    report.path = Some(program.clone());
    let location = CliLocation {
        program,
        before: Vec::new(),
    };
    match installed::examine(cli, &location, &environment.path, &environment.data_dir).await {
        Ok(installed_cli) => {
            if !installed_cli.missing.is_empty() {
                report.advice.push(format!("update it: {}", cli.install));
            }
            report.version = Some(installed_cli.version);
            report.missing_flags = installed_cli.missing;
        }
        Err(error) => report.advice.push(error.to_string()),
    }
    if report.login.is_none() {
        report.advice.push(format!("log in: {}", cli.log_in));
    }
    report
}

/// Returns the first API key variable that is set, else the first login file that exists.
fn find_login(cli: &AgentCli, environment: &Environment) -> Option<String> {
    let key = |name: &&&str| name.contains("KEY") || name.contains("TOKEN");
    let keys = cli.variables.iter().filter(key).copied();
    let key = inherited_variables(keys)
        .into_iter()
        .next()
        .map(|(name, _)| name.to_string_lossy().into_owned());
    let home = environment.home.as_ref()?;
    let file = cli.files.iter().find(|name| home.join(name).is_file());
    key.or_else(|| file.map(|name| format!("~/{name}")))
}
