//! Our own tools for an agent that we start: the server that it may call about its work, as each
//! CLI's configuration names one.
//!
//! The token is in the agent's environment and nowhere else: what is written here only refers to
//! the variable, so arguments and files can be read by anybody.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{AgentAssignment, AgentEvent};

/// The server's name in the configuration; the tools' names begin with it.
pub(super) const SERVER: &str = "countersign";
/// The variable that has the token.
pub const TOKEN: &str = "COUNTERSIGN_TOKEN";

/// Where the tools are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpEndpoint {
    /// Of the endpoint that speaks MCP.
    pub url: String,
}

impl McpEndpoint {
    /// Of the server that answers there.
    pub fn of(server: &str) -> Self {
        Self {
            url: format!("{}/mcp", server.trim_end_matches('/')),
        }
    }
}

/// The list of servers as most CLIs take it: ours alone, with these particulars, and the variable as
/// most of them refer to one.
pub(super) fn listed(mut particulars: Value) -> Value {
    particulars["headers"] = headers(&format!("${{{TOKEN}}}"));
    json!({SERVER: particulars})
}

/// `token` is a reference to it, in the words of whoever expands it.
pub(super) fn headers(token: &str) -> Value {
    json!({"Authorization": format!("Bearer {token}")})
}

/// Where the configuration goes, for CLIs that take a file for it alone.
pub(super) fn file(assignment: &AgentAssignment) -> PathBuf {
    assignment.scratch.join("mcp.json")
}

/// That file with our server alone in it, and what else the CLI wants to know about it.
pub(super) fn list_in_file(
    assignment: &AgentAssignment,
    mut more: Value,
) -> Option<(PathBuf, String)> {
    let tools = assignment.tools.as_ref()?;
    more["type"] = "http".into();
    more["url"] = tools.url.as_str().into();
    let text = json!({"mcpServers": listed(more)}).to_string();
    Some((file(assignment), text))
}

/// The token itself, for a protocol that knows no variables.
pub(super) fn token(assignment: &AgentAssignment) -> Option<&OsString> {
    let mut known = assignment.env.iter();
    let found = known.find(|(name, _)| name == OsStr::new(TOKEN));
    found.map(|(_, token)| token)
}

/// What a CLI says of a server's state: something, if the server is ours and not to be had.
pub(super) fn state(name: &Value, status: &Value, error: &Value) -> Option<AgentEvent> {
    let status = status.as_str().filter(|_| *name == SERVER)?;
    if ["connected", "connecting", "pending"].contains(&status) {
        return None;
    }
    let why = error.as_str().unwrap_or(status).to_owned();
    Some(AgentEvent::Unconnected { why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_server_counts_and_only_when_it_is_not_to_be_had() {
        let told =
            |name: &str, status: &str, error: Value| state(&name.into(), &status.into(), &error);
        for fine in ["connected", "pending", "connecting"] {
            assert_eq!(told("countersign", fine, Value::Null), None);
        }
        assert_eq!(told("another", "failed", Value::Null), None);
        let why = |why: &str| {
            let why = why.to_owned();
            Some(AgentEvent::Unconnected { why })
        };
        assert_eq!(
            told("countersign", "needs-auth", Value::Null),
            why("needs-auth")
        );
        assert_eq!(
            told("countersign", "failed", "HTTP 404".into()),
            why("HTTP 404")
        );
    }

    #[test]
    fn the_endpoint_is_below_the_server_s_address() {
        assert_eq!(McpEndpoint::of("https://host:1/").url, "https://host:1/mcp");
    }
}
