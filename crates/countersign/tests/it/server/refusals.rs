//! Tests refusals: each has a clear reason, changes nothing and is recorded.

use serde_json::{Value, json};

use super::{assignment, at_work, submit, ten};
use crate::support::server::{Reply, Server};
use crate::support::{SETTINGS, World, until};

/// Returns the refused calls of a caller, each with its reason.
pub fn refused(world: &World, by: &str) -> Vec<String> {
    let log = world.json(&["log", "--limit", "10000"]);
    let events = log["events"].as_array().unwrap().iter();
    events
        .filter(|event| event["event"] == "refused" && event["by"] == by)
        .map(ToString::to_string)
        .collect()
}

#[track_caller]
fn is_on_record(world: &World, by: &str, why: &str) {
    let refused = refused(world, by);
    assert!(
        refused.iter().any(|event| event.contains(why)),
        "{why}: {refused:#?}"
    );
}

#[test]
fn what_is_not_for_a_role_or_a_ticket_is_refused_and_written_down() {
    let world = World::new();
    let server = Server::start(&world);
    server.add("one");
    server.add("two");
    let builder = server.token("bea", "builder", &[]);
    let bound = server.token("ada", "human", &["--ticket", "one"]);
    let why = json!({"why": "no longer wanted"}).to_string();
    let cancel = "/api/v1/tickets/two/cancel";
    server.rest_as(&builder, "POST", cancel, &why).is(403);
    is_on_record(&world, "bea", "the role builder may not do this");
    server.rest_as(&bound, "POST", cancel, &why).is(404);
    is_on_record(&world, "ada", "there is no ticket two");
    let pause = json!({"scope": "queue", "name": "build"}).to_string();
    server
        .rest_as(&bound, "POST", "/api/v1/pauses", &pause)
        .is(403);
    is_on_record(&world, "ada", "is only for ticket one");
    let verdict = json!({"approved": true});
    let told = server.tool(&builder, "submit_review_result", &verdict);
    assert!(told.unwrap_err().contains("not for the role builder"));
    is_on_record(&world, "bea", "not for the role builder");
    assert_eq!(server.stage("two"), "queued");
    let evil = [("Origin", "null")];
    server.send("GET", "/api/v1/status", &evil, "").is(403);
    is_on_record(&world, "nobody", "another origin");
    let evil = [("Host", "evil.example")];
    server.send("GET", "/api/v1/status", &evil, "").is(403);
    is_on_record(&world, "nobody", "does not answer to that host name");
}

