//! A worker: several replicas in one process, on any machine that reaches the server or the
//! database. It claims ready jobs of its queues, renews its leases, and ends when it is told to
//! drain or to stop.
//!
//! All replicas share one set of permits, so that a provider's limit holds for the process and not
//! per replica.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use engine::coordinator::{Error, system_queues};
use engine::log::LogErr;
use engine::process::{StopSignal, adopt_orphans, end_orphaned_runs};
use engine::worker::name::replica_name;
use engine::worker::permits::ProviderPermits;
use engine::worker::{self, Shutdown, WorkerConfig};
use flow::policy::Land;
use flow::{Queue, Role};
use serde_json::json;
use store::Agent;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

use super::App;
use super::project::{ProjectLoader, ProjectOptions};
use super::projects::LoadedProjects;
pub use super::projects::RepositoryAccess;
use super::tasks::{queue_name, queues_of};
use crate::failure::Failure;

/// Interval of heartbeats. Each is a write that wakes the server and its waiting callers, so idle
/// workers beat rarely; leases have their own, shorter interval.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(30);
/// Interval at which a worker asks whether its token is still accepted.
const ACCESS_CHECK_INTERVAL: Duration = Duration::from_secs(15);

/// Maximum number of replicas in one process.
pub const REPLICAS_MAX: u16 = 64;

/// Options of a worker process.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    pub name: String,
    pub replicas: u16,
    pub queues: WorkerQueues,
    pub labels: BTreeSet<String>,
    /// Maximum number of concurrent jobs by provider.
    pub provider_limits: Vec<(String, usize)>,
    pub access: RepositoryAccess,
    pub options: ProjectOptions,
}

/// The queues that a worker serves.
#[derive(Clone, Debug, Default)]
pub struct WorkerQueues {
    /// Queues of the ticket loop: build, check, review, verify, merge.
    pub of_loop: Vec<Queue>,
    /// Queues of tasks; each has the name of the agent that it is for.
    pub of_tasks: Vec<Queue>,
}

impl WorkerQueues {
    /// Reads queue names; an empty list means the whole ticket loop.
    pub fn parse(words: &[String]) -> Result<Self, Failure> {
        let loop_queues = Queue::OF_LOOP.into_iter();
        // Updates of dependent tickets are made by the server, next to the store.
        let loop_queues = loop_queues.filter(|queue| !queue.is_beside_loop());
        if words.is_empty() {
            let of_loop = loop_queues.collect();
            return Ok(Self {
                of_loop,
                ..Self::default()
            });
        }
        let loop_queues: Vec<Queue> = loop_queues.collect();
        let mut queues = Self::default();
        for word in words {
            let queue = Queue::from(word);
            if loop_queues.contains(&queue) {
                queues.of_loop.push(queue);
            } else {
                queues.of_tasks.push(queue_name(word)?.into());
            }
        }
        Ok(queues)
    }

    pub fn names(&self) -> Vec<&str> {
        let queues = self.of_loop.iter().chain(&self.of_tasks);
        queues.map(Queue::name).collect()
    }

    /// Returns the task queues of one replica: `engineer-1` serves the queue `engineer` and its
    /// own.
    fn of_replica(&self, name: &str) -> Vec<Queue> {
        let own_queues = queues_of(name);
        let mut queues = self.of_tasks.clone();
        if own_queues.iter().any(|queue| queues.contains(queue)) {
            queues.extend(own_queues);
        }
        queues.sort_unstable();
        queues.dedup();
        queues
    }
}

/// Project loader and store of a worker. There is no store if the tickets are on a server.
#[derive(Clone, Debug)]
pub struct WorkerContext {
    pub loader: ProjectLoader,
    /// Local app, if there is one: its lost leases and dependent tickets are maintained during the
    /// work.
    pub app: Option<App>,
}

impl WorkerContext {
    pub fn of(app: App) -> Self {
        Self {
            loader: ProjectLoader::of(&app),
            app: Some(app),
        }
    }
}

