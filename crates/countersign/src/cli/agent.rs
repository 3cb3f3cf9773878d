//! `countersign agent …`: lists agent CLIs, and installs Countersign into their sessions.

use serde_json::json;

use super::Context;
use super::hook::check_review_flags;
use super::out::columns;
use super::review::HookCliName;
use app::failure::{ExitKind, Failure};
use app::operations::agent_files::{self, InstallScope};
use app::operations::agents;
use app::operations::session_files::{self, FileAction, SessionInstall, SessionPlan};
use app::operations::session_hook::SessionCli;

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// List the supported agent CLIs and where they are installed.
    #[command(after_help = "Example:\n  countersign agent list")]
    List,
    /// Install Countersign into the sessions of a CLI: a skill or command, and a hook that reviews.
    #[command(after_help = INSTALL_HELP)]
    Install(InstallArgs),
    /// Remove what `agent install` has written, and nothing else.
    #[command(after_help = UNINSTALL_HELP)]
    Uninstall {
        /// CLIs to leave [default: all].
        #[arg(value_name = "CLI")]
        clis: Vec<HookCliName>,
        /// Remove from your home directory, instead of from this project.
        #[arg(long)]
        user: bool,
        /// Show the changes instead of making them.
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, clap::Args)]
pub struct InstallArgs {
    /// CLIs whose sessions are reviewed; without one, only Claude Code's agent files are written.
    #[arg(value_name = "CLI")]
    clis: Vec<HookCliName>,
    /// Install into your home directory, for all projects, instead of into this project.
    #[arg(long)]
    user: bool,
    /// Install the skill or command without the hooks.
    #[arg(long, requires = "clis")]
    no_hooks: bool,
    /// Print the files instead of writing them.
    #[arg(long, visible_alias = "dry-run")]
    print: bool,
    /// Flags for `review` in the hook.
    #[arg(last = true, value_name = "REVIEW FLAGS", requires = "clis")]
    flags: Vec<String>,
}

const INSTALL_HELP: &str = "\
With a CLI, writes a skill or command named countersign, and two hooks into the CLI's settings. At the end of a turn, the session's changes are reviewed, and findings that must be fixed go back to the agent, at most max_rounds times. Everything else in a settings file stays. A file that Countersign did not write is never changed (exit code 6).

Without a CLI, writes .claude/agents/countersign-reviewer.md and countersign-fixer.md.

Examples:
  countersign agent install claude
  countersign agent install codex gemini opencode --user
  countersign agent install claude --dry-run
  countersign agent install claude -- --reviewer codex --checks
  countersign agent install";

const UNINSTALL_HELP: &str = "\
Examples:
  countersign agent uninstall
  countersign agent uninstall claude --user --dry-run";

pub async fn perform(verb: Verb, context: &Context) -> Result<ExitKind, Failure> {
    match verb {
        Verb::List => Ok(list(context)),
        Verb::Install(args) if args.clis.is_empty() => {
            install(args.user, args.print, context).await
        }
        Verb::Install(args) => install_into_sessions(args, context).await,
        Verb::Uninstall {
            clis,
            user,
            dry_run,
        } => uninstall(&clis, scope(user), dry_run, context).await,
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

fn scope(user: bool) -> InstallScope {
    if user {
        InstallScope::User
    } else {
        InstallScope::Project
    }
}

async fn install_into_sessions(args: InstallArgs, context: &Context) -> Result<ExitKind, Failure> {
    check_review_flags(&args.flags)?;
    let install = SessionInstall {
        clis: args.clis.iter().map(|name| name.cli()).collect(),
        scope: scope(args.user),
        hooks: !args.no_hooks,
        review_flags: args.flags,
    };
    let plan =
        session_files::plan_install(&context.environment, &context.directory, &install).await?;
    if !args.print {
        session_files::apply(&plan)?;
    }
    print_plan(&plan, args.print, context);
    Ok(ExitKind::Done)
}

async fn uninstall(
    clis: &[HookCliName],
    scope: InstallScope,
    dry_run: bool,
    context: &Context,
) -> Result<ExitKind, Failure> {
    let clis: Vec<SessionCli> = if clis.is_empty() {
        SessionCli::ALL.to_vec()
    } else {
        clis.iter().map(|name| name.cli()).collect()
    };
    let (environment, directory) = (&context.environment, &context.directory);
    let plan = session_files::plan_removal(environment, directory, &clis, scope).await?;
    if !dry_run {
        session_files::apply(&plan)?;
    }
    if plan.changes.is_empty() {
        context.out.line("nothing of Countersign is installed here");
    }
    print_plan(&plan, dry_run, context);
    Ok(ExitKind::Done)
}

fn print_plan(plan: &SessionPlan, dry_run: bool, context: &Context) {
    let out = &context.out;
    for change in &plan.changes {
        let words = match (change.action, dry_run) {
            (FileAction::Write, false) => "wrote",
            (FileAction::Write, true) => "would write",
            (FileAction::Change, false) => "changed",
            (FileAction::Change, true) => "would change",
            (FileAction::Remove, false) => "removed",
            (FileAction::Remove, true) => "would remove",
            (FileAction::Keep, _) => "unchanged",
        };
        out.line(format!("{words} {}", change.file.path.display()));
        if dry_run && matches!(change.action, FileAction::Write | FileAction::Change) {
            out.line(&change.file.text);
        }
    }
    for note in &plan.notes {
        out.line(note);
    }
    out.print_json(&json!({
        "written": !dry_run,
        "files": plan.changes,
        "notes": plan.notes,
    }));
}

async fn install(user: bool, print: bool, context: &Context) -> Result<ExitKind, Failure> {
    let scope = scope(user);
    let files = agent_files::propose(&context.environment, &context.directory, scope).await?;
    if !print {
        agent_files::write(&files)?;
    }
    context
        .out
        .print_json(&json!({"written": !print, "files": files, "notes": []}));
    for file in &files {
        if print {
            context.out.line(&file.text);
        } else {
            context.out.line(format!("wrote {}", file.path.display()));
        }
    }
    Ok(ExitKind::Done)
}
