//! A session that a later run can resume, as a text that callers store for us.

use serde::{Deserialize, Serialize};

use super::AgentUsage;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumableSession {
    /// Format name of the agent; an agent can resume only its own sessions.
    pub agent: String,
    pub id: String,
    /// Usage of the session so far, for agents that report session totals.
    #[serde(default)]
    pub spent: AgentUsage,
}

impl ResumableSession {
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses a session of this agent. Returns `None` for any other text or an earlier format; the
    /// run then starts a new session.
    pub fn from_text(text: &str, agent: &str) -> Option<Self> {
        let session: Self = serde_json::from_str(text).ok()?;
        (session.agent == agent).then_some(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_read_by_its_own_agent_only() {
        let session = ResumableSession {
            agent: "codex".to_owned(),
            id: "t-1".to_owned(),
            spent: AgentUsage::default(),
        };
        let text = session.to_text();
        assert_eq!(ResumableSession::from_text(&text, "codex"), Some(session));
        assert_eq!(ResumableSession::from_text(&text, "claude"), None);
        assert_eq!(ResumableSession::from_text("s-1", "claude"), None);
    }
}
