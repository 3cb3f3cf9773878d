//! Tickets that land as pull requests, on a forge that remembers.

use rustix::process::Signal;
use serde_json::json;

use super::{greet_with, resolve};
use crate::support::crew::{
    self, GOOD, always, approves, builds, crew, empty_name, rejects, rounds, two_rounds, verifies,
};
use crate::support::github::{BOT, Github, git};
use crate::support::processes::signal;
use crate::support::{DEADLINE, Ran, World, until};

const BRANCH: &str = "countersign/greet";

fn run(world: &World, crew: &serde_json::Value) -> Ran {
    greet_with(world, crew, &["--land", "pr"])
}

/// Runs the ticket until it is approved and waits for a person.
fn approved(world: &World, github: &Github, crew: &serde_json::Value) -> String {
    run(world, crew).ends_with(0);
    assert_eq!(world.stage("greet"), "approved");
    assert_eq!(gate(github, &github.branch(BRANCH)), "success");
    github.branch(BRANCH)
}

fn gate(github: &Github, commit: &str) -> String {
    let state = github.lock();
    let gates = state.statuses.iter().rev();
    let mut gates = gates.filter(|(of, one)| of == commit && one["context"] == "countersign");
    let (_, status) = gates.next().unwrap();
    status["state"].as_str().unwrap().to_owned()
}

#[test]
fn two_rounds_are_one_pull_request_with_one_thread_and_one_summary() {
    let world = World::new();
    let github = Github::of(&world, "pr_labels = [\"countersigned\"]");
    let main = world.git(&["rev-parse", "main"]);
    let head = approved(&world, &github, &two_rounds());
    {
        let state = github.lock();
        assert_eq!(state.refused, [""; 0]);
        assert_eq!(state.pulls.len(), 1);
        let pull = &state.pulls[0];
        assert_eq!(pull["draft"], false);
        assert_eq!(pull["head"]["sha"], head.as_str());
        let body = pull["body"].as_str().unwrap();
        assert!(
            body.contains("### What was proven") && body.contains(&head),
            "{body}"
        );
        assert!(
            body.contains("| F1: An empty name is accepted | high, must be fixed |"),
            "{body}"
        );
        assert_eq!(state.comments.len(), 1);
        let summary = state.comments[0]["body"].as_str().unwrap();
        assert!(summary.contains("### Approved"), "{summary}");
        assert!(
            summary.contains("It waits for a person who merges it"),
            "{summary}"
        );
        assert_eq!(state.labels, ["countersigned"]);
        let first = &state.threads[0];
        assert_eq!(first["path"], "greet.sh");
        assert_eq!(first["resolved"], true);
        let replies: Vec<_> = state.threads[1..].iter().collect();
        assert_eq!(replies.len(), 1, "{replies:?}");
    }
    let shown = world.call(&["ticket", "show", "greet"]);
    shown.ends_with(0).says("https://forge.example/o/r/pull/1");
    // Nothing of the person's moves before the merge, and nothing is written twice.
    assert_eq!(world.git(&["rev-parse", "main"]), main);
    let before = github.summary();
    run(&world, &two_rounds()).ends_with(0);
    assert_eq!(github.summary(), before);

    github.merge();
    run(&world, &two_rounds()).ends_with(0);
    assert_eq!(world.stage("greet"), "done");
    assert_eq!(world.ticket("greet")["landed"]["commit"], head.as_str());
    world.must_be_sound();
}

#[test]
fn countersign_merges_the_approved_commit_where_the_project_says_so() {
    let world = World::new();
    let github = Github::of(&world, "pr_merge = \"countersign\"");
    run(&world, &two_rounds()).ends_with(0);
    assert_eq!(world.stage("greet"), "done");
    let state = github.lock();
    assert_eq!(state.pulls[0]["merged"], true);
    assert_eq!(state.comments.len(), 1);
    drop(state);
    assert_eq!(github.branch("main"), github.branch(BRANCH));
}

