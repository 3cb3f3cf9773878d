//! Tickets that wait for others.

use crate::support::World;
use crate::support::crew::{GOOD, always, builds, built_by};

fn pair(world: &World) -> (String, String) {
    let first = world.put("a.md", "---\nid: A\n---\n# First\n");
    let second = world.put("b.md", "---\nid: B\ndepends_on: [A]\n---\n# Second\n");
    (first, second)
}

fn run(world: &World, id: &str, file: &str) -> crate::support::Ran {
    let agent = world.named_crew(id, &built_by(&always(builds(file, GOOD))));
    world.call(&["run", id, "--builder", &agent, "--reviewer", &agent])
}

#[test]
fn a_ticket_waits_for_what_it_depends_on_and_then_runs() {
    let world = World::new();
    let (first, second) = pair(&world);
    // In any order: the list is put in order by what depends on what.
    world
        .call(&["ticket", "add", &second, &first])
        .ends_with(0)
        .says("added B (pending)");
    run(&world, "B", "b.sh")
        .ends_with(8)
        .says("next: countersign run A");
    assert_eq!(world.stage("B"), "pending");
    run(&world, "A", "a.sh").ends_with(0);
    assert_eq!(world.stage("B"), "queued");
    run(&world, "B", "b.sh").ends_with(0);
    world.must_be_sound();
}

#[test]
fn a_dependant_of_a_cancelled_ticket_is_blocked_and_says_why() {
    let world = World::new();
    let (first, second) = pair(&world);
    world.call(&["ticket", "add", &first, &second]).ends_with(0);
    world
        .call(&["ticket", "cancel", "A", "--why", "not wanted"])
        .ends_with(0);
    assert_eq!(world.stage("B"), "blocked");
    let shown = world.call(&["ticket", "show", "B"]).ends_with(0);
    assert!(
        shown.out.contains('A') && shown.out.contains("not wanted"),
        "{}",
        shown.out
    );
    run(&world, "B", "b.sh").ends_with(8);
    world.must_be_sound();
}

#[test]
fn a_dependant_of_a_ticket_that_failed_in_a_run_is_blocked() {
    let world = World::new();
    let (first, second) = pair(&world);
    world.call(&["ticket", "add", &first, &second]).ends_with(0);
    let agent = world.named_crew("idle", &built_by(&always(serde_json::json!([]))));
    world
        .call(&["run", "A", "--builder", &agent, "--reviewer", &agent])
        .ends_with(4);
    world
        .call(&[
            "escalation",
            "resolve",
            "A",
            "reject",
            "--why",
            "will not do",
        ])
        .ends_with(0);
    assert_eq!(world.stage("A"), "failed");
    assert_eq!(world.stage("B"), "blocked");
}
