use serde_json::json;

use super::*;

fn jsonl(issues: &[Value]) -> Vec<u8> {
    let lines: Vec<String> = issues.iter().map(Value::to_string).collect();
    lines.join("\n").into_bytes()
}

fn ids(read: &ImportedTickets) -> Vec<&str> {
    read.tickets().map(|(id, _)| id.as_str()).collect()
}

fn says(lines: &[String], part: &str) {
    assert!(
        lines.iter().any(|line| line.contains(part)),
        "{part}: {lines:#?}"
    );
}

fn spec<'a>(read: &'a ImportedTickets, wanted: &str) -> &'a Spec {
    let mut found = read.tickets().filter(|(id, _)| id.as_str() == wanted);
    &found.next().unwrap().1
}

#[test]
fn issues_of_beads_become_tickets_of_their_epics() {
    let read = read_tickets(
        "issues.jsonl",
        &jsonl(&[
            json!({"id": "bd-e", "title": "Greeting", "issue_type": "epic", "priority": 1}),
            json!({"id": "bd-1", "title": "Add greet", "description": "Write it.", "design": "One function.",
                "acceptance_criteria": "## Criteria\n- prints hello\n- [ ] refuses nothing\n2. has a test",
                "priority": 0, "issue_type": "feature", "assignee": "ada", "frobnicate": 1,
                "comments": [{"author": "Bob", "text": "Mind \u{1b}[31mthis"}],
                "dependencies": [{"depends_on_id": "bd-e", "type": "parent-child"},
                    {"depends_on_id": "bd-0", "type": "blocks"}]}),
            json!({"id": "bd-0", "title": "Old", "status": "closed"}),
            json!({"id": "bd-2", "title": "After the epic", "priority": 4,
                "dependencies": [{"depends_on_id": "bd-e", "type": "blocks"},
                    {"depends_on_id": "bd-1", "type": "related"}]}),
        ]),
    )
    .unwrap();
    assert_eq!((read.format, ids(&read)), ("beads", vec!["bd-1", "bd-2"]));
    let first = spec(&read, "bd-1");
    assert_eq!(first.priority, 90);
    assert_eq!(first.context.epic.as_deref(), Some("bd-e"));
    assert_eq!(
        first.acceptance,
        ["prints hello", "refuses nothing", "has a test"]
    );
    assert_eq!(
        first.description,
        "Write it.\n\n## Design\n\nOne function.\n\n## Comments\n\nBob: Mind \u{1b}[31mthis"
    );
    assert!(first.depends_on.is_empty(), "a closed issue is met");
    assert_eq!(first.context.extra["beads"]["assignee"], "ada");
    let second = spec(&read, "bd-2");
    assert_eq!(second.priority, 10);
    assert_eq!(second.depends_on.iter().next().unwrap().as_str(), "bd-1");
    says(&read.report.kept, "assignee (bd-1)");
    says(&read.report.kept, "related (bd-2)");
    says(&read.report.not_understood, "frobnicate (bd-1)");
    says(&read.report.left_out, "bd-0 is finished");
}

#[test]
fn issues_that_are_not_work_are_left_out_with_all_that_waits_for_them() {
    let read = read_tickets(
        "issues.jsonl",
        &jsonl(&[
            json!({"id": "a", "title": "Later", "status": "deferred"}),
            json!({"id": "b", "title": "After it", "dependencies": [{"depends_on_id": "a", "type": "blocks"}]}),
            json!({"id": "c", "title": "And after", "dependencies": [{"depends_on_id": "b"}]}),
            json!({"id": "d", "title": "Odd", "status": "staged", "priority": "soon"}),
            json!({"id": "e", "title": "Mail", "issue_type": "message"}),
            json!({"id": "f", "title": "Free", "priority": 7, "dependencies": [{"depends_on_id": "external:x"}]}),
            json!({"_type": "memory", "key": "k"}),
        ]),
    )
    .unwrap();
    assert_eq!(ids(&read), ["f"]);
    for part in [
        "a is deferred",
        "b depends on a",
        "c depends on b",
        "e is a message",
        "line 7",
    ] {
        says(&read.report.left_out, part);
    }
    says(&read.report.not_understood, "d has the status \"staged\"");
    says(&read.report.not_understood, "f has the priority 7");
    says(
        &read.report.changed,
        "f depends on external:x, which is not in the file",
    );
}

