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

/// A repository, or a home that a person linked elsewhere, cannot lead a write out of itself.
#[test]
fn no_file_is_written_through_a_link() {
    for (link, target) in [
        (".claude", "dir"),
        (".claude", "missing"),
        (".claude/agents", "dir"),
        (".claude/agents", "missing/deep"),
        (".claude/agents/countersign-reviewer.md", "file"),
        (".claude/agents/countersign-reviewer.md", "missing"),
        (".claude/agents/countersign-fixer.md", "file"),
        (".git/hooks", "dir"),
        (".git/hooks/pre-push", "file"),
        (".git/hooks/pre-push", "missing"),
    ] {
        let world = World::new();
        let outside = world.root().join("outside");
        std::fs::create_dir_all(outside.join("dir")).unwrap();
        // It carries both of our marks, so that only the link itself can be the reason.
        let ours = "<!-- Written by `countersign agent install`; it is renewed by it as long as this line stands. -->\n\
            # Installed by `countersign hook install`; `countersign hook uninstall` removes it.\n";
        std::fs::write(outside.join("file"), ours).unwrap();
        let place = world.repository.join(link);
        if place.is_dir() {
            std::fs::remove_dir_all(&place).unwrap();
        }
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(outside.join(target), &place).unwrap();
        let verb = if link.starts_with(".git") {
            "hook"
        } else {
            "agent"
        };
        world
            .call(&[verb, "install"])
            .ends_with(6)
            .says("is a symbolic link to");
        if verb == "hook" {
            assert_ne!(world.call(&["hook", "uninstall"]).code, 0, "{link}");
        }
        let mut left: Vec<_> = std::fs::read_dir(&outside)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["dir", "file"], "{link} -> {target}");
        assert_eq!(std::fs::read_dir(outside.join("dir")).unwrap().count(), 0);
        assert_eq!(std::fs::read_to_string(outside.join("file")).unwrap(), ours);
        assert!(place.is_symlink(), "{link} -> {target}");
    }
}
