//! `run`: what its words mean, where it lands, and how it stops.

use rustix::process::Signal;
use serde_json::json;

use super::{go_on, greet, greet_with, merges, on};
use crate::support::crew::{self, GOOD, always, approves, builds, runs, two_rounds};
use crate::support::processes::{marked, signal};
use crate::support::{DEADLINE, World, until};

#[test]
fn two_rounds_end_on_main_with_one_merge_and_the_work_tree_forwarded() {
    let world = World::new();
    greet(&world, &two_rounds())
        .ends_with(0)
        .says("after 2 rounds");
    let ticket = world.ticket("greet");
    assert_eq!(ticket["rounds"].as_array().unwrap().len(), 2);
    assert_eq!(merges(&world), 1);
    assert_eq!(on(&world, "main", "greet.sh"), GOOD.trim_end());
    assert_eq!(
        std::fs::read_to_string(world.repository.join("greet.sh")).unwrap(),
        GOOD
    );
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    world.must_be_sound();
}

#[test]
fn a_quiet_run_prints_its_result_only() {
    let world = World::new();
    let ran = greet_with(&world, &crew::smooth(), &["--quiet"]).ends_with(0);
    assert!(ran.out.contains("greet: done on main"), "{}", ran.out);
    assert!(!ran.out.contains("estimate"), "{}", ran.out);
    assert!(!ran.out.contains("round 1:"), "{}", ran.out);
}

#[test]
fn a_sentence_is_a_ticket_and_again_after_its_end_a_new_one() {
    let world = World::new();
    let agent = world.crew(&crew::smooth());
    let sentence = "Greet the user by name";
    let run = || world.json(&["run", sentence, "--builder", &agent, "--reviewer", &agent]);
    let (first, second) = (run(), run());
    let id = first["ticket"]["id"].as_str().unwrap();
    assert!(id.starts_with("greet-the-user-by-name-"), "{id}");
    assert_eq!(first["ticket"]["spec"]["title"], sentence);
    assert_eq!(first["exit"], 0);
    assert_eq!(second["ticket"]["id"], format!("{id}-2"));
}

#[test]
fn a_ticket_that_was_added_is_run_by_its_id_and_running_it_again_changes_nothing() {
    let world = World::new();
    let file = world.put("greet.md", crate::support::TICKET);
    world.call(&["ticket", "add", &file]).ends_with(0);
    go_on(&world, &crew::smooth())
        .ends_with(0)
        .says("greet continues");
    let (main, version) = (
        world.git(&["rev-parse", "main"]),
        world.ticket("greet")["version"].clone(),
    );
    go_on(&world, &crew::smooth()).ends_with(0);
    assert_eq!(world.git(&["rev-parse", "main"]), main);
    assert_eq!(world.ticket("greet")["version"], version);
}

#[test]
fn an_approved_commit_stays_on_its_branch_where_that_is_asked() {
    let world = World::new();
    let before = world.git(&["rev-parse", "main"]);
    greet_with(&world, &crew::smooth(), &["--land", "branch"]).ends_with(0);
    assert_eq!(world.stage("greet"), "done");
    assert_eq!(world.git(&["rev-parse", "main"]), before);
    assert_eq!(on(&world, "countersign/greet", "greet.sh"), GOOD.trim_end());
    assert!(!world.repository.join("greet.sh").exists());
}

#[test]
fn another_branch_can_be_the_base_and_main_stays() {
    let world = World::new();
    world.git(&["branch", "release"]);
    let before = world.git(&["rev-parse", "main"]);
    greet_with(&world, &crew::smooth(), &["--base", "release"]).ends_with(0);
    assert_eq!(world.git(&["rev-parse", "main"]), before);
    assert_eq!(on(&world, "release", "greet.sh"), GOOD.trim_end());
}

#[test]
fn a_ticket_goes_on_from_any_directory_of_its_repository_and_no_other() {
    let world = World::new();
    greet(&world, &crew::smooth()).ends_with(0);
    let other = World::new();
    let agent = world.crew(&crew::smooth());
    let elsewhere = other.repository.to_str().unwrap();
    let words = [
        "-C",
        elsewhere,
        "run",
        "greet",
        "--builder",
        &agent,
        "--reviewer",
        &agent,
    ];
    world
        .call(&words)
        .ends_with(2)
        .says("belongs to the repository");
}

#[test]
fn the_same_sentence_in_another_repository_is_another_ticket() {
    let world = World::new();
    let agent = world.crew(&crew::smooth());
    let sentence = "Greet the user by name";
    world
        .call(&["ticket", "new", sentence, "--no-edit"])
        .ends_with(0);
    let other = world.root().join("other");
    world.git(&["clone", "--quiet", ".", other.to_str().unwrap()]);
    let words = ["run", sentence, "--builder", &agent, "--reviewer", &agent];
    let elsewhere = ["-C", other.to_str().unwrap()];
    world
        .call(&[&elsewhere[..], &words].concat())
        .says("queued: Greet the user by name");
    let list = world.call(&["ticket", "list", "--all"]).out;
    assert_eq!(list.lines().count(), 2, "{list}");
}

