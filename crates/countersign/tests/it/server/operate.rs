//! Tests the work of an operator: stop a server, reload it, start it twice, back it up.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::processes::signal;
use crate::support::server::Server;
use crate::support::{DEADLINE, World, reached, until};

#[test]
fn a_password_in_an_argument_is_remarked_on_and_a_file_keeps_it_out() {
    let world = World::new();
    let address = "postgres://ada:hunter2@127.0.0.1:1/x?connect_timeout=1";
    let told = world.call(&["--database", address, "status"]).ends_with(7);
    assert!(told.err.contains("--database-file"), "{}", told.err);
    assert!(!told.err.contains("hunter2"), "{}", told.err);
    let file = world.put("database", address);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let kept = world
        .call(&["--database-file", &file, "status"])
        .ends_with(7);
    assert!(!kept.err.contains("note:"), "{}", kept.err);
    assert!(!kept.err.contains("hunter2"), "{}", kept.err);
    let shown = world.json(&["--database-file", &file, "config", "show"]);
    assert!(!shown.to_string().contains("hunter2"), "{shown}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    world
        .call(&["--database-file", &file, "status"])
        .ends_with(2)
        .says("readable by everybody");
}

#[test]
fn a_second_server_is_refused_and_leaves_the_first_alone() {
    let world = World::new();
    let server = Server::start(&world);
    let sign = fs::read_to_string(world.data.join("server.json")).unwrap();
    let second = world.call(&["serve", "--listen", "127.0.0.1:0"]);
    let second = second.ends_with(6);
    assert!(
        second.err.contains("a server already runs"),
        "{}",
        second.err
    );
    assert!(second.err.contains(&server.url), "{}", second.err);
    let kept = fs::read_to_string(world.data.join("server.json")).unwrap();
    assert_eq!(kept, sign);
    server.rest("GET", "/api/v1/status", &Value::Null).is(200);
}

/// Its lease ends long after this test; a dead process of this machine renews nothing.
#[test]
fn a_killed_server_takes_its_own_jobs_up_again() {
    let world = World::with_settings(
        "[checks]\ntest = \"sleep 3\"\n\n[policy.limits]\nbackoff_secs = 0\nlease_secs = 3600\n",
    );
    let server = Server::start(&world);
    let (builder, build, _work) = super::at_work(&world, &server);
    super::submit(&server, &builder, &build);
    let leased = |server: &Server<'_>| {
        let path = "/api/v1/jobs?queue=check&state=leased";
        let jobs = server.rest("GET", path, &Value::Null).is(200).json();
        !jobs["items"].as_array().unwrap().is_empty()
    };
    until("its check runs", || leased(&server));
    signal(server.pid(), Signal::KILL);
    drop(server);
    let server = Server::start(&world);
    until("the check has passed", || {
        server.stage("greet") == "reviewing"
    });
    assert_eq!(world.count("greet", "lease_lost"), 1);
    world.must_be_sound();
}

#[test]
fn a_hangup_reloads_the_configuration_and_never_stops() {
    let world = World::new();
    let server = Server::start(&world);
    let home = world.root().join("home/.config/countersign");
    fs::create_dir_all(&home).unwrap();
    let spool = world.root().join("spool");
    let good = format!("[spool]\ndirectory = {:?}\n", spool.to_str().unwrap());
    fs::write(home.join("config.toml"), good).unwrap();
    signal(server.pid(), Signal::HUP);
    until("the new spool is served", || spool.join("queues").is_dir());
    until("it says so", || {
        server.log().contains("reloaded the configuration")
    });
    fs::write(home.join("config.toml"), "[spool]\ndirectory = 7\n").unwrap();
    signal(server.pid(), Signal::HUP);
    until("the mistake is told", || {
        server.log().contains("the old one stays in use")
    });
    server.rest("GET", "/api/v1/status", &Value::Null).is(200);
}

