//! Faults of clients, files and clocks: huge reviews, repositories that vanish, connections that are
//! cut, a clock that jumps.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::{assignment, at_work, submit};
use crate::support::clock::Clock;
use crate::support::server::Server;
use crate::support::{DEADLINE, World, skip, until};

const MIB: usize = 1024 * 1024;

/// A change that waits for its review: the reviewer's token and its assignment.
fn under_review(server: &Server<'_>, builder: &str, build: &Value) -> (String, Value) {
    submit(server, builder, build);
    let reviewer = server.token("rex", "reviewer", &[]);
    let review = assignment(server, &reviewer, "review");
    (reviewer, review)
}

fn is_alive(server: &Server<'_>) {
    server.rest("GET", "/api/v1/status", &Value::Null).is(200);
}

/// The whole body is refused before it is read; the claim is still the reviewer's.
#[test]
fn feedback_of_sixteen_mebibytes_is_refused_and_costs_the_reviewer_nothing() {
    let world = World::new();
    let server = Server::start(&world);
    let (builder, build, _work) = at_work(&world, &server);
    let (reviewer, review) = under_review(&server, &builder, &build);
    let bearer = format!("Bearer {reviewer}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", "2025-11-25"),
    ];
    for (tool, field, more) in [
        (
            "submit_review_result",
            "feedback",
            json!({"approved": false}),
        ),
        (
            "send_message",
            "content",
            json!({"to": "developer", "type": "changes_requested"}),
        ),
        (
            "queue_task_for_agent",
            "description",
            json!({"agent_id": "engineer", "task_type": "fix", "title": "Fix it"}),
        ),
        ("complete", "summary", json!({})),
    ] {
        let mut arguments = more;
        arguments[field] = "An empty name is greeted. ".repeat(16 * MIB / 26).into();
        let params = json!({"name": tool, "arguments": arguments});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let told = server.send("POST", "/mcp", &headers, &body.to_string());
        // A client that writes on may see only the end of the connection.
        assert!([413, 0].contains(&told.status), "{tool}: {}", told.status);
    }
    assert_eq!(server.stage("greet"), "reviewing");
    let verdict = json!({"assignment_id": review["id"], "attempt": review["attempt"],
        "approved": false, "feedback": "An empty name is greeted"});
    let judged = server.tool(&reviewer, "submit_review_result", &verdict);
    assert_eq!(judged.unwrap()["status"], "rework");
    is_alive(&server);
    world.must_be_sound();
}

/// Just below the limit of a body: read in bounded time, kept in bounded size, and a refusal.
#[test]
fn feedback_of_three_mebibytes_is_a_refusal_of_bounded_size() {
    for feedback in [
        "An empty name is greeted. ".repeat(3 * MIB / 26),
        "x".repeat(3 * MIB),
        "1. critical greet.sh:1: An empty name is greeted.\n".repeat(3 * MIB / 50),
        "[".repeat(3 * MIB),
        format!("```json\n{}\n```", "[".repeat(3 * MIB)),
    ] {
        let world = World::new();
        let server = Server::start(&world);
        let (builder, build, _work) = at_work(&world, &server);
        let (reviewer, _) = under_review(&server, &builder, &build);
        let verdict = json!({"approved": false, "feedback": feedback});
        let judged = server.tool(&reviewer, "submit_review_result", &verdict);
        let start = &feedback[..20];
        match judged {
            Ok(judged) => assert_eq!(judged["status"], "rework", "{start}: {judged}"),
            Err(why) => {
                // It says what to do, and what is shorter is taken.
                assert!(
                    why.contains("long") || why.contains("large"),
                    "{start}: {why}"
                );
                let verdict = json!({"approved": false, "feedback": "An empty name is greeted"});
                let judged = server.tool(&reviewer, "submit_review_result", &verdict);
                assert_eq!(judged.unwrap()["status"], "rework");
            }
        }
        let again = assignment(&server, &builder, "build");
        let size = again.to_string().len();
        assert!(size < MIB, "{start}: the builder gets {size} bytes");
        world.must_be_sound();
    }
}

