//! Workers for named queues: free tasks that no ticket decides about.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{PLAIN, begun, drains, waits_for_a_sign};
use crate::support::crew::{always, answers, builds, built_by, runs, writes};
use crate::support::processes::{marked, signal};
use crate::support::server::Server;
use crate::support::{Running, World, reached, until};

/// Long enough for a worker to have taken up what it should not.
const A_WHILE: Duration = Duration::from_secs(3);

/// Settings for tasks that belong to no repository.
const OWN: &str = "[policy]\nsandbox = \"off\"\n[policy.limits]\nbackoff_secs = 0\n";

fn world() -> World {
    let world = World::with_settings(PLAIN);
    world.put_home(".config/countersign/config.toml", OWN);
    world
}

fn worker(world: &World, crew: &str, words: &[&str]) -> Running {
    let start = ["worker", "--builder", crew, "--queue", "engineer"];
    world.start(&[&start, words].concat())
}

/// Queues a task in this world's repository; its id.
fn queue_here(server: &Server<'_>, world: &World, title: &str) -> String {
    queue(
        server,
        title,
        &json!({"repository": world.repository, "base_branch": "main"}),
    )
}

fn queue(server: &Server<'_>, title: &str, context: &Value) -> String {
    let task = json!({"agent_id": "engineer", "task_type": "fix", "title": title,
        "description": "As it says.", "context": context});
    let queued = server.rest("POST", "/api/v1/tasks", &task).is(201);
    queued.json()["task_id"].as_str().unwrap().to_owned()
}

/// The job of a task, as the server lists it.
fn job(server: &Server<'_>, id: &str) -> Value {
    let listed = server.rest("GET", "/api/v1/jobs?queue=engineer", &Value::Null);
    let jobs = listed.is(200).json()["items"].take();
    let mut jobs = jobs.as_array().unwrap().iter();
    let found = jobs.find(|job| job["work"]["free"]["body"]["id"] == id);
    found.unwrap_or_else(|| panic!("no job of {id}")).clone()
}

#[track_caller]
fn until_state(server: &Server<'_>, id: &str, state: &str) -> Value {
    until(&format!("{id} is {state}"), || {
        job(server, id)["state"] == state
    });
    job(server, id)
}

/// Says what its brief was, and leaves a file uncommitted.
fn diligent() -> Value {
    let mut steps = vec![
        runs("grep -q 'Mend the door' \"$COUNTERSIGN_BRIEF_FILE\""),
        writes("door.txt", "mended\n"),
    ];
    steps.extend(answers(json!({"summary": "The door is mended."})));
    built_by(&always(steps))
}

#[test]
fn a_task_is_done_in_its_repository_on_a_branch_of_its_own() {
    let world = world();
    let crew = world.crew(&diligent());
    let server = Server::start(&world);
    let id = queue_here(&server, &world, "Mend the door");
    let worker = worker(&world, &crew, &["--replicas", "2"]);
    let result = until_state(&server, &id, "done")["result"].take();
    assert_eq!(result["summary"], "The door is mended.");
    assert!(result["by"].as_str().unwrap().starts_with("engineer-"));
    let branch = format!("countersign/task-{id}");
    assert_eq!(result["branch"], json!(branch));
    assert_eq!(
        world.git(&["show", &format!("{branch}:door.txt")]),
        "mended"
    );
    assert_eq!(
        world.git(&["ls-tree", "--name-only", "main", "door.txt"]),
        ""
    );
    signal(worker.pid(), Signal::TERM);
    let ran = worker.wait(Duration::from_secs(30)).ends_with(0);
    ran.says("engineer-1, engineer-2: working on engineer");
    let worktree = format!("tickets/task-{id}/worktree");
    assert!(!world.data.join(worktree).exists());
}

#[test]
fn a_task_without_a_repository_has_a_place_of_its_own() {
    let world = World::new();
    let crew = world.crew(&diligent());
    let server = Server::start(&world);
    let id = queue(&server, "Mend the door", &json!({"pr_number": 456}));
    let _worker = worker(&world, &crew, &["--replicas", "3"]);
    let result = until_state(&server, &id, "done")["result"].take();
    let place = result["repository"].as_str().unwrap();
    assert!(place.starts_with(world.data.to_str().unwrap()), "{place}");
    let commit = result["commit"].as_str().unwrap();
    let shown = world.git(&["--git-dir", place, "show", &format!("{commit}:door.txt")]);
    assert_eq!(shown, "mended");
}

#[test]
fn a_task_of_words_needs_no_change() {
    let world = World::new();
    let crew = world.crew(&built_by(&always(answers(
        json!({"summary": "Forty-two."}),
    ))));
    let server = Server::start(&world);
    let id = queue_here(&server, &world, "How many?");
    let _worker = worker(&world, &crew, &[]);
    let result = until_state(&server, &id, "done")["result"].take();
    assert_eq!(
        (&result["summary"], &result["changed"]),
        (&json!("Forty-two."), &json!(false))
    );
}

