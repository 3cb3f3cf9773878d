//! What is configured, where it came from, and what is wrong with it.

use expect_test::expect;

use crate::support::World;

const BASE: &str = "\
reviewer = \"codex\"
preset = \"supervisor\"
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
        data_dir                                          "ROOT/data"  flag
        base                                              "main"                  found
        builder                                           "claude"                ROOT/home/.config/countersign/config.toml
        reviewer                                          "codex"                 countersign.toml on main
        checks.test                                       "sh test.sh"            countersign.toml on main
        preset                                            "supervisor"            countersign.toml on main
        policy.max_rounds                                 4                       preset supervisor
        policy.on_exhausted                               "escalate"              preset supervisor
        policy.must_fix                                   ["critical","high"]     preset supervisor
        policy.min_confidence                             0.6                     preset supervisor
        policy.minor_only                                 "ask"                   preset supervisor
        policy.review                                     "agents"                preset supervisor
        policy.reviewers                                  [{"name":"reviewer"}]   preset supervisor
        policy.votes                                      "all"                   preset supervisor
        policy.gates.reviewer_approves                    true                    preset supervisor
        policy.gates.no_open_must_fix                     true                    preset supervisor
        policy.gates.no_blocking_issue                    true                    preset supervisor
        policy.gates.dimension_minimums                   true                    preset supervisor
        policy.gates.overall_score                        true                    preset supervisor
        policy.gates.checks_green                         true                    preset supervisor
        policy.dimensions.code_quality.weight             "important"             preset supervisor
        policy.dimensions.coordination_compliance.weight  "critical"              preset supervisor
        policy.dimensions.pattern_consistency.weight      "important"             preset supervisor
        policy.dimensions.requirement_adherence.weight    "critical"              preset supervisor
        policy.dimensions.security_performance.weight     "moderate"              preset supervisor
        policy.dimensions.test_quality.weight             "important"             preset supervisor
        policy.minimums.critical                          90                      preset supervisor
        policy.minimums.important                         70                      preset supervisor
        policy.minimums.moderate                          –                       preset supervisor
        policy.weights.critical                           3                       preset supervisor
        policy.weights.important                          2                       preset supervisor
        policy.weights.moderate                           1                       preset supervisor
        policy.overall_minimum                            75                      preset supervisor
        policy.verify                                     "disputed"              preset supervisor
        policy.second_opinion                             false                   preset supervisor
        policy.disposition                                "beside"                preset supervisor
        policy.criteria_required                          false                   preset supervisor
        policy.other_family                               false                   preset supervisor
        policy.protected                                  []                      preset supervisor
        policy.protected_change                           "show"                  preset supervisor
        policy.leftovers                                  "commit"                preset supervisor
        policy.land                                       "branch"                countersign.toml on main
        policy.dependants_start                           "done"                  preset supervisor
        policy.red_on_base                                "escalate"              preset supervisor
        policy.isolation                                  "enforced"              preset supervisor
        policy.network.build                              "on"                    preset supervisor
        policy.network.check                              "on"                    preset supervisor
        policy.network.review                             "provider"              preset supervisor
        policy.network.verify                             "provider"              preset supervisor
        policy.limits.retries_max                         5                       preset supervisor
        policy.limits.backoff_secs                        2                       preset supervisor
        policy.limits.backoff_secs_max                    300                     preset supervisor
        policy.limits.unusable_reviews_max                2                       preset supervisor
        policy.limits.red_checks_max                      3                       preset supervisor
        policy.limits.conflicts_max                       3                       preset supervisor
        policy.limits.stale_max                           5                       preset supervisor
        policy.limits.unfixed_max                         2                       preset supervisor
        policy.limits.batch_max                           8                       preset supervisor
        policy.limits.lease_secs                          60                      preset supervisor
        policy.limits.build_secs                          1800                    preset supervisor
        policy.limits.check_secs                          900                     preset supervisor
        policy.limits.review_secs                         900                     preset supervisor
        policy.limits.verify_secs                         600                     preset supervisor
        policy.limits.merge_secs                          900                     preset supervisor
        policy.limits.idle_secs                           600                     preset supervisor
        policy.limits.output_bytes_max                    67108864                preset supervisor
        policy.limits.disk_bytes_max                      10737418240             preset supervisor
        policy.limits.disk_files_max                      1000000                 preset supervisor
        policy.limits.findings_max                        200                     preset supervisor
        policy.limits.queue_max                           100                     preset supervisor
        policy.limits.heartbeat_secs                      600                     preset supervisor
        policy.limits.watchdog_secs                       60                      preset supervisor
        policy.limits.poll_secs                           30                      preset supervisor
        policy.budget.round                               {}                      preset supervisor
        policy.budget.ticket                              {}                      preset supervisor
        policy.budget.day                                 {}                      preset supervisor
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
        .says("`countersign init` writes one");
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
        countersign.toml on main: nothing is wrong
        ROOT/repository/countersign.toml:1:1: there is no `bulder` here
          did you mean `builder`?
        ROOT/repository/countersign.toml:4:1: there is no `max_round` here
          did you mean `max_rounds`?
        ROOT/repository/countersign.toml:5:8: `merg` is no value that this can have
          did you mean `merge`?
    "#]]
    .assert_eq(&world.masked(&ran.out));
    let answer = world.json(&["config", "check", "countersign.toml"]);
    assert_eq!(answer["fine"], false);
    assert_eq!(answer["files"][0]["problems"][1]["line"], 4);
}
