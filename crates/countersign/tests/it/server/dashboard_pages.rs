//! Pages of the dashboard on tickets of scripted agents: decisions, the diff, runs, live updates.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use super::dashboard::{Browser, field};
use crate::support::crew::{quarrel, smooth};
use crate::support::server::Server;
use crate::support::{DEADLINE, TICKET, World};

/// Logs the person of the world in.
pub fn person<'a>(world: &World, server: &'a Server<'a>) -> Browser<'a> {
    let link = world.json(&["open"])["login"].as_str().unwrap().to_owned();
    Browser::log_in(server, link.split_once('#').unwrap().1)
}

pub fn run_greet(world: &World, crew: &Value) {
    let (ticket, agent) = (world.put("greet.md", TICKET), world.crew(crew));
    world.call(&["run", &ticket, "--builder", &agent, "--reviewer", &agent]);
}

#[track_caller]
fn shows(page: &str, texts: &[&str]) {
    for text in texts {
        assert!(page.contains(text), "{text:?} is missing in {page}");
    }
}

#[test]
fn an_escalation_is_decided_in_the_browser_as_at_the_terminal() {
    let world = World::new();
    run_greet(&world, &quarrel());
    let server = Server::start(&world);
    let browser = person(&world, &server);
    let inbox = browser.get("/").is(200).body;
    shows(&inbox, &["Greet by name", "take-over", "(1) Inbox"]);
    let page = browser.get("/tickets/greet").is(200).body;
    shows(
        &page,
        &[
            "Verdict of round 3",
            "An empty name is accepted",
            "round 1: open",
            "Decide",
            "Story",
            "Acceptance criteria",
        ],
    );
    let version = field(&page, "version");
    let decide = "/tickets/greet/escalation";
    // Accepting needs a reason, and the ticket stays as it is.
    let refused = browser.post(decide, &[("choice", "accept"), ("version", &version)]);
    assert!((400..500).contains(&refused.status), "{}", refused.body);
    assert_eq!(server.stage("greet"), "escalated");
    let waive = "/tickets/greet/findings/F1/waive";
    browser.post(waive, &[("version", &version)]).is(422);
    browser
        .post(waive, &[("why", "ours alone"), ("version", &version)])
        .is(303);
    // A second tab has the old version and is told in words.
    let late = [
        ("choice", "reject"),
        ("why", "late"),
        ("version", version.as_str()),
    ];
    let late = browser.post(decide, &late).is(409);
    shows(&late.body, &["Not possible any more", "/tickets/greet"]);
    let page = browser.get("/tickets/greet").is(200).body;
    shows(&page, &["waived", "ours alone"]);
    let version = field(&page, "version");
    let reject = [
        ("choice", "reject"),
        ("why", "not wanted"),
        ("version", version.as_str()),
    ];
    browser.post(decide, &reject).is(303);
    assert!(["failed", "cancelled"].contains(&server.stage("greet").as_str()));
    let page = browser.get("/").is(200).body;
    shows(&page, &["Nothing waits for a person.", "Ended last"]);
}

#[test]
fn the_diff_shows_findings_in_place_and_rounds_against_each_other() {
    let world = World::new();
    run_greet(&world, &quarrel());
    let server = Server::start(&world);
    let browser = person(&world, &server);
    let whole = browser.get("/tickets/greet/diff").is(200).body;
    shows(
        &whole,
        &[
            "greet.sh",
            "An empty name is accepted",
            "data-line=\"2\"",
            "# 3",
        ],
    );
    let rework = browser.get("/tickets/greet/diff?from=1&to=2").is(200).body;
    shows(&rework, &["# 1", "# 2", "class=\"removed\""]);
    assert!(!rework.contains("# 3"), "only the rework of round 2");
    browser.get("/tickets/greet/diff?from=&to=2").is(200);
    let missing = browser.get("/tickets/greet/diff?to=9").is(200).body;
    shows(&missing, &["has no round 9"]);
    // A comment on a line becomes a finding of the person.
    let comment = [
        ("file", "greet.sh"),
        ("line", "1"),
        ("text", "Say which shell"),
        ("severity", "low"),
    ];
    let added = browser.post("/tickets/greet/findings", &comment);
    if added.status == 303 {
        let page = browser.get("/tickets/greet/diff").is(200).body;
        shows(&page, &["Say which shell"]);
    } else {
        assert_eq!(added.status, 409, "{}", added.body);
    }
    let bad = [("file", "none.sh"), ("line", "1"), ("text", "Where?")];
    let bad = browser.post("/tickets/greet/findings", &bad);
    assert!((400..500).contains(&bad.status), "{}", bad.body);
    let runs = browser.get("/tickets/greet/runs").is(200).body;
    shows(&runs, &["build by", "review by"]);
    let run = browser.get("/tickets/greet/runs/1").is(200).body;
    shows(&run, &["class=\"transcript\""]);
    browser.get("/tickets/greet/runs/99").is(404);
}

