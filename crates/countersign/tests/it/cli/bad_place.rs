//! Places that are not what they should be: no home, a locked index, a detached HEAD, a wrong word.

use expect_test::expect;

use crate::support::World;

#[test]
fn without_a_home_it_says_where_data_could_go() {
    let world = World::new();
    world.install_self();
    let bare =
        "env -u HOME -u XDG_DATA_HOME -u XDG_CONFIG_HOME -u COUNTERSIGN_DATA_DIR countersign";
    let ran = world.shell("sh", &format!("{bare} status"));
    expect![[r#"
        exit 2
        error: no data directory: HOME and XDG_DATA_HOME are not set
          hint: choose one with --data-dir DIR
    "#]]
    .assert_eq(&ran.complaint(&world));
    for fine in ["--version", "review --help", "completions bash", "man"] {
        world.shell("sh", &format!("{bare} {fine}")).ends_with(0);
    }
    let data = world.data.display();
    world
        .shell(
            "sh",
            &format!("{bare} --data-dir {data} review --commit HEAD --linters-only"),
        )
        .ends_with(0)
        .says("clean");
}

#[test]
fn somebody_else_s_lock_on_the_index_is_neither_taken_nor_waited_for() {
    let world = World::new();
    world.write("new.sh", "echo new\n");
    world.git(&["add", "--all"]);
    world.write(".git/index.lock", "");
    for what in ["--staged", "--worktree"] {
        world
            .call(&["review", what, "--linters-only"])
            .ends_with(0)
            .says("1 file, 1 line");
    }
    assert!(world.repository.join(".git/index.lock").exists());
}

#[test]
fn a_detached_head_is_reviewed_like_a_branch() {
    let world = World::new();
    world.git(&["checkout", "--quiet", "--detach"]);
    world.write("new.sh", "echo new\n");
    world.commit("New");
    world
        .call(&["review", "--linters-only"])
        .ends_with(0)
        .says("main..HEAD: 1 file");
}

#[test]
fn a_wrong_word_is_told_with_what_was_meant() {
    let world = World::empty();
    for (words, meant) in [
        (&["reveiw"][..], "'review'"),
        (&["review", "--stagd"], "'--staged'"),
        (&["config", "chek"], "'check'"),
        (&["review", "--format", "sarfi"], "'sarif'"),
    ] {
        world.call(words).ends_with(2).says(meant);
    }
}
