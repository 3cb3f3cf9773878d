//! The spool: 001's directory as a surface. Task files that are dropped into it are queued, what
//! becomes of tasks is written beside them, a file below `pause/` pauses an agent. It decides nothing:
//! what it takes in goes through `operations`, in the name of `spool`, whatever the files claim. It
//! follows no link, and whatever it cannot take is put aside with the reason.

mod intake;
mod logs;
mod picture;
mod place;
mod task;
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
use app::operations::tasks::board;
use app::operations::{App, overview, pauses};
use intake::SpoolFileState;
use picture::ShownTask;
use place::SpoolDir;
use watch::SpoolWatcher;

/// In whose name files are taken in; what they say of their maker is a label.
const PRINCIPAL: &str = "spool";
/// Between looks while something is going on.
const TICK: Duration = Duration::from_secs(1);
/// The net under the wake-ups (001's poll).
const SCAN: Duration = Duration::from_secs(30);
/// A crowd of changes is looked at once.
const BURST: Duration = Duration::from_millis(20);
/// 001's own name for the directory; its logs lie beside it.
const ITS_NAME: &str = ".agent-communication";

#[derive(Debug)]
pub struct Spool {
    office: App,
    root: PathBuf,
    parts: SpoolDirs,
    watch: SpoolWatcher,
    /// What lies in the queues, by queue and file.
    files: BTreeMap<(String, OsString), SpoolFileState>,
    /// What is shown of each task.
    tasks: BTreeMap<String, ShownTask>,
    /// What was complained of once is not complained of at every look.
    complaints: BTreeSet<String>,
    beats: BTreeMap<String, flow::Time>,
}

/// The directories, each by its own handle.
#[derive(Debug)]
struct SpoolDirs {
    queues: SpoolDir,
    completed: SpoolDir,
    locks: SpoolDir,
    pause: SpoolDir,
    heartbeats: SpoolDir,
    rejected: SpoolDir,
    logs: SpoolDir,
    /// Held for as long as we live.
    _root: SpoolDir,
}

/// Opens the directory, making what is not there. One program at a time may have it.
pub fn open(office: &App, root: &Path, logs: Option<&Path>) -> Result<Spool, Failure> {
    let fail = |error: std::io::Error| {
        Failure::usage(format!(
            "the spool {} cannot be used: {error}",
            root.display()
        ))
        .hint("name another directory with --spool DIR; its parts must be directories, not links")
    };
    let place = SpoolDir::open(root).map_err(fail)?;
    if !place.lock().map_err(fail)? {
        return Err(
            Failure::usage(format!("another program has the spool {}", root.display()))
                .hint("one server at a time may have it"),
        );
    }
    let root = std::path::absolute(root).map_err(fail)?;
    let beside = || (root.ends_with(ITS_NAME)).then(|| root.with_file_name("logs"));
    let logs = logs.map(Path::to_owned).or_else(beside);
    let enter = |name: &str| place.enter(name).map_err(fail);
    let parts = SpoolDirs {
        queues: enter("queues")?,
        completed: enter("completed")?,
        locks: enter("locks")?,
        pause: enter("pause")?,
        heartbeats: enter("heartbeats")?,
        rejected: enter("rejected")?,
        logs: match logs {
            Some(path) => SpoolDir::open(&path).map_err(fail)?,
            None => enter("logs")?,
        },
        _root: place,
    };
    Ok(Spool {
        office: office.speaking_as(Actor::new(PRINCIPAL, Role::Service)),
        root,
        parts,
        watch: SpoolWatcher::new(),
        files: BTreeMap::new(),
        tasks: BTreeMap::new(),
        complaints: BTreeSet::new(),
        beats: BTreeMap::new(),
    })
}

