//! Runs the checks of the project, as the base defines them, on a clean checkout of the exact
//! commit.

use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::Poll;

use flow::ticket::{CheckOutcome, CheckResult};
use flow::{EventKind, Usage};
use store::Artefact;

use super::agent_run::make_artefact;
use super::checkout_site::CheckoutSite;
use super::{
    JobContext, JobError, JobOutput, base_proof, cache_setup, commits, millis, run_sandbox,
};
use crate::check::{Check, CheckEnv, CheckExit};
use crate::git::Oid;
use crate::process::{ProcessExit, RunId};

/// Runs a check job: the checks of the project, and our own checks on the commits.
pub async fn check(context: &JobContext<'_>, commit: &str) -> Result<JobOutput, JobError> {
    let head = Oid::parse(commit)
        .ok_or_else(|| JobError::permanent(format!("{commit} is not a commit id")))?;
    let base = submission_base(context)?;
    let (mut results, artefacts) = run_checks(context, &head, &base).await?;
    results.extend(Box::pin(commits::check(context, &base, &head)).await?);
    let wall_ms = results.iter().map(|result| result.wall_ms).sum();
    let usage = Usage {
        wall_ms,
        ..Usage::default()
    };
    let what = EventKind::Checked {
        lease: context.lease,
        commit: commit.to_owned(),
        results,
        usage,
    };
    Ok(JobOutput { what, artefacts })
}

/// Returns the merge base of the submission.
pub fn submission_base(context: &JobContext<'_>) -> Result<Oid, JobError> {
    let base = context
        .ticket
        .submission
        .as_ref()
        .and_then(|submission| Oid::parse(&submission.base));
    base.ok_or_else(|| JobError::permanent("the ticket has no submission"))
}

/// Runs all checks on `head`. A red check runs a second time, and if it is red again, on the base.
/// Checks marked as parallel run concurrently, each in its own checkout.
pub async fn run_checks(
    context: &JobContext<'_>,
    head: &Oid,
    base: &Oid,
) -> Result<(Vec<CheckResult>, Vec<Artefact>), JobError> {
    let project = &context.project.config;
    if project.checks.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let commits = CheckedCommits { head, base };
    let mut site = CheckoutSite::for_check(context, head, base, "head").await?;
    cache_setup::add_caches(context, base, &mut site).await?;
    let all = run_all(context, &site, commits).await?;
    site.discard().await?;
    if all.is_set_up && all.results.iter().all(|result| result.outcome.is_green()) {
        // The commit may become the next base, which then needs no proof of its own.
        base_proof::remember_green(context.project, head).await?;
    }
    Ok((all.results, all.artefacts))
}

/// Runs the setup in the checkout, then all checks.
async fn run_all(
    context: &JobContext<'_>,
    site: &CheckoutSite,
    commits: CheckedCommits<'_>,
) -> Result<CheckBatch, JobError> {
    let project = &context.project.config;
    let mut all = CheckBatch::default();
    if let Some(setup) = &project.setup.command {
        let set_up = run_to_outcome(context, setup, site, commits, "").await?;
        all.artefacts.extend(set_up.artefacts);
        // A red setup says nothing about the other checks.
        if set_up
            .results
            .iter()
            .any(|result| !result.outcome.is_green())
        {
            all.results = set_up.results;
            return Ok(all);
        }
    }
    all.is_set_up = true;
    let (parallel, serial): (Vec<&Check>, Vec<&Check>) =
        project.checks.iter().partition(|check| check.parallel);
    let mut runs: Vec<PendingChecks<'_>> =
        vec![Box::pin(run_in_sequence(context, serial, site, commits))];
    for (at, check) in parallel.into_iter().enumerate() {
        runs.push(Box::pin(run_in_own_checkout(context, check, commits, at)));
    }
    for run in join_all_checks(runs).await {
        let run = run?;
        all.results.extend(run.results);
        all.artefacts.extend(run.artefacts);
    }
    let position = |result: &CheckResult| {
        project
            .checks
            .iter()
            .position(|check| check.name == result.name)
    };
    all.results.sort_by_key(position);
    Ok(all)
}