#[test]
fn cycles_double_ids_and_broken_lines_are_refused_by_name() {
    let need = |id: &str| json!([{"depends_on_id": id, "type": "blocks"}]);
    let cases = [
        (
            jsonl(&[
                json!({"id": "a", "title": "A", "dependencies": need("b")}),
                json!({"id": "b", "title": "B", "dependencies": need("a")}),
            ]),
            "wait for each other",
        ),
        (
            jsonl(&[json!({"id": "a", "title": "A", "dependencies": need("a")})]),
            "wait for each other",
        ),
        (
            jsonl(&[
                json!({"id": "a", "title": "A"}),
                json!({"id": "a", "title": "B"}),
            ]),
            "the id a occurs twice",
        ),
        (
            b"{\"id\": \"a\", \"title\": \"A\"}\n{\"id\"".to_vec(),
            "line 2",
        ),
        (b"[1]\n".to_vec(), "line 1 is not a JSON object"),
        (jsonl(&[json!({"id": "a/b", "title": "A"})]), "a/b"),
        (b"\n".to_vec(), "no issues"),
        (b"\xff".to_vec(), "UTF-8"),
    ];
    for (bytes, part) in cases {
        let refused = read_tickets("issues.jsonl", &bytes)
            .unwrap_err()
            .to_string();
        assert!(refused.contains(part), "{part}: {refused}");
    }
}

#[test]
fn tasks_of_task_master_have_tags_steps_and_dependencies() {
    let file = json!({
        "master": {"metadata": {"description": "The main list", "created": "2026"}, "tasks": [
            {"id": 1, "title": "Set up", "status": "done"},
            {"id": 2, "title": "Sign in", "description": "With a password", "details": "bcrypt",
                "testStrategy": "Try it", "status": "pending", "priority": "high", "dependencies": [1, "3"],
                "complexity": 4, "zzz": 1, "subtasks": [
                    {"id": 1, "title": "Form", "status": "done", "dependencies": []},
                    {"id": 2, "title": "Hash", "details": "cost 12", "status": "pending", "dependencies": [1, "4.2"]}]},
            {"id": 3, "title": "Tables", "status": "in-progress", "priority": "someday"},
            {"id": 4, "title": "Keys", "status": "pending", "dependencies": [5]},
            {"id": 5, "title": "Vault", "status": "cancelled"},
        ]},
        "next/release": {"tasks": [{"id": "1", "title": "Ship", "status": "pending", "dependencies": [9]}]},
    });
    let read = read_tickets("tasks.json", file.to_string().as_bytes()).unwrap();
    assert_eq!(read.format, "task-master");
    let all = ids(&read);
    assert_eq!(all[..3], ["master-2", "master-3", "master-4"]);
    assert!(all[3].starts_with("next-release"), "{all:?}");
    assert_eq!(read.epics[0].title, "The main list");
    let sign_in = spec(&read, "master-2");
    assert_eq!(sign_in.priority, 70);
    let needs: Vec<&str> = sign_in.depends_on.iter().map(TicketId::as_str).collect();
    assert_eq!(needs, ["master-3", "master-4"]);
    for part in [
        "With a password\n\n## Details\n\nbcrypt",
        "- [x] 1. Form\n- [ ] 2. Hash\n  cost 12",
        "## Test strategy\n\nTry it",
    ] {
        assert!(
            sign_in.description.contains(part),
            "{part}: {}",
            sign_in.description
        );
    }
    says(&read.report.left_out, "master-1 is finished");
    says(&read.report.left_out, "master-5 is cancelled");
    says(
        &read.report.changed,
        "master-4 depends on master-5, which is cancelled",
    );
    says(&read.report.changed, "-9, which is not in the file");
    says(&read.report.changed, "master-3 has the status in-progress");
    says(
        &read.report.not_understood,
        "master-3 has the priority \"someday\"",
    );
    says(&read.report.not_understood, "zzz (master-2)");
    says(&read.report.kept, "complexity (master-2)");
}

#[test]
fn an_old_task_list_has_no_tag_and_a_long_title_stays_whole() {
    let title = "word ".repeat(60);
    let file = json!({"tasks": [{"id": 1, "title": title, "description": "More"}]});
    let read = read_tickets("tasks.json", file.to_string().as_bytes()).unwrap();
    let long = spec(&read, "master-1");
    assert!(
        long.title.chars().count() <= TITLE_CHARS_MAX,
        "{}",
        long.title
    );
    assert!(
        long.description.starts_with(title.trim()),
        "{}",
        long.description
    );
    says(&read.report.changed, "it is shortened");
    let twice = json!({"tasks": [{"id": 1, "title": "a"}, {"id": "1", "title": "b"}]});
    let refused = read_tickets("tasks.json", twice.to_string().as_bytes());
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("master-1 occurs twice")
    );
}

