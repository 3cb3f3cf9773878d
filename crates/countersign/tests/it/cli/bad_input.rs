//! Tickets, policies and repositories that are not what they should be.

use expect_test::{Expect, expect};

use crate::support::crew::smooth;
use crate::support::{SETTINGS, TICKET, World};

/// Refs, work tree and tickets: what a refusal must leave as it was.
fn state(world: &World) -> (String, String, usize) {
    let is_repository = world.repository.join(".git").exists();
    let git = |words: &[&str]| {
        if is_repository {
            world.git(words)
        } else {
            String::new()
        }
    };
    let tickets = world.json(&["ticket", "list"])["tickets"]
        .as_array()
        .unwrap()
        .len();
    (
        git(&["for-each-ref"]),
        git(&["status", "--porcelain", "--branch"]),
        tickets,
    )
}

/// The complaint, and that nothing was done.
#[track_caller]
fn refused(world: &World, words: &[&str], wanted: &Expect) {
    let before = state(world);
    wanted.assert_eq(&world.call(words).complaint(world));
    assert_eq!(state(world), before, "something was done all the same");
    assert!(
        !world.data.join("tickets").exists(),
        "a ticket's files were made"
    );
}

#[track_caller]
fn run_refused(world: &World, ticket: &str, more: &[&str], wanted: &Expect) {
    let agent = world.crew(&smooth());
    let words = ["run", ticket, "--builder", &agent, "--reviewer", &agent];
    refused(world, &[&words, more].concat(), wanted);
}

