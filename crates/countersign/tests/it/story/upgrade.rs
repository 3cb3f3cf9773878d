//! A database, a repository and a configuration of the first landing, as that program wrote them,
//! opened by this one (`crates/store/tests/fixtures/README.md`).

use std::fs;
use std::path::Path;

use super::on;
use crate::support::World;
use crate::support::crew::{always, builds, built_by};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/tests/fixtures");

/// The places of the machine that wrote it are this world's.
fn first_landing() -> World {
    let world = World::without_commits();
    let import =
        format!("git fast-import --quiet < {FIXTURES}/first-landing.git && git reset -q --hard");
    world.shell("sh", &import).ends_with(0);
    let dump = fs::read_to_string(Path::new(FIXTURES).join("first-landing.sql")).unwrap();
    let dump = dump.replace("/srv/demo/greet", world.repository.to_str().unwrap());
    let dump = dump.replace("/srv/demo", world.root().to_str().unwrap());
    let dump = world.put("first-landing.sql", dump);
    let database = world.data.join("countersign.db");
    let load = format!(
        "import os, sqlite3\nos.mkdir({:?}, 0o700)\nsqlite3.connect({:?}).executescript(open({dump:?}).read())",
        world.data.to_str().unwrap(),
        database.to_str().unwrap(),
    );
    world.shell("python3", &load).ends_with(0);
    world
}

#[test]
fn tickets_of_the_first_landing_are_shown_and_their_log_replays() {
    let world = first_landing();
    let list = world.json(&["ticket", "list"]);
    let mut stages: Vec<(&str, &str)> = list["tickets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["id"].as_str().unwrap(), row["stage"].as_str().unwrap()))
        .collect();
    stages.sort_unstable();
    assert_eq!(
        stages,
        [
            ("CANCELLED-6", "cancelled"),
            ("ESCALATED-2", "escalated"),
            ("LANDED-1", "done"),
            ("PENDING-5", "pending"),
            ("QUEUED-4", "queued"),
            ("REJECTED-3", "failed"),
            ("WAIVED-7", "approved"),
        ]
    );
    let landed = world.call(&["ticket", "show", "LANDED-1"]);
    for shown in [
        "countersigned by scripted (reviewer)",
        "F1  critical  fixed     greet.sh:1  eval runs the name",
        "scripted (reviewer) asked for changes: F1 (critical) eval runs the name",
    ] {
        assert!(landed.out.contains(shown), "{shown}\n{}", landed.out);
    }
    let escalated = world.call(&["escalation", "show", "ESCALATED-2"]);
    assert!(
        escalated.out.contains("after 2 review rounds"),
        "{}",
        escalated.out
    );
    let tokens = world.call(&["token", "list"]);
    assert!(tokens.out.contains("qa"), "{}", tokens.out);
    let audit = world.call(&["doctor", "--verify-log"]);
    assert_eq!(audit.code, 0, "{}", audit.out);
    assert!(audit.out.contains("7 tickets, 107 events"), "{}", audit.out);
}

#[test]
fn a_configuration_of_the_first_landing_is_read_with_a_warning_for_each_old_name() {
    let world = first_landing();
    let check = world.call(&["config", "check"]);
    assert_eq!(check.code, 0, "{}{}", check.out, check.err);
    let said = format!("{}{}", check.out, check.err);
    for old in [
        "`confirms` is now called `second_reviewer`",
        "`dependants_start` is now called `start_dependents`",
        "`disposition` is now called `verify_open`",
        "`isolation` is now called `sandbox`",
        "`leftovers` is now called `uncommitted`",
        "`lens` is now called `focus`",
        "`limits.queue_max` has no effect",
        "`usd_micros = 2000000` is now written `usd = 2.00`",
        "the preset \"queue\" is now called \"standard\"",
    ] {
        assert!(said.contains(old), "{old}\n{said}");
    }
}

#[test]
fn work_of_the_first_landing_goes_on() {
    let world = first_landing();
    let agent = world.crew(&built_by(&always(builds("bye.sh", "echo bye\n"))));
    let go_on = |id: &str| {
        world.call(&[
            "run",
            id,
            "--builder",
            &agent,
            "--reviewer",
            &agent,
            "--verifier",
            &agent,
        ])
    };
    // Approved by the old program: only the landing is left.
    go_on("WAIVED-7").ends_with(0);
    assert_eq!(on(&world, "main", "never.sh"), "echo never ever");
    // Queued: everything is left, and its dependent follows.
    go_on("QUEUED-4").ends_with(0);
    assert_eq!(on(&world, "main", "bye.sh"), "echo bye");
    assert_eq!(world.stage("PENDING-5"), "queued");
    // Waits for a person, with the choices of today.
    let rejected = [
        "escalation",
        "resolve",
        "ESCALATED-2",
        "reject",
        "--why",
        "no",
    ];
    world.call(&rejected).ends_with(0);
    assert_eq!(world.stage("ESCALATED-2"), "failed");
    world.must_be_sound();
}
