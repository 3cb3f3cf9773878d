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
pub struct ReviewSeat {
    pub seat: String,
    pub by: Option<String>,
    /// True if the reviewer is asked only after the others have approved.
    pub second_reviewer: bool,
}

/// Agents, checks and limits of a run.
#[derive(Clone, Debug, Serialize)]
pub struct RunPlan {
    pub base: String,
    pub builder: Option<String>,
    pub reviewers: Vec<ReviewSeat>,
    pub verifier: Option<String>,
    pub checks: Vec<String>,
    pub land: Land,
    pub max_rounds: u32,
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
        remarks,
    })
}

fn reviewers(settings: &ProjectSettings) -> Vec<ReviewSeat> {
    let default_agent = settings.reviewers.first();
    let has_agents = settings.policy.review == ReviewMode::Agents;
    let seats = settings.policy.reviewers.iter().filter(|_| has_agents);
    seats
        .map(|seat| ReviewSeat {
            seat: seat.name.clone(),
            second_reviewer: seat.second_reviewer,
            by: seat
                .command
                .as_ref()
                .or(seat.agent.as_ref())
                .or(default_agent)
                .cloned(),
        })
        .collect()
}
