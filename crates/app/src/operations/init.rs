//! Proposes and writes the first configuration of a project from what it detects.

mod template;

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};

use engine::git::Repository;
use engine::process::{StopSignal, find_program};
use serde::Serialize;

use super::agents::{self, DetectedCli};
use super::proof::{self, ProofReport, SETUP_NAME};
use super::{App, config, project};
use crate::failure::{ExitKind, Failure};
use crate::settings::Environment;
use crate::settings::config_problems;
use crate::settings::detect::{DetectedProject, detect, has_manifest};
use crate::settings::file::{self, NAME};

/// Detected facts, and the text of the configuration file.
#[derive(Clone, Debug, Serialize)]
pub struct ConfigProposal {
    /// Path of the new file.
    pub file: PathBuf,
    pub base: String,
    #[serde(flatten)]
    pub detected: DetectedProject,
    pub agents: Vec<DetectedCli>,
    pub builder: Option<&'static str>,
    pub reviewer: Option<&'static str>,
    /// Results of the proposed setup and checks on the base; absent if they were not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proof: Option<ProofReport>,
    pub text: String,
}

/// Inspects the project; refuses if it has a configuration.
pub async fn propose(
    environment: &Environment,
    directory: &Path,
) -> Result<ConfigProposal, Failure> {
    let git = project::open_repository(environment, directory).await?;
    let Some(root) = git.work_tree() else {
        return Err(
            Failure::usage("this repository has no work tree to write into")
                .hint("run it in a clone"),
        );
    };
    let file = root.join(NAME);
    let files = config::find_files(environment, &git, None).await;
    if file.exists() {
        return Err(already_exists_error(&file.display().to_string()));
    }
    let on_base = files.as_ref().ok().and_then(|files| {
        let mut names = files.sources.iter().map(|source| &source.name);
        names.find(|name| name.starts_with(NAME))
    });
    if let Some(name) = on_base {
        return Err(already_exists_error(name));
    }
    let base = git.default_base().await.map_err(Failure::usage)?;
    let agents = agents::detect_clis(environment, directory);
    let (builder, reviewer) = pick_agents(&agents);
    let below = member_directory(root, directory);
    let installed = |name: &str| find_program(OsStr::new(name), &environment.path, root).is_ok();
    let mut detected = detect(root, &below, &installed);
    detected
        .notes
        .extend(repository_notes(&git, &base, root).await?);
    let mut proposal = ConfigProposal {
        file,
        base,
        detected,
        agents,
        builder,
        reviewer,
        proof: None,
        text: String::new(),
    };
    proposal.text = template::text(&proposal);
    validate(&proposal.text)?;
    Ok(proposal)
}

/// Returns the directory below the root that the person is in, if it is a member of its own.
fn member_directory(root: &Path, directory: &Path) -> PathBuf {
    let (Ok(root), Ok(directory)) = (root.canonicalize(), directory.canonicalize()) else {
        return PathBuf::new();
    };
    let around = directory.ancestors();
    let around = around.take_while(|dir| dir.starts_with(&root) && *dir != root);
    let mut members = around.filter(|dir| has_manifest(dir));
    let member = members.next().and_then(|dir| dir.strip_prefix(&root).ok());
    member.map(Path::to_owned).unwrap_or_default()
}

/// Describes submodules that are missing, and files of Git LFS.
async fn repository_notes(
    git: &Repository,
    base: &str,
    root: &Path,
) -> Result<Vec<String>, Failure> {
    let mut notes = Vec::new();
    let tip = git.base_tip(base).await.map_err(Failure::usage)?;
    let missing = git.missing_submodules(&tip).await;
    let missing = missing.map_err(Failure::error)?;
    if !missing.is_empty() {
        notes.push(engine::likely_fix::submodule_fix(&missing));
    }
    let attributes = std::fs::read_to_string(root.join(".gitattributes")).unwrap_or_default();
    if attributes.contains("filter=lfs") {
        notes.push(
            "Git LFS: checkouts have the small pointer files that git stores, not the large files; \
             checks that need the large ones have to fetch them in [setup]"
                .to_owned(),
        );
    }
    Ok(notes)
}

