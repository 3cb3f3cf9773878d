//! Tests the routes that programs and pages read: filters, counts, rounds, bytes of files, a run while it goes on,
//! costs by day, answers that are compressed or not sent again.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::support::crew::{
    GOOD, always, approves, builds, crew, quarrel, smooth, two_rounds, verifies,
};
use crate::support::server::{Reply, Server};
use crate::support::{DEADLINE, TICKET, World, until};

fn run_greet(world: &World, script: &Value) {
    let (ticket, agent) = (world.put("greet.md", TICKET), world.crew(script));
    world.call(&["run", &ticket, "--builder", &agent, "--reviewer", &agent]);
}

fn get(server: &Server<'_>, path: &str) -> Value {
    server.rest("GET", path, &Value::Null).is(200).json()
}

fn get_with(server: &Server<'_>, path: &str, more: &[(&str, &str)]) -> Reply {
    let bearer = format!("Bearer {}", server.token);
    let headers = [&[("Authorization", bearer.as_str())], more].concat();
    server.send("GET", path, &headers, "")
}

/// A header's value, in small letters.
fn header(reply: &Reply, name: &str) -> String {
    let lines = reply.head.lines().filter_map(|line| line.split_once(": "));
    let mut found = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
    found
        .next()
        .map_or_else(String::new, |(_, value)| value.to_owned())
}

fn ids(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["id"].as_str().unwrap())
        .collect()
}

