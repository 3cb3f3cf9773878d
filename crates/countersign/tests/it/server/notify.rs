//! Notifications: over HTTP, by a command, in a channel.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use super::tls::Certificate;
use super::{Clone, assignment, submit};
use crate::support::crew::{always, builds, crew, empty_name, rejects, verifies};
use crate::support::listener::{Got, Listener};
use crate::support::server::Server;
use crate::support::{SETTINGS, TICKET, World, reached, until};
use crate::workers::database::Database;

const OK: &str = "200 OK";
const BROKEN: &str = "503 Service Unavailable";

/// The user's own configuration.
fn own(world: &World, text: &str) {
    world.put_home(".config/countersign/config.toml", text);
}

fn webhook(name: &str, listener: &Listener, more: &str) -> String {
    let url = &listener.url;
    format!("[[notify]]\nname = \"{name}\"\nkind = \"webhook\"\nurl = \"{url}\"\n{more}\n")
}

/// Signed as Standard Webhooks are, with the key of the test.
#[track_caller]
fn must_be_signed(got: &Got) {
    let (id, at) = (got.header("webhook-id"), got.header("webhook-timestamp"));
    let content = format!("{id}.{at}.{}", got.body);
    let signature = engine::secret::hmac_base64(b"the key", content.as_bytes());
    assert_eq!(got.header("webhook-signature"), format!("v1,{signature}"));
    assert_eq!(got.json()["data"]["id"], id.as_str());
}

#[test]
fn a_webhook_is_signed_tried_again_and_not_repeated_after_a_restart() {
    let mut world = World::new();
    let key = ("OPS_KEY".to_owned(), "the key".to_owned());
    world.variables.push(key);
    let listener = Listener::new(|before| Some(if before == 0 { BROKEN } else { OK }));
    let more = "secret_env = \"OPS_KEY\"\nevents = [\"created\"]";
    own(&world, &webhook("ops", &listener, more));
    let server = Server::start(&world);
    server.add("one");
    until("it is told twice", || listener.got().len() == 2);
    let got = listener.got();
    got.iter().for_each(must_be_signed);
    assert_eq!(got[0].body, got[1].body);
    assert_eq!(got[0].header("webhook-id"), got[1].header("webhook-id"));
    assert_eq!(got[1].json()["type"], "created");
    assert_eq!(got[1].json()["data"]["ticket"], "one");
    server.add("other");
    until("the next message arrives", || listener.got().len() == 3);
    // Killed, not stopped. What was told of before is not told again, the last may be.
    drop(server);
    world
        .call(&["ticket", "add", "While nobody serves"])
        .ends_with(0);
    let server = Server::start(&world);
    server.add("two");
    let after = || -> Vec<String> {
        let mut got = listener.got()[2..].to_vec();
        got.dedup_by_key(|got| got.header("webhook-id"));
        let ticket = |got: &Got| got.json()["data"]["ticket"].as_str().unwrap().to_owned();
        got.iter().map(ticket).collect()
    };
    until("the others are told of", || after().len() >= 3);
    let after = after();
    assert!(after[1].starts_with("while-nobody"), "{after:?}");
    assert_eq!(
        (&*after[0], &after[2..]),
        ("other", &["two".to_owned()][..])
    );
}

#[test]
fn a_silent_target_holds_up_nobody_and_is_told_by_the_next_server() {
    let world = World::new();
    let silent = Listener::new(|before| (before > 0).then_some(OK));
    let quick = Listener::new(|_| Some(OK));
    let text = webhook(
        "silent",
        &silent,
        "events = [\"created\"]\ntimeout_secs = 300",
    ) + &webhook("quick", &quick, "events = [\"created\"]");
    own(&world, &text);
    let server = Server::start(&world);
    server.add("one");
    until("the silent one is being told", || silent.got().len() == 1);
    let builder = server.token("bea", "builder", &[]);
    for name in ["two", "three", "four"] {
        server.add(name);
    }
    assert!(reached(Duration::from_secs(60), || quick.got().len() == 4));
    let work = server
        .tool(&builder, "get_my_assignment", &json!({}))
        .unwrap();
    assert_eq!(work["assignment"]["ticket"], "one");
    assert_eq!(silent.got().len(), 1);
    drop(server);
    // The dead server's place is free when its lease has run out.
    let text = webhook(
        "silent",
        &silent,
        "events = [\"created\"]\ntimeout_secs = 1",
    );
    own(&world, &text);
    let _server = Server::start(&world);
    until("all messages arrive", || silent.got().len() == 5);
    let ids = |n: usize| silent.got()[n].header("webhook-id");
    assert_eq!(ids(0), ids(1));
}

