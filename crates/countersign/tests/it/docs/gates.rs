//! The examples for continuous integration: read as YAML, and their commands run.

use serde_json::Value;

use super::root;
use crate::support::World;

fn example(name: &str) -> Value {
    let text = std::fs::read_to_string(root().join("examples").join(name)).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

/// A clone with a branch that is to be merged, as a runner has it checked out.
fn runner() -> World {
    let world = World::new();
    world.git(&["update-ref", "refs/remotes/origin/main", "main"]);
    world.git(&["switch", "--quiet", "--create", "topic"]);
    world.write("greet.sh", "#!/bin/sh\necho hello\n");
    world.commit("Greet");
    world.install_self();
    world
}

fn runs(script: &str, world: &World) -> crate::support::Ran {
    let ran = world.shell("sh", &format!("set -e; BASE=origin/main; {script}"));
    assert!(!ran.err.contains("error:"), "{script}: {}", ran.err);
    ran
}

#[test]
fn the_github_workflow_reviews_and_annotates() {
    let workflow = example("github-actions.yml");
    let steps = workflow["jobs"]["review"]["steps"].as_array().unwrap();
    let commands: Vec<&str> = steps
        .iter()
        .filter_map(|step| step["run"].as_str())
        .filter(|run| run.starts_with("countersign"))
        .collect();
    assert_eq!(commands.len(), 2);
    let world = runner();
    for command in &commands {
        runs(command, &world).ends_with(0);
    }
    let sarif = std::fs::read_to_string(world.repository.join("countersign.sarif")).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&sarif).unwrap()["version"],
        "2.1.0"
    );
    world.write(
        "key.txt",
        &format!("-----BEGIN {} KEY-----\n", "RSA PRIVATE"),
    );
    world.commit("Oh no");
    runs(commands[0], &world)
        .ends_with(3)
        .says("::error file=key.txt,line=1");
}

#[test]
fn the_gitlab_job_writes_a_code_quality_report() {
    let job = &example("gitlab-ci.yml")["countersign"];
    let script = job["script"][0].as_str().unwrap();
    let report = job["artifacts"]["reports"]["codequality"].as_str().unwrap();
    let world = runner();
    world.write(
        "key.txt",
        &format!("-----BEGIN {} KEY-----\n", "RSA PRIVATE"),
    );
    world.commit("Oh no");
    runs(script, &world).ends_with(3);
    let report = std::fs::read_to_string(world.repository.join(report)).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report[0]["location"]["path"], "key.txt");
    assert_eq!(report[0]["severity"], "critical");
}

#[test]
fn the_example_ticket_and_epic_are_taken() {
    let world = World::new();
    let files = ["ticket.md", "epic.yaml"].map(|name| root().join("examples").join(name));
    let [ticket, epic] = files.each_ref().map(|file| file.to_str().unwrap());
    world.call(&["ticket", "add", ticket]).ends_with(0);
    world
        .call(&["run", epic, "--dry-run"])
        .ends_with(0)
        .says("greet-politely");
}
