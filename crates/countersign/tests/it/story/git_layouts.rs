//! Landings in repositories whose git directory lies somewhere else: branch, index and files move
//! together, by the answer of the person's own git, or nothing begins.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::crew::{GOOD, smooth};
use crate::support::{DEADLINE, Ran, TICKET, World};

/// Not watched: the git directory is outside of the work tree on purpose.
fn greet(world: &World) -> Ran {
    let (ticket, agent) = (world.put("greet.md", TICKET), world.crew(&smooth()));
    let words = ["run", &ticket, "--builder", &agent, "--reviewer", &agent];
    world.start(&words).wait(DEADLINE)
}

#[track_caller]
fn must_agree(world: &World) {
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    assert_eq!(world.git(&["diff", "--stat", "HEAD"]), "");
    world.git(&["fsck", "--strict", "--no-dangling"]);
    let text = fs::read_to_string(world.repository.join("greet.sh")).unwrap();
    assert_eq!(text, GOOD);
    assert_eq!(world.git(&["show", "main:greet.sh"]), GOOD.trim_end());
}

fn move_git(world: &World, to: &Path) {
    fs::rename(world.repository.join(".git"), to).unwrap();
}

/// A change of an ordinary repository into another form.
type Change = fn(&mut World);

const FORMS: &[(&str, Change)] = &[
    ("separate git directory", |world| {
        let elsewhere = world.root().join("elsewhere");
        let option = format!("--separate-git-dir={}", elsewhere.display());
        world.git(&["init", "--quiet", &option]);
    }),
    ("separate git directory x.git", |world| {
        let elsewhere = world.root().join("x.git");
        let option = format!("--separate-git-dir={}", elsewhere.display());
        world.git(&["init", "--quiet", &option]);
    }),
    ("symbolic link", |world| {
        move_git(world, &world.root().join("elsewhere"));
        symlink("../elsewhere", world.repository.join(".git")).unwrap();
    }),
    ("relative git file", |world| {
        move_git(world, &world.root().join("elsewhere"));
        world.write(".git", "gitdir: ../elsewhere\n");
    }),
    ("relative git file with core.worktree", |world| {
        world.git(&["config", "core.worktree", ".."]);
        world.write(".git/info/exclude", ".real\n");
        move_git(world, &world.repository.join(".real"));
        world.write(".git", "gitdir: .real\n");
    }),
    ("submodule", |world| {
        let (from, outer) = (world.repository.clone(), world.root().join("outer"));
        fs::create_dir(&outer).unwrap();
        world.repository = outer;
        world.git(&["init", "--quiet", "--initial-branch=main"]);
        let allow = ["-c", "protocol.file.allow=always", "submodule", "--quiet"];
        let add = ["add", from.to_str().unwrap(), "inner"];
        world.git(&[&allow[..], &add].concat());
        world.commit("A submodule");
        world.repository = world.repository.join("inner");
        world.git(&["checkout", "--quiet", "main"]);
    }),
    ("variables of git's own", |world| {
        for (name, path) in [
            ("GIT_DIR", world.repository.join(".git")),
            ("GIT_WORK_TREE", world.repository.clone()),
        ] {
            let value = path.to_str().unwrap().to_owned();
            world.variables.push((name.to_owned(), value));
        }
    }),
    ("variables of git's own that name nothing", |world| {
        world.git(&["update-index", "--split-index"]);
        let nowhere = world.root().join("nowhere");
        let value = nowhere.to_str().unwrap().to_owned();
        world.variables.push(("GIT_INDEX_FILE".to_owned(), value));
    }),
];

#[test]
fn a_change_lands_whole_wherever_the_git_directory_is() {
    for (name, change) in FORMS {
        let mut world = World::new();
        change(&mut world);
        let ran = greet(&world);
        assert_eq!(ran.code, 0, "{name}: {}{}", ran.out, ran.err);
        world.variables.clear();
        must_agree(&world);
    }
}

#[test]
fn a_work_tree_that_the_configuration_names_gets_the_change_and_the_other_directory_does_not() {
    let mut world = World::new();
    let (beside, tree) = (world.repository.clone(), world.root().join("tree"));
    fs::create_dir(&tree).unwrap();
    world.git(&["config", "core.worktree", tree.to_str().unwrap()]);
    let git_dir = format!("--git-dir={}", beside.join(".git").display());
    world.repository = tree.clone();
    world.git(&[&git_dir, "checkout", "--quiet", "--force", "main"]);
    world.repository = beside.clone();
    world.write("README.md", "my own notes\n");
    let ran = greet(&world);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(!beside.join("greet.sh").exists());
    let notes = fs::read_to_string(beside.join("README.md")).unwrap();
    assert_eq!(notes, "my own notes\n");
    world.repository = tree;
    assert_eq!(world.git(&[&git_dir, "status", "--porcelain"]), "");
    assert!(world.repository.join("greet.sh").exists());
}

#[test]
fn a_form_that_cannot_be_served_is_refused_before_any_work() {
    let world = World::new();
    world.git(&["config", "core.bare", "true"]);
    let ran = greet(&world);
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("core.bare is true"), "{}", ran.err);
    assert!(!world.data.join("tickets/greet").exists());
    world.git(&["config", "core.bare", "false"]);
    assert_eq!(greet(&world).code, 0);
    must_agree(&world);
}
