//! The base is proven before a builder is paid: what is red there, why, and how it goes on.

use super::{go_on, greet, merges, resolve};
use crate::support::crew::{self, GOOD, always, approves, builds, crew, verifies};
use crate::support::{Ran, SETTINGS, World};

/// A project whose check is this command.
fn checked_by(command: &str, more: &str) -> World {
    World::with_settings(&format!(
        "{}\n{more}",
        SETTINGS.replace("sh test.sh", command)
    ))
}

/// The builder was not started: nothing was submitted and nothing was spent.
fn nobody_was_paid(world: &World) {
    let events = world.events("greet");
    assert!(!events.contains(&"submitted".to_owned()), "{events:?}");
    assert_eq!(world.stage("greet"), "escalated");
}

fn refuses(world: &World) -> Ran {
    let ran = greet(world, &crew::smooth()).ends_with(4);
    nobody_was_paid(world);
    ran
}

#[test]
fn a_red_base_asks_a_person_first_and_goes_on_once_it_is_mended() {
    let world = World::new();
    let good = std::fs::read_to_string(world.repository.join("test.sh")).unwrap();
    world.write("test.sh", "echo broken before; exit 1\n");
    world.commit("Broken");
    refuses(&world)
        .says("the base is red, so no agent was started: test")
        .says("test | broken before");
    assert_eq!(world.count("greet", "base_red"), 1);
    for words in [["ticket", "show", "greet"], ["escalation", "show", "greet"]] {
        world.call(&words).ends_with(0).says("broken before");
    }
    let shown = world.json(&["escalation", "show", "greet"]);
    let evidence = shown["escalation"]["evidence"].as_str().unwrap();
    assert!(evidence.contains("broken before"), "{evidence}");
    // The same base is as red as before.
    resolve(&world, &["continue"]).ends_with(0);
    go_on(&world, &crew::smooth()).ends_with(4);
    nobody_was_paid(&world);
    world.write("test.sh", &good);
    world.commit("Mended");
    resolve(&world, &["continue"]).ends_with(0);
    go_on(&world, &crew::smooth()).ends_with(0);
    assert_eq!(merges(&world), 1);
    world.must_be_sound();
}

#[test]
fn a_proof_is_remembered_and_a_landed_commit_needs_none() {
    let world = World::unconfined();
    let log = world.root().join("checked");
    let settings = format!("sh test.sh; echo run >> {}", log.display());
    let settings = SETTINGS.replace("sh test.sh", &settings);
    let settings = format!("{settings}\n[policy]\nsandbox = \"off\"\n");
    world.write("countersign.toml", &settings);
    world.commit("Count the checks");
    let runs = || {
        std::fs::read_to_string(&log)
            .unwrap_or_default()
            .lines()
            .count()
    };
    let ticket = |name: &str| {
        let file = format!("{name}.sh");
        let build = builds(&file, "true\n");
        let crew = crew(&always(build), &always(approves()), &always(verifies(&[])));
        let agent = world.crew(&crew);
        let text = format!("---\nid: {name}\n---\n# Add {file}\n");
        let ticket = world.put(&format!("{name}.md"), text);
        let words = ["run", &ticket, "--builder", &agent, "--reviewer", &agent];
        world.call(&words).ends_with(0);
    };
    ticket("one");
    // The base, and the change.
    assert_eq!(runs(), 2);
    ticket("two");
    // Only the change: its base was checked before it landed.
    assert_eq!(runs(), 3);
}

#[test]
fn a_switch_and_a_tolerant_policy_start_the_builder_on_a_red_base() {
    for policy in ["prove_base = false", "red_on_base = \"tolerate\""] {
        let world = checked_by("exit 1", &format!("[policy]\n{policy}\n"));
        greet(&world, &crew::smooth());
        assert_eq!(world.count("greet", "base_red"), 0, "{policy}");
        assert_eq!(world.count("greet", "submitted"), 1, "{policy}");
    }
}

#[test]
fn the_likely_fix_is_named() {
    let world = checked_by("no-such-tool --all", "");
    refuses(&world).says("likely fix: `no-such-tool` is not on the PATH of the sandbox");
    let world = checked_by(
        "getent hosts x.example || { echo 'Could not resolve host: x.example'; exit 6; }",
        "[policy.network]\ncheck = \"off\"\n",
    );
    refuses(&world).says("[policy.network] check is \"off\"");
}

#[test]
fn a_setup_that_hangs_is_ended_and_nobody_is_paid() {
    let setup =
        "[setup]\nrun = \"echo waiting; sleep 3600\"\ntimeout_secs = 1\ncaches = [\"vendor\"]\n";
    let world = checked_by("true", setup);
    refuses(&world)
        .says("no agent was started: setup")
        .says("setup | waiting");
}

#[test]
fn a_setup_that_needs_the_network_when_it_is_off_says_which_key_opens_it() {
    let setup = "[setup]\nrun = \"getent hosts x.example || { echo 'Could not resolve host: x.example'; exit 6; }\"\ncaches = [\"vendor\"]\n\n[policy.network]\ncheck = \"off\"\n";
    let world = checked_by("true", setup);
    refuses(&world)
        .says("no agent was started: setup")
        .says("[policy.network] check is \"off\"");
}

