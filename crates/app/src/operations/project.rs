//! The project at hand: its repository, its rules from the base branch, and its crew.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use engine::carrier::RepoSync;
use engine::check::Check;
use engine::coordinator::{Coordinator, ProgressListener};
use engine::git::{ABROAD, GitProgram, Remote, Repository};
use engine::process::{Launcher, ProcessHost, find_program};
use engine::sandbox::SandboxProfile;
use engine::supplies::{CacheDir, ProjectSetup};
use engine::workshop::{Project, ProjectAgents, ProjectConfig};
use flow::brief::ProjectRules;
use flow::policy::Land;
use flow::ticket::Spec;
use flow::{Policy, Role, Ticket, Time};

use super::house_rules;
use super::{App, briefs, config, confinement, crew, service};
use crate::failure::Failure;
use crate::settings::Environment;
use crate::settings::file::{self, ProjectSettings as Written};
use crate::settings::layers;
use crate::settings::passed_on;
use crate::settings::ticket_file::TicketRequest;

/// What the command line says; it goes before every file.
#[derive(Clone, Debug, Default)]
pub struct ProjectOptions {
    pub base: Option<String>,
    pub builder: Option<String>,
    /// One for all seats, or one for each in turn.
    pub reviewers: Vec<String>,
    pub verifier: Option<String>,
    pub checks: Vec<String>,
    pub max_rounds: Option<u32>,
    pub land: Option<Land>,
    /// Who of the crew is ours to find; everybody where it is not said.
    pub roles: Option<Vec<Role>>,
}

impl ProjectOptions {
    /// Nobody of ours builds or judges.
    pub fn of_the_house() -> Self {
        Self {
            roles: Some(Vec::new()),
            ..Self::default()
        }
    }
}

/// A workshop, and what the person should know about how it was furnished.
#[derive(Debug)]
pub struct LoadedProject {
    pub shop: Arc<Project>,
    pub remarks: Vec<String>,
}

/// Loads projects for a worker. It has no store: a worker's tickets may be on a server.
#[derive(Clone, Debug)]
pub struct ProjectLoader {
    pub coordinator: Arc<dyn Coordinator>,
    pub clock: fn() -> Time,
    pub witness: Option<Arc<dyn ProgressListener>>,
    pub surroundings: Environment,
}

impl ProjectLoader {
    pub fn of(office: &App) -> Self {
        Self {
            coordinator: Arc::new(office.desk.clone()),
            clock: office.desk.clock,
            witness: office.desk.witness.clone(),
            surroundings: office.surroundings.clone(),
        }
    }
}

pub async fn furnish(
    office: &App,
    directory: &Path,
    asked: &ProjectOptions,
) -> Result<LoadedProject, Failure> {
    let git = open(&office.surroundings, directory).await?;
    let accepted = house_rules::accepted(office, &git).await?;
    let accepted = accepted.into_iter().map(|rule| rule.text).collect();
    let loader = ProjectLoader::of(office);
    furnish_for(&loader, directory, asked, (None, accepted)).await
}

/// The same for a worker, which may have a copy of the repository, with the rules that people accepted.
pub async fn furnish_for(
    loader: &ProjectLoader,
    directory: &Path,
    asked: &ProjectOptions,
    (carrier, accepted): (Option<RepoSync>, Vec<String>),
) -> Result<LoadedProject, Failure> {
    let surroundings = &loader.surroundings;
    let git = open(surroundings, directory).await?;
    let (base_branch, mut written, mut remarks) = settled(surroundings, &git, asked).await?;
    file::sound("with these flags", &written.policy)?;
    // To try the sandbox out takes as long as to look at the work tree.
    let (dirty, ward) = tokio::join!(
        dirty(&git, &written, &base_branch),
        confinement::ward_for(written.policy.isolation, surroundings)
    );
    remarks.extend(dirty?);
    let directory = std::path::absolute(directory).map_err(Failure::usage)?;
    // A ticket names the git directory; what is written in the project is meant from its work tree.
    let directory = if directory == git.common_dir() {
        let tree = git.main_tree().await.map_err(Failure::error)?;
        tree.unwrap_or(directory)
    } else {
        directory
    };
    let roles = asked.roles.as_deref().unwrap_or(&crew::ALL);
    let found = crew::crew(
        &mut written,
        (surroundings, &directory),
        roles,
        &mut remarks,
    );
    let crew = found.await?;
    let project = project(&git, base_branch, written, accepted).await?;
    let (shop, without) = workshop(loader, git, project, (crew, ward?));
    let shop = Project { carrier, ..shop };
    remarks.extend(without);
    Ok(LoadedProject {
        shop: Arc::new(shop),
        remarks,
    })
}

