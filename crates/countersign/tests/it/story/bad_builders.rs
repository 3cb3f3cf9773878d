//! Builders that break git, fill the disk, or sign with another's name: each
//! ends with a recorded outcome, and a person is told what to do.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{go_on, greet, merges, on, resolve};
use crate::support::crew::{GOOD, always, builds, built_by, runs, smooth, writes};
use crate::support::{Ran, SETTINGS, World};

/// Does this before it builds, whether it can or not.
fn after(trick: &str) -> Value {
    let mut steps = vec![json!({"run": {"command": trick, "may_fail": true}})];
    steps.extend(builds("greet.sh", GOOD));
    built_by(&always(steps))
}

/// Settings of this project's own limits.
fn limited(limits: &str) -> World {
    World::with_settings(&format!("{SETTINGS}{limits}\n"))
}

#[track_caller]
fn lands(world: &World, ran: Ran, trick: &str) {
    assert_eq!(ran.code, 0, "{trick}: {}\n{}", ran.out, ran.err);
    assert_eq!(on(world, "main", "greet.sh"), GOOD.trim_end(), "{trick}");
    world.must_be_sound();
}

const GIT_DIR: &str = "\"$(git rev-parse --absolute-git-dir)\"";
const COMMON_DIR: &str = "\"$(git rev-parse --path-format=absolute --git-common-dir)\"";

/// Countersign creates git's records of the worktree again; the files are the builder's work.
#[test]
fn a_builder_that_breaks_gits_records_of_its_worktree_loses_nothing() {
    let tricks = [
        "rm -rf .git".to_owned(),
        "rm -rf .git; git init -q .; git add -A; git -c user.name=x -c user.email=x@x commit -qm own"
            .to_owned(),
        "git init -q ../other; echo 'gitdir: ../other/.git' > .git".to_owned(),
        format!("rm -rf {GIT_DIR}"),
        format!("echo garbage > {GIT_DIR}/HEAD; echo garbage > {GIT_DIR}/index"),
        "git update-ref -d HEAD".to_owned(),
    ];
    for trick in &tricks {
        for world in [World::new(), World::unconfined()] {
            let ran = greet(&world, &after(trick));
            lands(&world, ran, trick);
        }
    }
}

#[test]
fn a_builder_that_deletes_the_repository_cannot_where_it_is_confined() {
    let trick = format!("rm -rf {COMMON_DIR}");
    let world = World::new();
    let ran = greet(&world, &after(&trick));
    lands(&world, ran, &trick);
}

#[test]
fn a_builder_that_deletes_the_repository_ends_with_a_person_where_nothing_confined_it() {
    let world = World::unconfined();
    greet(&world, &after(&format!("rm -rf {COMMON_DIR}")))
        .ends_with(4)
        .says("deleted the git directory")
        .says("restore it from a clone or a backup, and run with `sandbox = \"enforced\"`");

    let world = World::unconfined();
    greet(&world, &after(&format!("rm -rf {COMMON_DIR}/objects/??")))
        .ends_with(4)
        .says("`git fsck` in");
}

#[test]
fn a_builder_that_leaves_very_many_files_is_ended_and_they_are_thrown_away() {
    let world = limited("disk_files_max = 200");
    let flood = after("mkdir many; for n in $(seq 500); do : > many/$n; done");
    greet(&world, &flood)
        .ends_with(4)
        .says("files; its files were removed")
        .says("raise disk_bytes_max or disk_files_max in [policy.limits]");
    assert_eq!(world.count("greet", "job_failed"), 1, "not paid for again");
    assert!(!world.data.join("tickets/greet/worktree/many").exists());
    resolve(&world, &["continue"]).ends_with(0);
    let ran = go_on(&world, &smooth());
    lands(&world, ran, "another builder");
}

#[test]
fn a_builder_that_fills_the_disk_is_ended_while_it_does() {
    let world = limited("disk_bytes_max = 2000000");
    // It would go on for far longer than a test may take.
    let fill = "head -c 8000000 /dev/zero > \"$TMPDIR/zeros\"; exec sleep 3600";
    greet(&world, &after(fill))
        .ends_with(4)
        .says("stopped at its disk limit, after at least 7 MiB");
    assert_eq!(merges(&world), 0);
}

