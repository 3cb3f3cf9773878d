//! One worker and what it is told: to drain, to stop, to cancel, to pause, and what it may take.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{PLAIN, add, begun, drains, until_stage, waits_for_a_sign, worker};
use crate::support::crew::two_rounds;
use crate::support::processes::{marked, signal};
use crate::support::server::Server;
use crate::support::{World, reached, until};

/// Long enough for a worker to have taken up what it should not.
const A_WHILE: Duration = Duration::from_secs(3);

#[test]
fn a_worker_sees_a_ticket_through_its_rounds() {
    let world = World::new();
    let crew = world.crew(&two_rounds());
    add(&world, "greet", "");
    let words = ["--replicas", "2", "--name", "qa"];
    let worker = worker(&world, &crew, &words);
    until_stage(&world, "greet", "done");
    signal(worker.pid(), Signal::TERM);
    let ran = worker.wait(Duration::from_secs(30)).ends_with(0);
    ran.says("qa-1, qa-2: working on build, check, review, verify, merge");
    assert_eq!(world.git(&["show", "main:greet.sh"]).lines().count(), 3);
    world.must_be_sound();
}

#[test]
fn the_first_signal_drains() {
    let world = World::with_settings(PLAIN);
    let crew = world.crew(&waits_for_a_sign(&world));
    add(&world, "one", "");
    add(&world, "two", "");
    let worker = worker(&world, &crew, &["--queue", "build"]);
    until("the builder has begun", || begun(&world) == ["one"]);
    signal(worker.pid(), Signal::TERM);
    world.put("go", "");
    worker
        .wait(Duration::from_secs(30))
        .ends_with(0)
        .says("draining");
    assert_eq!(begun(&world), ["one"], "it claims no more");
    assert_eq!(
        world.count("one", "submitted"),
        1,
        "the current job is finished"
    );
    assert_eq!(world.stage("two"), "queued");
}

#[test]
fn the_second_signal_stops_and_gives_back() {
    let world = World::with_settings(PLAIN);
    let crew = world.crew(&waits_for_a_sign(&world));
    add(&world, "one", "");
    let worker = worker(&world, &crew, &[]);
    until("the builder has begun", || begun(&world) == ["one"]);
    signal(worker.pid(), Signal::TERM);
    until("it drains", || drains(&world));
    signal(worker.pid(), Signal::TERM);
    worker
        .wait(Duration::from_secs(30))
        .ends_with(0)
        .says("given back");
    assert_eq!(
        world.count("one", "job_failed"),
        1,
        "{}",
        world.call(&["log", "one"]).out
    );
    assert_eq!(world.stage("one"), "queued");
    assert_eq!(marked(&world.root()), Vec::<String>::new());
}

#[test]
fn a_cancelled_ticket_s_run_is_ended_and_the_worker_goes_on() {
    let world = World::with_settings(PLAIN);
    let crew = world.crew(&waits_for_a_sign(&world));
    add(&world, "one", "");
    let _worker = worker(&world, &crew, &[]);
    until("the builder has begun", || begun(&world) == ["one"]);
    world
        .call(&["ticket", "cancel", "one", "--why", "not wanted"])
        .ends_with(0);
    until("its run has ended", || marked(&world.root()).is_empty());
    world.put("go", "");
    add(&world, "two", "");
    until_stage(&world, "two", "done");
    assert_eq!(world.stage("one"), "cancelled");
    assert_eq!(world.count("one", "submitted"), 0);
}

#[test]
fn a_ticket_that_needs_labels_waits_for_a_worker_that_has_them() {
    let world = World::with_settings(PLAIN);
    let crew = world.crew(&waits_for_a_sign(&world));
    world.put("go", "");
    add(
        &world,
        "heavy",
        "priority: 90\nneeds: [gpu=yes, os=linux]\n",
    );
    add(&world, "light", "");
    let _plain = worker(&world, &crew, &["--label", "os=linux"]);
    until_stage(&world, "light", "done");
    assert_eq!(world.stage("heavy"), "queued");
    let words = ["--label", "gpu=yes", "--label", "os=linux"];
    let _strong = worker(&world, &crew, &words);
    until_stage(&world, "heavy", "done");
    let ran = world.call(&["worker", "--label", "gpu"]).ends_with(2);
    ran.says("KEY=VALUE");
}

#[test]
fn no_more_jobs_of_a_provider_run_than_it_may_have() {
    let world = World::with_settings(PLAIN);
    let crew = world.crew(&waits_for_a_sign(&world));
    for id in ["one", "two", "three"] {
        add(&world, id, "");
    }
    let words = ["--replicas", "3", "--max-jobs-per-provider", "scripted=1"];
    let _worker = worker(&world, &crew, &words);
    until("the builder has begun", || !begun(&world).is_empty());
    assert!(
        !reached(A_WHILE, || begun(&world).len() > 1),
        "one at a time"
    );
    world.put("go", "");
    for id in ["one", "two", "three"] {
        until_stage(&world, id, "done");
    }
}

#[test]
fn no_more_jobs_of_a_provider_run_than_the_fleet_may_have() {
    let world = World::with_settings(PLAIN);
    let crew = world.crew(&waits_for_a_sign(&world));
    let limit = world.json(&["queue", "limit", "scripted", "2"]);
    assert_eq!(
        limit["limits"],
        json!([{"provider": "scripted", "most": 2}])
    );
    for id in ["one", "two", "three", "four"] {
        add(&world, id, "");
    }
    let _workers: Vec<_> = (0..2)
        .map(|n| {
            worker(
                &world,
                &crew,
                &["--replicas", "2", "--name", &format!("w{n}")],
            )
        })
        .collect();
    until("two have begun", || begun(&world).len() == 2);
    assert!(
        !reached(A_WHILE, || begun(&world).len() > 2),
        "two at a time, whoever runs them"
    );
    world.put("go", "");
    for id in ["one", "two", "three", "four"] {
        until_stage(&world, id, "done");
    }
    world
        .call(&["queue", "limit", "scripted"])
        .ends_with(0)
        .says("no provider has a limit");
    world.call(&["queue", "limit", " "]).ends_with(2);
}

#[test]
fn a_paused_worker_takes_nothing_up_until_it_is_resumed() {
    let world = World::with_settings(PLAIN);
    let crew = world.crew(&waits_for_a_sign(&world));
    world.put("go", "");
    let server = Server::start(&world);
    for scope in ["agent/qa", "queue/build", "provider/scripted"] {
        let (scope, name) = scope.split_once('/').unwrap();
        let pause = json!({"scope": scope, "name": name, "why": "rest"});
        server.rest("POST", "/api/v1/pauses", &pause).is(201);
    }
    add(&world, "one", "");
    let _worker = worker(&world, &crew, &["--name", "qa"]);
    for scope in ["agent/qa", "queue/build", "provider/scripted"] {
        assert!(
            !reached(A_WHILE, || !begun(&world).is_empty()),
            "{scope} is paused"
        );
        let path = format!("/api/v1/pauses/{scope}");
        server.rest("DELETE", &path, &Value::Null).is(200);
    }
    until_stage(&world, "one", "done");
}
