//! Tests that a proposal becomes a rule when a person accepts it, and ends when they withdraw it.

use serde_json::{Value, json};

use super::greet;
use crate::support::World;
use crate::support::crew::{
    GOOD, HASTY, always, approves, builds, crew, rejects, rounds, runs, verifies,
};

pub const RULE: &str =
    "Handle the empty, the missing and the last case, and never swallow an error.";

fn defect(title: &str, line: u32) -> Value {
    json!({"severity": "high", "category": "correctness", "file": "greet.sh", "line": line,
        "title": title, "problem": title})
}

/// A ticket whose three findings were fixed.
pub fn taught() -> World {
    let world = World::unconfined();
    let found = [
        defect("An empty name is accepted", 1),
        defect("The exit code is lost", 2),
        defect("Quotes are missing around the name", 3),
    ];
    let script = crew(
        &rounds([builds("greet.sh", HASTY), builds("greet.sh", GOOD)]),
        &rounds([rejects(found), approves()]),
        &always(verifies(&[
            ("F1", "fixed"),
            ("F2", "fixed"),
            ("F3", "fixed"),
        ])),
    );
    greet(&world, &script).ends_with(0);
    world
}

/// Runs one more ticket and returns its builder's brief.
fn next_brief(world: &World, id: &str) -> String {
    let ticket = world.put(&format!("{id}.md"), format!("---\nid: {id}\n---\n# More\n"));
    let mut build = builds(&format!("{id}.sh"), GOOD);
    let kept = world.root().join(format!("{id}-brief"));
    build.insert(
        0,
        runs(&format!(
            "cat \"$COUNTERSIGN_BRIEF_FILE\" > {}",
            kept.display()
        )),
    );
    let agent = world.crew(&crew(
        &always(build),
        &always(approves()),
        &always(json!([])),
    ));
    world
        .call(&["run", &ticket, "--builder", &agent, "--reviewer", &agent])
        .ends_with(0);
    std::fs::read_to_string(kept).unwrap()
}

#[test]
fn an_accepted_rule_is_in_every_later_brief_until_it_is_withdrawn() {
    let world = taught();
    world
        .call(&["insights"])
        .ends_with(0)
        .says(&format!("1. {RULE}"));
    assert!(!next_brief(&world, "before").contains(RULE));
    world
        .call(&["insights", "accept", "1"])
        .ends_with(0)
        .says(RULE);
    let shown = world.json(&["insights"]);
    let rule = &shown["accepted_rules"][0];
    assert_eq!(rule["text"], RULE, "{shown}");
    assert!(rule["by"].is_string() && rule["at"].is_number(), "{rule}");
    assert_eq!(shown["rules"], json!([]), "it is not proposed again");
    assert!(next_brief(&world, "with").contains(RULE));
    let id = rule["id"].to_string();
    world.call(&["insights", "withdraw", &id]).ends_with(0);
    assert!(!next_brief(&world, "after").contains(RULE));
    let log = world.call(&["log"]).ends_with(0);
    assert!(log.out.contains(RULE), "{}", log.out);
    world.call(&["insights", "withdraw", &id]).ends_with(2);
    world.must_be_sound();
}

#[test]
fn a_rejected_rule_is_not_proposed_again() {
    let world = taught();
    let ran = world.call(&["insights", "accept", "7"]).ends_with(2);
    assert!(ran.err.contains("there is no proposal 7"), "{}", ran.err);
    world.call(&["insights", "reject", "1"]).ends_with(0);
    let shown = world.json(&["insights"]);
    assert_eq!(shown["rules"], json!([]));
    assert_eq!(shown["accepted_rules"], json!([]));
    assert!(!next_brief(&world, "next").contains(RULE));
}
