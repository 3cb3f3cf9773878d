//! Changes without a ticket: every way to name one, every way to answer, and nothing touched.
#![expect(
    clippy::needless_raw_string_hashes,
    reason = "snapshots are written by expect-test"
)]

use expect_test::expect;
use serde_json::Value;

use crate::support::crew::{
    HASTY, always, approves, asked, crew, empty_name, rejects, reviewed_by,
};
use crate::support::{Ran, World};

/// A world with a branch `topic`, checked out, that has a hasty greeting.
fn with_topic() -> World {
    let world = World::new();
    world.git(&["switch", "--quiet", "--create", "topic"]);
    world.write("greet.sh", HASTY);
    world.commit("Greet by name");
    world
}

/// Everything of the repository that a review must leave alone.
fn everything(world: &World) -> (String, Vec<u8>, String, String) {
    (
        world.git(&["status", "--porcelain=v1", "--untracked-files=all"]),
        std::fs::read(world.repository.join(".git/index")).unwrap(),
        world.git(&["for-each-ref"]),
        world.git(&["stash", "list"]),
    )
}

fn finds() -> Value {
    reviewed_by(&always(rejects([empty_name("high")])))
}

fn review(world: &World, script: &Value, words: &[&str]) -> Ran {
    let agent = world.crew(script);
    world.call(&[&["review", "--reviewer", &agent], words].concat())
}

#[test]
fn a_branch_is_reviewed_and_left_alone() {
    let world = with_topic();
    let before = everything(&world);
    let ran = review(&world, &finds(), &[]).ends_with(3);
    assert_eq!(everything(&world), before);
    expect![[r#"
        main..topic: 1 file, 2 lines, commit SHORT on SHORT
          scripted (reviewer)  0 s    1 finding
          secrets (linter)     0 s    0 findings

        high  greet.sh:2  An empty name is accepted
            The ticket asks for an error.
            fix: Refuse it with exit code 2.
            F1, by scripted (reviewer)

        changes requested: 1 of 1 finding must be fixed
        kept: ROOT/data/tickets/review-ID
    "#]]
    .assert_eq(&world.masked(&ran.out));
    world
        .call(&["log"])
        .ends_with(0)
        .says("main..topic reviewed, 1 to be fixed");
    world
        .call(&["log", "--transcript"])
        .ends_with(0)
        .says("round 1, review: scripted (reviewer)");
    assert_eq!(
        world.json(&["ticket", "list"])["tickets"],
        Value::Array(vec![])
    );
}

#[test]
fn clean_is_zero_and_the_least_severity_is_the_callers() {
    let world = with_topic();
    let low = reviewed_by(&always(rejects([empty_name("low")])));
    review(&world, &reviewed_by(&always(approves())), &[]).ends_with(0);
    review(&world, &low, &[]).ends_with(3);
    review(&world, &asked(low.clone(), "countersign", approves()), &[])
        .ends_with(0)
        .says("clean: 1 finding, none that must be fixed");
    review(&world, &low, &["--fail-on", "low"]).ends_with(3);
    review(&world, &finds(), &["--fail-on", "critical"])
        .ends_with(0)
        .says("approved by policy, reviewer refused: scripted (reviewer)");
    review(&world, &finds(), &["--fail-on", "none"])
        .ends_with(0)
        .says("reported only");
}

#[test]
fn every_way_to_name_a_change_comes_to_the_same_review() {
    let world = with_topic();
    let patch = world.git(&["diff", "main", "topic"]);
    let patch = world.put("topic.patch", format!("{patch}\n"));
    for words in [
        &["main..topic"][..],
        &["main...topic"],
        &["main.."],
        &["topic"],
        &["HEAD"],
        &["--commit", "topic"],
        &["--patch", &patch, "--base", "main"],
    ] {
        review(&world, &finds(), words)
            .ends_with(3)
            .says("greet.sh:2");
    }
    world.git(&["reset", "--quiet", "--soft", "main"]);
    let before = everything(&world);
    review(&world, &finds(), &["--staged"]).ends_with(3);
    world.git(&["reset", "--quiet"]);
    review(&world, &finds(), &["--worktree"]).ends_with(3);
    review(&world, &finds(), &["--staged"])
        .ends_with(0)
        .says("nothing to review");
    world.git(&["add", "--all"]);
    assert_eq!(everything(&world).2, before.2);
}

#[test]
fn the_first_commit_is_reviewed_against_nothing() {
    let world = World::new();
    let answer = world.json(&["review", "--commit", "HEAD", "--linters-only"]);
    assert_eq!(answer["change"]["files"].as_array().unwrap().len(), 3);
    assert_eq!(answer["outcome"], "clean");
}

#[test]
fn linters_alone_need_no_agent_and_every_form_is_written() {
    let world = with_topic();
    let sarif = world.put(
        "lint.sarif",
        r#"{"version":"2.1.0","runs":[{"tool":{"driver":{"name":"lint"}},"results":[
            {"ruleId":"quote","level":"error","message":{"text":"Quote it"},
             "locations":[{"physicalLocation":{"artifactLocation":{"uri":"greet.sh"},"region":{"startLine":2}}}]}]}]}"#,
    );
    world.write("lint.sarif", &std::fs::read_to_string(&sarif).unwrap());
    world.commit("The linter's words");
    let linter = "lint=cat lint.sarif; exit 1";
    for (form, word) in [
        ("text", "Quote it"),
        ("markdown", "Quote it"),
        ("json", "\"changes_requested\""),
        ("sarif", "\"2.1.0\""),
        ("github", "::error file=greet.sh,line=2"),
        ("gitlab", "\"fingerprint\""),
        ("rdjson", "\"diagnostics\""),
        ("checkstyle", "<file name=\"greet.sh\">"),
        ("junit", "failures=\"1\""),
    ] {
        let words = ["review", "--linter", linter, "--format", form];
        let ran = world.call(&words).ends_with(3).says(word);
        if matches!(form, "json" | "sarif" | "gitlab" | "rdjson") {
            let _: Value = serde_json::from_str(&ran.out).unwrap();
        }
    }
}

