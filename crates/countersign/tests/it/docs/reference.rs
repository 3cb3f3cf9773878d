//! The reference, the completions and the manual pages are those of the program.

use expect_test::expect_file;

use super::root;
use crate::support::World;

#[test]
fn the_reference_is_what_the_help_says() {
    let reference = World::empty().call(&["reference"]).ends_with(0).out;
    expect_file![root().join("docs/reference.md")].assert_eq(&reference);
}

#[test]
fn every_command_shows_an_example_or_needs_none() {
    // The names of these say what they do.
    let plain = [
        "countersign status",
        "countersign insights",
        "countersign hook uninstall",
    ];
    let reference = World::empty().call(&["reference"]).ends_with(0).out;
    for part in reference.split("\n## ").skip(1) {
        let name = part.lines().next().unwrap();
        let group = part.contains("\nCommands:\n");
        let shows = part.contains("Example") || part.contains("Try `");
        assert!(
            group || shows || plain.contains(&name),
            "{name} shows no example"
        );
    }
}

#[test]
fn completions_know_every_verb_and_a_shell_reads_them() {
    let world = World::empty();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = world.call(&["completions", shell]).ends_with(0).out;
        for word in ["review", "escalation", "linters-only", "uninstall"] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
    }
    let script = world.call(&["completions", "bash"]).out;
    let file = world.put("completions.bash", script);
    let asked = format!(
        "source {file}; COMP_WORDS=(countersign rev); COMP_CWORD=1; \
         _countersign countersign rev countersign; echo \"${{COMPREPLY[*]}}\""
    );
    let ran = world.shell("bash", &asked);
    assert_eq!((ran.code, ran.out.trim()), (0, "review"), "{}", ran.err);
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let world = World::empty();
    let dir = world.root().join("man1");
    let answer = world.json(&["man", dir.to_str().unwrap()]);
    let pages = answer["pages"].as_array().unwrap().len();
    assert!(pages > 30, "{pages}");
    let page = std::fs::read_to_string(dir.join("countersign-ticket-list.1")).unwrap();
    assert!(page.starts_with(".ie"), "{page}");
    assert!(page.contains("countersign\\-ticket\\-list"), "{page}");
    world.call(&["man"]).ends_with(0).says(".TH countersign 1");
}
