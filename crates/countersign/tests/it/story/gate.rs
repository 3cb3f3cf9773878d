//! A builder leaves or commits things that must not land: objects that git's own check refuses, secrets
//! in the history, texts that hide something. And files that deny their owner.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{greet, merges};
use crate::support::crew::{GOOD, always, builds, built_by, runs, smooth, writes};
use crate::support::{SETTINGS, TICKET, World};

const EVIL: &str = "[submodule \"x\"]\n\tpath = x\n\turl = -u./payload\n";

fn done() -> Value {
    json!({"result": {"summary": "Done."}})
}

fn commits(message: &str) -> Value {
    json!({"commit": {"message": message}})
}

/// Put together here, so that no scanner takes this file for a leak.
fn token() -> String {
    format!("ghp_{}", "a1B2".repeat(9))
}

fn builder_runs(world: &World) -> usize {
    let job = world.data.join("tickets/greet/jobs/1");
    let runs = fs::read_dir(job).unwrap().flatten();
    runs.filter(|run| run.path().join("transcript.log").exists())
        .count()
}

#[test]
fn what_fsck_refuses_is_told_by_name_costs_one_more_try_and_stays_out() {
    let update = EVIL.replace("url = -u./payload", "url = ./x\n\tupdate = !touch pwned");
    for (text, committed) in [(EVIL, false), (&update, false), (EVIL, true)] {
        let world = World::new();
        let mut steps = vec![writes("greet.sh", GOOD), writes(".gitmodules", text)];
        if committed {
            steps.push(commits("mine"));
        }
        steps.push(done());
        greet(&world, &built_by(&always(steps)))
            .ends_with(4)
            .says(".gitmodules");
        assert_eq!(merges(&world), 0);
        assert_eq!(builder_runs(&world), 2);
        world.git(&["fsck", "--strict", "--no-dangling"]);
        // Whatever is kept for the person has none of it.
        let objects = world.git(&["rev-list", "--objects", "--all"]);
        assert!(!objects.contains(".gitmodules"), "{objects}");
    }
}

#[test]
fn a_builder_that_is_told_once_what_git_refuses_can_mend_it() {
    let world = World::unconfined();
    let flag = world.root().join("tried");
    let tries = format!(
        "if [ ! -e {0} ]; then touch {0}; printf '[submodule \"x\"]\\n\\turl = -u./p\\n' > .gitmodules; fi",
        flag.display()
    );
    let mut steps = vec![runs(&tries)];
    steps.extend(builds("greet.sh", GOOD));
    greet(&world, &built_by(&always(steps))).ends_with(0);
    assert_eq!(builder_runs(&world), 2);
    world.git(&["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn a_secret_anywhere_in_the_commits_keeps_them_from_landing() {
    let away = vec![
        writes("notes.txt", &token()),
        commits("one"),
        runs("git rm -q notes.txt"),
        commits("two"),
    ];
    let message = vec![
        writes("x", "x"),
        commits(&format!("the key is {}", token())),
    ];
    let name = vec![writes(&format!("{}.txt", token()), "x\n")];
    let binary = vec![runs(&format!(
        "printf '\\000\\377{}\\000' > logo.png",
        token()
    ))];
    let wide = vec![runs(&format!(
        "printf '%s' '{}' | iconv -t UTF-16LE > wide.txt",
        token()
    ))];
    for steps in [away, message, name, binary, wide] {
        let world = World::new();
        let steps = [vec![writes("greet.sh", GOOD)], steps, vec![done()]].concat();
        let ran = greet(&world, &built_by(&always(steps)));
        ran.ends_with(4).says("secrets");
        assert_eq!(merges(&world), 0);
    }
}

#[test]
fn a_commit_whose_text_hides_something_goes_back() {
    for text in ["fix \u{1b}[2K\u{1b}[1Aapproved", "fix \u{202e}gpj.exe"] {
        let world = World::new();
        let steps = vec![writes("greet.sh", GOOD), commits(text), done()];
        greet(&world, &built_by(&always(steps)))
            .ends_with(4)
            .says("commit text");
        assert_eq!(merges(&world), 0);
    }
}

const KEY: &str = "no shape at all, 42 Zebras/8+";

/// Commits a key that it was lent, as it is and encoded, in a file and in a message, and takes the
/// file away again; or only has it in what git remembers of a message.
const LEAK: &str = r##"
import base64, json, os, subprocess
key = os.environ["TEST_API_KEY"]
def git(*words): subprocess.run(["git", *words], check=True)
open("greet.sh", "w").write("#!/bin/sh\n[ -n \"$1\" ] || exit 2\nprintf 'Hello, %s\\n' \"$1\"\n")
git("add", "-A")
mode = open("mode").read().strip()
if mode == "file":
    open("k", "w").write(key); git("add", "-A"); git("commit", "-qm", "one")
    git("rm", "-q", "k"); git("commit", "-qm", "two")
elif mode == "base64":
    open("k", "w").write(base64.b64encode(key.encode()).decode()); git("add", "-A"); git("commit", "-qm", "one")
elif mode == "message":
    git("commit", "-qm", "with " + key)
else:
    git("commit", "-qm", "with " + key); git("commit", "-q", "--amend", "-m", "without")
    git("commit", "-q", "--allow-empty", "-m", "again " + key); git("reset", "-q", "--hard", "HEAD~1")
answer = {"summary": "Done."}
open(os.environ["COUNTERSIGN_RESULT_FILE"], "w").write(json.dumps(answer))
"##;

fn files_with(dir: &Path, text: &[u8], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            files_with(&path, text, found);
        } else if fs::read(&path)
            .is_ok_and(|bytes| bytes.windows(text.len()).any(|part| part == text))
        {
            found.push(path);
        }
    }
}

