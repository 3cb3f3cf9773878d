//! Checks this machine: the parts that every run needs, and the agents.

use std::path::Path;

use engine::sandbox::{ProgramTrial, try_program};
use flow::policy::SandboxMode;
use serde::Serialize;

use super::agents::{self, AgentFinder, CliReport};
use super::project::{ProjectOptions, git_tool, load_settings, open_repository};
use super::{App, config, sandboxing};
use crate::settings::Environment;
use crate::settings::file::ProjectSettings;

/// Minimum free disk space. With less, a run may be ended before it is done.
const DISK_BYTES_MIN: u64 = 1 << 30;

/// Result of one check.
#[derive(Clone, Debug, Serialize)]
pub struct DoctorCheck {
    pub what: &'static str,
    pub fine: bool,
    pub found: String,
}

/// Results of all checks.
#[derive(Clone, Debug, Serialize)]
pub struct DoctorReport {
    /// Parts that every run needs.
    pub examined: Vec<DoctorCheck>,
    /// Known agents; one of them, or your own command, is enough.
    pub agents: Vec<CliReport>,
    /// Trial starts in the sandbox of each agent that is installed or configured.
    pub starts: Vec<AgentStartCheck>,
}

/// Result of a trial start of one agent in the sandbox.
#[derive(Clone, Debug, Serialize)]
pub struct AgentStartCheck {
    pub agent: String,
    pub fine: bool,
    /// The agent's version, or the path that is not mounted.
    pub found: String,
}

impl DoctorReport {
    /// Tells whether every run can start; agents are not counted.
    pub fn is_healthy(&self) -> bool {
        self.examined.iter().all(|check| check.fine)
    }
}

/// Runs all checks.
pub async fn run_checks(environment: &Environment, directory: &Path) -> DoctorReport {
    let mut examined = Vec::new();
    let mut add = |what, found: Result<String, String>| {
        let (fine, found) = match found {
            Ok(text) => (true, text),
            Err(text) => (false, text),
        };
        examined.push(DoctorCheck { what, fine, found });
    };
    add("git", check_git(environment, directory).await);
    add("repository", check_repository(environment, directory).await);
    add("database", check_database(environment).await);
    add("data", Ok(environment.data_dir.display().to_string()));
    add("disk", check_disk(&environment.data_dir));
    add("sandbox", sandboxing::describe_levels(environment).await);
    DoctorReport {
        examined,
        agents: agents::inspect_clis(environment, directory).await,
        starts: check_agent_starts(environment, directory).await,
    }
}

/// Starts every installed or configured agent with `--version`, in the sandbox of a run. Without a
/// working sandbox there is nothing to try.
async fn check_agent_starts(environment: &Environment, directory: &Path) -> Vec<AgentStartCheck> {
    let Ok(Some(sandbox)) = sandboxing::sandbox_for(SandboxMode::Enforced, environment).await
    else {
        return Vec::new();
    };
    let settings = load_configured(environment, directory).await;
    let finder = AgentFinder {
        settings: &settings,
        environment,
        directory,
    };
    let mut starts = Vec::new();
    for name in agent_names(&settings, environment, directory) {
        let started = match finder.program_of(&name) {
            Ok(None) => continue,
            Ok(Some((program, args))) => {
                let trial = ProgramTrial {
                    program: &program,
                    args: &args,
                    path: &environment.path,
                    home: environment.home.as_deref(),
                };
                let runner = (
                    environment.program.as_path(),
                    environment.data_dir.as_path(),
                );
                try_program(runner, &sandbox, &trial).await
            }
            Err(failure) => Err(failure.message),
        };
        starts.push(AgentStartCheck {
            agent: name,
            fine: started.is_ok(),
            found: match started {
                Ok(version) => format!("starts in the sandbox: {version}"),
                Err(why) => format!("could not start in the sandbox: {why}"),
            },
        });
    }
    starts
}

/// Loads the settings of the directory, as far as they can be read.
async fn load_configured(environment: &Environment, directory: &Path) -> ProjectSettings {
    if let Ok(git) = open_repository(environment, directory).await {
        let options = ProjectOptions::default();
        if let Ok((_, settings, _)) = load_settings(environment, &git, &options).await {
            return settings;
        }
    }
    config::load_user_settings(environment).unwrap_or_default()
}

fn agent_names(
    settings: &ProjectSettings,
    environment: &Environment,
    directory: &Path,
) -> Vec<String> {
    let installed = agents::detect_clis(environment, directory);
    let mut names: Vec<String> = installed
        .iter()
        .map(|agent| agent.name.to_owned())
        .collect();
    names.extend(settings.agents.keys().cloned());
    names.extend(settings.builder.clone());
    names.extend(settings.reviewers.iter().cloned());
    names.extend(settings.verifier.clone());
    let reviewers = settings.policy.reviewers.iter();
    names.extend(reviewers.filter_map(|reviewer| reviewer.agent.clone()));
    names.sort();
    names.dedup();
    names
}

async fn check_git(environment: &Environment, directory: &Path) -> Result<String, String> {
    let git = git_tool(environment, directory).map_err(|failure| failure.message)?;
    git.version().await.map_err(|error| error.to_string())
}

async fn check_repository(environment: &Environment, directory: &Path) -> Result<String, String> {
    let git = open_repository(environment, directory).await;
    let git = git.map_err(|failure| failure.message)?;
    Ok(git.common_dir().display().to_string())
}

async fn check_database(environment: &Environment) -> Result<String, String> {
    let app = App::open(environment.clone()).await;
    let app = app.map_err(|failure| failure.message)?;
    let database = app.coordinator.store.database().await;
    let database = database.map_err(|error| error.to_string())?;
    Ok(database.description)
}

fn check_disk(data_dir: &Path) -> Result<String, String> {
    let free = engine::process::free_bytes(data_dir)
        .map_err(|error| format!("{}: {error}", data_dir.display()))?;
    let free_text = format!("{} MiB free", free >> 20);
    if free >= DISK_BYTES_MIN {
        Ok(free_text)
    } else {
        Err(format!(
            "{free_text}; free some space, or use another --data-dir"
        ))
    }
}

/// Describes a CLI in a sentence, for people.
pub fn describe_cli(cli: &CliReport) -> String {
    let mut parts = Vec::new();
    match (&cli.version, &cli.path) {
        (Some(version), Some(path)) => parts.push(format!("{version} at {}", path.display())),
        (None, Some(path)) => parts.push(path.display().to_string()),
        (_, None) => parts.push("not installed".to_owned()),
    }
    if !cli.missing_flags.is_empty() {
        parts.push(format!("has no {}", cli.missing_flags.join(", ")));
    }
    if cli.path.is_some() {
        parts.push(match &cli.login {
            Some(login) => format!("login by {login}"),
            None => "no login found".to_owned(),
        });
    }
    parts.extend(cli.advice.iter().cloned());
    parts.join("; ")
}

/// Tells whether the CLI can be used as it is.
pub fn is_ready(cli: &CliReport) -> bool {
    cli.path.is_some() && cli.advice.is_empty()
}
