//! Workers that reach the server and nothing else: no database, no repository, a home of their own.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::remote_machine::Machine;
use super::{PLAIN, add, begun, remotes, until_stage, waits_for_a_sign};
use crate::support::crew::{GOOD, always, approves, builds, crew, runs, two_rounds, verifies};
use crate::support::processes::signal;
use crate::support::server::Server;
use crate::support::{SETTINGS, World, reached, until};

/// Longer than the leases of [`PLAIN`].
const PAST_THE_LEASE: Duration = Duration::from_secs(6);

/// The files of a ticket's runs on the server, by their names.
fn kept(world: &World, ticket: &str, name: &str) -> Vec<String> {
    let jobs = world.data.join("tickets").join(ticket).join("jobs");
    let mut texts = Vec::new();
    for job in fs::read_dir(jobs).into_iter().flatten() {
        for run in fs::read_dir(job.unwrap().path()).unwrap() {
            texts.extend(fs::read_to_string(run.unwrap().path().join(name)));
        }
    }
    texts
}

#[test]
fn a_ticket_goes_through_its_rounds_on_a_machine_that_reaches_only_the_server() {
    let world = World::new();
    world.crew(&two_rounds());
    add(&world, "greet", "");
    let server = Server::start(&world);
    let east = Machine::new(&world, &server, "east");
    let worker = east.worker(&[]);
    until_stage(&world, "greet", "done");
    assert!(world.repository.join("greet.sh").exists());
    assert!(east.data().join("repositories").is_dir());
    assert!(!east.data().join("countersign.db").exists());
    let transcripts = kept(&world, "greet", "transcript.log");
    assert!(transcripts.len() >= 5, "{transcripts:?}");
    let shown = world.call(&["log", "greet", "--transcript", "--role", "review"]);
    shown
        .ends_with(0)
        .says("round 2, review: scripted (reviewer)\n  exit code 0");
    let document = world.data.join("tickets/greet/round-1-findings.md");
    assert!(document.exists(), "the findings are on the server too");
    assert_eq!(world.count("greet", "submitted"), 2);
    assert_eq!(world.count_of("refused"), 0);
    signal(worker.pid(), Signal::TERM);
    let ran = worker.wait(Duration::from_secs(30)).ends_with(0);
    ran.says("east-1: working on build, check, review, verify, merge");
    world.must_be_sound();
}

#[test]
fn where_only_the_worker_reaches_the_repository_it_lands_there_when_it_is_told_to() {
    let (world, shared) = remotes::project();
    world.crew(&two_rounds());
    add(&world, "greet", "");
    fs::rename(&world.repository, world.root().join("gone")).unwrap();
    fs::create_dir(&world.repository).unwrap();
    let server = Server::start(&world);
    let east = Machine::new(&world, &server, "east");
    let _worker = east.worker(&["--push-base"]);
    until_stage(&world, "greet", "done");
    let shown = world.git(&["--git-dir", &shared, "show", "main:greet.sh"]);
    assert!(shown.contains("exit 2"), "{shown}");
    assert_eq!(world.count("greet", "landed"), 1);
    assert_eq!(world.count_of("refused"), 0);
}

#[test]
fn another_machine_takes_over_what_a_killed_worker_had() {
    let world = World::with_settings(PLAIN);
    world.crew(&waits_for_a_sign(&world));
    add(&world, "one", "");
    let server = Server::start(&world);
    let east = Machine::new(&world, &server, "east");
    let west = Machine::new(&world, &server, "west");
    let killed = east.worker(&[]);
    until("the builder has begun", || begun(&world) == ["one"]);
    signal(killed.pid(), Signal::KILL);
    killed.wait(Duration::from_secs(10));
    let _other = west.worker(&[]);
    until("another has begun", || begun(&world) == ["one", "one"]);
    world.put("go", "");
    until_stage(&world, "one", "done");
    assert_eq!(world.count("one", "lease_lost"), 1);
    assert_eq!(world.count("one", "submitted"), 1);
    world.must_be_sound();
}

#[test]
fn a_worker_outlives_a_server_that_is_away_for_longer_than_its_lease() {
    let world = World::with_settings(PLAIN);
    world.crew(&waits_for_a_sign(&world));
    add(&world, "one", "");
    let server = Server::start(&world);
    let address = server.address.clone();
    let east = Machine::new(&world, &server, "east");
    let mut worker = east.worker(&[]);
    until("the builder has begun", || begun(&world) == ["one"]);
    signal(server.pid(), Signal::KILL);
    assert!(!reached(PAST_THE_LEASE, || worker.has_ended()));
    let again = world.start(&["serve", "--listen", &address]);
    world.put("go", "");
    until_stage(&world, "one", "done");
    assert_eq!(begun(&world), ["one"], "nobody is paid twice");
    assert_eq!(world.count("one", "submitted"), 1);
    assert_eq!(world.count("one", "lease_lost"), 0);
    drop(again);
    world.must_be_sound();
}

#[test]
fn a_report_whose_answer_is_lost_is_looked_up_and_counts_once() {
    let world = World::with_settings(PLAIN);
    world.put("go", "");
    world.crew(&waits_for_a_sign(&world));
    add(&world, "one", "");
    let server = Server::start(&world);
    let cut = Arc::new(AtomicUsize::new(0));
    let url = way(&server.address, "\"event\":\"submitted\"", Arc::clone(&cut));
    let east = Machine {
        url: &url,
        ..Machine::new(&world, &server, "east")
    };
    let _worker = east.worker(&[]);
    until_stage(&world, "one", "done");
    assert_eq!(cut.load(Ordering::SeqCst), 1);
    assert_eq!(begun(&world), ["one"]);
    assert_eq!(world.count("one", "submitted"), 1);
    assert_eq!(world.count_of("refused"), 0);
    world.must_be_sound();
}

