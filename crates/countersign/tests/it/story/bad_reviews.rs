//! Reviewers that say nothing, nonsense, two things at once, or put their hands on the work.

use std::fs;

use serde_json::{Value, json};

use super::{greet, greet_with, merges};
use crate::support::World;
use crate::support::crew::{
    self, always, answers, approves, crew, empty_name, reviewed_by, rounds, runs, says, verifies,
};

/// Runs the ticket before a reviewer that always does the same; it must end with a person.
#[track_caller]
fn ends_with_a_person(steps: Vec<Value>, reason: &str) -> World {
    let world = World::unconfined();
    greet(&world, &reviewed_by(&always(steps)))
        .ends_with(4)
        .says(reason);
    assert_eq!(world.stage("greet"), "escalated");
    assert_eq!(merges(&world), 0);
    world.must_be_sound();
    world
}

#[test]
fn a_reviewer_that_says_nothing_approves_nothing() {
    let world = ends_with_a_person(vec![], "no usable review in 3 attempts");
    assert_eq!(world.count("greet", "review_unusable"), 3);
}

#[test]
fn garbage_is_no_approval() {
    ends_with_a_person(
        answers("\u{1b}[2J}}{{ approve? verdict: \u{7}maybe"),
        "no usable review",
    );
}

#[test]
fn a_cut_answer_is_no_approval() {
    ends_with_a_person(answers("{\"verdict\": \"appro"), "no usable review");
}

#[test]
fn a_reviewer_that_fails_is_tried_again_and_then_a_person_is_asked() {
    ends_with_a_person(
        vec![says("no"), json!({"exit": 3})],
        "review failed for good",
    );
}

#[test]
fn the_word_approved_beside_a_critical_finding_is_not_an_approval() {
    let world = World::new();
    let contradiction = answers(
        json!({"verdict": "approve", "commit": "$COMMIT", "complete": true,
            "findings": [empty_name("critical")]}),
    );
    let script = crew(
        &always(crew::builds("greet.sh", crew::GOOD)),
        &always(contradiction),
        &always(verifies(&[("F1", "confirmed")])),
    );
    greet_with(&world, &script, &["--max-rounds", "1"]).ends_with(4);
    let ticket = world.ticket("greet");
    assert_eq!(
        ticket["rounds"][0]["verdict"]["approved"], false,
        "{ticket}"
    );
    assert_eq!(merges(&world), 0);
}

#[test]
fn a_sentence_that_cannot_approve_is_not_an_approval() {
    let world = World::new();
    let words = "I can't approve this PR: the name is not checked in greet.sh.";
    greet_with(
        &world,
        &reviewed_by(&always(answers(words))),
        &["--max-rounds", "1"],
    )
    .ends_with(4);
    assert_eq!(merges(&world), 0);
}

#[test]
fn a_reviewer_that_changes_its_checkout_is_void_three_times_and_then_a_person_is_asked() {
    let mut steps = vec![runs("echo '# fine' >> greet.sh")];
    steps.extend(approves());
    let world = ends_with_a_person(steps, "no usable review in 3 attempts");
    let log = world.call(&["log", "greet"]).ends_with(0);
    assert!(log.out.contains("the checkout was changed"), "{}", log.out);
}

#[test]
fn a_reviewer_that_commits_adds_a_hook_or_hides_a_file_is_void() {
    for trick in [
        "git -c user.name=x -c user.email=x@x commit --quiet --allow-empty -m mine",
        "mkdir -p .git/hooks && echo 'exit 0' > .git/hooks/pre-commit",
        "chmod 600 greet.sh",
        "mkdir -p .cache .git/info && echo x > .cache/x && echo .cache > .git/info/exclude",
    ] {
        let world = World::unconfined();
        let mut steps = vec![runs(trick)];
        steps.extend(approves());
        let script = crew(
            &always(crew::builds("greet.sh", crew::GOOD)),
            &rounds([steps]),
            &always(verifies(&[])),
        );
        greet(&world, &script).ends_with(4).says("no usable review");
        assert_eq!(merges(&world), 0, "{trick}");
    }
}

#[test]
fn a_reviewer_cannot_reach_the_builders_branch_from_its_checkout() {
    let world = World::new();
    let mut steps = vec![runs(
        "git push --quiet origin HEAD:refs/heads/main || true; git remote > remotes.txt; rm remotes.txt",
    )];
    steps.extend(approves());
    let before = world.git(&["rev-parse", "main"]);
    let ran = greet_with(&world, &reviewed_by(&always(steps)), &["--land", "branch"]);
    assert!([0, 4].contains(&ran.code), "{}{}", ran.out, ran.err);
    assert_eq!(world.git(&["rev-parse", "main"]), before);
}

