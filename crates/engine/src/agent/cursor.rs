//! Cursor's CLI, written from its documentation: we have never run it. It takes the prompt as an
//! argument, so the prompt only points to the brief.

use serde_json::Value;

use super::cli::{AgentCli, ArgsBuilder, CliAgent, HelpProbe, READ_THE_BRIEF, is_judge};
use super::declared::{
    ErrorTexts, InvocationSummary, McpSupport, ProxySupport, SessionSupport, UsageReports,
};
use super::stream_json::{self, object, tool_event};
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
    budget_flag: None,
    files: &[".config/cursor/auth.json", ".cursor/cli-config.json"],
    variables: &["CURSOR_API_KEY"],
    parse_usage_file: None,
    leftover_names: &[],
    hosts: &["*.cursor.sh"],
    proxy: ProxySupport::Unknown,
    tool_files: &[".cursor*"],
    errors: ErrorTexts {
        log_in_first: &[],
        out_of_quota: &[],
    },
    mcp: McpSupport::NotConnected { why: "untested" },
    summary: InvocationSummary {
        builder: "`cursor-agent -p --output-format stream-json --trust --force --workspace DIR`; later rounds `--resume`",
        judge: "`--mode plan` in place of `--force`",
        without_sandbox: "a builder may use every tool (`--force`); a judge plans (`--mode plan`)",
    },
    reports: UsageReports {
        price: "no",
        tokens: "no",
        turns: "no",
        refusals: "no",
    },
    known_limits: "**from its documentation only; we have never run it**",
    action_required_exit: None,
    session: SessionSupport::ById,
    sums_over_session: false,
    invocation,
    events,
};

fn invocation(_: &CliAgent, assignment: &AgentAssignment) -> Invocation {
    let args = ArgsBuilder::new(&["-p", "--output-format", "stream-json", "--trust"])
        .flag("--workspace", Some(&assignment.dir))
        .args_if(is_judge(assignment), &["--mode", "plan"])
        .args_if(!is_judge(assignment), &["--force"])
        .flag("--model", assignment.model.as_ref())
        .flag(
            "--resume",
            assignment.session.as_ref().map(|session| &session.id),
        )
        .args(&[READ_THE_BRIEF]);
    Invocation {
        args: args.build(),
        ..Invocation::default()
    }
}

/// Parses a line: Claude Code's format, except for tool calls.
fn events(line: &str) -> Option<Vec<AgentEvent>> {
    match object(line) {
        Some((kind, value)) if kind == "tool_call" => {
            Some(read_tool_call(&value).into_iter().collect())
        }
        Some(_) | None => stream_json::events(line),
    }
}

/// Parses `{"tool_call": {"readToolCall": {"args": {…}}}}`.
fn read_tool_call(value: &Value) -> Option<AgentEvent> {
    if value["subtype"] != "started" {
        return None;
    }
    let (name, call) = value["tool_call"].as_object()?.iter().next()?;
    let name = name.strip_suffix("ToolCall").unwrap_or(name);
    Some(tool_event(Some(name.to_owned()), call.get("args")))
}
