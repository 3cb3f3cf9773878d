//! Tickets that land as merge requests of GitLab and as pull requests of Forgejo, and an issue of
//! Jira from its query to its last transition.

use serde_json::{Value, json};

use super::greet_with;
use super::pull_requests::mends_for_a_person;
use crate::fake_forgejo::FakeForgejo;
use crate::fake_gitlab::FakeGitlab;
use crate::fake_jira::FakeJira;
use crate::fakes::{Fake, TOKEN, Totals};
use crate::support::bare_repository::BareRepository;
use crate::support::crew::{
    GOOD, HASTY, always, approves, builds, crew, empty_name, rejects, rounds, runs, two_rounds,
    verifies,
};
use crate::support::fake_server::serve;
use crate::support::github::Github;
use crate::support::server::Server;
use crate::support::{DEADLINE, Ran, World, until};

const BRANCH: &str = "countersign/greet";

fn run(world: &World, crew: &Value) -> Ran {
    greet_with(world, crew, &["--land", "pr"])
}

/// A world with this forge and a remote that the forge serves.
fn world_on(landing: &str) -> (World, BareRepository) {
    let mut world = World::new();
    let bare = BareRepository::of(&world, landing);
    let token = ("FAKE_TOKEN".to_owned(), TOKEN.to_owned());
    world.variables.push(token);
    (world, bare)
}

fn connect(world: &World, kind: &str, url: &str, repository: &str) {
    let config = format!(
        "[forge]\nkind = {kind:?}\nurl = {url:?}\nrepository = {repository:?}\ntoken_env = \"FAKE_TOKEN\"\n"
    );
    world.put_home(".config/countersign/config.toml", &config);
}

fn gitlab(bare: &BareRepository) -> FakeGitlab {
    let mut fake = FakeGitlab::new("");
    "greet.sh".clone_into(&mut fake.path);
    fake.repository = Some(bare.for_fake());
    fake.red = Some(String::new());
    fake
}

fn forgejo(bare: &BareRepository) -> FakeForgejo {
    let mut fake = FakeForgejo::new("");
    fake.repository = Some(bare.for_fake());
    fake.red = Some(String::new());
    fake
}

/// One of everything after two rounds with one finding and a merge by Countersign.
fn assert_two_rounds(totals: &Totals, resolved: Option<usize>) {
    assert_eq!((totals.changes, totals.merged), (1, true), "{totals:?}");
    // A finding that is fixed before the first look has its thread, and needs no review.
    assert!(totals.reviews <= 1, "{totals:?}");
    assert_eq!((totals.threads, totals.replies), (1, 1), "{totals:?}");
    assert_eq!(totals.resolved, resolved, "{totals:?}");
    assert_eq!(totals.comments.len(), 1, "{totals:?}");
    assert!(
        totals.comments[0].contains("### Approved"),
        "{}",
        totals.comments[0]
    );
    assert_eq!(totals.gate.as_deref(), Some("success"));
    assert_eq!(totals.labels, ["ready", "countersigned"]);
    assert_eq!(totals.refused, [""; 0]);
}

const MERGES: &str = "pr_merge = \"countersign\"\npr_labels = [\"countersigned\"]";

#[test]
fn two_rounds_are_one_merge_request_of_gitlab_with_one_thread_and_one_summary() {
    let (world, bare) = world_on(MERGES);
    let (url, served) = serve(gitlab(&bare));
    connect(&world, "gitlab", &format!("{url}/gitlab"), "g/r");
    run(&world, &two_rounds()).ends_with(0);
    assert_eq!(world.stage("greet"), "done");
    assert_eq!(bare.branch("main"), bare.branch(BRANCH));
    let end = served.0.lock().unwrap().totals();
    assert_two_rounds(&end, Some(1));
    run(&world, &two_rounds()).ends_with(0);
    assert_eq!(served.0.lock().unwrap().totals(), end);
    world.must_be_sound();
}

#[test]
fn two_rounds_are_one_pull_request_of_forgejo_with_one_thread_and_one_summary() {
    let (world, bare) = world_on(MERGES);
    let (url, served) = serve(forgejo(&bare));
    connect(&world, "forgejo", &url, "o/r");
    run(&world, &two_rounds()).ends_with(0);
    assert_eq!(world.stage("greet"), "done");
    assert_eq!(bare.branch("main"), bare.branch(BRANCH));
    let end = served.0.lock().unwrap().totals();
    assert_two_rounds(&end, None);
    run(&world, &two_rounds()).ends_with(0);
    assert_eq!(served.0.lock().unwrap().totals(), end);
    world.must_be_sound();
}

