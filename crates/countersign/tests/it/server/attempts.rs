//! A report belongs to one claim: two processes with one token, late and made-up attempts, and clients
//! that cannot name theirs, over every way to call.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::bridge::Agent;
use super::refusals::refused;
use super::{Clone, assignment, submit};
use crate::support::server::{Server, told};
use crate::support::{SETTINGS, World, say, until};
use crate::workers::database::Database;

/// How a process calls.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// HTTP without a session, as the newest protocol has it.
    Stateless,
    /// HTTP with a session of the older protocols.
    Session,
    /// `countersign mcp` on standard input and output.
    Bridge,
}

const WAYS: [Way; 3] = [Way::Stateless, Way::Session, Way::Bridge];

/// One process of an agent.
enum Process<'a> {
    Http {
        server: &'a Server<'a>,
        token: String,
        session: Option<String>,
    },
    Bridge(RefCell<Agent>),
}

impl<'a> Process<'a> {
    fn new(world: &World, server: &'a Server<'a>, token: &str, way: Way) -> Self {
        let session = match way {
            Way::Stateless => None,
            Way::Session => Some(server.session(token)),
            Way::Bridge => {
                let mut agent = Agent::new(world, token, &[]);
                agent.greet();
                return Self::Bridge(RefCell::new(agent));
            }
        };
        Self::Http {
            server,
            token: token.to_owned(),
            session,
        }
    }

    fn tool(&self, name: &str, arguments: &Value) -> Result<Value, String> {
        match self {
            Self::Http {
                server,
                token,
                session,
            } => server.tool_in(token, session.as_deref(), name, arguments),
            Self::Bridge(agent) => {
                let params = json!({"name": name, "arguments": arguments});
                told(&agent.borrow_mut().ask("tools/call", &params))
            }
        }
    }

    /// Asks until there is something.
    #[track_caller]
    fn assignment(&self) -> Value {
        let mut found = Value::Null;
        until("there is an assignment", || {
            found = self.tool("get_my_assignment", &json!({})).unwrap()["assignment"].take();
            !found.is_null()
        });
        found
    }
}

/// Short leases, and work that does not come back to the agent that lost it.
fn short_leases() -> World {
    World::with_settings(&SETTINGS.replace(
        "backoff_secs = 0\n",
        "backoff_secs = 600\nheartbeat_secs = 6\n",
    ))
}

/// A change of its own for this ticket, built and waiting for its review.
fn built(world: &World, server: &Server<'_>, builder: &str, ticket: &str) {
    server.add(ticket);
    let work = Clone::new(world, ticket);
    let build = assignment(server, builder, "build");
    work.commit(&format!("{ticket}.txt"), "a line\n");
    submit(server, builder, &build);
    until("it is being reviewed", || {
        server.stage(ticket) == "reviewing"
    });
}

/// Verdicts that a late process may send, with all that it knows of its claim.
fn verdicts(given: &Value) -> Vec<(&'static str, Value)> {
    let (id, attempt) = (&given["id"], &given["attempt"]);
    vec![
        (
            "submit_review_result",
            json!({"attempt": attempt, "approved": true}),
        ),
        (
            "submit_review_result",
            json!({"assignment_id": id, "attempt": attempt, "approved": true, "feedback": "fine"}),
        ),
        (
            "submit_review_result",
            json!({"assignment_id": id, "approved": true}),
        ),
        (
            "submit_review_result",
            json!({"approved": true, "feedback": "fine"}),
        ),
        (
            "submit_review_result",
            json!({"attempt": attempt, "approved": false, "feedback": "no"}),
        ),
        (
            "send_message",
            json!({"to": "developer", "type": "approved", "content": "fine"}),
        ),
        (
            "send_message",
            json!({"to": "developer", "type": "approved", "content": "fine", "attempt": attempt}),
        ),
        ("complete", json!({"summary": "done"})),
        ("complete", json!({"summary": "done", "attempt": attempt})),
        (
            "queue_task_for_agent",
            json!({"agent_id": "dev", "task_type": "fix", "title": "x", "description": "no"}),
        ),
        (
            "queue_task_for_agent",
            json!({"agent_id": "dev", "task_type": "fix", "title": "x", "description": "no",
                "attempt": attempt}),
        ),
        ("request_help", json!({"why": "stuck"})),
        ("request_help", json!({"why": "stuck", "attempt": attempt})),
        ("checkpoint", json!({"summary": "half", "attempt": attempt})),
        ("heartbeat", json!({"attempt": attempt})),
        ("accept_assignment", json!({"attempt": attempt})),
    ]
}

