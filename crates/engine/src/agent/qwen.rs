//! Qwen Code: Gemini CLI's flags and settings, Claude Code's line format and schema.

use super::cli::{AgentCli, CliAgent, HelpProbe, confined};
use super::gemini::{arguments, settings, shut_tools};
use super::tools::SERVER;
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
    money_flag: None,
    files: &[".qwen/oauth_creds.json"],
    variables: &[
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "OPENAI_MODEL",
        "DASHSCOPE_API_KEY",
    ],
    accounts: None,
    litter: &[],
    hosts: &[
        "chat.qwen.ai",
        "portal.qwen.ai",
        "dashscope.aliyuncs.com",
        "dashscope-intl.aliyuncs.com",
        "api.openai.com",
    ],
    barred_exit: Some(41),
    resumes: true,
    sums_over_session: true,
    invocation,
    events,
};

fn invocation(me: &CliAgent, assignment: &AgentAssignment) -> Invocation {
    let sign_in = if me.is_given("OPENAI_API_KEY") {
        "openai"
    } else {
        "qwen-oauth"
    };
    // Without its tool for writing it refuses every command with a redirection, harmless ones too;
    // so a judge whom the sandbox holds keeps it, and finds that it cannot write.
    let shut = if confined(assignment) {
        Vec::new()
    } else {
        shut_tools(assignment, &["write_file", "edit", "notebook_edit"])
    };
    let mut settings = settings(assignment, sign_in, &shut);
    if assignment.tools.is_some() {
        // Else its model would have to search for them first.
        settings["mcpServers"][SERVER]["alwaysLoadTools"] = true.into();
    }
    let schema = schema::of(assignment.role).to_string();
    Invocation {
        args: arguments(assignment, "auto-edit")
            .with("--json-schema", Some(schema))
            .build(),
        stdin: assignment.brief.clone().into_bytes(),
        files: vec![(
            assignment.home.join(".qwen/settings.json"),
            settings.to_string(),
        )],
        ..Invocation::default()
    }
}

/// It may not exit at its end, so its result is taken for one.
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
