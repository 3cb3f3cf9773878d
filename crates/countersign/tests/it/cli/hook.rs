//! The git hook reviews a push, and does not touch a hook of the person's own.

use expect_test::expect;

use crate::support::World;

fn with_remote() -> World {
    let world = World::new();
    let remote = world.root().join("remote.git");
    let remote = remote.to_str().unwrap();
    world.git(&["init", "--quiet", "--bare", remote]);
    world.git(&["remote", "add", "origin", remote]);
    world.git(&["push", "--quiet", "origin", "main"]);
    world.install_self();
    world
}

#[test]
fn a_push_is_reviewed_and_held_up_by_what_must_be_fixed() {
    let world = with_remote();
    let ran = world
        .call(&["hook", "install", "--", "--linters-only"])
        .ends_with(0);
    expect![[r#"
        installed ROOT/repository/.git/hooks/pre-push
        from now on `git push` runs a review first; to skip it once: git push --no-verify
    "#]]
    .assert_eq(&world.masked(&ran.out));
    world.git(&["switch", "--quiet", "--create", "topic"]);
    world.write("greet.sh", "#!/bin/sh\necho hello\n");
    world.commit("Greet");
    world
        .shell("sh", "git push -q origin topic")
        .ends_with(0)
        .says("clean");
    world.write(
        "key.txt",
        &format!("-----BEGIN {} KEY-----\n", "RSA PRIVATE"),
    );
    world.commit("Oh no");
    let held = world
        .shell("sh", "git push -q origin topic")
        .says("key.txt:1");
    assert_ne!(held.code, 0);
    world
        .shell("sh", "git push -q --no-verify origin topic")
        .ends_with(0);
    world.shell("sh", "git push -q origin :topic").ends_with(0);
    world
        .call(&["hook", "install"])
        .ends_with(0)
        .says("renewed");
    world
        .call(&["hook", "uninstall"])
        .ends_with(0)
        .says("removed");
    world
        .call(&["hook", "uninstall"])
        .ends_with(0)
        .says("Countersign has no pre-push hook in this repository");
}

#[test]
fn somebody_s_hook_is_left_alone() {
    let world = World::new();
    world.write(".git/hooks/pre-push", "#!/bin/sh\n# mine\n");
    let ran = world.call(&["hook", "install", "--", "--linters-only"]);
    expect![[r#"
        exit 6
        error: ROOT/repository/.git/hooks/pre-push exists and was not installed by Countersign; it is left as it is
          hint: add this line to ROOT/repository/.git/hooks/pre-push yourself: countersign review --linters-only || exit 1
    "#]]
    .assert_eq(&ran.complaint(&world));
    world.call(&["hook", "uninstall"]).ends_with(6);
    world.git(&["config", "core.hooksPath", ".husky"]);
    world
        .call(&["hook", "install"])
        .ends_with(6)
        .says("add this line to .husky/pre-push yourself");
}

#[test]
fn somebody_s_hook_after_a_commit_is_left_alone() {
    let world = World::new();
    let mine = "#!/bin/sh\n# mine\n";
    world.write(".git/hooks/post-commit", mine);
    world
        .call(&["hook", "install", "--post-commit", "--", "--linters-only"])
        .ends_with(6)
        .says("was not installed by Countersign; it is left as it is")
        .says("add this line");
    world
        .call(&["hook", "uninstall", "--post-commit"])
        .ends_with(6);
    let kept = std::fs::read_to_string(world.repository.join(".git/hooks/post-commit"));
    assert_eq!(kept.unwrap(), mine);
}

#[test]
fn flags_that_review_would_not_take_are_refused_now() {
    let world = World::new();
    world
        .call(&["hook", "install", "--", "--linter-only"])
        .ends_with(2)
        .says("unexpected argument '--linter-only'");
    assert!(!world.repository.join(".git/hooks/pre-push").exists());
}