/// A crew that mends what a person found after the approval.
pub fn mends_for_a_person() -> serde_json::Value {
    crew(
        &rounds([
            builds("greet.sh", GOOD),
            builds("greet.sh", &format!("{GOOD}# quoted\n")),
        ]),
        &always(approves()),
        &always(verifies(&[("F1", "fixed")])),
    )
}

#[test]
fn what_a_person_asks_for_is_reworked_once_and_a_reader_is_not_heard() {
    let world = World::new();
    let github = Github::of(&world, "");
    let first = approved(&world, &github, &mends_for_a_person());
    github.review(
        "eve",
        "CHANGES_REQUESTED",
        ("greet.sh", 1, "I do not like it."),
    );
    run(&world, &mends_for_a_person()).ends_with(0);
    assert_eq!(github.branch(BRANCH), first);
    github.review(
        "ada",
        "CHANGES_REQUESTED",
        ("greet.sh", 2, "Say that it is quoted."),
    );
    run(&world, &mends_for_a_person()).ends_with(0);
    let second = github.branch(BRANCH);
    assert_ne!(first, second);
    assert_eq!(gate(&github, &second), "success");
    let ticket = world.ticket("greet");
    let entries = ticket["ledger"].as_array().unwrap();
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(entries[0]["reported_by"], json!(["ada"]));
    assert_eq!(entries[0]["finding"]["line"], 2);
    assert_eq!(entries[0]["status"], "fixed");
    // The comment is a thread already, so there is none of ours.
    let own = |thread: &&serde_json::Value| thread["user"]["login"] == BOT;
    assert_eq!(github.lock().threads.iter().filter(own).count(), 0);
    run(&world, &mends_for_a_person()).ends_with(0);
    assert_eq!(world.count("greet", "findings_added"), 1);
    world.must_be_sound();
}

#[test]
fn red_checks_of_others_go_back_to_the_builder() {
    let world = World::new();
    let github = Github::of(&world, "");
    let script = crew(
        &rounds([
            builds("greet.sh", GOOD),
            builds("greet.sh", &format!("{GOOD}# green\n")),
        ]),
        &always(approves()),
        &always(verifies(&[])),
    );
    let first = approved(&world, &github, &script);
    github.ci(&first, "failure");
    run(&world, &script).ends_with(0);
    let second = github.branch(BRANCH);
    assert_ne!(first, second);
    assert_eq!(gate(&github, &second), "success");
    assert_eq!(world.stage("greet"), "approved");
}

#[test]
fn a_push_of_somebody_else_takes_the_approval_back_until_it_is_reviewed() {
    let world = World::new();
    let github = Github::of(&world, "");
    let first = approved(&world, &github, &crew::smooth());
    let theirs = github.push(BRANCH, &first);
    run(&world, &crew::smooth()).ends_with(0);
    assert_eq!(world.count("greet", "went_stale"), 1);
    assert_eq!(github.branch(BRANCH), theirs);
    assert_eq!(world.ticket("greet")["approval"]["commit"], theirs.as_str());
    assert_eq!(gate(&github, &theirs), "success");
}

#[test]
fn commits_that_replace_ours_stay_and_a_person_decides() {
    let world = World::new();
    let github = Github::of(&world, "");
    approved(&world, &github, &crew::smooth());
    let main = github.branch("main");
    let theirs = github.push(BRANCH, &main);
    run(&world, &crew::smooth())
        .ends_with(4)
        .says("somebody pushed");
    assert_eq!(github.branch(BRANCH), theirs);
    assert!(world.ticket("greet")["approval"].is_null());
}

#[test]
fn a_closed_pull_request_asks_a_person_and_opens_again_where_it_goes_on() {
    let world = World::new();
    let github = Github::of(&world, "");
    approved(&world, &github, &crew::smooth());
    github.lock().pulls[0]["state"] = json!("closed");
    run(&world, &crew::smooth())
        .ends_with(4)
        .says("closed without a merge");
    resolve(&world, &["continue"]).ends_with(0);
    run(&world, &crew::smooth()).ends_with(0);
    assert_eq!(world.stage("greet"), "approved");
    assert_eq!(github.lock().pulls.len(), 2);
}