/// Runs the proposed setup and checks once on the base, in the sandbox, and keeps in the file what
/// worked. If the first way to set the project up does not work, the second is tried.
pub async fn prove(
    app: &App,
    directory: &Path,
    proposal: &mut ConfigProposal,
    stop: StopSignal,
) -> Result<(), Failure> {
    let detected = &proposal.detected;
    if detected.checks.is_empty() && detected.setup.is_none() {
        return Ok(());
    }
    let mut report = prove_text(app, directory, proposal, stop.clone()).await?;
    let green = |report: &ProofReport| report.checks.iter().filter(|check| check.green).count();
    if let Some(other) = proposal.detected.other_setup.clone()
        && green(&report) == 0
    {
        let mut second = proposal.clone();
        second.detected.setup = other.run;
        second.detected.caches = other.caches;
        second.text = template::text(&second);
        let second_report = prove_text(app, directory, &second, stop).await?;
        if green(&second_report) > 0 {
            *proposal = second;
            report = second_report;
        }
    }
    // The file will have the green checks only. Without this, the first ticket would run them again.
    let is_partly_green = green(&report) > 0 && !report.is_green();
    proposal.proof = Some(report);
    proposal.text = template::text(proposal);
    validate(&proposal.text)?;
    if is_partly_green && !proposal.is_setup_red() {
        let git = project::open_repository(&app.environment, directory).await?;
        let settings = file::read(NAME, &proposal.text)?;
        proof::remember(app, git, (proposal.base.clone(), settings)).await?;
    }
    Ok(())
}

async fn prove_text(
    app: &App,
    directory: &Path,
    proposal: &ConfigProposal,
    stop: StopSignal,
) -> Result<ProofReport, Failure> {
    let git = project::open_repository(&app.environment, directory).await?;
    let settings = file::read(NAME, &proposal.text)?;
    proof::prove(app, git, (proposal.base.clone(), settings), stop).await
}

impl ConfigProposal {
    /// Returns whether the setup was red when it was tried.
    pub fn is_setup_red(&self) -> bool {
        let proof = self.proof.as_ref();
        proof.is_some_and(|proof| proof.line(SETUP_NAME).is_some_and(|line| !line.green))
    }
}

fn already_exists_error(name: &str) -> Failure {
    Failure::new(
        ExitKind::Refused,
        format!("{name} already exists and is left as it is"),
    )
    .hint("look at it with `countersign config show` and `countersign config check`")
}

/// Picks the first agent as builder and the next one as reviewer; with only one, it gets both
/// roles.
fn pick_agents(agents: &[DetectedCli]) -> (Option<&'static str>, Option<&'static str>) {
    let builder = agents.first();
    let other = agents
        .iter()
        .find(|agent| Some(agent.name) != builder.map(|first| first.name));
    let name = |agent: &DetectedCli| agent.name;
    (builder.map(name), other.or(builder).map(name))
}

/// Checks the text with the same rules as a person's file.
fn validate(text: &str) -> Result<(), Failure> {
    let problems = config_problems::find_problems(text);
    match problems.first() {
        None => Ok(()),
        Some(problem) => Err(Failure::error(problem.display_with_name(NAME))),
    }
}

/// Writes the file; refuses if it was created in the meantime.
pub fn write(proposal: &ConfigProposal) -> Result<(), Failure> {
    let file = &proposal.file;
    let opened = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(file);
    let mut opened = opened.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => already_exists_error(&file.display().to_string()),
        _ => Failure::error(format!("{} cannot be written: {error}", file.display())),
    })?;
    opened
        .write_all(proposal.text.as_bytes())
        .map_err(|error| Failure::error(format!("{}: {error}", file.display())))
}
