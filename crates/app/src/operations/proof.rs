//! Runs a project's setup and checks once on its base branch, in the sandbox, and says what works.

use std::path::Path;
use std::time::Duration;

use engine::git::Repository;
use engine::jobs::adhoc_review::clean_up;
use engine::jobs::project_proof::{ProofError, ProvenCheck, prove_project, remember_proven};
use engine::likely_fix::submodule_fix;
use engine::process::StopSignal;
use engine::project::{Project, ProjectAgents};
use serde::Serialize;

use super::project::{self, ProjectLoader, ProjectOptions};
use super::{App, sandboxing};
use crate::failure::{ExitKind, Failure};
use crate::settings::file::ProjectSettings;

/// Results of the setup and the checks on the base.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ProofReport {
    /// Commit of the base branch.
    pub base: String,
    /// The setup if it is red, else every check.
    pub checks: Vec<ProofLine>,
    /// Facts that a person should know, such as missing submodules.
    pub notes: Vec<String>,
}

/// Result of the setup or of one check.
#[derive(Clone, Debug, Serialize)]
pub struct ProofLine {
    pub name: String,
    pub green: bool,
    pub seconds: f64,
    /// End of the output of a red one.
    pub last_lines: Vec<String>,
    /// Likely fix of a red one; empty if none is known.
    pub hint: String,
}

impl ProofReport {
    pub fn is_green(&self) -> bool {
        self.checks.iter().all(|check| check.green)
    }

    /// Returns the result with this name.
    pub fn line(&self, name: &str) -> Option<&ProofLine> {
        self.checks.iter().find(|check| check.name == name)
    }
}

/// Name under which the setup reports.
pub const SETUP_NAME: &str = "setup";

/// Proves the project of a directory as its configuration is on the base branch.
pub async fn prove_configured(
    app: &App,
    directory: &Path,
    stop: StopSignal,
) -> Result<ProofReport, Failure> {
    let git = project::open_repository(&app.environment, directory).await?;
    let options = ProjectOptions::without_agents();
    let (base, settings, _) = project::load_settings(&app.environment, &git, &options).await?;
    prove(app, git, (base, settings), stop).await
}

/// Proves a project with these settings on this base branch.
pub async fn prove(
    app: &App,
    git: Repository,
    (base, settings): (String, ProjectSettings),
    stop: StopSignal,
) -> Result<ProofReport, Failure> {
    let project = build_project(app, git, (base, settings)).await?;
    let seed = format!("{} {}", app.now().0, std::process::id());
    let hash = engine::hash::short_sha256(seed.as_bytes());
    let hash: String = hash.chars().take(8).collect();
    let id = super::parse_ticket_id(&format!("proof-{hash}"))?;
    let proven = prove_project(&project, &id, stop).await;
    clean_up(&project, &id);
    let files = project.ticket_files(&id).jobs_dir();
    if let Some(dir) = files.parent() {
        // Its results are in the answer. A proof leaves no transcript that anybody could look up.
        engine::log::removed(dir, engine::git::remove_tree(dir));
    }
    let proven = proven.map_err(|error| match error {
        ProofError::Stopped => Failure::new(ExitKind::Interrupted, error),
        ProofError::Failed(_) => Failure::error(error),
    })?;
    let mut notes = Vec::new();
    if !proven.missing_submodules.is_empty() {
        notes.push(submodule_fix(&proven.missing_submodules));
    }
    Ok(ProofReport {
        base: proven.base,
        checks: proven.checks.into_iter().map(to_line).collect(),
        notes,
    })
}

/// Remembers that a base is green with these settings, whose checks a proof has shown to be green.
/// The first ticket then needs no proof of its own.
pub async fn remember(
    app: &App,
    git: Repository,
    settings: (String, ProjectSettings),
) -> Result<(), Failure> {
    let project = build_project(app, git, settings).await?;
    remember_proven(&project).await.map_err(Failure::error)
}

async fn build_project(
    app: &App,
    git: Repository,
    (base, settings): (String, ProjectSettings),
) -> Result<Project, Failure> {
    let sandbox = sandboxing::sandbox_for(settings.policy.sandbox, &app.environment).await?;
    let config = project::build_local_config(app, &git, base, settings).await?;
    let loader = ProjectLoader::of(app);
    let agents = ProjectAgents::default();
    let (project, _) = project::build_project(&loader, git, config, (agents, sandbox));
    Ok(project)
}

fn to_line(proven: ProvenCheck) -> ProofLine {
    let result = proven.result;
    let green = result.outcome.is_green();
    let lines = result.last_lines().into_iter().map(str::to_owned);
    ProofLine {
        last_lines: lines.filter(|_| !green).collect(),
        name: result.name,
        green,
        seconds: Duration::from_millis(result.wall_ms).as_secs_f64(),
        hint: proven.hint,
    }
}