#[test]
fn a_second_base_shares_the_cached_files_that_did_not_change() {
    use std::os::unix::fs::MetadataExt;
    let setup = "[setup]\nrun = \"test -e vendor/big || { mkdir -p vendor; head -c 3000000 /dev/urandom > vendor/big; }; cat README.md > vendor/small\"\ncaches = [\"vendor\"]\n";
    let world = checked_by("test -e vendor/big", setup);
    world.write(".gitignore", "vendor/\n");
    world.commit("Ignore");
    greet(&world, &crew::smooth()).ends_with(0);
    world.write("README.md", "another base\n");
    world.commit("Move");
    let agent = world.crew(&crew::smooth());
    let ticket = world.put("again.md", crate::support::TICKET.replace("greet", "again"));
    let words = ["run", &ticket, "--builder", &agent, "--reviewer", &agent];
    world.call(&words);
    let mut files = Vec::new();
    let mut dirs = vec![world.data.join("layers")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            } else if entry.file_name() == "big" || entry.file_name() == "small" {
                let meta = entry.metadata().unwrap();
                files.push((entry.file_name().into_string().unwrap(), meta.ino()));
            }
        }
    }
    files.sort();
    let of = |name: &str| files.iter().filter(|(file, _)| file == name).count();
    assert!(of("big") >= 2 && of("big") == of("small"), "{files:?}");
    let distinct = |name: &str| {
        let inodes = files.iter().filter(|(file, _)| file == name);
        inodes
            .map(|(_, inode)| inode)
            .collect::<std::collections::BTreeSet<_>>()
            .len()
    };
    assert_eq!(distinct("big"), 1, "{files:?}");
    assert!(distinct("small") > 1, "{files:?}");
}

#[test]
fn a_setup_that_fills_the_disk_is_ended_and_nobody_is_paid() {
    let setup = "[setup]\nrun = \"mkdir vendor; while :; do head -c 1000000 /dev/zero >> vendor/x; done\"\ntimeout_secs = 60\ncaches = [\"vendor\"]\n";
    let settings = SETTINGS.replace(
        "backoff_secs = 0",
        "backoff_secs = 0\ndisk_bytes_max = 20000000",
    );
    let world = World::with_settings(&format!("{settings}\n{setup}"));
    refuses(&world).says("no agent was started: setup");
}

#[test]
fn a_cache_that_is_a_link_is_refused_before_anybody_is_paid() {
    let world = checked_by("true", "[setup]\ncaches = [\"vendor\"]\n");
    std::os::unix::fs::symlink("/etc", world.repository.join("vendor")).unwrap();
    refuses(&world).says("is a symbolic link to /etc");
}

/// A project with a submodule, whose check needs the submodule's file.
fn with_submodule() -> World {
    let world = checked_by("cat lib/words.txt", "");
    let library = world.root().join("library");
    let at = library.display().to_string();
    world.git(&["init", "--quiet", "--initial-branch=main", &at]);
    std::fs::write(library.join("words.txt"), "from the submodule\n").unwrap();
    world.git(&["-C", &at, "add", "."]);
    world.git(&["-C", &at, "commit", "--quiet", "-m", "Words"]);
    let add = ["submodule", "--quiet", "add", &at, "lib"];
    world.git(&[&["-c", "protocol.file.allow=always"][..], &add].concat());
    world.commit("A submodule");
    world
}

#[test]
fn checks_builders_and_reviewers_have_the_submodules_and_none_of_it_lands() {
    let world = with_submodule();
    let mut build = vec![crew::runs("grep -q submodule lib/words.txt")];
    build.extend(builds("greet.sh", GOOD));
    let mut review = vec![crew::runs(
        "grep -q submodule \"$COUNTERSIGN_CHANGE/lib/words.txt\"",
    )];
    review.extend(approves());
    let crew = crew(&always(build), &always(review), &always(verifies(&[])));
    greet(&world, &crew).ends_with(0);
    let changed = world.git(&["diff", "--name-only", "main^", "main"]);
    assert_eq!(changed, "greet.sh");
    world.must_be_sound();
}

#[test]
fn a_submodule_that_is_not_on_this_machine_is_named() {
    let world = with_submodule();
    std::fs::remove_dir_all(world.repository.join(".git/modules/lib")).unwrap();
    std::fs::remove_dir_all(world.repository.join("lib")).unwrap();
    std::fs::remove_dir_all(world.root().join("library")).unwrap();
    std::fs::create_dir(world.repository.join("lib")).unwrap();
    refuses(&world).says("likely fix: the submodule lib is not on this machine");
}

#[test]
fn a_repository_with_its_own_lfs_filter_is_served() {
    let world = World::new();
    for (key, value) in [
        ("filter.lfs.process", "git-lfs filter-process"),
        ("filter.lfs.clean", "git-lfs clean -- %f"),
        ("filter.lfs.smudge", "git-lfs smudge -- %f"),
    ] {
        world.git(&["config", "--local", key, value]);
    }
    greet(&world, &crew::smooth()).ends_with(0);
    assert_eq!(merges(&world), 1);
    // Any other filter is still refused.
    world.git(&["config", "--local", "filter.mine.clean", "evil"]);
    let ran = go_on(&world, &crew::smooth());
    assert_ne!(ran.code, 0);
}