/// The workshop of a project with this crew, and what the person should know about it.
pub fn workshop(
    loader: &ProjectLoader,
    git: Repository,
    project: ProjectConfig,
    (crew, ward): (ProjectAgents, Option<SandboxProfile>),
) -> (Project, Option<String>) {
    let surroundings = &loader.surroundings;
    let host = ProcessHost {
        data_dir: surroundings.data_dir.clone(),
        launcher: Some(Launcher::hold(&surroundings.program)),
        adopts: true,
    };
    let without = ward.is_none().then(|| confinement::GOES_WITHOUT.to_owned());
    let shop = Project {
        coordinator: Arc::clone(&loader.coordinator),
        clock: loader.clock,
        witness: loader.witness.clone(),
        host,
        git,
        crew,
        project,
        carrier: None,
        path: surroundings.path.clone(),
        ward,
        server: service::callable(surroundings),
    };
    (shop, without)
}

/// The rules of the repository that a ticket belongs to, for work that others do.
pub async fn of_ticket(
    office: &App,
    ticket: &Ticket,
) -> Result<(Repository, ProjectConfig), Failure> {
    let context = &ticket.spec.context;
    let place = context.repository.as_deref().ok_or_else(|| {
        Failure::usage(format!("{} belongs to no repository", ticket.id))
            .hint("give it one with `repository` in its context")
    })?;
    let git = open(&office.surroundings, Path::new(place)).await?;
    let asked = ProjectOptions {
        base: context.base_branch.clone(),
        ..ProjectOptions::default()
    };
    let (base_branch, written, _) = settings(&office.surroundings, &git, &asked).await?;
    let project = of_office(office, &git, base_branch, written).await?;
    Ok((git, project))
}

/// Puts a new ticket into the repository that is named, and says by which policy it will be decided.
pub async fn settle(office: &App, place: &str, spec: &mut Spec) -> Result<Policy, Failure> {
    let git = open(&office.surroundings, Path::new(place)).await?;
    let asked = ProjectOptions {
        base: spec.context.base_branch.clone(),
        ..ProjectOptions::default()
    };
    let (base, written, _) = settings(&office.surroundings, &git, &asked).await?;
    spec.context.repository = Some(git.common_dir().to_string_lossy().into_owned());
    spec.context.base_branch = Some(base);
    spec.context.remote = remote(&git, &written).await?;
    Ok(written.policy)
}

/// Where workers on other machines get the repository from, as the project says.
pub async fn remote(git: &Repository, written: &Written) -> Result<Option<String>, Failure> {
    let named = match written.worker.remote.as_deref() {
        Some("origin") => git.origin().await.map_err(Failure::error)?,
        named => named.map(str::to_owned),
    };
    let wrong = |why| Failure::usage(format!("[worker] remote: {why}"));
    let remote = named.as_deref().map(Remote::parse).transpose();
    Ok(remote.map_err(wrong)?.map(|remote| remote.address()))
}

