//! Programs: what the document says is what is done.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::support::World;
use crate::support::server::Server;

#[test]
fn everything_in_the_document_can_be_called_and_nothing_breaks() {
    let world = World::new();
    let server = Server::start(&world);
    server.add("greet");
    let document = server
        .send("GET", "/api/v1/openapi.json", &[], "")
        .is(200)
        .json();
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() > 15);
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1) {
        let (pointer, _) = reference.split_once('"').unwrap();
        assert!(document.pointer(pointer).is_some(), "{pointer}");
    }
    for (path, methods) in paths {
        let place = path
            .replace("{ticket}", "greet")
            .replace("{token}", "none")
            .replace("{finding}", "F9")
            .replace("{task}", "none")
            .replace("{scope}", "agent")
            .replace("{name}", "nobody");
        for (method, operation) in methods.as_object().unwrap() {
            let success = operation["responses"].as_object().unwrap();
            let success = success.iter().find(|(status, _)| status.starts_with('2'));
            let content = success.unwrap().1["content"].as_object().unwrap();
            // A stream does not end; its frames have a test of their own.
            if content.contains_key("text/event-stream") {
                continue;
            }
            let types_answer = content.values().all(|kind| kind["schema"] != json!({}));
            assert!(types_answer, "{method} {path}: {content:?}");
            let method = method.to_uppercase();
            let reply = server.rest(&method, &place, &json!({}));
            let codes = operation["responses"].as_object().unwrap();
            let said = reply.status.to_string();
            assert!(
                codes.contains_key(&said),
                "{method} {place}: {}",
                reply.body
            );
            assert!(reply.status < 500, "{method} {place}: {}", reply.body);
            let strangers = server.send(&method, &place, &[], "{}");
            let is_open = operation["security"] == json!([]);
            let refused = if is_open { 200 } else { 401 };
            assert_eq!(strangers.status, refused, "{method} {place}");
        }
    }
}

#[test]
fn lost_updates_are_refused_and_the_same_call_is_answered_once() {
    let world = World::new();
    let server = Server::start(&world);
    server.add("greet");
    let bearer = format!("Bearer {}", server.token);
    let cancel = |version: &str, key: &str| {
        let headers = [
            ("Authorization", bearer.as_str()),
            ("If-Match", version),
            ("Idempotency-Key", key),
        ];
        let body = json!({"why": "no longer wanted"}).to_string();
        server.send("POST", "/api/v1/tickets/greet/cancel", &headers, &body)
    };
    let shown = server
        .rest("GET", "/api/v1/tickets/greet", &Value::Null)
        .is(200);
    assert!(
        shown.head.to_lowercase().contains("etag: \"1\""),
        "{}",
        shown.head
    );
    cancel("\"7\"", "a").is(409);
    let first = cancel("\"1\"", "b").is(200).json();
    assert_eq!(first["stage"], "cancelled");
    assert_eq!(cancel("\"1\"", "b").is(200).json(), first);
    let headers = [("Authorization", bearer.as_str()), ("Idempotency-Key", "b")];
    let other = json!({"why": "another reason"}).to_string();
    server
        .send("POST", "/api/v1/tickets/greet/cancel", &headers, &other)
        .is(409);
    assert_eq!(world.count("greet", "cancelled"), 1);
}

#[test]
fn the_stream_of_events_goes_on_where_its_reader_was() {
    let world = World::new();
    let server = Server::start(&world);
    server.add("one");
    let first = listen(&server, None, "created");
    server.add("two");
    let second = listen(&server, Some(&first.0), "created");
    assert!(first.1.contains("\"one\"") && second.1.contains("\"two\""));
    // A position of the stream is one of the log, and its older form is still read.
    let log = format!("/api/v1/log?after={}", first.0);
    let lines = server.rest("GET", &log, &Value::Null).is(200).json();
    assert_eq!(lines["items"].as_array().unwrap().len(), 1, "{lines}");
    let older = listen(&server, Some(&first.0.replace('.', "-")), "created");
    assert_eq!(older, second);
    let bad = server.rest("GET", "/api/v1/events?after=yesterday", &Value::Null);
    bad.is(400);
}

