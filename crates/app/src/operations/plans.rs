//! What a run would do by the project's own settings, found out without a store, a worktree or an
//! agent: nothing is written.

use std::path::Path;

use flow::policy::{Land, ReviewMode};
use serde::Serialize;

use super::project::{ProjectOptions, open, settled};
use crate::failure::Failure;
use crate::settings::Environment;
use crate::settings::file::{self, ProjectSettings as Written};

/// A seat, and who has it: an agent or a linter's command.
#[derive(Clone, Debug, Serialize)]
pub struct ReviewSeat {
    pub seat: String,
    pub by: Option<String>,
    /// Asked only before the change is let through.
    pub confirms: bool,
}

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

pub async fn plan(
    surroundings: &Environment,
    directory: &Path,
    asked: &ProjectOptions,
) -> Result<RunPlan, Failure> {
    let git = open(surroundings, directory).await?;
    let (base, written, remarks) = settled(surroundings, &git, asked).await?;
    file::sound("with these flags", &written.policy)?;
    Ok(RunPlan {
        base,
        reviewers: reviewers(&written),
        verifier: written
            .verifier
            .or_else(|| written.reviewers.first().cloned()),
        builder: written.builder,
        checks: written.checks.into_iter().map(|check| check.name).collect(),
        land: written.policy.land,
        max_rounds: written.policy.max_rounds,
        remarks,
    })
}

fn reviewers(written: &Written) -> Vec<ReviewSeat> {
    let usual = written.reviewers.first();
    let asked = written.policy.review == ReviewMode::Agents;
    let seats = written.policy.reviewers.iter().filter(|_| asked);
    seats
        .map(|seat| ReviewSeat {
            seat: seat.name.clone(),
            confirms: seat.confirms,
            by: seat
                .command
                .as_ref()
                .or(seat.agent.as_ref())
                .or(usual)
                .cloned(),
        })
        .collect()
}
