//! Agents that are here, and the files for theirs.

use expect_test::expect;

use crate::support::World;

#[test]
fn those_on_the_path_are_told_from_those_that_are_not() {
    let world = World::empty();
    world.install("claude", "#!/bin/sh\n");
    let answer = world.json(&["agent", "list"]);
    assert_eq!(answer["agents"][0]["name"], "claude");
    assert_eq!(answer["known"].as_array().unwrap().len(), 9);
    world
        .call(&["agent", "list"])
        .ends_with(0)
        .says("no login found");
}

#[test]
fn a_reviewer_and_a_fixer_are_written_and_nobody_s_file_is_touched() {
    let world = World::new();
    let ran = world.call(&["agent", "install"]).ends_with(0);
    expect![[r#"
        wrote ROOT/repository/.claude/agents/countersign-reviewer.md
        wrote ROOT/repository/.claude/agents/countersign-fixer.md
    "#]]
    .assert_eq(&world.masked(&ran.out));
    let reviewer = world
        .repository
        .join(".claude/agents/countersign-reviewer.md");
    let text = std::fs::read_to_string(&reviewer).unwrap();
    assert!(
        text.starts_with("---\nname: countersign-reviewer\n"),
        "{text}"
    );
    assert!(text.contains("requirement_adherence"), "{text}");
    world.call(&["agent", "install"]).ends_with(0);
    std::fs::write(&reviewer, "mine\n").unwrap();
    world
        .call(&["agent", "install"])
        .ends_with(6)
        .says("is left as it is");
    assert_eq!(std::fs::read_to_string(&reviewer).unwrap(), "mine\n");
    world.call(&["agent", "install", "--user"]).ends_with(0);
    let answer = world.json(&["agent", "install", "--print"]);
    assert_eq!(answer["written"], false);
}
