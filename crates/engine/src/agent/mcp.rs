//! Configures our MCP server for agents that we start, in the form of each CLI.
//!
//! The token is only in the agent's environment: configuration refers to the variable, so
//! arguments and files may be read by anyone.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{AgentAssignment, AgentEvent};

/// The server's name in the configuration; tool names start with it.
pub(super) const SERVER: &str = "countersign";
/// Environment variable with the run token.
pub const TOKEN: &str = "COUNTERSIGN_TOKEN";

/// Address of our MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpEndpoint {
    /// URL of the MCP endpoint.
    pub url: String,
}

impl McpEndpoint {
    /// Returns the endpoint of the server at this address.
    pub fn for_server(server: &str) -> Self {
        Self {
            url: format!("{}/mcp", server.trim_end_matches('/')),
        }
    }
}

/// Returns the server list in the form of most CLIs: only our server, with these settings and a
/// reference to the token's variable.
pub(super) fn mcp_servers(mut particulars: Value) -> Value {
    particulars["headers"] = headers(&format!("${{{TOKEN}}}"));
    json!({SERVER: particulars})
}

/// Returns the headers. `token` is a reference to the variable, in the syntax of the CLI.
pub(super) fn headers(token: &str) -> Value {
    json!({"Authorization": format!("Bearer {token}")})
}

/// Returns the path of the configuration, for CLIs that take a separate file.
pub(super) fn config_file(assignment: &AgentAssignment) -> PathBuf {
    assignment.scratch.join("mcp.json")
}

/// Returns that file with only our server, and additional settings of the CLI.
pub(super) fn config_file_entry(
    assignment: &AgentAssignment,
    mut more: Value,
) -> Option<(PathBuf, String)> {
    let tools = assignment.mcp_endpoint.as_ref()?;
    more["type"] = "http".into();
    more["url"] = tools.url.as_str().into();
    let text = json!({"mcpServers": mcp_servers(more)}).to_string();
    Some((config_file(assignment), text))
}

/// Returns the token itself, for a protocol without references to variables.
pub(super) fn token(assignment: &AgentAssignment) -> Option<&OsString> {
    let mut variables = assignment.env.iter();
    let variable = variables.find(|(name, _)| name == OsStr::new(TOKEN));
    variable.map(|(_, token)| token)
}

/// Returns an event if a CLI reports that our server is not connected.
pub(super) fn connection_event(name: &Value, status: &Value, error: &Value) -> Option<AgentEvent> {
    let status = status.as_str().filter(|_| *name == SERVER)?;
    if ["connected", "connecting", "pending"].contains(&status) {
        return None;
    }
    let why = error.as_str().unwrap_or(status).to_owned();
    Some(AgentEvent::McpUnavailable { why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_server_counts_and_only_when_it_is_not_to_be_had() {
        let told = |name: &str, status: &str, error: Value| {
            connection_event(&name.into(), &status.into(), &error)
        };
        for fine in ["connected", "pending", "connecting"] {
            assert_eq!(told("countersign", fine, Value::Null), None);
        }
        assert_eq!(told("another", "failed", Value::Null), None);
        let why = |why: &str| {
            let why = why.to_owned();
            Some(AgentEvent::McpUnavailable { why })
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
        assert_eq!(
            McpEndpoint::for_server("https://host:1/").url,
            "https://host:1/mcp"
        );
    }
}
