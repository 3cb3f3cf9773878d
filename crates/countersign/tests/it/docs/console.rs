//! Every command in the documents is run, in order, in a small Python project, with stand-ins for
//! Claude Code and Codex, and says what the document says it says.
//!
//! In a block of the kind `console` a line that begins with `$ ` is a command (`> ` goes on with it),
//! what follows is what it prints, `[…]` stands for anything, and `(exit 3)` for how it ends. A block of
//! the kind `sh` is not run: what it does is not for a scratch repository.

use std::path::Path;

use regex::Regex;

use super::root;
use crate::support::World;

const DOCUMENTS: [&str; 9] = [
    "README.md",
    "docs/first-hour.md",
    "docs/agents.md",
    "docs/escalations.md",
    "docs/ci-gate.md",
    "docs/epics.md",
    "docs/in-session.md",
    "docs/notifications.md",
    "docs/uninstall.md",
];
/// Installing and building cannot be shown here.
const BLOCKS_NOT_RUN_MAX: usize = 4;

const TEST: &str = "import unittest

import greet


class Greets(unittest.TestCase):
    def test_greets_by_name(self):
        self.assertEqual(greet.greet(\"Ada\"), \"Hello, Ada\")
";

fn project() -> World {
    let mut world = World::without_commits();
    let git = [("AUTHOR", "NAME"), ("COMMITTER", "NAME")];
    for (who, _) in git {
        let set = |what: &str, value: &str| (format!("GIT_{who}_{what}"), value.to_owned());
        world.variables.push(set("NAME", "Ada"));
        world.variables.push(set("EMAIL", "ada@localhost"));
    }
    let key = ("ANTHROPIC_API_KEY".to_owned(), "k-1".to_owned());
    world.variables.push(key);
    world.put_home(".codex/auth.json", "the login");
    world.write("pyproject.toml", "[project]\nname = \"greetings\"\n");
    world.write(
        "greet.py",
        "def greet(name):\n    return \"Hello, \" + name\n",
    );
    world.write("test_greet.py", TEST);
    world.write(".gitignore", "__pycache__/\n");
    world.commit("Greetings");
    world.git(&["switch", "--quiet", "--create", "topic"]);
    world.write("bye.py", "def bye(name):\n    return \"Bye, \" + name\n");
    world.commit("Say bye");
    world.git(&["switch", "--quiet", "main"]);
    world.install("claude", include_str!("stand-ins/claude"));
    world.install("codex", include_str!("stand-ins/codex"));
    world.install_self();
    world
}

/// A command, what it should print, and how it should end.
#[derive(Debug)]
struct Shown {
    line: usize,
    command: String,
    output: Vec<String>,
    exit: i32,
}

fn commands(text: &str) -> Vec<Shown> {
    let mut shown: Vec<Shown> = Vec::new();
    let mut in_block = false;
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            in_block = line == "```console";
        } else if in_block && let Some(command) = line.strip_prefix("$ ") {
            shown.push(Shown {
                line: number + 1,
                command: command.to_owned(),
                output: Vec::new(),
                exit: 0,
            });
        } else if in_block && let Some(last) = shown.last_mut() {
            last.goes_on(line);
        }
    }
    shown
}

impl Shown {
    fn goes_on(&mut self, line: &str) {
        let code = line
            .strip_prefix("(exit ")
            .and_then(|rest| rest.strip_suffix(')'));
        let more = line.strip_prefix("> ").or((line == ">").then_some(""));
        match (code, more) {
            (Some(code), _) => self.exit = code.parse().unwrap(),
            (None, Some(more)) if self.output.is_empty() => {
                self.command.push('\n');
                self.command.push_str(more);
            }
            (None, _) => self.output.push(line.to_owned()),
        }
    }

