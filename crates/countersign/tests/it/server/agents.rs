//! Builders and reviewers that come by themselves.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Clone, assignment, at_work, submit, ten};
use crate::support::server::Server;
use crate::support::{SETTINGS, World, until};

/// Metrics of a ticket that was sent back once.
const OF_TWO_ROUNDS: [&str; 7] = [
    "countersign_approvals_total{round=\"2\"} 1",
    "countersign_rounds_total{builder=\"bea\",verdict=\"rejected\"} 1",
    "countersign_reviews_total{reviewer=\"rex\",verdict=\"approved\"} 1",
    "countersign_findings{severity=\"high\",status=\"fixed\"} 1",
    "# TYPE countersign_round_seconds histogram",
    "countersign_round_seconds_bucket{le=\"+Inf\"} 2",
    "countersign_round_seconds_count 2",
];
const OF_CLAIMS: [&str; 4] = [
    "# TYPE countersign_claim_seconds histogram",
    "countersign_claim_seconds_count{queue=\"build\"} 2",
    "countersign_claim_seconds_bucket{queue=\"review\",le=\"+Inf\"} 2",
    "countersign_claim_seconds_count{queue=\"merge\"} 1",
];

#[track_caller]
fn says_all(metrics: &str, lines: &[&str]) {
    for line in lines {
        assert!(metrics.lines().any(|one| one == *line), "{line}\n{metrics}");
    }
}

#[test]
fn a_change_is_built_reviewed_reworked_and_landed_over_mcp() {
    let world = World::new();
    let server = Server::start(&world);
    let (builder, reviewer) = (
        server.token("bea", "builder", &[]),
        server.token("rex", "reviewer", &[]),
    );
    // A reader from the beginning sees the same metrics as one that comes at the end.
    let metrics = |server: &Server<'_>| server.rest("GET", "/metrics", &Value::Null).is(200).body;
    assert!(!metrics(&server).contains("countersign_claim_seconds_bucket"));
    server.add("greet");
    let work = Clone::new(&world, "greet");

    let first = assignment(&server, &builder, "build");
    assert_eq!(first["status"], "pending");
    assert_eq!(first["branch_name"], work.branch.as_str());
    let accepted = server.tool(
        &builder,
        "accept_assignment",
        &json!({"assignment_id": first["id"]}),
    );
    assert_eq!(accepted.unwrap()["status"], "in_progress");
    work.commit("greet.sh", "echo \"Hello, $1\"\n");
    assert_eq!(submit(&server, &builder, &first)["review_attempt"], 1);

    let review = assignment(&server, &reviewer, "review");
    let context = server
        .tool(&reviewer, "get_review_context", &json!({}))
        .unwrap();
    assert_eq!(context.as_object().unwrap().len(), 11);
    assert_eq!(context["previous_review_feedback"], json!(null));
    assert_eq!(context["test_suite_status"], "passing");
    let finding = json!({"title": "An empty name is greeted", "severity": "high",
        "file": "greet.sh", "line": 1, "problem": "nobody is greeted", "fix": "refuse it"});
    let verdict = json!({"assignment_id": review["id"], "attempt": review["attempt"],
        "approved": false, "feedback": "an empty name must be an error", "findings": [finding]});
    let outcome = server
        .tool(&reviewer, "submit_review_result", &verdict)
        .unwrap();
    assert_eq!(outcome["status"], "rework");
    assert_eq!(
        (&outcome["review_attempt"], &outcome["max_cycles"]),
        (&json!(1), &json!(3))
    );
    assert_eq!(outcome["escalated"], false);

    let again = assignment(&server, &builder, "build");
    assert_eq!(
        (&again["status"], &again["review_attempt"]),
        (&json!("rework"), &json!(2))
    );
    let feedback = again["review_feedback"].as_str().unwrap();
    assert!(feedback.contains("An empty name is greeted"), "{feedback}");
    work.commit("greet.sh", "[ -n \"$1\" ] || exit 1\necho \"Hello, $1\"\n");
    submit(&server, &builder, &again);

    // The approval of a fresh review also answers the old finding.
    let second = assignment(&server, &reviewer, "review");
    let brief = second["brief"].as_str().unwrap();
    assert!(!brief.contains("empty name is greeted"), "{brief}");
    let yes = json!({"approved": true, "feedback": "fine"});
    let outcome = server
        .tool(&reviewer, "submit_review_result", &yes)
        .unwrap();
    assert_eq!(
        (&outcome["status"], &outcome["review_attempt"]),
        (&json!("approved"), &json!(2))
    );
    until("it is done", || server.stage("greet") == "done");
    assert_eq!(world.git(&["show", "main:greet.sh"]).lines().count(), 2);
    let said = [metrics(&server), metrics(&server)];
    drop(server);
    let after = metrics(&Server::start(&world));
    for metrics in [&said[0], &said[1], &after] {
        says_all(metrics, &OF_TWO_ROUNDS);
    }
    for metrics in &said {
        says_all(metrics, &OF_CLAIMS);
    }
    world.must_be_sound();
}

