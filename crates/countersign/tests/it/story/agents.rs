//! Known CLIs by their names: scripts that check how they are started and speak as the real ones do.

use super::{merges, on};
use crate::support::crew::smooth;
use crate::support::{Ran, TICKET, World};

const CLAUDE: &str = include_str!("agents/claude.sh");
const CODEX: &str = include_str!("agents/codex.sh");
const HELP: &str = "#!/bin/sh
case ${1-} in
  --version) echo '2.1.325 (Claude Code)'; exit 0 ;;
  --help) echo '--output-format --permission-mode --allowedTools --tools --json-schema --strict-mcp-config --mcp-config --setting-sources --no-session-persistence --resume'; exit 0 ;;
esac
";

fn world() -> World {
    let mut world = World::new();
    world.variables = vec![
        ("ANTHROPIC_API_KEY".to_owned(), "k-1".to_owned()),
        ("OTHER_SECRET".to_owned(), "s".to_owned()),
    ];
    world
}

fn run(world: &World, builder: &str, reviewer: &str) -> Ran {
    let ticket = world.put("greet.md", TICKET);
    world.call(&["run", &ticket, "--builder", builder, "--reviewer", reviewer])
}

#[test]
fn claude_builds_and_codex_reviews_through_two_rounds() {
    let world = world();
    world.install("claude", CLAUDE);
    world.install("codex", CODEX);
    world.put_home(".codex/auth.json", "the login");
    run(&world, "claude", "codex").ends_with(0);
    assert_eq!(merges(&world), 1);
    assert!(on(&world, "main", "greet.sh").contains("exit 2"));
    let ticket = world.ticket("greet");
    assert_eq!(ticket["rounds"].as_array().unwrap().len(), 2);
    assert_eq!(ticket["spent"]["ticket"]["usd_micros"], 500_000);

    let told = world.json(&[
        "log",
        "--transcript",
        "greet",
        "--role",
        "build",
        "--round",
        "2",
    ]);
    let run = &told["transcripts"][0];
    assert_eq!(run["agent"], "claude (builder)");
    let ended = &run["ended"];
    assert_eq!(ended["session"], "session-1");
    assert_eq!(ended["model"], "some-opus");
    assert_eq!(ended["turns"], 2);
    assert_eq!(ended["tokens_in"], 1000);
    assert_eq!(ended["tokens_cached"], 900);
    world
        .call(&["log", "--transcript"])
        .ends_with(0)
        .says("> Write: greet.sh")
        .says("round 2, review: codex (reviewer)")
        .says("> shell: cat greet.sh");
    world
        .call(&["log", "--transcript", "--raw", "--role", "verify"])
        .says("{\"type\":\"thread.started\"");
    world.must_be_sound();
}

#[test]
fn a_session_that_is_gone_is_begun_anew_with_the_brief_alone() {
    let world = world();
    let forgetful = CLAUDE
        .replace("*) touch \"$CLAUDE_CONFIG_DIR/session-1\" ;;", "*) ;;")
        .replace("  must '--resume session-1'\n  printf", "  printf");
    world.install("claude", &forgetful);
    world.install("codex", CODEX);
    world.put_home(".codex/auth.json", "the login");
    run(&world, "claude", "codex").ends_with(0);
    assert_eq!(world.count("greet", "job_failed"), 0);
}

/// A reviewer that is asked a second time goes on in its session: in its home, in its directory, with
/// the question alone.
#[test]
fn a_reviewer_is_asked_again_in_its_own_session() {
    let again = r#"resumed=
case $words in *' resume thread-1 '*) resumed=yes; [ "$(cat "$CODEX_HOME/thread-1")" = "$PWD" ] ;;
  *) pwd > "$CODEX_HOME/thread-1" ;; esac"#;
    let told = r#"brief=$(cat)
if [ -n "$resumed" ]; then case $brief in '# Your answer, in form'* | '# Do you countersign'*) ;; *) exit 66 ;; esac; fi"#;
    let minor = r#"{"verdict":"request_changes","findings":[{"severity":"low","title":"A comment is missing","file":"greet.sh","line":1}]}"#;
    for (first, asked) in [
        (r#"{"verdict":"approved","findings":[]}"#, "form"),
        (minor, "countersign"),
    ] {
        let world = world();
        let answers = format!(
            "fi ;;\nesac\nif [ -z \"$resumed\" ]; then answer='{first}'; else [ \"$COUNTERSIGN_QUESTION\" = {asked} ]; fi\n"
        );
        let codex = CODEX
            .replace("case $words in *' resume '*) exit 64 ;; esac", again)
            .replace("cat > /dev/null", told)
            .replace("fi ;;\nesac\n", &answers);
        world.install("codex", &codex);
        world.put_home(".codex/auth.json", "the login");
        let crew = world.crew(&smooth());
        run(&world, &crew, "codex")
            .ends_with(0)
            .says("countersigned by codex (reviewer)");
        assert_eq!(world.count("greet", "review_unusable"), 0, "{asked}");
        world.must_be_sound();
    }
}