    fn must_be_true_in(&self, document: &str, world: &World) {
        let place = format!("{document}:{}: $ {}", self.line, self.command);
        let ran = world.shell("sh", &format!("exec 2>&1\n{}", self.command));
        assert_eq!(ran.code, self.exit, "{place}\n{}", ran.out);
        if self.output.is_empty() {
            return;
        }
        let lines: String = self.output.iter().map(|line| pattern(line)).collect();
        let said = format!("{}\n", ran.out.trim_end());
        assert!(
            Regex::new(&format!("^{lines}$")).unwrap().is_match(&said),
            "{place}\nshould print\n{}\nand prints\n{said}",
            self.output.join("\n")
        );
    }
}

/// `[…]` alone stands for any lines, or none; in a line, for anything there.
fn pattern(line: &str) -> String {
    if line == "[…]" {
        return "(?:[^\n]*\n)*?".to_owned();
    }
    let parts: Vec<String> = line.split("[…]").map(regex::escape).collect();
    format!("{}\n", parts.join("[^\n]*?"))
}

fn read(document: &str) -> String {
    std::fs::read_to_string(root().join(document)).unwrap()
}

fn holds(document: &str) {
    let world = project();
    let shown = commands(&read(document));
    assert!(!shown.is_empty(), "{document} shows no command");
    for one in shown {
        one.must_be_true_in(document, &world);
    }
    world.must_be_sound();
}

#[test]
fn the_readme_holds() {
    holds("README.md");
}

#[test]
fn the_first_hour_holds() {
    holds("docs/first-hour.md");
}

#[test]
fn the_page_on_agents_holds() {
    holds("docs/agents.md");
}

#[test]
fn the_page_on_escalations_holds() {
    holds("docs/escalations.md");
}

#[test]
fn the_page_on_the_gate_holds() {
    holds("docs/ci-gate.md");
}

#[test]
fn the_page_on_epics_holds() {
    holds("docs/epics.md");
}

#[test]
fn the_page_on_notifications_holds() {
    holds("docs/notifications.md");
}

#[test]
fn the_page_on_uninstalling_holds() {
    holds("docs/uninstall.md");
}

/// A reader takes a `console` block for tested, and the flags of a block that is not run can be
/// looked up at least.
#[test]
fn what_looks_tested_is_and_the_rest_has_known_flags() {
    let reference = read("docs/reference.md");
    let flag = Regex::new(r"(?:^|\s)(--[a-z][a-z-]*)").unwrap();
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let document = format!("docs/{name}");
        let is_page = Path::new(&name)
            .extension()
            .is_some_and(|kind| kind == "md");
        if !is_page || name == "reference.md" {
            continue;
        }
        let text = read(&document);
        if !DOCUMENTS.contains(&document.as_str()) {
            assert!(!text.contains("```console\n"), "{document} is not run");
        }
        let mut in_block = false;
        for line in text.lines() {
            if line.starts_with("```") {
                in_block = line == "```sh";
            }
            let call = line.split_once("countersign ").filter(|_| in_block);
            for found in flag.captures_iter(call.map_or("", |(_, call)| call)) {
                let known = Regex::new(&format!(r"(?m)(?:^|[\s`]){}\b", &found[1])).unwrap();
                assert!(
                    known.is_match(&reference),
                    "{document}: no {}\n{line}",
                    &found[1]
                );
            }
        }
    }
}

#[test]
fn what_is_not_run_is_marked_and_rare() {
    let blocks = |document: &&str| read(document).matches("```sh\n").count();
    let not_run: usize = DOCUMENTS.iter().map(blocks).sum();
    assert!(
        not_run <= BLOCKS_NOT_RUN_MAX,
        "{not_run} blocks are not run"
    );
    for document in DOCUMENTS {
        for (number, line) in read(document).lines().enumerate() {
            // A block without a kind would hide commands.
            let bare = line == "```" && is_opening(&read(document), number);
            assert!(!bare, "{document}:{}: a block without a kind", number + 1);
        }
    }
}

fn is_opening(text: &str, number: usize) -> bool {
    let fences = text
        .lines()
        .take(number)
        .filter(|line| line.starts_with("```"));
    fences.count() % 2 == 0
}