#[test]
fn streams_and_long_polls_end_with_the_server_and_are_told_to_come_again() {
    let world = World::new();
    let server = Server::start(&world);
    let builder = server.token("bea", "builder", &[]);
    let worker = server.token("east", "service", &[]);
    let ask = |token: &str, head: &str, body: &Value| {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let (host, length) = (&server.address, body.len());
        let text = format!(
            "{head} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(text.as_bytes()).unwrap();
        stream
    };
    let mut events = ask(&server.token, "GET /api/v1/events", &Value::Null);
    let mut start = [0; 12];
    events.read_exact(&mut start).unwrap();
    let wait = json!({"name": "wait_for_work", "arguments": {"timeout_secs": 50}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": wait});
    let mut poll = ask(&builder, "POST /mcp", &call);
    let log = "GET /api/v1/log?wait=50&after=9.999999";
    let mut log = ask(&worker, log, &Value::Null);
    until("the agent waits", || server.log().contains("wait_for_work"));
    signal(server.pid(), Signal::TERM);
    let text = |stream: &mut TcpStream| {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let said = text(&mut events);
    assert!(said.contains("retry: 1000"), "{said}");
    let said = text(&mut poll);
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    assert!(said.contains("\"messages\""), "{said}");
    let said = text(&mut log);
    assert!(!said.is_empty());
    until("its sign is gone", || {
        !world.data.join("server.json").exists()
    });
    assert!(
        !server.log().contains("connections cut"),
        "{}",
        server.log()
    );
}

#[test]
fn a_backup_under_load_is_restored_exactly() {
    let world = World::new();
    let server = Server::start(&world);
    let copy = world.root().join("copy.db");
    let name = copy.to_str().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let (server, done) = (&server, &done);
            scope.spawn(move || {
                for count in 0..400 {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    server.add(&format!("t-{writer}-{count}"));
                }
            });
        }
        let tickets = || {
            let status = server.rest("GET", "/api/v1/status", &Value::Null);
            status.is(200).body.contains("queued")
        };
        let began = reached(DEADLINE, tickets);
        let saved = world.call(&["backup", name]);
        done.store(true, Ordering::Relaxed);
        assert!(began);
        saved.ends_with(0);
    });
    let mode = fs::metadata(&copy).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    world
        .call(&["backup", name])
        .ends_with(6)
        .says("exists already");
    // While the server runs, nothing is put under it.
    world
        .call(&["restore", name, "--replace"])
        .ends_with(6)
        .says("a server already runs");

    let elsewhere = world.root().join("elsewhere");
    let data = ["--data-dir", elsewhere.to_str().unwrap()];
    let with = |words: &[&str]| world.call(&[&data, words].concat());
    with(&["restore", name]).ends_with(0);
    with(&["doctor", "--verify-log"]).ends_with(0);
    let listed = with(&["--json", "ticket", "list", "--limit", "1000"]).json();
    assert!(!listed["tickets"].as_array().unwrap().is_empty());
    with(&["restore", name]).ends_with(6).says("--replace");
    with(&["restore", name, "--replace"]).ends_with(0);
    with(&["doctor", "--verify-log"]).ends_with(0);
    // The one that was there first is never overwritten.
    let first = fs::read(elsewhere.join("countersign.db-replaced")).unwrap();
    with(&["restore", name, "--replace"]).ends_with(0);
    assert!(elsewhere.join("countersign.db-replaced-2").exists());
    let kept = fs::read(elsewhere.join("countersign.db-replaced")).unwrap();
    assert!(kept == first);
    let nowhere = world.root().join("nowhere/copy.db");
    world
        .call(&["backup", nowhere.to_str().unwrap()])
        .ends_with(1)
        .says("there is no directory");

    // A file that is no copy, or of a newer version, changes nothing.
    let before = fs::read(elsewhere.join("countersign.db")).unwrap();
    let mut newer = fs::read(&copy).unwrap();
    // The schema version, in the header of the file.
    newer[60..64].copy_from_slice(&999_u32.to_be_bytes());
    let newer = world.put("newer.db", newer);
    with(&["restore", &newer, "--replace"])
        .ends_with(7)
        .says("newer Countersign");
    let other = world.put("other.db", "not a database");
    let other = with(&["restore", &other, "--replace"]);
    assert_ne!(other.code, 0);
    assert_eq!(fs::read(elsewhere.join("countersign.db")).unwrap(), before);
}

#[test]
fn a_database_in_use_is_not_replaced() {
    let world = World::new();
    let copy = world.root().join("copy.db");
    let copy = copy.to_str().unwrap();
    world.call(&["ticket", "list"]).ends_with(0);
    world.call(&["backup", copy]).ends_with(0);
    let words = ["worker", "--queue", "check", "--name", "hand"];
    let worker = world.start(&words);
    // The start opens it for a moment to check it; then the writer and the readers keep it open.
    let files = format!("/proc/{}/fd", worker.pid());
    let wal = world.data.join("countersign.db-wal");
    until("the worker has it open", || {
        let links = fs::read_dir(&files).into_iter().flatten().flatten();
        let opened = links.filter_map(|link| fs::read_link(link.path()).ok());
        opened.filter(|target| *target == wal).count() > 1
    });
    world
        .call(&["restore", copy, "--replace"])
        .ends_with(7)
        .says("stop all servers, workers and runs");
    signal(worker.pid(), Signal::TERM);
    worker.wait(DEADLINE);
    world.call(&["restore", copy, "--replace"]).ends_with(0);
    world.must_be_sound();
}