#[test]
fn a_key_that_an_agent_was_lent_neither_lands_nor_stays_in_what_its_run_left() {
    for (mode, code) in [("file", 4), ("base64", 4), ("message", 4), ("logs", 0)] {
        let settings = format!(
            "builder = \"leaky\"\n{SETTINGS}\n\
             [agents.leaky]\nadapter = \"command\"\ncommand = \"python3 leak.py\"\nenv = [\"TEST_API_KEY\"]\n"
        );
        let mut world = World::with_settings(&settings);
        world.write("leak.py", LEAK);
        world.write("mode", mode);
        world.commit("An agent that cannot keep a secret");
        let variable = ("TEST_API_KEY".to_owned(), KEY.to_owned());
        world.variables.push(variable);
        let ticket = world.put("greet.md", TICKET);
        let reviewer = world.crew(&smooth());
        let ran = world.call(&["run", &ticket, "--reviewer", &reviewer]);
        assert_eq!(ran.code, code, "{mode}: {}{}", ran.out, ran.err);
        let landed = world.git(&["log", "-p", "main"]);
        assert!(!landed.contains(KEY), "{mode}");
        let mut found = Vec::new();
        files_with(&world.data, KEY.as_bytes(), &mut found);
        assert_eq!(found, Vec::<PathBuf>::new(), "{mode}");
        assert!(!world.data.join("tickets/greet/jobs/1/run-1/git").exists());
    }
}

#[test]
fn files_and_directories_that_deny_their_owner_are_taken_and_can_be_removed() {
    let world = World::new();
    let deny = "mkdir -p shut/deep \"$HOME/shut/deep\" \"$TMPDIR/shut\"; echo x > shut/deep/file; \
         echo x > \"$HOME/shut/deep/file\"; chmod 000 greet.sh shut/deep/file shut/deep shut \
         \"$HOME/shut/deep\" \"$HOME/shut\" \"$TMPDIR/shut\"";
    let steps = vec![writes("greet.sh", GOOD), runs(deny), done()];
    greet(&world, &built_by(&always(steps))).ends_with(0);
    assert_eq!(world.git(&["show", "main:shut/deep/file"]), "x");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    fs::remove_dir_all(&world.data).unwrap();
}

#[test]
fn names_that_git_does_not_store_are_told() {
    let world = World::new();
    let steps = vec![
        writes(".GIT/config", "[core]\n"),
        writes("git~1/x", "x\n"),
        writes("greet.sh", GOOD),
        done(),
    ];
    greet(&world, &built_by(&always(steps))).ends_with(0);
    let told = world.ticket("greet")["submission"]["summary"].to_string();
    assert!(
        told.contains(".GIT/config") && told.contains("git~1/x"),
        "{told}"
    );
}