/// Asserts that a person's words went to rework once, and are found fixed.
fn assert_heard(world: &World) {
    let ticket = world.ticket("greet");
    let entries = ticket["ledger"].as_array().unwrap();
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(entries[0]["reported_by"], json!(["ada"]));
    assert_eq!(entries[0]["finding"]["line"], 2);
    assert_eq!(entries[0]["status"], "fixed");
    assert_eq!(world.count("greet", "findings_added"), 1);
    assert_eq!(world.stage("greet"), "approved");
}

#[test]
fn a_person_who_requests_changes_on_gitlab_and_a_red_job_go_to_rework() {
    let (world, bare) = world_on("");
    let (url, served) = serve(gitlab(&bare));
    connect(&world, "gitlab", &format!("{url}/gitlab"), "g/r");
    run(&world, &mends_for_a_person()).ends_with(0);
    let first = bare.branch(BRANCH);
    {
        let mut state = served.0.lock().unwrap();
        let position = json!({"position_type": "text", "new_path": "greet.sh", "old_path": "greet.sh", "new_line": 2});
        let time = "2026-01-02T00:00:00.000Z";
        let note = |author: &str, id: u64, body: &str| {
            json!({"id": id, "body": body, "position": position, "system": false, "resolved": false,
                "author": {"username": author}, "created_at": time, "updated_at": time})
        };
        // Eve may only read.
        for (author, id, body) in [
            ("eve", 901, "I do not like it."),
            ("ada", 902, "Say that it is quoted."),
        ] {
            let note = note(author, id, body);
            let discussion = json!({"id": format!("p{id}"), "notes": [note]});
            state.discussions.push(discussion);
            state.reviewers.push(json!({"user": {"username": author}, "state": "requested_changes", "created_at": time}));
        }
    }
    run(&world, &mends_for_a_person()).ends_with(0);
    assert_ne!(bare.branch(BRANCH), first);
    assert_heard(&world);
    // The job of the approved commit turns red.
    let second = bare.branch(BRANCH);
    served.0.lock().unwrap().red = Some(second.clone());
    let mut again = mends_for_a_person();
    let build = |end: &str| builds("greet.sh", &format!("{GOOD}{end}"));
    again["build"] = rounds([build(""), build("# quoted\n"), build("# green\n")]);
    again["verify"] = always(verifies(&[]));
    run(&world, &again).ends_with(0);
    assert_ne!(bare.branch(BRANCH), second);
    assert_eq!(world.stage("greet"), "approved");
}

#[test]
fn a_person_who_requests_changes_on_forgejo_is_heard_once() {
    let (world, bare) = world_on("");
    let (url, served) = serve(forgejo(&bare));
    connect(&world, "forgejo", &url, "o/r");
    run(&world, &mends_for_a_person()).ends_with(0);
    let first = bare.branch(BRANCH);
    {
        let mut state = served.0.lock().unwrap();
        let time = "2026-01-02T00:00:00Z";
        for (author, id, body) in [
            ("eve", 901, "I do not like it."),
            ("ada", 903, "Say that it is quoted."),
        ] {
            state.reviews.push(
                json!({"id": id, "state": "REQUEST_CHANGES", "body": "", "user": {"login": author},
                "dismissed": false, "comments_count": 1, "commit_id": first, "submitted_at": time}),
            );
            let line = if author == "ada" { 2 } else { 1 };
            state.inline.push((id, json!({"id": id + 1, "body": body, "path": "greet.sh", "position": line,
                "original_position": 0, "user": {"login": author}, "created_at": time, "updated_at": time,
                "pull_request_url": "https://codeberg.org/o/r/pulls/1"})));
        }
    }
    run(&world, &mends_for_a_person()).ends_with(0);
    assert_ne!(bare.branch(BRANCH), first);
    assert_heard(&world);
    run(&world, &mends_for_a_person()).ends_with(0);
    assert_eq!(world.count("greet", "findings_added"), 1);
}