/// The commit that is checked, and the base of the change.
#[derive(Clone, Copy)]
struct CheckedCommits<'a> {
    head: &'a Oid,
    base: &'a Oid,
}

/// Results of some checks.
#[derive(Debug, Default)]
struct CheckBatch {
    results: Vec<CheckResult>,
    artefacts: Vec<Artefact>,
    /// Whether the setup let the checks begin.
    is_set_up: bool,
}

type PendingChecks<'a> = Pin<Box<dyn Future<Output = Result<CheckBatch, JobError>> + Send + 'a>>;

/// Runs all of them concurrently and returns their results in order.
async fn join_all_checks(mut runs: Vec<PendingChecks<'_>>) -> Vec<Result<CheckBatch, JobError>> {
    let mut answers: Vec<Option<Result<CheckBatch, JobError>>> =
        runs.iter().map(|_| None).collect();
    poll_fn(move |context| {
        for (run, answer) in runs.iter_mut().zip(&mut answers) {
            if answer.is_none()
                && let Poll::Ready(ended) = run.as_mut().poll(context)
            {
                *answer = Some(ended);
            }
        }
        if answers.iter().all(Option::is_some) {
            Poll::Ready(answers.iter_mut().filter_map(Option::take).collect())
        } else {
            Poll::Pending
        }
    })
    .await
}

/// Runs checks one after another in one checkout.
async fn run_in_sequence(
    context: &JobContext<'_>,
    checks: Vec<&Check>,
    site: &CheckoutSite,
    commits: CheckedCommits<'_>,
) -> Result<CheckBatch, JobError> {
    let mut all = CheckBatch::default();
    for check in checks {
        let one = run_to_outcome(context, check, site, commits, "").await?;
        all.results.extend(one.results);
        all.artefacts.extend(one.artefacts);
        if !site.dir.is_dir() {
            break;
        }
    }
    Ok(all)
}

/// Runs one check in its own checkout.
async fn run_in_own_checkout(
    context: &JobContext<'_>,
    check: &Check,
    commits: CheckedCommits<'_>,
    at: usize,
) -> Result<CheckBatch, JobError> {
    let CheckedCommits { head, base } = commits;
    let tag = format!("-parallel-{at}");
    let mut site = CheckoutSite::for_check(context, head, base, &format!("head{tag}")).await?;
    cache_setup::add_caches(context, base, &mut site).await?;
    cache_setup::run_setup(context, &site).await?;
    let ran = run_to_outcome(context, check, &site, commits, &tag).await?;
    site.discard().await?;
    Ok(ran)
}

/// Runs one check to its final result: green, flaky, red because of the change, or already red on
/// the base.
async fn run_to_outcome(
    context: &JobContext<'_>,
    check: &Check,
    site: &CheckoutSite,
    commits: CheckedCommits<'_>,
    tag: &str,
) -> Result<CheckBatch, JobError> {
    let CheckedCommits { head, base } = commits;
    let first = run_check(context, check, site, &format!("1{tag}")).await?;
    let mut artefacts = vec![make_artefact(context, "check", &check.name, &first.output)];
    let mut result = first;
    if !result.green && !result.overran {
        let again = run_check(context, check, site, &format!("2{tag}")).await?;
        artefacts.push(make_artefact(context, "check", &check.name, &again.output));
        // The base itself has nothing to be compared with.
        let by_change =
            again.green || head == base || !is_red_on_base(context, check, base, tag).await?;
        let outcome = match (again.green, by_change) {
            (true, _) => CheckOutcome::Flaky,
            (false, true) => again.result.outcome,
            (false, false) => CheckOutcome::RedOnBase,
        };
        result = again;
        result.result.outcome = outcome;
    }
    Ok(CheckBatch {
        results: vec![result.result],
        artefacts,
        is_set_up: true,
    })
}

