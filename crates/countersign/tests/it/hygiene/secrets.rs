//! An agent that prints all it was given, in many ways of writing: nothing of it is kept.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use crate::support::server::Server;
use crate::support::{SETTINGS, TICKET, World};

const KEY: &str = "sk-live/0123+456789==abcdefXYZ";

/// Prints the token and the key as they are and encoded, on both streams, whole and torn into pieces,
/// puts them into files, and answers with them. Then it does its work.
const LEAK: &str = r##"
import base64, json, os, sys, urllib.parse
token, key = os.environ.get("COUNTERSIGN_TOKEN", ""), os.environ.get("TEST_API_KEY", "")
for s in (token, key):
    if not s: continue
    b = s.encode()
    forms = [s, base64.b64encode(b).decode(), base64.b64encode(b"x" + b).decode(),
        base64.b64encode(b"xy" + b + b"z").decode(), base64.urlsafe_b64encode(b).decode(), b.hex(),
        b.hex().upper(), urllib.parse.quote(s, safe=""), json.dumps(s), json.dumps(s).replace("/", "\\/")]
    for form in forms:
        print("out:", form); print("err:", form, file=sys.stderr)
    for c in s:
        sys.stdout.write(c); sys.stdout.flush()
    print()
    print("x" * 1048500 + s + "y" * 200)
open(os.environ["HOME"] + "/notes", "w").write(token)
open(os.environ["TMPDIR"] + "/notes", "w").write(token)
print("length", len(token), len(key))
answer = {"summary": token + " " + key, "notes": token}
if os.environ["COUNTERSIGN_ROLE"] == "build":
    open("greet.sh", "w").write("#!/bin/sh\n[ -n \"$1\" ] || exit 2\nprintf 'Hello, %s\\n' \"$1\"\n")
else:
    answer.update({"verdict": "changes_requested", "findings": [{"severity": "high", "file": "greet.sh",
        "line": 1, "title": "It says " + token, "problem": "And " + key}]})
open(os.environ["COUNTERSIGN_RESULT_FILE"], "w").write(json.dumps(answer))
"##;

/// The kernel keeps it for itself, with mode 000; it is empty once the run is over.
const OVERLAY_WORK: &str = "git/overlay/work";

/// Files below that have one of the texts in them.
fn files_with(dir: &Path, texts: &[String], found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_symlink() || path.ends_with(OVERLAY_WORK) {
            continue;
        }
        if path.is_dir() {
            files_with(&path, texts, found);
        } else if let Ok(bytes) = fs::read(&path) {
            for text in texts {
                if bytes
                    .windows(text.len())
                    .any(|part| part == text.as_bytes())
                {
                    found.push((path.clone(), text.clone()));
                }
            }
        }
    }
}

#[test]
fn what_an_agent_prints_of_its_secrets_is_not_kept() {
    let settings = format!(
        "builder = \"leaky\"\nreviewer = \"other\"\n{SETTINGS}\n\
         [agents.leaky]\nadapter = \"command\"\ncommand = \"python3 leak.py\"\nenv = [\"TEST_API_KEY\"]\n\
         [agents.other]\nadapter = \"command\"\ncommand = \"python3 leak.py\"\nenv = [\"TEST_API_KEY\"]\n"
    );
    let mut world = World::with_settings(&settings);
    world.write("leak.py", LEAK);
    world.commit("An agent that cannot keep a secret");
    world
        .variables
        .push(("TEST_API_KEY".to_owned(), KEY.to_owned()));
    let _server = Server::start(&world);
    let ticket = world.put("greet.md", TICKET);
    let ran = world.call(&["run", &ticket, "--max-rounds", "1"]);
    assert!([3, 4, 5].contains(&ran.code), "{}{}", ran.out, ran.err);
    let transcript =
        fs::read_to_string(world.data.join("tickets/greet/jobs/1/run-1/transcript.log"));
    let transcript = transcript.unwrap();
    assert!(transcript.contains("length 67 30"), "the agent had a token");
    assert!(transcript.contains("[redacted]"));
    let key = KEY.as_bytes();
    let forms = [KEY.to_owned(), STANDARD.encode(key), URL_SAFE.encode(key)];
    let mut found = Vec::new();
    files_with(&world.data, &forms, &mut found);
    assert_eq!(found, []);
    // No token of ours, whichever it was: the server's own is in its file alone.
    let pattern = regex::bytes::Regex::new("cs_[0-9a-f]{64}").unwrap();
    let mut kept = Vec::new();
    tokens_in(&world.data, &pattern, &mut kept);
    kept.retain(|path| !path.ends_with("server.json"));
    assert!(kept.is_empty(), "{kept:?}");
    let shown = world.call(&["ticket", "show", "greet"]);
    assert!(!pattern.is_match(shown.out.as_bytes()) && !shown.out.contains(KEY));
}

fn tokens_in(dir: &Path, pattern: &regex::bytes::Regex, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_symlink() || path.ends_with(OVERLAY_WORK) {
            continue;
        }
        if path.is_dir() {
            tokens_in(&path, pattern, found);
        } else if fs::read(&path).is_ok_and(|bytes| pattern.is_match(&bytes)) {
            found.push(path);
        }
    }
}