/// Commands that end without an answer: nothing that they leave behind reads as a clean review.
#[test]
fn a_linter_that_dies_is_not_clean() {
    let world = with_topic();
    let broken = [
        ("kill -9 $$", "signal 9"),
        ("kill -TERM $$", "signal 15"),
        ("false", "exit code 1"),
        ("exit 2", "exit code 2"),
        ("exit 137", "exit code 137"),
        ("no-such-linter --all", "exit code 127"),
        (
            "printf 'Traceback (most recent call last):\\n  File \"x.py\", line 3\\nValueError: bad\\n' >&2; exit 1",
            "ValueError: bad",
        ),
        ("echo '3 problems in 2 files'", "3 problems"),
        (
            "echo 'cannot read the configuration' >&2 || true",
            "cannot read the configuration",
        ),
    ];
    for (command, word) in broken {
        let linter = format!("broken={command}");
        let words = ["review", "--linters-only", "--linter", &linter];
        world.call(&words).ends_with(4).says("broken").says(word);
        let sarif = world
            .call(&[&words[..], &["--format", "sarif"]].concat())
            .ends_with(4);
        assert!(sarif.out.contains("\"level\": \"error\""), "{}", sarif.out);
    }
}

#[test]
fn a_linters_absolute_paths_are_those_of_the_repository() {
    let world = with_topic();
    let printed = [
        "echo \"$PWD/greet.sh:2:1: error: quote it\"; exit 1",
        "printf '[{\"filePath\":\"%s/greet.sh\",\"messages\":[{\"severity\":2,\"message\":\"quote it\",\"line\":2}]}]' \"$PWD\"; exit 1",
        "printf '<checkstyle><file name=\"%s/greet.sh\"><error line=\"2\" severity=\"error\" message=\"quote it\"/></file></checkstyle>' \"$(pwd -P)\"; exit 1",
    ];
    for command in printed {
        let linter = format!("lint={command}");
        world
            .call(&[
                "review",
                "--linter",
                &linter,
                "--linters-only",
                "--format",
                "github",
            ])
            .ends_with(3)
            .says("::error file=greet.sh,line=2");
    }
}

#[test]
fn findings_stand_in_the_order_of_their_lines() {
    let world = with_topic();
    let linter = "lint=printf 'greet.sh:10:1: error: ten\\ngreet.sh:3:1: error: three\\n'; exit 1";
    let ran = world
        .call(&["review", "--linter", linter, "--linters-only"])
        .ends_with(3);
    let at = |text: &str| ran.out.find(text).unwrap_or_else(|| panic!("{}", ran.out));
    assert!(at("greet.sh:3") < at("greet.sh:10"), "{}", ran.out);
}

#[test]
fn an_agents_absolute_paths_are_those_of_the_repository() {
    let world = with_topic();
    let script = world.put(
        "judge.sh",
        "here=$(dirname \"$(find \"$PWD\" -name greet.sh | head -1)\")\n\
         printf '{\"verdict\": \"request_changes\", \"findings\": [{\"title\": \"An empty name is greeted\", \
         \"severity\": \"high\", \"file\": \"%s/greet.sh\", \"line\": 1}]}' \"$here\"\n",
    );
    let judge = format!("command:sh {script}");
    world
        .call(&["review", "--reviewer", &judge, "--format", "github"])
        .ends_with(3)
        .says("::error file=greet.sh,line=1");
}

#[test]
fn a_secret_is_found_without_any_program() {
    let world = with_topic();
    world.write(
        "key.txt",
        &format!("-----BEGIN {} KEY-----\n", "RSA PRIVATE"),
    );
    world
        .call(&["review", "--worktree", "--linters-only"])
        .ends_with(3)
        .says("key.txt:1");
}

