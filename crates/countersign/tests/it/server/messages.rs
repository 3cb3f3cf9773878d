//! Messages to people, to all and to nobody, and reports as other systems write them.

use serde_json::{Value, json};

use super::{Clone, assignment};
use crate::support::World;
use crate::support::server::Server;

/// The person's words reach the agent that asked, before it works on.
#[test]
fn the_answer_to_a_request_for_help_reaches_the_agent() {
    let world = World::new();
    let server = Server::start(&world);
    let builder = server.token("bea", "builder", &[]);
    server.add("greet");
    assignment(&server, &builder, "build");
    let ask = json!({"why": "Which name is meant?"});
    server.tool(&builder, "request_help", &ask).unwrap();
    assert_eq!(server.stage("greet"), "escalated");
    world
        .call(&[
            "escalation",
            "resolve",
            "greet",
            "continue",
            "--why",
            "The first one.",
        ])
        .ends_with(0);
    let told = server
        .tool(&builder, "get_my_assignment", &json!({}))
        .unwrap();
    let message = &told["messages"][0];
    assert_eq!(message["type"], "answer");
    assert_eq!(message["content"], "The first one.");
    assert_eq!(message["ticket"], "greet");
    assert_eq!(told["assignment"]["ticket"], "greet");
}

#[test]
fn messages_reach_people_or_are_refused_by_name() {
    let world = World::new();
    let server = Server::start(&world);
    let builder = server.token("bea", "builder", &[]);
    let reviewer = server.token("rex", "reviewer", &[]);
    let boss = server.token("boss", "human", &[]);
    let other = server.token("eve", "human", &[]);
    let send = |to: &str, text: &str| {
        let message = json!({"to": to, "type": "question", "content": text});
        server.tool(&builder, "send_message", &message)
    };
    let why = send("nobody-at-all", "hello?").unwrap_err();
    assert!(
        why.contains("no agent or person is called \"nobody-at-all\""),
        "{why}"
    );
    assert!(why.contains("boss") && why.contains("supervisor"), "{why}");
    send("boss", "May I?").unwrap();
    send("supervisor", "Which one?").unwrap();
    send("all", "I begin.").unwrap();
    let inbox = |token: &str| {
        let page = server
            .rest_as(token, "GET", "/api/v1/messages", "")
            .is(200)
            .json();
        let items = page["items"].as_array().unwrap().clone();
        let texts = items
            .iter()
            .map(|it| it["content"].as_str().unwrap().to_owned());
        (texts.collect::<Vec<_>>(), items[0]["id"].clone())
    };
    let (texts, first) = inbox(&boss);
    assert_eq!(texts, ["May I?", "Which one?", "I begin."]);
    assert_eq!(inbox(&other).0, ["Which one?", "I begin."]);
    let read = format!("/api/v1/messages/{first}/read");
    server.rest_as(&boss, "POST", &read, "{}").is(200);
    assert_eq!(inbox(&boss).0, ["Which one?", "I begin."]);
    let heard = server
        .tool(&reviewer, "get_my_assignment", &json!({}))
        .unwrap();
    assert_eq!(heard["messages"][0]["content"], "I begin.");
    // A person's message is in the log, so that notifications carry it.
    world
        .call(&["log"])
        .ends_with(0)
        .says("bea to boss: May I?");
    world
        .call(&["inbox"])
        .ends_with(0)
        .says("Which one?")
        .says("question of bea");

    let task = json!({"agent_id": "nobody-at-all", "task_type": "fix", "title": "x"});
    let why = server
        .tool(&builder, "queue_task_for_agent", &task)
        .unwrap_err();
    assert!(why.contains("unknown agent \"nobody-at-all\""), "{why}");
    world
        .call(&["queue", "pause", "build", "--why", "lunch"])
        .ends_with(0)
        .says("queue build is paused");
    world
        .call(&["status"])
        .ends_with(0)
        .says("queue build  lunch");
    world.call(&["queue", "resume", "build"]).ends_with(0);
    world.call(&["queue", "resume", "build"]).ends_with(2);
    // A misspelt name holds back nothing, so it is remarked on; a known one is not.
    for (words, note) in [
        (&["build"][..], None),
        (&["bea"][..], None),
        (&["bea", "--agent"][..], None),
        (&["claude", "--provider"][..], None),
        (&["biuld"][..], Some("no agent or worker called \"biuld\"")),
        (&["bae", "--agent"][..], Some("no agent called \"bae\"")),
        (
            &["claud", "--provider"][..],
            Some("no agent CLI called \"claud\""),
        ),
    ] {
        let paused = world
            .call(&[&["queue", "pause"], words].concat())
            .ends_with(0);
        match note {
            Some(note) => assert!(paused.err.contains(note), "{}", paused.err),
            None => assert!(!paused.err.contains("note:"), "{}", paused.err),
        }
    }
    world.call(&["open"]).ends_with(0).says("http://127.0.0.1");
}

