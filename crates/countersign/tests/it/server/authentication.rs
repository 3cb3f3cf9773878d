//! Strangers at the door: refused, told why, and nothing changed.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use serde_json::{Value, json};

use crate::support::processes::signal;
use crate::support::server::Server;
use crate::support::{DEADLINE, World, until};

#[test]
fn only_a_good_token_opens() {
    let world = World::new();
    let server = Server::start(&world);
    let good = server.token("ada", "human", &[]);
    let expired = server.token("old", "human", &["--ttl", "0s"]);
    let revoked = server.token("gone", "human", &[]);
    let list = world.json(&["token", "list"]);
    let tokens = list["items"].as_array().unwrap();
    let id = tokens
        .iter()
        .find(|token| token["agent"] == "gone")
        .unwrap()["id"]
        .clone();
    world
        .call(&["token", "revoke", id.as_str().unwrap()])
        .ends_with(0);
    assert!(!list.to_string().contains("hash"), "{list}");

    server.rest_as(&good, "GET", "/api/v1/status", "").is(200);
    for (token, why) in [
        ("cs_made_up", "not known here"),
        (expired.as_str(), "has expired"),
        (revoked.as_str(), "was revoked"),
    ] {
        let reply = server.rest_as(token, "GET", "/api/v1/status", "").is(401);
        assert!(
            reply.json()["detail"].as_str().unwrap().contains(why),
            "{}",
            reply.body
        );
        let mcp = server.rest_as(token, "POST", "/mcp", "{}").is(401);
        assert!(mcp.head.to_lowercase().contains("www-authenticate: bearer"));
    }
    server.send("GET", "/api/v1/status", &[], "").is(401);
    let noted = world.json(&["log", "--limit", "100"]).to_string();
    assert!(
        noted.contains("was revoked") && noted.contains("has expired"),
        "{noted}"
    );
}

#[test]
fn a_rotated_token_has_a_new_secret_and_the_old_one_ends() {
    let world = World::new();
    let server = Server::start(&world);
    let old = server.token("ada", "human", &[]);
    let id = world.json(&["token", "list"])["items"][0]["id"].clone();
    let new = world.json(&["token", "rotate", id.as_str().unwrap()])["secret"].clone();
    server.rest_as(&old, "GET", "/api/v1/status", "").is(401);
    let role = server.rest_as(new.as_str().unwrap(), "GET", "/api/v1/status", "");
    role.is(200);
}

#[test]
fn pages_of_others_and_names_that_are_not_ours_get_nowhere() {
    let world = World::new();
    let server = Server::start(&world);
    let bearer = format!("Bearer {}", server.token);
    let port = server.address.split(':').next_back().unwrap();
    let same = format!("http://{}", server.address);
    let cases = [
        ("Host", "evil.example".to_owned(), 403),
        ("Host", format!("evil.example:{port}"), 403),
        ("Host", format!("127.0.0.1:{port}.evil"), 403),
        ("Host", format!("127.0.0.1:{port}@evil"), 403),
        ("Host", format!("evil@127.0.0.1:{port}"), 403),
        ("Host", "127.0.0.1:".to_owned(), 403),
        ("Host", format!("localhost:{port}"), 200),
        ("Origin", "null".to_owned(), 403),
        ("Origin", "http://evil.example".to_owned(), 403),
        (
            "Origin",
            format!("http://127.0.0.1:{port}.evil.example"),
            403,
        ),
        ("Origin", same, 200),
    ];
    for (name, value, status) in &cases {
        let headers = [("Authorization", bearer.as_str()), (name, value.as_str())];
        server
            .send("GET", "/api/v1/status", &headers, "")
            .is(*status);
        let mcp = server.send("POST", "/mcp", &headers, "{}");
        assert_eq!(mcp.status == 403, *status == 403, "{name}: {value}");
    }
    let twice = [
        ("Authorization", bearer.as_str()),
        ("Host", &server.address),
        ("Host", &server.address),
    ];
    server.send("GET", "/api/v1/status", &twice, "").is(400);
    // An absolute address is a second name of the host, and both have to be ours.
    let own = format!("http://{}/api/v1/status", server.address);
    for (address, host, status) in [
        (own.as_str(), server.address.as_str(), 200),
        (own.as_str(), "evil.example", 403),
        ("http://evil.example/api/v1/status", &server.address, 403),
    ] {
        let headers = [("Authorization", bearer.as_str()), ("Host", host)];
        server.send("GET", address, &headers, "").is(status);
    }
    // Before anybody is recognised, and on every path but the probes.
    let evil = [("Host", "evil.example")];
    for path in ["/metrics", "/api/v1/openapi.json", "/healthz/", "/nowhere"] {
        server.send("GET", path, &evil, "").is(403);
    }
    for path in ["/healthz", "/readyz"] {
        server.send("GET", path, &evil, "").is(200);
        server
            .send("GET", path, &[("Host", "10.0.0.7:7420")], "")
            .is(200);
    }
}

#[test]
fn agents_do_not_read_the_metrics() {
    let world = World::new();
    let server = Server::start(&world);
    for (role, status) in [
        ("builder", 403),
        ("reviewer", 403),
        ("verifier", 403),
        ("human", 200),
    ] {
        let token = server.token(&format!("a-{role}"), role, &[]);
        server.rest_as(&token, "GET", "/metrics", "").is(status);
    }
}

