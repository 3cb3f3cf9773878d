//! Spool: a directory as an interface to the queues. Task files dropped into it are queued, their
//! status is written back, and a file below `pause/` pauses an agent. It decides nothing:
//! everything goes through `operations` in the name of `spool`, whatever the files claim. It
//! follows no links, and moves files that it cannot accept to `rejected/` with the reason.
//!
//! Anybody who can write to the directory can queue tasks, but not choose in whose name: the
//! directory's permissions are the only authentication here.

mod directory;
mod intake;
mod logs;
mod task;
mod task_display;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::log::LogErr;
use engine::process::StopSignal;
use flow::{Actor, Role};
use serde_json::Value;

use app::failure::Failure;
use app::operations::tasks::listing::{self, TaskMark};
use app::operations::{App, overview, pauses};
use directory::SpoolDir;
use intake::SpoolFileState;
use task_display::ShownTask;
use watch::SpoolWatcher;

/// Actor for all changes; the `created_by` of a file is only a label.
const PRINCIPAL: &str = "spool";
/// Interval between scans while tasks are open.
/// Files of running tasks are updated while nothing changes in the directory.
const TICK: Duration = Duration::from_secs(1);
/// Fallback scan interval in case a wake-up is lost.
/// Network file systems and containers may deliver no events.
const SCAN_FALLBACK: Duration = Duration::from_secs(30);
/// Delay after a change, so that a burst of changes is scanned once.
/// Editors and scripts write, rename and touch in quick succession.
const DEBOUNCE: Duration = Duration::from_millis(20);
/// Conventional name of the directory; under this name its logs are in `logs` next to it.
const DIRECTORY_NAME: &str = ".agent-communication";

#[derive(Debug)]
pub struct Spool {
    app: App,
    root: PathBuf,
    parts: SpoolDirs,
    watch: SpoolWatcher,
    /// Known files, by queue and name.
    files: BTreeMap<(String, OsString), SpoolFileState>,
    /// Status last written for each task.
    tasks: BTreeMap<String, ShownTask>,
    /// Tasks of each queue that were looked at, and the time before which none is of interest.
    marks: BTreeMap<String, TaskMark>,
    opened: flow::Time,
    /// Problems already recorded, so that each is recorded once.
    /// A broken file would otherwise be recorded with every scan.
    complaints: BTreeSet<String>,
    heartbeats: BTreeMap<String, flow::Time>,
}

/// Directories of the spool, each by its own handle.
#[derive(Debug)]
struct SpoolDirs {
    queues: SpoolDir,
    completed: SpoolDir,
    locks: SpoolDir,
    pause: SpoolDir,
    heartbeats: SpoolDir,
    rejected: SpoolDir,
    logs: SpoolDir,
    /// Keeps the lock on the spool.
    /// The lock belongs to the open directory. Dropped, another process could take the spool.
    _root: SpoolDir,
}

/// Opens the spool and creates missing directories. Only one process at a time may use it.
pub fn open(app: &App, root: &Path, logs: Option<&Path>) -> Result<Spool, Failure> {
    let fail = |error: std::io::Error| {
        Failure::usage(format!("cannot use the spool {}: {error}", root.display()))
            .hint("choose another directory with --spool DIR; its subdirectories must not be links")
    };
    let directory = SpoolDir::open(root).map_err(fail)?;
    // Two processes would take up the same files twice.
    if !directory.lock().map_err(fail)? {
        return Err(
            Failure::usage(format!("another process uses the spool {}", root.display()))
                .hint("only one server at a time can use a spool"),
        );
    }
    let root = std::path::absolute(root).map_err(fail)?;
    // Programs that use the conventional directory look for its logs next to it.
    let sibling = || (root.ends_with(DIRECTORY_NAME)).then(|| root.with_file_name("logs"));
    let logs = logs.map(Path::to_owned).or_else(sibling);
    let open_part = |name: &str| directory.open_dir(name).map_err(fail);
    let parts = SpoolDirs {
        queues: open_part("queues")?,
        completed: open_part("completed")?,
        locks: open_part("locks")?,
        pause: open_part("pause")?,
        heartbeats: open_part("heartbeats")?,
        rejected: open_part("rejected")?,
        logs: match logs {
            Some(path) => SpoolDir::open(&path).map_err(fail)?,
            None => open_part("logs")?,
        },
        _root: directory,
    };
    Ok(Spool {
        app: app.acting_as(Actor::new(PRINCIPAL, Role::Service)),
        root,
        parts,
        watch: SpoolWatcher::new(),
        files: BTreeMap::new(),
        tasks: BTreeMap::new(),
        marks: BTreeMap::new(),
        opened: app.now(),
        complaints: BTreeSet::new(),
        heartbeats: BTreeMap::new(),
    })
}