/// The most severe are kept, the rest is counted, and the builder is not buried.
#[test]
fn of_ten_thousand_findings_the_most_severe_are_kept() {
    let finding = |n: usize| {
        let severity = if n == 9_999 { "critical" } else { "low" };
        json!({"file": "greet.sh", "line": 1, "severity": severity, "title": format!("Defect {n}"),
            "description": "It is wrong"})
    };
    let listed: Vec<Value> = (0..10_000).map(finding).collect();
    // Each of another place and in other words, so that none says the same as another.
    let words = |n: usize| {
        let severity = if n == 9_999 { "critical" } else { "minor" };
        let letters = "abcdefghij".as_bytes();
        let name: String = n
            .to_string()
            .bytes()
            .map(|digit| char::from(letters[usize::from(digit - b'0')]))
            .collect();
        format!(
            "{}. {severity} greet.sh:{}: The {name} is wrong.\n",
            n + 1,
            n + 1
        )
    };
    let told: String = (0..10_000).map(words).collect();
    for verdict in [
        json!({"approved": false, "feedback": "Many defects", "findings": listed}),
        json!({"approved": false, "feedback": told}),
    ] {
        let world = World::new();
        let server = Server::start(&world);
        let (builder, build, _work) = at_work(&world, &server);
        let (reviewer, _) = under_review(&server, &builder, &build);
        let judged = server.tool(&reviewer, "submit_review_result", &verdict);
        let judged = judged.unwrap();
        assert_eq!(judged["status"], "rework", "{judged}");
        let shown = server.rest("GET", "/api/v1/tickets/greet", &Value::Null);
        let shown = shown.is(200).json();
        let ledger = shown["ticket"]["ledger"].as_array().unwrap();
        assert!(ledger.len() <= 200, "{}", ledger.len());
        let severe = |entry: &Value| entry["finding"]["rating"]["severity"] == "critical";
        assert!(ledger.iter().any(severe), "the critical one was dropped");
        let again = assignment(&server, &builder, "build");
        let size = again.to_string().len();
        assert!(size < MIB, "the builder gets {size} bytes");
        is_alive(&server);
        world.must_be_sound();
    }
}

/// The repository is gone when the change is reviewed, checked or landed. The ticket ends with a
/// person, and other tickets go on.
#[test]
fn a_repository_that_vanishes_later_holds_nobody_up() {
    for moment in ["review", "landing"] {
        let world = World::new();
        let server = Server::start(&world);
        let (builder, build, _work) = at_work(&world, &server);
        let (reviewer, review) = under_review(&server, &builder, &build);
        let gone = world.root().join("gone");
        if moment == "review" {
            fs::rename(&world.repository, &gone).unwrap();
            let attempt = json!({"attempt": review["attempt"]});
            let told = server.tool(&reviewer, "accept_assignment", &attempt);
            assert!(told.is_err(), "{told:?}");
        } else {
            let verdict = json!({"assignment_id": review["id"], "attempt": review["attempt"],
                "approved": true, "feedback": ""});
            fs::rename(&world.repository, &gone).unwrap();
            // It may be refused, because the change cannot be read any more.
            let _ = server.tool(&reviewer, "submit_review_result", &verdict);
        }
        is_alive(&server);
        // No caller hangs: the reviewer is offered something or nothing, in bounded time.
        for _ in 0..8 {
            let wait = json!({"timeout_secs": 1});
            let _ = server.tool(&reviewer, "wait_for_work", &wait);
        }
        fs::rename(&gone, &world.repository).unwrap();
        is_alive(&server);
        let stage = server.stage("greet");
        let known = ["reviewing", "escalated", "approved", "merging", "done"];
        assert!(known.contains(&stage.as_str()), "{moment}: {stage}");
        // Another ticket of the repository, which is back, is built as ever.
        server.add("next");
        let next = assignment(&server, &builder, "build");
        assert_eq!(next["ticket"], "next", "{moment}");
        world.must_be_sound();
    }
}

fn descriptors(server: &Server<'_>) -> usize {
    let dir = format!("/proc/{}/fd", server.pid());
    fs::read_dir(dir).unwrap().count()
}

