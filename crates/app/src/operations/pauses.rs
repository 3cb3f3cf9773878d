//! Agents, queues and providers that are given nothing for now or only so much, and who has been seen.

use std::collections::BTreeSet;

use serde_json::json;
use store::{Agent, Pause, PauseScope};

use super::App;
use crate::failure::Failure;

/// Gives nothing more until then, or until somebody ends it.
pub async fn pause(
    office: &App,
    scope: PauseScope,
    why: &str,
    for_secs: Option<u64>,
) -> Result<Pause, Failure> {
    let now = (office.desk.clock)();
    let pause = Pause {
        scope,
        until: for_secs.map(|secs| now.plus_ms(secs.saturating_mul(1000))),
        why: findings::clean(why),
        by: office.person().agent,
    };
    office.desk.store.pause(pause.clone()).await?;
    Ok(pause)
}

/// False where there was no such pause.
pub async fn resume(office: &App, scope: &PauseScope) -> Result<bool, Failure> {
    Ok(office.desk.store.resume(scope).await?)
}

/// Keeps these agents paused, and of those that this speaker paused no others; what somebody else
/// paused is theirs to end. Each agent for whom that changed something, and whether it is paused now.
pub async fn keep(
    office: &App,
    agents: &BTreeSet<String>,
    why: &str,
) -> Result<Vec<(String, bool)>, Failure> {
    let in_force = office.desk.store.pauses().await?;
    let wanted: Vec<PauseScope> = agents.iter().flat_map(|agent| scopes(agent)).collect();
    let mut changed = Vec::new();
    for scope in &wanted {
        if in_force.iter().all(|pause| pause.scope != *scope) {
            pause(office, scope.clone(), why, None).await?;
            changed.extend(agent_of(scope).map(|agent| (agent, true)));
        }
    }
    let ours = office.person().agent;
    for pause in in_force.iter().filter(|pause| pause.by == ours) {
        if !wanted.contains(&pause.scope) && resume(office, &pause.scope).await? {
            changed.extend(agent_of(&pause.scope).map(|agent| (agent, false)));
        }
    }
    Ok(changed)
}

/// The agent itself, and the queue that its replicas share.
fn scopes(agent: &str) -> Vec<PauseScope> {
    let mut scopes = vec![PauseScope::Agent(agent.to_owned())];
    scopes.extend(super::tasks::queue_name(agent).map(PauseScope::Queue));
    scopes
}

fn agent_of(scope: &PauseScope) -> Option<String> {
    match scope {
        PauseScope::Agent(name) => Some(name.clone()),
        PauseScope::Queue(_) | PauseScope::Provider(_) => None,
    }
}

/// How many jobs of a provider all workers together may hold at once; it is noted who said so.
pub async fn limit(office: &App, provider: &str, most: Option<u32>) -> Result<(), Failure> {
    if provider.trim().is_empty() || provider != findings::one_line(provider) {
        return Err(Failure::usage(format!("{provider:?} is no provider"))
            .hint("name it as `countersign agent list` does: claude, codex, gemini, …"));
    }
    office.desk.store.limit_provider(provider, most).await?;
    let body = json!({"provider": provider, "most": most});
    office.note("provider_limited", body).await
}

pub async fn limits(office: &App) -> Result<Vec<(String, u32)>, Failure> {
    Ok(office.desk.store.restrictions().await?.provider_limits)
}

/// Agents and workers that have given a sign of life.
pub async fn seen(office: &App) -> Result<Vec<Agent>, Failure> {
    Ok(office.desk.store.agents().await?)
}
