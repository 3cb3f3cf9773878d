//! Tickets that nobody can work on: refused when they are created, and given back when their
//! repository is gone.

use std::fs;

use serde_json::{Value, json};

use super::assignment;
use crate::support::server::Server;
use crate::support::{World, until};

#[test]
fn a_ticket_without_a_repository_is_refused() {
    let world = World::new();
    let server = Server::start(&world);
    let nowhere = world.root().join("nowhere");
    let nowhere = nowhere.to_str().unwrap();
    let ticket = json!({"id": "E-3", "title": "No repository"});
    let listed = json!({"tickets": [{"id": "E-3", "spec": {"title": "x"}}]});
    let file = json!({"name": "t.json", "text": json!({"id": "E-3", "title": "x",
        "description": "x", "context": {}}).to_string()});
    for (path, body) in [
        ("/api/v1/tickets", ticket),
        ("/api/v1/batches", listed),
        ("/api/v1/imports", file),
    ] {
        let told = server.rest("POST", path, &body).is(422).json();
        let why = told["detail"].as_str().unwrap();
        assert!(why.contains("no repository is named"), "{path}: {why}");
        let mut body = body;
        body["repository"] = json!(nowhere);
        let told = server.rest("POST", path, &body).is(422).json();
        assert!(told["detail"].as_str().unwrap().contains(nowhere), "{told}");
    }
    let all = server.rest("GET", "/api/v1/tickets", &Value::Null).json();
    assert_eq!(all["items"], json!([]));
}

#[test]
fn an_import_belongs_to_the_repository_in_which_it_runs() {
    let world = World::new();
    let server = Server::start(&world);
    let state = json!({"epic_id": "EP", "tickets": {"auth-base": {"title": "Base",
        "status": "pending", "dependencies": []}}});
    let file = world.put("epic-state.json", state.to_string());
    let token = format!("COUNTERSIGN_TOKEN={}", server.token);
    let words = ["--server", &server.url, "import", &file];
    world.call_behind(&["env", &token], &words).ends_with(0);
    let shown = world.json(&["ticket", "show", "auth-base"]);
    let repository = shown["ticket"]["spec"]["context"]["repository"].as_str();
    let own = fs::canonicalize(world.repository.join(".git")).unwrap();
    assert_eq!(repository, own.to_str());
    let builder = server.token("bea", "builder", &[]);
    assert_eq!(
        assignment(&server, &builder, "build")["ticket"],
        "auth-base"
    );
}

/// The repository of one ticket vanishes. Its builder gets the other ticket, and the lost one ends
/// with a person after a bounded number of attempts.
#[test]
fn a_claim_that_cannot_be_served_is_given_back_and_the_agent_gets_other_work() {
    let world = World::new();
    let server = Server::start(&world);
    let other = world.root().join("other");
    let place = other.to_str().unwrap();
    let source = world.repository.to_str().unwrap();
    world.git(&["clone", "--quiet", source, place]);
    let ticket = json!({"id": "lost", "title": "Do it", "repository": place});
    server.rest("POST", "/api/v1/tickets", &ticket).is(201);
    let builder = server.token("bea", "builder", &[]);
    let held = assignment(&server, &builder, "build");
    assert_eq!(held["ticket"], "lost");
    fs::rename(&other, world.root().join("gone")).unwrap();

    let attempt = json!({"attempt": held["attempt"]});
    let why = server
        .tool(&builder, "accept_assignment", &attempt)
        .unwrap_err();
    assert!(why.contains("lost was given back"), "{why}");
    assert!(why.contains("get_my_assignment"), "{why}");
    server.add("greet");
    assert_eq!(assignment(&server, &builder, "build")["ticket"], "greet");
    let idle = server.token("cat", "builder", &[]);
    until("a person is asked about the lost one", || {
        let work = server.tool(&idle, "get_my_assignment", &json!({})).unwrap();
        assert_eq!(work["assignment"], Value::Null);
        server.stage("lost") == "escalated"
    });
    let failed = world.count("lost", "job_failed");
    assert!((2..10).contains(&failed), "{failed}");
    let shown = world.json(&["log", "lost", "--limit", "100"]).to_string();
    assert!(shown.contains("is not a directory"), "{shown}");
    world.must_be_sound();
}