#[test]
fn lists_filter_and_page_and_every_section_answers() {
    let world = World::new();
    run_greet(&world, &smooth());
    let server = Server::start(&world);
    for id in ["alpha", "beta"] {
        server.add(id);
    }
    let browser = person(&world, &server);
    let all = browser.get("/tickets").is(200).body;
    shows(&all, &["row-alpha", "row-beta", "row-greet"]);
    let some = browser.get("/tickets?q=stage:queued+alpha").is(200).body;
    assert!(
        some.contains("row-alpha") && !some.contains("row-beta"),
        "{some}"
    );
    let bad = browser.get("/tickets?q=stage:nonsense").is(200).body;
    shows(&bad, &["is not a stage"]);
    let none = browser.get("/tickets?q=zzz").is(200).body;
    shows(&none, &["No ticket matches.", "Drop the filter"]);
    let board = browser.get("/board").is(200).body;
    shows(
        &board,
        &["column-queued", "card-alpha", "column-ended", "card-greet"],
    );
    for (path, text) in [
        ("/agents", "Agents"),
        ("/queues", "Ready"),
        ("/epics", "No epics yet."),
        ("/costs", "Rounds to approval"),
        ("/log", "From the beginning"),
        ("/log?after=0.0", "Newest"),
        ("/log?ticket=greet", "greet"),
        ("/settings", "Sessions"),
    ] {
        let page = browser.get(path).is(200).body;
        shows(&page, &[text]);
    }
    let pause = [("scope", "queue"), ("name", "build"), ("why", "lunch")];
    browser.post("/pauses", &pause).is(303);
    shows(&browser.get("/queues").is(200).body, &["lunch", "Resume"]);
    browser.post("/pauses/queue/build/end", &[]).is(303);
    let made = browser
        .post("/settings/tokens", &[("agent", "eve"), ("role", "human")])
        .is(200);
    shows(&made.body, &["the only time", "cs_"]);
    browser.get("/epics/none").is(404);
}

#[test]
fn an_open_page_gets_what_has_changed_since_it_was_rendered() {
    let world = World::new();
    let server = Server::start(&world);
    let browser = person(&world, &server);
    let page = browser.get("/board").is(200).body;
    let topic = page.split_once("hx-sse:connect=\"").unwrap().1;
    let topic = topic.split('"').next().unwrap().replace("&amp;", "&");
    // Between the page and the stream, so that only the position of the page tells of it.
    server.add("between");
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let head = format!(
        "GET {topic} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n\r\n",
        server.address,
        browser.cookie()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut read_until = |text: &str| {
        let (mut seen, mut part) = (String::new(), [0; 4096]);
        while !seen.contains(text) {
            let count = stream.read(&mut part).unwrap();
            assert!(count > 0, "the stream ended before {text:?}: {seen}");
            seen.push_str(&String::from_utf8_lossy(&part[..count]));
        }
        seen
    };
    let first = read_until("card-between");
    shows(
        &first,
        &[
            "<hx-partial hx-target=\"#column-queued\"",
            "hx-swap=\"outerMorph\"",
            "id: ",
        ],
    );
    server.add("later");
    read_until("card-later");
}