/// Everything that a late process says is refused, and the claim of the other is as it was.
#[track_caller]
fn nothing_counts(late: &Process<'_>, lost: &Value, (other, held): (&Process<'_>, &Value)) {
    for (tool, words) in verdicts(lost) {
        let answer = late.tool(tool, &words);
        assert!(answer.is_err(), "{tool} {words}: {answer:?}");
        let why = answer.unwrap_err();
        assert!(why.contains("nothing was changed"), "{tool} {words}: {why}");
        assert!(why.contains("get_my_assignment"), "{tool} {words}: {why}");
        assert!(!why.contains(held["attempt"].as_str().unwrap()), "{why}");
        // Keeps the other's lease; it is the same claim still.
        let alive = other.tool("heartbeat", &json!({"attempt": held["attempt"]}));
        assert_eq!(alive.unwrap()["attempt"], held["attempt"]);
    }
}

#[test]
fn a_late_report_about_one_ticket_does_not_approve_another() {
    for way in WAYS {
        let world = short_leases();
        let server = Server::start(&world);
        let builder = server.token("bea", "builder", &[]);
        let token = server.token("rex", "reviewer", &[]);
        built(&world, &server, &builder, "harmless");
        let first = Process::new(&world, &server, &token, way);
        let second = Process::new(&world, &server, &token, way);
        let lost = first.assignment();
        assert_eq!(lost["ticket"], "harmless");
        until("the lease is lost", || {
            world.count("harmless", "lease_lost") == 1
        });
        built(&world, &server, &builder, "evil");
        let held = second.assignment();
        assert_eq!(held["ticket"], "evil", "{way:?}");
        nothing_counts(&first, &lost, (&second, &held));
        assert_eq!(server.stage("evil"), "reviewing", "{way:?}");
        assert_eq!(world.count("evil", "reviewed"), 0);
        assert!(!refused(&world, "rex").is_empty());
        let no = json!({"attempt": held["attempt"], "approved": false, "feedback": "it is evil"});
        second.tool("submit_review_result", &no).unwrap();
        assert_eq!(server.stage("evil"), "rework");
        world.must_be_sound();
    }
}

#[test]
fn a_late_report_about_one_round_does_not_approve_the_next() {
    for way in WAYS {
        let world = World::new();
        let server = Server::start(&world);
        let builder = server.token("bea", "builder", &[]);
        let token = server.token("rex", "reviewer", &[]);
        server.add("greet");
        let work = Clone::new(&world, "greet");
        let build = assignment(&server, &builder, "build");
        work.commit("greet.sh", "echo \"Hello, $1\"\n");
        submit(&server, &builder, &build);
        let first = Process::new(&world, &server, &token, way);
        let second = Process::new(&world, &server, &token, way);
        // Both have the review of the first round; the second ends it.
        let (late, held) = (first.assignment(), second.assignment());
        assert_eq!(late["attempt"], held["attempt"]);
        let no = json!({"attempt": held["attempt"], "approved": false,
            "feedback": "an empty name must be an error"});
        let answer = second.tool("submit_review_result", &no).unwrap();
        assert_eq!(answer["status"], "rework");
        let build = assignment(&server, &builder, "build");
        work.commit("evil.txt", "all your base\n");
        submit(&server, &builder, &build);
        until("it is being reviewed again", || {
            server.stage("greet") == "reviewing"
        });
        let held = second.assignment();
        assert_ne!(held["attempt"], late["attempt"]);
        // The same report again has the same answer, from either process.
        assert_eq!(first.tool("submit_review_result", &no).unwrap(), answer);
        let yes = json!({"attempt": late["attempt"], "approved": true});
        let why = first.tool("submit_review_result", &yes).unwrap_err();
        assert!(why.contains("was used for another request"), "{why}");
        for words in [
            json!({"approved": true}),
            json!({"assignment_id": late["id"], "approved": true, "feedback": "fine"}),
        ] {
            let why = first.tool("submit_review_result", &words).unwrap_err();
            assert!(why.contains("named no attempt"), "{way:?}: {why}");
        }
        let yes = json!({"to": "dev", "type": "approved", "content": "fine"});
        assert!(first.tool("send_message", &yes).is_err());
        assert!(first.tool("complete", &json!({})).is_err());
        assert_eq!(server.stage("greet"), "reviewing", "{way:?}");
        assert_eq!(world.count("greet", "reviewed"), 1);
    }
}

