//! Compares the command line of each CLI for each role, with and without a sandbox, with recorded
//! ones.
//! `UPDATE_EXPECT=1 cargo test -p countersign-engine invocations` records them again.

use std::fmt::Write as _;

use expect_test::expect_file;

use super::*;
use crate::agent::registry;
use crate::sandbox::{SandboxLevel, SandboxLimits, SandboxNetwork};

fn confinement() -> SandboxSpec {
    SandboxSpec {
        level: SandboxLevel::Native,
        read: Vec::new(),
        write: Vec::new(),
        shut: Vec::new(),
        masked: Vec::new(),
        credentials: Vec::new(),
        layered: Vec::new(),
        links: Vec::new(),
        refused: Vec::new(),
        hidden: Vec::new(),
        network: SandboxNetwork::On,
        unix_sockets: false,
        metadata: false,
        bounds: SandboxLimits::default(),
        proof: "/data/proof.json".into(),
    }
}

fn assignment(role: AgentRole, confined: bool, format: &str) -> AgentAssignment {
    let session = ResumableSession {
        agent: format.to_owned(),
        id: "the-session".to_owned(),
        spent: AgentUsage::default(),
    };
    AgentAssignment {
        disk_quota: None,
        usd_micros_max: None,
        run_id: RunId::new("run").unwrap(),
        role,
        ticket: "T-1".to_owned(),
        round: 1,
        slot: 1,
        brief: "BRIEF".to_owned(),
        dir: "/srv/repos".into(),
        home: "/data/home".into(),
        scratch: "/data/scratch".into(),
        change: (role != AgentRole::Build).then(|| "/srv/repos/change".into()),
        copy: None,
        result_file: "/data/answer/result.json".into(),
        transcript: "/data/transcript.log".into(),
        env: Vec::new(),
        facts: RepositoryFacts::default(),
        limits: ProcessLimits::default(),
        model: Some("some-model".to_owned()),
        session: (role == AgentRole::Build).then_some(session),
        mcp_endpoint: None,
        sandbox: confined.then(confinement),
    }
}

fn show(cli: &'static AgentCli) -> String {
    let mut out = String::new();
    for role in [AgentRole::Build, AgentRole::Review] {
        for confined in [true, false] {
            let held = if confined { "confined" } else { "unconfined" };
            let start = native(cli).invocation(&assignment(role, confined, cli.name));
            let args: Vec<String> = start.args.iter().map(|arg| format!("{arg:?}")).collect();
            writeln!(out, "{} {held}\n  {}", role.as_str(), args.join(" ")).unwrap();
            for (name, value) in &start.env {
                writeln!(out, "  {}={}", name.display(), value.display()).unwrap();
            }
            for (path, text) in &start.files {
                writeln!(out, "  {}: {text}", path.display()).unwrap();
            }
            let stdin = if start.stdin.is_empty() {
                "nothing"
            } else {
                "the brief"
            };
            writeln!(out, "  stdin: {stdin}\n").unwrap();
        }
    }
    out
}

#[test]
fn every_cli_is_started_as_before() {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/invocations");
    for cli in registry::ALL {
        expect_file![dir.join(format!("{}.txt", cli.name))].assert_eq(&show(cli));
    }
}

/// Returns the additions for our MCP server: arguments, variables, and new or changed files.
fn added(cli: &'static AgentCli, role: AgentRole, confined: bool) -> String {
    let mut given = assignment(role, confined, cli.name);
    let before = native(cli).invocation(&given);
    given.mcp_endpoint = Some(McpEndpoint::for_server("http://127.0.0.1:7420"));
    given.env = vec![(mcp::TOKEN.into(), SECRET.into())];
    let after = native(cli).invocation(&given);
    let mut old = before.args.iter().peekable();
    let new = |arg: &&OsString| old.next_if_eq(arg).is_none();
    let args: Vec<String> = after
        .args
        .iter()
        .filter(new)
        .map(|arg| format!("{arg:?}"))
        .collect();
    assert_eq!(old.next(), None, "{}: an argument is gone", cli.name);
    assert!(before.env.iter().all(|pair| after.env.contains(pair)));
    assert_eq!((before.program, before.stdin), (after.program, after.stdin));
    let held = if confined { "confined" } else { "unconfined" };
    let mut out = format!("{} {} {held}\n", cli.name, role.as_str());
    if !args.is_empty() {
        writeln!(out, "  {}", args.join(" ")).unwrap();
    }
    for (name, value) in after.env.iter().filter(|pair| !before.env.contains(pair)) {
        writeln!(out, "  {}={}", name.display(), value.display()).unwrap();
    }
    for (path, text) in after
        .files
        .iter()
        .filter(|file| !before.files.contains(file))
    {
        writeln!(out, "  {}: {text}", path.display()).unwrap();
    }
    out
}

const SECRET: &str = "the-token-itself";

#[test]
fn tools_are_one_server_more_and_nothing_else_changes() {
    let mut out = String::new();
    for cli in registry::ALL {
        for role in [AgentRole::Build, AgentRole::Review] {
            for confined in [true, false] {
                out.push_str(&added(cli, role, confined));
            }
        }
    }
    assert!(!out.contains(SECRET), "only its variable is named");
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/invocations");
    expect_file![dir.join("tools.txt")].assert_eq(&out);
}

#[test]
fn a_brief_is_never_an_argument() {
    for cli in registry::ALL {
        for role in [AgentRole::Build, AgentRole::Review, AgentRole::Verify] {
            let start = native(cli).invocation(&assignment(role, true, cli.name));
            let leaks = |arg: &OsString| arg.to_string_lossy().contains("BRIEF");
            let named = |arg: &&OsString| !arg.to_string_lossy().contains("COUNTERSIGN_BRIEF_FILE");
            assert!(!start.args.iter().filter(named).any(leaks), "{}", cli.name);
        }
    }
}

#[test]
fn only_inside_our_sandbox_is_a_cli_s_own_off() {
    let codex = native(registry::find_cli("codex").unwrap());
    for (role, confined, mode) in [
        (AgentRole::Build, true, "danger-full-access"),
        (AgentRole::Build, false, "workspace-write"),
        (AgentRole::Review, true, "danger-full-access"),
        (AgentRole::Review, false, "read-only"),
        (AgentRole::Verify, false, "read-only"),
    ] {
        let start = codex.invocation(&assignment(role, confined, "codex"));
        assert!(start.args.contains(&mode.into()), "{role:?} {confined}");
    }
}
