//! Any agent that speaks the Agent Client Protocol: JSON-RPC over its stdin and stdout, a message a
//! line. It promises nothing about what it writes; only the sandbox makes a judge of it.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::tools::{self, SERVER};
use super::{Adapter, AgentAssignment, AgentEvent, AgentRole, CommandAgent, Dialogue, Invocation};

mod dialogue;
mod update;

pub use dialogue::AcpConversation;

/// Its name in the record of a run.
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

    fn events(&self, line: &str) -> Option<Vec<AgentEvent>> {
        events(line)
    }

    fn dialogue(&self, assignment: &AgentAssignment) -> Option<Box<dyn Dialogue>> {
        Some(Box::new(AcpConversation::new(
            assignment.dir.clone(),
            assignment.brief.clone(),
            AcpPermissions {
                edits: assignment.role == AgentRole::Build,
                runs: assignment.role == AgentRole::Build || assignment.confinement.is_some(),
            },
            server(assignment),
        )))
    }

    fn reads(&self) -> Vec<PathBuf> {
        self.0.reads()
    }

    fn cure(&self) -> String {
        format!("log in by the agent's own means: {}", self.0.name())
    }
}

/// Our server as a session is told of it: over the agent's stdin, in the token's own letters.
fn server(assignment: &AgentAssignment) -> Option<Value> {
    let tools = assignment.tools.as_ref()?;
    let bearer = format!("Bearer {}", tools::token(assignment)?.to_str()?);
    Some(json!({
        "type": "http",
        "name": SERVER,
        "url": tools.url,
        "headers": [{"name": "Authorization", "value": bearer}],
    }))
}

/// What is answered when the agent asks whether it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcpPermissions {
    pub edits: bool,
    pub runs: bool,
}

/// What a line of the agent's tells by itself, whatever was asked before: for transcripts.
pub(super) fn events(line: &str) -> Option<Vec<AgentEvent>> {
    let message: Value = serde_json::from_str(line).ok()?;
    message.get("jsonrpc")?;
    Some(match message["method"].as_str() {
        Some("session/update") => update::events(&message["params"]["update"]),
        _ => Vec::new(),
    })
}
