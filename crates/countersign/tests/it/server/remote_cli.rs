//! The command line, asked here and asked of a server: the same commands, the same words.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;

use super::tls::Certificate;
use crate::story::greet;
use crate::support::crew::quarrel;
use crate::support::server::Server;
use crate::support::{DEADLINE, Ran, World};

/// Asks the server, as the person that the token is of.
fn afar(world: &World, server: &Server<'_>, words: &[&str]) -> Ran {
    let token = format!("COUNTERSIGN_TOKEN={}", server.token);
    let words = [&["--server", &server.url][..], words].concat();
    world.call_behind(&["env", &token], &words)
}

/// How it ended, and every byte that was said.
fn whole(ran: Ran) -> (i32, String, String) {
    (ran.code, ran.out, ran.err)
}

#[track_caller]
fn must_be_alike(world: &World, server: &Server<'_>, words: &[&str]) {
    let here = whole(world.call(words));
    assert!(!here.1.is_empty() || !here.2.is_empty(), "{words:?}");
    assert_eq!(whole(afar(world, server, words)), here, "{words:?}");
}

const EPIC: &str = "id: words\ntitle: Kind words\ntickets:\n  - id: hello\n    title: Say hello\n";

#[test]
fn what_is_asked_is_answered_alike_here_and_afar() {
    let world = World::new();
    greet(&world, &quarrel()).ends_with(4);
    let epic = world.put("epic.yaml", EPIC);
    world.call(&["import", &epic]).ends_with(0);
    let server = Server::start(&world);
    for words in [
        &["status", "--all"][..],
        &["ticket", "list", "--all"],
        &[
            "ticket",
            "list",
            "--all",
            "--stage",
            "escalated",
            "--stage",
            "done",
        ],
        &["ticket", "list", "--all", "--limit", "1"],
        &["ticket", "show", "greet"],
        &["ticket", "show", "nobody"],
        &["ticket", "show", "no such/id"],
        &["ticket", "diff", "greet"],
        &["ticket", "diff", "greet", "--round", "1"],
        &["escalation", "list"],
        &["escalation", "show", "greet"],
        &["escalation", "show", "hello"],
        &["epic", "list"],
        &["epic", "show", "words"],
        &["epic", "show", "nobody"],
        &["epic", "accept", "words", "--why", "done"],
        &["log"],
        &["log", "greet", "--limit", "3"],
        &["log", "greet", "--after", "0.0"],
        &["log", "nobody"],
        &["export", "--as", "task", "greet", "hello"],
        &["export", "--as", "findings", "greet", "--round", "1"],
        &["export", "--as", "report", "hello"],
        &["insights"],
        &["token", "list"],
        &["token", "revoke", "nobody"],
        &["ticket", "waive", "greet", "F9", "--why", "no such thing"],
        &["escalation", "resolve", "greet", "accept"],
    ] {
        must_be_alike(&world, &server, words);
        must_be_alike(&world, &server, &[words, &["--json"]].concat());
    }
}

#[test]
fn what_is_done_is_done_alike_here_and_afar() {
    let (near, far) = (World::new(), World::new());
    for world in [&near, &far] {
        greet(world, &quarrel()).ends_with(4);
    }
    // Both are served: what happens next with a ticket is told by the server that runs.
    let _near = Server::start(&near);
    let server = Server::start(&far);
    let task = "---\nid: wave\ndepends_on: [bow]\n---\n# Wave\n";
    for words in [
        &["ticket", "add", "Bow to the user and smile", "wave.md"][..],
        &["ticket", "new", "Nod at the user", "--no-edit"],
        &["import", "epic.yaml"],
        &[
            "ticket", "budget", "greet", "--usd", "2.50", "--why", "dear",
        ],
        &["ticket", "waive", "greet", "F1", "--why", "ours alone"],
        &["ticket", "cancel", "hello", "--why", "no longer"],
        &["ticket", "cancel", "hello"],
        &["escalation", "resolve", "greet", "take-over"],
        &["escalation", "resolve", "greet", "reject", "--why", "no"],
        &["ticket", "list", "--all"],
        &["status", "--all"],
    ] {
        for world in [&near, &far] {
            world.write("wave.md", &task.replace("bow", "bow-to-the-user-and-smile"));
            world.write("epic.yaml", EPIC);
        }
        let here = near.call(words);
        let there = afar(&far, &server, words);
        assert_eq!(whole(there), whole(here), "{words:?}");
    }
    let by = far.json(&["log", "greet", "--limit", "1"])["events"][0]["by"].take();
    assert_eq!(by, "ada");
    far.must_be_sound();
}

