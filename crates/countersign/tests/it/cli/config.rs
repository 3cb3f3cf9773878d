//! Tests `config`: the values, their sources, and mistakes in them.

use expect_test::expect;

use crate::support::World;

const BASE: &str = "\
reviewer = \"codex\"
preset = \"four-rounds\"
[checks]
test = \"sh test.sh\"
[policy]
land = \"branch\"
";

#[test]
fn every_value_says_where_it_came_from() {
    let world = World::with_settings(BASE);
    world.put_home(
        ".config/countersign/config.toml",
        "builder = \"claude\"\nreviewer = \"gemini\"\n",
    );
    let ran = world.call(&["config", "show", "--changed"]).ends_with(0);
    expect![[r#"
        data_dir                                          "ROOT/data"  environment
        base                                              "main"                  found
        builder                                           "claude"                ROOT/home/.config/countersign/config.toml
        reviewer                                          "codex"                 countersign.toml on main
        checks.test                                       "sh test.sh"            countersign.toml on main
        preset                                            "four-rounds"           countersign.toml on main
        policy.max_rounds                                 4                       preset four-rounds
        policy.on_exhausted                               "escalate"              preset four-rounds
        policy.must_fix                                   ["critical","high"]     preset four-rounds
        policy.min_confidence                             0.6                     preset four-rounds
        policy.minor_only                                 "ask"                   preset four-rounds
        policy.review                                     "agents"                preset four-rounds
        policy.reviewers                                  [{"name":"reviewer"}]   preset four-rounds
        policy.votes                                      "all"                   preset four-rounds
        policy.gates.reviewer_approves                    true                    preset four-rounds
        policy.gates.no_open_must_fix                     true                    preset four-rounds
        policy.gates.no_blocking_issue                    true                    preset four-rounds
        policy.gates.dimension_minimums                   true                    preset four-rounds
        policy.gates.overall_score                        true                    preset four-rounds
        policy.gates.checks_green                         true                    preset four-rounds
        policy.dimensions.code_quality.weight             "important"             preset four-rounds
        policy.dimensions.coordination_compliance.weight  "critical"              preset four-rounds
        policy.dimensions.pattern_consistency.weight      "important"             preset four-rounds
        policy.dimensions.requirement_adherence.weight    "critical"              preset four-rounds
        policy.dimensions.security_performance.weight     "moderate"              preset four-rounds
        policy.dimensions.test_quality.weight             "important"             preset four-rounds
        policy.minimums.critical                          90                      preset four-rounds
        policy.minimums.important                         70                      preset four-rounds
        policy.minimums.moderate                          –                       preset four-rounds
        policy.weights.critical                           3                       preset four-rounds
        policy.weights.important                          2                       preset four-rounds
        policy.weights.moderate                           1                       preset four-rounds
        policy.overall_minimum                            75                      preset four-rounds
        policy.verify                                     "disputed"              preset four-rounds
        policy.second_opinion                             false                   preset four-rounds
        policy.verify_open                                "in-parallel"           preset four-rounds
        policy.criteria_required                          false                   preset four-rounds
        policy.other_family                               false                   preset four-rounds
        policy.protected                                  []                      preset four-rounds
        policy.protected_change                           "show"                  preset four-rounds
        policy.uncommitted                                "commit"                preset four-rounds
        policy.land                                       "branch"                countersign.toml on main
        policy.start_dependents                           "done"                  preset four-rounds
        policy.red_on_base                                "escalate"              preset four-rounds
        policy.prove_base                                 true                    preset four-rounds
        policy.sandbox                                    "enforced"              preset four-rounds
        policy.network.build                              "on"                    preset four-rounds
        policy.network.check                              "on"                    preset four-rounds
        policy.network.review                             "provider"              preset four-rounds
        policy.network.verify                             "provider"              preset four-rounds
        policy.limits.retries_max                         5                       preset four-rounds
        policy.limits.backoff_secs                        2                       preset four-rounds
        policy.limits.backoff_secs_max                    300                     preset four-rounds
        policy.limits.unusable_reviews_max                2                       preset four-rounds
        policy.limits.red_checks_max                      3                       preset four-rounds
        policy.limits.conflicts_max                       3                       preset four-rounds
        policy.limits.stale_max                           5                       preset four-rounds
        policy.limits.unfixed_max                         2                       preset four-rounds
        policy.limits.batch_max                           8                       preset four-rounds
        policy.limits.lease_secs                          60                      preset four-rounds
        policy.limits.build_secs                          1800                    preset four-rounds
        policy.limits.check_secs                          900                     preset four-rounds
        policy.limits.review_secs                         900                     preset four-rounds
        policy.limits.verify_secs                         600                     preset four-rounds
        policy.limits.merge_secs                          900                     preset four-rounds
        policy.limits.idle_secs                           600                     preset four-rounds
        policy.limits.output_bytes_max                    67108864                preset four-rounds
        policy.limits.disk_bytes_max                      10737418240             preset four-rounds
        policy.limits.disk_files_max                      1000000                 preset four-rounds
        policy.limits.findings_max                        200                     preset four-rounds
        policy.limits.heartbeat_secs                      600                     preset four-rounds
        policy.budget.round                               {}                      preset four-rounds
        policy.budget.ticket                              {}                      preset four-rounds
        policy.budget.day                                 {}                      preset four-rounds
    "#]]
    .assert_eq(&world.masked(&ran.out));
    let all = world.json(&["config", "show"]);
    let settings = all["settings"].as_array().unwrap();
    assert!(settings.len() > 60, "{}", settings.len());
    assert!(settings.iter().all(|one| one["origin"].is_string()));
}

#[test]
fn the_work_tree_counts_where_the_base_has_nothing_and_it_is_said() {
    let world = World::new();
    world.git(&["rm", "--quiet", "countersign.toml"]);
    world.commit("No configuration");
    world.write("countersign.toml", "builder = \"claude\"\n");
    let ran = world.call(&["config", "show", "--changed"]).ends_with(0);
    assert_eq!(
        ran.err,
        "note: main has no countersign.toml; the one in your work tree is used\n"
    );
    assert!(
        ran.out.contains("repository/countersign.toml"),
        "{}",
        ran.out
    );
}

#[test]
fn outside_of_a_repository_there_is_still_something_to_show() {
    let world = World::empty();
    world
        .call(&["config", "show"])
        .ends_with(0)
        .says("policy.max_rounds")
        .says("is not in a git repository");
    world
        .call(&["config", "check"])
        .ends_with(0)
        .says("run `countersign init` to write one");
}

#[test]
fn everything_that_is_wrong_is_named_with_its_place() {
    let world = World::new();
    world.write(
        "countersign.toml",
        "bulder = \"claude\"\n\n[policy]\nmax_round = 2\nland = \"merg\"\n",
    );
    let ran = world.call(&["config", "check"]).ends_with(2);
    expect![[r#"
        countersign.toml on main: no mistakes
        ROOT/repository/countersign.toml:1:1: unknown key `bulder`
          did you mean `builder`?
        ROOT/repository/countersign.toml:4:1: unknown key `max_round`
          did you mean `max_rounds`?
        ROOT/repository/countersign.toml:5:8: `merg` is not a valid value
          did you mean `merge`?
    "#]]
    .assert_eq(&world.masked(&ran.out));
    let answer = world.json(&["config", "check", "countersign.toml"]);
    assert_eq!(answer["fine"], false);
    assert_eq!(answer["files"][0]["problems"][1]["line"], 4);
}
