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

/// The live stream of an open page.
struct LiveStream(TcpStream);

impl LiveStream {
    /// Connects to the stream that the page names.
    #[track_caller]
    fn of_page(browser: &Browser<'_>, server: &Server<'_>, path: &str) -> Self {
        let page = browser.get(path).is(200).body;
        let topic = page.split_once("hx-sse:connect=\"").unwrap().1;
        let topic = topic.split('"').next().unwrap().replace("&amp;", "&");
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let head = format!(
            "GET {topic} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n\r\n",
            server.address,
            browser.cookie()
        );
        stream.write_all(head.as_bytes()).unwrap();
        Self(stream)
    }

    #[track_caller]
    fn read_until(&mut self, text: &str) -> String {
        let (mut seen, mut part) = (String::new(), [0; 4096]);
        while !seen.contains(text) {
            let count = self.0.read(&mut part).unwrap();
            assert!(count > 0, "the stream ended before {text:?}: {seen}");
            seen.push_str(&String::from_utf8_lossy(&part[..count]));
        }
        seen
    }
}

#[test]
fn an_open_page_gets_what_has_changed_since_it_was_rendered() {
    let world = World::new();
    let server = Server::start(&world);
    let browser = person(&world, &server);
    let page = browser.get("/board").is(200).body;
    shows(&page, &["hx-sse:connect=", "data-now="]);
    // The ticket comes between the page and the stream, so only the position of the page tells.
    let mut board = LiveStream::of_page(&browser, &server, "/board");
    server.add("between");
    let first = board.read_until("card-between");
    shows(
        &first,
        &[
            "<hx-partial hx-target=\"#column-queued\"",
            "hx-swap=\"outerMorph\"",
            "id: ",
        ],
    );
    server.add("later");
    board.read_until("card-later");
}

#[test]
fn every_page_that_shows_work_is_patched_or_says_that_it_is_old() {
    let world = World::new();
    run_greet(&world, &quarrel());
    let server = Server::start(&world);
    let browser = person(&world, &server);
    let epic = "id: e1\ntitle: An epic\ntickets:\n  - {id: one, title: First}\n";
    let import = serde_json::json!({"name": "epic.yaml", "text": epic,
        "repository": world.repository.to_str().unwrap()});
    server.rest("POST", "/api/v1/imports", &import).is(201);
    let mut open: Vec<(LiveStream, &str)> = [
        ("/queues", "<div id=\"queues\">"),
        ("/agents", "<div id=\"agents\">"),
        ("/epics", "<div id=\"epics\">"),
        ("/epics/e1", "<div id=\"epic\">"),
        ("/log", "hx-target=\"#lines\" hx-swap=\"afterbegin\""),
        ("/tickets", "hx-target=\"#row-new\""),
        ("/tickets", "id=\"stale\""),
        ("/tickets?q=stage:queued", "id=\"stale\""),
        ("/", "No longer waits for you."),
        ("/tickets/greet", "id=\"decision\""),
        ("/tickets/greet/diff", "id=\"stale\""),
        ("/tickets/greet/runs", "id=\"stale\""),
    ]
    .map(|(path, text)| (LiveStream::of_page(&browser, &server, path), text))
    .into();
    server.add("new");
    let why = serde_json::json!({"choice": "reject", "why": "not wanted"});
    server
        .rest("POST", "/api/v1/escalations/greet", &why)
        .is(200);
    for (stream, text) in &mut open {
        let seen = stream.read_until(text);
        assert!(!seen.contains("page:reload"), "{text}: {seen}");
    }
}

#[test]
fn the_inbox_shows_what_a_person_has_taken_over() {
    let world = World::new();
    run_greet(&world, &quarrel());
    let server = Server::start(&world);
    let browser = person(&world, &server);
    browser
        .post("/tickets/greet/escalation", &[("choice", "take-over")])
        .is(303);
    let page = browser.get("/").is(200).body;
    shows(&page, &["Wait for a person's work", "who took over"]);
}

#[test]
fn the_inbox_shows_an_epic_that_waits_for_its_signature() {
    let world = World::new();
    let epic = "id: e1\ntitle: An epic\ntickets:\n  - {id: greet, title: Greet by name}\n";
    let (epic, agent) = (world.put("epic.yaml", epic), world.crew(&smooth()));
    world.call(&["run", &epic, "--builder", &agent, "--reviewer", &agent]);
    let server = Server::start(&world);
    assert_eq!(server.stage("greet"), "done");
    let browser = person(&world, &server);
    let page = browser.get("/").is(200).body;
    shows(&page, &["Need your signature", "/epics/e1"]);
    browser
        .post("/epics/e1/accept", &[("why", "seen as a whole")])
        .is(303);
    let page = browser.get("/").is(200).body;
    assert!(!page.contains("Need your signature"), "{page}");
}

#[test]
fn an_address_that_is_not_understood_is_told_on_a_page() {
    let world = World::new();
    run_greet(&world, &smooth());
    let server = Server::start(&world);
    let browser = person(&world, &server);
    let huge = u64::MAX;
    for (path, status) in [
        ("/tickets/greet/diff?part=-1".to_owned(), 400),
        (format!("/tickets/greet/diff?part={huge}0"), 400),
        (
            format!("/tickets/greet/diff?file=greet.sh&part={huge}"),
            200,
        ),
        ("/tickets/greet/runs/abc".to_owned(), 404),
        ("/tickets/greet/runs/0".to_owned(), 404),
        (format!("/tickets/greet/runs/{huge}"), 404),
        ("/tickets/greet/runs/1?from=x".to_owned(), 400),
        (format!("/tickets/greet/runs/1?from={huge}"), 200),
        ("/pages/events".to_owned(), 400),
        ("/log?after=x".to_owned(), 422),
        ("/tickets?sort=x".to_owned(), 422),
        ("/tickets/%ff".to_owned(), 400),
    ] {
        let page = browser.get(&path).is(status).body;
        shows(&page, &["<h1>"]);
        assert!(!page.contains("usize") && !page.contains("u64"), "{page}");
    }
    let wanted = [
        ("Accept", "text/html,*/*;q=0.8"),
        ("Cookie", browser.cookie()),
    ];
    let page = server.send("GET", "/nowhere", &wanted, "").is(404);
    shows(&page.body, &["There is no page at this address."]);
    shows(
        &page.head.to_lowercase(),
        &["content-security-policy: default-src 'self'"],
    );
    let program = server.send("GET", "/nowhere", &[], "").is(404);
    shows(&program.body, &["no route at /nowhere"]);
}