/// Requests that are cut in the head, in the body, in the answer, in a stream and in a long poll.
#[test]
fn clients_that_cut_their_connections_leave_nothing_behind() {
    let world = World::new();
    let server = Server::start(&world);
    let builder = server.token("bea", "builder", &[]);
    server.add("greet");
    let before = descriptors(&server);
    let call = |tool: &str, arguments: &Value| {
        let params = json!({"name": tool, "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string()
    };
    let head = |token: &str, line: &str, length: usize| {
        format!(
            "{line} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: 2025-11-25\r\nContent-Length: {length}\r\n\r\n",
            server.address
        )
    };
    let claim = call("get_my_assignment", &json!({}));
    let poll = call("wait_for_work", &json!({"timeout_secs": 50}));
    let other = server.token("rex", "reviewer", &[]);
    let cut = [
        head(&builder, "GET /api/v1/tickets", 0)[..40].to_owned(),
        head(&builder, "POST /mcp", claim.len()) + &claim[..20],
        head(&builder, "POST /mcp", claim.len()) + &claim,
        head(&other, "POST /mcp", poll.len()) + &poll,
        head(&server.token, "GET /api/v1/events", 0),
        head(&server.token, "GET /api/v1/tickets/greet/events", 0),
    ];
    for round in 0..40 {
        for (kind, text) in cut.iter().enumerate() {
            let mut stream = TcpStream::connect(&server.address).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
            // Some are cut in the middle of the answer.
            if (round + kind) % 2 == 0 && kind > 1 && kind != 3 {
                stream.set_read_timeout(Some(DEADLINE)).unwrap();
                let mut first = [0; 12];
                stream.read_exact(&mut first).unwrap();
            }
        }
    }
    until("their connections are closed", || {
        descriptors(&server) <= before + 8
    });
    // The claim that was cut off is still the builder's, and it is one.
    let held = assignment(&server, &builder, "build");
    assert_eq!(held["ticket"], "greet");
    assert_eq!(world.count("greet", "build_started") % 2, 0);
    is_alive(&server);
    world.must_be_sound();
}

/// Leases end when the clock jumps ahead. When it jumps back, work and reports go on.
#[test]
fn a_clock_that_jumps_ends_leases_and_breaks_nothing() {
    let world = World::new();
    let Some(clock) = Clock::new(&world) else {
        return skip::lacks("a C compiler (cc) for a clock that jumps");
    };
    let front = clock.front();
    let front: Vec<&str> = front.iter().map(String::as_str).collect();
    let server = Server::start_behind(&world, &front, &[]);
    let (builder, build, work) = at_work(&world, &server);
    let second = server.token("bob", "builder", &[]);

    clock.is_ahead_by(7_200);
    // Two hours later the first builder is silent for longer than its lease.
    let taken = assignment(&server, &second, "build");
    assert_eq!(taken["ticket"], "greet");
    let late = json!({"assignment_id": build["id"], "attempt": build["attempt"]});
    server
        .tool(&builder, "submit_for_review", &late)
        .unwrap_err();

    // And back: the new lease is not lost, and its report counts.
    clock.is_ahead_by(-86_400);
    submit(&server, &second, &taken);
    let reviewer = server.token("rex", "reviewer", &[]);
    let review = assignment(&server, &reviewer, "review");
    let verdict = json!({"assignment_id": review["id"], "attempt": review["attempt"],
        "approved": false, "feedback": "An empty name is greeted"});
    let judged = server.tool(&reviewer, "submit_review_result", &verdict);
    assert_eq!(judged.unwrap()["status"], "rework");
    clock.is_ahead_by(0);
    work.commit("greet.sh", "[ -n \"$1\" ] || exit 1\necho \"Hello, $1\"\n");
    let again = assignment(&server, &second, "build");
    submit(&server, &second, &again);
    let review = assignment(&server, &reviewer, "review");
    let verdict = json!({"assignment_id": review["id"], "attempt": review["attempt"],
        "approved": true, "feedback": ""});
    let judged = server.tool(&reviewer, "submit_review_result", &verdict);
    assert_eq!(judged.unwrap()["status"], "approved");
    until("it has landed", || server.stage("greet") == "done");
    // Readers of the log and of the stream see every event once, in its order.
    let events = server.rest(
        "GET",
        "/api/v1/tickets/greet/events?limit=1000",
        &Value::Null,
    );
    let events = events.is(200).json();
    let versions: Vec<u64> = events["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|event| event["version"].as_u64())
        .collect();
    assert!(versions.is_sorted(), "{versions:?}");
    world.must_be_sound();
}
