//! States of the dashboard besides the usual one: errors, old pages, long texts, other servers on the
//! machine, and streams of runs that have ended.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use super::dashboard::{Browser, field};
use super::dashboard_pages::{person, run_greet};
use crate::support::crew::{quarrel, smooth};
use crate::support::server::Server;
use crate::support::{DEADLINE, World};

#[track_caller]
fn shows(page: &str, texts: &[&str]) {
    for text in texts {
        assert!(page.contains(text), "{text:?} is missing in {page}");
    }
}

const SECTIONS: &str = "<nav aria-label=\"Sections\">";

#[test]
fn an_error_is_a_page_with_the_sections_and_a_way_on() {
    let world = World::new();
    let server = Server::start(&world);
    server.add("greet");
    let browser = person(&world, &server);
    let missing = browser.get("/tickets/none").is(404).body;
    shows(
        &missing,
        &[
            SECTIONS,
            "There is no ticket none",
            "<code>countersign ticket list</code>",
        ],
    );
    let huge = "x".repeat(60_000);
    for (why, version, status, text) in [
        ("old", "0", 409, "Open it again, as it is now"),
        // A version that cannot be read must not pass for none.
        ("odd", "abc", 400, "nothing was changed"),
        (huge.as_str(), "1", 422, "more than 50000 characters"),
    ] {
        let form = [("why", why), ("version", version)];
        let page = browser.post("/tickets/greet/cancel", &form).is(status).body;
        shows(&page, &[SECTIONS, text]);
    }
    let over = "x".repeat(5 << 20);
    let page = browser
        .post("/tickets/greet/cancel", &[("why", &over)])
        .is(413)
        .body;
    shows(&page, &["<h1>", "larger than 4 MiB"]);
    let pause = [
        ("scope", "queue"),
        ("name", "build"),
        ("for_secs", "99999999999999999999"),
    ];
    let page = browser.post("/pauses", &pause).is(422).body;
    shows(&page, &["the number is too large"]);
    assert_eq!(server.stage("greet"), "queued");
    // Without a session there is nothing to go to.
    let page = server
        .send("GET", "/shared/x/tickets/greet", &[], "")
        .is(404)
        .body;
    assert!(!page.contains(SECTIONS), "{page}");
}

#[test]
fn an_inbox_that_was_open_overnight_decides_nothing_about_another_state() {
    let world = World::new();
    run_greet(&world, &quarrel());
    let server = Server::start(&world);
    let browser = person(&world, &server);
    let inbox = browser.get("/").is(200).body;
    shows(&inbox, &["An empty name is accepted"]);
    let version = field(&inbox, "version");
    let finding = json!({"findings": [{"text": "Another defect"}]});
    server
        .rest("POST", "/api/v1/tickets/greet/findings", &finding)
        .is(201);
    let decide = |version: &str| {
        let form = [
            ("choice", "accept"),
            ("why", "looks good"),
            ("version", version),
        ];
        browser.post("/tickets/greet/escalation", &form)
    };
    decide(&version).is(409);
    assert_eq!(server.stage("greet"), "escalated");
    let version = field(&browser.get("/").is(200).body, "version");
    decide(&version).is(303);
}

#[test]
fn a_queued_ticket_says_how_many_are_before_it() {
    let world = World::new();
    let server = Server::start(&world);
    for id in ["one", "two"] {
        server.add(id);
    }
    let browser = person(&world, &server);
    let page = browser.get("/tickets/one").is(200).body;
    shows(&page, &["Waits for a builder. It is the next in line."]);
    let page = browser.get("/tickets/two").is(200).body;
    shows(&page, &["1 ticket in line before it."]);
}

#[test]
fn the_board_shows_one_repository_if_asked() {
    let world = World::new();
    let server = Server::start(&world);
    server.add("one");
    let browser = person(&world, &server);
    let page = browser.get("/board").is(200).body;
    assert!(!page.contains("All repositories"), "{page}");
    let other = browser.get("/board?repo=/no/such/.git").is(200).body;
    shows(&other, &["All repositories", "board%3A%2Fno%2Fsuch"]);
    assert!(!other.contains("card-one"), "{other}");
}

#[test]
fn a_filter_of_thousands_of_words_is_cut_and_says_so() {
    let world = World::new();
    let server = Server::start(&world);
    let browser = person(&world, &server);
    let path = format!("/tickets?q={}", "a+".repeat(2_000));
    shows(
        &browser.get(&path).is(200).body,
        &["Only the first 30 terms are used."],
    );
}

#[test]
fn costs_are_shown_by_agent_and_ticket() {
    let world = World::new();
    run_greet(&world, &smooth());
    let server = Server::start(&world);
    let page = person(&world, &server).get("/costs").is(200).body;
    shows(
        &page,
        &[
            "Cost by agent",
            "scripted (builder)",
            "Most expensive tickets",
            "/tickets/greet",
        ],
    );
}

#[test]
fn the_stream_of_a_run_that_has_ended_ends_with_its_session() {
    let world = World::new();
    run_greet(&world, &smooth());
    let server = Server::start(&world);
    let secret = server.token("ann", "human", &[]);
    let browser = Browser::log_in(&server, &secret);
    let runs = browser.get("/tickets/greet/runs").is(200).body;
    // The address has the id of the run, which no later run changes.
    shows(&runs, &["/tickets/greet/runs/1-1", "check: "]);
    shows(
        &browser.get("/tickets/greet/runs/1-1").is(200).body,
        &["build by"],
    );
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let path = "/pages/events?topic=run%3A1-1%3Agreet&after=0.0";
    let (host, cookie) = (&server.address, browser.cookie());
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let (mut seen, mut part) = (String::new(), [0; 4096]);
    while !seen.contains("This run has ended.") {
        let count = stream.read(&mut part).unwrap();
        assert!(count > 0, "{seen}");
        seen.push_str(&String::from_utf8_lossy(&part[..count]));
    }
    let session = browser.get("/settings").is(200).body;
    let end = session.split_once("/settings/sessions/").unwrap().1;
    let end = end.split('"').next().unwrap();
    browser
        .post(&format!("/settings/sessions/{end}"), &[])
        .is(303);
    // The server closes it; a read that only waits would fail at the deadline.
    while stream.read(&mut part).unwrap() > 0 {}
}

#[test]
fn two_servers_on_one_machine_have_cookies_of_their_own() {
    let (first, second) = (World::new(), World::new());
    let (one, two) = (Server::start(&first), Server::start(&second));
    let (mine, other) = (person(&first, &one), person(&second, &two));
    let both = format!("{}; {}", mine.cookie(), other.cookie());
    for server in [&one, &two] {
        server
            .send("GET", "/board", &[("Cookie", &both)], "")
            .is(200);
    }
    assert_ne!(
        mine.cookie().split('=').next(),
        other.cookie().split('=').next()
    );
}