#[test]
fn nobody_logged_in_is_said_once_with_what_to_do() {
    let world = world();
    let recorded =
        include_str!("../../../../engine/tests/fixtures/agents/claude/builder-notloggedin.jsonl");
    world.install(
        "claude",
        &format!("{HELP}cat <<'END'\n{recorded}END\nexit 1\n"),
    );
    let crew = world.crew(&smooth());
    run(&world, "claude", &crew)
        .ends_with(4)
        .says("Not logged in")
        .says("run `claude` and log in, or set ANTHROPIC_API_KEY");
    assert_eq!(world.count("greet", "job_failed"), 1);
}

#[test]
fn out_of_quota_waits_until_the_time_that_the_agent_names() {
    let world = world();
    let limited = "
mkdir -p \"$CLAUDE_CONFIG_DIR\"
if [ ! -e \"$CLAUDE_CONFIG_DIR/been-here\" ]; then
  touch \"$CLAUDE_CONFIG_DIR/been-here\"
  until=$(($(date +%s) + 1))
  echo '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"result\":\"Claude AI usage limit reached|'$until'\"}'
  exit 1
fi
";
    let rest = CLAUDE.split_once("words=").unwrap().1;
    world.install("claude", &format!("{HELP}{limited}words={rest}"));
    world.install("codex", CODEX);
    world.put_home(".codex/auth.json", "the login");
    run(&world, "claude", "codex").ends_with(0);
    assert_eq!(world.count("greet", "job_failed"), 1);
}

#[test]
fn a_cli_that_is_too_old_or_not_there_is_refused_before_anything_starts() {
    let world = world();
    let old = HELP.replace("--json-schema ", "");
    world.install("claude", &old);
    let crew = world.crew(&smooth());
    run(&world, "claude", &crew)
        .ends_with(2)
        .says("builder: Claude Code (2.1.325 (Claude Code)) at")
        .says("its help does not list --json-schema")
        .says("update it: npm install -g @anthropic-ai/claude-code");
    run(&world, "cursor", &crew)
        .ends_with(2)
        .says("builder: Cursor is not installed: `cursor-agent`")
        .says("install it: curl https://cursor.com/install");
    run(&world, "no-such-agent", &crew)
        .ends_with(2)
        .says("there is no agent \"no-such-agent\"")
        .says("agents: claude, codex, gemini,");
    // Another build of it is asked again.
    world.install("claude", CLAUDE);
    run(&world, "claude", &crew).ends_with(0);
}

#[test]
fn a_project_names_its_own_agents() {
    let mut world = world();
    let place = world.root().join("bin/another");
    world.install("another", CLAUDE);
    let settings = format!(
        "{}\n[agents.fast]\nadapter = \"claude\"\ncommand = {place:?}\nmodel = \"haiku\"\nenv = [\"EXTRA\"]\nargs = [\"--max-budget-usd\", \"3\"]\n",
        crate::support::SETTINGS
    );
    let checked = CLAUDE.replace(
        "must '--json-schema'\n",
        "must '--json-schema'\nmust '--model opus'\nmust '--max-budget-usd 3'\n[ \"$EXTRA\" = passed ]\n",
    );
    world.install("another", &checked);
    world.write("countersign.toml", &settings);
    world.commit("An agent of our own");
    world
        .variables
        .push(("EXTRA".to_owned(), "passed".to_owned()));
    let crew = world.crew(&smooth());
    run(&world, "fast@opus", &crew).ends_with(0);
}

#[test]
fn a_cli_that_minds_money_is_told_what_is_left_of_the_budget() {
    let world = world();
    let settings = format!(
        "{}\n[policy.budget.round]\nusd = 1.5\n",
        crate::support::SETTINGS
    );
    world.write("countersign.toml", &settings);
    world.commit("A budget");
    let told = CLAUDE
        .replace("--resume'\n", "--resume --max-budget-usd'\n")
        .replace(
            "must '--json-schema'\n",
            "must '--json-schema'\nmust '--max-budget-usd 1.500000'\n",
        );
    assert_ne!(told, CLAUDE);
    world.install("claude", &told);
    world.install("codex", CODEX);
    world.put_home(".codex/auth.json", "the login");
    run(&world, "claude", "codex").ends_with(0);
    let shown = world.json(&["log", "--transcript", "greet", "--role", "build"]);
    let recorded = &shown["transcripts"][0]["budget"]["usd"];
    assert_eq!(recorded, 1.5, "{shown}");
}

#[test]
fn doctor_says_what_is_installed_and_what_is_missing() {
    let world = world();
    world.install("claude", CLAUDE);
    let found = world.json(&["doctor"]);
    let agents = found["agents"].as_array().unwrap();
    let seen = |name: &str| agents.iter().find(|agent| agent["name"] == name).unwrap();
    assert_eq!(seen("claude")["version"], "2.1.325 (Claude Code)");
    assert_eq!(seen("claude")["login"], "ANTHROPIC_API_KEY");
    assert_eq!(seen("claude")["advice"].as_array().unwrap().len(), 0);
    assert_eq!(seen("cursor")["path"], serde_json::Value::Null);
    let ran = world.call(&["doctor"]).ends_with(0);
    ran.says("ok  claude     2.1.325 (Claude Code) at")
        .says("not installed; install it: curl https://cursor.com/install");
}