/// A way to the server on which the answer to the first call with these words is lost.
pub fn way(server: &str, words: &'static str, cut: Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = server.to_owned();
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let Ok(far) = TcpStream::connect(&server) else {
                continue;
            };
            let (back, lost) = (
                (far.try_clone().unwrap(), near.try_clone().unwrap()),
                Arc::new(AtomicBool::new(false)),
            );
            let (cut, told) = (Arc::clone(&cut), Arc::clone(&lost));
            std::thread::spawn(move || {
                pass(near, far, |text| {
                    let first = || cut.fetch_add(1, Ordering::SeqCst) == 0;
                    let is_lost =
                        cut.load(Ordering::SeqCst) == 0 && text.contains(words) && first();
                    told.fetch_or(is_lost, Ordering::SeqCst);
                    true
                });
            });
            std::thread::spawn(move || pass(back.0, back.1, |_| !lost.load(Ordering::SeqCst)));
        }
    });
    url
}

/// Hands on what comes, for as long as it is let.
fn pass(mut from: TcpStream, mut to: TcpStream, mut lets: impl FnMut(&str) -> bool) {
    let (mut some, mut seen) = (vec![0; 1 << 16], String::new());
    while let Ok(count @ 1..) = from.read(&mut some) {
        seen.push_str(&String::from_utf8_lossy(&some[..count]));
        if !lets(&seen) || to.write_all(&some[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

#[test]
fn a_worker_that_is_not_let_in_says_so_and_ends() {
    let world = World::with_settings(PLAIN);
    world.crew(&waits_for_a_sign(&world));
    let server = Server::start(&world);
    let mut east = Machine::new(&world, &server, "east");
    let worker = east.worker(&[]);
    until("it is at work", || is_seen(&server));
    let tokens = world.json(&["token", "list"]);
    let mut tokens = tokens["items"].as_array().unwrap().iter();
    let own = tokens.find(|token| token["agent"] == "east").unwrap();
    let id = own["id"].as_str().unwrap();
    world.call(&["token", "revoke", id]).ends_with(0);
    let ran = worker.wait(Duration::from_secs(60)).ends_with(6);
    ran.says("revoked");
    east.token = "cs_nobody".to_owned();
    let ran = east.worker(&[]).wait(Duration::from_secs(30));
    ran.ends_with(6).says("not known");
    east.token = server.token("bea", "builder", &[]);
    let ran = east.worker(&[]).wait(Duration::from_secs(30));
    ran.ends_with(6).says("the role builder cannot be a worker");
    let refused = |words: &[&str]| east.worker(words).wait(Duration::from_secs(30));
    let ran = refused(&["--database", "/nowhere/x.db"]);
    ran.ends_with(2).says("--server none");
    let nowhere = Machine {
        url: "http://127.0.0.1:1",
        ..Machine::new(&world, &server, "west")
    };
    let ran = nowhere.worker(&[]).wait(Duration::from_secs(30));
    ran.ends_with(7).says("that --server has its address");
    let data = world.data.display().to_string();
    let token = format!("COUNTERSIGN_TOKEN={}", server.token);
    let words = ["--server", &server.url, "worker"];
    let ran = world.call_behind(&["env", &token], &words).ends_with(2);
    ran.says(&format!("a server runs on the data directory {data}"));
}

fn is_seen(server: &Server<'_>) -> bool {
    let reply = server.rest("GET", "/api/v1/agents", &Value::Null);
    reply.body.contains("east-1")
}

#[test]
fn an_agent_on_such_a_machine_is_told_of_the_server_and_may_speak_of_its_job() {
    let settings = SETTINGS.replace(
        "[policy.limits]",
        "[policy]\nsandbox = \"off\"\n\n[policy.limits]",
    );
    let world = World::with_settings(&settings);
    let file = world.root().join("told").display().to_string();
    let note = format!("echo $COUNTERSIGN_SERVER $COUNTERSIGN_TOKEN > {file}");
    let mut steps = builds("greet.sh", GOOD);
    steps.insert(0, runs(&note));
    let wait = format!("until [ -e {file}.go ]; do sleep 0.05; done");
    steps.insert(1, runs(&wait));
    world.crew(&crew(
        &always(steps),
        &always(approves()),
        &always(verifies(&[])),
    ));
    add(&world, "greet", "");
    let server = Server::start(&world);
    let east = Machine::new(&world, &server, "east");
    let _worker = east.worker(&[]);
    let mut told = String::new();
    until("the builder has begun", || {
        told = fs::read_to_string(&file).unwrap_or_default();
        told.ends_with('\n')
    });
    let (url, token) = told.trim().split_once(' ').unwrap();
    assert_eq!(url, server.url);
    server.tool(token, "heartbeat", &json!({})).unwrap();
    assert!(server.tool(token, "wait_for_work", &json!({})).is_err());
    let body = json!({"now": {}}).to_string();
    server
        .rest_as(token, "POST", "/api/v1/worker", &body)
        .is(403);
    world.put("told.go", "");
    until_stage(&world, "greet", "done");
    // It has ended with its run.
    server
        .rest_as(token, "POST", "/api/v1/worker", &body)
        .is(401);
}