/// Puts new tickets into the repository that they are written in; where there is none, into none.
pub async fn settle_here(
    office: &App,
    directory: &Path,
    wanted: &mut [TicketRequest],
) -> Result<Policy, Failure> {
    let mut policy = Policy::default();
    if open(&office.surroundings, directory).await.is_err() {
        return Ok(policy);
    }
    for one in wanted {
        policy = settle(office, &directory.to_string_lossy(), &mut one.spec).await?;
    }
    Ok(policy)
}

/// The project with the rules that people have accepted on this machine.
pub async fn of_office(
    office: &App,
    git: &Repository,
    base_branch: String,
    written: Written,
) -> Result<ProjectConfig, Failure> {
    let accepted = house_rules::accepted(office, git).await?;
    let accepted = accepted.into_iter().map(|rule| rule.text).collect();
    project(git, base_branch, written, accepted).await
}

async fn project(
    git: &Repository,
    base_branch: String,
    written: Written,
    accepted: Vec<String>,
) -> Result<ProjectConfig, Failure> {
    let commands = written.checks.iter().map(|check| match check.coverage_min {
        Some(percent) => format!("{} (at least {percent} % of lines covered)", check.command),
        None => check.command.clone(),
    });
    let (instruction_files, role_texts) = briefs::load(git, &base_branch, &written.briefs).await?;
    Ok(ProjectConfig {
        base_branch,
        house: ProjectRules {
            rules: rules(written.rules, accepted),
            checks: commands.collect(),
            instruction_files,
            role_texts,
        },
        checks: written.checks.into_iter().map(check).collect(),
        setup: setup(written.setup)?,
        policy: written.policy,
    })
}

