//! `countersign hook …`: installs and removes the pre-push hook.

use serde_json::json;

use super::Context;
use app::failure::{ExitKind, Failure};
use app::operations::hooks;

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Install a pre-push hook that runs `countersign review` on the pushed commits.
    #[command(after_help = INSTALL_HELP)]
    Install {
        /// Flags for `review`, in addition to the range.
        #[arg(last = true, value_name = "REVIEW FLAGS")]
        flags: Vec<String>,
    },
    /// Remove Countersign's hook.
    Uninstall,
}

const INSTALL_HELP: &str = "\
Never changes a hook of somebody else: it ends with exit code 6 and shows the line to add.

Examples:
  countersign hook install
  countersign hook install -- --linters-only
  countersign hook install -- --reviewer codex --fail-on medium

To skip the hook once: git push --no-verify";

pub async fn perform(verb: Verb, context: &Context) -> Result<ExitKind, Failure> {
    match verb {
        Verb::Install { flags } => install(&flags, context).await,
        Verb::Uninstall => uninstall(context).await,
    }
}

async fn install(flags: &[String], context: &Context) -> Result<ExitKind, Failure> {
    check_review_flags(flags)?;
    let installed = hooks::install(&context.environment, &context.directory, flags).await?;
    for note in &installed.remarks {
        context.out.note(note);
    }
    let word = if installed.renewed {
        "renewed"
    } else {
        "installed"
    };
    context
        .out
        .line(format!("{word} {}", installed.path.display()));
    context
        .out
        .line("from now on `git push` runs a review first; to skip it once: git push --no-verify");
    context.out.print_json(&json!({
        "installed": installed.path,
        "renewed": installed.renewed,
        "notes": installed.remarks,
    }));
    Ok(ExitKind::Done)
}

/// Checks the flags now, because a hook with bad flags would fail only at the next push.
fn check_review_flags(flags: &[String]) -> Result<(), Failure> {
    let command = ["countersign", "review", "HEAD"].map(str::to_owned);
    let parsed = super::parse(command.iter().chain(flags).map(Into::into).collect());
    parsed.map(drop).map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        let reason = first.trim_start_matches("error: ");
        Failure::usage(format!(
            "`countersign review` does not accept these flags: {reason}"
        ))
        .hint("run `countersign review --help` for a list")
    })
}

async fn uninstall(context: &Context) -> Result<ExitKind, Failure> {
    let removed = hooks::uninstall(&context.environment, &context.directory).await?;
    context.out.line(match &removed {
        Some(path) => format!("removed {}", path.display()),
        None => "Countersign has no hook in this repository".to_owned(),
    });
    context.out.print_json(&json!({"removed": removed}));
    Ok(ExitKind::Done)
}
