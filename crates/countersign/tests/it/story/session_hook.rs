//! Countersign inside a session that a person already has: the hook reviews at the end of a turn,
//! sends findings back, ends at the cap, and never traps the session.

use std::fs;

use serde_json::{Value, json};

use crate::support::crew::{GOOD, HASTY, always, approves, empty_name, rejects, reviewed_by};
use crate::support::{DEADLINE, Ran, World, reached};

/// A session of one CLI in a world.
struct Session<'a> {
    world: &'a World,
    cli: &'a str,
    flags: String,
}

impl<'a> Session<'a> {
    fn new(world: &'a World, cli: &'a str, script: &Value) -> Self {
        let agent = world.crew(script);
        world.install_self();
        Self {
            world,
            cli,
            flags: format!("--reviewer {agent}"),
        }
    }

    fn events(&self) -> (&'static str, &'static str) {
        match self.cli {
            "gemini" => ("AfterAgent", "BeforeAgent"),
            "opencode" => ("session.idle", "chat.message"),
            _ => ("Stop", "UserPromptSubmit"),
        }
    }

    fn send(&self, input: &Value) -> Value {
        let ran = self.raw(&input.to_string());
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{:?}", ran.out))
    }

    fn raw(&self, input: &str) -> Ran {
        let file = self.world.put("hook-input.json", input);
        let line = format!(
            "countersign review --hook {} {} < {file}",
            self.cli, self.flags
        );
        self.world.shell("sh", &line)
    }

    fn prompt(&self, text: &str) -> Value {
        self.send(&json!({
            "session_id": "s-1", "cwd": self.world.repository, "prompt": text,
            "hook_event_name": self.events().1,
        }))
    }

    fn stop(&self) -> Value {
        self.send(&json!({
            "session_id": "s-1", "cwd": self.world.repository,
            "hook_event_name": self.events().0, "stop_hook_active": true,
        }))
    }
}

fn finds() -> Value {
    reviewed_by(&always(rejects([empty_name("high")])))
}

fn text<'a>(answer: &'a Value, key: &str) -> &'a str {
    answer[key].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn findings_go_back_until_the_cap_and_the_person_s_next_prompt_begins_anew() {
    for cli in ["claude", "codex", "gemini", "opencode"] {
        let world = World::new();
        let session = Session::new(&world, cli, &finds());
        assert_eq!(session.prompt("Greet by name"), json!({}));
        world.write("greet.sh", HASTY);
        let word = if cli == "gemini" { "deny" } else { "block" };
        for round in 1..=2 {
            world.write("greet.sh", &format!("{HASTY}# {round}\n"));
            let answer = session.stop();
            assert_eq!(answer["decision"], word);
            let reason = text(&answer, "reason");
            assert!(reason.contains(&format!("round {round} of 3")), "{reason}");
            assert!(
                reason.contains("F1 high greet.sh:2 An empty name is accepted"),
                "{reason}"
            );
            // Some CLIs hand our own words to the prompt's hook; they begin no new turn.
            assert_eq!(session.prompt(reason), json!({}));
        }
        world.write("greet.sh", &format!("{HASTY}# 3\n"));
        let last = session.stop();
        assert_eq!(last["decision"], Value::Null, "{last}");
        let message = text(&last, "systemMessage");
        assert!(message.contains("not approved"), "{message}");
        assert!(message.contains("F1 high"), "{message}");
        // Without a new prompt nothing is reviewed any more.
        world.write("greet.sh", &format!("{HASTY}# 4\n"));
        let over = session.stop();
        assert!(text(&over, "systemMessage").contains("not approved"));
        assert_eq!(world.count_of("reviewed"), 3);
        session.prompt("Try again");
        world.write("greet.sh", &format!("{HASTY}# 5\n"));
        assert_eq!(session.stop()["decision"], word);
    }
}

#[test]
fn a_settled_change_ends_the_turn_and_is_not_reviewed_twice() {
    let world = World::new();
    let script = reviewed_by(&always(rejects([empty_name("high")])));
    let session = Session::new(&world, "claude", &script);
    session.prompt("Greet by name");
    world.write("greet.sh", HASTY);
    assert_eq!(session.stop()["decision"], "block");
    // The agent ends its turn without a change: the same findings, and no second review.
    let again = session.stop();
    assert!(text(&again, "reason").contains("round 2 of 3"), "{again}");
    assert_eq!(world.count_of("reviewed"), 1);
    world.write("greet.sh", GOOD);
    world.crew(&reviewed_by(&always(approves())));
    let clean = session.stop();
    assert!(text(&clean, "systemMessage").contains("the review is clean"));
    assert_eq!(clean["decision"], Value::Null);
    assert_eq!(session.stop(), json!({}));
    assert_eq!(world.count_of("reviewed"), 2);
}

