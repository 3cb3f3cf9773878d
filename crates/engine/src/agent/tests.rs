//! Tests with a shell script as the agent: its inputs, and the reading of its answer.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;

mod acp;
mod documents;
mod invocations;
mod recorded;

/// Returns a known CLI as if it were installed.
fn native(cli: &'static AgentCli) -> CliAgent {
    CliAgent {
        name: cli.name.to_owned(),
        cli,
        program: format!("/usr/bin/{}", cli.program).into(),
        before: Vec::new(),
        extra: vec!["--extra".into()],
        env: vec![("SOME_KEY".into(), "value".into())],
        credentials: Vec::new(),
        reads: Vec::new(),
        hosts: None,
        has_budget_flag: true,
    }
}

struct AgentDir {
    dir: TempDir,
    host: ProcessHost,
}

impl AgentDir {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let host = ProcessHost {
            data_dir: dir.path().join("data"),
            launcher: None,
            adopts_orphans: false,
        };
        fs::create_dir(dir.path().join("work")).unwrap();
        Self { dir, host }
    }

    fn assignment(&self) -> AgentAssignment {
        let at = |name: &str| self.dir.path().join(name);
        AgentAssignment {
            run_id: RunId::new("agent").unwrap(),
            role: AgentRole::Build,
            ticket: "T-7".to_owned(),
            round: 2,
            slot: 1,
            brief: "Do the thing.\n".to_owned(),
            dir: at("work"),
            home: at("home"),
            scratch: at("scratch"),
            change: None,
            copy: None,
            result_file: at("scratch/result.json"),
            transcript: at("transcript"),
            env: vec![
                ("PATH".into(), "/usr/bin:/bin".into()),
                ("KEY".into(), "k".into()),
            ],
            facts: RepositoryFacts {
                commit: Some("c0".into()),
                base: Some("main".into()),
                branch: None,
                ..RepositoryFacts::default()
            },
            limits: ProcessLimits::default(),
            model: Some("some-model".to_owned()),
            session: None,
            disk_quota: None,
            usd_micros_max: None,
            mcp_endpoint: None,
            sandbox: None,
        }
    }

    async fn run(&self, script: &str) -> AgentReport {
        let agent = CommandAgent {
            program: "sh".into(),
            args: vec!["-c".into(), script.into()],
        };
        run_agent(
            &self.host,
            &agent,
            &self.assignment(),
            |_| {},
            StopSignal::never(),
        )
        .await
        .unwrap()
    }
}

fn text(report: &AgentReport) -> (&str, ResultSource) {
    let (text, source) = report.result.as_ref().unwrap();
    (text.as_str(), *source)
}

#[tokio::test]
async fn an_agent_gets_the_contract_and_the_brief_both_ways() {
    let desk = AgentDir::new();
    let report = desk
        .run("cat; cat $COUNTERSIGN_BRIEF_FILE; env | grep -v PWD | sort; pwd")
        .await;
    let (said, source) = text(&report);
    assert_eq!(source, ResultSource::Text);
    assert!(said.starts_with("Do the thing.\nDo the thing.\n"));
    let root = desk.dir.path().display();
    for line in [
        "COUNTERSIGN_CONTRACT=2".to_owned(),
        "COUNTERSIGN_ROLE=build".to_owned(),
        "COUNTERSIGN_TICKET=T-7".to_owned(),
        "COUNTERSIGN_ROUND=2".to_owned(),
        "COUNTERSIGN_SLOT=1".to_owned(),
        "COUNTERSIGN_COMMIT=c0".to_owned(),
        "COUNTERSIGN_BASE=main".to_owned(),
        "COUNTERSIGN_MODEL=some-model".to_owned(),
        "KEY=k".to_owned(),
        format!("HOME={root}/home"),
        format!("TMPDIR={root}/scratch/tmp"),
        format!("COUNTERSIGN_RESULT_FILE={root}/scratch/result.json"),
        format!("{root}/work"),
    ] {
        assert!(
            said.lines().any(|known| known == line),
            "{line} is not in\n{said}"
        );
    }
    assert!(!said.contains("COUNTERSIGN_BRANCH"));
}

