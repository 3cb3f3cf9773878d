//! Epics: tickets that depend on each other, side by side, into one branch.

use serde_json::json;

use crate::support::World;
use crate::support::crew::{always, crew, runs, verifies};

/// Two chains of three, and two that change the same file. `E` has a reviewer that is never content.
const EPIC: &str = "id: GREET
title: Greetings
coordination_requirements:
  breaking_changes_prohibited: [greet.sh keeps its one argument]
tickets:
  - {id: A1, title: a one}
  - {id: A2, title: a two, depends_on: [A1]}
  - {id: A3, title: a three, depends_on: [A2], critical: true}
  - {id: B1, title: b one}
  - {id: B2, title: b two, depends_on: [B1]}
  - {id: C1, title: c one}
  - {id: C2, title: c two}
  - {id: E, title: e, depends_on: [B2]}
";

/// Each writes a file of its own; the two `C` write one more, and give way when they come back.
const BUILD: &str = r#"echo "$COUNTERSIGN_ROUND" > "$COUNTERSIGN_TICKET.txt"
case $COUNTERSIGN_TICKET in C*)
  if [ "$COUNTERSIGN_ROUND" = 1 ]; then echo "$COUNTERSIGN_TICKET" > shared; else git show main:shared > shared; fi;;
esac"#;

const REVIEW: &str = r#"if [ "$COUNTERSIGN_TICKET" = E ]; then
  echo '{"verdict": "changes_requested", "findings": [{"severity": "high", "title": "Not this way", "file": "E.txt", "line": 1}]}'
else echo '{"verdict": "approved", "findings": []}'; fi > "$COUNTERSIGN_RESULT_FILE""#;

fn run(world: &World, more: &[&str]) -> crate::support::Ran {
    let file = world.put("epic.yaml", EPIC);
    let script = crew(
        &always(json!([runs(BUILD), {"result": {"summary": "Done."}}])),
        &always(json!([runs(REVIEW)])),
        &always(verifies(&[("F1", "confirmed")])),
    );
    let agent = world.crew(&script);
    let words = [
        "run",
        &file,
        "--builder",
        &agent,
        "--reviewer",
        &agent,
        "--land",
        "queue",
        "--max-rounds",
        "2",
    ];
    world.call(&[&words, more].concat())
}

#[test]
fn an_epic_of_two_chains_lands_green_with_one_conflict_and_one_decision() {
    let world = World::new();
    run(&world, &["--jobs", "4"])
        .ends_with(4)
        .says("8 tickets, 8 of them new, 4 at a time")
        .says("conflicts with the base: shared")
        .says("waits for a person: E");
    for id in ["A1", "A2", "A3", "B1", "B2", "C1", "C2"] {
        assert_eq!(world.stage(id), "done", "{id}");
    }
    let settle = [
        "escalation",
        "resolve",
        "E",
        "accept",
        "--why",
        "it is meant so",
    ];
    world.call(&settle).ends_with(0);
    run(&world, &["--jobs", "4"])
        .ends_with(4)
        .says("waits for a person's signature");
    world
        .call(&["epic", "show", "GREET"])
        .ends_with(4)
        .says("8 of 8 tickets landed")
        .says("1 waived");
    world
        .call(&["epic", "accept", "GREET", "--why", "seen"])
        .ends_with(0)
        .says("complete");
    run(&world, &[]).ends_with(0);
    assert_eq!(super::merges(&world), 8, "each landed once");
    world.must_be_sound();
}

#[test]
fn a_rehearsal_of_an_epic_prints_and_changes_nothing() {
    let world = World::new();
    let ran = run(&world, &["--dry-run"]).ends_with(0);
    assert!(ran.out.starts_with("[DRY-RUN] Would spawn epic-builder for Story A1\n[DRY-RUN] Would spawn epic-reviewer for Story A1 round 1\n"), "{}", ran.out);
    world.call(&["epic", "list"]).ends_with(0).says("no epics");
    let ring = "tickets:\n  - {id: A, title: a, depends_on: [B]}\n  - {id: B, title: b, depends_on: [A]}\n";
    let file = world.put("ring.yaml", ring);
    world.call(&["run", &file, "--dry-run"]).ends_with(2);
}

#[test]
fn tickets_of_other_systems_are_imported() {
    let world = World::new();
    let state = r#"{"epic_id": "OLD", "tickets": {"a": {"status": "completed"}, "b": {"status": "pending", "depends_on": ["a"]}}}"#;
    let (state, epic) = (
        world.put("epic-state.json", state),
        world.put("epic.yaml", EPIC),
    );
    world
        .call(&["import", &state, &epic])
        .ends_with(0)
        .says("a is completed there")
        .says("added b (queued)")
        .says("added A2 (pending)");
    world.call(&["import", &epic]).ends_with(0);
    world
        .call(&["epic", "list"])
        .ends_with(0)
        .says("0/8 landed");
}

#[test]
fn a_stacked_ticket_begins_on_what_is_approved_and_lands_after_it() {
    let world =
        World::with_settings("[policy]\ndependants_start = \"approved\"\nland = \"queue\"\n");
    let text = "id: S\ngate: none\ntickets:\n  - {id: low, title: low}\n  - {id: high, title: high, depends_on: [low]}\n";
    let file = world.put("epic.yaml", text);
    let build = r#"if [ "$COUNTERSIGN_TICKET" = high ]; then cat low.txt > high.txt; else echo deep > low.txt; fi"#;
    let script = crew(
        &always(json!([runs(build), {"result": {"summary": "Done."}}])),
        &always(crate::support::crew::approves()),
        &always(verifies(&[])),
    );
    let agent = world.crew(&script);
    world
        .call(&["run", &file, "--builder", &agent, "--reviewer", &agent])
        .ends_with(0)
        .says("complete");
    assert_eq!(super::on(&world, "main", "high.txt"), "deep");
    let files = &world.ticket("high")["submission"]["files"];
    assert_eq!(files, &json!(["high.txt"]), "its own part only");
    world.must_be_sound();
}