/// The project's own, and those that persons have accepted since.
fn rules(mut rules: Vec<String>, accepted: Vec<String>) -> Vec<String> {
    for rule in accepted {
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    rules
}

pub async fn open(surroundings: &Environment, directory: &Path) -> Result<Repository, Failure> {
    let directory = std::path::absolute(directory).map_err(Failure::usage)?;
    if !directory.is_dir() {
        return Err(Failure::usage(format!(
            "{} is no directory",
            directory.display()
        )));
    }
    let tool = git_tool(surroundings, &directory)?;
    let git = Repository::open(tool, &directory)
        .await
        .map_err(Failure::usage)?;
    git.resolve("HEAD").await.map_err(Failure::usage)?;
    Ok(git)
}

pub fn git_tool(surroundings: &Environment, directory: &Path) -> Result<GitProgram, Failure> {
    let program = find_program(OsStr::new("git"), &surroundings.path, directory)
        .map_err(|error| Failure::error(error).hint("install git 2.40 or newer"))?;
    Ok(GitProgram {
        program,
        launcher: None,
        abroad: passed_on(ABROAD.into_iter()),
    })
}

/// The base branch, and what holds there with the flags on top.
pub async fn settled(
    surroundings: &Environment,
    git: &Repository,
    asked: &ProjectOptions,
) -> Result<(String, Written, Vec<String>), Failure> {
    let (base, written, remarks) = settings(surroundings, git, asked).await?;
    Ok((base, over(written, asked), remarks))
}

/// The base branch, what the files come to, and what the person should know about that.
pub async fn settings(
    surroundings: &Environment,
    git: &Repository,
    asked: &ProjectOptions,
) -> Result<(String, Written, Vec<String>), Failure> {
    let found = config::find(surroundings, git, asked.base.as_deref()).await?;
    let layered = layers::combine(&found.sources)?;
    let base = found.base;
    git.base(&base).await.map_err(|error| {
        Failure::usage(format!("the base branch {base:?} does not exist: {error}"))
            .hint("name one that does with --base BRANCH")
    })?;
    Ok((base, layered.project, found.remarks))
}

/// Flags go before files.
fn over(written: Written, asked: &ProjectOptions) -> Written {
    let mut written = written;
    if !asked.checks.is_empty() {
        written.checks = asked
            .checks
            .iter()
            .enumerate()
            .map(|(at, words)| flag_check(at, words))
            .collect();
    }
    written.builder = asked.builder.clone().or(written.builder);
    if !asked.reviewers.is_empty() {
        written.reviewers.clone_from(&asked.reviewers);
        for seat in &mut written.policy.reviewers {
            seat.agent = None;
        }
    }
    written.verifier = asked.verifier.clone().or(written.verifier);
    written.policy.max_rounds = asked.max_rounds.unwrap_or(written.policy.max_rounds);
    written.policy.land = asked.land.unwrap_or(written.policy.land);
    written.policy.seat(&written.reviewers);
    written
}

/// `name=command`, or a command that names itself.
pub fn flag_check(at: usize, words: &str) -> file::CheckSettings {
    let simple = |name: &str| {
        !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    let (name, command) = match words.split_once('=') {
        Some((name, command)) if simple(name) => (name.to_owned(), command.to_owned()),
        Some(_) | None => (format!("check-{}", at + 1), words.to_owned()),
    };
    file::CheckSettings {
        name,
        command,
        timeout_secs: file::CHECK_SECS_DEFAULT,
        parallel: false,
        coverage_min: None,
    }
}

fn check(written: file::CheckSettings) -> Check {
    Check {
        name: written.name,
        command: written.command,
        time_limit: std::time::Duration::from_secs(written.timeout_secs),
        parallel: written.parallel,
        coverage_min: written.coverage_min,
    }
}

fn setup(written: file::SetupSettings) -> Result<ProjectSetup, Failure> {
    let caches: Result<Vec<CacheDir>, String> = written
        .caches
        .iter()
        .map(|name| CacheDir::parse(name))
        .collect();
    let setup = ProjectSetup {
        command: written.command.map(check),
        caches: caches.map_err(|why| Failure::usage(format!("[setup] caches: {why}")))?,
    };
    let of_home = |cache: &CacheDir| matches!(cache, CacheDir::Home(_));
    if setup.command.is_none() && setup.caches.iter().any(of_home) {
        return Err(
            Failure::usage("[setup] caches: nobody fills a cache in a run's home")
                .hint("say what does with `run = \"…\"` in [setup]; it is run on the base branch"),
        );
    }
    Ok(setup)
}

/// How many, and the first few of them.
fn listed(files: &[String]) -> String {
    let shown: Vec<&str> = files.iter().take(3).map(String::as_str).collect();
    let more = if files.len() > shown.len() { "…" } else { "" };
    format!(
        "{} uncommitted file(s) ({}{more})",
        files.len(),
        shown.join(", ")
    )
}

/// What lies uncommitted is not part of a run; where the run would have to move it, it does not start.
async fn dirty(git: &Repository, written: &Written, base: &str) -> Result<Option<String>, Failure> {
    if let Some(operation) = git.unfinished() {
        return Err(Failure::usage(format!(
            "a {operation} waits to be finished in this repository"
        ))
        .hint(format!(
            "finish it, or `git {operation} --abort`, and run again"
        )));
    }
    if written.policy.land != Land::Branch {
        let served = git.must_serve(base).await;
        served.map_err(|error| {
            let aside = "or keep the result on its branch with --land branch";
            Failure::usage(error).hint(aside)
        })?;
    }
    // What looks like a change may be a landing under way, or one that was killed.
    let dirty = git.dirty_at_rest().await.map_err(Failure::error)?;
    if dirty.is_empty() {
        return Ok(None);
    }
    let files = listed(&dirty);
    let on_base = git
        .own_branch()
        .await
        .map_err(Failure::error)?
        .is_some_and(|branch| branch == base);
    let changed = git.changed().await.map_err(Failure::error)?;
    if on_base && !changed.is_empty() && written.policy.land != Land::Branch {
        let files = listed(&changed);
        return Err(Failure::usage(format!(
            "your work tree is on {base} and has {files}; landing would have to move them"
        ))
        .hint("commit or stash them, or keep the result on its branch with --land branch"));
    }
    Ok(Some(format!(
        "{files} in your work tree are not part of this run"
    )))
}
