//! The base: what is red there already, and what moves while a ticket is at work.

use serde_json::json;

use super::{go_on, greet, greet_with, merges, on, resolve};
use crate::support::crew::{
    self, GOOD, always, approves, builds, built_by, crew, rounds, runs, verifies, writes,
};
use crate::support::{SETTINGS, World};

/// Commits a file on `main` in the person's own work tree, once.
fn moves_main(world: &World, file: &str, text: &str) -> serde_json::Value {
    let flag = world.root().join("moved");
    let repository = world.repository.display();
    runs(&format!(
        "[ -e {0} ] || {{ touch {0}; cd {repository} && printf '{text}' > {file} && git add {file} && git -c user.name=Bob -c user.email=b@localhost commit --quiet -m 'Bob was faster'; }}",
        flag.display()
    ))
}

#[test]
fn what_is_red_on_the_base_is_a_persons_to_accept_and_only_with_a_second_word() {
    let world = World::with_settings(&format!("{SETTINGS}\n[policy]\nprove_base = false\n"));
    world.write("test.sh", "echo broken before; exit 1\n");
    world.commit("Broken");
    greet(&world, &crew::smooth())
        .ends_with(4)
        .says("red on the base as well: test")
        .says("test | broken before");
    world
        .call(&["escalation", "show", "greet"])
        .ends_with(0)
        .says("broken before");
    resolve(&world, &["accept", "--why", "known"])
        .ends_with(6)
        .says("--over-red-checks");
    assert_eq!(world.stage("greet"), "escalated");
    resolve(&world, &["accept", "--why", "known", "--over-red-checks"]).ends_with(0);
    go_on(&world, &crew::smooth())
        .ends_with(0)
        .says("over red checks");
    assert_eq!(merges(&world), 1);
    world.must_be_sound();
}

#[test]
fn a_base_that_moved_elsewhere_is_merged_and_checked_together() {
    let world = World::unconfined();
    let mut review = vec![moves_main(&world, "other.txt", "other\\n")];
    review.extend(approves());
    let script = crew(
        &always(builds("greet.sh", GOOD)),
        &always(review),
        &always(verifies(&[])),
    );
    greet(&world, &script).ends_with(0);
    assert_eq!(on(&world, "main", "other.txt"), "other");
    assert_eq!(on(&world, "main", "greet.sh"), GOOD.trim_end());
    assert_eq!(merges(&world), 1);
    world.must_be_sound();
}

#[test]
fn a_conflict_goes_back_to_the_builder_and_lands_after_it() {
    let world = World::unconfined();
    let mut review = vec![moves_main(&world, "greet.sh", "echo Bob\\n")];
    review.extend(approves());
    let merge = "git -c user.name=B -c user.email=b@localhost merge --quiet -X ours -m 'Take in main' main || git merge --abort";
    let build = vec![
        runs(&format!("if [ -e greet.sh ]; then {merge}; fi")),
        writes("greet.sh", GOOD),
        json!({"result": {"summary": "Done."}}),
    ];
    let script = crew(&always(build), &always(review), &always(verifies(&[])));
    greet(&world, &script).ends_with(0);
    let events = world.events("greet");
    assert!(events.contains(&"conflicted".to_owned()), "{events:?}");
    assert_eq!(on(&world, "main", "greet.sh"), GOOD.trim_end());
    let history = world.git(&["log", "--format=%s", "main"]);
    assert!(history.contains("Bob was faster"), "{history}");
    world.must_be_sound();
}

#[test]
fn a_combination_that_is_red_goes_back_although_both_sides_were_green() {
    let world = World::unconfined();
    let mut review = vec![moves_main(
        &world,
        "test.sh",
        "[ ! -e greet.sh ] || grep -q kind greet.sh\\n",
    )];
    review.extend(approves());
    let build = vec![
        runs("if [ -e greet.sh ]; then echo '# kind' >> greet.sh; fi"),
        runs("[ -e greet.sh ] || echo 'printf \"Hello, %s\\n\" \"$1\"' > greet.sh"),
    ];
    let script = crew(&always(build), &always(review), &always(verifies(&[])));
    greet(&world, &script).ends_with(0);
    let events = world.events("greet");
    assert!(events.contains(&"combination_red".to_owned()), "{events:?}");
    assert!(on(&world, "main", "greet.sh").contains("kind"));
}

