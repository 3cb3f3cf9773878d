//! Makes fresh checkouts usable: prepares the caches of the project once, as read-only layers, and
//! shows them in every checkout.
//!
//! A cache is filled only by the setup on the base commit, or it is a copy of the user's own. Files
//! that a builder's code leaves never reach another run: a planted package could decide whether
//! checks are green.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::check::{CommandRun, run_check};
use super::checkout_site::{CheckoutSite, SITE_DIR};
use super::{JobContext, JobError, agent_run};
use crate::agent::{AgentRole, AgentUsage};
use crate::caches::{CacheDir, ProjectSetup, copy_tree, share_unchanged_files};
use crate::git::{Oid, Worktree};
use crate::layers::{LayerLease, LayerStore, TreeSummary, summarise_tree};

/// Maximum number of layers of one kind that stay without a user: results of the setup, or copies
/// of one of the user's directories.
const LAYERS_KEPT: usize = 3;
/// Maximum number of copies of a directory that changes while it is copied.
const COPIES_MAX: u32 = 3;
/// Preparing that takes longer is shown.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
const MAKING_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Role in the progress of a job that prepares something.
pub const PREPARING: &str = "preparing";
/// Record of how a layer was made.
const RECORD_FILE: &str = "layer.json";

/// One cache in its layer.
#[derive(Clone, Debug)]
struct PreparedCache {
    cache: CacheDir,
    /// Directory in which the cache has its own path.
    below: PathBuf,
    lease: Arc<LayerLease>,
}

/// Record in a layer that the setup made.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LayerRecord {
    /// Whether the setup was green on the base. A red one leaves no caches.
    green: bool,
    /// End of its output.
    tail: String,
}

/// Shows the caches in a site, or copies them where the sandbox has no overlays. Returns whether
/// there was anything to show.
pub async fn add_caches(
    context: &JobContext<'_>,
    base: &Oid,
    site: &mut CheckoutSite,
) -> Result<bool, JobError> {
    let caches = &context.project.config.setup.caches;
    if caches.is_empty() {
        return Ok(false);
    }
    let prepared = prepare_caches(context, base, caches).await?;
    show(context, prepared, site).await
}

