//! Gemini CLI. It reads the prompt from stdin and its settings from a file in its home directory.
//! It may not exit when it has finished, so its result line counts as the end.

use serde_json::{Value, json};

use super::cli::{
    AgentCli, ArgsBuilder, CliAgent, HelpProbe, is_judge, is_sandboxed, to_environment,
};
use super::declared::{
    ErrorTexts, InvocationSummary, McpSupport, ProxySupport, SessionSupport, UsageReports,
};
use super::mcp::{SERVER, mcp_servers};
use super::stream_json::{number, object, text, tool_event};
use super::{AgentAssignment, AgentEvent, AgentUsage, Invocation, error_class};

pub(super) const CLI: AgentCli = AgentCli {
    name: "gemini",
    title: "Gemini CLI",
    program: "gemini",
    install: "npm install -g @google/gemini-cli",
    log_in: "run `gemini` and log in, or set GEMINI_API_KEY",
    probes: &[HelpProbe {
        args: &["--help"],
        flags: &[
            "--output-format",
            "stream-json",
            "--approval-mode",
            "--skip-trust",
            "--allowed-mcp-server-names",
            "--resume",
        ],
    }],
    budget_flag: None,
    files: &[".gemini/oauth_creds.json", ".gemini/google_accounts.json"],
    variables: &[
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "GOOGLE_GEMINI_BASE_URL",
        "GOOGLE_GENAI_USE_VERTEXAI",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_CLOUD_LOCATION",
    ],
    parse_usage_file: None,
    leftover_names: &[],
    hosts: &[
        "generativelanguage.googleapis.com",
        "aiplatform.googleapis.com",
        "cloudcode-pa.googleapis.com",
        "oauth2.googleapis.com",
    ],
    proxy: ProxySupport::Tested,
    tool_files: &["gemini.md", ".gemini*", ".env*", ".aiexclude"],
    errors: ErrorTexts {
        log_in_first: &["please set an auth method", "api key not valid"],
        out_of_quota: &["resource_exhausted"],
    },
    mcp: McpSupport::Connected {
        how: "`mcpServers` in the settings in its home, `trust`",
        other_servers: "none (`--allowed-mcp-server-names countersign`)",
    },
    summary: InvocationSummary {
        builder: "`gemini -o stream-json --approval-mode yolo --skip-trust`; later rounds `--resume`",
        judge: "the same, without the tools that write",
        without_sandbox: "a builder edits and runs nothing; a judge reads, without a shell",
    },
    reports: UsageReports {
        price: "no",
        tokens: "yes",
        turns: "no",
        refusals: "some",
    },
    known_limits: "on 429 it retries forever: the idle limit ends it, and stderr says why",
    action_required_exit: Some(41),
    session: SessionSupport::ById,
    sums_over_session: false,
    invocation,
    events,
};

fn invocation(me: &CliAgent, assignment: &AgentAssignment) -> Invocation {
    let shut = denied_tools(assignment, &["write_file", "replace"]);
    let settings = settings(assignment, sign_in(me), &shut);
    Invocation {
        args: arguments(assignment, "auto_edit")
            .args(&["--skip-trust"])
            .build(),
        env: to_environment(&[("GEMINI_CLI_TRUST_WORKSPACE", "true")]),
        stdin: assignment.brief.clone().into_bytes(),
        files: vec![(
            assignment.home.join(".gemini/settings.json"),
            settings.to_string(),
        )],
        ..Invocation::default()
    }
}

