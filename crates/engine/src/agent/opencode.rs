//! `OpenCode`. It reads the prompt from stdin and its permissions from a file that an environment
//! variable names. Without a network it waits forever: the idle limit ends it.

use serde_json::{Value, json};

use super::cli::{
    AgentCli, ArgsBuilder, CliAgent, HelpProbe, is_judge, is_sandboxed, to_environment,
};
use super::declared::{
    ErrorTexts, InvocationSummary, McpSupport, ProxySupport, SessionSupport, UsageReports,
};
use super::event::usd_to_micros;
use super::mcp::{McpEndpoint, SERVER, TOKEN, headers};
use super::stream_json::{number, object, text, tool_event};
use super::{AgentAssignment, AgentEvent, AgentUsage, Invocation, error_class};

pub(super) const CLI: AgentCli = AgentCli {
    name: "opencode",
    title: "OpenCode",
    program: "opencode",
    install: "npm install -g opencode-ai",
    log_in: "run `opencode auth login`, or set the provider's key, for example ANTHROPIC_API_KEY",
    probes: &[HelpProbe {
        args: &["run", "--help"],
        flags: &["--format", "--model", "--session", "--pure"],
    }],
    budget_flag: None,
    files: &[".local/share/opencode/auth.json"],
    variables: &[
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "OPENROUTER_API_KEY",
        "OPENCODE_API_KEY",
    ],
    parse_usage_file: None,
    leftover_names: &[],
    hosts: &[
        "api.anthropic.com",
        "api.openai.com",
        "generativelanguage.googleapis.com",
        "opencode.ai",
        "openrouter.ai",
    ],
    proxy: ProxySupport::Runtime,
    tool_files: &[
        "opencode.json*",
        ".opencode*",
        "agents.md",
        "context.md",
        "bunfig.toml",
    ],
    errors: ErrorTexts {
        log_in_first: &[],
        out_of_quota: &[],
    },
    mcp: McpSupport::Connected {
        how: "`mcp` in the file named by `OPENCODE_CONFIG`",
        other_servers: "those in the project's `opencode.json`",
    },
    summary: InvocationSummary {
        builder: "`opencode run --pure --format json`, permissions by `OPENCODE_CONFIG`; later rounds `--session`",
        judge: "the same with `edit: deny`",
        without_sandbox: "a builder edits and runs nothing; a judge reads, without a shell",
    },
    reports: UsageReports {
        price: "yes",
        tokens: "yes",
        turns: "no",
        refusals: "no",
    },
    known_limits: "provider errors often appear as \"unexpected server error\"",
    action_required_exit: None,
    session: SessionSupport::ById,
    sums_over_session: false,
    invocation,
    events,
};

fn invocation(_: &CliAgent, assignment: &AgentAssignment) -> Invocation {
    let config = assignment.home.join("countersign-opencode.json");
    let args = ArgsBuilder::new(&["run", "--pure", "--format", "json"])
        .flag("-m", assignment.model.as_ref())
        .flag(
            "--session",
            assignment.session.as_ref().map(|session| &session.id),
        );
    let mut env = to_environment(&[
        ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
        ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
        ("OPENCODE_DISABLE_SHARE", "1"),
        ("OPENCODE_DISABLE_CLAUDE_CODE", "1"),
    ]);
    env.push(("OPENCODE_CONFIG".into(), config.clone().into()));
    Invocation {
        args: args.build(),
        env,
        stdin: assignment.brief.clone().into_bytes(),
        files: vec![(config, settings(assignment).to_string())],
        ..Invocation::default()
    }
}

/// Returns the settings. Every permission is either allowed or denied, because a question would
/// never be answered.
fn settings(assignment: &AgentAssignment) -> Value {
    let word = |allowed: bool| if allowed { "allow" } else { "deny" };
    let mut settings = json!({
        "$schema": "https://opencode.ai/config.json",
        "autoupdate": false,
        "share": "disabled",
        "permission": {
            "edit": word(!is_judge(assignment)),
            "bash": word(is_sandboxed(assignment)),
            // The scratch directory and the result file are outside of the checkout. In the
            // sandbox, the mounts decide what can be reached.
            "external_directory": word(is_sandboxed(assignment)),
            // A page from the network is text from strangers, and the sandbox would refuse the host
            // anyway.
            "webfetch": "deny",
        },
    });
    if let Some(tools) = &assignment.mcp_endpoint {
        settings["mcp"] = server(tools);
        settings["permission"][format!("{SERVER}_*")] = word(true).into();
    }
    settings
}

fn server(tools: &McpEndpoint) -> Value {
    json!({SERVER: {
        "type": "remote",
        "url": tools.url,
        "headers": headers(&format!("{{env:{TOKEN}}}")),
        "oauth": false,
        "enabled": true,
    }})
}

fn events(line: &str) -> Option<Vec<AgentEvent>> {
    let (kind, value) = object(line)?;
    let part = &value["part"];
    let started = AgentEvent::Started {
        session: text(&value, "/sessionID"),
        model: None,
    };
    Some(match kind.as_str() {
        "step_start" => vec![started],
        "text" => text(part, "/text")
            .map(|text| AgentEvent::Answered { text })
            .into_iter()
            .collect(),
        "tool_use" => tool(part),
        "step_finish" => vec![AgentEvent::Spent {
            usage: usage(part),
            model: None,
        }],
        "error" => vec![error_class::classify_error(&complaint(&value))],
        _ => Vec::new(),
    })
}

fn tool(part: &Value) -> Vec<AgentEvent> {
    let name = text(part, "/tool").unwrap_or_default();
    let refused =
        text(part, "/state/error").is_some_and(|error| error.contains("prevents you from"));
    let mut events = vec![tool_event(Some(name.clone()), part.pointer("/state/input"))];
    if refused {
        events.push(AgentEvent::Denied { tool: name });
    }
    events
}

fn complaint(value: &Value) -> String {
    let name = text(value, "/error/name").unwrap_or_default();
    let message = text(value, "/error/data/message").unwrap_or_default();
    let status = number(value, "/error/data/statusCode");
    let status = status
        .map(|status| format!(" (status {status})"))
        .unwrap_or_default();
    format!("{name}: {message}{status}")
}

/// Returns the usage of one step. Cached tokens are reported separately from the input.
fn usage(part: &Value) -> AgentUsage {
    let count = |name: &str| number(part, &format!("/tokens/{name}"));
    let cached = count("cache/read");
    let cache_tokens = cached.unwrap_or_default() + count("cache/write").unwrap_or_default();
    AgentUsage {
        usd_micros: part["cost"].as_f64().and_then(usd_to_micros),
        tokens_in: count("input").map(|plain| plain + cache_tokens),
        tokens_out: count("output").map(|out| out + count("reasoning").unwrap_or_default()),
        tokens_cached: cached,
    }
}