async fn show(
    context: &JobContext<'_>,
    prepared: Vec<PreparedCache>,
    site: &mut CheckoutSite,
) -> Result<bool, JobError> {
    if context.project.supports_layers().await {
        let mut shown = false;
        for one in &prepared {
            shown |= site.add_cache(&one.cache, &one.below, &one.lease)?;
        }
        return Ok(shown);
    }
    let (checkout, home) = (site.dir.clone(), site.home.clone());
    let names = names_of(prepared.iter().map(|one| &one.cache));
    let copying = in_background(move || copy_all(&prepared, &checkout, &home));
    with_progress(context, names, copying).await
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
/// Only ignored paths are shown there, or they would become part of the change.
pub async fn set_up_worktree(
    context: &JobContext<'_>,
    worktree: &Worktree,
) -> Result<Option<CheckoutSite>, JobError> {
    let project = &context.project.config;
    let setup = &project.setup;
    if setup.is_empty() {
        return Ok(None);
    }
    let base = context.project.git.base_tip(&project.base_branch).await?;
    let home = agent_run::home_dir(context, context.agent()?, AgentRole::Build);
    let mut site = CheckoutSite::for_worktree(context, &worktree.path, home);
    let mut ignored = Vec::new();
    for cache in &setup.caches {
        if let CacheDir::Checkout(path) = cache
            && !context.project.git.is_ignored(worktree, path).await?
        {
            continue;
        }
        ignored.push(cache.clone());
    }
    let files = context.project.ticket_files(&context.ticket.id);
    let mut changed = false;
    if !ignored.is_empty() {
        let pinned = files.caches_dir().join("layers.json");
        let prepared = if let Some(prepared) = lease_pinned(context, &pinned, &ignored)? {
            prepared
        } else {
            changed = true;
            crate::git::remove_tree(&files.caches_dir())?;
            let prepared = prepare_caches(context, &base, &ignored).await?;
            pin(&pinned, &prepared)?;
            prepared
        };
        let shown = show(context, prepared, &mut site).await?;
        // A copy is made only where the directory was missing.
        changed = shown && (changed || !context.project.supports_layers().await);
    }
    let marker = files.setup_marker();
    if changed || !marker.exists() {
        // The result does not matter here: the builder sees it, and the check reports it for the
        // commit.
        run_setup(context, &site).await?;
        crate::private_files::write(&marker, "")?;
    }
    Ok(Some(site))
}

/// Layers that a builder's worktree began with, by cache. Its changes fit only these: it keeps them
/// in later rounds, though the base may have moved.
type PinnedLayers = Vec<(String, PathBuf)>;

fn pin(file: &Path, prepared: &[PreparedCache]) -> Result<(), JobError> {
    let pinned: PinnedLayers = prepared
        .iter()
        .map(|one| (one.cache.name(), one.below.clone()))
        .collect();
    let text = serde_json::to_vec(&pinned).map_err(JobError::permanent)?;
    if let Some(dir) = file.parent() {
        crate::private_files::make_dir(dir)?;
    }
    Ok(crate::private_files::write(file, text)?)
}

/// Returns the layers of earlier rounds, if there are any and all of them still exist.
fn lease_pinned(
    context: &JobContext<'_>,
    file: &Path,
    caches: &[CacheDir],
) -> Result<Option<Vec<PreparedCache>>, JobError> {
    let Ok(text) = fs::read(file) else {
        return Ok(None);
    };
    let pinned: PinnedLayers = serde_json::from_slice(&text).unwrap_or_default();
    let store = context.project.cache_layers();
    let mut prepared = Vec::new();
    for (name, below) in pinned {
        let Some(cache) = caches.iter().find(|cache| cache.name() == name) else {
            return Ok(None);
        };
        let layer = below.parent().and_then(Path::file_name);
        let layer = layer.and_then(|name| name.to_str()).unwrap_or_default();
        match store.lease(layer)? {
            Some(lease) if below.starts_with(&lease.dir) => prepared.push(PreparedCache {
                cache: cache.clone(),
                below,
                lease: Arc::new(lease),
            }),
            _ => return Ok(None),
        }
    }
    Ok(Some(prepared).filter(|prepared| !prepared.is_empty()))
}

/// Runs the setup on the base again if its layer says that it was red there. Returns the end of its
/// output if it is red now. A person may have installed what was missing, so an old failure proves
/// nothing.
pub async fn prove_setup(context: &JobContext<'_>, base: &Oid) -> Result<Option<String>, JobError> {
    let setup = &context.project.config.setup;
    // Without caches there is no layer; the setup runs with the checks.
    if setup.command.is_none() || setup.caches.is_empty() {
        return Ok(None);
    }
    let store = context.project.cache_layers();
    let name = layer_name(setup, &context.project.git.tree_of(base).await?);
    if let Some(lease) = store.lease(&name)? {
        let green = read_record(&lease.dir).is_some_and(|record| record.green);
        drop(lease);
        if green {
            return Ok(None);
        }
        store.remove_unused(&name)?;
    }
    let lease = Box::pin(prepare_layer(context, base)).await?;
    let red = read_record(&lease.dir).filter(|record| !record.green);
    Ok(red.map(|record| record.tail))
}

fn read_record(layer: &Path) -> Option<LayerRecord> {
    serde_json::from_slice(&fs::read(layer.join(RECORD_FILE)).ok()?).ok()
}

/// Returns the caches as layers, and makes the layers that are missing. With a setup command they
/// are its result on the base; without one they are copies of the user's own directories.
async fn prepare_caches(
    context: &JobContext<'_>,
    base: &Oid,
    caches: &[CacheDir],
) -> Result<Vec<PreparedCache>, JobError> {
    if context.project.config.setup.command.is_none() {
        let mut prepared = Vec::new();
        for cache in caches {
            prepared.extend(lease_own_cache(context, cache).await?);
        }
        return Ok(prepared);
    }
    let lease = Arc::new(Box::pin(prepare_layer(context, base)).await?);
    let mut prepared = numbered_caches(&context.project.config.setup.caches, &lease);
    prepared
        .retain(|one| caches.contains(&one.cache) && one.below.join(one.cache.below()).is_dir());
    Ok(prepared)
}

/// Returns the directory of a cache in a layer. Each cache has its own, so that each can be shown
/// or left out.
fn cache_root(layer: &Path, number: usize) -> PathBuf {
    layer.join(format!("cache-{number}"))
}

/// Returns the result of the project's setup on a base commit. It runs the setup if no layer for
/// this base and this configuration exists. This is the only place that prepares a base.
pub async fn prepare_layer(context: &JobContext<'_>, base: &Oid) -> Result<LayerLease, JobError> {
    let project = context.project;
    let tree = project.git.tree_of(base).await?;
    let store = project.cache_layers();
    let name = layer_name(&project.config.setup, &tree);
    if let Some(lease) = store.lease(&name)? {
        return Ok(lease);
    }
    let _making = lock_making(context, &store, &name).await?;
    if let Some(lease) = store.lease(&name)? {
        return Ok(lease);
    }
    let making = Box::pin(make_layer(context, base, &store, &name));
    with_progress(context, "the base: [setup] run".to_owned(), making).await?;
    let lease = store.lease(&name)?;
    store.trim(SETUP_GROUP, LAYERS_KEPT);
    lease.ok_or_else(|| JobError::transient("the layer vanished while it was made"))
}

/// Prefix of the names of layers that the setup made.
const SETUP_GROUP: &str = "setup-";

/// Returns the name of a layer. It depends on the command, the list of caches and the base.
fn layer_name(setup: &ProjectSetup, tree: &Oid) -> String {
    let text = format!("{:?} {:?} {tree}", setup.command, setup.caches);
    let hash = crate::hash::short_sha256(text.as_bytes());
    format!("{SETUP_GROUP}{hash}")
}

/// Runs the setup on the base and keeps the caches that it leaves. It starts from copies of the
/// newest existing caches, so that only new files have to be fetched. A red setup leaves a layer
/// without caches: it is not tried again on this base, and the checks will report that it is red.
async fn make_layer(
    context: &JobContext<'_>,
    base: &Oid,
    store: &LayerStore,
    name: &str,
) -> Result<(), JobError> {
    let caches = context.project.config.setup.caches.clone();
    let part = store.begin(name)?;
    // The result becomes a layer, so it is written to real directories and not to an overlay.
    let site = CheckoutSite::for_layer(context, base, &part).await?;
    let earlier = earlier_layer(store);
    if let Some(lease) = &earlier {
        let prepared = numbered_caches(&caches, lease);
        let (checkout, home) = (site.dir.clone(), site.home.clone());
        in_background(move || copy_all(&prepared, &checkout, &home)).await?;
    }
    let ran = run_setup(context, &site).await?;
    let green = ran.as_ref().is_some_and(|ran| ran.green);
    for (number, cache) in caches.iter().enumerate().filter(|_| green) {
        let place = cache.path_in(&site.dir, &site.home);
        refuse_link(cache, &place)?;
        let root = cache_root(&part, number);
        let target = CacheDir::Checkout(cache.below().to_owned()).path_in(&root, &root);
        if let (Some(from), Some(to)) = (place.existing_dir(), target.prepare_target()?) {
            fs::rename(from, to)?;
        }
    }
    let record = LayerRecord {
        green,
        tail: ran.map(|ran| ran.result.tail).unwrap_or_default(),
    };
    let text = serde_json::to_vec(&record).map_err(JobError::permanent)?;
    crate::private_files::write(&part.join(RECORD_FILE), text)?;
    let (store, part, name) = (store.clone(), part.clone(), name.to_owned());
    in_background(move || {
        crate::git::remove_tree(&part.join(SITE_DIR))?;
        if let Some(lease) = &earlier {
            // A new base seldom changes the packages. Sharing costs a comparison and saves a copy
            // of all caches for each base.
            for number in 0..caches.len() {
                let root = cache_root(&part, number);
                if root.is_dir() {
                    share_unchanged_files(&root, &cache_root(&lease.dir, number))?;
                }
            }
        }
        store.sync()?;
        Ok(store.publish(&part, &name)?)
    })
    .await
}

/// Returns the last used result of the setup, for use as the start of another.
fn earlier_layer(store: &LayerStore) -> Option<Arc<LayerLease>> {
    let layers = store.list().into_iter();
    let mut layers = layers.filter(|layer| layer.name.starts_with(SETUP_GROUP));
    let lease = layers.find_map(|layer| store.lease(&layer.name).ok().flatten());
    lease.map(Arc::new)
}

/// Returns all caches of a layer that the setup made.
fn numbered_caches(caches: &[CacheDir], lease: &Arc<LayerLease>) -> Vec<PreparedCache> {
    let numbered = caches.iter().enumerate();
    let prepared = numbered.map(|(number, cache)| PreparedCache {
        cache: cache.clone(),
        below: cache_root(&lease.dir, number),
        lease: Arc::clone(lease),
    });
    prepared.collect()
}

/// Returns a copy of one of the user's own directories as a layer. There is one copy per state of
/// the directory: the user may change it at any moment, and a run must not see that. Returns
/// nothing if the directory does not exist.
async fn lease_own_cache(
    context: &JobContext<'_>,
    cache: &CacheDir,
) -> Result<Option<PreparedCache>, JobError> {
    let Some(tree) = context.project.git.work_tree() else {
        return Ok(None);
    };
    let place = cache.path_in(tree, Path::new("/nonexistent"));
    refuse_link(cache, &place)?;
    let Some(from) = place.existing_dir() else {
        return Ok(None);
    };
    let store = context.project.cache_layers();
    let hash = crate::hash::short_sha256(cache.name().as_bytes());
    let group = format!("own-{hash}-");
    let mut name = String::new();
    for _ in 0..COPIES_MAX {
        let before = summarise(&from).await?;
        name = format!("{group}{}", before.digest);
        if let Some(lease) = store.lease(&name)? {
            return Ok(Some(prepared_copy(cache, lease)));
        }
        let _making = lock_making(context, &store, &name).await?;
        if let Some(lease) = store.lease(&name)? {
            return Ok(Some(prepared_copy(cache, lease)));
        }
        let part = store.begin(&name)?;
        let root = cache_root(&part, 0);
        let target = CacheDir::Checkout(cache.below().to_owned()).path_in(&root, &root);
        let Some(to) = target.prepare_target()? else {
            return Ok(None);
        };
        let source = from.clone();
        let synced = store.clone();
        let copying = in_background(move || {
            copy_tree(&source, &to).map_err(|error| copy_error(&source, &error))?;
            Ok(synced.sync()?)
        });
        let size = format_bytes(before.bytes);
        let what = format!("{} ({size})", cache.name());
        with_progress(context, what, copying).await?;
        // A copy of something that was changing meanwhile would be a state that never existed.
        if summarise(&from).await? == before {
            store.publish(&part, &name)?;
            let lease = store.lease(&name)?;
            store.trim(&group, LAYERS_KEPT);
            return Ok(lease.map(|lease| prepared_copy(cache, lease)));
        }
        crate::git::remove_tree(&part)?;
    }
    Err(JobError::transient(format!(
        "{} is changing all the time, so it could not be copied ({name}); stop the program that writes there, or set `run` in [setup] so that Countersign makes its own",
        from.display()
    )))
}

fn prepared_copy(cache: &CacheDir, lease: LayerLease) -> PreparedCache {
    PreparedCache {
        cache: cache.clone(),
        below: cache_root(&lease.dir, 0),
        lease: Arc::new(lease),
    }
}

/// Refuses a cache behind a symbolic link. The link may lead anywhere, and its target is not ours to
/// copy or to mount.
fn refuse_link(cache: &CacheDir, place: &crate::caches::CachePath) -> Result<(), JobError> {
    match place.link_on_the_way() {
        None => Ok(()),
        Some((link, target)) => Err(JobError::permanent(format!(
            "the cache {} cannot be used: {} is a symbolic link to {}; make it a real directory, or remove it from `caches` in [setup]",
            cache.name(),
            link.display(),
            target.display()
        ))),
    }
}

/// Waits until nobody else makes this layer, and locks its making.
pub async fn lock_making(
    context: &JobContext<'_>,
    store: &LayerStore,
    name: &str,
) -> Result<File, JobError> {
    let mut stop = context.stop.clone();
    // The other maker is bounded by the time limit of the setup, or dies and releases the lock.
    loop {
        if let Some(lock) = store.try_lock_making(name)? {
            return Ok(lock);
        }
        tokio::select! {
            () = tokio::time::sleep(MAKING_POLL_INTERVAL) => {}
            () = stop.requested() => return Err(super::interrupted()),
        }
    }
}

/// Shows that something is being prepared if it takes longer than a second.
async fn with_progress<T>(
    context: &JobContext<'_>,
    what: String,
    work: impl Future<Output = Result<T, JobError>>,
) -> Result<T, JobError> {
    tokio::pin!(work);
    if let Ok(done) = tokio::time::timeout(SHOWN_AFTER, &mut work).await {
        return done;
    }
    let observer = context.observer(PREPARING, &what);
    observer.report_start();
    let done = work.await;
    observer.report_end("done", AgentUsage::default());
    done
}

async fn summarise(dir: &Path) -> Result<TreeSummary, JobError> {
    let dir = dir.to_owned();
    in_background(move || summarise_tree(&dir).map_err(|error| copy_error(&dir, &error))).await
}

fn copy_error(from: &Path, error: &std::io::Error) -> JobError {
    JobError::transient(format!("{} cannot be copied: {error}", from.display()))
}

fn names_of<'a>(caches: impl Iterator<Item = &'a CacheDir>) -> String {
    let names: Vec<String> = caches.map(CacheDir::name).collect();
    names.join(", ")
}

/// Formats a size for people.
fn format_bytes(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes / 1_000),
        1_000_000..10_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}

fn copy_all(prepared: &[PreparedCache], checkout: &Path, home: &Path) -> Result<bool, JobError> {
    let mut copied = false;
    for one in prepared {
        let from = one.below.join(one.cache.below());
        if !from.is_dir() {
            continue;
        }
        let Some(to) = one.cache.path_in(checkout, home).prepare_target()? else {
            continue;
        };
        copy_tree(&from, &to).map_err(|error| copy_error(&from, &error))?;
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
