//! Aider. It has no line format: its output is its answer, and it edits files itself.

use super::cli::{AgentCli, ArgsBuilder, CliAgent, HelpProbe, is_judge, to_environment};
use super::contract::{brief_file, diff_file};
use super::declared::{
    ErrorTexts, InvocationSummary, McpSupport, ProxySupport, SessionSupport, UsageReports,
};
use super::event::usd_to_micros;
use super::{AgentAssignment, AgentEvent, AgentUsage, Invocation, error_class};

pub(super) const CLI: AgentCli = AgentCli {
    name: "aider",
    title: "Aider",
    program: "aider",
    install: "pipx install aider-chat",
    log_in: "set the provider's key, for example ANTHROPIC_API_KEY or OPENAI_API_KEY",
    probes: &[HelpProbe {
        args: &["--help"],
        flags: &[
            "--message-file",
            "--yes-always",
            "--no-stream",
            "--no-check-update",
            "--chat-mode",
        ],
    }],
    budget_flag: None,
    files: &[],
    variables: &[
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "OPENAI_API_BASE",
        "GEMINI_API_KEY",
        "OPENROUTER_API_KEY",
        "DEEPSEEK_API_KEY",
    ],
    parse_usage_file: None,
    leftover_names: &[".aider.tags.cache.v4"],
    hosts: &[
        "api.anthropic.com",
        "api.openai.com",
        "generativelanguage.googleapis.com",
        "openrouter.ai",
        "api.deepseek.com",
    ],
    proxy: ProxySupport::HttpLibrary,
    tool_files: &[".aider*", "conventions.md", ".env*"],
    errors: ErrorTexts {
        log_in_first: &["api_key client option must be set"],
        out_of_quota: &["ratelimit"],
    },
    mcp: McpSupport::NotConnected {
        why: "it has no MCP",
    },
    summary: InvocationSummary {
        builder: "`aider --message-file FILE --yes-always --no-stream --no-pretty …`",
        judge: "the same with `--chat-mode ask --dry-run --no-auto-commits --no-git --read change.diff`",
        without_sandbox: "as in the sandbox: a builder edits, and no role runs commands",
    },
    reports: UsageReports {
        price: "if it knows the model",
        tokens: "rounded to hundreds",
        turns: "no",
        refusals: "no",
    },
    known_limits: "no line format: the answer is read as text",
    action_required_exit: None,
    session: SessionSupport::None,
    sums_over_session: false,
    invocation,
    events,
};

fn invocation(_: &CliAgent, assignment: &AgentAssignment) -> Invocation {
    let notes = |name: &str| Some(assignment.scratch.join(name));
    let args = ArgsBuilder::default()
        .flag("--message-file", Some(brief_file(assignment)))
        .args(&[
            "--yes-always",
            "--no-stream",
            "--no-pretty",
            "--no-check-update",
        ])
        .args(&[
            "--no-show-release-notes",
            "--no-show-model-warnings",
            "--analytics-disable",
        ])
        .args(&[
            "--no-gitignore",
            "--no-suggest-shell-commands",
            "--no-detect-urls",
        ])
        // Its history files must not become part of the change.
        .flag("--input-history-file", notes("aider-input"))
        .flag("--chat-history-file", notes("aider-chat.md"))
        .flag("--model", assignment.model.as_ref())
        .args_if(
            is_judge(assignment),
            &["--chat-mode", "ask", "--dry-run", "--no-auto-commits"],
        )
        // Otherwise it would create a repository in its empty working directory. It has no tools
        // to explore, so it gets the change to read.
        .args_if(is_judge(assignment), &["--no-git"])
        .flag("--read", assignment.change.as_deref().map(diff_file));
    Invocation {
        args: args.build(),
        env: to_environment(&[
            ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
            // It wraps lines at the terminal width, even inside JSON.
            ("COLUMNS", "10000"),
        ]),
        // Without an identity it would write one into the repository's own settings.
        files: vec![(assignment.home.join(".gitconfig"), IDENTITY.to_owned())],
        ..Invocation::default()
    }
}

const IDENTITY: &str = "[user]\n\tname = aider\n\temail = aider@countersign.invalid\n";

/// Beginnings of lines about itself, which are not the model's text.
const ABOUT_ITSELF: &[&str] = &[
    "Aider v",
    "Analytics have been",
    "Model: ",
    "Main model: ",
    "Weak model: ",
    "Git repo: ",
    "Repo-map: ",
    "Added ",
    "HTTPSConnectionPool",
    "Retrying in ",
    "The API provider",
];

/// Parses a line. All lines that are not about itself are the model's text. After a provider error
/// it may retry.
#[expect(clippy::unnecessary_wraps, reason = "all parsers have this signature")]
fn events(line: &str) -> Option<Vec<AgentEvent>> {
    let about_itself = ABOUT_ITSELF.iter().any(|start| line.starts_with(start));
    let error = ["litellm.", "Unable to "]
        .iter()
        .any(|start| line.starts_with(start));
    Some(if error {
        vec![error_class::classify_error(line)]
    } else if let Some(report) = line.strip_prefix("Tokens: ") {
        vec![usage_event(report)]
    } else if about_itself || line.trim().is_empty() {
        Vec::new()
    } else {
        vec![AgentEvent::SaidPart {
            text: format!("{line}\n"),
        }]
    })
}

fn usage_event(report: &str) -> AgentEvent {
    let count = |what: &str| {
        let (before, _) = report.split_once(what)?;
        parse_thousands(before.rsplit([' ', ',']).find(|word| !word.is_empty())?)
    };
    let price = report
        .split_once("Cost: $")
        .and_then(|(_, price)| price.split(' ').next()?.parse().ok());
    let usage = AgentUsage {
        usd_micros: price.and_then(usd_to_micros),
        tokens_in: count(" sent"),
        tokens_out: count(" received"),
        tokens_cached: count(" cache hit"),
    };
    AgentEvent::Spent { usage, model: None }
}

/// Parses a count such as `1.2k` or `950`.
fn parse_thousands(word: &str) -> Option<u64> {
    let (digits, each) = match word.strip_suffix('k') {
        Some(digits) => (digits, 1000.0),
        None => (word, 1.0),
    };
    // `micros` multiplies by a million and checks the range, so it serves for counts too.
    usd_to_micros(digits.parse::<f64>().ok()? * each / 1e6)
}
