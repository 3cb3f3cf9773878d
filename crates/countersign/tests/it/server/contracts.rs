//! Agents written for other systems, in the words of their own contracts: a change is rejected,
//! reworked, approved and landed. None of them names an attempt or answers on single findings.

use serde_json::{Value, json};

use super::{Clone, assignment};
use crate::support::server::Server;
use crate::support::{SETTINGS, World, until};

const WRONG: &str = "echo \"Hello, $1\"\n";
const RIGHT: &str = "[ -n \"$1\" ] || exit 1\necho \"Hello, $1\"\n";
/// Findings as a fenced block, next to which the reviewer writes prose.
const FENCED: &str = "I found these:\n```json\n[\n  {\"file\": \"greet.sh\", \"line_number\": 1, \
    \"severity\": \"CRITICAL\", \"description\": \"An empty name is greeted\", \
    \"suggested_fix\": \"Refuse it\", \"category\": \"correctness\"},\n  {\"file\": \"greet.sh\", \
    \"line_number\": 1, \"severity\": \"HIGH\", \"description\": \"Further arguments are ignored\", \
    \"suggested_fix\": \"Refuse them\", \"category\": \"correctness\"}\n]\n```\n";

fn world(preset: &str) -> World {
    World::with_settings(&format!("preset = \"{preset}\"\n{SETTINGS}"))
}

/// A builder and a reviewer that keep to the calls of their own system.
struct Pair<'a> {
    server: &'a Server<'a>,
    builder: String,
    reviewer: String,
    work: Clone<'a>,
}

impl<'a> Pair<'a> {
    fn new(world: &'a World, server: &'a Server<'a>) -> Self {
        let builder = server.token("bea", "builder", &[]);
        let reviewer = server.token("rex", "reviewer", &[]);
        server.add("greet");
        let work = Clone::new(world, "greet");
        Self {
            server,
            builder,
            reviewer,
            work,
        }
    }

    fn builds(&self, text: &str) -> Value {
        let work = assignment(self.server, &self.builder, "build");
        let id = json!({"assignment_id": work["id"]});
        let accepted = self.server.tool(&self.builder, "accept_assignment", &id);
        accepted.unwrap();
        self.work.commit("greet.sh", text);
        let words = json!({"assignment_id": work["id"], "branch_name": work["branch_name"]});
        let put = self.server.tool(&self.builder, "submit_for_review", &words);
        assert_eq!(put.unwrap()["review_attempt"], work["review_attempt"]);
        work
    }

    fn judges(&self, approved: bool, feedback: &str) -> Value {
        let work = assignment(self.server, &self.reviewer, "review");
        let words =
            json!({"assignment_id": work["id"], "approved": approved, "feedback": feedback});
        let judged = self
            .server
            .tool(&self.reviewer, "submit_review_result", &words)
            .unwrap();
        assert_eq!(judged["review_attempt"], work["review_attempt"], "{judged}");
        assert_eq!(judged["max_cycles"], work["max_cycles"], "{judged}");
        judged
    }

    /// Sends the verdict as a message and ends the turn.
    fn writes(&self, kind: &str, content: &str) -> Value {
        assignment(self.server, &self.reviewer, "review");
        let message = json!({"to": "developer", "type": kind, "content": content});
        let sent = self.server.tool(&self.reviewer, "send_message", &message);
        sent.unwrap();
        let summary = json!({"summary": ""});
        let done = self.server.tool(&self.reviewer, "complete", &summary);
        done.unwrap()
    }

    fn lands(&self, stage: &str) {
        until("it is done", || self.server.stage("greet") == stage);
    }
}

fn ledger(world: &World) -> Vec<Value> {
    let shown = world.json(&["ticket", "show", "greet"]);
    let entries = shown["ticket"]["ledger"].as_array();
    entries.unwrap().clone()
}

#[test]
fn a_reviewer_that_knows_only_its_verdict_takes_a_change_through_rework() {
    for (preset, allowed) in [("standard", 3), ("strict-three", 3), ("four-rounds", 4)] {
        let world = world(preset);
        let server = Server::start(&world);
        let pair = Pair::new(&world, &server);
        pair.builds(WRONG);
        let no = pair.judges(
            false,
            "Issues: 1) Test doesn't validate edge case X, 2) Missing null check in Y",
        );
        assert_eq!(no["status"], "rework", "{preset}: {no}");
        assert_eq!(
            (&no["review_attempt"], &no["max_cycles"]),
            (&json!(1), &json!(allowed))
        );
        assert_eq!(no["escalated"], false);

        let again = pair.builds(RIGHT);
        assert_eq!(
            (&again["status"], &again["review_attempt"]),
            (&json!("rework"), &json!(2))
        );
        let feedback = again["review_feedback"].as_str().unwrap();
        assert!(feedback.contains("Missing null check in Y"), "{feedback}");
        let yes = pair.judges(
            true,
            "LGTM - tests are meaningful, implementation is correct",
        );
        assert_eq!(yes["status"], "approved", "{preset}: {yes}");
        assert_eq!(yes["review_attempt"], 2);
        pair.lands("done");
        world
            .call(&["log", "greet"])
            .ends_with(0)
            .says("rex's approval is taken as:")
            .says("no verifier looked")
            .says(&format!("[REVIEW-APPROVED] attempt 2/{allowed}"));
        world.must_be_sound();
    }
}