/// Works until it is told to drain, and returns when no job runs any more.
pub async fn run(
    workplace: &WorkerContext,
    options: WorkerOptions,
    shutdown: Shutdown,
    complaints: Sender<String>,
) -> Result<(), Failure> {
    adopt_orphans().map_err(|error| {
        Failure::error(format!(
            "cannot become the parent of orphaned processes: {error}"
        ))
    })?;
    // Before the first claim: an agent of an earlier process may still write into a worktree.
    end_orphaned_runs(&workplace.loader.environment.data_dir)
        .await
        .map_err(Failure::error)?;
    let permits = ProviderPermits::new(options.provider_limits.clone());
    let mut replicas = JoinSet::new();
    for number in 1..=options.replicas {
        let name = format!("{}-{number}", options.name);
        let config = WorkerConfig {
            tasks: options.queues.of_replica(&name),
            labels: Some(options.labels.clone()),
            permits: permits.clone(),
            ..WorkerConfig::replica(&name, options.queues.of_loop.clone())
        };
        let project_options = ProjectOptions {
            roles: Some(roles_of(&config)),
            // Tasks have no merge, so their commits stay on a branch.
            land: config.queues.is_empty().then_some(Land::Branch),
            ..options.options.clone()
        };
        let projects =
            LoadedProjects::new(&config.holder, workplace.loader.clone(), project_options)
                .with_access(options.access.clone(), complaints.clone());
        let (loader, shutdown) = (workplace.loader.clone(), shutdown.clone());
        replicas.spawn(async move {
            let coordinator = Arc::clone(&loader.coordinator);
            // The heartbeat never ends by itself, so the worker's end ends both.
            tokio::select! {
                ended = worker::run(coordinator, &projects, &config, shutdown) => ended.map(drop),
                () = send_heartbeats(&loader, &config) => Ok(()),
            }
        });
    }
    while let Some(ended) = replicas.join_next().await {
        // One crashed replica ends the process; its leases run out.
        ended.map_err(|error| Failure::error(format!("a worker replica crashed: {error}")))??;
    }
    Ok(())
}

/// Returns the agent roles that these queues need.
fn roles_of(config: &WorkerConfig) -> Vec<Role> {
    let roles = [
        (Queue::Build, Role::Builder),
        (Queue::Review, Role::Reviewer),
        (Queue::Verify, Role::Verifier),
    ];
    let served = roles
        .into_iter()
        .filter(|(queue, _)| config.queues.contains(queue));
    let mut roles: Vec<Role> = served.map(|(_, role)| role).collect();
    // Tasks are done by the builder's agent.
    if !config.tasks.is_empty() && !roles.contains(&Role::Builder) {
        roles.push(Role::Builder);
    }
    roles
}

/// Returns when it is told to stop, and fails when the server denies access, for example because
/// the token was revoked. An unreachable server is no reason to end, because it may come back.
pub async fn watch_access(loader: &ProjectLoader, mut stop: StopSignal) -> Result<(), Failure> {
    loop {
        // Only a denial ends the worker. A server that restarts is waited for.
        if let Err(error @ Error::Denied { .. }) = loader.coordinator.now().await {
            return Err(error.into());
        }
        tokio::select! {
            () = tokio::time::sleep(ACCESS_CHECK_INTERVAL) => {}
            () = stop.requested() => return Ok(()),
        }
    }
}

/// Sends heartbeats, so that the list of agents shows this worker. It never returns.
async fn send_heartbeats(loader: &ProjectLoader, config: &WorkerConfig) {
    loop {
        let agent = Agent {
            name: config.name.clone(),
            role: "worker".to_owned(),
            seen_at: (loader.clock)(),
            body: json!({"queues": config.queues, "tasks": config.tasks, "labels": config.labels}),
        };
        // An unreachable store may be back at the next heartbeat.
        let beat = loader.coordinator.heartbeat(agent).await;
        beat.log_err("record a sign of life");
        tokio::time::sleep(HEARTBEAT_INTERVAL).await;
    }
}

/// Runs the server's own workers: they check and merge, and start no agent.
pub async fn run_system_worker(app: &App, workers: u16, shutdown: Shutdown) {
    let loader = ProjectLoader::of(app);
    let options = ProjectOptions::without_agents();
    let projects = LoadedProjects::new(&replica_name("house"), loader.clone(), options);
    let projects = Arc::new(projects);
    let mut working = JoinSet::new();
    for number in 1..=workers {
        let config = WorkerConfig::replica(&format!("house-{number}"), system_queues());
        let (coordinator, shutdown) = (Arc::clone(&loader.coordinator), shutdown.clone());
        let projects = Arc::clone(&projects);
        working.spawn(async move {
            let ended = worker::run(coordinator, &*projects, &config, shutdown).await;
            ended.log_err("run a worker of the server");
        });
    }
    working.join_all().await;
}
