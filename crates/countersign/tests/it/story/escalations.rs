//! Tests the decisions of a person, and their effects.

use super::{go_on, greet, merges, on, resolve};
use crate::support::World;
use crate::support::crew::{self, GOOD, HASTY, quarrel, smooth};

/// A ticket that waits for a person after three rounds.
fn escalated() -> World {
    let world = World::new();
    greet(&world, &quarrel()).ends_with(4);
    assert_eq!(world.stage("greet"), "escalated");
    world
}

#[test]
fn an_escalation_is_listed_and_shown_with_what_can_be_decided() {
    let world = escalated();
    let listed = world.json(&["escalation", "list"]);
    assert_eq!(listed["escalations"][0]["id"], "greet");
    let choices = listed["escalations"][0]["choices"].clone();
    assert_eq!(
        choices,
        serde_json::json!([
            "accept",
            "continue",
            "take-over",
            "reset",
            "reassign",
            "reject"
        ])
    );
    // Another repository lists its own, and all of them on request.
    let other = world.root().join("other").display().to_string();
    world.git(&["clone", "--quiet", ".", &other]);
    world
        .call(&["-C", &other, "escalation", "list"])
        .ends_with(0)
        .says("list all with --all");
    world
        .call(&["-C", &other, "escalation", "list", "--all"])
        .ends_with(0)
        .says("countersign escalation show greet");
    world
        .call(&["escalation", "show", "greet"])
        .ends_with(0)
        .says("An empty name is accepted")
        .says("countersign escalation resolve greet continue");
    world
        .call(&["status"])
        .ends_with(0)
        .says("waiting for a person");
}

#[test]
fn one_finding_is_waived_in_a_persons_name_and_for_a_reason() {
    let world = escalated();
    let waive =
        |finding: &str, why: &str| world.call(&["ticket", "waive", "greet", finding, "--why", why]);
    waive("F1", " ").ends_with(6).says("say why");
    waive("F9", "no such thing")
        .ends_with(6)
        .says("no open finding F9");
    waive("F1", "the input is ours alone").ends_with(0);
    let entry = &world.ticket("greet")["ledger"][0];
    assert_eq!(entry["status"], "waived", "{entry}");
    assert!(entry.to_string().contains("ours alone"), "{entry}");
    assert_eq!(world.stage("greet"), "escalated");
}

#[test]
fn accept_needs_a_reason_waives_what_is_open_and_lands() {
    let world = escalated();
    resolve(&world, &["accept"]).ends_with(6);
    assert_eq!(world.stage("greet"), "escalated");
    resolve(&world, &["accept", "--why", "good enough"])
        .ends_with(0)
        .says("next: countersign run greet");
    let ticket = world.ticket("greet");
    assert_eq!(ticket["stage"], "approved");
    assert_eq!(ticket["ledger"][0]["status"], "waived", "{ticket}");
    go_on(&world, &quarrel())
        .ends_with(0)
        .says("accepted by ada (good enough)");
    assert_eq!(merges(&world), 1);
    assert!(on(&world, "main", "greet.sh").starts_with(HASTY.trim_end()));
    world.must_be_sound();
}

#[test]
fn continue_gives_one_more_round_and_the_hard_cap_ends_that() {
    let world = escalated();
    for rounds in [4, 5] {
        resolve(&world, &["continue"]).ends_with(0);
        assert_eq!(world.stage("greet"), "rework");
        go_on(&world, &quarrel()).ends_with(4);
        assert_eq!(
            world.ticket("greet")["rounds"].as_array().unwrap().len(),
            rounds
        );
    }
    resolve(&world, &["continue"]).ends_with(6);
    world.must_be_sound();
}

