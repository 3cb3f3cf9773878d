//! Goose. It reads instructions from a file and prints a banner first. It may not exit when it has
//! finished, so its last line counts as the end.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::cli::{
    AgentCli, ArgsBuilder, CliAgent, HelpProbe, is_judge, is_sandboxed, to_environment,
};
use super::contract::brief_file;
use super::declared::{
    ErrorTexts, InvocationSummary, McpSupport, ProxySupport, SessionSupport, UsageReports,
};
use super::mcp::{SERVER, TOKEN};
use super::stream_json::{list, number, object, text, tool_event};
use super::{AgentAssignment, AgentEvent, AgentRole, AgentUsage, Invocation, error_class, mcp};

pub(super) const CLI: AgentCli = AgentCli {
    name: "goose",
    title: "Goose",
    program: "goose",
    install: "npm install -g @aaif/goose",
    log_in: "run `goose configure`, or set GOOSE_PROVIDER, GOOSE_MODEL and the provider's key",
    probes: &[HelpProbe {
        args: &["run", "--help"],
        flags: &[
            "--instructions",
            "--output-format",
            "--no-session",
            "--quiet",
            "--with-builtin",
            "--name",
            "--resume",
        ],
    }],
    budget_flag: None,
    files: &[".config/goose/config.yaml", ".config/goose/secrets.yaml"],
    variables: &[
        "GOOSE_PROVIDER",
        "GOOSE_MODEL",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "OPENAI_HOST",
        "OPENAI_BASE_URL",
        "GOOGLE_API_KEY",
        "OPENROUTER_API_KEY",
    ],
    parse_usage_file: None,
    leftover_names: &[],
    hosts: &[
        "api.anthropic.com",
        "api.openai.com",
        "generativelanguage.googleapis.com",
        "openrouter.ai",
    ],
    proxy: ProxySupport::HttpLibrary,
    tool_files: &[".goose*", "goose.yaml"],
    errors: ErrorTexts {
        log_in_first: &["no provider configured"],
        out_of_quota: &[],
    },
    mcp: McpSupport::Connected {
        how: "an extension in its own file (`GOOSE_ADDITIONAL_CONFIG_FILES`); not for a judge without a sandbox, which may use no tools",
        other_servers: "your own extensions",
    },
    summary: InvocationSummary {
        builder: "`goose run --quiet --output-format stream-json --instructions FILE --with-builtin developer --name countersign`, `GOOSE_MODE=auto`; later rounds `--resume`",
        judge: "the same; a verifier with `--no-session`",
        without_sandbox: "a builder may use every tool; a judge only answers (`GOOSE_MODE=chat`)",
    },
    reports: UsageReports {
        price: "no",
        tokens: "yes",
        turns: "no",
        refusals: "no",
    },
    known_limits: "an error comes with exit code 0, as assistant text",
    action_required_exit: None,
    session: SessionSupport::ByName,
    sums_over_session: true,
    invocation,
    events,
};

/// Name of its sessions. It reports no session id but accepts a name, and its home directory
/// belongs to one ticket only.
const SESSION: &str = "countersign";
/// Timeout for a call of our tools.
const TOOL_SECS_MAX: u64 = 60;

fn invocation(_: &CliAgent, assignment: &AgentAssignment) -> Invocation {
    let judges = is_judge(assignment);
    let args = ArgsBuilder::new(&["run", "--quiet", "--output-format", "stream-json"])
        .flag("--instructions", Some(brief_file(assignment)))
        .flag("--model", assignment.model.as_ref())
        .args(&["--with-builtin", "developer"])
        // A reviewer's session may be resumed, a verifier's never is.
        .args_if(assignment.role == AgentRole::Verify, &["--no-session"])
        .args_if(assignment.role != AgentRole::Verify, &["--name", SESSION])
        .args_if(assignment.session.is_some(), &["--resume"]);
    // In `auto` it never asks. Without our sandbox, a reviewer or verifier may only chat.
    let mode = match (is_sandboxed(assignment), judges) {
        (false, true) => "chat",
        (true, _) | (false, false) => "auto",
    };
    let mut env = to_environment(&[
        ("GOOSE_MODE", mode),
        ("GOOSE_TELEMETRY_ENABLED", "false"),
        ("GOOSE_DISABLE_KEYRING", "1"),
    ]);
    let ours = extensions(assignment);
    let paths = ours.iter().map(|(path, _)| path.clone().into());
    env.extend(paths.map(|path| ("GOOSE_ADDITIONAL_CONFIG_FILES".into(), path)));
    Invocation {
        args: args.build(),
        env,
        files: ours.into_iter().collect(),
        ..Invocation::default()
    }
}

/// Returns a settings file with our MCP server, in addition to the person's own settings.
fn extensions(assignment: &AgentAssignment) -> Option<(PathBuf, String)> {
    let ours = assignment.mcp_endpoint.as_ref()?;
    let listed = mcp::mcp_servers(json!({
        "enabled": true,
        "type": "streamable_http",
        "name": SERVER,
        "description": "Countersign",
        "uri": ours.url,
        "envs": {},
        "env_keys": [TOKEN],
        "timeout": TOOL_SECS_MAX,
    }));
    let text = json!({"extensions": listed}).to_string();
    Some((mcp::config_file(assignment), text))
}

fn events(line: &str) -> Option<Vec<AgentEvent>> {
    let Some((kind, value)) = object(line) else {
        return parse_banner_line(line);
    };
    Some(match kind.as_str() {
        "message" if value["message"]["role"] == "assistant" => {
            let blocks = list(&value, "/message/content").filter_map(block);
            blocks
                .map(|event| error_text_to_event(&value, event))
                .collect()
        }
        "error" => vec![error_class::classify_error(
            &text(&value, "/error").unwrap_or_default(),
        )],
        "complete" => vec![
            AgentEvent::Started {
                session: Some(SESSION.to_owned()),
                model: None,
            },
            AgentEvent::Spent {
                usage: usage(&value),
                model: None,
            },
            AgentEvent::Finished,
        ],
        _ => Vec::new(),
    })
}

/// Parses a line that is not an object: a banner, or an error at the start.
fn parse_banner_line(line: &str) -> Option<Vec<AgentEvent>> {
    if line.starts_with(['{', '[']) {
        return None;
    }
    let error = line.trim_start().strip_prefix("error: ");
    Some(error.map(error_class::classify_error).into_iter().collect())
}

/// Converts an error message to an event. Goose reports errors as assistant text and with exit
/// code 0, but without a message id.
fn error_text_to_event(value: &Value, event: AgentEvent) -> AgentEvent {
    match event {
        AgentEvent::SaidPart { text }
            if value["message"]["id"].is_null() && text.starts_with("Ran into this error") =>
        {
            error_class::classify_error(&text)
        }
        other => other,
    }
}

fn block(block: &Value) -> Option<AgentEvent> {
    match block["type"].as_str()? {
        "text" => Some(AgentEvent::SaidPart {
            text: text(block, "/text")?,
        }),
        "toolRequest" => {
            let call = block.pointer("/toolCall/value")?;
            Some(tool_event(text(call, "/name"), call.get("arguments")))
        }
        _ => None,
    }
}

/// Returns the usage. Some versions report only the total.
fn usage(value: &Value) -> AgentUsage {
    let count = |name: &str| number(value, &format!("/{name}"));
    AgentUsage {
        usd_micros: None,
        tokens_in: count("input_tokens").or_else(|| count("total_tokens")),
        tokens_out: count("output_tokens"),
        tokens_cached: None,
    }
}
