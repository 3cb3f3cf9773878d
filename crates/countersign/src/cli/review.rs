//! `countersign review`: reviews a change without a ticket.

mod background;
mod hook;
mod show;

use std::sync::Arc;

use engine::activity::{Activity, ActivityKind};
use engine::coordinator::{ProgressListener, ProgressUpdate};
use engine::process::StopSignal;
use findings::Severity;
use flow::adhoc_review::AdhocOutcome;

use super::Context;
use super::out::{Out, print_raw};
use super::signals::StopRequests;
use app::failure::{ExitKind, Failure};
use app::operations::pull_request::{self, PullRequestOptions};
use app::operations::review::{self, ReviewOptions, ReviewProgress, ReviewResult, ReviewTarget};
use app::operations::session_hook::SessionCli;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "flags, as people write them")]
pub struct Args {
    /// `BASE..HEAD`, or a branch or commit to compare with the base branch [default: HEAD].
    #[arg(value_name = "BASE..HEAD|BRANCH", group = "what")]
    change: Option<String>,
    /// Review the staged changes.
    #[arg(long, group = "what")]
    staged: bool,
    /// Review your work tree as it is, including new files.
    #[arg(long, group = "what")]
    worktree: bool,
    /// Review one commit, compared with its parent.
    #[arg(long, value_name = "SHA", group = "what")]
    commit: Option<String>,
    /// Review a patch file (`-` is standard input), applied on top of HEAD or --base.
    #[arg(long, value_name = "FILE", group = "what")]
    patch: Option<String>,
    /// Review a pull request of this repository's forge: its head is fetched, and nothing is checked
    /// out. See docs/forges.md.
    #[arg(long, value_name = "NUMBER", group = "what", conflicts_with = "base", value_parser = clap::value_parser!(u64).range(1..))]
    pr: Option<u64>,
    /// With --pr: post the findings as threads, a summary, and a commit status on the exact commit. A
    /// second run writes nothing twice.
    #[arg(long, requires = "pr")]
    post: bool,
    /// Branch to compare with.
    #[arg(long, value_name = "BRANCH")]
    base: Option<String>,
    /// Agent that reviews, as for `run`: claude, codex, `command:…` and so on. Repeatable.
    #[arg(long = "reviewer", value_name = "AGENT")]
    reviewers: Vec<String>,
    /// Linter whose output is read as a review, in any format. Repeatable.
    #[arg(long = "linter", value_name = "[NAME=]COMMAND")]
    linters: Vec<String>,
    /// Run only the linters and the search for secrets, without an agent.
    #[arg(long, conflicts_with = "reviewers")]
    linters_only: bool,
    /// Run the project's checks on the change first.
    #[arg(long)]
    checks: bool,
    /// Lowest severity that leads to exit code 3 [default: must-fix by the policy].
    #[arg(long, value_name = "SEVERITY")]
    fail_on: Option<FailOn>,
    /// Format of the result.
    #[arg(long, value_name = "FORM", default_value = "text")]
    format: Format,
    /// Purpose of the change, for the reviewer.
    #[arg(long, value_name = "TEXT")]
    about: Option<String>,
    /// Answer a hook of this CLI: read its JSON from standard input, review the session's changes, and
    /// send open findings back. `countersign agent install` sets it up.
    #[arg(long, value_name = "CLI", conflicts_with_all = ["what", "format"])]
    hook: Option<HookCliName>,
    /// With --hook or --background: end the review after this time [default: 540 with
    /// --hook, 1800 with --background].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    time_limit: Option<u64>,
    /// Review the commit without output, one at a time, for the post-commit hook.
    #[arg(long, requires = "commit", conflicts_with_all = ["hook", "format"])]
    background: bool,
}

/// Name of a CLI with hooks that Countersign can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum HookCliName {
    Claude,
    Codex,
    Gemini,
    Opencode,
}

