//! Any agent that speaks the Agent Client Protocol: JSON-RPC over stdin and stdout, one message
//! per line. It gives no guarantee about its writes, so only the sandbox makes it usable as a
//! reviewer.

use serde_json::{Value, json};

use super::mcp::{self, SERVER};
use super::{
    Adapter, AgentAccess, AgentAssignment, AgentEvent, AgentRole, CommandAgent, Dialogue,
    Invocation,
};

mod dialogue;
mod update;

pub use dialogue::AcpConversation;

/// Name of the format in the record of a run.
pub(super) const FORMAT: &str = "acp";

/// A program that speaks the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcpAgent(pub CommandAgent);

impl Adapter for AcpAgent {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn format(&self) -> &'static str {
        FORMAT
    }

    fn invocation(&self, _: &AgentAssignment) -> Invocation {
        Invocation {
            program: self.0.program.clone(),
            args: self.0.args.clone(),
            ..Invocation::default()
        }
    }

    fn parse_line(&self, line: &str) -> Option<Vec<AgentEvent>> {
        events(line)
    }

    fn dialogue(&self, assignment: &AgentAssignment) -> Option<Box<dyn Dialogue>> {
        Some(Box::new(AcpConversation::new(
            assignment.dir.clone(),
            assignment.brief.clone(),
            AcpPermissions {
                edits: assignment.role == AgentRole::Build,
                runs: assignment.role == AgentRole::Build || assignment.sandbox.is_some(),
            },
            mcp_server(assignment),
        )))
    }

    fn access(&self) -> AgentAccess {
        self.0.access()
    }

    fn login_hint(&self) -> String {
        format!("log in with the agent's own command: {}", self.0.name())
    }
}

/// Returns our MCP server for a new session. It goes over the agent's stdin with the token itself,
/// because the protocol has no reference to a variable.
fn mcp_server(assignment: &AgentAssignment) -> Option<Value> {
    let tools = assignment.mcp_endpoint.as_ref()?;
    let bearer = format!("Bearer {}", mcp::token(assignment)?.to_str()?);
    Some(json!({
        "type": "http",
        "name": SERVER,
        "url": tools.url,
        "headers": [{"name": "Authorization", "value": bearer}],
    }))
}

/// Answers to the agent's permission requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcpPermissions {
    pub edits: bool,
    pub runs: bool,
}

/// Parses a line without the state of the conversation, for transcripts.
pub(super) fn events(line: &str) -> Option<Vec<AgentEvent>> {
    let message: Value = serde_json::from_str(line).ok()?;
    message.get("jsonrpc")?;
    Some(match message["method"].as_str() {
        Some("session/update") => update::events(&message["params"]["update"]),
        _ => Vec::new(),
    })
}
