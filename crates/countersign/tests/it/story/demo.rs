//! The demonstration, from its first line to what it leaves.

use std::path::Path;

use serde_json::Value;

use crate::support::World;

fn git(world: &World, place: &Path, words: &[&str]) -> String {
    let place = place.to_str().unwrap();
    world.git(&[&["-C", place], words].concat())
}

/// The demonstration in a directory of ours; where it is.
fn demo(world: &World, more: &[&str]) -> (crate::support::Ran, std::path::PathBuf) {
    let dir = world.root().join("demo");
    let words = ["demo", "--dir", dir.to_str().unwrap()];
    (world.call(&[&words, more].concat()), dir)
}

fn shown(world: &World, dir: &Path) -> Value {
    let data = dir.join("data");
    let words = ["--json", "--data-dir", data.to_str().unwrap()];
    world
        .without_data(&[&words[..], &["ticket", "show", "slug"]].concat())
        .json()["ticket"]
        .take()
}

#[test]
fn demo_lands_on_main_after_one_rework_and_leaves_its_papers() {
    let world = World::empty();
    let (ran, dir) = demo(&world, &[]);
    let ran = ran.ends_with(0).says("try next").says("countersigned by");
    let repository = dir.join("repository");
    let history = git(
        &world,
        &repository,
        &["log", "--format=%s", "--first-parent", "main"],
    );
    assert_eq!(
        history,
        "Merge slug: Add `slug`: turn a title into a file name\nA small shell project"
    );
    let work_tree = std::fs::read_to_string(repository.join("slug.sh")).unwrap();
    assert!(
        !work_tree.contains("eval"),
        "the work tree is forwarded: {work_tree}"
    );
    assert_eq!(git(&world, &repository, &["status", "--porcelain"]), "");
    let ticket = shown(&world, &dir);
    assert_eq!(ticket["stage"], "done");
    assert_eq!(ticket["rounds"].as_array().unwrap().len(), 2);
    for file in ["round-1-findings.md", "round-2-findings.md"] {
        assert!(
            dir.join("data/tickets/slug").join(file).exists(),
            "{file}\n{}",
            ran.out
        );
    }
    let data = dir.join("data");
    let shown = world
        .without_data(&[
            "--data-dir",
            data.to_str().unwrap(),
            "ticket",
            "show",
            "slug",
        ])
        .ends_with(0);
    let artefacts: Vec<&str> = shown
        .out
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .filter(|word| word.starts_with(data.to_str().unwrap()))
        .collect();
    assert!(artefacts.len() >= 7, "{}", shown.out);
    for artefact in artefacts {
        assert!(Path::new(artefact).exists(), "{artefact}");
    }
    world
        .without_data(&[
            "--data-dir",
            data.to_str().unwrap(),
            "doctor",
            "--verify-log",
        ])
        .ends_with(0)
        .says("the log matches the store");
    git(&world, &repository, &["fsck", "--strict"]);
    assert!(
        !world.data.exists(),
        "the demonstration leaves no trace in one's own data"
    );
}

#[test]
fn demo_that_escalates_leaves_main_alone_and_asks() {
    let world = World::empty();
    let (ran, dir) = demo(&world, &["--escalate"]);
    ran.ends_with(0).says("escalation resolve slug accept");
    let repository = dir.join("repository");
    let history = git(&world, &repository, &["log", "--format=%s", "main"]);
    assert_eq!(history, "A small shell project");
    let ticket = shown(&world, &dir);
    assert_eq!(ticket["stage"], "escalated");
    assert_eq!(ticket["rounds"].as_array().unwrap().len(), 3);
}

#[test]
fn demo_refuses_a_directory_that_is_there() {
    let world = World::empty();
    std::fs::create_dir(world.root().join("demo")).unwrap();
    demo(&world, &[]).0.ends_with(2).says("already exists");
}

#[test]
fn a_removed_demo_suggests_no_command_on_its_files() {
    let world = World::empty();
    for more in [&[][..], &["--escalate"]] {
        let ran = world.call(&[&["demo"], more].concat()).ends_with(0);
        assert!(ran.out.contains("files are removed"), "{}", ran.out);
        for word in ["--data-dir", "next:", "artefacts", "\ndecide"] {
            assert!(!ran.out.contains(word), "{word}\n{}", ran.out);
        }
    }
}

/// The commands that a kept demo prints lead on from one to the next.
#[test]
fn each_suggested_command_of_a_demo_names_its_data() {
    let world = World::empty();
    let (ran, dir) = demo(&world, &["--escalate"]);
    ran.ends_with(0);
    let data = dir.join("data");
    let data = data.to_str().unwrap();
    let words = ["--data-dir", data, "escalation"];
    world
        .without_data(&[&words[..], &["show", "slug"]].concat())
        .ends_with(0)
        .says(&format!(
            "countersign --data-dir {data} escalation resolve slug reassign --reviewer"
        ));
    world
        .without_data(&[&words[..], &["resolve", "slug", "continue"]].concat())
        .ends_with(0)
        .says(&format!("next: countersign --data-dir {data} run slug"));
}