#[test]
fn nobody_is_offered_the_review_of_their_own_work_under_any_identity() {
    let world = World::new();
    let server = Server::start(&world);
    let builder = server.token("bea", "builder", &[]);
    let same_agent = server.token("bea", "reviewer", &[]);
    let same_principal = server.token("cat", "reviewer", &["--principal", "bea"]);
    let other = server.token("rex", "reviewer", &[]);
    server.add("greet");
    let work = Clone::new(&world, "greet");
    let build = assignment(&server, &builder, "build");
    work.commit("greet.sh", "echo \"Hello, $1\"\n");
    submit(&server, &builder, &build);
    until("it is being reviewed", || {
        server.stage("greet") == "reviewing"
    });
    for own in [same_agent, same_principal] {
        let work = server.tool(&own, "get_my_assignment", &json!({})).unwrap();
        assert_eq!(work["assignment"], json!(null));
    }
    assignment(&server, &other, "review");
}

#[test]
fn an_agent_that_never_calls_although_work_waits_is_reported() {
    let settings = SETTINGS.replace(
        "backoff_secs = 0\n",
        "backoff_secs = 0\nheartbeat_secs = 1\n",
    );
    let world = World::with_settings(&settings);
    let server = Server::start(&world);
    let token = server.token("bea", "builder", &[]);
    server.token("rex", "reviewer", &[]);
    server.add("greet");
    let silent = || {
        let status = server.rest("GET", "/api/v1/status", &Value::Null);
        status.is(200).json()["silent"].take()
    };
    until("bea is missed", || silent()[0]["agent"] == "bea");
    // For a reviewer there is nothing yet.
    assert_eq!(silent().as_array().unwrap().len(), 1);
    let why = "bea has never called, and a build of greet waits";
    world.call(&["status"]).ends_with(0).says(why);
    world.call(&["log"]).ends_with(0).says(why);
    let metrics = server.rest("GET", "/metrics", &Value::Null).is(200).body;
    assert!(metrics.contains("countersign_agents_silent 1"), "{metrics}");
    assignment(&server, &token, "build");
    assert_eq!(silent(), json!([]));
}

#[test]
fn each_role_has_its_tools_and_no_others() {
    let world = World::new();
    let server = Server::start(&world);
    for role in [
        "builder", "reviewer", "verifier", "human", "service", "admin",
    ] {
        let token = server.token(&format!("a-{role}"), role, &[]);
        let listed = server.mcp(&token, "tools/list", &json!({}));
        let tools = listed["result"]["tools"].as_array().unwrap();
        assert!(tools.len() <= 15, "{role} has {}", tools.len());
        let bytes = listed["result"]["tools"].to_string().len();
        assert!(bytes <= 12_000, "{role}'s tools have {bytes} bytes");
        for tool in tools {
            let hints = &tool["annotations"];
            for hint in ["destructiveHint", "idempotentHint", "openWorldHint"] {
                assert!(hints[hint].is_boolean(), "{tool}");
            }
            assert!(tool["outputSchema"].is_object(), "{tool}");
        }
        let judges = ["reviewer", "verifier"].contains(&role);
        let verdict = server.tool(&token, "submit_review_result", &json!({"approved": true}));
        let why = verdict.unwrap_err();
        assert_eq!(why.contains("not for the role"), !judges, "{role}: {why}");
    }
    let refused = world.json(&["log", "--limit", "1000"]);
    assert!(
        refused["events"]
            .to_string()
            .contains("not for the role builder")
    );
}

#[test]
fn a_call_that_comes_ten_times_is_answered_once_and_another_under_its_attempt_is_refused() {
    let world = World::new();
    let server = Server::start(&world);
    let (builder, build, _work) = at_work(&world, &server);
    let words = json!({"attempt": build["attempt"], "summary": "done"});
    let answers = ten(|_| server.tool(&builder, "submit_for_review", &words));
    for answer in &answers {
        assert_eq!(answer, &answers[0]);
        assert_eq!(answer.as_ref().unwrap()["status"], "submitted");
    }
    assert_eq!(world.count("greet", "submitted"), 1);
    let other = json!({"attempt": build["attempt"], "summary": "something else"});
    let why = server
        .tool(&builder, "submit_for_review", &other)
        .unwrap_err();
    assert!(why.contains("was used for another request"), "{why}");
}

