//! Making fresh checkouts usable: the project's setup command, and caches that are copied in.
//!
//! A cache is filled by the setup on the base commit and nowhere else, or it is the person's own.
//! What a builder's code leaves behind never reaches another run: a planted package would decide
//! whether checks are green.

use std::fs;
use std::path::{Path, PathBuf};

use super::check::{CheckoutSite, CommandRun, run_one};
use super::{JobContext, JobError, agents};
use crate::agent::AgentRole;
use crate::git::{Oid, Worktree};
use crate::log::removed;
use crate::supplies::{CacheDir, ProjectSetup, copy_tree};

/// How many prepared sets are kept for a repository, the newest first.
const SETS_MAX: usize = 3;

/// Puts the caches into a site; says whether there was anything to put in.
pub async fn put_in(
    held: &JobContext<'_>,
    base: &Oid,
    site: &CheckoutSite,
) -> Result<bool, JobError> {
    let setup = &held.shop.project.setup;
    if setup.caches.is_empty() {
        return Ok(false);
    }
    let Some(source) = source(held, base).await? else {
        return Ok(false);
    };
    let (caches, site) = (setup.caches.clone(), site.clone());
    in_background(move || copy_all(&caches, &source, &site)).await
}

/// Runs the setup in a site, if the project has one.
pub async fn set_up(
    held: &JobContext<'_>,
    site: &CheckoutSite,
) -> Result<Option<CommandRun>, JobError> {
    match &held.shop.project.setup.command {
        Some(command) => run_one(held, command, site, "1").await.map(Some),
        None => Ok(None),
    }
}

/// The builder's worktree, before the builder: once, and again where a cache has gone. Only what
/// git ignores is put there, or it would become part of the change.
pub async fn furnish_worktree(held: &JobContext<'_>, worktree: &Worktree) -> Result<(), JobError> {
    let project = &held.shop.project;
    let setup = &project.setup;
    if setup.is_empty() {
        return Ok(());
    }
    let base = held.shop.git.base(&project.base_branch).await?;
    let home = agents::home(held, held.member()?, AgentRole::Build);
    let site = CheckoutSite::around(&worktree.path, &held.dir(), home);
    let mut ignored = Vec::new();
    for cache in &setup.caches {
        if let CacheDir::Checkout(path) = cache
            && !held.shop.git.ignores(worktree, path).await?
        {
            continue;
        }
        ignored.push(cache.clone());
    }
    let mut changed = false;
    if !ignored.is_empty()
        && let Some(source) = source(held, &base).await?
    {
        let site = site.clone();
        changed = in_background(move || copy_all(&ignored, &source, &site)).await?;
    }
    let done = held.shop.files(&held.ticket.id).set_up();
    if changed || !done.exists() {
        // Red or green: the builder sees for itself, and the check says so of its commit.
        set_up(held, &site).await?;
        crate::private::write(&done, "")?;
    }
    Ok(())
}

/// A directory with the parts `checkout` and `home`, or the person's own work tree.
#[derive(Clone, Debug)]
struct CacheSource {
    checkout: PathBuf,
    home: PathBuf,
}

async fn source(held: &JobContext<'_>, base: &Oid) -> Result<Option<CacheSource>, JobError> {
    let shop = held.shop;
    if shop.project.setup.command.is_none() {
        // Without a setup the person's own is all there is.
        let own = shop.git.work_tree().map(|tree| CacheSource {
            checkout: tree.to_owned(),
            home: PathBuf::from("/nonexistent"),
        });
        return Ok(own);
    }
    let sets = shop.supplies();
    let set = sets.join(key(&shop.project.setup, &shop.git.tree_of(base).await?));
    if !set.is_dir() {
        prepare(held, base, &sets, &set).await?;
    }
    Ok(Some(of_set(&set)))
}

fn of_set(set: &Path) -> CacheSource {
    CacheSource {
        checkout: set.join("checkout"),
        home: set.join("home"),
    }
}

/// Another command, another list or another base is another set.
fn key(setup: &ProjectSetup, tree: &Oid) -> String {
    let written = format!("{:?} {:?} {tree}", setup.command, setup.caches);
    crate::hash::short(written.as_bytes())
}

/// Runs the setup on the base and keeps the caches that it leaves. Begun from the newest set there
/// is, so that only what is new has to be fetched. A setup that is red leaves an empty set: it is
/// not tried again on this base, and the checks will say that it is red.
async fn prepare(
    held: &JobContext<'_>,
    base: &Oid,
    sets: &Path,
    set: &Path,
) -> Result<(), JobError> {
    let site = CheckoutSite::at(held, base, base, "supplies").await?;
    let caches = held.shop.project.setup.caches.clone();
    if let Some(earlier) = newest_first(sets).into_iter().next() {
        let (caches, site) = (caches.clone(), site.clone());
        in_background(move || copy_all(&caches, &of_set(&earlier), &site)).await?;
    }
    let green = set_up(held, &site).await?.is_some_and(|ran| ran.green);
    let aside = site.root.join("set");
    let made = of_set(&aside);
    crate::private::make_dir(&aside)?;
    for cache in caches.iter().filter(|_| green) {
        let found = cache.place(&site.dir, &site.home).found();
        if let (Some(from), Some(to)) = (found, cache.place(&made.checkout, &made.home).free()?) {
            fs::rename(from, to)?;
        }
    }
    crate::private::make_dir(sets)?;
    match fs::rename(&aside, set) {
        // Somebody else has just made the same.
        Err(_) if set.is_dir() => {}
        renamed => renamed?,
    }
    for old in newest_first(sets).into_iter().skip(SETS_MAX) {
        // Who copies from it at this moment begins again; a rest is found the next time.
        removed(&old, fs::remove_dir_all(&old));
    }
    Ok(())
}

fn newest_first(sets: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(sets)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((entry.metadata().ok()?.modified().ok()?, entry.path()))
        })
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, path)| path).collect()
}

fn copy_all(
    caches: &[CacheDir],
    source: &CacheSource,
    site: &CheckoutSite,
) -> Result<bool, JobError> {
    let mut copied = false;
    for cache in caches {
        let Some(from) = cache.place(&source.checkout, &source.home).found() else {
            continue;
        };
        let Some(to) = cache.place(&site.dir, &site.home).free()? else {
            continue;
        };
        copy_tree(&from, &to).map_err(|error| {
            JobError::transient(format!("{} cannot be copied: {error}", from.display()))
        })?;
        copied = true;
    }
    Ok(copied)
}

async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, JobError> + Send + 'static,
) -> Result<T, JobError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(JobError::transient)?
}
