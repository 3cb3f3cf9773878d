//! Loops of other systems from end to end, in their own words: messages under their own tool names,
//! a pull queue of task files next to a ticket, an epic with its state file, findings documents.

use std::fs;

use serde_json::{Value, json};

use super::{Clone, assignment};
use crate::support::server::Server;
use crate::support::{SETTINGS, TICKET, World, until};

const WRONG: &str = "echo \"Hello, $1\"\n";
const RIGHT: &str = "[ -n \"$1\" ] || exit 1\necho \"Hello, $1\"\n";

/// Developer and reviewer know two tools, under the names that their prompts have for them.
#[test]
fn a_loop_by_messages_runs_under_its_own_tool_names() {
    let world = World::with_settings(&format!("preset = \"four-rounds\"\n{SETTINGS}"));
    let server = Server::start(&world);
    let developer = server.token("developer", "builder", &[]);
    let reviewer = server.token("reviewer", "reviewer", &[]);
    server.add("greet");
    let work = Clone::new(&world, "greet");
    let develops = |text: &str| {
        let given = assignment(&server, &developer, "build");
        work.commit("greet.sh", text);
        let done = server.tool(&developer, "apmas_complete", &json!({"summary": "Done"}));
        done.unwrap();
        given
    };
    let reviews = |kind: &str, content: &str| {
        assignment(&server, &reviewer, "review");
        let message = json!({"to": "developer", "type": kind, "content": content});
        let sent = server.tool(&reviewer, "apmas_send_message", &message);
        sent.unwrap();
        server.tool(&reviewer, "apmas_complete", &json!({"summary": ""}))
    };
    develops(WRONG);
    reviews(
        "changes_requested",
        "- **critical** `greet.sh:1`: An empty name is greeted. Suggested fix: refuse it.\n",
    )
    .unwrap();
    let again = develops(RIGHT);
    let feedback = again["review_feedback"].as_str().unwrap();
    assert!(feedback.contains("An empty name is greeted"), "{feedback}");
    // The server asks once about notes in an approval. A reviewer that does not know this sends the
    // same words again, and the repetition counts as its confirmation.
    let notes = "Reviewed greet.sh: names are checked, the output is as asked for.";
    let why = reviews("approved", notes).unwrap_err();
    assert!(
        why.contains("once more counts as your confirmation"),
        "{why}"
    );
    reviews("approved", notes).unwrap();
    until("it has landed", || server.stage("greet") == "done");
    // Other names of another system are no tools.
    let strange = server.tool(&reviewer, "apmas_shell", &json!({}));
    assert!(strange.unwrap_err().contains("there is no tool"));
    world.must_be_sound();
}