/// The sandbox refuses the attempts of both.
#[test]
fn a_builder_that_reaches_out_and_a_reviewer_that_writes_reach_nothing() {
    let world = World::new();
    let outside = world.root().join("outside");
    let reach = format!(
        "echo x > {0}; echo x > .git; rm -f .git; git config core.fsmonitor /bin/false; cat {1}",
        outside.display(),
        world.data.join("countersign.db").display()
    );
    let reach = json!({"run": {"command": reach, "may_fail": true}});
    let mut build = crew::builds("greet.sh", crew::GOOD);
    build.insert(
        0,
        json!({"commit": {"message": "in the builder's own words"}}),
    );
    build.insert(0, reach);
    build.insert(
        0,
        json!({"write": {"path": "notes.txt", "text": "by the builder\n"}}),
    );
    let write = "echo x > greet.sh; touch new; chmod 700 greet.sh; git commit --allow-empty -m x";
    let mut review = vec![json!({"run": {"command": write, "may_fail": true}})];
    review.extend(approves());
    let script = crew(&always(build), &always(review), &always(verifies(&[])));
    greet(&world, &script).ends_with(0);
    assert!(!outside.exists());
    assert!(
        world
            .git(&["log", "main"])
            .contains("in the builder's own words")
    );
    assert!(!world.git(&["config", "--list"]).contains("fsmonitor"));
    let shown = world.call(&["--json", "ticket", "show", "greet"]);
    assert!(shown.out.contains(" sandbox ("), "{}", shown.out);
    assert!(
        shown.out.contains("proven before the start"),
        "{}",
        shown.out
    );
    world.must_be_sound();
}

/// An answer that cannot be meant for this ticket is none, whatever it says.
#[test]
fn an_approval_of_another_ticket_is_no_approval() {
    let of_another = json!({"ticket": "other-7", "verdict": "approve", "commit": "$COMMIT",
        "complete": true, "findings": []});
    let world = ends_with_a_person(answers(of_another), "no usable review in 3 attempts");
    let log = world.call(&["log", "greet"]).ends_with(0);
    assert!(
        log.out.contains("the answer names another ticket"),
        "{}",
        log.out
    );

    let world = World::new();
    let of_ours = json!({"ticket": "greet", "verdict": "approve", "commit": "$COMMIT",
        "complete": true, "findings": []});
    greet(&world, &reviewed_by(&always(answers(of_ours)))).ends_with(0);
}

/// Ten thousand findings, no two alike.
fn flood() -> Value {
    let words = [
        "overflow", "race", "leak", "typo", "panic", "deadlock", "quota",
    ];
    let finding = |n: usize| {
        let (one, two) = (words[n % 7], words[n / 7 % 7]);
        json!({"severity": if n == 9_999 { "critical" } else { "high" },
            "file": format!("src/part{n}/{one}.sh"), "line": n + 1,
            "title": format!("{one} number {n} meets {two} in part {n}"),
            "problem": format!("{one}{n} and {two}{n}: {}", "it goes on and on ".repeat(30))})
    };
    let findings: Vec<Value> = (0..10_000).map(finding).collect();
    json!({"verdict": "changes_requested", "findings": findings})
}

#[test]
fn ten_thousand_findings_are_counted_and_the_gravest_kept() {
    let world = World::new();
    let script = crew(
        &rounds([
            crew::builds("greet.sh", crew::HASTY),
            crew::builds("greet.sh", crew::GOOD),
        ]),
        &rounds([answers(flood()), approves()]),
        &always(verifies(&[])),
    );
    let ran = greet_with(&world, &script, &["--max-rounds", "2"]).ends_with(4);
    assert!(ran.out.len() < 40_000, "it says {} bytes", ran.out.len());
    let ticket = world.ticket("greet");
    let ledger = ticket["ledger"].as_array().unwrap();
    assert_eq!(ledger.len(), 200);
    let gravest = ledger[0]["finding"]["title"].as_str().unwrap();
    assert!(gravest.contains("9999"), "{gravest}");
    let told = world.call(&["ticket", "show", "greet", "--json"]);
    assert!(told.out.contains("9800 more findings were not kept"));
    // Nothing swells: neither what the next builder reads nor what is stored for good.
    let brief = world
        .data
        .join("tickets/greet/jobs/4/run-1/scratch/brief.md");
    assert!(fs::metadata(brief).unwrap().len() < 300_000);
    let log = world.call(&["log", "greet", "--json"]);
    assert!(
        log.out.len() < 1_000_000,
        "the log has {} bytes",
        log.out.len()
    );
    let stored = fs::metadata(world.data.join("countersign.db"))
        .unwrap()
        .len();
    assert!(stored < 3_000_000, "the store has {stored} bytes");
}
