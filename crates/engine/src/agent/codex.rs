//! Codex. It reads the prompt from stdin, answers by a schema and writes the answer to the result
//! file. Its own sandbox is off inside ours and on otherwise.

use std::path::PathBuf;

use serde_json::Value;

use super::cli::{AgentCli, ArgsBuilder, CliAgent, HelpProbe, is_judge, is_sandboxed};
use super::declared::{
    ErrorTexts, InvocationSummary, McpSupport, ProxySupport, SessionSupport, UsageReports,
};
use super::mcp::{McpEndpoint, SERVER, TOKEN};
use super::stream_json::{number, object, text, tool_event};
use super::{AgentAssignment, AgentEvent, AgentRole, AgentUsage, Invocation, error_class, schema};

pub(super) const CLI: AgentCli = AgentCli {
    name: "codex",
    title: "Codex",
    program: "codex",
    install: "npm install -g @openai/codex",
    log_in: "run `codex login`, or set OPENAI_API_KEY",
    probes: &[HelpProbe {
        args: &["exec", "--help"],
        flags: &[
            "--json",
            "--sandbox",
            "--skip-git-repo-check",
            "--output-schema",
            "--output-last-message",
            "--ephemeral",
            "--ignore-user-config",
            "--ignore-rules",
            "resume",
        ],
    }],
    budget_flag: None,
    files: &[".codex/auth.json"],
    variables: &["OPENAI_API_KEY", "CODEX_API_KEY", "OPENAI_BASE_URL"],
    parse_usage_file: None,
    leftover_names: &[],
    hosts: &["api.openai.com", "auth.openai.com", "chatgpt.com"],
    proxy: ProxySupport::HttpLibrary,
    tool_files: &["agents.md", "agents.override.md", ".codex*", ".agents"],
    errors: ErrorTexts {
        log_in_first: &["codex login"],
        out_of_quota: &["hit your usage limit"],
    },
    mcp: McpSupport::Connected {
        how: "`-c mcp_servers.countersign={url, bearer_token_env_var, default_tools_approval_mode}`",
        other_servers: "builder: those in the project's `.codex/config.toml`; judge: none",
    },
    summary: InvocationSummary {
        builder: "`codex exec --json --skip-git-repo-check -s danger-full-access -C DIR --output-schema … --output-last-message … -`; later rounds `resume THREAD`",
        judge: "the same with `--ignore-user-config --ignore-rules`; a verifier also `--ephemeral`",
        without_sandbox: "its own sandbox stays on: `workspace-write` for a builder, `read-only` for a judge",
    },
    reports: UsageReports {
        price: "no",
        tokens: "yes",
        turns: "no",
        refusals: "no",
    },
    known_limits: "without a network it retries forever: the idle limit ends it",
    action_required_exit: None,
    session: SessionSupport::ById,
    sums_over_session: true,
    invocation,
    events,
};

/// Settings that turn off traffic other than the model's.
const SETTINGS: &[&str] = &[
    "-c",
    "check_for_update_on_startup=false",
    "-c",
    "analytics.enabled=false",
    "-c",
    "otel.exporter=\"none\"",
];

fn invocation(me: &CliAgent, assignment: &AgentAssignment) -> Invocation {
    let judges = is_judge(assignment);
    let sandbox = match (is_sandboxed(assignment), judges) {
        // Its own sandbox does not start inside ours.
        (true, _) => "danger-full-access",
        (false, true) => "read-only",
        (false, false) => "workspace-write",
    };
    let schema_file = assignment.scratch.join("answer-schema.json");
    let session = assignment
        .session
        .as_ref()
        .map(|session| session.id.as_str());
    let args = ArgsBuilder::new(&["exec", "--json", "--skip-git-repo-check", "-s", sandbox])
        .flag("-C", Some(&assignment.dir))
        .args(SETTINGS)
        .flag("-c", assignment.mcp_endpoint.as_ref().map(server_setting))
        // A reviewer's session may be resumed, a verifier's never is.
        .args_if(assignment.role == AgentRole::Verify, &["--ephemeral"])
        .args_if(judges, &["--ignore-user-config", "--ignore-rules"])
        .flag("--model", assignment.model.as_ref())
        .flag("--output-schema", Some(&schema_file))
        .flag("--output-last-message", Some(&assignment.result_file))
        .flag("resume", session)
        .args(&["-"]);
    let home: PathBuf = assignment.home.join(".codex");
    let mut env = vec![("CODEX_HOME".into(), home.clone().into())];
    // It reads a key from the environment only under this name.
    if let Some(key) = me.variable("OPENAI_API_KEY") {
        env.push(("CODEX_API_KEY".into(), key.clone()));
    }
    Invocation {
        args: args.build(),
        env,
        stdin: assignment.brief.clone().into_bytes(),
        files: vec![
            (
                schema_file,
                schema::answer_schema(assignment.role).to_string(),
            ),
            // It requires its home directory to exist.
            (home.join("config.toml"), String::new()),
        ],
        ..Invocation::default()
    }
}

/// Returns the setting for our MCP server: it reads the token from the variable and calls tools
/// without asking.
fn server_setting(tools: &McpEndpoint) -> String {
    let url = Value::from(tools.url.as_str());
    format!(
        "mcp_servers.{SERVER}={{url={url},bearer_token_env_var=\"{TOKEN}\",default_tools_approval_mode=\"approve\"}}"
    )
}

fn events(line: &str) -> Option<Vec<AgentEvent>> {
    let (kind, value) = object(line)?;
    Some(match kind.as_str() {
        "thread.started" => vec![AgentEvent::Started {
            session: text(&value, "/thread_id"),
            model: None,
        }],
        "item.started" => item_started(&value["item"]).into_iter().collect(),
        "item.completed" => item_completed(&value["item"]).into_iter().collect(),
        "turn.completed" => vec![AgentEvent::Spent {
            usage: usage(&value),
            model: None,
        }],
        "turn.failed" => failure_events(text(&value, "/error/message")),
        "error" => failure_events(text(&value, "/message")),
        _ => Vec::new(),
    })
}

fn item_started(item: &Value) -> Option<AgentEvent> {
    match item["type"].as_str()? {
        "command_execution" => Some(tool_event(Some("shell".to_owned()), item.get("command"))),
        "mcp_tool_call" => Some(tool_event(text(item, "/tool"), item.get("arguments"))),
        "web_search" => Some(tool_event(Some("web search".to_owned()), item.get("query"))),
        _ => None,
    }
}

/// Parses a completed item. File changes are reported when they are done; an `error` item is only
/// a warning.
fn item_completed(item: &Value) -> Option<AgentEvent> {
    match item["type"].as_str()? {
        "agent_message" => Some(AgentEvent::Answered {
            text: text(item, "/text")?,
        }),
        "file_change" => {
            let paths: Vec<&str> = super::stream_json::list(item, "/changes")
                .filter_map(|change| change["path"].as_str())
                .collect();
            let all = Value::String(paths.join(", "));
            Some(tool_event(Some("edit".to_owned()), Some(&all)))
        }
        "error" => Some(AgentEvent::Said {
            text: text(item, "/message")?,
        }),
        _ => None,
    }
}

fn failure_events(message: Option<String>) -> Vec<AgentEvent> {
    message
        .map(|message| error_class::classify_error(&message))
        .into_iter()
        .collect()
}

fn usage(value: &Value) -> AgentUsage {
    let count = |name: &str| number(value, &format!("/usage/{name}"));
    AgentUsage {
        usd_micros: None,
        tokens_in: count("input_tokens"),
        tokens_out: count("output_tokens"),
        tokens_cached: count("cached_input_tokens"),
    }
}
