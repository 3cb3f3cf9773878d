//! Finds the agents of a project: a builder, the reviewers of the policy, a verifier, and the
//! fallback agents of each. A missing agent is replaced before the start if the policy has a
//! fallback.

use std::path::Path;

use engine::project::{AgentConfig, ProjectAgents};
use flow::Role;

use super::agents::{AgentFinder, agent_forms_help};
use crate::failure::Failure;
use crate::settings::Environment;
use crate::settings::file::{self, ProjectSettings};

/// All roles of agents.
pub const ALL_ROLES: [Role; 3] = [Role::Builder, Role::Reviewer, Role::Verifier];

/// Finds the configured agents of these roles. The remarks say which agents are missing and what
/// changes because of it.
pub async fn resolve_agents(
    settings: &mut ProjectSettings,
    (environment, directory): (&Environment, &Path),
    roles: &[Role],
    remarks: &mut Vec<String>,
) -> Result<ProjectAgents, Failure> {
    if roles.is_empty() {
        return Ok(ProjectAgents::default());
    }
    let names = RoleNames::from_settings(settings, roles)?;
    let configured = settings.clone();
    let finder = AgentFinder {
        settings: &configured,
        environment,
        directory,
    };
    let mut others = resolve_fallbacks(&finder, settings, roles, remarks).await;
    require_independent_judge(settings, &names)?;
    let mut resolver = RoleResolver {
        finder: &finder,
        builder: names.builder.as_deref().unwrap_or_default(),
        remarks,
    };
    let fallback = &settings.policy.fallback;
    let mut agents = ProjectAgents {
        builder: resolver
            .resolve_role(
                Role::Builder,
                names.builder.as_deref(),
                fallback.build.as_deref(),
            )
            .await?,
        reviewer: resolver
            .resolve_role(
                Role::Reviewer,
                names.reviewer.as_deref(),
                fallback.review.as_deref(),
            )
            .await?,
        verifier: resolver
            .resolve_role(
                Role::Verifier,
                names.verifier.as_deref(),
                fallback.verify.as_deref(),
            )
            .await?,
        others: Vec::new(),
    };
    if roles.contains(&Role::Reviewer) {
        others.extend(resolver.resolve_panel(settings).await?);
    }
    for (role, agent) in others {
        add_agent(&mut agents, role, agent);
    }
    Ok(agents)
}

fn require_independent_judge(settings: &ProjectSettings, names: &RoleNames) -> Result<(), Failure> {
    let (Some(reviewer), Some(verifier)) = (&names.reviewer, &names.verifier) else {
        return Ok(());
    };
    match settings.policy.fallback_judge_problem(reviewer, verifier) {
        Some(problem) => Err(Failure::usage(problem).hint("docs/policy.md, [policy.fallback]")),
        None => Ok(()),
    }
}

/// Finds the policy's reviewers and no builder, for a change that is only reviewed.
pub async fn resolve_reviewers(
    settings: &ProjectSettings,
    environment: &Environment,
    directory: &Path,
) -> Result<ProjectAgents, Failure> {
    let finder = AgentFinder {
        settings,
        environment,
        directory,
    };
    let mut reviewers = Vec::new();
    for name in settings
        .policy
        .reviewers
        .iter()
        .filter_map(|reviewer| reviewer.agent.as_ref())
    {
        reviewers.push(finder.resolve_agent(name, "reviewer").await?);
    }
    let first = reviewers.first().cloned();
    let verifier = match &settings.verifier {
        Some(name) if !reviewers.is_empty() => Some(finder.resolve_agent(name, "verifier").await?),
        Some(_) | None => first.clone(),
    };
    let mut agents = ProjectAgents {
        builder: None,
        reviewer: first,
        verifier,
        others: Vec::new(),
    };
    for reviewer in reviewers {
        add_agent(&mut agents, Role::Reviewer, reviewer);
    }
    Ok(agents)
}

/// Configured agent of each requested role.
struct RoleNames {
    builder: Option<String>,
    reviewer: Option<String>,
    verifier: Option<String>,
}

impl RoleNames {
    fn from_settings(settings: &ProjectSettings, roles: &[Role]) -> Result<Self, Failure> {
        let in_the_panel = || {
            let mut reviewers = settings.policy.reviewers.iter();
            reviewers.find_map(|reviewer| reviewer.agent.as_ref())
        };
        let reviewer = settings.reviewers.first().or_else(in_the_panel);
        let name_for = |role: Role, name: Option<&String>, word: &str| {
            let is_requested = roles.contains(&role);
            is_requested.then(|| require_name(name, word)).transpose()
        };
        let verifier = settings.verifier.as_ref().or(reviewer);
        Ok(Self {
            builder: name_for(Role::Builder, settings.builder.as_ref(), "builder")?,
            reviewer: name_for(Role::Reviewer, reviewer, "reviewer")?,
            verifier: name_for(Role::Verifier, verifier, "reviewer")?,
        })
    }
}

