//! The table of rules. Adding one means adding a row: what holds, what to do instead, how it is
//! seen, a breach that must be found and something alike that must pass.

use super::rules::{
    Check, FILE_LINES_MAX, Rule, code, comments, dropped_results, long_files, mod_files,
    names_of_files, quoted, sql_files_outside_store, test_hooks,
};
use super::tree::Scope;
use super::{manifests, paths, prose};

const CRATES: &[&str] = &["crates/", "benches/", "examples/"];
/// They translate; what can be done is in `app`.
const SURFACES: &[&str] = &["crates/countersign/src", "crates/server/src"];
const EVERYWHERE: &[&str] = &[
    "crates/",
    "benches/",
    "examples/",
    "scripts/",
    ".ci/",
    "check",
];

/// A stage compared, or matched on, as a value or by its name.
const STAGE_COMPARED: &str = r"(?x)
    \bstage(?:\(\))?(?:\s*\.\s*as_str\(\))?\s*[=!]=
  | [=!]=\s*[&*]*(?:\w+(?:\(\))?\s*\.\s*)*stage\b
  | (?:\bmatch\b|\bmatches!\s*\()[^;{}]*\bstage(?:\(\))?\s*\.\s*as_str\(\)";

pub const RULES: &[Rule] = &[
    Rule {
        fact: "only `flow` matches on a stage together with an event",
        instead: "report the event and let flow::advance decide",
        checks: &[code(
            Scope::Production,
            CRATES,
            &["crates/flow/"],
            r"(?x)
                \bmatch\b [^{;]* \bstage\b [^{;]* \b(?:what|event)\b [^{;]* \{
              | \bmatch\b [^{;]* \b(?:what|event)\b [^{;]* \bstage\b [^{;]* \{
              | \( [^();]* \bStage::\w+ [^;=]* \bEventKind::\w+ [^;=]* =>
              | \( [^();]* \bEventKind::\w+ [^;=]* \bStage::\w+ [^;=]* =>",
        )],
        planted: &[
            (
                "crates/engine/src/perform/planted.rs",
                "fn f() { match (ticket.stage, &event.what) { _ => {} } }",
            ),
            (
                "crates/countersign/src/cli/planted.rs",
                "fn f() { match pair { (Stage::Reviewing, EventKind::Reviewed { .. }) => 1, _ => 2 } }",
            ),
            (
                "crates/app/src/operations/planted.rs",
                "fn f() { match pair { (EventKind::Landed { .. }, Stage::Merging) => 1, _ => 2 } }",
            ),
        ],
        fine: &[
            (
                "crates/countersign/src/cli/planted.rs",
                "fn colour(stage: Stage) -> Colour { match stage { Stage::Done => GREEN, _ => GREY } }",
            ),
            (
                "crates/flow/src/planted.rs",
                "fn f() { match (ticket.stage, &event.what) { (Stage::Done, EventKind::Started { .. }) => {} } }",
            ),
        ],
    },
    Rule {
        fact: "`store` and `engine` branch on no stage",
        instead: "ask a method of flow::Stage, or let the job say what is to be done",
        checks: &[
            code(
                Scope::Production,
                &["crates/store/", "crates/engine/"],
                &[],
                r"(?x) \bStage::\w+\s*(?:=>|\||\bif\b|[=!]=) | \bmatches!\([^;]*\bStage::
                     | \blet\s+\(?\s*(?:\w+::)*Stage:: | [=!]=\s*(?:\w+::)*Stage:: | \bStage\s+as\b",
            ),
            code(
                Scope::Production,
                &["crates/store/", "crates/engine/"],
                &[],
                STAGE_COMPARED,
            ),
            code(Scope::Production, &["crates/engine/"], &[], r"\bStage\b"),
        ],
        planted: &[
            (
                "crates/engine/src/planted.rs",
                "fn f() { match ticket.stage { Stage::Merging => land(), other => wait(other) } }",
            ),
            (
                "crates/store/src/planted.rs",
                "fn f() -> bool { matches!(ticket.stage, Stage::Done | Stage::Failed) }",
            ),
            (
                "crates/engine/src/planted.rs",
                "fn f() { if ticket.stage == Stage::Merging { land() } }",
            ),
            (
                "crates/store/src/planted.rs",
                "fn f() { if flow::Stage::Merging != ticket.stage { land() } }",
            ),
            (
                "crates/engine/src/planted.rs",
                "use flow::Stage as S;\nfn f() { match ticket.stage { S::Merging => land(), _ => {} } }",
            ),
            (
                "crates/store/src/planted.rs",
                "use flow::{Stage as S, Ticket};",
            ),
            (
                "crates/engine/src/planted.rs",
                "fn f() { if ticket.stage.as_str() == \"merging\" { land() } }",
            ),
            (
                "crates/store/src/planted.rs",
                "fn f() { if \"merging\" != ticket.stage.as_str() { land() } }",
            ),
            (
                "crates/store/src/planted.rs",
                "fn f() { match row.stage.as_str() { \"merging\" => land(), _ => {} } }",
            ),
            (
                "crates/store/src/planted.rs",
                "fn f() -> bool { matches!(ticket.stage().as_str(), \"done\" | \"failed\") }",
            ),
            (
                "crates/store/src/planted.rs",
                "fn f() { if let flow::Stage::Merging = ticket.stage { land() } }",
            ),
            (
                "crates/store/src/planted.rs",
                "fn f() { match stage { Stage::Merging if late => land(), other => wait(other) } }",
            ),
        ],
        fine: &[(
            "crates/store/src/planted.rs",
            "fn f() -> Option<Stage> { Stage::parse(row.get(0)) }\n#[cfg(test)]\nmod tests {\n    fn g() { assert!(matches!(s, Stage::Done)); }\n}",
        )],
    },
    Rule {
        fact: "`countersign` and `server` know no rule about tickets",
        instead: "translate to a call of `app::operations`, or ask a method of flow::Ticket",
        checks: &[
            code(
                Scope::Production,
                SURFACES,
                &[],
                // `App` keeps the coordinator and the store private; this is for other ways to them.
                r"(?x) (?:^|[^.\w])advance\s*\( | \bstore:: | \.coordinator\b | \bLocalCoordinator\b
                     | \.store\s*\. | \bEventKind::
                     | [=!]=\s*(?:\w+::)*Stage:: | \bStage::\w+\s*[=!]= | \bStage\s+as\b
                     | \blet\s+\(?\s*(?:\w+::)*Stage:: | \bStage::\w+\s+if\b
                     | \bif\b[^{;]*\bStage::[^{;]*(?:&&|\|\|) | \bif\b[^{;]*(?:&&|\|\|)[^{;]*\bStage::",
            ),
            code(Scope::Production, SURFACES, &[], STAGE_COMPARED),
        ],
        planted: &[
            (
                "crates/server/src/web/planted.rs",
                "fn f() { flow::advance(&t, e, &p); }",
            ),
            ("crates/countersign/src/cli.rs", "use store::Store;"),
            (
                "crates/server/src/web/planted.rs",
                "async fn f() { app.coordinator.store.commit(change).await }",
            ),
            (
                "crates/server/src/web/planted.rs",
                "async fn f() { decider.report(&id, Report::new(by, EventKind::Cancelled { why })).await }",
            ),
            (
                "crates/countersign/src/cli/planted.rs",
                "fn f() { if ticket.stage == Stage::Approved && ticket.round > 3 { land() } }",
            ),
            (
                "crates/countersign/src/cli/planted.rs",
                "fn f() { if ticket.round > 3 && matches!(ticket.stage, Stage::Approved) { land() } }",
            ),
            (
                "crates/server/src/web/planted.rs",
                "async fn f() { LocalCoordinator::new(store).claim(request).await }",
            ),
            (
                "crates/server/src/mcp/planted.rs",
                "fn f() { if ticket.stage.as_str() == \"merging\" { land() } }",
            ),
            (
                "crates/server/src/dashboard/planted.rs",
                "fn f() { if let (Stage::Approved, Some(who)) = (ticket.stage, who) { land() } }",
            ),
            (
                "crates/countersign/src/cli/planted.rs",
                "fn f() { match stage { Stage::Approved if round > 3 => land(), _ => {} } }",
            ),
        ],
        fine: &[("crates/app/src/operations.rs", "use store::Store;")],
    },
    Rule {
        fact: "no page writes markup past the template engine",
        instead: "build it with maud, which escapes every text",
        checks: &[code(
            Scope::Production,
            &["crates/server/"],
            &[],
            r"\bPreEscaped\b|\bpush_html\b",
        )],
        planted: &[(
            "crates/server/src/dashboard/planted.rs",
            "fn f(text: &str) -> Markup { PreEscaped(text.to_owned()) }",
        )],
        fine: &[(
            "crates/server/src/dashboard/planted.rs",
            "fn f(text: &str) -> Markup { html! { (text) } }",
        )],
    },
    Rule {
        fact: "`git` knows no tickets",
        instead: "take paths and refs",
        checks: &[code(
            Scope::Production,
            &["crates/engine/src/git"],
            &[],
            r"\b(?:flow|store|findings)::|\bTicket(?:Id)?\b",
        )],
        planted: &[(
            "crates/engine/src/git/planted.rs",
            "fn branch(of: &flow::Ticket) {}",
        )],
        fine: &[(
            "crates/engine/src/git/planted.rs",
            "/// A Ticket's branch is the caller's matter.",
        )],
    },
    Rule {
        fact: "`agent` knows no stages",
        instead: "take a brief and a directory",
        checks: &[code(
            Scope::Production,
            &["crates/engine/src/agent"],
            &[],
            r"\bStage\b|\bstore::|\badvance\s*\(",
        )],
        planted: &[(
            "crates/engine/src/agent/planted.rs",
            "fn f(stage: flow::Stage) {}",
        )],
        fine: &[(
            "crates/engine/src/agent/planted.rs",
            "fn f(brief: &str, directory: &Path) {}",
        )],
    },
    Rule {
        fact: "only `store` has SQL",
        instead: "add a verb to store::Store",
        checks: &[
            quoted(
                Scope::Everything,
                CRATES,
                &["crates/store/"],
                r"(?x)
                    \bSELECT\s (?s:.)*? \sFROM\s | \bUPDATE\s+\w+\s+SET\b | \bPRAGMA\s+\w
                  | (?i: \bselect\s+[\w\s,.*()]+\s+from\s+\w+\s+(?:where|order\s+by|group\s+by|limit|join)\b
                       | \bselect\s+(?:\*|count\() | \binsert\s+(?:or\s+\w+\s+)?into\s+\w+\s*(?:\(|values|select)
                       | \bdelete\s+from\s+\w+\s*(?:where\b|;|\x22) | \bupdate\s+\w+\s+set\s+\w+\s*=
                       | \b(?:create|alter|drop)\s+(?:unique\s+)?(?:table|index|view|schema|database)\b
                       | \bbegin\s+(?:immediate|exclusive|transaction)\b )",
            ),
            code(
                Scope::Everything,
                CRATES,
                &["crates/store/"],
                r"\b(?:rusqlite|tokio_postgres|deadpool_postgres|sqlx)::",
            ),
            Check::Whole(sql_files_outside_store),
        ],
        planted: &[
            (
                "crates/engine/src/planted.rs",
                "const Q: &str = \"SELECT id\n  FROM jobs\n  WHERE ready\";",
            ),
            (
                "crates/server/src/web/planted.rs",
                "const Q: &str = \"delete from jobs where id = 1\";",
            ),
            (
                "crates/flow/src/planted.rs",
                "const Q: &str = r#\"insert into t (a) values (1)\"#;",
            ),
            (
                "crates/countersign/tests/it/planted.rs",
                "fn f() { rusqlite::Connection::open(p); }",
            ),
            ("crates/engine/migrations/0001.sql", "-- nothing yet\n"),
        ],
        fine: &[
            (
                "crates/countersign/src/cli/planted.rs",
                "const HELP: &str = \"select a ticket from the list\";",
            ),
            (
                "crates/engine/src/planted.rs",
                "// SELECT 1 FROM t\nconst A: &str = \"update the base\";",
            ),
        ],
    },
    Rule {
        fact: "only `engine::process` spawns",
        instead: "use engine::process: it limits time, silence and output, and reaps the group",
        checks: &[code(
            Scope::Production,
            CRATES,
            &["crates/engine/src/process"],
            r"(?x) \bprocess::(?:\{[^}]*\b)?Command\b | (?:^|[^:\w])Command::new\s*\(
                     | \bprocess::CommandExt\b | \b(?:fork|execve?|posix_spawn)\s*\(",
        )],
        planted: &[
            (
                "crates/engine/src/git/planted.rs",
                "use std::process::{Command, Stdio};",
            ),
            (
                "crates/engine/src/planted.rs",
                "fn f() { tokio::process::Command::new(\"git\"); }",
            ),
            (
                "crates/app/src/operations/planted.rs",
                "fn f() { Command::new(\"git\").output(); }",
            ),
        ],
        fine: &[
            (
                "crates/engine/src/process/planted.rs",
                "fn f() { tokio::process::Command::new(\"git\"); }",
            ),
            (
                "crates/countersign/src/cli/planted.rs",
                "fn f() { clap::Command::new(\"x\"); tokio::spawn(y); }",
            ),
            (
                "crates/countersign/tests/it/planted.rs",
                "fn f() { std::process::Command::new(BIN); }",
            ),
        ],
    },
    Rule {
        fact: "unsafe code is in one file, which says why",
        instead: "rustix and nix have safe calls for nearly everything",
        checks: &[code(
            Scope::Production,
            CRATES,
            &["crates/engine/src/process/fork.rs"],
            r"\bunsafe\b|\bunsafe_code\b",
        )],
        planted: &[(
            "crates/engine/src/sandbox/planted.rs",
            "#[expect(unsafe_code, reason = \"quick\")] fn f() { unsafe { g() } }",
        )],
        fine: &[(
            "crates/engine/src/process/fork.rs",
            "#[expect(unsafe_code, reason = \"fork\")] fn f() { unsafe { g() } }",
        )],
    },
    Rule {
        fact: "only `settings` reads the environment and configuration files",
        instead: "take the value as a parameter; settings reads it once",
        checks: &[code(
            Scope::Production,
            CRATES,
            &["crates/app/src/settings"],
            r"(?x) \benv::(?:vars?|vars?_os|home_dir|set_var|remove_var)\b
                     | \benv::\{[^}]*\b(?:vars?|vars?_os)\b | \btoml::",
        )],
        planted: &[
            (
                "crates/engine/src/planted.rs",
                "fn f() { std::env::var(\"HOME\"); }",
            ),
            (
                "crates/store/src/planted.rs",
                "use std::env::{self, var_os};",
            ),
            (
                "crates/app/src/operations.rs",
                "fn f() { toml::from_str::<Policy>(text); }",
            ),
        ],
        fine: &[
            (
                "crates/app/src/settings/planted.rs",
                "fn f() { std::env::var(\"HOME\"); }",
            ),
            (
                "crates/engine/src/planted.rs",
                "const V: &str = env!(\"CARGO_PKG_VERSION\");",
            ),
        ],
    },
    Rule {
        fact: "only `cli` prints",
        instead: "return the text, or send an event; cli shows it",
        checks: &[code(
            Scope::Production,
            CRATES,
            &["crates/countersign/src/cli"],
            r"\be?print(?:ln)?!|\bdbg!|\bio::(?:\{[^}]*\b)?std(?:out|err)\b|\bstd(?:out|err)\(\)",
        )],
        planted: &[
            (
                "crates/engine/src/planted.rs",
                "fn f() { println!(\"hi\"); }",
            ),
            (
                "crates/countersign/src/main.rs",
                "fn main() { eprintln!(\"no\"); }",
            ),
            (
                "crates/store/src/planted.rs",
                "fn f() { std::io::stderr().write_all(b\"x\"); }",
            ),
        ],
        fine: &[
            (
                "crates/countersign/src/cli/planted.rs",
                "fn f() { println!(\"hi\"); }",
            ),
            (
                "crates/engine/src/planted.rs",
                "fn f() { command.stdout(pipe); let stdout = child.stdout.take(); }",
            ),
        ],
    },
    Rule {
        fact: "only `main` exits",
        instead: "return an exit code through main",
        checks: &[code(
            Scope::Everything,
            CRATES,
            &["crates/countersign/src/main.rs"],
            r"\bprocess::(?:exit|abort)\b|\bprocess::\{[^}]*\b(?:exit|abort)\b",
        )],
        planted: &[
            (
                "crates/countersign/src/cli/planted.rs",
                "fn f() { std::process::exit(3); }",
            ),
            (
                "crates/engine/src/planted.rs",
                "use std::process::{self, abort};",
            ),
        ],
        fine: &[(
            "crates/engine/src/planted.rs",
            "fn f() -> process::Exit { run().exit(3) }",
        )],
    },
    Rule {
        fact: "the clock and ids are passed in",
        instead: "take the time or the id as a parameter; engine::clock reads the time, and a deadline is a tokio::time::Instant, which a test can pause",
        checks: &[code(
            Scope::Production,
            CRATES,
            &["crates/engine/src/clock"],
            r"(?x) \b(?:SystemTime|Timestamp|Zoned|Utc|Local)::now\b | \bstd::time::(?:\{[^}]*\b)?Instant\b
                     | \bUuid::new_v | \bthread_rng\s*\( | \brand::(?:rng|random)\b | \bfastrand:: | \bgetrandom\b",
        )],
        planted: &[
            (
                "crates/flow/src/planted.rs",
                "fn f() { std::time::SystemTime::now(); }",
            ),
            (
                "crates/engine/src/planted.rs",
                "use std::time::{Duration, Instant};",
            ),
            (
                "crates/store/src/planted.rs",
                "fn f() { let id = Uuid::new_v4(); }",
            ),
        ],
        fine: &[
            (
                "crates/engine/src/clock.rs",
                "fn now() { std::time::SystemTime::now(); }",
            ),
            (
                "crates/engine/src/planted.rs",
                "use tokio::time::Instant;\nfn f() { let until = Instant::now() + wait; }",
            ),
        ],
    },
    Rule {
        fact: "nothing sleeps: no thread, and no test",
        instead: "wait for the thing itself, or pause the clock and advance it",
        checks: &[
            code(
                Scope::Everything,
                CRATES,
                &[],
                r"\bthread::(?:\{[^}]*\b)?sleep\b",
            ),
            code(Scope::Tests, CRATES, &[], r"\bsleep(?:_until)?\s*\("),
        ],
        planted: &[
            (
                "crates/engine/src/planted.rs",
                "fn f() { std::thread::sleep(a_while); }",
            ),
            (
                "crates/countersign/tests/it/planted.rs",
                "async fn f() { tokio::time::sleep(a_while).await; }",
            ),
            (
                "crates/store/src/planted.rs",
                "#[cfg(test)]\nmod tests {\n    async fn f() { sleep(a_while).await; }\n}",
            ),
        ],
        fine: &[
            (
                "crates/engine/src/planted.rs",
                "async fn f() { tokio::time::sleep(backoff).await; }",
            ),
            (
                "crates/engine/src/agent/tests.rs",
                "const SLOW: &str = \"sleep 60\";",
            ),
        ],
    },
    Rule {
        fact: "no lint is allowed away",
        instead: "#[expect(…, reason = \"…\")], which speaks up when it is no longer needed",
        checks: &[code(
            Scope::Everything,
            CRATES,
            &[],
            r"#!?\s*\[\s*allow\s*\(|\bcfg_attr\s*\([^\]]*\ballow\s*\(",
        )],
        planted: &[
            (
                "crates/flow/src/planted.rs",
                "#[allow(dead_code)]\nfn f() {}",
            ),
            (
                "crates/engine/src/planted.rs",
                "#![allow(clippy::pedantic)]",
            ),
            (
                "crates/countersign/tests/it/planted.rs",
                "#[cfg_attr(test, allow(unused))]\nfn f() {}",
            ),
        ],
        fine: &[(
            "crates/flow/src/planted.rs",
            "#[expect(dead_code, reason = \"x\")]\nfn allow() {}",
        )],
    },
    Rule {
        fact: "#[cfg(test)] stands on test modules only",
        instead: "make the production path testable by what is passed in",
        checks: &[Check::Whole(test_hooks)],
        planted: &[
            (
                "crates/engine/src/planted.rs",
                "#[cfg(test)]\npub fn crash_here() {}",
            ),
            (
                "crates/store/src/planted.rs",
                "fn f() { if cfg!(test) { return; } }",
            ),
            ("crates/flow/src/planted.rs", "#[cfg(not(test))]\nfn f() {}"),
        ],
        fine: &[(
            "crates/engine/src/planted.rs",
            "#[cfg(test)]\n#[expect(clippy::unwrap_used, reason = \"x\")]\nmod tests;\n#[cfg(unix)]\nfn f() {}",
        )],
    },
    Rule {
        fact: "nothing unfinished is left: no todo, no ignored test",
        instead: "finish it, or open an issue",
        checks: &[
            code(
                Scope::Everything,
                CRATES,
                &[],
                r"\b(?:todo|unimplemented)!|#\[ignore\b",
            ),
            comments(
                Scope::Everything,
                EVERYWHERE,
                &[],
                r"\b(?:TODO|FIXME|XXX|HACK)\b",
            ),
        ],
        planted: &[
            ("crates/flow/src/planted.rs", "fn f() { todo!() }"),
            ("crates/flow/src/planted.rs", "// TODO: later\nfn f() {}"),
            (
                "crates/engine/tests/planted.rs",
                "#[test]\n#[ignore = \"slow\"]\nfn f() {}",
            ),
            ("scripts/planted", "#!/bin/sh\n# FIXME\n"),
        ],
        fine: &[(
            "crates/findings/src/planted.rs",
            "const WORDS: [&str; 2] = [\"TODO\", \"FIXME\"];",
        )],
    },
    Rule {
        fact: "an error that is dropped has a reason",
        instead: ".log_err(\"…\") of engine::log, or a comment above that says why nobody needs it",
        checks: &[Check::Whole(dropped_results)],
        planted: &[
            (
                "crates/engine/src/planted.rs",
                "fn f() {\n    let _ = store.commit(change);\n}",
            ),
            (
                "crates/server/src/web/planted.rs",
                "fn f() {\n    let a = 1; // a reason for something else\n\n    let _ = perform(job)\n        .await;\n}",
            ),
        ],
        fine: &[(
            "crates/engine/src/planted.rs",
            "fn f() {\n    // It may be gone already.\n    let _ = remove(a);\n    let _ = remove(b);\n    let x = 1;\n    let _ = write!(text, \"{x}\");\n}",
        )],
    },
    Rule {
        fact: "a test that cannot run says so in one way",
        instead: "skip::lacks(\"…\"), which is counted and fails under CI=true",
        checks: &[quoted(
            Scope::Tests,
            CRATES,
            &[
                "crates/store/tests/it/skip.rs",
                "crates/findings/tests/corpus.rs",
                "crates/engine/examples/",
            ],
            r#"(?i)"(?:\\n)?skipped:"#,
        )],
        planted: &[(
            "crates/engine/tests/planted.rs",
            "fn f() { eprintln!(\"SKIPPED: no tmpfs\"); }",
        )],
        fine: &[(
            "crates/engine/tests/planted.rs",
            "fn f() { assert!(said.contains(\"a step was skipped: no input\")); }",
        )],
    },
    Rule {
        fact: "no `mod.rs`",
        instead: "foo.rs next to foo/",
        checks: &[Check::Whole(mod_files)],
        planted: &[
            ("crates/engine/src/git/mod.rs", ""),
            ("crates/countersign/tests/it/support/mod.rs", ""),
        ],
        fine: &[("crates/engine/src/git.rs", "mod merge;")],
    },
    Rule {
        fact: "no crate, module or type has a name that says nothing",
        instead: "a noun one can say aloud, for what it is",
        checks: &[
            Check::Whole(names_of_files),
            code(
                Scope::Everything,
                CRATES,
                &[],
                r"(?x) \b(?:struct|enum|trait|type)\s+\w*(?:Manager|Helpers?|Utils?|Processor|Handler|Service)\b
                         | \bmod\s+(?:core|common|utils?|types|helpers?|misc|managers?|processors?|handlers?|imp)\b",
            ),
        ],
        planted: &[
            ("crates/engine/src/utils.rs", ""),
            ("crates/server/src/web/helpers/time.rs", ""),
            ("crates/common/Cargo.toml", ""),
            ("crates/engine/src/planted.rs", "pub struct LeaseManager;"),
            ("crates/engine/src/planted.rs", "mod types {\n}"),
        ],
        fine: &[(
            "crates/engine/src/planted.rs",
            "impl rmcp::ServerHandler for Tools {}\nuse core::fmt;",
        )],
    },
    Rule {
        fact: "no file is over 600 lines without its tests",
        instead: "find the noun that wants out into a file of its own",
        checks: &[Check::Whole(long_files)],
        planted: &[("crates/engine/src/planted.rs", LONG)],
        fine: &[("crates/engine/src/planted/tests.rs", LONG)],
    },
    Rule {
        fact: "each crate depends on what its sentence allows",
        instead: "move the code to the crate that may have it",
        checks: &[
            Check::Whole(manifests::directions),
            Check::Whole(manifests::pure_features),
        ],
        planted: &[
            (
                "crates/findings/Cargo.toml",
                "[dependencies]\nflow.workspace = true\n",
            ),
            (
                "crates/flow/Cargo.toml",
                "[dependencies]\nstore.workspace = true\n",
            ),
            (
                "crates/flow/Cargo.toml",
                "[dependencies]\ntokio.workspace = true\n",
            ),
            (
                "crates/flow/Cargo.toml",
                "[dependencies]\nchrono.workspace = true\n",
            ),
            ("Cargo.toml", "[workspace.dependencies]\njiff = \"0.2\"\n"),
            (
                "Cargo.toml",
                "[workspace.dependencies]\njiff = { version = \"0.2\", default-features = false, features = [\"std\"] }\n",
            ),
            (
                "crates/findings/Cargo.toml",
                "[dependencies]\nrusqlite.workspace = true\n",
            ),
            (
                "crates/store/Cargo.toml",
                "[dependencies]\nengine.workspace = true\n",
            ),
            (
                "crates/engine/Cargo.toml",
                "[dependencies]\ncountersign.workspace = true\n",
            ),
            (
                "crates/engine/Cargo.toml",
                "[dependencies]\nclap.workspace = true\n",
            ),
            (
                "crates/engine/Cargo.toml",
                "[dependencies]\naxum.workspace = true\n",
            ),
            (
                "crates/app/Cargo.toml",
                "[dependencies]\nserver.workspace = true\n",
            ),
            (
                "crates/app/Cargo.toml",
                "[dependencies]\nclap.workspace = true\n",
            ),
            (
                "crates/server/Cargo.toml",
                "[dependencies]\ntoml.workspace = true\n",
            ),
            (
                "crates/countersign/Cargo.toml",
                "[dependencies]\nrmcp.workspace = true\n",
            ),
            (
                "crates/countersign/Cargo.toml",
                "[dependencies]\nrusqlite.workspace = true\n",
            ),
            (
                "crates/countersign/Cargo.toml",
                "[dependencies]\nstore.workspace = true\n",
            ),
            (
                "crates/engine/Cargo.toml",
                "[target.'cfg(unix)'.dependencies]\ntokio-postgres.workspace = true\n",
            ),
            ("crates/ninth/Cargo.toml", "[dependencies]\n"),
        ],
        fine: &[(
            "crates/store/Cargo.toml",
            "[dependencies]\nflow.workspace = true\nfindings.workspace = true\nrusqlite.workspace = true\n",
        )],
    },
    Rule {
        fact: "every dependency and lint is named once, in the workspace",
        instead: "name.workspace = true, and the version and features in the root manifest",
        checks: &[Check::Whole(manifests::named_once)],
        planted: &[
            (
                "crates/flow/Cargo.toml",
                "[lints]\nworkspace = true\n[dependencies]\nserde = \"1\"\n",
            ),
            (
                "crates/flow/Cargo.toml",
                "[lints]\nworkspace = true\n[dependencies]\nserde = { workspace = true, features = [\"rc\"] }\n",
            ),
            ("crates/flow/Cargo.toml", "[dependencies]\n"),
            (
                "Cargo.toml",
                "[workspace.dependencies]\nnobody-uses-it = \"1\"\n",
            ),
        ],
        fine: &[(
            "crates/flow/Cargo.toml",
            "[lints]\nworkspace = true\n[dependencies]\nserde.workspace = true\n",
        )],
    },
    Rule {
        fact: "every method that clippy refuses names its replacement",
        instead: "reason = \"use …\"",
        checks: &[Check::Whole(manifests::replacements)],
        planted: &[
            ("clippy.toml", "disallowed-methods = [\"std::env::var\"]\n"),
            (
                "clippy.toml",
                "disallowed-types = [{ path = \"std::sync::Mutex\" }]\n",
            ),
        ],
        fine: &[(
            "clippy.toml",
            "disallowed-methods = [{ path = \"a::b\", reason = \"use c::d, which is limited\" }]\n",
        )],
    },
    Rule {
        fact: "links between our documents are alive",
        instead: "point to what is there",
        checks: &[Check::Whole(prose::dead_links)],
        planted: &[
            ("docs/planted.md", "See [the map](nowhere.md).\n"),
            ("docs/planted.md", "# Here\n[there](#there)\n"),
            ("planted.md", "[a decision](docs/decisions/9999-none.md)\n"),
        ],
        fine: &[(
            "docs/planted.md",
            "# The `one` word\n[up](../Cargo.toml) [here](#the-one-word) [away](https://example.org/x)\n```\n[not](a-link.md)\n```\n",
        )],
    },
    Rule {
        fact: "the recipes and the code map name paths that exist, and every operation",
        instead: "point to where it is now",
        checks: &[Check::Whole(paths::recipes), Check::Whole(paths::code_map)],
        planted: &[
            (
                "CONTRIBUTING.md",
                "## Recipes\n1. `flow/src/policy.rs` and `policy/nowhere.rs`\n",
            ),
            (
                "CONTRIBUTING.md",
                "## Recipes\n1. `flow/src/policy.rs`, `no_such_function`\n",
            ),
            ("CONTRIBUTING.md", "## Recipes\n1. `docs/nowhere.md`\n"),
            (
                "ARCHITECTURE.md",
                "## Code map\n**`crates/flow/src`**\n- `verdict.rs`, `nowhere*`: gone.\n",
            ),
            (
                "ARCHITECTURE.md",
                "## Code map\n**`crates/app/src`**\n- `operations.rs`: and none of its modules.\n",
            ),
        ],
        fine: &[(
            "CONTRIBUTING.md",
            "## Recipes\n1. `flow/src/policy.rs` and `policy/limits.rs`, `Policy`, `cargo test -p x`, `forge/src/NAME.rs`\n## Other\n`no/path.rs`\n",
        )],
    },
];

/// A file that is one line too long.
const LONG: &str = {
    const LINES: [u8; (FILE_LINES_MAX + 1) * 3] = {
        let mut lines = [b'/'; (FILE_LINES_MAX + 1) * 3];
        let mut at = 2;
        while at < lines.len() {
            lines[at] = b'\n';
            at += 3;
        }
        lines
    };
    match str::from_utf8(&LINES) {
        Ok(text) => text,
        Err(_) => "",
    }
};
