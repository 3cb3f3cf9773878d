//! Tickets in other systems' forms, and every answer in JSON.

use serde_json::Value;

use super::greet;
use crate::support::crew::{quarrel, two_rounds};
use crate::support::{Ran, World};

fn export(world: &World, form: &str, more: &[&str]) -> Ran {
    world.call(&[&["export", "--as", form, "greet"], more].concat())
}

#[test]
fn a_ticket_is_exported_in_all_four_forms() {
    let world = World::new();
    greet(&world, &two_rounds()).ends_with(0);
    let json = |form: &str| -> Value {
        serde_json::from_str(&export(&world, form, &[]).ends_with(0).out).unwrap()
    };
    assert_eq!(
        json("epic-state")["tickets"]["greet"]["status"],
        "completed"
    );
    assert_eq!(json("task")["status"], "completed");
    assert!(json("report").is_object());
    let first = export(&world, "findings", &["--round", "1"]).ends_with(0);
    assert!(
        first.out.contains("An empty name is accepted"),
        "{}",
        first.out
    );
    export(&world, "findings", &["--round", "9"])
        .ends_with(2)
        .says("has no round 9");
    export(&world, "report", &["--round", "1"]).ends_with(0);
}

#[test]
fn an_export_never_writes_over_a_file() {
    let world = World::new();
    greet(&world, &two_rounds()).ends_with(0);
    let path = world.put("taken.json", "mine");
    export(&world, "task", &["--output", &path])
        .ends_with(1)
        .says("cannot be written");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    let fresh = world.root().join("fresh.json");
    export(&world, "task", &["--output", fresh.to_str().unwrap()]).ends_with(0);
    assert!(fresh.exists());
}

#[test]
fn every_command_answers_in_json_with_a_version() {
    let world = World::new();
    greet(&world, &quarrel()).ends_with(4);
    for words in [
        &["ticket", "list"][..],
        &["ticket", "show", "greet"],
        &["ticket", "add", "Another thing to do"],
        &["status"],
        &["log"],
        &["log", "greet", "--limit", "2"],
        &["escalation", "list"],
        &["escalation", "show", "greet"],
        &["export", "--as", "findings", "greet"],
        &["export", "--as", "task", "greet"],
        &["export", "--as", "epic-state", "greet"],
        &["export", "--as", "report", "greet"],
        &["doctor"],
        &["doctor", "--verify-log"],
        &["escalation", "resolve", "greet", "continue"],
        &["ticket", "cancel", "greet"],
        &["ticket", "show", "nobody"],
        &["run", "nothing.md"],
        &["demo"],
    ] {
        let answer = world.json(words);
        assert!(answer.is_object(), "{words:?}");
    }
}
