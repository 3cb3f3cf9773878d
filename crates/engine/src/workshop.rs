//! The workshop: one repository, the people who work on it, and the rules of the house. Everything
//! that a performer needs, and nothing that changes while it works.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flow::brief::ProjectRules;
use flow::policy::Land;
use flow::{Actor, Policy, Role, Task, Ticket, TicketId, Time};

use crate::agent::Adapter;
use crate::carrier::RepoSync;
use crate::check::Check;
use crate::coordinator::{Coordinator, Error, ProgressListener, Report};
use crate::git::Repository;
use crate::process::ProcessHost;
use crate::sandbox::SandboxProfile;
use crate::supplies::ProjectSetup;

#[derive(Debug)]
pub struct Project {
    /// The coordinator that holds the tickets.
    pub coordinator: Arc<dyn Coordinator>,
    pub clock: fn() -> Time,
    /// Sees the runs while they go on, where somebody listens.
    pub witness: Option<Arc<dyn ProgressListener>>,
    pub host: ProcessHost,
    pub git: Repository,
    pub crew: ProjectAgents,
    pub project: ProjectConfig,
    /// Between this repository and the one that all workers share, where there is one.
    pub carrier: Option<RepoSync>,
    /// `PATH` for agents and checks.
    pub path: OsString,
    /// How runs are confined; none where the policy goes without.
    pub ward: Option<SandboxProfile>,
    /// Whom agents can call.
    pub server: AgentServerSource,
}

impl Project {
    /// Reports an event, which the coordinator decides on.
    pub async fn report(&self, id: &TicketId, report: Report) -> Result<Ticket, Error> {
        let policy = &self.project.policy;
        self.coordinator.report(id, policy, report).await
    }

    pub async fn ticket(&self, id: &TicketId) -> Result<Ticket, Error> {
        let found = self.coordinator.ticket(id).await?;
        found.ok_or_else(|| Error::NoSuchTicket(id.clone()))
    }

    /// Whether anything lands here. A copy of the repository lands nothing unless it is told to:
    /// whoever has the repository itself does.
    pub fn lands_here(&self) -> bool {
        let carrier = self.carrier.as_ref();
        carrier.is_none_or(|carrier| !carrier.is_copy || carrier.lands)
    }

    /// Whether what is approved stands in line to land here. In a copy of the repository each lands
    /// alone: who is first on the branch of the remote is decided there.
    pub fn lands_in_turn(&self) -> bool {
        let is_copy = self.carrier.as_ref().is_some_and(|carrier| carrier.is_copy);
        self.project.policy.land == Land::Queue && !is_copy
    }
}

/// The server that agents are told of.
#[derive(Clone, Debug)]
pub enum AgentServerSource {
    /// The one that runs now on this data directory, if one does.
    Running(fn(&Path) -> Option<AgentServer>),
    /// The one that we work for.
    Named(AgentServer),
}

impl AgentServerSource {
    pub fn find(&self, data_dir: &Path) -> Option<AgentServer> {
        match self {
            Self::Running(look) => look(data_dir),
            Self::Named(server) => Some(server.clone()),
        }
    }
}

/// A server, and how it is known to be of our store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentServer {
    pub url: String,
    /// The hash of a token that it knows: a store that knows it too is the server's.
    pub token_hash: String,
}

/// How the project wants its changes built, checked and judged; read from the base branch.
#[derive(Clone, Debug)]
pub struct ProjectConfig {
    pub base_branch: String,
    pub policy: Policy,
    pub house: ProjectRules,
    pub checks: Vec<Check>,
    pub setup: ProjectSetup,
}

/// Who does what. A role that nobody has here is for others, who come by themselves.
#[derive(Clone, Debug, Default)]
pub struct ProjectAgents {
    pub builder: Option<AgentConfig>,
    pub reviewer: Option<AgentConfig>,
    pub verifier: Option<AgentConfig>,
    /// Those whom seats and fallbacks name, each in its role.
    pub others: Vec<(Role, AgentConfig)>,
}

impl ProjectAgents {
    /// Who does what is meant for this agent in this role, or for whoever has the role.
    pub fn who(&self, role: Role, agent: Option<&str>) -> Option<&AgentConfig> {
        let usual = match role {
            Role::Builder => &self.builder,
            Role::Reviewer => &self.reviewer,
            Role::Verifier => &self.verifier,
            Role::Human | Role::Service | Role::Admin => return None,
        };
        let is_usual = |name: &&str| usual.as_ref().is_some_and(|usual| usual.is_called(name));
        let Some(name) = agent.filter(|name| !is_usual(name)) else {
            return usual.as_ref();
        };
        let mut others = self.others.iter();
        let found = others.find(|(at, member)| *at == role && member.is_called(name));
        found.map(|(_, member)| member)
    }
}

#[derive(Clone)]
pub struct AgentConfig {
    pub name: String,
    /// As the person wrote it; a job may be meant for it by that name too.
    pub written: String,
    /// The family of the model behind it, where it is known.
    pub family: Option<String>,
    pub adapter: Arc<dyn Adapter>,
    /// The model that it shall use; its own choice, where none is named.
    pub model: Option<String>,
}

impl AgentConfig {
    fn is_called(&self, name: &str) -> bool {
        name == self.name || name == self.written
    }