/// Returns whether the check is red on the base too, so that the change is not at fault.
async fn is_red_on_base(
    context: &JobContext<'_>,
    check: &Check,
    base: &Oid,
    tag: &str,
) -> Result<bool, JobError> {
    let mut site = CheckoutSite::for_check(context, base, base, &format!("base{tag}")).await?;
    cache_setup::add_caches(context, base, &mut site).await?;
    if context.project.config.setup.command.as_ref() != Some(check) {
        cache_setup::run_setup(context, &site).await?;
    }
    let ran = run_check(context, check, &site, &format!("base{tag}")).await?;
    site.discard().await?;
    Ok(!ran.green)
}

#[derive(Debug)]
pub struct CommandRun {
    pub result: CheckResult,
    pub green: bool,
    /// True if it was stopped for its disk use, and its files are gone.
    pub overran: bool,
    pub output: PathBuf,
    pub exit: Option<ProcessExit>,
    /// True if some of the output was not kept.
    pub cut: bool,
    /// Standard output alone, if the caller asked for it.
    pub stdout: String,
}

/// Runs one check once.
pub async fn run_check(
    context: &JobContext<'_>,
    check: &Check,
    site: &CheckoutSite,
    attempt: &str,
) -> Result<CommandRun, JobError> {
    run_with_stdout(context, check, site, attempt, 0).await
}

/// Runs a check like [`run_one`], and returns up to `stdout_bytes_max` bytes of its standard
/// output.
pub async fn run_with_stdout(
    context: &JobContext<'_>,
    check: &Check,
    site: &CheckoutSite,
    attempt: &str,
    stdout_bytes_max: usize,
) -> Result<CommandRun, JobError> {
    let project = context.project;
    let run = format!(
        "{}.{}.{}.{attempt}",
        context.ticket.id, context.lease.serial, context.lease.fence
    );
    let output = site
        .root
        .join(format!("{}-{attempt}.log", to_file_name(&check.name)));
    let env = site.environment(context)?;
    let check_env = CheckEnv {
        run_id: RunId::new(&run).map_err(JobError::permanent)?,
        dir: &site.dir,
        env: &env,
        output: &output,
        output_bytes_max: project.config.policy.limits.output_bytes_max,
        stdout_bytes_max,
        disk_quota: Some(context.disk_quota(site.dirs())),
        sandbox: run_sandbox::sandbox_for_check(
            project,
            site,
            site.root.join(format!("sandbox-{attempt}/proof.json")),
        )?,
    };
    let observer = context.observer("check", &check.name);
    observer.report_start();
    let ran = crate::check::run_check(&project.host, check, check_env, context.stop.clone())
        .await
        .map_err(JobError::transient);
    site.clear_overlays()?;
    let how = match &ran {
        Ok(ran) => &ran.detail,
        Err(error) => &error.message,
    };
    observer.report_end(how, crate::agent::AgentUsage::default());
    let ran = ran?;
    if ran.outcome == CheckExit::Overran {
        site.clear()?;
    }
    let outcome = match ran.outcome {
        CheckExit::Passed => CheckOutcome::Passed,
        CheckExit::Failed | CheckExit::Overran | CheckExit::CouldNotStart => CheckOutcome::Failed,
        CheckExit::TimedOut => CheckOutcome::TimedOut,
        CheckExit::Cancelled => return Err(super::interrupted()),
    };
    Ok(CommandRun {
        green: outcome.is_green(),
        overran: ran.outcome == CheckExit::Overran,
        result: CheckResult {
            name: check.name.clone(),
            outcome,
            tail: findings::clean(&format!("{}\n({})", ran.tail.trim_end(), ran.detail)),
            wall_ms: millis(ran.duration),
        },
        output: ran.output,
        exit: ran.exit,
        cut: ran.cut,
        stdout: ran.stdout,
    })
}

/// Converts the name of a check for use in a file name.
fn to_file_name(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        })
        .take(60)
        .collect()
}
