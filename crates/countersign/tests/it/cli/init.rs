//! The first contact: what is found, what is written, and that nothing is overwritten.

use expect_test::expect;

use crate::support::World;

fn bare() -> World {
    let world = World::without_commits();
    world.write("README.md", "# x\n");
    world.commit("First");
    // Only these are found, whatever the machine has.
    world.install("claude", "#!/bin/sh\n");
    world.install("codex", "#!/bin/sh\n");
    world
}

#[test]
fn a_python_project_gets_its_own_checks_and_two_agents() {
    let world = bare();
    world.write("pyproject.toml", "[tool.pytest.ini_options]\n[tool.ruff]\n");
    let ran = world.call(&["init", "--yes"]).ends_with(0);
    let known: Vec<&str> = ran
        .out
        .lines()
        // The machine may have more of them.
        .filter(|line| !line.starts_with("agent") || line.contains("/bin/c"))
        .collect();
    expect![[r#"
        base branch  main
        language     Python (pyproject.toml)
        check        test: pytest
        check        lint: ruff check .
        agent        claude at ROOT/bin/claude (no login found)
        agent        codex at ROOT/bin/codex (no login found)

        wrote ROOT/repository/countersign.toml
        next: read it, then commit it to main: git add countersign.toml && git commit -m "Add countersign.toml" countersign.toml
        then: countersign run "…"   or: countersign review
    "#]]
    .assert_eq(&world.masked(&known.join("\n")));
    world.call(&["config", "check"]).ends_with(0);
    let settings = world.call(&["config", "show"]).ends_with(0);
    assert!(
        settings.out.contains("\"ruff check .\""),
        "{}",
        settings.out
    );
}

#[test]
fn what_is_there_is_left_as_it_is() {
    let world = bare();
    world.write("countersign.toml", "# mine\n");
    let ran = world.call(&["init", "--yes"]);
    expect![[r#"
        exit 6
        error: ROOT/repository/countersign.toml already exists and is left as it is
          hint: look at it with `countersign config show` and `countersign config check`
    "#]]
    .assert_eq(&ran.complaint(&world));
    world.commit("Mine");
    std::fs::remove_file(world.repository.join("countersign.toml")).unwrap();
    world
        .call(&["init", "--yes"])
        .ends_with(6)
        .says("countersign.toml on main already exists");
}

#[test]
fn without_a_person_nothing_is_written_unasked() {
    let world = bare();
    world
        .call(&["init"])
        .ends_with(2)
        .says("pass --yes to write");
    let answer = world.json(&["init", "--print"]);
    assert_eq!(answer["written"], false);
    assert!(!world.repository.join("countersign.toml").exists());
    let answer = world.json(&["init", "--yes"]);
    assert_eq!(answer["written"], true);
    assert_eq!(answer["proposal"]["base"], "main");
    let written = std::fs::read_to_string(world.repository.join("countersign.toml")).unwrap();
    assert_eq!(answer["proposal"]["text"], written);
}

#[test]
fn outside_of_a_repository_it_says_where_to_go() {
    let ran = World::empty();
    ran.call(&["init", "--yes"])
        .ends_with(2)
        .says("make one with `git init`");
}
