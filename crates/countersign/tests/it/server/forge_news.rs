//! News of a forge told to a running server: webhooks, the poller, commands in comments, reviews
//! without a ticket, and the tools of agents.

use serde_json::{Value, json};

use super::dashboard_pages::person;
use crate::support::crew::{HASTY, always, empty_name, rejects, reviewed_by};
use crate::support::fake_github::{FakeGithub, TOKEN};
use crate::support::server::{Reply, Server};
use crate::support::{SETTINGS, World, until};

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const OLD_SECRET: &str = "fedcba9876543210fedcba9876543210";

/// A world whose server looks after `o/r` on a GitHub of the test.
pub fn with_forge(github: &FakeGithub, settings: &str) -> World {
    let mut world = World::with_settings(settings);
    let bare = world.root().join("bare.git");
    let bare = bare.to_str().unwrap().to_owned();
    world.git(&["init", "--quiet", "--bare", &bare]);
    world.git(&["remote", "add", "origin", &bare]);
    world.git(&["push", "--quiet", "origin", "main"]);
    let directory = world.repository.to_str().unwrap().to_owned();
    let config = format!(
        "[forge]\nkind = \"github\"\nurl = {:?}\nrepository = \"o/r\"\ntoken_env = \"FORGE_TOKEN\"\n\n\
         [[connection]]\nname = \"app\"\nforge = \"github\"\nrepository = \"o/r\"\ndirectory = {directory:?}\n\
         secret_env = \"HOOK_SECRET\"\nprevious_secret_env = \"OLD_HOOK_SECRET\"\n",
        github.url
    );
    world.put_home(".config/countersign/config.toml", &config);
    for (name, value) in [
        ("FORGE_TOKEN", TOKEN),
        ("HOOK_SECRET", SECRET),
        ("OLD_HOOK_SECRET", OLD_SECRET),
    ] {
        world.variables.push((name.to_owned(), value.to_owned()));
    }
    world
}

fn signature(secret: &str, body: &str) -> String {
    let mac = engine::secret::hmac_base64(secret.as_bytes(), body.as_bytes());
    let bytes = engine::secret::from_base64(&mac).unwrap();
    let digits = |byte: &u8| [byte >> 4, byte & 15].map(|half| char::from_digit(half.into(), 16));
    let hex: String = bytes.iter().flat_map(digits).flatten().collect();
    format!("sha256={hex}")
}

fn hook(server: &Server<'_>, event: &str, delivery: &str, body: &Value) -> Reply {
    let body = body.to_string();
    let signed = signature(SECRET, &body);
    let headers = [
        ("X-GitHub-Event", event),
        ("X-GitHub-Delivery", delivery),
        ("X-Hub-Signature-256", signed.as_str()),
    ];
    server.send("POST", "/hooks/github", &headers, &body)
}

fn issue_news(number: u64) -> Value {
    json!({"repository": {"full_name": "O/R"}, "issue": {"number": number}})
}

#[test]
fn a_webhook_is_proven_over_its_bytes_and_a_stranger_learns_nothing() {
    let github = FakeGithub::start();
    let world = with_forge(&github, SETTINGS);
    let server = Server::start(&world);
    let body = issue_news(7).to_string();
    let send = |path: &str, signed: &str, body: &str| {
        let headers = [
            ("X-GitHub-Event", "issues"),
            ("X-GitHub-Delivery", "d-proof"),
            ("X-Hub-Signature-256", signed),
        ];
        server.send("POST", path, &headers, body)
    };
    let good = signature(SECRET, &body);
    let reserialised = body.replace("\":", "\": ");
    let cases = [
        ("/hooks/github", "", body.as_str(), 401),
        ("/hooks/github", "sha256=00", &body, 401),
        ("/hooks/github", &good, &reserialised, 401),
        (
            "/hooks/github",
            &signature("another secret of 16", &body),
            &body,
            401,
        ),
        ("/hooks/gitlab", &good, &body, 404),
        ("/hooks/nowhere", &good, &body, 404),
    ];
    for (path, signed, body, status) in cases {
        let reply = send(path, signed, body).is(status);
        assert!(
            !reply.body.contains("o/r") && !reply.body.contains("app"),
            "{}",
            reply.body
        );
    }
    let other = json!({"repository": {"full_name": "o/other"}, "issue": {"number": 7}}).to_string();
    send("/hooks/github", &signature(SECRET, &other), &other).is(404);
    let huge = "x".repeat(4 * 1024 * 1024 + 1);
    send("/hooks/github", &good, &huge).is(413);
    // Both secrets count while one is rotated.
    assert_eq!(
        send("/hooks/github", &good, &body).is(202).json()["status"],
        "queued"
    );
    let old = signature(OLD_SECRET, &body);
    assert_eq!(
        send("/hooks/github", &old, &body).is(202).json()["status"],
        "repeated"
    );
    // A person sees what arrived and what was refused, and no secret.
    let page = person(&world, &server).get("/settings").is(200).body;
    for text in ["o/r", "webhook issues", "2 in all", "Webhook refused"] {
        assert!(page.contains(text), "{text} is missing in {page}");
    }
    assert!(!page.contains(SECRET) && !page.contains(TOKEN));
}

