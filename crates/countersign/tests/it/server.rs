//! Stories told to a running server: by agents over MCP, by programs over REST, and by strangers.

mod afar;
mod agents;
mod bridge;
mod door;
mod notify;
mod refusals;
mod rest;
mod runs;
mod spool;
mod tls;

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