#[test]
fn only_the_session_s_own_changes_are_reviewed_with_its_commits() {
    let world = World::new();
    // The person's own work, from before the session.
    world.write("draft.sh", HASTY);
    let session = Session::new(&world, "claude", &finds());
    session.prompt("What does this do?");
    assert_eq!(session.stop(), json!({}), "the session changed nothing");
    assert_eq!(world.count_of("reviewed"), 0);
    session.prompt("Greet by name");
    world.write("greet.sh", HASTY);
    world.git(&["add", "greet.sh"]);
    world.git(&["commit", "--quiet", "--message", "Greet"]);
    let before = world.git(&["status", "--porcelain"]);
    assert_eq!(session.stop()["decision"], "block");
    assert_eq!(world.git(&["status", "--porcelain"]), before);
    let log = world.json(&["log"]).to_string();
    assert!(log.contains("the session's changes (claude)"), "{log}");
    let diff = fs::read_dir(world.data.join("tickets")).unwrap().flatten();
    let record = diff
        .map(|entry| fs::read_to_string(entry.path().join("review.json")).unwrap())
        .next()
        .unwrap();
    assert!(record.contains("greet.sh") && !record.contains("draft.sh"));
    assert!(record.contains("Greet by name"), "the purpose");
}

#[test]
fn a_hook_that_cannot_review_lets_the_session_end_and_approves_nothing() {
    let world = World::new();
    let mut session = Session::new(&world, "claude", &finds());
    world.write("greet.sh", HASTY);
    let refused = |ran: Ran, why: &str| {
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        let answer: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(answer["decision"], Value::Null, "{answer}");
        let message = text(&answer, "systemMessage");
        assert!(message.contains("nothing is approved"), "{message}");
        assert!(message.contains(why), "{why}: {message}");
        assert!(message.chars().count() < 700);
    };
    let huge = format!("{{\"session_id\": \"{}\"}}", "x".repeat(5 << 20));
    let stop = |directory: &str| {
        json!({"session_id": "s", "cwd": directory, "hook_event_name": "Stop"}).to_string()
    };
    let here = world.repository.to_str().unwrap().to_owned();
    let nowhere = world.root().join("home");
    for (input, why) in [
        (String::new(), "not JSON"),
        ("{\"session_id\"".to_owned(), "not JSON"),
        ("{}".to_owned(), "no session_id"),
        (huge, "larger than 4 MiB"),
        (stop("/nonexistent"), "is not a directory"),
        (stop(nowhere.to_str().unwrap()), "repository"),
    ] {
        refused(session.raw(&input), why);
    }
    session.flags = "--server https://localhost:1".to_owned();
    assert_ne!(session.raw(&stop(&here)).code, 2);
    session.flags = String::new();
    refused(session.raw(&stop(&here)), "no reviewer is named");
    session.flags = "--reviewer command:/nonexistent/agent".to_owned();
    refused(session.raw(&stop(&here)), "nonexistent");
    // Exit code 2 means "do not stop" to the CLIs, so a wrong flag must not end with it.
    for words in [
        "--hook cursor",
        "--hook claude --no-such-flag",
        "--hook=claude --staged",
    ] {
        let line = format!("countersign review {words} </dev/null");
        assert_eq!(world.shell("sh", &line).code, 1, "{words}");
    }
    // In an agent that Countersign runs, the hook is silent.
    let line = "COUNTERSIGN_RUN=1 countersign review --hook claude </dev/null";
    assert_eq!(world.shell("sh", line).ends_with(0).out, "{}\n");
}

#[test]
fn a_reviewer_that_hangs_does_not_hold_the_session() {
    let world = World::unconfined();
    world.install_self();
    world.install("hangs", "#!/bin/sh\nexec sleep 600\n");
    let agent = world.root().join("bin/hangs");
    world.write("greet.sh", HASTY);
    let session = Session {
        world: &world,
        cli: "codex",
        flags: format!("--time-limit 1 --reviewer command:{}", agent.display()),
    };
    let answer = session.stop();
    assert!(
        text(&answer, "systemMessage").contains("did not end within 1 s"),
        "{answer}"
    );
    assert_eq!(answer["decision"], Value::Null);
}

/// Waits for the background review of HEAD.
fn settled(world: &World) -> Value {
    let mut review = Value::Null;
    let head = world.git(&["rev-parse", "HEAD"]);
    let done = reached(DEADLINE, || {
        let found = results(world);
        review = found;
        review["commit"] == head.as_str()
    });
    assert!(done, "{review}");
    review
}

