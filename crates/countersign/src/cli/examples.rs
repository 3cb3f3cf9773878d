//! Examples for the help of every verb that has none of its own.

use clap::{Command, CommandFactory};

use super::Args;

/// Returns the whole command line with examples for each verb.
pub fn command() -> Command {
    let mut command = Args::command();
    for (path, lines) in EXAMPLES {
        let verbs: Vec<&str> = path.split(' ').collect();
        command = add_examples(command, &verbs, &examples_text(lines));
    }
    command
}

fn examples_text(lines: &[&str]) -> String {
    let heading = if lines.len() == 1 {
        "Example:"
    } else {
        "Examples:"
    };
    let lines = [&[heading], lines].concat();
    lines.join("\n  ")
}

/// Appends the text to the help of the verb at this path, after any text that is there.
fn add_examples(command: Command, verbs: &[&str], text: &str) -> Command {
    if let Some((verb, rest)) = verbs.split_first() {
        return command.mut_subcommand(*verb, |inner| add_examples(inner, rest, text));
    }
    let before = command.get_after_help().map(ToString::to_string);
    let all = before.map_or(text.to_owned(), |before| format!("{before}\n\n{text}"));
    command.after_help(all)
}

const EXAMPLES: &[(&str, &[&str])] = &[
    ("demo", &["countersign demo", "countersign demo --escalate"]),
    (
        "ticket add",
        &[
            "countersign ticket add ticket.md \"Greet the user by name\"",
            "countersign ticket add backlog/*.md",
        ],
    ),
    (
        "ticket list",
        &[
            "countersign ticket list --stage escalated --stage blocked",
            "countersign ticket list --json | jq -r '.tickets[].id'",
        ],
    ),
    ("ticket show", &["countersign ticket show T-7"]),
    (
        "ticket diff",
        &[
            "countersign ticket diff T-7",
            "countersign ticket diff T-7 --round 1",
        ],
    ),
    (
        "ticket resubmit",
        &["git switch countersign/T-7   (fix and commit)   countersign ticket resubmit T-7"],
    ),
    (
        "ticket budget",
        &["countersign ticket budget T-7 --usd 5 --why \"worth the cost\""],
    ),
    (
        "ticket cancel",
        &["countersign ticket cancel T-7 --why \"no longer needed\""],
    ),
    (
        "queue list",
        &["countersign queue list --queue engineer --state ready"],
    ),
    (
        "queue cancel",
        &["countersign queue cancel fix-42 --why \"no longer needed\""],
    ),
    ("queue limit", &["countersign queue limit claude 4"]),
    (
        "ticket waive",
        &["countersign ticket waive T-7 F2 --why \"only trusted input\""],
    ),
    (
        "worker",
        &[
            "countersign worker --builder claude --reviewer codex",
            "countersign worker --queue check --replicas 4 --label gpu=yes",
            "countersign --server https://build.example:7420 worker --builder claude",
            "countersign worker --queue engineer --replicas 3 --builder claude",
        ],
    ),
    (
        "serve",
        &[
            "countersign serve",
            "countersign serve --listen 0.0.0.0:7420 --host agents.example --tls-cert cert.pem --tls-key key.pem",
        ],
    ),
    ("mcp", &["COUNTERSIGN_TOKEN=$(cat token) countersign mcp"]),
    (
        "token create",
        &["countersign token create --agent codex-1 --role reviewer --ttl 8h"],
    ),
    ("token list", &["countersign token list"]),
    ("token revoke", &["countersign token revoke 1c995dd4"]),
    ("token rotate", &["countersign token rotate 1c995dd4"]),
    ("epic list", &["countersign epic list"]),
    ("epic show", &["countersign epic show greetings"]),
    (
        "epic accept",
        &["countersign epic accept greetings --why \"reviewed and tried\""],
    ),
    (
        "log",
        &[
            "countersign log T-7",
            "countersign log --transcript T-7 --round 2 --role review",
        ],
    ),
    ("watch", &["countersign watch"]),
    ("escalation list", &["countersign escalation list"]),
    ("escalation show", &["countersign escalation show T-7"]),
    (
        "escalation resolve",
        &[
            "countersign escalation resolve T-7 continue",
            "countersign escalation resolve T-7 accept --why \"a matter of taste\"",
            "countersign escalation resolve T-7 reassign --reviewer codex",
        ],
    ),
    (
        "findings track",
        &["countersign findings track round-1.md round-2.md --repo . --from HEAD~1 --to HEAD"],
    ),
    (
        "findings score",
        &["countersign findings score corpus --verbose"],
    ),
    (
        "export",
        &["countersign export --as findings T-7 --output T-7.md"],
    ),
    (
        "import",
        &["countersign import epic-state.json tasks/*.json"],
    ),
    ("watch", &["countersign watch"]),
    ("ticket diff", &["countersign ticket diff T-7"]),
    ("insights accept", &["countersign insights accept 1"]),
    ("insights reject", &["countersign insights reject 2"]),
    ("insights withdraw", &["countersign insights withdraw 7"]),
    (
        "doctor",
        &["countersign doctor", "countersign doctor --verify-log"],
    ),
];