#[test]
fn a_task_that_fails_is_tried_again_and_what_it_left_is_kept() {
    let world = world();
    let once = format!(
        "[ -e {0}/tried ] || {{ touch {0}/tried; exit 3; }}",
        world.root().display()
    );
    let mut steps = vec![writes("half.txt", "half\n"), runs(&once)];
    steps.extend(answers(json!({"summary": "Done."})));
    let crew = world.crew(&built_by(&always(steps)));
    let server = Server::start(&world);
    let id = queue_here(&server, &world, "Try");
    let _worker = worker(&world, &crew, &[]);
    let done = until_state(&server, &id, "done");
    assert_eq!(done["attempts"], 1, "{done}");
    assert_eq!(world.count_of("job_retried"), 1);
    let saved = world.git(&["for-each-ref", &format!("refs/countersign/task-{id}")]);
    assert!(saved.contains("leftovers-1-2"), "{saved}");
}

#[test]
fn a_task_that_always_fails_is_given_up_with_the_reason() {
    let world = world();
    let crew = world.crew(&built_by(&always(vec![runs("echo no luck >&2; exit 3")])));
    let server = Server::start(&world);
    let id = queue_here(&server, &world, "Try");
    let _worker = worker(&world, &crew, &[]);
    let dead = until_state(&server, &id, "dead");
    assert_eq!(dead["attempts"], 6, "{dead}");
    assert!(
        dead["last_error"].as_str().unwrap().contains("transcript"),
        "{dead}"
    );
}

#[test]
fn the_first_signal_drains() {
    let world = world();
    let crew = world.crew(&waits_for_a_sign(&world));
    let server = Server::start(&world);
    let first = queue_here(&server, &world, "One");
    let worker = worker(&world, &crew, &[]);
    until("the first has begun", || begun(&world).len() == 1);
    let second = queue_here(&server, &world, "Two");
    signal(worker.pid(), Signal::TERM);
    until("it drains", || drains(&world));
    world.put("go", "");
    worker.wait(Duration::from_secs(30)).ends_with(0);
    assert_eq!(job(&server, &first)["state"], "done");
    assert_eq!(job(&server, &second)["state"], "ready");
}

#[test]
fn the_second_signal_gives_back_and_no_try_is_counted() {
    let world = world();
    let crew = world.crew(&waits_for_a_sign(&world));
    let server = Server::start(&world);
    let id = queue_here(&server, &world, "One");
    let worker = worker(&world, &crew, &[]);
    until("it has begun", || begun(&world).len() == 1);
    signal(worker.pid(), Signal::TERM);
    until("it drains", || drains(&world));
    signal(worker.pid(), Signal::TERM);
    let ran = worker.wait(Duration::from_secs(30)).ends_with(0);
    ran.says("given back");
    let back = job(&server, &id);
    let stands = (&back["state"], &back["attempts"]);
    assert_eq!(stands, (&json!("ready"), &json!(0)));
}

#[test]
fn a_killed_worker_s_task_is_taken_up_by_the_next() {
    let world = world();
    let crew = world.crew(&waits_for_a_sign(&world));
    let server = Server::start(&world);
    let id = queue_here(&server, &world, "One");
    let first = worker(&world, &crew, &[]);
    until("it has begun", || begun(&world).len() == 1);
    signal(first.pid(), Signal::KILL);
    first.wait(Duration::from_secs(30));
    let _second = worker(&world, &crew, &["--replicas", "2"]);
    until("it has begun again", || begun(&world).len() == 2);
    world.put("go", "");
    assert_eq!(until_state(&server, &id, "done")["attempts"], 1);
}

#[test]
fn a_paused_queue_rests_and_what_a_task_depends_on_goes_first() {
    let world = world();
    let crew = world.crew(&waits_for_a_sign(&world));
    world.put("go", "");
    let server = Server::start(&world);
    let pause = json!({"scope": "queue", "name": "engineer", "why": "rest"});
    server.rest("POST", "/api/v1/pauses", &pause).is(201);
    let first = queue_here(&server, &world, "One");
    let task = json!({"agent_id": "engineer", "task_type": "fix", "title": "Two", "priority": 90,
        "context": {"repository": world.repository}, "depends_on": [first]});
    let queued = server.rest("POST", "/api/v1/tasks", &task).is(201).json();
    let _worker = worker(&world, &crew, &[]);
    assert!(
        !reached(A_WHILE, || !begun(&world).is_empty()),
        "it is paused"
    );
    let path = "/api/v1/pauses/queue/engineer";
    server.rest("DELETE", path, &Value::Null).is(200);
    let second = queued["task_id"].as_str().unwrap();
    until_state(&server, second, "done");
    let order = [format!("task-{first}"), format!("task-{second}")];
    assert_eq!(begun(&world), order);
}

