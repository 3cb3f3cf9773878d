//! A session that a later run can go on in, as one text that others keep for us.

use serde::{Deserialize, Serialize};

use super::AgentUsage;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumableSession {
    /// Whose it is; nobody else's means anything to an agent.
    pub agent: String,
    pub id: String,
    /// What had been spent in it, where the agent counts on from there.
    #[serde(default)]
    pub spent: AgentUsage,
}

impl ResumableSession {
    pub fn written(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// None for what is not one of ours, or of an earlier form: one begins anew then.
    pub fn read(text: &str, agent: &str) -> Option<Self> {
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
        let text = session.written();
        assert_eq!(ResumableSession::read(&text, "codex"), Some(session));
        assert_eq!(ResumableSession::read(&text, "claude"), None);
        assert_eq!(ResumableSession::read("s-1", "claude"), None);
    }
}
