//! Builders that do nothing, too much, or something else than they were asked.

use std::fs;

use serde_json::json;

use super::{greet, greet_with, merges, on};
use crate::support::crew::{
    self, GOOD, HASTY, WRONG, always, approves, builds, built_by, crew, rounds, runs, verifies,
    writes,
};
use crate::support::{SETTINGS, World};

#[test]
fn a_red_check_goes_back_to_the_builder_and_costs_no_round() {
    let world = World::unconfined();
    let flag = world.root().join("tried");
    let text = format!(
        "if [ -e {0} ]; then printf '%s' \"$GOOD\" > greet.sh; else touch {0}; printf 'echo Hello\\n' > greet.sh; fi",
        flag.display()
    )
    .replace("\"$GOOD\"", &format!("'{}'", GOOD.replace('\'', "'\\''")));
    let steps = vec![runs(&text), json!({"result": {"summary": "Done."}})];
    greet(&world, &built_by(&always(steps)))
        .ends_with(0)
        .says("red");
    let ticket = world.ticket("greet");
    assert_eq!(ticket["rounds"].as_array().unwrap().len(), 1, "{ticket}");
    assert_eq!(ticket["counts"]["verdicts"], 1);
    assert_eq!(on(&world, "main", "greet.sh"), GOOD.trim_end());
}

#[test]
fn checks_that_stay_red_end_with_a_person() {
    let world = World::new();
    let steps = vec![
        runs("date +%s%N > stamp.txt"),
        writes("greet.sh", WRONG),
        json!({"result": {"summary": "Done."}}),
    ];
    greet(&world, &built_by(&always(steps)))
        .ends_with(4)
        .says("checks red")
        // Another reviewer would not make them green.
        .says("reassign --builder");
    assert_eq!(merges(&world), 0);
}

#[test]
fn a_builder_that_changes_nothing_is_tried_again_and_then_a_person_is_asked() {
    let world = World::new();
    greet(&world, &built_by(&always(json!([]))))
        .ends_with(4)
        .says("the builder changed nothing");
    assert_eq!(merges(&world), 0);
}

#[test]
fn a_builder_may_commit_by_itself() {
    let world = World::new();
    let steps = vec![
        writes("greet.sh", HASTY),
        json!({"commit": {"message": "First half"}}),
        writes("greet.sh", GOOD),
        json!({"commit": {"message": "Second half"}}),
    ];
    greet(&world, &built_by(&always(steps))).ends_with(0);
    let history = world.git(&["log", "--format=%s", "main"]);
    assert!(
        history.contains("First half") && history.contains("Second half"),
        "{history}"
    );
}

#[test]
fn its_commits_arrive_where_all_paths_lead_through_a_symbolic_link() {
    let mut world = World::new();
    let (link, real) = (world.root().join("link"), world.root());
    std::os::unix::fs::symlink(real, &link).unwrap();
    world.repository = link.join("repository");
    world.data = link.join("data");
    let steps = vec![
        writes("greet.sh", GOOD),
        json!({"commit": {"message": "By its own hand"}}),
    ];
    greet(&world, &built_by(&always(steps))).ends_with(0);
    let history = world.git(&["log", "--format=%s", "main"]);
    assert!(history.contains("By its own hand"), "{history}");
}

#[test]
fn what_a_builder_leaves_uncommitted_is_committed_or_refused_as_the_policy_says() {
    let world = World::new();
    greet(&world, &crew::smooth()).ends_with(0);
    let strict = World::with_settings(
        &format!("{SETTINGS}[policy]\nuncommitted = \"refuse\"\n").replace(
            "[policy.limits]\nbackoff_secs = 0\n[policy]\nuncommitted = \"refuse\"\n",
            "[policy]\nuncommitted = \"refuse\"\n[policy.limits]\nbackoff_secs = 0\n",
        ),
    );
    greet(&strict, &crew::smooth())
        .ends_with(4)
        .says("the builder left uncommitted: greet.sh");
    assert_eq!(merges(&strict), 0);
}

#[test]
fn history_at_or_below_the_base_is_not_rewritten() {
    let world = World::new();
    world.write("second.txt", "2\n");
    world.commit("Second");
    let steps = vec![
        runs("git reset --quiet --hard HEAD~1"),
        writes("greet.sh", GOOD),
        json!({"commit": {"message": "On other ground"}}),
    ];
    greet(&world, &built_by(&always(steps)))
        .ends_with(4)
        .says("rewrote history at or below the base");
    assert_eq!(merges(&world), 0);
    assert_eq!(on(&world, "main", "second.txt"), "2");
}

#[test]
fn an_orphan_history_is_not_taken() {
    let world = World::new();
    let steps = vec![
        runs("git checkout --quiet --orphan other && git rm -rfq . && git clean -fdq"),
        writes("greet.sh", GOOD),
        json!({"commit": {"message": "From nothing"}}),
    ];
    greet(&world, &built_by(&always(steps))).ends_with(4);
    assert_eq!(merges(&world), 0);
}

