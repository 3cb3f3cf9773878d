//! Proposes and writes the first configuration of a project from what it detects.

mod template;

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::agents::{self, DetectedCli};
use super::{config, project};
use crate::failure::{ExitKind, Failure};
use crate::settings::Environment;
use crate::settings::config_problems;
use crate::settings::detect::{DetectedProject, detect};
use crate::settings::file::NAME;

/// Detected facts, and the text of the configuration file.
#[derive(Clone, Debug, Serialize)]
pub struct ConfigProposal {
    /// Path of the new file.
    pub file: PathBuf,
    pub base: String,
    #[serde(flatten)]
    pub detected: DetectedProject,
    pub agents: Vec<DetectedCli>,
    pub builder: Option<&'static str>,
    pub reviewer: Option<&'static str>,
    pub text: String,
}

/// Inspects the project; refuses if it has a configuration.
pub async fn propose(
    environment: &Environment,
    directory: &Path,
) -> Result<ConfigProposal, Failure> {
    let git = project::open_repository(environment, directory).await?;
    let Some(root) = git.work_tree() else {
        return Err(
            Failure::usage("this repository has no work tree to write into")
                .hint("run it in a clone"),
        );
    };
    let file = root.join(NAME);
    let files = config::find_files(environment, &git, None).await;
    if file.exists() {
        return Err(already_exists_error(&file.display().to_string()));
    }
    let on_base = files.as_ref().ok().and_then(|files| {
        let mut names = files.sources.iter().map(|source| &source.name);
        names.find(|name| name.starts_with(NAME))
    });
    if let Some(name) = on_base {
        return Err(already_exists_error(name));
    }
    let base = git.default_base().await.map_err(Failure::usage)?;
    let agents = agents::detect_clis(environment, directory);
    let (builder, reviewer) = pick_agents(&agents);
    let mut proposal = ConfigProposal {
        file,
        base,
        detected: detect(root),
        agents,
        builder,
        reviewer,
        text: String::new(),
    };
    proposal.text = template::text(&proposal);
    validate(&proposal.text)?;
    Ok(proposal)
}

fn already_exists_error(name: &str) -> Failure {
    Failure::new(
        ExitKind::Refused,
        format!("{name} already exists and is left as it is"),
    )
    .hint("look at it with `countersign config show` and `countersign config check`")
}

/// Picks the first agent as builder and the next one as reviewer; with only one, it gets both
/// roles.
fn pick_agents(agents: &[DetectedCli]) -> (Option<&'static str>, Option<&'static str>) {
    let builder = agents.first();
    let other = agents
        .iter()
        .find(|agent| Some(agent.name) != builder.map(|first| first.name));
    let name = |agent: &DetectedCli| agent.name;
    (builder.map(name), other.or(builder).map(name))
}

/// Checks the text with the same rules as a person's file.
fn validate(text: &str) -> Result<(), Failure> {
    let problems = config_problems::find_problems(text);
    match problems.first() {
        None => Ok(()),
        Some(problem) => Err(Failure::error(problem.display_with_name(NAME))),
    }
}

/// Writes the file; refuses if it was created in the meantime.
pub fn write(proposal: &ConfigProposal) -> Result<(), Failure> {
    let file = &proposal.file;
    let opened = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(file);
    let mut opened = opened.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => already_exists_error(&file.display().to_string()),
        _ => Failure::error(format!("{} cannot be written: {error}", file.display())),
    })?;
    opened
        .write_all(proposal.text.as_bytes())
        .map_err(|error| Failure::error(format!("{}: {error}", file.display())))
}