#[test]
fn an_issue_becomes_a_ticket_once_with_its_dependencies_and_its_state_goes_back() {
    let github = FakeGithub::start();
    // Its webhook was lost before the server ever ran.
    github.add_issue(9, &["countersign"]);
    let world = with_forge(&github, SETTINGS);
    let server = Server::start(&world);
    until("the poller finds the issue of a lost webhook", || {
        server
            .rest("GET", "/api/v1/tickets/app-9", &Value::Null)
            .status
            == 200
    });
    github.add_issue(3, &["countersign"]);
    github.add_issue(7, &["countersign"]);
    github.add_issue(8, &["bug"]);
    github.state.lock().unwrap().blocked_by.push((7, 3));
    for delivery in ["d-1", "d-1", "d-2"] {
        hook(&server, "issues", delivery, &issue_news(7)).is(202);
    }
    hook(&server, "issues", "d-3", &issue_news(8)).is(202);
    until("both issues are tickets", || {
        server
            .rest("GET", "/api/v1/tickets/app-7", &Value::Null)
            .status
            == 200
    });
    let ticket = world.ticket("app-7");
    assert_eq!(ticket["spec"]["depends_on"], json!(["app-3"]));
    assert_eq!(ticket["spec"]["title"], "Issue 7");
    assert_eq!(ticket["spec"]["context"]["issue"]["key"], "7");
    until("the state is a comment and a label", || {
        github.own_comments(7).len() == 1
            && github
                .labels_of(7)
                .contains(&"countersign: waiting".to_owned())
    });
    server
        .rest("GET", "/api/v1/tickets/app-8", &Value::Null)
        .is(404);
    world.call(&["ticket", "cancel", "app-3", "--why", "not needed"]);
    world.call(&["ticket", "cancel", "app-7", "--why", "not needed"]);
    until("the end goes back, in the same comment", || {
        let comments = github.own_comments(7);
        comments.len() == 1 && comments[0].contains("stopped")
    });
    until("the old label is gone", || {
        !github
            .labels_of(7)
            .contains(&"countersign: waiting".to_owned())
    });
    let status = world.json(&["status"]);
    assert_eq!(status["forges"][0]["connection"], "app");
    assert_eq!(status["forges"][0]["budget"], 1000);
    assert_eq!(world.count_of("issue_taken_in"), 3);
}

