//! A `PostgreSQL` that goes away and comes back: calls fail with a word that helps, nothing that was
//! acknowledged is lost, and all goes on by itself.

use std::time::Duration;

use serde_json::Value;

use super::database::Database;
use super::{PLAIN, add, begun, until_stage, waits_for_a_sign, worker};
use crate::support::server::Server;
use crate::support::{Running, World};

#[test]
fn workers_and_servers_outlive_a_database_that_goes_away() {
    let mut world = World::with_settings(PLAIN);
    let Some(database) = Database::start(&mut world) else {
        return;
    };
    let world = database.world;
    let crew = world.crew(&waits_for_a_sign(world));
    let ids: Vec<String> = (1..=6).map(|number| format!("t{number}")).collect();
    for id in &ids {
        add(world, id, "");
    }
    let server = Server::start(world);
    let mut workers = [1, 2].map(|_| worker(world, &crew, &["--replicas", "2"]));
    crate::support::until("four builders are at work", || begun(world).len() == 4);
    database.halt();
    let reply = server
        .rest("GET", "/api/v1/tickets/t1", &Value::Null)
        .is(503);
    assert!(
        reply.head.to_lowercase().contains("retry-after: "),
        "{}",
        reply.head
    );
    assert!(
        reply.json()["detail"]
            .as_str()
            .unwrap()
            .contains("cannot be reached")
    );
    world.call(&["ticket", "list"]).ends_with(7);
    // The builders come to their end while nobody can hear of it.
    world.put("go", "");
    assert!(!crate::support::reached(Duration::from_secs(8), || workers
        .iter_mut()
        .any(Running::has_ended)));
    database.again();
    for id in &ids {
        until_stage(world, id, "done");
        assert_eq!(
            world.count(id, "submitted"),
            1,
            "{}",
            world.call(&["log", id]).out
        );
    }
    let mut begun = begun(world);
    begun.sort();
    assert_eq!(begun, ids, "nobody is paid twice");
    server
        .rest("GET", "/api/v1/tickets/t1", &Value::Null)
        .is(200);
    world.must_be_sound();
}

#[test]
fn a_run_outlives_restarts_of_its_database() {
    let mut world = World::with_settings(PLAIN);
    let Some(database) = Database::start(&mut world) else {
        return;
    };
    let world = database.world;
    let crew = world.crew(&waits_for_a_sign(world));
    let file = world.put("t1.md", "---\nid: t1\n---\n# Do t1\n");
    let mut run = world.start(&["run", &file, "--builder", &crew, "--reviewer", &crew]);
    crate::support::until("the builder is at work", || begun(world).len() == 1);
    // Away while the builder works, for longer than several tries.
    database.halt();
    assert!(!crate::support::reached(Duration::from_secs(3), || run.has_ended()));
    database.again();
    // The database fails again just when the run ends, and while checks and the end are reported.
    for _ in 0..3 {
        database.halt();
        world.put("go", "");
        assert!(!crate::support::reached(Duration::from_millis(700), || run.has_ended()));
        database.again();
    }
    let ran = run.wait(crate::support::DEADLINE).ends_with(0);
    assert!(ran.out.contains("waiting up to 5 minutes"), "{}", ran.out);
    assert_eq!(world.count("t1", "submitted"), 1);
    let log = world.call(&["log", "t1"]).out;
    assert_eq!(
        begun(world).len(),
        1,
        "nobody is paid twice:\n{log}{}",
        ran.out
    );
    world.must_be_sound();
}

#[test]
fn a_person_who_does_not_want_to_wait_for_the_database_is_heard() {
    let mut world = World::with_settings(PLAIN);
    let Some(database) = Database::start(&mut world) else {
        return;
    };
    let world = database.world;
    let crew = world.crew(&waits_for_a_sign(world));
    let file = world.put("t1.md", "---\nid: t1\n---\n# Do t1\n");
    let run = world.start(&["run", &file, "--builder", &crew, "--reviewer", &crew]);
    crate::support::until("the builder is at work", || begun(world).len() == 1);
    database.halt();
    crate::support::processes::signal(run.pid(), rustix::process::Signal::INT);
    let ran = run.wait(Duration::from_secs(60));
    assert_eq!(ran.code, 130, "{}{}", ran.out, ran.err);
    database.again();
    world.put("go", "");
    world
        .call(&["run", "t1", "--builder", &crew, "--reviewer", &crew])
        .ends_with(0);
    world.must_be_sound();
}
