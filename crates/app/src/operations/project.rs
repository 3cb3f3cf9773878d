//! Loads a project: its repository, its rules from the base branch, its agents and its sandbox.
//!
//! Rules come from the base branch and never from the work tree of the change. Flags win over
//! files, because the person who types them sees them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use engine::caches::{CacheDir, ProjectSetup};
use engine::check::Check;
use engine::coordinator::{Coordinator, ProgressListener};
use engine::git::{CommitIdentity, GitProgram, NETWORK_VARIABLES, Remote, Repository};
use engine::log::LogErr;
use engine::process::{Launcher, ProcessHost, find_program};
use engine::project::{Project, ProjectAgents, ProjectConfig};
use engine::repo_sync::RepoSync;
use engine::sandbox::SandboxProfile;
use flow::brief::ProjectRules;
use flow::policy::Land;
use flow::ticket::{Spec, TicketContext};
use flow::{Policy, Role, Ticket, Time};

use super::project_rules;
use super::{App, agent_roles, briefs, config, sandboxing, service};
use crate::failure::Failure;
use crate::settings::Environment;
use crate::settings::file::{self, ProjectSettings};
use crate::settings::layers;
use crate::settings::ticket_file::TicketRequest;
use crate::settings::{certificates, inherited_variables};

/// Number of commit subjects that a builder sees as examples of the project's style.
const SUBJECTS_SHOWN: usize = 10;

/// Options of the command line; they win over every file.
#[derive(Clone, Debug, Default)]
pub struct ProjectOptions {
    pub base: Option<String>,
    pub builder: Option<String>,
    /// One agent for all reviewers of the policy, or one for each in turn.
    pub reviewers: Vec<String>,
    pub verifier: Option<String>,
    pub checks: Vec<String>,
    pub max_rounds: Option<u32>,
    pub land: Option<Land>,
    /// Roles whose agents are looked up; `None` means all roles.
    pub roles: Option<Vec<Role>>,
}

impl ProjectOptions {
    /// Looks up no agent, for work that starts none.
    pub fn without_agents() -> Self {
        Self {
            roles: Some(Vec::new()),
            ..Self::default()
        }
    }
}

/// A project, and remarks for the person about how it was loaded.
#[derive(Debug)]
pub struct LoadedProject {
    pub project: Arc<Project>,
    pub remarks: Vec<String>,
}

/// Loads projects for a worker. It has no store: a worker's tickets may be on a server.
#[derive(Clone, Debug)]
pub struct ProjectLoader {
    pub coordinator: Arc<dyn Coordinator>,
    pub clock: fn() -> Time,
    pub listener: Option<Arc<dyn ProgressListener>>,
    pub environment: Environment,
}

impl ProjectLoader {
    pub fn of(app: &App) -> Self {
        Self {
            coordinator: Arc::new(app.coordinator.clone()),
            clock: app.coordinator.clock,
            listener: app.coordinator.listener.clone(),
            environment: app.environment.clone(),
        }
    }
}

/// Loads the project of a directory, with the rules that people accepted on this machine.
pub async fn load_project(
    app: &App,
    directory: &Path,
    options: &ProjectOptions,
) -> Result<LoadedProject, Failure> {
    let git = open_repository(&app.environment, directory).await?;
    let accepted = project_rules::accepted(app, &git).await?;
    let accepted = accepted.into_iter().map(|rule| rule.text).collect();
    let loader = ProjectLoader::of(app);
    load_project_for(&loader, directory, options, (None, accepted)).await
}

