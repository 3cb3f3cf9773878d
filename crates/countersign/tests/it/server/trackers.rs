//! Issues of Jira and GitLab, and the workflows that agents drive with the tools of a forge and a
//! tracker.

use serde_json::{Value, json};

use crate::fake_gitlab::FakeGitlab;
use crate::fake_jira::{FakeJira, STATUSES};
use crate::fakes::{Fake, TOKEN as FAKE_TOKEN};
use crate::support::crew::{HASTY, always, empty_name, rejects, reviewed_by};
use crate::support::fake_github::{FakeGithub, TOKEN};
use crate::support::fake_server::serve;
use crate::support::server::Server;
use crate::support::{SETTINGS, World, until};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// A world with a bare remote, and this configuration in the home of the person.
fn world(config: impl Fn(&str) -> String) -> World {
    let mut world = World::with_settings(SETTINGS);
    let bare = world.root().join("bare.git");
    let bare = bare.to_str().unwrap().to_owned();
    world.git(&["init", "--quiet", "--bare", &bare]);
    world.git(&["remote", "add", "origin", &bare]);
    world.git(&["push", "--quiet", "origin", "main"]);
    let directory = world.repository.to_str().unwrap().to_owned();
    world.put_home(".config/countersign/config.toml", &config(&directory));
    for (name, value) in [
        ("FORGE_TOKEN", TOKEN),
        ("FAKE_TOKEN", FAKE_TOKEN),
        ("HOOK_SECRET", SECRET),
    ] {
        world.variables.push((name.to_owned(), value.to_owned()));
    }
    world
}

fn jira_section(url: &str, directory: &str) -> String {
    format!(
        "[tracker]\nkind = \"jira\"\nurl = \"{url}/sub\"\nlogin = \"bot@example.org\"\ntoken_env = \"FAKE_TOKEN\"\n\n\
         [[connection]]\nname = \"tracker\"\nforge = \"jira\"\nrepository = \"PROJ\"\ndirectory = {directory:?}\n\
         secret_env = \"HOOK_SECRET\"\njql = \"labels = ai\"\n"
    )
}

fn cloud() -> FakeJira {
    FakeJira {
        is_cloud: true,
        ..FakeJira::default()
    }
}

#[test]
fn agents_link_comment_and_move_an_issue_by_the_names_of_statuses() {
    let github = FakeGithub::start();
    let (jira_url, jira) = serve(cloud());
    let world = world(|directory| {
        format!(
            "[forge]\nkind = \"github\"\nurl = {:?}\nrepository = \"o/r\"\ntoken_env = \"FORGE_TOKEN\"\n\n\
             [[connection]]\nname = \"app\"\nforge = \"github\"\nrepository = \"o/r\"\ndirectory = {directory:?}\npoll = false\n\n{}poll = false\n",
            github.url,
            jira_section(&jira_url, directory)
        )
    });
    world.git(&["switch", "--quiet", "--create", "topic"]);
    world.write("greet.sh", "echo \"Hello, $1\"\n");
    world.commit("Greet by name");
    world.git(&["switch", "--quiet", "main"]);
    let server = Server::start(&world);
    let engineer = server.token("engineer", "builder", &[]);
    let qa = server.token("qa", "reviewer", &[]);
    let call = |token: &str, tool: &str, arguments: Value| server.tool(token, tool, &arguments);

    // The engineer opens the pull request, links it to the issue, and asks for a review.
    let opened =
        json!({"title": "Greet", "body": "fixes #7", "head": "topic", "jira_key": "PROJ-7"});
    let pull = call(&engineer, "github_create_pr", opened.clone()).unwrap();
    let number = pull["number"].as_u64().unwrap();
    assert_eq!(
        call(&engineer, "github_create_pr", opened).unwrap()["number"],
        number
    );
    let code_review = json!({"jira_key": "PROJ-7", "status": "code_review"});
    call(&engineer, "jira_transition_issue", code_review).unwrap();
    let task = json!({"agent_id": "qa", "task_type": "review", "title": "Review PR", "description": "Please.",
        "context": {"jira_key": "PROJ-7", "pr_number": number, "github_repo": "o/r"}});
    call(&engineer, "queue_task_for_agent", task).unwrap();

    // The reviewer takes it, and says what it thinks, twice as clients do that lost an answer.
    let taken = call(&qa, "get_my_assignment", json!({})).unwrap();
    assert!(taken.to_string().contains("PROJ-7"), "{taken}");
    let found = call(&qa, "github_get_pr_by_branch", json!({"branch": "topic"})).unwrap();
    assert_eq!(found["pull_request"]["number"], number);
    for _ in 0..2 {
        let words = json!({"pr_number": number, "body": "Fine. @team"});
        call(&qa, "github_add_pr_comment", words).unwrap();
        let words = json!({"jira_key": "PROJ-7", "comment": "Fine. [~ada]"});
        call(&qa, "jira_add_comment", words).unwrap();
        let approved = json!({"jira_key": "PROJ-7", "status": "approved"});
        call(&qa, "jira_transition_issue", approved).unwrap();
    }
    let state = jira.0.lock().unwrap();
    assert_eq!(STATUSES[state.status].0, "Approved");
    assert_eq!(
        (state.transitions, state.comments.len(), state.links.len()),
        (2, 2, 1)
    );
    assert_eq!(state.links[0]["object"]["url"], pull["html_url"]);
    // One comment names the pull request, and one has the words of the reviewer.
    let comments: Vec<String> = state.comments.iter().map(Value::to_string).collect();
    assert!(comments[0].contains("Pull request created"), "{comments:?}");
    assert!(comments[1].contains("Fine."), "{comments:?}");
    assert_eq!(state.comments[1]["body"]["type"], "doc");
    drop(state);
    assert_eq!(github.own_comments(number).len(), 1);

    // An issue of another project, and a status that its workflow does not have.
    let other = json!({"jira_key": "OTHER-7", "comment": "x"});
    assert!(
        call(&qa, "jira_add_comment", other)
            .unwrap_err()
            .contains("no connection")
    );
    let missing = json!({"jira_key": "PROJ-7", "status": "Shipped"});
    let why = call(&qa, "jira_transition_issue", missing).unwrap_err();
    assert!(why.contains("Code Review"), "{why}");
    for text in [
        server.log(),
        world.json(&["log", "--limit", "10000"]).to_string(),
    ] {
        assert!(
            !text.contains(FAKE_TOKEN) && !text.contains(TOKEN),
            "{text}"
        );
    }
}

