//! Makes fresh checkouts usable: runs the setup command of the project and copies caches in.
//!
//! A cache is filled only by the setup on the base commit, or it is the user's own. Files that a
//! builder's code leaves never reach another run: a planted package could decide whether checks are
//! green.

use std::fs;
use std::path::{Path, PathBuf};

use super::check::{CheckoutSite, CommandRun, run_check};
use super::{JobContext, JobError, agent_run};
use crate::agent::AgentRole;
use crate::caches::{CacheDir, ProjectSetup, copy_tree};
use crate::git::{Oid, Worktree};
use crate::log::removed;

/// Maximum number of prepared sets per repository. The newest are kept.
const SETS_MAX: usize = 3;

/// Copies the caches into a site. Returns whether there was anything to copy.
pub async fn copy_caches_into(
    context: &JobContext<'_>,
    base: &Oid,
    site: &CheckoutSite,
) -> Result<bool, JobError> {
    let setup = &context.project.config.setup;
    if setup.caches.is_empty() {
        return Ok(false);
    }
    let Some(source) = cache_source(context, base).await? else {
        return Ok(false);
    };
    let (caches, site) = (setup.caches.clone(), site.clone());
    in_background(move || copy_all(&caches, &source, &site)).await
}

/// Runs the setup in a site, if the project has one.
pub async fn run_setup(
    context: &JobContext<'_>,
    site: &CheckoutSite,
) -> Result<Option<CommandRun>, JobError> {
    match &context.project.config.setup.command {
        Some(command) => run_check(context, command, site, "1").await.map(Some),
        None => Ok(None),
    }
}

/// Prepares the builder's worktree before the builder starts: once, and again if a cache is gone.
/// Only ignored paths are copied there, or they would become part of the change.
pub async fn set_up_worktree(
    context: &JobContext<'_>,
    worktree: &Worktree,
) -> Result<(), JobError> {
    let project = &context.project.config;
    let setup = &project.setup;
    if setup.is_empty() {
        return Ok(());
    }
    let base = context.project.git.base_tip(&project.base_branch).await?;
    let home = agent_run::home_dir(context, context.agent()?, AgentRole::Build);
    let site = CheckoutSite::for_worktree(&worktree.path, &context.run_dir(), home);
    let mut ignored = Vec::new();
    for cache in &setup.caches {
        if let CacheDir::Checkout(path) = cache
            && !context.project.git.is_ignored(worktree, path).await?
        {
            continue;
        }
        ignored.push(cache.clone());
    }
    let mut changed = false;
    if !ignored.is_empty()
        && let Some(source) = cache_source(context, &base).await?
    {
        let site = site.clone();
        changed = in_background(move || copy_all(&ignored, &source, &site)).await?;
    }
    let marker = context
        .project
        .ticket_files(&context.ticket.id)
        .setup_marker();
    if changed || !marker.exists() {
        // The result does not matter here: the builder sees it, and the check reports it for the
        // commit.
        run_setup(context, &site).await?;
        crate::private_files::write(&marker, "")?;
    }
    Ok(())
}

/// Directories to copy caches from: a prepared set, or the work tree of the user.
#[derive(Clone, Debug)]
struct CacheSource {
    checkout: PathBuf,
    home: PathBuf,
}

/// Returns the directories to copy caches from, and prepares them if needed.
async fn cache_source(
    context: &JobContext<'_>,
    base: &Oid,
) -> Result<Option<CacheSource>, JobError> {
    let project = context.project;
    if project.config.setup.command.is_none() {
        // Without a setup command, the user's own work tree is the only source.
        let own = project.git.work_tree().map(|tree| CacheSource {
            checkout: tree.to_owned(),
            home: PathBuf::from("/nonexistent"),
        });
        return Ok(own);
    }
    let sets = project.caches_dir();
    let set = sets.join(cache_key(
        &project.config.setup,
        &project.git.tree_of(base).await?,
    ));
    if !set.is_dir() {
        prepare_set(context, base, &sets, &set).await?;
    }
    Ok(Some(source_of_set(&set)))
}

fn source_of_set(set: &Path) -> CacheSource {
    CacheSource {
        checkout: set.join("checkout"),
        home: set.join("home"),
    }
}

/// Returns the name of a set. It depends on the command, the list of caches and the base.
fn cache_key(setup: &ProjectSetup, tree: &Oid) -> String {
    let text = format!("{:?} {:?} {tree}", setup.command, setup.caches);
    crate::hash::short_sha256(text.as_bytes())
}

/// Runs the setup on the base and keeps the caches that it leaves. It starts from the newest
/// existing set, so that only new files have to be fetched. A red setup leaves an empty set: it is
/// not tried again on this base, and the checks will report that it is red.
async fn prepare_set(
    context: &JobContext<'_>,
    base: &Oid,
    sets: &Path,
    set: &Path,
) -> Result<(), JobError> {
    let site = CheckoutSite::for_check(context, base, base, "supplies").await?;
    let caches = context.project.config.setup.caches.clone();
    if let Some(earlier) = sets_newest_first(sets).into_iter().next() {
        let (caches, site) = (caches.clone(), site.clone());
        in_background(move || copy_all(&caches, &source_of_set(&earlier), &site)).await?;
    }
    let green = run_setup(context, &site)
        .await?
        .is_some_and(|ran| ran.green);
    let partial = site.root.join("set");
    let new_set = source_of_set(&partial);
    crate::private_files::make_dir(&partial)?;
    for cache in caches.iter().filter(|_| green) {
        let existing = cache.path_in(&site.dir, &site.home).existing_dir();
        if let (Some(from), Some(to)) = (
            existing,
            cache
                .path_in(&new_set.checkout, &new_set.home)
                .prepare_target()?,
        ) {
            fs::rename(from, to)?;
        }
    }
    crate::private_files::make_dir(sets)?;
    match fs::rename(&partial, set) {
        // Another worker has just made the same set.
        Err(_) if set.is_dir() => {}
        renamed => renamed?,
    }
    for old in sets_newest_first(sets).into_iter().skip(SETS_MAX) {
        // A run that copies from this set right now starts over. Remaining files are removed the
        // next time.
        removed(&old, fs::remove_dir_all(&old));
    }
    Ok(())
}

fn sets_newest_first(sets: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(sets)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((entry.metadata().ok()?.modified().ok()?, entry.path()))
        })
        .collect();
    entries.sort();
    entries.into_iter().rev().map(|(_, path)| path).collect()
}

fn copy_all(
    caches: &[CacheDir],
    source: &CacheSource,
    site: &CheckoutSite,
) -> Result<bool, JobError> {
    let mut copied = false;
    for cache in caches {
        let Some(from) = cache.path_in(&source.checkout, &source.home).existing_dir() else {
            continue;
        };
        let Some(to) = cache.path_in(&site.dir, &site.home).prepare_target()? else {
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
