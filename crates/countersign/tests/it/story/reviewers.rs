//! More than one reviewer's program, reviewers that change with the rounds, and those who stand in.

use serde_json::{Value, json};

use super::{greet_with, merges};
use crate::support::crew::{
    GOOD, HASTY, always, approves, builds, crew, empty_name, rejects, rounds, smooth, verifies,
};
use crate::support::{Ran, TICKET, World};

/// A script in the repository's neighbourhood, as an agent's name.
fn reviewer(world: &World, name: &str, review: &Value) -> String {
    let nothing = always(verifies(&[("F1", "fixed")]));
    world.named_crew(name, &crew(&always(json!([])), review, &nothing))
}

fn run(world: &World, words: &[&str]) -> Ran {
    let ticket = world.put("greet.md", TICKET);
    world.call(&[&["run", &ticket], words].concat())
}

/// Adds to what the project says, on the base.
fn says(world: &World, more: &str) {
    let settings = format!("[checks]\ntest = \"sh test.sh\"\n{more}");
    world.write("countersign.toml", &settings);
    world.commit("settings");
}

/// Returns the reporter of each finding.
fn reported(world: &World) -> Vec<Value> {
    let ticket = world.ticket("greet");
    let ledger = ticket["ledger"].as_array().unwrap();
    ledger
        .iter()
        .map(|entry| entry["reported_by"].clone())
        .collect()
}

#[test]
fn two_programs_review_side_by_side_and_their_findings_are_one_list() {
    let world = World::new();
    let build = rounds([builds("greet.sh", HASTY), builds("greet.sh", GOOD)]);
    let builder = world.crew(&crew(&build, &always(approves()), &always(json!([]))));
    let strict = rounds([rejects([empty_name("high")]), approves()]);
    let first = reviewer(&world, "first", &strict);
    let second = reviewer(&world, "second", &strict);
    let words = ["--builder", &builder, "--reviewer", &first];
    run(&world, &[&words[..], &["--reviewer", &second]].concat())
        .ends_with(0)
        .says("scripted (reviewer 2) asks for changes");
    let both = json!(["scripted (reviewer 2)", "scripted (reviewer)"]);
    let names: Vec<Value> = reported(&world)
        .into_iter()
        .map(|mut names| {
            let list = names.as_array_mut().unwrap();
            list.sort_by_key(ToString::to_string);
            names
        })
        .collect();
    assert_eq!(names, [both], "one finding, reported by both");
    assert_eq!(world.count("greet", "reviewed"), 4);
    assert_eq!(merges(&world), 1);
    world.must_be_sound();
}

#[test]
fn each_reviewer_has_its_own_program_and_another_comes_after_some_rounds() {
    let world = World::new();
    let build = rounds([1, 2, 3].map(|n| builds("greet.sh", &format!("{HASTY}# {n}\n"))));
    let builder = world.crew(&crew(&build, &always(approves()), &always(json!([]))));
    let strict = reviewer(&world, "strict", &always(rejects([empty_name("high")])));
    let mild = reviewer(&world, "mild", &always(approves()));
    let quiet = reviewer(&world, "quiet", &always(approves()));
    says(
        &world,
        &format!(
            "[[policy.reviewers]]\nname = \"early\"\nagent = {0}\nuntil_round = 1\n\
             [[policy.reviewers]]\nname = \"late\"\nagent = {1}\nfrom_round = 2\n\
             [[policy.reviewers]]\nname = \"security\"\nfocus = \"security\"\nagent = {2}\n",
            json!(strict),
            json!(mild),
            json!(quiet)
        ),
    );
    run(&world, &["--builder", &builder, "--verifier", &strict])
        .ends_with(0)
        .says("round 1: scripted (reviewer) asks for changes");
    let ticket = world.ticket("greet");
    let judges = |round: usize| -> Vec<Value> {
        let reviewers = ticket["rounds"][round]["panel"].as_array().unwrap().iter();
        reviewers
            .map(|reviewer| json!([reviewer["name"], reviewer["answer"]["reviewer"]]))
            .collect()
    };
    let security = json!(["security", "scripted (reviewer 3)"]);
    assert_eq!(
        judges(0),
        [json!(["early", "scripted (reviewer)"]), security.clone()]
    );
    assert_eq!(
        judges(1),
        [json!(["late", "scripted (reviewer 2)"]), security]
    );
    world.must_be_sound();
}