#[test]
fn what_is_not_understood_changes_nothing() {
    let world = World::new();
    let server = Server::start(&world);
    for body in [
        "",
        "{",
        "[]",
        "{\"title\": 7}",
        "{\"title\": \"a\", \"colour\": \"red\"}",
    ] {
        let reply = server.rest_as(&server.token, "POST", "/api/v1/tickets", body);
        assert!(reply.is(422).json()["detail"].is_string());
    }
    server
        .rest("GET", "/api/v1/tickets?colour=red", &Value::Null)
        .is(400);
    server
        .rest("GET", "/api/v1/tickets?limit=many", &Value::Null)
        .is(400);
    server
        .rest("GET", "/api/v1/tickets?stage=asleep", &Value::Null)
        .is(400);
    server
        .rest("GET", "/api/v1/tickets/nobody", &Value::Null)
        .is(404);
    server
        .rest("GET", "/api/v1/tickets/..", &Value::Null)
        .is(404);
    server
        .rest("DELETE", "/api/v1/tickets", &Value::Null)
        .is(405);
    let builder = server.token("bea", "builder", &[]);
    let unknown = server.tool(&builder, "get_my_assignment", &json!({"colour": "red"}));
    assert!(unknown.unwrap_err().contains("colour"));
    let tally = server.rest("GET", "/api/v1/status", &Value::Null).json();
    assert_eq!(tally["tally"], json!({}));
}

/// Resident, of the whole process.
fn kilobytes(server: &Server<'_>) -> u64 {
    let status = format!("/proc/{}/status", server.pid());
    let status = fs::read_to_string(status).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.unwrap().split_whitespace().nth(1);
    number.unwrap().parse().unwrap()
}

fn a_thousand_connect_and_say_nothing(server: &Server<'_>) {
    server.rest("GET", "/api/v1/status", &Value::Null).is(200);
    let before = kilobytes(server);
    let silent: Vec<TcpStream> = (0..1000)
        .map(|_| {
            let mut stream = TcpStream::connect(&server.address).unwrap();
            // One that has been let go for another hears so here.
            let _ = stream.write_all(b"GET /api");
            stream
        })
        .collect();
    for _ in 0..20 {
        server.rest("GET", "/api/v1/status", &Value::Null).is(200);
    }
    let grown = kilobytes(server).saturating_sub(before);
    assert!(grown < 32 * 1024, "{grown} KB for a thousand connections");
    // They are let go by themselves, all of them.
    for mut stream in silent {
        let mut said = Vec::new();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let ended = stream.read_to_end(&mut said);
        let timed_out = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        assert!(!ended.is_err_and(|error| timed_out(&error)));
    }
    server.rest("GET", "/api/v1/status", &Value::Null).is(200);
}

#[test]
fn a_thousand_who_connect_and_say_nothing_keep_nobody_out() {
    let world = World::new();
    let server = Server::start(&world);
    a_thousand_connect_and_say_nothing(&server);
}

#[test]
fn silent_callers_use_up_no_file_descriptors_that_others_need() {
    let world = World::new();
    // Hardly more than the server keeps for everything but connections.
    let few = ["sh", "-c", "ulimit -n 300; exec \"$@\"", "sh"];
    let server = Server::start_behind(&world, &few, &[]);
    a_thousand_connect_and_say_nothing(&server);
    let open = fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
    assert!(open.count() < 300);
}

#[test]
fn a_server_without_file_descriptors_waits_for_some() {
    let world = World::new();
    let server = Server::start(&world);
    let pid = Pid::from_raw(server.pid());
    let open = fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
    let few = Rlimit {
        current: Some(u64::try_from(open.count()).unwrap() + 20),
        maximum: Some(20_000),
    };
    let before = prlimit(pid, Resource::Nofile, few).unwrap();
    let crowd: Vec<TcpStream> = (0..60)
        .map(|_| TcpStream::connect(&server.address).unwrap())
        .collect();
    // Those that were there longest have gone, so that this one is heard.
    server.send("GET", "/healthz", &[], "").is(200);
    drop(crowd);
    prlimit(pid, Resource::Nofile, before).unwrap();
    server.rest("GET", "/api/v1/status", &Value::Null).is(200);
}

#[test]
fn a_server_that_is_told_to_stop_takes_its_sign_down() {
    let world = World::new();
    let server = Server::start(&world);
    let (pid, token) = (server.pid(), server.token.clone());
    signal(pid, Signal::TERM);
    until("the sign is down", || {
        !world.data.join("server.json").exists()
    });
    drop(server);
    let next = Server::start(&world);
    next.rest_as(&token, "GET", "/api/v1/status", "").is(401);
}

#[test]
fn nobody_listens_where_others_can_reach_without_being_told_that_it_is_safe() {
    let world = World::new();
    let call = |more: &[&str]| world.call(&[&["serve", "--listen", "0.0.0.0:0"], more].concat());
    call(&[]).ends_with(2).says("--behind-tls");
    call(&["--behind-tls"])
        .ends_with(2)
        .says("there is no valid token");
}
