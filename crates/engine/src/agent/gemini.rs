//! Gemini CLI. The prompt is read from stdin; settings are a file in its home. It may not exit at
//! its end, so its result is taken for one.

use serde_json::{Value, json};

use super::cli::{AgentCli, ArgsBuilder, CliAgent, HelpProbe, confined, judges, variables};
use super::stream_json::{number, object, text, used};
use super::tools::{SERVER, listed};
use super::{AgentAssignment, AgentEvent, AgentUsage, Invocation, trouble};

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
    money_flag: None,
    files: &[".gemini/oauth_creds.json", ".gemini/google_accounts.json"],
    variables: &[
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "GOOGLE_GEMINI_BASE_URL",
        "GOOGLE_GENAI_USE_VERTEXAI",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_CLOUD_LOCATION",
    ],
    accounts: None,
    litter: &[],
    hosts: &[
        "generativelanguage.googleapis.com",
        "aiplatform.googleapis.com",
        "cloudcode-pa.googleapis.com",
        "oauth2.googleapis.com",
    ],
    barred_exit: Some(41),
    resumes: true,
    sums_over_session: false,
    invocation,
    events,
};

fn invocation(me: &CliAgent, assignment: &AgentAssignment) -> Invocation {
    let shut = shut_tools(assignment, &["write_file", "replace"]);
    let settings = settings(assignment, sign_in(me), &shut);
    Invocation {
        args: arguments(assignment, "auto_edit")
            .and(&["--skip-trust"])
            .build(),
        env: variables(&[("GEMINI_CLI_TRUST_WORKSPACE", "true")]),
        stdin: assignment.brief.clone().into_bytes(),
        files: vec![(
            assignment.home.join(".gemini/settings.json"),
            settings.to_string(),
        )],
        ..Invocation::default()
    }
}

/// What it shares with Qwen Code, which began as its copy. In its plan mode it neither runs nor
/// writes anything, its answer included; so a judge of ours is held by the sandbox and its tools.
/// `edits` is the mode in which it edits without asking, and runs nothing.
pub(super) fn arguments(assignment: &AgentAssignment, edits: &str) -> ArgsBuilder {
    let mode = match (confined(assignment), judges(assignment)) {
        (true, _) => "yolo",
        (false, true) => "default",
        (false, false) => edits,
    };
    ArgsBuilder::of(&["-o", "stream-json", "--approval-mode", mode])
        .with("-m", assignment.model.as_ref())
        .with(
            "--resume",
            assignment.session.as_ref().map(|session| &session.id),
        )
        // No server that a file of the project's names.
        .when(
            assignment.tools.is_some(),
            &["--allowed-mcp-server-names", SERVER],
        )
}

/// The tools that a judge is not given; it may run commands only where the sandbox holds them.
pub(super) fn shut_tools(assignment: &AgentAssignment, writing: &[&str]) -> Vec<String> {
    if !judges(assignment) {
        return Vec::new();
    }
    let shell = (!confined(assignment)).then_some("run_shell_command");
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
    if let Some(tools) = &assignment.tools {
        // What is trusted is called without a question.
        settings["mcpServers"] = listed(json!({"httpUrl": tools.url, "trust": true}));
    }
    settings
}

fn sign_in(me: &CliAgent) -> &'static str {
    if me.is_given("GOOGLE_GENAI_USE_VERTEXAI") {
        "vertex-ai"
    } else if me.is_given("GEMINI_API_KEY") {
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
        "message" if value["role"] == "assistant" => said(&value).into_iter().collect(),
        "tool_use" => vec![used(text(&value, "/tool_name"), value.get("parameters"))],
        "tool_result" => denied(&value).into_iter().collect(),
        "error" => vec![trouble::of(&text(&value, "/message").unwrap_or_default())],
        "result" => result(&value),
        _ => Vec::new(),
    })
}

fn said(value: &Value) -> Option<AgentEvent> {
    Some(AgentEvent::Wrote {
        text: text(value, "/content")?,
    })
}

fn denied(value: &Value) -> Option<AgentEvent> {
    let kind = text(value, "/error/type")?;
    let refused = [
        "policy_violation",
        "tool_not_registered",
        "execution_denied",
    ];
    // The id begins with the tool's name.
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
        events.push(trouble::of(&message));
    }
    events.push(AgentEvent::Finished);
    events
}