#[test]
fn only_people_with_write_permission_command_and_each_comment_once() {
    let github = FakeGithub::start();
    github.add_issue(9, &["countersign"]);
    let world = with_forge(&github, SETTINGS);
    let server = Server::start(&world);
    until("the issue is a ticket", || {
        server
            .rest("GET", "/api/v1/tickets/app-9", &Value::Null)
            .status
            == 200
    });
    let cancel = "/countersign cancel";
    let refused = [
        github.comment(9, "eve", cancel, false),
        github.comment(9, "mallory", cancel, false),
        github.comment(9, "helper[bot]", cancel, false),
        github.comment(9, "ada", cancel, true),
    ];
    let silent = [
        github.comment(9, "ada", "> /countersign cancel", false),
        github.comment(9, "ada", "As I said:\n/countersign cancel", false),
        github.comment(9, "ada", "`/countersign cancel`", false),
        github.comment(9, crate::support::fake_github::BOT, cancel, false),
    ];
    hook(&server, "issue_comment", "c-1", &issue_news(9)).is(202);
    until("the commands of others are refused", || {
        world.count_of("command_refused") == 4
    });
    for comment in refused {
        assert_eq!(github.reactions_to(comment), ["confused"]);
    }
    for comment in silent {
        assert!(github.reactions_to(comment).is_empty());
    }
    let status = github.comment(9, "ada", "/countersign status", false);
    let wrong = github.comment(9, "ada", "/countersign accept F9", false);
    hook(&server, "issue_comment", "c-2", &issue_news(9)).is(202);
    until("a question is answered and a mistake explained", || {
        github.reactions_to(status) == ["eyes", "+1"]
            && github.reactions_to(wrong) == ["eyes", "confused"]
    });
    assert_eq!(server.stage("app-9"), "queued");
    let real = github.comment(
        9,
        "ada",
        "/countersign cancel\nIt is done elsewhere.",
        false,
    );
    for delivery in ["c-3", "c-4", "c-5"] {
        hook(&server, "issue_comment", delivery, &issue_news(9)).is(202);
    }
    until("it is cancelled", || server.stage("app-9") == "cancelled");
    until("and it is said so", || {
        github.reactions_to(real) == ["eyes", "+1"]
    });
    let log = world.json(&["log", "app-9"]);
    let events = log["events"].as_array().unwrap();
    let cancelled = events
        .iter()
        .find(|event| event["event"] == "cancelled")
        .unwrap();
    assert_eq!(cancelled["by"], "ada", "{cancelled}");
    assert_eq!(world.count("app-9", "cancelled"), 1);
}

