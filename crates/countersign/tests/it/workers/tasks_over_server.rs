//! Tasks on a machine that reaches only the server.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::over_server::way;
use super::remote_machine::Machine;
use super::{PLAIN, begun, waits_for_a_sign};
use crate::support::crew::{always, answers, built_by, writes};
use crate::support::processes::signal;
use crate::support::server::Server;
use crate::support::{World, until};

/// A machine with settings of its own: its tasks belong to no repository.
fn machine<'a>(world: &'a World, server: &'a Server<'_>) -> Machine<'a> {
    let east = Machine::new(world, server, "east");
    let config = world.root().join("east-home/.config/countersign");
    fs::create_dir_all(&config).unwrap();
    let own = "[policy]\nsandbox = \"off\"\n\n[policy.limits]\nbackoff_secs = 0\nlease_secs = 3\n";
    fs::write(config.join("config.toml"), own).unwrap();
    east
}

fn queue(server: &Server<'_>) {
    let task = json!({"agent_id": "engineer", "task_type": "fix", "title": "Mend the door",
        "description": "As it says."});
    server.rest("POST", "/api/v1/tasks", &task).is(201);
}

/// The job of the task, once it is done.
fn done(server: &Server<'_>) -> Value {
    let mut job = Value::Null;
    until("the task is done", || {
        let listed = server.rest("GET", "/api/v1/jobs?queue=engineer", &Value::Null);
        job = listed.is(200).json()["items"][0].take();
        job["state"] == "done"
    });
    job
}

#[test]
fn a_task_is_done_on_a_machine_that_reaches_only_the_server() {
    let world = World::with_settings(PLAIN);
    let mut steps = vec![writes("door.txt", "mended\n")];
    steps.extend(answers(json!({"summary": "The door is mended."})));
    world.crew(&built_by(&always(steps)));
    let server = Server::start(&world);
    let east = machine(&world, &server);
    queue(&server);
    let _worker = east.worker(&["--queue", "engineer"]);
    let job = done(&server);
    assert_eq!(job["result"]["summary"], "The door is mended.");
    assert_eq!(job["result"]["by"], "east-1");
    assert_eq!(world.count_of("task_ran"), 1);
    assert_eq!(world.count_of("refused"), 0);
}

#[test]
fn what_a_run_cost_counts_once_though_its_worker_was_killed_before_it_heard_so() {
    let world = World::with_settings(PLAIN);
    world.put("go", "");
    world.crew(&waits_for_a_sign(&world));
    let server = Server::start(&world);
    let east = machine(&world, &server);
    queue(&server);
    let cut = Arc::new(AtomicUsize::new(0));
    let url = way(&server.address, "{\"finish\":", Arc::clone(&cut));
    let killed = Machine {
        url: &url,
        ..machine(&world, &server)
    }
    .worker(&["--queue", "engineer"]);
    until("the cost is on record", || {
        cut.load(Ordering::SeqCst) == 1 && world.count_of("task_ran") == 1
    });
    signal(killed.pid(), Signal::KILL);
    killed.wait(Duration::from_secs(10));
    let _other = east.worker(&["--queue", "engineer"]);
    done(&server);
    assert_eq!(begun(&world).len(), 1, "nobody is paid twice");
    assert_eq!(world.count_of("task_ran"), 1);
}