/// A file in the reviewer's queue, its task taken, the fix task as the verdict, and the change on the
/// base branch.
#[test]
fn a_pull_queue_reviews_a_change_until_it_lands() {
    let world = World::new();
    let spool = world.root().join(".agent-communication");
    let server = Server::start_with(&world, &["--spool", spool.to_str().unwrap()]);
    let engineer = server.token("engineer", "builder", &[]);
    let qa = server.token("qa", "reviewer", &[]);
    server.add("greet");
    let work = Clone::new(&world, "greet");
    let builds = |text: &str| {
        let given = assignment(&server, &engineer, "build");
        work.commit("greet.sh", text);
        let branch = json!({"assignment_id": given["id"], "branch_name": given["branch_name"]});
        let put = server.tool(&engineer, "submit_for_review", &branch);
        put.unwrap();
    };
    builds(WRONG);
    assignment(&server, &qa, "review");
    let fix = json!({
        "agent_id": "engineer", "task_type": "fix",
        "title": "Address code review feedback for PROJ-123",
        "description": "Fix issues identified in review:\n\n## Review Findings\n\n\
            1. [ ] **CRITICAL** (correctness): greet.sh:1\n    \
            Issue: An empty name is greeted\n    Fix: Refuse it\n",
        "context": {"jira_key": "PROJ-123", "pr_number": 456, "github_repo": "owner/repo"},
        "depends_on": [],
    });
    server.tool(&qa, "queue_task_for_agent", &fix).unwrap();
    assert_eq!(server.stage("greet"), "rework");
    builds(RIGHT);
    let review = assignment(&server, &qa, "review");
    let yes = json!({"assignment_id": review["id"], "approved": true, "feedback": "LGTM"});
    let judged = server.tool(&qa, "submit_review_result", &yes);
    assert_eq!(judged.unwrap()["status"], "approved");
    until("it has landed", || server.stage("greet") == "done");

    // The example of the queue's own page, dropped by hand.
    let dropped = json!({
        "id": "test-review-task", "type": "review", "status": "pending", "priority": 50,
        "created_by": "manual-test", "assigned_to": "qa",
        "created_at": "2026-02-03T10:00:00.000Z", "title": "Test Review",
        "description": "Test task for verification", "depends_on": [], "blocks": [],
        "context": {"jira_key": "TEST-123", "github_repo": "owner/repo", "pr_number": 999},
        "retry_count": 0,
    });
    fs::write(spool.join("queues/qa/test-task.json"), dropped.to_string()).unwrap();
    let mut task = Value::Null;
    until("qa has the task", || {
        let wait = json!({"timeout_secs": 2});
        task = server.tool(&qa, "wait_for_work", &wait).unwrap()["task"].take();
        !task.is_null()
    });
    until("it is locked", || {
        spool.join("locks/test-review-task.lock").exists()
    });
    let words = "Findings:\n```json\n[{\"file\": \"src/api/auth.ts\", \"line_number\": 45, \
        \"severity\": \"CRITICAL\", \"description\": \"SQL injection\", \
        \"suggested_fix\": \"Use parameters\", \"category\": \"security\"}]\n```\n";
    let done = server.tool(&qa, "complete", &json!({"summary": words}));
    done.unwrap();
    until("it is archived and unlocked", || {
        spool.join("completed/qa/test-task.json").exists()
            && !spool.join("locks/test-review-task.lock").exists()
    });
    let archived = fs::read(spool.join("completed/qa/test-task.json")).unwrap();
    let archived: Value = serde_json::from_slice(&archived).unwrap();
    assert_eq!(
        archived["result"]["findings"],
        json!([{
            "file": "src/api/auth.ts", "line_number": 45, "severity": "CRITICAL",
            "description": "SQL injection", "suggested_fix": "Use parameters", "category": "security",
        }])
    );
    world.must_be_sound();
}

/// The queue's own workflow, without any ticket: an engineer queues a review, the reviewer takes it,
/// queues a fix for the engineer and completes its own task.
#[test]
fn a_reviewer_of_the_pull_queue_queues_a_fix_and_completes() {
    let world = World::new();
    let spool = world.root().join(".agent-communication");
    let server = Server::start_with(&world, &["--spool", spool.to_str().unwrap()]);
    let engineer = server.token("engineer-1", "builder", &[]);
    let qa = server.token("qa-1", "reviewer", &[]);
    let context = json!({"jira_key": "PROJ-123", "github_repo": "owner/repo", "pr_number": 456});
    let review = json!({
        "agent_id": "qa", "task_type": "review", "title": "Review PR #456 - Add authentication",
        "description": "PR ready for review.", "context": context,
    });
    let queued = server.tool(&engineer, "queue_task_for_agent", &review);
    let queued = queued.unwrap();
    let id = queued["task_id"].as_str().unwrap();
    until("its file is there", || {
        spool.join(format!("queues/qa/{id}.json")).exists()
    });
    let given = |token: &str| {
        let wait = json!({"timeout_secs": 20});
        server.tool(token, "wait_for_work", &wait).unwrap()["task"].take()
    };
    assert_eq!(given(&qa)["id"], id);
    until("it is locked", || {
        spool.join(format!("locks/{id}.lock")).exists()
    });
    let fix = json!({
        "agent_id": "engineer", "task_type": "fix",
        "title": "Address code review feedback for PROJ-123",
        "description": "## Review Findings\n\n1. [ ] **CRITICAL** (security): src/api/auth.ts:45\n    \
            Issue: SQL injection\n    Fix: Use parameters\n",
        "context": context, "depends_on": [],
    });
    let sent = server.tool(&qa, "queue_task_for_agent", &fix).unwrap();
    assert_eq!(sent["queue"], "engineer");
    let done = json!({"summary": "Changes requested"});
    server.tool(&qa, "complete", &done).unwrap();
    let task = given(&engineer);
    assert_eq!(task["id"], sent["task_id"]);
    assert_eq!(task["description"], fix["description"]);
    server.tool(&engineer, "complete", &done).unwrap();
    let fix = sent["task_id"].as_str().unwrap();
    let log_of = |queue: &str| {
        let path = world.root().join(format!("logs/{queue}.log"));
        fs::read_to_string(path).unwrap_or_default()
    };
    for (queue, task, end) in [
        ("qa", id, "Review completed"),
        ("engineer", fix, "Fix completed"),
    ] {
        until("it is archived, logged and unlocked", || {
            let done = spool.join(format!("completed/{queue}/{task}.json"));
            let lock = spool.join(format!("locks/{task}.lock"));
            done.exists() && log_of(queue).contains(end) && !lock.exists()
        });
    }
    // The lines that its scripts follow, for a task that was queued by a call as well.
    let log = log_of("qa");
    let found = log.find(&format!("INFO [qa] Found task: {id}")).unwrap();
    let began = log
        .find("[qa-1] [PROJ-123] Starting review of PR #456")
        .unwrap();
    let ended = log.find("[qa-1] [PROJ-123] Review completed (").unwrap();
    assert!(found < began && began < ended, "{log}");
    world.must_be_sound();
}