#[test]
fn continue_with_a_better_builder_lands() {
    let world = escalated();
    resolve(&world, &["continue"]).ends_with(0);
    let script = crew::crew(
        &crew::always(crew::builds("greet.sh", GOOD)),
        &crew::always(crew::approves()),
        &crew::always(crew::verifies(&[("F1", "fixed")])),
    );
    go_on(&world, &script).ends_with(0);
    assert_eq!(on(&world, "main", "greet.sh"), GOOD.trim_end());
}

#[test]
fn reset_starts_the_count_again() {
    let world = escalated();
    resolve(&world, &["reset"]).ends_with(0);
    assert_eq!(world.ticket("greet")["counts"]["verdicts"], 0);
    go_on(&world, &quarrel()).ends_with(4);
    assert_eq!(world.ticket("greet")["round"], 6);
}

#[test]
fn reject_needs_a_reason_and_is_the_end() {
    let world = escalated();
    resolve(&world, &["reject"]).ends_with(6);
    resolve(&world, &["reject", "--why", "not this way"]).ends_with(0);
    assert_eq!(world.stage("greet"), "failed");
    go_on(&world, &smooth()).ends_with(5);
    assert_eq!(merges(&world), 0);
}

#[test]
fn take_over_blocks_until_the_person_resubmits_and_then_it_is_reviewed_anew() {
    let world = escalated();
    resolve(&world, &["take-over"]).ends_with(0);
    assert_eq!(world.stage("greet"), "blocked");
    go_on(&world, &smooth()).ends_with(8);
    assert_eq!(world.stage("greet"), "blocked");
    let resubmit = || world.call(&["ticket", "resubmit", "greet"]);
    world.git(&[
        "checkout",
        "--quiet",
        "--ignore-other-worktrees",
        "countersign/greet",
    ]);
    world.write("greet.sh", GOOD);
    world.commit("By hand");
    world.git(&["checkout", "--quiet", "main"]);
    resubmit().ends_with(0);
    assert_eq!(world.stage("greet"), "checking");
    resubmit().ends_with(6);
    let script = crew::crew(
        &crew::always(crew::builds("greet.sh", HASTY)),
        &crew::always(crew::approves()),
        &crew::always(crew::verifies(&[("F1", "fixed")])),
    );
    go_on(&world, &script).ends_with(0);
    assert_eq!(on(&world, "main", "greet.sh"), GOOD.trim_end());
    assert_eq!(merges(&world), 1);
    world.must_be_sound();
}

#[test]
fn reassign_names_somebody_and_only_they_take_it_up() {
    let world = escalated();
    resolve(&world, &["reassign"]).ends_with(6);
    let fresh = world.named_crew("fresh", &quarrel());
    resolve(&world, &["reassign", "--reviewer", &fresh]).ends_with(0);
    let rounds = || world.ticket("greet")["rounds"].as_array().unwrap().len();
    go_on(&world, &quarrel())
        .ends_with(6)
        .says("no agent has that name here")
        .says("--reviewer");
    assert_eq!(rounds(), 3);
    let old = world.crew(&quarrel());
    let words = ["run", "greet", "--builder", &old, "--reviewer", &fresh];
    world.call(&words).ends_with(4);
    assert_eq!(rounds(), 4, "the same commit before the new reviewer");
    resolve(&world, &["reassign", "--builder", &fresh]).ends_with(0);
    let words = ["run", "greet", "--builder", &fresh, "--reviewer", &fresh];
    world.call(&words).ends_with(4);
    assert_eq!(rounds(), 5);
    world.must_be_sound();
}

#[test]
fn a_decision_on_a_ticket_that_does_not_wait_is_refused() {
    let world = World::new();
    greet(&world, &smooth()).ends_with(0);
    let before = world.ticket("greet");
    resolve(&world, &["accept", "--why", "again"]).ends_with(6);
    assert_eq!(world.ticket("greet"), before);
    world.call(&["escalation", "show", "greet"]).ends_with(2);
}

fn comment(world: &World, words: &[&str]) -> crate::support::Ran {
    world.call(&[&["ticket", "comment", "greet"], words].concat())
}

