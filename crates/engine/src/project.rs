//! A project: one repository, its agents and its rules. It holds everything that performing a job
//! needs, and nothing in it changes during the work.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use flow::brief::ProjectRules;
use flow::landing::{LandingConfig, LandingStyle};
use flow::policy::Land;
use flow::prices::PriceTable;
use flow::{Actor, Policy, Role, Task, Ticket, TicketId, Time};

use crate::agent::Adapter;
use crate::caches::ProjectSetup;
use crate::certificates::Certificates;
use crate::check::Check;
use crate::coordinator::{Coordinator, Error, ProgressListener, Report};
use crate::git::{CommitIdentity, Repository};
use crate::layers::LayerStore;
use crate::process::ProcessHost;
use crate::repo_sync::RepoSync;
use crate::sandbox::{SandboxLevel, SandboxProfile, probe_overlays};

/// Results of trying overlays, by level and data directory.
static LAYER_SUPPORT: Mutex<BTreeMap<(SandboxLevel, PathBuf), bool>> = Mutex::new(BTreeMap::new());
static PROBING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[derive(Debug)]
pub struct Project {
    /// The coordinator that holds the tickets.
    pub coordinator: Arc<dyn Coordinator>,
    pub clock: fn() -> Time,
    /// Receives the progress of runs, if there is a listener.
    pub listener: Option<Arc<dyn ProgressListener>>,
    pub host: ProcessHost,
    pub git: Repository,
    pub agents: ProjectAgents,
    pub config: ProjectConfig,
    /// Synchronises this repository with the one that all workers share, if there is one.
    pub repo_sync: Option<RepoSync>,
    /// `PATH` for agents and checks.
    pub path: OsString,
    /// Certificate authorities of the person, for every run.
    pub certificates: Certificates,
    /// Sandbox profile of runs; `None` if the policy switches the sandbox off.
    pub sandbox_profile: Option<SandboxProfile>,
    /// Server that agents can call.
    pub server: AgentServerSource,
}

impl Project {
    /// Reports an event to the coordinator, which decides on it.
    pub async fn report(&self, id: &TicketId, report: Report) -> Result<Ticket, Error> {
        let policy = &self.config.policy;
        self.coordinator.report(id, policy, report).await
    }

    pub async fn ticket(&self, id: &TicketId) -> Result<Ticket, Error> {
        let ticket = self.coordinator.ticket(id).await?;
        ticket.ok_or_else(|| Error::NoSuchTicket(id.clone()))
    }

    /// Returns whether changes land here. A copy of the repository lands nothing unless it is
    /// configured to: the process with the repository itself does.
    pub fn lands_here(&self) -> bool {
        let sync = self.repo_sync.as_ref();
        sync.is_none_or(|sync| !sync.is_copy || sync.pushes_base_branch)
    }

    /// Returns the style in which approved changes land; `None` if they stay on their branches.
    pub fn landing_style(&self) -> Option<LandingStyle> {
        let config = &self.config;
        LandingStyle::of(config.policy.land, config.landing.queue_style)
    }

    /// Returns whether approved changes wait in a queue to land here. In a copy of the repository
    /// each change lands alone, because the order is decided on the branch of the remote.
    pub fn uses_merge_train(&self) -> bool {
        let is_copy = self.repo_sync.as_ref().is_some_and(|sync| sync.is_copy);
        self.config.policy.land == Land::Queue && !is_copy
    }
}

/// Source of the server that agents call.
#[derive(Clone, Debug)]
pub enum AgentServerSource {
    /// Server that runs now on this data directory, if there is one.
    Running(fn(&Path) -> Option<AgentServer>),
    /// Server that this worker works for.
    Named(AgentServer),
}

impl AgentServerSource {
    pub fn find(&self, data_dir: &Path) -> Option<AgentServer> {
        match self {
            Self::Running(find) => find(data_dir),
            Self::Named(server) => Some(server.clone()),
        }
    }
}

/// A server, and the proof that it uses our store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentServer {
    pub url: String,
    /// SHA-256 of a token that the server accepts. A store that has this token is the server's
    /// store.
    pub token_hash: String,
}

/// Rules for building, checking and reviewing changes, read from the base branch.
#[derive(Clone, Debug)]
pub struct ProjectConfig {
    pub base_branch: String,
    pub policy: Policy,
    /// Message and names of the commits that land a change.
    pub landing: LandingConfig,
    /// Prices of models that differ from the list prices.
    pub prices: PriceTable,
    /// Git identity of the person who runs Countersign here, if there is one.
    pub person: Option<CommitIdentity>,
    pub rules: ProjectRules,
    pub checks: Vec<Check>,
    pub setup: ProjectSetup,
    /// Files of a run stay when its ticket ends. The retention removes them later.
    pub keep_working_files: bool,
}

/// Agents of a project by role. A role without an agent is left to agents that connect by
/// themselves.
#[derive(Clone, Debug, Default)]
pub struct ProjectAgents {
    pub builder: Option<AgentConfig>,
    pub reviewer: Option<AgentConfig>,
    pub verifier: Option<AgentConfig>,
    /// Agents that reviewers and fallbacks name, each with its role.
    pub others: Vec<(Role, AgentConfig)>,
}