/// A second process of the token may have lost the review that a late fix is about.
#[test]
fn a_late_fix_does_not_become_a_task_of_another_claim() {
    let world = World::new();
    let server = Server::start(&world);
    let engineer = server.token("engineer", "builder", &[]);
    let qa = server.token("qa", "reviewer", &[]);
    server.add("greet");
    let work = Clone::new(&world, "greet");
    assignment(&server, &engineer, "build");
    work.commit("greet.sh", WRONG);
    let put = server.tool(&engineer, "submit_for_review", &json!({}));
    put.unwrap();
    let review = assignment(&server, &qa, "review");
    let why = json!({"why": "no longer wanted"});
    server
        .rest("POST", "/api/v1/tickets/greet/cancel", &why)
        .is(200);
    let task = json!({"agent_id": "qa", "title": "Look at the docs"});
    server.rest("POST", "/api/v1/tasks", &task).is(201);
    let wait = json!({"timeout_secs": 20});
    let held = server.tool(&qa, "wait_for_work", &wait).unwrap();
    let named = held["task"]["attempt"].as_str().unwrap();
    assert!(
        held["task"]["id"].as_str().unwrap().starts_with("task-qa-"),
        "{held}"
    );
    let fix = |attempt: Option<&str>| {
        let fix = json!({"agent_id": "engineer", "task_type": "fix", "title": "Fix greet",
            "description": "It greets nobody", "attempt": attempt});
        server.tool(&qa, "queue_task_for_agent", &fix)
    };
    fix(None).unwrap_err();
    fix(review["attempt"].as_str()).unwrap_err();
    assert_eq!(fix(Some(named)).unwrap()["queue"], "engineer");
}

