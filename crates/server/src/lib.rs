//! Serves: the dashboard, REST, MCP, the worker protocol over HTTP, the spool directory and notifications. Each is
//! a thin translation of `app`; nothing here decides about a ticket or reads settings.

mod dashboard;
pub mod mcp;
pub mod notify;
pub mod spool;
pub mod web;

#[cfg(test)]
mod tests;
