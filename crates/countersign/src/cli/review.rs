//! `countersign review`

mod show;

use engine::process::StopSignal;
use findings::Severity;
use flow::opinion::AdhocOutcome;

use super::Context;
use super::out::raw;
use app::failure::{ExitKind, Failure};
use app::operations::review::{
    self, JudgedChange, ReviewOptions, ReviewProgress, ReviewResult, ReviewTarget,
};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "flags, as people write them")]
pub struct Args {
    /// `BASE..HEAD`, or a branch or commit to compare with the base branch [default: where you are].
    #[arg(value_name = "BASE..HEAD|BRANCH", group = "what")]
    change: Option<String>,
    /// What is staged for the next commit.
    #[arg(long, group = "what")]
    staged: bool,
    /// Your work tree as it lies, new files included.
    #[arg(long, group = "what")]
    worktree: bool,
    /// One commit, compared with its parent.
    #[arg(long, value_name = "SHA", group = "what")]
    commit: Option<String>,
    /// A patch file (`-` is the standard input), put on top of HEAD or of --base.
    #[arg(long, value_name = "FILE", group = "what")]
    patch: Option<String>,
    /// The branch to compare with.
    #[arg(long, value_name = "BRANCH")]
    base: Option<String>,
    /// Who reviews; may be given several times. As for `run`: claude, codex, `command:…` and so on.
    #[arg(long = "reviewer", value_name = "AGENT")]
    reviewers: Vec<String>,
    /// A linter whose output is read as a review, whatever its form; may be given several times.
    #[arg(long = "linter", value_name = "[NAME=]COMMAND")]
    linters: Vec<String>,
    /// Ask no agent: the linters, and the search for secrets.
    #[arg(long, conflicts_with = "reviewers")]
    linters_only: bool,
    /// Run the project's checks on the change first.
    #[arg(long)]
    checks: bool,
    /// The least severity that makes it end with exit code 3 [default: the policy's must-fix].
    #[arg(long, value_name = "SEVERITY")]
    fail_on: Option<FailOn>,
    /// The form of the answer.
    #[arg(long, value_name = "FORM", default_value = "text")]
    format: Format,
    /// What the change is meant to do, for the reviewer.
    #[arg(long, value_name = "TEXT")]
    about: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    Critical,
    High,
    Medium,
    Low,
    Suggestion,
    /// Report only: findings never change the exit code.
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
    /// For people at a terminal.
    Text,
    /// A findings document.
    Markdown,
    /// The same as --json.
    Json,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// GitHub workflow commands: annotations on the pull request.
    Github,
    /// A GitLab code quality report.
    Gitlab,
    /// reviewdog's JSON.
    Rdjson,
    /// Checkstyle XML.
    Checkstyle,
    /// `JUnit` XML: what must be fixed fails, the rest is skipped.
    Junit,
}

const EXAMPLES: &str = "\
Examples:
  countersign review                               what your branch has over the base branch
  countersign review --staged --linters-only       before a commit, without an agent
  countersign review main..topic --reviewer claude --reviewer codex
  countersign review --commit HEAD --linter \"ruff=ruff check --output-format json .\"
  countersign review origin/main..HEAD --format sarif --fail-on medium > review.sarif
  git diff | countersign review --patch -

Exit codes: 0 clean, or nothing to review · 1 error · 2 usage · 3 findings at or above --fail-on, or red checks ·
4 nobody could tell: a person has to look · 130 interrupted

Your work tree, index and branches are only read. The reviewer works in a read-only checkout of the exact change.";

pub async fn perform(args: Args, desktop: &Context) -> Result<ExitKind, Failure> {
    let office = desktop.office().await?;
    let format = if desktop.out.json {
        Format::Json
    } else {
        args.format
    };
    let report_only = args.fail_on == Some(FailOn::None);
    let wish = wish(args);
    let (stopper, stop) = StopSignal::pair();
    let tell = |progress: ReviewProgress<'_>| tell(desktop, &progress);
    let work = review::review(&office, &desktop.directory, &wish, stop, tell);
    tokio::pin!(work);
    let reviewed = loop {
        tokio::select! {
            done = &mut work => break done?,
            signal = tokio::signal::ctrl_c() => {
                signal.map_err(|error| Failure::error(format!("signals cannot be heard: {error}")))?;
                stopper.stop();
            }
        }
    };
    for remark in &reviewed.remarks {
        desktop.out.remark(remark);
    }
    let exit = exit_of(&reviewed, report_only);
    raw(&show::written(&reviewed, format, exit, &desktop.out));
    Ok(exit)
}

fn wish(args: Args) -> ReviewOptions {
    let target = match (args.change, args.commit, args.patch) {
        (Some(word), _, _) => ReviewTarget::of_word(&word),
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
    }
}

fn tell(desktop: &Context, progress: &ReviewProgress<'_>) {
    match progress {
        ReviewProgress::Begins { seats } => desktop
            .out
            .aside(format!("reviewing with {}", seats.join(", "))),
        // Who looks at nothing is no news.
        ReviewProgress::Looked(looked) if looked.usage.wall_ms == 0 => {}
        ReviewProgress::Looked(looked) => desktop.out.aside(format!(
            "  {} after {:.1} s",
            if looked.seat == "check" {
                "checks ended"
            } else {
                &looked.who
            },
            f64::from(u32::try_from(looked.usage.wall_ms).unwrap_or(u32::MAX)) / 1000.0
        )),
    }
}

fn exit_of(reviewed: &ReviewResult, report_only: bool) -> ExitKind {
    match reviewed.judged.as_ref().map(|judged| &judged.outcome) {
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

/// The open findings, the gravest first; notes of low confidence come last.
fn open(judged: &JudgedChange) -> Vec<&flow::ledger::LedgerEntry> {
    let entries = judged.ticket.ledger.entries.iter();
    let mut open: Vec<_> = entries
        .filter(|entry| entry.status.is_open() && entry.finding.actionable)
        .collect();
    open.sort_by_key(|entry| (entry.low_confidence, entry.severity(), entry.place()));
    open
}