#[test]
fn an_issue_of_a_query_becomes_a_ticket_whose_state_goes_back_in_jira_s_format() {
    let (jira_url, jira) = serve(cloud());
    let world = world(|directory| jira_section(&jira_url, directory));
    let server = Server::start(&world);
    until("the poller finds the issue", || {
        server
            .rest("GET", "/api/v1/tickets/PROJ-7", &Value::Null)
            .status
            == 200
    });
    let ticket = world.ticket("PROJ-7");
    assert_eq!(ticket["spec"]["context"]["jira_key"], "PROJ-7");
    until("its state is a comment", || {
        jira.0.lock().unwrap().comments.len() == 1
    });
    // The automation of Jira says again what is known.
    let service = server.token("automation", "service", &[]);
    let bearer = format!("Bearer {service}");
    let send = |key: &str| {
        let headers = [("Authorization", bearer.as_str()), ("Idempotency-Key", key)];
        let body = json!({"project": "PROJ", "issue": "PROJ-7"}).to_string();
        server
            .send("POST", "/hooks/generic", &headers, &body)
            .is(202)
            .json()
    };
    assert_eq!(send("r-1")["status"], "queued");
    assert_eq!(send("r-1")["status"], "repeated");
    assert_eq!(send("r-2")["status"], "queued");
    world.call(&["ticket", "cancel", "PROJ-7", "--why", "not needed"]);
    until("the end goes back, in the same comment", || {
        let state = jira.0.lock().unwrap();
        state.comments.len() == 1 && state.comments[0].to_string().contains("stopped")
    });
    assert_eq!(world.count_of("issue_taken_in"), 1);
    // A person moves what stopped.
    assert_eq!(jira.0.lock().unwrap().transitions, 0);
}

#[test]
fn an_issue_of_gitlab_becomes_a_ticket_by_its_webhook() {
    let (url, gitlab) = serve(FakeGitlab::new("1111111111111111111111111111111111111111"));
    let world = world(|directory| {
        format!(
            "[forge]\nkind = \"gitlab\"\nurl = \"{url}/gitlab\"\nrepository = \"g/r\"\ntoken_env = \"FAKE_TOKEN\"\n\n\
             [[connection]]\nname = \"app\"\nforge = \"gitlab\"\nrepository = \"g/r\"\ndirectory = {directory:?}\n\
             secret_env = \"HOOK_SECRET\"\nintake_label = \"bug\"\npoll = false\n"
        )
    });
    let server = Server::start(&world);
    let body = json!({"object_kind": "issue", "project": {"path_with_namespace": "g/r"}, "object_attributes": {"iid": 7}});
    let send = |token: &str| {
        let headers = [
            ("X-Gitlab-Event", "Issue Hook"),
            ("X-Gitlab-Token", token),
            ("X-Gitlab-Event-UUID", "u-1"),
        ];
        server.send("POST", "/hooks/gitlab", &headers, &body.to_string())
    };
    send("a wrong secret of 22").is(401);
    assert_eq!(send(SECRET).is(202).json()["status"], "queued");
    assert_eq!(send(SECRET).is(202).json()["status"], "repeated");
    until("the issue is a ticket", || {
        server
            .rest("GET", "/api/v1/tickets/app-7", &Value::Null)
            .status
            == 200
    });
    assert_eq!(
        world.ticket("app-7")["spec"]["context"]["issue"]["key"],
        "#7"
    );
    until("its state is a comment", || {
        gitlab.0.lock().unwrap().totals().comments.len() == 1
    });
}