#[test]
fn runs_get_certificate_authorities_and_java_gets_their_home() {
    let world = World::new();
    let text = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    world.put_home("company/ca.pem", text);
    world.put_home("company/secret.txt", "hidden");
    let authority = world.root().join("home/company/ca.pem");
    let variable = format!("SSL_CERT_FILE={}", authority.display());
    let (ticket, agent) = (
        world.put("greet.md", crate::support::TICKET),
        world.crew(&crew::smooth()),
    );
    let words = [
        "run",
        &ticket,
        "--builder",
        &agent,
        "--reviewer",
        &agent,
        "--check",
        "ca=grep -q 'BEGIN CERTIFICATE' \"$SSL_CERT_FILE\"",
        "--check",
        "beside=! cat \"$(dirname \"$SSL_CERT_FILE\")/secret.txt\"",
        "--check",
        "java=test \"$MAVEN_OPTS\" = \"-Duser.home=$HOME\"",
    ];
    world.call_behind(&["env", &variable], &words).ends_with(0);
}

#[test]
fn a_run_without_a_ticket_names_the_commands_that_go_on() {
    let world = World::new();
    let empty = world.call(&["run"]);
    empty
        .ends_with(2)
        .says("say what to run: a sentence, a ticket file, or the id of a ticket")
        .says("countersign run \"what you want changed\"");
    let agent = world.crew(&crew::smooth());
    let ticket = world.put("greet.md", crate::support::TICKET);
    world.call(&["ticket", "add", &ticket]).ends_with(0);
    world
        .call(&["run", "--builder", &agent])
        .ends_with(2)
        .says("countersign run greet  (queued)");
}

/// A builder that says that it is there, and then takes its time.
fn slow_builder(world: &World) -> (serde_json::Value, std::path::PathBuf) {
    let flag = world.root().join("builder-is-there");
    let command = format!("echo $$ > {}; exec sleep 300", flag.display());
    let once = format!("[ -e {} ] || {{ {command}; }}", flag.display());
    let mut steps = vec![runs(&once)];
    steps.extend(builds("greet.sh", GOOD));
    (
        crew::crew(&always(steps), &always(approves()), &always(json!([]))),
        flag,
    )
}

#[test]
fn an_interrupt_stops_at_a_safe_point_and_the_next_run_goes_on() {
    let world = World::unconfined();
    let (crew, flag) = slow_builder(&world);
    let (ticket, agent) = (
        world.put("greet.md", crate::support::TICKET),
        world.crew(&crew),
    );
    let running = world.start(&["run", &ticket, "--builder", &agent, "--reviewer", &agent]);
    until("the builder is at work", || flag.exists());
    signal(running.pid(), Signal::INT);
    running
        .wait(DEADLINE)
        .ends_with(130)
        .says("next: countersign run greet");
    assert_eq!(marked(&world.data), Vec::<String>::new());
    assert_eq!(world.stage("greet"), "queued");
    assert_eq!(merges(&world), 0);
    go_on(&world, &crew).ends_with(0);
    assert_eq!(merges(&world), 1);
    let started = world.count("greet", "started");
    assert_eq!(
        started, 5,
        "the interrupted build, then build, check, review and merge"
    );
    world.must_be_sound();
}

#[test]
fn a_second_interrupt_stops_at_once_and_the_next_run_leaves_nobody_behind() {
    let world = World::unconfined();
    let (crew, flag) = slow_builder(&world);
    let (ticket, agent) = (
        world.put("greet.md", crate::support::TICKET),
        world.crew(&crew),
    );
    let running = world.start(&["run", &ticket, "--builder", &agent, "--reviewer", &agent]);
    until("the builder is at work", || flag.exists());
    signal(running.pid(), Signal::INT);
    signal(running.pid(), Signal::INT);
    running.wait(DEADLINE).ends_with(130);
    // Without a PID namespace a grandchild may live until the next start, and no longer.
    go_on(&world, &crew).ends_with(0);
    assert_eq!(marked(&world.data), Vec::<String>::new());
    world.must_be_sound();
}

#[test]
fn a_ticket_that_is_cancelled_while_it_runs_ends_the_run() {
    let world = World::unconfined();
    let (crew, flag) = slow_builder(&world);
    let (ticket, agent) = (
        world.put("greet.md", crate::support::TICKET),
        world.crew(&crew),
    );
    let running = world.start(&["run", &ticket, "--builder", &agent, "--reviewer", &agent]);
    until("the builder is at work", || flag.exists());
    world
        .call(&["ticket", "cancel", "greet", "--why", "not wanted"])
        .ends_with(0);
    running.wait(DEADLINE).ends_with(5).says("not wanted");
    assert_eq!(marked(&world.data), Vec::<String>::new());
    assert_eq!(merges(&world), 0);
}
