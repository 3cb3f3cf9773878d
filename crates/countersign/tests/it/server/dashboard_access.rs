//! Access to the dashboard besides the login: links to one ticket, identity providers that cannot be
//! used, the stream of notifications, and the served demo.

use std::io::{Read, Write};
use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::dashboard::Browser;
use super::dashboard_pages::{person, run_greet};
use crate::support::crew::quarrel;
use crate::support::processes::signal;
use crate::support::server::Server;
use crate::support::{DEADLINE, World, until};

const REFERRER: &str = "referrer-policy: no-referrer";

fn share(world: &World, more: &[&str]) -> (String, String) {
    let made = world.json(&[&["token", "share", "--ticket", "greet"], more].concat());
    let id = made["token"]["id"].as_str().unwrap().to_owned();
    (made["path"].as_str().unwrap().to_owned(), id)
}

fn links(world: &World) -> Vec<Value> {
    let list = world.json(&["token", "list"]);
    let items = list["items"].as_array().or(list.as_array()).unwrap();
    let is_link = |token: &&Value| token["kind"] == "shared_link";
    items.iter().filter(is_link).cloned().collect()
}

#[test]
fn a_link_shows_one_ticket_until_it_ends() {
    let world = World::new();
    run_greet(&world, &quarrel());
    let server = Server::start(&world);
    server.add("other");
    let (path, id) = share(&world, &["--expires", "2d"]);
    let read = |path: &str| server.send("GET", path, &[], "");
    let page = read(&path).is(200);
    for text in [
        "Greet by name",
        "An empty name is accepted",
        "Story",
        "noindex",
    ] {
        assert!(page.body.contains(text), "{text}: {}", page.body);
    }
    let head = page.head.to_lowercase();
    assert!(
        head.contains(REFERRER) && head.contains("x-robots-tag: noindex"),
        "{head}"
    );
    assert!(head.contains("cache-control: no-store"), "{head}");
    for hidden in ["$0.", "<form", "/runs", "data-decide", "hx-sse:connect"] {
        assert!(!page.body.contains(hidden), "{hidden}: {}", page.body);
    }
    let diff = read(&format!("{path}/diff")).is(200).body;
    assert!(
        diff.contains("greet.sh") && !diff.contains("<form"),
        "{diff}"
    );
    // Neighbours, other pages of the ticket, other secrets.
    let secret = path.split('/').nth(2).unwrap();
    for other in [
        path.replace("/greet", "/other"),
        path.replace("/greet", "/none"),
        format!("{path}/runs"),
        format!("{path}/runs/1"),
        format!("{path}/cancel"),
        format!("/shared/{secret}"),
        format!("/shared/{secret}/board"),
        path.replace(secret, "cs_00"),
        path.replace(secret, &server.token),
        path.replace(secret, ""),
    ] {
        let reply = read(&other);
        assert_eq!(reply.status, 404, "{other}: {}", reply.body);
    }
    server.send("POST", &path, &[], "why=x").is(405);
    // It is no token and no session.
    server
        .rest_as(secret, "GET", "/api/v1/tickets/greet", "")
        .is(401);
    let cookie = format!("cs={secret}");
    server
        .send("GET", "/tickets/greet", &[("Cookie", &cookie)], "")
        .is(303);
    let used = links(&world);
    assert!(used.len() == 1 && used[0]["uses"] == 2, "{used:?}");
    let list = world.call(&["token", "list"]).ends_with(0).out;
    assert!(list.contains("link, opened 2 times"), "{list}");
    world.call(&["token", "revoke", &id]).ends_with(0);
    let ended = read(&path).is(410);
    assert!(ended.body.contains("This link has ended"), "{}", ended.body);
    assert!(
        ended.head.to_lowercase().contains(REFERRER),
        "{}",
        ended.head
    );
    // A neighbour of an ended link is not there either.
    read(&path.replace("/greet", "/other")).is(404);
    read(&format!("{path}/diff")).is(410);
    assert_ne!(world.call(&["token", "rotate", &id]).code, 0);
    for bad in ["0s", "91d", "x"] {
        let words = ["token", "share", "--ticket", "greet", "--expires", bad];
        assert_ne!(world.call(&words).code, 0, "{bad}");
    }
    let log = world.json(&["log", "greet", "--limit", "200"]).to_string();
    assert!(log.contains("made a link to this ticket"), "{log}");
}

