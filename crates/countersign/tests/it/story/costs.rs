//! Tests costs: estimated before the work begins, capped in every way, summed up afterwards.

use serde_json::json;

use super::{go_on, greet, greet_with, resolve};
use crate::support::World;
use crate::support::crew::{GOOD, always, approves, builds, crew, quarrel, smooth, two_rounds};

fn capped(scope: &str, cap: &str) -> World {
    let settings = format!("[checks]\ntest = \"sh test.sh\"\n[policy.budget.{scope}]\n{cap}\n");
    World::with_settings(&settings)
}

#[test]
fn an_estimate_and_what_is_left_are_said_before_every_round() {
    let world = capped("ticket", "usd = 5.0\ntokens = 9000");
    let ran = greet(&world, &two_rounds()).ends_with(0);
    let first = "estimate: round 1 unknown (scripted (builder) and scripted (reviewer) never worked here); left: 3 of 3 rounds, $5.00 of $5.00 this ticket, 9000 of 9000 tokens this ticket";
    assert!(ran.out.contains(first), "{}", ran.out);
    let second = "(about $0.10 a round so far; left: 2 of 3 rounds, $4.90 of $5.00 this ticket, 8890 of 9000 tokens this ticket)";
    assert!(ran.out.contains(second), "{}", ran.out);
    let next = world.put("next.md", "---\nid: next\n---\n# Next\n");
    let agent = world.crew(&crew(
        &always(builds("next.sh", GOOD)),
        &always(approves()),
        &always(json!([])),
    ));
    world
        .call(&["run", &next, "--builder", &agent, "--reviewer", &agent])
        .ends_with(0)
        .says("estimate: round 1 about $0.10, 110 tokens, ");
}

#[test]
fn a_ticket_shows_what_its_next_round_may_cost() {
    let world = capped("day", "usd = 1.0");
    greet(&world, &quarrel()).ends_with(4);
    let shown = world.json(&["ticket", "show", "greet"]);
    let forecast = &shown["forecast"];
    assert_eq!(forecast["basis"]["kind"], "own_rounds", "{forecast}");
    assert_eq!(forecast["usage"]["usd_micros"], 100_000);
    let day = json!({"scope": "day", "what": "usd_micros", "left": 700_000, "of": 1_000_000});
    assert_eq!(forecast["left"][1], day);
    world
        .call(&["ticket", "show", "greet"])
        .ends_with(0)
        .says("estimate: round 3 about $0.10");
}

/// Every cap in every scope stops the work in the middle of a round, and it goes on when the cap is
/// raised, with nothing built twice.
#[test]
fn every_cap_stops_in_the_middle_of_a_round_and_goes_on_when_it_is_raised() {
    for scope in ["round", "ticket", "day"] {
        for (cap, flag, more) in [
            ("usd = 0.05", "--usd", "5"),
            ("tokens = 100", "--tokens", "9000"),
            ("wall_secs = 1", "--wall-secs", "900"),
        ] {
            let world = capped(scope, cap);
            let mut build = builds("greet.sh", GOOD);
            if flag == "--wall-secs" {
                build.insert(0, json!({"wait_ms": 1100}));
            }
            let script = crew(&always(build), &always(approves()), &always(json!([])));
            greet(&world, &script)
                .ends_with(4)
                .says("the budget is used up (");
            assert_eq!(world.count("greet", "reviewed"), 0, "{scope}: {cap}");
            resolve(&world, &["continue"]).ends_with(if scope == "day" { 0 } else { 6 });
            let raise = ["ticket", "budget", "greet", "--scope", scope, flag, more];
            world
                .call(&[&raise[..], &["--why", "worth it"]].concat())
                .ends_with(0);
            if scope != "day" {
                resolve(&world, &["continue"]).ends_with(0);
            }
            go_on(&world, &script).ends_with(0);
            assert_eq!(world.count("greet", "submitted"), 1, "{scope}: {cap}");
            world.must_be_sound();
        }
    }
}

#[test]
fn rounds_are_capped_and_a_person_grants_one_more() {
    let world = World::new();
    greet_with(&world, &quarrel(), &["--max-rounds", "1"])
        .ends_with(4)
        .says("after 1 round, the change is not approved");
    resolve(&world, &["continue"]).ends_with(0);
    greet_with(&world, &quarrel(), &["--max-rounds", "1"]).ends_with(4);
    assert_eq!(world.ticket("greet")["rounds"].as_array().unwrap().len(), 2);
}

#[test]
fn costs_are_told_by_ticket_round_and_landed_change() {
    let world = World::new();
    greet(&world, &two_rounds()).ends_with(0);
    let line = "$0.20 spent: $0.20 a ticket, $0.10 a round, $0.20 for each that landed";
    world.call(&["insights"]).ends_with(0).says(line);
    world.call(&["status"]).ends_with(0).says(line);
    let costs = world.json(&["status"])["costs"].take();
    assert_eq!(costs["usd_micros_per_round"], 100_000, "{costs}");
    assert_eq!(world.json(&["insights"])["costs"], costs);
    let world = World::new();
    greet(&world, &smooth()).ends_with(0);
    world.call(&["status"]).ends_with(0).says("$0.10 a round");
}
