//! Finds what may be removed from the data directory, and removes it. `flow::retention` decides about
//! tickets, and a layer that a run uses is never touched. Branches and refs stay.
//!
//! Planning and removing are two steps, so that a person sees the list first. Between them a ticket
//! may have been reopened, so each item is checked again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::cleanup;
use engine::clock::age_since;
use engine::git::{Repository, remove_tree};
use engine::layers::LayerStore;
use engine::log::LogErr;
use engine::process::live_runs;
use engine::project::TicketFiles;
use flow::retention::{RetentionAges, removable_files};
use flow::{Ticket, TicketId};
use serde::Serialize;

use super::project::git_tool;
use super::{App, config};
use crate::failure::Failure;
use crate::settings::file::RetentionSection;

/// Maximum number of tickets that one pass looks at, and that it cleans in the background.
const TICKETS_MAX: usize = 100_000;
// A pass in the background must not keep a disk busy for minutes.
const BACKGROUND_ITEMS_MAX: usize = 200;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Selection of the person.
#[derive(Clone, Debug, Default)]
pub struct CleanOptions {
    /// Only what is at least this old. It replaces the ages of the configuration.
    pub older_than: Option<Duration>,
    /// Only files of this ticket, transcripts included.
    pub ticket: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CleanKind {
    /// Worktree, checkouts, scratch directories and homes of an ended ticket or review.
    WorkingFiles,
    /// Transcripts, briefs and output of checks of an ended ticket or review.
    Transcripts,
    /// Prepared caches.
    Layers,
    /// Repositories of `countersign demo`.
    Demo,
}

impl CleanKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WorkingFiles => "working files",
            Self::Transcripts => "transcripts",
            Self::Layers => "layers",
            Self::Demo => "demos",
        }
    }
}

/// Something that may go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CleanItem {
    pub kind: CleanKind,
    /// Ticket or review that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
    pub path: PathBuf,
    pub bytes: u64,
}

/// Everything that may go now, and what is in the data directory in all.
#[derive(Clone, Debug, Serialize)]
pub struct CleanPlan {
    pub items: Vec<CleanItem>,
    pub bytes: u64,
}

/// Returns what may be removed. It changes nothing.
pub async fn plan(app: &App, options: &CleanOptions) -> Result<CleanPlan, Failure> {
    let retention = config::load_user_settings(&app.environment)?.retention;
    let mut items = Vec::new();
    if let Some(id) = &options.ticket {
        let ticket = app.ticket(id).await?.ticket;
        // A named ticket is an explicit wish, so no age applies unless the person gives one.
        let age = options.older_than.unwrap_or_default();
        let ages = RetentionAges {
            working_files: age,
            transcripts: age,
        };
        let removable = removable_files(&ticket, app.now(), ages).map_err(|why| {
            let id = &ticket.id;
            Failure::usage(format!("nothing of {id} can be removed: {why}")).hint(format!(
                "finish it, or cancel it: countersign ticket cancel {id} --why \"…\""
            ))
        })?;
        refuse_running(app, &ticket.id)?;
        add_ticket(app, &ticket.id, removable, &mut items);
    } else {
        add_tickets(app, options, &retention, &mut items).await?;
        let unused = options.older_than.unwrap_or(DAY * retention.layers_days);
        add_layers(&app.environment.data_dir, unused, &mut items);
        add_demos(&app.environment.data_dir, options.older_than, &mut items);
    }
    // Another process may have removed it meanwhile.
    items.retain(|item| item.path.symlink_metadata().is_ok());
    items.sort_by(|a, b| (a.kind, &a.ticket, &a.path).cmp(&(b.kind, &b.ticket, &b.path)));
    let bytes = items.iter().map(|item| item.bytes).sum();
    Ok(CleanPlan { items, bytes })
}

/// Returns the size of the data directory.
pub fn data_bytes(app: &App) -> u64 {
    cleanup::disk_usage(&app.environment.data_dir)
}

fn refuse_running(app: &App, id: &TicketId) -> Result<(), Failure> {
    if running_tickets(app).contains(id.as_str()) {
        return Err(
            Failure::usage(format!("a process of {id} is still running")).hint("stop it first"),
        );
    }
    Ok(())
}

/// Returns the tickets and reviews with a live process. A run's id begins with its ticket.
fn running_tickets(app: &App) -> BTreeSet<String> {
    let runs = live_runs(&app.environment.data_dir).into_iter();
    runs.filter_map(|run| Some(run.split('.').next()?.to_owned()))
        .collect()
}

