//! The demo: a throw-away repository and a scripted crew, through the same loop as real agents.

mod scripts;

use std::path::{Path, PathBuf};

use engine::git::CommitIdentity;

use super::project::{ProjectOptions, git_tool};
use crate::failure::Failure;
use crate::settings::Environment;

/// A place for one demonstration.
#[derive(Clone, Debug)]
pub struct DemoProject {
    pub repository: PathBuf,
    /// The ticket file.
    pub ticket: PathBuf,
    pub asked: ProjectOptions,
    /// A data directory of its own: the demonstration leaves no trace in yours.
    pub data_dir: PathBuf,
}

/// Builds the stage in `root`, which must not be there yet.
pub async fn build(
    root: &Path,
    surroundings: &Environment,
    escalate: bool,
) -> Result<DemoProject, Failure> {
    let fail = |error: std::io::Error| Failure::error(format!("{}: {error}", root.display()));
    if root.exists() {
        return Err(
            Failure::usage(format!("{} is there already", root.display()))
                .hint("choose another with --dir DIR"),
        );
    }
    let repository = root.join("repository");
    engine::private::make_dir(&repository).map_err(fail)?;
    for (name, text) in scripts::PROJECT {
        std::fs::write(repository.join(name), text).map_err(fail)?;
    }
    let script = root.join("crew.json");
    std::fs::write(&script, scripts::crew(escalate)).map_err(fail)?;
    let ticket = root.join("ticket.md");
    std::fs::write(&ticket, scripts::TICKET).map_err(fail)?;
    let tool = git_tool(surroundings, &repository)?;
    tool.create(&repository, "main", &author(), "A small shell project")
        .await
        .map_err(Failure::error)?;
    let agent = format!("scripted:{}", script.display());
    Ok(DemoProject {
        repository,
        ticket,
        asked: ProjectOptions {
            builder: Some(agent.clone()),
            reviewers: vec![agent],
            ..ProjectOptions::default()
        },
        data_dir: root.join("data"),
    })
}

fn author() -> CommitIdentity {
    CommitIdentity {
        name: "Demo".to_owned(),
        email: "demo@countersign.invalid".to_owned(),
    }
}
