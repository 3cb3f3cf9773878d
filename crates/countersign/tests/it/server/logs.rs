//! The log of a server and of a worker, as an operator reads it.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::crew::{always, built_by, runs};
use crate::support::processes::signal;
use crate::support::server::Server;
use crate::support::{Running, SETTINGS, World, until};

/// The lines of a server's log, each an object.
fn lines(server: &Server<'_>) -> Vec<Value> {
    parsed(&server.log())
}

fn parsed(log: &str) -> Vec<Value> {
    // The last line may be half written.
    let whole = log.rfind('\n').map_or("", |end| &log[..end]);
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    whole.lines().map(parse).collect()
}

fn find(server: &Server<'_>, what: &str, matches: impl Fn(&Value) -> bool) -> Value {
    let mut found = Value::Null;
    until(what, || {
        found = lines(server).into_iter().find(&matches).unwrap_or_default();
        !found.is_null()
    });
    found
}

#[test]
fn every_request_is_one_json_object_with_its_caller_route_and_status() {
    let world = World::new();
    let server = Server::start_with(&world, &["--log-format", "json"]);
    let human = server.token("eve", "human", &[]);
    let bearer = format!("Bearer {human}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("X-Request-Id", "req-7"),
    ];
    let reply = server
        .send("GET", "/api/v1/tickets/none", &headers, "")
        .is(404);
    assert!(
        reply
            .head
            .to_ascii_lowercase()
            .contains("x-request-id: req-7"),
        "{}",
        reply.head
    );
    let line = find(&server, "the request is logged", |line| {
        line["id"] == "req-7"
    });
    assert_eq!(line["level"], "INFO", "{line}");
    assert_eq!(line["target"], "request");
    assert_eq!(line["caller"], "eve");
    assert_eq!(line["method"], "GET");
    assert_eq!(line["route"], "/api/v1/tickets/{ticket}");
    assert_eq!(line["status"], 404);
    assert!(line["duration_ms"].is_u64(), "{line}");
    let time = line["timestamp"].as_str().unwrap();
    assert!(
        time.len() == 24 && time.ends_with('Z') && &time[10..11] == "T",
        "{time}"
    );
    // Without a token there is no caller, and a probe that succeeds is not worth a line.
    server.send("GET", "/api/v1/tickets", &[], "").is(401);
    let line = find(&server, "the stranger is logged", |line| {
        line["status"] == 401
    });
    assert_eq!(line["caller"], Value::Null, "{line}");
    server.send("GET", "/healthz", &[], "").is(200);
    assert!(
        !lines(&server)
            .iter()
            .any(|line| line["route"] == "/healthz")
    );
}

#[test]
fn what_was_decided_just_before_the_stop_is_in_the_log() {
    let world = World::new();
    let mut running = world.start(&["serve", "--listen", "127.0.0.1:0", "--log-format", "json"]);
    let path = world.data.join("server.json");
    until("it is served", || path.exists());
    let place = world.put("greet.md", "---\nid: greet\n---\n# Greet\n");
    world.call(&["ticket", "add", &place]).ends_with(0);
    let why = ["ticket", "cancel", "greet", "--why", "no longer wanted"];
    world.call(&why).ends_with(0);
    signal(running.pid(), Signal::TERM);
    until("it has ended", || running.has_ended());
    let log = parsed(&running.log());
    let told = log.iter().any(|line| line["event"] == "cancelled");
    assert!(told, "{log:?}");
}

#[test]
fn text_lines_begin_with_the_date_and_the_level() {
    let world = World::new();
    let server = Server::start(&world);
    let eve = server.token("eve", "human", &[]);
    server.rest_as(&eve, "GET", "/api/v1/tickets", "").is(200);
    let is_request = |line: &&str| line.contains("route=\"/api/v1/tickets\"");
    until("the request is logged", || {
        server
            .log()
            .lines()
            .any(|line| is_request(&line) && line.contains("status=200"))
    });
    let log = server.log();
    let line = log.lines().find(is_request).unwrap();
    assert_eq!(&line[10..11], "T", "{line}");
    assert_eq!(&line[23..30], "Z  INFO", "{line}");
    assert!(line.contains("caller=\"eve\""), "{line}");
}

#[test]
fn a_job_that_fails_is_one_error_with_its_ticket_and_its_job() {
    let world = World::with_settings(&format!("{SETTINGS}retries_max = 0\n"));
    let worker = fails(&world, "Break", &["--log-format", "json"]);
    let errors: Vec<Value> = parsed(&worker.log())
        .into_iter()
        .filter(|line| line["level"] == "ERROR")
        .collect();
    assert_eq!(errors.len(), 1, "{errors:#?}");
    let error = &errors[0];
    assert_eq!(error["ticket"], "broken", "{error:#}");
    assert_eq!(error["job"], 1);
    assert_eq!(error["kind"], "build");
    assert_eq!(error["round"], 1);
    assert!(
        error["fence"].is_u64() && error["worker"].is_string(),
        "{error:#}"
    );
}

