//! The database goes away under a run: deleted, replaced, cut short, alone or with its directory.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::support::crew::{GOOD, always, answers, built_by, runs, writes};
use crate::support::{DEADLINE, TICKET, World, until};

/// A builder that leaves a sign that it has begun and goes on when there is another.
fn waiting_crew(world: &World) -> String {
    let dir = world.root().display().to_string();
    let wait = format!("touch {dir}/begun; until [ -e {dir}/go ]; do sleep 0.05; done");
    let mut steps = vec![runs(&wait), writes("greet.sh", GOOD)];
    steps.extend(answers(json!({"summary": "Done."})));
    world.crew(&built_by(&always(steps)))
}

/// Nothing is left in the journal beside the database.
fn settle(world: &World) {
    let path = world.data.join("countersign.db");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let opened = runtime.block_on(store::open(path.to_str().unwrap()));
    drop(opened.unwrap());
    let journal = world.data.join("countersign.db-wal");
    until("the database is closed", || !journal.exists());
}

/// Damage to the database while the builder works.
type Harm = fn(&Path);

fn delete(data: &Path, name: &str) {
    fs::remove_file(data.join(name)).unwrap();
}

const HARMS: [(&str, Harm); 8] = [
    ("deleted", |data| delete(data, "countersign.db")),
    ("all three deleted", |data| {
        for name in ["countersign.db", "countersign.db-wal", "countersign.db-shm"] {
            delete(data, name);
        }
    }),
    ("the journal deleted", |data| {
        delete(data, "countersign.db-wal");
    }),
    ("the shared index deleted", |data| {
        delete(data, "countersign.db-shm");
    }),
    ("emptied", |data| {
        let file = fs::File::options()
            .write(true)
            .open(data.join("countersign.db"));
        file.unwrap().set_len(0).unwrap();
    }),
    ("cut within its first page", |data| {
        let file = fs::File::options()
            .write(true)
            .open(data.join("countersign.db"));
        file.unwrap().set_len(1000).unwrap();
    }),
    ("replaced by an older copy", |data| {
        fs::rename(data.join("older.db"), data.join("countersign.db")).unwrap();
    }),
    ("the directory moved away", |data| {
        fs::rename(data, data.with_file_name("elsewhere")).unwrap();
    }),
];

#[test]
fn a_run_whose_database_is_lost_says_so_and_is_not_done() {
    for (what, harm) in HARMS {
        let world = World::unconfined();
        world
            .call(&["ticket", "add", "Something before"])
            .ends_with(0);
        fs::copy(
            world.data.join("countersign.db"),
            world.data.join("older.db"),
        )
        .unwrap();
        let (ticket, agent) = (world.put("greet.md", TICKET), waiting_crew(&world));
        let words = ["run", &ticket, "--builder", &agent, "--reviewer", &agent];
        let run = world.start(&words);
        let begun = world.root().join("begun");
        until("the builder is at work", || begun.exists());
        harm(&world.data);
        world.put("go", "");
        let ran = run.wait(DEADLINE);
        assert_eq!(ran.code, 7, "{what}: {}{}", ran.out, ran.err);
        let told = ["was deleted", "was replaced", "was cut short"];
        assert!(
            told.iter().any(|words| ran.err.contains(words)),
            "{what}: {}",
            ran.err
        );
        assert!(
            ran.err.contains("while it was in use"),
            "{what}: {}",
            ran.err
        );
        assert!(!ran.out.contains("done on"), "{what}: {}", ran.out);
        assert_eq!(
            world.git(&["log", "--oneline", "main"]).lines().count(),
            1,
            "{what}"
        );
    }
}

#[test]
fn the_next_command_makes_no_empty_database_where_there_was_one() {
    for emptied in [false, true] {
        let world = World::new();
        world
            .call(&["ticket", "add", "Something to do"])
            .ends_with(0);
        let path = world.data.join("countersign.db");
        let kept = world.root().join("kept.db");
        settle(&world);
        fs::rename(&path, &kept).unwrap();
        if emptied {
            fs::write(&path, "").unwrap();
        }
        for words in [
            &["ticket", "list"][..],
            &["ticket", "add", "Another thing to do"],
            &["status"],
        ] {
            let ran = world.call(words).ends_with(7);
            let ran = ran
                .says("shows that it was in use")
                .says("restore it from a backup");
            assert!(ran.err.contains("--data-dir"), "{}", ran.err);
            let there = fs::metadata(&path).map_or(0, |found| found.len());
            assert_eq!(there, 0, "an empty database was made");
        }
        // Another place is free; restoring helps; removing the mark starts afresh.
        let other = world.root().join("other").display().to_string();
        world
            .without_data(&["--data-dir", &other, "ticket", "list"])
            .ends_with(0);
        fs::copy(&kept, &path).unwrap();
        world
            .call(&["ticket", "list"])
            .ends_with(0)
            .says("Something to do");
        settle(&world);
        fs::remove_file(&path).unwrap();
        fs::remove_file(world.data.join("countersign.db-id")).unwrap();
        let ran = world.call(&["ticket", "list"]).ends_with(0);
        assert!(!ran.out.contains("Something to do"), "{}", ran.out);
    }
}

#[test]
fn another_database_in_the_place_of_the_known_one_is_refused() {
    let (world, other) = (World::new(), World::new());
    for world in [&world, &other] {
        world
            .call(&["ticket", "add", "Something to do"])
            .ends_with(0);
        settle(world);
    }
    let path = world.data.join("countersign.db");
    fs::copy(other.data.join("countersign.db"), &path).unwrap();
    let ran = world.call(&["ticket", "list"]).ends_with(7);
    ran.says("is not the database that was in use here");
}
