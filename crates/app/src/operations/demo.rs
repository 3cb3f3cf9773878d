//! The demo: a temporary repository and scripted agents, in the same loop as real agents.

mod crowd;
mod scripts;
mod served;

pub use served::{ServedDemo, build_served_demo, play_tickets};

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
    let repository = create_repository(root, environment, scripts::PROJECT).await?;
    let script = root.join("agents.json");
    std::fs::write(&script, scripts::agents_script(escalate)).map_err(fail)?;
    let ticket = root.join("ticket.md");
    std::fs::write(&ticket, scripts::TICKET).map_err(fail)?;
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

/// Creates the demo's repository in `root`, which must not exist yet.
async fn create_repository(
    root: &Path,
    environment: &Environment,
    files: &[(&str, &str)],
) -> Result<PathBuf, Failure> {
    let fail = |error: std::io::Error| Failure::error(format!("{}: {error}", root.display()));
    if root.exists() {
        return Err(Failure::usage(format!("{} already exists", root.display()))
            .hint("choose another with --dir DIR"));
    }
    let repository = root.join("repository");
    engine::private_files::make_dir(&repository).map_err(fail)?;
    for (name, text) in files {
        let path = repository.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(fail)?;
        }
        std::fs::write(path, text).map_err(fail)?;
    }
    let git = git_tool(environment, &repository)?;
    git.create_repository(&repository, "main", &author(), "A small shell project")
        .await
        .map_err(Failure::error)?;
    Ok(repository)
}

fn author() -> CommitIdentity {
    CommitIdentity {
        name: "Demo".to_owned(),
        email: "demo@countersign.invalid".to_owned(),
    }
}
