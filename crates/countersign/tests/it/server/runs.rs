//! Agents that Countersign starts while a server runs: each has a token of its own, for its own run.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::crew::{
    GOOD, HASTY, always, approves, builds, crew, empty_name, rejects, rounds, runs, verifies,
};
use crate::support::server::Server;
use crate::support::{Ran, SETTINGS, TICKET, World};

/// Script of an agent that calls the server: it writes each answer to a file in its home, with its
/// secret reversed, because the plain secret would be redacted.
const CALLS: &str = r#"
import json, os, sys, urllib.request
home, secret = os.environ["HOME"], os.environ.get("COUNTERSIGN_TOKEN")
heard = {}
def call(method, params):
    words = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    head = {"Authorization": "Bearer " + secret, "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    url = os.environ["COUNTERSIGN_SERVER"] + "/mcp"
    asked = urllib.request.Request(url, json.dumps(words).encode(), head)
    text = urllib.request.urlopen(asked, timeout=60).read().decode()
    return json.loads(text[text.index("{"):])
if secret:
    open(home + "/secret", "w").write(secret[::-1])
    tools = call("tools/list", {})["result"]["tools"]
    heard["tools"] = [tool["name"] for tool in tools]
    for words in sys.argv[1:]:
        name, arguments = words.split(" ", 1)
        if name == "read":
            heard[words] = call("resources/read", {"uri": arguments})
            continue
        told = call("tools/call", {"name": name, "arguments": json.loads(arguments)})["result"]
        heard[words] = told.get("structuredContent") or told["content"][0]["text"]
open(home + "/heard.json", "w").write(json.dumps(heard))
print("a token" if secret else "no token")
"#;

/// A step that makes these calls.
fn calls(all: &[&str]) -> Value {
    let words: Vec<String> = all.iter().map(|words| format!("'{words}'")).collect();
    let script = CALLS.replace('\'', "\"");
    runs(&format!("python3 -I -c '{script}' {}", words.join(" ")))
}

fn with(first: Value, mut then: Vec<Value>) -> Vec<Value> {
    then.insert(0, first);
    then
}

fn greet(world: &World, crew: &Value) -> Ran {
    // The homes of agents are read after the run.
    let retention = "[retention]\nworking_files_days = 1\n";
    world.put_home(".config/countersign/config.toml", retention);
    let (ticket, agent) = (world.put("greet.md", TICKET), world.crew(crew));
    world.call(&["run", &ticket, "--builder", &agent, "--reviewer", &agent])
}

/// The homes of all runs of the ticket, in the order of their jobs.
fn homes(world: &World) -> Vec<PathBuf> {
    let jobs = world.data.join("tickets/greet/jobs");
    let below = |dir: &Path| {
        let entries = fs::read_dir(dir).into_iter().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    };
    let runs = below(&jobs).into_iter().flat_map(|job| below(&job));
    let homes = runs.map(|run| run.join("home"));
    homes
        .filter(|home| home.join("heard.json").exists())
        .collect()
}

fn heard(home: &Path) -> Value {
    serde_json::from_slice(&fs::read(home.join("heard.json")).unwrap()).unwrap()
}

fn secret(home: &Path) -> String {
    let backwards = fs::read_to_string(home.join("secret")).unwrap();
    backwards.chars().rev().collect()
}

/// Files of the data directory that have the text in them.
fn files_with(dir: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if let Ok(bytes) = fs::read(&path)
            && bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes())
        {
            found.push(path);
        }
    }
    found
}

#[test]
fn an_agent_speaks_of_its_own_job_while_it_runs_and_reports_through_no_tool() {
    let world = World::new();
    let server = Server::start(&world);
    server.add("other");
    let build = calls(&[
        "heartbeat {}",
        r#"checkpoint {"summary": "half way"}"#,
        r#"send_message {"to": "ada", "type": "question", "content": "Which name?"}"#,
        "get_my_assignment {}",
        "submit_for_review {}",
        r#"send_message {"to": "reviewer", "type": "needs_review", "content": "Look"}"#,
        "queue_task_for_agent {}",
        "read countersign://tickets/greet",
        "read countersign://tickets/other",
    ]);
    let review = calls(&[
        "get_review_context {}",
        r#"submit_review_result {"approved": true}"#,
        r#"send_message {"to": "developer", "type": "approved", "content": "Fine"}"#,
    ]);
    let script = crew(
        &always(with(build, builds("greet.sh", GOOD))),
        &always(with(review, approves())),
        &always(verifies(&[])),
    );
    greet(&world, &script).ends_with(0);
    let homes = homes(&world);
    let (build, review) = (heard(&homes[0]), heard(&homes[1]));
    let speaks = [
        "checkpoint",
        "dispute_finding",
        "heartbeat",
        "request_help",
        "send_message",
    ];
    assert_eq!(build["tools"], json!(speaks));
    assert!(build["heartbeat {}"]["lease_until"].is_string(), "{build}");
    let told = |heard: &Value, call: &str| {
        let (_, answer) = heard
            .as_object()
            .unwrap()
            .iter()
            .find(|(name, _)| name.starts_with(call))
            .unwrap();
        answer.to_string()
    };
    for (heard, call, words) in [
        (&build, "send_message {\"to\": \"ada\"", "sent to ada"),
        (&build, "get_my_assignment", "you were started for one job"),
        (
            &build,
            "submit_for_review",
            "your result is taken when you end",
        ),
        (
            &build,
            "send_message {\"to\": \"reviewer\"",
            "your result is taken when you end",
        ),
        (&build, "queue_task_for_agent", "gives no work to others"),
        (&build, "read countersign://tickets/greet", "Greet by name"),
        (
            &build,
            "read countersign://tickets/other",
            "no resource countersign://tickets/other",
        ),
        (&review, "get_review_context", "countersign/greet"),
        (
            &review,
            "submit_review_result",
            "your result is taken when you end",
        ),
        (&review, "send_message", "your result is taken when you end"),
    ] {
        let answer = told(heard, call);
        assert!(answer.contains(words), "{call}: {answer}");
    }
    assert_eq!(world.count("greet", "submitted"), 1);
    assert_eq!(world.count("greet", "reviewed"), 1);
    // Each had its own, which ended with the run and is nowhere but where its agent put it.
    let secrets: Vec<String> = homes.iter().map(|home| secret(home)).collect();
    assert_ne!(secrets[0], secrets[1]);
    for secret in &secrets {
        let found = files_with(&world.data, secret);
        assert!(found.is_empty(), "{found:?}");
        let bearer = format!("Bearer {secret}");
        let headers = [("Authorization", bearer.as_str())];
        server.send("POST", "/mcp", &headers, "{}").is(401);
    }
    assert_eq!(server.stage("other"), "queued");
    let made = world.count_of("token_created");
    assert_eq!(
        world.count_of("token_revoked"),
        made - 1,
        "the server's own is left"
    );
}