#[test]
fn a_dead_target_is_given_up_and_that_is_noted_once() {
    let world = World::new();
    let listener = Listener::new(|before| Some(if before < 4 { BROKEN } else { OK }));
    own(
        &world,
        &webhook("ops", &listener, "events = [\"created\"]\ntries_max = 2"),
    );
    let server = Server::start(&world);
    for (name, tries) in [("one", 2), ("two", 3), ("three", 4), ("four", 5)] {
        server.add(name);
        until("it is tried", || listener.got().len() == tries);
    }
    until("it is back", || {
        world.count_of("notification_target_back") == 1
    });
    assert_eq!(world.count_of("notification_given_up"), 1);
    let log = world.call(&["log"]);
    log.says("could not deliver evt_")
        .says("3 messages were lost");
}

#[test]
fn a_command_has_the_message_on_its_input_and_a_clean_environment() {
    let mut world = World::new();
    for name in ["OPS_TOKEN", "OPS_WANTED"] {
        world.variables.push((name.to_owned(), "x".to_owned()));
    }
    let (said, seen) = (world.put("said", ""), world.put("seen", ""));
    let script = format!("env > {seen}; cat >> {said}");
    let text = format!(
        "[[notify]]\nname = \"own\"\nkind = \"command\"\ncommand = [\"sh\", \"-c\", {}]\nenv = [\"OPS_WANTED\"]\nevents = [\"created\"]\n",
        json!(script)
    );
    own(&world, &text);
    let server = Server::start(&world);
    server.add("one");
    until("it is told", || {
        fs::read_to_string(&said)
            .unwrap()
            .contains("\"ticket\":\"one\"")
    });
    let seen = fs::read_to_string(seen).unwrap();
    assert!(
        seen.contains("OPS_WANTED=x") && !seen.contains("OPS_TOKEN"),
        "{seen}"
    );
}

#[test]
fn a_review_is_told_in_the_words_that_its_watchers_look_for() {
    let world = World::with_settings(&format!("{SETTINGS}\n[policy]\nmax_rounds = 1\n"));
    let listener = Listener::new(|_| Some(OK));
    let more =
        "events = [\"submitted_review_result\", \"verdict\", \"escalated_for_human_review\"]";
    own(&world, &webhook("ops", &listener, more));
    let server = Server::start(&world);
    let builder = server.token("bea", "builder", &[]);
    let reviewer = server.token("rex", "reviewer", &[]);
    server.add("greet");
    let work = Clone::new(&world, "greet");
    let build = assignment(&server, &builder, "build");
    work.commit("greet.sh", "echo \"Hello, $1\"\n");
    submit(&server, &builder, &build);
    assignment(&server, &reviewer, "review");
    let verdict = json!({"approved": false, "feedback": "an empty name must be an error"});
    server
        .tool(&reviewer, "submit_review_result", &verdict)
        .unwrap();
    until("all is told", || listener.got().len() == 3);
    let got: Vec<_> = listener.got().iter().map(Got::json).collect();
    assert_eq!(got[0]["type"], "submitted_review_result");
    assert_eq!(got[0]["data"]["context"]["review_attempt"], 1);
    let text = got[1]["data"]["text"].as_str().unwrap();
    assert!(text.starts_with("[REVIEW-REJECTED] attempt 1/1"), "{text}");
    assert_eq!(got[2]["type"], "escalated_for_human_review");
    let data = &got[2]["data"];
    assert!(
        data["text"]
            .as_str()
            .unwrap()
            .starts_with("[REVIEW-ESCALATION] ")
    );
    assert_eq!(data["severity"], "urgent");
    let context = &data["context"];
    assert_eq!(context["escalated"], true, "{context:#}");
    assert_eq!(context["max_cycles"], 1);
    assert!(context["feedback"].as_str().unwrap().contains("empty name"));
    assert!(
        context["choices"]
            .as_array()
            .unwrap()
            .contains(&json!("accept"))
    );
    assert_eq!(context["findings"].as_array().unwrap().len(), 1);
    // The same in the activity log and in the server's own.
    let log = world.json(&["log", "greet"]);
    let events = log["events"].as_array().unwrap();
    let activity = |name: &str| events.iter().find(|one| one["activity"] == name).unwrap();
    assert_eq!(activity("escalated_for_human_review")["context"], *context);
    assert_eq!(
        activity("submitted_review_result")["context"]["status"],
        "escalated"
    );
    until("the server says so too", || {
        let log = server.log();
        let says = |text: &str| {
            let mut lines = log.lines();
            lines.any(|line| line.contains(text) && line.contains("ticket=greet"))
        };
        says("[REVIEW-REJECTED] attempt 1/1") && says("[REVIEW-ESCALATION]")
    });
}