/// Loads a project for a worker, which may have a copy of the repository, with the rules that
/// people accepted.
pub async fn load_project_for(
    loader: &ProjectLoader,
    directory: &Path,
    options: &ProjectOptions,
    (sync, accepted): (Option<RepoSync>, Vec<String>),
) -> Result<LoadedProject, Failure> {
    let environment = &loader.environment;
    let git = open_repository(environment, directory).await?;
    let (base_branch, mut settings, mut remarks) =
        effective_settings(environment, &git, options).await?;
    // Files are checked one by one; a flag can still make the whole impossible.
    file::validate_policy("with these flags", &settings.policy)?;
    // The trial of the sandbox takes as long as the look at the work tree, so both run at once.
    let (note, sandbox) = tokio::join!(
        uncommitted_note(&git, &settings, &base_branch),
        sandboxing::sandbox_for(settings.policy.sandbox, environment)
    );
    remarks.extend(note?);
    let directory = std::path::absolute(directory).map_err(Failure::usage)?;
    // A ticket names the git directory, but paths in the settings are relative to the work tree.
    let directory = if directory == git.common_dir() {
        let tree = git.main_tree().await.map_err(Failure::error)?;
        tree.unwrap_or(directory)
    } else {
        directory
    };
    let roles = options.roles.as_deref().unwrap_or(&agent_roles::ALL_ROLES);
    let resolving = agent_roles::resolve_agents(
        &mut settings,
        (environment, &directory),
        roles,
        &mut remarks,
    );
    let agents = resolving.await?;
    // A budget that does not bind would be found by the bill.
    remarks.extend(unbound_budget(&settings, &agents));
    let config = build_config(environment, &git, (base_branch, settings), accepted).await?;
    let (project, warning) = build_project(loader, git, config, (agents, sandbox?));
    let project = Project {
        repo_sync: sync,
        ..project
    };
    remarks.extend(warning);
    Ok(LoadedProject {
        project: Arc::new(project),
        remarks,
    })
}

/// Builds a project with these agents; the text warns the person if there is no sandbox.
pub fn build_project(
    loader: &ProjectLoader,
    git: Repository,
    config: ProjectConfig,
    (agents, sandbox): (ProjectAgents, Option<SandboxProfile>),
) -> (Project, Option<String>) {
    let environment = &loader.environment;
    let host = ProcessHost {
        data_dir: environment.data_dir.clone(),
        launcher: Some(Launcher::tied_to_us(&environment.program)),
        adopts_orphans: true,
    };
    let warning = sandbox
        .is_none()
        .then(|| sandboxing::NO_SANDBOX_WARNING.to_owned());
    let project = Project {
        coordinator: Arc::clone(&loader.coordinator),
        clock: loader.clock,
        listener: loader.listener.clone(),
        host,
        git,
        agents,
        config,
        repo_sync: None,
        path: environment.path.clone(),
        certificates: certificates(),
        sandbox_profile: sandbox,
        server: service::agent_server_source(environment),
    };
    (project, warning)
}

/// Opens the repository of a ticket and reads its rules, for agents that connect by themselves.
pub async fn open_ticket_repository(
    app: &App,
    ticket: &Ticket,
) -> Result<(Repository, ProjectConfig), Failure> {
    let context = &ticket.spec.context;
    let path = context.repository.as_deref().ok_or_else(|| {
        Failure::usage(format!("{} belongs to no repository", ticket.id))
            .hint("set `repository` in its context")
    })?;
    let git = open_repository(&app.environment, Path::new(path)).await?;
    let options = ProjectOptions {
        base: context.base_branch.clone(),
        ..ProjectOptions::default()
    };
    let (base_branch, settings, _) = load_settings(&app.environment, &git, &options).await?;
    let project = build_local_config(app, &git, base_branch, settings).await?;
    Ok((git, project))
}

/// Assigns a new ticket to a repository, and returns the policy that will decide about it.
pub async fn assign_repository(app: &App, path: &str, spec: &mut Spec) -> Result<Policy, Failure> {
    let git = open_repository(&app.environment, Path::new(path)).await?;
    let options = ProjectOptions {
        base: spec.context.base_branch.clone(),
        ..ProjectOptions::default()
    };
    let (base, settings, _) = load_settings(&app.environment, &git, &options).await?;
    // The common directory, so that all worktrees of a repository give one name.
    spec.context.repository = Some(git.common_dir().to_string_lossy().into_owned());
    spec.context.base_branch = Some(base);
    spec.context.remote = remote_address(&git, &settings).await?;
    Ok(settings.policy)
}

/// Returns the name that a repository has in tickets, its common git directory. A path that is no
/// repository of this machine is the name itself.
pub async fn repository_name(app: &App, path: Option<String>) -> Option<String> {
    let path = path?;
    let directory = Path::new(&path);
    // Most callers send the name, and git need not be asked.
    if directory.join("objects").is_dir() {
        return Some(path);
    }
    match open_repository(&app.environment, directory).await {
        Ok(git) => Some(git.common_dir().to_string_lossy().into_owned()),
        Err(_) => Some(path),
    }
}