async fn add_tickets(
    app: &App,
    options: &CleanOptions,
    retention: &RetentionSection,
    items: &mut Vec<CleanItem>,
) -> Result<(), Failure> {
    // An age in the command replaces those of the configuration.
    let age = |days: u32| options.older_than.unwrap_or(DAY * days);
    let ages = RetentionAges {
        working_files: age(retention.working_files_days),
        transcripts: age(retention.transcripts_days),
    };
    let running = running_tickets(app);
    let dirs = entries(&app.environment.data_dir.join("tickets"));
    for dir in dirs.into_iter().take(TICKETS_MAX) {
        let name = dir.file_name().and_then(|name| name.to_str());
        let Some(id) = name.and_then(|name| TicketId::new(name).ok()) else {
            continue;
        };
        // A live process works in the directory, whatever the store says.
        if running.contains(id.as_str()) {
            continue;
        }
        let removable = match app.coordinator.store.ticket(&id).await? {
            Some(stored) => removable_files(&stored.ticket, app.now(), ages).unwrap_or_default(),
            // A review without a ticket. Nobody else makes such a name, and a live one has a run.
            None if id.as_str().starts_with("review-") => {
                let age = age_of(&dir);
                flow::retention::RemovableFiles {
                    working_files: age >= options.older_than.unwrap_or(DAY),
                    transcripts: age >= ages.transcripts,
                }
            }
            // The directory belongs to a ticket of another store, or to something unknown. It is
            // left alone.
            None => continue,
        };
        add_ticket(app, &id, removable, items);
    }
    Ok(())
}

fn add_ticket(
    app: &App,
    id: &TicketId,
    removable: flow::retention::RemovableFiles,
    items: &mut Vec<CleanItem>,
) {
    let files = TicketFiles::new(&app.environment.data_dir, id);
    let working = cleanup::working_files(&files);
    let working_bytes: u64 = working.iter().map(|path| cleanup::disk_usage(path)).sum();
    if removable.working_files && !working.is_empty() {
        items.push(CleanItem {
            kind: CleanKind::WorkingFiles,
            ticket: Some(id.to_string()),
            path: files.dir(),
            bytes: working_bytes,
        });
    }
    let jobs = files.jobs_dir();
    // Transcripts stand inside the directories of runs, so they go only together with those.
    if removable.transcripts && removable.working_files && jobs.is_dir() {
        let inside = working.iter().filter(|path| path.starts_with(&jobs));
        // Working files below the jobs are counted with the other item.
        let counted: u64 = inside.map(|path| cleanup::disk_usage(path)).sum();
        items.push(CleanItem {
            kind: CleanKind::Transcripts,
            ticket: Some(id.to_string()),
            bytes: cleanup::disk_usage(&jobs).saturating_sub(counted),
            path: jobs,
        });
    }
}

fn add_layers(data_dir: &Path, unused: Duration, items: &mut Vec<CleanItem>) {
    // An earlier version kept copies of caches there.
    let supplies = data_dir.join("supplies");
    if supplies.is_dir() {
        items.push(item(CleanKind::Layers, supplies));
    }
    for repository in entries(&data_dir.join("layers")) {
        let store = LayerStore::new(repository);
        let old = store.list().into_iter();
        // By last use: a cache of an active project may be months old.
        let old = old.filter(|layer| age_since(layer.used) >= unused);
        items.extend(old.map(|layer| item(CleanKind::Layers, layer.dir)));
    }
}

fn add_demos(data_dir: &Path, older_than: Option<Duration>, items: &mut Vec<CleanItem>) {
    let demos = entries(&data_dir.join("demo")).into_iter();
    let old = demos.filter(|dir| age_of(dir) >= older_than.unwrap_or_default());
    // The demo has its own data directory, with the records of its own processes.
    let idle = old.filter(|dir| live_runs(&dir.join("data")).is_empty());
    items.extend(idle.map(|dir| item(CleanKind::Demo, dir)));
}

fn item(kind: CleanKind, path: PathBuf) -> CleanItem {
    CleanItem {
        kind,
        ticket: None,
        bytes: cleanup::disk_usage(&path),
        path,
    }
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut paths: Vec<PathBuf> = dirs.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn age_of(path: &Path) -> Duration {
    let modified = fs::metadata(path).and_then(|meta| meta.modified());
    modified.map(age_since).unwrap_or_default()
}

/// Result of cleaning.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CleanResult {
    pub removed: Vec<CleanItem>,
    /// Paths that could not be removed, each with the reason.
    pub failed: Vec<String>,
    pub bytes: u64,
}

/// Removes what the plan lists. Each ticket is looked at again: it may have been reopened, and a
/// layer may be in use by now.
pub async fn apply(app: &App, plan: &CleanPlan) -> Result<CleanResult, Failure> {
    let mut result = CleanResult::default();
    for item in &plan.items {
        match remove(app, item).await {
            Ok(true) => {
                result.bytes += item.bytes;
                result.removed.push(item.clone());
            }
            Ok(false) => {}
            Err(failure) => {
                let path = item.path.display();
                result.failed.push(format!("{path}: {}", failure.message));
            }
        }
    }
    Ok(result)
}

