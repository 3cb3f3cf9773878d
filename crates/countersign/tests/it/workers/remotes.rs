//! Workers that have not the repository: they get it from a remote, and put there what came of it.

use std::fs;

use crate::support::crew::two_rounds;
use crate::support::server::Server;
use crate::support::{Running, SETTINGS, World};

use super::{add, shared, until_stage};

/// A project that names the repository that everybody reaches.
pub fn project() -> (World, String) {
    project_with(SETTINGS)
}

pub fn project_with(settings: &str) -> (World, String) {
    let world = World::without_commits();
    let place = world.root().join("shared.git");
    world.write("README.md", "# greetings\n");
    world.write("test.sh", "true\n");
    let remote = format!("{settings}\n[worker]\nremote = \"{}\"\n", place.display());
    world.write("countersign.toml", &remote);
    world.commit("A small shell project");
    let shared = shared(&world);
    (world, shared)
}

/// A worker on another machine: with a data directory of its own, and the repository out of its sight.
fn elsewhere(world: &World, name: &str, remote: &str, words: &[&str]) -> Running {
    let here = world.repository.join(".git").display().to_string();
    let reach = format!("{here}={remote}");
    away(world, name, &[&["--remote", &reach], words].concat())
}

fn away(world: &World, name: &str, words: &[&str]) -> Running {
    let crew = format!("scripted:{}", world.root().join("crew.json").display());
    let data = world.root().join(name).display().to_string();
    let database = world.data.join("countersign.db").display().to_string();
    let own = [
        "--data-dir",
        &data,
        "--database",
        &database,
        "worker",
        "--name",
        name,
    ];
    let crew = ["--builder", &crew, "--reviewer", &crew];
    world.start_elsewhere(&[own.as_slice(), &crew, words].concat())
}

#[test]
fn two_machines_share_a_ticket_through_a_remote_and_one_lands_it_there() {
    let (world, shared) = project();
    world.crew(&two_rounds());
    add(&world, "greet", "");
    let _builder = elsewhere(&world, "one", &shared, &["--queue", "build"]);
    let more = ["check", "review", "verify", "merge"].map(|queue| ["--queue", queue]);
    let mut words = more.concat();
    words.push("--push-base");
    let _judge = elsewhere(&world, "two", &shared, &words);
    until_stage(&world, "greet", "done");
    let of_shared = |words: &[&str]| world.git(&[&["--git-dir", &shared], words].concat());
    assert!(of_shared(&["show", "main:greet.sh"]).contains("exit 2"));
    let kept = of_shared(&["for-each-ref", "refs/countersign/greet/commits"]);
    assert_eq!(kept.lines().count(), 2, "{kept}");
    assert!(!of_shared(&["branch", "--list", "countersign/greet"]).is_empty());
    assert!(
        !world.repository.join("greet.sh").exists(),
        "nobody had the repository itself"
    );
    of_shared(&["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn who_has_the_repository_lands_what_others_built() {
    let (world, shared) = project();
    world.crew(&two_rounds());
    add(&world, "greet", "");
    let before = fs::read(world.root().join("shared.git/refs/heads/main")).unwrap();
    let _worker = elsewhere(&world, "one", &shared, &[]);
    let _house = Server::start(&world);
    until_stage(&world, "greet", "done");
    assert!(world.repository.join("greet.sh").exists());
    let after = fs::read(world.root().join("shared.git/refs/heads/main")).unwrap();
    assert_eq!(
        before, after,
        "no base branch is pushed unless that is told"
    );
    world.must_be_sound();
}

#[test]
fn where_there_is_no_remote_objects_go_through_the_database() {
    let world = World::new();
    world.crew(&two_rounds());
    add(&world, "greet", "");
    let _builder = away(&world, "one", &["--elsewhere", "--queue", "build"]);
    let judges = ["--elsewhere", "--queue", "review", "--queue", "verify"];
    let _judge = away(&world, "two", &judges);
    let _house = Server::start(&world);
    until_stage(&world, "greet", "done");
    assert!(world.repository.join("greet.sh").exists());
    assert!(world.root().join("one/repositories").is_dir());
    assert!(world.root().join("two/repositories").is_dir());
    world.must_be_sound();
}

#[test]
fn a_repository_that_nobody_can_reach_is_said_so() {
    let world = World::new();
    let crew = world.crew(&two_rounds());
    add(&world, "greet", "");
    fs::rename(&world.repository, world.root().join("gone")).unwrap();
    fs::create_dir(&world.repository).unwrap();
    let worker = super::worker(&world, &crew, &[]);
    let said = || {
        let files = fs::read_dir(world.root()).unwrap();
        let mut texts = files.filter_map(|file| fs::read_to_string(file.unwrap().path()).ok());
        texts.any(|text| {
            text.contains(
                "is skipped by this worker: the commit is not on this machine yet; it has been requested",
            )
        })
    };
    crate::support::until("it is said", said);
    drop(worker);
    assert_eq!(world.stage("greet"), "queued");
}
