//! `countersign agent …`: lists agent CLIs and installs agent files.

use serde_json::json;

use super::Context;
use super::out::columns;
use app::failure::{ExitKind, Failure};
use app::operations::agent_files::{self, InstallScope};
use app::operations::agents;

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// List the supported agent CLIs and where they are installed.
    #[command(after_help = "Example:\n  countersign agent list")]
    List,
    /// Write agent files for Claude Code: a reviewer and a fixer.
    #[command(after_help = INSTALL_HELP)]
    Install {
        /// Install into your home directory, for all projects, instead of into this project.
        #[arg(long)]
        user: bool,
        /// Print the files instead of writing them.
        #[arg(long)]
        print: bool,
    },
}

const INSTALL_HELP: &str = "\
Writes .claude/agents/countersign-reviewer.md and countersign-fixer.md. Updates files of Countersign, and never
changes files of others (exit code 6).

Examples:
  countersign agent install
  countersign agent install --user";

pub async fn perform(verb: Verb, context: &Context) -> Result<ExitKind, Failure> {
    match verb {
        Verb::List => Ok(list(context)),
        Verb::Install { user, print } => install(user, print, context).await,
    }
}

fn list(context: &Context) -> ExitKind {
    let installed = agents::detect_clis(&context.environment, &context.directory);
    let names = agents::known_names();
    context
        .out
        .print_json(&json!({"agents": installed, "known": names}));
    let rows: Vec<Vec<String>> = names
        .iter()
        .map(
            |name| match installed.iter().find(|agent| agent.name == *name) {
                Some(agent) => {
                    let login = agent.login.as_deref().unwrap_or("no login found");
                    vec![
                        (*name).to_owned(),
                        agent.path.display().to_string(),
                        login.to_owned(),
                    ]
                }
                None => vec![
                    (*name).to_owned(),
                    "not installed".to_owned(),
                    String::new(),
                ],
            },
        )
        .collect();
    for line in columns(&rows) {
        context.out.line(line);
    }
    context
        .out
        .line("\n`countersign doctor` shows more: versions, flags, and how to install the rest");
    ExitKind::Done
}

async fn install(user: bool, print: bool, context: &Context) -> Result<ExitKind, Failure> {
    let scope = if user {
        InstallScope::User
    } else {
        InstallScope::Project
    };
    let files = agent_files::propose(&context.environment, &context.directory, scope).await?;
    if !print {
        agent_files::write(&files)?;
    }
    context
        .out
        .print_json(&json!({"written": !print, "files": files}));
    for file in &files {
        if print {
            context.out.line(&file.text);
        } else {
            context.out.line(format!("wrote {}", file.path.display()));
        }
    }
    Ok(ExitKind::Done)
}