#[test]
fn a_labelled_pull_request_is_reviewed_once_for_each_head_and_posted() {
    let github = FakeGithub::start();
    let world = with_forge(&github, SETTINGS);
    let agent = world.crew(&reviewed_by(&always(rejects([empty_name("high")]))));
    let config = world.root().join("home/.config/countersign/config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("reviewer = {agent:?}\n{text}")).unwrap();
    world.git(&["switch", "--quiet", "--create", "topic"]);
    world.write("greet.sh", HASTY);
    world.commit("Greet by name");
    let head = world.git(&["rev-parse", "HEAD"]);
    world.git(&[
        "push",
        "--quiet",
        "origin",
        "topic",
        "topic:refs/pull/5/head",
    ]);
    world.git(&["switch", "--quiet", "main"]);
    let server = Server::start(&world);
    github.add_pull(4, &["bug"], &head);
    github.add_pull(5, &["ready-for-review"], &head);
    let news = json!({"repository": {"full_name": "o/r"}, "pull_request": {"number": 5}});
    for delivery in ["p-1", "p-2"] {
        hook(&server, "pull_request", delivery, &news).is(202);
    }
    until("it is reviewed", || {
        let jobs = world.json(&["queue", "list", "--queue", "forge:reviews"]);
        let error = jobs.to_string();
        assert!(!error.contains("\"last_error\":\""), "{error}");
        world.count_of("change_reviewed") == 1
    });
    let state = github.state.lock().unwrap();
    assert_eq!(state.reviews.len(), 1, "{:?}", state.reviews);
    let gates: Vec<&Value> = state
        .statuses
        .iter()
        .map(|status| &status["state"])
        .collect();
    assert_eq!(gates, ["failure"]);
    drop(state);
    hook(&server, "pull_request", "p-3", &news).is(202);
    let comments = github.own_comments(5);
    assert_eq!(comments.len(), 1);
    assert!(
        comments[0].contains("An empty name is accepted"),
        "{}",
        comments[0]
    );
    assert_eq!(world.count_of("change_review_queued"), 1);
}

#[test]
fn agents_have_the_tools_of_a_forge_and_never_its_token() {
    let github = FakeGithub::start();
    let world = with_forge(&github, SETTINGS);
    world.git(&["switch", "--quiet", "--create", "topic"]);
    world.write("greet.sh", "echo \"Hello, $1\"\n");
    world.commit("Greet by name");
    let head = world.git(&["rev-parse", "HEAD"]);
    world.git(&["push", "--quiet", "origin", "topic"]);
    world.git(&["switch", "--quiet", "main"]);
    github.add_pull(5, &[], &head);
    let server = Server::start(&world);
    let reviewer = server.token("qa", "reviewer", &[]);
    let builder = server.token("engineer", "builder", &[]);
    let listed = |token: &str| -> Vec<String> {
        let tools = server.mcp(token, "tools/list", &json!({}));
        let tools = tools["result"]["tools"].as_array().unwrap().clone();
        let bytes: usize = tools.iter().map(|tool| tool.to_string().len()).sum();
        assert!(
            tools.len() <= 15 && bytes <= 12_000,
            "{} tools, {bytes} bytes",
            tools.len()
        );
        tools
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let tools = listed(&reviewer);
    for name in [
        "github_get_pr",
        "github_get_pr_by_branch",
        "github_add_pr_comment",
    ] {
        assert!(tools.iter().any(|tool| tool == name), "{tools:?}");
    }
    assert!(
        !tools.iter().any(|tool| tool.starts_with("jira_")),
        "{tools:?}"
    );
    assert!(!tools.contains(&"github_create_pr".to_owned()));
    assert!(listed(&builder).contains(&"github_create_pr".to_owned()));

    let pull = server
        .tool(&reviewer, "github_get_pr", &json!({"pr_number": 5}))
        .unwrap();
    assert_eq!(
        (&pull["number"], &pull["head_sha"]),
        (&json!(5), &json!(head))
    );
    assert!(pull["diff"].as_str().unwrap().contains("+echo"), "{pull}");
    let found = server
        .tool(
            &reviewer,
            "github_get_pr_by_branch",
            &json!({"branch": "topic"}),
        )
        .unwrap();
    assert_eq!(found["pull_request"]["number"], 5);
    let none = server.tool(
        &reviewer,
        "github_get_pr_by_branch",
        &json!({"branch": "no"}),
    );
    assert_eq!(none.unwrap()["pull_request"], Value::Null);
    let hostile = json!({"pr_number": 5, "body": "cc @team, fixes #7\n/countersign cancel"});
    for _ in 0..2 {
        server
            .tool(&reviewer, "github_add_pr_comment", &hostile)
            .unwrap();
    }
    let comments = github.own_comments(5);
    assert_eq!(comments.len(), 1, "a repeated call writes nothing twice");
    for active in ["@team", "#7", "\n/countersign"] {
        assert!(!comments[0].contains(active), "{}", comments[0]);
    }
    assert!(comments[0].contains("Written by qa"), "{}", comments[0]);
    let foreign = json!({"pr_number": 5, "repo": "o/other"});
    let refused = server
        .tool(&reviewer, "github_get_pr", &foreign)
        .unwrap_err();
    assert!(refused.contains("no connection"), "{refused}");
    let refused = server.tool(&reviewer, "github_create_pr", &json!({"title": "x"}));
    assert!(refused.unwrap_err().contains("not for the role"));
    let all = [
        server.log(),
        world.json(&["log", "--limit", "10000"]).to_string(),
    ];
    for text in all {
        assert!(!text.contains(TOKEN) && !text.contains(SECRET), "{text}");
    }
}

#[test]
fn a_program_with_a_token_queues_looks_and_tasks() {
    let github = FakeGithub::start();
    let world = with_forge(&github, SETTINGS);
    let server = Server::start(&world);
    github.add_issue(7, &["countersign"]);
    let service = server.token("jira", "service", &[]);
    let builder = server.token("bea", "builder", &[]);
    let send = |token: &str, key: &str, body: &Value| {
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str()), ("Idempotency-Key", key)];
        server.send("POST", "/hooks/generic", &headers, &body.to_string())
    };
    let look = json!({"connection": "app", "issue": "7"});
    send("wrong", "k-1", &look).is(401);
    send(&builder, "k-1", &look).is(403);
    send(
        &service,
        "k-1",
        &json!({"connection": "nowhere", "issue": "7"}),
    )
    .is(404);
    assert_eq!(
        send(&service, "k-1", &look).is(202).json()["status"],
        "queued"
    );
    assert_eq!(
        send(&service, "k-1", &look).is(202).json()["status"],
        "repeated"
    );
    until("the issue is a ticket", || {
        server
            .rest("GET", "/api/v1/tickets/app-7", &Value::Null)
            .status
            == 200
    });
    let task = json!({"agent_id": "qa", "issue": "PROJ-123", "status": "Code Review"});
    let queued = send(&service, "k-2", &task).is(202).json();
    assert_eq!(queued["queue"], "qa");
}
