//! The base is proven before an agent that connects by itself gets a build.

use serde_json::{Value, json};

use super::assignment;
use crate::support::server::Server;
use crate::support::{SETTINGS, World, until};

fn checked_by(command: &str, more: &str) -> World {
    World::with_settings(&format!(
        "{}\n{more}",
        SETTINGS.replace("sh test.sh", command)
    ))
}

/// Asks for work until the ticket has this stage; there must be none meanwhile.
#[track_caller]
fn gets_nothing_until(server: &Server<'_>, token: &str, stage: &str) {
    until(&format!("it is {stage}"), || {
        let work = server.tool(token, "get_my_assignment", &json!({})).unwrap();
        assert_eq!(work["assignment"], Value::Null);
        server.stage("greet") == stage
    });
}

fn goes_on(world: &World) {
    let words = [
        "escalation",
        "resolve",
        "greet",
        "continue",
        "--why",
        "mended",
    ];
    world.call(&words).ends_with(0);
}

#[test]
fn a_red_base_asks_a_person_and_no_agent_gets_the_build() {
    let hanging = "[setup]\nrun = \"echo broken before; sleep 3600\"\ntimeout_secs = 1\ncaches = [\"vendor\"]\n";
    for (check, setup) in [("echo broken before; exit 1", ""), ("true", hanging)] {
        let world = checked_by(check, setup);
        let server = Server::start(&world);
        let builder = server.token("bea", "builder", &[]);
        server.add("greet");
        gets_nothing_until(&server, &builder, "escalated");
        let events = world.events("greet");
        assert_eq!(world.count("greet", "base_red"), 1, "{events:?}");
        assert_eq!(world.count("greet", "submitted"), 0, "{events:?}");
        world
            .call(&["escalation", "show", "greet"])
            .ends_with(0)
            .says("broken before");
        // The same base is as red as before; a mended one gives work.
        goes_on(&world);
        gets_nothing_until(&server, &builder, "escalated");
        world.write("countersign.toml", SETTINGS);
        world.commit("Mended");
        goes_on(&world);
        assert_eq!(assignment(&server, &builder, "build")["ticket"], "greet");
        world.must_be_sound();
    }
}

#[test]
fn a_green_base_is_proven_once_and_said_nowhere() {
    let world = World::unconfined();
    let log = world.root().join("checked");
    let settings = format!("sh test.sh; sleep 1; echo run >> {}", log.display());
    let settings = SETTINGS.replace("sh test.sh", &settings);
    world.write(
        "countersign.toml",
        &format!("{settings}\n[policy]\nsandbox = \"off\"\n"),
    );
    world.commit("Count the checks");
    let server = Server::start(&world);
    for ticket in ["one", "two"] {
        server.add(ticket);
    }
    // Two agents ask at the same moment, twice each: the base is proven once.
    let names = ["bea", "cat"];
    let tokens = names.map(|name| server.token(name, "builder", &[]));
    std::thread::scope(|scope| {
        for token in &tokens {
            let server = &server;
            scope.spawn(move || {
                let first = assignment(server, token, "build");
                let brief = first["brief"].as_str().unwrap();
                assert!(!brief.contains("could not be run on the base"), "{brief}");
                assert_eq!(assignment(server, token, "build")["id"], first["id"]);
            });
        }
    });
    let runs = std::fs::read_to_string(&log).unwrap();
    assert_eq!(runs.lines().count(), 1);
    world.must_be_sound();
}
