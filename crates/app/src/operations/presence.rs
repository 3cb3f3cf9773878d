//! Who is there: an agent that calls has given a sign of life. It is noted often enough to be
//! believed, and seldom enough to cost nothing.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use engine::log::LogErr;
use flow::Role;
use serde_json::json;
use store::Agent;
use tokio::time::Instant;

use super::App;
use super::identity::Identity;

/// Of one agent no more than one sign is noted in this time.
pub const EVERY: Duration = Duration::from_secs(10);
/// More agents are noted at each call.
const KNOWN_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub struct AgentPresence {
    noted: Mutex<BTreeMap<String, Instant>>,
}

impl AgentPresence {
    /// Notes that the agent is there; whoever called does not wait for it.
    pub fn sign(&self, office: &App, speaker: &Identity) {
        if !self.is_due(speaker) {
            return;
        }
        let agent = Agent {
            name: speaker.actor.agent.clone(),
            role: speaker.actor.role.word().to_owned(),
            seen_at: (office.desk.clock)(),
            body: json!({"principal": speaker.actor.principal}),
        };
        let store = office.desk.store.clone();
        tokio::spawn(async move {
            // The next sign is as good.
            store.beat(agent).await.log_err("record a sign of life");
        });
    }

    fn is_due(&self, speaker: &Identity) -> bool {
        if !matches!(
            speaker.actor.role,
            Role::Builder | Role::Reviewer | Role::Verifier
        ) {
            return false;
        }
        let now = Instant::now();
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let last = noted.get(&speaker.actor.agent);
        if last.is_some_and(|last| now - *last < EVERY) {
            return false;
        }
        if noted.len() >= KNOWN_MAX {
            noted.clear();
        }
        noted.insert(speaker.actor.agent.clone(), now);
        true
    }
}
