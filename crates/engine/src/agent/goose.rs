//! Goose. The instructions are a file; a banner goes before its lines, and it may not exit at its
//! end, so its last line is taken for one.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::cli::{AgentCli, ArgsBuilder, CliAgent, HelpProbe, confined, judges, variables};
use super::contract::brief_file;
use super::stream_json::{list, number, object, text, used};
use super::tools::{SERVER, TOKEN};
use super::{AgentAssignment, AgentEvent, AgentRole, AgentUsage, Invocation, tools, trouble};

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
    money_flag: None,
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
    accounts: None,
    litter: &[],
    hosts: &[
        "api.anthropic.com",
        "api.openai.com",
        "generativelanguage.googleapis.com",
        "openrouter.ai",
    ],
    barred_exit: None,
    resumes: true,
    sums_over_session: true,
    invocation,
    events,
};

/// It tells no session's id, but takes a name for one; its home belongs to one ticket alone.
const SESSION: &str = "countersign";
/// How long it waits for one of our tools.
const TOOL_SECS_MAX: u64 = 60;

fn invocation(_: &CliAgent, assignment: &AgentAssignment) -> Invocation {
    let judges = judges(assignment);
    let args = ArgsBuilder::of(&["run", "--quiet", "--output-format", "stream-json"])
        .with("--instructions", Some(brief_file(assignment)))
        .with("--model", assignment.model.as_ref())
        .and(&["--with-builtin", "developer"])
        // A reviewer may be asked again in its session; a verifier never is.
        .when(assignment.role == AgentRole::Verify, &["--no-session"])
        .when(assignment.role != AgentRole::Verify, &["--name", SESSION])
        .when(assignment.session.is_some(), &["--resume"]);
    // In `auto` it asks for nothing; where nothing of ours holds a judge it may only talk.
    let mode = match (confined(assignment), judges) {
        (false, true) => "chat",
        (true, _) | (false, false) => "auto",
    };
    let mut env = variables(&[
        ("GOOSE_MODE", mode),
        ("GOOSE_TELEMETRY_ENABLED", "false"),
        ("GOOSE_DISABLE_KEYRING", "1"),
    ]);
    let ours = extensions(assignment);
    let added = ours.iter().map(|(path, _)| path.clone().into());
    env.extend(added.map(|path| ("GOOSE_ADDITIONAL_CONFIG_FILES".into(), path)));
    Invocation {
        args: args.build(),
        env,
        files: ours.into_iter().collect(),
        ..Invocation::default()
    }
}

/// A file beside the person's own settings, which stay as they are.
fn extensions(assignment: &AgentAssignment) -> Option<(PathBuf, String)> {
    let ours = assignment.tools.as_ref()?;
    let listed = tools::listed(json!({
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
    Some((tools::file(assignment), text))
}

fn events(line: &str) -> Option<Vec<AgentEvent>> {
    let Some((kind, value)) = object(line) else {
        return before_the_lines(line);
    };
    Some(match kind.as_str() {
        "message" if value["message"]["role"] == "assistant" => {
            let blocks = list(&value, "/message/content").filter_map(block);
            blocks
                .map(|event| unless_it_failed(&value, event))
                .collect()
        }
        "error" => vec![trouble::of(&text(&value, "/error").unwrap_or_default())],
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

/// What is no object is a banner for people at a terminal, or why nothing comes.
fn before_the_lines(line: &str) -> Option<Vec<AgentEvent>> {
    if line.starts_with(['{', '[']) {
        return None;
    }
    let error = line.trim_start().strip_prefix("error: ");
    Some(error.map(trouble::of).into_iter().collect())
}

/// An error comes in the assistant's voice and with exit code 0, but from no model's message.
fn unless_it_failed(value: &Value, event: AgentEvent) -> AgentEvent {
    match event {
        AgentEvent::Wrote { text }
            if value["message"]["id"].is_null() && text.starts_with("Ran into this error") =>
        {
            trouble::of(&text)
        }
        other => other,
    }
}

fn block(block: &Value) -> Option<AgentEvent> {
    match block["type"].as_str()? {
        "text" => Some(AgentEvent::Wrote {
            text: text(block, "/text")?,
        }),
        "toolRequest" => {
            let call = block.pointer("/toolCall/value")?;
            Some(used(text(call, "/name"), call.get("arguments")))
        }
        _ => None,
    }
}

/// Some versions tell the sum only.
fn usage(value: &Value) -> AgentUsage {
    let told = |name: &str| number(value, &format!("/{name}"));
    AgentUsage {
        usd_micros: None,
        tokens_in: told("input_tokens").or_else(|| told("total_tokens")),
        tokens_out: told("output_tokens"),
        tokens_cached: None,
    }
}