/// An epic's state file comes in, one of its tickets fails a review with scores and passes the next,
/// and the state that goes out has the whole history.
#[test]
fn an_epic_state_comes_in_is_worked_on_and_goes_out() {
    let world = World::with_settings(&format!("preset = \"fail-after-three\"\n{SETTINGS}"));
    let server = Server::start(&world);
    let state = json!({"epic_id": "auth", "tickets": {"auth-base": {"title": "Base",
        "status": "needs_revision", "dependencies": [], "path": "tickets/auth-base.md",
        "revision_count": 1, "review_history": [{"attempt": 0, "status": "fail"}]}}});
    let file = world.put("epic-state.json", state.to_string());
    let token = format!("COUNTERSIGN_TOKEN={}", server.token);
    let words = ["--server", &server.url, "import", &file];
    world
        .call_behind(&["env", &token], &words)
        .ends_with(0)
        .says("auth-base was under way there; it starts with a build");
    let builder = server.token("builder", "builder", &[]);
    let judge = server.token("code-review-agent", "reviewer", &[]);
    let work = Clone::new(&world, "auth-base");
    let score = |score: u8, weight: &str| json!({"score": score, "weight": weight});
    for (revision, good) in [(1, false), (2, true)] {
        let given = assignment(&server, &builder, "build");
        work.commit("greet.sh", if good { RIGHT } else { WRONG });
        let branch = json!({"assignment_id": given["id"], "branch_name": given["branch_name"]});
        let put = server.tool(&builder, "submit_for_review", &branch);
        put.unwrap();
        assignment(&server, &judge, "review");
        let context = server.tool(&judge, "get_review_context", &json!({}));
        let context = context.unwrap();
        for field in [
            "ticket_id",
            "ticket_path",
            "epic_path",
            "ticket_branch",
            "base_commit",
            "final_commit",
            "files_modified",
            "test_suite_status",
            "acceptance_criteria",
            "revision_count",
            "previous_review_feedback",
        ] {
            assert!(context.get(field).is_some(), "{field}: {context}");
        }
        assert_eq!(context["revision_count"], revision);
        assert_eq!(context["ticket_path"], "tickets/auth-base.md");
        assert_eq!(context["test_suite_status"], "passing");
        let issue = json!({"dimension": "coordination_compliance",
            "message": "greet takes no second argument", "required_action": "Refuse one"});
        let low = if good { 90 } else { 60 };
        let report = json!({
            "ticket_id": "auth-base", "reviewed_at": "2026-01-02T03:04:05Z",
            "reviewer": "code-review-agent", "status": if good { "pass" } else { "fail" },
            "overall_score": if good { 93 } else { 70 }, "revision_count": revision,
            "dimension_scores": {
                "requirement_adherence": score(95, "critical"),
                "coordination_compliance": score(if good { 100 } else { 80 }, "critical"),
                "code_quality": score(80, "important"),
                "pattern_consistency": score(85, "important"),
                "test_quality": score(low, "important"),
                "security_performance": score(90, "moderate"),
            },
            "findings": [], "blocking_issues": if good { json!([]) } else { json!([issue]) },
            "revision_notes": if good { Value::Null } else { json!("Refuse a second argument") },
            "approved": good,
            "pass_criteria_met": {"all_critical_dimensions_pass": good,
                "no_blocking_issues": good, "overall_score_above_threshold": good},
        });
        let judged = server.tool(&judge, "submit_review_result", &report);
        let wanted = if good { "approved" } else { "rework" };
        assert_eq!(judged.unwrap()["status"], wanted);
        let revised = world.call(&["export", "--as", "revision", "auth-base"]);
        if good {
            revised
                .ends_with(2)
                .says("round 2 of auth-base approved the change, so there is nothing to revise");
        } else {
            revised.ends_with(0).says("REVISION REQUIRED");
        }
    }
    until("it has landed", || server.stage("auth-base") == "done");
    let out = world.json(&["export", "--as", "epic-state", "--epic", "auth"]);
    let ticket = out.to_string();
    for part in [
        "\"status\":\"completed\"",
        "\"revision_count\":2",
        "\"review_approved\":true",
        "\"review_started_at\"",
        "\"blocking_issues_count\":1",
    ] {
        assert!(ticket.contains(part), "{part}: {ticket}");
    }
}

