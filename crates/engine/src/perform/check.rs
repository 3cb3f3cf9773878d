//! Checking: the project's commands, from the base, on a clean checkout of the exact commit.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use flow::ticket::{CheckOutcome, CheckResult};
use flow::{Usage, What};
use store::Artefact;

use super::agents::artefact;
use super::{Brought, Held, Trouble, millis, room, supply};
use crate::check::{Check, Ground, Outcome};
use crate::git::{Context, Oid, Purpose, scan_added_lines};
use crate::process::RunId;

pub async fn check(held: &Held<'_>, commit: &str) -> Result<Brought, Trouble> {
    let head =
        Oid::parse(commit).ok_or_else(|| Trouble::permanent(format!("{commit} is no commit")))?;
    let base = base_of(held)?;
    let (mut results, artefacts) = run_checks(held, &head, &base).await?;
    results.extend(secrets(held, &base, &head).await?);
    let wall_ms = results.iter().map(|result| result.wall_ms).sum();
    let usage = Usage {
        wall_ms,
        ..Usage::default()
    };
    let what = What::Checked {
        lease: held.lease,
        commit: commit.to_owned(),
        results,
        usage,
    };
    Ok(Brought { what, artefacts })
}

/// The merge base that the submission was described with.
pub fn base_of(held: &Held<'_>) -> Result<Oid, Trouble> {
    let base = held
        .ticket
        .submission
        .as_ref()
        .and_then(|put| Oid::parse(&put.base));
    base.ok_or_else(|| Trouble::permanent("the ticket has no submission"))
}

/// Runs all checks on `head`. What is red is tried once more; what is red again is tried on the base.
pub async fn run_checks(
    held: &Held<'_>,
    head: &Oid,
    base: &Oid,
) -> Result<(Vec<CheckResult>, Vec<Artefact>), Trouble> {
    let (mut results, mut artefacts) = (Vec::new(), Vec::new());
    let project = &held.shop.project;
    if project.checks.is_empty() {
        return Ok((results, artefacts));
    }
    let site = Site::at(held, head, base, "head").await?;
    supply::put_in(held, base, &site).await?;
    // Nothing can be said about the rest where the setup is red.
    for check in project.setup.command.iter().chain(&project.checks) {
        let is_setup = project.setup.command.as_ref() == Some(check);
        let first = run_one(held, check, &site, "1").await?;
        artefacts.push(artefact(held, "check", &check.name, &first.output));
        let mut result = first;
        if !result.green {
            let again = run_one(held, check, &site, "2").await?;
            artefacts.push(artefact(held, "check", &check.name, &again.output));
            let on_base = again.green || !red_on_base(held, check, base).await?;
            let outcome = match (again.green, on_base) {
                (true, _) => CheckOutcome::Flaky,
                (false, true) => again.result.outcome,
                (false, false) => CheckOutcome::RedOnBase,
            };
            result = again;
            result.result.outcome = outcome;
        }
        let goes_on = result.green || !is_setup;
        if !is_setup || !goes_on {
            results.push(result.result);
        }
        if !goes_on {
            break;
        }
    }
    Ok((results, artefacts))
}

async fn red_on_base(held: &Held<'_>, check: &Check, base: &Oid) -> Result<bool, Trouble> {
    let site = Site::at(held, base, base, "base").await?;
    supply::put_in(held, base, &site).await?;
    if held.shop.project.setup.command.as_ref() != Some(check) {
        supply::set_up(held, &site).await?;
    }
    Ok(!run_one(held, check, &site, "base").await?.green)
}

/// A checkout with a home and a temporary directory of its own, and nothing of the person's.
#[derive(Clone, Debug)]
pub struct Site {
    pub root: PathBuf,
    pub dir: PathBuf,
    pub home: PathBuf,
    tmp: PathBuf,
    /// What may not be written although it is in `dir`.
    shut: Vec<PathBuf>,
}

impl Site {
    /// A fresh checkout of the commit; what was there before is replaced.
    pub async fn at(held: &Held<'_>, head: &Oid, base: &Oid, name: &str) -> Result<Self, Trouble> {
        let shop = held.shop;
        let root = held.dir().join(name);
        std::fs::create_dir_all(&root)?;
        let dir = root.join("checkout");
        let mirror = shop.mirror();
        shop.git
            .checkout(head, base, Purpose::Check, &mirror, &dir)
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
    pub async fn copy(held: &Held<'_>, head: &Oid, base: &Oid) -> Result<Self, Trouble> {
        let own = held.dir();
        let copy = Self::at(held, head, base, "scratch/copy").await?;
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

    fn environment(&self, held: &Held<'_>) -> Result<Vec<(OsString, OsString)>, Trouble> {
        std::fs::create_dir_all(&self.home)?;
        std::fs::create_dir_all(&self.tmp)?;
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
pub struct Ran {
    result: CheckResult,
    pub green: bool,
    output: PathBuf,
}

pub async fn run_one(
    held: &Held<'_>,
    check: &Check,
    site: &Site,
    attempt: &str,
) -> Result<Ran, Trouble> {
    let shop = held.shop;
    let run = format!(
        "{}.{}.{}.{attempt}",
        held.ticket.id, held.lease.serial, held.lease.fence
    );
    let output = site
        .root
        .join(format!("{}-{attempt}.log", file_name(&check.name)));
    let env = site.environment(held)?;
    let ground = Ground {
        run_id: RunId::new(&run).map_err(Trouble::permanent)?,
        dir: &site.dir,
        env: &env,
        output: &output,
        confinement: room::of_check(
            shop,
            &site.dir,
            &[site.home.clone(), site.tmp.clone()],
            &site.shut,
            site.root.join(format!("sandbox-{attempt}/proof.json")),
        ),
    };
    let ran = crate::check::run(&shop.host, check, ground, held.stop.clone())
        .await
        .map_err(Trouble::transient)?;
    let outcome = match ran.outcome {
        Outcome::Passed => CheckOutcome::Passed,
        Outcome::Failed | Outcome::CouldNotStart => CheckOutcome::Failed,
        Outcome::TimedOut => CheckOutcome::TimedOut,
        Outcome::Cancelled => return Err(super::interrupted()),
    };
    Ok(Ran {
        green: outcome.is_green(),
        result: CheckResult {
            name: check.name.clone(),
            outcome,
            tail: findings::clean(&format!("{}\n({})", ran.tail.trim_end(), ran.detail)),
            wall_ms: millis(ran.duration),
        },
        output: ran.output,
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

/// Secrets in what the change adds are a red check of the house's own.
async fn secrets(held: &Held<'_>, base: &Oid, head: &Oid) -> Result<Option<CheckResult>, Trouble> {
    let diff = held.shop.git.diff(base, head, Context::None).await?;
    let found = scan_added_lines(&diff.text);
    if found.is_empty() {
        return Ok(None);
    }
    let places: Vec<String> = found
        .iter()
        .map(|secret| {
            format!(
                "{}:{}: looks like a {}",
                secret.path, secret.line, secret.kind
            )
        })
        .collect();
    Ok(Some(CheckResult {
        name: "secrets".to_owned(),
        outcome: CheckOutcome::Failed,
        tail: format!(
            "Take these out of the change, and out of its commits:\n{}",
            places.join("\n")
        ),
        wall_ms: 0,
    }))
}