#[test]
fn a_reviewer_that_refuses_to_the_end_is_counted_right() {
    let world = World::new();
    let server = Server::start(&world);
    let pair = Pair::new(&world, &server);
    for (attempt, status) in [(1, "rework"), (2, "rework"), (3, "escalated")] {
        pair.builds(&format!("{WRONG}# {attempt}\n"));
        let no = pair.judges(false, &format!("Defect {attempt} is still there"));
        assert_eq!(no["status"], status, "{no}");
        assert_eq!(
            (&no["review_attempt"], &no["max_cycles"]),
            (&json!(attempt), &json!(3))
        );
        assert_eq!(no["escalated"], attempt == 3);
    }
    // A person's reset begins the count again.
    world
        .call(&["escalation", "resolve", "greet", "reset", "--why", "again"])
        .ends_with(0);
    let work = pair.builds(RIGHT);
    assert_eq!(
        (&work["review_attempt"], &work["max_cycles"]),
        (&json!(1), &json!(3))
    );
    let yes = pair.judges(true, "LGTM");
    assert_eq!(
        (&yes["status"], &yes["review_attempt"]),
        (&json!("approved"), &json!(1))
    );
    pair.lands("done");
}

#[test]
fn a_reviewer_that_only_sends_messages_takes_a_change_through_rework() {
    for preset in ["standard", "four-rounds"] {
        let world = world(preset);
        let server = Server::start(&world);
        let pair = Pair::new(&world, &server);
        pair.builds(WRONG);
        let said = pair.writes(
            "changes_requested",
            "1. critical greet.sh:1: An empty name is greeted. Fix: refuse it.\n\
             2. major greet.sh:1: Further arguments are ignored. Fix: refuse them.",
        );
        let said = said["message"].as_str().unwrap();
        assert!(said.contains("sent back for rework"), "{preset}: {said}");
        let found = ledger(&world);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0]["finding"]["file"], "greet.sh", "{found:?}");
        pair.builds(RIGHT);
        let said = pair.writes("approved", "LGTM");
        let said = said["message"].as_str().unwrap();
        assert!(said.contains("approved in attempt 2"), "{preset}: {said}");
        pair.lands("done");
    }
}

#[test]
fn findings_in_the_text_of_a_refusal_are_findings() {
    let world = World::new();
    let server = Server::start(&world);
    let pair = Pair::new(&world, &server);
    pair.builds(WRONG);
    pair.judges(false, FENCED);
    let found = ledger(&world);
    let facts: Vec<_> = found
        .iter()
        .map(|entry| {
            let finding = &entry["finding"];
            (
                finding["title"].as_str().unwrap(),
                finding["rating"]["severity"].as_str().unwrap(),
                finding["file"].as_str().unwrap_or_default(),
                finding["fix"].as_str().unwrap_or_default(),
            )
        })
        .collect();
    assert_eq!(
        facts,
        [
            (
                "An empty name is greeted",
                "critical",
                "greet.sh",
                "Refuse it"
            ),
            (
                "Further arguments are ignored",
                "high",
                "greet.sh",
                "Refuse them"
            ),
        ]
    );
    // A task to fix the change is the verdict of reviewers that queue their feedback.
    pair.builds(&format!("{WRONG}# again\n"));
    assignment(&server, &pair.reviewer, "review");
    let fix = json!({"agent_id": "engineer", "task_type": "fix", "title": "Address the review",
        "description": "1. [ ] **CRITICAL** (security): greet.sh:1\n    Issue: The name is not quoted\n    \
            Fix: Quote it\n\n2. [ ] **HIGH** (testing): test.sh:1\n    Issue: No test for two names\n    \
            Fix: Add one\n"});
    server
        .tool(&pair.reviewer, "queue_task_for_agent", &fix)
        .unwrap();
    assert_eq!(server.stage("greet"), "rework");
    let found = ledger(&world);
    let last = &found.last().unwrap()["finding"];
    assert_eq!(last["title"], "No test for two names", "{found:?}");
    assert_eq!(last["file"], "test.sh", "{found:?}");
    pair.builds(RIGHT);
    assert_eq!(pair.judges(true, "LGTM")["status"], "approved");
    pair.lands("done");
}

