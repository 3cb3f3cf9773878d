//! Plans a run from the project's settings, without a store, a worktree or an agent. It writes
//! nothing.

use std::path::Path;

use flow::policy::{Land, ReviewMode};
use serde::Serialize;

use super::project::{ProjectOptions, effective_settings, open_repository};
use crate::failure::Failure;
use crate::settings::Environment;
use crate::settings::file::{self, ProjectSettings};

/// A reviewer of the policy, and its agent or linter command.
#[derive(Clone, Debug, Serialize)]
pub struct PlannedReviewer {
    pub name: String,
    pub by: Option<String>,
    /// True if the reviewer is asked only after the others have approved.
    pub second_reviewer: bool,
}

/// Agents, checks and limits of a run.
#[derive(Clone, Debug, Serialize)]
pub struct RunPlan {
    pub base: String,
    pub builder: Option<String>,
    pub reviewers: Vec<PlannedReviewer>,
    pub verifier: Option<String>,
    pub checks: Vec<String>,
    pub land: Land,
    pub max_rounds: u32,
    /// The preset by today's name, if one is named.
    pub preset: Option<String>,
    pub remarks: Vec<String>,
}

/// Plans a run in a directory.
pub async fn plan_run(
    environment: &Environment,
    directory: &Path,
    options: &ProjectOptions,
) -> Result<RunPlan, Failure> {
    let git = open_repository(environment, directory).await?;
    let (base, settings, remarks) = effective_settings(environment, &git, options).await?;
    file::validate_policy("with these flags", &settings.policy)?;
    Ok(RunPlan {
        base,
        reviewers: reviewers(&settings),
        verifier: settings
            .verifier
            .or_else(|| settings.reviewers.first().cloned()),
        builder: settings.builder,
        checks: settings
            .checks
            .into_iter()
            .map(|check| check.name)
            .collect(),
        land: settings.policy.land,
        max_rounds: settings.policy.max_rounds,
        preset: settings.preset,
        remarks,
    })
}

fn reviewers(settings: &ProjectSettings) -> Vec<PlannedReviewer> {
    let default_agent = settings.reviewers.first();
    let has_agents = settings.policy.review == ReviewMode::Agents;
    let reviewers = settings.policy.reviewers.iter().filter(|_| has_agents);
    reviewers
        .map(|reviewer| PlannedReviewer {
            name: reviewer.name.clone(),
            second_reviewer: reviewer.second_reviewer,
            by: reviewer
                .command
                .as_ref()
                .or(reviewer.agent.as_ref())
                .or(default_agent)
                .cloned(),
        })
        .collect()
}