#[test]
fn a_review_report_is_taken_as_another_system_writes_it() {
    let world = World::new();
    let server = Server::start(&world);
    let builder = server.token("bea", "builder", &[]);
    let reviewer = server.token("rex", "reviewer", &[]);
    server.add("greet");
    let work = Clone::new(&world, "greet");
    assignment(&server, &builder, "build");
    work.commit("greet.sh", "echo \"Hello, $1\"\n");
    server
        .tool(&builder, "complete", &json!({"summary": "built"}))
        .unwrap();
    assignment(&server, &reviewer, "review");
    let score = |score: u8, weight: &str| json!({"score": score, "weight": weight});
    let mut report = json!({
        "ticket_id": "other", "reviewed_at": "2026-01-02T03:04:05Z", "reviewer": "code-review-agent",
        "status": "fail", "overall_score": 80, "revision_count": 0,
        "dimension_scores": {"requirement_adherence": score(95, "critical"),
            "coordination_compliance": score(100, "critical"), "code_quality": score(60, "important")},
        "findings": [{"dimension": "test_quality", "severity": "warning", "file": "greet.sh", "line": 1,
            "message": "No test for an empty name", "suggestion": "Add one"}],
        "blocking_issues": [{"dimension": "code_quality", "message": "Two arguments are ignored",
            "required_action": "Refuse them"}],
        "revision_notes": "Refuse a second argument", "approved": false,
        "pass_criteria_met": {"all_critical_dimensions_pass": true, "no_blocking_issues": false,
            "overall_score_above_threshold": true},
    });
    let why = server
        .tool(&reviewer, "submit_review_result", &report)
        .unwrap_err();
    assert!(why.contains("about other"), "{why}");
    report["ticket_id"] = json!("greet");
    let taken = server
        .tool(&reviewer, "submit_review_result", &report)
        .unwrap();
    assert_eq!(taken["status"], "rework", "{taken}");

    let export = |form: &str| -> Value {
        let ran = world.call(&["export", "--as", form, "greet"]).ends_with(0);
        serde_json::from_str(&ran.out).unwrap()
    };
    let written = export("report");
    assert_eq!(
        written["dimension_scores"]["code_quality"],
        score(60, "important")
    );
    let criteria = &written["pass_criteria_met"];
    assert_eq!(criteria["all_critical_dimensions_pass"], true, "{criteria}");
    assert_eq!(criteria["no_blocking_issues"], false, "{criteria}");
    assert_eq!(written["revision_notes"], "Refuse a second argument");
    let revision = export("revision");
    let text = revision["revision_instructions"].as_str().unwrap();
    for part in [
        "REVISION REQUIRED",
        "Two arguments are ignored",
        "Refuse a second argument",
        "- code_quality: 60 (important)",
        "No test for an empty name",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let state = &export("epic-state")["tickets"]["greet"];
    assert_eq!(
        (&state["status"], &state["revision_count"]),
        (&json!("needs_revision"), &json!(1))
    );
}