#[test]
fn a_builder_reports_under_its_own_claim_and_no_other() {
    let world = World::with_settings(&SETTINGS.replace(
        "backoff_secs = 0\n",
        "backoff_secs = 0\nheartbeat_secs = 4\n",
    ));
    let server = Server::start(&world);
    let token = server.token("bea", "builder", &[]);
    server.add("greet");
    let work = Clone::new(&world, "greet");
    let first = Process::new(&world, &server, &token, Way::Stateless);
    let second = Process::new(&world, &server, &token, Way::Stateless);
    let lost = first.assignment();
    until("the lease is lost", || {
        world.count("greet", "lease_lost") == 1
    });
    let held = second.assignment();
    work.commit("greet.sh", "echo \"Hello, $1\"\n");
    for attempt in [
        &lost["attempt"],
        &json!("greet/1/99"),
        &json!("greet/1/2 "),
        &json!(""),
    ] {
        for (tool, words) in [
            ("submit_for_review", json!({"attempt": attempt})),
            (
                "submit_for_review",
                json!({"attempt": attempt, "assignment_id": held["id"]}),
            ),
            ("complete", json!({"attempt": attempt})),
            ("request_help", json!({"attempt": attempt, "why": "stuck"})),
            (
                "dispute_finding",
                json!({"attempt": attempt, "finding": "F1", "reason": "no"}),
            ),
            (
                "send_message",
                json!({"attempt": attempt, "to": "r", "type": "needs_review", "content": "x"}),
            ),
        ] {
            let why = first.tool(tool, &words).unwrap_err();
            assert!(why.contains("nothing was changed"), "{tool} {words}: {why}");
            let alive = json!({"attempt": held["attempt"]});
            second.tool("heartbeat", &alive).unwrap();
        }
    }
    let unnamed = first.tool("submit_for_review", &json!({"assignment_id": held["id"]}));
    assert!(unnamed.unwrap_err().contains("must name its `attempt`"));
    assert_eq!(world.count("greet", "submitted"), 0);
    let words = json!({"attempt": held["attempt"], "summary": "done"});
    let answer = second.tool("submit_for_review", &words).unwrap();
    // Long after its lease has ended, the same words have the same answer.
    assert_eq!(second.tool("submit_for_review", &words).unwrap(), answer);
    assert_eq!(world.count("greet", "submitted"), 1);
}

/// A first-generation client: it asks, works and reports by the assignment's number.
#[test]
fn a_client_that_names_no_attempt_reports_one_claim_after_the_other() {
    for way in WAYS {
        let world = World::new();
        let server = Server::start(&world);
        let builder = server.token("bea", "builder", &[]);
        let token = server.token("rex", "reviewer", &[]);
        let client = Process::new(&world, &server, &token, way);
        for ticket in ["one", "two", "three"] {
            built(&world, &server, &builder, ticket);
            let given = client.assignment();
            let accepted = json!({"assignment_id": given["id"]});
            client.tool("accept_assignment", &accepted).unwrap();
            client.tool("heartbeat", &json!({})).unwrap();
            let yes = json!({"assignment_id": given["id"], "approved": true, "feedback": "fine"});
            client.tool("submit_review_result", &yes).unwrap();
            until("it is done", || server.stage(ticket) == "done");
        }
        assert_eq!(refused(&world, "rex"), Vec::<String>::new(), "{way:?}");
    }
}

