//! Files that finished work leaves on disk, and `countersign clean`.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::{greet, merges};
use crate::support::crew::{
    GOOD, always, approves, built_by, crew, runs, smooth, verifies, writes,
};
use crate::support::{SETTINGS, World};

fn dirs_named(world: &World, name: &str) -> usize {
    find_dirs(world, name).len()
}

fn files_in_dirs_named(world: &World, name: &str) -> Vec<String> {
    let dirs = find_dirs(world, name).into_iter();
    let entries = dirs.flat_map(|dir| fs::read_dir(dir).unwrap());
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

fn find_dirs(world: &World, name: &str) -> Vec<PathBuf> {
    let mut dirs = vec![world.data.join("tickets")];
    let mut found = Vec::new();
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_type().unwrap().is_dir() {
                if entry.file_name() == name {
                    found.push(entry.path());
                }
                dirs.push(entry.path());
            }
        }
    }
    found
}

#[test]
fn a_landed_ticket_leaves_its_papers_and_a_branch_that_git_deletes() {
    let world = World::new();
    greet(&world, &smooth()).ends_with(0);
    assert_eq!(merges(&world), 1);
    for name in ["worktree", "checkout", "change", "home", "copy", "trees"] {
        assert_eq!(dirs_named(&world, name), 0, "{name}");
    }
    // The brief stays with the transcript, and it stands in the scratch directory.
    assert_eq!(files_in_dirs_named(&world, "scratch"), ["brief.md"; 2]);
    let worktrees = world.git(&["worktree", "list"]);
    assert_eq!(worktrees.lines().count(), 1, "{worktrees}");
    let branches = world.git(&[
        "branch",
        "--list",
        "countersign/*",
        "--format=%(refname:short)",
    ]);
    for branch in branches.lines() {
        world.git(&["branch", "-d", branch]);
    }
    assert!(!world.git(&["for-each-ref", "refs/countersign"]).is_empty());
    world
        .call(&["clean"])
        .ends_with(0)
        .says("nothing to remove");
}

#[test]
fn an_escalated_ticket_keeps_everything_and_clean_says_why() {
    let world = World::new();
    let build = vec![runs("exit 0")];
    greet(&world, &built_by(&always(build))).ends_with(4);
    assert_eq!(dirs_named(&world, "worktree"), 1);
    world.call(&["clean", "--yes"]).ends_with(0);
    assert_eq!(dirs_named(&world, "worktree"), 1);
    world
        .call(&["clean", "--ticket", "greet", "--yes"])
        .ends_with(2)
        .says("escalated");
}

#[test]
fn clean_removes_exactly_what_it_showed() {
    let world = World::new();
    greet(&world, &smooth()).ends_with(0);
    world
        .call(&["clean", "--ticket", "@last"])
        .ends_with(0)
        .says("next: countersign clean --yes --ticket greet");
    // It ended a moment ago. Hours are not rounded down to no days.
    let transcripts = || fs::read_dir(world.data.join("tickets/greet/jobs")).is_ok();
    world
        .call(&["clean", "--older-than", "12h", "--yes"])
        .ends_with(0);
    world
        .call(&["clean", "--older-than", "12h", "--ticket", "greet", "--yes"])
        .ends_with(0);
    assert!(transcripts());
    world
        .call(&["clean", "--older-than", "0s"])
        .ends_with(0)
        .says("next: countersign clean --yes --older-than 0s");
    world
        .call(&["clean", "--ticket", "gre", "--yes"])
        .ends_with(0);
    assert!(!transcripts());
}

#[test]
fn an_open_ticket_keeps_the_output_of_its_checks_and_not_their_checkouts() {
    // Red on the base as well, so that a checkout of the base is made too.
    let settings = SETTINGS.replace("sh test.sh", "echo built > built; exit 1");
    let settings = format!("{settings}\n[policy]\nprove_base = false\n");
    let world = World::with_settings(&settings);
    let build = vec![
        writes("greet.sh", GOOD),
        json!({"result": {"summary": "Done."}}),
    ];
    greet(&world, &built_by(&always(build))).ends_with(4);
    for name in ["checkout", "changes"] {
        assert_eq!(dirs_named(&world, name), 0, "{name}");
    }
    let heads = files_in_dirs_named(&world, "head");
    assert!(heads.iter().any(|name| name == "test-1.log"), "{heads:?}");
}

#[test]
fn the_users_own_cache_is_shown_and_never_written() {
    let world = World::without_commits();
    let settings = SETTINGS.replace("sh test.sh", "test -e vendor/tool && rm -r vendor");
    world.write("README.md", "# greetings\n");
    world.write(".gitignore", "vendor/\n");
    world.write("vendor/tool", "mine\n");
    let setup = "[setup]\ncaches = [\"vendor\"]\n";
    world.write("countersign.toml", &format!("{setup}{settings}"));
    world.commit("A project with a cache");
    let build = vec![
        runs("[ $(cat vendor/tool) = mine ] && echo poison > vendor/tool"),
        writes("greet.sh", GOOD),
        json!({"result": {"summary": "Done."}}),
    ];
    let agents = crew(&always(build), &always(approves()), &always(verifies(&[])));
    greet(&world, &agents).ends_with(0);
    let own = fs::read_to_string(world.repository.join("vendor/tool")).unwrap();
    assert_eq!(own, "mine\n");
}

#[test]
fn a_cache_that_is_a_link_out_is_refused() {
    let world = World::without_commits();
    let outside = world.root().join("outside");
    fs::create_dir_all(&outside).unwrap();
    world.write("README.md", "# greetings\n");
    world.write(".gitignore", "vendor\n");
    let setup = "[setup]\ncaches = [\"vendor\"]\n";
    world.write("countersign.toml", &format!("{setup}{SETTINGS}"));
    std::os::unix::fs::symlink(&outside, world.repository.join("vendor")).unwrap();
    world.commit("A project with a link");
    let build = vec![writes("greet.sh", GOOD)];
    greet(&world, &built_by(&always(build)))
        .ends_with(4)
        .says("is a symbolic link to");
}