#[test]
fn an_agent_does_not_choose_where_its_task_is_worked_on() {
    let world = world();
    let server = Server::start(&world);
    let bea = server.token("bea", "builder", &[]);
    server.token("engineer", "builder", &[]);
    let task = json!({"agent_id": "engineer", "task_type": "fix", "title": "Mine",
        "context": {"repository": "/srv/repos/theirs", "needs": ["gpu=yes"], "pr_number": 4}});
    let queued = server.tool(&bea, "queue_task_for_agent", &task).unwrap();
    let job = job(&server, queued["task_id"].as_str().unwrap());
    assert_eq!(
        job["work"]["free"]["body"]["context"],
        json!({"pr_number": 4})
    );
}

/// As a person says it, with what is answered.
fn cancel(world: &World, id: &str) -> Value {
    world.json(&["queue", "cancel", id, "--why", "no longer wanted"])
}

#[test]
fn a_task_that_waits_is_cancelled_and_never_begun() {
    let world = world();
    let crew = world.crew(&waits_for_a_sign(&world));
    world.put("go", "");
    let server = Server::start(&world);
    let id = queue_here(&server, &world, "One");
    let answer = cancel(&world, &id);
    assert_eq!(answer["status"], "cancelled", "{answer}");
    assert_eq!(cancel(&world, &id)["status"], "cancelled");
    let other = queue_here(&server, &world, "Two");
    let _worker = worker(&world, &crew, &[]);
    until_state(&server, &other, "done");
    assert_eq!(begun(&world), [format!("task-{other}")]);
    let dropped = job(&server, &id);
    assert_eq!(dropped["state"], "dropped");
    assert_eq!(dropped["last_error"], "no longer wanted");
    assert_eq!(world.count_of("job_dropped"), 1);
    world
        .call(&["queue", "cancel", &other])
        .ends_with(6)
        .says("it has already ended: completed");
    world
        .call(&["queue", "cancel", "nobody"])
        .ends_with(2)
        .says("there is no task nobody");
    world
        .call(&["queue", "list", "--queue", "engineer"])
        .ends_with(0)
        .says("dropped");
}

#[test]
fn a_task_at_work_is_stopped_with_everything_that_it_started() {
    let world = world();
    let sign = world.root().join("begun");
    let script = format!(
        "echo $COUNTERSIGN_TICKET >> {}; sleep 600 & wait",
        sign.display()
    );
    let crew = world.crew(&built_by(&always(vec![runs(&script)])));
    let server = Server::start(&world);
    let id = queue_here(&server, &world, "One");
    let _worker = worker(&world, &crew, &[]);
    until("it has begun", || begun(&world).len() == 1);
    assert!(!marked(&world.root()).is_empty());
    let path = format!("/api/v1/tasks/{id}/cancel");
    let why = json!({"why": "no longer wanted"});
    let answer = server.rest("POST", &path, &why).is(200).json();
    assert_eq!(answer["status"], "cancelled");
    until("nothing of it runs", || marked(&world.root()).is_empty());
    let dropped = job(&server, &id);
    assert_eq!(
        (&dropped["state"], &dropped["result"]),
        (&json!("dropped"), &Value::Null)
    );
    // It is not taken up again.
    let other = queue_here(&server, &world, "Two");
    until("the next has begun", || begun(&world).len() == 2);
    assert_eq!(begun(&world)[1], format!("task-{other}"));
    let builder = server.token("bea", "builder", &[]);
    server
        .rest_as(&builder, "POST", &path, &why.to_string())
        .is(403);
}

#[test]
fn the_result_of_a_cancelled_task_is_refused() {
    let world = world();
    let server = Server::start(&world);
    let agent = server.token("engineer", "builder", &[]);
    let id = queue_here(&server, &world, "One");
    let work = server
        .tool(&agent, "get_my_assignment", &json!({}))
        .unwrap();
    assert_eq!(work["task"]["id"], json!(id));
    cancel(&world, &id);
    let late = server.tool(&agent, "complete", &json!({"summary": "done"}));
    assert!(late.unwrap_err().contains("you have no assignment"));
    assert_eq!(job(&server, &id)["state"], "dropped");
    assert_eq!(world.count_of("refused"), 1);
}

#[test]
fn what_tasks_cost_counts_for_the_day_and_none_is_begun_past_its_cap() {
    let day = "[policy.budget.day]\nusd = 0.15\n";
    let world = World::with_settings(&format!("{PLAIN}\n{day}"));
    let crew = world.crew(&built_by(&always(builds("file.txt", "text\n"))));
    let server = Server::start(&world);
    let _worker = worker(&world, &crew, &[]);
    for (title, spent) in [("One", 100_000), ("Two", 200_000)] {
        let id = queue_here(&server, &world, title);
        until_state(&server, &id, "done");
        let metrics = server.rest("GET", "/metrics", &Value::Null).body;
        let line = format!("countersign_spent_today_usd_micros {spent}");
        assert!(metrics.lines().any(|one| one == line), "{line}\n{metrics}");
    }
    let third = queue_here(&server, &world, "Three");
    assert!(
        !reached(A_WHILE, || job(&server, &third)["state"] != "ready"),
        "the day's money is spent"
    );
    assert_eq!(world.count_of("task_ran"), 2);
}
