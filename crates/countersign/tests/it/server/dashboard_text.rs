//! Text of agents on the pages of the dashboard: it is shown, and none of it becomes markup.

use serde_json::json;

use super::dashboard_pages::{person, run_greet};
use super::forge_news::with_forge;
use crate::support::crew::{GOOD, always, builds, crew, rejects, says, verifies};
use crate::support::fake_github::FakeGithub;
use crate::support::server::Server;
use crate::support::{SETTINGS, World, until};

/// Attempts to run a script, or to change the look of a page: the same as in a real browser.
fn payloads() -> Vec<String> {
    let text = include_str!("../../../../../browser/payloads.json");
    serde_json::from_str(text).unwrap()
}

/// Elements that our pages use.
const ELEMENTS: &[&str] = &[
    "html",
    "head",
    "meta",
    "title",
    "link",
    "script",
    "body",
    "a",
    "header",
    "nav",
    "span",
    "svg",
    "path",
    "rect",
    "text",
    "form",
    "label",
    "input",
    "button",
    "main",
    "div",
    "dialog",
    "h1",
    "h2",
    "h3",
    "p",
    "dl",
    "dt",
    "dd",
    "kbd",
    "section",
    "details",
    "summary",
    "pre",
    "code",
    "ul",
    "ol",
    "li",
    "table",
    "thead",
    "tbody",
    "tr",
    "td",
    "th",
    "textarea",
    "select",
    "option",
    "strong",
    "time",
    "figure",
    "figcaption",
    "progress",
    "!doctype",
    "em",
    "br",
    "small",
    "footer",
    "aside",
    "i",
    "b",
    "hr",
    "article",
    "abbr",
    "blockquote",
    "col",
    "colgroup",
    "datalist",
    "del",
];

/// Reads every tag of a page and fails on one that our templates do not write.
#[track_caller]
fn is_our_markup(path: &str, page: &str) {
    let mut scripts = 0;
    for part in page.split('<').skip(1) {
        let tag = part.split('>').next().unwrap();
        let name = tag
            .trim_start_matches('/')
            .split([' ', '/'])
            .next()
            .unwrap();
        let name = name.to_lowercase();
        assert!(ELEMENTS.contains(&name.as_str()), "{path}: <{tag}>");
        scripts += usize::from(name == "script" && !tag.starts_with('/'));
        // Every attribute value is quoted, so what is outside of quotes is a name.
        for attribute in tag.split('"').step_by(2) {
            let attribute = attribute.trim().trim_end_matches('=').to_lowercase();
            let attribute = attribute.rsplit(' ').next().unwrap();
            let active = attribute.starts_with("on")
                || ["style", "srcdoc", "formaction"].contains(&attribute);
            assert!(!active, "{path}: <{tag}>");
        }
        for start in [
            "href=\"javascript:",
            "src=\"javascript:",
            "src=\"//",
            "href=\"//",
        ] {
            assert!(!tag.to_lowercase().contains(start), "{path}: <{tag}>");
        }
    }
    // A fragment has none.
    let expected = if path.starts_with("/jump/list") { 0 } else { 4 };
    assert_eq!(scripts, expected, "{path}");
    assert!(
        !page.contains(['\u{1b}', '\u{202e}', '\u{7}']),
        "{path}: control characters"
    );
}