#[test]
fn what_is_no_message_gets_an_error_of_the_protocol() {
    let world = World::new();
    let server = Server::start(&world);
    let bearer = format!("Bearer {}", server.token("bea", "builder", &[]));
    let post = |body: &str| {
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        server.send("POST", "/mcp", &headers, body)
    };
    for (body, code) in [
        ("", -32700),
        ("{", -32700),
        ("null", -32600),
        (r#"[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]"#, -32600),
        (r#"{"id": 1, "method": "ping"}"#, -32600),
        (r#"{"jsonrpc": "2.0", "id": {}, "method": "ping"}"#, -32600),
        (r#"{"jsonrpc": "2.0", "id": 1}"#, -32600),
        (
            r#"{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": 5}"#,
            -32602,
        ),
    ] {
        let answer = post(body).is(400).json();
        assert_eq!(answer["error"]["code"], code, "{body}: {answer}");
        assert_eq!(answer["jsonrpc"], "2.0");
    }
    for (body, code, words) in [
        (
            r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}"#,
            -32602,
            "parameters of tools/call",
        ),
        (
            r#"{"jsonrpc": "2.0", "id": 1, "method": "nope"}"#,
            -32601,
            "no method nope",
        ),
    ] {
        let answer = post(body).is(200).json();
        assert_eq!(answer["error"]["code"], code, "{body}: {answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(words), "{message}");
    }
    let token = bearer.strip_prefix("Bearer ").unwrap();
    for (tool, arguments, words) in [
        (
            "submit_for_review",
            json!({"assignment_id": "one"}),
            "assignment_id is of the type string, and must be integer",
        ),
        (
            "submit_for_review",
            json!({"claims": {}}),
            "claims is of the type object",
        ),
        (
            "wait_for_work",
            json!({"timeout_secs": -1}),
            "timeout_secs must not be below 0",
        ),
        (
            "complete",
            json!({"colour": "red"}),
            "unknown field `colour`",
        ),
    ] {
        let why = server.tool(token, tool, &arguments).unwrap_err();
        assert!(why.contains(words), "{tool}: {why}");
    }
}

#[test]
fn a_flood_of_strangers_does_not_fill_the_log() {
    let world = World::new();
    let server = Server::start(&world);
    for _ in 0..300 {
        server
            .rest_as("cs_made_up", "GET", "/api/v1/status", "")
            .is(401);
    }
    let noted = refused(&world, "nobody").len();
    assert!((100..250).contains(&noted), "{noted}");
}

#[test]
fn a_body_of_25_megabytes_is_refused_with_the_reason() {
    let world = World::new();
    let server = Server::start(&world);
    let builder = server.token("bea", "builder", &[]);
    let large = "x".repeat(25_000_000);
    let ticket = json!({"title": large}).to_string();
    let is_told = |reply: Reply| {
        let told = reply.is(413).json();
        assert_eq!(told["detail"], "the request body is larger than 4 MiB");
    };
    is_told(server.rest_as(&server.token, "POST", "/api/v1/tickets", &ticket));
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "complete", "arguments": {"summary": large}}});
    is_told(server.rest_as(&builder, "POST", "/mcp", &call.to_string()));
    is_on_record(&world, "bea", "larger than 4 MiB");
    let tally = server.rest("GET", "/api/v1/status", &Value::Null).json();
    assert_eq!(tally["tally"], json!({}));
}

#[test]
fn of_ten_results_at_once_under_one_claim_one_counts() {
    let world = World::new();
    let server = Server::start(&world);
    let (builder, build, _work) = at_work(&world, &server);
    let answers = ten(|n| {
        let words = json!({"attempt": build["attempt"], "summary": format!("way {}", n % 2)});
        server.tool(&builder, "submit_for_review", &words)
    });
    let (taken, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((taken.len(), refused.len()), (5, 5));
    for why in refused {
        let why = why.unwrap_err();
        assert!(why.contains("was used for another request"), "{why}");
    }
    assert_eq!(world.count("greet", "submitted"), 1);
    is_on_record(&world, "bea", "was used for another request");
}

#[test]
fn of_ten_calls_at_once_under_one_key_one_counts() {
    let world = World::new();
    let server = Server::start(&world);
    let repository = world.repository.to_str().unwrap();
    let bearer = format!("Bearer {}", server.token);
    let send = |path: &str, key: &str, body: &Value| {
        let headers = [("Authorization", bearer.as_str()), ("Idempotency-Key", key)];
        server.send("POST", path, &headers, &body.to_string())
    };
    let calls = |word: &str| {
        let ticket = json!({"id": "greet", "title": word, "repository": repository});
        let task = json!({"agent_id": "qa", "task_type": "review", "title": word});
        [
            ("/api/v1/tickets", ticket),
            ("/api/v1/tickets/greet/cancel", json!({"why": word})),
            ("/api/v1/tasks", task),
        ]
    };
    for ((path, one), (_, other)) in calls("one").into_iter().zip(calls("other")) {
        let replies = ten(|_| send(path, path, &one));
        let first = replies[0].json();
        for reply in replies {
            assert!([200, 201].contains(&reply.status), "{}", reply.body);
            assert_eq!(reply.json(), first, "{path}");
        }
        for reply in ten(|_| send(path, path, &other)) {
            let told = reply.is(409).json();
            let why = told["detail"].as_str().unwrap();
            assert!(why.contains("was used for another request"), "{why}");
        }
    }
    is_on_record(&world, "ada", "was used for another request");
    assert_eq!(world.count("greet", "created"), 1);
    assert_eq!(world.count("greet", "cancelled"), 1);
    let jobs = server.rest("GET", "/api/v1/jobs?queue=qa", &Value::Null);
    assert_eq!(jobs.json()["items"].as_array().unwrap().len(), 1);
    let unknown = json!({"agent_id": "qa", "title": "x", "colour": "red"});
    let told = send("/api/v1/tasks", "new", &unknown).is(422).json();
    assert!(told["detail"].as_str().unwrap().contains("colour"));
}

#[test]
fn the_result_of_a_lease_that_ran_out_is_refused_and_written_down() {
    let settings = SETTINGS.replace(
        "backoff_secs = 0\n",
        "backoff_secs = 1\nheartbeat_secs = 1\n",
    );
    let world = World::with_settings(&settings);
    let server = Server::start(&world);
    let (late, lost, _work) = at_work(&world, &server);
    until("the lease is lost", || {
        world.count("greet", "lease_lost") == 1
    });
    let words = json!({"attempt": lost["attempt"]});
    let why = server.tool(&late, "submit_for_review", &words).unwrap_err();
    assert!(why.contains("you have no assignment"), "{why}");
    is_on_record(&world, "bea", "you have no assignment");
    assert_eq!(world.count("greet", "submitted"), 0);
    // An agent that claims the job again continues under its own claim.
    let again = assignment(&server, &late, "build");
    submit(&server, &late, &again);
}