#[test]
fn without_a_connection_nobody_is_paid() {
    let world = World::new();
    run(&world, &crew::smooth()).ends_with(2).says("forge");
    assert!(
        world.json(&["ticket", "list"])["tickets"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn an_open_finding_stays_open_on_the_pull_request() {
    let world = World::new();
    let github = Github::of(&world, "");
    let script = crew(
        &rounds([
            builds("greet.sh", crew::HASTY),
            builds("greet.sh", &format!("{}# again\n", crew::HASTY)),
            builds("greet.sh", &format!("{}# and again\n", crew::HASTY)),
        ]),
        &always(rejects([empty_name("high")])),
        &always(verifies(&[("F1", "confirmed")])),
    );
    run(&world, &script).ends_with(4);
    let state = github.lock();
    assert_eq!(state.pulls[0]["draft"], true);
    let own: Vec<_> = state
        .threads
        .iter()
        .filter(|one| one["user"]["login"] == BOT)
        .collect();
    let firsts = own.iter().filter(|one| one["in_reply_to_id"].is_null());
    assert_eq!(firsts.count(), 1, "{own:?}");
    assert_eq!(own[0]["resolved"], false);
    assert!(
        state.comments[0]["body"]
            .as_str()
            .unwrap()
            .contains("A person has to decide")
    );
}

#[test]
fn a_merge_queue_gets_the_gate_on_the_commit_that_it_tests() {
    let world = World::new();
    let github = Github::of(&world, "pr_merge = \"queue\"");
    let head = approved(&world, &github, &crew::smooth());
    let tree = format!("{head}^{{tree}}");
    let words = ["commit-tree", &tree, "-p", &head, "-m", "The queue"];
    let tested = git(&github.bare, &words);
    github.lock().queued = Some(tested.clone());
    let agent = world.crew(&crew::smooth());
    let words = [
        "run",
        "greet",
        "--builder",
        &agent,
        "--reviewer",
        &agent,
        "--land",
        "pr",
    ];
    let running = world.start(&words);
    until("the queue has its gate", || {
        let state = github.lock();
        let mut gates = state.statuses.iter();
        gates.any(|(of, one)| *of == tested && one["state"] == "success")
    });
    signal(running.pid(), Signal::TERM);
    running.wait(DEADLINE);
    github.lock().queued = None;
    github.merge();
    run(&world, &crew::smooth()).ends_with(0);
    assert_eq!(world.stage("greet"), "done");
}

#[test]
fn a_push_that_the_forge_shows_late_costs_no_review() {
    let world = World::new();
    let github = Github::of(&world, "");
    github.lock().lag = 9;
    approved(&world, &github, &two_rounds());
    let state = github.lock();
    assert_eq!(
        (state.lag, state.refused.len()),
        (0, 0),
        "{:?}",
        state.refused
    );
    assert_eq!(state.threads[0]["resolved"], true);
}

#[test]
fn a_branch_that_is_replaced_during_the_review_gets_no_comments_on_lines() {
    let world = World::new();
    let github = Github::of(&world, "");
    github.lock().is_replaced = true;
    let ran = run(&world, &crew::quarrel());
    ran.ends_with(4).says("somebody pushed");
    let state = github.lock();
    assert_eq!(state.refused, [""; 0]);
    assert_eq!(state.threads.len(), 0);
    let summary = state.comments[0]["body"].as_str().unwrap();
    assert!(summary.contains("somebody pushed"), "{summary}");
    drop(state);
    assert_eq!(world.count("greet", "report_failed"), 0);
}

#[test]
fn a_repository_without_drafts_is_served_all_the_same() {
    let world = World::new();
    let github = Github::of(&world, "");
    github.lock().no_drafts = true;
    approved(&world, &github, &two_rounds());
    let state = github.lock();
    assert_eq!((state.pulls.len(), state.threads.len()), (1, 2));
    assert_eq!(state.pulls[0]["draft"], false);
    // One refusal, and no second one in any later look.
    assert_eq!(state.refused.len(), 1, "{:?}", state.refused);
}
