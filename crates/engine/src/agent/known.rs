//! The CLIs that we know, and whose output a transcript is in.

use super::{
    AgentCli, AgentEvent, acp, aider, claude, codex, command, copilot, cursor, gemini, goose,
    opencode, qwen,
};

pub const ALL: [&AgentCli; 9] = [
    &claude::CLI,
    &codex::CLI,
    &gemini::CLI,
    &opencode::CLI,
    &copilot::CLI,
    &goose::CLI,
    &qwen::CLI,
    &aider::CLI,
    &cursor::CLI,
];

pub fn find(name: &str) -> Option<&'static AgentCli> {
    ALL.into_iter().find(|cli| cli.name == name)
}

/// Reads a transcript's lines again, by the format that the run was recorded with.
pub fn reader(format: &str) -> fn(&str) -> Option<Vec<AgentEvent>> {
    match find(format) {
        Some(cli) => cli.events,
        None if format == acp::FORMAT => acp::events,
        None => |line| command::event(line).map(|event| vec![event]),
    }
}
