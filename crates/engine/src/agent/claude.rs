//! Claude Code. The prompt is read from stdin; permissions by flags; the answer held to a schema.

use serde_json::json;

use super::cli::{AgentCli, ArgsBuilder, CliAgent, HelpProbe, confined, judges, variables};
use super::{AgentAssignment, AgentRole, Invocation, schema, stream_json, tools};

pub(super) const CLI: AgentCli = AgentCli {
    name: "claude",
    title: "Claude Code",
    program: "claude",
    install: "npm install -g @anthropic-ai/claude-code",
    log_in: "run `claude` and log in, or set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN (from `claude setup-token`)",
    probes: &[HelpProbe {
        args: &["--help"],
        flags: &[
            "--output-format",
            "--permission-mode",
            "--allowedTools",
            "--tools",
            "--json-schema",
            "--strict-mcp-config",
            "--mcp-config",
            "--setting-sources",
            "--no-session-persistence",
            "--resume",
        ],
    }],
    money_flag: Some("--max-budget-usd"),
    files: &[".claude/.credentials.json"],
    variables: &[
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "CLAUDE_CODE_OAUTH_TOKEN",
    ],
    accounts: None,
    litter: &[],
    hosts: &[
        "api.anthropic.com",
        "console.anthropic.com",
        "platform.claude.com",
    ],
    barred_exit: None,
    resumes: true,
    sums_over_session: false,
    invocation,
    events: stream_json::events,
};

/// What a builder may run where nothing of ours holds it.
const GIT_ONLY: &[&str] = &[
    "Bash(git status:*)",
    "Bash(git diff:*)",
    "Bash(git add:*)",
    "Bash(git commit:*)",
];

fn invocation(_: &CliAgent, assignment: &AgentAssignment) -> Invocation {
    let judges = judges(assignment);
    let confined = confined(assignment);
    let mode = if judges { "dontAsk" } else { "acceptEdits" };
    let tools = if confined {
        "Read,Grep,Glob,Bash"
    } else {
        "Read,Grep,Glob"
    };
    let ours = tools::list_in_file(assignment, json!({}));
    let args = ArgsBuilder::of(&["-p", "--output-format", "stream-json", "--verbose"])
        // Neither the person's own settings nor the repository's steer it, nor their servers.
        .and(&["--setting-sources", "", "--strict-mcp-config"])
        .with("--mcp-config", ours.as_ref().map(|(path, _)| path))
        .and(&["--permission-mode", mode])
        // A reviewer may be asked again in its session; a verifier never is.
        .when(
            assignment.role == AgentRole::Verify,
            &["--no-session-persistence"],
        )
        .when(judges, &["--tools", tools])
        .with("--model", assignment.model.as_ref())
        .with(
            "--resume",
            assignment.session.as_ref().map(|session| &session.id),
        )
        .with(
            "--json-schema",
            Some(schema::of(assignment.role).to_string()),
        )
        .with("--add-dir", assignment.result_file.parent())
        .when(judges, &["--allowedTools", "Read", "Grep", "Glob"])
        .when(judges && confined, &["Bash"])
        .when(!judges, &["--allowedTools"])
        .when(!judges && confined, &["Bash"])
        .when(!judges && !confined, GIT_ONLY)
        .when(ours.is_some(), &["mcp__countersign__*"]);
    let mut env = variables(&[
        ("DISABLE_AUTOUPDATER", "1"),
        ("DISABLE_ERROR_REPORTING", "1"),
        ("DISABLE_BUG_COMMAND", "1"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("ENABLE_TOOL_SEARCH", "false"),
    ]);
    env.push((
        "CLAUDE_CONFIG_DIR".into(),
        assignment.home.join(".claude").into(),
    ));
    Invocation {
        args: args.build(),
        env,
        stdin: assignment.brief.clone().into_bytes(),
        files: ours.into_iter().collect(),
        ..Invocation::default()
    }
}