/// A first-generation client that was slow once. Its session is one process, and it has asked again.
#[test]
fn a_session_that_lost_a_claim_and_asks_again_reports_without_an_attempt() {
    let world = short_leases();
    let server = Server::start(&world);
    let builder = server.token("bea", "builder", &[]);
    let token = server.token("rex", "reviewer", &[]);
    built(&world, &server, &builder, "slow");
    let client = Process::new(&world, &server, &token, Way::Session);
    assert_eq!(client.assignment()["ticket"], "slow");
    until("the lease is lost", || {
        world.count("slow", "lease_lost") == 1
    });
    built(&world, &server, &builder, "next");
    let given = client.assignment();
    assert_eq!(given["ticket"], "next");
    let yes = json!({"assignment_id": given["id"], "approved": true, "feedback": "LGTM"});
    client.tool("submit_review_result", &yes).unwrap();
    until("it is done", || server.stage("next") == "done");
    world.must_be_sound();
}

/// The server was killed after a report was accepted and before it noted whose claim that ended.
#[test]
fn a_report_that_only_the_log_knows_ends_its_claim() {
    let world = World::new();
    let server = Server::start(&world);
    let builder = server.token("bea", "builder", &[]);
    let client = Process::new(&world, &server, &builder, Way::Stateless);
    for ticket in ["one", "two"] {
        server.add(ticket);
        let work = Clone::new(&world, ticket);
        let given = client.assignment();
        assert_eq!(given["ticket"], ticket);
        let before = change_caller(&world, std::clone::Clone::clone);
        work.commit(&format!("{ticket}.txt"), "a line\n");
        let report = json!({"assignment_id": given["id"]});
        client.tool("submit_for_review", &report).unwrap();
        change_caller(&world, |record| store::CallerRecord {
            state: before.state.clone(),
            ..record.clone()
        });
    }
    assert_eq!(refused(&world, "bea"), Vec::<String>::new());
    world.must_be_sound();
}

/// Rewrites what the server knows of the only caller without a session.
fn change_caller(
    world: &World,
    change: impl FnOnce(&store::CallerRecord) -> store::CallerRecord,
) -> store::CallerRecord {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let path = world.data.join("countersign.db");
    runtime.block_on(async {
        let store = store::open(path.to_str().unwrap()).await.unwrap();
        let query = store::TokenQuery {
            most: 10,
            ..store::TokenQuery::default()
        };
        let tokens = store.tokens(&query).await.unwrap();
        let token = tokens.iter().find(|token| token.agent == "bea").unwrap();
        let record = store.caller(&token.id, "").await.unwrap().unwrap();
        let changed = change(&record);
        assert!(store.put_caller(changed.clone()).await.unwrap());
        changed
    })
}

/// A verdict whose answer was lost comes again, while another process has the next claim.
#[test]
fn a_repeated_verdict_without_an_attempt_does_not_count_for_the_next_claim() {
    let world = World::new();
    let server = Server::start(&world);
    let builder = server.token("bea", "builder", &[]);
    let token = server.token("rex", "reviewer", &[]);
    let [first, second] = [0, 1].map(|_| Process::new(&world, &server, &token, Way::Stateless));
    built(&world, &server, &builder, "one");
    first.assignment();
    let yes = json!({"approved": true, "feedback": "fine"});
    first.tool("submit_review_result", &yes).unwrap();
    until("it is done", || server.stage("one") == "done");
    built(&world, &server, &builder, "two");
    let held = second.assignment();
    let why = first.tool("submit_review_result", &yes).unwrap_err();
    assert!(why.contains("has counted before"), "{why}");
    assert_eq!(server.stage("two"), "reviewing");
    let yes = json!({"approved": true, "feedback": "fine", "attempt": held["attempt"]});
    second.tool("submit_review_result", &yes).unwrap();
}

#[test]
fn twenty_processes_of_one_token_are_given_one_claim() {
    given_one_claim(&World::new());
}

#[test]
fn no_attempt_but_the_one_that_is_held_changes_anything() {
    only_the_held_one_counts(&World::new());
}

