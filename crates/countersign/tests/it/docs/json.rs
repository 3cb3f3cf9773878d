//! `--json`: every command's answer parses, has the version, and has the fields that the page on it
//! promises.

use std::collections::BTreeMap;

use serde_json::Value;

use super::root;
use crate::support::crew::{quarrel, two_rounds};
use crate::support::{TICKET, World};

/// They print documents in forms of their own.
const DOCUMENTS: [&str; 3] = ["completions", "config schema", "findings convert"];

/// The page's table: command and fields.
fn promised() -> BTreeMap<String, Vec<String>> {
    let page = std::fs::read_to_string(root().join("docs/json.md")).unwrap();
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let command = cells.next()?.trim_end_matches('`').to_owned();
        let fields = cells.next()?.trim_end_matches(" |");
        // Names in brackets are inside of a field.
        let mut depth = 0;
        let outside: String = fields
            .chars()
            .filter(|c| {
                depth += i32::from(*c == '(') - i32::from(*c == ')');
                depth == 0
            })
            .collect();
        let names = outside.split('`').skip(1).step_by(2).map(str::to_owned);
        Some((command, names.collect()))
    };
    page.lines().filter_map(row).collect()
}

/// Every command that does something, as the reference has them.
fn commands() -> Vec<String> {
    let reference = World::empty().call(&["reference"]).ends_with(0).out;
    let parts = reference.split("\n## countersign ").skip(1);
    let groups = [
        "ticket",
        "queue",
        "epic",
        "escalation",
        "findings",
        "forge",
        "config",
        "hook",
        "agent",
        "token",
    ];
    parts
        .map(|part| part.lines().next().unwrap().to_owned())
        .filter(|name| !groups.contains(&name.as_str()))
        .filter(|name| !DOCUMENTS.contains(&name.as_str()))
        .collect()
}

/// A world in which everything has happened that an answer could be about.
fn lived_in() -> World {
    let world = World::new();
    let (ticket, good) = (world.put("greet.md", TICKET), world.crew(&two_rounds()));
    let words = ["run", &ticket, "--builder", &good, "--reviewer", &good];
    world.call(&words).ends_with(0);
    let bad = world.named_crew("quarrel", &quarrel());
    for id in ["stuck", "stuck-too", "mine"] {
        let file = world.put(
            &format!("{id}.md"),
            TICKET.replace("greet\n", &format!("{id}\n")),
        );
        let words = [
            "run",
            &file,
            "--builder",
            &bad,
            "--reviewer",
            &bad,
            "--max-rounds",
            "1",
        ];
        world.call(&words).ends_with(4);
    }
    world
        .call(&["escalation", "resolve", "mine", "take-over"])
        .ends_with(0);
    world.put("review.md", "# Review\n\nApproved.\n");
    world
}

#[test]
fn every_answer_has_its_version_and_the_fields_of_the_page() {
    let world = lived_in();
    let agent = world.crew(&two_rounds());
    let review = world.root().join("review.md");
    let review = review.to_str().unwrap();
    let copy = world.root().join("copy.db");
    let copy = copy.to_str().unwrap();
    let man = world.root().join("man");
    let calls: &[(&str, &[&str])] = &[
        ("agent install", &[]),
        ("agent uninstall", &["--dry-run"]),
        ("agent list", &[]),
        ("backup", &[copy]),
        ("restore", &[copy, "--replace"]),
        ("clean", &[]),
        ("config check", &[]),
        ("config show", &[]),
        ("doctor", &[]),
        ("epic list", &[]),
        ("escalation list", &[]),
        ("escalation show", &["stuck"]),
        ("escalation resolve", &["stuck", "continue"]),
        ("export", &["--as", "findings", "greet"]),
        ("findings parse", &[review]),
        ("findings track", &[review, review]),
        ("forge connect", &[]),
        ("hook dismiss", &[]),
        ("hook install", &[]),
        ("hook uninstall", &[]),
        ("insights", &[]),
        ("log", &["greet"]),
        ("man", &[man.to_str().unwrap()]),
        ("queue limit", &["claude", "4"]),
        ("queue list", &[]),
        ("queue pause", &["build"]),
        ("queue resume", &["build"]),
        ("inbox", &[]),
        ("review", &["--commit", "HEAD", "--linters-only"]),
        ("run", &["greet", "--builder", &agent, "--reviewer", &agent]),
        ("status", &[]),
        ("ticket add", &["Do one thing"]),
        (
            "ticket budget",
            &["stuck-too", "--usd", "5", "--why", "worth it"],
        ),
        ("ticket cancel", &["stuck-too"]),
        ("ticket diff", &["greet"]),
        ("ticket list", &[]),
        ("ticket new", &["Do another thing", "--no-edit"]),
        ("ticket resubmit", &["mine"]),
        ("ticket show", &["greet"]),
        ("token create", &["--agent", "bea", "--role", "builder"]),
        ("token list", &[]),
        ("token share", &["--ticket", "greet"]),
    ];
    // Told by their own stories, or refused here: a refusal has its version too.
    let elsewhere = [
        "demo",
        "epic accept",
        "epic show",
        "findings score",
        "import",
        "init",
        "insights accept",
        "insights reject",
        "insights withdraw",
        "mcp",
        "open",
        "queue cancel",
        "serve",
        "ticket comment",
        "ticket import-findings",
        "ticket waive",
        "token revoke",
        "token rotate",
        "watch",
        "worker",
    ];
    let promised = promised();
    for (name, more) in calls {
        let words: Vec<&str> = name.split(' ').chain(more.iter().copied()).collect();
        let answer = world.json(&words);
        let fields = promised
            .get(*name)
            .unwrap_or_else(|| panic!("the page has no {name}"));
        for field in fields {
            assert!(
                answer.get(field).is_some(),
                "{name} has no {field}: {answer}"
            );
        }
    }
    for command in commands() {
        let tried = calls.iter().any(|(name, _)| *name == command);
        assert!(
            tried || elsewhere.contains(&command.as_str()),
            "{command} is not tried"
        );
    }
}

#[test]
fn a_failure_and_a_usage_error_are_objects_too() {
    let world = World::empty();
    for words in [
        &["ticket", "show", "none"][..],
        &["epic", "accept", "none", "--why", "x"],
        &["insights", "accept", "99"],
        &["ticket", "shw", "none"],
        &["run"],
    ] {
        let ran = world.call(&[words, &["--json"]].concat());
        let answer: Value = ran.json();
        assert_eq!(answer["error"]["exit"], ran.code, "{words:?}: {answer}");
        assert!(answer["error"]["message"].is_string());
    }
}