#[test]
fn a_persons_finding_is_reworked_and_verified_like_any_other() {
    let world = escalated();
    comment(&world, &["greet.sh:1", "No shebang", "--must-fix"])
        .ends_with(0)
        .says("F2 (high, open) No shebang, greet.sh:1")
        .says("greet is escalated");
    let entry = &world.ticket("greet")["ledger"][1];
    assert_eq!(entry["reported_by"], serde_json::json!(["ada"]), "{entry}");
    resolve(&world, &["continue"]).ends_with(0);
    // Fixed is what a verifier has seen to be fixed; an approving reviewer is not enough.
    let script = |second: &str| {
        crew::crew(
            &crew::always(crew::builds("greet.sh", GOOD)),
            &crew::always(crew::approves()),
            &crew::always(crew::verifies(&[("F1", "fixed"), ("F2", second)])),
        )
    };
    go_on(&world, &script("confirmed")).ends_with(4);
    resolve(&world, &["continue"]).ends_with(0);
    go_on(&world, &script("fixed")).ends_with(0);
    assert_eq!(world.ticket("greet")["ledger"][1]["status"], "fixed");
    world.must_be_sound();
}

#[test]
fn a_comment_on_a_place_that_is_not_there_is_refused() {
    let world = escalated();
    for (place, why) in [
        ("greet.sh:9999", "lines in commit"),
        ("gone.sh:1", "has no file gone.sh"),
        ("../greet.sh:1", "not a path in the repository"),
        ("/etc/passwd:1", "not a path in the repository"),
        ("greet.sh:0", "not a place"),
        ("greet.sh:3-1", "not a place"),
    ] {
        comment(&world, &[place, "Wrong"]).ends_with(2).says(why);
    }
    comment(&world, &["greet.sh:1", "  "])
        .ends_with(2)
        .says("empty");
    comment(&world, &["greet.sh:1", "x", "--severity", "awful"])
        .ends_with(2)
        .says("not a severity");
    assert_eq!(world.ticket("greet")["ledger"].as_array().unwrap().len(), 1);
}

#[test]
fn the_findings_of_a_tool_are_handed_in() {
    let world = escalated();
    world.put(
        "report.sarif",
        r#"{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "lint"}}, "results": [
            {"ruleId": "R1", "level": "error", "message": {"text": "Quote the variable"},
             "locations": [{"physicalLocation": {"artifactLocation": {"uri": "greet.sh"},
             "region": {"startLine": 1}}}]},
            {"ruleId": "R2", "level": "note", "message": {"text": "Generated file is long"},
             "locations": [{"physicalLocation": {"artifactLocation": {"uri": "gone.sh"},
             "region": {"startLine": 7}}}]}]}]}"#,
    );
    world.put(
        "report.rdjson",
        r#"{"source": {"name": "lint"}, "diagnostics": [{"message": "Trailing space",
            "location": {"path": "greet.sh", "range": {"start": {"line": 1}}}, "severity": "WARNING"}]}"#,
    );
    world.put("empty.txt", "nothing to see here\n");
    world.put(
        "clean.sarif",
        r#"{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "lint"}}, "results": []}]}"#,
    );
    let import = |file: &str| {
        let path = world.root().join(file);
        world.call(&["ticket", "import-findings", "greet", path.to_str().unwrap()])
    };
    import("report.sarif")
        .ends_with(0)
        .says("Quote the variable, greet.sh:1")
        .says("Generated file is long");
    import("report.rdjson")
        .ends_with(0)
        .says("Trailing space, greet.sh:1");
    import("empty.txt").ends_with(2).says("no finding");
    import("clean.sarif")
        .ends_with(0)
        .says("the report has no findings: nothing was added");
    let ledger = world.ticket("greet")["ledger"].clone();
    assert_eq!(ledger.as_array().unwrap().len(), 4, "{ledger}");
}
