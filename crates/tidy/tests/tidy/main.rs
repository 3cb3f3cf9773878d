//! Reads the project's own sources and refuses what the house does not want. Each rule of
//! [`table::RULES`] carries breaches that are planted here and must be found, because a rule that
//! never fails guards nothing.
#![expect(
    clippy::expect_used,
    reason = "a test stops where its ground is missing"
)]

mod layers;
mod licences;
mod manifests;
mod names;
mod paths;
mod prose;
mod ratchets;
mod rules;
mod table;
mod tree;

use std::fs;
use std::path::Path;

use rules::{Breach, Rule};
use table::RULES;
use tree::Tree;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn report(rule: &Rule, breaches: &[Breach]) -> String {
    let lines: Vec<_> = breaches
        .iter()
        .map(|breach| format!("  {}:{}: {}", breach.path, breach.line, breach.what))
        .collect();
    format!(
        "{}\n{}\n  instead: {}\n",
        rule.fact,
        lines.join("\n"),
        rule.instead
    )
}

#[test]
fn the_house_keeps_every_rule() {
    let tree = Tree::read(root());
    let broken: Vec<_> = RULES
        .iter()
        .map(|rule| (rule, rule.breaches(&tree)))
        .filter(|(_, breaches)| !breaches.is_empty())
        .map(|(rule, breaches)| report(rule, &breaches))
        .collect();
    assert!(broken.is_empty(), "\n\n{}", broken.join("\n"));
}

#[test]
fn every_planted_breach_is_found() {
    let tree = Tree::read(root());
    for rule in RULES {
        assert!(
            !rule.planted.is_empty(),
            "no breach is planted for: {}",
            rule.fact
        );
        for (path, text) in rule.planted {
            let found = rule.breaches(&tree.with(path, text));
            let seen = found.iter().find(|breach| breach.path == *path);
            let Some(seen) = seen else {
                panic!(
                    "not found in {path}, though planted:\n{text}\nrule: {}",
                    rule.fact
                )
            };
            println!("{} <- {path}:{}: {}", rule.fact, seen.line, seen.what);
        }
    }
}

#[test]
fn what_only_looks_like_a_breach_passes() {
    let tree = Tree::read(root());
    for rule in RULES {
        for (path, text) in rule.fine {
            let found = rule.breaches(&tree.with(path, text));
            let wrongly: Vec<_> = found
                .into_iter()
                .filter(|breach| breach.path == *path)
                .collect();
            assert!(
                wrongly.is_empty(),
                "wrongly refused:\n{text}\n{}",
                report(rule, &wrongly)
            );
        }
    }
}

/// The other tests plant in memory; this one shows that the reading is real.
#[test]
fn a_breach_on_disk_is_found() {
    let copy = tempfile::tempdir().expect("a temporary directory");
    let engine = copy.path().join("crates/engine/src/git");
    fs::create_dir_all(&engine).expect("a directory in it");
    fs::write(
        engine.join("blame.rs"),
        "fn f() { std::process::Command::new(\"git\"); }",
    )
    .expect("a file in it");
    let tree = Tree::read(copy.path());
    let found: Vec<_> = RULES.iter().flat_map(|rule| rule.breaches(&tree)).collect();
    assert!(
        found
            .iter()
            .any(|breach| breach.path == "crates/engine/src/git/blame.rs")
    );
}