impl ProjectAgents {
    /// Returns the agent with this name in this role, or the default agent of the role.
    pub fn agent_for(&self, role: Role, agent: Option<&str>) -> Option<&AgentConfig> {
        let default = match role {
            Role::Builder => &self.builder,
            Role::Reviewer => &self.reviewer,
            Role::Verifier => &self.verifier,
            Role::Human | Role::Service | Role::Admin | Role::Viewer => return None,
        };
        let is_default = |name: &&str| {
            default
                .as_ref()
                .is_some_and(|default| default.has_name(name))
        };
        let Some(name) = agent.filter(|name| !is_default(name)) else {
            return default.as_ref();
        };
        let mut others = self.others.iter();
        let other = others.find(|(at, agent)| *at == role && agent.has_name(name));
        other.map(|(_, agent)| agent)
    }
}

#[derive(Clone)]
pub struct AgentConfig {
    pub name: String,
    /// Name as written in the configuration. A job may request the agent by this name too.
    pub configured_name: String,
    /// Family of its model, if known.
    pub family: Option<String>,
    pub adapter: Arc<dyn Adapter>,
    /// Model that it uses; `None` leaves the choice to the agent.
    pub model: Option<String>,
}

impl AgentConfig {
    fn has_name(&self, name: &str) -> bool {
        name == self.name || name == self.configured_name
    }

    pub fn to_actor(&self, role: Role) -> Actor {
        Actor {
            family: self.family.clone(),
            written: Some(self.configured_name.clone()),
            model: self.model.clone(),
            ..Actor::new(&self.name, role)
        }
    }
}

impl fmt::Debug for AgentConfig {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("AgentConfig")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Project {
    /// Returns the actor that takes a job meant for this agent or for any agent.
    pub fn actor_for(&self, task: &Task, agent: Option<&str>) -> Actor {
        match task {
            Task::Review { reviewer, .. } if self.linter_command(reviewer).is_some() => {
                Actor::new(&format!("{reviewer} (linter)"), Role::Reviewer)
            }
            Task::Build { .. }
            | Task::Review { .. }
            | Task::Verify { .. }
            | Task::Check { .. }
            | Task::Merge { .. }
            | Task::Tell { .. }
            | Task::Report => {
                let config = self.agent_for(task, agent);
                config.map_or_else(
                    || self.system_actor(),
                    |config| config.to_actor(role_of(task)),
                )
            }
        }
    }

    /// Returns the command of this reviewer if it is a linter.
    pub fn linter_command(&self, reviewer: &str) -> Option<&str> {
        let mut reviewers = self.config.policy.reviewers.iter();
        reviewers
            .find(|spec| spec.name == reviewer)?
            .command
            .as_deref()
    }

    /// Returns the agent that is paid for a job, if there is one.
    pub fn agent_for(&self, task: &Task, agent: Option<&str>) -> Option<&AgentConfig> {
        match task {
            Task::Review { reviewer, .. } if self.linter_command(reviewer).is_some() => None,
            Task::Build { .. }
            | Task::Review { .. }
            | Task::Verify { .. }
            | Task::Check { .. }
            | Task::Merge { .. }
            | Task::Tell { .. }
            | Task::Report => self.agents.agent_for(role_of(task), agent),
        }
    }

    /// Returns the name of the builder here, for commits that are found on a branch without a
    /// submission.
    pub fn builder_name(&self) -> &str {
        let builder = self.agents.builder.as_ref();
        builder.map_or("somebody", |builder| &builder.name)
    }

    /// Returns Countersign itself as an actor.
    pub fn system_actor(&self) -> Actor {
        Actor::system()
    }

    /// Returns the directory with the history below the bases of checkouts; there is one per
    /// repository.
    pub fn mirror_dir(&self) -> PathBuf {
        mirror_dir(&self.host.data_dir, &self.git)
    }

    /// Returns the layers with the prepared caches of the project; there is one directory per
    /// repository.
    pub fn cache_layers(&self) -> LayerStore {
        let all = self.host.data_dir.join("layers");
        LayerStore::new(all.join(self.repository_key()))
    }

    /// Returns the directory of remembered proofs of bases. It is the one of the layers: a proof is a
    /// file there, and a layer is a directory.
    pub fn proofs_dir(&self) -> PathBuf {
        self.host
            .data_dir
            .join("layers")
            .join(self.repository_key())
    }