#[test]
fn a_builder_that_weakens_the_checks_is_held_to_the_bases_and_the_reviewer_is_told() {
    let world = World::unconfined();
    let steps = vec![
        writes("countersign.toml", "[checks]\ntest = \"true\"\n"),
        writes("test.sh", "exit 0\n"),
        writes("greet.sh", WRONG),
        writes("stamp.txt", "x\n"),
    ];
    let brief = world.root().join("brief.md");
    let mut review = vec![runs(&format!(
        "cp \"$COUNTERSIGN_BRIEF_FILE\" {}",
        brief.display()
    ))];
    review.extend(approves());
    // The check itself is the base's command; what it runs is in the change, and the reviewer sees it.
    let script = crew(&always(steps), &always(review), &always(verifies(&[])));
    let settings = SETTINGS.replace(
        "sh test.sh",
        "test ! -e greet.sh || test \\\"$(sh greet.sh Ada)\\\" = 'Hello, Ada'",
    );
    world.write("countersign.toml", &settings);
    world.commit("A check of its own");
    greet(&world, &script).ends_with(4).says("checks red");
    assert_eq!(merges(&world), 0);
    assert!(!brief.exists(), "what is red is not put before a reviewer");

    let told = World::unconfined();
    let brief = told.root().join("brief.md");
    let mut review = vec![runs(&format!(
        "cp \"$COUNTERSIGN_BRIEF_FILE\" {}",
        brief.display()
    ))];
    review.extend(approves());
    let mut build = builds("greet.sh", GOOD);
    build.push(writes("countersign.toml", "[checks]\ntest = \"true\"\n"));
    greet(
        &told,
        &crew(&always(build), &always(review), &always(verifies(&[]))),
    )
    .ends_with(0);
    let brief = fs::read_to_string(brief).unwrap();
    assert!(brief.contains("countersign.toml"), "{brief}");
    let ticket = told.ticket("greet");
    assert_eq!(
        ticket["submission"]["protected"],
        json!(["countersign.toml"])
    );
}

#[test]
fn a_change_of_a_protected_path_can_be_forbidden() {
    let settings = SETTINGS.replace(
        "[policy.limits]",
        "[policy]\nprotected = [\"test.sh\"]\nprotected_change = \"forbid\"\n\n[policy.limits]",
    );
    let world = World::with_settings(&settings);
    let mut build = builds("greet.sh", GOOD);
    build.push(writes("test.sh", "exit 0\n"));
    let ran = greet(&world, &built_by(&always(build)));
    assert_ne!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(merges(&world), 0);
}

#[test]
fn a_hook_and_a_filter_that_a_builder_leaves_are_not_run() {
    let world = World::new();
    let proof = world.root().join("the-trick-ran");
    let trick = format!("touch {}", proof.display());
    let steps = vec![
        runs(&format!(
            "d=$(git rev-parse --git-common-dir); mkdir -p \"$d/hooks\"; for h in pre-commit post-checkout reference-transaction pre-merge-commit; do printf '#!/bin/sh\\n{trick}\\n' > \"$d/hooks/$h\"; chmod +x \"$d/hooks/$h\"; done"
        )),
        writes("greet.sh", GOOD),
    ];
    let ran = greet(&world, &built_by(&always(steps)));
    assert!([0, 4].contains(&ran.code), "{}{}", ran.out, ran.err);
    assert!(!proof.exists(), "the builder's hook ran as us");
}

#[test]
fn a_builder_that_fails_once_is_tried_again() {
    let world = World::unconfined();
    let flag = world.root().join("failed-once");
    let mut steps = vec![runs(&format!(
        "[ -e {0} ] || {{ touch {0}; exit 1; }}",
        flag.display()
    ))];
    steps.extend(builds("greet.sh", GOOD));
    greet(&world, &built_by(&always(steps))).ends_with(0);
    assert_eq!(merges(&world), 1);
    let failed = world.count("greet", "job_failed");
    assert_eq!(failed, 1);
}

#[test]
fn an_approval_by_whoever_built_it_does_not_count() {
    let world = World::new();
    let mut build = vec![writes("greet.sh", GOOD)];
    // It signs its commit with the reviewer's name.
    build.push(runs(
        "git add -A && git commit --quiet --author='scripted (reviewer) <r@localhost>' -m mine",
    ));
    let ran = greet(&world, &built_by(&rounds([build])));
    ran.ends_with(4);
    assert_eq!(merges(&world), 0);
}

#[test]
fn secrets_in_a_change_are_a_red_check() {
    let world = World::new();
    let mut build = builds("greet.sh", GOOD);
    let key = format!("AKIA{}", "IOSFODNN7EXAMPLQ");
    build.push(writes("deploy.env", &format!("AWS_ACCESS_KEY_ID={key}\n")));
    greet_with(&world, &built_by(&always(build)), &[])
        .ends_with(4)
        .says("secrets");
    assert_eq!(merges(&world), 0);
}