#[test]
fn another_family_is_asked_of_every_reviewer() {
    let world = World::new();
    let builder = world.crew(&smooth());
    let near = reviewer(&world, "near", &always(approves()));
    let far = reviewer(&world, "far", &always(approves()));
    let families = |near_family: &str| {
        format!(
            "[families]\n{} = \"oak\"\n{} = \"{near_family}\"\n{} = \"elm\"\n[policy]\nother_family = true\n",
            json!(builder),
            json!(near),
            json!(far)
        )
    };
    let words = [
        "--builder",
        &builder,
        "--reviewer",
        &far,
        "--reviewer",
        &near,
        "--verifier",
        &far,
    ];
    says(&world, &families("oak"));
    run(&world, &words)
        .ends_with(4)
        .says("is of the family oak, like the builder");
    says(&world, &families("fir"));
    world
        .call(&["escalation", "resolve", "greet", "continue"])
        .ends_with(0);
    run(&world, &words).ends_with(0);
    assert_eq!(merges(&world), 1);
}

/// A builder without quota for an hour.
const OUT: &str = r#"echo '{"event": "quota", "until": "'"$(date -u -d '+1 hour' +%Y-%m-%dT%H:%M:%SZ)"'"}'; exit 1
"#;

#[test]
fn who_is_out_of_quota_is_replaced_at_once_and_while_the_pause_lasts() {
    let world = World::unconfined();
    let out = format!("command:sh {}", world.put("out.sh", OUT));
    let (other, judge) = (
        world.crew(&smooth()),
        reviewer(&world, "judge", &always(approves())),
    );
    says(
        &world,
        &format!(
            "[policy]\nsandbox = \"off\"\n[policy.fallback]\nbuild = {}\n",
            json!(other)
        ),
    );
    let words = ["--builder", &out, "--reviewer", &judge];
    run(&world, &words)
        .ends_with(0)
        .says("takes over as the fallback: build");
    assert_eq!(world.count("greet", "job_failed"), 1);
    let authors = world.ticket("greet")["authors"].to_string();
    assert!(authors.contains("scripted (builder)"), "{authors}");
    let again = world.put("again.md", "---\nid: again\n---\n# Greet again\n");
    let next = builds("again.sh", GOOD);
    world.crew(&crew(
        &always(next),
        &always(approves()),
        &always(json!([])),
    ));
    world
        .call(&[&["run", &again], &words[..]].concat())
        .ends_with(0)
        .says("sh (builder) is out of quota");
    assert_eq!(world.count("again", "agent_out"), 1);
    assert_eq!(
        world.count("again", "job_failed"),
        0,
        "nobody asked it again"
    );
    world.must_be_sound();
}

#[test]
fn who_built_does_not_stand_in_as_judge_and_the_run_waits_for_the_pause() {
    let world = World::unconfined();
    let seen = world.root().join("seen").display().to_string();
    let judge = world.put(
        "judge.sh",
        format!(
            r#"if [ ! -e {seen} ]; then touch {seen}; echo '{{"event": "quota", "until": "'"$(date -u -d '+2 seconds' +%Y-%m-%dT%H:%M:%SZ)"'"}}'; exit 1; fi
echo '{{"verdict": "approve", "commit": "'$COUNTERSIGN_COMMIT'", "complete": true, "findings": []}}'
"#
        ),
    );
    let builder = world.crew(&smooth());
    says(
        &world,
        &format!(
            "[policy]\nsandbox = \"off\"\n[policy.fallback]\nreview = {}\n",
            json!(builder)
        ),
    );
    let judge = format!("command:sh {judge}");
    run(&world, &["--builder", &builder, "--reviewer", &judge])
        .ends_with(0)
        .says("countersigned by sh (reviewer)");
    assert_eq!(world.count("greet", "agent_out"), 0);
}

#[test]
fn who_is_not_there_is_replaced_before_the_start_and_it_is_said() {
    let world = World::new();
    let (there, judge) = (
        world.crew(&smooth()),
        reviewer(&world, "judge", &always(approves())),
    );
    says(
        &world,
        &format!(
            "[policy.fallback]\nbuild = {}\nreview = \"command:/not/there\"\n",
            json!(there)
        ),
    );
    let gone = ["--builder", "command:/not/here", "--reviewer", &judge];
    let ran = run(&world, &gone).ends_with(0).says("takes over");
    assert!(ran.out.contains("note: no fallback agent: "), "{}", ran.out);
}

#[test]
fn a_stand_in_that_leaves_nobody_to_judge_is_refused_before_the_start() {
    let world = World::new();
    let judge = reviewer(&world, "judge", &always(approves()));
    says(
        &world,
        &format!("[policy.fallback]\nbuild = {}\n", json!(judge)),
    );
    let ran = greet_with(&world, &smooth(), &["--verifier", &judge]).ends_with(2);
    assert!(ran.err.contains("also reviews or verifies"), "{}", ran.err);
}
