//! Codex. The prompt is read from stdin; its sandbox is off inside ours and on otherwise; the answer
//! is held to a schema and put into the result file.

use std::path::PathBuf;

use serde_json::Value;

use super::cli::{AgentCli, ArgsBuilder, CliAgent, HelpProbe, confined, judges};
use super::stream_json::{number, object, text, used};
use super::tools::{McpEndpoint, SERVER, TOKEN};
use super::{AgentAssignment, AgentEvent, AgentRole, AgentUsage, Invocation, schema, trouble};

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
    money_flag: None,
    files: &[".codex/auth.json"],
    variables: &["OPENAI_API_KEY", "CODEX_API_KEY", "OPENAI_BASE_URL"],
    accounts: None,
    litter: &[],
    hosts: &["api.openai.com", "auth.openai.com", "chatgpt.com"],
    barred_exit: None,
    resumes: true,
    sums_over_session: true,
    invocation,
    events,
};

/// What it would fetch or send besides the model's own traffic.
const SETTINGS: &[&str] = &[
    "-c",
    "check_for_update_on_startup=false",
    "-c",
    "analytics.enabled=false",
    "-c",
    "otel.exporter=\"none\"",
];

fn invocation(me: &CliAgent, assignment: &AgentAssignment) -> Invocation {
    let judges = judges(assignment);
    let sandbox = match (confined(assignment), judges) {
        // Its own does not start inside ours.
        (true, _) => "danger-full-access",
        (false, true) => "read-only",
        (false, false) => "workspace-write",
    };
    let schema_file = assignment.scratch.join("answer-schema.json");
    let session = assignment
        .session
        .as_ref()
        .map(|session| session.id.as_str());
    let args = ArgsBuilder::of(&["exec", "--json", "--skip-git-repo-check", "-s", sandbox])
        .with("-C", Some(&assignment.dir))
        .and(SETTINGS)
        .with("-c", assignment.tools.as_ref().map(server))
        // A reviewer may be asked again in its session; a verifier never is.
        .when(assignment.role == AgentRole::Verify, &["--ephemeral"])
        .when(judges, &["--ignore-user-config", "--ignore-rules"])
        .with("--model", assignment.model.as_ref())
        .with("--output-schema", Some(&schema_file))
        .with("--output-last-message", Some(&assignment.result_file))
        .with("resume", session)
        .and(&["-"]);
    let home: PathBuf = assignment.home.join(".codex");
    let mut env = vec![("CODEX_HOME".into(), home.clone().into())];
    // A key in the environment is read under this name only.
    if let Some(key) = me.given("OPENAI_API_KEY") {
        env.push(("CODEX_API_KEY".into(), key.clone()));
    }
    Invocation {
        args: args.build(),
        env,
        stdin: assignment.brief.clone().into_bytes(),
        files: vec![
            (schema_file, schema::of(assignment.role).to_string()),
            // It wants its home to be there.
            (home.join("config.toml"), String::new()),
        ],
        ..Invocation::default()
    }
}

/// Our server, as a setting: it reads the token from the variable, and asks nobody before it calls.
fn server(tools: &McpEndpoint) -> String {
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
        "item.started" => begun(&value["item"]).into_iter().collect(),
        "item.completed" => done(&value["item"]).into_iter().collect(),
        "turn.completed" => vec![AgentEvent::Spent {
            usage: usage(&value),
            model: None,
        }],
        "turn.failed" => failed(text(&value, "/error/message")),
        "error" => failed(text(&value, "/message")),
        _ => Vec::new(),
    })
}

fn begun(item: &Value) -> Option<AgentEvent> {
    match item["type"].as_str()? {
        "command_execution" => Some(used(Some("shell".to_owned()), item.get("command"))),
        "mcp_tool_call" => Some(used(text(item, "/tool"), item.get("arguments"))),
        "web_search" => Some(used(Some("web search".to_owned()), item.get("query"))),
        _ => None,
    }
}

/// Changes to files are told once they are made; an error that is an item is only a warning.
fn done(item: &Value) -> Option<AgentEvent> {
    match item["type"].as_str()? {
        "agent_message" => Some(AgentEvent::Answered {
            text: text(item, "/text")?,
        }),
        "file_change" => {
            let paths: Vec<&str> = super::stream_json::list(item, "/changes")
                .filter_map(|change| change["path"].as_str())
                .collect();
            let all = Value::String(paths.join(", "));
            Some(used(Some("edit".to_owned()), Some(&all)))
        }
        "error" => Some(AgentEvent::Said {
            text: text(item, "/message")?,
        }),
        _ => None,
    }
}

fn failed(message: Option<String>) -> Vec<AgentEvent> {
    message
        .map(|message| trouble::of(&message))
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
