//! Epics: tickets that depend on each other, side by side, into one branch.

use rustix::process::Signal;
use serde_json::json;

use crate::support::crew::{always, crew, runs, verifies};
use crate::support::processes::{marked, signal};
use crate::support::{DEADLINE, World, until};

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
  echo '{"verdict": "request_changes", "findings": [{"severity": "high", "title": "Not this way", "file": "E.txt", "line": 1}]}'
else echo '{"verdict": "approve", "commit": "'$COUNTERSIGN_COMMIT'", "complete": true, "findings": []}'; fi > "$COUNTERSIGN_RESULT_FILE""#;

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
        .says("a person has to sign it");
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
    assert!(ran.out.starts_with("would run "), "{}", ran.out);
    assert!(!ran.out.contains("[DRY-RUN]"), "{}", ran.out);
    world.call(&["epic", "list"]).ends_with(0).says("no epics");
    world.write(
        "countersign.toml",
        "preset = \"careful\"\n[checks]\nlint = \"true\"\n[policy]\nland = \"branch\"\nmax_rounds = 2\n",
    );
    world.commit("settings");
    let file = world.put("epic.yaml", EPIC);
    let words = ["run", &file, "--dry-run", "--reviewer", "codex"];
    let ran = world.call(&words).ends_with(0);
    for line in [
        "  reviewers: correctness codex, requirements codex, tests codex",
        "  checks: lint",
        "  rounds: at most 2",
        "  land: leave each on its branch",
    ] {
        assert!(ran.out.contains(line), "{line}\n{}", ran.out);
    }
    // The preset that was made for a contract with such lines prints them.
    world.write(
        "countersign.toml",
        "preset = \"keep-branch\"\n[checks]\nlint = \"true\"\n[policy]\nmax_rounds = 2\n",
    );
    world.commit("settings of the contract");
    let ran = world.call(&words).ends_with(0);
    assert!(ran.out.starts_with("[DRY-RUN] Would spawn epic-builder for Story A1\n[DRY-RUN] Would spawn epic-reviewer for Story A1 round 1\n"), "{}", ran.out);
    for line in [
        "[DRY-RUN] Would spawn epic-reviewer for Story A1 round 2",
        "[DRY-RUN] Checks: lint",
        "[DRY-RUN] Would leave each on its branch",
    ] {
        assert!(ran.out.contains(line), "{line}\n{}", ran.out);
    }
    assert!(!ran.out.contains("round 3"), "{}", ran.out);
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
        .says("a is already completed")
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
        World::with_settings("[policy]\nstart_dependents = \"approved\"\nland = \"queue\"\n");
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

/// Two tickets side by side, whose builders say that they are there and then take their time, once.
fn slow(world: &World) -> (Vec<String>, Vec<std::path::PathBuf>) {
    let flags = ["A", "B"].map(|id| world.root().join(format!("{id}-is-there")));
    let root = world.root();
    let waits = format!(
        "flag={}/$COUNTERSIGN_TICKET-is-there; [ -e $flag ] || {{ touch $flag; exec sleep 300; }}",
        root.display()
    );
    let build = json!([runs(&waits), runs(BUILD), {"result": {"summary": "Done."}}]);
    let script = crew(
        &always(build),
        &always(json!([runs(REVIEW)])),
        &always(verifies(&[])),
    );
    let epic = "id: TWO\ngate: none\ntickets:\n  - {id: A, title: a}\n  - {id: B, title: b}\n";
    let (file, agent) = (world.put("two.yaml", epic), world.crew(&script));
    let words = ["run", &file, "--builder", &agent, "--reviewer", &agent];
    let words = words.iter().map(|&word| word.to_owned()).collect();
    (words, flags.to_vec())
}

#[test]
fn an_interrupt_stops_an_epic_at_a_safe_point_and_the_second_at_once() {
    for times in [1, 2] {
        let world = World::unconfined();
        let (words, flags) = slow(&world);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let running = world.start(&words);
        until("both builders are at work", || {
            flags.iter().all(|flag| flag.exists())
        });
        for _ in 0..times {
            signal(running.pid(), Signal::INT);
        }
        let ran = running.wait(DEADLINE).ends_with(130);
        let told = ["run the epic's file again", "run the same command again"];
        let said = format!("{}{}", ran.out, ran.err);
        assert!(told.iter().any(|words| said.contains(words)), "{said}");
        assert_eq!(super::merges(&world), 0);
        world
            .call(&words)
            .ends_with(0)
            .says("2 of 2 tickets landed");
        assert_eq!(marked(&world.data), Vec::<String>::new());
        assert_eq!(super::merges(&world), 2);
        world.must_be_sound();
    }
}

#[test]
fn a_ring_of_tickets_is_refused_and_nothing_begins() {
    let world = World::new();
    let ring = "id: R\ntickets:\n  - {id: A, title: a, depends_on: [B]}\n  - {id: B, title: b, depends_on: [A]}\n";
    let (file, agent) = (
        world.put("ring.yaml", ring),
        world.crew(&json!({"version": 1})),
    );
    let ran = world
        .call(&["run", &file, "--builder", &agent, "--reviewer", &agent])
        .ends_with(2);
    assert!(
        ran.err.contains('A') && ran.err.contains('B'),
        "{}",
        ran.err
    );
    world
        .call(&["ticket", "list"])
        .ends_with(0)
        .says("no tickets");
}
