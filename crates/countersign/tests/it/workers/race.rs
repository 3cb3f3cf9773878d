//! Two workers and many jobs: every one is done, and none of them twice.

use std::collections::BTreeSet;

use super::{PLAIN, add, begun, waits_for_a_sign, worker};
use crate::support::{World, until};

/// Each is a build and a check.
const TICKETS: usize = 50;

#[test]
fn two_workers_do_a_hundred_jobs_once_each() {
    let world = World::with_settings(PLAIN);
    let crew = world.crew(&waits_for_a_sign(&world));
    world.put("go", "");
    for number in 1..=TICKETS {
        add(&world, &format!("t{number}"), "");
    }
    let words = ["--replicas", "2"];
    let _workers = [worker(&world, &crew, &words), worker(&world, &crew, &words)];
    until("all are done", || {
        let listed = world.json(&["ticket", "list", "--stage", "done", "--limit", "1000"]);
        listed["tickets"].as_array().unwrap().len() == TICKETS
    });
    let begun = begun(&world);
    let once: BTreeSet<&String> = begun.iter().collect();
    assert_eq!((begun.len(), once.len()), (TICKETS, TICKETS), "{begun:?}");
    for number in 1..=TICKETS {
        let id = format!("t{number}");
        let counted =
            ["submitted", "checked", "lease_lost", "refused"].map(|event| world.count(&id, event));
        assert_eq!(counted, [1, 1, 0, 0], "{}", world.call(&["log", &id]).out);
    }
    world.must_be_sound();
}