#[test]
fn no_text_of_an_agent_becomes_markup() {
    let world = World::new();
    let all = payloads();
    assert_eq!(all.len(), 40);
    let every = all.join("\n");
    let finding = |payload: &String| {
        json!({"severity": "high", "category": "correctness", "file": "greet.sh", "line": 2,
            "title": payload, "problem": every, "impact": payload, "fix": payload})
    };
    let mut build = builds(
        "greet.sh",
        &format!("{GOOD}# {every}\n")
            .replace('\n', "\n# ")
            .replace("# #!", "#!"),
    );
    build.insert(0, says(&every));
    build.insert(
        0,
        json!({"write": {"path": "<img src=x onerror=alert(1)>.txt", "text": every}}),
    );
    let script = crew(
        &always(build),
        &always(rejects(all.iter().take(12).map(finding))),
        &always(verifies(&[])),
    );
    run_greet(&world, &script);
    let server = Server::start(&world);
    let repository = world.repository.to_str().unwrap();
    for (index, payload) in all.iter().enumerate() {
        let ticket = json!({"id": format!("x{index}"), "title": payload, "description": every,
            "acceptance": [payload], "repository": repository});
        server.rest("POST", "/api/v1/tickets", &ticket).is(201);
    }
    let browser = person(&world, &server);
    for (scope, name) in [("agent", all[0].as_str()), ("provider", all[11].as_str())] {
        browser
            .post(
                "/pauses",
                &[("scope", scope), ("name", name), ("why", &every)],
            )
            .is(303);
    }
    let mut paths: Vec<String> = [
        "/",
        "/board",
        "/tickets",
        "/agents",
        "/queues",
        "/epics",
        "/costs",
        "/log",
        "/settings",
        "/tickets/greet",
        "/tickets/greet/diff",
        "/tickets/greet/diff?view=split",
        "/tickets/greet/diff?comment=0.1",
        "/new",
        "/epics/new",
        "/jump/list",
        "/jump/list?q=script",
        "/tickets/greet/runs",
        "/tickets/greet/runs/1",
        "/tickets/greet/runs/2",
    ]
    .map(str::to_owned)
    .to_vec();
    paths.extend((0..all.len()).map(|index| format!("/tickets/x{index}")));
    // Text in the address is shown on the page as well.
    paths.push("/tickets?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E+stage:%3Cscript%3E".to_owned());
    for path in &paths {
        let page = browser.get(path).is(200).body;
        is_our_markup(path, &page);
    }
    let board = browser.get("/board").is(200).body;
    assert!(
        board.contains("&lt;script&gt;alert(1)&lt;/script&gt;"),
        "shown as text"
    );
    let missing = browser.get("/tickets/%3Cscript%3Ealert(1)%3C%2Fscript%3E");
    assert!(!missing.body.contains("<script>alert"), "{}", missing.body);
    let login = server
        .send("GET", "/login?next=%22%3E%3Cscript%3Ealert(1)", &[], "")
        .is(200);
    is_our_markup("/login", &login.body);
}

/// Whatever a forge, an epic's file or a message has: it is shown as text.
#[test]
fn no_text_of_a_forge_or_a_message_becomes_markup() {
    let all = payloads();
    let every = all.join("\n");
    let github = FakeGithub::start();
    github.add_issue(9, &["countersign"]);
    {
        let mut state = github.state.lock().unwrap();
        let issue = state.issues.last_mut().unwrap();
        issue["title"] = json!(all[0]);
        issue["body"] = json!(every);
        issue["user"]["login"] = json!(all[8]);
        let labels = issue["labels"].as_array_mut().unwrap();
        labels.extend(all.iter().map(|name| json!({"name": name})));
    }
    github.comment(9, &all[8], &every, false);
    github.comment(9, "ada", &format!("/countersign {every}"), false);
    let world = with_forge(&github, SETTINGS);
    let server = Server::start(&world);
    let repository = world.repository.to_str().unwrap();
    let tickets: Vec<_> = all
        .iter()
        .enumerate()
        .map(|(index, title)| json!({"id": format!("e{index}"), "title": title}))
        .collect();
    let epic =
        json!({"id": "hostile", "title": all[8], "tickets": tickets, "coordination": [all[0]]});
    let file = json!({"name": "epic.yaml", "text": epic.to_string(), "repository": repository});
    server.rest("POST", "/api/v1/imports", &file).is(201);
    let builder = server.token("bea", "builder", &[]);
    for payload in &all {
        let message = json!({"to": "supervisor", "type": "question", "content": payload});
        server.tool(&builder, "send_message", &message).unwrap();
    }
    // A person with such a name comments, pauses and cancels.
    let eve = server.token(&all[8], "human", &[]);
    let pause = json!({"scope": "provider", "name": all[11], "why": every});
    server
        .rest_as(&eve, "POST", "/api/v1/pauses", &pause.to_string())
        .is(201);
    let why = json!({"why": every}).to_string();
    server
        .rest_as(&eve, "POST", "/api/v1/tickets/e3/cancel", &why)
        .is(200);
    until("the issue is a ticket", || {
        let ticket = server.rest("GET", "/api/v1/tickets/app-9", &json!(null));
        ticket.status == 200
    });
    let browser = person(&world, &server);
    let shared = browser.post("/tickets/e3/shares", &[("expires_secs", "600")]);
    let shared = shared.is(200).body;
    let link = shared
        .split_once("id=\"shared-link\"><a href=\"")
        .unwrap()
        .1;
    let link = link.split('"').next().unwrap().to_owned();
    for path in [
        "/",
        "/board",
        "/tickets",
        "/epics",
        "/epics/hostile",
        "/agents",
        "/queues",
        "/costs",
        "/log",
        "/settings",
        "/tickets/app-9",
        "/tickets/e3",
        &link,
    ] {
        let page = browser.get(path).is(200).body;
        is_our_markup(path, &page);
    }
    let ticket = browser.get("/tickets/app-9").is(200).body;
    assert!(ticket.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
}
