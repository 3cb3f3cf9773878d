//! Claude Code. It reads the prompt from stdin, gets its permissions by flags, and answers by a
//! schema.

use serde_json::json;

use super::cli::{
    AgentCli, ArgsBuilder, CliAgent, HelpProbe, is_judge, is_sandboxed, to_environment,
};
use super::declared::{
    ErrorTexts, InvocationSummary, McpSupport, ProxySupport, SessionSupport, UsageReports,
};
use super::{AgentAssignment, AgentRole, Invocation, mcp, schema, stream_json};

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
    budget_flag: Some("--max-budget-usd"),
    files: &[".claude/.credentials.json"],
    variables: &[
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "CLAUDE_CODE_OAUTH_TOKEN",
    ],
    parse_usage_file: None,
    leftover_names: &[],
    hosts: &[
        "api.anthropic.com",
        "console.anthropic.com",
        "platform.claude.com",
    ],
    proxy: ProxySupport::Documented,
    tool_files: &[
        "claude.md",
        "claude.local.md",
        ".claude*",
        ".mcp.json",
        ".worktreeinclude",
    ],
    errors: ErrorTexts {
        log_in_first: &[
            "please run /login",
            "invalid x-api-key",
            "credit balance is too low",
        ],
        out_of_quota: &["hit your limit"],
    },
    mcp: McpSupport::Connected {
        how: "`--mcp-config FILE`, `--allowedTools mcp__countersign__*`",
        other_servers: "none (`--strict-mcp-config`)",
    },
    summary: InvocationSummary {
        builder: "`claude -p --output-format stream-json --verbose --setting-sources \"\" --strict-mcp-config --permission-mode acceptEdits --json-schema … --allowedTools Bash`; later rounds `--resume`",
        judge: "`--permission-mode dontAsk --tools Read,Grep,Glob,Bash --json-schema …`; a verifier also `--no-session-persistence`",
        without_sandbox: "a builder edits, and runs git and nothing else (add `args = [\"--allowedTools\", \"Bash(cargo test:*)\"]`); a judge reads, without a shell",
    },
    reports: UsageReports {
        price: "yes, per run",
        tokens: "yes",
        turns: "yes",
        refusals: "yes",
    },
    known_limits: "before 2.1.3 the price covers the whole session",
    action_required_exit: None,
    session: SessionSupport::ById,
    sums_over_session: false,
    invocation,
    events: stream_json::events,
};

/// Commands that a builder may run without our sandbox.
const GIT_ONLY: &[&str] = &[
    "Bash(git status:*)",
    "Bash(git diff:*)",
    "Bash(git add:*)",
    "Bash(git commit:*)",
];

fn invocation(_: &CliAgent, assignment: &AgentAssignment) -> Invocation {
    let judges = is_judge(assignment);
    let confined = is_sandboxed(assignment);
    let mode = if judges { "dontAsk" } else { "acceptEdits" };
    let tools = if confined {
        "Read,Grep,Glob,Bash"
    } else {
        "Read,Grep,Glob"
    };
    let ours = mcp::config_file_entry(assignment, json!({}));
    let args = ArgsBuilder::new(&["-p", "--output-format", "stream-json", "--verbose"])
        // It must not load settings or MCP servers of the person or the repository.
        .args(&["--setting-sources", "", "--strict-mcp-config"])
        .flag("--mcp-config", ours.as_ref().map(|(path, _)| path))
        .args(&["--permission-mode", mode])
        // A reviewer's session may be resumed, a verifier's never is.
        .args_if(
            assignment.role == AgentRole::Verify,
            &["--no-session-persistence"],
        )
        .args_if(judges, &["--tools", tools])
        .flag("--model", assignment.model.as_ref())
        .flag(
            "--resume",
            assignment.session.as_ref().map(|session| &session.id),
        )
        .flag(
            "--json-schema",
            Some(schema::answer_schema(assignment.role).to_string()),
        )
        .flag("--add-dir", assignment.result_file.parent())
        .args_if(judges, &["--allowedTools", "Read", "Grep", "Glob"])
        .args_if(judges && confined, &["Bash"])
        .args_if(!judges, &["--allowedTools"])
        .args_if(!judges && confined, &["Bash"])
        .args_if(!judges && !confined, GIT_ONLY)
        .args_if(ours.is_some(), &["mcp__countersign__*"]);
    let mut env = to_environment(&[
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