pub fn require_name(name: Option<&String>, role: &str) -> Result<String, Failure> {
    name.cloned().ok_or_else(|| {
        Failure::usage(format!("no {role} is named"))
            .hint(format!(
                "choose one with --{role} AGENT, or `{role} = \"…\"` in {}, which `countersign init` writes",
                file::NAME
            ))
            .hint(agent_forms_help())
    })
}

/// Finds the fallback agents. A missing one is left out with a remark.
async fn resolve_fallbacks(
    finder: &AgentFinder<'_>,
    settings: &mut ProjectSettings,
    roles_wanted: &[Role],
    remarks: &mut Vec<String>,
) -> Vec<(Role, AgentConfig)> {
    let policy = &mut settings.policy;
    let reviewers = policy.reviewers.iter_mut();
    let reviewers = reviewers.map(|reviewer| (Role::Reviewer, &mut reviewer.fallback));
    let roles = [
        (Role::Builder, &mut policy.fallback.build),
        (Role::Reviewer, &mut policy.fallback.review),
        (Role::Verifier, &mut policy.fallback.verify),
    ];
    let mut fallbacks = Vec::new();
    let all = roles.into_iter().chain(reviewers);
    for (role, fallback) in all.filter(|(role, _)| roles_wanted.contains(role)) {
        let Some(name) = fallback.clone() else {
            continue;
        };
        match finder.resolve_agent(&name, role.as_str()).await {
            Ok(agent) => fallbacks.push((role, agent)),
            Err(failure) => {
                remarks.push(format!("no fallback agent: {}", failure.message));
                *fallback = None;
            }
        }
    }
    fallbacks
}

/// Finds the agents of roles, and notes replacements in the remarks.
struct RoleResolver<'a> {
    finder: &'a AgentFinder<'a>,
    builder: &'a str,
    remarks: &'a mut Vec<String>,
}

impl RoleResolver<'_> {
    /// Finds the agent of a role; without a name there is none.
    async fn resolve_role(
        &mut self,
        role: Role,
        name: Option<&str>,
        fallback: Option<&str>,
    ) -> Result<Option<AgentConfig>, Failure> {
        match name {
            Some(name) => Ok(Some(self.resolve_or_fallback(name, role, fallback).await?)),
            None => Ok(None),
        }
    }

    /// Finds the agents that the policy's reviewers name.
    async fn resolve_panel(
        &mut self,
        settings: &mut ProjectSettings,
    ) -> Result<Vec<(Role, AgentConfig)>, Failure> {
        let general = settings.policy.fallback.review.clone();
        let mut reviewers = Vec::new();
        for reviewer in &mut settings.policy.reviewers {
            let Some(agent) = reviewer.agent.clone() else {
                continue;
            };
            let fallback = reviewer.fallback.clone().or_else(|| general.clone());
            let found = self
                .resolve_or_fallback(&agent, Role::Reviewer, fallback.as_deref())
                .await?;
            reviewer.agent = Some(found.configured_name.clone());
            reviewers.push((Role::Reviewer, found));
        }
        Ok(reviewers)
    }

    /// Finds the named agent, or its fallback if it is missing. The fallback of a judge is never
    /// the builder.
    async fn resolve_or_fallback(
        &mut self,
        name: &str,
        role: Role,
        fallback: Option<&str>,
    ) -> Result<AgentConfig, Failure> {
        let failure = match self.finder.resolve_agent(name, role.as_str()).await {
            Ok(agent) => return Ok(agent),
            Err(failure) => failure,
        };
        let may = |other: &&str| role == Role::Builder || *other != self.builder;
        let Some(other) = fallback.filter(may) else {
            return Err(failure);
        };
        let agent = self.finder.resolve_agent(other, role.as_str()).await?;
        self.remarks
            .push(format!("{}; {other} takes over", failure.message));
        Ok(agent)
    }
}

/// Adds an agent to a role, under a name that is unique in it.
fn add_agent(agents: &mut ProjectAgents, role: Role, mut agent: AgentConfig) {
    if agents
        .agent_for(role, Some(&agent.configured_name))
        .is_some()
    {
        return;
    }
    let name = agent.name.trim_end_matches(')').to_owned();
    for number in 2..100 {
        if agents.agent_for(role, Some(&agent.name)).is_none() {
            break;
        }
        agent.name = format!("{name} {number})");
    }
    agents.others.push((role, agent));
}
