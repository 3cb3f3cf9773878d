//! A worker: several pairs of hands in one program, on any machine that reaches the server or the
//! database. It takes up what is ready in its queues, keeps its leases alive, and is told to drain or to
//! halt.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::coordinator::{Error, system_queues};
use engine::log::LogErr;
use engine::process::{StopSignal, adopt_orphans, sweep};
use engine::worker::name::replica_name;
use engine::worker::permits::ProviderPermits;
use engine::worker::{self, Shutdown, WorkerConfig};
use flow::policy::Land;
use flow::{Queue, Role};
use serde_json::json;
use store::Agent;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

use super::project::{ProjectLoader, ProjectOptions};
use super::projects::LoadedProjects;
pub use super::projects::Reach;
use super::tasks::{queue_name, queues_of};
use super::{App, service};
use crate::failure::Failure;

/// More hands than this are another worker's.
pub const REPLICAS_MAX: u16 = 64;

/// The work that a worker is started for.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    pub name: String,
    pub replicas: u16,
    pub queues: WorkerQueues,
    pub labels: BTreeSet<String>,
    /// How many jobs of a provider run at once.
    pub shares: Vec<(String, usize)>,
    pub reach: Reach,
    pub asked: ProjectOptions,
}

/// The queues that a worker serves.
#[derive(Clone, Debug, Default)]
pub struct WorkerQueues {
    /// Queues of the loop: build, check, review, verify, merge.
    pub of_loop: Vec<Queue>,
    /// Queues of tasks, by the name of the agent that they are for.
    pub of_tasks: Vec<Queue>,
}

impl WorkerQueues {
    /// All that these words name; the whole loop where there are no words.
    pub fn named(words: &[String]) -> Result<Self, Failure> {
        let known = Queue::OF_LOOP.into_iter();
        let known = known.filter(|queue| *queue != Queue::Tell);
        if words.is_empty() {
            let of_loop = known.collect();
            return Ok(Self {
                of_loop,
                ..Self::default()
            });
        }
        let known: Vec<Queue> = known.collect();
        let mut queues = Self::default();
        for word in words {
            let queue = Queue::from(word);
            if known.contains(&queue) {
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

    /// The task queues of one replica: `engineer-1` has what is for `engineer`, and what is for itself.
    fn of_replica(&self, name: &str) -> Vec<Queue> {
        let own = queues_of(name);
        let mut queues = self.of_tasks.clone();
        if own.iter().any(|queue| queues.contains(queue)) {
            queues.extend(own);
        }
        queues.sort_unstable();
        queues.dedup();
        queues
    }
}

/// Everything a worker works with: no store where its tickets are on a server.
#[derive(Clone, Debug)]
pub struct Workplace {
    pub loader: ProjectLoader,
    /// The store of this machine, whose leases and news are looked after beside the work.
    pub office: Option<App>,
}

impl Workplace {
    pub fn of(office: App) -> Self {
        Self {
            loader: ProjectLoader::of(&office),
            office: Some(office),
        }
    }
}

/// Works until it is told to drain, and is over when nothing runs any more.
pub async fn work(
    place: &Workplace,
    wanted: WorkerOptions,
    shutdown: Shutdown,
    complaints: Sender<String>,
) -> Result<(), Failure> {
    adopt_orphans()
        .map_err(|error| Failure::error(format!("orphans cannot be adopted: {error}")))?;
    sweep(&place.loader.surroundings.data_dir)
        .await
        .map_err(Failure::error)?;
    let permits = ProviderPermits::new(wanted.shares.clone());
    let mut replicas = JoinSet::new();
    for number in 1..=wanted.replicas {
        let name = format!("{}-{number}", wanted.name);
        let config = WorkerConfig {
            tasks: wanted.queues.of_replica(&name),
            labels: Some(wanted.labels.clone()),
            permits: permits.clone(),
            ..WorkerConfig::replica(&name, wanted.queues.of_loop.clone())
        };
        let asked = ProjectOptions {
            roles: Some(roles(&config)),
            // Nothing of a task lands.
            land: config.queues.is_empty().then_some(Land::Branch),
            ..wanted.asked.clone()
        };
        let projects = LoadedProjects::new(&config.holder, place.loader.clone(), asked)
            .reaching(wanted.reach.clone(), complaints.clone());
        let (loader, shutdown) = (place.loader.clone(), shutdown.clone());
        replicas.spawn(async move {
            let coordinator = Arc::clone(&loader.coordinator);
            tokio::select! {
                ended = worker::run(coordinator, &projects, &config, shutdown) => ended.map(drop),
                () = show_life(&loader, &config) => Ok(()),
            }
        });
    }
    while let Some(ended) = replicas.join_next().await {
        ended.map_err(|error| Failure::error(format!("a worker broke: {error}")))??;
    }
    Ok(())
}

/// The roles of the agents that these queues need.
fn roles(config: &WorkerConfig) -> Vec<Role> {
    let roles = [
        (Queue::Build, Role::Builder),
        (Queue::Review, Role::Reviewer),
        (Queue::Verify, Role::Verifier),
    ];
    let served = roles
        .into_iter()
        .filter(|(queue, _)| config.queues.contains(queue));
    let mut roles: Vec<Role> = served.map(|(_, role)| role).collect();
    if !config.tasks.is_empty() && !roles.contains(&Role::Builder) {
        roles.push(Role::Builder);
    }
    roles
}

/// Ends when it is told to stop, or when the server does not let us in any more. One that is away may
/// come back.
pub async fn stay_known(loader: &ProjectLoader, mut stop: StopSignal) -> Result<(), Failure> {
    loop {
        if let Err(error @ Error::Denied { .. }) = loader.coordinator.now().await {
            return Err(error.into());
        }
        tokio::select! {
            () = tokio::time::sleep(service::ROUND) => {}
            () = stop.asked() => return Ok(()),
        }
    }
}

/// Signs of life, for those who look who is there. It never ends by itself.
async fn show_life(loader: &ProjectLoader, config: &WorkerConfig) {
    loop {
        let agent = Agent {
            name: config.name.clone(),
            role: "worker".to_owned(),
            seen_at: (loader.clock)(),
            body: json!({"queues": config.queues, "tasks": config.tasks, "labels": config.labels}),
        };
        // A store that is away now is back at another round.
        let beat = loader.coordinator.heartbeat(agent).await;
        beat.log_err("record a sign of life");
        tokio::time::sleep(service::ROUND).await;
    }
}

/// The server's own workers: checks and merges, and no agent that is paid.
pub async fn keep_house(office: &App, workers: u16, shutdown: Shutdown) {
    let loader = ProjectLoader::of(office);
    let asked = ProjectOptions::of_the_house();
    let projects = LoadedProjects::new(&replica_name("house"), loader.clone(), asked);
    let projects = Arc::new(projects);
    let mut working = JoinSet::new();
    for number in 1..=workers {
        let config = WorkerConfig::replica(&format!("house-{number}"), system_queues());
        let (coordinator, shutdown) = (Arc::clone(&loader.coordinator), shutdown.clone());
        let projects = Arc::clone(&projects);
        working.spawn(async move {
            let ended = worker::run(coordinator, &*projects, &config, shutdown).await;
            ended.log_err("end a worker of the server in order");
        });
    }
    working.join_all().await;
}
