//! `countersign agent …`

use serde_json::json;

use super::Context;
use super::out::columns;
use app::failure::{ExitKind, Failure};
use app::operations::agent_files::{self, InstallScope};
use app::operations::agents;

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// The agent CLIs that are known, and which of them are here.
    #[command(after_help = "Example:\n  countersign agent list")]
    List,
    /// Write ready agent files for Claude Code: a reviewer and a fixer.
    #[command(after_help = INSTALL_HELP)]
    Install {
        /// Into your home, for all projects, instead of into this one.
        #[arg(long)]
        user: bool,
        /// Print them, and write nothing.
        #[arg(long)]
        print: bool,
    },
}

const INSTALL_HELP: &str = "\
The files are .claude/agents/countersign-reviewer.md and countersign-fixer.md. Ours are renewed, others never
touched (exit code 6).

Examples:
  countersign agent install
  countersign agent install --user";

pub async fn perform(verb: Verb, desktop: &Context) -> Result<ExitKind, Failure> {
    match verb {
        Verb::List => Ok(list(desktop)),
        Verb::Install { user, print } => install(user, print, desktop).await,
    }
}

fn list(desktop: &Context) -> ExitKind {
    let here = agents::here(&desktop.surroundings, &desktop.directory);
    let known = agents::known_names();
    desktop.out.answer(&json!({"agents": here, "known": known}));
    let rows: Vec<Vec<String>> = known
        .iter()
        .map(|name| match here.iter().find(|agent| agent.name == *name) {
            Some(agent) => {
                let login = agent.login.as_deref().unwrap_or("no login was seen");
                vec![
                    (*name).to_owned(),
                    agent.path.display().to_string(),
                    login.to_owned(),
                ]
            }
            None => vec![(*name).to_owned(), "not here".to_owned(), String::new()],
        })
        .collect();
    for line in columns(&rows) {
        desktop.out.line(line);
    }
    desktop
        .out
        .line("\n`countersign doctor` looks closer: versions, flags, and how to install the rest");
    ExitKind::Done
}

async fn install(user: bool, print: bool, desktop: &Context) -> Result<ExitKind, Failure> {
    let place = if user {
        InstallScope::User
    } else {
        InstallScope::Project
    };
    let files = agent_files::propose(&desktop.surroundings, &desktop.directory, place).await?;
    if !print {
        agent_files::write(&files)?;
    }
    desktop
        .out
        .answer(&json!({"written": !print, "files": files}));
    for file in &files {
        if print {
            desktop.out.line(&file.text);
        } else {
            desktop.out.line(format!("wrote {}", file.path.display()));
        }
    }
    Ok(ExitKind::Done)
}