/// Returns the configured address from which workers on other machines get the repository.
pub async fn remote_address(
    git: &Repository,
    settings: &ProjectSettings,
) -> Result<Option<String>, Failure> {
    let address = match settings.worker.remote.as_deref() {
        // `origin` is read now, because a worker elsewhere has no such remote.
        Some("origin") => git.origin_url().await.map_err(Failure::error)?,
        address => address.map(str::to_owned),
    };
    let invalid = |why| Failure::usage(format!("[worker] remote: {why}"));
    let remote = address.as_deref().map(Remote::parse).transpose();
    Ok(remote.map_err(invalid)?.map(|remote| remote.address()))
}

/// Assigns new tickets to the repository of the directory. Outside a repository they are refused,
/// because nobody could work on them.
pub async fn assign_current_repository(
    app: &App,
    directory: &Path,
    requests: &mut [TicketRequest],
) -> Result<Policy, Failure> {
    let mut policy = Policy::default();
    open_repository(&app.environment, directory).await?;
    // The settings of a base branch are read once, however many tickets an import adds.
    let mut by_base: BTreeMap<Option<String>, (TicketContext, Policy)> = BTreeMap::new();
    for request in requests {
        let context = &mut request.spec.context;
        if let Some((known, known_policy)) = by_base.get(&context.base_branch) {
            context.repository.clone_from(&known.repository);
            context.base_branch.clone_from(&known.base_branch);
            context.remote.clone_from(&known.remote);
            policy = known_policy.clone();
            continue;
        }
        let base = context.base_branch.clone();
        policy = assign_repository(app, &directory.to_string_lossy(), &mut request.spec).await?;
        by_base.insert(base, (request.spec.context.clone(), policy.clone()));
    }
    Ok(policy)
}

/// Builds the project's configuration with the rules that people have accepted on this machine.
pub async fn build_local_config(
    app: &App,
    git: &Repository,
    base_branch: String,
    settings: ProjectSettings,
) -> Result<ProjectConfig, Failure> {
    let accepted = project_rules::accepted(app, git).await?;
    let accepted = accepted.into_iter().map(|rule| rule.text).collect();
    build_config(&app.environment, git, (base_branch, settings), accepted).await
}

async fn build_config(
    environment: &Environment,
    git: &Repository,
    (base_branch, settings): (String, ProjectSettings),
    accepted: Vec<String>,
) -> Result<ProjectConfig, Failure> {
    let commands = settings
        .checks
        .iter()
        .map(|check| match check.coverage_min {
            Some(percent) => format!("{} (at least {percent} % of lines covered)", check.command),
            None => check.command.clone(),
        });
    let (instruction_files, role_texts) = briefs::load(git, &base_branch, &settings.briefs).await?;
    let tip = git.base_tip(&base_branch).await.map_err(Failure::usage)?;
    let recent_subjects = git.recent_subjects(&tip, SUBJECTS_SHOWN).await;
    let rework_message = settings.landing.rework_message.clone();
    let person = person_identity(environment, git).await?;
    Ok(ProjectConfig {
        base_branch,
        landing: settings.landing,
        prices: settings.prices,
        person,
        rules: ProjectRules {
            recent_subjects: recent_subjects.map_err(Failure::error)?,
            rework_message,
            rules: collect_rules(settings.rules, accepted),
            checks: commands.collect(),
            instruction_files,
            role_texts,
        },
        checks: settings.checks.into_iter().map(build_check).collect(),
        setup: build_setup(settings.setup)?,
        keep_working_files: config::load_user_settings(environment)?
            .retention
            .working_files_days
            > 0,
        policy: settings.policy,
    })
}

/// CLIs that report the price of a run themselves.
/// Others report tokens only, and need a price.
const REPORT_PRICES: [&str; 4] = ["claude", "opencode", "aider", "scripted"];

