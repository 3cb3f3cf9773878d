//! Whole tickets through the built program, on real repositories, with scripted crews.

mod agents;
mod answer_form;
mod bad_builders;
mod bad_reviews;
mod base;
mod briefs;
mod builders;
mod clean;
mod commands;
mod costs;
mod demo;
mod dependencies;
mod epics;
mod escalations;
mod export;
mod gate;
mod git_layouts;
mod hostile;
pub mod learning;
mod loop_ends;
mod moving_targets;
mod other_forges;
mod proof;
pub mod pull_requests;
mod review;
mod reviewers;
mod run;
mod session_hook;
mod setup;
mod upgrade;
mod weak_sandboxes;

use crate::support::{Ran, TICKET, World};
use serde_json::Value;

/// Runs the ticket `greet` with this crew to wherever it rests.
pub fn greet(world: &World, crew: &Value) -> Ran {
    greet_with(world, crew, &[])
}

fn greet_with(world: &World, crew: &Value, more: &[&str]) -> Ran {
    let (ticket, agent) = (world.put("greet.md", TICKET), world.crew(crew));
    let words = ["run", &ticket, "--builder", &agent, "--reviewer", &agent];
    world.call(&[&words, more].concat())
}

/// The same ticket again, from where it stands.
fn go_on(world: &World, crew: &Value) -> Ran {
    let agent = world.crew(crew);
    world.call(&["run", "greet", "--builder", &agent, "--reviewer", &agent])
}

fn resolve(world: &World, words: &[&str]) -> Ran {
    world.call(&[&["escalation", "resolve", "greet"], words].concat())
}

/// A file as it is on a branch.
fn on(world: &World, branch: &str, file: &str) -> String {
    world.git(&["show", &format!("{branch}:{file}")])
}

fn merges(world: &World) -> usize {
    let list = world.git(&["rev-list", "--merges", "main"]);
    list.lines().count()
}