#[test]
fn on_postgresql_it_is_the_same() {
    let mut world = World::new();
    if let Some(database) = Database::start(&mut world) {
        given_one_claim(database.world);
    }
    let mut world = World::new();
    if let Some(database) = Database::start(&mut world) {
        only_the_held_one_counts(database.world);
    }
}

fn given_one_claim(world: &World) {
    let server = Server::start(world);
    let token = server.token("bea", "builder", &[]);
    for number in 0..20 {
        server.add(&format!("t-{number}"));
    }
    let gate = std::sync::Barrier::new(20);
    let given: BTreeSet<String> = std::thread::scope(|scope| {
        let asks = || {
            gate.wait();
            let work = server.tool(&token, "get_my_assignment", &json!({}));
            work.unwrap()["assignment"]["attempt"].to_string()
        };
        let asking: Vec<_> = (0..20).map(|_| scope.spawn(asks)).collect();
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(given.len(), 1, "{given:?}");
    assert_ne!(given.first().map(String::as_str), Some("null"));
}

#[test]
fn a_task_is_completed_under_its_own_claim_and_once() {
    let world = World::new();
    let server = Server::start(&world);
    let ci = server.token("ci", "service", &[]);
    let qa = server.token("qa", "reviewer", &[]);
    let task = |title: &str| {
        let words = json!({"agent_id": "qa", "task_type": "review", "title": title}).to_string();
        server.rest_as(&ci, "POST", "/api/v1/tasks", &words).is(201);
    };
    let takes = || server.tool(&qa, "get_my_assignment", &json!({})).unwrap()["task"].take();
    let completes = |attempt: &Value, summary: &str| {
        let words = json!({"attempt": attempt, "summary": summary});
        server.tool(&qa, "complete", &words)
    };
    task("one");
    let first = takes();
    let done = completes(&first["attempt"], "fine").unwrap();
    task("two");
    let second = takes();
    assert_ne!(first["attempt"], second["attempt"]);
    // The same again is answered as before, other words under it are not taken.
    assert_eq!(completes(&first["attempt"], "fine").unwrap(), done);
    assert!(completes(&first["attempt"], "something else").is_err());
    let job = second["attempt"].as_str().unwrap();
    for made_up in [
        format!("{job}1"),
        format!("{job}/1"),
        job.replace("task:", ""),
    ] {
        assert!(completes(&json!(made_up), "fine").is_err(), "{made_up}");
    }
    assert_eq!(takes()["attempt"], second["attempt"], "it is still claimed");
    completes(&second["attempt"], "fine").unwrap();
    // A caller without a claim can name none, over REST either.
    let words = json!({"agent_id": "qa", "task_type": "fix", "title": "x",
        "attempt": second["attempt"]});
    let reply = server.rest_as(&ci, "POST", "/api/v1/tasks", &words.to_string());
    assert!(reply.is(409).body.contains("you have no assignment"));
}

/// A `complete` whose answer was lost comes again, while another process has the next task.
#[test]
fn a_repeated_complete_without_an_attempt_does_not_end_the_next_task() {
    let world = World::new();
    let server = Server::start(&world);
    let ci = server.token("ci", "service", &[]);
    for (agent, summary) in [("qa", json!({"summary": "fine"})), ("ops", json!({}))] {
        let token = server.token(agent, "reviewer", &[]);
        let task = |title: &str| {
            let words = json!({"agent_id": agent, "task_type": "review", "title": title});
            let reply = server.rest_as(&ci, "POST", "/api/v1/tasks", &words.to_string());
            reply.is(201);
        };
        let takes = || {
            server
                .tool(&token, "get_my_assignment", &json!({}))
                .unwrap()["task"]
                .take()
        };
        task("one");
        takes();
        server.tool(&token, "complete", &summary).unwrap();
        task("two");
        let second = takes();
        let why = server.tool(&token, "complete", &summary).unwrap_err();
        assert!(why.contains("has counted before"), "{why}");
        assert_eq!(takes()["attempt"], second["attempt"], "it is still held");
        let mut named = summary.clone();
        named["attempt"] = second["attempt"].clone();
        server.tool(&token, "complete", &named).unwrap();
    }
}

/// One attempt, changed in every place.
fn changed(attempt: &str) -> Vec<String> {
    let mut parts: Vec<String> = attempt.split('/').map(str::to_owned).collect();
    let mut all = vec![
        format!("{attempt}/"),
        format!("/{attempt}"),
        format!(" {attempt}"),
        format!("{attempt}\n"),
        format!("{attempt}0"),
        attempt.to_uppercase(),
        attempt.replace('/', "//"),
        attempt.replace('/', " "),
        format!("task:{attempt}"),
        "x".repeat(10_000),
    ];
    for place in 1..3 {
        let number: u64 = parts[place].parse().unwrap();
        for other in [number + 1, number.wrapping_sub(1), 0, 99, u64::MAX] {
            let mut other_parts = parts.clone();
            other_parts[place] = other.to_string();
            all.push(other_parts.join("/"));
        }
    }
    if parts.len() == 4 {
        parts[3] = "0".repeat(40);
        all.push(parts.join("/"));
        parts.truncate(3);
        all.push(parts.join("/"));
    } else {
        all.push(format!("{attempt}/{}", "0".repeat(40)));
    }
    all.retain(|one| one != attempt);
    all
}

fn only_the_held_one_counts(world: &World) {
    let server = Server::start(world);
    let builder = server.token("bea", "builder", &[]);
    let reviewer = server.token("rex", "reviewer", &[]);
    server.add("greet");
    let work = Clone::new(world, "greet");
    let mut issued = Vec::new();
    let mut note = |given: &Value| issued.push(given["attempt"].as_str().unwrap().to_owned());
    let build = assignment(&server, &builder, "build");
    note(&build);
    work.commit("greet.sh", "echo \"Hello, $1\"\n");
    submit(&server, &builder, &build);
    let review = assignment(&server, &reviewer, "review");
    note(&review);
    let no = json!({"attempt": review["attempt"], "approved": false, "feedback": "not yet"});
    server.tool(&reviewer, "submit_review_result", &no).unwrap();
    let again = assignment(&server, &builder, "build");
    note(&again);
    work.commit("more.txt", "more\n");
    submit(&server, &builder, &again);
    server.add("other");
    note(&assignment(&server, &builder, "build"));
    let mut held = Value::Null;
    until("the second round is reviewed", || {
        let work = server.tool(&reviewer, "get_my_assignment", &json!({}));
        held = work.unwrap()["assignment"].take();
        !held.is_null()
    });
    note(&held);
    let ours = held["attempt"].as_str().unwrap();
    let before = world.events("greet");
    let (mut tried, mut accepted) = (0, Vec::new());
    for attempt in &issued {
        let mut all = changed(attempt);
        all.push(attempt.clone());
        for (number, name) in all.iter().enumerate().filter(|(_, name)| *name != ours) {
            let all = verdicts(&json!({"id": held["id"], "attempt": name}));
            let named = all
                .iter()
                .filter(|(_, words)| words.get("attempt").is_some());
            let named: Vec<_> = named.collect();
            // Each name with three of the tools, so that each tool meets each kind of name.
            for place in 0..3 {
                let (tool, words) = named[(number + place) % named.len()];
                tried += 1;
                if server.tool(&reviewer, tool, words).is_ok() {
                    accepted.push(format!("{tool} {words}"));
                }
            }
        }
    }
    let counted = accepted.len();
    say(&format!(
        "stale attempts tried: {tried}, accepted: {counted}"
    ));
    assert!(tried >= 200, "{tried}");
    assert!(accepted.is_empty(), "{accepted:?}");
    let events = |all: &[String]| all.iter().filter(|name| *name != "refused").count();
    assert_eq!(events(&world.events("greet")), events(&before));
    // They are in the log, and do not fill it.
    let noted = refused(world, "rex").len();
    assert!((50..250).contains(&noted), "{noted}");
    let yes = json!({"attempt": ours, "approved": false, "feedback": "still no"});
    server
        .tool(&reviewer, "submit_review_result", &yes)
        .unwrap();
    world.must_be_sound();
}
