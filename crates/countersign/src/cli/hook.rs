//! `countersign hook …`: installs and removes git hooks, and dismisses a background review.

use serde_json::json;

use super::Context;
use app::failure::{ExitKind, Failure};
use app::operations::commit_review;
use app::operations::hooks::{self, GitHook};

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Install a git hook that runs `countersign review` on the pushed commits, or on each commit.
    #[command(after_help = INSTALL_HELP)]
    Install {
        /// Review each commit in the background, instead of before a push.
        #[arg(long)]
        post_commit: bool,
        /// Flags for `review`, in addition to the range.
        #[arg(last = true, value_name = "REVIEW FLAGS")]
        flags: Vec<String>,
    },
    /// Remove Countersign's hook.
    Uninstall {
        /// Remove the post-commit hook, instead of the pre-push hook.
        #[arg(long)]
        post_commit: bool,
    },
    /// Drop the findings of the last background review from `status` and from your next prompt.
    #[command(after_help = DISMISS_HELP)]
    Dismiss,
}

const DISMISS_HELP: &str = "\
Later background reviews begin after the dismissed commit.

Example:
  countersign hook dismiss";

const INSTALL_HELP: &str = "\
Never changes a hook that Countersign did not write: exit code 6, and it shows the line to add.

Examples:
  countersign hook install
  countersign hook install -- --linters-only
  countersign hook install -- --reviewer codex --fail-on medium
  countersign hook install --post-commit

With --post-commit, one review runs at a time for each repository, and the newest commit wins. `countersign status` shows the findings, and so does the next prompt of a session with `countersign agent install`.

To skip the hook once: git push --no-verify";

pub async fn perform(verb: Verb, context: &Context) -> Result<ExitKind, Failure> {
    match verb {
        Verb::Install { post_commit, flags } => install(kind(post_commit), &flags, context).await,
        Verb::Uninstall { post_commit } => uninstall(kind(post_commit), context).await,
        Verb::Dismiss => dismiss(context).await,
    }
}

fn kind(post_commit: bool) -> GitHook {
    if post_commit {
        GitHook::PostCommit
    } else {
        GitHook::PrePush
    }
}

async fn dismiss(context: &Context) -> Result<ExitKind, Failure> {
    let app = context.open_app().await?;
    let dismissed = commit_review::dismiss(&app, &context.directory).await?;
    context.out.line(match &dismissed {
        Some(review) => format!(
            "dismissed {}",
            review.lines().into_iter().next().unwrap_or_default()
        ),
        None => "no background review waits in this repository".to_owned(),
    });
    context.out.print_json(&json!({"dismissed": dismissed}));
    Ok(ExitKind::Done)
}

async fn install(hook: GitHook, flags: &[String], context: &Context) -> Result<ExitKind, Failure> {
    check_review_flags(flags)?;
    let installed = hooks::install(&context.environment, &context.directory, hook, flags).await?;
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
    context.out.line(match hook {
        GitHook::PrePush => {
            "from now on `git push` runs a review first; to skip it once: git push --no-verify"
        }
        GitHook::PostCommit => {
            "from now on each commit is reviewed in the background; `countersign status` shows the findings"
        }
    });
    context.out.print_json(&json!({
        "installed": installed.path,
        "renewed": installed.renewed,
        "notes": installed.remarks,
    }));
    Ok(ExitKind::Done)
}

/// Checks the flags now, because a hook with bad flags would fail only at the next push.
pub fn check_review_flags(flags: &[String]) -> Result<(), Failure> {
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

async fn uninstall(hook: GitHook, context: &Context) -> Result<ExitKind, Failure> {
    let removed = hooks::uninstall(&context.environment, &context.directory, hook).await?;
    let (name, other, flag) = match hook {
        GitHook::PrePush => ("pre-push", "post-commit", " --post-commit"),
        GitHook::PostCommit => ("post-commit", "pre-push", ""),
    };
    context.out.line(match &removed {
        Some(path) => format!("removed {}", path.display()),
        None => format!(
            "Countersign has no {name} hook in this repository; for the {other} hook: countersign hook uninstall{flag}"
        ),
    });
    context.out.print_json(&json!({"removed": removed}));
    Ok(ExitKind::Done)
}
