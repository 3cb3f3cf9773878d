//! Stories told to a running server: by agents over MCP, by programs over REST, and by strangers.

mod agents;
mod attempts;
mod authentication;
mod bridge;
mod contracts;
mod contracts_loops;
mod dashboard;
mod dashboard_access;
mod dashboard_pages;
mod dashboard_states;
mod dashboard_text;
mod dashboard_work;
mod faults;
mod forge_news;
mod git_http;
mod logs;
mod messages;
mod notify;
mod operate;
#[cfg(feature = "otel")]
mod otel;
mod proof;
mod reads;
mod refusals;
mod remote_cli;
mod rest;
mod runs;
mod spool;
pub mod tls;
mod trackers;
mod unservable;

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::server::Server;
use crate::support::{World, until};

/// A builder's own clone of the work: a worktree on the ticket's branch.
struct Clone<'a> {
    world: &'a World,
    branch: String,
    dir: PathBuf,
}

impl<'a> Clone<'a> {
    fn new(world: &'a World, ticket: &str) -> Self {
        let (branch, dir) = (format!("countersign/{ticket}"), world.root().join(ticket));
        let place = dir.to_str().unwrap();
        world.git(&["worktree", "add", "--quiet", "-b", &branch, place, "main"]);
        Self { world, branch, dir }
    }

    /// Writes a file and commits it on the branch.
    fn commit(&self, name: &str, text: &str) {
        fs::write(self.dir.join(name), text).unwrap();
        let place = self.dir.to_str().unwrap();
        self.world.git(&["-C", place, "add", "--all"]);
        self.world
            .git(&["-C", place, "commit", "--quiet", "--message", "work"]);
    }
}

/// A builder that holds `greet`, with the change committed and not yet submitted: its token, its
/// assignment and where it works.
fn at_work<'a>(world: &'a World, server: &Server<'_>) -> (String, Value, Clone<'a>) {
    let builder = server.token("bea", "builder", &[]);
    server.add("greet");
    let work = Clone::new(world, "greet");
    let build = assignment(server, &builder, "build");
    work.commit("greet.sh", "echo \"Hello, $1\"\n");
    (builder, build, work)
}

/// Ten calls in the same instant.
fn ten<T: Send>(call: impl Fn(usize) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let call = &call;
        let calls: Vec<_> = (0..10).map(|n| scope.spawn(move || call(n))).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    })
}

/// Waits for the next assignment of that kind.
#[track_caller]
fn assignment(server: &Server<'_>, token: &str, kind: &str) -> Value {
    let mut found = Value::Null;
    until(&format!("there is a {kind}"), || {
        let wait = json!({"timeout_secs": 5});
        found = server.tool(token, "wait_for_work", &wait).unwrap()["assignment"].take();
        !found.is_null()
    });
    assert_eq!(found["kind"], kind, "{found}");
    found
}

/// Puts the newest commit of the ticket's branch forward.
#[track_caller]
fn submit(server: &Server<'_>, token: &str, assignment: &Value) -> Value {
    let words = json!({"assignment_id": assignment["id"], "attempt": assignment["attempt"]});
    server.tool(token, "submit_for_review", &words).unwrap()
}