#[test]
fn lists_are_filtered_sorted_counted_and_paged() {
    let world = World::new();
    run_greet(&world, &two_rounds());
    let server = Server::start(&world);
    let repository = world.repository.to_str().unwrap();
    for (id, priority) in [("low", 10), ("high", 90)] {
        let ticket = json!({"id": id, "title": format!("Rename the {id} tide"),
            "priority": priority, "repository": repository});
        server.rest("POST", "/api/v1/tickets", &ticket).is(201);
    }
    let epic = "id: sea\ntitle: Sea\ntickets:\n  - id: wave\n    title: Make waves\n";
    let file = json!({"name": "sea.yaml", "text": epic, "repository": repository});
    server.rest("POST", "/api/v1/imports", &file).is(201);

    assert_eq!(ids(&get(&server, "/api/v1/tickets?epic=sea")), ["wave"]);
    let found = get(&server, "/api/v1/tickets?q=tide+rename&sort=-priority");
    assert_eq!(ids(&found), ["high", "low"]);
    let found = get(&server, "/api/v1/tickets?q=tide&sort=priority&limit=1");
    assert_eq!(ids(&found), ["low"]);
    let next = found["next"].as_str().unwrap();
    let path = format!("/api/v1/tickets?q=tide&sort=priority&limit=1&after={next}");
    assert_eq!(ids(&get(&server, &path)), ["high"]);
    let done = get(&server, "/api/v1/tickets?stage=done&counts=true");
    assert_eq!(ids(&done), ["greet"]);
    assert_eq!(done["counts"], json!({"queued": 3, "done": 1}));
    let other = get(&server, "/api/v1/tickets?repository=/nowhere/.git");
    assert_eq!(other["items"], json!([]));
    for bad in ["sort=colour", "stage=somewhere", "after=x", "colour=red"] {
        let path = format!("/api/v1/tickets?{bad}");
        server.rest("GET", &path, &Value::Null).is(400);
    }

    let me = get(&server, "/api/v1/me");
    assert_eq!(
        (&me["role"], &me["ticket"]),
        (&json!("admin"), &Value::Null)
    );

    // All events of a ticket, page by page, each once.
    let whole = get(&server, "/api/v1/tickets/greet/events?limit=1000");
    let whole = whole["items"].as_array().unwrap();
    let (mut paged, mut after) = (Vec::new(), String::new());
    loop {
        let page = get(
            &server,
            &format!("/api/v1/tickets/greet/events?limit=4{after}"),
        );
        paged.extend(page["items"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else {
            break;
        };
        after = format!("&after={next}");
    }
    assert!(whole.len() > 8, "{whole:?}");
    assert_eq!(&paged, whole);

    let rework = "/api/v1/tickets/greet/diff?from_round=1&to_round=2";
    let rework = get(&server, rework).to_string();
    assert!(rework.contains("the name is empty"), "{rework}");
    assert!(rework.contains("\"from_round\":1"), "{rework}");
    let kept = "\"kind\":\"kept\"";
    let whole = get(&server, "/api/v1/tickets/greet/diff?round=2").to_string();
    assert!(rework.contains(kept) && !whole.contains(kept), "{whole}");

    // Two builds of ten cents each.
    let days = get(&server, "/api/v1/costs/days");
    let days = days["items"].as_array().unwrap();
    assert_eq!(days.len(), 30);
    let sum: u64 = days
        .iter()
        .map(|day| day["spent"]["usd_micros"].as_u64().unwrap())
        .sum();
    assert_eq!(
        get(&server, "/api/v1/costs")["spent"]["usd_micros"],
        json!(sum)
    );
    assert_eq!(sum, 200_000);
    assert_eq!(
        get(&server, "/api/v1/costs/days?days=2")["items"],
        json!(days[28..])
    );
    for bad in ["0", "91", "-1", "many"] {
        let path = format!("/api/v1/costs/days?days={bad}");
        server.rest("GET", &path, &Value::Null).is(400);
    }
}

#[test]
fn an_escalation_is_shown_with_its_evidence_and_all_feedback() {
    let world = World::new();
    run_greet(&world, &quarrel());
    let server = Server::start(&world);
    let shown = get(&server, "/api/v1/escalations/greet");
    let feedback = shown["feedback"].as_array().unwrap();
    assert_eq!(feedback.len(), 3, "{shown}");
    assert!(!shown["reason"].as_str().unwrap().is_empty());
    assert!(
        shown["choices"]
            .as_array()
            .unwrap()
            .contains(&json!("reset"))
    );
    let document = shown["document"].as_str().unwrap();
    assert!(fs::exists(document).unwrap());
    assert_eq!(ids(&get(&server, "/api/v1/escalations")), ["greet"]);

    // A red check: the last lines of its output.
    let world = World::new();
    let broken = crew(
        &always(builds("greet.sh", "echo wrong\n")),
        &always(approves()),
        &always(verifies(&[])),
    );
    run_greet(&world, &broken);
    let server = Server::start(&world);
    let shown = get(&server, "/api/v1/escalations/greet");
    assert!(
        shown["evidence"].as_str().unwrap().contains("test"),
        "{shown}"
    );
}

#[test]
fn files_are_read_as_bytes_in_ranges_and_only_by_those_who_may() {
    let world = World::new();
    run_greet(&world, &two_rounds());
    let server = Server::start(&world);
    server.add("other");
    let listed = get(&server, "/api/v1/tickets/greet/runs");
    let run = listed["items"].as_array().unwrap()[0].clone();
    assert_eq!(
        (&run["role"], &run["is_running"]),
        (&json!("build"), &json!(false))
    );
    let id = run["id"].as_str().unwrap();
    let transcript = format!("/api/v1/tickets/greet/runs/{id}/transcript");
    let whole = get_with(&server, &transcript, &[]).is(200);
    assert_eq!(json!(whole.body.len()), run["bytes"], "{run}");
    assert_eq!(header(&whole, "x-content-type-options"), "nosniff");
    let artefacts = get(&server, "/api/v1/tickets/greet/artefacts");
    let artefact = artefacts["items"][0]["id"].as_str().unwrap();
    let artefact = format!("/api/v1/tickets/greet/artefacts/{artefact}");
    for path in [&transcript, &artefact] {
        let whole = get_with(&server, path, &[]).is(200);
        let size = whole.body.len();
        assert!(size > 8, "{}", whole.body);
        let first = get_with(&server, path, &[("Range", "bytes=0-3")]).is(206);
        assert_eq!(first.body, whole.body[..4]);
        assert_eq!(header(&first, "content-range"), format!("bytes 0-3/{size}"));
        let last = get_with(&server, path, &[("Range", "bytes=-4")]).is(206);
        assert_eq!(last.body, whole.body[size - 4..]);
        let beyond = format!("bytes={size}-");
        get_with(&server, path, &[("Range", &beyond)]).is(416);
        let tag = header(&whole, "etag");
        let known = get_with(&server, path, &[("If-None-Match", &tag)]).is(304);
        assert_eq!(known.body, "");
        // A part of an older file is not mixed with this one.
        let older = [("Range", "bytes=0-3"), ("If-Range", "\"older\"")];
        assert_eq!(get_with(&server, path, &older).is(200).body, whole.body);
    }
    let builder = server.token("bea", "builder", &[]);
    let elsewhere = server.token("ada", "human", &["--ticket", "other"]);
    for path in [&transcript, &artefact] {
        server.rest_as(&builder, "GET", path, "").is(403);
        server.rest_as(&elsewhere, "GET", path, "").is(404);
        server.send("GET", path, &[], "").is(401);
    }
    for wrong in [
        "runs/0-0/transcript",
        "runs/..%2F..%2Fcountersign.db/transcript",
        "artefacts/..%2F..%2F..%2Fcountersign.db",
        "artefacts/none",
    ] {
        let path = format!("/api/v1/tickets/greet/{wrong}");
        get_with(&server, &path, &[]).is(404);
    }
}

#[test]
fn a_run_is_followed_while_it_goes_on() {
    let world = World::unconfined();
    let server = Server::start(&world);
    let flag = world.root().join("go-on");
    world.install(
        "slow",
        &format!(
            "#!/bin/sh\necho 'the first words'\nwhile [ ! -e '{}' ]; do echo 'at work'; sleep 0.02; done\n\
             echo 'the last words'\ncat > greet.sh <<'END'\n{GOOD}END\n\
             git add -A && git commit -q -m greet\n",
            flag.to_str().unwrap()
        ),
    );
    let (ticket, agent) = (world.put("greet.md", TICKET), world.crew(&smooth()));
    let builder = "command:slow";
    let words = ["run", &ticket, "--builder", builder, "--reviewer", &agent];
    let mut running = world.start(&words);
    let mut run = Value::Null;
    until("the builder runs and has said something", || {
        assert!(!running.has_ended(), "{}", running.log());
        let listed = server.rest("GET", "/api/v1/tickets/greet/runs", &Value::Null);
        if listed.status != 200 {
            return false;
        }
        run = listed.json()["items"].get(0).cloned().unwrap_or_default();
        run["is_running"] == true && run["bytes"].as_u64() > Some(0)
    });
    let path = format!(
        "/api/v1/tickets/greet/runs/{}/transcript/stream",
        run["id"].as_str().unwrap()
    );
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        server.address, server.token
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut seen = String::new();
    let mut read_until = |text: &str| {
        let mut part = [0; 4096];
        while !seen.contains(text) {
            let count = stream.read(&mut part).unwrap();
            assert!(count > 0, "the stream ended before {text:?}: {seen}");
            seen.push_str(&String::from_utf8_lossy(&part[..count]));
        }
        seen.clone()
    };
    let first = read_until("the first words");
    assert!(!first.contains("the last words"), "{first}");
    fs::write(&flag, "").unwrap();
    let all = read_until("event: end");
    assert!(all.contains("the last words"), "{all}");
    running.wait(DEADLINE).ends_with(0);

    // A browser that connects again after the end is told to stop.
    let size = get(&server, "/api/v1/tickets/greet/runs")["items"][0]["bytes"].to_string();
    get_with(&server, &path, &[("Last-Event-ID", &size)]).is(204);
    let from = get_with(&server, &format!("{path}?after={size}"), &[]).is(200);
    assert!(from.body.contains("event: end") && !from.body.contains("first words"));
    get_with(&server, &format!("{path}?after=-1"), &[]).is(400);
}

#[test]
fn answers_are_compressed_and_not_sent_again_to_those_who_have_them() {
    let world = World::new();
    let server = Server::start(&world);
    for count in 0..30 {
        server.add(&format!("ticket-{count}"));
    }
    let list = "/api/v1/tickets?limit=30";
    let whole = get_with(&server, list, &[]).is(200);
    assert_eq!(header(&whole, "content-encoding"), "");
    let small = get_with(&server, list, &[("Accept-Encoding", "gzip")]).is(200);
    assert_eq!(header(&small, "content-encoding"), "gzip");
    let sizes = [&whole, &small].map(|reply| header(reply, "content-length"));
    let [whole_size, small_size] = sizes.map(|size| size.parse::<usize>().unwrap());
    assert!(small_size * 4 < whole_size, "{small_size} of {whole_size}");
    let refused = [("Accept-Encoding", "gzip;q=0")];
    let plain = get_with(&server, list, &refused).is(200);
    assert_eq!(header(&plain, "content-encoding"), "");

    for path in [list, "/api/v1/tickets/ticket-1", "/api/v1/status"] {
        let first = get_with(&server, path, &[]).is(200);
        let tag = header(&first, "etag");
        let weak = format!("W/{}", tag.trim_start_matches("W/"));
        let several = format!("\"other\", {tag}");
        for known in [tag.as_str(), &weak, &several, "*"] {
            let again = get_with(&server, path, &[("If-None-Match", known)]).is(304);
            assert_eq!(again.body, "", "{path} {known}");
        }
        get_with(&server, path, &[("If-None-Match", "\"older\"")]).is(200);
    }
    let before = header(&get_with(&server, list, &[]), "etag");
    server.add("new");
    let after = get_with(&server, list, &[("If-None-Match", &before)]).is(200);
    assert!(after.body.contains("\"new\""));
    // A tag reveals nothing to a caller that may not read.
    let stranger = server.send("GET", list, &[("If-None-Match", "*")], "");
    assert_eq!(stranger.status, 401);
}

/// The filter comes before the page: other tickets neither fill a page nor show in `next`.
#[test]
fn a_token_for_one_ticket_pages_over_its_own_only() {
    let world = World::new();
    let server = Server::start(&world);
    for count in 0..6 {
        server.add(&format!("t-{count}"));
    }
    let token = server.token("ada", "human", &["--ticket", "t-2"]);
    let ask = |path: &str| {
        let reply = server.rest_as(&token, "GET", path, "");
        reply.is(200).json()
    };
    for query in [
        "limit=1",
        "limit=1&sort=-priority",
        "q=do&limit=1",
        "prefix=t-&limit=1",
    ] {
        let list = ask(&format!("/api/v1/tickets?{query}"));
        assert_eq!(ids(&list), ["t-2"], "{query}");
        assert_eq!(list["next"], Value::Null, "{query}");
    }
    let counted = ask("/api/v1/tickets?counts=true");
    assert_eq!(counted["counts"], json!({"queued": 1}));
    let jobs = ask("/api/v1/jobs?limit=1");
    assert_eq!(jobs["items"][0]["ticket"], "t-2", "{jobs}");
    assert_eq!(jobs["next"], Value::Null);
    let log = ask("/api/v1/log?limit=1");
    assert_eq!(log["items"][0]["ticket"], "t-2", "{log}");
    assert_eq!(ask("/api/v1/escalations?limit=1")["items"], json!([]));
    assert_eq!(ask("/api/v1/me")["ticket"], "t-2");
    for other in ["events", "runs", "artefacts", "diff", "forecast"] {
        let path = format!("/api/v1/tickets/t-3/{other}");
        server.rest_as(&token, "GET", &path, "").is(404);
    }
    let days = server.rest_as(&token, "GET", "/api/v1/costs/days", "");
    assert!((400..500).contains(&days.status), "{}", days.body);
}