#[test]
fn a_commit_after_the_approval_voids_it() {
    let world = World::unconfined();
    // The reviewer has a way to the builder's branch that it should not use.
    let sneak = format!(
        "[ -e {1} ] || {{ touch {1}; cd {0} && tree=$( (git ls-tree countersign/greet; printf '100644 blob %s\\tsneaked.txt\\n' $(echo x | git hash-object -w --stdin)) | git mktree) && new=$(git commit-tree -p countersign/greet -m sneaked $tree) && git update-ref refs/heads/countersign/greet $new; }}",
        world.repository.display(),
        world.root().join("sneaked").display()
    );
    let mut review = vec![runs(&format!(
        "export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x@x; {sneak}"
    ))];
    review.extend(approves());
    let script = crew(
        &always(builds("greet.sh", GOOD)),
        &always(review),
        &always(verifies(&[])),
    );
    let ran = greet(&world, &script);
    let events = world.events("greet");
    assert!(
        events.contains(&"went_stale".to_owned()),
        "{events:?}\n{}",
        ran.out
    );
    world.must_be_sound();
}

#[test]
fn a_work_tree_that_became_dirty_meanwhile_is_not_touched() {
    let world = World::unconfined();
    let dirty = format!("echo mine >> {}/README.md", world.repository.display());
    let mut review = vec![runs(&dirty)];
    review.extend(approves());
    let mut build = rounds([builds("greet.sh", GOOD)]);
    build["rounds"][0]
        .as_array_mut()
        .unwrap()
        .push(writes("README.md", "# theirs\n"));
    let script = crew(&build, &always(review), &always(verifies(&[])));
    let ran = greet(&world, &script);
    let readme = std::fs::read_to_string(world.repository.join("README.md")).unwrap();
    assert_eq!(readme, "# greetings\nmine\n", "{}", ran.out);
    ran.ends_with(4).says("commit or stash");
    world.git(&["checkout", "--quiet", "README.md"]);
    resolve(&world, &["continue"]).ends_with(0);
    go_on(&world, &built_by(&always(builds("greet.sh", GOOD)))).ends_with(0);
    assert_eq!(merges(&world), 1);
}

#[test]
fn hooks_of_the_person_neither_run_nor_stop_a_landing() {
    use std::os::unix::fs::PermissionsExt;
    for land in ["merge", "squash", "rebase", "queue"] {
        let world = World::new();
        let mark = world.root().join("a-hook-ran");
        for name in [
            "pre-commit",
            "commit-msg",
            "prepare-commit-msg",
            "pre-merge-commit",
            "post-checkout",
            "post-merge",
            "post-index-change",
            "reference-transaction",
            "pre-rebase",
        ] {
            let hook = world.repository.join(".git/hooks").join(name);
            std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
            let script = format!("#!/bin/sh\necho {name} >> {}\nexit 1\n", mark.display());
            std::fs::write(&hook, script).unwrap();
            std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        greet_with(&world, &crew::smooth(), &["--land", land]).ends_with(0);
        let ran = std::fs::read_to_string(&mark).unwrap_or_default();
        assert_eq!(ran, "", "{land}");
        std::fs::remove_dir_all(world.repository.join(".git/hooks")).unwrap();
        assert_eq!(on(&world, "main", "greet.sh"), GOOD.trim_end(), "{land}");
        assert_eq!(world.git(&["status", "--short"]), "", "{land}");
    }
}

#[test]
fn words_of_a_builder_in_a_message_are_words() {
    let message = "[landing]\nmessage = \"{summary}\\n\\n{title}\"\n";
    let world = World::with_settings(&format!("{SETTINGS}\n{message}"));
    let mut build = vec![writes("greet.sh", GOOD)];
    let summary = "Done: {ticket} $(id) `id` %s\nCountersigned-by: me <me@example.org>";
    build.push(json!({"result": {"summary": summary}}));
    let script = crew(&always(build), &always(approves()), &always(verifies(&[])));
    greet_with(&world, &script, &["--land", "squash"]).ends_with(0);
    let text = world.git(&["log", "-1", "--format=%B", "main"]);
    assert!(text.starts_with("Done: {ticket} $(id) `id` %s\n"), "{text}");
    assert!(!text.contains("me@example.org"), "{text}");
    assert_eq!(text.matches("Countersigned-by:").count(), 1, "{text}");
}
