//! Pauses of agents, queues and providers, limits of providers, and the list of known agents.

use std::collections::BTreeSet;

use flow::Queue;
use serde_json::json;
use store::{Agent, Pause, PauseScope};

use super::forge_work::{NEWS_QUEUE, REVIEW_QUEUE};
use super::{App, tasks};
use crate::failure::Failure;

/// Pauses an agent, a queue or a provider for a time, or until somebody ends the pause.
pub async fn pause(
    app: &App,
    scope: PauseScope,
    why: &str,
    for_secs: Option<u64>,
) -> Result<Pause, Failure> {
    let now = (app.coordinator.clock)();
    let pause = Pause {
        scope,
        until: for_secs.map(|secs| now.plus_ms(secs.saturating_mul(1000))),
        why: findings::clean(why),
        by: app.person().agent,
    };
    app.coordinator.store.pause(pause.clone()).await?;
    Ok(pause)
}

/// Returns a note if nothing here has the name of a pause: a misspelt name holds back nothing. The
/// pause is valid all the same, because an agent may be paused before it calls for the first time.
pub fn unknown_name_note(scope: &PauseScope, agents: &[Agent]) -> Option<String> {
    match scope {
        PauseScope::Queue(name) => {
            let queue = Queue::from(name.as_str());
            let is_known = queue.is_of_loop()
                || [NEWS_QUEUE, REVIEW_QUEUE].contains(&name.as_str())
                || (agents.iter()).any(|agent| tasks::queues_of(&agent.name).contains(&queue));
            let of_tickets = "build, check, review, verify and merge";
            (!is_known).then(|| {
                format!("no agent or worker called {name:?} has called yet, and the queues of tickets are {of_tickets}; the pause holds when one of this name calls")
            })
        }
        PauseScope::Agent(name) => {
            let is_known =
                is_known_provider(name) || agents.iter().any(|agent| agent.name == *name);
            (!is_known).then(|| {
                format!("no agent called {name:?} has called yet; the pause holds when one does")
            })
        }
        PauseScope::Provider(name) => (!is_known_provider(name)).then(|| {
            format!("Countersign knows no agent CLI called {name:?}; the pause holds only for a `command:` agent whose program has this name")
        }),
    }
}

/// Ends a pause; returns false if there was none.
pub async fn resume(app: &App, scope: &PauseScope) -> Result<bool, Failure> {
    Ok(app.coordinator.store.resume(scope).await?)
}

/// Pauses these agents, and ends the caller's other pauses; pauses of other people stay. Returns
/// the agents whose pause changed, and whether each is paused now.
pub async fn sync_agent_pauses(
    app: &App,
    agents: &BTreeSet<String>,
    why: &str,
) -> Result<Vec<(String, bool)>, Failure> {
    let in_force = app.coordinator.store.pauses().await?;
    let requested: Vec<PauseScope> = agents.iter().flat_map(|agent| scopes(agent)).collect();
    let mut changed = Vec::new();
    for scope in &requested {
        if in_force.iter().all(|pause| pause.scope != *scope) {
            pause(app, scope.clone(), why, None).await?;
            changed.extend(agent_of(scope).map(|agent| (agent, true)));
        }
    }
    let caller = app.person().agent;
    for pause in in_force.iter().filter(|pause| pause.by == caller) {
        if !requested.contains(&pause.scope) && resume(app, &pause.scope).await? {
            changed.extend(agent_of(&pause.scope).map(|agent| (agent, false)));
        }
    }
    Ok(changed)
}

/// Returns the scopes of an agent's pause: the agent, and the queue that its replicas share.
fn scopes(agent: &str) -> Vec<PauseScope> {
    let mut scopes = vec![PauseScope::Agent(agent.to_owned())];
    scopes.extend(tasks::queue_name(agent).map(PauseScope::Queue));
    scopes
}

fn agent_of(scope: &PauseScope) -> Option<String> {
    match scope {
        PauseScope::Agent(name) => Some(name.clone()),
        PauseScope::Queue(_) | PauseScope::Provider(_) => None,
    }
}

/// Limits the jobs of a provider that all workers together may hold, and notes the change in the
/// log.
pub async fn set_provider_limit(
    app: &App,
    provider: &str,
    most: Option<u32>,
) -> Result<(), Failure> {
    if provider.trim().is_empty() || provider != findings::one_line(provider) {
        return Err(Failure::usage(format!("{provider:?} is not a provider"))
            .hint("use a name from `countersign agent list`: claude, codex, gemini, …"));
    }
    app.coordinator.store.limit_provider(provider, most).await?;
    let body = json!({"provider": provider, "most": most});
    app.note("provider_limited", body).await
}

/// Whether the name is one of the agent CLIs that Countersign knows. The provider of a `command:`
/// agent is the name of its program, which cannot be checked.
pub fn is_known_provider(name: &str) -> bool {
    engine::agent::registry::find_cli(name).is_some()
}

pub async fn provider_limits(app: &App) -> Result<Vec<(String, u32)>, Failure> {
    Ok(app.coordinator.store.restrictions().await?.provider_limits)
}

/// Lists the agents and workers that have ever called.
pub async fn known_agents(app: &App) -> Result<Vec<Agent>, Failure> {
    Ok(app.coordinator.store.agents().await?)
}
