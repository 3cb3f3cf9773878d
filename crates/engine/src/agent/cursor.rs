//! Cursor's CLI, from its documentation only: it was never run by us. It takes its prompt in the
//! arguments, so that says where the brief is.

use serde_json::Value;

use super::cli::{AgentCli, ArgsBuilder, CliAgent, HelpProbe, READ_THE_BRIEF, judges};
use super::stream_json::{self, object, used};
use super::{AgentAssignment, AgentEvent, Invocation};

pub(super) const CLI: AgentCli = AgentCli {
    name: "cursor",
    title: "Cursor",
    program: "cursor-agent",
    install: "curl https://cursor.com/install -fsS | bash",
    log_in: "run `cursor-agent login`, or set CURSOR_API_KEY",
    probes: &[HelpProbe {
        args: &["--help"],
        flags: &["--print", "--output-format", "--force", "--resume"],
    }],
    money_flag: None,
    files: &[".config/cursor/auth.json", ".cursor/cli-config.json"],
    variables: &["CURSOR_API_KEY"],
    accounts: None,
    litter: &[],
    hosts: &["*.cursor.sh"],
    barred_exit: None,
    resumes: true,
    sums_over_session: false,
    invocation,
    events,
};

fn invocation(_: &CliAgent, assignment: &AgentAssignment) -> Invocation {
    let args = ArgsBuilder::of(&["-p", "--output-format", "stream-json", "--trust"])
        .with("--workspace", Some(&assignment.dir))
        .when(judges(assignment), &["--mode", "plan"])
        .when(!judges(assignment), &["--force"])
        .with("--model", assignment.model.as_ref())
        .with(
            "--resume",
            assignment.session.as_ref().map(|session| &session.id),
        )
        .and(&[READ_THE_BRIEF]);
    Invocation {
        args: args.build(),
        ..Invocation::default()
    }
}

/// Claude Code's format, but for the tools.
fn events(line: &str) -> Option<Vec<AgentEvent>> {
    match object(line) {
        Some((kind, value)) if kind == "tool_call" => Some(tool(&value).into_iter().collect()),
        Some(_) | None => stream_json::events(line),
    }
}

/// `{"tool_call": {"readToolCall": {"args": {…}}}}`
fn tool(value: &Value) -> Option<AgentEvent> {
    if value["subtype"] != "started" {
        return None;
    }
    let (name, call) = value["tool_call"].as_object()?.iter().next()?;
    let name = name.strip_suffix("ToolCall").unwrap_or(name);
    Some(used(Some(name.to_owned()), call.get("args")))
}