#[test]
fn a_reviewers_messages_become_its_verdict_when_it_is_complete() {
    let world = World::new();
    let server = Server::start(&world);
    let (builder, reviewer) = (
        server.token("bea", "builder", &[]),
        server.token("rex", "reviewer", &[]),
    );
    server.add("greet");
    let work = Clone::new(&world, "greet");
    assignment(&server, &builder, "build");
    let early = json!({"to": "developer", "type": "approved", "content": "fine"});
    let why = server.tool(&builder, "send_message", &early).unwrap_err();
    assert!(why.contains("needs a review assignment"), "{why}");
    work.commit("greet.sh", "echo \"Hello, $1\"\n");
    server
        .tool(&builder, "complete", &json!({"summary": "built"}))
        .unwrap();

    assignment(&server, &reviewer, "review");
    let silent = server.tool(&reviewer, "complete", &json!({})).unwrap_err();
    assert!(silent.contains("no verdict yet"), "{silent}");
    let message = json!({"to": "developer", "type": "changes_requested",
        "content": "- critical: greet.sh:1 an empty name is greeted"});
    server.tool(&reviewer, "send_message", &message).unwrap();
    assert_eq!(server.stage("greet"), "reviewing");
    let said = server.tool(&reviewer, "complete", &json!({})).unwrap();
    assert!(
        said["message"].as_str().unwrap().contains("attempt 1 of 3"),
        "{said}"
    );

    let back = server
        .tool(&builder, "get_my_assignment", &json!({}))
        .unwrap();
    assert_eq!(back["assignment"]["status"], "rework");
    let heard = back["messages"].to_string();
    assert!(
        heard.contains("changes_requested") && heard.contains("empty name"),
        "{heard}"
    );
    let twice = server
        .tool(&builder, "get_my_assignment", &json!({}))
        .unwrap();
    assert_eq!(twice["messages"], json!([]));
    assert_eq!(world.count("greet", "reviewed"), 1);
}

/// Text overrules the flag; a call that is neither is sent back; a minor refusal is put to its agent.
/// Independence is judged by the name, so two names that a person cannot tell apart are refused.
#[test]
fn a_token_for_a_name_that_looks_like_anothers_is_refused() {
    let world = World::new();
    let server = Server::start(&world);
    server.token("bea", "builder", &[]);
    for (name, says) in [
        ("Bea", "only in upper and lower case"),
        ("BEA", "only in upper and lower case"),
        ("b\u{435}a", "mixes Latin letters"),
        ("be\u{3b1}", "mixes Latin letters"),
    ] {
        world
            .call(&["token", "create", "--agent", name, "--role", "reviewer"])
            .ends_with(2)
            .says(says);
    }
    for name in [
        "bea",
        "Rex",
        "Zo\u{eb}",
        "\u{41e}\u{43b}\u{44c}\u{433}\u{430}",
        "\u{738b}\u{4f1f}",
    ] {
        server.token(name, "reviewer", &[]);
    }
}

/// An approving message, and a summary that refuses: together they are one verdict, a refusal.
#[test]
fn a_refusal_in_the_summary_or_a_checkpoint_is_not_lost() {
    let world = World::new();
    let server = Server::start(&world);
    let (builder, reviewer) = (
        server.token("bea", "builder", &[]),
        server.token("rex", "reviewer", &[]),
    );
    server.add("greet");
    let work = Clone::new(&world, "greet");
    let build = assignment(&server, &builder, "build");
    work.commit("greet.sh", "echo \"Hello, $1\"\n");
    submit(&server, &builder, &build);
    assignment(&server, &reviewer, "review");
    let refusal =
        "I reject this change. Verdict: request changes. Critical: greet.sh:1 leaks the key.";
    let why = server
        .tool(&reviewer, "checkpoint", &json!({"summary": refusal}))
        .unwrap_err();
    assert!(why.contains("a checkpoint is not a verdict"), "{why}");
    server
        .tool(
            &reviewer,
            "checkpoint",
            &json!({"summary": "Half of the files are read."}),
        )
        .unwrap();
    let approved = json!({"to": "bea", "type": "approved", "content": "ok"});
    server.tool(&reviewer, "send_message", &approved).unwrap();
    let aside = json!({"to": "bea", "type": "info", "content": refusal});
    let why = server.tool(&reviewer, "send_message", &aside).unwrap_err();
    assert!(why.contains("its type is not a verdict"), "{why}");
    server
        .tool(&reviewer, "complete", &json!({"summary": refusal}))
        .unwrap();
    assert_eq!(server.stage("greet"), "rework");
}