/// Reviewer and fixer are commands that write and read the documents of the loop. Round one finds a
/// critical, an important and a minor issue. Round two is clean; only an answer that names the commit
/// approves it, so the reviewer is asked for that form.
#[test]
fn a_loop_with_findings_documents_runs_until_it_is_clean() {
    let world = World::new();
    let document = "# Story 1.2 Code Review Findings - Round 1\n\n\
        **Reviewer:** Agent (Fresh Context)\n**Date:** 2026-02-03 10:00\n\
        **Branch:** story-1-2-greet\n\n## Critical Issues (Must Fix)\n\n\
        1. **[Correctness]:** An empty name is greeted\n   - **File:** greet.sh:1\n   \
        - **Problem:** The ticket asks for an error.\n   - **Impact:** Nobody is greeted.\n   \
        - **Fix:** Refuse it.\n\n## Important Issues (Should Fix)\n\n\
        2. **[Testing]:** No test for two names\n   - **File:** test.sh:1\n   \
        - **Problem:** It is not tried.\n   - **Impact:** It may break.\n   - **Fix:** Add one.\n\n\
        ## Minor Issues (Nice to Have)\n\n\
        3. **[Naming]:** The script has no comment\n   - **File:** greet.sh:1\n   \
        - **Problem:** One reads it twice.\n   - **Impact:** Time.\n   - **Fix:** Add one.\n\n\
        ## Summary\n\n- **Total findings:** 3\n- **Critical:** 1\n- **Important:** 1\n\
        - **Minor:** 1\n- **Recommendation:** Fix the must-fix findings\n";
    let clean = "# Story 1.2 Code Review Findings - Round 2\n\n## Critical Issues (Must Fix)\n\n\
        None.\n\n## Important Issues (Should Fix)\n\nNone.\n\n## Minor Issues (Nice to Have)\n\n\
        None.\n\n## Summary\n\n- **Total findings:** 0\n- **Critical:** 0\n- **Important:** 0\n\
        - **Minor:** 0\n- **Recommendation:** Approve\n";
    let answer = "{\"verdict\": \"approve\", \"commit\": \"'\"$COUNTERSIGN_COMMIT\"'\", \
        \"complete\": true, \"findings\": []}";
    world.install(
        "epic-reviewer",
        &format!(
            "#!/bin/sh\nexec > \"$COUNTERSIGN_RESULT_FILE\"\n\
             if [ \"$COUNTERSIGN_QUESTION\" = form ]; then printf '%s' '{answer}'\n\
             elif grep -q exit \"$COUNTERSIGN_CHANGE/greet.sh\"; then cat <<'END'\n{clean}END\n\
             else cat <<'END'\n{document}END\nfi\n"
        ),
    );
    world.install(
        "epic-fixer",
        &format!(
            "#!/bin/sh\nif [ -e greet.sh ]; then\ncat > greet.sh <<'END'\n{RIGHT}END\n\
             git add -A && git commit -q -m 'fix: address code review round 1 - refuse it'\n\
             else\ncat > greet.sh <<'END'\n{WRONG}END\n\
             git add -A && git commit -q -m 'feat: greet'\nfi\n"
        ),
    );
    world.install(
        "epic-verifier",
        "#!/bin/sh\nprintf '%s' '{\"answers\": [\
         {\"finding\": \"F1\", \"outcome\": \"fixed\", \"evidence\": \"greet.sh:1\"}, \
         {\"finding\": \"F2\", \"outcome\": \"fixed\", \"evidence\": \"test.sh:1\"}, \
         {\"finding\": \"F3\", \"outcome\": \"fixed\", \"evidence\": \"greet.sh:1\"}]}' \
         > \"$COUNTERSIGN_RESULT_FILE\"\n",
    );
    let ticket = world.put("greet.md", TICKET);
    let ran = world.call(&[
        "run",
        &ticket,
        "--builder",
        "command:epic-fixer",
        "--reviewer",
        "command:epic-reviewer",
        "--verifier",
        "command:epic-verifier",
    ]);
    ran.ends_with(0);
    assert_eq!(world.stage("greet"), "done");
    let shown = world.ticket("greet");
    let ledger = shown["ledger"].as_array().unwrap();
    let words: Vec<&str> = ledger
        .iter()
        .map(|entry| entry["finding"]["rating"]["severity"].as_str().unwrap())
        .collect();
    assert_eq!(words, ["critical", "high", "low"], "{ledger:?}");
    let first = world.call(&["export", "greet", "--as", "findings", "--round", "1"]);
    first.ends_with(0).says("## Critical Issues (Must Fix)");
    world.must_be_sound();
}
