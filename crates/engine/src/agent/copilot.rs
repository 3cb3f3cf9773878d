//! Copilot CLI. It reads the prompt from stdin and gets its permissions by flags.

use serde_json::{Value, json};

use super::cli::{
    AgentCli, ArgsBuilder, CliAgent, HelpProbe, is_judge, is_sandboxed, to_environment,
};
use super::contract::usage_file;
use super::declared::{
    ErrorTexts, InvocationSummary, McpSupport, ProxySupport, SessionSupport, UsageReports,
};
use super::stream_json::{number, object, text, tool_event};
use super::{AgentAssignment, AgentEvent, AgentUsage, Invocation, error_class, mcp};

pub(super) const CLI: AgentCli = AgentCli {
    name: "copilot",
    title: "Copilot CLI",
    program: "copilot",
    install: "npm install -g @github/copilot",
    log_in: "run `copilot` and /login, or set COPILOT_GITHUB_TOKEN",
    probes: &[HelpProbe {
        args: &["--help"],
        flags: &[
            "--output-format",
            "--allow-all-tools",
            "--deny-tool",
            "--no-ask-user",
            "--no-auto-update",
            "--disable-builtin-mcps",
            "--additional-mcp-config",
            "--add-dir",
            "--usage-output-file",
        ],
    }],
    budget_flag: None,
    files: &[".copilot/config.json"],
    variables: &[
        "COPILOT_GITHUB_TOKEN",
        "COPILOT_PROVIDER_BASE_URL",
        "COPILOT_PROVIDER_TYPE",
        "COPILOT_PROVIDER_API_KEY",
        "COPILOT_PROVIDER_WIRE_API",
        "COPILOT_MODEL",
        "COPILOT_OFFLINE",
    ],
    parse_usage_file: Some(parse_usage_file),
    leftover_names: &[],
    hosts: &[
        "api.github.com",
        "*.githubcopilot.com",
        "copilot-proxy.githubusercontent.com",
    ],
    proxy: ProxySupport::Documented,
    tool_files: &[".copilot*", "copilot-instructions.md"],
    errors: ErrorTexts {
        log_in_first: &["no authentication information"],
        out_of_quota: &[],
    },
    mcp: McpSupport::Connected {
        how: "`--additional-mcp-config @FILE`",
        other_servers: "none from the project, as far as tested",
    },
    summary: InvocationSummary {
        builder: "`copilot --output-format json --allow-all-tools --no-ask-user --no-auto-update --disable-builtin-mcps --no-custom-instructions`; later rounds `--resume=`",
        judge: "the same with `--deny-tool write`",
        without_sandbox: "a builder may use every tool; a judge reads, without a shell",
    },
    reports: UsageReports {
        price: "no (it counts requests)",
        tokens: "yes, from its usage file",
        turns: "no",
        refusals: "yes",
    },
    known_limits: "",
    action_required_exit: None,
    session: SessionSupport::ById,
    sums_over_session: true,
    invocation,
    events,
};

fn invocation(_: &CliAgent, assignment: &AgentAssignment) -> Invocation {
    let (judges, confined) = (is_judge(assignment), is_sandboxed(assignment));
    let ours = mcp::config_file_entry(assignment, json!({"tools": ["*"]}));
    let args = ArgsBuilder::new(&["--output-format", "json", "--stream", "off"])
        .args(&[
            "--no-ask-user",
            "--no-auto-update",
            "--no-color",
            "--disable-builtin-mcps",
        ])
        // Everything is allowed and single tools are denied: without a person, a question would end
        // the run.
        .args(&["--no-custom-instructions", "--allow-all-tools"])
        .flag(
            "--additional-mcp-config",
            ours.as_ref()
                .map(|(path, _)| format!("@{}", path.display())),
        )
        // The CLI writes only below directories that it was given, and the result file is outside
        // the checkout.
        .flag("--add-dir", Some(&assignment.scratch))
        .flag("--add-dir", assignment.result_file.parent())
        .flag("--usage-output-file", Some(usage_file(assignment)))
        .flag("--model", assignment.model.as_ref())
        .args_if(judges, &["--deny-tool", "write"])
        // In our sandbox a judge may run commands; without it a command could write.
        .args_if(judges && !confined, &["--deny-tool", "shell"]);
    let args = match &assignment.session {
        Some(session) => args.args(&[&format!("--resume={}", session.id)]),
        None => args,
    };
    let mut env = to_environment(&[("COPILOT_AUTO_UPDATE", "false")]);
    env.push((
        // The CLI looks for its home in XDG_CONFIG_HOME otherwise, which may be the person's.
        "COPILOT_HOME".into(),
        assignment.home.join(".copilot").into(),
    ));
    Invocation {
        args: args.build(),
        env,
        stdin: assignment.brief.clone().into_bytes(),
        files: ours.into_iter().collect(),
        ..Invocation::default()
    }
}

