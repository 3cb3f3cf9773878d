//! Text of agents on the pages of the dashboard: it is shown, and none of it becomes markup.

use serde_json::json;

use super::dashboard_pages::{person, run_greet};
use crate::support::World;
use crate::support::crew::{GOOD, always, builds, crew, rejects, says, verifies};
use crate::support::server::Server;

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
    // What a link or a person puts into the address is shown as well.
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
