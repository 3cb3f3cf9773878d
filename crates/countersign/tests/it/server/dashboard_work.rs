//! Work of a person in the dashboard: reading a diff, filtering lists, acting on several tickets,
//! adding tickets and epics, and changing a budget.

use super::dashboard::{Browser, field};
use super::dashboard_pages::{person, run_greet};
use crate::support::World;
use serde_json::json;

use crate::support::crew::{WRONG, always, approves, builds, crew, quarrel, smooth, verifies};
use crate::support::server::{Reply, Server};

#[track_caller]
fn shows(page: &str, texts: &[&str]) {
    for text in texts {
        assert!(page.contains(text), "{text:?} is missing in {page}");
    }
}

#[track_caller]
fn hides(page: &str, texts: &[&str]) {
    for text in texts {
        assert!(!page.contains(text), "{text:?} is in {page}");
    }
}

fn location(reply: &Reply) -> String {
    let mut lines = reply.head.lines();
    let line = lines.find(|line| line.to_lowercase().starts_with("location:"));
    line.unwrap().split_once(": ").unwrap().1.trim().to_owned()
}

#[test]
fn a_diff_has_colours_sides_marks_and_a_form_at_its_line() {
    let world = World::new();
    run_greet(&world, &quarrel());
    let server = Server::start(&world);
    let browser = person(&world, &server);
    let unified = browser.get("/tickets/greet/diff").is(200).body;
    // A comment of the shell has the class of comments.
    shows(
        &unified,
        &["<i class=\"c\">", "Rework of round 2", "0</span> of"],
    );
    let split = browser.get("/tickets/greet/diff?view=split").is(200).body;
    shows(
        &split,
        &["class=\"diff split\"", "An empty name is accepted"],
    );
    // Without script, the address opens the form below the line.
    let at_line = browser.get("/tickets/greet/diff?comment=0.1").is(200).body;
    shows(
        &at_line,
        &["id=\"comment-form\"", "name=\"line\" value=\"1\""],
    );
    hides(&unified, &["id=\"comment-form\""]);

    let mark = field(&unified, "mark");
    let path = "/tickets/greet/viewed";
    let next = "?view=split#file-0";
    let set = [("mark", mark.as_str()), ("viewed", "true"), ("next", next)];
    let back = location(&browser.post(path, &set).is(303));
    assert_eq!(back, format!("/tickets/greet/diff{next}"));
    let viewed = browser.get("/tickets/greet/diff").is(200).body;
    shows(&viewed, &["1</span> of", "aria-pressed=\"true\""]);
    // Another person has read nothing, and another content of the file counts as unread.
    let token = world.json(&["token", "create", "--agent", "eve", "--role", "human"]);
    let other = Browser::log_in(&server, token["secret"].as_str().unwrap());
    shows(
        &other.get("/tickets/greet/diff").is(200).body,
        &["0</span> of"],
    );
    let rework = browser.get("/tickets/greet/diff?from=1&to=2").is(200).body;
    shows(&rework, &["0</span> of"]);
    let unset = [("mark", mark.as_str()), ("viewed", "false")];
    browser.post(path, &unset).is(303);
    shows(
        &browser.get("/tickets/greet/diff").is(200).body,
        &["0</span> of"],
    );
    for (mark, next) in [("../../x", ""), ("", ""), ("zz", "//evil.example")] {
        let bad = browser.post(path, &[("mark", mark), ("viewed", "true"), ("next", next)]);
        assert!((400..500).contains(&bad.status), "{mark}: {}", bad.body);
    }
    let foreign = [("mark", mark.as_str()), ("next", "//evil.example")];
    let back = location(&browser.post(path, &foreign).is(303));
    assert_eq!(back, "/tickets/greet/diff");
}

#[test]
fn filters_have_terms_and_orders_and_several_tickets_are_cancelled_at_once() {
    let world = World::new();
    run_greet(&world, &smooth());
    let server = Server::start(&world);
    for id in ["alpha", "beta", "gamma"] {
        server.add(id);
    }
    let browser = person(&world, &server);
    let list = |q: &str| browser.get(&format!("/tickets?q={q}")).is(200).body;
    for (q, found, missing) in [
        ("agent:nobody", vec![], vec!["row-greet", "row-alpha"]),
        ("age%3C1h+alpha", vec!["row-alpha"], vec!["row-beta"]),
        ("age%3E1h", vec![], vec!["row-alpha"]),
        ("cost%3E1000", vec![], vec!["row-greet"]),
        ("round%3E9+stage:done", vec![], vec!["row-greet"]),
        ("finding:critical", vec![], vec!["row-alpha"]),
        ("label:gpu", vec![], vec!["row-alpha"]),
        ("repo:no-such", vec![], vec!["row-alpha"]),
    ] {
        let page = list(q);
        shows(&page, &found);
        hides(&page, &missing);
    }
    let bad = list("cost%3Ex");
    shows(&bad, &["is not a bound", "row-alpha"]);
    // Each term of an empty list can be dropped by itself.
    let none = list("stage:queued+zzz");
    shows(
        &none,
        &["stage:queued ×", "zzz ×", "/tickets?q=stage%3Aqueued"],
    );
    let sorted = browser.get("/tickets?sort=created").is(200).body;
    assert!(
        sorted.find("row-alpha") < sorted.find("row-gamma"),
        "{sorted}"
    );
    let falling = browser.get("/tickets?sort=-created").is(200).body;
    assert!(
        falling.find("row-alpha") > falling.find("row-gamma"),
        "{falling}"
    );

    let chosen = [("ticket", "alpha"), ("ticket", "beta"), ("ticket", "greet")];
    let act = |more: &[(&str, &str)]| browser.post("/tickets", &[&chosen, more].concat());
    act(&[("action", "cancel")]).is(422);
    act(&[("why", "x")]).is(422);
    browser
        .post("/tickets", &[("action", "cancel"), ("why", "x")])
        .is(422);
    let done = act(&[("action", "cancel"), ("why", "not wanted")])
        .is(200)
        .body;
    // The ticket that has landed refuses, and the page says so.
    shows(&done, &["2 of 3 tickets cancelled", "alpha", "greet"]);
    assert_eq!(server.stage("alpha"), "cancelled");
    assert_eq!(server.stage("gamma"), "queued");
}