/// The id and the data of the first event of that name after the place.
fn listen(server: &Server<'_>, after: Option<&str>, name: &str) -> (String, String) {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let (host, token) = (&server.address, &server.token);
    let head =
        format!("GET /api/v1/events HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n");
    let after = after.map(|after| format!("Last-Event-ID: {after}\r\n"));
    let head = format!("{head}{}\r\n", after.unwrap_or_default());
    stream.write_all(head.as_bytes()).unwrap();
    let (mut id, mut ours) = (String::new(), false);
    for line in BufReader::new(stream).lines() {
        let line = line.unwrap();
        if let Some(text) = line.strip_prefix("id: ") {
            text.clone_into(&mut id);
        } else if let Some(event) = line.strip_prefix("event: ") {
            ours = event == name;
        } else if let Some(data) = line.strip_prefix("data: ")
            && ours
        {
            return (id, data.to_owned());
        }
    }
    panic!("the stream ended before {name}");
}

#[test]
fn what_is_measured_can_be_read_by_machines() {
    let world = World::new();
    let server = Server::start(&world);
    server.add("greet");
    let metrics = server.rest("GET", "/metrics", &Value::Null).is(200).body;
    assert!(
        metrics.contains("countersign_tickets{stage=\"queued\"} 1"),
        "{metrics}"
    );
    assert!(
        metrics.contains("countersign_jobs_ready{queue=\"build\"} 1"),
        "{metrics}"
    );
    server.send("GET", "/healthz", &[], "").is(200);
    server.send("GET", "/readyz", &[], "").is(200);
}

#[test]
fn an_administrator_makes_tokens_and_others_do_not() {
    let world = World::new();
    let server = Server::start(&world);
    let wanted = json!({"agent": "bea", "role": "builder", "ttl_secs": 60});
    let made = server
        .rest("POST", "/api/v1/tokens", &wanted)
        .is(201)
        .json();
    assert!(made["secret"].as_str().unwrap().starts_with("cs_"));
    let human = server.token("ada", "human", &[]);
    server
        .rest_as(&human, "POST", "/api/v1/tokens", &wanted.to_string())
        .is(403);
    let builder = made["secret"].as_str().unwrap();
    server
        .rest_as(builder, "GET", "/api/v1/tickets", "")
        .is(403);
    let id = made["token"]["id"].as_str().unwrap();
    server
        .rest("DELETE", &format!("/api/v1/tokens/{id}"), &Value::Null)
        .is(200);
    server.rest_as(builder, "POST", "/mcp", "{}").is(401);
}