#[test]
fn what_a_reviewer_writes_overrules_its_approval() {
    let world = World::new();
    let server = Server::start(&world);
    let (builder, reviewer) = (
        server.token("bea", "builder", &[]),
        server.token("rex", "reviewer", &[]),
    );
    let judge = |words: &Value| server.tool(&reviewer, "submit_review_result", words);
    server.add("greet");
    let work = Clone::new(&world, "greet");
    let build = assignment(&server, &builder, "build");
    work.commit("greet.sh", "echo \"Hello, $1\"\n");
    submit(&server, &builder, &build);
    let review = assignment(&server, &reviewer, "review");

    let other = json!({"approved": true, "commit": "0".repeat(40)});
    let why = judge(&other).unwrap_err();
    assert!(why.contains("not taken as an approval"), "{why}");
    let nested = json!({"approved": true, "findings": [{"title": "x", "parts": [{"severity": "critical"}]}]});
    let why = judge(&nested).unwrap_err();
    assert!(why.contains("cannot be read"), "{why}");
    assert_eq!(server.stage("greet"), "reviewing");

    let refuses = json!({"approved": true, "commit": review["commit"],
        "feedback": "I cannot approve this: an empty name is greeted."});
    let outcome = judge(&refuses).unwrap();
    assert_eq!(outcome["status"], "rework");
    let said = outcome["message"].as_str().unwrap();
    assert!(said.contains("your approval does not count"), "{said}");

    let again = assignment(&server, &builder, "build");
    work.commit("greet.sh", "[ -n \"$1\" ] || exit 1\necho \"Hello, $1\"\n");
    submit(&server, &builder, &again);
    let low =
        json!({"title": "A comment is missing", "severity": "low", "file": "greet.sh", "line": 1});
    let mut asked = false;
    until("it is countersigned", || {
        let wait = json!({"timeout_secs": 1});
        let next = server.tool(&reviewer, "wait_for_work", &wait).unwrap()["assignment"].take();
        if next["kind"] == "review" {
            let brief = next["brief"].as_str().unwrap();
            asked = brief.contains("Do you countersign");
            let words = json!({"approved": asked, "feedback": "A comment is missing.",
                    "findings": [low]});
            if asked {
                let why = judge(&words).unwrap_err();
                let expected = [
                    "A comment is missing.",
                    "nothing was recorded",
                    "call again",
                ];
                assert!(expected.iter().all(|part| why.contains(part)), "{why}");
                assert_eq!(server.stage("greet"), "reviewing");
                let other = json!({"approved": true, "feedback": "The docs are missing."});
                judge(&other).unwrap_err();
                judge(&words).unwrap_err();
            }
            judge(&words).unwrap();
        }
        asked && ["approved", "merging", "done"].contains(&server.stage("greet").as_str())
    });
    let shown = world.json(&["ticket", "show", "greet"]);
    let by = &shown["ticket"]["approval"]["by"];
    assert_eq!(by["names"], json!(["rex"]), "{shown}");
}

#[test]
fn a_silent_agent_loses_its_work_to_another() {
    let settings = SETTINGS.replace(
        "backoff_secs = 0\n",
        "backoff_secs = 1\nheartbeat_secs = 1\n",
    );
    let world = World::with_settings(&settings);
    let server = Server::start(&world);
    let (silent, other) = (
        server.token("bea", "builder", &[]),
        server.token("bob", "builder", &[]),
    );
    server.add("greet");
    let work = Clone::new(&world, "greet");
    let lost = assignment(&server, &silent, "build");
    let taken = assignment(&server, &other, "build");
    assert_ne!(lost["attempt"], taken["attempt"]);
    work.commit("greet.sh", "echo \"Hello, $1\"\n");
    let late = json!({"attempt": lost["attempt"]});
    let why = server
        .tool(&silent, "submit_for_review", &late)
        .unwrap_err();
    assert!(why.contains("you have no assignment"), "{why}");
    assert_eq!(world.count("greet", "lease_lost"), 1);
    submit(&server, &other, &taken);
}

