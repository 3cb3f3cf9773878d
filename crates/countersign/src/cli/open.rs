//! `countersign open`: prints the address of the server.

use serde_json::json;

use super::Context;
use app::failure::{ExitKind, Failure};
use app::operations::service;

/// Prints the address of the configured or the running server.
pub fn perform(context: &Context) -> Result<ExitKind, Failure> {
    let environment = &context.environment;
    let configured = environment.server.address.clone();
    let Some(server) = configured.or_else(|| service::running_server(environment)) else {
        return Err(Failure::not_found("no server runs on this data directory")
            .hint("start one: countersign serve"));
    };
    context.out.line(&server.url);
    context.out.line(format!(
        "REST: {0}/api/v1/status, its description: {0}/api/v1/openapi.json, MCP: {0}/mcp",
        server.url
    ));
    context.out.print_json(&json!({ "url": server.url }));
    Ok(ExitKind::Done)
}