#[test]
fn a_run_tells_of_an_escalation_before_it_ends() {
    let world = World::with_settings(&format!("{SETTINGS}\n[policy]\nmax_rounds = 1\n"));
    let listener = Listener::new(|_| Some(OK));
    let url = world.put("address", format!("{}\n", listener.url));
    own(
        &world,
        &format!("[[notify]]\nname = \"chat\"\nkind = \"slack\"\nurl_file = \"{url}\"\n"),
    );
    world.write("greet.md", TICKET);
    let script = crew(
        &always(builds("greet.sh", "echo \"Hello, $1\"\n")),
        &always(rejects([empty_name("high")])),
        &always(verifies(&[("F1", "confirmed")])),
    );
    let agent = world.crew(&script);
    let words = ["run", "greet.md", "--builder", &agent, "--reviewer", &agent];
    world.call(&words).ends_with(4);
    let got = listener.got();
    assert_eq!(got.len(), 1, "{got:?}");
    let text = got[0].json()["text"].as_str().unwrap().to_owned();
    assert!(
        text.starts_with(":rotating_light: *greet*  [REVIEW-ESCALATION]"),
        "{text}"
    );
}

#[test]
fn targets_are_tried_out_shown_without_secrets_and_not_for_a_project() {
    let world = World::new();
    let well = Listener::new(|_| Some(OK));
    let moved = Listener::new(|_| Some("302 Found\r\nLocation: http://127.0.0.1:1/"));
    let text = webhook("well", &well, "") + &webhook("moved", &moved, "");
    own(&world, &text);
    let tried = world.call(&["doctor", "--notify"]).ends_with(1);
    let tried = tried.says("ok  well       200 ok");
    tried.says("302 ok (redirects are not followed)");
    assert_eq!((well.got().len(), moved.got().len()), (1, 1));
    assert_eq!(well.got()[0].json()["type"], "test");
    world.call(&["doctor", "--notify", "well"]).ends_with(0);
    world.call(&["doctor", "--notify", "nobody"]).ends_with(2);
    let shown = world.json(&["config", "show"]);
    assert!(shown.to_string().contains("\"well\""));
    assert!(!shown.to_string().contains("/hook"), "{shown}");
    let settings = format!("{}\n{SETTINGS}", webhook("evil", &well, ""));
    world.write("countersign.toml", &settings);
    world.commit("Reach out");
    world.write("greet.md", TICKET);
    let refused = world.call(&["run", "greet.md", "--builder", "command:true"]);
    refused
        .ends_with(2)
        .says("[[notify]] is not allowed in a project's file");
}

#[test]
fn what_is_wrong_with_a_target_is_said_before_anything_is_served() {
    let world = World::new();
    let missing = "[[notify]]\nname = \"ops\"\nkind = \"webhook\"\nurl = \"http://127.0.0.1:1/\"\nsecret_env = \"OPS_KEY\"\n";
    let cases = [
        ("[[notify]]\nname = \"ops\"\n", "has no `kind`"),
        (
            "[[notify]]\nname = \"ops\"\nkind = \"slack\"\n",
            "needs one of `url`",
        ),
        (
            "[[notify]]\nname = \"a/b\"\nkind = \"slack\"\nurl = \"http://x/\"\n",
            "needs a `name`",
        ),
        (
            "[[notify]]\nname = \"ops\"\nkind = \"webhook\"\nurl = \"http://x/\"\nsecret = \"s\"\n",
            "unknown key `secret`",
        ),
        (
            "[[notify]]\nname = \"ops\"\nkind = \"slack\"\nurl = \"ftp://x/\"\n",
            "does not start with http:// or https://",
        ),
        (missing, "OPS_KEY for its secret is not set"),
    ];
    for (text, why) in cases {
        own(&world, text);
        let ran = world.call(&["serve", "--listen", "127.0.0.1:0"]);
        ran.ends_with(2).says(why);
    }
}