    pub fn actor(&self, role: Role) -> Actor {
        Actor {
            family: self.family.clone(),
            written: Some(self.written.clone()),
            ..Actor::new(&self.name, role)
        }
    }
}

impl fmt::Debug for AgentConfig {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Member")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Project {
    /// Who takes a job that is meant for this agent or for anybody, and in which role.
    pub fn actor(&self, task: &Task, agent: Option<&str>) -> Actor {
        match task {
            Task::Review { seat, .. } if self.linter(seat).is_some() => {
                Actor::new(&format!("{seat} (linter)"), Role::Reviewer)
            }
            Task::Build { .. }
            | Task::Review { .. }
            | Task::Verify { .. }
            | Task::Check { .. }
            | Task::Merge { .. }
            | Task::Tell { .. } => {
                let member = self.member(task, agent);
                member.map_or_else(|| self.house(), |member| member.actor(role_of(task)))
            }
        }
    }

    /// The command of the linter that sits there, if one does.
    pub fn linter(&self, seat: &str) -> Option<&str> {
        let mut seats = self.project.policy.reviewers.iter();
        seats.find(|spec| spec.name == seat)?.command.as_deref()
    }

    /// Who is paid for a job, if anybody is.
    pub fn member(&self, task: &Task, agent: Option<&str>) -> Option<&AgentConfig> {
        match task {
            Task::Review { seat, .. } if self.linter(seat).is_some() => None,
            Task::Build { .. }
            | Task::Review { .. }
            | Task::Verify { .. }
            | Task::Check { .. }
            | Task::Merge { .. }
            | Task::Tell { .. } => self.crew.who(role_of(task), agent),
        }
    }

    /// Whoever builds here, for what is found on a branch and nobody put forward.
    pub fn builder_name(&self) -> &str {
        let builder = self.crew.builder.as_ref();
        builder.map_or("somebody", |builder| &builder.name)
    }

    /// Countersign itself.
    pub fn house(&self) -> Actor {
        Actor::house()
    }

    /// Holds the history below the bases that checkouts stand on; one for the repository.
    pub fn mirror(&self) -> PathBuf {
        self.host.data_dir.join("mirrors").join(self.key())
    }

    /// Holds what the project's setup has made on its bases; one for the repository.
    pub fn supplies(&self) -> PathBuf {
        self.host.data_dir.join("supplies").join(self.key())
    }

    fn key(&self) -> String {
        crate::hash::short(self.git.common_dir().as_os_str().as_encoded_bytes())
    }

    /// What agents and checks are given of the outside world: where programs are, and that text
    /// is UTF-8.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut environment = vec![
            ("PATH".into(), self.path.clone()),
            ("LANG".into(), "C.UTF-8".into()),
            ("LC_ALL".into(), "C.UTF-8".into()),
        ];
        environment.extend(self.ward.iter().flat_map(SandboxProfile::environment));
        environment
    }

    pub fn files(&self, ticket: &TicketId) -> TicketFiles {
        TicketFiles::of(&self.host.data_dir, ticket)
    }
}

fn role_of(task: &Task) -> Role {
    match task {
        Task::Build { .. } => Role::Builder,
        Task::Review { .. } => Role::Reviewer,
        Task::Verify { .. } => Role::Verifier,
        Task::Check { .. } | Task::Merge { .. } | Task::Tell { .. } => Role::Service,
    }
}

/// Where a ticket's files are: everything below the data directory, names made of ids.
#[derive(Clone, Debug)]
pub struct TicketFiles {
    data: PathBuf,
    of_ticket: String,
}

impl TicketFiles {
    pub fn of(data_dir: &Path, ticket: &TicketId) -> Self {
        Self {
            data: data_dir.to_owned(),
            of_ticket: format!("tickets/{ticket}"),
        }
    }

    /// The builder's worktree.
    pub fn worktree(&self) -> PathBuf {
        self.data.join(&self.of_ticket).join("worktree")
    }

    /// The repository of a task that belongs to none.
    pub fn repository(&self) -> PathBuf {
        self.data.join(&self.of_ticket).join("repository")
    }

    /// There once the worktree has been set up.
    pub fn set_up(&self) -> PathBuf {
        self.data.join(&self.of_ticket).join("set-up")
    }

    /// The home of an agent that goes on in its own session from round to round.
    pub fn home(&self, agent: &str) -> PathBuf {
        self.data.join(&self.of_ticket).join("homes").join(agent)
    }

    /// All jobs' directories.
    pub fn jobs(&self) -> PathBuf {
        self.data.join(&self.of_ticket).join("jobs")
    }

    /// A job's own directory.
    pub fn job(&self, serial: u32) -> PathBuf {
        self.jobs().join(serial.to_string())
    }

    /// Where one try of a job keeps its files. A worker that lost the job has another.
    pub fn run(&self, serial: u32, fence: u64) -> PathBuf {
        self.job(serial).join(format!("run-{fence}"))
    }

    pub fn round_document(&self, round: u32) -> PathBuf {
        self.data
            .join(&self.of_ticket)
            .join(format!("round-{round}-findings.md"))
    }

    /// As artefacts are recorded: relative to the data directory.
    pub fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.data)
            .unwrap_or(path)
            .to_string_lossy()
            .into_owned()
    }
}
