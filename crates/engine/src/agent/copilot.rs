//! Copilot CLI. The prompt is read from stdin; permissions by flags.

use serde_json::{Value, json};

use super::cli::{AgentCli, ArgsBuilder, CliAgent, HelpProbe, confined, judges, variables};
use super::contract::accounts_file;
use super::stream_json::{number, object, text, used};
use super::{AgentAssignment, AgentEvent, AgentUsage, Invocation, tools, trouble};

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
    money_flag: None,
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
    accounts: Some(accounts),
    litter: &[],
    hosts: &[
        "api.github.com",
        "*.githubcopilot.com",
        "copilot-proxy.githubusercontent.com",
    ],
    barred_exit: None,
    resumes: true,
    sums_over_session: true,
    invocation,
    events,
};

fn invocation(_: &CliAgent, assignment: &AgentAssignment) -> Invocation {
    let (judges, confined) = (judges(assignment), confined(assignment));
    let ours = tools::list_in_file(assignment, json!({"tools": ["*"]}));
    let args = ArgsBuilder::of(&["--output-format", "json", "--stream", "off"])
        .and(&[
            "--no-ask-user",
            "--no-auto-update",
            "--no-color",
            "--disable-builtin-mcps",
        ])
        .and(&["--no-custom-instructions", "--allow-all-tools"])
        .with(
            "--additional-mcp-config",
            ours.as_ref()
                .map(|(path, _)| format!("@{}", path.display())),
        )
        .with("--add-dir", Some(&assignment.scratch))
        .with("--add-dir", assignment.result_file.parent())
        .with("--usage-output-file", Some(accounts_file(assignment)))
        .with("--model", assignment.model.as_ref())
        .when(judges, &["--deny-tool", "write"])
        .when(judges && !confined, &["--deny-tool", "shell"]);
    let args = match &assignment.session {
        Some(session) => args.and(&[&format!("--resume={}", session.id)]),
        None => args,
    };
    let mut env = variables(&[("COPILOT_AUTO_UPDATE", "false")]);
    env.push((
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
        "session.tools_updated" => vec![started(None, text(data, "/model"))],
        "assistant.message" => said(data),
        "tool.execution_start" => vec![used(text(data, "/toolName"), data.get("arguments"))],
        "tool.execution_complete" => denied(data).into_iter().collect(),
        "session.mcp_server_status_changed" => {
            let server = tools::state(&data["serverName"], &data["status"], &data["error"]);
            server.into_iter().collect()
        }
        "session.error" => vec![trouble::of(&text(data, "/message").unwrap_or_default())],
        // What it spent is in a file that it writes afterwards.
        "result" => vec![
            started(text(&value, "/sessionId"), None),
            AgentEvent::Finished,
        ],
        _ => Vec::new(),
    })
}

fn said(data: &Value) -> Vec<AgentEvent> {
    let text = text(data, "/content").filter(|text| !text.trim().is_empty());
    text.map(|text| AgentEvent::Answered { text })
        .into_iter()
        .collect()
}

/// All models of the session together; the one that it used last gives the name.
fn accounts(written: &str) -> Option<AgentEvent> {
    let value: Value = serde_json::from_str(written).ok()?;
    let models = value["modelMetrics"].as_object()?;
    let sum = |name: &str| {
        let path = format!("/usage/{name}");
        let told = models.values().filter_map(|model| number(model, &path));
        told.reduce(u64::saturating_add)
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

/// Which rule it was is told in the message, between backquotes.
fn denied(data: &Value) -> Option<AgentEvent> {
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
        let Some(AgentEvent::Spent { usage, model }) = accounts(&written) else {
            panic!("not understood")
        };
        assert_eq!((usage.tokens_in, usage.tokens_out), (Some(8000), Some(400)));
        assert_eq!(
            (usage.tokens_cached, model.as_deref()),
            (Some(20), Some("b"))
        );
        assert_eq!(accounts("no JSON"), None);
    }
}
