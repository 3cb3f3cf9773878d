//! Agents, queues and providers that are given nothing for now, and who has been seen.

use store::{Agent, Pause, Scope};

use super::Office;
use crate::failure::Failure;

/// Gives nothing more until then, or until somebody ends it.
pub async fn pause(
    office: &Office,
    scope: Scope,
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
pub async fn resume(office: &Office, scope: &Scope) -> Result<bool, Failure> {
    Ok(office.desk.store.resume(scope).await?)
}

/// Agents and workers that have given a sign of life.
pub async fn seen(office: &Office) -> Result<Vec<Agent>, Failure> {
    Ok(office.desk.store.agents().await?)
}
