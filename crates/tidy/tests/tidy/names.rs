//! A pattern guards by the names in it, so a name that the sources no longer have guards nothing: it
//! was disarmed once by a renaming. This looks up each name and each place of the table.

use std::collections::BTreeSet;

use regex::Regex;

use super::table::RULES;
use super::tree::{Layer, Tree};

/// Names in patterns that are not ours: of Rust, of libraries, and names that nothing may have.
const NOT_OURS: &[&str] = &[
    // Rust and its standard library.
    "as",
    "if",
    "let",
    "match",
    "matches",
    "mod",
    "struct",
    "enum",
    "trait",
    "type",
    "cfg",
    "cfg_attr",
    "std",
    "Command",
    "CommandExt",
    "Instant",
    "SystemTime",
    "abort",
    "allow",
    "dbg",
    "env",
    "exec",
    "execve",
    "exit",
    "fork",
    "home_dir",
    "ignore",
    "io",
    "ln",
    "now",
    "os",
    "posix_spawn",
    "print",
    "process",
    "remove_var",
    "set_var",
    "sleep",
    "stderr",
    "stdout",
    "thread",
    "time",
    "todo",
    "unimplemented",
    "unsafe",
    "unsafe_code",
    "var",
    "vars",
    // Libraries.
    "Local",
    "PreEscaped",
    "Timestamp",
    "Utc",
    "Uuid",
    "Zoned",
    "deadpool_postgres",
    "fastrand",
    "getrandom",
    "new_v",
    "push_html",
    "rand",
    "random",
    "rng",
    "rusqlite",
    "sqlx",
    "thread_rng",
    "tokio_postgres",
    "toml",
    // Names that no code may have.
    "Handler",
    "Helpers",
    "Manager",
    "Processor",
    "Service",
    "Utils",
    "common",
    "core",
    "handlers",
    "helpers",
    "imp",
    "managers",
    "misc",
    "processors",
    "types",
    "utils",
    // The end of a name.
    "Id",
];

fn words(pattern: &str) -> BTreeSet<String> {
    let escapes = Regex::new(r"\\[bwsdnx]|\(\?[a-z]+[:)]|\[\^?[^\]]*\]").expect("a fixed pattern");
    let word = Regex::new(r"[A-Za-z][A-Za-z_]+").expect("a fixed pattern");
    let plain = escapes.replace_all(pattern, " ");
    word.find_iter(&plain)
        .map(|found| found.as_str().to_owned())
        .collect()
}

/// Names that production code defines: items, fields, crates and modules.
fn defined(tree: &Tree) -> BTreeSet<String> {
    let item = Regex::new(r"\b(?:struct|enum|trait|type|fn|mod|const|static)\s+(\w+)")
        .expect("a fixed pattern");
    let field =
        Regex::new(r"(?m)^\s*(?:pub(?:\([^)]*\))?\s+)?([a-z]\w*):\s").expect("a fixed pattern");
    let mut names = BTreeSet::new();
    for source in tree
        .sources()
        .into_iter()
        .filter(|source| source.path.contains("/src/"))
    {
        let code = source.layer(Layer::Code);
        for found in item.captures_iter(code).chain(field.captures_iter(code)) {
            let line = super::tree::line_of(code, found.get_match().start());
            if !source.in_test[line - 1] {
                names.insert(found[1].to_owned());
            }
        }
        names.extend(source.path.split('/').nth(1).map(str::to_owned));
    }
    names
}

fn unknown(tree: &Tree) -> Vec<String> {
    let names = defined(tree);
    let mut unknown = Vec::new();
    for rule in RULES {
        for pattern in rule
            .patterns()
            .filter(|pattern| matches!(pattern.layer, Layer::Code))
        {
            let strange = words(pattern.regex)
                .into_iter()
                .filter(|word| !names.contains(word) && !NOT_OURS.contains(&word.as_str()));
            unknown.extend(strange.map(|word| format!("{word}: {}", rule.fact)));
            let places = pattern.within.iter().chain(pattern.except);
            let missing =
                places.filter(|place| !tree.holds(place) && !tree.holds(&format!("{place}.rs")));
            unknown.extend(missing.map(|place| format!("{place}: {}", rule.fact)));
        }
    }
    unknown
}

#[test]
fn every_name_and_place_of_a_pattern_exists() {
    let unknown = unknown(&Tree::read(super::root()));
    assert!(
        unknown.is_empty(),
        "the rule guards nothing:\n{}",
        unknown.join("\n")
    );
}

#[test]
fn a_renamed_type_or_file_is_noticed() {
    let tree = Tree::read(super::root());
    let event = "crates/flow/src/event.rs";
    let text = tree
        .text(event)
        .expect("the events")
        .replace("EventKind", "Happening");
    let renamed = unknown(&tree.with(event, &text));
    assert!(
        renamed.iter().any(|line| line.starts_with("EventKind: ")),
        "{renamed:?}"
    );
}