#[tokio::test]
async fn the_result_file_wins_over_json_and_json_over_text() {
    let desk = AgentDir::new();
    let report = desk
        .run("echo '{\"a\":1}'; echo '{\"f\":1}' > $COUNTERSIGN_RESULT_FILE")
        .await;
    assert_eq!(text(&report), ("{\"f\":1}\n", ResultSource::File));
    let report = desk.run("echo thinking; echo '{\"a\":1}'; echo bye").await;
    assert_eq!(text(&report), ("{\"a\":1}", ResultSource::Json));
    let report = desk.run("echo LGTM").await;
    assert_eq!(text(&report), ("LGTM", ResultSource::Text));
    let report = desk.run("echo only complaints >&2; exit 4").await;
    assert_eq!((report.result, report.exit), (None, ProcessExit::Code(4)));
    assert_eq!(report.complaint, "only complaints");
}

#[tokio::test]
async fn a_result_of_an_earlier_attempt_is_not_taken_for_this_one() {
    let desk = AgentDir::new();
    desk.run("echo old > $COUNTERSIGN_RESULT_FILE").await;
    assert_eq!(desk.run("true").await.result, None);
}

#[tokio::test]
async fn a_result_file_that_is_a_link_is_not_followed() {
    let desk = AgentDir::new();
    fs::write(desk.dir.path().join("secret"), "host secret").unwrap();
    let script = format!(
        "ln -s {}/secret $COUNTERSIGN_RESULT_FILE",
        desk.dir.path().display()
    );
    assert_eq!(desk.run(&script).await.result, None);
}

#[tokio::test]
async fn events_usage_session_and_model_are_kept() {
    let desk = AgentDir::new();
    let script = r#"
        echo '{"event":"start","session":"s-1","model":"m-1"}'
        echo '{"event":"say","text":"working"}'
        echo '{"event":"usage","usd":0.25,"tokens_in":100,"tokens_out":5}'
        echo '{"event":"usage","usd":0.25,"tokens_in":100}'
        echo '{"summary":"done","usage":{"usd":9,"tokens_out":7,"model":"m-2"}}'"#;
    let report = desk.run(script).await;
    assert_eq!(report.session.unwrap().id, "s-1");
    assert_eq!(report.model.as_deref(), Some("m-2"));
    let usage = AgentUsage {
        usd_micros: Some(500_000),
        tokens_in: Some(200),
        tokens_out: Some(5),
        tokens_cached: None,
    };
    assert_eq!(
        report.usage, usage,
        "what was told as it went counts, the result fills in"
    );
    assert_eq!(report.events.len(), 4);
    assert_eq!(
        answer::parse_builder_answer(&report.result.unwrap().0).summary,
        "done"
    );
}

#[tokio::test]
async fn an_agent_that_is_not_installed_says_so() {
    let desk = AgentDir::new();
    let agent = CommandAgent {
        program: "no-such-agent".into(),
        args: Vec::new(),
    };
    let failed = run_agent(
        &desk.host,
        &agent,
        &desk.assignment(),
        |_| {},
        StopSignal::never(),
    )
    .await;
    let error = failed.unwrap_err();
    assert!(matches!(error, Error::NotInstalled { .. }));
    assert!(
        error
            .to_string()
            .contains("install it or give its full path"),
        "{error}"
    );
}

#[tokio::test]
async fn an_agent_that_hangs_is_a_report_with_what_it_said_so_far() {
    let desk = AgentDir::new();
    let agent = CommandAgent {
        program: "sh".into(),
        args: vec!["-c".into(), "echo half; sleep 600".into()],
    };
    let (stopper, stop) = StopSignal::pair();
    let mut assignment = desk.assignment();
    assignment.limits.idle = Duration::from_millis(300);
    let report = run_agent(&desk.host, &agent, &assignment, |_| {}, stop)
        .await
        .unwrap();
    drop(stopper);
    assert_eq!(report.exit, ProcessExit::IdleLimit);
    assert!(report.result.is_none_or(|(text, _)| text == "half"));
}