/// Returns the arguments that it shares with Qwen Code, its fork. In plan mode it runs and writes
/// nothing, not even its answer, so a reviewer is restricted by the sandbox and its tool list
/// instead. `edits` is the mode that edits without asking and runs nothing.
pub(super) fn arguments(assignment: &AgentAssignment, edits: &str) -> ArgsBuilder {
    let mode = match (is_sandboxed(assignment), is_judge(assignment)) {
        (true, _) => "yolo",
        (false, true) => "default",
        (false, false) => edits,
    };
    ArgsBuilder::new(&["-o", "stream-json", "--approval-mode", mode])
        .flag("-m", assignment.model.as_ref())
        .flag(
            "--resume",
            assignment.session.as_ref().map(|session| &session.id),
        )
        // Ignore MCP servers from files of the project.
        .args_if(
            assignment.mcp_endpoint.is_some(),
            &["--allowed-mcp-server-names", SERVER],
        )
}

/// Returns the tools that a reviewer or verifier must not use; it may run commands only in our
/// sandbox.
pub(super) fn denied_tools(assignment: &AgentAssignment, writing: &[&str]) -> Vec<String> {
    if !is_judge(assignment) {
        return Vec::new();
    }
    let shell = (!is_sandboxed(assignment)).then_some("run_shell_command");
    let names = writing.iter().copied().chain(shell);
    names.map(str::to_owned).collect()
}

pub(super) fn settings(assignment: &AgentAssignment, sign_in: &str, shut: &[String]) -> Value {
    let mut settings = json!({
        "general": {"disableAutoUpdate": true, "enableAutoUpdate": false},
        "privacy": {"usageStatisticsEnabled": false},
        "telemetry": {"enabled": false},
        "security": {"auth": {"selectedType": sign_in}},
        "tools": {"exclude": shut},
    });
    if let Some(tools) = &assignment.mcp_endpoint {
        // A trusted server is called without asking.
        settings["mcpServers"] = mcp_servers(json!({"httpUrl": tools.url, "trust": true}));
    }
    settings
}

fn sign_in(me: &CliAgent) -> &'static str {
    if me.has_variable("GOOGLE_GENAI_USE_VERTEXAI") {
        "vertex-ai"
    } else if me.has_variable("GEMINI_API_KEY") {
        "gemini-api-key"
    } else {
        "oauth-personal"
    }
}

fn events(line: &str) -> Option<Vec<AgentEvent>> {
    let (kind, value) = object(line)?;
    Some(match kind.as_str() {
        "init" => vec![AgentEvent::Started {
            session: text(&value, "/session_id"),
            model: text(&value, "/model"),
        }],
        "message" if value["role"] == "assistant" => message_event(&value).into_iter().collect(),
        "tool_use" => vec![tool_event(
            text(&value, "/tool_name"),
            value.get("parameters"),
        )],
        "tool_result" => denied_event(&value).into_iter().collect(),
        "error" => vec![error_class::classify_error(
            &text(&value, "/message").unwrap_or_default(),
        )],
        "result" => result(&value),
        _ => Vec::new(),
    })
}

fn message_event(value: &Value) -> Option<AgentEvent> {
    Some(AgentEvent::SaidPart {
        text: text(value, "/content")?,
    })
}

fn denied_event(value: &Value) -> Option<AgentEvent> {
    let kind = text(value, "/error/type")?;
    let refused = [
        "policy_violation",
        "tool_not_registered",
        "execution_denied",
    ];
    // The id starts with the tool's name.
    let tool = text(value, "/tool_id").unwrap_or_default();
    let tool = tool.split("__").next().unwrap_or_default().to_owned();
    refused
        .contains(&kind.as_str())
        .then_some(AgentEvent::Denied { tool })
}

fn result(value: &Value) -> Vec<AgentEvent> {
    let count = |name: &str| number(value, &format!("/stats/{name}"));
    let usage = AgentUsage {
        usd_micros: None,
        tokens_in: count("input_tokens"),
        tokens_out: count("output_tokens"),
        tokens_cached: count("cached"),
    };
    let mut events = vec![AgentEvent::Spent { usage, model: None }];
    if value["status"] == "error" {
        let message = text(value, "/error/message").unwrap_or_default();
        events.push(error_class::classify_error(&message));
    }
    events.push(AgentEvent::Finished);
    events
}
