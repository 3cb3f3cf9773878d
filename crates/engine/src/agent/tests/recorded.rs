//! Parses the output of real CLIs, recorded against a scripted model, and compares every event and
//! the result of the run with recorded ones.
//! `UPDATE_EXPECT=1 cargo test -p countersign-engine recorded` records them again.

use std::fmt::Write as _;
use std::path::PathBuf;

use expect_test::expect_file;

use super::super::output::AgentOutput;
use super::*;
use crate::agent::registry;

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/agents")
}

/// Reads `<name>.end`, which has the exit code, if the CLI ended by itself, and its stderr.
fn end_of(recording: &Path) -> (ProcessExit, String) {
    let text = fs::read_to_string(recording.with_extension("end")).unwrap();
    let (exit, complaint) = text.split_once('\n').unwrap();
    let exit = exit
        .parse()
        .map_or(ProcessExit::IdleLimit, ProcessExit::Code);
    (exit, complaint.trim().to_owned())
}

fn short(text: &str) -> String {
    findings::shorten(&findings::one_line(text), 160)
}

fn told(cli: &'static AgentCli, recording: &Path) -> String {
    let native = native(cli);
    let mut heard = AgentOutput::default();
    let mut out = String::new();
    for line in fs::read_to_string(recording).unwrap().lines() {
        let Some(events) = native.parse_line(line) else {
            let line = OutputLine {
                stream: OutputStream::Out,
                text: line.to_owned(),
                whole: true,
            };
            heard.push_text(&line);
            continue;
        };
        for event in events {
            writeln!(out, "{}", short(&format!("{event:?}"))).unwrap();
            heard.push_event(event);
        }
    }
    let (exit, complaint) = end_of(recording);
    let last = native.event_on_exit(exit, &complaint);
    if let Some(event) = last.filter(|event| heard.outweighs(event)) {
        heard.push_event(event);
    }
    writeln!(
        out,
        "----\nsession {:?}, model {:?}",
        heard.session.is_some(),
        heard.model
    )
    .unwrap();
    writeln!(
        out,
        "{:?}, turns {:?}, denials {}",
        heard.usage, heard.turns, heard.denials
    )
    .unwrap();
    writeln!(out, "trouble {}", short(&format!("{:?}", heard.trouble))).unwrap();
    let answer = heard
        .take_result(None)
        .0
        .map(|(text, source)| format!("{source:?} {}", short(&text)));
    writeln!(out, "answer {answer:?}").unwrap();
    out
}

#[test]
fn every_recording_is_understood_as_before() {
    let mut count = 0;
    for cli in registry::ALL {
        let Ok(entries) = fs::read_dir(fixtures().join(cli.name)) else {
            assert_eq!(cli.name, "cursor", "only that one could never be run");
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "jsonl") {
                expect_file![path.with_extension("events")].assert_eq(&told(cli, &path));
                count += 1;
            }
        }
    }
    assert!(count > 30, "{count}");
}

#[test]
fn a_conversation_with_a_real_agent_is_answered_as_before() {
    for (name, role) in [
        ("opencode-builder", AgentRole::Build),
        ("copilot-builder", AgentRole::Build),
        ("gemini-reviewer", AgentRole::Review),
    ] {
        let mut assignment = AgentDir::new().assignment();
        assignment.role = role;
        let agent = AcpAgent(CommandAgent::parse("some-agent").unwrap());
        let mut talk = agent.dialogue(&assignment).unwrap();
        talk.first_input();
        let path = fixtures().join("acp").join(format!("{name}.jsonl"));
        let mut out = String::new();
        for line in fs::read_to_string(&path).unwrap().lines() {
            let reply = talk.on_line(line);
            for event in reply.events.unwrap() {
                writeln!(out, "{}", short(&format!("{event:?}"))).unwrap();
            }
            let said = String::from_utf8(reply.reaction.say).unwrap();
            if said.contains("outcome") {
                writeln!(out, "  we say {}", said.trim_end()).unwrap();
            }
            if reply.reaction.over {
                writeln!(out, "over").unwrap();
            }
        }
        expect_file![path.with_extension("events")].assert_eq(&out);
    }
}

#[test]
fn cursor_is_read_as_its_documentation_has_it() {
    let cli = registry::find_cli("cursor").unwrap();
    let lines = [
        r#"{"type":"system","subtype":"init","session_id":"c-1","model":"m"}"#,
        r#"{"type":"tool_call","subtype":"started","tool_call":{"readToolCall":{"args":{"path":"a.rs"}}}}"#,
        r#"{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"c-1"}"#,
    ];
    let events: Vec<AgentEvent> = lines
        .iter()
        .flat_map(|line| (cli.events)(line).unwrap())
        .collect();
    assert!(events.contains(&AgentEvent::ToolUsed {
        tool: "read".to_owned(),
        detail: "a.rs".to_owned()
    }));
    assert!(events.contains(&AgentEvent::Answered {
        text: "done".to_owned()
    }));
}