#[test]
fn a_merge_request_of_gitlab_is_reviewed_without_a_ticket_and_posted_once() {
    // All lines of the only file are new.
    let mut fake = FakeGitlab::new("");
    "greet.sh".clone_into(&mut fake.path);
    fake.lines = [(Some(1), None), (Some(2), None)].into();
    let (url, gitlab) = serve(fake);
    let world = world(|_| {
        format!(
            "[forge]\nkind = \"gitlab\"\nurl = \"{url}/gitlab\"\nrepository = \"g/r\"\ntoken_env = \"FAKE_TOKEN\"\n"
        )
    });
    let agent = world.crew(&reviewed_by(&always(rejects([empty_name("high")]))));
    world.git(&["switch", "--quiet", "--create", "topic"]);
    world.write("greet.sh", HASTY);
    world.commit("Greet by name");
    let head = world.git(&["rev-parse", "HEAD"]);
    world.git(&[
        "push",
        "--quiet",
        "origin",
        "topic:refs/merge-requests/1/head",
    ]);
    world.git(&["switch", "--quiet", "main"]);
    {
        let mut state = gitlab.0.lock().unwrap();
        state.head.clone_from(&head);
        state.changes.push(json!({"iid": 1, "title": "Greet", "description": "Please.", "state": "opened",
            "source_branch": "topic", "target_branch": "main", "sha": head, "source_project_id": 5, "target_project_id": 5,
            "author": {"username": "ada"}, "labels": [], "detailed_merge_status": "mergeable", "has_conflicts": false,
            "web_url": "https://gitlab.example/g/r/-/merge_requests/1", "updated_at": "2026-01-01T00:00:00.000Z"}));
    }
    let words = ["review", "--pr", "1", "--post", "--reviewer", &agent];
    world
        .call(&words)
        .ends_with(3)
        .says("An empty name is accepted");
    let first = gitlab.0.lock().unwrap().totals();
    assert_eq!(
        (first.reviews, first.threads, first.comments.len()),
        (1, 1, 1),
        "{first:?}"
    );
    assert_eq!(first.gate.as_deref(), Some("failed"));
    assert!(first.refused.is_empty(), "{first:?}");
    world.call(&words).ends_with(3);
    assert_eq!(
        gitlab.0.lock().unwrap().totals(),
        first,
        "nothing is written twice"
    );
}

fn example(name: &str) -> String {
    std::fs::read_to_string(crate::docs::root().join("examples/forges").join(name)).unwrap()
}

#[test]
fn the_examples_for_actions_and_automation_queue_one_task_each() {
    let world = World::new();
    let server = Server::start(&world);
    let service = server.token("automation", "service", &[]);
    let queued = || {
        let jobs = world.json(&["queue", "list", "--queue", "qa"]).to_string();
        jobs.matches("\"queue\":\"qa\"").count()
    };

    // The step of the workflow, with the variables that the runner sets.
    let workflow: Value = serde_saphyr::from_str(&example("github-queue-review.yml")).unwrap();
    let step = &workflow["jobs"]["queue-review"]["steps"][0];
    let variables = step["env"].as_object().unwrap();
    assert_eq!(variables.len(), 5, "{variables:?}");
    let head = "1".repeat(40);
    let line = format!(
        "export QUEUE_ENDPOINT={} TOKEN={service} NUMBER=456 REPOSITORY=o/r HEAD={head}; {}",
        server.url,
        step["run"].as_str().unwrap()
    );
    for _ in 0..2 {
        world
            .shell("bash", &line)
            .ends_with(0)
            .says("\"queue\":\"qa\"");
        assert_eq!(queued(), 1);
    }

    // The rule, with the smart values that Jira fills in.
    let rule: Value = serde_json::from_str(&example("jira-automation.json")).unwrap();
    let action = &rule["action"];
    let filled = |value: &Value| {
        let text = value
            .to_string()
            .replace("TOKEN (mark the header as hidden)", &service);
        let text = text.replace("{{issue.key}}", "PROJ-123");
        let text = text.replace("{{issue.status.name}}", "Code Review");
        text.replace("{{issue.updated.jqlDateTime}}", "2026-11-19 22:54")
    };
    let headers: Value = serde_json::from_str(&filled(&action["headers"])).unwrap();
    let headers = headers.as_object().unwrap().iter();
    let headers: Vec<(&str, &str)> = headers
        .map(|(name, value)| (name.as_str(), value.as_str().unwrap()))
        .collect();
    let address = action["web request URL"].as_str().unwrap();
    let path = address.strip_prefix("https://countersign.example").unwrap();
    let body = filled(&action["custom data"]);
    assert!(!body.contains("{{"), "{body}");
    let send = |body: &str| server.send("POST", path, &headers, body);
    let first = send(&body).is(202).json();
    assert_eq!(send(&body).is(202).json(), first, "it is repeated");
    assert_eq!(queued(), 2);
    // The same key for something else is a mistake of the sender.
    let other = body.replace("PROJ-123", "PROJ-124");
    assert!(send(&other).status >= 400);
    assert_eq!(queued(), 2);
}
