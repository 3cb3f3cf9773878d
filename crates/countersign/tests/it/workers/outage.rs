//! A `PostgreSQL` that goes away and comes back: calls fail with a word that helps, nothing that was
//! acknowledged is lost, and all goes on by itself.

use std::time::Duration;

use serde_json::Value;

use super::database::Database;
use super::{PLAIN, add, begun, until_stage, waits_for_a_sign, worker};
use crate::support::World;
use crate::support::server::Server;

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
        .any(|worker| worker.has_ended())));
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