#[test]
fn several_reviewers_each_have_a_vote() {
    let world = with_topic();
    let no = world.named_crew("no", &finds());
    let yes = world.named_crew("yes", &reviewed_by(&always(approves())));
    let answer = world.json(&["review", "--reviewer", &yes, "--reviewer", &no]);
    let reviewers: Vec<&str> = answer["reviewers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|reviewer| reviewer["name"].as_str().unwrap())
        .collect();
    assert_eq!(reviewers, ["reviewer", "reviewer-2", "secrets"]);
    assert_eq!(answer["outcome"], "changes_requested");
}

#[test]
fn red_checks_are_said_before_anybody_is_paid() {
    let world = with_topic();
    world.write("greet.sh", "#!/bin/sh\necho Hello\n");
    world.commit("Forget the name");
    review(&world, &finds(), &["--checks"])
        .ends_with(3)
        .says("red checks: test");
}

#[test]
fn what_nobody_understands_is_not_clean() {
    let world = with_topic();
    let mumbles = crew(
        &always(approves()),
        &always(vec![serde_json::json!({"result": "hm"})]),
        &always(approves()),
    );
    review(&world, &mumbles, &[]).ends_with(4).says("undecided");
}

/// A reviewer that fails is tried once more, and then its own failure is told.
#[test]
fn a_reviewer_that_fails_is_tried_again_and_named_with_the_cause() {
    let world = with_topic();
    for (ends, says) in [
        ("exit 1", "exit code 1"),
        ("exit 3", "exit code 3"),
        ("kill -KILL $$", "exit code 137"),
        ("kill -SEGV $$", "exit code 139"),
    ] {
        let tries = world.put("tries", "");
        let script = world.put(
            "fails.sh",
            format!("#!/bin/sh\necho try >> \"$TRIES\"\n{ends}\n").replace("$TRIES", &tries),
        );
        world.shell("sh", &format!("chmod +x {script}"));
        let reviewer = format!("command:{script}");
        let ran = world
            .call(&["review", "--reviewer", &reviewer])
            .ends_with(4);
        assert!(ran.err.contains(says), "{ends}: {}", ran.err);
        assert!(!ran.err.contains("is held by"), "{}", ran.err);
    }
}

/// The data directory may be named through `..`: inside the sandbox its paths still lead somewhere.
#[test]
fn a_data_directory_named_through_its_parent_is_seen_by_the_reviewer() {
    let world = with_topic();
    let script = world.put(
        "sees.sh",
        "#!/bin/sh\nfor f in \"$COUNTERSIGN_BRIEF_FILE\" \"$HOME\" \"$TMPDIR\"; do [ -e \"$f\" ] || { echo \"missing: $f\"; exit 5; }; done\n\
         printf '{\"verdict\":\"approve\",\"commit\":\"%s\",\"complete\":true}' \"$COUNTERSIGN_COMMIT\"\n",
    );
    world.shell("sh", &format!("chmod +x {script}"));
    let root = world.root();
    let name = root.file_name().unwrap().to_str().unwrap();
    std::os::unix::fs::symlink(&world.repository, root.join("link")).unwrap();
    let reviewer = format!("command:{script}");
    for dir in [
        "../by-parent".to_owned(),
        format!("{}/../{name}/absolute", root.display()),
        format!("{}/link/../through-link", root.display()),
        "./../a/./../by-dots".to_owned(),
    ] {
        world
            .without_data(&["--data-dir", &dir, "review", "--reviewer", &reviewer])
            .ends_with(0);
    }
}

#[test]
fn half_a_merge_is_no_change() {
    let world = with_topic();
    world.git(&["switch", "--quiet", "main"]);
    world.write("greet.sh", "#!/bin/sh\necho no\n");
    world.commit("Another greeting");
    world.call(&["doctor"]);
    let merge = std::fs::read_to_string(world.repository.join(".git/refs/heads/topic")).unwrap();
    std::fs::write(world.repository.join(".git/MERGE_HEAD"), merge).unwrap();
    let ran = world.call(&["review", "--worktree", "--linters-only"]);
    expect![[r#"
        exit 2
        error: a merge is in progress in this repository
          hint: finish it, or `git merge --abort`, or review commits: countersign review BASE..HEAD
    "#]]
    .assert_eq(&ran.complaint(&world));
    world
        .call(&["review", "main..topic", "--linters-only"])
        .ends_with(0);
}

#[test]
fn what_cannot_be_reviewed_says_what_to_do() {
    let world = World::new();
    let empty = world.call(&["review", "--linters-only"]).ends_with(0);
    expect![[r#"
        nothing to review: main..main has no changes
        uncommitted changes: countersign review --worktree (or --staged)
        the last commit: countersign review --commit HEAD
    "#]]
    .assert_eq(&empty.out);
    let bad = world.put("bad.patch", "--- a/none\n+++ b/none\n@@ -1 +1 @@\n-x\n+y\n");
    for (words, wanted) in [
        (&["review", "nowhere"][..], "names no commit here"),
        (&["review", "--commit", "HEAD"], "no reviewer is named"),
        (
            &["review", "--patch", &bad, "--linters-only"],
            "does not apply",
        ),
        (&["review", "--staged", "--worktree"], "cannot be used with"),
        (
            &[
                "review", "--commit", "HEAD", "--linter", "a=true", "--linter", "a=true",
            ],
            "two reviewers are called",
        ),
    ] {
        world.call(words).ends_with(2).says(wanted);
    }
}
