//! Qwen Code. It has Gemini CLI's flags and settings, and Claude Code's line format and schema.

use super::cli::{AgentCli, CliAgent, HelpProbe, is_sandboxed};
use super::declared::{
    ErrorTexts, InvocationSummary, McpSupport, ProxySupport, SessionSupport, UsageReports,
};
use super::gemini::{arguments, denied_tools, settings};
use super::mcp::SERVER;
use super::{AgentAssignment, AgentEvent, Invocation, schema, stream_json};

pub(super) const CLI: AgentCli = AgentCli {
    name: "qwen",
    title: "Qwen Code",
    program: "qwen",
    install: "npm install -g @qwen-code/qwen-code",
    log_in: "run `qwen` and log in, or set OPENAI_API_KEY (and OPENAI_BASE_URL, OPENAI_MODEL)",
    probes: &[HelpProbe {
        args: &["--help"],
        flags: &[
            "--output-format",
            "stream-json",
            "--approval-mode",
            "--json-schema",
            "--allowed-mcp-server-names",
            "--resume",
        ],
    }],
    budget_flag: None,
    files: &[".qwen/oauth_creds.json"],
    variables: &[
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "OPENAI_MODEL",
        "DASHSCOPE_API_KEY",
    ],
    parse_usage_file: None,
    leftover_names: &[],
    hosts: &[
        "chat.qwen.ai",
        "portal.qwen.ai",
        "dashscope.aliyuncs.com",
        "dashscope-intl.aliyuncs.com",
        "api.openai.com",
    ],
    proxy: ProxySupport::Tested,
    tool_files: &["qwen.md", ".qwen*", ".env*"],
    errors: ErrorTexts {
        log_in_first: &["please set an auth method"],
        out_of_quota: &[],
    },
    mcp: McpSupport::Connected {
        how: "`mcpServers` in the settings in its home, `trust`, `alwaysLoadTools`",
        other_servers: "none (`--allowed-mcp-server-names countersign`)",
    },
    summary: InvocationSummary {
        builder: "as Gemini CLI without `--skip-trust`, with `--json-schema`",
        judge: "the same; the sandbox refuses its writes",
        without_sandbox: "a builder edits and runs nothing; a judge reads, without a shell",
    },
    reports: UsageReports {
        price: "no",
        tokens: "yes",
        turns: "yes",
        refusals: "no",
    },
    known_limits: "",
    action_required_exit: Some(41),
    session: SessionSupport::ById,
    sums_over_session: true,
    invocation,
    events,
};

fn invocation(me: &CliAgent, assignment: &AgentAssignment) -> Invocation {
    let sign_in = if me.has_variable("OPENAI_API_KEY") {
        "openai"
    } else {
        "qwen-oauth"
    };
    // Without its write tool it refuses every command with a redirection, even harmless ones. So a
    // reviewer in our sandbox keeps the tool, and the sandbox refuses the writes.
    let shut = if is_sandboxed(assignment) {
        Vec::new()
    } else {
        denied_tools(assignment, &["write_file", "edit", "notebook_edit"])
    };
    let mut settings = settings(assignment, sign_in, &shut);
    if assignment.mcp_endpoint.is_some() {
        // Otherwise its model would have to search for the tools first.
        settings["mcpServers"][SERVER]["alwaysLoadTools"] = true.into();
    }
    let schema = schema::answer_schema(assignment.role).to_string();
    Invocation {
        args: arguments(assignment, "auto-edit")
            .flag("--json-schema", Some(schema))
            .build(),
        stdin: assignment.brief.clone().into_bytes(),
        files: vec![(
            assignment.home.join(".qwen/settings.json"),
            settings.to_string(),
        )],
        ..Invocation::default()
    }
}

/// Parses a line. It may not exit when it has finished, so its result counts as the end.
fn events(line: &str) -> Option<Vec<AgentEvent>> {
    let mut events = stream_json::events(line)?;
    if events
        .iter()
        .any(|event| matches!(event, AgentEvent::Spent { .. }))
    {
        events.push(AgentEvent::Finished);
    }
    Some(events)
}
