//! That the loop ends for a reason: money, linters, stubborn crews, checks that cannot make up their minds.

use serde_json::json;

use super::{go_on, greet, greet_with, merges, on, resolve};
use crate::support::World;
use crate::support::crew::{
    GOOD, HASTY, always, builds, built_by, crew, empty_name, rejects, rounds, runs, smooth,
    two_rounds, verifies,
};

fn under(policy: &str) -> World {
    World::with_settings(&format!("[checks]\ntest = \"sh test.sh\"\n{policy}"))
}

#[test]
fn a_budget_stops_in_the_middle_of_a_round_and_goes_on_when_it_is_raised() {
    let world = under("[policy.budget.ticket]\nusd = 0.05\n");
    greet(&world, &two_rounds())
        .ends_with(4)
        .says("the budget is used up (this ticket: $0.10 of $0.05 spent)");
    assert_eq!(
        world.count("greet", "reviewed"),
        0,
        "nobody was paid to read it"
    );
    resolve(&world, &["continue"]).ends_with(6);
    let raise = [
        "ticket", "budget", "greet", "--usd", "5", "--why", "worth it",
    ];
    world
        .call(&raise)
        .ends_with(0)
        .says("escalation resolve greet continue");
    resolve(&world, &["continue"]).ends_with(0);
    go_on(&world, &two_rounds()).ends_with(0).says("about $0.1");
    assert_eq!(
        world.count("greet", "submitted"),
        2,
        "the first was not built again"
    );
    world.must_be_sound();
}

#[test]
fn what_the_whole_day_has_spent_stops_the_next_ticket() {
    let world = under("[policy.budget.day]\nusd = 0.15\n");
    greet(&world, &smooth()).ends_with(0);
    let next = world.put("next.md", "---\nid: next\n---\n# Next\n");
    let agent = world.crew(&built_by(&always(builds("next.sh", GOOD))));
    world
        .call(&["run", &next, "--builder", &agent, "--reviewer", &agent])
        .ends_with(4)
        .says("this day, over all tickets: $0.20 of $0.15 spent");
    assert_eq!(world.count("next", "reviewed"), 0);
}

#[test]
fn a_linter_in_a_reviewer_sends_back_what_it_finds() {
    let lint = r#"grep -n empty greet.sh >/dev/null || echo '{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "sh"}}, "results": [{"level": "error", "ruleId": "empty", "message": {"text": "The empty name is not handled"}, "locations": [{"physicalLocation": {"artifactLocation": {"uri": "greet.sh"}, "region": {"startLine": 2}}}]}]}]}'"#;
    let world = under(&format!(
        "[[policy.reviewers]]\nname = \"reviewer\"\n[[policy.reviewers]]\nname = \"shell\"\ncommand = {}\n",
        json!(lint)
    ));
    let script = crew(
        &rounds([builds("greet.sh", HASTY), builds("greet.sh", GOOD)]),
        &always(crate::support::crew::approves()),
        &always(verifies(&[("F1", "fixed")])),
    );
    greet(&world, &script).ends_with(0).says("shell (linter)");
    let ticket = world.ticket("greet");
    let entry = &ticket["ledger"][0];
    assert_eq!(entry["reported_by"][0], "shell (linter)", "{ticket:#}");
    assert_eq!(entry["status"], "fixed");
    world
        .call(&["ticket", "show", "greet"])
        .ends_with(0)
        .says("findings by round");
    world.call(&["insights"]).ends_with(0).says("1 in round 2");
    world.must_be_sound();
}

#[test]
fn a_builder_that_disputes_everything_is_heard_and_does_not_win_by_it() {
    let disputes = json!([
        runs("echo '# no' >> greet.sh"),
        {"result": {"summary": "No.", "findings": [{"id": "F1", "outcome": "disputed", "note": "it is meant so"}]}},
    ]);
    let script = crew(
        &json!({"rounds": [builds("greet.sh", HASTY), disputes, disputes, disputes]}),
        &always(rejects([empty_name("high")])),
        &always(verifies(&[("F1", "confirmed")])),
    );
    let world = World::unconfined();
    greet(&world, &script)
        .ends_with(4)
        .says("[REVIEW-ESCALATION]");
    assert_eq!(merges(&world), 0);
    world.must_be_sound();
}

#[test]
fn a_reviewer_that_flips_is_stopped_by_what_it_said_before() {
    let script = crew(
        &rounds([1, 2, 3].map(|n| builds("greet.sh", &format!("{HASTY}# {n}\n")))),
        &rounds([
            rejects([empty_name("high")]),
            crate::support::crew::approves(),
            crate::support::crew::approves(),
        ]),
        &always(verifies(&[("F1", "confirmed")])),
    );
    let world = World::unconfined();
    greet(&world, &script)
        .ends_with(4)
        .says("disagreement: scripted (reviewer) approved, but");
    assert_eq!(merges(&world), 0);
}

#[test]
fn checks_run_beside_each_other_and_a_flaky_one_is_told() {
    let world = World::unconfined();
    world.write(
        "countersign.toml",
        "[policy]\nsandbox = \"off\"\n[checks]\na = { run = \"test -e seen || { touch seen; exit 1; }\", parallel = true }\nb = { run = \"true\", parallel = true }\nc = \"test ! -e seen\"\n",
    );
    world.commit("checks");
    greet_with(&world, &smooth(), &[])
        .ends_with(0)
        .says("checks: a green at the second try, b green, c green");
    assert!(on(&world, "main", "greet.sh").contains("Hello"));
}

#[test]
fn a_provider_out_of_quota_is_paused_for_all_and_resumes_by_itself() {
    let world = World::unconfined();
    let seen = world.root().join("seen").display().to_string();
    let agent = world.put(
        "agent.sh",
        format!(
            r#"if [ "$COUNTERSIGN_ROLE" = review ]; then echo '{{"verdict": "approve", "commit": "'$COUNTERSIGN_COMMIT'", "complete": true, "findings": []}}'; exit 0; fi
if [ ! -e {seen} ]; then touch {seen}; echo '{{"event": "quota", "until": "'"$(date -u -d '+3 seconds' +%Y-%m-%dT%H:%M:%SZ)"'"}}'; exit 1; fi
printf '#!/bin/sh\nprintf "Hello, %%s\\n" "$1"\n' > greet.sh
echo '{{"summary": "Done."}}'
"#
        ),
    );
    let ticket = world.put("greet.md", crate::support::TICKET);
    let words = format!("command:sh {agent}");
    let running = world.start(&["run", &ticket, "--builder", &words, "--reviewer", &words]);
    crate::support::until("the pause", || {
        let pauses = world.json(&["status"])["pauses"].take();
        pauses[0]["scope"] == json!({"scope": "provider", "name": "sh"})
    });
    running
        .wait(std::time::Duration::from_secs(60))
        .ends_with(0)
        .says("out of quota until");
    assert_eq!(world.ticket("greet")["stage"], "done");
    assert_eq!(world.count("greet", "job_failed"), 1);
}
