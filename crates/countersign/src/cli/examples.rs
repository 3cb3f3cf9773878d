//! The help: verbs in groups, and examples for every verb that has none of its own.

use std::fmt::Write as _;

use clap::{Command, CommandFactory};

use super::Args;

/// Returns the whole command line with examples for each verb.
pub fn command() -> Command {
    let mut command = Args::command();
    for (path, lines) in EXAMPLES {
        let verbs: Vec<&str> = path.split(' ').collect();
        command = add_examples(command, &verbs, &examples_text(lines));
    }
    let groups = grouped_verbs(&command);
    // Clap lists verbs in one row; a newcomer needs the everyday ones first.
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}\nGlobal options:\n{{options}}{{after-help}}"
    ))
}

/// Verbs by group, the everyday ones first. Every visible verb is in one group.
const GROUPS: &[(&str, &[&str])] = &[
    ("Start", &["init", "run", "review", "demo"]),
    (
        "Follow",
        &[
            "status",
            "watch",
            "log",
            "ticket",
            "escalation",
            "inbox",
            "epic",
        ],
    ),
    (
        "Set up",
        &["doctor", "config", "agent", "hook", "completions", "man"],
    ),
    (
        "Exchange and learn",
        &["import", "export", "findings", "insights"],
    ),
    (
        "Servers and workers",
        &[
            "serve", "open", "worker", "queue", "token", "mcp", "backup", "restore",
        ],
    ),
];

/// Formats the verbs with their sentences; verbs that no group names come last.
fn grouped_verbs(command: &Command) -> String {
    let about = |name: &str| {
        let verb = command.find_subcommand(name)?;
        let text = verb.get_about()?.to_string();
        // The first sentence is enough for a list.
        Some(text.split(". ").next()?.trim_end_matches('.').to_owned())
    };
    let visible = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let mut rest: Vec<&str> = visible.map(Command::get_name).collect();
    let mut text = String::new();
    let width = rest.iter().map(|name| name.len()).max().unwrap_or_default();
    let group = |title: &str, names: &[&str], text: &mut String| {
        let _ = writeln!(text, "{title}:");
        for name in names {
            if let Some(about) = about(name) {
                let _ = writeln!(text, "  {name:width$}  {about}");
            }
        }
        text.push('\n');
    };
    for (title, names) in GROUPS {
        rest.retain(|name| !names.contains(name));
        group(title, names, &mut text);
    }
    rest.retain(|name| *name != "help");
    if !rest.is_empty() {
        group("More", &rest, &mut text);
    }
    text
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
        "queue pause",
        &[
            "countersign queue pause build --why \"the base is broken\"",
            "countersign queue pause claude --provider --for 3600",
        ],
    ),
    ("queue resume", &["countersign queue resume build"]),
    ("inbox", &["countersign inbox --clear"]),
    ("open", &["countersign open"]),
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
    (
        "token share",
        &["countersign token share --ticket greet --expires 7d"],
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
    (
        "backup",
        &["countersign backup /backups/countersign-monday.db"],
    ),
    (
        "restore",
        &["countersign restore /backups/countersign-monday.db --replace"],
    ),
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
        &[
            "countersign import epic-state.json tasks/*.json",
            "countersign import --dry-run .beads/issues.jsonl",
            "countersign import config/agents.yaml config/agent-framework.yaml --write",
        ],
    ),
    ("insights accept", &["countersign insights accept 1"]),
    ("insights reject", &["countersign insights reject 2"]),
    ("insights withdraw", &["countersign insights withdraw 7"]),
    (
        "doctor",
        &["countersign doctor", "countersign doctor --verify-log"],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_of_a_verb_lists_its_examples_once() {
        fn visit(command: &Command) {
            let help = command.get_after_help().map(ToString::to_string);
            let lists = help.map_or(0, |help| help.matches("Example").count());
            assert!(lists <= 1, "{}", command.get_name());
            command.get_subcommands().for_each(visit);
        }
        visit(&command());
    }
}