/// Looks after the directory until it is told to stop.
pub async fn run(mut spool: Spool, mut stop: StopSignal) {
    for part in ["queues", "pause"] {
        spool.watch.add(&spool.root.join(part));
    }
    if let Err(failure) = spool.sweep_locks().await {
        spool.complain("locks", &failure.message).await;
    }
    loop {
        let newest = overview::newest(&spool.office).await;
        let newest = newest.log_err("read the event log").unwrap_or_default();
        if let Err(failure) = spool.look().await {
            // A store or a disk that is away now is back at another look.
            spool.complain("look", &failure.message).await;
        }
        tokio::select! {
            () = spool.watch.rung() => tokio::time::sleep(BURST).await,
            () = spool.quiet(newest) => {}
            () = stop.asked() => return,
        }
    }
}

impl Spool {
    /// Until it is worth looking though no file has changed.
    async fn quiet(&self, newest: app::operations::Cursor) {
        tokio::time::sleep(TICK).await;
        let busy = self.tasks.values().any(ShownTask::is_open)
            || self.files.values().any(SpoolFileState::waits);
        if !busy {
            overview::changed(&self.office, newest, SCAN).await;
        }
    }

    async fn look(&mut self) -> Result<(), Failure> {
        let agents = board::queues(&self.office).await?;
        self.heed_pauses().await?;
        for queue in self.queues(&agents)? {
            // One that has tasks was known when they came.
            let known = agents.contains(&queue) || board::is_used(&self.office, &queue).await?;
            self.take_in(&queue, known).await?;
            if known {
                self.show(&queue).await?;
            }
        }
        self.show_heartbeats().await
    }

    /// The agents' queues, made where there is none, and whatever else lies there.
    fn queues(&mut self, agents: &BTreeSet<String>) -> Result<BTreeSet<String>, Failure> {
        for agent in agents {
            // A link in its place is told of when its files are looked for.
            let _ = self.parts.queues.enter(agent);
            self.watch.add(&self.root.join("queues").join(agent));
        }
        let names = self.parts.queues.names().map_err(trouble)?;
        let text = |name: OsString| name.into_string().ok();
        Ok(names.into_iter().filter_map(text).collect())
    }

    /// A file below `pause/` pauses the agent of its name; it goes on when the file is gone.
    async fn heed_pauses(&mut self) -> Result<(), Failure> {
        let names = self.parts.pause.names().map_err(trouble)?;
        let names = names.iter().filter_map(|name| name.to_str());
        let names: BTreeSet<String> = names
            .filter(|name| task::names_a_file(name))
            .map(str::to_owned)
            .collect();
        let changed = pauses::keep(&self.office, &names, "a file below pause/ says so").await?;
        for (agent, paused) in changed {
            let word = if paused { "paused" } else { "resumed" };
            self.log(&agent, "INFO", &agent, &format!("Agent {agent} {word}"));
        }
        Ok(())
    }

    /// Says that an agent has given a sign of life, and when.
    async fn show_heartbeats(&mut self) -> Result<(), Failure> {
        for agent in pauses::seen(&self.office).await? {
            let known = self.beats.insert(agent.name.clone(), agent.seen_at);
            if known == Some(agent.seen_at) || !task::names_a_file(&agent.name) {
                continue;
            }
            let beat = serde_json::json!({"agent_id": agent.name, "role": agent.role,
                "timestamp": agent.seen_at.iso()});
            let name = format!("{}.json", agent.name);
            let text = format!("{beat:#}\n");
            let heartbeats = &self.parts.heartbeats;
            heartbeats
                .write(name.as_ref(), text.as_bytes())
                .map_err(trouble)?;
        }
        Ok(())
    }

    /// Notes what is wrong, each thing once.
    async fn complain(&mut self, about: &str, why: &str) {
        if self.complaints.len() < 1000 && self.complaints.insert(format!("{about}: {why}")) {
            let body = serde_json::json!({"about": about, "why": why});
            self.note("spool_troubled", body).await;
        }
    }

    async fn note(&self, name: &str, body: Value) {
        // What cannot be noted now is lost to the log, not to the spool.
        let noted = self.office.note(name, body).await;
        noted.log_err("record an event of the spool");
    }
}

fn trouble(error: std::io::Error) -> Failure {
    Failure::error(format!("the spool cannot be used: {error}"))
}