#[test]
fn a_check_that_fills_the_disk_is_red() {
    let settings = SETTINGS.replace("sh test.sh", "head -c 8000000 /dev/zero > zeros");
    let world = World::with_settings(&format!("{settings}disk_bytes_max = 2000000\n"));
    greet(&world, &smooth()).ends_with(4);
    let told = world.call(&["ticket", "show", "greet", "--json"]);
    for words in ["stopped at its disk limit", "raise limits.disk_bytes_max"] {
        assert!(told.out.contains(words), "{}", told.out);
    }
}

/// A name on a commit is whatever its maker writes there. Who was at work is known from the job, and
/// the reviewer is shown the difference.
#[test]
fn a_builder_that_signs_as_somebody_else_is_known_all_the_same() {
    let world = World::new();
    let as_linus = "export GIT_AUTHOR_NAME=Linus GIT_AUTHOR_EMAIL=linus@localhost GIT_COMMITTER_NAME=Linus GIT_COMMITTER_EMAIL=linus@localhost; git add -A && git commit -qm mine";
    let build = vec![writes("greet.sh", GOOD), runs(as_linus)];
    greet(&world, &built_by(&always(build)))
        .ends_with(0)
        .says("with commits signed as Linus <linus@localhost>");
    let ticket = world.ticket("greet");
    assert_eq!(
        ticket["submission"]["signed_as"],
        json!(["Linus <linus@localhost>"])
    );
    let authors = ticket["authors"].as_array().unwrap();
    assert!(authors.contains(&json!("scripted (builder)")), "{ticket}");
    let briefs = world.data.join("tickets/greet/jobs");
    let told = find(&briefs, "Names on its commits that are not its builder's");
    assert!(told, "the reviewer's brief says so");
}

/// Whether a file below holds the words.
fn find(dir: &Path, words: &str) -> bool {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries.into_iter().any(|path| {
        if path.is_dir() {
            find(&path, words)
        } else {
            fs::read_to_string(&path).is_ok_and(|text| text.contains(words))
        }
    })
}

#[test]
fn commits_in_a_crowd_of_names_are_not_taken() {
    let world = World::new();
    let crowd = "for n in $(seq 110); do GIT_AUTHOR_NAME=a$n GIT_COMMITTER_NAME=c$n git commit -q --allow-empty -m $n; done";
    greet(&world, &after(crowd))
        .ends_with(4)
        .says("different names, more than the limit of 200");
    assert_eq!(merges(&world), 0);
}

#[test]
fn an_agent_that_hangs_without_a_network_is_ended_and_the_message_names_it() {
    let world = limited("idle_secs = 1\nretries_max = 0");
    let hang = json!({"run": {"command": "exec sleep 3600"}});
    greet(&world, &built_by(&always(vec![hang])))
        .ends_with(4)
        .says("silent for too long (1 s)")
        .says("reach its provider over the network")
        .says("raise idle_secs");
    assert_eq!(world.count("greet", "job_failed"), 1);
}

/// Settings with this cap on a round.
fn capped(cap: &str) -> World {
    World::with_settings(&format!("{SETTINGS}\n[policy.budget.round]\n{cap}\n"))
}

#[test]
fn an_agent_is_stopped_at_what_is_left_of_the_budget() {
    let world = capped("usd = 1.0");
    let dear = vec![
        json!({"usage": {"usd": 5.0}}),
        json!({"run": {"command": "exec sleep 3600"}}),
    ];
    greet(&world, &built_by(&always(dear)))
        .ends_with(4)
        .says("stopped at the limit of its remaining budget: $5.00 of $1.00 spent");
    let ticket = world.ticket("greet");
    assert_eq!(ticket["spent"]["ticket"]["usd_micros"], 5_000_000);
    let run = world.json(&["log", "--transcript", "greet"]);
    let run = &run["transcripts"][0];
    assert_eq!(run["ended"]["how"], "cancelled", "{run}");

    let world = capped("wall_secs = 1");
    let slow = vec![json!({"run": {"command": "while :; do echo busy; sleep 0.1; done"}})];
    greet(&world, &built_by(&always(slow)))
        .ends_with(4)
        .says("1 of 1 seconds used");
}

/// Most tell their price with their last word, and what is done is done.
#[test]
fn work_that_is_done_when_its_price_is_told_is_not_thrown_away() {
    let world = capped("usd = 1.0");
    let steps = vec![
        writes("greet.sh", GOOD),
        json!({"result": {"summary": "Done."}}),
        json!({"usage": {"usd": 5.0}}),
    ];
    greet(&world, &built_by(&always(steps)))
        .ends_with(4)
        .says("submitted");
}