#[test]
fn unknown_fields_and_values_of_a_task_file_are_named() {
    let task =
        json!({"id": "t", "title": "Mend it", "priority": "whenever", "sprint": 3, "notes": []});
    let read = read_tickets("task.json", task.to_string().as_bytes()).unwrap();
    says(&read.report.not_understood, "sprint (t)");
    says(&read.report.not_understood, "t: `priority` = \"whenever\"");
    assert_eq!(read.report.not_understood.len(), 2);
}

const AGENTS: &str = "agents:
  - {id: engineer, name: Software Engineer, queue: engineer, enabled: true, timeout: 3600, can_commit: true, prompt: Build.}
  - {id: qa, name: QA Engineer, queue: qa, replicas: 3, can_commit: true, max_retries: 4, wings: 2}
  - {id: architect, name: Technical Architect, queue: plans}
  - {id: idle, enabled: false}
";
const FRAMEWORK: &str = "communication_dir: .agent-communication
llm: {mode: claude_cli, claude_cli_executable: /opt/claude, claude_cli_default_model: sonnet, litellm_api_key: hunter2}
task: {poll_interval: 30, max_retries: 5, timeout: 1800, backoff_multiplier: 3, colour: red}
safeguards: {max_queue_size: 100, heartbeat_timeout: 600, watchdog_interval: 60, max_escalations: 50}
session_logging: {retention_days: 30}
workflows: {default: {}}
moon: full
";

fn proposal(files: &[(&str, &str)]) -> agent_framework::FrameworkProposal {
    let files: Vec<(String, Vec<u8>)> = files
        .iter()
        .map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()))
        .collect();
    agent_framework::propose(&files).unwrap()
}

#[test]
fn the_files_of_an_agent_framework_become_settings() {
    let read = proposal(&[("agents.yaml", AGENTS), ("agent-framework.yaml", FRAMEWORK)]);
    let lines = |settings: &[super::super::config_merge::ProposedSetting]| -> Vec<String> {
        let line = |one: &super::super::config_merge::ProposedSetting| {
            format!("{} = {}", one.key, one.value)
        };
        settings.iter().map(line).collect()
    };
    let project = lines(&read.project);
    for part in [
        "builder = \"engineer\"",
        "reviewer = \"qa\"",
        "agents.qa.model = \"sonnet\"",
        "policy.limits.build_secs = 3600",
        "policy.limits.review_secs = 1800",
        "policy.limits.retries_max = 4",
        "policy.limits.heartbeat_secs = 600",
    ] {
        says(&project, part);
    }
    let user = lines(&read.user);
    says(&user, "spool.directory = \".agent-communication\"");
    says(&user, "retention.transcripts_days = 30");
    says(&user, "agents.engineer.command = \"/opt/claude\"");
    says(
        &read.workers,
        "countersign worker --queue qa --replicas 3 --builder qa",
    );
    says(&read.workers, "--queue plans --builder architect");
    let report = &read.report;
    for part in [
        "the agent idle is not enabled",
        "the agent architect",
        "`agents.engineer.prompt`",
        "`workflows`",
        "`safeguards.max_escalations`",
        "`llm.litellm_api_key`",
    ] {
        says(&report.left_out, part);
    }
    for part in ["`agents.qa.wings`", "`task.colour`", "`moon`"] {
        says(&report.not_understood, part);
    }
    for part in [
        "`agents.qa.can_commit`",
        "`task.backoff_multiplier` = 3",
        "policy.limits.retries_max takes the latter",
    ] {
        says(&report.changed, part);
    }
    let all = format!("{read:?}");
    assert!(!all.contains("hunter2"), "a key of an API is not shown");
}

#[test]
fn impossible_limits_and_double_agents_are_named() {
    let read = proposal(&[(
        "f.yaml",
        "task: {timeout: -3, max_retries: often}\nsafeguards: {}\n",
    )]);
    assert!(read.project.is_empty(), "{:?}", read.project);
    says(
        &read.report.changed,
        "`task.timeout` = -3 is not possible here",
    );
    says(
        &read.report.not_understood,
        "`task.max_retries` = \"often\"",
    );
    let twice = "- {id: qa, queue: qa}\n- {id: qa, queue: qa}\n";
    let refused =
        agent_framework::propose(&[("agents.yaml".to_owned(), twice.as_bytes().to_vec())]);
    assert!(refused.unwrap_err().to_string().contains("occurs twice"));
    assert!(!agent_framework::recognizes("t.yaml", b"title: one\n"));
    assert!(!agent_framework::recognizes(
        "e.yaml",
        b"tickets: []\ntask: {}\n"
    ));
    let refused = read_tickets("agents.yaml", AGENTS.as_bytes()).unwrap_err();
    assert!(refused.to_string().contains("has no tickets"), "{refused}");
}
