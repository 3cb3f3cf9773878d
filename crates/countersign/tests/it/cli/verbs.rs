//! Each verb's words on a small world.

use expect_test::{Expect, expect};

use crate::support::crew::{quarrel, smooth, two_rounds};
use crate::support::{TICKET, World};

#[track_caller]
fn says(world: &World, words: &[&str], wanted: &Expect) {
    let ran = world.call(words);
    assert_eq!(ran.err, "", "{words:?}");
    wanted.assert_eq(&world.masked(&ran.out));
}

#[test]
fn the_help_names_every_verb_and_every_exit_code() {
    says(
        &World::empty(),
        &["--help"],
        &expect![[r#"
            No agent's change lands on one signature.

            Runs coding agents in a loop — build, check, review, rework — until an independent reviewer
            countersigns the exact commit, or a person decides.

            Usage: countersign [OPTIONS] [COMMAND]

            Start:
              init         Detect this project's language, checks and agents, and write a first countersign.toml
              run          Run a ticket in this repository, from its description to a countersigned commit
              review       Review a change without a ticket: a branch, a range, staged changes or a patch
              demo         Watch a ticket go through build, check, review, rework and merge in a temporary repository

            Follow:
              status       Show this repository's tickets by stage and what they wait for
              watch        Open the live view: tickets, running work, findings in the diff, escalations to resolve
              log          Show the log of events, in sentences
              ticket       Add, list, show and cancel tickets
              escalation   List, show and resolve tickets that wait for a person
              inbox        Show the messages that agents sent to you
              epic         List, show and sign epics: tickets that belong together

            Set up:
              doctor       Check that this machine and project are ready, and say how to fix what is not
              config       Show the configuration, the source of each value, and mistakes in it
              agent        List the agent CLIs on this machine, and install Countersign into their sessions
              hook         Install git hooks that review commits before a push, or each commit in the background
              completions  Print completions for your shell
              man          Print or write manual pages

            Exchange and learn:
              import       Import tickets and settings from files of other systems
              export       Export tickets in formats of other systems
              findings     Read, convert, track and score review texts
              insights     Show frequent findings, reviewer accuracy, cost, and rules that would help

            Servers and workers:
              serve        Serve the dashboard for people, MCP for agents and REST for programs
              open         Print the address of the server and a link that logs your browser in to its dashboard
              worker       Run jobs from the queues, on any machine that reaches the server or the database
              queue        List and cancel jobs and tasks, pause queues, and limit providers
              token        Create, list, rotate and revoke tokens for agents, people and programs
              mcp          Serve MCP over standard input and output for the agent whose token is in `COUNTERSIGN_TOKEN`
              backup       Copy the database to a file, while servers and workers go on
              restore      Put a copy of the database back; nothing may use the database meanwhile

            More:
              clean        Show how much disk space finished work uses, and free it with --yes
              forge        Connect to the forge that has the pull requests


            Global options:
              -C <DIR>
                      Run as if started in DIR

                      [default: .]

                  --json
                      Print the result as JSON

              -q, --quiet
                      Print the result only: no progress, no notes

              -v, --verbose
                      Print more: internal steps, and the log at the level info

                  --data-dir <DIR>
                      Directory of Countersign's data [default: `$XDG_DATA_HOME/countersign`]

                  --database <URL|FILE>
                      PostgreSQL address (postgres://…) or file to use instead of the database in the data
                      directory

                  --database-file <FILE>
                      File with the address of the database on one line, so that a password is not in the list
                      of processes; `COUNTERSIGN_DATABASE` and `COUNTERSIGN_DATABASE_FILE` do the same

                  --server <URL>
                      Server (https://name:port) to use instead of the local store; `none` uses the local store

                  --log-format <FORMAT>
                      Format of the log on standard error

                      [default: text]
                      [possible values: text, json]

                  --log-level <LEVEL>
                      Least severe level to log, instead of `RUST_LOG` [default: info for `serve` and `worker`,
                      off for `watch`, else warn]

                      [possible values: off, error, warn, info, debug, trace]

              -h, --help
                      Print help (see a summary with '-h')

              -V, --version
                      Print version

            Exit codes:
                0  done or approved              5  failed or cancelled
                1  error                         6  refused
                2  usage                         7  database
                3  changes requested             8  waits for another ticket or person
                4  escalated: a person decides   130  interrupted

            Tickets: the beginning of an id is enough if only one ticket begins with it; @last is the newest
            ticket of this repository.

            Try `countersign demo`: a temporary repository, a builder that makes a mistake, a reviewer that
            finds it.
        "#]],
    );
}

#[test]
fn the_help_of_run_shows_how() {
    says(
        &World::empty(),
        &["run", "--help"],
        &expect![[r#"
            Run a ticket in this repository, from its description to a countersigned commit

            Usage: countersign run [OPTIONS] [TICKET]

            Arguments:
              [TICKET]
                      Ticket file (Markdown or YAML), epic (YAML with `tickets`), id of an existing ticket, or a
                      sentence

            Options:
                  --builder <AGENT>
                      Agent that builds: claude, codex, gemini, opencode, copilot, goose, qwen, aider, cursor
                      (with a model: `claude@MODEL`), a name from `[agents]`, `command:PROGRAM ARGS…`,
                      `acp:PROGRAM ARGS…` or `scripted:FILE`

                  --reviewer <AGENT>
                      Agent that reviews. Repeatable: one per reviewer

                  --verifier <AGENT>
                      Agent that verifies single findings [default: the reviewer's program, in a new session]

                  --check <[NAME=]COMMAND>
                      Command that must succeed on the commit. Repeatable

                  --base <BRANCH>
                      Branch to build on and to land on

                  --land <LAND>
                      Action for the approved commit

                      Possible values:
                      - branch: Leave it on its branch
                      - merge:  Merge it into the base branch
                      - squash: Put it on the base branch as one commit
                      - rebase: Replay its commits on the base branch
                      - queue:  Queue it: land it together with others after checking the combination
                      - pr:     Open a pull request on the forge; `landing.pr_merge` says who merges it

                  --max-rounds <N>
                      Maximum number of rounds before a person decides (1 to 5)

                  --jobs <N>
                      Number of tickets of an epic to work on in parallel

                      [default: 2]

                  --progress <FORM>
                      Format of the progress output

                      Possible values:
                      - auto:  Live on a terminal, else plain
                      - live:  Lines that update in place
                      - plain: One line per event
                      - json:  One JSON object per event, the result last; implies --json

                      [default: auto]

                  --dry-run
                      Print what would be done without changing anything

              -h, --help
                      Print help (see a summary with '-h')

            Global options:
              -C <DIR>
                      Run as if started in DIR

                      [default: .]

                  --json
                      Print the result as JSON

              -q, --quiet
                      Print the result only: no progress, no notes

              -v, --verbose
                      Print more: internal steps, and the log at the level info

                  --data-dir <DIR>
                      Directory of Countersign's data [default: `$XDG_DATA_HOME/countersign`]

                  --database <URL|FILE>
                      PostgreSQL address (postgres://…) or file to use instead of the database in the data
                      directory

                  --database-file <FILE>
                      File with the address of the database on one line, so that a password is not in the list
                      of processes; `COUNTERSIGN_DATABASE` and `COUNTERSIGN_DATABASE_FILE` do the same

                  --server <URL>
                      Server (https://name:port) to use instead of the local store; `none` uses the local store

                  --log-format <FORMAT>
                      Format of the log on standard error

                      [default: text]
                      [possible values: text, json]

                  --log-level <LEVEL>
                      Least severe level to log, instead of `RUST_LOG` [default: info for `serve` and `worker`,
                      off for `watch`, else warn]

                      [possible values: off, error, warn, info, debug, trace]

            Examples:
              countersign run ticket.md --builder claude --reviewer codex --check "cargo test"
              countersign run ticket.md --builder "command:./build-agent" --reviewer "command:./review-agent"
              --check "cargo test"
              countersign run "Greet the user by name" --land branch
              countersign run epic.yaml --jobs 4 --land queue  tickets that depend on each other, in parallel
              countersign run greet-the-user-by-name-1f3a      continue a ticket that was interrupted or
              resolved

            A ticket file:
              ---
              id: T-7
              depends_on: [T-3]
              ---
              # Greet the user by name
              The greeting is printed at the start.
              ## Acceptance criteria
              - An empty name is refused.
        "#]],
    );
}

#[test]
fn an_empty_world_says_what_to_do_first() {
    let world = World::new();
    says(
        &world,
        &["status"],
        &expect![[r#"
        no tickets yet; try `countersign demo`, or `countersign run "…"`
    "#]],
    );
    says(
        &world,
        &["ticket", "list"],
        &expect![[r#"
            no tickets in this repository; run `countersign run "…"` to create one, or list all with --all
        "#]],
    );
    says(
        &world,
        &["log"],
        &expect![[r#"
            no events in this repository yet; countersign log --all shows every repository
        "#]],
    );
    says(
        &world,
        &["escalation", "list"],
        &expect![[r#"
        no ticket of this repository waits for a person; list all with --all
    "#]],
    );
    says(
        &world,
        &["doctor", "--verify-log"],
        &expect![[r#"
        0 tickets, 0 events: the log matches the store
    "#]],
    );
}

#[test]
fn a_ticket_that_went_well_is_told_in_a_few_lines() {
    let world = World::new();
    let (ticket, agent) = (world.put("greet.md", TICKET), world.crew(&smooth()));
    let run = ["run", &ticket, "--builder", &agent, "--reviewer", &agent];
    says(
        &world,
        &run,
        &expect![[r#"
            queued: Greet by name
            estimate: round 1 unknown (scripted (builder) and scripted (reviewer) never worked here); left: 3 of 3 rounds
            round 1: build given to scripted (builder), which starts once the base is known to be green
            round 1: scripted (builder) submitted SHORT (1 file, $0.10)
            round 1: check started by countersign
            checks: test green
            round 1: review started by scripted (reviewer)
            round 1: scripted (reviewer) approves, 0 findings
            [REVIEW-APPROVED] attempt 1/3: SHORT is countersigned
            round 1: merge started by countersign
            SHORT is on main
            done: countersigned by scripted (reviewer), $0.10

            greet: done on main, countersigned by scripted (reviewer), after 1 round, $0.10

            rounds
              round 1  SHORT  approved

            branch countersign/greet, commit SHORT
            artefacts ROOT/data/tickets/greet
            next: countersign ticket diff greet
        "#]],
    );
    says(
        &world,
        &["ticket", "list"],
        &expect![[r#"
        greet  done  round 1  $0.10  Greet by name
    "#]],
    );
    says(
        &world,
        &["status"],
        &expect![[r#"
            1 ticket: 1 done
            $0.10 spent: $0.10 a ticket, $0.10 a round, $0.10 for each that landed
        "#]],
    );
    says(
        &world,
        &["log", "greet"],
        &expect![[r#"
            TIME  greet  queued: Greet by name
            TIME  greet  round 1: build given to scripted (builder), which starts once the base is known to be green
            TIME  greet  round 1: scripted (builder) submitted SHORT (1 file, $0.10)
            TIME  greet  round 1: check started by countersign
            TIME  greet  checks: test green
            TIME  greet  round 1: review started by scripted (reviewer)
            TIME  greet  round 1: scripted (reviewer) approves, 0 findings
            TIME  greet  [REVIEW-APPROVED] attempt 1/3: SHORT is countersigned
            TIME  greet  round 1: merge started by countersign
            TIME  greet  SHORT is on main
            TIME  greet  done: countersigned by scripted (reviewer), $0.10
        "#]],
    );
}

#[test]
fn a_ticket_of_two_rounds_is_exported_in_each_form() {
    let world = World::new();
    let (ticket, agent) = (world.put("greet.md", TICKET), world.crew(&two_rounds()));
    let run = ["run", &ticket, "--builder", &agent, "--reviewer", &agent];
    world.call(&run).ends_with(0);
    let export = |words: &[&str], wanted: &Expect| {
        says(
            &world,
            &[&["export", "greet", "--as"], words].concat(),
            wanted,
        );
    };
    export(
        &["findings", "--round", "1"],
        &expect![[r#"
            # Story greet Code Review Findings - Round 1

            **Reviewer:** scripted (reviewer)
            **Date:** DATE
            **Branch:** countersign/greet

            ## Critical Issues (Must Fix)

            None.

            ## Important Issues (Should Fix)

            1. **[Correctness]:** An empty name is accepted (F1)
               - **File:** greet.sh:2
               - **Problem:** The ticket asks for an error.
               - **Fix:** Refuse it with exit code 2.

            ## Minor Issues (Nice to Have)

            None.

            ## Summary

            - **Total findings:** 1
            - **Critical:** 0
            - **Important:** 1
            - **Minor:** 0
            - **Recommendation:** Fix the 1 must-fix finding.

            ## Findings by round

            | round | new | fixed | still open | not repeated | reopened | refuted | disputed | waived |
            |---|---|---|---|---|---|---|---|---|
            | 1 | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0 |
        "#]],
    );
    export(
        &["report", "--round", "1"],
        &expect![[r#"
            {
              "ticket_id": "greet",
              "reviewed_at": "DATE",
              "reviewer": "scripted (reviewer)",
              "status": "fail",
              "overall_score": null,
              "revision_count": 0,
              "dimension_scores": {},
              "findings": [
                {
                  "dimension": "code_quality",
                  "severity": "error",
                  "file": "greet.sh",
                  "line": 2,
                  "message": "An empty name is accepted\n\nThe ticket asks for an error.",
                  "suggestion": "Refuse it with exit code 2."
                }
              ],
              "blocking_issues": [],
              "revision_notes": null,
              "approved": false,
              "pass_criteria_met": {
                "all_critical_dimensions_pass": null,
                "no_blocking_issues": true,
                "overall_score_above_threshold": null
              }
            }
        "#]],
    );
    export(
        &["task"],
        &expect![[r#"
        {
          "id": "greet",
          "type": "implementation",
          "status": "completed",
          "priority": 50,
          "created_by": "countersign",
          "assigned_to": "engineer",
          "created_at": "DATE",
          "title": "Greet by name",
          "description": "`sh greet.sh NAME` prints `Hello, NAME`.",
          "depends_on": [],
          "blocks": [],
          "acceptance_criteria": [
            "An empty name is an error."
          ],
          "deliverables": [
            "greet.sh"
          ],
          "notes": [],
          "context": {
            "repository": "ROOT/repository/.git",
            "base_branch": "main",
            "branch_name": "countersign/greet"
          },
          "retry_count": 1,
          "plan": null
        }
    "#]],
    );
    export(
        &["epic-state"],
        &expect![[r#"
            {
              "tickets": {
                "greet": {
                  "status": "completed",
                  "depends_on": [],
                  "revision_count": 1,
                  "review_started_at": "DATE",
                  "review_completed_at": "DATE",
                  "review_approved": true,
                  "review_history": [
                    {
                      "attempt": 0,
                      "reviewed_at": "DATE",
                      "status": "fail",
                      "overall_score": null,
                      "blocking_issues_count": 0,
                      "revision_notes": null
                    },
                    {
                      "attempt": 1,
                      "reviewed_at": "DATE",
                      "status": "pass",
                      "overall_score": null,
                      "blocking_issues_count": 0,
                      "revision_notes": null
                    }
                  ],
                  "current_review_report": {
                    "ticket_id": "greet",
                    "reviewed_at": "DATE",
                    "reviewer": "scripted (reviewer)",
                    "status": "pass",
                    "overall_score": null,
                    "revision_count": 1,
                    "dimension_scores": {},
                    "findings": [],
                    "blocking_issues": [],
                    "revision_notes": null,
                    "approved": true,
                    "pass_criteria_met": {
                      "all_critical_dimensions_pass": null,
                      "no_blocking_issues": true,
                      "overall_score_above_threshold": null
                    }
                  },
                  "git_info": {
                    "branch_name": "countersign/greet",
                    "base_commit": "COMMIT",
                    "final_commit": "COMMIT"
                  },
                  "failure_reason": null
                }
              }
            }
        "#]],
    );
}

#[test]
fn a_ticket_that_waits_for_a_person_says_why_and_what_can_be_done() {
    let world = World::new();
    let (ticket, agent) = (world.put("greet.md", TICKET), world.crew(&quarrel()));
    let run = ["run", &ticket, "--builder", &agent, "--reviewer", &agent];
    world.call(&run).ends_with(4);
    says(
        &world,
        &["status"],
        &expect![[r#"
            1 ticket: 1 escalated
            $0.30 spent: $0.30 a ticket, $0.10 a round, nothing landed yet

            waiting for a person
              greet  Greet by name
                after 3 rounds, the change is not approved
                countersign escalation show greet
        "#]],
    );
    says(
        &world,
        &["escalation", "list"],
        &expect![[r#"
        greet  Greet by name  after 3 rounds, the change is not approved
            countersign escalation show greet
    "#]],
    );
    says(
        &world,
        &["escalation", "show", "greet"],
        &expect![[r#"
            greet: Greet by name
              after 3 rounds, the change is not approved
              | after 3 review rounds, issues remain

            rounds
              round 1  SHORT  changes requested  scripted (reviewer) asked for changes: F1 (high) An empty name is accepted, greet.sh:2
              round 2  SHORT  changes requested  scripted (reviewer) asked for changes: F1 (high) An empty name is accepted, greet.sh:2
              round 3  SHORT  changes requested  scripted (reviewer) asked for changes: F1 (high) An empty name is accepted, greet.sh:2

            findings
              F1  high  open  greet.sh:2  An empty name is accepted

            findings by round
              round  new  fixed  still open
              1      1    0      0
              2      0    0      1
              3      0    0      1
              Round 1: changes requested
              - F1 (high) greet.sh:2: An empty name is accepted
              Round 2: changes requested
              - F1 (high) greet.sh:2: An empty name is accepted
            open: 0 critical, 1 important, 0 minor
            findings document: ROOT/data/tickets/greet/round-3-findings.md

            decide
              countersign escalation resolve greet accept --why "…"
              countersign escalation resolve greet continue
              countersign escalation resolve greet take-over
              countersign escalation resolve greet reset
              countersign escalation resolve greet reassign --reviewer "…"
              countersign escalation resolve greet reject --why "…"
        "#]],
    );
    says(
        &world,
        &["escalation", "resolve", "greet", "continue"],
        &expect![[r#"
            greet is rework (continue, by ada)
            next: countersign run greet
        "#]],
    );
    says(
        &world,
        &["ticket", "cancel", "greet", "--why", "enough"],
        &expect![[r#"
            greet is cancelled
        "#]],
    );
}

#[test]
fn added_tickets_are_put_in_order() {
    let world = World::new();
    let second = world.put("b.md", "---\nid: B\ndepends_on: [A]\n---\n# Second\n");
    let first = world.put("a.md", "---\nid: A\n---\n# First\n");
    says(
        &world,
        &["ticket", "add", &second, &first, "A third thing to do"],
        &expect![[r#"
            added A (queued): First
            added a-third-thing-to-do-9f1b (queued): A third thing to do
            added B (pending): Second

            next: countersign run A
        "#]],
    );
    says(
        &world,
        &["ticket", "list"],
        &expect![[r#"
        B                         pending  round 1  $0.00  Second
        a-third-thing-to-do-9f1b  queued   round 1  $0.00  A third thing to do
        A                         queued   round 1  $0.00  First
    "#]],
    );
    says(
        &world,
        &["ticket", "show", "B"],
        &expect![[r#"
            B: Second
              pending, waits for A
              spent $0.00, 0 tokens, 0 s

            estimate: round 1 unknown (nothing is on record); left: 3 of 3 rounds
        "#]],
    );
}