/// Scans the spool until the stop signal.
pub async fn run(mut spool: Spool, mut stop: StopSignal) {
    for part in ["queues", "pause"] {
        spool.watch.add(&spool.root.join(part));
    }
    // Tasks may have ended while no server ran. Their locks would show them as running.
    if let Err(failure) = spool.sweep_locks().await {
        spool.note_once("locks", &failure.message).await;
    }
    loop {
        // Read before the scan: an event during the scan then wakes us again.
        let newest = overview::latest_cursor(&spool.app).await;
        let newest = newest.log_err("read the event log").unwrap_or_default();
        if let Err(failure) = spool.scan().await {
            // An unreachable store or disk is tried again at the next scan.
            spool.note_once("look", &failure.message).await;
        }
        tokio::select! {
            () = spool.watch.wait_for_change() => tokio::time::sleep(DEBOUNCE).await,
            () = spool.wait_for_activity(newest) => {}
            () = stop.requested() => return,
        }
    }
}

impl Spool {
    /// Waits until a scan is due although no file has changed.
    async fn wait_for_activity(&self, newest: app::operations::Cursor) {
        tokio::time::sleep(TICK).await;
        let busy = self.tasks.values().any(ShownTask::is_open)
            || self.files.values().any(SpoolFileState::needs_recheck);
        if !busy {
            overview::wait_for_change(&self.app, newest, SCAN_FALLBACK).await;
        }
    }

    async fn scan(&mut self) -> Result<(), Failure> {
        let agents = listing::queues(&self.app).await?;
        // Pauses come first, so that a task file of a paused agent is not offered in between.
        self.apply_pauses().await?;
        for queue in self.prepare_queues(&agents)? {
            // An agent with open tasks was known when they were queued.
            let agent_exists =
                agents.contains(&queue) || listing::has_open_tasks(&self.app, &queue).await?;
            self.scan_queue(&queue, agent_exists).await?;
            if agent_exists {
                self.show_queue(&queue).await?;
            }
        }
        self.show_heartbeats().await
    }

    /// Creates the queue directories of all agents and returns every name in `queues/`.
    fn prepare_queues(&mut self, agents: &BTreeSet<String>) -> Result<BTreeSet<String>, Failure> {
        for agent in agents {
            // Ignored here: a link in its place is reported when its files are scanned.
            // The directory is opened again for each scan, so a handle is not kept.
            let _ = self.parts.queues.open_dir(agent);
            self.watch.add(&self.root.join("queues").join(agent));
        }
        let names = self.parts.queues.names().map_err(io_error)?;
        let text = |name: OsString| name.into_string().ok();
        Ok(names.into_iter().filter_map(text).collect())
    }

    /// Pauses each agent that has a file below `pause/`, and resumes it when the file is removed.
    async fn apply_pauses(&mut self) -> Result<(), Failure> {
        let names = self.parts.pause.names().map_err(io_error)?;
        let names = names.iter().filter_map(|name| name.to_str());
        let names: BTreeSet<String> = names
            .filter(|name| task::is_file_name(name))
            .map(str::to_owned)
            .collect();
        let changed =
            pauses::sync_agent_pauses(&self.app, &names, "paused by a file below pause/").await?;
        for (agent, paused) in changed {
            let word = if paused { "paused" } else { "resumed" };
            self.log(&agent, "INFO", &agent, &format!("Agent {agent} {word}"));
        }
        Ok(())
    }

    /// Writes the time of each agent's last call to `heartbeats/`.
    async fn show_heartbeats(&mut self) -> Result<(), Failure> {
        for agent in pauses::known_agents(&self.app).await? {
            let previous = self.heartbeats.insert(agent.name.clone(), agent.seen_at);
            if previous == Some(agent.seen_at) || !task::is_file_name(&agent.name) {
                continue;
                // Written only if it changed, because every write wakes the programs that watch the
                // directory.
            }
            let beat = serde_json::json!({"agent_id": agent.name, "role": agent.role,
                "timestamp": agent.seen_at.to_iso()});
            let name = format!("{}.json", agent.name);
            let text = format!("{beat:#}\n");
            let heartbeats = &self.parts.heartbeats;
            heartbeats
                .write(name.as_ref(), text.as_bytes())
                .map_err(io_error)?;
        }
        Ok(())
    }

    /// Records a problem once.
    async fn note_once(&mut self, about: &str, why: &str) {
        // A bound on what a hostile directory can make us remember.
        if self.complaints.len() < 1000 && self.complaints.insert(format!("{about}: {why}")) {
            let body = serde_json::json!({"about": about, "why": why});
            self.note("spool_troubled", body).await;
        }
    }

    async fn note(&self, name: &str, body: Value) {
        // A failed note is only missing in the event log; the spool goes on.
        let noted = self.app.note(name, body).await;
        noted.log_err("record an event of the spool");
    }
}

fn io_error(error: std::io::Error) -> Failure {
    Failure::error(format!("cannot use the spool: {error}"))
}
