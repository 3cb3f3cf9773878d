//! A ticket written in an editor, and in none.

use expect_test::expect;

use crate::support::World;

/// A world whose editor runs this script on the file.
fn with_editor(script: &str) -> World {
    let mut world = World::new();
    world.install("edit", &format!("#!/bin/sh\n{script}\n"));
    world
        .variables
        .push(("EDITOR".to_owned(), "edit --wait".to_owned()));
    world
}

#[test]
fn what_was_written_is_added() {
    let world = with_editor(
        "[ \"$1\" = --wait ] && printf '# Greet by name\\n\\n## Acceptance criteria\\n- politely\\n' > \"$2\"",
    );
    let ran = world.call(&["ticket", "new"]).ends_with(0);
    expect![[r#"
        added greet-by-name-a84a (queued): Greet by name

        next: countersign run greet-by-name-a84a
    "#]]
    .assert_eq(&ran.out);
    let left: Vec<_> = std::fs::read_dir(&world.data)
        .unwrap()
        .filter(|file| {
            file.as_ref()
                .unwrap()
                .file_name()
                .to_string_lossy()
                .starts_with("new-")
        })
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_untouched_template_adds_nothing() {
    with_editor("true")
        .call(&["ticket", "new"])
        .ends_with(0)
        .says("nothing was added");
}

#[test]
fn what_is_no_ticket_is_kept_and_its_place_is_said() {
    let world = with_editor("printf -- '---\\npriorty: 3\\n---\\n# Do it\\n' > \"$2\"");
    let ran = world.call(&["ticket", "new"]).ends_with(2);
    assert!(
        ran.err.contains(".md:2:1: unknown field `priorty`"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("did you mean `priority`?"), "{}", ran.err);
    assert!(ran.err.contains("your text is saved in "), "{}", ran.err);
}

#[test]
fn scripts_go_without_an_editor() {
    let world = World::new();
    world
        .call(&["ticket", "new", "Greet by name", "--no-edit"])
        .ends_with(0)
        .says("added greet-by-name");
    world
        .call(&["ticket", "new", "--no-edit"])
        .ends_with(2)
        .says("--no-edit needs a title");
    let answer = world.json(&["ticket", "new", "Say bye", "--no-edit", "--file", "bye.md"]);
    assert!(answer["file"].as_str().unwrap().ends_with("bye.md"));
    world
        .call(&["ticket", "add", "bye.md"])
        .ends_with(0)
        .says("Say bye");
    world
        .call(&["ticket", "new", "--no-edit", "--file", "bye.md"])
        .ends_with(2)
        .says("cannot be written");
}

#[test]
fn an_editor_that_is_not_there_is_named() {
    let mut world = World::new();
    world
        .variables
        .push(("VISUAL".to_owned(), "no-such-editor".to_owned()));
    world
        .call(&["ticket", "new"])
        .ends_with(2)
        .says("set VISUAL or EDITOR to your editor");
}

#[test]
fn an_editor_that_fails_adds_nothing_and_keeps_the_text() {
    for script in ["echo '# Do it' > \"$2\"; exit 3", "kill -9 $$"] {
        let world = with_editor(script);
        let ran = world.call(&["ticket", "new"]).ends_with(1);
        let (failed, kept) = ("the editor", "your text is saved in");
        assert!(
            ran.err.contains(failed) && ran.err.contains(kept),
            "{}",
            ran.err
        );
        let all = world.json(&["ticket", "list"]);
        assert_eq!(all["tickets"], serde_json::json!([]), "{script}");
    }
}
