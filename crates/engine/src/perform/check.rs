//! Checking: the project's commands, from the base, on a clean checkout of the exact commit.

use std::ffi::OsString;
use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::Poll;

use flow::ticket::{CheckOutcome, CheckResult};
use flow::{EventKind, Usage};
use store::Artefact;

use super::agents::artefact;
use super::{JobContext, JobError, JobOutput, commits, millis, room, supply};
use crate::check::{Check, CheckEnv, CheckExit};
use crate::git::{CheckoutPurpose, Oid, remove_tree};
use crate::private;
use crate::process::{ProcessExit, RunId};

pub async fn check(held: &JobContext<'_>, commit: &str) -> Result<JobOutput, JobError> {
    let head =
        Oid::parse(commit).ok_or_else(|| JobError::permanent(format!("{commit} is no commit")))?;
    let base = base_of(held)?;
    let (mut results, artefacts) = run_checks(held, &head, &base).await?;
    results.extend(Box::pin(commits::check(held, &base, &head)).await?);
    let wall_ms = results.iter().map(|result| result.wall_ms).sum();
    let usage = Usage {
        wall_ms,
        ..Usage::default()
    };
    let what = EventKind::Checked {
        lease: held.lease,
        commit: commit.to_owned(),
        results,
        usage,
    };
    Ok(JobOutput { what, artefacts })
}

/// The merge base that the submission was described with.
pub fn base_of(held: &JobContext<'_>) -> Result<Oid, JobError> {
    let base = held
        .ticket
        .submission
        .as_ref()
        .and_then(|put| Oid::parse(&put.base));
    base.ok_or_else(|| JobError::permanent("the ticket has no submission"))
}

/// Runs all checks on `head`. What is red is tried once more; what is red again is tried on the base.
/// Checks that say they may run beside others do, each in a checkout of its own.
pub async fn run_checks(
    held: &JobContext<'_>,
    head: &Oid,
    base: &Oid,
) -> Result<(Vec<CheckResult>, Vec<Artefact>), JobError> {
    let project = &held.shop.project;
    if project.checks.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let site = CheckoutSite::at(held, head, base, "head").await?;
    supply::put_in(held, base, &site).await?;
    let mut all = CheckBatch::default();
    if let Some(setup) = &project.setup.command {
        let set_up = settle(held, setup, &site, base, "").await?;
        all.artefacts.extend(set_up.artefacts);
        // Nothing can be said about the rest where the setup is red.
        if set_up
            .results
            .iter()
            .any(|result| !result.outcome.is_green())
        {
            return Ok((set_up.results, all.artefacts));
        }
    }
    let (beside, after): (Vec<&Check>, Vec<&Check>) =
        project.checks.iter().partition(|check| check.parallel);
    let mut runs: Vec<PendingChecks<'_>> = vec![Box::pin(in_turn(held, after, &site, base))];
    for (at, check) in beside.into_iter().enumerate() {
        runs.push(Box::pin(alone(held, check, head, base, at)));
    }
    for run in all_of(runs).await {
        let run = run?;
        all.results.extend(run.results);
        all.artefacts.extend(run.artefacts);
    }
    let place = |result: &CheckResult| {
        project
            .checks
            .iter()
            .position(|check| check.name == result.name)
    };
    all.results.sort_by_key(place);
    Ok((all.results, all.artefacts))
}

/// What came of some checks.
#[derive(Debug, Default)]
struct CheckBatch {
    results: Vec<CheckResult>,
    artefacts: Vec<Artefact>,
}

type PendingChecks<'a> = Pin<Box<dyn Future<Output = Result<CheckBatch, JobError>> + Send + 'a>>;

/// Waits for all of them side by side; their answers in their order.
async fn all_of(mut runs: Vec<PendingChecks<'_>>) -> Vec<Result<CheckBatch, JobError>> {
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

async fn in_turn(
    held: &JobContext<'_>,
    checks: Vec<&Check>,
    site: &CheckoutSite,
    base: &Oid,
) -> Result<CheckBatch, JobError> {
    let mut all = CheckBatch::default();
    for check in checks {
        let one = settle(held, check, site, base, "").await?;
        all.results.extend(one.results);
        all.artefacts.extend(one.artefacts);
        if !site.dir.is_dir() {
            break;
        }
    }
    Ok(all)
}

async fn alone(
    held: &JobContext<'_>,
    check: &Check,
    head: &Oid,
    base: &Oid,
    at: usize,
) -> Result<CheckBatch, JobError> {
    let tag = format!("-beside-{at}");
    let site = CheckoutSite::at(held, head, base, &format!("head{tag}")).await?;
    supply::put_in(held, base, &site).await?;
    supply::set_up(held, &site).await?;
    settle(held, check, &site, base, &tag).await
}

/// One check to its end: green, flaky, red by the change, or red before it.
async fn settle(
    held: &JobContext<'_>,
    check: &Check,
    site: &CheckoutSite,
    base: &Oid,
    tag: &str,
) -> Result<CheckBatch, JobError> {
    let first = run_one(held, check, site, &format!("1{tag}")).await?;
    let mut artefacts = vec![artefact(held, "check", &check.name, &first.output)];
    let mut result = first;
    if !result.green && !result.overran {
        let again = run_one(held, check, site, &format!("2{tag}")).await?;
        artefacts.push(artefact(held, "check", &check.name, &again.output));
        let by_change = again.green || !red_on_base(held, check, base, tag).await?;
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
    })
}