#[test]
fn a_target_over_tls_is_believed_where_its_own_file_says_so() {
    let mut world = World::new();
    let key = ("OPS_KEY".to_owned(), "the key".to_owned());
    world.variables.push(key);
    let certificate = Certificate::new(&world);
    let files = (certificate.file.as_path(), certificate.key.as_path());
    let listener = Listener::over_tls(files, |_| Some(OK));
    let more = "secret_env = \"OPS_KEY\"\nevents = [\"created\"]";
    own(&world, &webhook("ops", &listener, more));
    let tried = world.call(&["doctor", "--notify"]).ends_with(1);
    tried.says("could not reach the target").says("ertificate");
    assert_eq!(listener.got().len(), 0);
    let file = certificate.file.display();
    let more = format!("{more}\nca_file = \"{file}\"");
    own(&world, &webhook("ops", &listener, &more));
    world.call(&["doctor", "--notify"]).ends_with(0);
    let server = Server::start(&world);
    server.add("one");
    until("it is told", || listener.got().len() == 2);
    let got = listener.got();
    assert_eq!(got[1].json()["data"]["ticket"], "one");
    must_be_signed(&got[1]);
    let missing = more.replace("cert.pem", "none.pem");
    own(&world, &webhook("ops", &listener, &missing));
    world
        .call(&["serve", "--listen", "127.0.0.1:0"])
        .ends_with(2)
        .says("none.pem");
}

#[test]
fn a_target_whose_certificate_is_for_another_name_is_told_nothing() {
    let world = World::new();
    let certificate = Certificate::of(&world, &["elsewhere.example"]);
    let files = (certificate.file.as_path(), certificate.key.as_path());
    let listener = Listener::over_tls(files, |_| Some(OK));
    let file = certificate.file.display();
    let more = format!("events = [\"created\"]\ntries_max = 2\nca_file = \"{file}\"");
    own(&world, &webhook("ops", &listener, &more));
    let tried = world.call(&["doctor", "--notify"]).ends_with(1);
    tried
        .says("could not reach the target")
        .says("elsewhere.example");
    let server = Server::start(&world);
    server.add("one");
    until("it is given up", || {
        world.count_of("notification_given_up") == 1
    });
    let log = world.call(&["log"]);
    log.says("could not deliver evt_").says("elsewhere.example");
    assert_eq!(listener.got().len(), 0);
}

#[test]
fn two_servers_on_one_database_tell_a_target_once_also_when_one_is_killed() {
    let mut first = World::new();
    let Some(database) = Database::start(&mut first) else {
        return;
    };
    let first = database.world;
    let mut second = World::new();
    second.database.clone_from(&first.database);
    let silent = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&silent);
    let listener = Listener::new(move |_| (!asked.swap(false, Ordering::SeqCst)).then_some(OK));
    let more = "events = [\"created\"]\ntimeout_secs = 300";
    for world in [first, &second] {
        own(world, &webhook("ops", &listener, more));
    }
    let told = || -> Vec<String> {
        let ticket = |got: &Got| got.json()["data"]["ticket"].as_str().unwrap().to_owned();
        listener.got().iter().map(ticket).collect()
    };
    // The first server has the target; the other waits for its turn.
    let carries = Server::start(first);
    carries.add("one");
    until("it is told", || told() == ["one"]);
    let waits = Server::start(&second);
    for n in 0..5 {
        carries.add(&format!("a{n}"));
        waits.add(&format!("b{n}"));
    }
    until("all are told", || told().len() == 11);
    silent.store(true, Ordering::SeqCst);
    waits.add("held");
    until("it is being told", || told().len() == 12);
    // Killed in the middle of it: whether it arrived is not known, so it comes again, by its own id.
    drop(carries);
    until("the other goes on", || told().len() == 13);
    waits.add("last");
    until("and tells of what comes", || told().len() == 14);
    let mut told = told();
    assert_eq!(told[11..], ["held", "held", "last"]);
    let ids: Vec<String> = listener.got()[11..13]
        .iter()
        .map(|got| got.header("webhook-id"))
        .collect();
    assert_eq!(ids[0], ids[1]);
    told.dedup();
    let once: BTreeSet<&String> = told.iter().collect();
    assert_eq!(once.len(), told.len(), "{told:?}");
}
