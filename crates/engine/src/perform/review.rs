//! Reviewing: a fresh mind on a throw-away checkout of the exact commit, watched by a manifest.

use std::path::PathBuf;

use flow::bound::bounded;
use flow::{Ticket, Usage, What};

use super::agents::{self, Run};
use super::check::{Site, run_with_stdout};
use super::{Brought, Held, Trouble, supply};
use crate::agent::{Role, answer};
use crate::check::Check;
use crate::git::{Oid, Purpose};
use crate::linter::{self, LinterRun};
use crate::manifest::{self, Manifest};
use crate::workshop::Member;

/// What keeps the reviewer from writing, or at least from writing unseen, on every rung.
const ALWAYS: &str = "separate checkout, manifest before and after";

pub async fn review(held: &Held<'_>, commit: &str, seat: &str) -> Result<Brought, Trouble> {
    let shop = held.shop;
    if let Some(command) = shop.linter(seat) {
        return lint(held, commit, seat, command).await;
    }
    let brief = flow::brief::review(held.ticket, seat, &shop.project.policy, &shop.project.house);
    let limit = shop.project.policy.limits.review_secs;
    let watched = watch(held, commit, held.member()?, Role::Review, &brief, limit).await?;
    let usage = watched.run.usage;
    let (lease, artefacts) = (held.lease, watched.run.artefacts.clone());
    let what = match usable(&watched, held.ticket) {
        Err(why) => What::ReviewUnusable { lease, why, usage },
        Ok(text) => What::Reviewed {
            lease,
            commit: commit.to_owned(),
            review: Box::new(bounded(
                relocated(held, findings::read(text)),
                &shop.project.policy,
            )),
            isolation: isolation(watched.run.isolation),
            usage,
        },
    };
    Ok(Brought { what, artefacts })
}

/// The reviewer's words, if they are its own, on this ticket, and it kept its hands off the work.
fn usable<'a>(watched: &'a Watched, ticket: &Ticket) -> Result<&'a str, String> {
    if let Some(why) = &watched.tampered {
        return Err(why.clone());
    }
    let said = watched.run.result.as_deref();
    let text = said.ok_or_else(|| "the reviewer said nothing".to_owned())?;
    let is_ours = |name: &str| {
        name.eq_ignore_ascii_case(ticket.id.as_str()) || name.trim() == ticket.spec.title.trim()
    };
    match answer::ticket_named(text).filter(|name| !is_ours(name)) {
        None => Ok(text),
        Some(other) => {
            let other = findings::shorten(&findings::one_line(&other), 80);
            Err(format!(
                "the answer names another ticket, {other:?}, and not {}",
                ticket.id
            ))
        }
    }
}

/// A review whose paths in the judge's checkout or its copy are those of the repository.
fn relocated(held: &Held<'_>, mut review: findings::Review) -> findings::Review {
    let own = held.dir();
    let checkouts = [own.join("checkout"), own.join("scratch/copy/checkout")];
    let roots = roots(held, &checkouts);
    let roots: Vec<&str> = roots.iter().map(String::as_str).collect();
    findings::relocate(&roots, &mut review);
    review
}

/// The places at which the repository stands for whoever judges it: these directories and the
/// builder's worktree, as we name them and as they are called behind symbolic links.
fn roots(held: &Held<'_>, dirs: &[PathBuf]) -> Vec<String> {
    let worktree = held.shop.files(&held.ticket.id).worktree();
    let mut roots = Vec::new();
    for dir in dirs.iter().chain([&worktree]) {
        let real = dir.canonicalize().ok();
        roots.extend(real.map(|real| real.to_string_lossy().into_owned()));
        roots.push(dir.to_string_lossy().into_owned());
    }
    roots
}