#[test]
fn new_work_is_previewed_before_it_is_added() {
    let world = World::new();
    let server = Server::start(&world);
    let browser = person(&world, &server);
    let repository = world.repository.to_str().unwrap();
    let ticket = [
        ("title", "Greet in the evening"),
        ("description", "**After six**"),
        ("acceptance", "It says so\n\nTwice"),
        ("repository", repository),
        ("priority", "70"),
    ];
    let preview = [&ticket[..], &[("action", "preview")]].concat();
    let page = browser.post("/new", &preview).is(200).body;
    shows(
        &page,
        &[
            "Plan",
            "Forecast of round",
            "Add the ticket",
            "Greet in the evening",
        ],
    );
    hides(
        &browser.get("/tickets").is(200).body,
        &["Greet in the evening"],
    );
    let add = [&ticket[..], &[("action", "add")]].concat();
    let path = location(&browser.post("/new", &add).is(303));
    let page = browser.get(&path).is(200).body;
    shows(
        &page,
        &[
            "Greet in the evening",
            "<strong>After six</strong>",
            "Twice",
            "70",
        ],
    );
    let bad = [
        ("title", "x"),
        ("repository", "/no/such"),
        ("action", "preview"),
    ];
    let bad = browser.post("/new", &bad);
    assert!((400..500).contains(&bad.status), "{}", bad.body);

    let epic = [
        ("id", "evening"),
        ("title", "Evening"),
        ("tickets", "one: The first\ntwo: The second (after one)"),
        ("repository", repository),
    ];
    let preview = [&epic[..], &[("action", "preview")]].concat();
    let page = browser.post("/epics/new", &preview).is(200).body;
    shows(&page, &["class=\"graph\"", "The second", "Add the epic"]);
    browser.get("/epics/evening").is(404);
    let add = [&epic[..], &[("action", "add")]].concat();
    let path = location(&browser.post("/epics/new", &add).is(303));
    assert_eq!(path, "/epics/evening");
    let page = browser.get(&path).is(200).body;
    shows(
        &page,
        &["class=\"graph\"", "class=\"edge\"", "/tickets/two"],
    );
    let bad = [
        ("id", "b"),
        ("title", "B"),
        ("tickets", "no colon"),
        ("repository", repository),
    ];
    let bad = browser.post("/epics/new", &bad);
    assert!((400..500).contains(&bad.status), "{}", bad.body);

    let budget = "/tickets/one/budget";
    browser.post(budget, &[("usd", "2.50")]).is(422);
    browser.post(budget, &[("usd", "x"), ("why", "y")]).is(422);
    browser
        .post(
            budget,
            &[("usd", "2.50"), ("minutes", "10"), ("why", "large")],
        )
        .is(303);
    let page = browser.get("/tickets/one").is(200).body;
    shows(&page, &["$2.50", "large"]);

    // A jump leads to the ticket with this id, else to the list.
    let to = |q: &str| location(&browser.get(&format!("/jump?q={q}")).is(303));
    assert_eq!(to("one"), "/tickets/one");
    assert_eq!(to("first"), "/tickets?q=first");
    let list = browser.get("/jump/list?q=even").is(200).body;
    shows(&list, &["/epics/evening", "All tickets with"]);
}

#[test]
fn the_cost_of_a_day_has_rounds_without_a_verdict_as_well() {
    let world = World::new();
    let mut build = builds("greet.sh", WRONG);
    let usage = json!({"usd": 0.25, "tokens_in": 100, "tokens_out": 10});
    build.insert(0, json!({"usage": usage}));
    // The checks stay red, so the round is never decided.
    run_greet(
        &world,
        &crew(&always(build), &always(approves()), &always(verifies(&[]))),
    );
    let server = Server::start(&world);
    let page = person(&world, &server).get("/costs").is(200).body;
    let spent = page.split_once("Spent</span><strong>").unwrap().1;
    let spent = spent.split('<').next().unwrap();
    assert_ne!(spent, "$0.00");
    shows(&page, &[&format!("most: {spent} on ")]);
}
