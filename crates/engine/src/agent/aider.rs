//! Aider. No line format: what it prints is its answer, and it edits the files itself.

use super::cli::{AgentCli, ArgsBuilder, CliAgent, HelpProbe, judges, variables};
use super::contract::{brief_file, diff_file};
use super::event::micros;
use super::{AgentAssignment, AgentEvent, AgentUsage, Invocation, trouble};

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
    money_flag: None,
    files: &[],
    variables: &[
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "OPENAI_API_BASE",
        "GEMINI_API_KEY",
        "OPENROUTER_API_KEY",
        "DEEPSEEK_API_KEY",
    ],
    accounts: None,
    litter: &[".aider.tags.cache.v4"],
    hosts: &[
        "api.anthropic.com",
        "api.openai.com",
        "generativelanguage.googleapis.com",
        "openrouter.ai",
        "api.deepseek.com",
    ],
    barred_exit: None,
    resumes: false,
    sums_over_session: false,
    invocation,
    events,
};

fn invocation(_: &CliAgent, assignment: &AgentAssignment) -> Invocation {
    let notes = |name: &str| Some(assignment.scratch.join(name));
    let args = ArgsBuilder::default()
        .with("--message-file", Some(brief_file(assignment)))
        .and(&[
            "--yes-always",
            "--no-stream",
            "--no-pretty",
            "--no-check-update",
        ])
        .and(&[
            "--no-show-release-notes",
            "--no-show-model-warnings",
            "--analytics-disable",
        ])
        .and(&[
            "--no-gitignore",
            "--no-suggest-shell-commands",
            "--no-detect-urls",
        ])
        // Its notes do not belong into the change.
        .with("--input-history-file", notes("aider-input"))
        .with("--chat-history-file", notes("aider-chat.md"))
        .with("--model", assignment.model.as_ref())
        .when(
            judges(assignment),
            &["--chat-mode", "ask", "--dry-run", "--no-auto-commits"],
        )
        // It would make a repository of the empty directory that it starts in. It has no tools to
        // look around, so it is given the change to read.
        .when(judges(assignment), &["--no-git"])
        .with("--read", assignment.change.as_deref().map(diff_file));
    Invocation {
        args: args.build(),
        env: variables(&[
            ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
            // It breaks lines where a terminal would end, inside of JSON too.
            ("COLUMNS", "10000"),
        ]),
        // Without a name it would write one into the repository's own settings.
        files: vec![(assignment.home.join(".gitconfig"), IDENTITY.to_owned())],
        ..Invocation::default()
    }
}

const IDENTITY: &str = "[user]\n\tname = aider\n\temail = aider@countersign.invalid\n";

/// What it says about itself before and after the model's words.
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

/// All the rest is what the model says. After an error of the provider's it may try again.
#[expect(clippy::unnecessary_wraps, reason = "the form that all parsers have")]
fn events(line: &str) -> Option<Vec<AgentEvent>> {
    let about_itself = ABOUT_ITSELF.iter().any(|start| line.starts_with(start));
    let error = ["litellm.", "Unable to "]
        .iter()
        .any(|start| line.starts_with(start));
    Some(if error {
        vec![trouble::of(line)]
    } else if let Some(told) = line.strip_prefix("Tokens: ") {
        vec![spent(told)]
    } else if about_itself || line.trim().is_empty() {
        Vec::new()
    } else {
        vec![AgentEvent::Wrote {
            text: format!("{line}\n"),
        }]
    })
}

fn spent(told: &str) -> AgentEvent {
    let count = |what: &str| {
        let (before, _) = told.split_once(what)?;
        thousands(before.rsplit([' ', ',']).find(|word| !word.is_empty())?)
    };
    let price = told
        .split_once("Cost: $")
        .and_then(|(_, price)| price.split(' ').next()?.parse().ok());
    let usage = AgentUsage {
        usd_micros: price.and_then(micros),
        tokens_in: count(" sent"),
        tokens_out: count(" received"),
        tokens_cached: count(" cache hit"),
    };
    AgentEvent::Spent { usage, model: None }
}

/// `1.2k`, `950`
fn thousands(word: &str) -> Option<u64> {
    let (digits, each) = match word.strip_suffix('k') {
        Some(digits) => (digits, 1000.0),
        None => (word, 1.0),
    };
    // A dollar's millionth and a token are both whole numbers of something small.
    micros(digits.parse::<f64>().ok()? * each / 1e6)
}