/// Each is after the most urgent one, and finds that somebody else was faster.
#[test]
fn forty_that_ask_at_once_have_one_each() {
    const AGENTS: usize = 40;
    let world = World::new();
    let server = Server::start(&world);
    let tokens: Vec<String> = (0..AGENTS)
        .map(|number| {
            server.add(&format!("t-{number}"));
            server.token(&format!("agent-{number}"), "builder", &[])
        })
        .collect();
    let gate = std::sync::Barrier::new(AGENTS);
    let asks = |token: &String| {
        gate.wait();
        let work = server.tool(token, "get_my_assignment", &json!({})).unwrap();
        work["assignment"]["ticket"].as_str().map(str::to_owned)
    };
    let given: BTreeSet<Option<String>> = std::thread::scope(|scope| {
        let asking: Vec<_> = tokens
            .iter()
            .map(|token| scope.spawn(|| asks(token)))
            .collect();
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(given.len(), AGENTS, "{given:?}");
    assert!(!given.contains(&None), "{given:?}");
}

#[test]
fn a_token_for_one_ticket_gives_no_other_work() {
    let world = World::new();
    let server = Server::start(&world);
    server.add("one");
    server.add("two");
    let bound = server.token("bea", "builder", &["--ticket", "two"]);
    assert_eq!(assignment(&server, &bound, "build")["ticket"], "two");
    let read = |uri: &str| server.mcp(&bound, "resources/read", &json!({"uri": uri}));
    assert!(read("countersign://tickets/two")["result"].is_object());
    assert!(read("countersign://tickets/one")["error"].is_object());
}

#[test]
fn a_task_waits_for_those_it_depends_on_and_for_good_where_one_is_cancelled() {
    let world = World::new();
    let server = Server::start(&world);
    let ci = server.token("ci", "service", &[]);
    let [qa, dev] = ["qa", "dev"].map(|name| server.token(name, "builder", &[]));
    let short = json!({"agent_id": "qa", "pr": 7}).to_string();
    let first = server.rest_as(&ci, "POST", "/queue", &short).is(201).json();
    let after = |ids: &[&Value], priority: u32| {
        json!({"agent_id": "dev", "task_type": "fix", "title": "x", "depends_on": ids,
            "priority": priority})
    };
    let first = &first["task_id"];
    let second = server
        .tool(&ci, "queue_task_for_agent", &after(&[first], 90))
        .unwrap();
    let second = &second["task_id"];
    let third = after(&[first, second], 80).to_string();
    let third = server.rest_as(&ci, "POST", "/api/v1/tasks", &third);
    let third = &third.is(201).json()["task_id"];
    let free = server
        .tool(&ci, "queue_task_for_agent", &after(&[], 1))
        .unwrap();
    let takes = |token: &str| {
        let given = server.tool(token, "get_my_assignment", &json!({}));
        given.unwrap()["task"]["id"].take()
    };
    let completes = |token: &str| server.tool(token, "complete", &json!({"summary": "fine"}));
    assert_eq!(
        takes(&dev),
        free["task_id"],
        "the others wait, more urgent or not"
    );
    completes(&dev).unwrap();
    assert_eq!(takes(&dev), json!(null));
    assert_eq!(takes(&qa), *first);
    assert_eq!(takes(&dev), json!(null), "begun is not complete");
    completes(&qa).unwrap();
    assert_eq!(takes(&dev), *second);
    // A task that waits for one that never completes waits until it is cancelled too.
    let cancel = |id: &Value| {
        let path = format!("/api/v1/tasks/{}/cancel", id.as_str().unwrap());
        server
            .rest_as(&ci, "POST", &path, r#"{"why": "not wanted"}"#)
            .is(200);
    };
    cancel(second);
    assert_eq!(takes(&dev), json!(null));
    cancel(third);
}

#[test]
fn tasks_for_an_agent_are_taken_from_its_queue_once() {
    let world = World::new();
    let server = Server::start(&world);
    let ci = server.token("ci", "service", &[]);
    let replicas = [
        server.token("qa-1", "reviewer", &[]),
        server.token("qa-2", "reviewer", &[]),
    ];
    let pr = json!({"agent_id": "qa", "pr": 456}).to_string();
    server.rest_as(&ci, "POST", "/queue", &pr).is(201);
    let took: Vec<_> = replicas
        .iter()
        .map(|token| server.tool(token, "get_my_assignment", &json!({})).unwrap()["task"].take())
        .collect();
    assert_eq!(took[0]["context"]["pr_number"], 456);
    assert_eq!(took[0]["created_by"], "ci");
    assert_eq!(took[1], json!(null));
    let done = server
        .tool(&replicas[0], "complete", &json!({"summary": "fine"}))
        .unwrap();
    assert!(
        done["message"].as_str().unwrap().contains("is done"),
        "{done}"
    );
    let loops_own = json!({"agent_id": "build", "task_type": "fix", "title": "x"});
    let why = server
        .tool(&replicas[0], "queue_task_for_agent", &loops_own)
        .unwrap_err();
    assert!(why.contains("cannot name a queue"), "{why}");
}
