//! The scripted agent through a real process, in a real repository.
#![expect(
    clippy::disallowed_methods,
    reason = "the repository's owner is not us"
)]

use std::fs;
use std::path::Path;
use std::process::Command;

use engine::agent::{
    self, AgentAssignment, AgentEvent, AgentReport, AgentRole, RepositoryFacts, ResultSource,
    ScriptedAgent,
};
use engine::process::{Launcher, ProcessExit, ProcessHost, ProcessLimits, RunId, StopSignal};
use tempfile::TempDir;

use super::support::launcher;

const SCRIPT: &str = r#"{
    "version": 1,
    "build": {"rounds": [
        [
            {"say": "starting"},
            {"write": {"path": "src/add.rs", "text": "fn add(a: i32, b: i32) -> i32 { a - b }\n"}},
            {"commit": {"message": "add"}},
            {"usage": {"usd": 0.01, "tokens_in": 1000, "tokens_out": 200, "model": "script"}},
            {"result": {"summary": "added"}}
        ],
        [
            {"replace": {"path": "src/add.rs", "find": "a - b", "with": "a + b"}},
            {"run": {"command": "test -f src/add.rs"}},
            {"run": {"command": "false", "may_fail": true}},
            {"commit": {"message": "fix"}},
            {"result": "done, in prose"}
        ]
    ]},
    "review": {"slots": [
        {"always": [{"result": {"verdict": "approve", "commit": "$COMMIT"}}]},
        {"always": [{"delete": {"path": "no-such-file"}}]}
    ]},
    "verify": {"rounds": [[{"wait_ms": 1}, {"exit": 7}]], "repeat_last": false}
}"#;

struct AgentDir {
    dir: TempDir,
}

impl AgentDir {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        fs::write(dir.path().join("script.json"), SCRIPT).unwrap();
        let desk = Self { dir };
        desk.git(&["init", "-q"]);
        desk.git(&[
            "-c",
            "user.name=p",
            "-c",
            "user.email=p@x",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "0",
        ]);
        desk
    }

    fn git(&self, args: &[&str]) -> String {
        let output = Command::new("git")
            .current_dir(self.dir.path().join("work"))
            .args(args)
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    }

    async fn play(&self, role: AgentRole, round: u32, slot: u32) -> AgentReport {
        let at = |name: &str| self.dir.path().join(name);
        let host = ProcessHost {
            data_dir: at("data"),
            launcher: Some(Launcher::tied_to_us(&launcher())),
            adopts_orphans: false,
        };
        let assignment = AgentAssignment {
            run_id: RunId::new("play").unwrap(),
            role,
            ticket: "T".to_owned(),
            round,
            slot,
            brief: "x".repeat(100_000),
            dir: at("work"),
            home: at("home"),
            scratch: at("scratch"),
            change: None,
            copy: None,
            result_file: at("scratch/result.json"),
            transcript: at("transcript"),
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            facts: RepositoryFacts::default(),
            limits: ProcessLimits::default(),
            model: None,
            session: None,
            disk_quota: None,
            usd_micros_max: None,
            mcp_endpoint: None,
            sandbox: None,
        };
        let scripted = ScriptedAgent::new(&launcher(), &at("script.json")).unwrap();
        agent::run_agent(&host, &scripted, &assignment, |_| {}, StopSignal::never())
            .await
            .unwrap()
    }
}

#[tokio::test]
async fn a_builder_errs_and_mends_over_two_rounds() {
    let desk = AgentDir::new();
    let first = desk.play(AgentRole::Build, 1, 1).await;
    assert_eq!(first.exit, ProcessExit::Code(0), "{}", first.complaint);
    assert_eq!(
        first.result,
        Some((r#"{"summary":"added"}"#.to_owned(), ResultSource::File))
    );
    assert_eq!(first.usage.usd_micros, Some(10_000));
    assert_eq!(first.model.as_deref(), Some("script"));
    assert!(matches!(first.events[0], AgentEvent::Spent { .. }));

    let second = desk.play(AgentRole::Build, 2, 1).await;
    assert_eq!(second.exit, ProcessExit::Code(0), "{}", second.complaint);
    assert_eq!(
        second.result,
        Some(("done, in prose".to_owned(), ResultSource::File))
    );
    assert_eq!(
        desk.git(&["log", "--format=%an %s"]),
        "Scripted agent fix\nScripted agent add\np 0\n"
    );
    let file = fs::read_to_string(desk.dir.path().join("work/src/add.rs")).unwrap();
    assert!(file.contains("a + b"));

    let third = desk.play(AgentRole::Build, 3, 1).await;
    assert_eq!(
        third.exit,
        ProcessExit::Code(0),
        "the last round again: {}",
        third.complaint
    );
    assert_eq!(desk.git(&["rev-list", "--count", "HEAD"]), "3\n");
}

#[tokio::test]
async fn slots_failures_and_exit_codes_are_as_written() {
    let desk = AgentDir::new();
    assert_eq!(
        desk.play(AgentRole::Review, 4, 1).await.exit,
        ProcessExit::Code(0)
    );
    let failed = desk.play(AgentRole::Review, 1, 2).await;
    assert_eq!(failed.exit, ProcessExit::Code(2));
    assert!(
        failed.complaint.contains("step 1 (delete) failed"),
        "{}",
        failed.complaint
    );
    assert_eq!(
        desk.play(AgentRole::Verify, 1, 1).await.exit,
        ProcessExit::Code(7)
    );
    let past = desk.play(AgentRole::Verify, 2, 1).await;
    assert!(
        past.complaint
            .contains("nothing for the role verify in round 2"),
        "{}",
        past.complaint
    );
}

#[test]
fn a_broken_script_is_found_before_anything_starts() {
    let error =
        ScriptedAgent::new(Path::new("/exe"), Path::new("/no/such/script.json")).unwrap_err();
    assert!(error.to_string().contains("cannot be read"), "{error}");
}
