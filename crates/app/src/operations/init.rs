//! The first configuration of a project: what was found, and the file made of it.

mod written;

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::agents::{self, DetectedCli};
use super::{config, project};
use crate::failure::{ExitKind, Failure};
use crate::settings::Environment;
use crate::settings::detect::{DetectedProject, detect};
use crate::settings::file::NAME;
use crate::settings::trouble;

/// What was found, and the text that follows from it.
#[derive(Clone, Debug, Serialize)]
pub struct ConfigProposal {
    /// Where it would be written.
    pub file: PathBuf,
    pub base: String,
    #[serde(flatten)]
    pub detected: DetectedProject,
    pub agents: Vec<DetectedCli>,
    pub builder: Option<&'static str>,
    pub reviewer: Option<&'static str>,
    pub text: String,
}

/// Looks at the project; refuses where there is a configuration already.
pub async fn propose(
    surroundings: &Environment,
    directory: &Path,
) -> Result<ConfigProposal, Failure> {
    let git = project::open(surroundings, directory).await?;
    let Some(root) = git.work_tree() else {
        return Err(
            Failure::usage("this repository has no work tree to write into")
                .hint("run it in a clone"),
        );
    };
    let file = root.join(NAME);
    let found = config::find(surroundings, &git, None).await;
    if file.exists() {
        return Err(there_already(&file.display().to_string()));
    }
    let on_base = found.as_ref().ok().and_then(|found| {
        let mut names = found.sources.iter().map(|source| &source.name);
        names.find(|name| name.starts_with(NAME))
    });
    if let Some(name) = on_base {
        return Err(there_already(name));
    }
    let base = git.default_base().await.map_err(Failure::usage)?;
    let agents = agents::here(surroundings, directory);
    let (builder, reviewer) = pair(&agents);
    let mut proposal = ConfigProposal {
        file,
        base,
        detected: detect(root),
        agents,
        builder,
        reviewer,
        text: String::new(),
    };
    proposal.text = written::text(&proposal);
    sound(&proposal.text)?;
    Ok(proposal)
}

fn there_already(name: &str) -> Failure {
    Failure::new(
        ExitKind::Refused,
        format!("{name} is there already and is left as it is"),
    )
    .hint("look at it with `countersign config show` and `countersign config check`")
}

/// The first one builds; the next of another family judges, else the same program started afresh.
fn pair(agents: &[DetectedCli]) -> (Option<&'static str>, Option<&'static str>) {
    let builder = agents.first();
    let other = agents
        .iter()
        .find(|agent| Some(agent.name) != builder.map(|first| first.name));
    let name = |agent: &DetectedCli| agent.name;
    (builder.map(name), other.or(builder).map(name))
}

/// What we write ourselves must hold what we ask of others.
fn sound(text: &str) -> Result<(), Failure> {
    let problems = trouble::find(text);
    match problems.first() {
        None => Ok(()),
        Some(problem) => Err(Failure::error(problem.told(NAME))),
    }
}

/// Writes it, unless somebody else was faster.
pub fn write(proposal: &ConfigProposal) -> Result<(), Failure> {
    let file = &proposal.file;
    let made = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(file);
    let mut made = made.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => there_already(&file.display().to_string()),
        _ => Failure::error(format!("{} cannot be written: {error}", file.display())),
    })?;
    made.write_all(proposal.text.as_bytes())
        .map_err(|error| Failure::error(format!("{}: {error}", file.display())))
}
