//! Runs a linter in the place of a reviewer, in a checkout and sandbox like a check's.

use flow::truncate::truncate_review;
use flow::{EventKind, Usage};

use super::agent_run;
use super::bounded_read::read_within_limit;
use super::check::run_with_stdout;
use super::checkout_site::CheckoutSite;
use super::review::repository_roots;
use super::{JobContext, JobError, JobOutput, cache_setup};
use crate::check::Check;
use crate::git::Oid;
use crate::linter::{self, LinterRun};

/// Runs a linter as a reviewer. Its output is the review, if it ran to its end.
pub(super) async fn run_linter(
    context: &JobContext<'_>,
    commit: &str,
    reviewer: &str,
    command: &str,
) -> Result<JobOutput, JobError> {
    let head = Oid::parse(commit)
        .ok_or_else(|| JobError::permanent(format!("{commit} is not a commit id")))?;
    let base = super::check::submission_base(context)?;
    let mut site = CheckoutSite::for_check(context, &head, &base, "lint").await?;
    cache_setup::add_caches(context, &base, &mut site).await?;
    cache_setup::run_setup(context, &site).await?;
    let check = Check {
        name: reviewer.to_owned(),
        command: command.to_owned(),
        time_limit: super::secs(context.project.config.policy.limits.review_secs),
        parallel: false,
        coverage_min: None,
    };
    // Behind a symbolic link, a linter may print either name of the checkout.
    let roots = repository_roots(context, std::slice::from_ref(&site.dir));
    let ran = run_with_stdout(context, &check, &site, "1", LINT_BYTES_MAX).await?;
    site.discard().await?;
    let usage = Usage {
        wall_ms: ran.result.wall_ms,
        ..Usage::default()
    };
    let (lease, artefacts) = (
        context.lease,
        vec![agent_run::make_artefact(
            context,
            "lint",
            reviewer,
            &ran.output,
        )],
    );
    let output = std::fs::read(&ran.output).unwrap_or_default();
    let (name, command) = (reviewer.to_owned(), command.to_owned());
    let read = read_within_limit(move || {
        let roots: Vec<&str> = roots.iter().map(String::as_str).collect();
        linter::read_linter_run(&LinterRun {
            name: &name,
            command: &command,
            exit: ran.exit,
            stdout: &ran.stdout,
            output: &String::from_utf8_lossy(&output),
            cut: ran.cut || output.len() >= LINT_BYTES_MAX,
            tail: &ran.result.tail,
            roots: &roots,
        })
    });
    let read = read.await.flatten();
    let what = match read {
        Ok(review) => EventKind::Reviewed {
            answers_open: false,
            lease,
            commit: commit.to_owned(),
            review: Box::new(truncate_review(review, &context.project.config.policy)),
            sandbox: "a linter, in the sandbox of a check".to_owned(),
            usage,
        },
        Err(why) => EventKind::ReviewUnusable { lease, why, usage },
    };
    Ok(JobOutput { what, artefacts })
}

/// Maximum output of a linter that is read.
const LINT_BYTES_MAX: usize = 64 << 20;