#[test]
fn tokens_are_made_and_ended_from_afar_by_administrators_only() {
    let world = World::new();
    let server = Server::start(&world);
    let made = afar(
        &world,
        &server,
        &["token", "create", "--agent", "bea", "--role", "human"],
    );
    let secret = made.ends_with(0).out.trim().to_owned();
    let token = format!("COUNTERSIGN_TOKEN={secret}");
    let ask = |words: &[&str]| {
        let words = [&["--server", &server.url][..], words].concat();
        world.call_behind(&["env", &token], &words)
    };
    ask(&["status"]).ends_with(0);
    ask(&["token", "list"]).ends_with(6).says("may not do this");
    let id = world.json(&["token", "list"])["items"].clone();
    let id = id
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["agent"] == "bea");
    let id = id.unwrap()["id"].as_str().unwrap().to_owned();
    afar(&world, &server, &["token", "revoke", &id]).ends_with(0);
    ask(&["status"]).ends_with(6).says("was revoked");
}

#[test]
fn the_log_is_followed_from_afar() {
    let world = World::new();
    let server = Server::start(&world);
    server.add("one");
    let ((input, _to), (from, output)) = (std::io::pipe().unwrap(), std::io::pipe().unwrap());
    let token = [format!("COUNTERSIGN_TOKEN={}", server.token)];
    let words = ["--server", &server.url, "log", "--follow"];
    let running = world.start_between(&token, &words, (input, output));
    let mut lines = BufReader::new(from).lines().map(Result::unwrap);
    assert!(lines.by_ref().any(|line| line.contains("  one  ")));
    server.add("two");
    assert!(lines.by_ref().any(|line| line.contains("  two  ")));
    drop(lines);
    running.wait(DEADLINE).ends_with(0);
}

#[test]
fn what_is_done_on_a_machine_itself_says_so() {
    let world = World::new();
    let url = ["--server", "https://build.example"];
    for words in [
        &["run", "greet"][..],
        &["review", "main"],
        &["init"],
        &["demo"],
        &["doctor"],
        &["serve"],
        &["watch", "--once"],
        &["ticket", "resubmit", "greet"],
        &["log", "--transcript"],
    ] {
        let words = [&url[..], words].concat();
        let ran = world.call(&words).ends_with(2);
        ran.says("works only on the local store")
            .says("--server none");
    }
    world.call(&["--server", "none", "status"]).ends_with(0);
    let ran = world.call(&["--server", "http://build.example", "status"]);
    ran.ends_with(2).says("unencrypted");
    world
        .call(&["--server", "https://build.example", "status"])
        .ends_with(2)
        .says("no token is set");
}

#[test]
fn a_server_that_is_not_there_is_said_so() {
    let world = World::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let url = format!("http://127.0.0.1:{port}");
    let ran = world.call_behind(
        &["env", "COUNTERSIGN_TOKEN=cs_1"],
        &["--server", &url, "status"],
    );
    ran.ends_with(7).says("cannot be reached");
}

#[test]
fn the_users_own_file_names_the_server_and_is_closed_to_others() {
    let world = World::new();
    let certificate = Certificate::new(&world);
    let server = Server::start_with(&world, &certificate.words());
    let away = World::new();
    let (url, token) = (&server.url, &server.token);
    let trusted = certificate.file.to_str().unwrap();
    let name = ".config/countersign/server.toml";
    away.put_home(
        name,
        &format!("url = {url:?}\ntoken = {token:?}\ncertificate = {trusted:?}\n"),
    );
    let path = away.root().join("home").join(name);
    let mode = |mode: u32| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o644);
    away.call(&["status"])
        .ends_with(2)
        .says("other users can read");
    mode(0o600);
    away.call(&["ticket", "add", "Greet the user by name"])
        .ends_with(0);
    let added = world.json(&["ticket", "list", "--all"])["tickets"][0].take();
    assert_eq!(added["title"], "Greet the user by name");
    // For another server that token is not.
    let ran = away.call(&["--server", "https://build.example", "status"]);
    ran.ends_with(2).says("no token is set");
}