#[test]
fn what_is_wrong_with_a_request_is_named() {
    let world = World::new();
    let server = Server::start(&world);
    server.add("greet");
    let says = |method: &str, path: &str, body: &str, status: u16, words: &str| {
        let reply = server.rest_as(&server.token, method, path, body).is(status);
        let detail = reply.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(words), "{method} {path}: {detail}");
    };
    let tickets = "/api/v1/tickets";
    for (query, words) in [
        ("limit=abc", "limit: "),
        ("limit=2&counts=maybe", "counts: "),
        (
            "stage=queued&stage=building",
            "\"stage\" is given more than once",
        ),
        ("colour=red", "unknown query parameter \"colour\""),
    ] {
        says("GET", &format!("{tickets}?{query}"), "", 400, words);
    }
    for (body, words) in [
        (r#"{"title": 5, "repository": "/"}"#, "title: "),
        (
            r#"{"title": "t", "repository": "/", "priority": 1e9}"#,
            "priority: ",
        ),
        (
            r#"{"title": "t", "id": "one", "id": "two"}"#,
            "the same key is twice",
        ),
        ("[]", "must be a JSON object"),
        (r#"{"title": "t"}"#, "no repository is named"),
    ] {
        says("POST", tickets, body, 422, words);
    }
    says("POST", "/queue", "[]", 422, "must be a JSON object");
    let pause = r#"{"scope": "queue", "name": ""}"#;
    says("POST", "/api/v1/pauses", pause, 422, "1 to 100 characters");
    for path in ["tickets/%ff", "tickets/%ff/events", "epics/%c3%28"] {
        says(
            "GET",
            &format!("/api/v1/{path}"),
            "",
            400,
            "not valid UTF-8",
        );
    }

    let bearer = format!("Bearer {}", server.token);
    let cancel = |name: &str, value: &str| {
        let headers = [("Authorization", bearer.as_str()), (name, value)];
        let path = "/api/v1/tickets/greet/cancel";
        server.send("POST", path, &headers, r#"{"why": "no longer wanted"}"#)
    };
    let long = "k".repeat(256);
    for key in ["", "schlüssel", &long] {
        let refused = cancel("Idempotency-Key", key).is(400);
        assert!(refused.body.contains("Idempotency-Key"), "{}", refused.body);
    }
    cancel("If-Match", "\"99\"").is(409);
    // Any version of a ticket that exists.
    cancel("If-Match", "*").is(200);
}

#[test]
fn an_epic_is_exported_by_a_server_and_a_repository_is_named_by_any_path() {
    let world = World::new();
    let server = Server::start(&world);
    let place = world.repository.to_str().unwrap();
    let text = "id: sea\ntitle: Sea\ntickets:\n  - {id: wave, title: Make waves}\n";
    let import = json!({"name": "sea.yaml", "text": text, "repository": place});
    server.rest("POST", "/api/v1/imports", &import).is(201);
    let export = "/api/v1/export?form=epic-state&epic=sea";
    let exported = server.rest("GET", export, &Value::Null).is(200).json();
    let state = &exported["documents"][0];
    assert_eq!(state["tickets"]["wave"]["status"], "queued", "{state}");
    let token = format!("COUNTERSIGN_TOKEN={}", server.token);
    let words = [
        "--server",
        &server.url,
        "export",
        "--as",
        "epic-state",
        "--epic",
        "sea",
    ];
    let afar = world.call_behind(&["env", &token], &words);
    afar.ends_with(0).says("\"wave\"");

    for path in [place.to_owned(), format!("{place}/.git")] {
        for route in ["tickets", "log"] {
            let path = format!("/api/v1/{route}?repository={path}");
            let listed = server.rest("GET", &path, &Value::Null).is(200).json();
            let items = listed["items"].as_array().unwrap();
            assert!(!items.is_empty(), "{path}: {listed}");
        }
        let path = format!("/api/v1/status?repository={path}");
        let status = server.rest("GET", &path, &Value::Null).is(200).json();
        assert_eq!(status["tally"]["queued"], 1, "{status}");
    }
    let none = server.rest("GET", "/api/v1/tickets?repository=/nowhere", &Value::Null);
    assert_eq!(none.is(200).json()["items"], json!([]));
}

#[test]
fn a_token_for_one_ticket_sees_no_sums_over_others() {
    let world = World::new();
    let server = Server::start(&world);
    let text =
        "id: sea\ntitle: Sea\ntickets:\n  - {id: one, title: One}\n  - {id: two, title: Two}\n";
    let import = json!({"name": "sea.yaml", "text": text,
        "repository": world.repository.to_str().unwrap()});
    server.rest("POST", "/api/v1/imports", &import).is(201);
    let token = server.token("ada", "human", &["--ticket", "one"]);
    for path in [
        "/api/v1/costs",
        "/api/v1/costs/days",
        "/api/v1/insights",
        "/api/v1/epics",
        "/api/v1/epics/sea",
        "/api/v1/export?form=epic-state&epic=sea",
        "/metrics",
    ] {
        let reply = server.rest_as(&token, "GET", path, "");
        assert!([400, 403].contains(&reply.status), "{path}: {}", reply.body);
        assert!(
            reply.body.contains("only for ticket one"),
            "{path}: {}",
            reply.body
        );
    }
}

#[test]
fn a_token_for_one_ticket_sees_and_changes_no_other() {
    let world = World::new();
    let server = Server::start(&world);
    server.add("one");
    server.add("two");
    let token = server.token("ada", "human", &["--ticket", "one"]);
    let ask = |method: &str, path: &str, body: &Value| {
        server.rest_as(&token, method, path, &body.to_string())
    };
    ask("GET", "/api/v1/tickets/one", &Value::Null).is(200);
    ask("GET", "/api/v1/tickets/two", &Value::Null).is(404);
    let export = "/api/v1/export?form=task&tickets=one,two";
    ask("GET", export, &Value::Null).is(404);
    let listed = ask("GET", "/api/v1/tickets", &Value::Null).is(200).json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    let log = ask("GET", "/api/v1/log", &Value::Null).is(200).body;
    assert!(log.contains("\"one\"") && !log.contains("\"two\""), "{log}");
    let why = json!({"why": "no longer wanted"});
    ask("POST", "/api/v1/tickets/two/cancel", &why).is(404);
    ask("POST", "/api/v1/tickets", &json!({"title": "Another"})).is(403);
    let pause = json!({"scope": "queue", "name": "build"});
    ask("POST", "/api/v1/pauses", &pause).is(403);
    ask("POST", "/api/v1/tickets/one/cancel", &why).is(200);
}
