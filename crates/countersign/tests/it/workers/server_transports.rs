//! The ways that a worker over the server has to it and to a repository: TLS, another database behind
//! it, the server's own packs, and who lands what was built there.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use super::database::Database;
use super::remote_machine::Machine;
use super::{PLAIN, add, begun, remotes, until_stage, waits_for_a_sign};
use crate::server::tls::Certificate;
use crate::story::learning::{RULE, taught};
use crate::support::crew::{always, answers, built_by, runs, two_rounds};
use crate::support::server::Server;
use crate::support::{SETTINGS, World, reached, until};

/// Less than a round of the server's, or the time that a worker leaves a ticket alone.
const PROMPT: Duration = Duration::from_secs(4);

/// Settings in which approved commits land through the queue.
fn in_line() -> String {
    format!("{SETTINGS}\n[policy]\nland = \"queue\"\n")
}

#[test]
fn over_tls_a_worker_believes_the_certificate_that_it_is_told_of_and_no_other() {
    let world = World::new();
    world.crew(&two_rounds());
    add(&world, "greet", "");
    let certificate = Certificate::new(&world);
    let server = Server::start_with(&world, &certificate.words());
    assert!(server.url.starts_with("https://"), "{}", server.url);
    let strange = Machine::new(&world, &server, "west");
    let ran = strange.worker(&[]).wait(Duration::from_secs(30));
    ran.ends_with(7)
        .says("shows a certificate that is not trusted here")
        .says("COUNTERSIGN_CERTIFICATE");
    let others = World::empty();
    let other = Certificate::new(&others);
    let misled = Machine::new(&world, &server, "south");
    let misled = misled.with("COUNTERSIGN_CERTIFICATE", other.file.display());
    let ran = misled.worker(&[]).wait(Duration::from_secs(30));
    ran.ends_with(7).says("not trusted here");
    let east = Machine::new(&world, &server, "east");
    let east = east.with("COUNTERSIGN_CERTIFICATE", certificate.file.display());
    let _worker = east.worker(&[]);
    until_stage(&world, "greet", "done");
    assert!(world.repository.join("greet.sh").exists());
    assert_eq!(world.count_of("refused"), 0);
    world.must_be_sound();
}

#[test]
fn the_first_job_of_a_repository_without_a_remote_begins_at_once() {
    let world = World::with_settings(PLAIN);
    world.crew(&waits_for_a_sign(&world));
    let server = Server::start(&world);
    let east = Machine::new(&world, &server, "east");
    let _worker = east.worker(&[]);
    until("it is at work", || {
        let agents = server.rest("GET", "/api/v1/agents", &Value::Null);
        agents.body.contains("east-1")
    });
    add(&world, "one", "");
    assert!(reached(PROMPT, || begun(&world) == ["one"]));
    world.put("go", "");
    until_stage(&world, "one", "done");
    let left = fs::read_dir(&world.data).unwrap();
    let mut left = left.map(|file| file.unwrap().file_name().into_string().unwrap());
    assert!(!left.any(|name| name.contains(".part")));
}

/// Each ticket's own file.
fn by_ticket() -> Value {
    let mut steps = vec![runs("echo true > $COUNTERSIGN_TICKET.sh")];
    steps.extend(answers(json!({"summary": "Done."})));
    built_by(&always(steps))
}

/// The server's own hands rest, or go on.
fn rests(server: &Server<'_>, rests: bool) {
    let pause = json!({"scope": "agent", "name": "house", "why": "a test"});
    if rests {
        server.rest("POST", "/api/v1/pauses", &pause).is(201);
    } else {
        let reply = server.rest("DELETE", "/api/v1/pauses/agent/house", &Value::Null);
        reply.is(200);
    }
}

/// Two tickets to their approval on a machine that reaches only the server, which lands both in one go
/// although it has seen neither commit before.
fn land_together(world: &World) {
    world.crew(&by_ticket());
    let server = Server::start(world);
    rests(&server, true);
    for id in ["one", "two"] {
        add(world, id, "");
    }
    let east = Machine::new(world, &server, "east");
    let _worker = east.worker(&["--replicas", "2"]);
    for id in ["one", "two"] {
        until_stage(world, id, "approved");
    }
    rests(&server, false);
    for id in ["one", "two"] {
        until_stage(world, id, "done");
        assert_eq!(world.count(id, "landed"), 1);
        assert_eq!(world.count(id, "job_failed"), 0);
        assert!(world.repository.join(format!("{id}.sh")).exists());
    }
    assert_eq!(world.count_of("refused"), 0);
    world.must_be_sound();
}

#[test]
fn what_is_approved_on_a_worker_lands_through_the_servers_queue() {
    land_together(&World::with_settings(&in_line()));
}

#[test]
fn what_is_approved_on_a_worker_lands_through_the_servers_queue_on_postgresql() {
    let mut world = World::with_settings(&in_line());
    if let Some(database) = Database::start(&mut world) {
        land_together(database.world);
    }
}

#[test]
fn a_ticket_goes_through_its_rounds_over_a_server_with_postgresql() {
    let mut world = World::new();
    let Some(database) = Database::start(&mut world) else {
        return;
    };
    let world = database.world;
    world.crew(&two_rounds());
    add(world, "greet", "");
    let server = Server::start(world);
    let east = Machine::new(world, &server, "east");
    let _worker = east.worker(&[]);
    until_stage(world, "greet", "done");
    assert!(world.repository.join("greet.sh").exists());
    assert!(!east.data().join("countersign.db").exists());
    assert_eq!(world.count("greet", "submitted"), 2);
    assert_eq!(world.count_of("refused"), 0);
    world.must_be_sound();
}

#[test]
fn a_queue_that_only_a_worker_reaches_lands_there_one_by_one() {
    let (world, shared) = remotes::project_with(&in_line());
    world.crew(&by_ticket());
    for id in ["one", "two"] {
        add(&world, id, "");
    }
    fs::rename(&world.repository, world.root().join("gone")).unwrap();
    fs::create_dir(&world.repository).unwrap();
    let server = Server::start(&world);
    let east = Machine::new(&world, &server, "east");
    let _worker = east.worker(&["--push-base", "--replicas", "2"]);
    for id in ["one", "two"] {
        until_stage(&world, id, "done");
        let name = format!("main:{id}.sh");
        world.git(&["--git-dir", &shared, "show", &name]);
        assert_eq!(world.count(id, "landed"), 1);
    }
    assert_eq!(world.count_of("refused"), 0);
}

#[test]
fn a_rule_that_a_person_accepted_is_in_the_brief_of_a_builder_elsewhere() {
    let world = taught();
    world.call(&["insights", "accept", "1"]).ends_with(0);
    let kept = world.root().join("brief").display().to_string();
    let note = format!("cat \"$COUNTERSIGN_BRIEF_FILE\" > {kept}");
    let mut steps = vec![runs(&note), runs("echo true > $COUNTERSIGN_TICKET.sh")];
    steps.extend(answers(json!({"summary": "Done."})));
    world.crew(&built_by(&always(steps)));
    add(&world, "one", "");
    let server = Server::start(&world);
    let east = Machine::new(&world, &server, "east");
    let _worker = east.worker(&[]);
    until_stage(&world, "one", "done");
    assert!(fs::read_to_string(&kept).unwrap().contains(RULE));
}