#[test]
fn a_finding_that_is_disputed_by_tool_goes_with_the_result() {
    let world = World::new();
    let _server = Server::start(&world);
    let dispute =
        calls(&[r#"dispute_finding {"finding": "F1", "reason": "The name is checked."}"#]);
    let script = crew(
        &rounds([
            builds("greet.sh", HASTY),
            with(dispute, builds("greet.sh", GOOD)),
        ]),
        &rounds([rejects([empty_name("high")]), approves()]),
        &always(verifies(&[("F1", "rejected")])),
    );
    greet(&world, &script);
    let log = world.json(&["log", "greet", "--limit", "1000"]).to_string();
    assert!(log.contains("The name is checked."), "{log}");
}

#[test]
fn an_agent_that_asks_for_help_ends_its_run_and_a_person_is_asked() {
    let world = World::new();
    let server = Server::start(&world);
    let ask = calls(&[r#"request_help {"why": "Which name is meant?"}"#]);
    let waits = runs("sleep 100");
    let script = crew(
        &always(with(ask, with(waits, builds("greet.sh", GOOD)))),
        &always(approves()),
        &always(verifies(&[])),
    );
    greet(&world, &script).says("escalated in round 1");
    world.call(&["log", "greet"]).says("Which name is meant?");
    assert_eq!(server.stage("greet"), "escalated");
    assert_eq!(world.count("greet", "help_requested"), 1);
    assert_eq!(world.count("greet", "submitted"), 0);
}

#[test]
fn without_a_server_or_a_network_there_is_no_token() {
    let script = crew(
        &always(with(calls(&[]), builds("greet.sh", GOOD))),
        &always(with(calls(&[]), approves())),
        &always(verifies(&[])),
    );
    let alone = World::new();
    greet(&alone, &script).ends_with(0);
    assert_eq!(alone.count_of("token_created"), 0);
    let world = World::with_settings(&format!("{SETTINGS}\n[policy.network]\nreview = \"off\"\n"));
    let _server = Server::start(&world);
    greet(&world, &script).ends_with(0);
    let had = |world: &World| -> Vec<bool> {
        let homes = homes(world);
        homes
            .iter()
            .map(|home| home.join("secret").exists())
            .collect()
    };
    assert_eq!(had(&alone), [false, false]);
    assert_eq!(had(&world), [true, false]);
}

#[test]
fn a_cli_that_does_not_connect_works_on_and_it_is_on_record() {
    let mut world = World::new();
    world.variables = vec![("ANTHROPIC_API_KEY".to_owned(), "k-1".to_owned())];
    let lost = r#""model":"some-opus","mcp_servers":[{"name":"countersign","status":"failed"}]"#;
    let claude = include_str!("../story/agents/claude.sh");
    world.install("claude", &claude.replace(r#""model":"some-opus""#, lost));
    let _server = Server::start(&world);
    let reviews = crew(
        &always(builds("greet.sh", GOOD)),
        &always(approves()),
        &always(verifies(&[])),
    );
    let (ticket, reviewer) = (world.put("greet.md", TICKET), world.crew(&reviews));
    world
        .call(&[
            "run",
            &ticket,
            "--builder",
            "claude",
            "--reviewer",
            &reviewer,
        ])
        .ends_with(0);
    assert_eq!(world.count("greet", "tools_unconnected"), 1);
    let told =
        "claude (builder) works without Countersign's tools, its server did not connect: failed";
    world.call(&["log", "greet"]).says(told);
    world
        .call(&["log", "--transcript", "greet", "--role", "build"])
        .says("without Countersign's tools: failed");
}