/// Steps that wait for a sign of the test before they go on.
fn after(world: &World, sign: &str, mut steps: Vec<Value>) -> Vec<Value> {
    let file = world.root().join(sign).display().to_string();
    steps.insert(
        0,
        runs(&format!("until [ -e {file} ]; do sleep 0.05; done")),
    );
    steps
}

#[test]
fn an_issue_of_jira_goes_through_rounds_to_a_pull_request_and_its_transitions() {
    let mut world = World::new();
    let landing = "pr_merge = \"person\"\n[policy]\nland = \"pr\"\nsandbox = \"off\"";
    let github = Github::of(&world, landing);
    let (url, jira) = serve(FakeJira {
        is_cloud: true,
        ..FakeJira::default()
    });
    world
        .variables
        .push(("FAKE_TOKEN".to_owned(), TOKEN.to_owned()));
    let path = world.root().join("home/.config/countersign/config.toml");
    let forge = std::fs::read_to_string(path).unwrap();
    let directory = world.repository.to_str().unwrap();
    let tracker = format!(
        "{forge}\n[tracker]\nkind = \"jira\"\nurl = \"{url}/sub\"\nlogin = \"bot@example.org\"\ntoken_env = \"FAKE_TOKEN\"\n\n\
         [[connection]]\nname = \"tracker\"\nforge = \"jira\"\nrepository = \"PROJ\"\ndirectory = {directory:?}\n\
         jql = \"labels = ai\"\n\n\
         [[connection]]\nname = \"app\"\nforge = \"github\"\nrepository = \"o/r\"\ndirectory = {directory:?}\npoll = false\n"
    );
    world.put_home(".config/countersign/config.toml", &tracker);
    let server = Server::start(&world);
    until("the issue is a ticket", || {
        server
            .rest("GET", "/api/v1/tickets/PROJ-7", &Value::Null)
            .status
            == 200
    });
    let script = crew(
        &rounds([
            builds("greet.sh", HASTY),
            after(&world, "mend", builds("greet.sh", GOOD)),
        ]),
        &rounds([
            after(&world, "read", rejects([empty_name("high")])),
            after(&world, "read-again", approves()),
        ]),
        &always(verifies(&[("F1", "fixed")])),
    );
    let agent = world.crew(&script);
    let words = ["run", "PROJ-7", "--builder", &agent, "--reviewer", &agent];
    let running = world.start(&words);
    let moved_to = |status: &str, sign: &str| {
        until(&format!("the issue is in {status}"), || {
            jira.0
                .lock()
                .unwrap()
                .history
                .last()
                .is_some_and(|last| last == status)
        });
        world.put(sign, "");
    };
    moved_to("Code Review", "read");
    moved_to("Changes Requested", "mend");
    moved_to("Code Review", "read-again");
    moved_to("Approved", "end");
    let ran = running.wait(DEADLINE);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    // The ticket's pull request is kept by Countersign: an agent gets it and changes nothing.
    until("the pull request is ready", || {
        github.lock().pulls[0]["draft"] == false
    });
    let before = github.lock().pulls[0].clone();
    let engineer = server.token("engineer", "builder", &["--ticket", "PROJ-7"]);
    let hers = json!({"title": "Mine", "body": "fixes #7", "jira_key": "PROJ-7"});
    let found = server.tool(&engineer, "github_create_pr", &hers).unwrap();
    assert_eq!(found["number"], 1);
    assert_eq!(github.lock().pulls[0], before);
    github.merge();
    world.call(&words).ends_with(0);
    moved_to("Done", "end");
    let state = jira.0.lock().unwrap();
    let wanted = [
        "Code Review",
        "Changes Requested",
        "Code Review",
        "Approved",
        "Done",
    ];
    assert_eq!(state.history, wanted, "each transition once");
    assert_eq!(state.links.len(), 1);
    let pull = "https://forge.example/o/r/pull/1";
    assert_eq!(state.links[0]["object"]["url"], pull);
    // The state, edited in place, and the words of the tool.
    assert_eq!(state.comments.len(), 2);
    let comment = state.comments[0]["body"].to_string();
    assert!(
        comment.contains(pull) && comment.contains("done"),
        "{comment}"
    );
    drop(state);
    assert_eq!(github.lock().pulls.len(), 1);
    assert!(!server.log().contains(TOKEN));
}
