//! Records when agents call. The time is stored once per interval, because a write for each call
//! would cost too much.

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

/// Minimum time between two records of one agent.
pub const NOTE_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum number of remembered agents; the memory is cleared when it is full.
/// Names come from tokens, so their number is bounded by people. The limit is a second guard.
const KNOWN_MAX: usize = 10_000;

/// Times at which agents were last recorded.
#[derive(Debug, Default)]
pub struct AgentPresence {
    noted: Mutex<BTreeMap<String, Instant>>,
}

impl AgentPresence {
    /// Records the call of an agent in the background, so that the call does not wait for it.
    pub fn record(&self, app: &App, identity: &Identity) {
        if !self.is_due(identity) {
            return;
        }
        let agent = Agent {
            name: identity.actor.agent.clone(),
            role: identity.actor.role.as_str().to_owned(),
            seen_at: (app.coordinator.clock)(),
            body: json!({"principal": identity.actor.principal}),
        };
        let store = app.coordinator.store.clone();
        tokio::spawn(async move {
            // A lost record is no harm: the next call writes another.
            store.beat(agent).await.log_err("record a sign of life");
        });
    }

    fn is_due(&self, identity: &Identity) -> bool {
        // People and services are not missed when they are silent.
        if !matches!(
            identity.actor.role,
            Role::Builder | Role::Reviewer | Role::Verifier
        ) {
            return false;
        }
        let now = Instant::now();
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let last = noted.get(&identity.actor.agent);
        // By a monotonic clock: a changed system time must not stop the records.
        if last.is_some_and(|last| now - *last < NOTE_INTERVAL) {
            return false;
        }
        if noted.len() >= KNOWN_MAX {
            noted.clear();
        }
        noted.insert(identity.actor.agent.clone(), now);
        true
    }
}