#[test]
fn people_share_and_viewers_and_agents_do_not() {
    let world = World::new();
    let server = Server::start(&world);
    server.add("greet");
    let human = server.token("bob", "human", &[]);
    let bob = Browser::log_in(&server, &human);
    let shares = "/tickets/greet/shares";
    let made = bob.post(shares, &[("expires_secs", "86400")]).is(200).body;
    let path = made.split_once("href=\"/shared/").unwrap().1;
    let path = format!("/shared/{}", path.split('"').next().unwrap());
    server.send("GET", &path, &[], "").is(200);
    let (foreign, of_admin) = share(&world, &[]);
    // A person ends own links, an administrator all of them.
    let revoke = |id: &str| format!("/settings/links/{id}/revoke");
    bob.post(&revoke(&of_admin), &[]).is(403);
    bob.post(&revoke("none"), &[]).is(404);
    server.send("GET", &foreign, &[], "").is(200);
    let own = links(&world)
        .into_iter()
        .find(|link| link["created_by"] == "bob");
    let own = own.unwrap()["id"].as_str().unwrap().to_owned();
    let settings = bob.get("/settings").is(200).body;
    assert!(
        settings.contains(&own) && !settings.contains(&of_admin),
        "{settings}"
    );
    bob.post(&revoke(&own), &[]).is(303);
    server.send("GET", &path, &[], "").is(410);
    person(&world, &server)
        .post(&revoke(&of_admin), &[])
        .is(303);
    server.send("GET", &foreign, &[], "").is(410);
    let vic = Browser::log_in(&server, &server.token("vic", "viewer", &[]));
    vic.post(shares, &[]).is(403);
    vic.post(&revoke(&own), &[]).is(403);
    let page = vic.get("/tickets/greet").is(200).body;
    assert!(!page.contains(shares), "{page}");
    for role in ["builder", "reviewer", "verifier", "viewer"] {
        let token = server.token(&format!("a-{role}"), role, &[]);
        server
            .rest_as(&token, "POST", "/api/v1/tickets/greet/shares", "{}")
            .is(403);
    }
    let body = json!({"expires_secs": 60});
    let made = server
        .rest("POST", "/api/v1/tickets/greet/shares", &body)
        .is(201);
    assert!(
        made.json()["path"]
            .as_str()
            .unwrap()
            .contains("/tickets/greet")
    );
    server
        .rest("POST", "/api/v1/tickets/none/shares", &body)
        .is(404);
}

#[test]
fn a_provider_that_cannot_be_used_is_told_and_lets_nobody_in() {
    let world = World::new();
    let settings = |issuer: &str| {
        format!(
            "[server.oidc]\nissuer = \"{issuer}\"\nclient_id = \"c\"\nemails = {{\"*@example.org\" = \"admin\"}}\n"
        )
    };
    let file = ".config/countersign/config.toml";
    world.put_home(file, &settings("http://id.example"));
    let refused = world
        .call(&["serve", "--listen", "127.0.0.1:0"])
        .ends_with(2);
    assert!(
        refused.err.contains("not an https address"),
        "{}",
        refused.err
    );
    // A closed port of this machine.
    world.put_home(file, &settings("http://127.0.0.1:9"));
    let server = Server::start(&world);
    let login = server.send("GET", "/login?next=/board", &[], "").is(200);
    assert!(
        login.body.contains("/login/oidc?next=%2Fboard"),
        "{}",
        login.body
    );
    let begun = server
        .send("GET", "/login/oidc?next=/board", &[], "")
        .is(502);
    assert!(begun.body.contains("cannot be reached"), "{}", begun.body);
    for (query, cookie) in [
        ("?code=x&state=y", ""),
        ("?code=x&state=", "cs-login=secret=&next="),
        ("", "cs-login="),
        ("?error=access_denied", "cs-login=secret=a&next=/"),
    ] {
        let path = format!("/login/callback{query}");
        let reply = server.send("GET", &path, &[("Cookie", cookie)], "").is(403);
        assert!(
            reply.body.contains("no login that began in this browser"),
            "{}",
            reply.body
        );
        assert!(!reply.head.contains("cs=cs_"), "{}", reply.head);
    }
    // A repository must not let anybody in.
    let project = World::with_settings(&settings("https://id.example"));
    let refused = project.call(&["config", "show"]);
    assert!(
        refused.err.contains("[server] is not allowed"),
        "{}",
        refused.err
    );
}

#[test]
fn without_a_provider_there_is_no_way_to_one() {
    let world = World::new();
    let server = Server::start(&world);
    let login = server.send("GET", "/login", &[], "").is(200);
    assert!(!login.body.contains("/login/oidc"), "{}", login.body);
    server.send("GET", "/login/oidc", &[], "").is(404);
    let reply = server
        .send("GET", "/login/callback?code=x&state=y", &[], "")
        .is(303);
    assert!(reply.head.contains("/login"), "{}", reply.head);
}

/// The answer to a list of tickets, with its head.
fn list_tickets(address: &str, token: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "GET /api/v1/tickets?limit=100 HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn the_served_demo_moves_and_leaves_nothing() {
    let world = World::empty();
    let running = world.start(&["demo", "--serve"]);
    let demos = world.data.join("demo");
    let sign = || {
        let mut demo = std::fs::read_dir(&demos).ok()?;
        let path = demo.next()?.ok()?.path().join("data/server.json");
        serde_json::from_slice::<Value>(&std::fs::read(path).ok()?).ok()
    };
    until("the demo serves", || sign().is_some());
    let sign = sign().unwrap();
    let address = sign["url"].as_str().unwrap().to_owned();
    let token = sign["token"].as_str().unwrap().to_owned();
    let address = address.trim_start_matches("http://").to_owned();
    until("a ticket of the demo has moved", || {
        let list = list_tickets(&address, &token);
        list.contains("\"reviewing\"") || list.contains("\"done\"")
    });
    signal(running.pid(), Signal::TERM);
    let ran = running.wait(DEADLINE).ends_with(0);
    assert!(
        ran.out.contains("/login#") && ran.out.contains("files are removed"),
        "{}",
        ran.out
    );
    let left = std::fs::read_dir(&demos).map_or(0, Iterator::count);
    assert_eq!(left, 0);
}
