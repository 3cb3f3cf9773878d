//! The demo: a temporary repository and scripted agents, in the same loop as real agents.

mod scripts;

use std::path::{Path, PathBuf};

use engine::git::CommitIdentity;

use super::project::{ProjectOptions, git_tool};
use crate::failure::Failure;
use crate::settings::Environment;

/// Files and options of one demo.
#[derive(Clone, Debug)]
pub struct DemoProject {
    pub repository: PathBuf,
    /// The ticket file.
    pub ticket: PathBuf,
    pub options: ProjectOptions,
    /// Data directory of the demo, so that it leaves no trace in yours.
    pub data_dir: PathBuf,
}

/// Creates the demo in `root`, which must not exist yet.
pub async fn build_demo(
    root: &Path,
    environment: &Environment,
    escalate: bool,
) -> Result<DemoProject, Failure> {
    let fail = |error: std::io::Error| Failure::error(format!("{}: {error}", root.display()));
    if root.exists() {
        return Err(Failure::usage(format!("{} already exists", root.display()))
            .hint("choose another with --dir DIR"));
    }
    let repository = root.join("repository");
    engine::private_files::make_dir(&repository).map_err(fail)?;
    for (name, text) in scripts::PROJECT {
        std::fs::write(repository.join(name), text).map_err(fail)?;
    }
    let script = root.join("agents.json");
    std::fs::write(&script, scripts::agents_script(escalate)).map_err(fail)?;
    let ticket = root.join("ticket.md");
    std::fs::write(&ticket, scripts::TICKET).map_err(fail)?;
    let git = git_tool(environment, &repository)?;
    git.create_repository(&repository, "main", &author(), "A small shell project")
        .await
        .map_err(Failure::error)?;
    let agent = format!("scripted:{}", script.display());
    Ok(DemoProject {
        repository,
        ticket,
        options: ProjectOptions {
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
