//! The one list of known CLIs, and the parsers of their transcripts.
//!
//! Help texts, `init`, `doctor`, the tables of `docs/agents.md` and the tests are made from this
//! list, or compared with it.

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

/// Returns the names of all known CLIs, for help texts and errors.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|cli| cli.name).collect()
}

pub fn find_cli(name: &str) -> Option<&'static AgentCli> {
    ALL.into_iter().find(|cli| cli.name == name)
}

/// Returns the parser for a transcript, by the format that the run recorded.
pub fn transcript_parser(format: &str) -> fn(&str) -> Option<Vec<AgentEvent>> {
    match find_cli(format) {
        Some(cli) => cli.events,
        None if format == acp::FORMAT => acp::events,
        None => |line| command::parse_event(line).map(|event| vec![event]),
    }
}