fn events(line: &str) -> Option<Vec<AgentEvent>> {
    let (kind, value) = object(line)?;
    let data = &value["data"];
    let started = |session, model| AgentEvent::Started { session, model };
    Some(match kind.as_str() {
        // The model is named only here, and the session's id only at the end.
        "session.tools_updated" => vec![started(None, text(data, "/model"))],
        "assistant.message" => message_events(data),
        "tool.execution_start" => vec![tool_event(text(data, "/toolName"), data.get("arguments"))],
        "tool.execution_complete" => denied_event(data).into_iter().collect(),
        "session.mcp_server_status_changed" => {
            let server =
                mcp::connection_event(&data["serverName"], &data["status"], &data["error"]);
            server.into_iter().collect()
        }
        "session.error" => vec![error_class::classify_error(
            &text(data, "/message").unwrap_or_default(),
        )],
        // It writes its usage to a file afterwards.
        "result" => vec![
            started(text(&value, "/sessionId"), None),
            AgentEvent::Finished,
        ],
        _ => Vec::new(),
    })
}

fn message_events(data: &Value) -> Vec<AgentEvent> {
    let text = text(data, "/content").filter(|text| !text.trim().is_empty());
    text.map(|text| AgentEvent::Answered { text })
        .into_iter()
        .collect()
}

/// Sums the usage of all models in the session, and names the last model.
fn parse_usage_file(file: &str) -> Option<AgentEvent> {
    let value: Value = serde_json::from_str(file).ok()?;
    let models = value["modelMetrics"].as_object()?;
    let sum = |name: &str| {
        let path = format!("/usage/{name}");
        let counts = models.values().filter_map(|model| number(model, &path));
        // `None` if no model reports the number, which is not the same as zero.
        counts.reduce(u64::saturating_add)
    };
    Some(AgentEvent::Spent {
        usage: AgentUsage {
            usd_micros: None,
            tokens_in: sum("inputTokens"),
            tokens_out: sum("outputTokens"),
            tokens_cached: sum("cacheReadTokens"),
        },
        model: text(&value, "/currentModel"),
    })
}

/// Parses a denial. The message contains the rule between backquotes.
fn denied_event(data: &Value) -> Option<AgentEvent> {
    let message = text(data, "/error/message")?;
    let rule = message.split('`').nth(1).unwrap_or_default().to_owned();
    (data["error"]["code"] == "denied").then_some(AgentEvent::Denied { tool: rule })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_the_sum_over_all_models() {
        let one = r#"{"usage": {"inputTokens": 4000, "outputTokens": 200, "cacheReadTokens": 10}}"#;
        let written =
            format!(r#"{{"modelMetrics": {{"a": {one}, "b": {one}}}, "currentModel": "b"}}"#);
        let Some(AgentEvent::Spent { usage, model }) = parse_usage_file(&written) else {
            panic!("not understood")
        };
        assert_eq!((usage.tokens_in, usage.tokens_out), (Some(8000), Some(400)));
        assert_eq!(
            (usage.tokens_cached, model.as_deref()),
            (Some(20), Some("b"))
        );
        assert_eq!(parse_usage_file("no JSON"), None);
    }
}
