//! `countersign open`: prints the address of the server and a link that logs a browser in.

use serde_json::json;

use super::Context;
use app::failure::{ExitKind, Failure};
use app::operations::{browser_sessions, service};

/// Returns the address of the configured or the running server.
pub fn server_url(context: &Context) -> Option<String> {
    let environment = &context.environment;
    let configured = environment.server.address.clone();
    let server = configured.or_else(|| service::running_server(environment));
    server.map(|server| server.url)
}

/// Prints the address of the configured or the running server. For a server on this data directory
/// it also prints a login link for the dashboard, which works once, for a minute.
pub async fn perform(context: &Context) -> Result<ExitKind, Failure> {
    let environment = &context.environment;
    let configured = environment.server.address.clone();
    let is_elsewhere = configured.is_some();
    let Some(server) = configured.or_else(|| service::running_server(environment)) else {
        return Err(Failure::not_found("no server runs on this data directory")
            .hint("start one: countersign serve"));
    };
    // Only the machine that has the data can make a code. For a server elsewhere the person pastes
    // a token.
    let login = if is_elsewhere {
        format!("{}/login", server.url)
    } else {
        let app = context.open_app().await?;
        browser_sessions::login_link(&app, &server.url).await?
    };
    context.out.line(&server.url);
    context.out.line(format!("dashboard: {login}"));
    context.out.line(format!(
        "REST: {0}/api/v1/status, its description: {0}/api/v1/openapi.json, MCP: {0}/mcp",
        server.url
    ));
    context
        .out
        .print_json(&json!({ "url": server.url, "login": login }));
    Ok(ExitKind::Done)
}