async fn red_on_base(
    held: &JobContext<'_>,
    check: &Check,
    base: &Oid,
    tag: &str,
) -> Result<bool, JobError> {
    let site = CheckoutSite::at(held, base, base, &format!("base{tag}")).await?;
    supply::put_in(held, base, &site).await?;
    if held.shop.project.setup.command.as_ref() != Some(check) {
        supply::set_up(held, &site).await?;
    }
    let ran = run_one(held, check, &site, &format!("base{tag}")).await?;
    Ok(!ran.green)
}

/// A checkout with a home and a temporary directory of its own, and nothing of the person's.
#[derive(Clone, Debug)]
pub struct CheckoutSite {
    pub root: PathBuf,
    pub dir: PathBuf,
    pub home: PathBuf,
    tmp: PathBuf,
    /// What may not be written although it is in `dir`.
    shut: Vec<PathBuf>,
}

impl CheckoutSite {
    /// A fresh checkout of the commit; what was there before is replaced.
    pub async fn at(
        held: &JobContext<'_>,
        head: &Oid,
        base: &Oid,
        name: &str,
    ) -> Result<Self, JobError> {
        Self::made(held, head, base, name, CheckoutPurpose::Check).await
    }

    async fn made(
        held: &JobContext<'_>,
        head: &Oid,
        base: &Oid,
        name: &str,
        purpose: CheckoutPurpose<'_>,
    ) -> Result<Self, JobError> {
        let shop = held.shop;
        let root = held.dir().join(name);
        private::make_dir(&root)?;
        let dir = root.join("checkout");
        let mirror = shop.mirror();
        shop.git
            .checkout(head, base, purpose, &mirror, &dir)
            .await?;
        Ok(Self {
            home: root.join("home"),
            tmp: root.join("tmp"),
            shut: Vec::new(),
            root,
            dir,
        })
    }

    /// A judge's own copy, with the home that the judge will have.
    pub async fn copy(held: &JobContext<'_>, head: &Oid, base: &Oid) -> Result<Self, JobError> {
        let own = held.dir();
        let copy = Self::made(held, head, base, "scratch/copy", CheckoutPurpose::Trial).await?;
        Ok(Self {
            home: own.join("home"),
            ..copy
        })
    }

    /// A builder's worktree, with the home that the builder will have.
    pub fn around(worktree: &Path, own: &Path, home: PathBuf) -> Self {
        Self {
            root: own.to_owned(),
            dir: worktree.to_owned(),
            home,
            tmp: own.join("tmp"),
            shut: vec![worktree.join(".git")],
        }
    }

    /// Gives back what a run took that was ended for it. A builder's worktree is not ours to empty.
    fn clear(&self) -> std::io::Result<()> {
        remove_tree(&self.tmp)?;
        if self.dir.starts_with(&self.root) {
            remove_tree(&self.dir)?;
        }
        Ok(())
    }

    fn environment(&self, held: &JobContext<'_>) -> Result<Vec<(OsString, OsString)>, JobError> {
        private::make_dir(&self.home)?;
        private::make_dir(&self.tmp)?;
        if let Some(ward) = &held.shop.ward {
            ward.prepare_home(&self.home)?;
        }
        let mut env = held.shop.environment();
        env.extend([
            ("HOME".into(), self.home.clone().into()),
            ("TMPDIR".into(), self.tmp.clone().into()),
            ("CI".into(), "true".into()),
        ]);
        Ok(env)
    }
}

#[derive(Debug)]
pub struct CommandRun {
    pub result: CheckResult,
    pub green: bool,
    /// It took more than there is, and nothing is left of where it ran.
    pub overran: bool,
    pub output: PathBuf,
    pub exit: Option<ProcessExit>,
    /// Some of the output was not kept.
    pub cut: bool,
    /// The standard output alone, for who asked for it.
    pub stdout: String,
}

pub async fn run_one(
    held: &JobContext<'_>,
    check: &Check,
    site: &CheckoutSite,
    attempt: &str,
) -> Result<CommandRun, JobError> {
    run_with_stdout(held, check, site, attempt, 0).await
}

/// [`run_one`], with so many bytes of the standard output handed back.
pub async fn run_with_stdout(
    held: &JobContext<'_>,
    check: &Check,
    site: &CheckoutSite,
    attempt: &str,
    stdout_bytes_max: usize,
) -> Result<CommandRun, JobError> {
    let shop = held.shop;
    let run = format!(
        "{}.{}.{}.{attempt}",
        held.ticket.id, held.lease.serial, held.lease.fence
    );
    let output = site
        .root
        .join(format!("{}-{attempt}.log", file_name(&check.name)));
    let env = site.environment(held)?;
    let ground = CheckEnv {
        run_id: RunId::new(&run).map_err(JobError::permanent)?,
        dir: &site.dir,
        env: &env,
        output: &output,
        output_bytes_max: shop.project.policy.limits.output_bytes_max,
        stdout_bytes_max,
        allotment: Some(held.allotment(vec![
            site.root.clone(),
            site.dir.clone(),
            site.home.clone(),
        ])),
        confinement: room::of_check(
            shop,
            &site.dir,
            &[site.home.clone(), site.tmp.clone()],
            &site.shut,
            site.root.join(format!("sandbox-{attempt}/proof.json")),
        ),
    };
    let observer = held.observer("check", &check.name);
    observer.began();
    let ran = crate::check::run(&shop.host, check, ground, held.stop.clone())
        .await
        .map_err(JobError::transient);
    let how = match &ran {
        Ok(ran) => &ran.detail,
        Err(trouble) => &trouble.message,
    };
    observer.ended(how, crate::agent::AgentUsage::default());
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

/// A check's name as part of a file name.
fn file_name(name: &str) -> String {
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