/// A linter as a reviewer: what it prints is the review, if it ran to its end.
async fn lint(
    held: &Held<'_>,
    commit: &str,
    seat: &str,
    command: &str,
) -> Result<Brought, Trouble> {
    let head =
        Oid::parse(commit).ok_or_else(|| Trouble::permanent(format!("{commit} is no commit")))?;
    let base = super::check::base_of(held)?;
    let site = Site::at(held, &head, &base, "lint").await?;
    supply::put_in(held, &base, &site).await?;
    supply::set_up(held, &site).await?;
    let check = Check {
        name: seat.to_owned(),
        command: command.to_owned(),
        time_limit: super::secs(held.shop.project.policy.limits.review_secs),
        parallel: false,
        coverage_min: None,
    };
    // Behind a symbolic link a linter may print either name of the checkout.
    let roots = roots(held, std::slice::from_ref(&site.dir));
    let ran = run_with_stdout(held, &check, &site, "1", LINT_BYTES_MAX).await?;
    let usage = Usage {
        wall_ms: ran.result.wall_ms,
        ..Usage::default()
    };
    let (lease, artefacts) = (
        held.lease,
        vec![agents::artefact(held, "lint", seat, &ran.output)],
    );
    let output = std::fs::read(&ran.output).unwrap_or_default();
    let roots: Vec<&str> = roots.iter().map(String::as_str).collect();
    let read = linter::findings_of(&LinterRun {
        name: seat,
        command,
        exit: ran.exit,
        stdout: &ran.stdout,
        output: &String::from_utf8_lossy(&output),
        cut: ran.cut || output.len() >= LINT_BYTES_MAX,
        tail: &ran.result.tail,
        roots: &roots,
    });
    let what = match read {
        Ok(review) => What::Reviewed {
            lease,
            commit: commit.to_owned(),
            review: Box::new(bounded(review, &held.shop.project.policy)),
            isolation: "a linter, in the room of a check".to_owned(),
            usage,
        },
        Err(why) => What::ReviewUnusable { lease, why, usage },
    };
    Ok(Brought { what, artefacts })
}

/// More output than this is read by nobody.
const LINT_BYTES_MAX: usize = 64 << 20;

fn isolation(enforced: Option<String>) -> String {
    match enforced {
        Some(how) => format!("{how}; {ALWAYS}"),
        None => ALWAYS.to_owned(),
    }
}

/// A run in a checkout, and whether the checkout is what it was.
#[derive(Debug)]
pub struct Watched {
    pub run: Run,
    pub tampered: Option<String>,
}

/// Runs a judge on the commit. What it changed is found by comparing everything before and after.
pub async fn watch(
    held: &Held<'_>,
    commit: &str,
    member: &Member,
    role: Role,
    brief: &str,
    limit_secs: u64,
) -> Result<Watched, Trouble> {
    if let Some(run) = agents::finished(held) {
        let tampered = run.tampered.clone();
        return Ok(Watched { run, tampered });
    }
    let dir = checkout(held, commit).await?;
    lay_out_copy(held, commit).await?;
    let before = take(dir.clone()).await?;
    let mut run = agents::run(held, member, role, brief, &dir, limit_secs).await?;
    let after = take(dir).await?;
    let changes = manifest::diff(&before, &after);
    if !changes.is_empty() {
        let shown: Vec<String> = changes.iter().take(5).map(ToString::to_string).collect();
        run.tampered = Some(format!("the checkout was changed: {}", shown.join(", ")));
    }
    agents::record(held, &run)?;
    let tampered = run.tampered.clone();
    Ok(Watched { run, tampered })
}

async fn checkout(held: &Held<'_>, commit: &str) -> Result<PathBuf, Trouble> {
    let shop = held.shop;
    let head =
        Oid::parse(commit).ok_or_else(|| Trouble::permanent(format!("{commit} is no commit")))?;
    let base = super::check::base_of(held)?;
    let dir = held.dir().join("checkout");
    std::fs::create_dir_all(dir.parent().unwrap_or(&dir))?;
    Ok(shop
        .git
        .checkout(&head, &base, Purpose::Review, &shop.mirror(), &dir)
        .await?
        .dir)
}

/// Where a judge may build and run tests: a copy that it may change, with the project's caches.
/// Without a setup there is nothing in it that a clone of the checkout would not have.
async fn lay_out_copy(held: &Held<'_>, commit: &str) -> Result<(), Trouble> {
    if held.shop.project.setup.is_empty() {
        return Ok(());
    }
    let head =
        Oid::parse(commit).ok_or_else(|| Trouble::permanent(format!("{commit} is no commit")))?;
    let base = super::check::base_of(held)?;
    let site = Site::copy(held, &head, &base).await?;
    supply::put_in(held, &base, &site).await?;
    Ok(())
}

async fn take(dir: PathBuf) -> Result<Manifest, Trouble> {
    let taken = tokio::task::spawn_blocking(move || manifest::take(&dir)).await;
    taken
        .map_err(Trouble::transient)?
        .map_err(Trouble::transient)
}