impl HookCliName {
    pub fn cli(self) -> SessionCli {
        match self {
            Self::Claude => SessionCli::Claude,
            Self::Codex => SessionCli::Codex,
            Self::Gemini => SessionCli::Gemini,
            Self::Opencode => SessionCli::OpenCode,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    Critical,
    High,
    Medium,
    Low,
    Suggestion,
    /// Only report; findings never change the exit code.
    None,
}

impl FailOn {
    fn severity(self) -> Option<Severity> {
        match self {
            Self::Critical => Some(Severity::Critical),
            Self::High => Some(Severity::High),
            Self::Medium => Some(Severity::Medium),
            Self::Low => Some(Severity::Low),
            Self::Suggestion => Some(Severity::Suggestion),
            Self::None => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Text for a terminal.
    Text,
    /// Findings document.
    Markdown,
    /// JSON, the same as --json.
    Json,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// GitHub workflow commands: annotations on the pull request.
    Github,
    /// GitLab code quality report.
    Gitlab,
    /// reviewdog's JSON.
    Rdjson,
    /// Checkstyle XML.
    Checkstyle,
    /// JUnit XML: must-fix findings fail, the rest is skipped.
    Junit,
}

const EXAMPLES: &str = "\
Examples:
  countersign review                               the commits of your branch since the base branch
  countersign review --staged --linters-only       before a commit, without an agent
  countersign review main..topic --reviewer claude --reviewer codex
  countersign review --commit HEAD --linter \"ruff=ruff check --output-format json .\"
  countersign review origin/main..HEAD --format sarif --fail-on medium > review.sarif
  git diff | countersign review --patch -
  countersign review --pr 123 --post               a pull request, with the findings as threads on it

Exit codes: 0 clean, or nothing to review · 1 error · 2 usage · 3 findings at or above --fail-on, or red checks · 4 undecided: a person has to look · 130 interrupted

Your work tree, index and branches are only read. The reviewer works in a read-only checkout of the exact change.";

pub async fn perform(args: Args, context: &Context) -> Result<ExitKind, Failure> {
    if let Some(cli) = args.hook {
        return Ok(Box::pin(hook::perform(args, cli.cli(), context)).await);
    }
    if args.background {
        return Box::pin(background::perform(args, context)).await;
    }
    let mut app = context.open_app().await?;
    app.report_to(Some(Arc::new(PreparationListener(context.out.clone()))));
    let format = if context.out.json {
        Format::Json
    } else {
        args.format
    };
    let report_only = args.fail_on == Some(FailOn::None);
    let (pr, post) = (args.pr, args.post);
    let options = review_options(args);
    let (stopper, stop) = StopSignal::pair();
    let listener = |progress: ReviewProgress<'_>| print_progress(context, &progress);
    let work = async {
        let Some(number) = pr else {
            let result = review::review(&app, &context.directory, &options, stop, listener);
            return Ok((Box::pin(result).await?, None));
        };
        let options = PullRequestOptions {
            number,
            post,
            reports_only: report_only,
            permitted_head: None,
            review: options,
        };
        let directory = &context.directory;
        let reviewed =
            pull_request::review_pull_request(&app, directory, &options, stop, listener).await?;
        let shown = show::ShownPullRequest {
            facts: reviewed.pull_request,
            posted: reviewed.posted,
        };
        Ok::<_, Failure>((reviewed.result, Some(shown)))
    };
    tokio::pin!(work);
    let mut signals = StopRequests::listen()?;
    let (result, pull_request) = loop {
        tokio::select! {
            done = &mut work => break done?,
            () = signals.received() => {
                stopper.stop();
            }
        }
    };
    for note in &result.remarks {
        context.out.note(note);
    }
    let exit = exit_kind(&result, report_only);
    let shown = show::render(&result, pull_request.as_ref(), (format, exit), &context.out);
    print_raw(&shown);
    // The review is shown first: it was paid for, and posting can be repeated.
    match pull_request.and_then(|shown| shown.posted) {
        Some(Err(failure)) => Err(failure),
        Some(Ok(_)) | None => Ok(exit),
    }
}

/// Shows what takes time before the first reviewer starts.
#[derive(Debug)]
struct PreparationListener(Out);

impl ProgressListener for PreparationListener {
    fn on_update(&self, _update: ProgressUpdate) {}

    fn on_activity(&self, activity: Activity) {
        if activity.role == "preparing" && activity.sign == ActivityKind::Began {
            self.0.progress(format!("preparing {}…", activity.name));
        }
    }
}

fn review_options(args: Args) -> ReviewOptions {
    let target = match (args.change, args.commit, args.patch) {
        (Some(word), _, _) => ReviewTarget::parse(&word),
        (_, Some(rev), _) => ReviewTarget::Commit(rev),
        (_, _, Some(file)) => ReviewTarget::Patch(file),
        _ if args.staged => ReviewTarget::Staged,
        _ if args.worktree => ReviewTarget::Worktree,
        _ => ReviewTarget::Head,
    };
    ReviewOptions {
        target,
        base: args.base,
        reviewers: args.reviewers,
        linters: args.linters,
        linters_only: args.linters_only,
        fail_on: args.fail_on.and_then(FailOn::severity),
        checks: args.checks,
        about: args.about,
        pull_request: None,
    }
}

fn print_progress(context: &Context, progress: &ReviewProgress<'_>) {
    match progress {
        ReviewProgress::Begins { reviewers } => context
            .out
            .progress(format!("reviewing with {}", reviewers.join(", "))),
        // A reviewer that did not run is not worth a line.
        ReviewProgress::JobDone(job) if job.usage.wall_ms == 0 => {}
        ReviewProgress::JobDone(job) => context.out.progress(format!(
            "  {} after {:.1} s",
            if job.reviewer == "check" {
                "checks ended"
            } else {
                &job.agent
            },
            f64::from(u32::try_from(job.usage.wall_ms).unwrap_or(u32::MAX)) / 1000.0
        )),
    }
}

fn exit_kind(result: &ReviewResult, report_only: bool) -> ExitKind {
    match result.judged.as_ref().map(|judged| &judged.outcome) {
        None | Some(AdhocOutcome::Approved) => ExitKind::Done,
        Some(
            AdhocOutcome::ChangesRequested
            | AdhocOutcome::RedChecks(_)
            | AdhocOutcome::ForbiddenPaths(_),
        ) if report_only => ExitKind::Done,
        Some(
            AdhocOutcome::ChangesRequested
            | AdhocOutcome::RedChecks(_)
            | AdhocOutcome::ForbiddenPaths(_),
        ) => ExitKind::ChangesRequested,
        Some(AdhocOutcome::Undecided(_)) => ExitKind::Escalated,
    }
}