/// Adds the ticket `broken` and waits until a worker's builder has failed on it.
fn fails(world: &World, title: &str, words: &[&str]) -> Running {
    let ticket = world.put("t.md", format!("---\nid: broken\n---\n# {title}\n"));
    world.call(&["ticket", "add", &ticket]).ends_with(0);
    let steps = vec![
        runs("echo \"token $COUNTERSIGN_TOKEN\"; printf '\\033[31mred\\033[0m\\n'"),
        json!({"exit": 3}),
    ];
    let crew = world.crew(&built_by(&always(steps)));
    let who = ["worker", "--builder", &crew, "--reviewer", &crew];
    let worker = world.start(&[&who, words].concat());
    until("the job has failed", || {
        world.stage("broken") == "escalated" && worker.log().contains("job failed")
    });
    worker
}

#[test]
fn no_token_and_no_control_character_is_in_a_log_at_the_level_trace() {
    let mut world = World::with_settings(&format!("{SETTINGS}retries_max = 0\n"));
    let key = "sk-0123456789abcdef";
    let more = [("RUST_LOG", "trace"), ("ANTHROPIC_API_KEY", key)];
    let more = more.map(|(name, value)| (name.to_owned(), value.to_owned()));
    world.variables.extend(more);
    let server = Server::start(&world);
    let eve = server.token("eve", "human", &[]);
    let bearer = format!("Bearer {eve}");
    let headers = [("Authorization", bearer.as_str()), ("X-Other", key)];
    let path = format!("/api/v1/tickets?token={eve}");
    server.send("GET", &path, &headers, &eve).is(400);
    server.send("GET", &format!("/none/{eve}"), &headers, "");
    until("a path with a token is logged", || {
        server.log().contains("route=\"/none/")
    });
    let body =
        json!({"id": "t-1", "title": format!("\u{1b}[2J{eve}{key}"), "repository": "/nowhere"});
    server.rest_as(&eve, "POST", "/api/v1/tickets", &body.to_string());
    let tool = json!({"message": eve});
    server.mcp(
        &eve,
        "tools/call",
        &json!({"name": "send_message", "arguments": tool}),
    );
    let worker = fails(&world, "Break \u{1b}[31mit\u{202e}", &[]);
    let events = world.events("broken");
    assert!(events.contains(&"token_created".to_owned()), "{events:?}");
    // Libraries log at this level too.
    assert!(server.log().contains("TRACE"));
    let token = regex::Regex::new("cs_[0-9a-f]{64}").unwrap();
    for log in [server.log(), worker.log()] {
        assert!(log.contains("DEBUG"), "{log}");
        for secret in [eve.as_str(), server.token.as_str(), key] {
            assert!(!log.contains(secret), "{secret} is in the log");
        }
        assert!(!token.is_match(&log));
        let hidden = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        let line = log.lines().find(|line| line.contains(hidden));
        assert_eq!(line, None);
    }
}

#[test]
fn the_level_and_rust_log_choose_what_is_logged() {
    let mut world = World::new();
    let server = Server::start_with(&world, &["--log-level", "debug"]);
    server.send("GET", "/healthz", &[], "").is(200);
    until("a probe is logged", || server.log().contains("/healthz"));
    drop(server);
    world
        .variables
        .push(("RUST_LOG".to_owned(), "request=debug".to_owned()));
    let server = Server::start(&world);
    server.send("GET", "/healthz", &[], "").is(200);
    until("a probe is logged", || server.log().contains("/healthz"));
    assert!(!server.log().contains("listening"), "{}", server.log());
    drop(server);
    // The flag goes before the variable.
    let server = Server::start_with(&world, &["--log-level", "error"]);
    server.send("GET", "/api/v1/tickets", &[], "").is(401);
    assert_eq!(server.log(), "");
}

#[test]
fn a_level_that_is_none_is_a_usage_error_and_a_bad_filter_a_warning() {
    let mut world = World::new();
    world
        .call(&["ticket", "list", "--log-level", "loud"])
        .ends_with(2)
        .says("'loud'")
        .says("off, error, warn, info, debug, trace");
    world
        .call(&["ticket", "list", "--log-format", "xml"])
        .ends_with(2)
        .says("text, json");
    world
        .variables
        .push(("RUST_LOG".to_owned(), "engine=loud=x".to_owned()));
    world
        .call(&["ticket", "list"])
        .ends_with(0)
        .says(" WARN ")
        .says("ignored RUST_LOG");
}

#[test]
fn a_run_tells_of_a_failed_job_itself_and_logs_it_where_asked() {
    let world = World::with_settings(&format!("{SETTINGS}retries_max = 0\n"));
    let crew = world.crew(&built_by(&always(vec![json!({"exit": 3})])));
    let words = ["run", "Break it", "--builder", &crew, "--reviewer", &crew];
    let quiet = world.call(&words).ends_with(4);
    assert!(!quiet.err.contains("ERROR"), "{}", quiet.err);
    let log = ["--log-level", "info", "--log-format", "json"];
    let words = [
        "run",
        "Break another",
        "--builder",
        &crew,
        "--reviewer",
        &crew,
    ];
    let told = world.call(&[&words[..], &log].concat()).ends_with(4);
    let lines = parsed(&told.err);
    let has = |message: &str| lines.iter().any(|line| line["message"] == message);
    assert!(
        has("job started") && has("process ended") && has("job failed"),
        "{}",
        told.err
    );
}
