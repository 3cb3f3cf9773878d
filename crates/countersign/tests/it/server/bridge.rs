//! `countersign mcp`: a bridge to the server that runs, or a server of its own where none does.

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::tls::Certificate;
use crate::support::processes::signal;
use crate::support::server::Server;
use crate::support::{DEADLINE, Running, World, until};

/// An agent that speaks to `countersign mcp` on its standard input and output.
pub struct Agent {
    running: Running,
    to: PipeWriter,
    from: BufReader<PipeReader>,
    asked: u64,
}

impl Agent {
    pub fn new(world: &World, token: &str, words: &[&str]) -> Self {
        let ((input, to), (from, output)) = (std::io::pipe().unwrap(), std::io::pipe().unwrap());
        let token = [format!("COUNTERSIGN_TOKEN={token}")];
        let words = [words, &["mcp"]].concat();
        let running = world.start_between(&token, &words, (input, output));
        Self {
            running,
            to,
            from: BufReader::new(from),
            asked: 0,
        }
    }

    /// As a client of the older protocols begins.
    pub fn greet(&mut self) -> Value {
        let me = json!({"name": "a-test", "version": "1"});
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": me});
        let answer = self.ask("initialize", &hello);
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        writeln!(self.to, "{initialized}").unwrap();
        answer
    }

    pub fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let ours = json!(self.asked);
        let message = json!({"jsonrpc": "2.0", "id": ours, "method": method, "params": params});
        writeln!(self.to, "{message}").unwrap();
        loop {
            let mut line = String::new();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "it has gone");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == ours {
                return answer;
            }
        }
    }

    fn tool(&mut self, name: &str) -> Value {
        self.ask("tools/call", &json!({"name": name, "arguments": {}}))
    }

    fn assignment(&mut self) -> Value {
        let mut answer = self.tool("get_my_assignment");
        let work = &mut answer["result"]["structuredContent"];
        assert!(work.is_object(), "{answer}");
        work["assignment"].take()
    }

    /// Its input ends, and so does it.
    pub fn leave(self) {
        drop(self.to);
        self.running.wait(DEADLINE).ends_with(0);
    }
}

#[test]
fn where_a_server_runs_it_is_a_bridge_and_the_state_is_shared() {
    let world = World::new();
    let server = Server::start(&world);
    let token = server.token("bea", "builder", &[]);
    server.add("greet");
    let mut agent = Agent::new(&world, &token, &[]);
    assert_eq!(agent.greet()["result"]["serverInfo"]["name"], "countersign");
    let tools = agent.ask("tools/list", &json!({}))["result"]["tools"].take();
    assert_eq!(tools.as_array().unwrap().len(), 12);
    let mine = agent.assignment();
    let over_http = server
        .tool(&token, "get_my_assignment", &json!({}))
        .unwrap();
    assert_eq!(mine["attempt"], over_http["assignment"]["attempt"]);
    agent.leave();
    // Without that server there would have been nobody to ask.
    let away = World::new();
    let mut elsewhere = Agent::new(&away, &token, &["--server", &server.url]);
    assert_eq!(elsewhere.assignment()["id"], mine["id"]);
    elsewhere.leave();
}

#[test]
fn the_newest_protocol_is_carried_without_a_beginning() {
    let world = World::new();
    let server = Server::start(&world);
    let token = server.token("bea", "builder", &[]);
    let mut agent = Agent::new(&world, &token, &[]);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "a-test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let call = json!({"name": "get_my_assignment", "arguments": {}, "_meta": meta});
    let answer = agent.ask("tools/call", &call);
    assert_eq!(
        answer["result"]["structuredContent"]["assignment"],
        json!(null),
        "{answer}"
    );
    agent.leave();
}

#[test]
fn where_none_runs_it_is_a_server_of_its_own() {
    let world = World::new();
    let token = {
        let server = Server::start(&world);
        server.add("greet");
        server.token("bea", "builder", &[])
    };
    // That one was killed, and has left its sign.
    assert!(world.data.join("server.json").exists());
    let mut agent = Agent::new(&world, &token, &[]);
    agent.greet();
    assert_eq!(agent.assignment()["branch_name"], "countersign/greet");
    agent.leave();
}

#[test]
fn a_server_that_is_away_is_told_of_and_found_again() {
    let world = World::new();
    let server = Server::start(&world);
    let token = server.token("bea", "builder", &[]);
    server.add("greet");
    let mut agent = Agent::new(&world, &token, &[]);
    agent.greet();
    let before = agent.assignment();
    signal(server.pid(), Signal::TERM);
    until("the sign is down", || {
        !world.data.join("server.json").exists()
    });
    drop(server);
    let away = agent.tool("get_my_assignment")["error"].take();
    assert_eq!(away["data"]["retryable"], true, "{away}");
    assert!(away["message"].as_str().unwrap().ends_with("try again"));
    // At another port.
    let _again = Server::start(&world);
    assert_eq!(agent.assignment()["attempt"], before["attempt"]);
    agent.leave();
}

#[test]
fn a_server_with_a_certificate_of_its_own_making_is_known_by_its_sign() {
    let world = World::new();
    let certificate = Certificate::new(&world);
    let server = Server::start_with(&world, &certificate.words());
    let token = world.json(&["token", "create", "--agent", "bea", "--role", "builder"]);
    let token = token["secret"].as_str().unwrap();
    let mut agent = Agent::new(&world, token, &[]);
    assert!(agent.assignment().is_null());
    agent.leave();
    // Elsewhere it is one of many that nobody knows.
    let away = World::new();
    let mut stranger = Agent::new(&away, token, &["--server", &server.url]);
    let refused = stranger.tool("get_my_assignment")["error"].take();
    let why = refused["message"].as_str().unwrap();
    assert!(why.contains("certificate"), "{why}");
    stranger.leave();
}

#[test]
fn a_bad_token_and_what_is_no_message_are_refused() {
    let world = World::new();
    let _server = Server::start(&world);
    let mut agent = Agent::new(&world, "cs_made_up", &[]);
    let refused = agent.tool("get_my_assignment")["error"].take();
    assert_eq!(refused["data"]["retryable"], false);
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("not known here")
    );
    writeln!(agent.to, "what is this").unwrap();
    let mut line = String::new();
    agent.from.read_line(&mut line).unwrap();
    assert!(line.contains("-32700"), "{line}");
    agent.leave();
}