/// Removes one item. Returns false if it is in use now.
async fn remove(app: &App, item: &CleanItem) -> Result<bool, Failure> {
    match (item.kind, &item.ticket) {
        (CleanKind::Layers, _) if item.path.ends_with("supplies") => {
            remove_tree(&item.path).map_err(Failure::error)?;
            Ok(true)
        }
        (CleanKind::Layers, _) => {
            // The name is split off again, because the store of layers removes by name and checks
            // its locks.
            let name = item.path.file_name().and_then(|name| name.to_str());
            let (Some(parent), Some(name)) = (item.path.parent(), name) else {
                return Ok(false);
            };
            let store = LayerStore::new(parent.to_owned());
            store.remove_parts();
            store.remove_unused(name).map_err(Failure::error)
        }
        (CleanKind::WorkingFiles | CleanKind::Transcripts, Some(id)) => {
            remove_ticket_files(app, id, item.kind).await
        }
        (CleanKind::WorkingFiles | CleanKind::Transcripts | CleanKind::Demo, _) => {
            remove_tree(&item.path).map_err(Failure::error)?;
            Ok(true)
        }
    }
}

async fn remove_ticket_files(app: &App, id: &str, kind: CleanKind) -> Result<bool, Failure> {
    let id = super::parse_ticket_id(id)?;
    let files = TicketFiles::new(&app.environment.data_dir, &id);
    if running_tickets(app).contains(id.as_str()) {
        return Ok(false);
    }
    let stored = app.coordinator.store.ticket(&id).await?;
    // A ticket that was continued needs its worktree.
    if let Some(stored) = &stored
        && !flow::retention::has_no_more_work(&stored.ticket)
    {
        return Ok(false);
    }
    if kind == CleanKind::Transcripts {
        cleanup::remove_transcripts(&files).map_err(Failure::error)?;
        return Ok(true);
    }
    match stored {
        Some(stored) => {
            // Git keeps records of worktrees, which have to go with the directories.
            let git = open_repository(app, &stored.ticket).await?;
            let removed = cleanup::remove_working_files(git.as_ref(), &files, &stored.ticket);
            removed.await.map_err(Failure::error)?;
        }
        None => {
            for path in cleanup::working_files(&files) {
                remove_tree(&path).map_err(Failure::error)?;
            }
        }
    }
    Ok(true)
}

/// Opens the ticket's repository; `None` if it is gone, and its records of worktrees with it.
async fn open_repository(app: &App, ticket: &Ticket) -> Result<Option<Repository>, Failure> {
    let Some(path) = ticket.spec.context.repository.as_deref().map(Path::new) else {
        return Ok(None);
    };
    if !path.is_dir() {
        return Ok(None);
    }
    let program = git_tool(&app.environment, path)?;
    let opened = Repository::open(program, path).await;
    opened.map(Some).map_err(Failure::error)
}

/// Applies the retention of the configuration once, without holding up the caller. It logs what it
/// removed, and warns if the data directory is larger than the configuration allows.
pub async fn apply_retention(app: App) {
    let pass = async {
        let mut planned = plan(&app, &CleanOptions::default()).await?;
        // Demos are removed by the demo itself or by `clean`: somebody may be looking at one.
        planned.items.retain(|item| item.kind != CleanKind::Demo);
        planned.items.truncate(BACKGROUND_ITEMS_MAX);
        let result = apply(&app, &planned).await?;
        let retention = config::load_user_settings(&app.environment)?.retention;
        Ok::<_, Failure>((result, retention))
    };
    let Some((result, retention)) = pass
        .await
        .map_err(|failure| failure.message)
        .log_err("apply the retention of the configuration")
    else {
        return;
    };
    for item in &result.removed {
        cleanup::log_removed(item.kind.as_str(), &item.path, item.bytes);
    }
    for failed in &result.failed {
        // Nothing depends on it, and the next pass tries again.
        Err::<(), _>(failed).log_err("remove old files");
    }
    let (data_dir, most) = (app.environment.data_dir.clone(), retention.warn_gb);
    // Measuring walks the whole directory, and must not block the runtime.
    let measured = tokio::task::spawn_blocking(move || {
        cleanup::warn_if_larger(&data_dir, most.saturating_mul(1_000_000_000));
    });
    measured.await.log_err("measure the data directory");
}

/// Applies the retention now and then once a day, for processes that run for long.
pub async fn apply_retention_daily(app: App) {
    loop {
        apply_retention(app.clone()).await;
        tokio::time::sleep(DAY).await;
    }
}
