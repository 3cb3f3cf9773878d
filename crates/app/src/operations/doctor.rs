//! What is here and what is missing: the ground that every run needs, and the agents.

use std::path::Path;

use engine::sandbox::{ProgramTrial, try_program};
use flow::policy::SandboxMode;
use serde::Serialize;

use super::agents::{self, AgentFinder, CliReport};
use super::project::{ProjectOptions, git_tool, open, settings};
use super::{App, config, confinement};
use crate::settings::Environment;
use crate::settings::file::ProjectSettings as Written;

/// Less free space than this, and a run may be ended half way.
const DISK_BYTES_MIN: u64 = 1 << 30;

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct DoctorCheck {
    pub what: &'static str,
    pub fine: bool,
    pub found: String,
}

/// Everything that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct DoctorReport {
    /// Without these nothing runs.
    pub examined: Vec<DoctorCheck>,
    /// Any of them will do, and a command of your own as well.
    pub agents: Vec<CliReport>,
    /// Each agent that is installed or configured here, started inside the sandbox.
    pub starts: Vec<AgentStartCheck>,
}

/// Whether one agent starts in the sandbox.
#[derive(Clone, Debug, Serialize)]
pub struct AgentStartCheck {
    pub agent: String,
    pub fine: bool,
    /// What it says of itself, or what is not mounted.
    pub found: String,
}

impl DoctorReport {
    pub fn holds(&self) -> bool {
        self.examined.iter().all(|one| one.fine)
    }
}

pub async fn examine(surroundings: &Environment, directory: &Path) -> DoctorReport {
    let mut examined = Vec::new();
    let mut say = |what, found: Result<String, String>| {
        let (fine, found) = match found {
            Ok(text) => (true, text),
            Err(text) => (false, text),
        };
        examined.push(DoctorCheck { what, fine, found });
    };
    say("git", version(surroundings, directory).await);
    say("repository", repository(surroundings, directory).await);
    say("database", database(surroundings).await);
    say("data", Ok(surroundings.data_dir.display().to_string()));
    say("disk", disk(&surroundings.data_dir));
    say("sandbox", confinement::examine(surroundings).await);
    DoctorReport {
        examined,
        agents: agents::look(surroundings, directory).await,
        starts: starts(surroundings, directory).await,
    }
}

/// Starts every agent that is installed or named in the configuration with `--version`, confined as
/// a run would be. Where nothing can be confined there is nothing to try.
async fn starts(surroundings: &Environment, directory: &Path) -> Vec<AgentStartCheck> {
    let Ok(Some(ward)) = confinement::ward_for(SandboxMode::Enforced, surroundings).await else {
        return Vec::new();
    };
    let written = configured(surroundings, directory).await;
    let finder = AgentFinder {
        written: &written,
        surroundings,
        directory,
    };
    let mut starts = Vec::new();
    for name in named(&written, surroundings, directory) {
        let tried = match finder.program_of(&name) {
            Ok(None) => continue,
            Ok(Some((program, args))) => {
                let trial = ProgramTrial {
                    program: &program,
                    args: &args,
                    path: &surroundings.path,
                    home: surroundings.home.as_deref(),
                };
                let place = (
                    surroundings.program.as_path(),
                    surroundings.data_dir.as_path(),
                );
                try_program(place, &ward, &trial).await
            }
            Err(failure) => Err(failure.message),
        };
        starts.push(AgentStartCheck {
            agent: name,
            fine: tried.is_ok(),
            found: match tried {
                Ok(said) => format!("starts in the sandbox: {said}"),
                Err(why) => format!("could not start in the sandbox: {why}"),
            },
        });
    }
    starts
}

/// What the files say here, as far as they can be read.
async fn configured(surroundings: &Environment, directory: &Path) -> Written {
    if let Ok(git) = open(surroundings, directory).await {
        let asked = ProjectOptions::default();
        if let Ok((_, written, _)) = settings(surroundings, &git, &asked).await {
            return written;
        }
    }
    config::own(surroundings).unwrap_or_default()
}

fn named(written: &Written, surroundings: &Environment, directory: &Path) -> Vec<String> {
    let here = agents::here(surroundings, directory);
    let mut names: Vec<String> = here.iter().map(|agent| agent.name.to_owned()).collect();
    names.extend(written.agents.keys().cloned());
    names.extend(written.builder.clone());
    names.extend(written.reviewers.iter().cloned());
    names.extend(written.verifier.clone());
    let seats = written.policy.reviewers.iter();
    names.extend(seats.filter_map(|seat| seat.agent.clone()));
    names.sort();
    names.dedup();
    names
}

async fn version(surroundings: &Environment, directory: &Path) -> Result<String, String> {
    let tool = git_tool(surroundings, directory).map_err(|failure| failure.message)?;
    tool.version().await.map_err(|error| error.to_string())
}

async fn repository(surroundings: &Environment, directory: &Path) -> Result<String, String> {
    let git = open(surroundings, directory).await;
    let git = git.map_err(|failure| failure.message)?;
    Ok(git.common_dir().display().to_string())
}

async fn database(surroundings: &Environment) -> Result<String, String> {
    let office = App::open(surroundings.clone()).await;
    let office = office.map_err(|failure| failure.message)?;
    let database = office.desk.store.database().await;
    let database = database.map_err(|error| error.to_string())?;
    Ok(database.description)
}

fn disk(data_dir: &Path) -> Result<String, String> {
    let free = engine::process::free_bytes(data_dir)
        .map_err(|error| format!("{}: {error}", data_dir.display()))?;
    let found = format!("{} MiB free", free >> 20);
    if free >= DISK_BYTES_MIN {
        Ok(found)
    } else {
        Err(format!("{found}; make room, or use another --data-dir"))
    }
}

/// In a sentence, for people.
pub fn describe(seen: &CliReport) -> String {
    let mut parts = Vec::new();
    match (&seen.version, &seen.path) {
        (Some(version), Some(path)) => parts.push(format!("{version} at {}", path.display())),
        (None, Some(path)) => parts.push(path.display().to_string()),
        (_, None) => parts.push("not installed".to_owned()),
    }
    if !seen.missing_flags.is_empty() {
        parts.push(format!("has no {}", seen.missing_flags.join(", ")));
    }
    if seen.path.is_some() {
        parts.push(match &seen.login {
            Some(login) => format!("login by {login}"),
            None => "no login found".to_owned(),
        });
    }
    parts.extend(seen.advice.iter().cloned());
    parts.join("; ")
}

/// Whether it could be used as it is.
pub fn is_ready(seen: &CliReport) -> bool {
    seen.path.is_some() && seen.advice.is_empty()
}