#[test]
fn a_report_with_scores_takes_a_change_through_its_revision() {
    let world = world("fail-after-three");
    let server = Server::start(&world);
    let pair = Pair::new(&world, &server);
    pair.builds(WRONG);
    assignment(&server, &pair.reviewer, "review");
    let score = |score: u8, weight: &str| json!({"score": score, "weight": weight});
    let report = |good: bool| {
        let issue = json!({"dimension": "code_quality", "message": "Two arguments are ignored",
            "required_action": "Refuse them"});
        let warning = json!({"dimension": "test_quality", "severity": "warning", "file": "test.sh",
            "line": 1, "message": "No test for an empty name", "suggestion": "Add one"});
        json!({
            "ticket_id": "greet", "reviewed_at": "2026-01-02T03:04:05Z", "reviewer": "code-review-agent",
            "status": if good { "pass" } else { "fail" }, "approved": good,
            "overall_score": if good { 95 } else { 80 }, "revision_count": i32::from(good),
            "dimension_scores": {"requirement_adherence": score(95, "critical"),
                "test_quality": score(if good { 90 } else { 60 }, "important")},
            "findings": if good { json!([]) } else { json!([warning]) },
            "blocking_issues": if good { json!([]) } else { json!([issue]) },
            "revision_notes": if good { Value::Null } else { json!("Add tests for both") },
        })
    };
    let judge = |report: &Value| server.tool(&pair.reviewer, "submit_review_result", report);
    assert_eq!(judge(&report(false)).unwrap()["status"], "rework");
    let again = pair.builds(RIGHT);
    let feedback = again["review_feedback"].as_str().unwrap();
    for part in [
        "Two arguments are ignored",
        "test_quality: 60, at least 70",
        "Add tests for both",
        "Findings behind the scores that are too low",
        "No test for an empty name",
    ] {
        assert!(feedback.contains(part), "{part}: {feedback}");
    }
    assignment(&server, &pair.reviewer, "review");
    assert_eq!(judge(&report(true)).unwrap()["status"], "approved");
    pair.lands("done");
}

#[test]
fn what_the_policy_wants_verified_goes_to_a_verifier_and_not_to_the_reviewer() {
    let settings = format!("[policy]\nverify = \"must-fix\"\n{SETTINGS}");
    let world = World::with_settings(&settings);
    let server = Server::start(&world);
    let pair = Pair::new(&world, &server);
    let verifier = server.token("vera", "verifier", &[]);
    let verifies = |outcome: &str| {
        assignment(&server, &verifier, "verify");
        let answers =
            json!({"answers": [{"finding": "F1", "outcome": outcome, "evidence": "greet.sh:1"}]});
        server
            .tool(&verifier, "submit_review_result", &answers)
            .unwrap()
    };
    pair.builds(WRONG);
    let said = pair.judges(false, "An empty name is greeted");
    assert_eq!(said["status"], "reviewing", "{said}");
    assert_eq!(said["message"], "recorded; F1 waits for a verifier");
    assert_eq!(verifies("confirmed")["status"], "rework");
    pair.builds(RIGHT);
    let said = pair.judges(true, "LGTM");
    assert_eq!(
        (&said["status"], &said["review_attempt"]),
        (&json!("reviewing"), &json!(2))
    );
    let nothing = server.tool(&pair.reviewer, "get_my_assignment", &json!({}));
    assert_eq!(nothing.unwrap()["assignment"], Value::Null);
    assert_eq!(verifies("fixed")["status"], "approved");
    pair.lands("done");
}

/// Others leave a rework to its builder for a while.
#[test]
fn a_rework_goes_back_to_its_builder_although_another_waits() {
    let world = World::new();
    let server = Server::start(&world);
    let pair = Pair::new(&world, &server);
    let other = server.token("bob", "builder", &[]);
    pair.builds(WRONG);
    pair.judges(false, "An empty name is greeted");
    let nothing = server.tool(&other, "get_my_assignment", &json!({}));
    assert_eq!(nothing.unwrap()["assignment"], Value::Null);
    let work = assignment(&server, &pair.builder, "build");
    assert_eq!(work["status"], "rework");
    world
        .call(&["ticket", "show", "greet"])
        .ends_with(0)
        .says("build claimed by bea until");
}