/// The result of the last background review, as it is stored.
fn results(world: &World) -> Value {
    let dir = world.data.join("commit-reviews");
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let texts = entries.filter_map(|dir| fs::read_to_string(dir.path().join("result.json")).ok());
    let mut texts = texts.filter_map(|text| serde_json::from_str(&text).ok());
    texts.next().unwrap_or_default()
}

#[test]
fn each_commit_is_reviewed_in_the_background_and_the_findings_wait() {
    let world = World::new();
    let session = Session::new(&world, "claude", &finds());
    let agent = world.crew(&finds());
    world
        .call(&[
            "hook",
            "install",
            "--post-commit",
            "--",
            "--reviewer",
            &agent,
        ])
        .ends_with(0)
        .says("each commit is reviewed in the background");
    world.write("greet.sh", HASTY);
    world.commit("Greet");
    let review = settled(&world);
    assert_eq!(review["is_settled"], false, "{review}");
    world
        .call(&["status"])
        .ends_with(0)
        .says("1 finding to fix")
        .says("F1 high greet.sh:2 An empty name is accepted");
    assert_eq!(
        world.json(&["status"])["commit_review"]["findings"][0]["id"],
        "F1"
    );
    // The next prompt has it, once.
    let answer = session.prompt("Go on");
    let context = &answer["hookSpecificOutput"]["additionalContext"];
    assert!(context.as_str().unwrap().contains("F1 high"), "{answer}");
    assert_eq!(
        answer["hookSpecificOutput"]["hookEventName"],
        "UserPromptSubmit"
    );
    assert_eq!(session.prompt("Go on"), json!({}));
    // An unrelated commit does not hide it: everything since the last clean review is looked at.
    world.write("other.txt", "text\n");
    world.commit("Other");
    assert_eq!(settled(&world)["is_settled"], false);
    world
        .call(&["hook", "dismiss"])
        .ends_with(0)
        .says("dismissed");
    world
        .call(&["hook", "dismiss"])
        .ends_with(0)
        .says("no background review waits");
    assert_eq!(world.json(&["status"])["commit_review"], Value::Null);
    // Clean is silent.
    world.crew(&reviewed_by(&always(approves())));
    world.write("greet.sh", GOOD);
    world.commit("Refuse an empty name");
    assert_eq!(settled(&world)["is_settled"], true);
    assert_eq!(world.json(&["status"])["commit_review"], Value::Null);
    world
        .call(&["hook", "uninstall", "--post-commit"])
        .ends_with(0)
        .says("removed");
}

#[test]
fn of_many_commits_the_newest_is_reviewed_by_one_process() {
    let world = World::new();
    world.install_self();
    let agent = world.crew(&reviewed_by(&always(approves())));
    world
        .call(&[
            "hook",
            "install",
            "--post-commit",
            "--",
            "--reviewer",
            &agent,
        ])
        .ends_with(0);
    for number in 0..5 {
        world.write("greet.sh", &format!("{GOOD}# {number}\n"));
        world.commit("Greet");
    }
    assert_eq!(settled(&world)["is_settled"], true);
    assert!(world.count_of("reviewed") < 5);
}

#[test]
fn a_background_review_that_fails_says_so_and_waits() {
    let world = World::new();
    world.install_self();
    let broken = "--reviewer command:/nonexistent/agent";
    let line = format!("countersign review --background --commit HEAD {broken}");
    assert_eq!(world.shell("sh", &line).ends_with(0).out, "");
    world
        .call(&["status"])
        .ends_with(0)
        .says("there is no verdict")
        .says("/nonexistent/agent");
    // A commit of an agent that Countersign runs is not reviewed here.
    let inside = format!("COUNTERSIGN_RUN=1 {line}");
    world.call(&["hook", "dismiss"]).ends_with(0);
    world.write("more.sh", GOOD);
    world.commit("More");
    world.shell("sh", &inside).ends_with(0);
    assert_eq!(world.json(&["status"])["commit_review"], Value::Null);
}

#[test]
fn a_post_commit_hook_of_somebody_else_is_left_alone() {
    let world = World::new();
    world.write(".git/hooks/post-commit", "#!/bin/sh\n# mine\n");
    world
        .call(&["hook", "install", "--post-commit"])
        .ends_with(6)
        .says("nohup countersign review --background --commit HEAD </dev/null >/dev/null 2>&1 &");
    world
        .call(&["hook", "uninstall", "--post-commit"])
        .ends_with(6);
}