    /// Returns whether runs can have read-only layers with their changes on top. It is tried once
    /// per process.
    pub async fn supports_layers(&self) -> bool {
        let (Some(profile), Some(launcher)) = (&self.sandbox_profile, &self.host.launcher) else {
            return false;
        };
        let key = (profile.level, self.host.data_dir.clone());
        let known = |known: &Mutex<BTreeMap<(SandboxLevel, PathBuf), bool>>| {
            let known = known.lock().unwrap_or_else(PoisonError::into_inner);
            known.get(&key).copied()
        };
        // Concurrent jobs wait for the first one, because a probe has one directory per process.
        let _turn = PROBING.lock().await;
        if let Some(works) = known(&LAYER_SUPPORT) {
            return works;
        }
        let works = probe_overlays(&launcher.program, &self.host.data_dir, profile).await;
        if !works && profile.level != SandboxLevel::Landlock {
            tracing::info!(level = %profile.level, "no overlays here: caches are copied");
        }
        let mut support = LAYER_SUPPORT.lock().unwrap_or_else(PoisonError::into_inner);
        support.insert(key, works);
        works
    }

    /// Returns a name that is unique for the repository on this machine.
    fn repository_key(&self) -> String {
        repository_key(&self.git)
    }

    /// Returns the environment of agents and checks: the search path for programs, and UTF-8 for
    /// text.
    pub fn base_environment(&self) -> Vec<(OsString, OsString)> {
        let mut environment = vec![
            ("PATH".into(), self.path.clone()),
            ("LANG".into(), "C.UTF-8".into()),
            ("LC_ALL".into(), "C.UTF-8".into()),
        ];
        environment.extend(self.certificates.variables.clone());
        environment.extend(
            self.sandbox_profile
                .iter()
                .flat_map(SandboxProfile::environment),
        );
        environment
    }

    pub fn ticket_files(&self, ticket: &TicketId) -> TicketFiles {
        TicketFiles::new(&self.host.data_dir, ticket)
    }
}

fn repository_key(git: &Repository) -> String {
    crate::hash::short_sha256(git.common_dir().as_os_str().as_encoded_bytes())
}

/// Returns the directory with the history below the bases of a repository.
pub fn mirror_dir(data_dir: &Path, git: &Repository) -> PathBuf {
    data_dir.join("mirrors").join(repository_key(git))
}

fn role_of(task: &Task) -> Role {
    match task {
        Task::Build { .. } => Role::Builder,
        Task::Review { .. } => Role::Reviewer,
        Task::Verify { .. } => Role::Verifier,
        Task::Check { .. } | Task::Merge { .. } | Task::Tell { .. } | Task::Report => Role::Service,
    }
}

/// Paths of a ticket's files. All are below the data directory, and their names consist of ids.
#[derive(Clone, Debug)]
pub struct TicketFiles {
    data: PathBuf,
    of_ticket: String,
}

impl TicketFiles {
    pub fn new(data_dir: &Path, ticket: &TicketId) -> Self {
        Self {
            data: data_dir.to_owned(),
            of_ticket: format!("tickets/{ticket}"),
        }
    }

    /// Returns the directory of all files of the ticket.
    pub fn dir(&self) -> PathBuf {
        self.data.join(&self.of_ticket)
    }

    /// Returns the directory of the repositories that agents elsewhere clone.
    pub fn views_dir(&self) -> PathBuf {
        self.dir().join("views")
    }

    /// Returns the path of the builder's worktree.
    pub fn worktree_dir(&self) -> PathBuf {
        self.data.join(&self.of_ticket).join("worktree")
    }

    /// Returns the repository of a task that belongs to no repository.
    pub fn repository_dir(&self) -> PathBuf {
        self.data.join(&self.of_ticket).join("repository")
    }

    /// Returns the marker file that exists once the worktree has been set up.
    pub fn setup_marker(&self) -> PathBuf {
        self.data.join(&self.of_ticket).join("set-up")
    }

    /// Returns the directory with the builder's changes to the caches in its worktree and home.
    pub fn caches_dir(&self) -> PathBuf {
        self.data.join(&self.of_ticket).join("caches")
    }

    /// Returns the directory with the checked-out trees that jobs of this ticket share.
    pub fn trees_dir(&self) -> PathBuf {
        self.data.join(&self.of_ticket).join("trees")
    }

    /// Returns the home of an agent that continues its own session from round to round.
    pub fn home_dir(&self, agent: &str) -> PathBuf {
        self.data.join(&self.of_ticket).join("homes").join(agent)
    }

    /// Returns the directory of all jobs.
    pub fn jobs_dir(&self) -> PathBuf {
        self.data.join(&self.of_ticket).join("jobs")
    }

    /// Returns the directory of one job.
    pub fn job_dir(&self, serial: u32) -> PathBuf {
        self.jobs_dir().join(serial.to_string())
    }

    /// Returns the directory of one attempt of a job. A worker that lost the job has a different
    /// one.
    pub fn run_dir(&self, serial: u32, fence: u64) -> PathBuf {
        self.job_dir(serial).join(format!("run-{fence}"))
    }

    pub fn round_document_path(&self, round: u32) -> PathBuf {
        self.data
            .join(&self.of_ticket)
            .join(format!("round-{round}-findings.md"))
    }

    /// Returns the path as artefacts record it: relative to the data directory.
    pub fn relative_path(&self, path: &Path) -> String {
        path.strip_prefix(&self.data)
            .unwrap_or(path)
            .to_string_lossy()
            .into_owned()
    }
}