#[test]
fn a_ticket_file_that_is_not_one_is_refused() {
    let world = World::new();
    let file = |name: &str, bytes: &[u8]| world.put(name, bytes);
    run_refused(
        &world,
        &file("empty.md", b""),
        &[],
        &expect![[r#"
        exit 2
        error: ROOT/empty.md is not a ticket: it is empty
          hint: a ticket is a Markdown file with a title, or YAML; `countersign run --help` shows one
    "#]],
    );
    run_refused(
        &world,
        &file("blank.md", b" \n\n"),
        &[],
        &expect![[r#"
        exit 2
        error: ROOT/blank.md is not a ticket: it is empty
          hint: a ticket is a Markdown file with a title, or YAML; `countersign run --help` shows one
    "#]],
    );
    run_refused(
        &world,
        &file("binary.md", b"\x7fELF\0\0\0"),
        &[],
        &expect![[r#"
            exit 2
            error: ROOT/binary.md is not a ticket: it contains binary data
              hint: a ticket is a Markdown file with a title, or YAML; `countersign run --help` shows one
        "#]],
    );
    run_refused(
        &world,
        &file("latin.md", b"# Gr\xfc\xdfe\n"),
        &[],
        &expect![[r#"
            exit 2
            error: ROOT/latin.md is not a ticket: it is not text in UTF-8
              hint: a ticket is a Markdown file with a title, or YAML; `countersign run --help` shows one
        "#]],
    );
    run_refused(
        &world,
        &file("long.md", &vec![b'x'; (1 << 20) + 1]),
        &[],
        &expect![[r#"
            exit 2
            error: ROOT/long.md is not a ticket: it is larger than 1 MiB
              hint: a ticket is a Markdown file with a title, or YAML; `countersign run --help` shows one
        "#]],
    );
    run_refused(
        &world,
        world.repository.to_str().unwrap(),
        &[],
        &expect![[r#"
            exit 2
            error: the ticket file ROOT/repository is a directory
              hint: pass a ticket file, the id of a ticket, or a sentence that describes the task
        "#]],
    );
    run_refused(
        &world,
        "missing.md",
        &[],
        &expect![[r#"
            exit 2
            error: the ticket file ./missing.md cannot be read: No such file or directory (os error 2)
              hint: pass a ticket file, the id of a ticket, or a sentence that describes the task
        "#]],
    );
    run_refused(
        &world,
        &file("untitled.md", b"---\nid: T-1\n---\n"),
        &[],
        &expect![[r#"
            exit 2
            error: ROOT/untitled.md is not a ticket: it has no title
              hint: begin it with `# The wanted change`, or give it `title: …`
        "#]],
    );
    let unknown = b"---\nid: T-1\npriorty: 3\n---\n# Title\n";
    run_refused(
        &world,
        &file("unknown.md", unknown),
        &[],
        &expect![[r#"
            exit 2
            error: ROOT/unknown.md:3:1: unknown field `priorty`
              hint: did you mean `priority`?
        "#]],
    );
    let bad_id = b"---\nid: ../../etc\n---\n# Title\n";
    run_refused(
        &world,
        &file("path.md", bad_id),
        &[],
        &expect![[r#"
        exit 2
        error: ROOT/path.md: "../../etc" cannot name a ticket: use up to 64 letters, digits, '-', '_' and '.', starting with a letter or digit
    "#]],
    );
    let not_yaml = b"title: [open\n";
    run_refused(
        &world,
        &file("broken.yaml", not_yaml),
        &[],
        &expect![[r#"
            exit 2
            error: ROOT/broken.yaml:1:8: expected string scalar
              hint: known fields: id, title, description, priority, depends_on, acceptance, kind, critical, protected, epic, base, branch, jira_key, github_repo, pr_number, coordination, needs
        "#]],
    );
    run_refused(
        &world,
        "word",
        &[],
        &expect![[r#"
        exit 2
        error: "word" is not a file, a known ticket or a sentence
          hint: pass a ticket file, the id of a ticket, or a sentence that describes the task
    "#]],
    );
    run_refused(
        &world,
        "",
        &[],
        &expect![[r#"
            exit 2
            error: "" is not a file, a known ticket or a sentence
              hint: pass a ticket file, the id of a ticket, or a sentence that describes the task
        "#]],
    );
}

#[test]
fn a_policy_with_impossible_numbers_is_refused_with_all_of_them() {
    let settings = format!(
        "{SETTINGS}lease_secs = 0\n[policy]\nmax_rounds = 9\noverall_minimum = 120\nreviewers = []\n"
    )
    .replace("[policy.limits]\nbackoff_secs = 0\nlease_secs = 0\n[policy]\n", "[policy.limits]\nlease_secs = 0\n\n[policy]\n");
    let world = World::with_settings(&settings);
    let ticket = world.put("greet.md", TICKET);
    run_refused(
        &world,
        &ticket,
        &[],
        &expect![[r#"
            exit 2
            error: countersign.toml on main:5:1: limits.lease_secs = 0: choose 1 to 86400
              hint: countersign.toml on main:8:1: max_rounds = 9: choose 1 to 5
              hint: countersign.toml on main:9:1: overall_minimum = 120: choose 0 to 100
              hint: countersign.toml on main:10:1: reviewers is empty: name at least one, or set review = "none"
              hint: docs/policy.md lists every key with its default
        "#]],
    );
}

#[test]
fn a_flag_with_an_impossible_number_is_refused() {
    let world = World::new();
    let ticket = world.put("greet.md", TICKET);
    run_refused(
        &world,
        &ticket,
        &["--max-rounds", "0"],
        &expect![[r#"
            exit 2
            error: with these flags: the policy is impossible
              hint: max_rounds = 0: choose 1 to 5
        "#]],
    );
    run_refused(
        &world,
        &ticket,
        &["--max-rounds", "6"],
        &expect![[r#"
            exit 2
            error: with these flags: the policy is impossible
              hint: max_rounds = 6: choose 1 to 5
        "#]],
    );
    run_refused(
        &world,
        &ticket,
        &["--max-rounds", "many"],
        &expect![[r#"
        exit 2
        error: invalid value 'many' for '--max-rounds <N>': invalid digit found in string

        For more information, try '--help'.
    "#]],
    );
}

#[test]
fn a_configuration_that_cannot_be_read_is_refused_with_its_line() {
    for (settings, wanted) in [
        (
            "[policy]\nmax_round = 2\n",
            expect![[r#"
                exit 2
                error: countersign.toml on main:2:1: unknown key `max_round`
                  hint: did you mean `max_rounds`?
                  hint: docs/policy.md lists every key with its default
            "#]],
        ),
        (
            "preset = \"strict\"\n",
            expect![[r#"
                exit 2
                error: countersign.toml on main:1:10: there is no preset "strict"
                  hint: did you mean `strict-three`?
                  hint: docs/policy.md lists every key with its default
            "#]],
        ),
        (
            "[checks\n",
            expect![[r#"
                exit 2
                error: countersign.toml on main:1:8: unclosed table, expected `]`
                  hint: docs/policy.md lists every key with its default
            "#]],
        ),
    ] {
        let world = World::with_settings(settings);
        let ticket = world.put("greet.md", TICKET);
        run_refused(&world, &ticket, &[], &wanted);
    }
}

#[test]
fn what_is_no_repository_or_has_no_commits_is_refused() {
    let world = World::empty();
    let ticket = world.put("greet.md", TICKET);
    run_refused(
        &world,
        &ticket,
        &[],
        &expect![[r#"
        exit 2
        error: ROOT/repository is not in a git repository; go to one, or make one with `git init`
    "#]],
    );
    let world = World::without_commits();
    let ticket = world.put("greet.md", TICKET);
    run_refused(
        &world,
        &ticket,
        &[],
        &expect![[r#"
        exit 2
        error: the repository ROOT/repository has no commits yet; make a first one, so that there is a base to work from
    "#]],
    );
}

#[test]
fn a_dirty_tree_on_the_base_is_refused_and_kept() {
    let world = World::new();
    let ticket = world.put("greet.md", TICKET);
    world.write("README.md", "mine\n");
    world.write("notes.txt", "mine\n");
    run_refused(
        &world,
        &ticket,
        &[],
        &expect![[r#"
            exit 2
            error: your work tree is on main and has 1 uncommitted file (README.md); landing would have to move them
              hint: commit or stash them, or keep the result on its branch with --land branch
        "#]],
    );
}

#[test]
fn a_merge_that_waits_to_be_finished_is_refused() {
    let world = World::new();
    let ticket = world.put("greet.md", TICKET);
    world.git(&["checkout", "--quiet", "-b", "other"]);
    world.write("README.md", "other\n");
    world.commit("Other");
    world.git(&["checkout", "--quiet", "main"]);
    world.write("README.md", "mine\n");
    world.commit("Mine");
    world.git(&["merge", "--quiet", "--no-commit", "-s", "ours", "other"]);
    run_refused(
        &world,
        &ticket,
        &[],
        &expect![[r#"
        exit 2
        error: a merge is in progress in this repository
          hint: finish it, or `git merge --abort`, and run again
    "#]],
    );
}

#[test]
fn a_base_branch_that_is_not_there_is_refused() {
    let world = World::new();
    let ticket = world.put("greet.md", TICKET);
    run_refused(
        &world,
        &ticket,
        &["--base", "release"],
        &expect![[r#"
        exit 2
        error: the base branch "release" does not exist: `release` names no commit here; see `git branch --all` for what there is
          hint: choose an existing branch with --base BRANCH
    "#]],
    );
    run_refused(
        &world,
        &ticket,
        &["--base", "-x"],
        &expect![[r#"
            exit 2
            error: unexpected argument '-x' found

              tip: to pass '-x' as a value, use '-- -x'

            Usage: countersign run [OPTIONS] [TICKET]

            For more information, try '--help'.
        "#]],
    );
    let world = World::with_settings("base = \"trunk\"\n");
    let ticket = world.put("greet.md", TICKET);
    run_refused(
        &world,
        &ticket,
        &[],
        &expect![[r#"
        exit 2
        error: the base branch "trunk" does not exist: `trunk` names no commit here; see `git branch --all` for what there is
          hint: choose an existing branch with --base BRANCH
    "#]],
    );
}

#[test]
fn an_agent_that_is_not_installed_or_unknown_is_refused() {
    let world = World::new();
    let ticket = world.put("greet.md", TICKET);
    let agent = world.crew(&smooth());
    let with = |builder: &str, wanted: &Expect| {
        let words = ["run", &ticket, "--reviewer", &agent, "--builder", builder];
        refused(&world, &words, wanted);
    };
    with(
        "command:no-such-agent --fast",
        &expect![[r#"
            exit 2
            error: builder: `no-such-agent` is not installed: looked in PATH (PATH); install it or give its full path
              hint: agents: claude, codex, gemini, opencode, copilot, goose, qwen, aider, cursor (with a model: claude@MODEL), command:PROGRAM ARGS…, acp:PROGRAM ARGS…, scripted:FILE; docs/agents.md
        "#]],
    );
    with(
        "command:./missing.sh",
        &expect![[r#"
            exit 2
            error: builder: `./missing.sh` is not installed: looked in ROOT/repository/./missing.sh; install it or give its full path
              hint: agents: claude, codex, gemini, opencode, copilot, goose, qwen, aider, cursor (with a model: claude@MODEL), command:PROGRAM ARGS…, acp:PROGRAM ARGS…, scripted:FILE; docs/agents.md
        "#]],
    );
    with(
        "command:",
        &expect![[r#"
            exit 2
            error: builder: the command of an agent is empty
              hint: agents: claude, codex, gemini, opencode, copilot, goose, qwen, aider, cursor (with a model: claude@MODEL), command:PROGRAM ARGS…, acp:PROGRAM ARGS…, scripted:FILE; docs/agents.md
        "#]],
    );
    with(
        "command:agent 'open",
        &expect![[r#"
            exit 2
            error: builder: the command has a ' that is not closed: agent 'open
              hint: agents: claude, codex, gemini, opencode, copilot, goose, qwen, aider, cursor (with a model: claude@MODEL), command:PROGRAM ARGS…, acp:PROGRAM ARGS…, scripted:FILE; docs/agents.md
        "#]],
    );
    with(
        "scripted:missing.json",
        &expect![[r#"
        exit 2
        error: builder: the script ROOT/repository/missing.json cannot be read: No such file or directory (os error 2)
    "#]],
    );
    with(
        "oracle",
        &expect![[r#"
            exit 2
            error: builder: there is no agent "oracle"
              hint: agents: claude, codex, gemini, opencode, copilot, goose, qwen, aider, cursor (with a model: claude@MODEL), command:PROGRAM ARGS…, acp:PROGRAM ARGS…, scripted:FILE; docs/agents.md
        "#]],
    );
    refused(
        &world,
        &["run", &ticket, "--reviewer", &agent],
        &expect![[r#"
            exit 2
            error: no builder is named
              hint: choose one with --builder AGENT, or `builder = "…"` in countersign.toml, which `countersign init` writes
              hint: agents: claude, codex, gemini, opencode, copilot, goose, qwen, aider, cursor (with a model: claude@MODEL), command:PROGRAM ARGS…, acp:PROGRAM ARGS…, scripted:FILE; docs/agents.md
        "#]],
    );
    let broken = world.put("broken.json", "{\"version\": 1, \"bild\": {}}");
    with(
        &format!("scripted:{broken}"),
        &expect![[r#"
        exit 2
        error: builder: the script ROOT/broken.json is not valid: unknown field `bild`, expected one of `version`, `build`, `review`, `review_form`, `review_countersign`, `verify` at line 1 column 21; see docs/agents.md for the format
    "#]],
    );
}

#[test]
fn a_ticket_that_depends_on_itself_on_a_ring_or_on_nothing_known_is_refused() {
    let world = World::new();
    let put = |id: &str, on: &str| {
        let text = format!("---\nid: {id}\ndepends_on: [{on}]\n---\n# Title\n");
        world.put(&format!("{id}.md"), text)
    };
    let (own, a, b, c) = (put("S", "S"), put("A", "B"), put("B", "C"), put("C", "A"));
    refused(
        &world,
        &["ticket", "add", &own],
        &expect![[r#"
        exit 2
        error: these tickets wait for each other: S → S; take one of the dependencies out
    "#]],
    );
    run_refused(
        &world,
        &own,
        &[],
        &expect![[r#"
        exit 6
        error: a ticket cannot depend on itself
    "#]],
    );
    refused(
        &world,
        &["ticket", "add", &a, &b, &c],
        &expect![[r#"
        exit 2
        error: these tickets wait for each other: A → B → C → A; take one of the dependencies out
    "#]],
    );
    refused(
        &world,
        &["ticket", "add", &a],
        &expect![[r#"
        exit 2
        error: A depends on B, and there is no such ticket; add that one first
    "#]],
    );
    run_refused(
        &world,
        &a,
        &[],
        &expect![[r#"
        exit 2
        error: A depends on B, and there is no such ticket; add that one first
    "#]],
    );
    let twice = put("A", "");
    refused(
        &world,
        &["ticket", "add", &twice, &twice],
        &expect![[r#"
        exit 2
        error: two of these tickets are called A; give each its own id
    "#]],
    );
    let good = put("G", "");
    refused(
        &world,
        &["ticket", "add", &good, "missing.md"],
        &expect![[r#"
            exit 2
            error: the ticket file ./missing.md cannot be read: No such file or directory (os error 2)
              hint: pass a ticket file, the id of a ticket, or a sentence that describes the task
        "#]],
    );
}

#[test]
fn a_ticket_that_is_not_known_is_refused_by_every_verb() {
    let world = World::new();
    refused(
        &world,
        &["ticket", "show", "nobody"],
        &expect![[r#"
        exit 2
        error: there is no ticket nobody; `countersign ticket list` shows all tickets
    "#]],
    );
    refused(
        &world,
        &["ticket", "cancel", "nobody"],
        &expect![[r#"
        exit 2
        error: there is no ticket nobody; `countersign ticket list` shows all tickets
    "#]],
    );
    refused(
        &world,
        &["log", "nobody"],
        &expect![[r#"
        exit 2
        error: there is no ticket nobody; `countersign ticket list` shows all tickets
    "#]],
    );
    refused(
        &world,
        &["escalation", "show", "nobody"],
        &expect![[r#"
        exit 2
        error: there is no ticket nobody; `countersign ticket list` shows all tickets
    "#]],
    );
    refused(
        &world,
        &["escalation", "resolve", "nobody", "continue"],
        &expect![[r#"
            exit 2
            error: there is no ticket nobody; `countersign ticket list` shows all tickets
        "#]],
    );
    refused(
        &world,
        &["export", "--as", "task", "nobody"],
        &expect![[r#"
            exit 2
            error: there is no ticket nobody; `countersign ticket list` shows all tickets
        "#]],
    );
    refused(
        &world,
        &["ticket", "show", "../x"],
        &expect![[r#"
        exit 2
        error: "../x" cannot name a ticket: use up to 64 letters, digits, '-', '_' and '.', starting with a letter or digit
    "#]],
    );
}
