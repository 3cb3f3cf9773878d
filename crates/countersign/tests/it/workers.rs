//! Several workers at once: which of them takes a job, which gives it up, and that nothing is done
//! twice.

pub mod database;
mod fleet;
mod https_and_ssh;
mod outage;
mod over_server;
mod race;
mod remote_machine;
mod remotes;
mod server_transports;
mod tasks;
mod tasks_over_server;
mod trust;
mod worker_control;

use serde_json::{Value, json};

use crate::support::crew::{always, answers, built_by, runs, writes};
use crate::support::{DEADLINE, Running, World, reached};

/// Without review and landing, so that a ticket is one build and one check.
const PLAIN: &str = "\
[checks]
test = \"true\"

[policy]
review = \"none\"
land = \"branch\"
sandbox = \"off\"

[policy.limits]
backoff_secs = 0
lease_secs = 3
";

/// A worker whose builder and reviewer are this crew.
fn worker(world: &World, crew: &str, words: &[&str]) -> Running {
    world.start(&[&["worker", "--builder", crew, "--reviewer", crew], words].concat())
}

/// A builder that leaves a sign that it has begun and goes on when there is another.
fn waits_for_a_sign(world: &World) -> Value {
    let dir = world.root().display().to_string();
    let begun = format!("echo $COUNTERSIGN_TICKET >> {dir}/begun");
    let go = format!("until [ -e {dir}/go ]; do sleep 0.05; done");
    let mut steps = vec![runs(&begun), runs(&go), writes("file.txt", "text\n")];
    steps.extend(answers(json!({"summary": "Done."})));
    built_by(&always(steps))
}

/// The tickets that a builder has begun, in order.
fn begun(world: &World) -> Vec<String> {
    let text = std::fs::read_to_string(world.root().join("begun")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Whether a worker of this world has said that it drains.
fn drains(world: &World) -> bool {
    let files = std::fs::read_dir(world.root()).unwrap();
    let mut said = files.filter_map(|file| std::fs::read_to_string(file.unwrap().path()).ok());
    said.any(|text| text.contains("draining"))
}

/// A bare repository that every machine reaches, with what the world's own has; its path.
fn shared(world: &World) -> String {
    let shared = world.root().join("shared.git").display().to_string();
    world.git(&[
        "init",
        "--quiet",
        "--bare",
        "--initial-branch=main",
        &shared,
    ]);
    world.git(&["push", "--quiet", &shared, "main"]);
    shared
}

fn add(world: &World, id: &str, more: &str) {
    let file = world.put(
        &format!("{id}.md"),
        format!("---\nid: {id}\n{more}---\n# Do {id}\n"),
    );
    world.call(&["ticket", "add", &file]).ends_with(0);
}

#[track_caller]
fn until_stage(world: &World, id: &str, stage: &str) {
    let is_there = reached(DEADLINE, || world.stage(id) == stage);
    let log = || world.call(&["log", id]).out;
    assert!(is_there, "{id} is not {stage}:\n{}", log());
}
