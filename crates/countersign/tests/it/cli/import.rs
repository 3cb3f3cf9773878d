//! `import` of files of other systems: the report names all that has no meaning here, a dry run
//! changes nothing, and a configuration is extended and never replaced.

use expect_test::expect;
use serde_json::json;

use crate::support::World;

const ISSUES: &str = r#"{"id":"bd-1","title":"Add greet","status":"open","priority":1,"issue_type":"feature","moon":1}
{"id":"bd-2","title":"Test it","status":"in_progress","priority":2,"dependencies":[{"depends_on_id":"bd-1","type":"blocks"}]}
{"id":"bd-3","title":"Old","status":"closed","priority":2}
"#;

#[test]
fn issues_of_beads_are_planned_imported_and_not_imported_twice() {
    let world = World::new();
    let file = world.put("issues.jsonl", ISSUES);
    let plan = world.call(&["import", "--dry-run", &file]).ends_with(0);
    expect![[r#"
        [DRY-RUN] Would add bd-1: Add greet (priority 70)
        [DRY-RUN] Would add bd-2: Test it (priority 50, after bd-1)
        left out:
          bd-3 is finished: no ticket is added, and dependencies on it are met
        changed:
          bd-2 is in progress there: it starts from the beginning here
        not understood:
          moon (bd-1): not known; kept with the ticket
    "#]]
    .assert_eq(&plan.out);
    world
        .call(&["ticket", "list", "--all"])
        .ends_with(0)
        .says("no tickets");
    world
        .call(&["import", &file])
        .ends_with(0)
        .says("added bd-1 (queued): Add greet")
        .says("added bd-2 (pending): Test it");
    // They belong to this repository.
    world.call(&["ticket", "list"]).ends_with(0).says("bd-1");
    world
        .call(&["run", "bd-2", "--dry-run"])
        .ends_with(0)
        .says("after bd-1");
    world
        .call(&["import", &file])
        .ends_with(0)
        .says("bd-1 is there already and stays as it is");
    let other = world.put("issues.jsonl", r#"{"id":"bd-1","title":"Another"}"#);
    let refused = world.call(&["import", &other]).ends_with(2);
    assert!(
        refused.err.contains("and it is another one: Add greet"),
        "{}",
        refused.err
    );
}

#[test]
fn a_bad_file_adds_nothing_of_the_others() {
    let world = World::new();
    let good = world.put("issues.jsonl", ISSUES);
    let ring = json!({"tasks": [
        {"id": 1, "title": "a", "dependencies": [2]}, {"id": 2, "title": "b", "dependencies": [1]},
    ]});
    let bad = world.put("tasks.json", ring.to_string());
    let refused = world.call(&["import", &good, &bad]).ends_with(2);
    assert!(
        refused.err.contains("wait for each other"),
        "{}",
        refused.err
    );
    world
        .call(&["ticket", "list", "--all"])
        .ends_with(0)
        .says("no tickets");
}

#[test]
fn foreign_text_is_cleaned_before_it_is_shown() {
    let world = World::new();
    let text = json!({"id": "x", "title": "Red \u{1b}[31malert\u{202e}", "\u{1b}]0;odd": 1});
    let file = world.put("issues.jsonl", text.to_string());
    for words in [&["import", "--dry-run", &file][..], &["import", &file]] {
        let ran = world.call(words).ends_with(0);
        assert!(!ran.out.contains(['\u{1b}', '\u{202e}']), "{:?}", ran.out);
    }
}

const AGENTS: &str = "agents:
  - {id: engineer, queue: engineer, can_commit: true}
  - {id: qa, queue: qa, prompt: Review.}
";
const FRAMEWORK: &str = "communication_dir: .agent-communication
task: {max_retries: 4}
safeguards: {max_queue_size: 40, heartbeat_timeout: 600}
";

#[test]
fn agents_become_settings_that_are_written_only_on_request() {
    let world = World::without_commits();
    world.write("README.md", "# x\n");
    world.commit("First");
    let agents = world.put("agents.yaml", AGENTS);
    let framework = world.put("agent-framework.yaml", FRAMEWORK);
    for words in [
        &["import", "--dry-run", &agents, &framework][..],
        &["import", &agents, &framework],
    ] {
        world
            .call(words)
            .ends_with(0)
            .says("builder = \"engineer\"")
            .says("spool.directory = \".agent-communication\"")
            .says("`agents.qa.prompt` has no equivalent")
            .says("no configuration was written: pass --write");
        assert!(!world.root().join("repository/countersign.toml").exists());
    }
    world.write(
        "countersign.toml",
        "# mine\nbuilder = \"codex\" # cheap\n\n[policy.limits]\nretries_max = 7\n",
    );
    world
        .call(&["import", "--write", &agents, &framework])
        .ends_with(0)
        .says("kept: builder = \"codex\"")
        .says("kept: policy.limits.retries_max = 7 stays")
        .says("next: countersign config check");
    let written = std::fs::read_to_string(world.root().join("repository/countersign.toml"));
    expect![[r#"
        # mine
        builder = "codex" # cheap
        reviewer = "qa"

        [policy.limits]
        retries_max = 7
        heartbeat_secs = 600

        [agents.engineer]
        adapter = "claude"

        [agents.qa]
        adapter = "claude"
    "#]]
    .assert_eq(&written.unwrap());
    world.call(&["config", "check"]).ends_with(0);
    world
        .call(&["import", "--write", &agents, &framework])
        .ends_with(0)
        .says("has all of it already");
}

#[test]
fn a_configuration_that_cannot_be_extended_is_left_as_it_is() {
    let world = World::without_commits();
    world.write("README.md", "# x\n");
    world.commit("First");
    let agents = world.put("agents.yaml", AGENTS);
    let broken = "builder = \n";
    world.write("countersign.toml", broken);
    world.call(&["import", "--write", &agents]).ends_with(2);
    let after = std::fs::read_to_string(world.root().join("repository/countersign.toml"));
    assert_eq!(after.unwrap(), broken);
}
