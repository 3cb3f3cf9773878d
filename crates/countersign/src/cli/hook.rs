//! `countersign hook …`

use serde_json::json;

use super::Context;
use app::failure::{ExitKind, Failure};
use app::operations::hooks;

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Install a pre-push hook that runs `countersign review` on what is pushed.
    #[command(after_help = INSTALL_HELP)]
    Install {
        /// What `review` is given beside the range.
        #[arg(last = true, value_name = "REVIEW FLAGS")]
        flags: Vec<String>,
    },
    /// Take our hook away again.
    Uninstall,
}

const INSTALL_HELP: &str = "\
Somebody else's hook is never touched: it ends with exit code 6 and says which line to add.

Examples:
  countersign hook install
  countersign hook install -- --linters-only
  countersign hook install -- --reviewer codex --fail-on medium

A push that is to go past it once: git push --no-verify";

pub async fn perform(verb: Verb, desktop: &Context) -> Result<ExitKind, Failure> {
    match verb {
        Verb::Install { flags } => install(&flags, desktop).await,
        Verb::Uninstall => uninstall(desktop).await,
    }
}

async fn install(flags: &[String], desktop: &Context) -> Result<ExitKind, Failure> {
    must_be_flags_of_review(flags)?;
    let installed = hooks::install(&desktop.surroundings, &desktop.directory, flags).await?;
    for remark in &installed.remarks {
        desktop.out.remark(remark);
    }
    let word = if installed.renewed {
        "renewed"
    } else {
        "installed"
    };
    desktop
        .out
        .line(format!("{word} {}", installed.path.display()));
    desktop
        .out
        .line("from now on `git push` reviews first; past it once: git push --no-verify");
    desktop.out.answer(&json!({
        "installed": installed.path,
        "renewed": installed.renewed,
        "notes": installed.remarks,
    }));
    Ok(ExitKind::Done)
}

/// A hook that always fails would be found out at the next push.
fn must_be_flags_of_review(flags: &[String]) -> Result<(), Failure> {
    let words = ["countersign", "review", "HEAD"].map(str::to_owned);
    let parsed = super::parse(words.iter().chain(flags).map(Into::into).collect());
    parsed.map(drop).map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        let what = first.trim_start_matches("error: ");
        Failure::usage(format!(
            "`countersign review` would not take these flags: {what}"
        ))
        .hint("countersign review --help lists them")
    })
}

async fn uninstall(desktop: &Context) -> Result<ExitKind, Failure> {
    let removed = hooks::uninstall(&desktop.surroundings, &desktop.directory).await?;
    desktop.out.line(match &removed {
        Some(path) => format!("removed {}", path.display()),
        None => "there is no hook of ours here".to_owned(),
    });
    desktop.out.answer(&json!({"removed": removed}));
    Ok(ExitKind::Done)
}