/// Warns if a budget in dollars does not bind an agent, because its price will not be known.
fn unbound_budget(settings: &ProjectSettings, agents: &ProjectAgents) -> Option<String> {
    let budget = &settings.policy.budget;
    let caps = [budget.round, budget.ticket, budget.day];
    if caps.iter().all(|caps| caps.usd_micros.is_none()) {
        return None;
    }
    let defaults = [&agents.builder, &agents.reviewer, &agents.verifier];
    let others = agents.others.iter().map(|(_, agent)| agent);
    let mut names: Vec<&str> = defaults
        .into_iter()
        .flatten()
        .chain(others)
        .filter(|agent| {
            let price = agent
                .model
                .as_deref()
                .and_then(|model| settings.prices.find(model));
            price.is_none() && !REPORT_PRICES.contains(&agent.adapter.format())
        })
        .map(|agent| agent.configured_name.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    (!names.is_empty()).then(|| {
        format!(
            "the budget in dollars may not bind {}: no price is known for its model; name the model (codex@gpt-5.2) or set [prices]",
            names.join(", ")
        )
    })
}

/// Returns the person's git identity for commits here; `None` if git knows none.
async fn person_identity(
    environment: &Environment,
    git: &Repository,
) -> Result<Option<CommitIdentity>, Failure> {
    let Some(home) = &environment.home else {
        return Ok(None);
    };
    let files = environment.git_config_files();
    let identity = git.person_identity(home, &files).await;
    // A damaged file of the person stops no work; Countersign then signs the commits itself.
    Ok(identity.log_err("read the person's git identity").flatten())
}

/// Joins the project's own rules with those that people have accepted since.
fn collect_rules(mut rules: Vec<String>, accepted: Vec<String>) -> Vec<String> {
    for rule in accepted {
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    rules
}

/// Opens the repository of a directory; refuses one without a commit.
pub async fn open_repository(
    environment: &Environment,
    directory: &Path,
) -> Result<Repository, Failure> {
    let directory = std::path::absolute(directory).map_err(Failure::usage)?;
    if !directory.is_dir() {
        return Err(Failure::usage(format!(
            "{} is not a directory",
            directory.display()
        )));
    }
    let program = git_tool(environment, &directory)?;
    let git = Repository::open(program, &directory)
        .await
        .map_err(Failure::usage)?;
    // Without a commit there is no base to build on.
    git.resolve("HEAD").await.map_err(Failure::usage)?;
    Ok(git)
}

/// Finds git in `PATH`.
pub fn git_tool(environment: &Environment, directory: &Path) -> Result<GitProgram, Failure> {
    let program = find_program(OsStr::new("git"), &environment.path, directory)
        .map_err(|error| Failure::error(error).hint("install git 2.40 or newer"))?;
    Ok(GitProgram {
        program,
        launcher: None,
        network_env: inherited_variables(NETWORK_VARIABLES.into_iter()),
    })
}

/// Returns the base branch, its settings with the flags applied, and remarks.
pub async fn effective_settings(
    environment: &Environment,
    git: &Repository,
    options: &ProjectOptions,
) -> Result<(String, ProjectSettings, Vec<String>), Failure> {
    let (base, settings, remarks) = load_settings(environment, git, options).await?;
    Ok((base, apply_options(settings, options), remarks))
}

/// Returns the base branch, the merged settings of all files, and remarks for the person.
pub async fn load_settings(
    environment: &Environment,
    git: &Repository,
    options: &ProjectOptions,
) -> Result<(String, ProjectSettings, Vec<String>), Failure> {
    let files = config::find_files(environment, git, options.base.as_deref()).await?;
    let layered = layers::combine(&files.sources)?;
    let base = files.base;
    git.base_tip(&base).await.map_err(|error| {
        Failure::usage(format!("the base branch {base:?} does not exist: {error}"))
            .hint("choose an existing branch with --base BRANCH")
    })?;
    Ok((base, layered.project, files.remarks))
}

/// Applies the flags, which win over the files.
fn apply_options(settings: ProjectSettings, options: &ProjectOptions) -> ProjectSettings {
    let mut settings = settings;
    if !options.checks.is_empty() {
        settings.checks = options
            .checks
            .iter()
            .enumerate()
            .map(|(at, words)| flag_check(at, words))
            .collect();
    }
    settings.builder = options.builder.clone().or(settings.builder);
    if !options.reviewers.is_empty() {
        settings.reviewers.clone_from(&options.reviewers);
        // The flag names all reviewers, so agents of single reviewers in the file no longer apply.
        for reviewer in &mut settings.policy.reviewers {
            reviewer.agent = None;
        }
    }
    settings.verifier = options.verifier.clone().or(settings.verifier);
    settings.policy.max_rounds = options.max_rounds.unwrap_or(settings.policy.max_rounds);
    settings.policy.land = options.land.unwrap_or(settings.policy.land);
    settings.policy.assign_agents(&settings.reviewers);
    settings
}

/// Reads a check from a flag: `name=command`, or a command, which gets a numbered name.
pub fn flag_check(index: usize, words: &str) -> file::CheckSettings {
    let simple = |name: &str| {
        !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    let (name, command) = match words.split_once('=') {
        // Only a plain word before `=` is a name: `FOO=1 make` is a command.
        Some((name, command)) if simple(name) => (name.to_owned(), command.to_owned()),
        Some(_) | None => (format!("check-{}", index + 1), words.to_owned()),
    };
    file::CheckSettings {
        name,
        command,
        timeout_secs: file::CHECK_SECS_DEFAULT,
        parallel: false,
        coverage_min: None,
    }
}

fn build_check(settings: file::CheckSettings) -> Check {
    Check {
        name: settings.name,
        command: settings.command,
        time_limit: std::time::Duration::from_secs(settings.timeout_secs),
        parallel: settings.parallel,
        coverage_min: settings.coverage_min,
    }
}

fn build_setup(settings: file::SetupSettings) -> Result<ProjectSetup, Failure> {
    let caches: Result<Vec<CacheDir>, String> = settings
        .caches
        .iter()
        .map(|name| CacheDir::parse(name))
        .collect();
    let setup = ProjectSetup {
        command: settings.command.map(build_check),
        caches: caches.map_err(|why| Failure::usage(format!("[setup] caches: {why}")))?,
    };
    let is_in_home = |cache: &CacheDir| matches!(cache, CacheDir::Home(_));
    // A home is new for every run, so somebody has to fill the cache.
    if setup.command.is_none() && setup.caches.iter().any(is_in_home) {
        return Err(
            Failure::usage("[setup] caches: no command fills the cache in a run's home")
                .hint("set `run = \"…\"` in [setup]; it runs on the base branch"),
        );
    }
    Ok(setup)
}

/// Describes files by their number and the first three names.
fn list_files(files: &[String]) -> String {
    let names: Vec<&str> = files.iter().take(3).map(String::as_str).collect();
    let more = if files.len() > names.len() { "…" } else { "" };
    format!(
        "{} ({}{more})",
        flow::narrate::count_noun(files.len(), "uncommitted file"),
        names.join(", ")
    )
}

/// Returns a remark if there are uncommitted files, because they are not part of the run. Fails if
/// landing would have to move them.
async fn uncommitted_note(
    git: &Repository,
    settings: &ProjectSettings,
    base: &str,
) -> Result<Option<String>, Failure> {
    // Landing moves the branch and the index. In the middle of a rebase both belong to git.
    if let Some(operation) = git.unfinished_operation() {
        return Err(
            Failure::usage(format!("a {operation} is in progress in this repository")).hint(
                format!("finish it, or `git {operation} --abort`, and run again"),
            ),
        );
    }
    // Some forms of repositories cannot be moved along. That is known now and not after a paid run.
    let moves_base = !matches!(settings.policy.land, Land::Branch | Land::Pr);
    if moves_base {
        let served = git.must_serve(base).await;
        served.map_err(|error| {
            let hint = "or keep the result on its branch with --land branch";
            Failure::usage(error).hint(hint)
        })?;
    }
    // An apparent change may be a landing that is in progress, or one that was killed.
    let dirty = git.dirty_between_landings().await.map_err(Failure::error)?;
    if dirty.is_empty() {
        return Ok(None);
    }
    let files = list_files(&dirty);
    let on_base = git
        .own_branch()
        .await
        .map_err(Failure::error)?
        .is_some_and(|branch| branch == base);
    let changed = git.changed_tracked().await.map_err(Failure::error)?;
    // Only changed tracked files stand in the way; new files do not.
    if on_base && !changed.is_empty() && moves_base {
        let files = list_files(&changed);
        return Err(Failure::usage(format!(
            "your work tree is on {base} and has {files}; landing would have to move them"
        ))
        .hint("commit or stash them, or keep the result on its branch with --land branch"));
    }
    let verb = if dirty.len() == 1 { "is" } else { "are" };
    Ok(Some(format!(
        "{files} in your work tree {verb} not part of this run"
    )))
}
